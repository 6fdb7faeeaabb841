"""Exact counts of all pairs of columns in one pass: narrow columns by products of their indicator matrices, others one
pair after another.
"""

# pyright: strict

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.exact_counts import ExactCodes, in_blocks

Floats = NDArray[np.float64]

ROWS_AT_ONCE = 2**14
"""Indicators are made for this many rows at a time. Products of 32-bit floats count up to 2^24 rows exactly."""
# Counting one pair takes as long, for each row, as this many cells of a product of indicators.
_CELLS_PER_COUNT = 80


@dataclasses.dataclass(frozen=True, eq=False)
class PairCounts:
    """The summation of all pairs of some strips of columns with their own and all later columns.

    Attributes:
        sizes: Bins of each column.
        strips: First and last column of every strip, the last one not in it.
        asked: Which strips are counted.
        singles: Whether every column is counted alone too, after the strips.
    """

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    strips: Sequence[tuple[int, int]]
    asked: Sequence[tuple[int, int]]
    singles: bool = False

    def exact_sums(self, exact: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        starts = np.cumsum([0, *self.sizes])
        strips = [np.zeros((starts[last] - starts[first], starts[-1] - starts[first])) for first, last in self.asked]
        singles = [np.zeros(size) for size in self.sizes] if self.singles else []
        for some in in_blocks(exact, ROWS_AT_ONCE):
            codes = ExactCodes(some)
            indicators = _Indicators(codes, self.columns, self.sizes)
            for strip, columns in zip(strips, self.asked, strict=True):
                indicators.add(strip, columns, self.strips)
            for single, name in zip(singles, self.columns, strict=False):
                single += codes.marginal([name], single.shape)
        return [*strips, *singles]


@final
class _Indicators:
    """Codes of all columns of some rows while pairs are counted."""

    def __init__(self, codes: ExactCodes, columns: Sequence[str], sizes: Sequence[int]):
        self._codes, self._columns, self._sizes = codes, columns, sizes
        self._starts = np.cumsum([0, *sizes])

    def add(self, exact: Floats, own: tuple[int, int], strips: Sequence[tuple[int, int]]) -> None:
        """Adds the exact counts of the columns of a strip with those of the same strip and of all later ones."""
        first, last = own
        low, high = self._starts[first], self._starts[last]
        ours: NDArray[np.float32] | None = None
        for other in (each for each in strips if each[0] >= first):
            start, end = self._starts[other[0]], self._starts[other[1]]
            pairs = (last - first) * (other[1] - other[0])
            if (high - low) * (end - start) <= _CELLS_PER_COUNT * pairs:
                ours = self._indicators(own) if ours is None else ours
                theirs = ours if other == own else self._indicators(other)
                exact[:, start - low : end - low] += ours @ theirs.T
            else:
                self._count(exact, own, other)

    def _indicators(self, columns: tuple[int, int]) -> NDArray[np.float32]:
        """1 where a row has a bin; (bins, rows)."""
        first, last = columns
        found = [self._codes.column(self._columns[i], self._sizes[i]) for i in range(first, last)]
        length = len(found[0][0])
        exact = np.zeros((self._starts[last] - self._starts[first], length), np.float32)
        for i, (codes, inside) in enumerate(found, start=first):
            at = np.arange(length) if inside is None else np.flatnonzero(inside)
            exact[codes[at].astype(np.int64) + (self._starts[i] - self._starts[first]), at] = 1.0
        return exact

    def _count(self, exact: Floats, own: tuple[int, int], other: tuple[int, int]) -> None:
        """Counts pair by pair, into the strip."""
        low = self._starts[own[0]]
        for i, j in itertools.product(range(*own), range(*other)):
            if i < j:
                counted = self._codes.marginal([self._columns[i], self._columns[j]], [self._sizes[i], self._sizes[j]])
                exact[
                    self._starts[i] - low : self._starts[i + 1] - low,
                    self._starts[j] - low : self._starts[j + 1] - low,
                ] += counted
