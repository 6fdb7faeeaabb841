"""Rows that come some units at a time: locked and summed as those of a whole table, wherever they are kept."""

# pyright: reportPrivateUsage=false, reportArgumentType=false, reportOptionalSubscript=false

import numpy as np
import pytest

from understudy.core.randomness import Key
from understudy.privacy.counts import noisy_counts, popular_categories
from understudy.privacy.gathering import drawn_rows
from understudy.privacy.ledger import Ledger
from understudy.privacy.partitions import Held
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.privacy.rows import lock
from understudy.privacy.scratch import Scratch
from understudy.privacy.stored import Stored, StoredRows
from understudy.privacy.unit_sums import noisy_unit_counts, noisy_unit_moments

KEY = Key.new(1)
MOST = 3
LABELS = {"word": ["aa", "bb", "cc", "dd"]}


def table(units=60, seed=0):
    """Rows of units that stand together, of some more than are kept."""
    draw = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), draw.integers(0, 7, units))
    rows = len(unit)
    return unit, {
        "word": draw.integers(-1, 4, rows),
        "code": draw.integers(0, 5, rows),
        "x": draw.standard_normal(rows),
    }


def stored(unit, columns, cuts, *, memory=2**20, bounded=True):
    """The same rows, locked in ranges that end at some units."""
    rows = StoredRows(Scratch(memory), max_rows_per_unit=MOST if bounded else None, key=KEY)
    ends = np.searchsorted(unit, [0, *cuts, unit.max() + 1])
    for first, start, end in zip([0, *cuts], ends[:-1], ends[1:], strict=True):
        part = {name: cells[start:end] for name, cells in columns.items()}
        rows.add(part, LABELS, unit[start:end] - first, first_unit=first)
    return rows.locked()


@pytest.mark.parametrize("memory", [0, 2**20], ids=["in a file", "in memory"])
@pytest.mark.parametrize("cuts", [[], [7, 31], list(range(1, 60))], ids=["whole", "three", "each alone"])
def test_rows_that_come_in_ranges_are_locked_like_a_whole_table(cuts, memory):
    unit, columns = table()
    whole = lock(columns, LABELS, unit=unit, max_rows_per_unit=MOST, key=KEY)
    parts = stored(unit, columns, cuts, memory=memory)
    assert len({part.first for part in parts._parts}) == len(parts._parts)
    np.testing.assert_array_equal(parts._exact_units, whole._exact_units)
    for name, cells in whole._exact.items():
        assert parts._exact[name].dtype == cells.dtype
        np.testing.assert_array_equal(parts._exact[name], cells)
    kept = [part.first + part.kept for part in parts._parts if part.kept is not None]
    np.testing.assert_array_equal(np.concatenate(kept), whole._parts[0].kept)


def test_rows_that_are_units_of_their_own_are_all_kept():
    unit, columns = table()
    rows = stored(unit, columns, [20], bounded=False)
    assert rows.max_rows_per_unit == 1 and not any(part.has_units for part in rows._parts)
    np.testing.assert_array_equal(rows._exact["x"], columns["x"])


def ledger():
    plan = [PlannedMechanism(name="sum", mechanism="discrete gaussian", share=1.0)]
    plan += [PlannedMechanism(name="pick", mechanism="gaussian threshold", share=1.0, threshold_delta=1e-7)]
    return Ledger(Budget(epsilon=50.0, delta=1e-6), plan, max_rows_per_unit=MOST, seed=1)


MECHANISMS = {
    "counts": lambda rows: noisy_counts(rows, ["code"], [5], what="x", planned="sum", ledger=ledger(), key=KEY),
    "unit counts": lambda rows: noisy_unit_counts(
        rows, ["code", "word"], [5, 4], bound=1.5, what="x", planned="sum", ledger=ledger(), key=KEY
    ),
    "unit moments": lambda rows: noisy_unit_moments(
        rows,
        {"code": np.arange(10.0).reshape(5, 2) / 7, "word": np.eye(4)},
        ["word"],
        bound=20.0,
        what="x",
        planned="sum",
        ledger=ledger(),
        key=KEY,
    ),
    "categories": lambda rows: popular_categories(rows, "word", what="x", planned="pick", ledger=ledger(), key=KEY)[1],
}


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("cuts", [[], [7, 31], [1, 2, 3, 59]])
def test_every_sum_over_units_is_that_of_a_whole_table(mechanism, cuts):
    unit, columns = table()
    whole = mechanism(lock(columns, LABELS, unit=unit, max_rows_per_unit=MOST, key=KEY))
    np.testing.assert_array_equal(mechanism(stored(unit, columns, cuts)), whole)


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_a_table_without_a_row_is_summed(mechanism):
    rows = StoredRows(Scratch(), max_rows_per_unit=MOST, key=KEY)
    for first in (0, 5):
        nothing = {"word": np.zeros(0, np.int64), "code": np.zeros(0, np.int64), "x": np.zeros(0)}
        rows.add(nothing, LABELS, np.zeros(0, np.int64), first_unit=first)
    locked = rows.locked()
    assert len(locked._parts) == 1 and np.asarray(mechanism(locked)).ndim in (1, 2)


def test_the_units_that_a_training_draws_are_those_of_a_whole_table():
    unit, columns = table()
    whole = lock(columns, LABELS, unit=unit, max_rows_per_unit=MOST, key=KEY)
    asked = {"key": Key.new(2), "rate": 0.1, "rounds": 2, "steps": 2, "capacity": 100}
    found = drawn_rows(stored(unit, columns, [7, 31]), ["x", "code"], **asked)
    numbers = found._drawn.numbers  # pyright: ignore[reportOptionalMemberAccess]
    assert 5 < len(numbers) < 30 and found._drawn.units == whole._exact_units.max() + 1  # pyright: ignore
    taken = np.isin(whole._exact_units, numbers)
    np.testing.assert_array_equal(found._exact["x"], whole._exact["x"][taken])
    np.testing.assert_array_equal(numbers[found._exact_units], whole._exact_units[taken])


def test_a_partition_in_memory_is_the_same_for_another_process():
    unit, columns = table()
    for part in stored(unit, columns, [30])._parts:
        assert isinstance(part, Stored)
        held = part.held()
        assert isinstance(held, Held) and (held.first, held.span) == (part.first, part.span)
        np.testing.assert_array_equal(held.exact_units(), part.exact_units())
        np.testing.assert_array_equal(held.exact(["x"])["x"], part.exact(["x"])["x"])
