"""The method `prada`: settings and plan, what it measures and charges, and what its fits learn."""

import dataclasses

import numpy as np
import polars as pl
import pytest

import understudy
from conftest import MIXED, QUICK, mixed_table, quick
from fitting import mixed_encoder, mixed_rows
from understudy.core.randomness import Key
from understudy.datasets.simulators import simulate
from understudy.evaluation.structure import compare
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.plan import Budget, BudgetExceeded, PlannedMechanism
from understudy.synthesizers.aim import ROUNDS
from understudy.synthesizers.planning import planned_mechanisms
from understudy.synthesizers.prada.batch import LockedFeatures
from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.likelihood.method import Prada
from understudy.synthesizers.prada.likelihood.moments import all_weightings, measure_moments
from understudy.synthesizers.prada.likelihood.start import feature_facts
from understudy.synthesizers.prada.settings import drawn_rate, sampling_rate
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.values import SchemaError

# Settings and plan --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": -1}, "steps"),
        ({"steps": 30}, "multiple"),
        ({"rate": 0.0}, "rate"),
        ({"hidden": 0}, "hidden"),
        ({"hidden": None}, "hidden"),
        ({"components": -1}, "components"),
        ({"most_parents": 0}, "most_parents"),
        ({"average": 1.5}, "average"),
        ({"distillation_steps": 0}, "distillation_steps"),
        ({"distillation_rate": 0.0}, "distillation_rate"),
        ({"encoding_share": 0.6, "moments_share": 0.5}, "together"),
        ({"encoding_share": 0.4, "graph_share": 0.5}, "together"),
        ({"order": "private"}, "order"),
        ({"encoding_share": 0.001}, "encoding_share"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"penalty": -1.0}, "penalty"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Prada(**settings)


def test_an_order_must_name_every_column():
    with pytest.raises(SchemaError, match="order"):
        Prada(order=("age",)).plan(MIXED)


def test_the_plan_is_the_whole_budget():
    method = Prada()
    assert sum(item.share for item in method.plan(MIXED)) == pytest.approx(1.0 - method.encoding_share)
    by_name = {item.name: item for item in method.plan(dataclasses.replace(MIXED, rows=1_000_000))}
    assert list(by_name) == [ROUNDS, "moments", "gradients"]
    assert by_name["gradients"].sampling_rate == pytest.approx(800 / 1e6)


def test_without_steps_no_gradients_are_planned():
    assert [item.name for item in Prada(steps=0).plan(MIXED)] == [ROUNDS, "moments"]


def test_a_single_column_needs_its_distribution_alone():
    assert Prada().plan(Schema(columns=(MIXED["age"],))) == []


def test_the_target_is_generated_last_unless_the_schema_has_an_order():
    columns = tuple(Column(name=name, kind="continuous", low=0.0, high=1.0) for name in "abc")
    schema = Schema(name="t", columns=columns, target="a")
    assert Prada().order_for(schema) == ("b", "c", "a")
    assert Prada(order=("c", "a", "b")).order_for(schema) == ("c", "a", "b")
    assert Prada().order_for(dataclasses.replace(schema, order=("a", "c", "b"))) == ("a", "c", "b")
    assert Prada().order_for(dataclasses.replace(schema, target=None)) == ("a", "b", "c")


@pytest.mark.parametrize(
    ("given", "rows", "expected"), [(None, 12_000, 0.08), (None, 1e6, 0.0016), (1_000_000, 1e6, 0.0008)]
)
def test_batches_stay_small_however_many_rows_there_turn_out_to_be(given, rows, expected):
    schema = Schema(name="t", columns=(Column(name="a", kind="continuous", low=0.0, high=1.0),), rows=given)
    assert drawn_rate(Prada().batch_size, schema, rows) == pytest.approx(expected)
    assert drawn_rate(Prada().batch_size, schema, rows) <= sampling_rate(Prada().batch_size, schema)


# What it measures ---------------------------------------------------------------------------------------------------


def moments_at(epsilon, seed=0):
    """The moments of the mixed table, and the ledger that was charged for them."""
    encoder = mixed_encoder()
    layout = Layout.of(encoder, MIXED.names)
    planned = [PlannedMechanism(name="moments", mechanism="discrete gaussian", share=1.0)]
    ledger = Ledger(Budget(epsilon=epsilon, delta=1e-6), planned)
    facts, key = feature_facts(encoder, layout), Key.new(seed)
    return measure_moments(mixed_rows(), encoder, layout, facts, ledger=ledger, key=key), ledger


def exact_moments(clip_norm, seed=0):
    encoder, weightings = mixed_encoder(), all_weightings(mixed_encoder(), Layout.of(mixed_encoder(), MIXED.names))
    locked = LockedFeatures.of(mixed_rows(), encoder, MIXED.names, key=Key.new(seed), weightings=weightings)
    x = np.stack([locked.rows._exact[name] for name in locked.columns])
    x = x * np.minimum(1.0, clip_norm / np.sqrt((x**2).sum(axis=0)))
    return x @ x.T / encoder.rows


def test_moments_without_noise_to_speak_of_are_means_of_products_over_clipped_rows():
    found, _ = moments_at(1e6)
    np.testing.assert_allclose(found.means, exact_moments(found.clip_norm), atol=2e-3)


def test_moments_carry_the_noise_that_they_state():
    found = [moments_at(1.0, seed)[0] for seed in range(4)]
    gaps = np.array([each.means - exact_moments(each.clip_norm, seed) for seed, each in enumerate(found)])
    upper = np.triu_indices(gaps.shape[1], 1)
    assert np.std(gaps[:, *upper]) == pytest.approx(found[0].noise, rel=0.1)


def test_moments_are_charged_once():
    _, ledger = moments_at(1.0)
    [charge] = ledger.receipt().charges
    assert (charge.name, charge.mechanism, charge.times) == ("moments", "discrete gaussian", 1)


@pytest.mark.slow
@pytest.mark.parametrize("spent", [ROUNDS, "moments", "gradients"])
def test_each_spent_mechanism_refuses_by_itself(spent):
    method, budget = Prada(**QUICK["prada"]), Budget(epsilon=1.0, delta=1e-6)
    ledger = Ledger(budget, planned_mechanisms(MIXED, method, budget))
    if spent == ROUNDS:
        ledger.charge(FilterShare(ROUNDS, 1.0), what="spent", sensitivity=1.0, mechanism="discrete gaussian")
    else:
        ledger.charge(spent, what="spent", sensitivity=1.0, times=method.steps if spent == "gradients" else 1)
    with pytest.raises(BudgetExceeded):
        method.fit(mixed_rows(), mixed_encoder(), ledger=ledger, key=Key.new(0))


# Fits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fits_made_together_are_those_made_alone():
    table, methods = mixed_table(1500), [quick("prada"), quick("prada"), dataclasses.replace(quick("prada"), rate=0.01)]
    together = understudy.fit_many(table, MIXED, methods, [0, 1, 2], epsilon=[1.0, 2.0, 1.0])
    for model, method, seed, epsilon in zip(together, methods, [0, 1, 2], [1.0, 2.0, 1.0], strict=True):
        alone = understudy.fit(table, MIXED, method, epsilon=epsilon, seed=seed)
        assert alone.parents == model.parents and alone.receipt.charges == model.receipt.charges
        for name, value in alone.generator.arrays().items():
            if value.dtype.kind == "f":
                np.testing.assert_allclose(model.generator.arrays()[name], value, atol=1e-3, err_msg=name)
            else:
                np.testing.assert_array_equal(model.generator.arrays()[name], value, err_msg=name)


@pytest.mark.slow
def test_without_steps_it_is_a_distilled_graphical_model():
    table = mixed_table(3000)
    model = understudy.fit(table, MIXED, dataclasses.replace(quick("prada"), steps=0), epsilon=20.0, seed=0)
    assert {charge.name for charge in model.receipt.charges} >= {ROUNDS, "moments"}
    assert "gradients" not in {charge.name for charge in model.receipt.charges}
    drawn = model.sample(3000, seed=0)
    real, made = (np.corrcoef(frame["age"], frame["weight"])[0, 1] for frame in (table, drawn))
    assert made == pytest.approx(real, abs=0.1)


def simulated(n, seed=0):
    """A column that bends and splits with an earlier one, and one that is alone."""
    draw = np.random.default_rng(seed)
    a, alone = draw.standard_normal(n), draw.standard_normal(n)
    b = np.where(draw.random(n) < 0.5, 1.0, -1.0) * (1.0 + np.abs(a)) + 0.2 * draw.standard_normal(n)
    columns = tuple(Column(name=name, kind="continuous", low=-10.0, high=10.0) for name in ("a", "alone", "b"))
    return pl.DataFrame({"a": a, "alone": alone, "b": b}), Schema(name="bent", columns=columns, rows=n)


@pytest.mark.slow
def test_without_noise_to_speak_of_it_learns_what_a_copula_cannot():
    frame, schema = simulated(4000)
    model = understudy.fit(frame, schema, Prada(), epsilon=1e5, seed=0)
    assert model.parents["b"] == ["a"] and model.parents["alone"] == []
    drawn = model.sample(4000, seed=0)
    spread = [np.abs(f["b"].to_numpy())[np.abs(f["a"].to_numpy()) > 1.2].mean() for f in (frame, drawn)]
    assert abs(spread[0] - spread[1]) < 0.15
    fresh = simulated(2000, seed=1)[0]
    flat = fresh.with_columns(b=-pl.col("a"))
    assert model.log_density(fresh).mean() > model.log_density(flat).mean() + 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "equations"), [("erdos-renyi", "nonlinear"), ("scale-free", "linear")])
def test_it_finds_the_parents_of_simulated_columns(graph, equations):
    simulation = simulate(10_000, 6, graph=graph, equations=equations, degree=2, seed=0)
    schema = dataclasses.replace(simulation.schema, order=simulation.order, rows=10_000)
    model = understudy.fit(simulation.frame, schema, "prada", epsilon=5.0, delta=1e-5, seed=0)
    assert compare(model.parents, simulation.parents).f1 > 0.8


@pytest.mark.slow
def test_a_column_has_no_more_parents_than_it_may():
    draw = np.random.default_rng(0)
    common = draw.standard_normal(3000)
    frame = pl.DataFrame({f"c{i}": common + draw.standard_normal(3000) for i in range(6)})
    columns = tuple(Column(name=name, kind="continuous", low=-9.0, high=9.0) for name in frame.columns)
    method = dataclasses.replace(quick("prada"), most_parents=2, threshold=0.0)
    parents = understudy.fit(frame, Schema(columns=columns), method, epsilon=50.0, seed=0).parents
    assert [len(parents[f"c{i}"]) for i in range(6)] == [0, 1, 2, 2, 2, 2]


@pytest.mark.slow
def test_the_log_density_of_a_table(mixed):
    model = understudy.fit(mixed, MIXED, quick("prada"), epsilon=1e4, seed=0)
    table = mixed_table(200, seed=3)
    found = model.log_density(table)
    assert found.shape == (200,) and np.isfinite(found).all()
    assert np.array_equal(found, model.log_density(table))
    strange = table.with_columns(age=pl.lit(10**9), weight=pl.lit(float("nan")))
    assert np.isfinite(model.log_density(strange)).all()
