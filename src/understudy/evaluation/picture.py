"""The verdict as a picture: a bar for each part, between poor, usable and good."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from understudy.core.svg import Picture, path, rect, short, standalone, svg, text
from understudy.evaluation.verdict import GOOD, USABLE

_WIDTH, _LEFT, _BAR, _ROW = 460.0, 96.0, 260.0, 30.0


def draw_verdict(verdict: Mapping[str, Any], key: str = "verdict") -> Markup:
    """A bar for each part of a verdict and one for all of it, with lines where usable and good begin."""
    rows = [(part["name"], part["score"], part["word"]) for part in verdict["parts"]]
    rows.append(("overall", verdict["score"], verdict["word"]))
    height = _ROW * len(rows) + 22
    parts = []
    for place, (name, score, word) in enumerate(rows):
        y = 18 + place * _ROW
        parts += [
            text(_LEFT - 8, y + 16, short(name, _LEFT - 10), "", "end"),
            rect(_LEFT, y + 4, _BAR, 16, "blank"),
            rect(_LEFT, y + 4, _BAR * score, 16, "synthetic"),
            text(_LEFT + _BAR + 8, y + 16, f"{score:.2f} {word}"),
        ]
    for score, word in ((USABLE, "usable"), (GOOD, "good")):
        x = _LEFT + _BAR * score
        parts += [path(f"M{x:.1f} 16V{height - 4:.1f}", "axis"), text(x, 12, word, "small", "middle")]
    said = ", ".join(f"{name} {word}" for name, _, word in rows)
    description = f"{len(rows)} bars from 0 to 1: {said}. The numbers are in the table below."
    return svg(key, (_WIDTH, height), "The verdict", description, parts)


def picture(verdict: Mapping[str, Any]) -> Picture:
    """The same, to stand by itself in a notebook or in a file."""
    return standalone(draw_verdict(verdict))
