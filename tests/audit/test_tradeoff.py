import itertools

import numpy as np
import pytest
from scipy import stats

from understudy.audit.tradeoff import (
    Alarms,
    best_threshold,
    claimed_mu,
    expected_bound,
    most_hits,
    mu_lower_bound,
    refuted,
)
from understudy.privacy.accounting import epsilon_spent
from understudy.privacy.gaussian import gaussian_epsilon
from understudy.privacy.plan import Charge


@pytest.mark.parametrize(("alarms", "mu"), [(0.02, 2.0), (0.3, 0.5)])
def test_a_true_mu_is_refuted_with_no_more_than_the_stated_probability(alarms, mu):
    fits, error = 10, 0.1
    hits = float(stats.norm.cdf(stats.norm.ppf(alarms) + mu))
    wrongly = sum(
        stats.binom.pmf(a, fits, alarms) * stats.binom.pmf(h, fits, hits)
        for a, h in itertools.product(range(fits + 1), repeat=2)
        if refuted(Alarms(without=a, fits_without=fits, hits=h, fits_with=fits), mu, confidence=1 - error)
    )
    assert wrongly <= error


def test_the_bound_comes_near_the_truth_and_stays_below():
    bounds = [expected_bound(2.0, fits=fits, confidence=0.99, units=1) for fits in (50, 200, 2000)]
    assert bounds == sorted(bounds)
    assert bounds[0] > 1.0
    assert 1.85 < bounds[-1] < 2.0


def test_no_difference_certifies_nothing():
    assert mu_lower_bound(Alarms(without=30, fits_without=100, hits=31, fits_with=100), confidence=0.95) == 0.0


def test_a_group_of_units_has_so_many_times_the_mu_of_one():
    seen = Alarms(without=10, fits_without=100, hits=90, fits_with=100)
    one, group = (mu_lower_bound(seen, confidence=0.99, units=units) for units in (1, 5))
    assert group == pytest.approx(one / 5, rel=1e-3)


def test_a_perfect_separation_certifies_what_its_number_of_fits_allows():
    seen = Alarms(without=0, fits_without=100, hits=100, fits_with=100)
    assert 3.0 < mu_lower_bound(seen, confidence=0.99) < 4.0


def test_thresholds_allow_a_little_more_and_are_added_up_over_a_group():
    alarms = np.array([0.01, 0.2, 0.9])
    without = most_hits(alarms, 0.3, units=3)
    assert without == pytest.approx(stats.norm.cdf(stats.norm.ppf(alarms) + 0.9))
    allowed = most_hits(alarms, 0.3, units=3, threshold_delta=1e-3) - without
    assert np.all(allowed >= 1e-3 - 1e-12)
    assert np.all(allowed < 0.02)


def test_the_claim_of_gaussians_is_their_account():
    charges = [Charge(name=n, what="", mechanism="gaussian", noise_multiplier=m) for n, m in (("a", 3.0), ("b", 5.0))]
    mu, threshold_delta = claimed_mu(charges)
    assert threshold_delta == 0.0
    assert gaussian_epsilon(mu, 1e-5) == pytest.approx(epsilon_spent(charges, 1e-5), rel=1e-3)


@pytest.mark.slow
def test_the_claim_of_sampled_steps_covers_their_account_at_every_delta():
    charge = Charge(name="a", what="", mechanism="sampled gaussian", noise_multiplier=1.5, times=20, sampling_rate=0.1)
    mu, _ = claimed_mu([charge])
    for delta in (1e-7, 1e-5, 1e-3):
        assert gaussian_epsilon(mu, delta) >= epsilon_spent([charge], delta) * (1 - 1e-6)


def test_the_best_threshold_lies_between_two_samples():
    draw = np.random.default_rng(0)
    threshold, bound = best_threshold(draw.normal(0, 1, 500), draw.normal(3, 1, 500), error=0.01)
    assert 0.8 < threshold < 2.2
    assert 2.0 < bound < 3.0


def test_a_statistic_that_never_changes_tells_nothing():
    assert best_threshold(np.ones(10), np.ones(10), error=0.01)[1] == 0.0
