"""The adversarial methods: what is charged, the parents that are found, orders, and many fits at once."""

import dataclasses
import math

import jax
import numpy as np
import polars as pl
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, pld

import understudy as us
from conftest import MIXED, mixed_table
from prada_gan_fits import (
    FITS,
    NOISE,
    NUMBERS,
    SCHEMA,
    TINY,
    UNSTRUCTURED,
    as_given,
    changed,
    fits,
    numbers,
    people,
    table,
)
from understudy import datasets
from understudy.datasets import simulators
from understudy.evaluation.structure import compare
from understudy.privacy.ledger_file import LedgerFile
from understudy.synthesizers.prada.adversarial import sequential
from understudy.synthesizers.prada.adversarial.layers import Noise

draw_noise = jax.jit(sequential.draw_noise, static_argnames=("layout", "n"))
generate = jax.jit(sequential.generate, static_argnames="layout")

PENALISED = ["clip", "none", "two-step", "hopeless", "theory", "growing", "keep all"]

pytestmark = pytest.mark.slow  # some twenty fits; `make test` runs prada-gan through the contract and its settings


def params(model: us.Model) -> dict[str, np.ndarray]:
    """The weights of a fitted sequential generator."""
    return vars(model.generator)["params"]


# What is charged ----------------------------------------------------------------------------------------------------

OWN = ("order", "critic", "critic again")  # what the methods measure beside the encoder
CHARGED = {"clip": ["critic"], "two-step": ["critic", "critic again"]}


@pytest.mark.parametrize("which", CHARGED)
def test_the_receipt_is_within_the_budget_and_lists_the_steps(which):
    receipt, budget = fits()[which].receipt, FITS[which][2]
    assert 0.98 * budget <= receipt.epsilon <= budget and receipt.not_released == 0
    assert [line.name for line in receipt.charges if line.name in OWN] == CHARGED[which]
    steps = [line for line in receipt.charges if line.mechanism == "sampled gaussian"]
    assert all((line.times, line.sampling_rate, line.sensitivity) == (20, 50 / 400, 1.0) for line in steps)
    assert "sampled, 20 steps" in str(receipt)


def epsilon_by_pld(rate, noise, steps, delta):
    accountant = pld.PLDAccountant()
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps))
    return accountant.get_epsilon(delta)


def test_given_noise_costs_what_another_accountant_says():
    receipt = as_given().receipt
    [line] = receipt.charges
    assert (line.noise_multiplier, line.sigma) == (2.0, 2.0)
    assert receipt.epsilon == pytest.approx(epsilon_by_pld(50 / 400, 2.0, 20, 1e-5), rel=0.01)


@pytest.mark.parametrize("schema", [NUMBERS, SCHEMA], ids=["as given", "encoded"])
def test_too_little_noise_for_the_budget_is_refused_before_the_table_is_looked_for(schema, tmp_path):
    method = dataclasses.replace(NOISE, standardised=schema is NUMBERS, noise_multiplier=0.3, encoding_share=0.3)
    with pytest.raises(us.BudgetExceeded, match="the noise fixed in the plan costs"):
        us.fit(tmp_path / "no such table.csv", schema, method, epsilon=0.5)


# Pass-through columns -----------------------------------------------------------------------------------------------


def test_pass_through_columns_make_the_receipt_void_in_capitals():
    assert any(
        reason.startswith("THE STANDARDISATION OF THE COLUMNS WAS NOT PRIVATE.") for reason in as_given().receipt.void
    )
    assert str(as_given().receipt).startswith("VOID")
    assert "STANDARDISATION" not in str(fits()["plain"].receipt)


def test_pass_through_columns_come_back_unbounded_and_on_their_scale():
    drawn = as_given().sample(20_000, seed=0)
    for name in NUMBERS.names:
        assert drawn[name].min() < -2.0 and drawn[name].max() > 2.0  # pyright: ignore[reportOperatorIssue]
        assert abs(drawn[name].mean()) < 0.5 and 0.5 < drawn[name].std() < 2.0  # pyright: ignore[reportArgumentType, reportOperatorIssue]


def test_a_model_of_pass_through_columns_is_saved_and_loaded(tmp_path):
    model = as_given()
    model.save(tmp_path / "m.understudy")
    loaded = us.load(tmp_path / "m.understudy")
    assert loaded.sample(50, seed=0).equals(model.sample(50, seed=0))
    assert (loaded.method, loaded.receipt) == (model.method, model.receipt)


NOT_AS_GIVEN = {
    "no rows": (dataclasses.replace(NUMBERS, rows=None), "rows: expected the public number"),
    "a category": (SCHEMA, "column 'colour': only numbers"),
    "may be missing": (
        us.Schema(rows=400, columns=(us.Column(name="a", kind="continuous", nullable=True),)),
        "column 'a': only numbers that are never missing",
    ),
}


@pytest.mark.parametrize(("schema", "why"), NOT_AS_GIVEN.values(), ids=NOT_AS_GIVEN)
def test_pass_through_columns_are_numbers_and_counted(schema, why):
    frame = table() if "age" in schema.names else numbers().select(schema.names)
    with pytest.raises(us.SchemaError, match=why):
        us.fit(frame, schema, NOISE, epsilon=5.0, seed=0)


# The structure ------------------------------------------------------------------------------------------------------


def weights(model):
    """‖W_j^k‖ computed anew from the generator: {column: {earlier column: norm}}."""
    layout, rows = model.generator.layout, np.asarray(model.generator.params["rows"], np.float64)
    return {
        name: {
            other: float(np.sqrt((rows[j, : layout.features][layout.owners == k] ** 2).sum()))
            for k, other in enumerate(layout.names[:j])
        }
        for j, name in enumerate(layout.names)
    }


@pytest.mark.parametrize("which", PENALISED)
def test_parents_come_earlier(which):
    parents, order = fits()[which].parents, list(SCHEMA.names)
    assert list(parents) == order
    assert all(set(parents[name]) <= set(order[:i]) for i, name in enumerate(order))


@pytest.mark.parametrize("which", PENALISED)
def test_strengths_are_the_norms_of_the_generator_s_weights(which):
    model = fits()[which]
    for name, found in weights(model).items():
        assert model.strengths[name] == pytest.approx(found, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("which", ["clip", "none", "theory", "growing", "keep all"])
def test_a_parent_is_an_earlier_column_above_the_threshold(which):
    model = fits()[which]
    threshold = vars(model.method)["threshold"]
    above = {
        name: [other for other, strength in found.items() if strength > threshold]
        for name, found in model.strengths.items()
    }
    assert model.parents == above


@pytest.mark.parametrize("which", ["clip", "two-step", "hopeless"])
def test_who_is_no_parent_has_weights_of_exactly_zero(which):
    model = fits()[which]
    zeros = {(name, other) for name, found in weights(model).items() for other, norm in found.items() if norm == 0.0}
    others = {
        (name, other)
        for i, name in enumerate(SCHEMA.names)
        for other in SCHEMA.names[:i]
        if other not in model.parents[name]
    }
    assert zeros == others and others


def test_without_a_finish_weak_weights_stay():
    clipped, left = fits()["clip"], fits()["none"]
    assert left.parents == clipped.parents  # same seed, same training
    assert any(0.0 < norm <= 0.2 for found in weights(left).values() for norm in found.values())


def test_two_steps_keep_the_parents_of_the_first():
    # With given noise and nothing else measured, the first training is that of a single one.
    once, twice = as_given(), as_given(dataclasses.replace(NOISE, finish="two-step"))
    assert twice.parents == once.parents
    assert 0 < sum(len(its) for its in twice.parents.values()) < 3
    assert [line.name for line in twice.receipt.charges] == ["critic", "critic again"]
    assert not np.allclose(params(twice)["rows"], params(once)["rows"], atol=0.1)


def offspring(model, name):
    """A column and all that is made from it, directly or not."""
    found = {name}
    for other, its in model.parents.items():  # in generation order
        found |= {other} if found & set(its) else set()
    return found


@pytest.mark.parametrize("moved", SCHEMA.names)
@pytest.mark.parametrize("which", ["clip", "two-step", "hopeless", "keep all"])
def test_a_column_moves_its_offspring_and_no_other(which, moved):
    model, place = fits()[which], SCHEMA.names.index(moved)
    layout, weights = vars(model.generator)["layout"], sequential.Weights(**params(model))
    noise = draw_noise(layout, jax.random.key(0), 200)
    other = Noise(noise.z.at[place].add(1.0), noise.gumbel.at[place, 0].add(1.0))
    rows, moved_rows = (np.asarray(generate(weights, drawn, layout)) for drawn in (noise, other))
    touched = {layout.names[owner] for owner in layout.owners[(rows != moved_rows).any(axis=0)]}
    assert touched == offspring(model, moved)


def test_a_hopeless_penalty_leaves_columns_without_parents_and_independent():
    model = fits()["hopeless"]
    assert not any(model.parents.values())
    drawn = model.sample(20_000, seed=0).select("age", "height", pl.col("member").cast(float)).to_numpy()
    together = np.corrcoef(drawn.T)[np.triu_indices(3, 1)]
    assert np.abs(together).max() < 5 / math.sqrt(20_000)


def test_a_growing_penalty_spares_the_first_columns():
    # λ_j = 1e-16 · j^40: next to nothing for the second column, and hopeless from the third on.
    parents = fits()["growing"].parents
    assert parents["colour"] == ["age"]
    assert parents["income"] == parents["member"] == parents["height"] == []


def after(rounds, share, generator_rate=0.05):
    """The rows of W after some rounds, averaged over the last share of them."""
    changes = {"critic_steps": 5 * rounds, "average": share, "finish": "none", "generator_rate": generator_rate}
    return params(as_given(dataclasses.replace(NOISE, **changes)))["rows"]


@pytest.mark.parametrize("rounds", [1, 3, 4])
def test_the_average_over_a_generator_that_stands_still_is_that_generator(rounds):
    assert np.allclose(after(rounds, 0.5, generator_rate=1e-12), after(4, 0.0, generator_rate=1e-12), atol=1e-5)


@pytest.mark.parametrize(("share", "rounds"), [(1.0, [1, 2, 3]), (0.5, [2, 3]), (0.34, [2, 3]), (0.3, [3])])
def test_the_average_is_the_mean_over_the_last_rounds(share, rounds):
    # Equal noise and equal seeds: a training of fewer rounds is the beginning of a longer one.
    assert np.allclose(after(3, share), np.mean([after(k, 0.0) for k in rounds], axis=0), atol=1e-5)


# Other ways ---------------------------------------------------------------------------------------------------------

BACKWARDS = tuple(reversed(SCHEMA.names))


@pytest.fixture(scope="module")
def otherwise():
    """Another order, another optimiser, another penalty and another hold on the critic, in one fit."""
    method = changed(order=BACKWARDS, optimiser="sgd", proximal=False, lipschitz="clamp", finish="none", decay=False)
    return us.fit(table(), SCHEMA, method, epsilon=10.0, seed=0)


def test_clamped_critics_and_plain_gradient_steps_train_too(otherwise):
    started = sequential.initial(otherwise.generator.layout, np.random.default_rng(0))._asdict()
    for name, value in otherwise.generator.params.items():
        assert np.isfinite(value).all() and value.shape == started[name].shape


def test_a_penalty_taken_by_its_gradient_leaves_no_exact_zeros(otherwise):
    assert all(norm > 0 for found in weights(otherwise).values() for norm in found.values())


# The order ----------------------------------------------------------------------------------------------------------


def test_columns_are_made_in_the_order_that_is_given(otherwise):
    assert tuple(otherwise.parents) == BACKWARDS
    assert otherwise.parents["height"] == [] and set(otherwise.parents["colour"]) <= {"height", "member", "income"}
    assert tuple(otherwise.sample(5, seed=0).columns) == SCHEMA.names


def test_a_private_order_has_what_the_others_explain_least_first():
    turned = dataclasses.replace(NUMBERS, columns=tuple(reversed(NUMBERS.columns)))
    method = dataclasses.replace(NOISE, standardised=False, encoding_share=0.3, order="private", noise_multiplier=None)
    model = us.fit(numbers(), turned, method, epsilon=200.0, seed=0)
    assert list(model.parents) == ["a", "b", "c"] and turned.names == ("c", "b", "a")
    assert [line.name for line in model.receipt.charges if line.name in OWN] == [
        "order",
        "critic",
    ]
    assert 0.98 * 200.0 <= model.receipt.epsilon <= 200.0


def test_an_order_from_a_public_table_can_be_given():
    order = us.order_from(people(seed=8), SCHEMA)
    assert sorted(order) == sorted(SCHEMA.names)
    [item] = changed(order=order).plan(SCHEMA)
    assert item.name == "critic"
    assert changed(order=list(order)).order == order


# Many at once -------------------------------------------------------------------------------------------------------

OTHERS = ["another budget", "other rates", "fewer steps", "no average", "two-step"]
OTHER_SHAPE = pytest.param("smaller batches", marks=pytest.mark.slow)  # alone it needs a program of its own


@pytest.mark.parametrize("which", ["plain", *OTHERS, OTHER_SHAPE, "by counts", "no structure"])
def test_many_at_once_are_the_same_as_one_by_one(which):
    (method, seed, epsilon), one = FITS[which], fits()[which]
    alone = us.fit(table(), SCHEMA, method, epsilon=epsilon, seed=seed)
    assert one.receipt == alone.receipt and one.method == alone.method == method
    assert one.parents == alone.parents
    arrays, others = one.generator.arrays(), alone.generator.arrays()
    assert all(np.allclose(array, others[name], atol=1e-4) for name, array in arrays.items() if array.dtype.kind == "f")


def test_receipts_are_each_fit_s_own():
    for model, (_, seed, epsilon) in zip(fits().values(), FITS.values(), strict=True):
        assert (model.receipt.seed, model.receipt.budget.epsilon) == (seed, epsilon)
        assert 0.98 * epsilon <= model.receipt.epsilon <= epsilon
    assert [line.times for line in fits()["fewer steps"].receipt.charges if line.name == "critic"] == [15]


@pytest.mark.parametrize("which", ["another seed", "smaller batches", *OTHERS])
def test_other_settings_give_other_generators(which):
    one, plain = params(fits()[which]), params(fits()["plain"])
    assert not all(np.allclose(one[name], plain[name], atol=1e-4) for name in plain)


def test_the_ledger_file_is_charged_for_every_fit(tmp_path):
    book = LedgerFile(tmp_path / "ledger.jsonl")
    us.fit_many(table(), SCHEMA, ["copula", TINY, "independent"], [1, 2, 3], epsilon=[2.0, 10.0, 0.5], ledger=book.path)
    total = book.total("people")
    assert (total.epsilon, total.fits) == (12.5, 3) and total.delta == pytest.approx(3e-6)
    assert [record["method"] for record in book.records()] == ["copula", "prada-gan", "independent"]


# Without structure --------------------------------------------------------------------------------------------------


def test_dpgan_fits_samples_and_is_saved(tmp_path):
    model = fits()["no structure"]
    drawn = model.sample(500, seed=0)
    assert tuple(drawn.columns) == SCHEMA.names and set(drawn["colour"]) <= {"red", "green", "blue"}
    model.save(tmp_path / "m.understudy")
    loaded = us.load(tmp_path / "m.understudy")
    assert loaded.sample(500, seed=0).equals(drawn)
    assert loaded.method == UNSTRUCTURED and loaded.receipt == model.receipt


def test_dpgan_claims_every_earlier_column_and_measures_none():
    model = fits()["no structure"]
    assert model.parents["income"] == ["age", "colour"] and model.strengths == {}


# Statistics ---------------------------------------------------------------------------------------------------------


def farthest(real, drawn):
    """The largest difference between the shares of any value, a missing one included."""
    values = {*real, *drawn}
    return max(abs(real.eq_missing(value).mean() - drawn.eq_missing(value).mean()) for value in values)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["prada-gan", "dpgan"])
def test_categories_and_missing_values_come_back_in_their_shares(method):
    real = mixed_table(5000)
    drawn = us.fit(real, MIXED, us.METHODS[method](critic_steps=3000), epsilon=1e6, seed=0).sample(10_000, seed=0)
    apart = {name: farthest(real[name], drawn[name]) for name in ("city", "colour", "member")}
    apart["income"] = farthest(real["income"].is_null(), drawn["income"].is_null())
    assert max(apart.values()) < 0.08, apart  # 0.05 to 0.06 over four seeds


@pytest.mark.slow
def test_the_parents_of_the_example_are_found():
    real = datasets.example(20_000).drop("region").with_columns(pl.col("savings").fill_null(0.0))
    columns = [dataclasses.replace(column, nullable=False) for column in datasets.example_schema()]
    schema = us.Schema(columns=tuple(column for column in columns if column.name != "region"))
    truth = {name: datasets.EXAMPLE_PARENTS[name] for name in schema.names}
    assert compare(us.fit(real, schema, us.PradaGAN(), epsilon=1e6, seed=0).parents, truth).f1 >= 0.9


@pytest.mark.slow
def test_the_parents_of_a_simulated_graph_are_found():
    simulated = simulators.simulate(2000, 10, equations="nonlinear", seed=3)
    schema = dataclasses.replace(simulated.schema, order=simulated.order)
    model = us.fit(simulated.frame, schema, us.PradaGAN(), epsilon=1e6, seed=0)
    assert compare(model.parents, simulated.parents).f1 >= 0.75
