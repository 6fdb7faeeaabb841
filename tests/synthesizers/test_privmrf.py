"""PrivMRF: its scores, the graph it grows, the blocks it counts in, and how near it comes without noise."""

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from test_contract import FEW, distance, few

import understudy
from understudy.core.randomness import Key
from understudy.encoding.encoder import Bins
from understudy.graphical.marginals import Domain
from understudy.synthesizers import privmrf
from understudy.synthesizers.privmrf import (
    Candidate,
    Graph,
    PrivMRF,
    View,
    blocks,
    coarse_starts,
    even_sizes,
    exact_blocks,
    exact_pair_scores,
    pair_sensitivity,
    sampling_error_deviation,
)
from understudy.tables.schema import Column, Schema

FIVE = Schema(name="five", columns=tuple(Column(name=name, kind="integer", low=0, high=4) for name in "abcde"))


def five(n=6000, seed=0):
    """c depends on a and b together and on neither alone; d on c; e on nothing."""
    draw = np.random.default_rng(seed)
    a, b, e = (draw.integers(0, 5, n) for _ in range(3))
    c = np.where(draw.random(n) < 0.2, draw.integers(0, 5, n), (a + b) % 5)
    d = np.where(draw.random(n) < 0.3, draw.integers(0, 5, n), c)
    return pl.DataFrame({"a": a, "b": b, "c": c, "d": d, "e": e})


# Sensitivity.


SIZES = Domain({"a": 3, "b": 2, "c": 4})
BLOCKS = {name: np.array([0, size - 1]) for name, size in SIZES.sizes.items()}


def views(draw, cliques, *, starts, accented):
    """Cliques with guesses and accents that owe nothing to any table."""
    found = []
    for clique in cliques:
        at = tuple(BLOCKS[name] for name in clique) if starts else ()
        shape = SIZES.shape(clique)
        guess = blocks(draw.exponential(2.0, shape) * draw.integers(0, 2, shape), at)
        accents = draw.uniform(0, 16, guess.shape) if accented else np.ones(guess.shape)
        found.append(Candidate(clique, at, guess, accents, float(draw.normal(0, 5))))
    return found


def tables_and_neighbours(draw):
    """A small table, and every table that has one row more."""
    for _ in range(40):
        n = int(draw.integers(1, 6))
        table = {name: draw.integers(0, size, n) for name, size in SIZES.sizes.items()}
        rows = itertools.product(*(range(size) for size in SIZES.sizes.values()))
        yield table, [{name: np.append(table[name], row[i]) for i, name in enumerate(table)} for row in rows]


@pytest.mark.parametrize("accented", [False, True])
@pytest.mark.parametrize("starts", [False, True], ids=["cells", "blocks"])
def test_no_row_moves_the_scores_of_all_pairs_by_more_than_was_paid(starts, accented):
    draw = np.random.default_rng(0)
    pairs = list(itertools.combinations("abc", 2))
    worst, each = 0.0, 0.0
    for table, neighbours in tables_and_neighbours(draw):
        seen = views(draw, pairs, starts=starts, accented=accented)
        before = exact_pair_scores(SIZES, table, seen)
        for more in neighbours:
            moved = np.abs(exact_pair_scores(SIZES, more, seen) - before)
            each = max(each, float((moved / [view.accents.max() / 2 for view in seen]).max()))
            worst = max(worst, float(np.linalg.norm(moved)) / pair_sensitivity(seen))
    assert 0.999 < each <= 1 + 1e-9 and worst <= 1 + 1e-9
    assert worst > (0.9 if accented else 0.99)  # the largest accents of all pairs seldom lie in one row


@pytest.mark.parametrize("starts", [False, True], ids=["cells", "blocks"])
def test_no_row_moves_the_score_of_a_marginal_by_more_than_was_paid(starts, monkeypatch):
    draw, seen = np.random.default_rng(1), {}

    def look(rows, columns, scores, *, sensitivity, **kwargs):
        seen.update(scores=scores(*(rows[name] for name in columns)), sensitivity=sensitivity)
        return 0

    monkeypatch.setattr(privmrf, "private_choice", look)

    def scores(table, candidates):
        board: Any = SimpleNamespace(coded=table, domain=SIZES, ledger=None)
        PrivMRF()._choose(board, candidates, 0.1, key=Key.new(0))
        return seen["scores"], seen["sensitivity"]

    reached = 0.0
    for table, neighbours in tables_and_neighbours(draw):
        offered = views(draw, [("a", "b"), ("b", "c"), ("a", "b", "c")], starts=starts, accented=True)
        before, paid = scores(table, offered)
        for more in neighbours:
            after, again = scores(more, offered)
            assert again == paid
            reached = max(reached, float(np.abs(after - before).max()) / paid)
    assert 0.999 < reached <= 1 + 1e-9


def test_columns_without_variance_and_candidates_without_accent_can_be_paid_for():
    nothing = [View(("a", "b"), (), np.ones((3, 2)), np.zeros((3, 2)))]
    assert pair_sensitivity(nothing) == 0.5
    constant = pl.DataFrame({name: np.full(300, 2.0) for name in "abc"})
    schema = Schema(columns=tuple(Column(name=name, kind="continuous", low=0.0, high=4.0) for name in "abc"))
    assert understudy.fit(constant, schema, "privmrf", epsilon=1e5, seed=0).sample(10, seed=0).height == 10


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
    assert (np.abs(tables - 50).sum(1) / 2).std() == pytest.approx(sampling_error_deviation(np.full(40, 50.0)), rel=0.1)
    accents = np.linspace(0, 4, 40)
    found = (accents * np.abs(tables - 50)).sum(1) / 2
    assert found.std() == pytest.approx(sampling_error_deviation(np.full(40, 50.0), accents), rel=0.1)


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
    cells = Bins(np.array([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0]), nullable)
    starts = coarse_starts(cells, 2 + nullable)
    assert starts.tolist() == ([0, 4, 7] if nullable else [0, 4])
    assert len(coarse_starts(cells, 99)) == cells.size
    assert len(coarse_starts(cells, 1)) == 1 + nullable


def test_the_few_cells_that_hold_the_variance_have_blocks_of_their_own():
    cells = Bins(np.array([0.0, 0.03, 0.3, 0.5, 0.7, 1.0]), False)
    far = np.array([4.0, 0.6, 0.6, 0.8, 0.9])
    assert coarse_starts(cells, 3).tolist() == [0, 2, 4]
    assert coarse_starts(cells, 3, far).tolist() == [0, 1, 4]
    assert coarse_starts(cells, 3, np.ones(5)).tolist() == [0, 2, 4]  # categories are as they were


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
    signs = [np.sign(t["x"].to_numpy() * t["y"].to_numpy() * t["z"].to_numpy()).mean() for t in (frame, drawn)]
    assert signs[1] > 0.6 * signs[0] > 0.2


@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 100.0])
def test_all_that_is_planned_is_bought(columns, epsilon):
    schema = Schema(columns=FIVE.columns[:columns])
    receipt = understudy.fit(five(400).select(schema.names), schema, "privmrf", epsilon=epsilon, seed=0).receipt
    assert receipt.not_released == 0 and receipt.epsilon > 0.97 * epsilon


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
