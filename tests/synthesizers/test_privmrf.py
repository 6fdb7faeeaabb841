"""PrivMRF: its scores, the graph it grows, the blocks it counts in, and how near it comes without noise."""

import itertools

import numpy as np
import polars as pl
import pytest
from test_contract import FEW, distance, few

import understudy
from understudy import encoding
from understudy.core.randomness import Key
from understudy.encoding.bins import Bins
from understudy.graphical.marginals import Domain, from_encoder
from understudy.pipeline import planned_mechanisms
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget
from understudy.privacy.rows import lock
from understudy.privacy.selection import l2_sensitivity
from understudy.synthesizers.privmrf.blocks import Blocks, block_starts, even_sizes, in_blocks
from understudy.synthesizers.privmrf.context import Candidate, FitContext, Model
from understudy.synthesizers.privmrf.graph import Graph
from understudy.synthesizers.privmrf.method import LEAST_PAIR_SENSITIVITY, PrivMRF, sampling_error_deviation
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.table import read

FIVE = Schema(name="five", columns=tuple(Column(name=name, kind="integer", low=0, high=4) for name in "abcde"))


def five(n=6000, seed=0):
    """c depends on a and b together and on neither alone; d on c; e on nothing."""
    draw = np.random.default_rng(seed)
    a, b, e = (draw.integers(0, 5, n) for _ in range(3))
    c = np.where(draw.random(n) < 0.2, draw.integers(0, 5, n), (a + b) % 5)
    d = np.where(draw.random(n) < 0.3, draw.integers(0, 5, n), c)
    return pl.DataFrame({"a": a, "b": b, "c": c, "d": d, "e": e})


# Descriptions of what is asked.


@pytest.fixture(scope="module")
def context():
    """A fit that has its encoder and bins, and has measured nothing else."""
    budget = Budget(epsilon=2.0, delta=1e-6)
    ledger = Ledger(budget, planned_mechanisms(FIVE, PrivMRF(), budget))
    table = read(five(), FIVE)
    rows = lock(table.columns, table.labels, key=Key.new(0))
    encoder = encoding.fit_encoder(rows, FIVE, ledger=ledger, key=Key.new(0))
    return FitContext(rows, encoder, encoding.make_bins(encoder, 5), 60.0, ledger, Key.new(0))


def test_pairs_are_described_with_half_of_their_error_in_blocks(context):
    singles = {each.clique[0]: each for each in from_encoder(context.encoder, context.bins, ledger=context.ledger)}
    pairs = [("a", "b"), ("c", "d")]
    errors = context.pair_errors(pairs, singles)
    assert [error.columns for error in errors] == pairs
    for error in errors:
        assert error.factor == 0.5 and error.penalty == 0.0
        assert error.estimate.sum() == pytest.approx(context.encoder.rows)
        assert [len(group) for group in error.groups] == list(context.domain.shape(error.columns))
    largest = [error.weights.max() / 2 for error in errors]
    assert l2_sensitivity(errors) == pytest.approx(np.linalg.norm(largest))


def test_candidates_are_described_as_they_would_be_counted(context):
    model = Model(
        context,
        from_encoder(context.encoder, context.bins, ledger=context.ledger),
        shrinkage=0.3,
        iterations=20,
        most_cells=1000,
    )
    fitted = model.estimate(tolerance=1e-3)
    for clique, coarse in ((("a", "b"), False), (("a", "b", "c"), True)):
        candidate = Candidate.of(context, clique, fitted, context.z, 3.0)
        assert candidate.clique == clique and bool(candidate.blocks) == coarse
        assert candidate.error.estimate.sum() == pytest.approx(fitted.marginal(clique).sum())
        assert candidate.error.estimate.size <= max(context.useful_cells, 25) and candidate.error.penalty > 0
        assert [len(b.starts) for b in candidate.blocks] == (list(candidate.error.estimate.shape) if coarse else [])


def test_columns_without_variance_and_candidates_without_weight_can_be_charged():
    assert LEAST_PAIR_SENSITIVITY > 0
    constant = pl.DataFrame({name: np.full(300, 2.0) for name in "abc"})
    schema = Schema(columns=tuple(Column(name=name, kind="continuous", low=0.0, high=4.0) for name in "abc"))
    assert understudy.fit(constant, schema, "privmrf", epsilon=1e5, seed=0).sample(10, seed=0).height == 10


def test_scores_of_independent_columns_deviate_as_said():
    draw = np.random.default_rng(0)
    tables = draw.multinomial(2000, np.full(40, 1 / 40), 3000)
    assert (np.abs(tables - 50).sum(1) / 2).std() == pytest.approx(sampling_error_deviation(np.full(40, 50.0)), rel=0.1)
    weights = np.linspace(0, 4, 40)
    found = (weights * np.abs(tables - 50)).sum(1) / 2
    assert found.std() == pytest.approx(sampling_error_deviation(np.full(40, 50.0), weights), rel=0.1)


# Graphs.


def is_triangulated(neighbours):
    """Takes out columns whose neighbours are all joined to each other, until none is left."""
    neighbours = {name: set(others) for name, others in neighbours.items()}
    while neighbours:
        simple = [
            name
            for name, others in neighbours.items()
            if all(b in neighbours[a] for a, b in itertools.combinations(sorted(others), 2))
        ]
        if not simple:
            return False
        for other in neighbours.pop(simple[0]):
            neighbours[other].discard(simple[0])
    return True


def maximal_cliques(neighbours):
    names = sorted(neighbours)
    full = [
        frozenset(group)
        for width in range(2, len(names) + 1)
        for group in itertools.combinations(names, width)
        if all(b in neighbours[a] for a, b in itertools.combinations(group, 2))
    ]
    return {clique for clique in full if not any(clique < other for other in full)}


@pytest.mark.parametrize("seed", range(20))
def test_an_edge_is_taken_exactly_if_it_keeps_the_graph_triangulated_and_cliques_are_known(seed):
    draw, graph = np.random.default_rng(seed), Graph(Domain(dict.fromkeys("abcdefg", 2)))
    pairs = list(itertools.combinations("abcdefg", 2))
    for i in draw.permutation(len(pairs)):
        a, b = pairs[i]
        trial = {name: set(others) for name, others in graph.neighbours.items()}
        trial[a].add(b)
        trial[b].add(a)
        assert graph.stays_triangulated(a, b) == is_triangulated(trial)
        if graph.stays_triangulated(a, b):
            graph.join(a, b)
        assert set(graph.cliques) == maximal_cliques(graph.neighbours)


def test_the_tree_is_the_heaviest():
    graph = Graph(Domain(dict.fromkeys("abc", 2)))
    for a, b in ("ab", "bc", "ac"):
        graph.join(a, b)
    graph.scores = {("a", "b"): 1.0, ("b", "c"): 3.0, ("a", "c"): 2.0}
    assert graph.tree() == [("b", "c"), ("a", "c")]
    assert graph.marginals() == [("b", "c"), ("a", "b", "c"), ("a", "c"), ("a", "b")]
    assert graph.cliques == {frozenset("abc"): 8} and graph.count == 3


# Blocks.


@pytest.mark.parametrize("nullable", [False, True])
def test_blocks_are_of_about_even_mass_and_missing_is_its_own(nullable):
    bins = Bins(np.array([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0]), nullable)
    starts = block_starts(bins, 2 + nullable)
    assert starts.tolist() == ([0, 4, 7] if nullable else [0, 4])
    assert len(block_starts(bins, 99)) == bins.size
    assert len(block_starts(bins, 1)) == 1 + nullable


def test_counts_in_blocks_are_sums_over_their_bins():
    fine = np.random.default_rng(0).integers(0, 9, (7, 7)).astype(float)
    blocks = Blocks.of(Bins(np.linspace(0, 1, 8), False), 3)
    coarse = in_blocks(fine, (blocks, blocks))
    for i, j in np.ndindex(3, 3):
        assert coarse[i, j] == fine[np.ix_(blocks.of_bins == i, blocks.of_bins == j)].sum()
    assert in_blocks(fine, ()) is fine


def test_the_few_bins_that_hold_the_variance_have_blocks_of_their_own():
    bins = Bins(np.array([0.0, 0.03, 0.3, 0.5, 0.7, 1.0]), False)
    z = np.array([4.0, 0.6, 0.6, 0.8, 0.9])
    assert block_starts(bins, 3).tolist() == [0, 2, 4]
    assert block_starts(bins, 3, z).tolist() == [0, 1, 4]
    assert block_starts(bins, 3, np.ones(5)).tolist() == [0, 2, 4]  # categories are as they were


@pytest.mark.parametrize("sizes, limit", [([20, 20, 20], 130.0), ([2, 20, 20], 130.0), ([3, 4], 99.0), ([9, 9], 0.5)])
def test_even_sizes_fit_and_leave_little_room(sizes, limit):
    found = even_sizes(sizes, limit)
    assert all(1 <= size <= own for size, own in zip(found, sizes, strict=True))
    assert np.prod(found) <= max(limit, 1.0)
    assert np.prod(sizes) > limit or found == sizes


# Fits.


def tvd(real, synthetic, names):
    return np.mean([distance(real, synthetic, list(pair)) for pair in itertools.combinations(names, 2)])


@pytest.mark.parametrize("table, schema", [(five(), FIVE), (few(), FEW)], ids=["five", "few"])
def test_at_a_huge_epsilon_all_pairs_are_as_near_as_a_sample(table, schema):
    drawn = understudy.fit(table, schema, "privmrf", epsilon=1e6, seed=0).sample(table.height, seed=1)
    again = table.sample(table.height, with_replacement=True, seed=2)
    assert tvd(table, drawn, schema.names) <= tvd(table, again, schema.names) + 0.02


def test_columns_that_depend_are_joined_and_others_are_not():
    parents = understudy.fit(five(), FIVE, PrivMRF(certainty=3.0), epsilon=2.0, seed=0).parents
    assert parents["d"] == ["c"]
    assert "e" not in {name for its in parents.values() for name in its} and parents["e"] == []


def test_numbers_keep_what_three_have_together():
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(2, 12_000))
    y = 0.7 * y + 0.7 * x  # pairs that show nothing are not joined
    z = np.sign(x * y) * np.abs(draw.normal(size=12_000)) + 0.4 * x + 0.4 * y
    frame = pl.DataFrame({"x": x, "y": y, "z": z})
    schema = Schema(columns=tuple(Column(name=name, kind="continuous", low=-6.0, high=6.0) for name in "xyz"))
    drawn = understudy.fit(frame, schema, "privmrf", epsilon=3.0, seed=0).sample(12_000, seed=0)
    signs = [np.sign(t["x"].to_numpy() * t["y"].to_numpy() * t["z"].to_numpy()).mean() for t in (frame, drawn)]
    assert signs[1] > 0.6 * signs[0] > 0.2


@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 100.0])
def test_all_that_is_planned_is_charged(columns, epsilon):
    schema = Schema(columns=FIVE.columns[:columns])
    receipt = understudy.fit(five(400).select(schema.names), schema, "privmrf", epsilon=epsilon, seed=0).receipt
    assert receipt.not_released == 0 and receipt.epsilon > 0.97 * epsilon


def test_shares_of_the_plan_are_what_the_encoder_leaves():
    method = PrivMRF(encoding_share=0.4, graph_share=0.2)
    assert sum(planned.share for planned in method.plan(FIVE)) == pytest.approx(0.6)
    assert sum(planned.share for planned in method.plan(Schema(columns=FIVE.columns[:2]))) == pytest.approx(0.6)
    assert method.plan(Schema(columns=FIVE.columns[:1])) == []


def test_less_noise_makes_more_room_and_more_marginals_within_bounds():
    method = PrivMRF()
    limits = [method.useful_cells(1e4, sigma) for sigma in (1e6, 100.0, 10.0, 1e-3)]
    assert limits == sorted(limits) and limits[-1] == 1e4 / 6
    assert [method.marginals(1e4, sigma, 9) for sigma in (1e6, 1e-3)] == [9, 54]
    assert method.useful_cells(1e4, 10.0) == pytest.approx(1e4 / (10.0 * np.sqrt(2 / np.pi)) / 6)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 1e6])
def test_a_hundred_columns_end(epsilon):
    draw = np.random.default_rng(0)
    z = draw.normal(size=(1000, 5))
    x = z[:, np.arange(100) % 5] + draw.normal(size=(1000, 100))
    schema = Schema(columns=tuple(Column(name=f"c{i}", kind="continuous", low=-9.0, high=9.0) for i in range(100)))
    frame = pl.DataFrame({f"c{i}": x[:, i] for i in range(100)})
    assert understudy.fit(frame, schema, "privmrf", epsilon=epsilon, seed=0).sample(100, seed=0).height == 100


@pytest.mark.parametrize(
    "settings, rule",
    [
        ({"encoding_share": 0.0}, "encoding_share"),
        ({"graph_share": 1.0}, "graph_share"),
        ({"graph_share": 0.6, "choice_share": 0.5}, "<= 0.99"),
        ({"theta": 0.0}, "theta"),
        ({"certainty": -1.0}, "certainty"),
        ({"shrinkage": float("nan")}, "shrinkage"),
        ({"least": 1}, "least"),
        ({"iterations": 0}, "iterations"),
    ],
)
def test_wrong_settings_are_refused(settings, rule):
    with pytest.raises(ValueError, match=rule):
        PrivMRF(**settings)
