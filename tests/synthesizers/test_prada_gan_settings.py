"""The settings and plans of the adversarial methods: what may be set, and what is planned from it."""

import dataclasses
import math
import subprocess
import sys

import pytest

import understudy as us
from prada_gan_fits import NUMBERS, SCHEMA, TINY, UNSTRUCTURED, changed
from understudy.privacy.ledger_file import LedgerFile
from understudy.synthesizers.base import BatchMethod, DensityModel, WeightedParents
from understudy.synthesizers.prada.adversarial.fitted import FittedDPGAN, FittedPrada
from understudy.synthesizers.prada.adversarial.method import ORDER_SHARE, PAPER_STEPS
from understudy.synthesizers.prada.likelihood.fitted import FittedDensity
from understudy.synthesizers.prada.settings import ROWS

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

MECHANISMS = {"critic": "sampled gaussian", "critic again": "sampled gaussian", "order": "discrete gaussian"}
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
def test_the_plan_lists_what_is_measured_and_its_share(settings, shares):
    items = changed(**settings).plan(NUMBERS)
    assert {item.name: item.share for item in items} == pytest.approx(shares)
    assert {item.name: item.mechanism for item in items} == {name: MECHANISMS[name] for name in shares}
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


def test_methods_are_configured_and_planned_without_jax():
    script = (
        "import sys, understudy as us, understudy.synthesizers\n"
        "schema = us.Schema(columns=(us.Column(name='a', kind='continuous'),), rows=1000)\n"
        "plans = [us.METHODS[name]().plan(schema) for name in ('prada', 'prada-gan', 'dpgan')]\n"
        "print(us.plan(schema, 'prada-gan', epsilon=1.0))\n"
        "assert 'jax' not in sys.modules\n"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert "critic" in shown.stdout and "6000" in shown.stdout


# Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "order", [("age", "colour"), (*SCHEMA.names, "age"), (*SCHEMA.names[:-1], "heigth")], ids=["few", "twice", "typo"]
)
def test_an_order_of_other_names_is_refused(order):
    with pytest.raises(us.SchemaError, match="order: expected every column once"):
        changed(order=order).plan(SCHEMA)


@pytest.mark.parametrize("settings", [{"order": ("age",)}, {"standardised": True}], ids=["order", "standardised"])
def test_settings_that_do_not_fit_the_schema_are_refused_before_the_table_is_looked_for(tmp_path, settings):
    book = LedgerFile(tmp_path / "ledger.jsonl")
    book.set_cap("people", 100.0, 1e-3)
    with pytest.raises(us.SchemaError):
        us.fit(tmp_path / "no such table.csv", SCHEMA, changed(**settings), epsilon=1.0, ledger=book.path)
    assert book.total("people").fits == 0


LENGTHS = {
    "seeds": ([1], 1.0, "2 methods, 1 seeds and 2 epsilons"),
    "epsilons": (None, [1.0, 2.0, 3.0], "2 methods, 2 seeds and 3 epsilons"),
}


@pytest.mark.parametrize(("seeds", "epsilon", "counts"), LENGTHS.values(), ids=LENGTHS)
def test_wrong_lengths_are_refused_before_the_table_is_looked_for(tmp_path, seeds, epsilon, counts):
    with pytest.raises(ValueError, match=counts):
        us.fit_many(tmp_path / "no such table.csv", SCHEMA, [TINY, "copula"], seeds, epsilon=epsilon)


@pytest.mark.parametrize("cap", [(15.0, 1e-3), (100.0, 1.5e-6)], ids=["epsilon", "delta"])
def test_a_cap_refuses_them_all_before_the_table_is_looked_for(tmp_path, cap):
    book = LedgerFile(tmp_path / "ledger.jsonl")
    book.set_cap("people", *cap)  # room for one of the two
    with pytest.raises(us.BudgetExceeded):
        us.fit_many(tmp_path / "no such table.csv", SCHEMA, [TINY, TINY], epsilon=10.0, ledger=book.path)
    assert book.total("people").fits == 0


# Protocols ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [us.Prada(), us.PradaGAN(), us.DPGAN()], ids=lambda method: method.name)
def test_trained_methods_are_fitted_in_batches(method):
    assert isinstance(method, BatchMethod)


def test_only_likelihood_has_densities_and_only_sequential_generators_weigh_parents():
    fitted = (FittedDensity, FittedPrada, FittedDPGAN)
    assert [issubclass(kind, DensityModel) for kind in fitted] == [True, False, False]
    assert [issubclass(kind, WeightedParents) for kind in fitted] == [True, True, False]
