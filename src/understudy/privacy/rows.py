"""Exact rows behind a lock, which only mechanisms may read.

Neighbours differ by one unit: a row, or all rows of one value of the unit column, of which at most
`max_rows_per_unit` are ever locked in.
"""

# pyright: reportPrivateUsage=false

import itertools
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Self, final

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy import row_maps, units
from understudy.privacy.ancestors import Ancestor
from understudy.privacy.ancestors import check as check_ancestors
from understudy.privacy.partitions import (
    Derived,
    Drawn,
    Engine,
    Held,
    KeptColumns,
    Maps,
    Partition,
    Read,
    Reader,
    Recode,
    mapped,
)
from understudy.privacy.row_maps import RowMap
from understudy.privacy.scratch import MEMORY, Scratch


@final
class PrivateRows:
    """Locked rows: columns of equal length that only mechanisms may read. Nothing about them can be changed.

    They are in partitions, each of which is in memory or is read when a mechanism asks for it. Mechanisms read them by
    `sums.exact_sums`, which gives the same bits however they are cut.

    Attributes:
        max_rows_per_unit: The most rows that one unit has in here; public.
    """

    __slots__ = ("_counted", "_drawn", "_engine", "_exact_labels", "_names", "_parts", "_scratch", "max_rows_per_unit")

    _parts: tuple[Partition, ...]
    _names: tuple[str, ...]
    _exact_labels: dict[str, Sequence[str]]
    _scratch: Scratch | None  # Keeps columns of partitions that are not in memory.
    _engine: Engine | None
    _counted: list[weakref.ref[Any]]  # Whoever has exact counts of marginals of these rows.
    _drawn: Drawn | None  # If these are some units of a table: which.
    max_rows_per_unit: int

    def __init__(
        self,
        columns: Mapping[str, NDArray[Any]],
        labels: Mapping[str, Sequence[str]],
        max_rows_per_unit: int,
        units: NDArray[np.int64] | None = None,
    ):
        length = len(next(iter(columns.values()))) if columns else 0
        part = Held(dict(columns), 0, length, None, units)
        self._fill((part,), tuple(columns), labels, max_rows_per_unit)

    def _fill(
        self,
        parts: Sequence[Partition],
        names: Sequence[str],
        labels: Mapping[str, Sequence[str]],
        max_rows_per_unit: int,
        scratch: Scratch | None = None,
        engine: Engine | None = None,
        drawn: Drawn | None = None,
    ) -> Self:
        keep = object.__setattr__
        keep(self, "_parts", tuple(parts))
        keep(self, "_names", tuple(names))
        keep(self, "_exact_labels", dict(labels))
        keep(self, "_scratch", scratch)
        keep(self, "_engine", engine)
        keep(self, "_drawn", drawn)
        keep(self, "_counted", [])
        keep(self, "max_rows_per_unit", max_rows_per_unit)
        return self

    @classmethod
    def _of(
        cls,
        parts: Sequence[Partition],
        names: Sequence[str],
        labels: Mapping[str, Sequence[str]],
        max_rows_per_unit: int,
        scratch: Scratch | None = None,
        engine: Engine | None = None,
        drawn: Drawn | None = None,
    ) -> "PrivateRows":
        """Rows in these partitions."""
        return object.__new__(cls)._fill(parts, names, labels, max_rows_per_unit, scratch, engine, drawn)

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    @property
    def _exact(self) -> dict[str, NDArray[Any]]:
        """All columns, put together: for tables that fit into memory."""
        found = [part.exact(self._names) for part in self._parts]
        if len(found) == 1:
            return found[0]
        return {name: np.concatenate([each[name] for each in found]) for name in self._names}

    @property
    def _exact_units(self) -> NDArray[np.int64] | None:
        """The number of the unit of each row, put together; None if every row is a unit of its own."""
        found = [part.exact_units() for part in self._parts]
        if any(each is None for each in found):
            return None
        return units.numbered(np.concatenate([each for each in found if each is not None]))

    def derive(self, maps: Mapping[str, RowMap], *, keep: bool = False) -> "PrivateRows":
        """New locked rows, each column computed from columns in here by a public map, row by row.

        Args:
            keep: Whether the columns in here stay beside the new ones, unless one of these has the same name.

        Privacy:
            Releases nothing. A row of the result depends on the same row alone (`row_maps` says why), so neighbours
            stay neighbours. No value raises or warns.

        Raises:
            TypeError: Something is not exactly one of the maps in row_maps.py. Nothing has been read.
        """
        checked = dict(maps)
        for row_map in checked.values():
            row_maps.check(row_map)
        if not keep:
            return self._derived(checked, tuple(checked), {})
        names = tuple(dict.fromkeys([*self._names, *checked]))
        kept = {name: labels for name, labels in self._exact_labels.items() if name not in checked}
        return self._derived(checked, names, kept)

    def _derived(self, maps: Maps, names: Sequence[str], labels: Mapping[str, Sequence[str]]) -> "PrivateRows":
        """Rows with columns of these names, made by maps or as they are: at once in memory, else when asked for."""
        often = [name for name, each in maps.items() if isinstance(each, row_maps.LevelBin)]
        kept = None if self._scratch is None else KeptColumns(self._scratch, often)
        parts: list[Partition] = []
        for part in self._parts:
            if isinstance(part, Held):
                columns = mapped(maps, part.columns, part.first, part.kept)
                held = {name: columns[name] if name in columns else part.columns[name] for name in names}
                parts.append(Held(held, part.first, part.span, part.kept, part.units))
            else:
                parts.append(Derived(part, maps, kept))
        return self._of(parts, names, labels, self.max_rows_per_unit, self._scratch, self._engine, self._drawn)

    def relabel(
        self, column: str, labels: Sequence[str], *, other: int, ancestors: Sequence[Ancestor] = ()
    ) -> "PrivateRows":
        """The same rows with one column's codes pointing into public labels; a category not among them is `other`.

        Args:
            ancestors: Groups of categories, the narrowest first: a category that is not among the labels becomes its
                first group that is.

        Privacy:
            Releases nothing. A code of the result depends on the private label of the same row alone, and on how
            many private labels there are only in the time it takes. A code without a label counts as missing.
        """
        place = {label: code for code, label in enumerate(labels)}
        to_public = np.full(len(self._exact_labels[column]), other, dtype=np.int64)
        for groups in reversed(self._chain(column, ancestors)):
            found = np.array([place.get(group, -1) for group in groups], dtype=np.int64)
            to_public = np.where(found >= 0, found, to_public)
        public = {**self._exact_labels, column: tuple(labels)}
        return self._derived({column: Recode(column, to_public)}, self._names, public)

    def coarsen(self, column: str, ancestors: Sequence[Ancestor], *, seen: Sequence[str]) -> "PrivateRows":
        """The same rows with one column's categories replaced by the last of their groups, for a further selection.

        Args:
            ancestors: Groups of categories, the narrowest first.
            seen: Public labels. A category that is one of them, or of which a group is, counts as missing.

        Privacy:
            Releases nothing. The group of a row, and whether it counts as missing, depend on the private label of the
            same row alone. The labels of the result are private, like those they are made from.
        """
        known = frozenset(seen)
        chain = self._chain(column, ancestors)
        exact_groups = sorted(set(chain[-1]))
        place = {group: code for code, group in enumerate(exact_groups)}
        covered = [any(group in known for group in groups) for groups in zip(*chain, strict=True)]
        codes = [-1 if gone else place[group] for gone, group in zip(covered, chain[-1], strict=True)]
        labels = {**self._exact_labels, column: tuple(exact_groups)}
        return self._derived({column: Recode(column, np.array(codes, dtype=np.int64))}, self._names, labels)

    def _chain(self, column: str, ancestors: Sequence[Ancestor]) -> list[list[str]]:
        """The private labels of a column, and the groups of each, the narrowest first."""
        check_ancestors(ancestors)
        exact_labels = list(self._exact_labels[column])
        return [exact_labels, *(each.of(exact_labels) for each in ancestors)]

    def __repr__(self) -> str:
        return f"PrivateRows({', '.join(self.names)})"

    def __dir__(self) -> list[str]:
        return ["coarsen", "derive", "max_rows_per_unit", "names", "relabel"]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("PrivateRows cannot be changed.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("PrivateRows cannot be changed.")

    def __reduce__(self) -> NoReturn:
        raise TypeError("PrivateRows are never written anywhere.")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__reduce__()

    def __getstate__(self) -> NoReturn:
        self.__reduce__()

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


def lock(
    columns: Mapping[str, NDArray[Any]],
    labels: Mapping[str, Sequence[str]],
    *,
    unit: NDArray[Any] | None = None,
    max_rows_per_unit: int = 1,
    key: Key,
    partitions: int = 1,
) -> PrivateRows:
    """Locks rows; of a unit with too many rows, a random choice of `max_rows_per_unit` is kept.

    Args:
        partitions: How many pieces they are kept in; it makes no difference to any sum.

    Privacy:
        Releases nothing. Which rows of a unit stay depends on that unit's rows alone.
    """
    length = len(next(iter(columns.values()))) if columns else 0
    cuts = np.linspace(0, length, max(1, partitions) + 1).astype(np.int64)
    if unit is None:
        parts = [
            Held({name: column[first:end] for name, column in columns.items()}, first, end - first)
            for first, end in itertools.pairwise(cuts.tolist())
        ]
        return PrivateRows._of(parts, tuple(columns), labels, 1)
    kept = units.bounded(unit, np.arange(length), max_rows_per_unit, key.child("unit"))
    whose, parts = units.numbered(unit[kept]), list[Partition]()
    for first, end in itertools.pairwise(cuts.tolist()):
        some = slice(*np.searchsorted(kept, [first, end]))
        held = {name: column[kept[some]] for name, column in columns.items()}
        parts.append(Held(held, first, end - first, kept[some] - first, whose[some]))
    return PrivateRows._of(parts, tuple(columns), labels, max_rows_per_unit)


def lock_readers(
    readers: Sequence[Reader],
    names: Sequence[str],
    labels: Mapping[str, Sequence[str]],
    *,
    has_unit: bool = False,
    max_rows_per_unit: int = 1,
    key: Key,
    memory: int = MEMORY,
    engine: Engine | None = None,
) -> PrivateRows:
    """Locks rows that are read when a mechanism asks for them; as `lock` would, had they been read at once.

    Args:
        readers: Of the table's partitions, in order. They are called from mechanisms that were charged, and to find the
            rows of units.
        names: The columns.
        has_unit: Whether rows have units.
        memory: Bytes that columns kept between passes may take before they go to an encrypted file.
        engine: Who sums; the cores of this machine if None.

    Privacy:
        Releases nothing. Which rows of a unit stay depends on that unit's rows alone: those with the smallest of random
        words that go by the number of a row. Units are told apart by 128 bits of a hash under secret seeds.
    """
    readers = [reader for reader in readers if reader.rows]  # so that a partition goes by the number of its first row
    firsts = np.cumsum([0, *(reader.rows for reader in readers)]).tolist()
    scratch, most = Scratch(memory), max_rows_per_unit if has_unit else 1
    codes = KeptColumns(scratch, names)
    parts = [Read(reader, first, codes=codes) for reader, first in zip(readers, firsts, strict=False)]
    if has_unit:
        parts = units.bounded_readers(parts, most, key.child("unit"))
    return PrivateRows._of(parts, names, labels, most, scratch, engine)
