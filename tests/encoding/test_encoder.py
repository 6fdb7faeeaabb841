"""The cloakroom: what goes in comes back, scores are normal, codes never cut a value, and all of it is paid for."""

import datetime
import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad
from scipy.special import ndtr, ndtri

import understudy
from conftest import MIXED, mixed_table, quick
from understudy.core.randomness import Key
from understudy.encoding import distributions
from understudy.encoding import encoder as encoding
from understudy.encoding.distributions import Distribution
from understudy.encoding.encoder import (
    ColumnMap,
    Encoder,
    ScoreColumn,
    best_cut,
    bin_rows,
    loading,
    make_bins,
    mean_score,
    score_columns,
    score_rows,
)
from understudy.privacy.accounting import Budget
from understudy.privacy.ledger import Ledger
from understudy.privacy.rows import lock
from understudy.tables.schema import Column, Schema
from understudy.tables.table import read

HUGE = 1e6


def locked(table, schema):
    guest = read(table, schema)
    return lock(guest.columns, guest.labels, key=Key.new(0))


def bought(table, schema, epsilon=HUGE, seed=0):
    """The encoder that a share of everything buys."""
    ledger = Ledger(Budget(epsilon=epsilon, delta=1e-6), encoding.plan(schema, share=1.0, delta=1e-6))
    return encoding.fit_encoder(locked(table, schema), schema, ledger=ledger, key=Key.new(seed))


def one(kind, cells_, **facts):
    """A table and a schema of one column, "x"."""
    return pl.DataFrame({"x": cells_}), Schema(columns=(Column(name="x", kind=kind, **facts),))


def generate(encoder, n=4000, seed=1):
    return encoder.maps["x"].values(np.random.default_rng(seed).random(n))


@pytest.fixture(scope="module")
def table():
    return mixed_table(2000)


@pytest.fixture(scope="module")
def encoder(table):
    return bought(table, MIXED)


# There and back.


@pytest.mark.parametrize("name", MIXED.names)
def test_at_a_huge_epsilon_values_come_back(table, encoder, name):
    values = locked(table, MIXED)._exact[name]
    column_map = encoder.maps[name]
    below, above = column_map.levels(values)
    back = column_map.values((below + above) / 2)
    if column_map.labels is not None or column_map.column.kind == "integer":
        np.testing.assert_array_equal(back, values)
    else:
        spread = np.nanstd(values)
        np.testing.assert_array_equal(np.isnan(back), np.isnan(values))
        assert np.nanmax(np.abs(back - values)) < 1e-6 * spread


@pytest.mark.parametrize("name", ["age", "income", "weight", "joined"])
def test_at_a_huge_epsilon_the_learned_distribution_is_the_column_s(table, encoder, name):
    values = locked(table, MIXED)._exact[name]
    drawn = encoder.maps[name].values(np.random.default_rng(0).random(8000))
    distance: Any = stats.ks_2samp(values[~np.isnan(values)], drawn)
    assert distance.statistic < 0.03


def test_atoms_come_back_exactly_and_as_often(table, encoder):
    values = locked(table, MIXED)._exact["income"]
    drawn = encoder.maps["income"].values(np.random.default_rng(0).random(8000))
    expected = np.mean(values[~np.isnan(values)] == 1000.0)
    assert abs(np.mean(drawn == 1000.0) - expected) < 0.02


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, -50.0, 90.0])
def test_zero_one_and_the_bounds_are_looked_at_without_being_declared(value):
    draw = np.random.default_rng(0)
    values = np.where(draw.random(3000) < 0.3, value, np.clip(draw.normal(20, 6, 3000), -40, 80))
    drawn = generate(bought(*one("continuous", values, low=-50.0, high=90.0)))
    assert abs(np.mean(drawn == value) - 0.3) < 0.05


def test_integers_stay_whole_and_instants_stay_within_their_bounds(encoder):
    draw = np.random.default_rng(0).random(2000)
    ages, joined = encoder.maps["age"].values(draw), encoder.maps["joined"].values(draw)
    np.testing.assert_array_equal(ages, np.rint(ages))
    low, high = MIXED["joined"].bounds
    assert low is not None and high is not None
    assert joined.min() >= low and joined.max() <= high


@pytest.mark.parametrize("kind", ["continuous", "integer"])
@pytest.mark.parametrize("epsilon", [0.1, HUGE])
def test_values_outside_the_bounds_are_clamped(kind, epsilon):
    values = np.r_[np.full(500, -1e9), np.linspace(0, 10, 1000).round(), np.full(500, np.inf)]
    encoder = bought(*one(kind, values, low=0, high=10), epsilon)
    drawn = generate(encoder)
    assert drawn.min() >= 0 and drawn.max() <= 10
    if epsilon == HUGE:
        assert np.mean(drawn == 0) > 0.2 and np.mean(drawn == 10) > 0.2


def test_unknown_categories_become_other():
    values = ["red"] * 400 + ["mauve"] * 300 + ["blue"] * 300
    frame, schema = one("categorical", values, values=("red", "blue"), other="else")
    encoder = bought(frame, schema)
    assert encoder.maps["x"].labels == ("red", "blue", "else")
    np.testing.assert_allclose(np.bincount(generate(encoder)) / 4000, [0.4, 0.3, 0.3], atol=0.03)


def test_rare_categories_of_an_open_column_become_other():
    values = ["ash"] * 500 + ["elm"] * 400 + [f"own {i}" for i in range(100)]
    encoder = bought(*one("categorical", values), epsilon=5.0)
    assert encoder.maps["x"].labels == ("ash", "elm", "other")
    np.testing.assert_allclose(np.bincount(generate(encoder)) / 4000, [0.5, 0.4, 0.1], atol=0.05)


KINDS = {
    "continuous": ([1.5, None] * 200, {}),
    "integer": ([1, None] * 200, {}),
    "boolean": ([True, None] * 200, {}),
    "datetime": ([datetime.datetime(2020, 1, 1), None] * 200, {}),
    "categorical": (["a", None] * 200, {}),
    "listed": (["a", None] * 200, {"values": ("a", "b")}),
}


@pytest.mark.parametrize(("values", "facts"), KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("method", ["independent", "copula"])
def test_missing_values_come_out_only_where_the_schema_allows_them(request, values, facts, nullable, method):
    kind = request.node.callspec.id.split("-")[-1]
    frame, schema = one("categorical" if kind == "listed" else kind, values, nullable=nullable, **facts)
    drawn = understudy.fit(frame, schema, quick(method), epsilon=1e4, seed=0).sample(500, seed=0)["x"]
    share = drawn.null_count() / 500
    assert abs(share - 0.5) < 0.1 if nullable else share == 0


def test_a_column_that_is_all_missing_against_its_schema_still_gives_values():
    frame, schema = one("continuous", pl.Series([None] * 50, dtype=pl.Float64), low=0.0, high=1.0)
    drawn = understudy.fit(frame, schema, epsilon=1.0, seed=0).sample(50, seed=0)["x"]
    assert drawn.is_finite().all() and drawn.is_between(0, 1).all()


# Scores.


@pytest.mark.parametrize("name", MIXED.names)
def test_spread_scores_are_standard_normal(table, encoder, name):
    rows = score_rows(locked(table, MIXED), encoder, key=Key.new(0), spread=True)
    score = rows._exact[ScoreColumn(name).name]
    present = score[score != 0.0]  # a missing value has the score 0
    assert stats.kstest(present, "norm").statistic < 0.04


@pytest.mark.parametrize("name", ["income", "colour"])
def test_the_score_of_being_missing_is_high_where_it_is(table, encoder, name):
    values = locked(table, MIXED)._exact[name]
    rows = score_rows(locked(table, MIXED), encoder, key=Key.new(0), spread=False)
    score = rows._exact[ScoreColumn(name, missing=True).name]
    gone = values < 0 if name == "colour" else np.isnan(values)
    assert score[gone].min() > score[~gone].max()


def test_scores_are_made_row_by_row(table, encoder):
    # The subset lacks whole categories, so its private codes are other numbers for the same text.
    keep = np.flatnonzero((table["city"] != "Bonn").to_numpy())[::3]
    whole = score_rows(locked(table, MIXED), encoder, key=Key.new(0), spread=False)
    part = score_rows(locked(table[keep], MIXED), encoder, key=Key.new(0), spread=False)
    for feature in score_columns(encoder):
        np.testing.assert_array_equal(part._exact[feature.name], whole._exact[feature.name][keep])


def test_codes_are_made_row_by_row(table, encoder):
    keep = np.flatnonzero((table["city"] != "Bonn").to_numpy())[::3]
    cut = make_bins(encoder, 16)
    whole = bin_rows(locked(table, MIXED), encoder, cut, key=Key.new(0))
    part = bin_rows(locked(table[keep], MIXED), encoder, cut, key=Key.new(0))
    for name in MIXED.names:
        np.testing.assert_array_equal(part._exact[name], whole._exact[name][keep])


def test_features_of_alike_names_are_told_apart():
    schema = Schema(
        columns=(
            Column(name="x", kind="continuous", nullable=True, low=0.0, high=9.0),
            Column(name="x missing", kind="continuous", low=0.0, high=9.0),
        )
    )
    frame = pl.DataFrame({"x": [1.0, None] * 50, "x missing": np.linspace(0, 9, 100)})
    encoder = bought(frame, schema)
    rows = score_rows(locked(frame, schema), encoder, key=Key.new(0), spread=False)
    assert len({feature.name for feature in score_columns(encoder)}) == len(rows.names) == 3
    assert np.all(np.diff(rows._exact[ScoreColumn("x missing").name]) >= 0)


@pytest.mark.parametrize("interval", [(0.1, 0.3), (1e-6, 0.5), (0.5, 1 - 1e-6), (0.2, 0.2001), (0.999, 0.9999)])
def test_the_mean_score_of_an_interval_is_its_integral(interval):
    a, b = stats.norm.ppf(interval)
    expected = quad(lambda z: z * stats.norm.pdf(z), a, b, epsabs=1e-14)[0] / (interval[1] - interval[0])
    assert np.isclose(mean_score(np.array(interval[0]), np.array(interval[1])), expected, rtol=1e-5)


def test_a_point_has_its_own_score():
    assert np.isclose(mean_score(np.array([0.975]), np.array([0.975]))[0], stats.norm.ppf(0.975))


@pytest.mark.parametrize("name", MIXED.names)
def test_the_loading_is_the_product_of_mean_score_and_the_normal_behind(encoder, name):
    z = np.random.default_rng(0).standard_normal(200_000)
    column_map = encoder.maps[name]
    below, above = column_map.levels(column_map.values(ndtr(z)))
    edge = 1e-9
    score = mean_score(np.clip(below, edge, 1 - edge), np.clip(above, edge, 1 - edge))
    expected = (1 - column_map.missing) * np.mean(score * z)
    assert abs(loading(encoder, ScoreColumn(name)) - expected) < 0.015


# Codes.


@pytest.mark.parametrize("most", [2, 5, 16, 64])
@pytest.mark.parametrize("name", MIXED.names)
def test_a_column_has_no_more_cells_than_asked_for_and_one_for_each_heavy_value(encoder, name, most):
    column_map, cut = encoder.maps[name], make_bins(encoder, most)[name]
    if column_map.labels is not None:
        assert cut.size == len(column_map.labels) + column_map.column.nullable
        return
    below, above = column_map.distribution.atoms()
    heavy = int(np.sum(above - below >= 0.5 / most))
    assert cut.size <= most + 2 * heavy + 1 + column_map.column.nullable
    assert cut.edges[0] == 0.0 and cut.edges[-1] == 1.0 and np.all(np.diff(cut.edges) > 0)


@pytest.mark.parametrize("most", [2, 5, 16, 64])
@pytest.mark.parametrize("name", MIXED.names)
def test_a_value_made_from_a_code_has_that_code(encoder, name, most):
    column_map, cut = encoder.maps[name], make_bins(encoder, most)[name]
    draw = np.random.default_rng(0)
    code = draw.integers(0, cut.size, 2000)
    if column_map.labels is not None:
        ends = column_map.distribution.cdf
        code = code[(code >= len(ends) - 1) | (np.diff(ends)[np.minimum(code, len(ends) - 2)] > 0)]
    values = column_map.values(cut.level(code, draw.uniform(0.01, 0.99, len(code))))
    np.testing.assert_array_equal(cut.code(*column_map.levels(values)), code)


@pytest.mark.parametrize("name", [c.name for c in MIXED if c.kind in ("continuous", "integer", "datetime")])
def test_an_accent_is_standardised_and_grows_with_the_value(encoder, name):
    accent = encoding.ValueWeighting.of(encoder, name)
    assert accent is not None
    levels = (np.arange(5000) + 0.5) / 5000
    values = encoder.maps[name].distribution.quantile(levels)
    found = accent.score(values, ndtri(levels))
    assert abs(found.mean()) < 0.02 and abs(found.std() - 1) < 0.02 and (np.diff(found) >= -1e-9).all()
    assert accent.loading == pytest.approx(np.mean(found * ndtri(levels)), abs=0.02) and 0 < accent.loading <= 1


def test_the_accent_of_a_normal_column_is_its_score():
    levels = np.linspace(1e-4, 1 - 1e-4, 400)
    accent = encoding.ValueWeighting.of(known_encoder(Distribution(ndtri(levels), np.linspace(0, 1, 400))), "x")
    assert accent is not None
    z = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(accent.score(z, z), z, atol=0.05)
    assert accent.loading > 0.99


def test_no_value_has_an_accent_beyond_all_bounds():
    far = known_encoder(Distribution(np.array([0.0, 1.0, 1e300]), np.array([0.0, 0.999, 1.0])))
    accent = encoding.ValueWeighting.of(far, "x")
    assert accent is None or np.isfinite(accent.score(np.array([-1e308, np.nan, 1e308]), np.zeros(3))).all()
    still = known_encoder(Distribution(np.array([2.0, 2.0]), np.array([0.0, 1.0])))
    assert encoding.ValueWeighting.of(still, "x") is None


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


def known_encoder(distribution):
    column = Column(name="x", kind="integer" if distribution.integer else "continuous")
    return Encoder(Schema(columns=(column,)), {"x": ColumnMap(column, distribution)}, 5000.0)


def test_a_small_group_far_from_the_rest_has_a_cell_of_its_own():
    # 4 % at 0 exactly, the rest between 60 and 100: too light for a cell of its own by mass.
    encoder = known_encoder(Distribution(np.array([0.0, 0.0, 60.0, 100.0]), np.array([0.0, 0.04, 0.04, 1.0])))
    for most in (4, 8, 12):
        assert np.abs(make_bins(encoder, most)["x"].edges - 0.04).min() < 1e-9


def test_a_column_without_tails_is_cut_evenly():
    encoder = known_encoder(Distribution(np.array([3.0, 5.0]), np.array([0.0, 1.0])))
    assert make_bins(encoder, 8)["x"].edges == pytest.approx(np.linspace(0, 1, 9), abs=1e-6)


@pytest.mark.parametrize("integer", [False, True])
def test_a_column_of_one_value_is_one_cell(integer):
    values = np.array([6.5, 7.5]) if integer else np.array([7.0, 7.0])
    assert make_bins(known_encoder(Distribution(values, np.array([0.0, 1.0]), integer)), 8)["x"].size == 1


def test_a_trace_beside_a_heavy_value_is_no_cell_of_its_own():
    values, cdf = np.array([0.0, 1.0, 1.0, 9.0]), np.array([0.0, 1e-5, 0.4, 1.0])
    ends = make_bins(known_encoder(Distribution(values, cdf)), 8)["x"].edges
    assert ends[0] == 0.0 and ends[1] == pytest.approx(0.4)


def test_the_farthest_floats_are_cut_too():
    values = np.array([-distributions.LARGEST, 0.0, 1.0, distributions.LARGEST])
    ends = make_bins(known_encoder(Distribution(values, np.array([0.0, 0.3, 0.7, 1.0]))), 8)["x"].edges
    assert np.isfinite(ends).all() and 2 <= len(ends) <= 9


@pytest.mark.parametrize("most", [2, 5, 16, 64])
def test_a_cell_never_ends_inside_a_whole_number(encoder, most):
    ends = make_bins(encoder, most)["age"].edges
    below, above = encoder.maps["age"].distribution.interval(np.arange(0.0, 121.0))
    inside = (ends[:, None] > below + 1e-12) & (ends[:, None] < above - 1e-12)
    assert not inside.any()


# What is bought.

column_facts = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["continuous", "integer", "boolean", "listed", "open", "datetime"]),
        "nullable": st.booleans(),
        "bounded": st.booleans(),
    }
)


def build(position, *, kind, nullable, bounded):
    """A column and 40 values of it."""
    name, draw = f"c{position}", np.random.default_rng(position)
    limits: dict[str, Any] = {"low": 0, "high": 50} if bounded and kind in ("continuous", "integer") else {}
    values = {
        "continuous": draw.normal(20, 5, 40),
        "integer": draw.integers(0, 50, 40),
        "boolean": draw.random(40) < 0.4,
        "listed": draw.choice(["a", "b"], 40),
        "open": draw.choice(["a", "b"], 40),
        "datetime": [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=int(d)) for d in draw.integers(0, 99, 40)],
    }[kind]
    facts: dict[str, Any] = {"values": ("a", "b")} if kind == "listed" else {}
    real = "categorical" if kind in ("listed", "open") else kind
    return Column(name=name, kind=real, nullable=nullable, **facts, **limits), pl.Series(name, values)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(st.lists(column_facts, min_size=1, max_size=5), st.booleans())
def test_what_is_planned_is_what_is_bought(facts, public_rows):
    built = [build(i, **fact) for i, fact in enumerate(facts)]
    schema = Schema(columns=tuple(column for column, _ in built), rows=40 if public_rows else None)
    frame = pl.DataFrame([series for _, series in built])
    receipt = understudy.fit(frame, schema, "independent", epsilon=1.0, seed=0).receipt
    planned = {item.name: item.times for item in encoding.plan(schema, share=1.0, delta=1e-6)}
    spent = [line.name for line in receipt.charges]
    assert receipt.not_released == 0
    assert {name: spent.count(name) for name in spent} == planned
    assert ("rows" in planned) != public_rows


@pytest.mark.parametrize("bounds", [(None, None), (0.0, 1000.0)])
def test_missing_values_that_the_schema_rules_out_do_not_spread_over_the_domain(bounds):
    draw = np.random.default_rng(0)
    x = np.where(draw.random(20_000) < 0.3, np.nan, draw.normal(50.0, 5.0, 20_000))
    column = understudy.Column(name="x", kind="continuous", low=bounds[0], high=bounds[1])
    model = understudy.fit(
        pl.DataFrame({"x": x}), understudy.Schema(columns=(column,)), "independent", epsilon=1.0, seed=1
    )
    made = model.sample(20_000, seed=1)["x"].to_numpy()
    assert made.min() > 20 and made.max() < 90
    assert abs(made.std() - 5.0) < 0.5


@pytest.mark.parametrize("stated", [2_000, 200_000])
@pytest.mark.parametrize("method", sorted(understudy.METHODS))
def test_a_row_count_in_the_schema_may_be_far_off(stated, method):
    draw = np.random.default_rng(0)
    frame = pl.DataFrame({"x": draw.normal(50.0, 5.0, 20_000)}).with_columns(
        y=pl.col("x") + draw.normal(0, 5.0, 20_000)
    )
    columns = tuple(understudy.Column(name=name, kind="continuous") for name in "xy")
    model = understudy.fit(frame, understudy.Schema(columns=columns, rows=stated), quick(method), epsilon=1.0, seed=1)
    made = model.sample(20_000, seed=1)
    assert abs(model.encoder.rows - 20_000) < 2_000
    assert np.ptp(made["x"].to_numpy()) < 70
    if method == "copula":
        assert abs(np.corrcoef(made["x"], made["y"])[0, 1] - 0.5**0.5) < 0.05
