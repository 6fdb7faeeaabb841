"""The till: plans are calibrated from above, lines are charged for what they cost, receipts add up."""

import dataclasses
import math
import os
import subprocess
import sys

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from understudy import budget as till
from understudy.budget import (
    Budget,
    BudgetExceeded,
    Item,
    Ledger,
    Line,
    Receipt,
    calibrate,
    epsilon_by_rdp,
    epsilon_spent,
    lattice,
    planned_lines,
)

FIND = Item(name="find", mechanism="discrete gaussian", share=0.08, times=8)
RESOLVE = Item(name="resolve", mechanism="discrete gaussian", share=0.32, times=8)
MOMENTS = Item(name="moments", mechanism="gaussian", share=0.6)
CATEGORIES = Item(name="categories", mechanism="gaussian threshold", share=0.1, times=3, threshold_delta=1e-8)
SELECT = Item(name="select", mechanism="exponential", share=0.3, times=20)
TRAIN = Item(name="train", mechanism="sampled gaussian", share=2.0, times=2000, sampling_rate=0.06)
PLANS = {
    "one gaussian": [MOMENTS],
    "gaussians": [FIND, RESOLVE, MOMENTS],
    "thresholds": [FIND, MOMENTS, CATEGORIES],
    "sampled": [FIND, MOMENTS, TRAIN],
    "selection": [FIND, MOMENTS, SELECT],
    "all": [FIND, MOMENTS, CATEGORIES, SELECT, TRAIN],
}


def gaussian(noise_multiplier, times=1, **fields):
    return Line(name="a", what="", mechanism="gaussian", noise_multiplier=noise_multiplier, times=times, **fields)


def by_pld(events, delta, spacing=1e-4):
    accountant = pld.PLDAccountant(value_discretization_interval=spacing)
    for event in events:
        accountant.compose(event)
    return accountant.get_epsilon(delta)


def spend_all(ledger):
    for item in ledger.plan:
        if item.mechanism == "sampled gaussian":
            ledger.pay(item.name, what="training", sensitivity=0.5, times=item.times)
        else:
            for column in range(item.times):
                ledger.pay(item.name, what=f"{item.name} of column {column}", sensitivity=1)
    return ledger.receipt()


# --- Budgets and plans are checked at birth ---


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, "1", None, True])
def test_a_budget_needs_a_finite_positive_epsilon(epsilon):
    with pytest.raises(ValueError, match=r"^epsilon: expected a finite number > 0, got "):
        Budget(epsilon=epsilon, delta=1e-6)


@pytest.mark.parametrize("delta", [0, 1, -0.1, 2, math.nan, None])
def test_a_budget_needs_a_delta_between_zero_and_one(delta):
    with pytest.raises(ValueError, match=r"^delta: expected a number between 0 and 1, both excluded, got "):
        Budget(epsilon=1, delta=delta)


def test_an_error_about_a_number_is_one_plain_sentence():
    with pytest.raises(ValueError) as caught:
        Budget(epsilon=0.0, delta=1e-6)
    assert str(caught.value) == "epsilon: expected a finite number > 0, got 0."


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mechanism": "laplace"}, "unknown mechanism 'laplace'"),
        ({"share": 0.0}, "share: expected a finite number > 0"),
        ({"times": 0}, "times: expected a whole number >= 1"),
        ({"times": 1.5}, "times: expected a whole number >= 1"),
        ({"threshold_delta": 1e-8}, 'threshold_delta belongs to "gaussian threshold"'),
        ({"sampling_rate": 0.5}, 'sampling_rate belongs to "sampled gaussian"'),
        ({"mechanism": "gaussian threshold"}, "threshold_delta: expected a number between 0 and 1"),
        ({"mechanism": "sampled gaussian"}, "sampling_rate: expected a number > 0 and <= 1"),
        ({"noise_multiplier": 0.0}, "noise_multiplier: expected a finite number > 0"),
    ],
)
def test_a_plan_item_that_means_nothing_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Item(**{"name": "a", "mechanism": "gaussian", "share": 1.0, **fields})


def test_an_empty_plan_is_refused():
    with pytest.raises(ValueError, match="plan: expected at least one item"):
        calibrate([], Budget(epsilon=1, delta=1e-6))


def test_a_name_may_stand_once_in_a_plan():
    with pytest.raises(ValueError, match='got "moments" more than once'):
        Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS, MOMENTS])


def test_importing_the_till_loads_no_numpy_and_no_accountant():
    code = "import sys, understudy.budget; print({'numpy', 'scipy', 'dp_accounting'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


# --- What a composition costs ---


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("noise", [0.02, 0.3, 1.0, 7.0, 300.0])
def test_one_gaussian_costs_what_the_closed_form_says(noise, delta):
    expected = get_epsilon_gaussian(noise, delta)
    assert epsilon_spent([gaussian(noise)], delta) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.01, 1.0, 100.0, 1e6])
@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-12, 1e-30])
def test_the_closed_form_and_its_inverse_meet(epsilon, delta):
    mu = till._gaussian_mu(epsilon, delta)
    assert till._gaussian_delta(mu, epsilon) <= delta
    assert till._gaussian_delta(mu * 1.001, epsilon) > delta


@pytest.mark.parametrize("mu", [0.0099, 1e-3, 1e-4])
def test_the_form_for_small_numbers_continues_the_usual_one_from_above(mu):
    below, above = till._gaussian_delta(mu, 0.99999e-4), till._gaussian_delta(mu, 1e-4)
    assert below == pytest.approx(above, rel=1e-3)
    assert below >= above


@settings(deadline=None, derandomize=True, max_examples=8)
@given(noises=st.lists(st.floats(2.0, 60.0), min_size=2, max_size=8))
def test_merging_gaussians_changes_nothing(noises):
    merged = epsilon_spent([gaussian(noise) for noise in noises], 1e-6)
    apart = by_pld([dp_accounting.GaussianDpEvent(noise) for noise in noises], 1e-6, spacing=2e-4)
    assert merged == pytest.approx(apart, rel=1e-4)


def test_a_sampled_gaussian_costs_what_a_fine_pld_says():
    line = Line(name="a", what="", mechanism="sampled gaussian", noise_multiplier=1.0, times=2000, sampling_rate=0.01)
    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0)), 2000
    )
    fine = by_pld([event], 1e-6, spacing=5e-5)
    assert fine <= epsilon_spent([line], 1e-6) <= fine * 1.002


def test_selection_costs_the_concentrated_rate_of_a_bounded_range():
    epsilon, delta = 0.5, 1e-6
    line = Line(name="a", what="", mechanism="exponential", noise_multiplier=2 / epsilon, times=10)
    accountant = rdp.RdpAccountant()
    accountant.compose(dp_accounting.ZCDpEvent(10 * epsilon**2 / 8))
    assert epsilon_spent([line], delta) == pytest.approx(accountant.get_epsilon(delta), rel=0.01)


def test_the_exponential_mechanism_by_gumbel_noise_keeps_within_its_charge():
    """Two candidates, brute force: the Renyi divergence stays below rho * order."""
    noise = 1.3
    rho = 1 / (2 * noise**2)
    gaps = np.linspace(-8, 8, 801)
    first = 1 / (1 + np.exp(-gaps / noise))
    second = 1 / (1 + np.exp(-(gaps + 2) / noise))  # each score moves by 1, in opposite directions
    for order in (1.5, 2.0, 5.0, 20.0):
        moments = first**order * second ** (1 - order) + (1 - first) ** order * (1 - second) ** (1 - order)
        assert np.max(np.log(moments) / (order - 1)) <= rho * order


def test_thresholds_take_their_delta_first():
    lines = planned_lines([CATEGORIES], 5.0)
    plain = [dataclasses.replace(line, threshold_delta=0.0) for line in lines]
    assert epsilon_spent(lines, 1e-6) == epsilon_spent(plain, 1e-6 - 3e-8)
    assert epsilon_spent(lines, 3e-8) == math.inf


def test_a_mechanism_without_a_known_cost_is_refused():
    with pytest.raises(ValueError, match="unknown mechanism 'magic'"):
        dataclasses.replace(gaussian(1.0), mechanism="magic")


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("scale", [0.5, 3.0, 40.0])
def test_rdp_never_says_less(plan, scale):
    lines = planned_lines(plan, scale)
    assert epsilon_spent(lines, 1e-6) <= epsilon_by_rdp(lines, 1e-6) * (1 + 1e-6)


# --- Discrete noise is charged for what it costs ---


def discrete_losses(steps, shift):
    """Log probabilities and privacy losses of the discrete Gaussian moved by `shift` lattice steps."""
    reach = int(12 * steps) + shift
    x = np.arange(-reach, reach + 1)
    log_p = -((x - shift) ** 2) / (2 * steps**2)
    losses = log_p + x**2 / (2 * steps**2)
    return log_p - logsumexp(log_p), losses


def hockey_stick(log_p, losses, epsilon):
    above = losses > epsilon
    return float(np.sum(np.exp(log_p[above]) * -np.expm1(epsilon - losses[above])))


def charged_delta(mu, epsilon):
    return till._gaussian_delta(mu / till._DISCRETE, epsilon)


def epsilons(mu, count):
    return np.linspace(max(0.0, mu**2 / 2 - mu), mu**2 / 2 + 6.9 * mu, count)


@pytest.mark.parametrize("steps", [32.0, 36.7, 100.0])
@pytest.mark.parametrize("shift", [1, 2, 7, 32, 100, 1000])
def test_discrete_noise_never_costs_more_than_it_is_charged(steps, shift):
    log_p, losses = discrete_losses(steps, shift)
    for epsilon in epsilons(shift / steps, 400):
        exact = hockey_stick(log_p, losses, epsilon)
        assert exact <= charged_delta(shift / steps, epsilon) or exact < 1e-12


def test_coarse_discrete_noise_would_cost_more_than_it_is_charged():
    log_p, losses = discrete_losses(4.0, 1)
    assert any(hockey_stick(log_p, losses, e) > charged_delta(0.25, e) * 1.001 for e in epsilons(0.25, 400))


@pytest.mark.parametrize(
    ("first", "second"), [((32, 1), (32, 1)), ((32, 2), (32, 1)), ((32, 1), (40.3, 3)), ((32, 32), (33, 1))]
)
def test_two_discrete_releases_never_cost_more_than_they_are_charged(first, second):
    (log_p, losses), (log_q, more) = discrete_losses(*first), discrete_losses(*second)
    log_p, losses = (log_p[:, None] + log_q).ravel(), (losses[:, None] + more).ravel()
    mu = math.hypot(first[1] / first[0], second[1] / second[0])
    for epsilon in epsilons(mu, 25):
        assert hockey_stick(log_p, losses, epsilon) <= charged_delta(mu, epsilon) + 1e-13


@pytest.mark.parametrize("sigma", [1e-3, 0.4, 1.0, 31.9, 32.0, 33.0, 1e5])
def test_the_lattice_is_fine_enough_and_no_finer_than_needed(sigma):
    steps = lattice(sigma)
    assert sigma * steps >= 32
    assert steps == 1 or sigma * steps < 64
    assert steps & (steps - 1) == 0  # a power of two: dividing by it is exact


# --- One scale for the whole plan ---


@pytest.mark.parametrize("epsilon", [0.01, 0.2, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_calibrated_plan_spends_nearly_all_and_never_more(plan, epsilon):
    scale = calibrate(plan, Budget(epsilon=epsilon, delta=1e-6))
    assert 0.995 * epsilon <= epsilon_spent(planned_lines(plan, scale), 1e-6) <= epsilon


@pytest.mark.parametrize("epsilon", [1e-7, 1e6])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_absurd_budgets_are_kept(plan, epsilon):
    scale = calibrate(plan, Budget(epsilon=epsilon, delta=1e-6))
    assert epsilon_spent(planned_lines(plan, scale), 1e-6) <= epsilon


@pytest.mark.parametrize("plan", ["gaussians", "selection"])
def test_beyond_a_huge_epsilon_the_noise_stays_drawable(plan):
    scale = calibrate(PLANS[plan], Budget(epsilon=1e300, delta=1e-6))
    assert scale == calibrate(PLANS[plan], Budget(epsilon=1e7, delta=1e-6))
    assert all(lattice(line.noise_multiplier) <= 2**20 for line in planned_lines(PLANS[plan], scale))


@pytest.mark.parametrize("delta", [0.1, 1e-13, 1e-40])
@pytest.mark.parametrize("plan", ["gaussians", "selection"])
def test_absurd_deltas_are_kept(plan, delta):
    scale = calibrate(PLANS[plan], Budget(epsilon=1, delta=delta))
    assert 0.995 <= epsilon_spent(planned_lines(PLANS[plan], scale), delta) <= 1


@settings(deadline=None, derandomize=True, max_examples=20)
@given(
    shares=st.lists(st.tuples(st.floats(1e-3, 10), st.integers(1, 50)), min_size=1, max_size=6),
    epsilon=st.floats(0.01, 50),
    exponent=st.floats(-11, -2),
)
def test_any_plan_of_gaussians_spends_nearly_all_and_never_more(shares, epsilon, exponent):
    plan = [
        Item(name=str(place), mechanism="discrete gaussian", share=share, times=times)
        for place, (share, times) in enumerate(shares)
    ]
    delta = 10**exponent
    lines = planned_lines(plan, calibrate(plan, Budget(epsilon=epsilon, delta=delta)))
    exact = get_epsilon_gaussian(1 / math.sqrt(sum(line.times / line.noise_multiplier**2 for line in lines)), delta)
    assert 0.995 * epsilon <= exact <= epsilon


def test_shares_divide_the_concentrated_budget():
    scale = calibrate([FIND, MOMENTS, SELECT], Budget(epsilon=1, delta=1e-6))
    rho = {
        line.name: line.times / (2 * line.noise_multiplier**2) for line in planned_lines([FIND, MOMENTS, SELECT], scale)
    }
    assert rho["moments"] / rho["find"] == pytest.approx(0.6 / 0.08)
    assert rho["select"] / rho["find"] == pytest.approx(0.3 / 0.08)


@pytest.mark.parametrize("rate", [0.01, 0.2, 1.0])
def test_an_equal_share_costs_about_the_same_when_sampled(rate):
    sampled = Item(name="train", mechanism="sampled gaussian", share=1.0, times=1000, sampling_rate=rate)
    plain = Item(name="moments", mechanism="gaussian", share=1.0)
    budget = Budget(epsilon=1, delta=1e-6)
    assert calibrate([sampled], budget) == pytest.approx(calibrate([plain], budget), rel=0.1)


def test_noise_fixed_in_the_plan_is_not_scaled():
    train = dataclasses.replace(TRAIN, noise_multiplier=30.0)
    ledger = Ledger(Budget(epsilon=2, delta=1e-6), [MOMENTS, train])
    assert ledger.noise("train") == 30.0
    assert 0.995 * 2 <= spend_all(ledger).epsilon <= 2


def test_fixed_noise_that_costs_too_much_is_refused():
    train = dataclasses.replace(TRAIN, noise_multiplier=1.0)
    with pytest.raises(BudgetExceeded, match=r"the noise fixed in the plan costs epsilon = .* of 0.1"):
        calibrate([MOMENTS, train], Budget(epsilon=0.1, delta=1e-6))


def test_thresholds_that_take_all_of_delta_are_refused():
    with pytest.raises(BudgetExceeded, match="take delta = 3e-08 of 2e-08 and leave nothing"):
        calibrate([CATEGORIES], Budget(epsilon=1, delta=2e-8))


def test_sampling_that_is_private_by_itself_still_gets_noise():
    item = Item(name="train", mechanism="sampled gaussian", share=1.0, sampling_rate=1e-5)
    assert item.noise_at(calibrate([item], Budget(epsilon=1, delta=1e-3))) > 0.1


@pytest.mark.parametrize(("low", "high"), [(0.5, 0.99), (1.01, 2.0), (0.5, math.nan)])
def test_accountants_that_disagree_stop_the_fit(low, high):
    with pytest.raises(ArithmeticError, match="the accountants disagree: epsilon = 1 by PLD"):
        till._agree(1.0, low, high)


# --- The ledger of one fit ---


def test_paying_returns_the_noise_that_is_charged():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), PLANS["gaussians"])
    sigma = ledger.pay("moments", what="second moments", sensitivity=12.5)
    line = ledger.receipt().lines[0]
    assert sigma == line.sigma == 12.5 * ledger.noise("moments")
    assert line.noise_multiplier == ledger.noise("moments")


def test_a_purchase_beyond_the_plan_is_refused_and_not_entered():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [FIND, MOMENTS])
    for column in range(8):
        ledger.pay("find", what=f"column {column}", sensitivity=1)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.pay("find", what="once more", sensitivity=1)
    assert str(caught.value) == (
        '"find" was planned for 8 purchases and all are spent; nothing was read. Plan more of them, or raise epsilon.'
    )
    assert len(ledger.receipt().lines) == 8


def test_more_at_once_than_is_left_is_refused_whole():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [TRAIN])
    ledger.pay("train", what="training", sensitivity=1, times=1500)
    with pytest.raises(BudgetExceeded, match="planned for 2000 purchases and 500 are left where 501 were asked for"):
        ledger.pay("train", what="training", sensitivity=1, times=501)
    assert ledger.left("train") == 500


def test_what_is_not_planned_cannot_be_paid():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])
    with pytest.raises(BudgetExceeded, match='"find" is not in the plan, which holds "moments"; nothing was read'):
        ledger.pay("find", what="column 0", sensitivity=1)


@pytest.mark.parametrize("sensitivity", [0, -1, math.nan, math.inf])
def test_a_sensitivity_that_would_remove_the_noise_is_refused(sensitivity):
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])
    with pytest.raises(ValueError, match='"moments", sensitivity: expected a finite number > 0'):
        ledger.pay("moments", what="second moments", sensitivity=sensitivity)
    assert ledger.left("moments") == 1


def test_showing_the_noise_pays_nothing():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])
    ledger.noise("moments")
    assert ledger.left("moments") == 1
    assert ledger.receipt().epsilon == 0


# --- The receipt ---


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_the_total_can_be_recomputed_from_the_lines(plan, epsilon):
    receipt = spend_all(Ledger(Budget(epsilon=epsilon, delta=1e-6), plan))
    left = receipt.delta - sum(line.times * line.threshold_delta for line in receipt.lines)
    if any(line.mechanism == "exponential" for line in receipt.lines):
        accountant = rdp.RdpAccountant([1 + 1.03**k for k in range(-100, 300)] if plan is PLANS["selection"] else None)
        for event in receipt.events():
            accountant.compose(event)
        again = accountant.get_epsilon(left)
    else:
        again = by_pld(receipt.events(), left, spacing=1e-4 if epsilon > 0.2 else 2e-5)
    assert again == pytest.approx(receipt.epsilon, rel=0.01)
    assert again <= epsilon
    assert receipt.epsilon <= epsilon


def test_what_was_not_bought_is_not_on_the_receipt():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), PLANS["gaussians"])
    ledger.pay("moments", what="second moments", sensitivity=1)
    receipt = ledger.receipt()
    assert receipt.epsilon == epsilon_spent(receipt.lines, 1e-6) < 0.9
    assert receipt.not_bought == 16
    assert "16 planned purchases not made" in str(receipt)


def test_a_line_says_what_it_costs_alone():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [FIND, SELECT])
    ledger.pay("find", what="column 0", sensitivity=1)
    scale = ledger.pay("select", what="the best pair", sensitivity=3)
    find, select = ledger.receipt().lines
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
    ledger.pay("find", what="where the mass of " + "a long name " * 20 + "lies", sensitivity=123456.789)
    ledger.pay("find", what="where the mass of 'age' lies", sensitivity=123456.789)
    assert max(len(line) for line in str(ledger.receipt()).splitlines()) <= 100


def test_without_a_seed_the_noise_is_the_operating_systems():
    assert "operating system entropy" in str(spend_all(Ledger(Budget(epsilon=1, delta=1e-6), [MOMENTS])))


def test_equal_lines_are_priced_once():
    plan = [dataclasses.replace(FIND, times=400), dataclasses.replace(RESOLVE, times=400), MOMENTS]
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), plan)
    before = till._pld_epsilon.cache_info().misses
    receipt = spend_all(ledger)
    assert len(receipt.lines) == 801
    assert len(str(receipt).splitlines()) == 12  # and shown once
    assert till._pld_epsilon.cache_info().misses - before <= 4  # three kinds of line and the total
