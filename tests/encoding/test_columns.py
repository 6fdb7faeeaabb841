"""Column encoders: what goes in comes back, within bounds and labels, and a model file keeps all of it."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from conftest import MIXED
from fitting import HUGE, fitted, generate, mixed_encoder, mixed_rows, one
from understudy import encoding
from understudy.encoding import Encoder, PassThroughEncoder
from understudy.privacy.ledger import Ledger
from understudy.privacy.piecewise import LARGEST
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.values import SchemaError


@pytest.mark.parametrize("name", MIXED.names)
def test_at_a_huge_epsilon_values_come_back(name):
    values, known = mixed_rows()._exact[name], mixed_encoder().columns[name]
    below, above = known.levels(values)
    back = known.values((below + above) / 2)
    if known.labels is not None or known.column.kind == "integer":
        np.testing.assert_array_equal(back, values)
    else:
        spread = np.nanstd(values)
        np.testing.assert_array_equal(np.isnan(back), np.isnan(values))
        assert np.nanmax(np.abs(back - values)) < 1e-6 * spread


@pytest.mark.parametrize("name", ["age", "income", "weight", "joined"])
def test_at_a_huge_epsilon_the_learned_distribution_is_the_column_s(name):
    values = mixed_rows()._exact[name]
    drawn = mixed_encoder().columns[name].values(np.random.default_rng(0).random(8000))
    distance: Any = stats.ks_2samp(values[~np.isnan(values)], drawn)
    assert distance.statistic < 0.03


def test_atoms_come_back_exactly_and_as_often():
    values = mixed_rows()._exact["income"]
    drawn = mixed_encoder().columns["income"].values(np.random.default_rng(0).random(8000))
    expected = np.mean(values[~np.isnan(values)] == 1000.0)
    assert abs(np.mean(drawn == 1000.0) - expected) < 0.02


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, -50.0, 90.0])
def test_zero_one_and_the_bounds_are_looked_at_without_being_declared(value):
    draw = np.random.default_rng(0)
    values = np.where(draw.random(3000) < 0.3, value, np.clip(draw.normal(20, 6, 3000), -40, 80))
    drawn = generate(fitted(*one("continuous", values, low=-50.0, high=90.0)))
    assert abs(np.mean(drawn == value) - 0.3) < 0.05


def test_integers_stay_whole_and_instants_stay_within_their_bounds():
    draw, columns = np.random.default_rng(0).random(2000), mixed_encoder().columns
    ages, joined = columns["age"].values(draw), columns["joined"].values(draw)
    np.testing.assert_array_equal(ages, np.rint(ages))
    low, high = MIXED["joined"].bounds
    assert low is not None and high is not None
    assert joined.min() >= low and joined.max() <= high


@pytest.mark.parametrize("kind", ["continuous", "integer"])
@pytest.mark.parametrize("epsilon", [0.1, HUGE])
def test_values_outside_the_bounds_are_clamped(kind, epsilon):
    values = np.r_[np.full(500, -1e9), np.linspace(0, 10, 1000).round(), np.full(500, np.inf)]
    drawn = generate(fitted(*one(kind, values, low=0, high=10), epsilon))
    assert drawn.min() >= 0 and drawn.max() <= 10
    if epsilon == HUGE:
        assert np.mean(drawn == 0) > 0.2 and np.mean(drawn == 10) > 0.2


def test_unknown_categories_become_other():
    values = ["red"] * 400 + ["mauve"] * 300 + ["blue"] * 300
    encoder = fitted(*one("categorical", values, values=("red", "blue"), other="else"))
    assert encoder.columns["x"].labels == ("red", "blue", "else")
    np.testing.assert_allclose(np.bincount(generate(encoder)) / 4000, [0.4, 0.3, 0.3], atol=0.03)


def test_rare_categories_of_an_open_column_become_other():
    values = ["ash"] * 500 + ["elm"] * 400 + [f"own {i}" for i in range(100)]
    encoder = fitted(*one("categorical", values), epsilon=5.0)
    assert encoder.columns["x"].labels == ("ash", "elm", "other")
    np.testing.assert_allclose(np.bincount(generate(encoder)) / 4000, [0.5, 0.4, 0.1], atol=0.05)


STANDARD = Schema(columns=tuple(Column(name=name, kind="continuous") for name in "xy"), rows=100)


def passed_through() -> Encoder:
    plan = [PlannedMechanism(name="train", mechanism="discrete gaussian", share=1.0)]
    return encoding.pass_through_encoder(STANDARD, ledger=Ledger(Budget(epsilon=1.0, delta=1e-6), plan))


def test_a_pass_through_column_is_its_own_level():
    encoder, values = passed_through(), np.array([-3.0, 0.25, 1e300, np.nan, np.inf])
    below, above = encoder.columns["x"].levels(values)
    np.testing.assert_array_equal(below, [-3.0, 0.25, LARGEST, 0.0, LARGEST])
    np.testing.assert_array_equal(below, above)
    np.testing.assert_array_equal(encoder.columns["x"].values(values), values)
    assert encoder.rows == 100.0 and encoder.columns["x"].is_pass_through


@pytest.mark.parametrize(
    ("facts", "rows", "message"),
    [
        ({"kind": "boolean"}, 10, "column 'x': only numbers"),
        ({"kind": "continuous", "nullable": True}, 10, "column 'x': only numbers"),
        ({"kind": "continuous"}, None, "rows: expected the public number"),
    ],
)
def test_only_numbers_and_a_public_number_of_rows_pass_through(facts, rows, message):
    with pytest.raises(SchemaError, match=message):
        encoding.check_pass_through(Schema(columns=(Column(name="x", **facts),), rows=rows))


@pytest.mark.parametrize("make", [mixed_encoder, passed_through])
def test_an_encoder_comes_back_from_its_facts_and_arrays(make):
    encoder = make()
    again = Encoder.from_arrays(encoder.schema, encoder.facts(), encoder.arrays())
    assert again.rows == encoder.rows and again.labels == encoder.labels
    levels = np.append(np.linspace(0, 1, 50), np.nan)
    for name, known in encoder.columns.items():
        assert type(again.columns[name]) is type(known) and again.columns[name].missing == known.missing
        np.testing.assert_array_equal(again.columns[name].values(levels), known.values(levels))


def test_a_pass_through_column_knows_that_nothing_was_measured():
    known = PassThroughEncoder(STANDARD["x"])
    assert known.is_pass_through and known.labels is None and known.missing == 0.0
    assert not any(each.is_pass_through for each in mixed_encoder().columns.values())
