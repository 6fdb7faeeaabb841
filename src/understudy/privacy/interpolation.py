"""Linear interpolation of many numbers between few knots, several times as fast as a binary search for each.

The one rule: it gives what `numpy.interp` gives, to the last bit if knots are float64, and entry by entry.

Source: Chen and Asau (1974), "On generating random variates from an empirical distribution", for guide tables.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CELLS = 4096
"""A guide table has this many cells of equal width."""
MANY = 16_384
"""For fewer numbers than this, no guide table is made."""
AWAY = 1e-3
"""How far from its edges, in cells, a number may be taken for one of the neighbouring cell."""


class Interpolation:
    """A function that is linear between knots and constant beyond them.

    The guide table says for each of many cells of equal width which knot lies before it. Where a cell holds at most
    one knot, one comparison finds the piece; the numbers in the other cells, which are few, are searched for.

    Args:
        at: Ascending knots.
        to: The values at the knots.
        cells: Of the guide table.
    """

    def __init__(self, at: Array, to: Array, cells: int = CELLS):
        self._at, self._to = at, to
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slopes = np.diff(to) / np.diff(at)  # not finite at repeated knots, of which the last one is found
            self._steep = not np.isfinite(slopes[at[1:] > at[:-1]]).all()
        self._slopes = np.append(slopes, at.dtype.type(0))
        self._next = np.append(at[1:], at.dtype.type(np.inf))
        width = float(at[-1]) - float(at[0])
        self._scale = at.dtype.type(cells / width) if width > 0 and np.isfinite(cells / width) else at.dtype.type(0)
        edges = float(at[0]) + np.arange(cells + 1) * (width / cells)
        away = AWAY * width / cells
        before = np.searchsorted(at, edges[:-1] - away, side="right") - 1
        self._guide = np.maximum(before, 0)
        self._crowded = np.searchsorted(at, edges[1:] + away, side="right") - 1 - self._guide > 1

    def __call__(self, x: Array) -> Array:
        """The values at some numbers; NaN stays NaN."""
        if self._steep:
            return np.interp(x, self._at, self._to)
        low, high = self._at[0], self._at[-1]
        given, x = x, np.minimum(np.maximum(x, low), high)
        with np.errstate(invalid="ignore"):  # NaN becomes some cell, and then NaN again
            cell = ((x - low) * self._scale).astype(np.intp)
        np.minimum(np.maximum(cell, 0, out=cell), len(self._guide) - 1, out=cell)
        piece = self._guide[cell]
        piece += x >= self._next[piece]
        crowded = np.flatnonzero(self._crowded[cell])
        if len(crowded):
            found = np.searchsorted(self._at, x[crowded], side="right") - 1
            piece[crowded] = np.minimum(found, len(self._at) - 1)  # NaN is sorted to the end
        x -= self._at[piece]
        x *= self._slopes[piece]
        x += self._to[piece]
        if self._at[1] == low:  # a repeated first knot stands for its last value, and what is below for its first
            x[given < low] = self._to[0]
        return x


def interpolated(x: Array, at: Array, to: Array) -> Array:
    """What `numpy.interp` gives, by a guide table if there are many numbers."""
    if x.size < MANY or len(at) < 2 or x.ndim != 1:
        return np.interp(x, at, to)
    return Interpolation(at, to)(x)
