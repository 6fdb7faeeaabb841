"""Counts of many columns in one pass: those of each by itself, and as many passes as rounds."""

import numpy as np
import pytest

from understudy import encoding
from understudy.core.randomness import Key
from understudy.privacy.counts import noisy_counts
from understudy.privacy.fused_counts import ColumnCount, noisy_column_counts
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget, BudgetExceeded, PlannedMechanism
from understudy.privacy.row_maps import Code, ValueBin
from understudy.privacy.rows import lock, lock_readers
from understudy.privacy.sums import LocalEngine
from understudy.tables.column import Column
from understudy.tables.schema import Schema

EDGES = np.array([-np.inf, -1.0, 0.0, 0.5, np.inf])
DRAW = np.random.default_rng(0)
EXACT = {"x": np.append(DRAW.standard_normal(60), np.nan), "c": DRAW.integers(-1, 4, 61)}


class Reader:
    """Rows of `EXACT`, read when they are asked for."""

    def __init__(self, first, end):
        self.rows, self.own = end - first, slice(first, end)

    def read(self, names):
        return {name: EXACT[name][self.own] for name in names}

    def read_units(self, seeds):
        raise NotImplementedError


class Passes(LocalEngine):
    """Counts passes over the rows."""

    def __init__(self):
        self.made = 0

    def each(self, parts, task):
        self.made += 1
        return super().each(parts, task)


def ledger():
    plan = [PlannedMechanism(name="count", mechanism="discrete gaussian", share=1.0, times=2)]
    return Ledger(Budget(epsilon=1.0, delta=1e-6), plan, seed=1)


def in_memory():
    return lock(EXACT, {}, key=Key.new(0))


def in_partitions(engine=None):
    readers = [Reader(0, 7), Reader(7, 40), Reader(40, 61)]
    return lock_readers(readers, tuple(EXACT), {}, key=Key.new(0), engine=engine)


def asked():
    return [
        ColumnCount(row_map=ValueBin("x", EDGES), bins=5, what="x", planned="count", key=Key.new(5).child("x")),
        ColumnCount(row_map=Code("c", 3, -1), bins=3, what="c", planned="count", key=Key.new(5).child("c")),
    ]


@pytest.mark.parametrize("rows", [in_memory(), in_partitions()], ids=["in memory", "in partitions"])
def test_counts_and_charges_are_those_of_each_column_by_itself(rows):
    together, alone = ledger(), ledger()
    found = noisy_column_counts(rows, asked(), ledger=together)
    for one, each in zip(found, asked(), strict=True):
        given = {"what": each.what, "planned": each.planned, "key": each.key}
        other = noisy_counts(rows.derive({"b": each.row_map}), ["b"], [each.bins], ledger=alone, **given)
        np.testing.assert_array_equal(one, other)
    assert together.receipt().charges == alone.receipt().charges and together.released == 2


def test_nothing_is_read_that_is_not_charged():
    passes, book = Passes(), ledger()
    rows = in_partitions(passes)
    noisy_column_counts(rows, asked()[:1], ledger=book)
    with pytest.raises(BudgetExceeded):
        noisy_column_counts(rows, asked(), ledger=book)
    assert passes.made == 1 and noisy_column_counts(rows, [], ledger=book) == []


def test_an_encoder_passes_once_over_the_rows_for_each_of_its_rounds():
    passes, budget = Passes(), Budget(epsilon=1.0, delta=1e-6)
    labels = ("a", "b", "c", "d")
    columns = (Column(name="x", kind="continuous"), Column(name="c", kind="categorical", values=labels))
    schema = Schema(columns=columns)
    book = Ledger(budget, encoding.plan(schema, share=1.0, delta=budget.delta), seed=1)
    encoding.fit_encoder(in_partitions(passes), schema, ledger=book, key=Key.new(0))
    assert passes.made == 3
