"""Rows that come some units at a time, all rows of a unit together, and are kept out of the way until they are read.

A database that does not fit into memory is joined so: its rows are of some units, then of the next ones, and each part
is locked as soon as it is there. What does not fit into memory is in an encrypted file (scratch.py).

The one rule: all rows of a unit are in one partition. So what is done unit by unit is done partition by partition, and
adds up to the same whole numbers.
"""

# pyright: reportPrivateUsage=false

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy.partitions import Columns, Engine, Held, Partition, Places, Units, from_bits, to_bits
from understudy.privacy.rows import PrivateRows
from understudy.privacy.scratch import Kept, Scratch
from understudy.privacy.units import bounded


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Stored:
    """A partition of some units with all their rows, which a `Scratch` keeps.

    Attributes:
        columns: Of the kept rows alone.
        types: Of the columns.
        kept_bits: Which rows are kept, as bits; None if all are.
        units: The number of each kept row's unit, from `first_unit` on; None if each row is its own.
    """

    columns: Mapping[str, Kept]
    types: Mapping[str, np.dtype[Any]]
    first: int
    span: int
    kept_bits: NDArray[np.uint8] | None = None
    units: Kept | None = None
    first_unit: int = 0

    @property
    def kept(self) -> Places | None:
        return None if self.kept_bits is None else from_bits(self.kept_bits, self.span)

    @property
    def has_units(self) -> bool:
        return self.units is not None

    @property
    def whole_units(self) -> bool:
        return True

    def exact(self, names: Sequence[str], at: Places | None = None) -> Columns:
        found = {name: self.columns[name].exact() for name in names}
        taken = found if at is None else {name: cells[at] for name, cells in found.items()}
        return {name: cells.astype(self.types[name], copy=False) for name, cells in taken.items()}

    def exact_units(self) -> Units | None:
        return None if self.units is None else self.units.exact().astype(np.int64) + self.first_unit

    def held(self) -> Held:
        """The same in memory, for another process."""
        units = self.exact_units()
        whose = None if units is None else units.astype(np.int64)
        return Held(self.exact(tuple(self.columns)), self.first, self.span, self.kept, whose)


@final
class StoredRows:
    """Locks one table whose rows come range by range of units.

    Args:
        max_rows_per_unit: Of a unit with more rows a random choice is kept; None if each row is a unit of its own.
        key: As of `rows.lock`.

    Privacy:
        Releases nothing. Which rows of a unit stay depends on that unit's rows alone, and they are those that
        `rows.lock` would keep of the whole table.
    """

    def __init__(self, scratch: Scratch, *, max_rows_per_unit: int | None, key: Key):
        self._scratch, self._most, self._key = scratch, max_rows_per_unit, key.child("unit")
        self._parts: list[Partition] = []
        self._rows, self._names, self._labels = 0, tuple[str, ...](), dict[str, Sequence[str]]()

    def add(
        self,
        columns: Mapping[str, NDArray[Any]],
        labels: Mapping[str, Sequence[str]],
        unit: NDArray[np.int64],
        *,
        first_unit: int,
    ) -> None:
        """Locks the rows of the next units.

        Args:
            unit: The number of every row's unit among these, of which the first has the number `first_unit`.
        """
        span, first, kept_bits, units = len(unit), self._rows, None, None
        self._names, self._labels = tuple(columns), dict(labels)
        if not span and self._parts:
            return  # a partition goes by the number of its first row
        if self._most is not None:
            kept = bounded(unit, np.arange(first, first + span), self._most, self._key)
            columns, units = {name: cells[kept] for name, cells in columns.items()}, self._scratch.keep(unit[kept])
            kept_bits = to_bits(kept, span)
        stored = {name: self._scratch.keep(cells) for name, cells in columns.items()}
        types = {name: cells.dtype for name, cells in columns.items()}
        made = Stored(stored, types, first, span, kept_bits, units, first_unit)
        if self._parts and not self._rows:
            self._parts.clear()  # nothing had come so far
        self._parts.append(made)
        self._rows += span

    def locked(self, *, engine: Engine | None = None) -> PrivateRows:
        """The locked rows."""
        most = 1 if self._most is None else self._most
        return PrivateRows._of(self._parts, self._names, self._labels, most, self._scratch, engine)
