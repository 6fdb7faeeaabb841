"""Counts of rows in the cells of marginals, without noise: what counting and selecting mechanisms are made of.

The one rule: exact counts are in memory and inside this folder. Marginals that were counted together with others are
taken from there, and rows are not read again: the counts are whole numbers, so that they are the same.
"""

# pyright: strict, reportPrivateUsage=false

import dataclasses
import math
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.rows import PrivateRows
from understudy.privacy.sums import exact_sums

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Inside = NDArray[np.bool_]

BLOCK = 2**15
"""Rows are counted so many at a time, or as many as there are cells, so that they stay in a processor's cache."""


@dataclasses.dataclass(frozen=True, eq=False)
class Marginal:
    """Cells that rows are counted in: columns of codes, how many cells each has, and groups as of `noisy_counts`."""

    columns: tuple[str, ...]
    shape: tuple[int, ...]
    groups: tuple[Codes, ...] = ()


class Counted(Protocol):
    """Whoever has exact counts of some marginals of rows."""

    def exact_counts(self, columns: Sequence[str], shape: Sequence[int]) -> Floats | None:
        """The counts of a marginal; None if they are not there."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class MarginalCounts:
    """The summation of some marginals."""

    marginals: Sequence[Marginal]

    @property
    def columns(self) -> Sequence[str]:
        return tuple(dict.fromkeys(name for each in self.marginals for name in each.columns))

    def exact_sums(self, exact: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        totals = [np.zeros(each.shape) for each in self.marginals]
        for some in in_blocks(exact, max([BLOCK, *(total.size for total in totals)])):
            codes = ExactCodes(some)
            for total, each in zip(totals, self.marginals, strict=True):
                total += codes.marginal(each.columns, each.shape, each.groups)
        return totals


def in_blocks(exact: Mapping[str, NDArray[Any]], rows: int = BLOCK) -> Iterator[dict[str, NDArray[Any]]]:
    """Some rows at a time."""
    length = len(next(iter(exact.values())))
    for start in range(0, length, rows):
        yield {name: column[start : start + rows] for name, column in exact.items()}


def exact_marginals(rows: PrivateRows, marginals: Sequence[Marginal]) -> list[Floats]:
    """The counts of marginals without noise, in one pass or in none, for use inside a mechanism."""
    known = [_known(rows, each) for each in marginals]
    if any(each is None for each in known):
        return exact_sums(rows, MarginalCounts(tuple(marginals)))
    return [each for each in known if each is not None]


def remember(rows: PrivateRows, counted: Counted) -> None:
    """Has the marginals that somebody counted taken from there, as long as they are kept."""
    rows._counted.append(weakref.ref(counted))


def _known(rows: PrivateRows, marginal: Marginal) -> Floats | None:
    """The counts of a marginal, if they were counted before."""
    fine = tuple(map(len, marginal.groups)) or marginal.shape
    for reference in rows._counted:
        counted: Counted | None = reference()
        exact = None if counted is None else counted.exact_counts(marginal.columns, fine)
        if exact is not None and not marginal.groups:
            return exact
        if exact is not None:
            coarse = np.zeros(marginal.shape)
            np.add.at(coarse, np.ix_(*marginal.groups), exact)
            return coarse
    return None


class ExactCodes:
    """Columns of codes of some rows while one mechanism reads them. Each column is checked and grouped once.

    A code is inside if it is the number of a bin. Any other one (negative, too large, NaN) leaves its row out.
    """

    def __init__(self, exact: Mapping[str, NDArray[Any]]):
        self._exact = exact
        self._seen: dict[tuple[str, int, int], tuple[NDArray[Any], Inside | None]] = {}

    def marginal(self, columns: Sequence[str], shape: Sequence[int], groups: Sequence[Codes] = ()) -> Floats:
        """The counts of a marginal without noise, for use inside a mechanism."""
        cells = math.prod(shape)
        exact_cells, inside = self.column(columns[0], shape[0], groups[0] if groups else None)
        if len(columns) > 1:
            exact_cells = exact_cells.astype(np.uint16 if cells < 2**16 else np.int64)  # a copy, to work in
        for i in range(1, len(columns)):
            codes, known = self.column(columns[i], shape[i], groups[i] if groups else None)
            exact_cells *= exact_cells.dtype.type(shape[i])
            exact_cells += codes
            if known is not None:
                inside = known if inside is None else inside & known
        exact_cells = exact_cells if inside is None else exact_cells[inside]
        return np.bincount(exact_cells, minlength=cells).astype(np.float64).reshape(tuple(shape))

    def column(self, name: str, size: int, group: Codes | None = None) -> tuple[NDArray[Any], Inside | None]:
        """A column's codes, 0 for those outside, and which ones are inside; None if all are."""
        place = name, size, 0 if group is None else id(group)  # whoever holds the group outlives this object
        if place not in self._seen:
            exact = self._exact[name]
            inside = (exact >= 0) & (exact < (size if group is None else len(group)))
            every = bool(inside.all())
            codes = exact if every else np.where(inside, exact, 0)
            codes = (codes if group is None else group[codes.astype(np.int64, copy=False)]).astype(
                np.uint16 if size <= 2**16 else np.int64, copy=False
            )
            self._seen[place] = codes, None if every else inside
        return self._seen[place]
