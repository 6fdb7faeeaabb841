"""The till: nothing is bought beyond the plan, receipts add up, and say what is promised."""

import contextlib
import dataclasses
import math
import os
import subprocess
import sys

import pytest
from dp_accounting import pld
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st

from plans import FIND, MOMENTS, PLANS, POT, RESOLVE, SELECT, TRAIN
from understudy.privacy import accounting
from understudy.privacy.accounting import Budget, BudgetExceeded, PlannedMechanism, epsilon_spent
from understudy.privacy.ledger import FilterShare, Ledger, Receipt


def by_pld(events, delta, spacing):
    accountant = pld.PLDAccountant(value_discretization_interval=spacing)
    for event in events:
        accountant.compose(event)
    return accountant.get_epsilon(delta)


def spend_all(ledger):
    for item in ledger.plan:
        if item.mechanism == "sampled gaussian":
            ledger.charge(item.name, what="training", sensitivity=0.5, times=item.times)
        elif item.mechanism == "adaptive":
            ledger.charge(FilterShare(item.name, 0.6), what="a choice", sensitivity=1, mechanism="exponential")
            ledger.charge(FilterShare(item.name, 0.4), what="a marginal", sensitivity=1, mechanism="discrete gaussian")
        else:
            for column in range(item.times):
                ledger.charge(item.name, what=f"{item.name} of column {column}", sensitivity=1)
    return ledger.receipt()


def test_importing_the_till_loads_no_numpy_and_no_accountant():
    code = "import sys, understudy.budget; print({'numpy', 'scipy', 'dp_accounting'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


# --- The ledger of one fit ---


def test_a_name_may_stand_once_in_a_plan():
    with pytest.raises(ValueError, match='got "moments" more than once'):
        Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS, MOMENTS])


def test_noise_fixed_in_the_plan_is_not_scaled():
    train = dataclasses.replace(TRAIN, noise_multiplier=30.0)
    ledger = Ledger(Budget(epsilon=2, delta=1e-6), [MOMENTS, train])
    assert ledger.noise("train") == 30.0
    assert 0.995 * 2 <= spend_all(ledger).epsilon <= 2


def test_paying_returns_the_noise_that_is_charged():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), PLANS["gaussians"])
    sigma = ledger.charge("moments", what="second moments", sensitivity=12.5)
    line = ledger.receipt().charges[0]
    assert sigma == line.sigma == 12.5 * ledger.noise("moments")
    assert line.noise_multiplier == ledger.noise("moments")


def test_a_purchase_beyond_the_plan_is_refused_and_not_entered():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [FIND, MOMENTS])
    for column in range(8):
        ledger.charge("find", what=f"column {column}", sensitivity=1)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge("find", what="once more", sensitivity=1)
    assert str(caught.value) == (
        '"find" was planned for 8 purchases and all are spent; nothing was read. Plan more of them, or raise epsilon.'
    )
    assert len(ledger.receipt().charges) == 8


def test_more_at_once_than_is_left_is_refused_whole():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [TRAIN])
    ledger.charge("train", what="training", sensitivity=1, times=1500)
    with pytest.raises(BudgetExceeded, match="planned for 2000 purchases and 500 are left where 501 were asked for"):
        ledger.charge("train", what="training", sensitivity=1, times=501)
    assert ledger.left("train") == 500


def test_what_is_not_planned_cannot_be_paid():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])
    with pytest.raises(BudgetExceeded, match='"find" is not in the plan, which holds "moments"; nothing was read'):
        ledger.charge("find", what="column 0", sensitivity=1)


@pytest.mark.parametrize("sensitivity", [0, -1, math.nan, math.inf])
def test_a_sensitivity_that_would_remove_the_noise_is_refused(sensitivity):
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])
    with pytest.raises(ValueError, match='"moments", sensitivity: expected a finite number > 0'):
        ledger.charge("moments", what="second moments", sensitivity=sensitivity)
    assert ledger.left("moments") == 1


def test_showing_the_noise_pays_nothing():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])
    ledger.noise("moments")
    assert ledger.left("moments") == 1
    assert ledger.receipt().epsilon == 0


# --- Pots: what is bought adaptively ---


def pot(epsilon: float = 1.0) -> Ledger:
    return Ledger(Budget(epsilon=epsilon, delta=1e-6), [FIND, POT])


def test_a_pot_is_bought_in_parts_until_it_is_empty():
    ledger = pot()
    for share in (0.25, 0.5, 0.25):
        ledger.charge(FilterShare("pot", share), what="a", sensitivity=1, mechanism="discrete gaussian")
    assert ledger.left("pot") == 0
    with pytest.raises(BudgetExceeded, match=r'of "pot" 0 is left where 0[.]01 was asked for; nothing was read'):
        ledger.charge(FilterShare("pot", 0.01), what="a", sensitivity=1, mechanism="discrete gaussian")


@settings(deadline=None, derandomize=True, max_examples=20)
@given(parts=st.lists(st.tuples(st.floats(0.001, 1.0), st.booleans()), min_size=1, max_size=40))
def test_whatever_is_bought_from_a_pot_costs_no_more_than_the_pot(parts):
    ledger = pot()
    whole = 1 / ledger.noise("pot") ** 2
    for share, choice in parts:
        with contextlib.suppress(BudgetExceeded):
            mechanism = "exponential" if choice else "discrete gaussian"
            ledger.charge(FilterShare("pot", share), what="a", sensitivity=1, mechanism=mechanism)
    bought = [line for line in ledger.receipt().charges if line.name == "pot"]
    assert sum(line.times * line.mu**2 for line in bought) <= whole * (1 + 1e-6)
    assert ledger.receipt().epsilon <= 1.0


def test_a_pot_that_was_touched_is_charged_in_full():
    untouched, touched, emptied = pot(), pot(), pot()
    touched.charge(FilterShare("pot", 0.01), what="a", sensitivity=1, mechanism="exponential")
    emptied.charge(FilterShare("pot", 1.0), what="a", sensitivity=1, mechanism="gaussian")
    assert untouched.receipt().epsilon == 0
    assert touched.receipt().epsilon == emptied.receipt().epsilon > 0.5
    assert touched.receipt().not_released == FIND.times


def test_half_the_share_is_root_two_the_noise():
    ledger = pot()
    whole, half = (ledger.noise(FilterShare("pot", share), "discrete gaussian") for share in (1.0, 0.5))
    assert half / whole == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(
    ("item", "mechanism", "message"),
    [
        ("pot", "exponential", "expected a Part of it"),
        (FilterShare("find", 0.1), "discrete gaussian", "its name, since it is no pot"),
        (FilterShare("pot", 0.1), None, "a pot pays for Gaussian noise and for choices"),
        (FilterShare("pot", 0.1), "sampled gaussian", "a pot pays for Gaussian noise and for choices"),
        (FilterShare("pot", 0.0), "exponential", "expected a number > 0 and <= 1"),
        (FilterShare("pot", float("nan")), "exponential", "expected a number > 0 and <= 1"),
        ("find", "exponential", 'was planned as "discrete gaussian", and the hatch is "exponential"'),
    ],
)
def test_a_purchase_of_another_kind_is_refused(item, mechanism, message):
    ledger = pot()
    with pytest.raises(ValueError, match=message):
        ledger.charge(item, what="a", sensitivity=1, mechanism=mechanism)
    assert ledger.receipt().charges == ()


# --- The receipt ---


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("epsilon", [0.2, 5.0])
def test_the_total_can_be_recomputed_from_the_lines(plan, epsilon):
    receipt = spend_all(Ledger(Budget(epsilon=epsilon, delta=1e-6), plan))
    left = receipt.delta - sum(line.times * line.threshold_delta for line in receipt.charges)
    again = by_pld(receipt.events(), left, spacing=2e-4 * epsilon)
    assert again == pytest.approx(receipt.epsilon, rel=0.01)
    assert again <= epsilon
    assert receipt.epsilon <= epsilon


def test_what_was_not_bought_is_not_on_the_receipt():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), PLANS["gaussians"])
    ledger.charge("moments", what="second moments", sensitivity=1)
    receipt = ledger.receipt()
    assert receipt.epsilon == epsilon_spent(receipt.charges, 1e-6) < 0.9
    assert receipt.not_released == 16
    assert "16 planned purchases not made" in str(receipt)


def test_a_line_says_what_it_costs_alone():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [FIND, SELECT])
    ledger.charge("find", what="column 0", sensitivity=1)
    scale = ledger.charge("select", what="the best pair", sensitivity=3)
    find, select = ledger.receipt().charges
    assert find.epsilon == pytest.approx(get_epsilon_gaussian(ledger.noise("find"), 1e-6), rel=1e-3)
    assert select.epsilon == pytest.approx(2 * 3 / scale)


def test_a_receipt_survives_json():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), PLANS["all"], unit="patient", max_rows_per_unit=5, seed=7)
    ledger.warn("STANDARDISATION WAS NOT PRIVATE")
    receipt = spend_all(ledger)
    assert Receipt.from_json(receipt.to_json()) == receipt


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"kind": "understudy-receipt", "format": 2}', "\x00"])
def test_json_that_is_no_receipt_is_refused(text):
    with pytest.raises(ValueError, match=r"expected a receipt written by Receipt.to_json"):
        Receipt.from_json(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [('"noise_multiplier": ', '"noise_multiplier": -'), ('"gaussian"', '"magic"'), ('"times": 1', '"times": "1"')],
)
def test_a_receipt_with_an_impossible_line_is_refused(old, new):
    text = spend_all(Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])).to_json()
    with pytest.raises(ValueError, match=r"expected a receipt written by Receipt.to_json"):
        Receipt.from_json(text.replace(old, new))


def test_the_text_says_in_one_sentence_what_is_promised():
    receipt = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS]).receipt()
    assert receipt.promise == (
        "Adding or removing one row changes the probability of anything that can be seen in the fitted model, "
        "or in rows drawn from it, by at most a factor of exp(1) = 2.718 and a further 1e-06."
    )
    assert receipt.promise in " ".join(str(receipt).split())


@pytest.mark.parametrize("epsilon", [1e-5, 5e-3, 1e6])
def test_the_promise_can_be_stated_for_any_budget(epsilon):
    receipt = Ledger(Budget(epsilon=epsilon, delta=1e-6), [MOMENTS]).receipt()
    assert f"a factor of exp({epsilon:g})" in receipt.promise


def test_the_promise_names_the_unit():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS], unit="patient", max_rows_per_unit=5)
    assert ledger.receipt().promise.startswith(
        "Adding or removing all rows with the same 'patient', of which at most 5 are used, changes the probability"
    )


@pytest.mark.parametrize(("seed", "void"), [(0, True), (7, True), (None, False)])
def test_a_seed_voids_the_promise_before_it_is_stated(seed, void):
    text = str(Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS], seed=seed).receipt())
    assert text.split("Adding or removing")[0].count("VOID FOR WHOEVER KNOWS THE SEED") == void


@pytest.mark.parametrize(
    "fact",
    [
        "promised    epsilon = 1, delta = 1e-06",
        "add or remove one unit",
        "all rows with the same 'patient', of which at most 5 are used",
        "seed = 7: FOR TESTS ONLY, the guarantee does not hold for anyone who knows the seed",
        "dp-accounting 0.",
        "WARNING: STANDARDISATION WAS NOT PRIVATE",
        "understudy 1.2.3",
        "find of column 0, and 7 more",
        "sampled, 2000 steps",
    ],
)
def test_the_text_states(fact):
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), PLANS["sampled"], unit="patient", max_rows_per_unit=5, seed=7)
    ledger.warn("STANDARDISATION WAS NOT PRIVATE")
    spend_all(ledger)
    assert fact in str(ledger.receipt(version="1.2.3"))


def test_the_text_is_at_most_100_columns_wide():
    ledger = Ledger(Budget(epsilon=1e6, delta=1e-6), PLANS["gaussians"])
    ledger.charge("find", what="where the mass of " + "a long name " * 20 + "lies", sensitivity=123456.789)
    ledger.charge("find", what="where the mass of 'age' lies", sensitivity=123456.789)
    assert max(len(line) for line in str(ledger.receipt()).splitlines()) <= 100


def test_without_a_seed_the_noise_is_the_operating_systems():
    assert "operating system entropy" in str(spend_all(Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])))


def test_equal_lines_are_priced_once():
    plan = [dataclasses.replace(FIND, times=400), dataclasses.replace(RESOLVE, times=400), MOMENTS]
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), plan)
    before = accounting._pld_epsilon.cache_info().misses
    receipt = spend_all(ledger)
    assert len(receipt.charges) == 801
    assert str(receipt).count(", and 399 more") == 2  # and shown once
    assert accounting._pld_epsilon.cache_info().misses - before <= 4  # three kinds of line and the total


def test_an_empty_pot_sells_nothing_however_little_is_asked_for():
    till = Ledger(Budget(epsilon=1.0, delta=1e-6), [PlannedMechanism(name="pot", mechanism="adaptive", share=1.0)])
    till.charge(FilterShare("pot", 1.0), what="all", sensitivity=1.0, mechanism="gaussian")
    with pytest.raises(BudgetExceeded):
        for _ in range(3):
            till.charge(FilterShare("pot", 1e-9), what="more", sensitivity=1.0, mechanism="gaussian")


@pytest.mark.parametrize("times", [0, -1, 1.5])
def test_a_purchase_is_made_a_whole_number_of_times(times):
    till = Ledger(Budget(epsilon=1.0, delta=1e-6), [PlannedMechanism(name="pot", mechanism="adaptive", share=1.0)])
    with pytest.raises(ValueError, match="times: expected"):
        till.charge(FilterShare("pot", 0.1), what="x", sensitivity=1.0, mechanism="gaussian", times=times)
    assert till.left("pot") == 1.0
