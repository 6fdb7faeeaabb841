"""Partitions: the rows of a table in pieces, each of which is in memory or is read when a mechanism asks for it.

The one rule: what a row becomes does not depend on the piece that it is in. A row goes by its number in the table, and
what a map draws for it is a function of that number (`row_draws`). So any cut of a table into partitions gives
the same rows, and sums over them in whole numbers have the same bits.
"""

import dataclasses
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.piecewise import numbers
from understudy.privacy.row_draws import RowUniforms
from understudy.privacy.row_maps import RowMap
from understudy.privacy.scratch import Kept, Scratch

Columns = dict[str, NDArray[Any]]
Arrays = list[NDArray[Any]]
Places = NDArray[np.int64]
Units = NDArray[np.int64 | np.uint64]
"""Whose each row is: the number of its unit, (rows,), or 128 bits of a keyed hash, (rows, 2)."""
BLOCK = 2**15
"""A map makes so many rows at a time, so that what it computes on the way stays in a processor's cache."""


class Reader(Protocol):
    """Reads some rows of a table, as often as it is asked. It brings rows to the door and keeps none.

    Attributes:
        rows: How many there are.
    """

    @property
    def rows(self) -> int: ...

    def read(self, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """Some columns, each of `rows` entries."""
        ...

    def read_units(self, seeds: tuple[int, int]) -> NDArray[np.uint64]:
        """The unit of each row, as two words of a hash that these seeds determine: (rows, 2)."""
        ...


class Partition(Protocol):
    """Rows with consecutive numbers, some of which may have been left out.

    Attributes:
        first: The number of the first.
        span: How many there are, those that are left out included.
        kept: The places, from 0 to `span` - 1, of those that are not left out; None if none is.
        has_units: Whether rows belong to units.
        whole_units: Whether all rows of a unit are in one partition.
    """

    @property
    def first(self) -> int: ...
    @property
    def span(self) -> int: ...
    @property
    def kept(self) -> Places | None: ...
    @property
    def has_units(self) -> bool: ...
    @property
    def whole_units(self) -> bool: ...

    def exact(self, names: Sequence[str], at: Places | None = None) -> Columns:
        """Some columns of the rows, or of those at some places among the rows that were not left out."""
        ...

    def exact_units(self) -> Units | None:
        """The unit of each row; None if each is its own."""
        ...


class Task(Protocol):
    """What is done with each partition."""

    def of(self, part: Partition) -> Arrays: ...


class Engine(Protocol):
    """Does a task with every partition of a table."""

    def each(self, parts: Sequence[Partition], task: Task) -> Iterator[tuple[int, Arrays]]:
        """The number of every partition and what the task makes of it, each once, in any order."""
        ...


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Drawn:
    """What some units of a table, those that a training draws, are of it.

    Attributes:
        numbers: Of the units, ascending.
        units: How many the table has.
        rows: How many rows the table has.
        most: The most rows that could be drawn, by public numbers as far as the table fits into its capacity.
    """

    numbers: Places
    units: int
    rows: int
    most: int


def count(part: Partition) -> int:
    """How many rows a partition has."""
    return part.span if part.kept is None else len(part.kept)


def places(part: Partition, at: Places | None) -> Places | None:
    """Places among the rows that were not left out, as places among all; None for all."""
    if at is None:
        return part.kept
    return at if part.kept is None else part.kept[at]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Held:
    """A partition in memory: its columns hold the kept rows alone."""

    columns: Columns
    first: int
    span: int
    kept: Places | None = None
    units: NDArray[np.int64] | None = None

    @property
    def has_units(self) -> bool:
        return self.units is not None

    @property
    def whole_units(self) -> bool:
        return self.units is None

    def exact(self, names: Sequence[str], at: Places | None = None) -> Columns:
        return {name: self.columns[name] if at is None else self.columns[name][at] for name in names}

    def exact_units(self) -> Units | None:
        return self.units


class KeptColumns:
    """Columns of whole numbers that were asked for, for as long as somebody may ask again.

    Args:
        often: Those that are kept as soon as they are there: codes of categories, which take long to read, and bins of
            levels, which methods that choose what to count read often. Others are if they are asked for a second time.
    """

    def __init__(self, scratch: Scratch, often: Iterable[str]):
        self._scratch, self._often, self._lock = scratch, frozenset(often), threading.Lock()
        self._asked: set[tuple[int, str]] = set()
        self._kept: dict[tuple[int, str], Kept] = {}

    def find(self, first: int, names: Sequence[str]) -> Columns:
        """Those columns of the partition that begins with this row that were kept."""
        kept = {name: self._kept[first, name] for name in names if (first, name) in self._kept}
        return {name: each.exact() for name, each in kept.items()}

    def add(self, first: int, columns: Mapping[str, NDArray[Any]]) -> None:
        """Keeps columns that are whole numbers and will be asked for again."""
        for name, exact in columns.items():
            if exact.dtype.kind in "iu":
                with self._lock:
                    again = name in self._often or (first, name) in self._asked
                    self._asked.add((first, name))
                if again and (first, name) not in self._kept:
                    self._kept[first, name] = self._scratch.keep(exact)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Read:
    """A partition that is read when it is asked for.

    Attributes:
        kept_bits, leader_bits: Of rows that are bounded by unit, as bits: which are kept, and which of them is the
            first of its unit.
        seeds: Of the hash of units; None if each row is its own.
        codes: Columns of codes that were read before, of all partitions.
    """

    reader: Reader
    first: int
    kept_bits: NDArray[np.uint8] | None = None
    leader_bits: NDArray[np.uint8] | None = None
    seeds: tuple[int, int] | None = None
    codes: KeptColumns | None = None

    @property
    def span(self) -> int:
        return self.reader.rows

    @property
    def kept(self) -> Places | None:
        return None if self.kept_bits is None else from_bits(self.kept_bits, self.span)

    @property
    def has_units(self) -> bool:
        return self.seeds is not None

    @property
    def whole_units(self) -> bool:
        return self.seeds is None

    def exact(self, names: Sequence[str], at: Places | None = None) -> Columns:
        taken, found = places(self, at), self._all(names)
        return {name: found[name] if taken is None else found[name][taken] for name in names}

    def _all(self, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """Some columns of all rows, those that are left out included."""
        if self.codes is None:
            return self.reader.read(names)
        kept = self.codes.find(self.first, names)
        missing = [name for name in names if name not in kept]
        found: Mapping[str, NDArray[Any]] = self.reader.read(missing) if missing else {}
        self.codes.add(self.first, found)
        return {**kept, **found}

    def exact_units(self) -> Units | None:
        if self.seeds is None:
            return None
        found, taken = self.reader.read_units(self.seeds), self.kept
        return found if taken is None else found[taken]


def to_bits(at: Places, span: int) -> NDArray[np.uint8]:
    """Which of so many places are among some, as bits."""
    among = np.zeros(span, np.bool_)
    among[at] = True
    return np.packbits(among)


def from_bits(bits: NDArray[np.uint8], span: int) -> Places:
    """The places whose bits are set."""
    return np.flatnonzero(np.unpackbits(bits, count=span))


@dataclasses.dataclass(frozen=True, eq=False, repr=False, slots=True)
class Recode:
    """Codes that point into private labels, replaced by others; one that has no label is missing. Private itself."""

    source: str
    exact_codes: NDArray[np.int64]

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def apply(self, columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
        codes = numbers(columns[0])
        known = (codes >= 0) & (codes < len(self.exact_codes))
        recoded = np.full(len(codes), -1, dtype=np.int64)
        recoded[known] = self.exact_codes[codes[known].astype(np.int64)]
        return recoded


Maps = Mapping[str, RowMap | Recode]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Derived:
    """A partition whose columns are computed from those of another, row by row, when they are asked for."""

    base: Partition
    maps: Maps
    derived: KeptColumns | None = None

    @property
    def first(self) -> int:
        return self.base.first

    @property
    def span(self) -> int:
        return self.base.span

    @property
    def kept(self) -> Places | None:
        return self.base.kept

    @property
    def has_units(self) -> bool:
        return self.base.has_units

    @property
    def whole_units(self) -> bool:
        return self.base.whole_units

    def exact(self, names: Sequence[str], at: Places | None = None) -> Columns:
        kept = {} if self.derived is None else self.derived.find(self.first, [n for n in names if n in self.maps])
        found = {name: exact if at is None else exact[at] for name, exact in kept.items()}
        missing = {name: self.maps[name] for name in names if name in self.maps and name not in found}
        beside = [name for name in names if name not in self.maps]
        needed = dict.fromkeys([*beside, *(source for each in missing.values() for source in each.sources)])
        below = self.base.exact(list(needed), at) if needed else {}
        made = mapped(missing, below, self.first, places(self.base, at))
        if self.derived is not None and at is None:
            self.derived.add(self.first, made)
        return {name: below[name] if name in beside else found[name] if name in found else made[name] for name in names}

    def exact_units(self) -> Units | None:
        return self.base.exact_units()


def mapped(maps: Maps, below: Mapping[str, NDArray[Any]], first: int, at: Places | None) -> Columns:
    """What maps make of rows: those at some places, or all, of the rows of a table that begin with row `first`.

    Privacy:
        Releases nothing. A row of the result depends on the same row alone (`row_maps` says why). No value raises or
        warns.
    """
    with np.errstate(all="ignore"):
        return {name: _made(each, [below[source] for source in each.sources], first, at) for name, each in maps.items()}


def _made(row_map: RowMap | Recode, exact: Arrays, first: int, at: Places | None) -> NDArray[Any]:
    """What one map makes of rows, block by block."""
    rows = len(exact[0])
    made = _block(row_map, exact, first, at, 0)
    if rows <= BLOCK:
        return made
    found = np.empty(rows, made.dtype)
    found[:BLOCK] = made
    for start in range(BLOCK, rows, BLOCK):
        found[start : start + BLOCK] = _block(row_map, exact, first, at, start)
    return found


def _block(row_map: RowMap | Recode, exact: Arrays, first: int, at: Places | None, start: int) -> NDArray[Any]:
    some = [column[start : start + BLOCK] for column in exact]
    if isinstance(row_map, Recode):
        return row_map.apply(some)
    if at is None:
        return row_map.apply(some, RowUniforms(row_map, first + start, len(some[0])))
    return row_map.apply(some, RowUniforms(row_map, first, len(some[0]), at[start : start + BLOCK]))
