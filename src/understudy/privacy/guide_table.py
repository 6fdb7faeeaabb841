"""Guide tables: which of few ascending knots lies before each of many numbers, faster than by a binary search for each.

The one rule: it finds what `numpy.searchsorted` finds, entry by entry.

Source: Chen and Asau (1974), "On generating random variates from an empirical distribution".
"""

# pyright: strict

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Places = NDArray[np.intp]
Made = TypeVar("Made")

CELLS_PER_KNOT, MOST_CELLS = 16, 2**17
"""A guide table has so many cells of equal width for each knot, and at most so many: they stay in the cache."""
MANY = 2**14
"""For fewer numbers than this, no guide table is made."""
AWAY = 1e-3
"""How far from its edges, in cells, a number may be taken for one of the neighbouring cell."""
MOST_OWNERS = 128
"""Tables are kept for at most so many maps and distributions at a time, to bound memory."""
_CROWDED = -1  # The entry of a cell that holds several knots.
_OUTER = 64  # The outermost of so many parts of the knots lie beyond the cells, on either side.


class GuideTable:
    """Finds the last of ascending knots that is at most a number.

    The table says for each of many cells of equal width which knot lies before it. Where a cell holds at most one
    knot, one comparison finds the piece; the numbers in the other cells, which are few, are searched for. The cells
    cover the knots but for the outermost, which may be far away; beyond the cells there is one more on either side.

    Rounding: the cell of a number is computed to within `cells` · 2^-22 of a cell, even in 32 bits, so that it is the
    right one or, within `AWAY` of an edge, its neighbour. A cell counts as holding the knots of both.

    Args:
        at: Ascending knots, at least one; of 32-bit floats if numbers are.
        cells: How many; as many as suit the knots if None.
    """

    def __init__(self, at: Array, cells: int | None = None):
        kind = at.dtype.type
        cells = cells or min(MOST_CELLS if kind is np.float64 else 2**12, CELLS_PER_KNOT * len(at))
        outer = len(at) // _OUTER
        self._at, self._low = at, at[outer]
        width = float(at[-1 - outer]) - float(at[outer])
        even = width > 0 and np.isfinite(width) and np.isfinite(kind(cells / width))
        self._scale, self._cells = kind(cells / width if even else 0.0), cells
        edges = float(at[outer]) + np.arange(cells + 1) * (width / cells if even else 0.0)
        away = AWAY * width / cells if even else 0.0
        begins, ends = np.append(-np.inf, edges - away), np.append(edges + away, np.inf)
        if not even:  # all numbers are in one cell
            begins[:], ends[:] = -np.inf, np.inf
        guide = np.maximum(np.searchsorted(at, begins, side="right") - 1, 0)
        guide[np.searchsorted(at, ends, side="right") - 1 - guide > 1] = _CROWDED
        self._guide: Array = guide.astype(np.int16 if len(at) < 2**15 else np.int32)  # small, to stay in the cache
        self._next = np.append(at[1:], kind(np.nan))  # nothing lies at or above it

    def find(self, x: Array) -> Places:
        """The place of the last knot that is at most each number; 0 if all are above it, any place for NaN."""
        with np.errstate(invalid="ignore", over="ignore"):  # NaN becomes some cell
            place = x - self._low
            place *= self._scale
            place += 1
            cell = np.clip(place, 0, self._cells + 1, out=place).astype(np.intp)
        found: Places = np.take(self._guide, cell, mode="clip").astype(np.intp)
        crowded = np.flatnonzero(found == _CROWDED)
        found += x >= self._next.take(found, mode="clip")
        if len(crowded):
            among = np.searchsorted(self._at, x[crowded], side="right") - 1
            found[crowded] = np.maximum(among, 0)  # NaN is sorted to the end
        return found


_MADE: "weakref.WeakKeyDictionary[object, dict[str, Any]]" = weakref.WeakKeyDictionary()


def made_once(owner: object, name: str, make: Callable[[], Made]) -> Made:
    """What `make` gives, computed once for an owner that never changes, and forgotten with it. Public, as the owner."""
    if owner not in _MADE and len(_MADE) >= MOST_OWNERS:
        return make()
    kept = _MADE.setdefault(owner, {})
    if name not in kept:
        kept[name] = make()
    return kept[name]
