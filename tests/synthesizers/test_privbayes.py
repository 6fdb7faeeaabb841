"""PrivBayes: the score's sensitivity, the candidates, the shrinkage, and networks that are found again."""

import dataclasses
import itertools
import math
import time
from typing import Any

import numpy as np
import polars as pl
import pytest

import understudy
from conftest import MIXED, mixed_table
from understudy import pipeline
from understudy.core.randomness import Key
from understudy.encoding import encoder as encoding
from understudy.encoding.distributions import Distribution
from understudy.encoding.encoder import ColumnMap, Encoder
from understudy.evaluation.structure import compare
from understudy.graphical.marginals import deviations
from understudy.privacy.accounting import Budget
from understudy.privacy.ledger import Ledger
from understudy.privacy.rows import lock
from understudy.synthesizers.privbayes import (
    SENSITIVITY,
    Candidate,
    Coarse,
    PrivBayes,
    View,
    accents,
    borne_out,
    dependence,
    even_sizes,
    scores,
    shrunk,
)
from understudy.tables.schema import Column, Schema
from understudy.tables.table import read

# The score ----------------------------------------------------------------------------------------------------------


def changes(counts, across: Any = 1.0, along: Any = 1.0):
    """What one more row, in each cell, does to the score, and what the proof allows it to do."""
    n = counts.sum()
    before = dependence(counts, across, along)
    for a, b in np.ndindex(counts.shape):
        more = counts.copy()
        more[a, b] += 1
        p, q = (counts.sum(1)[a] / n, counts.sum(0)[b] / n) if n else (0.0, 0.0)
        yield abs(dependence(more, across, along) - before), 2 * n / (n + 1) * (1 - p) * (1 - q)


@pytest.mark.parametrize(("shape", "most"), [((2, 2), 5), ((2, 3), 2), ((3, 3), 1), ((2, 4), 1), ((1, 3), 3)])
def test_no_row_added_or_removed_moves_the_score_by_more_than_stated(shape, most):
    # Every table with cells of 0 to `most`, every cell a row may come to: removing it is the same pair the other way.
    for flat in itertools.product(range(most + 1), repeat=math.prod(shape)):
        for change, allowed in changes(np.array(flat, float).reshape(shape)):
            assert change <= allowed + 1e-9 <= SENSITIVITY + 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_accents_move_the_score_by_no_more_than_the_largest_of_them(seed):
    draw = np.random.default_rng(seed)
    across, along = draw.uniform(0, 4, 3), draw.uniform(0, 4, 4)
    for counts in (draw.integers(0, 9, (3, 4)), draw.integers(0, 2, (3, 4)), np.zeros((3, 4))):
        for change, allowed in changes(counts.astype(float), across, along):
            assert change <= allowed * across.max() * along.max() + 1e-9


def test_the_stated_sensitivity_is_nearly_reached():
    counts = np.diag([60.0, 0.0])
    assert max(change for change, _ in changes(counts)) > 0.98 * SENSITIVITY - 0.01


def test_large_random_tables_do_not_break_the_bound():
    draw = np.random.default_rng(0)
    for _ in range(60):
        counts = draw.poisson(draw.gamma(0.3, 20, (4, 5))).astype(float)
        assert all(change <= allowed + 1e-6 for change, allowed in changes(counts))


def test_the_score_is_that_of_the_definition():
    draw = np.random.default_rng(1)
    x, y = draw.integers(0, 3, 50), draw.integers(0, 2, 50)
    joint = np.array([[np.mean((x == i) & (y == j)) for j in range(2)] for i in range(3)])
    distance = 0.5 * np.abs(joint - np.outer(joint.sum(1), joint.sum(0))).sum()
    assert dependence(joint * 50) == pytest.approx(50 * distance)


def random_views(draw, sizes):
    encoder = discrete_encoder(sizes, draw)
    cut = encoding.make_bins(encoder, 16)
    return {name: View.of(cut[name], encoder, name, deviations(encoder, cut)[name]) for name in cut}


def discrete_encoder(sizes, draw):
    columns, maps = [], {}
    for name, size in sizes.items():
        nullable = bool(draw.random() < 0.5)
        column = Column(name=name, kind="categorical", values=tuple(f"v{i}" for i in range(size)), nullable=nullable)
        cdf = np.concatenate([[0.0], np.cumsum(draw.dirichlet(np.ones(size)))])
        cdf[-1] = 1.0
        known = Distribution(np.arange(size + 1.0) - 0.5, cdf, integer=True)
        maps[name] = ColumnMap(column, known, 0.1 * nullable, column.labels)
        columns.append(column)
    return Encoder(Schema(columns=tuple(columns)), maps, 30.0)


@pytest.mark.parametrize("seed", range(5))
def test_neighbouring_tables_score_every_candidate_alike(seed):
    draw = np.random.default_rng(seed)
    views = random_views(draw, {"a": 3, "b": 5, "c": 2, "d": 4})
    method = PrivBayes()
    offered = method.candidates(views, ["c", "d"], ["a", "b"], room=60.0, draw=draw)
    assert max(len(candidate.parents) for candidate in offered) == 2
    views = {name: dataclasses.replace(view, far=draw.uniform(0, 4, len(view.far))) for name, view in views.items()}
    weighing = [accents(views, candidate) for candidate in offered]
    largest = np.array([across.max() * along.max() for across, along in weighing])
    for rows in (0, 1, 2, 15):
        table = {name: draw.integers(0, len(view.masses), rows) for name, view in views.items()}
        more = {name: np.append(t, draw.integers(0, len(views[name].masses))) for name, t in table.items()}
        moved = np.abs(scores(more, views, offered, weighing) - scores(table, views, offered, weighing))
        assert (moved <= SENSITIVITY * largest + 1e-9).all()


# Bins, fine and coarse ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bought():
    budget = Budget(epsilon=3.0, delta=1e-6)
    ledger = Ledger(budget, pipeline.planned_mechanisms(MIXED, PrivBayes(), budget))
    guest = read(mixed_table(1500), MIXED)
    rows = lock(guest.columns, guest.labels, key=Key.new(0))
    encoder = encoding.fit_encoder(rows, MIXED, ledger=ledger, key=Key.new(0))
    return encoder, encoding.make_bins(encoder, 32)


@pytest.mark.parametrize("name", MIXED.names)
def test_groups_are_whole_and_missing_values_stay_apart(bought, name):
    encoder, cut = bought
    view = View.of(cut[name], encoder, name, deviations(encoder, cut)[name])
    assert view.sizes[-1] == cut[name].size and view.masses.sum() == pytest.approx(1.0)
    for size, group in view.groups.items():
        assert len(group) == cut[name].size and set(group.tolist()) == set(range(size))
        if cut[name].nullable:
            assert (group == group[-1]).sum() == 1
        if encoder.maps[name].labels is None:
            assert (np.diff(group) >= 0).all()


@pytest.mark.parametrize("name", MIXED.names)
def test_a_coarse_marginal_is_filled_in_to_the_fine_one(bought, name):
    encoder, cut = bought
    view = View.of(cut[name], encoder, name, deviations(encoder, cut)[name])
    for size, group in view.groups.items():
        coarse = np.asarray(np.bincount(group, view.masses, size), np.float64)
        assert np.allclose(view.filled_in(coarse, size), view.masses)


@pytest.mark.parametrize("name", MIXED.names)
def test_a_coarse_code_is_the_group_of_the_fine_one(bought, name):
    encoder, cut = bought
    view = View.of(cut[name], encoder, name, deviations(encoder, cut)[name])
    levels = np.append(np.linspace(0, 1, 200), np.nan)
    fine = cut[name].code(levels, levels)
    for size, group in view.groups.items():
        coarse = Coarse(cut[name].edges, cut[name].nullable, group)
        assert coarse.size == size
        assert np.array_equal(coarse.code(levels, levels), np.where(fine < 0, -1, group[fine]))


def test_the_accent_of_parents_stands_where_their_codes_do():
    draw = np.random.default_rng(3)
    views = random_views(draw, {"a": 3, "b": 4, "c": 2})
    views = {name: dataclasses.replace(view, far=draw.uniform(0, 4, len(view.far))) for name, view in views.items()}
    sizes = tuple(len(views[name].far) for name in ("a", "b"))
    across, along = accents(views, Candidate("c", len(views["c"].far), ("a", "b"), sizes))
    for i, j in np.ndindex(sizes):
        assert across[i * sizes[1] + j] == pytest.approx(max(views["a"].far[i], views["b"].far[j]))
    assert np.allclose(along, views["c"].far)


@pytest.mark.parametrize("room", [1.5, 4, 13, 50, 400])
def test_sizes_fit_into_the_room_and_none_could_be_left_out_for_nothing(room):
    choices = [[2, 3, 4, 6, 8], [2], [2, 4, 16], [3, 5]]
    for count in range(1, 5):
        some = choices[:count]
        sizes = even_sizes(some, room)
        fitting = [s for s in itertools.product(*some) if math.prod(s) <= room]
        if sizes is None:
            assert math.prod(min(c) for c in some) > room / 2 or not fitting
        else:
            assert sizes in fitting


@pytest.mark.parametrize(("columns", "placed"), [(3, 1), (8, 5), (30, 20), (120, 60)])
def test_candidates_are_sound_and_bounded(columns, placed):
    draw = np.random.default_rng(0)
    views = random_views(draw, {f"c{i}": int(draw.integers(2, 12)) for i in range(columns)})
    names, method, room = list(views), PrivBayes(most_candidates=2000), 100.0
    offered = method.candidates(views, names[placed:], names[:placed], room=room, draw=np.random.default_rng(1))
    assert len(offered) <= 2 * 2000
    assert {candidate.column for candidate in offered} == set(names[placed:])
    for candidate in offered:
        assert set(candidate.parents) <= set(names[:placed]) and len(set(candidate.parents)) == len(candidate.parents)
        assert not candidate.parents or candidate.size * math.prod(candidate.sizes) <= room
    again = method.candidates(views, names[placed:], names[:placed], room=room, draw=np.random.default_rng(1))
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
def test_a_parent_that_says_nothing_is_left_out_and_others_are_not(noise):
    draw = np.random.default_rng(0)
    given = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    parity = given[(np.arange(2)[:, None] + np.arange(2)) % 2]  # neither parent says anything alone
    for truth, expected in ((np.repeat(given[:, None], 2, 1), [4]), (parity, [4, 7])):
        counts = draw.poisson(2000 * truth) + draw.normal(0, noise, truth.shape)
        left, kept, left_noise = borne_out(counts, [4, 7], np.full(3, 1 / 3), noise)
        assert kept == expected and left.ndim == len(kept) + 1
        assert left_noise == pytest.approx(noise * math.sqrt(counts.size / left.size))


def test_chance_alone_seldom_keeps_a_parent():
    draw = np.random.default_rng(0)
    marginal = draw.dirichlet(np.ones(6))
    kept = [
        len(borne_out(draw.poisson(50 * marginal, (8, 6)) + draw.normal(0, 9, (8, 6)), [0], marginal, 9.0)[1])
        for _ in range(200)
    ]
    assert sum(kept) <= 6


@pytest.mark.parametrize("counts", [np.full((2, 3), -1e6), np.zeros((2, 2, 3)), np.array([1e100, -1e100, 0.0])])
def test_hopeless_counts_give_distributions_still(counts):
    found = shrunk(counts, np.array([0.2, 0.3, 0.5]), 1.0)
    assert np.isfinite(found).all() and np.allclose(found.sum(-1), 1)


# The whole ----------------------------------------------------------------------------------------------------------


def test_a_plan_is_the_whole_rest_and_all_of_it_is_bought(mixed):
    method = PrivBayes(encoding_share=0.4, choice_share=0.3)
    for schema in (MIXED, Schema(columns=(MIXED["age"],))):
        assert sum(item.share for item in method.plan(schema)) == pytest.approx(0.6)
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
