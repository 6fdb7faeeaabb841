"""Units: which rows belong together, and which of them stay.

The one rule: a unit's rows are bounded by themselves. Each row of a table has a random word that goes by its number,
and of each unit the rows with the smallest words stay. Whoever has the words of all rows of a unit can say which these
are, in whatever order and from whichever partitions they come.
"""

# pyright: strict

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy.partitions import Columns, Partition, Places, Read, Units, count, from_bits, to_bits

ROWS_AT_ONCE = 2**22
"""Rows of units are brought together about this many at a time."""


def bounded(whose: Units, numbers: Places, most: int, key: Key) -> Places:
    """The places of the rows that stay, in order: of each unit, at most so many.

    Args:
        whose: The unit of each row; all rows of a unit are there.
        numbers: Of the rows in their table, ascending.
    """
    if not len(numbers):
        return np.zeros(0, np.int64)
    first = int(numbers[0])
    words = key.sealed().words(int(numbers[-1]) - first + 1, start=first)[numbers - first]
    order = np.lexsort((words, *_keys(whose)))
    return np.sort(order[_places_in_unit(whose[order]) < most])


def numbered(whose: Units) -> NDArray[np.int64]:
    """The number of each row's unit, in the order in which units come first."""
    if not len(whose):
        return np.zeros(0, np.int64)
    order = np.lexsort(_keys(whose))
    starts = np.flatnonzero(_places_in_unit(whose[order]) == 0)
    group = np.cumsum(np.isin(np.arange(len(order)), starts)) - 1
    leaders = order[starts]  # lexsort is stable, so the first of a unit is its first row
    rank = np.empty(len(starts), np.int64)
    rank[np.argsort(leaders)] = np.arange(len(starts))
    found = np.empty(len(order), np.int64)
    found[order] = rank[group]
    return found


def _keys(whose: Units) -> tuple[Units, ...]:
    """The columns that `np.lexsort` sorts by."""
    return (whose,) if whose.ndim == 1 else (whose[:, 1], whose[:, 0])


def _places_in_unit(grouped: Units) -> NDArray[np.int64]:
    """0, 1, 2 … within the rows of each unit, which stand together."""
    same = grouped[1:] == grouped[:-1]
    changes = ~(same if same.ndim == 1 else same.all(axis=1))
    starts = np.flatnonzero(np.r_[True, changes])
    return np.arange(len(grouped)) - np.repeat(starts, np.diff(np.r_[starts, len(grouped)]))


def bounded_readers(parts: Sequence[Read], most: int, key: Key) -> list[Read]:
    """The same partitions with the rows of each unit bounded, wherever they are.

    Units are taken in groups by their hash, so that memory is bounded however many rows there are: a pass over the
    units' column for each group.
    """
    seeds = _seeds(key)
    seeded = [dataclasses.replace(part, seeds=seeds) for part in parts]
    total = sum(part.span for part in parts)
    bits = [(np.zeros(-(-part.span // 8), np.uint8), np.zeros(-(-part.span // 8), np.uint8)) for part in parts]
    for whose, numbers in brought_together(seeded, total):
        stay = bounded(whose, numbers, most, key)
        staying = numbers[stay]
        leaders = staying[np.unique(numbered(whose[stay]), return_index=True)[1]]
        for part, (kept_bits, leader_bits) in zip(seeded, bits, strict=True):
            for some, found in ((staying, kept_bits), (leaders, leader_bits)):
                inside = some[slice(*np.searchsorted(some, [part.first, part.first + part.span]))]
                found |= to_bits(inside - part.first, part.span)
    return [
        dataclasses.replace(part, kept_bits=kept_bits, leader_bits=leader_bits)
        for part, (kept_bits, leader_bits) in zip(seeded, bits, strict=True)
    ]


def brought_together(parts: Sequence[Partition], rows: int) -> Iterator[tuple[Units, Places]]:
    """The units of all rows and the rows' numbers, ascending: all rows of a unit at a time, of some units at a time."""
    for whose, numbers, _ in _grouped(parts, rows, ()):
        yield whose, numbers


def with_columns(parts: Sequence[Partition], columns: Sequence[str]) -> Iterator[tuple[Units, Columns]]:
    """The units of all rows and some columns: all rows of a unit at a time, of some units at a time."""
    for whose, _, exact in _grouped(parts, sum(count(part) for part in parts), columns):
        yield whose, exact


def _grouped(parts: Sequence[Partition], rows: int, columns: Sequence[str]) -> Iterator[tuple[Units, Places, Columns]]:
    groups = max(1, math.ceil(rows / ROWS_AT_ONCE))
    for group in range(groups):
        found: list[tuple[Units, Places]] = []
        cells: dict[str, list[NDArray[Any]]] = {name: [] for name in columns}
        for part in parts:
            whose = part.exact_units()
            assert whose is not None  # every row has a unit
            at = np.arange(len(whose)) if part.kept is None else part.kept
            exact = part.exact(columns) if columns else {}
            if groups > 1:
                word = whose if whose.ndim == 1 else whose[:, 0]
                mine = word.astype(np.uint64) % np.uint64(groups) == group
                whose, at = whose[mine], at[mine]
                exact = {name: column[mine] for name, column in exact.items()}
            found.append((whose, at + part.first))
            for name in columns:
                cells[name].append(exact[name])
        whose, numbers = (np.concatenate(each) for each in zip(*found, strict=True))
        yield whose, numbers, {name: np.concatenate(each) for name, each in cells.items()}


def distinct(whose: Units, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The codes that rows have, each once for every unit that has it."""
    return np.unique(np.stack([numbered(whose), codes]), axis=1)[1]


def known(parts: Sequence[Partition]) -> bool:
    """Whether rows are known to belong to units."""
    return any(part.has_units for part in parts)


def whole(parts: Sequence[Partition]) -> bool:
    """Whether all rows of a unit are in one partition."""
    return len(parts) == 1 or all(part.whole_units for part in parts)


def _seeds(key: Key) -> tuple[int, int]:
    first, second = key.child("hash").sealed().words(2).tolist()
    return first, second


def leaders(part: Read) -> Places:
    """The places, among all rows of a partition, of the first row of each unit that begins in it."""
    return np.zeros(0, np.int64) if part.leader_bits is None else from_bits(part.leader_bits, part.span)
