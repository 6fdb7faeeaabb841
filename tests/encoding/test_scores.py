"""Scores are standard normal, made row by row, and lose no more of the normal behind them than `loading` says."""

import numpy as np
import polars as pl
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import ndtr, ndtri

from conftest import MIXED, mixed_table
from fitting import fitted, known_encoder, locked, mixed_encoder, mixed_rows
from understudy.core.randomness import Key
from understudy.encoding import ScoreColumn, loading, mean_score, score_columns, score_rows, value_weighting
from understudy.privacy.piecewise import Distribution
from understudy.tables.column import Column
from understudy.tables.schema import Schema


@pytest.fixture(scope="module")
def spread():
    return score_rows(mixed_rows(), mixed_encoder(), key=Key.new(0), spread=True)


@pytest.fixture(scope="module")
def mean():
    return score_rows(mixed_rows(), mixed_encoder(), key=Key.new(0), spread=False)


@pytest.mark.parametrize("name", MIXED.names)
def test_spread_scores_are_standard_normal(spread, name):
    score = spread._exact[ScoreColumn(name).name]
    present = score[score != 0.0]  # a missing value has the score 0
    assert stats.kstest(present, "norm").statistic < 0.04


@pytest.mark.parametrize("name", ["income", "colour"])
def test_the_score_of_being_missing_is_high_for_missing_values(mean, name):
    values = mixed_rows()._exact[name]
    score = mean._exact[ScoreColumn(name, missing=True).name]
    gone = values < 0 if name == "colour" else np.isnan(values)
    assert score[gone].min() > score[~gone].max()


def test_scores_are_made_row_by_row(mean):
    # The subset lacks whole categories, so its private codes are other numbers for the same text.
    table = mixed_table(2000)
    keep = np.flatnonzero((table["city"] != "Bonn").to_numpy())[::3]
    part = score_rows(locked(table[keep], MIXED), mixed_encoder(), key=Key.new(0), spread=False)
    for each in score_columns(mixed_encoder()):
        np.testing.assert_array_equal(part._exact[each.name], mean._exact[each.name][keep])


def test_scores_of_columns_with_alike_names_are_told_apart():
    schema = Schema(
        columns=(
            Column(name="x", kind="continuous", nullable=True, low=0.0, high=9.0),
            Column(name="x missing", kind="continuous", low=0.0, high=9.0),
        )
    )
    frame = pl.DataFrame({"x": [1.0, None] * 50, "x missing": np.linspace(0, 9, 100)})
    encoder = fitted(frame, schema)
    rows = score_rows(locked(frame, schema), encoder, key=Key.new(0), spread=False)
    assert len({each.name for each in score_columns(encoder)}) == len(rows.names) == 3
    assert np.all(np.diff(rows._exact[ScoreColumn("x missing").name]) >= 0)


@pytest.mark.parametrize("interval", [(0.1, 0.3), (1e-6, 0.5), (0.5, 1 - 1e-6), (0.2, 0.2001), (0.999, 0.9999)])
def test_the_mean_score_of_an_interval_is_its_integral(interval):
    a, b = stats.norm.ppf(interval)
    expected = quad(lambda z: z * stats.norm.pdf(z), a, b, epsabs=1e-14)[0] / (interval[1] - interval[0])
    assert np.isclose(mean_score(np.array(interval[0]), np.array(interval[1])), expected, rtol=1e-5)


def test_a_point_has_its_own_score():
    assert np.isclose(mean_score(np.array([0.975]), np.array([0.975]))[0], stats.norm.ppf(0.975))


@pytest.mark.parametrize("name", MIXED.names)
def test_the_loading_is_the_product_of_mean_score_and_the_normal_behind(name):
    z = np.random.default_rng(0).standard_normal(200_000)
    known = mixed_encoder().columns[name]
    below, above = known.levels(known.values(ndtr(z)))
    edge = 1e-9
    score = mean_score(np.clip(below, edge, 1 - edge), np.clip(above, edge, 1 - edge))
    expected = (1 - known.missing) * np.mean(score * z)
    assert abs(loading(mixed_encoder(), ScoreColumn(name)) - expected) < 0.015


# Value weighting.


@pytest.mark.parametrize("name", [c.name for c in MIXED if c.kind in ("continuous", "integer", "datetime")])
def test_a_weighted_score_is_standardised_and_grows_with_the_value(name):
    weighting = value_weighting(mixed_encoder(), name)
    assert weighting is not None
    levels = (np.arange(5000) + 0.5) / 5000
    values = mixed_encoder().columns[name].distribution.quantile(levels)
    found = weighting.score(values, ndtri(levels))
    assert abs(found.mean()) < 0.02 and abs(found.std() - 1) < 0.02 and (np.diff(found) >= -1e-9).all()
    assert weighting.loading == pytest.approx(np.mean(found * ndtri(levels)), abs=0.02) and 0 < weighting.loading <= 1


def test_the_weighted_score_of_a_normal_column_is_its_score():
    levels = np.linspace(1e-4, 1 - 1e-4, 400)
    weighting = value_weighting(known_encoder(Distribution(ndtri(levels), np.linspace(0, 1, 400))), "x")
    assert weighting is not None
    z = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(weighting.score(z, z), z, atol=0.05)
    assert weighting.loading > 0.99


def test_no_value_has_a_weighted_score_beyond_all_bounds():
    far = known_encoder(Distribution(np.array([0.0, 1.0, 1e300]), np.array([0.0, 0.999, 1.0])))
    weighting = value_weighting(far, "x")
    assert weighting is None or np.isfinite(weighting.score(np.array([-1e308, np.nan, 1e308]), np.zeros(3))).all()
    still = known_encoder(Distribution(np.array([2.0, 2.0]), np.array([0.0, 1.0])))
    assert value_weighting(still, "x") is None


def test_categories_have_no_value_weighting():
    assert value_weighting(mixed_encoder(), "city") is None


def test_a_weighted_column_gets_its_weighted_score(spread):
    weighting = value_weighting(mixed_encoder(), "weight")
    assert weighting is not None
    rows = score_rows(mixed_rows(), mixed_encoder(), key=Key.new(0), spread=True, weightings={"weight": weighting})
    values, name = mixed_rows()._exact["weight"], ScoreColumn("weight").name
    np.testing.assert_allclose(rows._exact[name], weighting.score(values, spread._exact[name]), atol=1e-3)
    other = ScoreColumn("age").name
    np.testing.assert_array_equal(rows._exact[other], spread._exact[other])
