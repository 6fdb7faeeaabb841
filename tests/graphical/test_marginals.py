"""Marginals: cells, what the encoder already knows, measuring and choosing, and attacks on their sensitivity."""

import itertools

import numpy as np
import polars as pl
import pytest

from conftest import MIXED
from understudy.core.randomness import Key
from understudy.encoding import encoder as encoding
from understudy.encoding.encoder import Bins
from understudy.graphical import marginals
from understudy.graphical.marginals import Domain, Measured, choose, exact_marginal, measure
from understudy.privacy.accounting import Budget, BudgetExceeded, PlannedMechanism
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.rows import PrivateRows, lock
from understudy.tables.schema import Column, Schema
from understudy.tables.table import read

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
PAIRS = marginals.all_pairs(DOMAIN)


def till(*, times=1, epsilon=1.0, units=1):
    plan = [
        PlannedMechanism(name="choice", mechanism="exponential", share=0.5, times=times),
        PlannedMechanism(name="count", mechanism="discrete gaussian", share=0.5, times=times),
        PlannedMechanism(name="pot", mechanism="adaptive", share=0.5),
    ]
    return Ledger(Budget(epsilon=epsilon, delta=1e-6), plan, max_rows_per_unit=units)


def boxed(table, units=1):
    return PrivateRows({name: np.array(column) for name, column in table.items()}, {}, units)


def random_table(draw, n):
    return {name: draw.integers(0, size, n) for name, size in DOMAIN.sizes.items()}


def bought(frame, schema, epsilon=1.0):
    ledger = Ledger(Budget(epsilon=epsilon, delta=1e-6), encoding.plan(schema, share=1.0, delta=1e-6))
    guest = read(frame, schema)
    rows = lock(guest.columns, guest.labels, key=Key.new(0))
    return rows, encoding.fit_encoder(rows, schema, ledger=ledger, key=Key.new(0)), ledger


# Domains and cells.


def test_a_domain_knows_shapes_and_keeps_its_order():
    assert DOMAIN.shape(("c", "b")) == (2, 3) and DOMAIN.size(("a", "b", "c")) == 12
    assert DOMAIN.ordered({"c", "a"}) == ("a", "c")
    assert PAIRS == [("a", "b"), ("a", "c"), ("b", "c")]


@pytest.mark.parametrize("least", [0.0, 0.05, 0.3, 2.0])
def test_rare_neighbours_share_a_cell_and_common_categories_never_do(least):
    masses = np.array([0.01, 0.02, 0.4, 0.01, 0.0, 0.5, 0.06])
    ends = np.concatenate([[0.0], np.cumsum(masses)])
    joined = np.diff(marginals._without_rare(ends, least))
    assert joined.sum() == pytest.approx(1.0)
    if least < 0.4:
        assert any(np.isclose(joined, 0.5)) and any(np.isclose(joined, 0.4))
    if least == 0.0:
        assert np.allclose(joined, masses)
    assert len(joined) <= len(masses) and (least < 2.0 or len(joined) == 1)


def test_thousands_of_categories_are_cut_into_hundreds_of_cells():
    labels = tuple(f"v{i}" for i in range(3000))
    schema = Schema(columns=(Column(name="x", kind="categorical", values=labels, nullable=True),))
    _, encoder, _ = bought(pl.DataFrame({"x": list(labels)}), schema, epsilon=1e6)
    cells = marginals.cut(encoder, most=10)["x"]
    assert cells.size <= marginals.MOST_CATEGORIES + 1
    assert cells.edges[0] == 0.0 and cells.edges[-1] == 1.0 and (np.diff(cells.edges) >= 0).all()


# What the encoder knows.


def test_the_encoder_already_holds_single_columns(mixed):
    rows, encoder, ledger = bought(mixed, MIXED, epsilon=1e6)
    cells = marginals.cut(encoder, most=8)
    singles = marginals.from_encoder(encoder, cells, ledger=ledger)
    coded = encoding.bin_rows(rows, encoder, cells, key=Key.new(0))
    for single in singles:
        (name,) = single.clique
        exact = exact_marginal([coded._exact[name]], (cells[name].size,))
        assert single.counts.shape == exact.shape and single.sigma > 0
        assert np.abs(single.counts - exact).max() < 20
    assert [single.clique for single in singles] == [(name,) for name in MIXED.names]


def test_the_noise_of_single_columns_is_about_what_is_claimed():
    schema = Schema(columns=(Column(name="x", kind="categorical", values=tuple("abcdefgh")),))
    frame = pl.DataFrame({"x": list("abcdefgh") * 1000})
    _, encoder, ledger = bought(frame, schema)
    (single,) = marginals.from_encoder(encoder, marginals.cut(encoder, most=8), ledger=ledger)
    assert 0.3 < np.std(single.counts - 1000) / single.sigma < 2.0


def test_a_product_is_the_outer_one_and_chance_has_a_closed_form():
    singles = [Measured(("a",), np.array([3.0, 1.0]), 1.0), Measured(("b",), np.array([2.0, 0.0, 2.0]), 1.0)]
    assert np.allclose(marginals.product(singles, 8.0), [[3, 0, 3], [1, 0, 1]])
    draw = np.random.default_rng(0)
    expected = np.array([0.05, 3.0, 40.0])
    seen = np.abs(draw.poisson(expected, (100_000, 3)) - expected).sum(1).mean()
    assert marginals.expected_sampling_error(expected) == pytest.approx(seen, rel=0.03)


# Measuring.


def test_measuring_is_counting_at_a_huge_epsilon():
    table = random_table(np.random.default_rng(0), 50)
    for planned in ("count", FilterShare("pot", 0.5)):
        ledger = till(epsilon=1e6, times=3)
        found = measure(boxed(table), ("c", "b"), DOMAIN, planned=planned, what="test", ledger=ledger, key=Key.new(0))
        exact = np.zeros((2, 3))
        np.add.at(exact, (table["c"], table["b"]), 1)
        assert np.abs(found.counts - exact).max() < 0.1
        assert found.sigma == ledger.receipt().charges[0].sigma


@pytest.mark.parametrize("units", [1, 3])
def test_the_sigma_of_a_measurement_is_that_of_its_purchase(units):
    ledger = till(units=units)
    rows = boxed(random_table(np.random.default_rng(0), 9), units)
    found = measure(rows, ("a", "b"), DOMAIN, planned="count", what="test", ledger=ledger, key=Key.new(0))
    assert found.sigma == pytest.approx(ledger.receipt().charges[0].sigma)


def test_exact_marginals_are_those_of_brute_force():
    draw = np.random.default_rng(1)
    for _ in range(50):
        columns = [draw.integers(-1, 4, 20) for _ in range(3)]
        exact = exact_marginal(columns, (3, 4, 2))
        for cell in itertools.product(range(3), range(4), range(2)):
            assert exact[cell] == sum(row == cell for row in zip(*columns, strict=True))


# Choosing.


def scores_of(table, estimates, penalties, weights, accents=None):
    """What the hatch sees: the scores, and the sensitivity that is paid for."""
    seen = {}

    def look(rows, columns, scores, *, sensitivity, **kwargs):
        seen["scores"] = scores(*(rows._exact[name] for name in columns))
        seen["sensitivity"] = sensitivity
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "private_choice", look)
        key = Key.new(0)
        how = {"item": "", "what": "", "ledger": till(), "key": key, "accents": accents}
        choose(boxed(table), PAIRS, estimates, penalties, DOMAIN, weights, **how)
    return seen["scores"], seen["sensitivity"]


def test_no_row_added_moves_a_score_by_more_than_is_paid_for():
    draw = np.random.default_rng(0)
    reached = 0.0
    for trial in range(20):
        table = random_table(draw, int(draw.integers(1, 12)))
        estimates = [draw.normal(2, 3, DOMAIN.shape(pair)) * (trial % 3) for pair in PAIRS]
        weights, penalties = draw.uniform(0, 2, len(PAIRS)), draw.normal(0, 5, len(PAIRS))
        before, sensitivity = scores_of(table, estimates, penalties, weights)
        assert sensitivity == weights.max()
        for row in itertools.product(range(-1, 2), range(3), range(2)):
            neighbour = {name: np.append(table[name], row[i]) for i, name in enumerate(table)}
            after, paid = scores_of(neighbour, estimates, penalties, weights)
            assert paid == sensitivity  # what is paid says nothing of the rows
            assert np.abs(after - before).max() <= sensitivity + 1e-9
            reached = max(reached, np.abs(after - before).max() / sensitivity)
    assert reached > 0.999  # and no less would do


def test_no_row_added_moves_an_accented_score_by_more_than_is_paid_for():
    draw = np.random.default_rng(1)
    reached = 0.0
    for _ in range(20):
        table = random_table(draw, int(draw.integers(1, 12)))
        shapes = [DOMAIN.shape(pair) for pair in PAIRS]
        estimates, accents = [draw.normal(2, 3, s) for s in shapes], [draw.uniform(0, 16, s) for s in shapes]
        weights, penalties = draw.uniform(0, 2, len(PAIRS)), draw.normal(0, 5, len(PAIRS))
        before, sensitivity = scores_of(table, estimates, penalties, weights, accents)
        for row in itertools.product(range(-1, 2), range(3), range(2)):
            neighbour = {name: np.append(table[name], row[i]) for i, name in enumerate(table)}
            after, paid = scores_of(neighbour, estimates, penalties, weights, accents)
            assert paid == sensitivity
            reached = max(reached, np.abs(after - before).max() / sensitivity)
    assert 0.999 < reached <= 1 + 1e-9


@pytest.mark.parametrize("accents", [-np.ones((2, 3)), np.ones((3, 2))])
def test_wrong_accents_are_refused(accents):
    estimates = [np.zeros(DOMAIN.shape(pair)) for pair in PAIRS]
    wrong = [accents, *(np.ones(DOMAIN.shape(pair)) for pair in PAIRS[1:])]
    with pytest.raises(ValueError, match="accents"):
        scores_of(random_table(np.random.default_rng(0), 5), estimates, [0.0] * 3, [1.0] * 3, wrong)


def test_deviations_are_those_of_the_column_and_stop_at_the_farthest(mixed):
    _, encoder, _ = bought(mixed, MIXED)
    cells = encoding.make_bins(encoder, 16)
    for name, far in marginals.deviations(encoder, cells).items():
        assert far.shape == (cells[name].size,) and (far >= 0).all() and far.max() <= marginals.FARTHEST
        if encoder.maps[name].labels is None:
            mean_square = np.diff(cells[name].edges) @ far[: len(cells[name].edges) - 1] ** 2
            assert 0.3 < mean_square <= 1 + 1e-9
        else:
            assert (far == 1).all()


def test_an_accent_is_the_product_of_deviations():
    far = {"a": np.array([1.0, 2.0]), "b": np.array([0.5, 3.0, 4.0])}
    assert np.array_equal(marginals.accent(far, ("a", "b")), [[0.5, 3.0, 4.0], [1.0, 6.0, 8.0]])


@pytest.mark.parametrize("most", [-1.0, 1.0, 2.5, 16.0, 1e9])
def test_softened_accents_are_never_beyond_the_most_and_categories_stay(most):
    far = {"a": np.array([0.0, 0.3, 4.0]), "b": np.array([0.5, 2.0]), "c": np.ones(3)}
    soft = marginals.soften(far, 2, most)
    largest = max(marginals.accent(soft, pair).max() for pair in itertools.combinations_with_replacement("abc", 2))
    assert largest == pytest.approx(np.clip(most, 1.0, 16.0))
    assert (soft["c"] == 1).all() and all((np.diff(soft[name]) >= 0).all() for name in "ab")


def test_accents_of_categories_are_soft_already():
    assert marginals.soften({"a": np.ones(2)}, 2, 0.5)["a"].tolist() == [1.0, 1.0]


def test_scores_are_weighted_distances_less_penalties():
    table = {"a": [0, 0, 1], "b": [2, 2, 0], "c": [1, 1, 1]}
    estimates = [np.zeros(DOMAIN.shape(pair)) for pair in PAIRS]
    scores, _ = scores_of(table, estimates, [0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    assert scores.tolist() == [3.0, 4.0, 3.0]


def test_the_most_wrong_candidate_is_chosen_at_a_huge_epsilon():
    table = random_table(np.random.default_rng(0), 400)
    exact = [exact_marginal([table[name] for name in pair], DOMAIN.shape(pair)) for pair in PAIRS]
    for wrong in range(3):
        estimates = [each + 9.0 * (i == wrong) for i, each in enumerate(exact)]
        ledger = till(epsilon=1e5)
        found = choose(
            boxed(table),
            PAIRS,
            estimates,
            [0.0] * 3,
            DOMAIN,
            [1.0] * 3,
            planned="choice",
            what="",
            ledger=ledger,
            key=Key.new(1),
        )
        assert found == wrong


def test_choices_follow_the_exponential_mechanism():
    table = random_table(np.random.default_rng(0), 30)
    estimates = [np.zeros(DOMAIN.shape(pair)) for pair in PAIRS]
    penalties = np.array([0.0, 4.0, 8.0])
    ledger = till(times=3000, epsilon=40.0)
    chosen = [
        choose(
            boxed(table),
            PAIRS,
            estimates,
            penalties,
            DOMAIN,
            [1.0] * 3,
            planned="choice",
            what="",
            ledger=ledger,
            key=Key.new(i),
        )
        for i in range(3000)
    ]
    odds = np.exp(-penalties / ledger.noise("choice"))
    assert np.allclose(np.bincount(chosen, minlength=3) / 3000, odds / odds.sum(), atol=0.03)


def test_a_spent_ledger_is_refused_before_anything_is_read():
    empty = PrivateRows({}, {}, 1)
    ledger = till()
    estimates = [np.zeros(DOMAIN.shape(pair)) for pair in PAIRS]
    for item, mechanism in (("choice", "exponential"), ("count", "discrete gaussian")):
        ledger.charge(item, what="spent", sensitivity=1.0, mechanism=mechanism)
    with pytest.raises(BudgetExceeded):
        choose(
            empty,
            PAIRS,
            estimates,
            [0.0] * 3,
            DOMAIN,
            [1.0] * 3,
            planned="choice",
            what="",
            ledger=ledger,
            key=Key.new(0),
        )
    with pytest.raises(BudgetExceeded):
        measure(empty, ("a", "b"), DOMAIN, planned="count", what="", ledger=ledger, key=Key.new(0))


@pytest.mark.parametrize("weights", [[1.0, -1.0, 1.0], [1.0]])
def test_wrong_weights_are_refused_and_cost_nothing(weights):
    ledger = till()
    estimates = [np.zeros(DOMAIN.shape(pair)) for pair in PAIRS]
    with pytest.raises(ValueError, match="weight >= 0"):
        choose(
            boxed(random_table(np.random.default_rng(0), 3)),
            PAIRS,
            estimates,
            [0.0] * 3,
            DOMAIN,
            weights,
            planned="choice",
            what="",
            ledger=ledger,
            key=Key.new(0),
        )
    assert ledger.left("choice") == 1


def test_a_nullable_column_has_a_cell_of_its_own_for_missing_values():
    assert Domain.of({"x": Bins(np.array([0.0, 0.5, 1.0]), True)}).sizes == {"x": 3}
