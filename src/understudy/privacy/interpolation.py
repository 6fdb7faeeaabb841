"""Linear interpolation of many numbers between few knots, several times as fast as a binary search for each.

The one rule: it gives what `numpy.interp` and `numpy.searchsorted` give, to the last bit if knots are float64, and
entry by entry.

Source: Chen and Asau (1974), "On generating random variates from an empirical distribution", for guide tables.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CELLS = 4096
"""A guide table has this many cells."""
MANY = 16_384
"""For fewer numbers than this, no guide table is made."""
AWAY = 1e-3
"""How far from its edges, in cells, a number may be taken for one of the neighbouring cell."""
CELLS_PER_KNOT, MOST_CELLS = 16, 2**17
"""It has more, if there are many knots."""
FARTHEST_OUT = 4.0
"""It reaches so many times as far from the middle half of the knots as that is wide, or to the outermost knots."""
FAR_OUT = 0.01
"""Cells that grow with numbers reach to all knots but this share of them on both sides."""
MANY_TIMES = 64.0
"""If the largest knot is more than so many times the smallest, the outermost ones apart, cells grow with numbers."""
MOST_CROWDED = 0.5
"""If more of the pieces than this lie in cells with several knots, the table is of no use."""
_CROWDED = -1  # The entry of a cell that holds several knots.
FEW_KNOTS = 16
"""Among fewer knots than this, a binary search is as fast."""


class Pieces:
    """Which piece between ascending knots numbers lie in.

    The guide table says for each of many cells which knot lies before it. Where a cell holds at most one
    knot, one comparison finds the piece; the numbers in the other cells and beyond the table, which are few, are
    searched for.

    Args:
        at: Ascending knots.
        cells: Of the guide table, if not as many as are needed.
    """

    def __init__(self, at: Array, cells: int | None = None):
        cells = cells or max(CELLS, min(CELLS_PER_KNOT * len(at), MOST_CELLS))
        last = np.append(at[1:] > at[:-1], True)
        self._last = None if last.all() else np.flatnonzero(last)  # of every place, the last knot there
        self._at = at = at[last]
        self._next, self._cells = (
            np.append(at[1:], at.dtype.type(np.inf)),
            _log_cells(at, cells) or _even_cells(at, cells),
        )
        edges, away = self._cells.edges, self._cells.away
        guide = np.maximum(np.searchsorted(at, edges[:-1] - away, side="right") - 1, 0)
        crowded = np.searchsorted(at, edges[1:] + away, side="right") - 1 - guide > 1
        # One cell more on both sides, for numbers beyond the table.
        guide = np.concatenate([[0], guide, guide[-1:]])
        guide[np.concatenate([[True], crowded, [crowded[-1] or edges[-1] < at[-1]]])] = _CROWDED
        self._guide = guide.astype(np.int16 if len(at) < 2**15 else np.int32)  # small, to stay in the cache
        middles = self._cells.of(at[:-1] / 2 + at[1:] / 2)
        self._helps = len(at) > 1 and (self._guide.take(middles, mode="clip") == _CROWDED).mean() < MOST_CROWDED

    def __call__(self, x: Array) -> NDArray[np.intp]:
        """The last knot that is not above each number, which lies between the first and the last knot; any for NaN."""
        piece = self._by_table(x) if self._helps else self._searched(x)
        return piece if self._last is None else self._last[piece]

    def _by_table(self, x: Array) -> NDArray[np.intp]:
        piece = self._guide.take(self._cells.of(x), mode="clip").astype(np.intp)
        crowded = np.flatnonzero(piece == _CROWDED)
        piece += x >= self._next.take(piece, mode="clip")
        if len(crowded):
            piece[crowded] = self._searched(x[crowded])
        return piece

    def _searched(self, x: Array) -> NDArray[np.intp]:
        return np.minimum(np.searchsorted(self._at, x, side="right") - 1, len(self._at) - 1)  # NaN is sorted to the end


@dataclasses.dataclass(frozen=True, eq=False)
class _EvenCells:
    """Cells of equal width, numbered from 1 on; 0 and the last one are for numbers before and after them.

    Attributes:
        edges: Where they begin, and where the last one ends.
        away: How far from its edges a number may be taken for one of the neighbouring cell.
    """

    edges: Array
    away: float
    low: Any
    scale: Any

    def of(self, x: Array) -> NDArray[np.intp]:
        """The cell that each number is in; NaN is in any, or in none."""
        with np.errstate(invalid="ignore", over="ignore"):
            place = x - self.low
            place *= self.scale
            place += 1
            return np.clip(place, 0.5, len(self.edges), out=place).astype(np.intp)


def _even_cells(at: Array, cells: int) -> _EvenCells:
    """Cells around the middle half of the knots."""
    low, high = at[len(at) // 4], at[-1 - len(at) // 4]
    with np.errstate(over="ignore", invalid="ignore"):
        far = FARTHEST_OUT * (high - low)
        low, high = max(at[0], low - far), min(at[-1], high + far)
        width = float(high) - float(low)
        scale = cells / width if width > 0 and np.isfinite(cells / width) else 0.0
        edges = float(low) + np.arange(cells + 1) * (width / cells)
    return _EvenCells(edges, AWAY * width / cells, low, at.dtype.type(scale))


@dataclasses.dataclass(frozen=True, eq=False)
class _LogCells:
    """Cells of positive numbers whose width grows with them, by the leading bits of a float; else as `_EvenCells`."""

    edges: Array
    first: int
    shift: int
    away: float = 0.0

    def of(self, x: Array) -> NDArray[np.intp]:
        """The cell that each number is in; NaN is in any."""
        cell = np.ascontiguousarray(x).view(np.int64) >> self.shift
        cell -= self.first
        cell = np.minimum(np.maximum(cell, -1, out=cell), len(self.edges) - 1, out=cell)
        cell += 1
        return cell


def _log_cells(at: Array, cells: int) -> _LogCells | None:
    """Cells between all knots but the outermost, if the largest is many times the smallest; None if not."""
    few = max(int(FAR_OUT * len(at)), 1)
    if at.dtype != np.float64 or len(at) <= 2 * few or not at[few] > 0 or not at[-1 - few] > MANY_TIMES * at[few]:
        return None
    low, high = (int(each) for each in np.ascontiguousarray(at[[few, -1 - few]]).view(np.int64))
    shift = max((high - low) // cells, 1).bit_length()
    edges = (np.arange(low >> shift, (high >> shift) + 2) << shift).view(np.float64)
    return _LogCells(edges, low >> shift, shift)


class Interpolation:
    """A function that is linear between knots and constant beyond them.

    Args:
        at: Ascending knots.
        to: The values at the knots.
        cells: Of the guide table.
    """

    def __init__(self, at: Array, to: Array, cells: int | None = None):
        self._at, self._to = at, to
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slopes = np.diff(to) / np.diff(at)  # not finite at repeated knots, of which the last one is found
            self._steep = not np.isfinite(slopes[at[1:] > at[:-1]]).all()
        self._slopes = np.append(slopes, at.dtype.type(0))
        self._pieces = Pieces(at, cells)

    def __call__(self, x: Array) -> Array:
        """The values at some numbers; NaN stays NaN."""
        return self.with_pieces(x)[0]

    def with_pieces(self, x: Array) -> tuple[Array, NDArray[np.intp]]:
        """The values at some numbers, and the last knot that is not above each; the first knots below all."""
        low, high = self._at[0], self._at[-1]
        given, x = x, np.clip(x, low, high)
        piece = self._pieces(x)
        if self._steep:
            return np.interp(given, self._at, self._to), piece
        x -= self._at.take(piece)
        x *= self._slopes.take(piece)
        x += self._to.take(piece)
        if self._at[1] == low:  # a repeated first knot stands for its last value, and what is below for its first
            x[given < low] = self._to[0]
        return x, piece


def interpolated(x: Array, at: Array, to: Array) -> Array:
    """What `numpy.interp` gives, by a guide table if there are many numbers."""
    if x.size < max(MANY, CELLS_PER_KNOT * len(at)) or len(at) < 2 or x.ndim != 1:
        return np.interp(x, at, to)
    return Interpolation(at, to)(x)


def place_among(x: Array, at: Array) -> NDArray[np.intp]:
    """The last of ascending knots that is not above each number, -1 below all: searched from the right, less one.

    By a guide table if there are many numbers. NaN has any place.
    """
    if x.size < max(MANY, CELLS_PER_KNOT * len(at)) or len(at) < FEW_KNOTS or x.ndim != 1:
        return np.searchsorted(at, x, side="right") - 1
    found = Pieces(at)(np.minimum(np.maximum(x, at[0]), at[-1]))
    found -= x < at[0]
    return found
