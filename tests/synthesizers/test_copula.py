"""The copula: latent correlations are recovered through ties and gaps, and the matrix sampled from is one."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import ndtri, stdtr
from scipy.stats import kstest

import understudy
from understudy.core.randomness import Key
from understudy.encoding.encoder import ScoreColumn, target_weightings
from understudy.synthesizers.copula import (
    Copula,
    FittedCopula,
    latent_correlation,
    nearest_correlation,
    student_level,
)
from understudy.tables.schema import Column, Schema

SHAPES = {
    "continuous": lambda z: np.exp(z),
    "integer": lambda z: np.rint(50 + 12 * z),
    "ordinal": lambda z: np.digitize(z, [-1.2, -0.3, 0.4, 1.1]).astype(float),
    "atom": lambda z: np.where(z < -0.25, 0.0, z + 0.25),
    "two": lambda z: (z > 0.3).astype(float),
}


def pair(first, second, correlation, n=20_000):
    """Two columns of the given shapes over normals of the given correlation, and their schema."""
    draw = np.random.default_rng(3)
    z = draw.standard_normal(n)
    w = correlation * z + np.sqrt(1 - correlation**2) * draw.standard_normal(n)
    whole = {"integer", "ordinal", "two"}
    columns = tuple(
        Column(name=name, kind="integer" if shape in whole else "continuous")
        for name, shape in (("a", first), ("b", second))
    )
    return pl.DataFrame({"a": SHAPES[first](z), "b": SHAPES[second](w)}), Schema(columns=columns)


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.4])
@pytest.mark.parametrize(
    ("first", "second"),
    [("continuous", "integer"), ("continuous", "ordinal"), ("atom", "ordinal"), ("atom", "two"), ("two", "two")],
)
def test_the_correlation_behind_is_recovered(first, second, correlation):
    frame, schema = pair(first, second, correlation)
    model = understudy.fit(frame, schema, Copula(clip_range=(10.0, 10.0)), epsilon=1e4, seed=0)
    factor = model.generator.factor
    assert abs((factor @ factor.T)[0, 1] - correlation) < 0.07


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.4])
@pytest.mark.parametrize("second", ["continuous", "integer", "atom"])
def test_it_is_recovered_through_an_accented_target(second, correlation):
    frame, schema = pair("integer", second, correlation)
    schema = dataclasses.replace(schema, target="b")
    model = understudy.fit(frame, schema, Copula(clip_range=(10.0, 10.0)), epsilon=1e4, seed=0)
    assert target_weightings(model.encoder).keys() == {"b"}
    factor = model.generator.factor
    assert abs((factor @ factor.T)[0, 1] - correlation) < 0.07


def test_what_a_few_far_rows_of_the_target_depend_on_is_kept():
    """Where z is low the target is 0, else it has nothing to do with z: by rank that is hardly a correlation."""
    draw = np.random.default_rng(0)
    z = draw.standard_normal(20_000)
    frame = pl.DataFrame({"z": z, "y": np.where(z < -1.8, 0.0, 90 + 3 * draw.standard_normal(20_000))})
    columns = tuple(Column(name=name, kind="continuous") for name in frame.columns)

    def product(schema):
        made = understudy.fit(frame, schema, "copula", epsilon=5.0, seed=0).sample(20_000, seed=1)
        return np.corrcoef(made["z"], made["y"])[0, 1]

    exact = np.corrcoef(frame["z"], frame["y"])[0, 1]
    with_target, without = product(Schema(columns=columns, target="y")), product(Schema(columns=columns))
    assert abs(with_target - exact) < 0.15 and with_target > 1.5 * without


@pytest.mark.parametrize("seed", range(3))
def test_samples_have_the_correlations_of_the_matrix(seed):
    draw = np.random.default_rng(seed)
    factors = draw.normal(size=(4, 6))
    wanted = nearest_correlation(np.asarray(np.corrcoef(factors)))
    factor = np.asarray(np.linalg.cholesky(wanted), dtype=np.float64)
    recipe = FittedCopula(tuple(ScoreColumn(n) for n in "abcd"), factor, np.zeros(4), np.inf)
    levels = recipe.sample(40_000, key=Key.new(seed))
    scores = ndtri(np.stack([levels[n] for n in "abcd"]))
    np.testing.assert_allclose(np.corrcoef(scores), wanted, atol=0.03)
    assert np.all((scores.std(axis=1) > 0.97) & (scores.std(axis=1) < 1.03))


@pytest.mark.parametrize("degrees", [4.0, 8.0, np.inf])
def test_levels_are_uniform_whatever_the_degrees(degrees):
    recipe = FittedCopula((ScoreColumn("a"), ScoreColumn("b")), np.eye(2), np.zeros(2), degrees)
    levels = recipe.sample(20_000, key=Key.new(0))
    assert all(kstest(level, "uniform").pvalue > 1e-4 for level in levels.values())


@pytest.mark.parametrize("degrees", [4, 6, 8, 30])
def test_the_level_of_a_student_variable_is_scipy_s(degrees):
    t = np.r_[np.linspace(-60, 60, 2001), -1e8, 1e8]
    np.testing.assert_allclose(student_level(t, degrees), stdtr(degrees, t), atol=1e-12)


@pytest.mark.parametrize("degrees", [8.0, np.inf])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.9])
def test_as_many_are_missing_as_the_recipe_says(share, degrees):
    recipe = FittedCopula(
        (ScoreColumn("a"), ScoreColumn("a", missing=True)), np.eye(2), np.array([0.0, share]), degrees
    )
    gone = np.isnan(recipe.sample(20_000, key=Key.new(0))["a"])
    assert abs(gone.mean() - share) < 0.015


def test_missing_values_follow_the_column_they_depend_on():
    draw = np.random.default_rng(0)
    z = draw.standard_normal(8000)
    hidden = z + 0.5 * draw.standard_normal(8000) > 0.8
    frame = pl.DataFrame({"a": z, "b": pl.Series(draw.standard_normal(8000)).set(pl.Series(hidden), None)})
    schema = Schema(columns=(Column(name="a", kind="continuous"), Column(name="b", kind="continuous", nullable=True)))
    drawn = understudy.fit(frame, schema, "copula", epsilon=1e4, seed=0).sample(8000, seed=0)
    gone = drawn["b"].is_null()
    assert abs(gone.mean() - hidden.mean()) < 0.03
    assert drawn["a"].filter(gone).mean() - drawn["a"].filter(~gone).mean() > 1.0


# The nearest correlation matrix.


def by_the_dual(matrix, smallest):
    """The nearest correlation matrix by another road: Qi and Sun's (2006) smooth convex dual, minimised by BFGS."""
    shifted = matrix.copy()
    np.fill_diagonal(shifted, 1.0)
    shifted -= smallest * np.eye(len(matrix))

    def positive_part(y):
        values, vectors = np.linalg.eigh(shifted + np.diag(y))
        return (vectors * np.maximum(values, 0.0)) @ vectors.T

    def dual(y):
        part = positive_part(y)
        return 0.5 * np.sum(part**2) - (1 - smallest) * y.sum(), np.diag(part) - (1 - smallest)

    y = minimize(dual, np.zeros(len(matrix)), jac=True, method="BFGS", options={"gtol": 1e-10}).x
    return positive_part(y) + smallest * np.eye(len(matrix))


def random_symmetric(seed, size, noise):
    draw = np.random.default_rng(seed)
    true = np.corrcoef(draw.normal(size=(size, size + 3)))
    noisy = true + noise * draw.normal(size=(size, size))
    return np.clip((noisy + noisy.T) / 2, -0.99, 0.99)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 12), st.floats(0.0, 3.0))
def test_the_nearest_correlation_matrix_is_one(seed, size, noise):
    nearest = nearest_correlation(random_symmetric(seed, size, noise) if size > 1 else np.ones((1, 1)))
    np.testing.assert_allclose(np.diag(nearest), 1.0)
    np.testing.assert_allclose(nearest, nearest.T)
    assert np.linalg.eigvalsh(nearest).min() > 1e-4
    assert np.abs(nearest).max() <= 1 + 1e-12
    np.linalg.cholesky(nearest)


@pytest.mark.parametrize("seed", range(4))
def test_a_correlation_matrix_is_its_own_nearest(seed):
    matrix = np.asarray(np.corrcoef(np.random.default_rng(seed).normal(size=(5, 40))))
    np.testing.assert_allclose(nearest_correlation(matrix), matrix, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_it_is_as_near_as_the_dual_problem_finds(seed, noise):
    matrix = random_symmetric(seed, 6, noise)
    np.fill_diagonal(matrix, 1.0)
    fast, slow = nearest_correlation(matrix), by_the_dual(matrix, 1e-3)
    assert np.linalg.norm(fast - matrix) <= np.linalg.norm(slow - matrix) * 1.01 + 1e-6
    np.testing.assert_allclose(fast, slow, atol=1e-6)
    np.testing.assert_allclose(fast, slow, atol=0.02)


def test_a_coordinate_that_says_nothing_is_left_uncorrelated():
    moments = np.full((3, 3), 0.5) + 0.5 * np.eye(3)
    loadings = np.array([1.0, 1.0, 0.001])
    result = latent_correlation(moments, loadings, loadings)
    np.testing.assert_allclose(result[2], [0.0, 0.0, 1.0], atol=1e-9)
    assert result[0, 1] > 0.4


@pytest.mark.parametrize(
    "settings_", [{"encoding_share": 0.0}, {"encoding_share": 1.0}, {"noise_target": 0.0}, {"clip_range": (2.0, 1.0)}]
)
def test_settings_are_checked_at_birth(settings_):
    with pytest.raises(ValueError, match=rf"Copula\.{next(iter(settings_))}: expected"):
        Copula(**settings_)
