"""Sums over rows: partition by partition, in whole numbers, added where they meet.

The one rule: this is the one way in which a mechanism reads rows. What it asks for is a public description
(`Summation`); what it gets are whole numbers, so that the result is the same bits for any cut of the table into
partitions, in any order and on any engine. Each partition counts once, by its number, however often an engine tries.
"""

# pyright: strict, reportPrivateUsage=false

import collections
import concurrent.futures
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import cores, one_thread_each
from understudy.privacy import units
from understudy.privacy.partitions import Arrays, Engine, Partition, Task, count
from understudy.privacy.rows import PrivateRows


class Summation(Protocol):
    """What is summed over rows: a public description.

    Attributes:
        columns: The columns that it reads.
    """

    @property
    def columns(self) -> Sequence[str]: ...

    def exact_sums(self, exact: Mapping[str, NDArray[Any]]) -> Arrays:
        """The sums over some rows: whole numbers, as int64 or, below 2**53, as floats."""
        ...


class LocalEngine:
    """Partitions on the cores of this machine, as many at a time."""

    def each(self, parts: Sequence[Partition], task: Task) -> Iterator[tuple[int, Arrays]]:
        if len(parts) == 1 or cores() == 1:
            for number, part in enumerate(parts):
                yield number, task.of(part)
            return
        with one_thread_each(), concurrent.futures.ThreadPoolExecutor(cores()) as pool:
            waiting: collections.deque[tuple[int, concurrent.futures.Future[Arrays]]] = collections.deque()
            for number, part in enumerate(parts):
                waiting.append((number, pool.submit(task.of, part)))
                if len(waiting) > cores():  # results that nobody has added yet take memory
                    done, future = waiting.popleft()
                    yield done, future.result()
            for done, future in waiting:
                yield done, future.result()


LOCAL = LocalEngine()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _Sum:
    """The task of a summation."""

    summation: Summation

    def of(self, part: Partition) -> Arrays:
        with np.errstate(all="ignore"):  # a warning would be a release
            return self.summation.exact_sums(part.exact(tuple(self.summation.columns)))


def exact_sums(rows: PrivateRows, summation: Summation) -> Arrays:
    """Sums over all rows without noise, for use inside a mechanism that was charged.

    Privacy:
        Releases nothing; what it returns stays in this folder. Whole numbers add up to the same bits in any order. If
        64 bits overflow, the result is right modulo 2**64, and so is the noisy sum: a function of the one that did not.
    """
    totals: Arrays = []
    for _, sums in each(rows, _Sum(summation)):
        totals = [total + more for total, more in zip(totals, sums, strict=True)] if totals else sums
    return totals


class UnitSummation(Protocol):
    """What is summed over units: a public description.

    Attributes:
        columns: The columns that it reads.
    """

    @property
    def columns(self) -> Sequence[str]: ...

    def exact_sums(self, unit: NDArray[np.int64], exact: Mapping[str, NDArray[Any]]) -> Arrays:
        """The sums over all rows of some units, which stand together: whole numbers, as of `Summation`."""
        ...


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _SumOfUnits:
    """The task of a summation over units."""

    summation: UnitSummation

    def of(self, part: Partition) -> Arrays:
        exact = part.exact(tuple(dict.fromkeys(self.summation.columns)))
        whose = part.exact_units()
        whose = np.arange(len(next(iter(exact.values())))) if whose is None else whose
        return _sums_of(self.summation, whose, exact)


def _sums_of(summation: UnitSummation, whose: units.Units, exact: Mapping[str, NDArray[Any]]) -> Arrays:
    unit = units.numbered(whose)
    order = np.argsort(unit, kind="stable")
    with np.errstate(all="ignore"):  # a warning would be a release
        return summation.exact_sums(unit[order], {name: column[order] for name, column in exact.items()})


def exact_unit_sums(rows: PrivateRows, summation: UnitSummation) -> Arrays:
    """Sums over all units without noise, for use inside a mechanism that was charged.

    If no partition has a part of a unit alone, they are summed one by one, as by `exact_sums`; else the rows of units
    are brought together here. If nobody says which rows belong together, each is a unit.

    Privacy:
        As of `exact_sums`.
    """
    totals: Arrays = []
    if not units.known(rows._parts) or units.whole(rows._parts):
        every = (made for _, made in each(rows, _SumOfUnits(summation)))
    else:
        columns = tuple(dict.fromkeys(summation.columns))
        every = (_sums_of(summation, *some) for some in units.with_columns(rows._parts, columns))
    for sums in every:
        totals = [total + more for total, more in zip(totals, sums, strict=True)] if totals else sums
    return totals


def each(rows: PrivateRows, task: Task) -> Iterator[tuple[int, Arrays]]:
    """What a task makes of each partition, by its number; a partition that an engine brings again is left out."""
    engine: Engine = rows._engine or LOCAL
    seen: set[int] = set()
    for number, made in engine.each(rows._parts, task):
        if number not in seen:
            seen.add(number)
            yield number, made
    if len(seen) != len(rows._parts):
        raise RuntimeError("an engine left out a partition, so that nothing can be released.")


def exact_row_count(rows: PrivateRows) -> int:
    """How many rows there are, without noise."""
    return sum(count(part) for part in rows._parts)
