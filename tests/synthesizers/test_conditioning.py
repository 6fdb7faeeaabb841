"""Small groups by importance, against a model of which every conditional distribution is known in closed form."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import norm

import understudy as us
from understudy import datasets
from understudy.core.randomness import Key
from understudy.encoding.columns import CategoricalEncoder, NumericEncoder
from understudy.privacy.piecewise import Distribution
from understudy.synthesizers.conditioning import candidates, draw_given, systematic
from understudy.tables.rejection import SamplingError
from understudy.tables.rules import Condition

SHARES = np.array([0.6, 0.3994, 0.0005, 0.0001])
MEANS = np.array([-1.0, 0.5, 1.5, -2.0])
LABELS = ("a", "b", "rare", "rarer")
SCHEMA = us.Schema(
    columns=(us.Column("c", "categorical", values=LABELS), us.Column("x", "continuous", low=0, high=1)),
)


@dataclasses.dataclass(frozen=True)
class Mixture:
    """A category with known shares, and a number whose score is normal around a mean of the category's."""

    def sample(self, n: int, *, key: Key):
        draw = key.numpy()
        code = draw.choice(len(SHARES), n, p=SHARES)
        below = np.cumsum(SHARES) - SHARES
        return {"c": below[code] + draw.random(n) * SHARES[code], "x": ndtr(draw.normal(MEANS[code]))}

    def log_density(self, encoder, columns: Mapping, labels: Mapping[str, Sequence[str]]):
        code = np.asarray(columns["c"])
        below, above = encoder.columns["x"].levels(columns["x"])
        return np.log(SHARES[code]) + norm.logpdf(ndtri((below + above) / 2), MEANS[code])


@pytest.fixture(scope="module")
def encoder():
    """Even levels of the number, and the shares above for the category: both known, so that nothing is measured."""
    table = pl.DataFrame({"c": ["a", "b"] * 20, "x": np.linspace(0, 1, 40)})
    fitted = us.fit(table, SCHEMA, "independent", epsilon=1.0, seed=0).encoder  # for its form alone
    edges = np.concatenate([[0.0], np.cumsum(SHARES)])
    codes = Distribution(np.arange(len(SHARES) + 1.0) - 0.5, edges / edges[-1], True)
    columns = {
        "c": CategoricalEncoder(SCHEMA["c"], codes, 0.0, LABELS),
        "x": NumericEncoder(SCHEMA["x"], Distribution(np.array([0.0, 1.0]), np.array([0.0, 1.0]))),
    }
    return dataclasses.replace(fitted, columns=columns, rows=1e6)


def test_a_rare_category_has_its_own_distribution_of_the_number(encoder):
    for label, mean in (("rare", 1.5), ("rarer", -2.0)):
        where = {Condition("c", values=(label,)): (1.0, 0.0)}
        levels, effective = draw_given(Mixture(), encoder, where, 4000, key=Key.new(1))
        columns = encoder.decode(levels)
        assert set(columns["c"].tolist()) == {LABELS.index(label)}
        assert ndtri(levels["x"]).mean() == pytest.approx(mean, abs=5 * 1 / np.sqrt(effective) + 0.02)
        assert len(np.unique(levels["x"])) > 0.5 * effective


def test_a_tail_has_the_categories_that_bayes_says(encoder):
    low = float(ndtr(2.5))
    levels, effective = draw_given(Mixture(), encoder, {Condition("x", low=low): (low, 1.0)}, 8000, key=Key.new(2))
    columns = encoder.decode(levels)
    assert columns["x"].min() >= low - 1e-9
    posterior = SHARES * norm.sf(2.5, MEANS)
    posterior /= posterior.sum()
    found = np.bincount(columns["c"], minlength=4) / 8000
    assert np.abs(found - posterior).max() < 4 * np.sqrt(0.25 / effective)
    expected = (SHARES * norm.pdf(2.5, MEANS)).sum() / (SHARES * norm.sf(2.5, MEANS)).sum()  # of score - mean
    shifted = ndtri(np.clip(columns["x"], 1e-12, 1 - 1e-12)) - MEANS[columns["c"]]
    assert shifted.mean() == pytest.approx(expected, rel=0.05)


def test_two_conditions_are_met_together(encoder):
    low = float(ndtr(1.0))
    where = {Condition("c", values=("rare",)): (1.0, 0.0), Condition("x", low=low): (low, 1.0)}
    levels, effective = draw_given(Mixture(), encoder, where, 2000, key=Key.new(3))
    columns = encoder.decode(levels)
    assert set(columns["c"].tolist()) == {2} and columns["x"].min() >= low - 1e-9
    truncated = 1.5 + norm.pdf(-0.5) / norm.sf(-0.5)
    assert ndtri(levels["x"]).mean() == pytest.approx(truncated, abs=4 / np.sqrt(effective))


def test_the_same_key_gives_the_same_rows(encoder):
    where = {Condition("c", values=("rare",)): (1.0, 0.0)}
    one, two, other = (draw_given(Mixture(), encoder, where, 50, key=Key.new(seed))[0] for seed in (4, 4, 5))
    assert np.array_equal(one["x"], two["x"]) and not np.array_equal(one["x"], other["x"])


def test_a_group_that_cannot_be_reached_is_one_honest_line(encoder):
    nothing = {Condition("x", low=0.5, high=0.5): (0.5, 0.5)}  # one point of a continuum
    with pytest.raises(SamplingError, match=r"where: rows with x = 0.5 are so rare .* worth 0.0 of them"):
        draw_given(Mixture(), encoder, nothing, 10, key=Key.new(0))


def test_candidates_cover_the_column_once(encoder):
    found = candidates(encoder, Condition("x", low=0.9), (0.9, 1.0))
    widths = np.diff(ndtr(found.edges), axis=0)[0]
    assert widths.sum() == pytest.approx(1.0, abs=1e-5) and widths[found.within].sum() == pytest.approx(0.1, abs=1e-5)
    assert candidates(encoder, Condition("c", values=("b",)), (1.0, 0.0)).within.tolist() == [False, True, False, False]


def test_resampling_is_in_proportion_to_the_weights():
    weights = np.array([1.0, 0.0, 3.0, 0.5])
    counts = np.bincount(systematic(weights, 9000, np.random.default_rng(0)), minlength=4)
    assert np.abs(counts - 2000 * weights).max() <= 1


def test_a_method_without_densities_draws_until_there_are_enough():
    model = us.fit(datasets.example(2000), datasets.example_schema(), "copula", epsilon=20.0, seed=0)
    rows = model.sample(200, 0, where={"age": (18, 22), "region": "north", "savings": None})
    acceptance = model.acceptance
    assert len(rows) == 200 and acceptance is not None and acceptance.share < 0.01 and acceptance.effective is None
