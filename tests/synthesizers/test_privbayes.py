"""PrivBayes: the candidates and how they are described, the shrinkage, and networks that are found again."""

import dataclasses
import itertools
import math
import time

import numpy as np
import polars as pl
import pytest

import understudy
from conftest import MIXED, mixed_table
from understudy import encoding, pipeline
from understudy.core.randomness import Key
from understudy.encoding.columns import CategoricalEncoder
from understudy.encoding.encoder import Encoder
from understudy.evaluation.structure import compare
from understudy.graphical.marginals import z_scores
from understudy.privacy.exact_counts import ExactCodes
from understudy.privacy.ledger import Ledger
from understudy.privacy.piecewise import Distribution
from understudy.privacy.plan import Budget
from understudy.privacy.rows import lock
from understudy.synthesizers.privbayes.method import PrivBayes
from understudy.synthesizers.privbayes.tables import prune_parents, shrunk
from understudy.synthesizers.privbayes.views import (
    Candidate,
    View,
    described,
    even_sizes,
    groups_of,
    value_weights,
)
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.table import read

# Candidates -------------------------------------------------------------------------------------------------------


def random_views(draw, sizes):
    encoder = discrete_encoder(sizes, draw)
    cut = encoding.make_bins(encoder, 16)
    return {name: View.of(cut[name], encoder, name, z_scores(encoder, cut)[name]) for name in cut}


def discrete_encoder(sizes, draw):
    columns, maps = [], {}
    for name, size in sizes.items():
        nullable = bool(draw.random() < 0.5)
        column = Column(name=name, kind="categorical", values=tuple(f"v{i}" for i in range(size)), nullable=nullable)
        cdf = np.concatenate([[0.0], np.cumsum(draw.dirichlet(np.ones(size)))])
        cdf[-1] = 1.0
        known = Distribution(np.arange(size + 1.0) - 0.5, cdf, integer=True)
        maps[name] = CategoricalEncoder(column, known, 0.1 * nullable, column.labels or ())
        columns.append(column)
    return Encoder(Schema(columns=tuple(columns)), maps, 30.0)


def with_random_z(views, draw):
    return {name: dataclasses.replace(view, z=draw.uniform(0, 4, len(view.z))) for name, view in views.items()}


def test_candidates_are_described_as_they_would_be_counted():
    draw = np.random.default_rng(0)
    views = with_random_z(random_views(draw, {"a": 3, "b": 5, "c": 2, "d": 4}), draw)
    method = PrivBayes()
    offered = method.candidates(views, ["c", "d"], ["a", "b"], useful_cells=60.0, draw=draw)
    assert max(len(candidate.parents) for candidate in offered) == 2
    for candidate, weights, offset in method.scored(views, offered, noise=3.0, rows=500.0):
        found = described(views, candidate, weights, offset)
        assert found.columns == (*candidate.parents, candidate.column) and found.shape == candidate.shape
        assert all(
            group is views[n].groups[s] for group, n, s in zip(found.groups, found.columns, found.shape, strict=True)
        )
        assert found.sensitivity == pytest.approx(2 * weights[0].max() * weights[1].max())
        assert (offset > 0) == bool(candidate.parents)


def test_the_expected_error_is_that_of_noise_and_sampling():
    draw = np.random.default_rng(0)
    rows, cells, noise = 4000, 40, 7.0
    counts = draw.multinomial(rows, np.full(cells, 1 / cells), 3000) + draw.normal(0, noise, (3000, cells))
    seen = 0.5 * np.abs(counts - rows / cells).sum(1).mean()
    assert PrivBayes().expected_error(np.array([cells]), noise, rows)[0] == pytest.approx(seen, rel=0.02)


# Bins, fine and coarse ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def encoded():
    budget = Budget(epsilon=3.0, delta=1e-6)
    ledger = Ledger(budget, pipeline.planned_mechanisms(MIXED, PrivBayes(), budget))
    table = read(mixed_table(1500), MIXED)
    rows = lock(table.columns, table.labels, key=Key.new(0))
    encoder = encoding.fit_encoder(rows, MIXED, ledger=ledger, key=Key.new(0))
    bins = encoding.make_bins(encoder, 32)
    z = z_scores(encoder, bins)
    views = {name: View.of(bins[name], encoder, name, z[name]) for name in bins}
    return encoder, bins, views, encoding.bin_rows(rows, encoder, bins, key=Key.new(0))


@pytest.mark.parametrize("name", MIXED.names)
def test_groups_are_whole_and_missing_values_stay_apart(encoded, name):
    encoder, cut, views, _ = encoded
    view = views[name]
    assert view.sizes[-1] == cut[name].size and view.masses.sum() == pytest.approx(1.0)
    for size, group in view.groups.items():
        assert len(group) == cut[name].size and set(group.tolist()) == set(range(size))
        if cut[name].nullable:
            assert (group == group[-1]).sum() == 1
        if encoder.columns[name].labels is None:
            assert (np.diff(group) >= 0).all()


@pytest.mark.parametrize("name", MIXED.names)
def test_a_coarse_marginal_is_filled_in_to_the_fine_one(encoded, name):
    _, _, views, _ = encoded
    view = views[name]
    for size, group in view.groups.items():
        coarse = np.asarray(np.bincount(group, view.masses, size), np.float64)
        assert np.allclose(view.filled_in(coarse, size), view.masses)


def test_coarse_counts_are_sums_of_fine_ones(encoded):
    _, bins, views, coded = encoded
    candidate = Candidate("age", views["age"].sizes[1], ("colour",), (views["colour"].sizes[0],))
    groups = groups_of(views, candidate)
    coarse = ExactCodes(coded._exact).marginal(candidate.columns, candidate.shape, groups)
    fine = ExactCodes(coded._exact).marginal(candidate.columns, [bins[name].size for name in candidate.columns])
    summed = np.zeros(candidate.shape)
    np.add.at(summed, np.ix_(*groups), fine)
    np.testing.assert_array_equal(coarse, summed)
    assert coarse.sum() == 1500


def test_the_weight_of_parents_stands_where_their_codes_do():
    draw = np.random.default_rng(3)
    views = with_random_z(random_views(draw, {"a": 3, "b": 4, "c": 2}), draw)
    sizes = tuple(len(views[name].z) for name in ("a", "b"))
    across, along = value_weights(views, Candidate("c", len(views["c"].z), ("a", "b"), sizes))
    for i, j in np.ndindex(sizes):
        assert across[i * sizes[1] + j] == pytest.approx(max(views["a"].z[i], views["b"].z[j]))
    assert np.allclose(along, views["c"].z)


@pytest.mark.parametrize("limit", [1.5, 4, 13, 50, 400])
def test_sizes_fit_into_the_room_and_none_could_be_left_out_for_nothing(limit):
    choices = [[2, 3, 4, 6, 8], [2], [2, 4, 16], [3, 5]]
    for count in range(1, 5):
        some = choices[:count]
        sizes = even_sizes(some, limit)
        fitting = [s for s in itertools.product(*some) if math.prod(s) <= limit]
        if sizes is None:
            assert math.prod(min(c) for c in some) > limit / 2 or not fitting
        else:
            assert sizes in fitting


@pytest.mark.parametrize(("columns", "placed"), [(3, 1), (8, 5), (30, 20), (120, 60)])
def test_candidates_are_sound_and_bounded(columns, placed):
    draw = np.random.default_rng(0)
    views = random_views(draw, {f"c{i}": int(draw.integers(2, 12)) for i in range(columns)})
    names, method, limit = list(views), PrivBayes(most_candidates=2000), 100.0
    offered = method.candidates(
        views, names[placed:], names[:placed], useful_cells=limit, draw=np.random.default_rng(1)
    )
    assert len(offered) <= 2 * 2000
    assert {candidate.column for candidate in offered} == set(names[placed:])
    for candidate in offered:
        assert set(candidate.parents) <= set(names[:placed]) and len(set(candidate.parents)) == len(candidate.parents)
        assert not candidate.parents or candidate.size * math.prod(candidate.sizes) <= limit
    again = method.candidates(views, names[placed:], names[:placed], useful_cells=limit, draw=np.random.default_rng(1))
    assert offered == again


# Tables -------------------------------------------------------------------------------------------------------------


def test_without_noise_large_counts_are_their_own_shares():
    counts = np.random.default_rng(0).dirichlet(np.ones(4), (3, 2)) * 1e7
    found = shrunk(counts, np.full(4, 0.25), 0.0)
    assert np.allclose(found, counts / counts.sum(-1, keepdims=True), atol=1e-4)


def test_noise_alone_leaves_the_marginal():
    draw = np.random.default_rng(0)
    marginal = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
    truth = np.full((6, 4, 1), 5.0) * marginal
    found = shrunk(truth + draw.normal(0, 200, (6, 4, 5)), marginal, 200.0)
    assert np.abs(found - marginal).mean() < 0.12
    assert np.allclose(found.sum(-1), 1) and (found >= 0).all()


def test_shrinking_is_nearer_to_the_truth_than_the_counts():
    draw = np.random.default_rng(0)
    first = draw.dirichlet(np.full(8, 2.0), 5)
    truth = np.repeat(first[:, None, :], 4, axis=1)  # the second parent says nothing
    counts = 100 * truth
    noisy = counts + draw.normal(0, 15, counts.shape)
    plain = np.maximum(noisy, 0) / np.maximum(noisy, 0).sum(-1, keepdims=True)
    found = shrunk(noisy, truth.mean((0, 1)), 15.0)
    assert np.abs(found - truth).sum() < 0.7 * np.abs(plain - truth).sum()


@pytest.mark.parametrize("noise", [0.01, 20.0])
def test_a_parent_that_says_nothing_is_pruned_and_others_are_not(noise):
    draw = np.random.default_rng(0)
    given = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    parity = given[(np.arange(2)[:, None] + np.arange(2)) % 2]  # neither parent says anything alone
    for truth, expected in ((np.repeat(given[:, None], 2, 1), [4]), (parity, [4, 7])):
        counts = draw.poisson(2000 * truth) + draw.normal(0, noise, truth.shape)
        left, kept, left_noise = prune_parents(counts, [4, 7], np.full(3, 1 / 3), noise)
        assert kept == expected and left.ndim == len(kept) + 1
        assert left_noise == pytest.approx(noise * math.sqrt(counts.size / left.size))


def test_sampling_alone_seldom_keeps_a_parent():
    draw = np.random.default_rng(0)
    marginal = draw.dirichlet(np.ones(6))
    kept = [
        len(prune_parents(draw.poisson(50 * marginal, (8, 6)) + draw.normal(0, 9, (8, 6)), [0], marginal, 9.0)[1])
        for _ in range(200)
    ]
    assert sum(kept) <= 6


@pytest.mark.parametrize("counts", [np.full((2, 3), -1e6), np.zeros((2, 2, 3)), np.array([1e100, -1e100, 0.0])])
def test_hopeless_counts_give_distributions_still(counts):
    found = shrunk(counts, np.array([0.2, 0.3, 0.5]), 1.0)
    assert np.isfinite(found).all() and np.allclose(found.sum(-1), 1)


# The whole ----------------------------------------------------------------------------------------------------------


def test_a_plan_is_the_whole_rest_and_all_of_it_is_charged(mixed):
    method = PrivBayes(encoding_share=0.4, choice_share=0.3)
    for schema in (MIXED, Schema(columns=(MIXED["age"],))):
        assert sum(planned.share for planned in method.plan(schema)) == pytest.approx(0.6)
        model = understudy.fit(mixed.select(schema.names), schema, method, epsilon=1.0, seed=0)
        assert model.receipt.not_released == 0


TRUTH = {"a": [], "b": ["a"], "c": ["a"], "d": ["b"], "e": ["c"], "f": ["c"]}


def known_network(n=20_000, seed=0):
    """A tree over columns of two and three values."""
    draw = np.random.default_rng(seed)
    sizes = {"a": 3, "b": 2, "c": 3, "d": 3, "e": 2, "f": 3}
    columns = {}
    for name, parents in TRUTH.items():
        own = draw.random(n) * sizes[name]
        if parents:
            parent = parents[0]
            kept = draw.random(n) < 0.6
            own = np.where(kept, columns[parent] * sizes[name] / sizes[parent] + 0.5, own)
        columns[name] = np.minimum(own.astype(int), sizes[name] - 1)
    schema = Schema(
        columns=tuple(Column(name=name, kind="integer", low=0, high=size - 1) for name, size in sizes.items())
    )
    return pl.DataFrame(columns), schema


@pytest.mark.parametrize("seed", range(2))
def test_a_known_network_is_found_again(seed):
    frame, schema = known_network(seed=seed)
    parents = understudy.fit(frame, schema, PrivBayes(), epsilon=1e4, seed=seed).parents
    assert compare(parents, TRUTH).skeleton_f1 == 1.0


def test_at_a_huge_epsilon_pairs_are_as_near_as_a_sample():
    draw = np.random.default_rng(0)
    n, names = 10_000, list("abcde")
    z = draw.standard_normal((n, 2))
    frame = pl.DataFrame(
        {
            name: np.digitize(z @ draw.standard_normal(2) + 0.5 * draw.standard_normal(n), [-1.5, -0.4, 0.3, 1.2])
            for name in names
        }
    )
    schema = Schema(columns=tuple(Column(name=name, kind="integer", low=0, high=4) for name in names))
    drawn = understudy.fit(frame, schema, PrivBayes(), epsilon=1e6, seed=0).sample(n, seed=0)
    resampled = frame.sample(n, with_replacement=True, seed=1)

    def mean_distance(other):
        found = []
        for pair in itertools.combinations(names, 2):
            tables = [np.histogram2d(*(f[c].to_numpy() for c in pair), bins=np.arange(6))[0] for f in (frame, other)]
            found.append(np.abs(tables[0] - tables[1]).sum() / 2 / n)
        return np.mean(found)

    assert mean_distance(drawn) <= mean_distance(resampled) + 0.02


@pytest.mark.parametrize(
    ("setting", "value"),
    [("theta", 0.0), ("caution", -1.0), ("degree", 0), ("most", 1), ("choice_share", 1.0), ("most_candidates", 1.5)],
)
def test_settings_out_of_range_are_refused(setting, value):
    with pytest.raises(ValueError, match=rf"PrivBayes.{setting}: expected"):
        dataclasses.replace(PrivBayes(), **{setting: value})


@pytest.mark.slow
def test_a_hundred_columns_are_fitted_within_a_minute():
    draw = np.random.default_rng(0)
    frame = pl.DataFrame({f"c{i}": draw.normal(size=1000) for i in range(100)})
    schema = Schema(columns=tuple(Column(name=name, kind="continuous", low=-9, high=9) for name in frame.columns))
    start = time.perf_counter()
    understudy.fit(frame, schema, PrivBayes(), epsilon=1.0, seed=0)
    assert time.perf_counter() - start < 60
