"""What a row of children is drawn given: its ancestors' columns, its place among its siblings, and the rows before it.

The one rule: the context of a row depends on its own unit alone: on its ancestors and its earlier siblings.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.tables.column import Column

Arrays = Mapping[str, NDArray[Any]]
Whole = NDArray[np.int64]

PLACES = {"siblings": (1, 1), "rank": (1, 1), "first": (0, None), "last": (0, None)}
"""What a row is drawn given of its place among its siblings, and the least it can be: how many there are, its rank,
and whether it is the first or the last, 0 or 1."""

SUMMARIES = ("mean", "share")
"""What a row is drawn given of all its earlier siblings: the mean of a number, and the share of a category."""


@dataclasses.dataclass(frozen=True)
class Context:
    """A column that a table is drawn given.

    Attributes:
        kind: "ancestor", "previous", one of `PLACES`, or one of `SUMMARIES`.
        column: As the design has it; its name is that of the context column.
        table, source: Whose column it comes from: an ancestor's, or the table's own.
        code: Of the category whose share it is; the schema lists it, so that private and drawn rows have the same.
    """

    kind: str
    column: Column
    table: str
    source: str = ""
    code: int = -1

    @property
    def name(self) -> str:
        return self.column.name

    def summed(self, cells: NDArray[Any]) -> NDArray[np.float64]:
        """What a summary is the mean of: the numbers of a column, or 1 where it has the category; NaN if missing."""
        if self.kind == "mean":
            return cells
        return np.where(np.isnan(cells) | (cells < 0), np.nan, cells == self.code)


def context_cells(
    context: Sequence[Context],
    own: Arrays,
    ancestors: Mapping[str, Arrays],
    rank: Whole,
    siblings: Whole,
    previous: Whole,
) -> dict[str, NDArray[Any]]:
    """The context of rows that are sorted by parent and rank.

    Args:
        own: Their columns, as the design has them.
        ancestors: The columns of each row's ancestors, by table.
        previous: The place of the row before; -1 for a first row.
    """
    found: dict[str, NDArray[Any]] = {}
    for each in context:
        if each.kind == "ancestor":
            found[each.name] = ancestors[each.table][each.source]
        elif each.kind in PLACES:
            found[each.name] = place_of(each.kind, rank, siblings)
        elif each.kind == "previous":
            missing = -1 if own[each.source].dtype.kind == "i" else np.nan
            found[each.name] = np.where(previous < 0, missing, own[each.source][previous])
        else:
            found[each.name] = running_mean(each.summed(own[each.source]), rank)
    return found


def place_of(kind: str, rank: Whole, siblings: Whole) -> NDArray[np.float64]:
    """What a context of the kind says of rows of this rank with so many siblings."""
    places = {"siblings": siblings, "rank": rank, "first": rank == 1, "last": rank == siblings}
    found = places[kind]
    return found.astype(np.float64)


def running_mean(column: NDArray[Any], rank: Whole) -> NDArray[np.float64]:
    """The mean of the earlier siblings of every row, NaN if none is known; rows are sorted by parent and rank.

    Sums are added up within one family, sibling after sibling: a sum over all rows would carry the rounding, or the
    infinity, of one unit to the next.
    """
    known = ~np.isnan(column)
    cells, there = np.where(known, column, 0.0), known.astype(np.float64)
    sums, many = np.zeros(len(column)), np.zeros(len(column))
    order = np.argsort(rank, kind="stable")
    cuts = np.searchsorted(rank[order], np.arange(2, int(rank.max(initial=1)) + 2))
    for start, end in itertools.pairwise(cuts.tolist()):
        at = order[start:end]
        sums[at], many[at] = sums[at - 1] + cells[at - 1], many[at - 1] + there[at - 1]
    return np.where(many > 0, sums / np.maximum(many, 1.0), np.nan)


def years(birth: NDArray[Any], at: NDArray[Any]) -> NDArray[np.float64]:
    """Whole years between instants in microseconds, as people count their age; NaN if one is missing."""
    gone = np.isnan(birth) | np.isnan(at)
    first, last = (np.where(gone, 0.0, x).astype("datetime64[us]").astype("datetime64[D]") for x in (birth, at))
    months = last.astype("datetime64[M]").astype(np.int64) - first.astype("datetime64[M]").astype(np.int64)
    days = [(x - x.astype("datetime64[M]").astype("datetime64[D]")).astype(np.int64) for x in (first, last)]
    return np.where(gone, np.nan, (months - (days[1] < days[0])) // 12)
