"""Gathering: the rows that the batches of a whole training draw, in one pass over a table that is not in memory.

The one rule: batches are those of `batches.poisson_batches`, drawn from the training's key by the number of a unit,
before and after the pass alike. So the law of a batch is that of a table in memory, to the bit, and what a training
costs does not grow with the table: rate × units × steps rows are gathered, and it runs on those.
"""

# pyright: reportPrivateUsage=false

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy import sums, units
from understudy.privacy.batches import largest_batch, poisson_batches
from understudy.privacy.partitions import Arrays, Derived, Drawn, Held, Partition, Places, Read, count
from understudy.privacy.rows import PrivateRows


def drawn_rows(
    rows: PrivateRows, columns: Sequence[str], *, key: Key, rate: float, rounds: int, steps: int, capacity: int
) -> PrivateRows:
    """The rows of the units that some rounds of a training draw; all rows, if they are in memory.

    Args:
        columns: Those that the training reads.
        key: Of the training.

    Privacy:
        Releases nothing; what it returns is locked. Call it after the charge.
    """
    if all(isinstance(part, Held) for part in rows._parts):
        return rows
    has_units = units.known(rows._parts)
    total = sums.exact_row_count(rows)
    each = [len(_leaders(part)) if has_units else count(part) for part in rows._parts]
    many, most = sum(each), largest_batch(max(capacity, total), rate)
    numbers = np.zeros(0, np.int64)
    for number in range(rounds):
        of_round = key.child(f"round {number}")
        places, drawn = poisson_batches(of_round.child("batches"), rate, many, steps, most)
        numbers = np.union1d(numbers, places[drawn].astype(np.int64))
    if not len(numbers):
        numbers = np.zeros(1, np.int64)  # nobody is drawn; somebody is there all the same, so that arrays have a row
    begins = np.cumsum([0, *each])
    inside = [numbers[slice(*np.searchsorted(numbers, begins[i : i + 2]))] - begins[i] for i in range(len(each))]
    if has_units and units.whole(rows._parts):
        task, order = _Units(tuple(columns), tuple(inside), tuple(part.first for part in rows._parts)), None
    elif has_units:
        wanted = _hashes(rows, inside)
        order = np.lexsort((wanted[:, 1], wanted[:, 0]))
        task = _Members(tuple(columns), wanted[order])
    else:
        task, order = _Places(tuple(columns), tuple(inside), tuple(part.first for part in rows._parts)), None
    found = [made for _, made in sorted(sums.each(rows, task), key=lambda each: each[0])]
    exact = {name: np.concatenate([each[i] for each in found]) for i, name in enumerate(columns)}
    whose = np.concatenate([each[-1] for each in found]) if has_units else None
    whose = whose if whose is None or order is None else order[whose]
    part = Held(exact, 0, len(next(iter(exact.values()))), None, whose)
    many_rows = rounds * steps * most * rows.max_rows_per_unit
    of = Drawn(numbers, many, total, many_rows)
    return PrivateRows._of([part], tuple(columns), {}, rows.max_rows_per_unit, drawn=of)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _Places:
    """Takes the rows at some places of each partition, which goes by its first row."""

    columns: tuple[str, ...]
    places: tuple[Places, ...]
    firsts: tuple[int, ...]

    def of(self, part: Partition) -> Arrays:
        at = self.places[self.firsts.index(part.first)]
        exact = part.exact(self.columns, at) if len(at) else {name: np.zeros(0) for name in self.columns}
        return [exact[name] for name in self.columns]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _Units:
    """Takes the rows of the units at some places of each partition that has whole units.

    The last array is the place of each row's unit among those of all partitions.
    """

    columns: tuple[str, ...]
    places: tuple[Places, ...]
    firsts: tuple[int, ...]

    def of(self, part: Partition) -> Arrays:
        number, whose = self.firsts.index(part.first), part.exact_units()
        assert whose is not None  # every row has a unit
        unit, wanted = units.numbered(whose), self.places[number]
        before = sum(map(len, self.places[:number]))
        taken = np.flatnonzero(np.isin(unit, wanted))
        exact = part.exact(self.columns, taken)
        return [*(exact[name] for name in self.columns), before + np.searchsorted(wanted, unit[taken])]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _Members:
    """Takes the rows of some units; the last array is the place of each row's unit among the hashes."""

    columns: tuple[str, ...]
    hashes: NDArray[np.uint64]

    def of(self, part: Partition) -> Arrays:
        whose = part.exact_units()
        assert whose is not None  # every row has a unit
        place = np.searchsorted(self.hashes[:, 0], whose[:, 0])
        for more in (0, 1):  # two units may have the first word in common, but not both
            at = np.minimum(place + more, len(self.hashes) - 1)
            place = np.where((self.hashes[at] == whose).all(axis=1), -1 - at, place)
        taken = np.flatnonzero(place < 0)
        exact = part.exact(self.columns, taken)
        return [*(exact[name] for name in self.columns), -1 - place[taken]]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _Leaders:
    """Takes the hashes of units that begin in a partition, some of them by their place."""

    places: tuple[Places, ...]
    firsts: tuple[int, ...]

    def of(self, part: Partition) -> Arrays:
        whose, kept = part.exact_units(), part.kept
        assert whose is not None and kept is not None  # every row has a unit
        at = _leaders(part)[self.places[self.firsts.index(part.first)]]
        return [whose[np.searchsorted(kept, at)]]


def _hashes(rows: PrivateRows, inside: Sequence[Places]) -> NDArray[np.uint64]:
    """The hashes of some units, in the order of their numbers: (units, 2)."""
    task = _Leaders(tuple(inside), tuple(part.first for part in rows._parts))
    found = sorted(sums.each(rows, task), key=lambda each: each[0])
    return np.concatenate([made[0] for _, made in found])


def _leaders(part: Partition) -> NDArray[Any]:
    """Something for each unit that begins in a partition."""
    if part.whole_units:
        whose = part.exact_units()
        return np.zeros(0, np.int64) if whose is None else np.unique(whose)
    while isinstance(part, Derived):
        part = part.base
    assert isinstance(part, Read)
    return units.leaders(part)
