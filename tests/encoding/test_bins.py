"""Bins never cut a value, keep rows alike together, and a value that is made from a bin lies in it."""

import functools
import itertools

import numpy as np
import pytest

from conftest import MIXED, mixed_table
from fitting import known_encoder, locked, mixed_encoder, mixed_rows
from understudy.core.randomness import Key
from understudy.encoding import best_cut, bin_rows, make_bins
from understudy.privacy.piecewise import LARGEST, Distribution
from understudy.privacy.rows import PrivateRows


@functools.cache
def bins_of(most):
    """Every column of the mixed table in about `most` bins."""
    return make_bins(mixed_encoder(), most)


@pytest.mark.parametrize("most", [2, 5, 16, 64])
@pytest.mark.parametrize("name", MIXED.names)
def test_a_column_has_no_more_bins_than_asked_for_and_one_for_each_heavy_value(name, most):
    known, cut = mixed_encoder().columns[name], bins_of(most)[name]
    if known.labels is not None:
        assert cut.size == len(known.labels) + known.column.nullable
        return
    below, above = known.distribution.atoms()
    heavy = int(np.sum(above - below >= 0.5 / most))
    assert cut.size <= most + 2 * heavy + 1 + known.column.nullable
    assert cut.edges[0] == 0.0 and cut.edges[-1] == 1.0 and np.all(np.diff(cut.edges) > 0)


@pytest.mark.parametrize("most", [2, 5, 16, 64])
@pytest.mark.parametrize("name", MIXED.names)
def test_a_value_made_from_a_code_has_that_code(name, most):
    known, cut = mixed_encoder().columns[name], bins_of(most)[name]
    draw = np.random.default_rng(0)
    code = draw.integers(0, cut.size, 2000)
    if known.labels is not None:
        edges = known.distribution.cdf
        code = code[(code >= len(edges) - 1) | (np.diff(edges)[np.minimum(code, len(edges) - 2)] > 0)]
    values = known.values(cut.level(code, draw.uniform(0.01, 0.99, len(code))))
    np.testing.assert_array_equal(cut.code(*known.levels(values)), code)


def brute_force(masses, places, most, least, alone):
    """The least variance within groups over every way to cut."""
    best, pieces = np.inf, len(masses)
    walls = {0, pieces, *np.flatnonzero(alone).tolist(), *(np.flatnonzero(alone) + 1).tolist()}
    for inner in itertools.chain.from_iterable(itertools.combinations(range(1, pieces), k) for k in range(pieces)):
        cuts = sorted({0, *inner, pieces})
        groups = [slice(a, b) for a, b in itertools.pairwise(cuts)]
        light = [masses[g].sum() < least and not {g.start, g.stop} <= walls for g in groups]
        if len(groups) <= max(most, len(walls) - 1) and walls <= set(cuts) and not any(light):
            best = min(best, variance_within(masses, places, groups))
    return best


def variance_within(masses, places, groups):
    centre = [np.average(places[:, g], axis=1, weights=masses[g]) for g in groups]
    return sum(float(np.sum(masses[g] * (places[:, g] - c[:, None]) ** 2)) for g, c in zip(groups, centre, strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_the_best_cut_is_that_of_brute_force(seed):
    draw = np.random.default_rng(seed)
    masses, places = draw.dirichlet(np.ones(9)), np.sort(draw.normal(size=(2, 9)), axis=1)
    most, least, alone = int(draw.integers(1, 6)), draw.choice([0.0, 0.1, 0.3]), draw.random(9) < draw.choice([0, 0.2])
    cuts = best_cut(masses, places, most=most, least=least, alone=alone)
    groups = [slice(a, b) for a, b in itertools.pairwise(cuts.tolist())]
    assert cuts[0] == 0 and cuts[-1] == 9 and (np.diff(cuts) > 0).all()
    expected = brute_force(masses, places, most, least, alone)
    assert variance_within(masses, places, groups) == pytest.approx(expected, abs=1e-9)


def test_a_small_group_far_from_the_rest_has_a_bin_of_its_own():
    # 4 % at 0 exactly, the rest between 60 and 100: too light for a bin of its own by mass.
    encoder = known_encoder(Distribution(np.array([0.0, 0.0, 60.0, 100.0]), np.array([0.0, 0.04, 0.04, 1.0])))
    for most in (4, 8, 12):
        assert np.abs(make_bins(encoder, most)["x"].edges - 0.04).min() < 1e-9


def test_a_column_without_tails_is_cut_evenly():
    encoder = known_encoder(Distribution(np.array([3.0, 5.0]), np.array([0.0, 1.0])))
    assert make_bins(encoder, 8)["x"].edges == pytest.approx(np.linspace(0, 1, 9), abs=1e-6)


@pytest.mark.parametrize("integer", [False, True])
def test_a_column_of_one_value_is_one_bin(integer):
    values = np.array([6.5, 7.5]) if integer else np.array([7.0, 7.0])
    assert make_bins(known_encoder(Distribution(values, np.array([0.0, 1.0]), integer)), 8)["x"].size == 1


def test_a_trace_beside_a_heavy_value_is_no_bin_of_its_own():
    values, cdf = np.array([0.0, 1.0, 1.0, 9.0]), np.array([0.0, 1e-5, 0.4, 1.0])
    edges = make_bins(known_encoder(Distribution(values, cdf)), 8)["x"].edges
    assert edges[0] == 0.0 and edges[1] == pytest.approx(0.4)


def test_the_farthest_floats_are_cut_too():
    values = np.array([-LARGEST, 0.0, 1.0, LARGEST])
    edges = make_bins(known_encoder(Distribution(values, np.array([0.0, 0.3, 0.7, 1.0]))), 8)["x"].edges
    assert np.isfinite(edges).all() and 2 <= len(edges) <= 9


@pytest.mark.parametrize("most", [2, 5, 16, 64])
def test_a_bin_never_ends_inside_a_whole_number(most):
    edges = bins_of(most)["age"].edges
    below, above = mixed_encoder().columns["age"].distribution.interval(np.arange(0.0, 121.0))
    inside = (edges[:, None] > below + 1e-12) & (edges[:, None] < above - 1e-12)
    assert not inside.any()


# Rows of codes.


def test_codes_are_made_row_by_row():
    table = mixed_table(2000)
    keep = np.flatnonzero((table["city"] != "Bonn").to_numpy())[::3]
    whole = bin_rows(mixed_rows(), mixed_encoder(), bins_of(16), key=Key.new(0))
    part = bin_rows(locked(table[keep], MIXED), mixed_encoder(), bins_of(16), key=Key.new(0))
    for name in MIXED.names:
        np.testing.assert_array_equal(part._exact[name], whole._exact[name][keep])


@pytest.mark.parametrize("name", ["age", "income", "colour"])
def test_codes_of_groups_are_the_groups_of_codes(name):
    bins = {name: bins_of(16)[name]}
    groups = np.arange(bins[name].size) // 2
    fine = bin_rows(mixed_rows(), mixed_encoder(), bins, key=Key.new(0))
    grouped = bin_rows(mixed_rows(), mixed_encoder(), bins, groups={name: groups}, key=Key.new(0))
    assert fine.names == grouped.names == (name,)
    np.testing.assert_array_equal(grouped._exact[name], groups[fine._exact[name]])


def test_missing_values_that_the_schema_rules_out_are_spread_over_the_bins():
    rows, bins = PrivateRows({"weight": np.full(20_000, np.nan)}, {}, 1), {"weight": bins_of(8)["weight"]}
    codes = bin_rows(rows, mixed_encoder(), bins, key=Key.new(0))._exact["weight"]
    shares = np.bincount(codes, minlength=bins["weight"].size) / 20_000
    np.testing.assert_allclose(shares, np.diff(bins["weight"].edges), atol=0.02)
