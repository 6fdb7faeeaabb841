"""Regret as a figure: a strip for each method, a point for each case, on a logarithmic axis.

The one rule: as for all figures, the same runs give the same SVG, byte for byte. Points are spread over the width of
their strip by their rank and not at random.

Privacy:
    None. Scores are computed on real rows without noise, and no budget covers them.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from understudy.benchmark.figures import entries_of, save, style
from understudy.benchmark.regret import NAME, Part, Summary, regrets, summarise
from understudy.benchmark.selection import read

TITLE = "Regret: loss of a method / smallest loss of any other method"
_POINT, _SINGLE, _MEAN, _WORST = "#0072B2", "#E69F00", "#000000", "#D55E00"
_WIDTH, _STRIP, _MARGIN = 3.4, 0.3, 1.5
"""The sizes in inches: of a panel, of a strip, and of what is above and below all strips."""


def write_regret(folder: str | os.PathLike[str], into: str | os.PathLike[str]) -> list[Path]:
    """Draws the regret of all methods as regret.svg and regret.png, and says where they are.

    Raises:
        GridError, ResultError, ScoreboardError: See `selection.read` and `regret.regrets`.
        ImportError: matplotlib is not installed.
    """
    summaries = summarise(regrets(read(folder)))
    with style():
        figure = draw(summaries)
        Path(into).mkdir(parents=True, exist_ok=True)
        return [save(figure, TITLE, Path(into) / f"{NAME}.{kind}") for kind in ("svg", "png")]


def draw(summaries: Sequence[Summary]) -> Any:
    """A panel for each half of the cases: with and without a target in the schema."""
    from matplotlib import ticker  # pyright: ignore[reportMissingImports]
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]

    halves = list(dict.fromkeys(each.part.target for each in summaries))
    labels = list(dict.fromkeys(each.label for each in summaries))[::-1]  # the best of the first half on top
    size = _WIDTH * len(halves) + 1.2, _STRIP * len(labels) + _MARGIN
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(halves), squeeze=False, sharex=True, sharey=True)[0]
    for panel, target in zip(panels, halves, strict=True):
        panel.axvline(1.0, color="0.6", linewidth=0.8, zorder=0)
        for each in (each for each in summaries if each.part.target == target):
            _strip(panel, each, labels.index(each.label))
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        panel.xaxis.set_minor_locator(ticker.NullLocator())
        panel.set_title(f"{'with' if target else 'without'} a target in the schema")
        panel.set_xlabel("regret (lower is better)")
        panel.set_yticks(range(len(labels)), labels=labels)
        panel.set_ylim(-0.6, len(labels) - 0.4)
    figure.suptitle(TITLE)
    entries = dict(entries_of(panels))
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=len(entries), frameon=False)
    return figure


def _strip(panel: Any, summary: Summary, place: int) -> None:
    """The cases of a method: points, their geometric mean and the worst; single columns in the lower half."""
    values = sorted(regret.value for regret in summary.regrets)
    colour, word, base = _look(summary.part)
    offsets = [base + 0.11 * ((rank * 0.618034) % 1 - 0.5) for rank in range(len(values))]
    heights = [place + offset for offset in offsets]
    panel.scatter(values, heights, s=7, color=colour, alpha=0.55, linewidths=0, label=word)
    if not summary.part.single_column:
        middle = {"s": 60, "marker": "|", "color": _MEAN, "linewidths": 1.6, "zorder": 3}
        panel.scatter([summary.mean], [place + base], label="geometric mean", **middle)
        panel.scatter([values[-1]], [heights[-1]], s=22, marker="D", color=_WORST, zorder=3, label="worst")


def _look(part: Part) -> tuple[str, str, float]:
    """The colour, the name and the place within its strip."""
    if part.single_column:
        return _SINGLE, "single columns", -0.22
    return _POINT, "dependence and usefulness", 0.12
