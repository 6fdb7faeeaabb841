"""PrivMRF: its scores, the graph it grows, the blocks it counts in, and how near it comes without noise."""

import itertools

import numpy as np
import polars as pl
import pytest

import understudy
from test_contract import FEW, distance, few
from understudy.encoding import Cells
from understudy.marginals import Domain
from understudy.schema import Column, Schema
from understudy.synthesizers.privmrf import (
    Graph,
    PrivMRF,
    blocks,
    by_luck,
    coarse_starts,
    even_sizes,
    exact_blocks,
    pair_sensitivity,
)

FIVE = Schema(name="five", columns=tuple(Column(name=name, kind="integer", low=0, high=4) for name in "abcde"))


def five(n=6000, seed=0):
    """c depends on a and b together and on neither alone; d on c; e on nothing."""
    draw = np.random.default_rng(seed)
    a, b, e = (draw.integers(0, 5, n) for _ in range(3))
    c = np.where(draw.random(n) < 0.2, draw.integers(0, 5, n), (a + b) % 5)
    d = np.where(draw.random(n) < 0.3, draw.integers(0, 5, n), c)
    return pl.DataFrame({"a": a, "b": b, "c": c, "d": d, "e": e})


# Sensitivity.


@pytest.mark.parametrize("starts", [False, True], ids=["cells", "blocks"])
def test_no_row_moves_the_scores_of_all_pairs_by_more_than_was_paid(starts):
    draw = np.random.default_rng(0)
    domain = Domain({"a": 3, "b": 2, "c": 4})
    pairs = list(itertools.combinations("abc", 2))
    at = {name: np.array([0, size - 1]) for name, size in domain.sizes.items()}
    chosen = [tuple(at[name] for name in pair) if starts else () for pair in pairs]
    worst = 0.0
    for _ in range(40):
        n = int(draw.integers(1, 6))
        table = {name: draw.integers(0, size, n) for name, size in domain.sizes.items()}
        guesses = [
            blocks(draw.exponential(2.0, domain.shape(pair)) * draw.integers(0, 2, domain.shape(pair)), where)
            for pair, where in zip(pairs, chosen, strict=True)
        ]

        def scores(columns, guesses=guesses):
            exact = [exact_blocks(domain, columns, pair, where) for pair, where in zip(pairs, chosen, strict=True)]
            return np.array([np.abs(e - guess).sum() / 2 for e, guess in zip(exact, guesses, strict=True)])

        before = scores(table)
        for row in itertools.product(*(range(size) for size in domain.sizes.values())):
            more = {name: np.append(table[name], code) for name, code in zip(domain.names, row, strict=True)}
            worst = max(worst, float(np.linalg.norm(scores(more) - before)))
    assert worst <= pair_sensitivity(len(pairs)) + 1e-9
    assert worst > 0.99 * pair_sensitivity(len(pairs))


def test_blocks_of_exact_counts_are_counts_in_blocks():
    draw = np.random.default_rng(0)
    domain = Domain({"a": 5, "b": 7})
    columns = {name: draw.integers(0, size, 300) for name, size in domain.sizes.items()}
    starts = np.array([0, 2]), np.array([0, 3, 6])
    fine = exact_blocks(domain, columns, ("a", "b"), ())
    coarse = exact_blocks(domain, columns, ("a", "b"), starts)
    np.testing.assert_array_equal(blocks(fine, starts), coarse)
    assert coarse[0, 1] == ((columns["a"] < 2) & (columns["b"] >= 3) & (columns["b"] < 6)).sum()


def test_scores_of_independent_columns_deviate_as_said():
    draw = np.random.default_rng(0)
    tables = draw.multinomial(2000, np.full(40, 1 / 40), 3000)
    assert (np.abs(tables - 50).sum(1) / 2).std() == pytest.approx(by_luck(2000), rel=0.1)


# Graphs.


def is_triangulated(beside):
    """Takes out columns whose neighbours are all beside each other, until none is left."""
    beside = {name: set(others) for name, others in beside.items()}
    while beside:
        simple = [
            name
            for name, others in beside.items()
            if all(b in beside[a] for a, b in itertools.combinations(sorted(others), 2))
        ]
        if not simple:
            return False
        for other in beside.pop(simple[0]):
            beside[other].discard(simple[0])
    return True


def maximal_cliques(beside):
    names = sorted(beside)
    full = [
        frozenset(group)
        for width in range(2, len(names) + 1)
        for group in itertools.combinations(names, width)
        if all(b in beside[a] for a, b in itertools.combinations(group, 2))
    ]
    return {clique for clique in full if not any(clique < other for other in full)}


@pytest.mark.parametrize("seed", range(20))
def test_an_edge_is_taken_exactly_if_it_keeps_the_graph_triangulated_and_cliques_are_known(seed):
    draw, graph = np.random.default_rng(seed), Graph(Domain(dict.fromkeys("abcdefg", 2)))
    pairs = list(itertools.combinations("abcdefg", 2))
    for i in draw.permutation(len(pairs)):
        a, b = pairs[i]
        trial = {name: set(others) for name, others in graph.beside.items()}
        trial[a].add(b)
        trial[b].add(a)
        assert graph.stays_triangulated(a, b) == is_triangulated(trial)
        if graph.stays_triangulated(a, b):
            graph.join(a, b)
        assert set(graph.cliques) == maximal_cliques(graph.beside)


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
    cells = Cells(np.array([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0]), nullable)
    starts = coarse_starts(cells, 2 + nullable)
    assert starts.tolist() == ([0, 4, 7] if nullable else [0, 4])
    assert len(coarse_starts(cells, 99)) == cells.size
    assert len(coarse_starts(cells, 1)) == 1 + nullable


@pytest.mark.parametrize("sizes, room", [([20, 20, 20], 130.0), ([2, 20, 20], 130.0), ([3, 4], 99.0), ([9, 9], 0.5)])
def test_even_sizes_fit_and_leave_little_room(sizes, room):
    found = even_sizes(sizes, room)
    assert all(1 <= size <= own for size, own in zip(found, sizes, strict=True))
    assert np.prod(found) <= max(room, 1.0)
    assert np.prod(sizes) > room or found == sizes


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
    signs = [np.sign(t["x"] * t["y"] * t["z"]).to_numpy().mean() for t in (frame, drawn)]
    assert signs[1] > 0.6 * signs[0] > 0.2


@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 100.0])
def test_all_that_is_planned_is_bought(columns, epsilon):
    schema = Schema(columns=FIVE.columns[:columns])
    receipt = understudy.fit(five(400).select(schema.names), schema, "privmrf", epsilon=epsilon, seed=0).receipt
    assert receipt.not_bought == 0 and receipt.epsilon > 0.97 * epsilon


def test_shares_of_the_plan_are_what_the_encoder_leaves():
    method = PrivMRF(encoding_share=0.4, graph_share=0.2)
    assert sum(item.share for item in method.plan(FIVE)) == pytest.approx(0.6)
    assert sum(item.share for item in method.plan(Schema(columns=FIVE.columns[:2]))) == pytest.approx(0.6)
    assert method.plan(Schema(columns=FIVE.columns[:1])) == []


def test_less_noise_makes_more_room_and_more_marginals_within_bounds():
    method = PrivMRF()
    rooms = [method.room(1e4, sigma) for sigma in (1e6, 100.0, 10.0, 1e-3)]
    assert rooms == sorted(rooms) and rooms[-1] == 1e4 / 6
    assert [method.marginals(1e4, sigma, 9) for sigma in (1e6, 1e-3)] == [9, 54]
    assert method.room(1e4, 10.0) == pytest.approx(1e4 / (10.0 * np.sqrt(2 / np.pi)) / 6)


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
