"""Second keys: rows that point to a row of another private table, or to one of their own.

A row belongs to the unit of its `parent`. The row that it points to may belong to another one, and what is learned of a
unit must depend on nobody else: so a second key is looked up among the rows of the row's own unit, and there alone. If
it is found, copies of that row's columns stand beside the row's own and are learned with them; if not, the row only
says that it points outside. Synthetic rows are drawn with such copies, and their keys lead to the row of their unit
that is most like them. In a table that points to itself a row says how many steps it is from one that points nowhere,
at most `max_depth`, and its key leads to a row one step nearer: so there is no circle.

The one rule: which row a second key leads to, and what is copied, depends on one unit's rows alone.
"""

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.tables.column import Column
from understudy.tables.references import columns_of, name_of
from understudy.tables.table_schema import TableSchema

PLACES = ("inside", "outside", "none")
"""Where a second key leads to: to a row of the same unit, to none of them, or nowhere since it is missing."""
INSIDE, OUTSIDE, NONE = range(3)
MOST_COPIES = 8
"""At most so many columns of the row that is pointed to are copied."""

Arrays = Mapping[str, NDArray[Any]]
Whole = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class SecondKey:
    """A second key of a table.

    Attributes:
        name: What it is called: the column that holds it, or the names of several.
        columns: The columns that hold it, in the order of the key that it leads to.
        table: The table that it leads to.
        depth: Of a table that points to itself, how many steps at most; else None.
        place: The hidden column that says where it leads to, or how many steps a row is from one that points nowhere.
        copies: Hidden columns with what the row it leads to says; missing unless that is in the same unit.
        sources: The columns that they are copies of.
    """

    name: str
    columns: tuple[str, ...]
    table: str
    depth: int | None
    place: Column
    copies: tuple[Column, ...]
    sources: tuple[str, ...]

    @property
    def hidden(self) -> tuple[Column, ...]:
        return (self.place, *self.copies)


def second_keys(table: TableSchema, tables: Mapping[str, TableSchema]) -> tuple[SecondKey, ...]:
    """The second keys of a table."""
    found = []
    for pointer in table.second_keys:
        other, name = tables[table.references[pointer]], name_of(pointer)
        depth = int(table.max_depth or 1) if other.name == table.name else None
        if depth is None:
            place = Column(name=f"where {name} leads", kind="categorical", values=PLACES)
        else:
            place = Column(name=f"where {name} leads", kind="integer", low=0, high=depth)
        joint = {column for group in other.public_groups for column in group}  # never drawn, so never compared
        sources = [each for each in other.columns if each.name not in joint][:MOST_COPIES]
        copies = [dataclasses.replace(each, name=f"{name}.{each.name}", nullable=True, atoms=()) for each in sources]
        names = tuple(each.name for each in sources)
        found.append(SecondKey(name, columns_of(pointer), other.name, depth, place, tuple(copies), names))
    return tuple(found)


def looked_up(texts: Sequence[Hashable], unit: Whole, keys: Sequence[Hashable], units: Whole) -> Whole:
    """The place of the row of its own unit that each second key leads to; -1 if there is none, -2 if it is missing.

    Args:
        texts, unit: The second keys of rows, each a text or a tuple of texts, None if it is missing; and their units.
        keys, units: The keys of the rows that they may lead to, and their units. Of several with one key in one unit,
            the first.
    """
    known: dict[tuple[int, Hashable], int] = {}
    for place, (text, whose) in enumerate(zip(keys, units.tolist(), strict=True)):
        if text is not None:
            known.setdefault((whose, text), place)
    found = [
        -2 if text is None else known.get((whose, text), -1) for text, whose in zip(texts, unit.tolist(), strict=True)
    ]
    return np.array(found, np.int64)


def depths(leads: Whole, most: int) -> Whole:
    """How many steps each row of a table is from one that points nowhere, at most so many; in a circle, that many."""
    found, at = np.zeros(len(leads), np.int64), leads.copy()
    for _ in range(most):
        inside = at >= 0
        found[inside] += 1
        at = np.where(inside, leads[np.maximum(at, 0)], -1) if len(leads) else at
    return found


def measured(second: SecondKey, leads: Whole, values: Arrays) -> dict[str, NDArray[Any]]:
    """The hidden columns of a second key.

    Args:
        leads: As `looked_up` has them.
        values: The columns of the rows that it may lead to.
    """
    found: dict[str, NDArray[Any]] = {}
    if second.depth is None:
        found[second.place.name] = np.where(leads >= 0, INSIDE, np.where(leads == -1, OUTSIDE, NONE))
    else:
        found[second.place.name] = depths(leads, second.depth).astype(np.float64)
    for copy, source in zip(second.copies, second.sources, strict=True):
        cells = values[source]
        missing = -1 if cells.dtype.kind == "i" else np.nan
        taken = cells[np.maximum(leads, 0)] if len(cells) else np.full(len(leads), missing)
        found[copy.name] = np.where(leads >= 0, taken, missing)
    return found
