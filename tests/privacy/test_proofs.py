"""The bounds of docs/proofs.md, each computed on cases small enough to be exact."""

import itertools
import math
from fractions import Fraction

import dp_accounting
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp, ndtr, ndtri
from scipy.stats import norm

from understudy.core.randomness import Key
from understudy.privacy.accounting import event_of
from understudy.privacy.batches import OVERFLOW, largest_batch
from understudy.privacy.calibration import calibrate, planned_charges
from understudy.privacy.counts import threshold
from understudy.privacy.exact_counts import ExactCodes
from understudy.privacy.gaussian import gaussian_delta, mu_of_range
from understudy.privacy.moments import FIXED_POINT, to_fixed_point
from understudy.privacy.plan import DISCRETE_FACTOR, STEPS_PER_SIGMA, Budget, PlannedMechanism
from understudy.privacy.rows import lock
from understudy.privacy.selection import MarginalError, dependence

EPSILONS = np.linspace(0.0, 4.0, 9)


# Neighbours, units and sensitivities ---------------------------------------------------------------------------------


def test_units_move_counts_by_no_more_than_their_rows():
    """All ways to keep 2 of a unit's 3 rows are equally likely, with and without another unit in the table."""
    m, seen = 2, {True: {}, False: {}}
    for with_other in (True, False):
        unit = np.array([0, 0, 0, *([1, 1, 1, 1] if with_other else [])])
        column = np.arange(len(unit))
        for seed in range(900):
            kept = lock({"x": column}, {}, unit=unit, max_rows_per_unit=m, key=Key.new(seed))._exact["x"]
            assert np.bincount(unit[kept]).max() <= m
            chosen = tuple(int(row) for row in kept if row < 3)
            seen[with_other][chosen] = seen[with_other].get(chosen, 0) + 1
    for shares in seen.values():
        assert set(shares) == {(0, 1), (0, 2), (1, 2)}
        assert all(abs(count / 900 - 1 / 3) < 0.07 for count in shares.values())


ROWS = list(itertools.product((0, 1), (0, 1, 2)))


def tables(most):
    return itertools.chain.from_iterable(itertools.combinations_with_replacement(ROWS, n) for n in range(most + 1))


def exact_marginal(rows):
    columns = np.array(rows, np.int64).reshape(-1, 2)
    return ExactCodes({"a": columns[:, 0], "b": columns[:, 1]}).marginal(("a", "b"), (2, 3))


def test_every_neighbour_of_every_small_table_moves_answers_by_no_more_than_stated():
    rng = np.random.default_rng(0)
    weights, estimate = rng.uniform(0, 3, (2, 3)), rng.uniform(0, 2, (2, 3))
    candidate = MarginalError(columns=("a", "b"), estimate=estimate, weights=weights, factor=1.7)
    across, along = rng.uniform(0, 2, 2), rng.uniform(0, 2, 3)
    points = {row: rng.normal(0, 3, 4) for row in ROWS}
    clip, worst = 2.5, dict.fromkeys(("error", "dependence", "weighted", "moments"), 0.0)
    for table in tables(3):
        before = exact_marginal(table)
        for row in ROWS:
            after = exact_marginal((*table, row))
            assert np.abs(after - before).sum() == 1
            errors = [1.7 * float((weights * np.abs(counts - estimate)).sum()) for counts in (before, after)]
            worst["error"] = max(worst["error"], abs(errors[1] - errors[0]) / candidate.sensitivity)
            plain = abs(dependence(after) - dependence(before))
            weighted = abs(dependence(after, across, along) - dependence(before, across, along))
            worst["dependence"] = max(worst["dependence"], plain / 2)
            worst["weighted"] = max(worst["weighted"], weighted / (2 * across.max() * along.max()))
    for point in points.values():
        x = to_fixed_point(point[None], clip)[0] / FIXED_POINT
        move = math.sqrt(sum(x**4) + sum(2 * (x[i] * x[j]) ** 2 for i, j in itertools.combinations(range(4), 2)))
        assert move == pytest.approx(float(x @ x))
        worst["moments"] = max(worst["moments"], move / clip**2)
    assert all(0.3 < ratio <= 1 + 1e-12 for ratio in worst.values()), worst


# Partition selection -------------------------------------------------------------------------------------------------


def discrete(sigma, centre, reach):
    k = np.arange(-reach, reach + 1)
    log_p = -((k - centre) ** 2) / (2 * sigma**2)
    return np.exp(log_p - logsumexp(log_p))


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("own", [1e-2, 1e-4])
def test_a_threshold_adds_its_delta_in_both_directions(own):
    """One category that both tables have, and one that a single unit brings in, named above a threshold."""
    sigma, reach = 130.0, 1500
    shared, shifted = discrete(sigma, 0, reach), discrete(sigma, 1, reach)
    limit = 1 + threshold(sigma, own)
    alone = discrete(sigma, 1, reach)
    named = alone[np.arange(-reach, reach + 1) >= limit].sum()
    assert named <= own
    without = np.append(shared, 0.0)  # all outcomes in which the category is not named, and those in which it is
    with_unit = np.append(shifted * (1 - named), named)
    for epsilon in np.linspace(0, 0.03, 7):
        allowed = max(hockey_stick(shared, shifted, epsilon), hockey_stick(shifted, shared, epsilon)) + own
        assert hockey_stick(with_unit, without, epsilon) <= allowed
        assert hockey_stick(without, with_unit, epsilon) <= allowed


# Discrete noise ------------------------------------------------------------------------------------------------------


def ripple(t):
    return 2 * sum(math.exp(-2 * math.pi**2 * t**2 * m**2) for m in range(1, 6))


def test_the_normalising_sum_hardly_depends_on_where_it_is_taken():
    t = 0.6
    sums = [sum(math.exp(-((k - y) ** 2) / (2 * t**2)) for k in range(-20, 21)) for y in np.linspace(0, 1, 41)]
    scaled = np.array(sums) / (t * math.sqrt(2 * math.pi))
    assert abs(scaled.max() - 1 - ripple(t)) < 1e-12 and scaled.min() >= 1 - ripple(t)
    smallest = math.sqrt(1 - DISCRETE_FACTOR**2) * STEPS_PER_SIGMA
    assert ripple(smallest) < 2e-28
    assert 10**9 * 2 * math.log1p(4e-28) < 1e-18


@pytest.mark.parametrize("centre", [0, 1, 3])
def test_rounded_continuous_noise_is_discrete_noise(centre):
    """The same with coarse steps, where the factor can be seen: it is within the bound, and not far from it."""
    s, t = 3.0, 0.6
    # The trapezoid rule on a fine grid is exact to rounding for a function that is smooth and ends in zeros.
    y = np.linspace(-24, 24, 9601)
    k = np.arange(-60, 61)[:, None]
    weights = np.exp(-((k - y) ** 2) / (2 * t**2))
    kernel = weights / weights.sum(axis=0)
    rounded = np.trapezoid(norm.pdf(y, centre, math.sqrt(s**2 - t**2)) * kernel, y, axis=1)
    ratios = discrete(s, centre, 60)[54:70] / rounded[54:70]
    bound = (1 + ripple(t)) / (1 - ripple(s))
    assert max(ratios.max(), 1 / ratios.min()) <= bound * (1 + 1e-9)
    assert max(ratios.max(), 1 / ratios.min()) > 1 + 1e-6


@pytest.mark.parametrize(("releases", "shift"), [(1, 1), (50, 3), (1000, 1), (1000, 8)])
def test_a_thousand_discrete_releases_cost_what_they_are_charged(releases, shift):
    """Equal releases are told apart by the sum of their noise, whose distribution is a power of one, exactly."""
    s = float(STEPS_PER_SIGMA)
    reach = int(9 * s * math.sqrt(releases)) + releases * shift
    size = 1 << math.ceil(math.log2(2 * reach + 1))
    one = np.zeros(size)
    wide = min(int(12 * s), size // 2 - 1)
    one[np.arange(-wide, wide + 1) % size] = discrete(s, 0, wide)
    total = np.fft.irfft(np.fft.rfft(one) ** releases, size).clip(0)
    k = np.arange(-reach, reach + 1)
    p = total[(k - releases * shift) % size]
    losses = shift * (2 * k - releases * shift) / (2 * s**2)
    mu = math.sqrt(releases) * shift / s
    for epsilon in np.linspace(max(0.0, mu**2 / 2 - mu), mu**2 / 2 + 4 * mu, 12):
        above = losses > epsilon
        exact = float(np.sum(p[above] * -np.expm1(epsilon - losses[above])))
        assert exact <= gaussian_delta(mu / DISCRETE_FACTOR, epsilon) + 1e-12


# Gaussians and filters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_the_closed_form_is_the_integral(mu):
    for epsilon in EPSILONS:

        def above(y, epsilon=epsilon):
            return max(0.0, norm.pdf(y, mu) - math.exp(epsilon) * norm.pdf(y))

        start = epsilon / mu + mu / 2
        assert gaussian_delta(mu, epsilon) == pytest.approx(quad(above, start, start + 12)[0], rel=1e-6, abs=1e-13)


def delta_given(slack, mu, epsilon):
    """E over the second release of (exp(loss so far + its loss) - exp(epsilon))₊, for N(0, 1) and N(mu, 1)."""
    left = epsilon - slack
    if mu == 0:
        return max(0.0, math.exp(slack) - math.exp(epsilon))
    return math.exp(slack) * float(ndtr(mu / 2 - left / mu)) - math.exp(epsilon) * float(ndtr(-mu / 2 - left / mu))


STRATEGIES = {
    "more if the first was large": lambda y: 0.9 if y > 0.3 else 0.2,
    "stop if the first was small": lambda y: 0.9 if y > -0.5 else 0.0,
    "more the larger": lambda y: 0.9 / (1 + math.exp(-3 * y)),
    "all of it": lambda y: 0.9,
}


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_a_filter_spent_by_what_was_seen_costs_no_more_than_its_limit(strategy):
    first, limit = 0.8, math.hypot(0.8, 0.9)
    y = np.linspace(-9, 10, 3801)
    for epsilon in EPSILONS:
        inner = [delta_given(first * each - first**2 / 2, strategy(each), epsilon) for each in y]
        cost = float(np.trapezoid(inner * norm.pdf(y), y))
        assert cost <= gaussian_delta(limit, epsilon) + 1e-6


# Selections ----------------------------------------------------------------------------------------------------------


def test_selections_are_gaussian():
    z = np.arange(2401) / 200.0
    upper, lower = np.exp(norm.logpdf(z) - norm.logsf(z)), np.exp(norm.logpdf(z) - norm.logcdf(z))
    assert (upper - lower - z >= -1e-12).all()  # g >= 0, the whole claim
    small = z[(z > 0) & (z <= 1.25)]
    w = 2 * norm.cdf(small) - 1
    assert (w**2 >= 1 - np.exp(-(small**2) / 2) - 1e-15).all()  # the disc in the square
    assert (w >= small * math.sqrt(2 * math.pi) / 4).all()
    large = z[z >= 1.25]
    assert (norm.sf(large) < norm.pdf(large) * (large**2 + 2) / (large**3 + 3 * large)).all()
    assert (large / (large**2 + 2) > norm.pdf(large) / ndtr(1.25)).all()
    levels = np.linspace(1e-6, 1 - 1e-6, 2001)
    for epsilon in (0.01, 0.3, 1.0, 4.0, 12.0):
        odds = math.exp(epsilon) * levels / (1 - levels)
        power = ndtr(ndtri(levels) + mu_of_range(epsilon / 2))
        assert (power >= odds / (1 + odds) - 1e-12).all()  # G >= R
        middle = 1 / (1 + math.exp(epsilon / 2))
        assert ndtr(ndtri(middle) + mu_of_range(epsilon / 2)) == pytest.approx(1 - middle, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_random_exponential_mechanisms_are_no_easier_to_tell_apart_than_their_gaussian(seed):
    rng = np.random.default_rng(seed)
    scale, size = rng.uniform(0.3, 5.0), int(rng.integers(2, 6))
    scores = rng.uniform(-3, 3, size)
    others = scores + rng.choice([-1.0, 1.0, 0.2], size)
    p, q = (np.exp(each) / np.exp(each).sum() for each in (scores / scale, others / scale))
    losses = np.log(p / q)
    assert np.ptp(losses) <= 2 / scale + 1e-12
    for epsilon in np.linspace(-2 / scale, 2 / scale, 21):
        allowed = gaussian_delta(mu_of_range(1 / scale), abs(epsilon))
        allowed = allowed if epsilon >= 0 else 1 - math.exp(epsilon) * (1 - allowed)
        assert hockey_stick(p, q, epsilon) <= allowed + 1e-12 and hockey_stick(q, p, epsilon) <= allowed + 1e-12


# Training ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.7, 2.0])
def test_a_lower_rate_is_more_private_in_both_directions(sigma):
    y = np.linspace(-14, 15, 58001)
    without = norm.pdf(y, 0, sigma)
    step = y[1] - y[0]
    for epsilon in np.linspace(0, 1.5, 4):
        costs = []
        for rate in (0.01, 0.05, 0.2, 0.5, 1.0):
            mixed = (1 - rate) * without + rate * norm.pdf(y, 1, sigma)
            costs.append((hockey_stick(mixed, without, epsilon) * step, hockey_stick(without, mixed, epsilon) * step))
        for lower, higher in itertools.pairwise(costs):
            assert lower[0] <= higher[0] + 1e-12 and lower[1] <= higher[1] + 1e-12


@pytest.mark.parametrize(("units", "rate"), [(400, Fraction(1, 100)), (300, Fraction(1, 4)), (1000, Fraction(1, 50))])
def test_a_batch_fits_but_for_once_in_1e20(units, rate):
    """The exact tail of the binomial distribution, in fractions."""
    places = largest_batch(units, float(rate))
    assert places < units
    tail = sum(math.comb(units, k) * rate**k * (1 - rate) ** (units - k) for k in range(places + 1, units + 1))
    assert tail <= Fraction(OVERFLOW)


# Calibration ---------------------------------------------------------------------------------------------------------

PLAN = (
    PlannedMechanism(name="counts", mechanism="discrete gaussian", share=2.0, times=7),
    PlannedMechanism(name="choices", mechanism="exponential", share=1.0, times=3),
    PlannedMechanism(name="steps", mechanism="sampled gaussian", share=3.0, times=200, sampling_rate=0.02),
)


@pytest.mark.parametrize("plan", [PLAN[:2], pytest.param(PLAN, marks=pytest.mark.slow)])
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_a_calibrated_plan_costs_no_more_by_an_accountant_of_its_own(plan, epsilon):
    delta = 1e-5
    charges = planned_charges(plan, calibrate(plan, Budget(epsilon=epsilon, delta=delta)))
    accountant = dp_accounting.pld.PLDAccountant(value_discretization_interval=1e-4)
    for charge in charges:
        accountant.compose(event_of(charge))
    assert 0.97 * epsilon < accountant.get_epsilon(delta) <= epsilon
    if len(plan) == 2:
        mu = math.sqrt(sum(charge.times * charge.mu**2 for charge in charges))
        assert gaussian_delta(mu, epsilon) <= delta
