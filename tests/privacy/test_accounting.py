"""Accounting: plans are calibrated from above, and charges cost what the mechanisms do."""

import dataclasses
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from plans import CATEGORIES, FIND, MOMENTS, PLANS, SELECT, TRAIN
from understudy.privacy import accounting
from understudy.privacy.accounting import epsilon_by_rdp, epsilon_spent, event_of
from understudy.privacy.calibration import calibrate, planned_charges
from understudy.privacy.gaussian import gaussian_delta, gaussian_mu
from understudy.privacy.plan import (
    DISCRETE_FACTOR,
    Budget,
    BudgetExceeded,
    Charge,
    PlannedMechanism,
    lattice,
    noise_for,
)


def gaussian(noise_multiplier, times=1, **fields):
    return Charge(name="a", what="", mechanism="gaussian", noise_multiplier=noise_multiplier, times=times, **fields)


def by_pld(events, delta, spacing=1e-4):
    accountant = pld.PLDAccountant(value_discretization_interval=spacing)
    for event in events:
        accountant.compose(event)
    return accountant.get_epsilon(delta)


# --- Budgets and plans are checked at birth ---


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, "1", None, True])
def test_a_budget_needs_a_finite_positive_epsilon(epsilon):
    with pytest.raises(ValueError, match=r"^epsilon: expected a finite number > 0, got "):
        Budget(epsilon=epsilon, delta=1e-6)


@pytest.mark.parametrize("delta", [0, 1, -0.1, 2, math.nan, None])
def test_a_budget_needs_a_delta_between_zero_and_one(delta):
    with pytest.raises(ValueError, match=r"^delta: expected a finite number > 0 and < 1, got "):
        Budget(epsilon=1, delta=delta)


def test_an_error_about_a_number_is_one_plain_sentence():
    with pytest.raises(ValueError) as caught:
        Budget(epsilon=0.0, delta=1e-6)
    assert str(caught.value) == "epsilon: expected a finite number > 0, got 0.0."


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mechanism": "laplace"}, "mechanism: expected one of discrete gaussian, .*, got 'laplace'"),
        ({"share": 0.0}, "share: expected a finite number > 0"),
        ({"times": 0}, "times: expected a whole number >= 1"),
        ({"times": 1.5}, "times: expected a whole number >= 1"),
        ({"threshold_delta": 1e-8}, 'threshold_delta belongs to "gaussian threshold"'),
        ({"sampling_rate": 0.5}, 'sampling_rate belongs to "sampled gaussian"'),
        ({"mechanism": "gaussian threshold"}, "threshold_delta: expected a finite number > 0 and < 1"),
        ({"mechanism": "sampled gaussian"}, "sampling_rate: expected a finite number > 0 and <= 1"),
        ({"noise_multiplier": 0.0}, "noise_multiplier: expected a finite number > 0"),
    ],
)
def test_a_planned_mechanism_that_means_nothing_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        PlannedMechanism(**{"name": "a", "mechanism": "gaussian", "share": 1.0, **fields})


def test_an_empty_plan_is_refused():
    with pytest.raises(ValueError, match="plan: expected at least one mechanism"):
        calibrate([], Budget(epsilon=1, delta=1e-6))


# --- What a composition costs ---


@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("noise", [0.02, 0.3, 1.0, 7.0, 300.0])
def test_one_gaussian_costs_what_the_closed_form_says(noise, delta):
    expected = get_epsilon_gaussian(noise, delta)
    assert epsilon_spent([gaussian(noise)], delta) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.01, 1.0, 100.0, 1e6])
@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-12, 1e-30])
def test_the_closed_form_and_its_inverse_meet(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert gaussian_delta(mu * 1.001, epsilon) > delta


@pytest.mark.parametrize("mu", [0.0099, 1e-3, 1e-4])
def test_the_form_for_small_numbers_continues_the_usual_one_from_above(mu):
    below, above = gaussian_delta(mu, 0.99999e-4), gaussian_delta(mu, 1e-4)
    assert below == pytest.approx(above, rel=1e-3)
    assert below >= above


@pytest.mark.slow
@settings(deadline=None, derandomize=True, max_examples=5)
@given(noises=st.lists(st.floats(2.0, 60.0), min_size=2, max_size=8))
def test_merging_gaussians_changes_nothing(noises):
    merged = epsilon_spent([gaussian(noise) for noise in noises], 1e-6)
    separate = by_pld([dp_accounting.GaussianDpEvent(noise) for noise in noises], 1e-6, spacing=2e-4)
    assert merged == pytest.approx(separate, rel=1e-4)


def test_a_sampled_gaussian_costs_what_a_fine_pld_says():
    charge = Charge(
        name="a", what="", mechanism="sampled gaussian", noise_multiplier=1.0, times=500, sampling_rate=0.01
    )
    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0)), 500
    )
    fine = by_pld([event], 1e-6)
    assert fine <= epsilon_spent([charge], 1e-6) <= fine * 1.002


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.5, 2.0, 8.0, 30.0])
def test_a_selection_is_as_private_as_the_gaussian_it_is_charged_as(epsilon):
    """The worst mechanism with losses in a range of ε says t or t - ε; brute force over t, at every ε'."""
    charge = Charge(name="a", what="", mechanism="exponential", noise_multiplier=2 / epsilon)
    t = np.linspace(0.0, epsilon, 2001)[:, None]
    at = np.linspace(0.0, epsilon, 401)
    of_t = np.expm1(t - epsilon) / np.expm1(-epsilon)  # probability of the loss t, so that both sides sum to one
    worst = np.max(of_t * np.maximum(-np.expm1(at - t), 0.0), axis=0)
    allowed = np.array([gaussian_delta(charge.mu, x) for x in at])
    assert np.all(worst <= allowed * (1 + 1e-9) + 1e-15)
    assert worst[0] == pytest.approx(math.tanh(epsilon / 4)) == pytest.approx(allowed[0])  # none smaller would do


def test_a_few_selections_among_gaussians_cost_less_than_by_concentrated_rates():
    epsilon, noise, delta = 0.1, 10.0, 1e-6
    charge = Charge(name="a", what="", mechanism="exponential", noise_multiplier=2 / epsilon, times=8)
    gaussians = [gaussian(noise) for _ in range(18)]  # nine times as much
    accountant = rdp.RdpAccountant([1 + 1.03**k for k in range(-100, 300)])
    accountant.compose(dp_accounting.ZCDpEvent(8 * epsilon**2 / 8 + 18 / (2 * noise**2)))
    assert 0.9 < epsilon_spent([charge, *gaussians], delta) / accountant.get_epsilon(delta) < 0.98


@given(mu=st.floats(1e-4, 30.0))
def test_noise_and_mu_are_each_other_s_inverse(mu):
    for mechanism in ("discrete gaussian", "gaussian", "exponential"):
        noise = noise_for(mechanism, mu)
        charge = Charge(name="a", what="", mechanism=mechanism, noise_multiplier=noise)
        assert charge.mu == pytest.approx(mu, rel=1e-6)


def test_the_exponential_mechanism_by_gumbel_noise_keeps_within_its_charge():
    """Two candidates, brute force: at every ε' the delta stays below the Gaussian's."""
    noise = 1.3
    mu = Charge(name="a", what="", mechanism="exponential", noise_multiplier=noise).mu
    gaps = np.linspace(-8, 8, 801)
    first = 1 / (1 + np.exp(-gaps / noise))
    second = 1 / (1 + np.exp(-(gaps + 2) / noise))  # each score moves by 1, in opposite directions
    for epsilon in np.linspace(0.0, 2 / noise, 50):
        for p, q in ((first, second), (second, first)):
            delta = np.maximum(p - np.exp(epsilon) * q, 0) + np.maximum((1 - p) - np.exp(epsilon) * (1 - q), 0)
            assert np.max(delta) <= gaussian_delta(mu, epsilon)


def test_thresholds_take_their_delta_first():
    charges = planned_charges([CATEGORIES], 5.0)
    plain = [dataclasses.replace(charge, mechanism="discrete gaussian", threshold_delta=0.0) for charge in charges]
    assert epsilon_spent(charges, 1e-6) == epsilon_spent(plain, 1e-6 - 3e-8)
    assert epsilon_spent(charges, 3e-8) == math.inf


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mechanism": "magic"}, "mechanism: expected one of discrete gaussian, .*, got 'magic'"),
        ({"noise_multiplier": 0.0}, "noise_multiplier: expected a finite number > 0"),
        ({"sensitivity": math.inf}, "sensitivity: expected a finite number > 0"),
        ({"times": 0}, "times: expected a whole number >= 1"),
        ({"sampling_rate": 0.5}, 'sampling_rate belongs to "sampled gaussian"'),
        ({"threshold_delta": 1e-8}, 'threshold_delta belongs to "gaussian threshold"'),
    ],
)
def test_a_charge_without_a_known_cost_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(gaussian(1.0), **fields)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_events_cost_what_their_charges_cost(plan):
    charges = planned_charges(plan, 3.0)
    sampled = any(charge.mechanism == "sampled gaussian" for charge in charges)
    accountant = rdp.RdpAccountant(None if sampled else (1 + np.geomspace(0.01, 1e4, 500)).tolist())
    for charge in charges:
        accountant.compose(event_of(charge))
    left = 1e-6 - sum(charge.times * charge.threshold_delta for charge in charges)
    assert accountant.get_epsilon(left) == pytest.approx(epsilon_by_rdp(charges, 1e-6), rel=0.01)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("scale", [0.5, 3.0, 40.0])
def test_rdp_never_says_less(plan, scale):
    charges = planned_charges(plan, scale)
    assert epsilon_spent(charges, 1e-6) <= epsilon_by_rdp(charges, 1e-6) * (1 + 1e-6)


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
    return gaussian_delta(mu / DISCRETE_FACTOR, epsilon)


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
    assert sigma * steps >= 128
    assert steps == 1 or sigma * steps < 256
    assert steps & (steps - 1) == 0  # a power of two: dividing by it is exact


# --- One scale for the whole plan ---


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0, *(pytest.param(e, marks=pytest.mark.slow) for e in (0.2, 5.0))])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_calibrated_plan_spends_nearly_all_and_never_more(plan, epsilon):
    scale = calibrate(plan, Budget(epsilon=epsilon, delta=1e-6))
    assert 0.995 * epsilon <= epsilon_spent(planned_charges(plan, scale), 1e-6) <= epsilon


@pytest.mark.parametrize("epsilon", [1e-7, 1e6])
@pytest.mark.parametrize(
    "plan", [pytest.param(name, marks=[pytest.mark.slow] if TRAIN in PLANS[name] else []) for name in PLANS]
)
def test_absurd_budgets_are_kept(plan, epsilon):
    scale = calibrate(PLANS[plan], Budget(epsilon=epsilon, delta=1e-6))
    assert epsilon_spent(planned_charges(PLANS[plan], scale), 1e-6) <= epsilon


@pytest.mark.parametrize("plan", ["gaussians", "selection"])
def test_beyond_a_huge_epsilon_the_noise_stays_drawable(plan):
    scale = calibrate(PLANS[plan], Budget(epsilon=1e300, delta=1e-6))
    assert scale == calibrate(PLANS[plan], Budget(epsilon=1e7, delta=1e-6))
    for charge in planned_charges(PLANS[plan], scale):
        assert charge.noise_multiplier > 1e-7 if charge.mechanism == "exponential" else lattice(charge.sigma) <= 2**20


@pytest.mark.parametrize("delta", [0.1, 1e-13, 1e-40])
@pytest.mark.parametrize("plan", ["gaussians", "selection"])
def test_absurd_deltas_are_kept(plan, delta):
    scale = calibrate(PLANS[plan], Budget(epsilon=1, delta=delta))
    assert 0.995 <= epsilon_spent(planned_charges(PLANS[plan], scale), delta) <= 1


@settings(deadline=None, derandomize=True, max_examples=20)
@given(
    shares=st.lists(st.tuples(st.floats(1e-3, 10), st.integers(1, 50)), min_size=1, max_size=6),
    epsilon=st.floats(0.01, 50),
    exponent=st.floats(-11, -2),
)
def test_any_plan_of_gaussians_spends_nearly_all_and_never_more(shares, epsilon, exponent):
    plan = [
        PlannedMechanism(name=str(place), mechanism="discrete gaussian", share=share, times=times)
        for place, (share, times) in enumerate(shares)
    ]
    delta = 10**exponent
    charges = planned_charges(plan, calibrate(plan, Budget(epsilon=epsilon, delta=delta)))
    exact = get_epsilon_gaussian(
        1 / math.sqrt(sum(charge.times / charge.noise_multiplier**2 for charge in charges)), delta
    )
    assert 0.995 * epsilon <= exact <= epsilon


def test_shares_divide_the_concentrated_budget():
    scale = calibrate([FIND, MOMENTS, SELECT], Budget(epsilon=1, delta=1e-6))
    mu_squared = {
        charge.name: charge.times * charge.mu**2 for charge in planned_charges([FIND, MOMENTS, SELECT], scale)
    }
    assert mu_squared["moments"] / mu_squared["find"] == pytest.approx(0.6 / 0.08, rel=1e-3)
    assert mu_squared["select"] / mu_squared["find"] == pytest.approx(0.3 / 0.08, rel=1e-3)


@pytest.mark.parametrize("rate", [0.01, 0.2, 1.0])
def test_an_equal_share_costs_about_the_same_when_sampled(rate):
    sampled = PlannedMechanism(name="train", mechanism="sampled gaussian", share=1.0, times=1000, sampling_rate=rate)
    plain = PlannedMechanism(name="moments", mechanism="gaussian", share=1.0)
    budget = Budget(epsilon=1, delta=1e-6)
    assert calibrate([sampled], budget) == pytest.approx(calibrate([plain], budget), rel=0.1)


def test_fixed_noise_that_costs_too_much_is_refused():
    train = dataclasses.replace(TRAIN, noise_multiplier=1.0)
    with pytest.raises(BudgetExceeded, match=r"the noise fixed in the plan costs epsilon = .* of 0.1"):
        calibrate([MOMENTS, train], Budget(epsilon=0.1, delta=1e-6))


def test_thresholds_that_take_all_of_delta_are_refused():
    with pytest.raises(BudgetExceeded, match="take delta = 3e-08 of 2e-08 and leave nothing"):
        calibrate([CATEGORIES], Budget(epsilon=1, delta=2e-8))


def test_sampling_that_is_private_by_itself_still_gets_noise():
    planned = PlannedMechanism(name="train", mechanism="sampled gaussian", share=1.0, sampling_rate=1e-5)
    assert planned.noise_at(calibrate([planned], Budget(epsilon=1, delta=1e-3))) > 0.1


@pytest.mark.parametrize(("low", "high"), [(0.5, 0.99), (1.01, 2.0), (0.5, math.nan)])
def test_accountants_that_disagree_stop_the_fit(low, high):
    with pytest.raises(ArithmeticError, match="the accountants disagree: epsilon = 1 by PLD"):
        accounting._require_agreement(1.0, low, high)
