"""Two columns of synthetic rows against each other, as a picture.

The one rule: rows that are drawn are synthetic. Categories and truth values stand side by side, in the order of how
frequent they are, and their points are spread a little so that they can be told apart.
"""

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from understudy.core.svg import path, short, svg, text

if TYPE_CHECKING:
    import polars as pl

MOST_POINTS = 1500
MOST_CATEGORIES = 12
"""The most frequent ones; the others share the last place."""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720.0, 420.0, 116.0, 16.0, 36.0, 52.0


def scatter(frame: "pl.DataFrame", across: str, up: str) -> Markup:
    """A point for each of the first rows that have both values."""
    both = frame.select(list(dict.fromkeys([across, up]))).drop_nulls().head(MOST_POINTS)
    x, x_ticks = _axis(both[across])
    y, y_ticks = _axis(both[up])
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    parts = [path(f"M{LEFT:.0f} {TOP:.0f}V{HEIGHT - BOTTOM:.0f}H{WIDTH - RIGHT:.0f}", "axis")]
    for place, words in x_ticks:
        anchor = "end" if place > 0.97 else "start" if place < 0.03 else "middle"
        shown = short(words, wide / max(len(x_ticks), 1) - 4, 12)
        parts.append(text(LEFT + place * wide, HEIGHT - BOTTOM + 18, shown, "small", anchor))
    for place, words in y_ticks:
        parts.append(text(LEFT - 8, HEIGHT - BOTTOM - place * high + 4, short(words, LEFT - 12, 12), "small", "end"))
    parts += [
        Markup('<circle cx="{:.1f}" cy="{:.1f}" r="2.6" class="point"/>').format(
            LEFT + a * wide, HEIGHT - BOTTOM - b * high
        )
        for a, b in zip(x, y, strict=True)
    ]
    parts.append(text(8, 16, short(f"↑ {up}", WIDTH - 16), "name"))
    parts.append(text(LEFT + wide / 2, HEIGHT - 10, short(f"{across} →", wide), "name", "middle"))
    title = f"{up} against {across}, {len(x)} synthetic rows"
    return svg("scatter", (WIDTH, HEIGHT), title, f"A cloud of points: {up} upwards, {across} to the right.", parts)


def _axis(column: "pl.Series") -> tuple[np.ndarray, list[tuple[float, str]]]:
    """The place of each value between 0 and 1, and some marks."""
    import polars as pl

    if column.dtype.is_temporal():
        numbers = column.cast(pl.Datetime("us")).cast(pl.Int64).to_numpy().astype(float)
        return _scaled(numbers, lambda number: str(_day(number)))
    if column.dtype.is_numeric():
        return _scaled(column.to_numpy().astype(float), lambda number: f"{number:.4g}")
    return _spread(column.cast(pl.String).to_list())


def _day(microseconds: float) -> datetime.date:
    return (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)).date()


def _scaled(numbers: np.ndarray, words: Any) -> tuple[np.ndarray, list[tuple[float, str]]]:
    if not len(numbers):
        return numbers, []
    low, high = float(numbers.min()), float(numbers.max())
    size = (high - low) or 1.0
    marks = [low + share * size for share in (0.0, 0.25, 0.5, 0.75, 1.0)] if high > low else [low]
    return (numbers - low) / size, [((mark - low) / size, words(mark)) for mark in marks]


def _spread(labels: list[str]) -> tuple[np.ndarray, list[tuple[float, str]]]:
    counted: dict[str, int] = {}
    for label in labels:
        counted[label] = counted.get(label, 0) + 1
    order = sorted(counted, key=lambda label: -counted[label])
    kept = order if len(order) <= MOST_CATEGORIES else order[: MOST_CATEGORIES - 1]
    names = kept if len(kept) == len(order) else [*kept, "all others"]
    place_of = {label: place for place, label in enumerate(kept)}
    middles = [(place + 0.5) / max(len(names), 1) for place in range(len(names))]
    shift = (np.arange(len(labels)) * 0.618034 % 1 - 0.5) * 0.7 / max(len(names), 1)
    places = np.array([middles[place_of.get(label, len(names) - 1)] for label in labels], dtype=float)
    return places + shift, list(zip(middles, names, strict=True))
