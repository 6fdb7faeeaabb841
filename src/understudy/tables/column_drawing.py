"""A column of synthetic rows as a picture: a histogram, or a bar for each of its most frequent categories.

The one rule: rows that come here are public. A model draws them, and it draws no others.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from markupsafe import Markup

from understudy.core.svg import bars, path, percent, rect, svg, text

BINS = 30
MOST_BARS = 12
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 420.0, 150.0, 52.0, 22.0


def draw_column(cells: pl.Series, above: Sequence[str]) -> Markup:
    """The distribution of a column's cells; how many are missing is said above it."""
    missing = cells.null_count() / max(len(cells), 1)
    lines = [*above, f"{percent(missing)} missing"] if missing else [*above]
    known, title = cells.drop_nulls(), f"Distribution of {cells.name}"
    if cells.dtype.is_numeric() or cells.dtype.is_temporal():
        return _histogram(known, title, lines)
    counts = known.cast(pl.String).value_counts(sort=True)
    shares = [(str(name), count / max(len(known), 1)) for name, count in counts.iter_rows()]
    if len(shares) > MOST_BARS:
        lines.append(f"The {MOST_BARS} most frequent of {len(shares)} categories")
    return bars("column", title, shares[:MOST_BARS], above=lines)


def _histogram(known: pl.Series, title: str, above: Sequence[str]) -> Markup:
    if known.is_empty():
        return svg("column", (_WIDTH, 1), title, "No cell that is not missing.", [], above=above)
    numbers = known.to_physical().cast(pl.Float64).to_numpy()
    counts, _ = np.histogram(numbers, _edges(numbers, whole=known.dtype.is_integer()))
    shares, floor, step = counts / len(numbers), _HEIGHT - _BOTTOM, (_WIDTH - _LEFT - 8) / len(counts)
    highs = (floor - 10) * shares / shares.max()
    parts = [
        rect(_LEFT + place * step + 0.4, floor - high, step - 0.8, high, "synthetic")
        for place, high in enumerate(highs)
    ]
    parts.append(path(f"M{_LEFT:.1f} 10V{floor:.1f}H{_WIDTH - 8:.1f}", "axis"))
    parts += [
        text(_LEFT - 4, 18, percent(float(shares.max())), "small", "end"),
        text(_LEFT, _HEIGHT - 6, _end(known.min()), "small"),
        text(_WIDTH - 8, _HEIGHT - 6, _end(known.max()), "small", "end"),
    ]
    ends = f"from {_end(known.min())} to {_end(known.max())}"
    description = f"{len(counts)} bars {ends}; the highest holds {percent(float(shares.max()))} of the rows."
    return svg("column", (_WIDTH, _HEIGHT), title, description, parts, above=above)


def _edges(numbers: np.ndarray, *, whole: bool) -> np.ndarray:
    """About `BINS` bins of even width; of whole numbers, each bin holds equally many of them."""
    low, high = float(numbers.min()), float(numbers.max())
    if not whole:
        return np.linspace(low, high if high > low else low + 1, BINS + 1)
    width = int(np.ceil((high - low + 1) / BINS))
    return np.arange(low, high + width + 1, width) - 0.5


def _end(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
