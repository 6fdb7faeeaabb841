"""The copula: latent correlations are recovered through ties and gaps, and samples have them."""

import numpy as np
import polars as pl
import pytest
from scipy.special import ndtri, stdtr
from scipy.stats import kstest

import understudy
from understudy.core.randomness import Key
from understudy.encoding.scores import ScoreColumn, target_weightings
from understudy.synthesizers.copula import Copula, FittedCopula, latent_correlation, student_level
from understudy.synthesizers.moments import nearest_correlation
from understudy.tables.column import Column
from understudy.tables.schema import Schema

SHAPES = {
    "continuous": lambda z: np.exp(z),
    "integer": lambda z: np.rint(50 + 12 * z),
    "ordinal": lambda z: np.digitize(z, [-1.2, -0.3, 0.4, 1.1]).astype(float),
    "atom": lambda z: np.where(z < -0.25, 0.0, z + 0.25),
    "two": lambda z: (z > 0.3).astype(float),
}
WHOLE = {"integer", "ordinal", "two"}
PAIRS = [("continuous", "integer"), ("continuous", "ordinal"), ("atom", "ordinal"), ("atom", "two"), ("two", "two")]
CORRELATIONS = [-0.6, 0.0, 0.4]
LOOSE = Copula(clip_range=(10.0, 10.0))


def column(name, shape):
    return Column(name=name, kind="integer" if shape in WHOLE else "continuous")


def correlations(model):
    return model.generator.factor @ model.generator.factor.T


@pytest.fixture(scope="module", params=CORRELATIONS)
def recovered(request):
    """The correlation behind every pair of shapes in one table, and the matrix that is found in it.

    Each pair shares a normal of its own, so that columns of different pairs have nothing to do with each other.
    """
    draw, n, correlation = np.random.default_rng(3), 20_000, request.param
    frame, columns = {}, []
    for i, (first, second) in enumerate(PAIRS):
        z = draw.standard_normal(n)
        w = correlation * z + np.sqrt(1 - correlation**2) * draw.standard_normal(n)
        frame |= {f"a{i}": SHAPES[first](z), f"b{i}": SHAPES[second](w)}
        columns += [column(f"a{i}", first), column(f"b{i}", second)]
    model = understudy.fit(pl.DataFrame(frame), Schema(columns=tuple(columns)), LOOSE, epsilon=1e4, seed=0)
    return correlation, correlations(model)


@pytest.mark.slow
@pytest.mark.parametrize("pair", range(len(PAIRS)), ids=["-".join(pair) for pair in PAIRS])
def test_the_correlation_behind_is_recovered(recovered, pair):
    correlation, found = recovered
    assert abs(found[2 * pair, 2 * pair + 1] - correlation) < 0.07
    apart = np.delete(found[2 * pair : 2 * pair + 2], [2 * pair, 2 * pair + 1], axis=1)
    assert np.abs(apart).max() < 0.07


@pytest.mark.parametrize("shape", ["continuous", "integer", "atom"])
def test_it_is_recovered_through_a_value_weighted_target(shape):
    draw = np.random.default_rng(3)
    z = draw.standard_normal((4, 20_000))
    target = CORRELATIONS @ z[:3] + np.sqrt(1 - np.sum(np.square(CORRELATIONS))) * z[3]
    frame = pl.DataFrame({f"a{i}": SHAPES["integer"](z[i]) for i in range(3)} | {"b": SHAPES[shape](target)})
    columns = (*(column(f"a{i}", "integer") for i in range(3)), column("b", shape))
    model = understudy.fit(frame, Schema(columns=columns, target="b"), LOOSE, epsilon=1e4, seed=0)
    assert target_weightings(model.encoder).keys() == {"b"}
    np.testing.assert_allclose(correlations(model)[:3, 3], CORRELATIONS, atol=0.07)


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
    fitted = FittedCopula(tuple(ScoreColumn(n) for n in "abcd"), factor, np.zeros(4), np.inf)
    levels = fitted.sample(40_000, key=Key.new(seed))
    scores = ndtri(np.stack([levels[n] for n in "abcd"]))
    np.testing.assert_allclose(np.corrcoef(scores), wanted, atol=0.03)
    assert np.all((scores.std(axis=1) > 0.97) & (scores.std(axis=1) < 1.03))


@pytest.mark.parametrize("degrees", [4.0, 8.0, np.inf])
def test_levels_are_uniform_whatever_the_degrees(degrees):
    fitted = FittedCopula((ScoreColumn("a"), ScoreColumn("b")), np.eye(2), np.zeros(2), degrees)
    levels = fitted.sample(20_000, key=Key.new(0))
    assert all(kstest(level, "uniform").pvalue > 1e-4 for level in levels.values())


@pytest.mark.parametrize("degrees", [4, 6, 8, 30])
def test_the_level_of_a_student_variable_is_scipy_s(degrees):
    t = np.r_[np.linspace(-60, 60, 2001), -1e8, 1e8]
    np.testing.assert_allclose(student_level(t, degrees), stdtr(degrees, t), atol=1e-12)


@pytest.mark.parametrize("degrees", [8.0, np.inf])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.9])
def test_as_many_are_missing_as_the_fitted_says(share, degrees):
    fitted = FittedCopula(
        (ScoreColumn("a"), ScoreColumn("a", missing=True)), np.eye(2), np.array([0.0, share]), degrees
    )
    gone = np.isnan(fitted.sample(20_000, key=Key.new(0))["a"])
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


def test_a_coordinate_that_says_nothing_is_left_uncorrelated():
    moments = np.full((3, 3), 0.5) + 0.5 * np.eye(3)
    loadings = np.array([1.0, 1.0, 0.001])
    result = latent_correlation(moments, loadings, loadings)
    np.testing.assert_allclose(result[2], [0.0, 0.0, 1.0], atol=1e-9)
    assert result[0, 1] > 0.4


@pytest.mark.parametrize(
    "settings_",
    [
        {"encoding_share": 0.0},
        {"encoding_share": 1.0},
        {"noise_target": 0.0},
        {"clip_range": (2.0, 1.0)},
        {"clip_range": (0.0, 1.0)},
        {"clip_range": (1.0,)},
        {"degrees": 2.0},
        {"degrees": 7.0},
        {"degrees": float("nan")},
    ],
)
def test_settings_are_checked_at_birth(settings_):
    with pytest.raises(ValueError, match=rf"Copula\.{next(iter(settings_))}: expected"):
        Copula(**settings_)
