"""AIM: what it may choose, how it divides its privacy filter, and how near its pairs come with hardly any noise."""

import itertools

import numpy as np
import polars as pl
import pytest

import understudy
from fits import distance
from understudy import encoding
from understudy.core.randomness import Key
from understudy.graphical.junction_tree import megabytes, model_size
from understudy.graphical.marginals import LARGEST_Z_SCORE, Domain, Measured
from understudy.graphical.markov import MarkovNet
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget
from understudy.privacy.rows import lock
from understudy.synthesizers import aim, clique_candidates
from understudy.synthesizers.aim import AIM, ROUNDS, noise_expected
from understudy.synthesizers.clique_candidates import Candidates
from understudy.synthesizers.planning import planned_mechanisms
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.table import read

RING = Schema(name="ring", columns=tuple(Column(name=name, kind="integer", low=0, high=3) for name in "abcd"))
FIVE = Schema(name="five", columns=(*RING.columns, Column(name="e", kind="boolean")))


QUICK_AIM = AIM(rounds_per_column=1.0, least_rounds=0.5, iterations=10, last_iterations=20)


def ring(n=6000, seed=0):
    """Four columns on a ring, which no tree can hold: each of b and d follows a, and c is made of both."""
    draw = np.random.default_rng(seed)
    a = draw.integers(0, 4, n)
    b, d = (np.where(draw.random(n) < 0.3, draw.integers(0, 4, n), a) for _ in range(2))
    c = np.where(draw.random(n) < 0.5, b, (d + 1) % 4)
    return pl.DataFrame({"a": a, "b": b, "c": c, "d": d})


def five(n=6000):
    draw = np.random.default_rng(1)
    return ring(n).with_columns(e=(pl.col("a") + pl.Series(draw.integers(0, 4, n))) > 3)


def domain(**sizes):
    return Domain(sizes)


# The whole ----------------------------------------------------------------------------------------------------------


def test_at_a_huge_epsilon_every_pair_is_as_near_as_a_sample():
    table = five()
    drawn = understudy.fit(table, FIVE, AIM(rounds_per_column=3), epsilon=1e6, seed=0).sample(table.height, seed=1)
    again = table.sample(table.height, with_replacement=True, seed=2)
    pairs = [list(pair) for pair in itertools.combinations(FIVE.names, 2)]
    gaps = [float(distance(table, drawn, pair)) - float(distance(table, again, pair)) for pair in pairs]
    assert np.mean(gaps) <= 0.02


def test_triples_are_met_where_the_workload_has_them():
    draw = np.random.default_rng(0)
    a, b = draw.integers(0, 2, (2, 8000))
    table = pl.DataFrame({"a": a, "b": b, "c": (a + b) % 2})  # every pair is independent
    schema = Schema(columns=tuple(Column(name=name, kind="integer", low=0, high=1) for name in "abc"))
    drawn = {
        degree: understudy.fit(table, schema, AIM(degree=degree), epsilon=10.0, seed=0).sample(8000, seed=0)
        for degree in (2, 3)
    }
    assert distance(table, drawn[3], ["a", "b", "c"]) < 0.05 < 0.4 < distance(table, drawn[2], ["a", "b", "c"])


def test_numbers_keep_a_dependence_that_no_tree_holds():
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(2, 8000))
    frame = pl.DataFrame({"x": x, "y": x + y, "z": x - y})
    schema = Schema(columns=tuple(Column(name=name, kind="continuous", low=-20.0, high=20.0) for name in "xyz"))
    drawn = understudy.fit(frame, schema, AIM(rounds_per_column=2, last_iterations=60), epsilon=2.0, seed=0).sample(
        8000, seed=0
    )
    found = np.corrcoef(drawn.to_numpy().T)
    assert np.abs(found - np.corrcoef(frame.to_numpy().T)).max() < 0.1


def ring_to_measure(epsilon):
    """Locked rows, their encoder, and a ledger and a key to measure with."""
    budget = Budget(epsilon=epsilon, delta=1e-6)
    ledger = Ledger(budget, planned_mechanisms(RING, QUICK_AIM, budget))
    table = read(ring(1000), RING)
    rows = lock(table.columns, table.labels, key=Key.new(0))
    encoder = encoding.fit_encoder(rows, RING, ledger=ledger, key=Key.new(0))
    return rows, encoder, {"ledger": ledger, "key": Key.new(1)}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("emphasis", "first"), [({}, {("a", "b"), ("a", "d")}), ({"c": 9.0}, {("b", "c"), ("c", "d")})]
)
def test_pairs_with_an_emphasised_column_come_first_and_their_sensitivity_is_charged(
    monkeypatch, at_once, emphasis, first
):
    if not at_once:
        monkeypatch.setattr(aim, "MOST_KEPT_BINS", 0)
    rows, encoder, more = ring_to_measure(1e4)
    found = QUICK_AIM.measure(rows, encoder, **more, emphasis=emphasis)
    assert next(each.clique for each in found.measured if len(each.clique) == 2) in first
    charges = [charge for charge in more["ledger"].receipt().charges if charge.mechanism == "exponential"]
    assert charges[0].sensitivity >= max(emphasis.values(), default=1.0)


def test_a_fit_is_the_model_that_is_measured():
    rows, encoder, more = ring_to_measure(1.0)
    found = QUICK_AIM.measure(rows, encoder, **more)
    rows, encoder, again = ring_to_measure(1.0)
    net = QUICK_AIM.fit(rows, encoder, **again)
    assert again["ledger"].receipt().charges == more["ledger"].receipt().charges
    for name, value in found.model.to_bayesnet(found.bins).arrays().items():
        np.testing.assert_array_equal(net.arrays()[name], value)
    one, other = (each.sample(500, key=Key.new(2)) for each in (net, found.model.to_bayesnet(found.bins)))
    for name in RING.names:
        np.testing.assert_array_equal(one[name], other[name])
    counted = [each.clique for each in found.measured]
    assert set(counted) >= {(name,) for name in RING.names} and max(map(len, counted)) == 2


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 1e6])
def test_the_filter_is_used_up_and_every_round_chooses_and_counts(epsilon):
    model = understudy.fit(ring(500), RING, "aim", epsilon=epsilon, seed=0)
    charges = [charge for charge in model.receipt.charges if charge.name == ROUNDS]
    assert [charge.mechanism for charge in charges] == ["exponential", "discrete gaussian"] * (len(charges) // 2)
    assert model.receipt.not_released == 0
    assert [planned.share for planned in AIM().plan(RING)] == [pytest.approx(1 - AIM().encoding_share)]
    assert 0.98 * epsilon <= model.receipt.epsilon <= epsilon
    spent = sum(charge.mu**2 for charge in charges)
    encoder = sum(charge.times * charge.mu**2 for charge in model.receipt.charges if charge.name != ROUNDS)
    # The row count takes a little more than its share of the encoder's.
    assert spent / (spent + encoder) == pytest.approx(1 - AIM().encoding_share, rel=0.01)


def test_rounds_cost_more_and_more_and_never_exceed_their_share():
    method = AIM(rounds_per_column=16, least_rounds=2)
    charges = understudy.fit(ring(300), RING, method, epsilon=0.5, seed=0).receipt.charges
    counts = [charge for charge in charges if charge.name == ROUNDS and charge.mechanism == "discrete gaussian"]
    costs = np.array([charge.mu**2 for charge in counts])
    shares = costs / costs.sum()
    assert shares[0] == pytest.approx(1 / 64, rel=0.01)
    assert (np.diff(shares[:-1]) > -1e-9).all() and shares[:-1].max() <= 1 / 8 + 1e-9
    assert shares[-1] <= 2 / 8 + 1e-9  # what was left: less than two rounds
    assert 8 <= len(shares) + 1 <= 64


def test_a_table_with_too_many_candidates_sees_samples_of_them(monkeypatch):
    monkeypatch.setattr(clique_candidates, "MOST_CANDIDATES", 3)
    seen, choose = [], aim.choose

    def watched(coded, cliques, *more, **how):
        seen.append(len(cliques))
        return choose(coded, cliques, *more, **how)

    monkeypatch.setattr(aim, "choose", watched)
    model = understudy.fit(ring(1000), RING, AIM(degree=3), epsilon=1.0, seed=0)
    assert seen and max(seen) <= 3
    assert model.sample(50, seed=0).height == 50 and model.receipt.not_released == 0


# Value weighting ----------------------------------------------------------------------------------------------------


def choices(model):
    return [charge for charge in model.receipt.charges if charge.mechanism == "exponential"]


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_value_weighting_is_charged_and_brings_no_more_noise_than_it_may(epsilon):
    draw = np.random.default_rng(0)
    x = draw.normal(size=2000)
    frame = pl.DataFrame({"x": x, "y": np.where(draw.random(2000) < 0.03, 9.0, 0.1 * x), "z": draw.normal(size=2000)})
    schema = Schema(columns=tuple(Column(name=name, kind="continuous", low=-9.0, high=9.0) for name in "xyz"))
    charges = choices(understudy.fit(frame, schema, QUICK_AIM, epsilon=epsilon, seed=0))
    for charge in charges:
        assert 1 <= charge.sensitivity <= LARGEST_Z_SCORE**2 + 1e-9
        largest = aim.LARGEST_SELECTION_NOISE * 1.5 * len(x)  # half more, since the number of rows has noise
        assert charge.sigma <= max(largest, charge.noise_multiplier) * (1 + 1e-9) or epsilon < 0.1
    assert (max(charge.sensitivity for charge in charges) > 8) == (epsilon == 100.0)


def test_categories_are_chosen_as_if_there_were_no_value_weighting():
    columns = tuple(Column(name=name, kind="categorical", values=("0", "1", "2", "3")) for name in "abcd")
    table = ring(500).select(pl.all().cast(pl.String))
    model = understudy.fit(table, Schema(columns=columns), QUICK_AIM, epsilon=1.0, seed=0)
    assert [charge.sensitivity for charge in choices(model)] == pytest.approx([1.0] * len(choices(model)), rel=2e-6)


def test_an_error_far_out_weighs_more_and_so_does_its_noise():
    estimate, weights = np.full((2, 3), 50.0), np.array([[1.0, 2.0, 0.0], [4.0, 1.0, 1.0]])
    assert noise_expected(estimate, 3.0, weights) == pytest.approx(noise_expected(estimate, 3.0) * weights.mean())


# Candidates ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("degree", [2, 3])
def test_weights_are_how_much_of_the_workload_a_clique_bears_on(degree):
    names = tuple("abcde")
    candidates = Candidates.of(domain(**dict.fromkeys(names, 2)), degree)
    workload = list(itertools.combinations(names, degree))
    brute = {r: sum(len(set(r) & set(s)) for s in workload) for r in candidates.weights}
    assert {r: w / max(brute.values()) for r, w in brute.items()} == pytest.approx(candidates.weights)
    assert {r for w in range(1, degree + 1) for r in itertools.combinations(names, w)} == set(candidates.weights)


def test_an_emphasised_column_weighs_more_in_cliques_of_several():
    candidates = Candidates.of(domain(a=2, b=2, c=2), 2, {"b": 3.0})
    assert candidates.weights[("a", "b")] == candidates.weights[("b", "c")] == 3.0
    assert (candidates.weights[("a", "c")], candidates.weights[("b",)]) == (1.0, 0.5)


@pytest.mark.parametrize("used", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("mb", [0.0005, 0.001, 0.002, 1.0])
def test_what_is_allowed_keeps_the_model_small(mb, used):
    space = domain(**dict.fromkeys("abcdef", 5))
    held = [("a", "b"), ("b", "c"), ("c", "d")]
    measured = [Measured(clique, np.zeros(space.shape(clique)), 1.0) for clique in [*held, *((c,) for c in "abcdef")]]
    allowed = set(Candidates.of(space, 2).allowed(measured, mb, used, np.random.default_rng(0)))
    assert {*held, *((name,) for name in "abcdef")} <= allowed
    for clique in set(itertools.combinations("abcdef", 2)) - set(held):
        size = megabytes(model_size(space, [*held, clique]))
        if set(clique) & set("ef"):  # joins unconnected parts; judged by an upper bound
            assert clique not in allowed or size <= mb
            assert clique in allowed or megabytes(model_size(space, held) + 25) > mb
        else:
            assert (clique in allowed) == (size <= mb * used)


def test_no_model_is_larger_than_was_allowed():
    method = AIM(max_model_mb=0.001)  # 131 cells: a triangle of the ring has 64
    model = understudy.fit(ring(), RING, method, epsilon=1e4, seed=0)
    assert isinstance(model.generator, MarkovNet)
    sizes = [table.probabilities.size for table in model.generator.tables]
    assert max(sizes) <= 64 and sum(sizes) <= 2 * 131


def test_the_noise_expected_is_that_of_a_count_where_cells_are_full():
    estimate, sigma = np.full((5, 6), 1000.0), 3.0
    noise = np.abs(np.random.default_rng(0).normal(0, sigma, (4000, 30))).sum(axis=1).mean()
    assert noise_expected(estimate, sigma) == pytest.approx(noise, rel=0.01)
    assert noise_expected(np.full((5, 6), 0.1), sigma) == pytest.approx(3.0)
    assert noise_expected(np.full((5, 6), -4.0), sigma) == 0.0


# Settings -----------------------------------------------------------------------------------------------------------


def test_one_column_plans_nothing():
    assert AIM().plan(Schema(columns=RING.columns[:1])) == []


def test_less_noise_makes_more_bins():
    allowed = [AIM().bins_allowed(1e4, noise) for noise in (1e9, 100.0, 10.0, 1e-3, 0.0)]
    assert allowed == sorted(allowed) and allowed[0] == 2.0 and allowed[-1] > aim.MOST_BINS


@pytest.mark.parametrize(
    "settings, rule",
    [
        ({"degree": 1}, "degree"),
        ({"degree": 4}, "degree"),
        ({"encoding_share": 0.0}, "encoding_share"),
        ({"selection_share": 1.0}, "selection_share"),
        ({"rounds_per_column": 0.0}, "rounds_per_column"),
        ({"least_rounds": 20.0}, "least_rounds"),
        ({"max_model_mb": float("inf")}, "max_model_mb"),
        ({"rows_per_noise": -1.0}, "rows_per_noise"),
        ({"shrinkage": float("nan")}, "shrinkage"),
        ({"iterations": 0}, "iterations"),
        ({"last_iterations": 0}, "last_iterations"),
    ],
)
def test_wrong_settings_are_refused(settings, rule):
    with pytest.raises(ValueError, match=rule):
        AIM(**settings)
