"""The adversarial methods: what may be set, what is planned and paid, the parents that are found, and many at once."""

import dataclasses
import functools
import math
import subprocess
import sys
from typing import Any

import jax
import numpy as np
import polars as pl
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, pld

import understudy as us
from conftest import MIXED, mixed_table
from understudy import datasets
from understudy.datasets import simulators
from understudy.evaluation.structure import compare
from understudy.privacy.ledger_file import LedgerFile
from understudy.synthesizers.prada import networks
from understudy.synthesizers.prada.adversarial import ORDER_SHARE, PAPER_STEPS
from understudy.synthesizers.prada.settings import ROWS

# One small table and one shape of networks nearly everywhere: each further one takes seconds to compile.
SCHEMA = us.Schema(
    name="people",
    rows=400,
    columns=(
        us.Column(name="age", kind="continuous", low=-5.0, high=5.0),
        us.Column(name="colour", kind="categorical", values=("red", "green", "blue"), other="green"),
        us.Column(name="income", kind="continuous", low=-9.0, high=9.0, nullable=True),
        us.Column(name="member", kind="boolean"),
        us.Column(name="height", kind="continuous", low=-5.0, high=5.0),
    ),
)
NUMBERS = us.Schema(name="numbers", rows=400, columns=tuple(us.Column(name=n, kind="continuous") for n in "abc"))
SMALL: dict[str, Any] = {"critic_steps": 20, "batch_size": 50, "critic_widths": (8,)}
TINY = us.PradaGAN(**SMALL)
UNSTRUCTURED = us.DPGAN(**SMALL, widths=(8,))
STILL: dict[str, Any] = {"generator_rate": 1e-12, "penalty": 0.0, "threshold": 0.0}
NOISE = us.PradaGAN(**SMALL, noise_multiplier=2.0, standardised=True, threshold=0.345, decay=False)


def people(n=400, seed=0):
    """A number, a category and a nullable number that follow each other, and two columns by themselves."""
    draw = np.random.default_rng(seed)
    age = draw.standard_normal(n)
    colour = np.array(["red", "green", "blue"])[np.digitize(1.5 * age + draw.standard_normal(n), [-1.0, 1.5])]
    income = pl.Series(age + 0.5 * draw.standard_normal(n) + (colour == "blue"))
    return pl.DataFrame(
        {
            "age": age,
            "colour": colour,
            "income": income.set(pl.Series(draw.random(n) < 0.2), None),
            "member": draw.random(n) < 0.7,
            "height": draw.standard_normal(n),
        }
    )


def numbers(n=400, seed=0):
    """Three numbers of deviation about 1: the others explain little of a, more of b, and c best."""
    a, b, z = np.random.default_rng(seed).standard_normal((3, n))
    return pl.DataFrame({"a": a, "b": b, "c": 0.4 * a + 0.8 * b + 0.45 * z})


def changed(**settings):
    return dataclasses.replace(TINY, **settings)


# Settings -----------------------------------------------------------------------------------------------------------

BAD = {
    "critic_steps": [0, -5, 1.0, True, "6000", None],
    "batch_size": [0, 2.5, True],
    "generator_every": [0, 1.5, True],
    "fakes": [0, 2.5, True],
    "clip_norm": [0.0, -1.0, math.inf, math.nan, True, "1"],
    "critic_rate": [0.0, -0.1, math.nan],
    "generator_rate": [0.0, -0.1, math.inf],
    "clamp": [0.0, -0.1, math.nan],
    "noise_multiplier": [0.0, -1.0, math.inf, True],
    "encoding_share": [0.0, 1.0, -0.1, math.nan],
    "average": [-0.1, 1.1, True, math.nan, None],
    "lipschitz": ["none", "", None, 1],
    "critic_widths": [(), (8, 0), (8.0,), (True,), 8, "8"],
}
BAD_OF_PRADA = {
    "penalty": [-0.1, math.nan, "theorem", None, True],
    "penalty_growth": [math.nan, math.inf, "1"],
    "threshold": [-0.1, math.nan, None],
    "finish": ["cut", None, True],
    "optimiser": ["adamw", None],
    "order": ["reverse", ""],
}
WRONG_TYPE = {
    "hidden": [0, -1, 2.5, True, None],
    "order": [3, None, ("age", 3)],
    "proximal": ["no", 1, None],
    "bounded": ["no", 1, None],
    "slope": [-0.1, math.nan, None, True],
    "decay": ["no"],
    "standardised": ["no"],
}
BAD_OF_DPGAN = {"widths": [(), (0,), (1.5,), 8], "noise": [0, -1, 2.5, True]}


def cases(*tables):
    return [(field, value) for table in tables for field, values in table.items() for value in values]


@pytest.mark.parametrize(("field", "value"), cases(BAD, BAD_OF_PRADA, WRONG_TYPE))
def test_a_setting_that_makes_no_sense_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=rf"PradaGAN\.{field}: expected "):
        us.PradaGAN(**{field: value})


@pytest.mark.parametrize(("field", "value"), cases(BAD, BAD_OF_DPGAN))
def test_dpgan_refuses_the_same_and_its_own(field, value):
    with pytest.raises(ValueError, match=rf"DPGAN\.{field}: expected "):
        us.DPGAN(**{field: value})


def test_steps_are_whole_rounds():
    with pytest.raises(ValueError, match=r"critic_steps: expected a multiple of generator_every = 5, got 6001"):
        us.PradaGAN(critic_steps=6001)
    assert us.PradaGAN(critic_steps=6003, generator_every=3).critic_steps == 6003


def test_lists_become_tuples_so_that_a_method_can_be_hashed():
    method = us.PradaGAN(critic_widths=[8, 4], order=["b", "a"])  # pyright: ignore[reportArgumentType]
    assert (method.critic_widths, method.order) == ((8, 4), ("b", "a"))
    assert hash(method) == hash(us.PradaGAN(critic_widths=(8, 4), order=("b", "a")))
    assert us.DPGAN(widths=[8], critic_widths=[4]) == us.DPGAN(widths=(8,), critic_widths=(4,))  # pyright: ignore[reportArgumentType]


PUBLISHED = {
    ("california", 0.2): (10.0, 8000),
    ("california", 1.0): (2.0, 7000),
    ("california", 5.0): (0.8, 8000),
    ("house_16h", 0.2): (7.9, 6000),
    ("house_16h", 1.0): (2.0, 9000),
    ("house_16h", 5.0): (0.77, 8000),
    ("cpu_act", 0.2): (13.0, 4000),
    ("cpu_act", 1.0): (4.0, 7000),
    ("cpu_act", 5.0): (1.2, 8000),
}


@pytest.mark.parametrize(("table", "epsilon"), PUBLISHED)
def test_the_paper_s_settings_are_the_published_ones(table, epsilon):
    method = us.PradaGAN.paper(table, epsilon)
    assert (method.noise_multiplier, method.critic_steps) == PUBLISHED[table, epsilon]
    assert (method.critic_rate, method.generator_rate, method.penalty) == (0.01, 0.001, 0.003)
    assert (method.generator_every, method.batch_size, method.clip_norm) == (10, 50, 1.0)
    assert method.penalty_growth == (0.2 if table == "cpu_act" else 0.0)
    assert (method.hidden, method.critic_widths) == (10, None)
    assert method.standardised and method.encoding_share == 0.0
    assert not method.proximal and method.finish == "none"


def test_every_published_setting_is_known_and_can_be_changed():
    assert set(PAPER_STEPS) == set(PUBLISHED)
    method = us.PradaGAN.paper("california", 1, critic_steps=20, noise_multiplier=None)
    assert (method.critic_steps, method.noise_multiplier, method.penalty) == (20, None, 0.003)


@pytest.mark.parametrize(("table", "epsilon"), [("adult", 1.0), ("california", 2.0), ("cpu_act", 0.0)])
def test_a_configuration_that_was_not_published_is_refused(table, epsilon):
    with pytest.raises(ValueError, match=f"california at 0.2, .*; got {table} at {epsilon:g}"):
        us.PradaGAN.paper(table, epsilon)


# The plan -----------------------------------------------------------------------------------------------------------

HATCHES = {"critic": "sampled gaussian", "critic again": "sampled gaussian", "order": "discrete gaussian"}
PLANS = {
    "one training": ({}, {"critic": 0.7}),
    "two trainings": ({"finish": "two-step"}, {"critic": 0.35, "critic again": 0.35}),
    "a private order": ({"order": "private"}, {"order": 0.7 * ORDER_SHARE, "critic": 0.7 * (1 - ORDER_SHARE)}),
    "both": (
        {"order": "private", "finish": "two-step", "encoding_share": 0.5},
        {"order": 0.05, "critic": 0.225, "critic again": 0.225},
    ),
    "as given": ({"standardised": True}, {"critic": 1.0}),
}


@pytest.mark.parametrize(("settings", "shares"), PLANS.values(), ids=PLANS)
def test_the_plan_lists_what_is_bought_and_its_share(settings, shares):
    items = changed(**settings).plan(NUMBERS)
    assert {item.name: item.share for item in items} == pytest.approx(shares)
    assert {item.name: item.mechanism for item in items} == {name: HATCHES[name] for name in shares}
    assert {item.times for item in items if item.mechanism == "sampled gaussian"} == {20}


@pytest.mark.parametrize("method", [TINY, UNSTRUCTURED], ids=["prada-gan", "dpgan"])
@pytest.mark.parametrize(("rows", "rate"), [(1000, 0.05), (50, 1.0), (3, 1.0), (None, 50 / ROWS)])
def test_the_sampling_rate_follows_from_the_schema(method, rows, rate):
    [item] = method.plan(dataclasses.replace(SCHEMA, rows=rows))
    assert item.sampling_rate == rate
    assert ROWS == 10_000


def test_noise_that_is_given_is_in_the_plan():
    [item] = changed(noise_multiplier=3.0).plan(SCHEMA)
    assert item.noise_multiplier == 3.0


@pytest.mark.parametrize("method", ["prada-gan", "dpgan"])
def test_planning_loads_no_jax(method):
    script = (
        "import sys, understudy as us, understudy.synthesizers\n"
        "assert 'jax' not in sys.modules\n"
        "schema = us.Schema(columns=(us.Column(name='a', kind='continuous'),), rows=1000)\n"
        f"plan = us.plan(schema, {method!r}, epsilon=1.0)\n"
        "assert 'jax' not in sys.modules\n"
        "print(plan)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert "critic" in shown.stdout and "6000" in shown.stdout


# Fits ---------------------------------------------------------------------------------------------------------------

FITS = {
    # The penalty and the finish, from one seed.
    "clip": (changed(threshold=0.2), 5, 10.0),
    "none": (changed(threshold=0.2, finish="none"), 5, 10.0),
    "two-step": (changed(threshold=0.2, finish="two-step"), 5, 10.0),
    "hopeless": (changed(penalty=1e6), 5, 10.0),
    "theory": (changed(penalty="theory"), 5, 10.0),
    "growing": (changed(penalty=1e-16, penalty_growth=40.0), 5, 10.0),
    "keep all": (changed(penalty=0.0, threshold=0.0), 5, 10.0),
    # Other things that may differ within one call.
    "plain": (TINY, 1, 10.0),
    "another seed": (TINY, 2, 10.0),
    "another budget": (TINY, 1, 1.0),
    "other rates": (changed(generator_rate=0.02, critic_rate=0.01, clip_norm=0.5), 1, 10.0),
    "fewer steps": (changed(critic_steps=15), 1, 10.0),
    "smaller batches": (changed(batch_size=25, fakes=50), 1, 10.0),
    "no average": (changed(average=0.0), 1, 10.0),
    "by counts": (us.Independent(), 1, 10.0),
    "no structure": (UNSTRUCTURED, 1, 10.0),
    # Generators that stand still, for some numbers of rounds.
    "still": (changed(**STILL, average=0.0), 1, 10.0),
    **{f"still, mean of {k}": (changed(**STILL, critic_steps=5 * k), 1, 10.0) for k in (1, 3, 4)},
}
PENALISED = ["clip", "none", "two-step", "hopeless", "theory", "growing", "keep all"]


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def fits(table):
    """All of them in one call."""
    methods, seeds, epsilons = zip(*FITS.values(), strict=True)
    return dict(zip(FITS, us.fit_many(table, SCHEMA, methods, seeds, epsilon=epsilons), strict=True))


# What is paid -------------------------------------------------------------------------------------------------------

BOUGHT = {"clip": ["critic"], "two-step": ["critic", "critic again"]}


@pytest.mark.parametrize("which", BOUGHT)
def test_the_receipt_is_within_the_budget_and_lists_the_steps(fits, which):
    receipt, budget = fits[which].receipt, FITS[which][2]
    assert 0.98 * budget <= receipt.epsilon <= budget and receipt.not_released == 0
    assert [line.name for line in receipt.charges if line.name in HATCHES] == BOUGHT[which]
    steps = [line for line in receipt.charges if line.mechanism == "sampled gaussian"]
    assert all((line.times, line.sampling_rate, line.sensitivity) == (20, 50 / 400, 1.0) for line in steps)
    assert "sampled, 20 steps" in str(receipt)


def epsilon_by_pld(rate, noise, steps, delta):
    accountant = pld.PLDAccountant()
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(noise)), steps))
    return accountant.get_epsilon(delta)


@pytest.fixture(scope="module")
def as_given():
    """A fit to columns that came standardised, with given noise: 20 steps, batches of 50 of 400."""
    return us.fit(numbers(), NUMBERS, NOISE, epsilon=10.0, delta=1e-5, seed=0)


def test_given_noise_costs_what_another_accountant_says(as_given):
    [line] = as_given.receipt.charges
    assert (line.noise_multiplier, line.sigma) == (2.0, 2.0)
    assert as_given.receipt.epsilon == pytest.approx(epsilon_by_pld(50 / 400, 2.0, 20, 1e-5), rel=0.01)


@pytest.mark.parametrize("schema", [NUMBERS, SCHEMA], ids=["as given", "encoded"])
def test_too_little_noise_for_the_budget_is_refused_before_the_table_is_looked_for(schema, tmp_path):
    method = dataclasses.replace(NOISE, standardised=schema is NUMBERS, noise_multiplier=0.3, encoding_share=0.3)
    with pytest.raises(us.BudgetExceeded, match="the noise fixed in the plan costs"):
        us.fit(tmp_path / "no such table.csv", schema, method, epsilon=0.5)


# Columns as they came -----------------------------------------------------------------------------------------------


def test_columns_taken_as_given_are_warned_of_in_capitals(as_given, fits):
    [warning] = as_given.receipt.warnings
    assert warning.startswith("THE STANDARDISATION OF THE COLUMNS WAS NOT PRIVATE.")
    assert "WARNING: THE STANDARDISATION" in str(as_given.receipt)
    assert "STANDARDISATION" not in str(fits["plain"].receipt)


def test_columns_taken_as_given_come_back_unbounded_and_on_their_scale(as_given):
    drawn = as_given.sample(20_000, seed=0)
    for name in NUMBERS.names:
        assert drawn[name].min() < -2.0 and drawn[name].max() > 2.0  # pyright: ignore[reportOperatorIssue]
        assert abs(drawn[name].mean()) < 0.5 and 0.5 < drawn[name].std() < 2.0  # pyright: ignore[reportArgumentType, reportOperatorIssue]


def test_a_model_of_columns_as_given_is_saved_and_loaded(as_given, tmp_path):
    as_given.save(tmp_path / "m.understudy")
    loaded = us.load(tmp_path / "m.understudy")
    assert loaded.sample(50, seed=0).equals(as_given.sample(50, seed=0))
    assert (loaded.method, loaded.receipt) == (as_given.method, as_given.receipt)


NOT_AS_GIVEN = {
    "no rows": (dataclasses.replace(NUMBERS, rows=None), "rows: expected the public number"),
    "a category": (SCHEMA, "column 'colour': only numbers"),
    "may be missing": (
        us.Schema(rows=400, columns=(us.Column(name="a", kind="continuous", nullable=True),)),
        "column 'a': only numbers that are never missing",
    ),
}


@pytest.mark.parametrize(("schema", "why"), NOT_AS_GIVEN.values(), ids=NOT_AS_GIVEN)
def test_columns_taken_as_given_are_numbers_and_counted(schema, why):
    table = people() if "age" in schema.names else numbers().select(schema.names)
    with pytest.raises(us.SchemaError, match=why):
        us.fit(table, schema, NOISE, epsilon=5.0, seed=0)


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
def test_parents_come_earlier(fits, which):
    parents, order = fits[which].parents, list(SCHEMA.names)
    assert list(parents) == order
    assert all(set(parents[name]) <= set(order[:i]) for i, name in enumerate(order))


@pytest.mark.parametrize("which", PENALISED)
def test_strengths_are_the_norms_of_the_generator_s_weights(fits, which):
    model = fits[which]
    for name, found in weights(model).items():
        assert model.strengths[name] == pytest.approx(found, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("which", ["clip", "none", "theory", "growing", "keep all"])
def test_a_parent_is_an_earlier_column_above_the_threshold(fits, which):
    model = fits[which]
    above = {
        name: [other for other, strength in found.items() if strength > model.method.threshold]
        for name, found in model.strengths.items()
    }
    assert model.parents == above


@pytest.mark.parametrize("which", ["clip", "two-step", "hopeless"])
def test_who_is_no_parent_has_weights_of_exactly_zero(fits, which):
    model = fits[which]
    zeros = {(name, other) for name, found in weights(model).items() for other, norm in found.items() if norm == 0.0}
    others = {
        (name, other)
        for i, name in enumerate(SCHEMA.names)
        for other in SCHEMA.names[:i]
        if other not in model.parents[name]
    }
    assert zeros == others and others


def test_without_a_finish_weak_weights_stay(fits):
    clipped, left = fits["clip"], fits["none"]
    assert left.parents == clipped.parents  # same seed, same training
    assert any(0.0 < norm <= 0.2 for found in weights(left).values() for norm in found.values())


@pytest.fixture(scope="module")
def after():
    """The rows of W after some rounds, averaged over the last share of them."""

    @functools.cache
    def rows(rounds, share):
        method = dataclasses.replace(NOISE, critic_steps=5 * rounds, average=share, finish="none", generator_rate=0.05)
        return us.fit(numbers(), NUMBERS, method, epsilon=10.0, delta=1e-5, seed=0).generator.params["rows"]

    return rows


def test_two_steps_keep_the_parents_of_the_first(as_given):
    # With given noise and nothing else bought, the first training is that of a single one.
    twice = us.fit(numbers(), NUMBERS, dataclasses.replace(NOISE, finish="two-step"), epsilon=10.0, seed=0)
    assert twice.parents == as_given.parents
    assert 0 < sum(len(its) for its in twice.parents.values()) < 3
    assert [line.name for line in twice.receipt.charges] == ["critic", "critic again"]
    assert not np.allclose(twice.generator.params["rows"], as_given.generator.params["rows"], atol=0.1)


def offspring(model, name):
    """A column and all that is made from it, directly or not."""
    found = {name}
    for other, its in model.parents.items():  # in generation order
        found |= {other} if found & set(its) else set()
    return found


@pytest.mark.parametrize("moved", SCHEMA.names)
@pytest.mark.parametrize("which", ["clip", "two-step", "hopeless", "keep all"])
def test_a_column_moves_its_offspring_and_no_other(fits, which, moved):
    model, place = fits[which], SCHEMA.names.index(moved)
    layout, params = model.generator.layout, dict(model.generator.params)
    noise = networks.draw_noise(layout, jax.random.key(0), 200)
    other = {"z": noise["z"].at[place].add(1.0), "gumbel": noise["gumbel"].at[place, 0].add(1.0)}
    rows, moved_rows = (np.asarray(networks.generate(params, drawn, layout)) for drawn in (noise, other))
    touched = {layout.names[owner] for owner in layout.owners[(rows != moved_rows).any(axis=0)]}
    assert touched == offspring(model, moved)


def test_a_hopeless_penalty_leaves_columns_without_parents_and_independent(fits):
    model = fits["hopeless"]
    assert not any(model.parents.values())
    drawn = model.sample(20_000, seed=0).select("age", "height", pl.col("member").cast(float)).to_numpy()
    together = np.corrcoef(drawn.T)[np.triu_indices(3, 1)]
    assert np.abs(together).max() < 5 / math.sqrt(20_000)


def test_a_growing_penalty_spares_the_first_columns(fits):
    # λ_j = 1e-16 · j^40: next to nothing for the second column, and hopeless from the third on.
    parents = fits["growing"].parents
    assert parents["colour"] == ["age"]
    assert parents["income"] == parents["member"] == parents["height"] == []


@pytest.mark.parametrize("rounds", [1, 3, 4])
def test_the_average_over_a_generator_that_stands_still_is_that_generator(fits, rounds):
    mean, still = fits[f"still, mean of {rounds}"].generator.params, fits["still"].generator.params
    assert all(np.allclose(mean[name], still[name], atol=1e-5) for name in still)


@pytest.mark.parametrize(("share", "rounds"), [(1.0, [1, 2, 3]), (0.5, [2, 3]), (0.34, [2, 3]), (0.3, [3])])
def test_the_average_is_the_mean_over_the_last_rounds(after, share, rounds):
    # Equal noise and equal seeds: a training of fewer rounds is the beginning of a longer one.
    assert np.allclose(after(3, share), np.mean([after(k, 0.0) for k in rounds], axis=0), atol=1e-5)


# Other ways ---------------------------------------------------------------------------------------------------------

BACKWARDS = tuple(reversed(SCHEMA.names))


@pytest.fixture(scope="module")
def otherwise(table):
    """Another order, another optimiser, another penalty and another hold on the critic, in one fit."""
    method = changed(order=BACKWARDS, optimiser="sgd", proximal=False, lipschitz="clamp", finish="none", decay=False)
    return us.fit(table, SCHEMA, method, epsilon=5.0, seed=0)


def test_clamped_critics_and_plain_gradient_steps_train_too(otherwise):
    started = networks.initial(otherwise.generator.layout, np.random.default_rng(0))
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
    assert [line.name for line in model.receipt.charges if line.name in HATCHES] == ["order", "critic"]
    assert 0.98 * 200.0 <= model.receipt.epsilon <= 200.0


@pytest.mark.parametrize(
    "order", [("age", "colour"), (*SCHEMA.names, "age"), (*SCHEMA.names[:-1], "heigth")], ids=["few", "twice", "typo"]
)
def test_an_order_of_other_names_is_refused(table, order):
    with pytest.raises(us.SchemaError, match="order: expected every column once"):
        us.fit(table, SCHEMA, changed(order=order), epsilon=5.0, seed=0)


@pytest.mark.parametrize("settings", [{"order": ("age",)}, {"standardised": True}], ids=["order", "standardised"])
def test_settings_that_do_not_fit_the_schema_are_refused_before_the_table_is_looked_for(tmp_path, settings):
    book = LedgerFile(tmp_path / "ledger.jsonl")
    book.set_cap("people", 100.0, 1e-3)
    with pytest.raises(us.SchemaError):
        us.fit(tmp_path / "no such table.csv", SCHEMA, changed(**settings), epsilon=1.0, ledger=book.path)
    assert book.total("people").fits == 0


def test_an_order_from_a_public_table_can_be_given(table):
    order = us.order_from(people(seed=8), SCHEMA)
    assert sorted(order) == sorted(SCHEMA.names)
    [item] = changed(order=order).plan(SCHEMA)
    assert item.name == "critic"
    assert changed(order=list(order)).order == order


# Many at once -------------------------------------------------------------------------------------------------------

OTHERS = ["another budget", "other rates", "fewer steps", "no average", "two-step"]
OTHER_SHAPE = pytest.param("smaller batches", marks=pytest.mark.slow)  # alone it needs a program of its own


@pytest.mark.parametrize("which", ["plain", *OTHERS, OTHER_SHAPE, "by counts", "no structure"])
def test_many_at_once_are_the_same_as_one_by_one(table, fits, which):
    (method, seed, epsilon), one = FITS[which], fits[which]
    alone = us.fit(table, SCHEMA, method, epsilon=epsilon, seed=seed)
    assert one.receipt == alone.receipt and one.method == alone.method == method
    assert one.parents == alone.parents
    arrays, others = one.generator.arrays(), alone.generator.arrays()
    assert all(np.allclose(array, others[name], atol=1e-4) for name, array in arrays.items() if array.dtype.kind == "f")


def test_receipts_are_each_fit_s_own(fits):
    for model, (_, seed, epsilon) in zip(fits.values(), FITS.values(), strict=True):
        assert (model.receipt.seed, model.receipt.budget.epsilon) == (seed, epsilon)
        assert 0.98 * epsilon <= model.receipt.epsilon <= epsilon
    assert [line.times for line in fits["fewer steps"].receipt.charges if line.name == "critic"] == [15]


@pytest.mark.parametrize("which", ["another seed", "smaller batches", *OTHERS])
def test_other_settings_give_other_generators(fits, which):
    one, plain = fits[which].generator.params, fits["plain"].generator.params
    assert not all(np.allclose(one[name], plain[name], atol=1e-4) for name in plain)


LENGTHS = {
    "seeds": ([1], 1.0, "2 methods, 1 seeds and 2 epsilons"),
    "epsilons": (None, [1.0, 2.0, 3.0], "2 methods, 2 seeds and 3 epsilons"),
}


@pytest.mark.parametrize(("seeds", "epsilon", "counts"), LENGTHS.values(), ids=LENGTHS)
def test_wrong_lengths_are_refused_before_the_table_is_looked_for(tmp_path, seeds, epsilon, counts):
    with pytest.raises(ValueError, match=counts):
        us.fit_many(tmp_path / "no such table.csv", SCHEMA, [TINY, "copula"], seeds, epsilon=epsilon)


def test_the_ledger_file_is_charged_for_every_fit(table, tmp_path):
    book = LedgerFile(tmp_path / "ledger.jsonl")
    us.fit_many(table, SCHEMA, ["copula", TINY, "independent"], [1, 2, 3], epsilon=[2.0, 10.0, 0.5], ledger=book.path)
    total = book.total("people")
    assert (total.epsilon, total.fits) == (12.5, 3) and total.delta == pytest.approx(3e-6)
    assert [record["method"] for record in book.records()] == ["copula", "prada-gan", "independent"]


@pytest.mark.parametrize("cap", [(1.5, 1e-3), (100.0, 1.5e-6)], ids=["epsilon", "delta"])
def test_a_cap_refuses_them_all_before_the_table_is_looked_for(tmp_path, cap):
    book = LedgerFile(tmp_path / "ledger.jsonl")
    book.set_cap("people", *cap)  # room for one of the two
    with pytest.raises(us.BudgetExceeded):
        us.fit_many(tmp_path / "no such table.csv", SCHEMA, [TINY, TINY], epsilon=1.0, ledger=book.path)
    assert book.total("people").fits == 0


# Without structure --------------------------------------------------------------------------------------------------


def test_dpgan_fits_samples_and_is_saved(fits, tmp_path):
    model = fits["no structure"]
    drawn = model.sample(500, seed=0)
    assert tuple(drawn.columns) == SCHEMA.names and set(drawn["colour"]) <= {"red", "green", "blue"}
    model.save(tmp_path / "m.understudy")
    loaded = us.load(tmp_path / "m.understudy")
    assert loaded.sample(500, seed=0).equals(drawn)
    assert loaded.method == UNSTRUCTURED and loaded.receipt == model.receipt


def test_dpgan_claims_every_earlier_column_and_measures_none(fits):
    model = fits["no structure"]
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
    assert max(apart.values()) < 0.06, apart


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
