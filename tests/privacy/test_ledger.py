"""The ledger: nothing is charged beyond the plan, and receipts add up and say what is promised."""

import contextlib
import dataclasses
import json
import math
import os
import subprocess
import sys

import pytest
from dp_accounting import pld
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st

from plans import ADAPTIVE, FIND, MOMENTS, PLANS, RESOLVE, SELECT, TRAIN
from understudy.core.red_flag import RedFlag
from understudy.privacy import accounting
from understudy.privacy.accounting import epsilon_spent
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.plan import Budget, BudgetExceeded
from understudy.privacy.receipt import SEEDED, Receipt


def by_pld(events, delta, spacing):
    accountant = pld.PLDAccountant(value_discretization_interval=spacing)
    for event in events:
        accountant.compose(event)
    return accountant.get_epsilon(delta)


def spend_all(ledger):
    for planned in ledger.plan:
        if planned.mechanism == "sampled gaussian":
            ledger.charge(planned.name, what="training", sensitivity=0.5, times=planned.times)
        elif planned.mechanism == "privacy filter":
            ledger.charge(FilterShare(planned.name, 0.6), what="a choice", sensitivity=1, mechanism="exponential")
            ledger.charge(
                FilterShare(planned.name, 0.4), what="a marginal", sensitivity=1, mechanism="discrete gaussian"
            )
        else:
            for column in range(planned.times):
                ledger.charge(planned.name, what=f"{planned.name} of column {column}", sensitivity=1)
    return ledger.receipt()


def test_importing_the_ledger_loads_no_numpy_and_no_accountant():
    code = "import sys, understudy.privacy.ledger; print({'numpy', 'scipy', 'dp_accounting'} & set(sys.modules))"
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


def test_a_charge_returns_the_noise_it_stands_for():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), PLANS["gaussians"])
    sigma = ledger.charge("moments", what="second moments", sensitivity=12.5)
    charge = ledger.receipt().charges[0]
    assert sigma == charge.sigma == 12.5 * ledger.noise("moments")
    assert charge.noise_multiplier == ledger.noise("moments")


def test_a_charge_beyond_the_plan_is_refused_and_not_entered():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [FIND, MOMENTS])
    for column in range(8):
        ledger.charge("find", what=f"column {column}", sensitivity=1)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge("find", what="once more", sensitivity=1)
    assert str(caught.value) == (
        '"find" was planned for 8 releases and all are spent; nothing was read. Plan more of them, or raise epsilon.'
    )
    assert len(ledger.receipt().charges) == 8


def test_more_at_once_than_is_left_is_refused_whole():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [TRAIN])
    ledger.charge("train", what="training", sensitivity=1, times=1500)
    with pytest.raises(BudgetExceeded, match="planned for 2000 releases and 500 are left where 501 were asked for"):
        ledger.charge("train", what="training", sensitivity=1, times=501)
    assert ledger.left("train") == 500


def test_what_is_not_planned_cannot_be_charged():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])
    with pytest.raises(BudgetExceeded, match='"find" is not in the plan, which holds "moments"; nothing was read'):
        ledger.charge("find", what="column 0", sensitivity=1)


@pytest.mark.parametrize("sensitivity", [0, -1, math.nan, math.inf])
def test_a_sensitivity_that_would_remove_the_noise_is_refused(sensitivity):
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])
    with pytest.raises(ValueError, match='"moments", sensitivity: expected a finite number > 0'):
        ledger.charge("moments", what="second moments", sensitivity=sensitivity)
    assert ledger.left("moments") == 1


def test_showing_the_noise_charges_nothing():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])
    ledger.noise("moments")
    assert ledger.left("moments") == 1
    assert ledger.receipt().epsilon == 0


# --- Privacy filters: what is decided adaptively ---


def with_filter(epsilon: float = 1.0) -> Ledger:
    return Ledger(Budget(epsilon=epsilon, delta=1e-6), [FIND, ADAPTIVE])


def test_a_filter_is_charged_in_shares_until_none_is_left():
    ledger = with_filter()
    for share in (0.25, 0.5, 0.25):
        ledger.charge(FilterShare("adaptive", share), what="a", sensitivity=1, mechanism="discrete gaussian")
    assert ledger.left("adaptive") == 0
    with pytest.raises(
        BudgetExceeded, match=r'0 of the filter "adaptive" is left, and 0[.]01 was asked for; nothing was read'
    ):
        ledger.charge(FilterShare("adaptive", 0.01), what="a", sensitivity=1, mechanism="discrete gaussian")


@settings(deadline=None, derandomize=True, max_examples=20)
@given(parts=st.lists(st.tuples(st.floats(0.001, 1.0), st.booleans()), min_size=1, max_size=40))
def test_whatever_is_released_under_a_filter_costs_no_more_than_the_filter(parts):
    ledger = with_filter()
    whole = 1 / ledger.noise("adaptive") ** 2
    for share, choice in parts:
        with contextlib.suppress(BudgetExceeded):
            mechanism = "exponential" if choice else "discrete gaussian"
            ledger.charge(FilterShare("adaptive", share), what="a", sensitivity=1, mechanism=mechanism)
    released = [charge for charge in ledger.receipt().charges if charge.name == "adaptive"]
    assert sum(charge.times * charge.mu**2 for charge in released) <= whole * (1 + 1e-6)
    assert ledger.receipt().epsilon <= 1.0


def test_a_filter_that_was_used_is_charged_in_full():
    unused, used, emptied = with_filter(), with_filter(), with_filter()
    used.charge(FilterShare("adaptive", 0.01), what="a", sensitivity=1, mechanism="exponential")
    emptied.charge(FilterShare("adaptive", 1.0), what="a", sensitivity=1, mechanism="gaussian")
    assert unused.receipt().epsilon == 0
    assert used.receipt().epsilon == emptied.receipt().epsilon > 0.5
    assert used.receipt().not_released == FIND.times


def test_half_the_share_is_root_two_the_noise():
    ledger = with_filter()
    whole, half = (ledger.noise(FilterShare("adaptive", share), "discrete gaussian") for share in (1.0, 0.5))
    assert half / whole == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(
    ("planned", "mechanism", "message"),
    [
        ("adaptive", "exponential", "expected a FilterShare of it, got its name"),
        (FilterShare("find", 0.1), "discrete gaussian", "expected its name, got a FilterShare"),
        (FilterShare("adaptive", 0.1), None, 'a privacy filter covers "discrete gaussian", '),
        (FilterShare("adaptive", 0.1), "sampled gaussian", 'a privacy filter covers "discrete gaussian", '),
        (FilterShare("adaptive", 0.0), "exponential", "expected a finite number > 0 and <= 1"),
        (FilterShare("adaptive", float("nan")), "exponential", "expected a finite number > 0 and <= 1"),
        ("find", "exponential", 'was planned as "discrete gaussian", not as "exponential"'),
    ],
)
def test_a_charge_of_another_kind_is_refused(planned, mechanism, message):
    ledger = with_filter()
    with pytest.raises(ValueError, match=message):
        ledger.charge(planned, what="a", sensitivity=1, mechanism=mechanism)
    assert ledger.receipt().charges == ()


# --- The receipt ---


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("epsilon", [0.2, 5.0])
def test_the_total_can_be_recomputed_from_the_charges(plan, epsilon):
    receipt = spend_all(Ledger(Budget(epsilon=epsilon, delta=1e-6), plan))
    left = receipt.delta - sum(charge.times * charge.threshold_delta for charge in receipt.charges)
    again = by_pld(receipt.events(), left, spacing=4e-4 * epsilon)
    assert again == pytest.approx(receipt.epsilon, rel=0.01)
    assert again <= epsilon
    assert receipt.epsilon <= epsilon


def test_what_was_not_released_is_not_on_the_receipt():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), PLANS["gaussians"])
    ledger.charge("moments", what="second moments", sensitivity=1)
    receipt = ledger.receipt()
    assert receipt.epsilon == epsilon_spent(receipt.charges, 1e-6) < 0.9
    assert receipt.not_released == 16
    assert "16 planned releases not made" in str(receipt)


def test_a_charge_says_what_it_costs_alone():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [FIND, SELECT])
    ledger.charge("find", what="column 0", sensitivity=1)
    scale = ledger.charge("select", what="the best pair", sensitivity=3)
    find, select = ledger.receipt().charges
    assert find.epsilon == pytest.approx(get_epsilon_gaussian(ledger.noise("find"), 1e-6), rel=1e-3)
    assert select.epsilon == pytest.approx(2 * 3 / scale)


def test_a_receipt_survives_json():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), PLANS["all"], unit="patient", max_rows_per_unit=5, seed=7)
    ledger.warn("delta carries the promise")
    ledger.void("STANDARDISATION WAS NOT PRIVATE")
    receipt = spend_all(ledger)
    assert Receipt.from_json(receipt.to_json()) == receipt


@pytest.mark.parametrize("header", [{"format": 1}, {"format": 4}, {"kind": "understudy-ledger"}])
def test_a_receipt_of_another_format_is_refused(header):
    content = json.loads(spend_all(Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])).to_json())
    assert (content["kind"], content["format"]) == ("understudy-receipt", 3)
    with pytest.raises(ValueError, match="another kind or format"):
        Receipt.from_json(json.dumps(content | header))


def test_a_receipt_of_format_2_is_read_without_an_id():
    content = json.loads(spend_all(Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])).to_json())
    older = {key: value for key, value in content.items() if key not in ("id", "time", "schema_sha256", "flags")}
    read = Receipt.from_json(json.dumps(older | {"format": 2}))
    assert (read.id, read.time, read.flags) == ("", "", ()) and read.epsilon == content["epsilon"]


def test_a_receipt_keeps_its_id_and_its_flags():
    flag = RedFlag(name="epsilon", message="it is large.", remedy="Ask for less.", severity="serious")
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])
    spend_all(ledger)
    receipt = ledger.receipt(id="abc", time="2026-01-01T00:00:00Z", flags=(flag,))
    assert Receipt.from_json(receipt.to_json()) == receipt
    assert "RED FLAG, epsilon: it is large. Ask for less." in str(receipt) and "abc 2026-01-01" in str(receipt)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"kind": "understudy-receipt", "format": 2}', "\x00"])
def test_json_that_is_no_receipt_is_refused(text):
    with pytest.raises(ValueError, match=r"expected a receipt written by Receipt.to_json"):
        Receipt.from_json(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [('"noise_multiplier": ', '"noise_multiplier": -'), ('"gaussian"', '"magic"'), ('"times": 1', '"times": "1"')],
)
def test_a_receipt_with_an_impossible_charge_is_refused(old, new):
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


@pytest.mark.parametrize("seed", [0, 7])
def test_a_seed_voids_the_receipt(seed):
    receipt = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS], seed=seed).receipt()
    assert receipt.void == (SEEDED,)
    assert dataclasses.replace(receipt, void=()).void == (SEEDED,)  # nobody can take it off


def test_without_a_seed_or_a_reason_the_receipt_holds():
    receipt = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS]).receipt()
    assert receipt.void == () and "VOID" not in str(receipt) + receipt._repr_html_()


def test_a_void_receipt_says_so_and_why_before_it_promises_anything():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS], seed=3)
    for _ in range(2):
        ledger.void("Exact <means> were used.")
    receipt = ledger.receipt()
    assert receipt.void == (SEEDED, "Exact <means> were used.")
    before, _ = str(receipt).split("Adding or removing")
    assert before.startswith("VOID") and before.count("Exact <means> were used.") == 1
    assert "Whoever knows the seed" in before
    page = receipt._repr_html_()
    assert page.startswith("<p><b>VOID") and page.count("Exact &lt;means&gt; were used.") == 1
    assert json.loads(receipt.to_json())["void"] == list(receipt.void)


@pytest.mark.parametrize(
    "fact",
    [
        "promised    epsilon = 1, delta = 1e-06",
        "add or remove one unit",
        "all rows with the same 'patient', of which at most 5 are used",
        "seed = 7: FOR TESTS ONLY, the guarantee does not hold for anyone who knows the seed",
        "dp-accounting 0.",
        "WARNING: delta carries the promise",
        "understudy 1.2.3",
        "find of column 0, and 7 more",
        "sampled, 2000 steps",
    ],
)
def test_the_text_states(fact):
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), PLANS["sampled"], unit="patient", max_rows_per_unit=5, seed=7)
    ledger.warn("delta carries the promise")
    spend_all(ledger)
    assert fact in str(ledger.receipt(version="1.2.3"))


def test_the_text_is_at_most_100_columns_wide():
    ledger = Ledger(Budget(epsilon=1e6, delta=1e-6), PLANS["gaussians"])
    ledger.charge("find", what="where the mass of " + "a long name " * 20 + "lies", sensitivity=123456.789)
    ledger.charge("find", what="where the mass of 'age' lies", sensitivity=123456.789)
    assert max(len(charge) for charge in str(ledger.receipt()).splitlines()) <= 100


def test_without_a_seed_the_noise_is_the_operating_systems():
    assert "operating system entropy, in whole numbers\n" in str(
        spend_all(Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS]))
    )


def test_a_receipt_says_how_noise_on_gradients_was_drawn_also_if_it_was_before_that_was_exact():
    receipt = spend_all(Ledger(Budget(epsilon=1, delta=1e-6), [TRAIN]))
    old = RedFlag(name="floating-point noise", message="it is.", remedy="None.", severity="notice")
    assert "in whole numbers; on gradients by ChaCha20" in str(receipt)
    assert "in floating point" in str(dataclasses.replace(receipt, flags=(old,)))
    assert max(map(len, str(receipt).splitlines())) <= 100


def test_equal_charges_are_accounted_once():
    plan = [dataclasses.replace(FIND, times=400), dataclasses.replace(RESOLVE, times=400), MOMENTS]
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), plan)
    before = len(accounting._costs)
    receipt = spend_all(ledger)
    assert len(receipt.charges) == 801
    assert str(receipt).count(", and 399 more") == 2  # and shown once
    assert len(accounting._costs) == before  # what was planned was released, and costs what was planned


def test_an_empty_filter_gives_nothing_however_little_is_asked_for():
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), [ADAPTIVE])
    ledger.charge(FilterShare("adaptive", 1.0), what="all", sensitivity=1.0, mechanism="gaussian")
    with pytest.raises(BudgetExceeded):
        for _ in range(3):
            ledger.charge(FilterShare("adaptive", 1e-9), what="more", sensitivity=1.0, mechanism="gaussian")


@pytest.mark.parametrize("times", [0, -1, 1.5])
def test_a_charge_is_made_a_whole_number_of_times(times):
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), [ADAPTIVE])
    with pytest.raises(ValueError, match="times: expected"):
        ledger.charge(FilterShare("adaptive", 0.1), what="x", sensitivity=1.0, mechanism="gaussian", times=times)
    assert ledger.left("adaptive") == 1.0
