"""Exact counts of all pairs of columns in one pass: neighbouring columns of few bins are counted together."""

# pyright: strict

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.exact_counts import ExactCodes

Floats = NDArray[np.float64]

ROWS_AT_ONCE = 2**15
"""Rows are counted so many at a time, to stay in the processor's cache."""
MOST_TOGETHER = 64
"""Neighbouring columns are counted together if their codes make at most so many numbers, all of them joined."""


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
        codes, starts = ExactCodes(exact), np.cumsum([0, *self.sizes])
        groups = [_groups(codes, self.columns, self.sizes, strip) for strip in self.strips]
        found: list[NDArray[Any]] = []
        for strip in self.asked:
            low, high = starts[strip[0]], starts[strip[1]]
            exact_counts = np.zeros((high - low, starts[-1] - low))
            for own in groups[self.strips.index(strip)]:
                for other in (each for group in groups for each in group if each.columns >= own.columns):
                    rows, columns = (slice(*(starts[list(each.columns)] - low)) for each in (own, other))
                    exact_counts[rows, columns] = own.exact_pairs(other)
            found.append(exact_counts)
        singles = zip(self.columns, self.sizes, strict=True) if self.singles else ()
        return [*found, *(codes.marginal([name], [size]) for name, size in singles)]


@final
@dataclasses.dataclass(frozen=True, eq=False)
class _Group:
    """Some neighbouring columns, whose codes are one number: their pairs with another group are counted at once.

    Attributes:
        columns: First and last one, the last one not in it.
        exact_codes: The number of every row.
        size: How many numbers there are.
        adding: 1 where a number has a bin; (numbers, bins).
    """

    columns: tuple[int, int]
    exact_codes: NDArray[Any]
    size: int
    adding: Floats

    def exact_pairs(self, other: "_Group") -> Floats:
        """The exact counts of every bin of the one with every bin of the other."""
        if other is self:
            exact_counts = np.bincount(self.exact_codes, minlength=self.size)
            return self.adding.T @ (exact_counts[:, None] * self.adding)
        exact_table = np.zeros(self.size * other.size, np.int64)
        kind = _type_of(len(exact_table))
        for part in range(0, len(self.exact_codes), ROWS_AT_ONCE):
            at = slice(part, part + ROWS_AT_ONCE)
            cells = self.exact_codes[at].astype(kind)
            cells *= kind(other.size)
            cells += other.exact_codes[at]
            exact_table += np.bincount(cells, minlength=len(exact_table))
        return self.adding.T @ exact_table.reshape(self.size, other.size).astype(np.float64) @ other.adding


def _type_of(numbers: int) -> type[Any]:
    """A type that holds so many numbers, as small as it may be: memory is what takes time here."""
    return np.uint16 if numbers < 2**16 else np.int64


def _groups(codes: ExactCodes, columns: Sequence[str], sizes: Sequence[int], strip: tuple[int, int]) -> list[_Group]:
    """The columns of a strip in groups of at most `MOST_TOGETHER` joint numbers, or of one column that has more."""
    found, first = list[_Group](), strip[0]
    while first < strip[1]:
        last, size, parts = first, 1, list[Floats]()
        exact_codes: NDArray[Any] = np.zeros(1, np.int64)
        while last < strip[1] and (last == first or size * (sizes[last] + 1) <= MOST_TOGETHER):
            own, inside = codes.column(columns[last], sizes[last])
            own = own.astype(np.int64)
            if inside is not None:
                own = np.where(inside, own, sizes[last])  # a number that has no bin
            numbers = sizes[last] + (inside is not None)
            exact_codes = exact_codes * numbers + own
            parts = [np.repeat(part, numbers, axis=0) for part in parts]
            parts.append(np.tile(np.eye(numbers, sizes[last]), (size, 1)))
            size, last = size * numbers, last + 1
        compact = exact_codes.astype(_type_of(size))
        found.append(_Group((first, last), compact, size, np.concatenate(parts, axis=1)))
        first = last
    return found
