"""Counting mechanisms: cells get their noise, no unit moves more than it may, and a lone category stays unnamed."""

import copy
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ledgers import KEYS, assert_is_noise, both_keys, ledger_for, locked, named, tried_hard
from understudy.core.randomness import Key
from understudy.privacy.counts import noisy_counts, noisy_row_count, popular_categories, threshold
from understudy.privacy.exact_counts import ExactCodes
from understudy.privacy.plan import lattice
from understudy.privacy.rows import PrivateRows, lock

ODD = [-1.0, -3.0, 2.0**62, -(2.0**62), 1e300, float("nan"), float("inf"), -float("inf"), 0.5]
codes = st.one_of(st.integers(0, 5).map(float), st.sampled_from(ODD))


def count(rows, shape, groups=(), columns=None):
    """Counts with so little noise that rounding removes it."""
    how = {"what": "cells", "planned": "it", "ledger": ledger_for(noise=1e-3), "key": Key.new(0)}
    return np.rint(noisy_counts(rows, columns or list("ab")[: len(shape)], shape, groups=groups, **how))


# Noise.


@both_keys
@pytest.mark.parametrize("m", [1, 3])
def test_every_cell_gets_the_noise_that_was_charged_empty_ones_too(key, m):
    rows = locked(m, c=np.zeros(100, dtype=np.int64))
    ledger = ledger_for(noise=2.5)
    counts = noisy_counts(rows, ["c"], [3000], what="cells", planned="it", ledger=ledger, key=key)
    assert_is_noise(counts[1:], 2.5 * m)
    assert np.abs(counts[1:]).min() < m and len(np.unique(counts)) > 100
    assert abs(counts[0] - 100) < 6 * 2.5 * m


# Sensitivity.


@tried_hard
@given(st.lists(st.tuples(codes, codes), min_size=1, max_size=12), st.integers(1, 4), st.booleans(), st.data())
def test_a_unit_moves_counts_by_no_more_than_its_rows(others, m, grouped, data):
    one = st.tuples(codes, codes)
    unit = data.draw(st.one_of(st.lists(one, max_size=m), one.map(lambda row: [row] * m)))
    groups = (np.array([0, 1, 0, 1]), np.array([2, 1, 0, 0, 1])) if grouped else ()
    without, with_unit = (
        locked(m, **dict(zip("ab", np.array(table).T, strict=True))) for table in (others, [*others, *unit])
    )
    change = count(with_unit, [3, 4], groups) - count(without, [3, 4], groups)
    assert np.linalg.norm(change) <= m
    assert count_rows(with_unit) - count_rows(without) == len(unit)


def count_rows(rows):
    return np.rint(noisy_row_count(rows, planned="it", ledger=ledger_for(), key=Key.new(0)))


@tried_hard
@given(st.lists(st.tuples(codes, codes), min_size=1, max_size=8), st.tuples(codes, codes))
def test_a_row_moves_one_cell_of_a_marginal_by_one(others, row):
    def cells(pairs):
        a, b = np.array(pairs).T
        return count(locked(a=a, b=b), [3, 4])

    change = cells([*others, row]) - cells(others)
    inside = 0 <= row[0] < 3 and 0 <= row[1] < 4
    assert np.abs(change).sum() == inside
    assert not inside or change[int(row[0]), int(row[1])] == 1


# Exact counts.


def test_exact_marginals_are_those_of_brute_force():
    draw = np.random.default_rng(1)
    for _ in range(50):
        columns = {name: draw.integers(-1, 4, 20) for name in "abc"}
        exact = ExactCodes(locked(**columns)._exact).marginal("abc", (3, 4, 2))
        for cell in itertools.product(range(3), range(4), range(2)):
            assert exact[cell] == sum(row == cell for row in zip(*columns.values(), strict=True))


def test_coarse_counts_are_sums_of_fine_ones():
    draw = np.random.default_rng(0)
    rows = locked(a=draw.integers(-1, 6, 300), b=draw.integers(-1, 8, 300))
    groups = np.array([0, 0, 1, 1, 1]), np.array([2, 0, 1, 1, 0, 2, 2])
    fine, coarse = count(rows, [5, 7]), count(rows, [2, 3], groups)
    summed = np.zeros((2, 3))
    for i, j in np.ndindex(5, 7):
        summed[groups[0][i], groups[1][j]] += fine[i, j]
    np.testing.assert_array_equal(coarse, summed)


@pytest.mark.parametrize(
    "groups",
    [
        (np.array([0, 1]),),
        (np.array([0, 3]), np.array([0])),
        (np.array([-1, 0]), np.array([0])),
        (np.array([0.0, 1.0]), np.array([0])),
        (np.zeros((2, 2), int), np.array([0])),
        (np.zeros(0, int), np.array([0])),
    ],
)
def test_groups_that_do_not_fit_are_refused_before_anything_is_charged(groups):
    ledger = ledger_for()
    with pytest.raises(ValueError, match="noisy_counts"):
        noisy_counts(locked(), ["a", "b"], [3, 4], groups=groups, what="", planned="it", ledger=ledger, key=Key.new(0))
    assert ledger.left("it") == 1


# Categories.


def name_categories(rows, **how):
    return popular_categories(rows, "c", what="categories", planned="it", **how)


def exact_tail(sigma, t):
    """P(noise >= t) for discrete Gaussian noise on its lattice, summed term by term."""
    s = sigma * lattice(sigma)
    k = np.arange(-int(14 * s), int(14 * s) + 1)
    mass = np.exp(-(k.astype(float) ** 2) / (2 * s**2))
    return mass[k >= t * lattice(sigma) - 1e-9].sum() / mass.sum()


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 7.7, 33.0, 400.0])
@pytest.mark.parametrize("delta", [0.4, 0.05, 1e-3, 1e-6, 1e-10])
def test_the_threshold_is_passed_with_probability_at_most_delta(sigma, delta):
    t = threshold(sigma, delta)
    assert exact_tail(sigma, t) <= delta
    assert exact_tail(sigma, t - 3 / lattice(sigma)) > delta  # and not far above what is needed


def share_of_fits_that_name(rows, wanted, *, noise, threshold_delta, tries, key=KEYS["seeded"]):
    ledger = ledger_for("gaussian threshold", noise=noise, threshold_delta=threshold_delta)
    hits = 0
    for i in range(tries):
        labels, _ = name_categories(rows, ledger=copy.deepcopy(ledger), key=key.child(str(i)))
        hits += bool(wanted & set(labels))
    return hits / tries


# `make test-all` tries more often, and sees a smaller excess.
few_or_many = pytest.mark.parametrize("tries", [250, pytest.param(2000, marks=pytest.mark.slow)])
LONERS = {
    "one row": ({"loner"}, [0] * 50 + [1], ["crowd", "loner"], 1),
    "all rows of a unit": ({"loner"}, [0] * 50 + [1] * 3, ["crowd", "loner"], 3),
    "a category for each row": ({"x", "y", "z"}, [0] * 50 + [1, 2, 3], ["crowd", "x", "y", "z"], 3),
}


@pytest.mark.parametrize(("loners", "rows", "labels", "m"), LONERS.values(), ids=LONERS)
@pytest.mark.parametrize("noise", [0.2, 3.0])
@few_or_many
def test_what_one_unit_alone_holds_is_named_with_probability_at_most_delta(loners, rows, labels, m, noise, tries):
    share = share_of_fits_that_name(named(labels, rows, m), loners, noise=noise, threshold_delta=0.05, tries=tries)
    assert stats.binomtest(round(tries * share), tries, 0.05, alternative="greater").pvalue > 1e-6


@pytest.mark.slow
@both_keys
def test_a_loner_is_named_about_as_often_as_the_threshold_allows(key):
    rows = named(["crowd", "loner"], [0] * 50 + [1])
    share = share_of_fits_that_name(rows, {"loner"}, noise=3.0, threshold_delta=0.05, tries=2000, key=key)
    assert stats.binomtest(round(2000 * share), 2000, 0.05, alternative="greater").pvalue > 1e-6
    assert share > 0.025


def test_categories_of_rows_that_were_left_out_are_never_named():
    # One unit with 1000 rows, each of a category of its own; one row is locked. Were the other labels counted too, with
    # nothing but noise, the unit would be seen with probability near 1000 delta.
    labels = ["crowd", *(f"own {i:04}" for i in range(1000))]
    unit = np.r_[np.arange(40), np.full(1000, 40)]
    codes_ = np.r_[np.zeros(40, dtype=np.int64), np.arange(1, 1001)]
    rows = lock({"c": codes_}, {"c": labels}, unit=unit, max_rows_per_unit=1, key=Key.new(0))
    share = share_of_fits_that_name(rows, set(labels[1:]), noise=4.0, threshold_delta=1e-3, tries=300)
    assert share <= 0.02


def test_frequent_categories_are_named_with_counts_near_the_truth():
    rows = named(["a", "b", "rare"], [0] * 300 + [1] * 200 + [2])
    ledger = ledger_for("gaussian threshold", noise=2.0, delta=1e-3, threshold_delta=1e-6)
    labels, counts = name_categories(rows, ledger=ledger, key=Key.new(0))
    assert labels == ["a", "b"]
    np.testing.assert_allclose(counts, [300, 200], atol=12)


def of_units(labels, codes, units, m):
    return PrivateRows({"c": np.asarray(codes)}, {"c": labels}, m, np.asarray(units))


def test_a_unit_counts_once_in_each_of_its_categories():
    """Brute force: the counts are those of units, and they move by at most sqrt(m) when a unit goes."""
    draw, labels = np.random.default_rng(3), ["a", "b", "c", "d"]
    for _ in range(60):
        units, codes = np.sort(draw.integers(0, 5, 12)), draw.integers(-1, 4, 12)
        m = int(np.bincount(units).max())
        pairs = {(u, c) for u, c in zip(units, codes, strict=True) if c >= 0}
        counts = {
            left: np.array([sum(c == i and u != left for u, c in pairs) for i in range(4)]) for left in range(-1, 5)
        }
        for left in range(5):
            assert ((counts[-1] - counts[left]) ** 2).sum() <= m
        ledger = ledger_for("gaussian threshold", noise=1e-3, threshold_delta=0.4)
        found, noisy = name_categories(of_units(labels, codes, units, m), ledger=ledger, key=KEYS["seeded"])
        seen = dict(zip(found, np.rint(noisy).astype(int), strict=True))
        assert seen == {label: n for label, n in zip(labels, counts[-1], strict=True) if n > 1}


def test_the_charge_for_units_is_the_square_root_of_their_rows():
    ledger = ledger_for("gaussian threshold", noise=2.0, threshold_delta=0.05)
    name_categories(of_units(["a"], [0] * 8, [0, 0, 0, 0, 1, 1, 1, 1], 4), ledger=ledger, key=KEYS["seeded"])
    assert ledger.receipt().charges[0].sensitivity == 2.0


LONE_UNITS = {"one category": [1, 1, 1, 1], "four categories": [1, 2, 3, 4]}


@pytest.mark.parametrize("own", LONE_UNITS.values(), ids=LONE_UNITS)
@pytest.mark.parametrize("noise", [0.2, 3.0])
@few_or_many
def test_what_one_unit_of_many_rows_alone_holds_is_named_with_probability_at_most_delta(own, noise, tries):
    rows = of_units(["crowd", "w", "x", "y", "z"], [0] * 50 + own, [*range(50), 50, 50, 50, 50], 4)
    share = share_of_fits_that_name(rows, set("wxyz"), noise=noise, threshold_delta=0.05, tries=tries)
    assert stats.binomtest(round(tries * share), tries, 0.05, alternative="greater").pvalue > 1e-6


PUBLIC = [f"p{i}" for i in range(40)]


def test_public_categories_are_named_by_their_noisy_counts_alone():
    """A category that nobody has is counted like any other, so that its absence tells nothing."""
    rows = of_units(["p3", "own"], [0] * 60 + [1] * 2, range(62), 1)
    ledger, named_by_chance, seen = ledger_for("gaussian threshold", noise=10.0, threshold_delta=1e-6), 0, 0
    for i in range(400):
        own, key = copy.deepcopy(ledger), KEYS["seeded"].child(str(i))
        found, _ = name_categories(rows, ledger=own, key=key, public=PUBLIC)
        assert "own" not in found
        named_by_chance += bool(set(found) - {"p3"})
        seen += "p3" in found
    assert stats.binomtest(named_by_chance, 400, 0.1, alternative="greater").pvalue > 1e-6
    assert named_by_chance > 10 and seen > 380


def test_a_public_list_changes_nothing_for_private_categories():
    rows = of_units(["a", "b"], [0] * 30 + [1] * 40, range(70), 1)
    how = {"ledger": ledger_for("gaussian threshold", noise=1e-3, threshold_delta=0.4), "key": KEYS["seeded"]}
    found, counts = name_categories(rows, **how, public=["b", "c"])
    assert found == ["b", "a"] and np.rint(counts).tolist() == [40, 30]
