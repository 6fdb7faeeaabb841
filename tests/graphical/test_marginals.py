"""Marginals: bins, what the encoder already released, measuring, and the descriptions that selections are made of."""

import itertools

import numpy as np
import polars as pl
import pytest

from conftest import MIXED
from understudy import encoding
from understudy.core.randomness import Key
from understudy.encoding.bins import Bins
from understudy.graphical import marginals
from understudy.graphical.marginals import Domain, Measured, choose, measure
from understudy.privacy.exact_counts import ExactCodes
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.plan import Budget, BudgetExceeded, PlannedMechanism
from understudy.privacy.rows import PrivateRows, lock
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.table import read

DOMAIN = Domain({"a": 2, "b": 3, "c": 2})
PAIRS = marginals.all_pairs(DOMAIN)


def ledger_of(*, times=1, epsilon=1.0, units=1):
    plan = [
        PlannedMechanism(name="choice", mechanism="exponential", share=0.5, times=times),
        PlannedMechanism(name="count", mechanism="discrete gaussian", share=0.5, times=times),
        PlannedMechanism(name="filter", mechanism="privacy filter", share=0.5),
    ]
    return Ledger(Budget(epsilon=epsilon, delta=1e-6), plan, max_rows_per_unit=units)


def locked(table, units=1):
    return PrivateRows({name: np.array(column) for name, column in table.items()}, {}, units)


def random_table(draw, n):
    return {name: draw.integers(0, size, n) for name, size in DOMAIN.sizes.items()}


def encoded(frame, schema, epsilon=1.0):
    ledger = Ledger(Budget(epsilon=epsilon, delta=1e-6), encoding.plan(schema, share=1.0, delta=1e-6))
    table = read(frame, schema)
    rows = lock(table.columns, table.labels, key=Key.new(0))
    return rows, encoding.fit_encoder(rows, schema, ledger=ledger, key=Key.new(0)), ledger


# Domains and bins.


def test_a_domain_knows_shapes_and_keeps_its_order():
    assert DOMAIN.shape(("c", "b")) == (2, 3) and DOMAIN.size(("a", "b", "c")) == 12
    assert DOMAIN.ordered({"c", "a"}) == ("a", "c")
    assert PAIRS == [("a", "b"), ("a", "c"), ("b", "c")]


@pytest.mark.parametrize("least", [0.0, 0.05, 0.3, 2.0])
def test_rare_neighbours_share_a_bin_and_common_categories_never_do(least):
    masses = np.array([0.01, 0.02, 0.4, 0.01, 0.0, 0.5, 0.06])
    ends = np.concatenate([[0.0], np.cumsum(masses)])
    joined = np.diff(marginals._without_rare(ends, least))
    assert joined.sum() == pytest.approx(1.0)
    if least < 0.4:
        assert any(np.isclose(joined, 0.5)) and any(np.isclose(joined, 0.4))
    if least == 0.0:
        assert np.allclose(joined, masses)
    assert len(joined) <= len(masses) and (least < 2.0 or len(joined) == 1)


def test_thousands_of_categories_are_cut_into_hundreds_of_bins():
    labels = tuple(f"v{i}" for i in range(3000))
    schema = Schema(columns=(Column(name="x", kind="categorical", values=labels, nullable=True),))
    _, encoder, _ = encoded(pl.DataFrame({"x": list(labels)}), schema, epsilon=1e6)
    cells = marginals.cut(encoder, most=10)["x"]
    assert cells.size <= marginals.MOST_CATEGORIES + 1
    assert cells.edges[0] == 0.0 and cells.edges[-1] == 1.0 and (np.diff(cells.edges) >= 0).all()


# What the encoder released.


def test_the_encoder_already_holds_single_columns(mixed):
    rows, encoder, ledger = encoded(mixed, MIXED, epsilon=1e6)
    cells = marginals.cut(encoder, most=8)
    singles = marginals.from_encoder(encoder, cells, ledger=ledger)
    coded = encoding.bin_rows(rows, encoder, cells, key=Key.new(0))
    for single in singles:
        (name,) = single.clique
        exact = ExactCodes(coded._exact).marginal([name], [cells[name].size])
        assert single.counts.shape == exact.shape and single.sigma > 0
        assert np.abs(single.counts - exact).max() < 20
    assert [single.clique for single in singles] == [(name,) for name in MIXED.names]


def test_the_noise_of_single_columns_is_about_what_is_claimed():
    schema = Schema(columns=(Column(name="x", kind="categorical", values=tuple("abcdefgh")),))
    frame = pl.DataFrame({"x": list("abcdefgh") * 1000})
    _, encoder, ledger = encoded(frame, schema)
    (single,) = marginals.from_encoder(encoder, marginals.cut(encoder, most=8), ledger=ledger)
    assert 0.3 < np.std(single.counts - 1000) / single.sigma < 2.0


def test_a_product_is_the_outer_one_and_the_expected_sampling_error_has_a_closed_form():
    singles = [Measured(("a",), np.array([3.0, 1.0]), 1.0), Measured(("b",), np.array([2.0, 0.0, 2.0]), 1.0)]
    assert np.allclose(marginals.product(singles, 8.0), [[3, 0, 3], [1, 0, 1]])
    draw = np.random.default_rng(0)
    expected = np.array([0.05, 3.0, 40.0])
    seen = np.abs(draw.poisson(expected, (100_000, 3)) - expected).sum(1).mean()
    assert marginals.expected_sampling_error(expected) == pytest.approx(seen, rel=0.03)


# Measuring.


def test_measuring_is_counting_at_a_huge_epsilon():
    table = random_table(np.random.default_rng(0), 50)
    for planned in ("count", FilterShare("filter", 0.5)):
        ledger = ledger_of(epsilon=1e6, times=3)
        found = measure(locked(table), ("c", "b"), DOMAIN, planned=planned, what="test", ledger=ledger, key=Key.new(0))
        exact = np.zeros((2, 3))
        np.add.at(exact, (table["c"], table["b"]), 1)
        assert np.abs(found.counts - exact).max() < 0.1
        assert found.sigma == ledger.receipt().charges[0].sigma


@pytest.mark.parametrize("units", [1, 3])
def test_the_sigma_of_a_measurement_is_that_of_its_charge(units):
    ledger = ledger_of(units=units)
    rows = locked(random_table(np.random.default_rng(0), 9), units)
    found = measure(rows, ("a", "b"), DOMAIN, planned="count", what="test", ledger=ledger, key=Key.new(0))
    assert found.sigma == pytest.approx(ledger.receipt().charges[0].sigma)


def test_a_marginal_in_blocks_is_the_sum_of_its_bins():
    table = random_table(np.random.default_rng(0), 50)
    starts = np.array([0, 1]), np.array([0, 2])
    how = {"planned": "count", "what": "test", "key": Key.new(0)}
    fine, coarse = (
        measure(locked(table), ("a", "b"), DOMAIN, starts=at, ledger=ledger_of(epsilon=1e6), **how)
        for at in ((), starts)
    )
    assert coarse.starts == starts and coarse.sigma == fine.sigma
    summed = np.add.reduceat(np.add.reduceat(np.rint(fine.counts), starts[0], axis=0), starts[1], axis=1)
    np.testing.assert_array_equal(np.rint(coarse.counts), summed)


@pytest.mark.parametrize("nullable", [False, True])
def test_blocks_of_codes_are_codes_of_coarse_bins(nullable):
    edges = np.array([0.0, 0.1, 0.1, 0.4, 0.7, 1.0])
    fine, starts = Bins(edges, nullable), np.array([0, 2, 4, 5] if nullable else [0, 2, 4])
    coarse = Bins(edges[[0, 2, 4, 5]], nullable)
    levels = np.append(np.concatenate([np.linspace(0, 1, 101), edges]), [np.nan] * nullable)
    block = marginals.blocks_of_bins(starts, fine.size)[fine.code(levels, levels)]
    np.testing.assert_array_equal(block, coarse.code(levels, levels))


# Choosing.


def described(monkeypatch, candidates, estimates, penalties, factors, weights=None):
    """The descriptions that `choose` hands to the mechanism, which is the one that reads rows."""
    seen = []
    monkeypatch.setattr(marginals, "select_marginal", lambda rows, errors, **how: seen.extend(errors) or 0)
    how = {"planned": "choice", "what": "", "ledger": ledger_of(), "key": Key.new(0)}
    choose(locked({}), candidates, estimates, penalties, DOMAIN, factors, weights=weights, **how)
    return seen


def test_candidates_are_described_with_their_estimates_factors_penalties_and_weights(monkeypatch):
    draw = np.random.default_rng(0)
    estimates, weights = ([draw.uniform(0, 9, DOMAIN.shape(pair)) for pair in PAIRS] for _ in range(2))
    errors = described(monkeypatch, PAIRS, estimates, [0.0, 1.0, 2.0], np.array([1.0, 2.0, 3.0]), weights)
    for i, error in enumerate(errors):
        assert (error.columns, error.penalty, error.factor) == (PAIRS[i], float(i), i + 1.0)
        assert error.estimate is estimates[i] and error.weights is weights[i]
        assert error.sensitivity == (i + 1.0) * weights[i].max()


@pytest.mark.parametrize("weights", [-np.ones((2, 3)), np.ones((3, 2))])
def test_wrong_weights_are_refused(weights, monkeypatch):
    estimates = [np.zeros(DOMAIN.shape(pair)) for pair in PAIRS]
    wrong = [weights, *(np.ones(DOMAIN.shape(pair)) for pair in PAIRS[1:])]
    with pytest.raises(ValueError, match="weights"):
        described(monkeypatch, PAIRS, estimates, [0.0] * 3, [1.0] * 3, wrong)


def test_an_estimate_of_another_shape_is_refused(monkeypatch):
    estimates = [np.zeros((3, 3)), *(np.zeros(DOMAIN.shape(pair)) for pair in PAIRS[1:])]
    with pytest.raises(ValueError, match="shape"):
        described(monkeypatch, PAIRS, estimates, [0.0] * 3, [1.0] * 3)


def test_z_scores_are_those_of_the_column_and_stop_at_the_largest(mixed):
    _, encoder, _ = encoded(mixed, MIXED)
    cells = encoding.make_bins(encoder, 16)
    for name, z in marginals.z_scores(encoder, cells).items():
        assert z.shape == (cells[name].size,) and (z >= 0).all() and z.max() <= marginals.LARGEST_Z_SCORE
        if encoder.columns[name].labels is None:
            mean_square = np.diff(cells[name].edges) @ z[: len(cells[name].edges) - 1] ** 2
            assert 0.3 < mean_square <= 1 + 1e-9
        else:
            assert (z == 1).all()


def test_value_weights_are_products_of_z_scores():
    z = {"a": np.array([1.0, 2.0]), "b": np.array([0.5, 3.0, 4.0])}
    assert np.array_equal(marginals.value_weights(z, ("a", "b")), [[0.5, 3.0, 4.0], [1.0, 6.0, 8.0]])


@pytest.mark.parametrize("most", [-1.0, 1.0, 2.5, 16.0, 1e9])
def test_softened_weights_are_never_beyond_the_most_and_categories_stay(most):
    z = {"a": np.array([0.0, 0.3, 4.0]), "b": np.array([0.5, 2.0]), "c": np.ones(3)}
    soft = marginals.soften(z, 2, most)
    largest = max(
        marginals.value_weights(soft, pair).max() for pair in itertools.combinations_with_replacement("abc", 2)
    )
    assert largest == pytest.approx(np.clip(most, 1.0, 16.0))
    assert (soft["c"] == 1).all() and all((np.diff(soft[name]) >= 0).all() for name in "ab")


def test_weights_of_categories_are_soft_already():
    assert marginals.soften({"a": np.ones(2)}, 2, 0.5)["a"].tolist() == [1.0, 1.0]


@pytest.mark.slow
def test_choices_follow_the_exponential_mechanism():
    table = random_table(np.random.default_rng(0), 30)
    estimates = [np.zeros(DOMAIN.shape(pair)) for pair in PAIRS]
    penalties = np.array([0.0, 4.0, 8.0])
    ledger = ledger_of(times=3000, epsilon=40.0)
    chosen = [
        choose(
            locked(table),
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
    ledger = ledger_of()
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


@pytest.mark.parametrize("factors", [[1.0, -1.0, 1.0], [1.0]])
def test_wrong_factors_are_refused_and_cost_nothing(factors):
    ledger = ledger_of()
    estimates = [np.zeros(DOMAIN.shape(pair)) for pair in PAIRS]
    with pytest.raises(ValueError, match="factor"):
        choose(
            locked(random_table(np.random.default_rng(0), 3)),
            PAIRS,
            estimates,
            [0.0] * 3,
            DOMAIN,
            factors,
            planned="choice",
            what="",
            ledger=ledger,
            key=Key.new(0),
        )
    assert ledger.left("choice") == 1


def test_a_nullable_column_has_a_bin_of_its_own_for_missing_values():
    assert Domain.of({"x": Bins(np.array([0.0, 0.5, 1.0]), True)}).sizes == {"x": 3}
