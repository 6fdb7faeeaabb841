"""Weighted sums: what one unit adds has a bounded norm, however many rows it has and however alike they are."""

import functools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ledgers import assert_is_noise, both_keys, ledger_for, tried_hard
from understudy.core.randomness import Key
from understudy.privacy import recording
from understudy.privacy.counts import noisy_counts
from understudy.privacy.fused_counts import ColumnCount, noisy_column_counts
from understudy.privacy.plan import BudgetExceeded
from understudy.privacy.row_maps import Code
from understudy.privacy.rows import PrivateRows, lock
from understudy.privacy.unit_sums import noisy_unit_counts, noisy_unit_margins, noisy_unit_moments
from understudy.privacy.unit_weights import STEPS

SHAPE = (3, 4)
TABLES = {"a": np.array([[1.0], [-2.0], [0.5]]), "b": np.array([[1.0, 0.0], [0.0, 1.0], [3.0, -3.0], [15.9, 15.9]])}
codes = arrays(np.int64, st.tuples(st.integers(1, 12), st.just(3)), elements=st.integers(-1, 4))
ASKED: dict[str, Any] = {"what": "test", "planned": "it"}


def rows_of(table, partitions=1, most=99):
    unit, a, b = np.asarray(table, np.int64).T
    return lock({"a": a, "b": b}, {}, unit=unit, max_rows_per_unit=most, key=Key.new(0), partitions=partitions)


class Exact:
    """A recorder that keeps the exact answer of a release."""

    def charged(self, charge): ...
    def drew(self, draws, scale, key): ...

    def released(self, mechanism, value, exact, noisy, limits):
        self.exact = exact
        return value


def exact_of(answer):
    """What a mechanism answers without noise, every number in units of its own noise."""
    recorder: Any = Exact()
    with recording.watched_by(recorder):
        answer()
    return recorder.exact


def counts_of(rows, bound, *, noise=1e-3, key=None):
    ledger = ledger_for(noise=noise)
    return noisy_unit_counts(rows, ["a", "b"], SHAPE, bound=bound, ledger=ledger, key=key or Key.new(0), **ASKED)


def margins_of(rows, bound, *, noise=1e-3, key=None):
    """Counts of both columns in one release, one after the other."""
    ledger, sizes = ledger_for(noise=noise), dict(zip("ab", SHAPE, strict=True))
    found = noisy_unit_margins(rows, sizes, bound=bound, ledger=ledger, key=key or Key.new(0), **ASKED)
    return np.concatenate([found["a"], found["b"]])


def column_of(rows, bound, *, noise=1e-3, key=None):
    """The second column, counted by itself with a bound."""
    row_map, ledger = Code("b", SHAPE[1], -1), ledger_for(noise=noise)
    asked = ColumnCount(row_map=row_map, bins=SHAPE[1], key=key or Key.new(0), unit_bound=bound, **ASKED)
    return noisy_column_counts(rows, [asked], ledger=ledger)[0]


def moments_of(rows, bound, given=(), *, noise=1e-3, key=None):
    ledger = ledger_for(noise=noise)
    return noisy_unit_moments(rows, TABLES, given, bound=bound, ledger=ledger, key=key or Key.new(0), **ASKED)


def answers_of(table, bound, partitions=1):
    """The exact counts and moments of a table."""
    rows = rows_of(table, partitions)
    found = [exact_of(functools.partial(moments_of, rows, bound, each)) for each in ((), ("a",), ("b",))]
    return [exact_of(functools.partial(each, rows, bound)) for each in (counts_of, margins_of, column_of)] + found


@tried_hard
@given(codes, st.floats(0.3, 20.0))
def test_a_unit_adds_no_more_than_the_bound(table, bound):
    table[:, 0] = 7
    for answer in answers_of(table, bound):
        assert np.linalg.norm(answer) <= bound


@tried_hard
@given(codes, codes, st.floats(0.3, 20.0))
def test_a_unit_more_moves_no_sum_by_more_than_the_bound(table, more, bound):
    more[:, 0] = 99  # a unit that is not there yet, of any number of rows
    with_it = np.concatenate([more[:4], table, more[4:]])
    for after, before in zip(answers_of(with_it, bound), answers_of(table, bound), strict=True):
        assert np.linalg.norm(after - before) <= bound * (1 + 1e-12)


@pytest.mark.parametrize("alike", [1, 2, 9, 400])
def test_rows_that_are_all_alike_add_the_bound_and_no_more(alike):
    table = np.tile([[5, 1, 2]], (alike, 1))
    found = exact_of(lambda: counts_of(rows_of(table, most=1000), 2.0)).sum()
    assert min(alike, 2.0) - alike / STEPS <= found <= min(alike, 2.0)


def test_units_within_the_bound_count_every_row():
    table = np.random.default_rng(0).integers(0, 3, (60, 3))
    table[:, 0] = np.arange(60) // 3
    rows = rows_of(table)
    plain = noisy_counts(rows, ["a", "b"], SHAPE, ledger=ledger_for(), key=Key.new(0), **ASKED)
    np.testing.assert_array_equal(exact_of(lambda: counts_of(rows, 3.001)), np.rint(plain).ravel())
    both = np.r_[np.rint(plain).sum(axis=1), np.rint(plain).sum(axis=0)]
    np.testing.assert_array_equal(exact_of(lambda: margins_of(rows, 4.3)), both)  # √(2 · 9) if all rows are alike
    np.testing.assert_array_equal(exact_of(lambda: column_of(rows, 3.001)), both[3:])
    x = np.c_[np.ones(60), TABLES["a"][table[:, 1]], TABLES["b"][table[:, 2]]]
    np.testing.assert_allclose(moments_of(rows, 1e3), x.T @ x, atol=6.0)


def test_products_of_two_given_columns_are_not_released():
    found = moments_of(rows_of([[1, 0, 2], [1, 1, 1]]), 1e3, ("b",))
    assert (found[2:, 2:] == 0).all() and (found[:2, :] != 0).all()


def test_codes_outside_count_nowhere():
    moments = exact_of(lambda: moments_of(rows_of([[1, -1, 4]]), 100.0))
    assert moments[0] == 1.0 and (moments[1:] == 0).all()
    assert exact_of(lambda: counts_of(rows_of([[1, -1, 2], [2, 0, 4]]), 100.0)).sum() == 0
    np.testing.assert_array_equal(
        exact_of(lambda: margins_of(rows_of([[1, -1, 2], [2, 0, 4]]), 100.0)), [1, 0, 0, 0, 0, 1, 0]
    )


@pytest.mark.parametrize("partitions", [2, 5, 40])
def test_sums_are_the_same_bits_for_any_partitions(partitions):
    table = np.random.default_rng(1).integers(0, 3, (200, 3))
    table[:, 0] = np.random.default_rng(2).integers(0, 30, 200)
    for whole, cut in zip(answers_of(table, 1.7), answers_of(table, 1.7, partitions), strict=True):
        np.testing.assert_array_equal(whole, cut)


def test_rows_whose_units_nobody_knows_are_charged_for_each():
    rows = PrivateRows({"a": np.zeros(8, np.int64), "b": np.zeros(8, np.int64)}, {}, 4)
    ledger = ledger_for()
    found = noisy_unit_counts(rows, ["a", "b"], SHAPE, bound=2.0, ledger=ledger, key=Key.new(0), **ASKED)
    assert ledger.receipt().charges[0].sensitivity == 8.0
    assert found.sum() == pytest.approx(8.0, abs=0.5)


@both_keys
def test_sums_get_the_noise_that_was_charged(key):
    rows, runs = rows_of([[1, 0, 0]]), range(400)
    counts = [counts_of(rows, 2.0, noise=3.0, key=key.child(str(i))) for i in runs]
    assert_is_noise(np.ravel(counts - counts_of(rows, 2.0)), 6.0)
    for mechanism in (margins_of, column_of):
        found = [mechanism(rows, 2.0, noise=3.0, key=key.child(str(i))) for i in runs]
        assert_is_noise(np.ravel(found - mechanism(rows, 2.0)), 6.0)
    moments = np.array([moments_of(rows, 2.0, noise=3.0, key=key.child(str(i))) for i in runs]) - moments_of(rows, 2.0)
    assert_is_noise(np.ravel(moments[:, range(4), range(4)]), 6.0)
    upper = np.triu_indices(4, 1)
    assert_is_noise(np.ravel(moments[:, upper[0], upper[1]]), 6.0 / math.sqrt(2))


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_a_bound_that_bounds_nothing_is_refused_before_anything_is_charged(bound):
    ledger = ledger_for()
    with pytest.raises(ValueError, match="bound"):
        noisy_unit_counts(rows_of([[1, 0, 0]]), ["a", "b"], SHAPE, bound=bound, ledger=ledger, key=Key.new(0), **ASKED)
    with pytest.raises(ValueError, match="bound"):
        noisy_unit_margins(rows_of([[1, 0, 0]]), {"a": 3}, bound=bound, ledger=ledger, key=Key.new(0), **ASKED)
    with pytest.raises(ValueError, match="bound"):
        column_of(rows_of([[1, 0, 0]]), bound)
    assert ledger.left("it") == 1


def test_a_spent_ledger_is_refused():
    ledger = ledger_for()
    ledger.charge("it", what="all there is", sensitivity=1.0)
    with pytest.raises(BudgetExceeded):
        noisy_unit_moments(rows_of([[1, 0, 0]]), TABLES, (), bound=1.0, ledger=ledger, key=Key.new(0), **ASKED)


@pytest.mark.parametrize("noise", [0.01, 3.0, 200.0])
@pytest.mark.parametrize("key", [Key.new(0), Key.new()], ids=["seeded", "secret"])
def test_noise_hides_the_fractions_of_weighted_sums_too(noise, key):
    """Weights are fractions: noise on whole numbers would show those of a unit in every cell that it is in."""
    table = [(1, 0, 0), (1, 0, 0), (1, 1, 2)]
    mechanisms = [each(rows_of(table), 0.7, noise=noise, key=key) for each in (counts_of, margins_of, column_of)]
    for found in (*mechanisms, moments_of(rows_of(table), 0.7, key=key)):
        steps = np.unique(found * STEPS)
        np.testing.assert_array_equal(found * STEPS * 2**20, np.rint(found * STEPS * 2**20))
        fractions = (found[found != 0] * STEPS) % STEPS
        assert len(steps) > found.size / 3 and len(np.unique(np.round(fractions, 6))) > found.size / 3
