"""Lower bounds on mu from counted errors, and the trade-off curve that a plan claims.

A test that tells two tables apart has a rate of alarms on each: `alarms` without the canaries, `hits` with them. A
mechanism that is mu-Gaussian private bounds the second by the first,

    hits <= Phi(Phi^-1(alarms) + k mu)    for tables that differ by k units,

so counts of both give a lower bound on mu. Groups are why a few hundred fits suffice: at (1, 1e-5) mu is 0.27, which
takes thousands of fits to see, and eleven units together have a mu of 3, which takes hundreds. A claim about one unit
implies the one about k units, so whoever refutes the second has refuted the first.

The one rule: every bound is rounded towards innocence. What is certified holds with the stated confidence, whatever the
test.

Sources:
    Dong, Roth and Su (2019), arXiv:1905.02383: trade-off curves, groups (theorem 2.14), Gaussian privacy.
    Nasr et al. (2023), arXiv:2302.07956: audits by mu.
    Clopper and Pearson (1934): exact bounds on a rate. Stouffer et al. (1949): sums of z-scores of independent tests.
"""

# SciPy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.accounting import Composition, account_composition
from understudy.privacy.gaussian import gaussian_mu
from understudy.privacy.plan import Charge

Floats = NDArray[np.float64]

# Rates without the canaries are tried on a grid of this many steps; between two of them the worse end counts for each.
_GRID = 1000
# Of the probability of error, this part pays for leaving out rates that the alarms themselves rule out.
_OUTSIDE = 0.02
# This part is for the hits alone: a rate of alarms of nearly 0 is refuted by them, whatever the alarms say.
_ALONE = 0.03
# Bounds on mu are searched up to this one, and to this precision.
_LARGEST_MU, _PRECISION = 40.0, 1e-4
# Another threshold than the middle must certify so much more, in deviations.
_CLEARLY_BETTER = 0.3
# A plan that samples is held against the Gaussian that covers its curve at each of these deltas.
_DELTAS = (1e-9, 1e-7, 1e-5, 1e-4, 1e-3, 1e-2, 0.1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alarms:
    """How often a test raised its alarm: in so many fits without the canaries, and in so many with them."""

    without: int
    fits_without: int
    hits: int
    fits_with: int


def mu_lower_bound(seen: Alarms, *, confidence: float, units: int = 1, threshold_delta: float = 0.0) -> float:
    """The largest mu that the alarms refute, with this confidence; 0 if they refute none.

    Every rate p of alarms without the canaries is tried. Given p and mu, the alarms without the canaries are at most as
    many as seen with a probability that Clopper and Pearson bound, and so are the hits at least as many as seen; the
    two are independent, so their z-scores add up to at most a normal of variance 2. mu is refuted if that sum is too
    large for every p.

    Args:
        units: By how many units the two tables differ.
        threshold_delta: What the plan spends of delta on thresholds; the claim is mu-Gaussian up to that.
    """
    claim: Any = {"confidence": confidence, "units": units, "threshold_delta": threshold_delta}
    if not refuted(seen, 0.0, **claim):
        return 0.0
    low, high = 0.0, _LARGEST_MU / units
    while high - low > _PRECISION * max(high, _PRECISION):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(seen, middle, **claim) else (low, middle)
    return low


def most_hits(alarms: Floats, mu: float, *, units: int = 1, threshold_delta: float = 0.0) -> Floats:
    """The largest rate of hits that the claim allows a test with this rate of alarms."""
    from scipy.special import ndtr, ndtri

    if not threshold_delta:
        return ndtr(ndtri(alarms) + units * mu)
    for _ in range(units):
        alarms = np.minimum(ndtr(ndtri(alarms) + mu) + threshold_delta, 1.0)
    return alarms


def refuted(seen: Alarms, mu: float, *, confidence: float, units: int = 1, threshold_delta: float = 0.0) -> bool:
    """Whether the alarms are too improbable under mu, for every rate that they could have without the canaries."""
    from scipy.special import ndtri

    error = 1.0 - confidence
    left, right = _intervals(*_rates(seen.without, seen.fits_without, _OUTSIDE * error))
    few = _z_of_at_most(seen.without, seen.fits_without, left)
    allowed = most_hits(right, mu, units=units, threshold_delta=threshold_delta)
    many = _z_of_at_least(seen.hits, seen.fits_with, allowed)
    together = math.sqrt(2.0) * -float(ndtri(error * (1.0 - _OUTSIDE - _ALONE)))
    alone = -float(ndtri(error * _ALONE))
    with np.errstate(invalid="ignore"):  # no sum of both infinities is needed: the one alone refutes
        return bool(np.all((many > alone) | (few + many > together)))


def _intervals(low: float, high: float) -> tuple[Floats, Floats]:
    """Both ends of intervals that cover a range of rates, finer towards 0 and 1."""
    from scipy.special import ndtr, ndtri

    inner = ndtr(np.linspace(ndtri(max(low, 1e-12)), ndtri(min(high, 1.0 - 1e-12)), _GRID))[1:-1]
    ends = np.concatenate([[low], inner, [high]])
    return ends[:-1], ends[1:]


def _rates(count: int, fits: int, error: float) -> tuple[float, float]:
    """Clopper and Pearson's interval of rates of which so many were seen; it misses the true one with `error`."""
    from scipy.special import betaincinv

    low = float(betaincinv(count, fits - count + 1, error / 2)) if count else 0.0
    high = float(betaincinv(count + 1, fits - count, 1 - error / 2)) if count < fits else 1.0
    return low, high


def _z_of_at_most(count: int, fits: int, rates: Floats) -> Floats:
    """The z-score of seeing at most so many: high if the rate is too high for that."""
    from scipy.special import ndtri, ndtri_exp
    from scipy.stats import binom

    below, above = binom.logcdf(count, fits, rates), binom.sf(count, fits, rates)
    return np.where(above > 0.5, -ndtri_exp(np.minimum(below, -1e-300)), ndtri(np.minimum(above, 0.5)))


def _z_of_at_least(count: int, fits: int, rates: Floats) -> Floats:
    """The z-score of seeing at least so many: high if the rate is too low for that."""
    return _z_of_at_most(fits - count, fits, 1.0 - rates)


def expected_bound(mu: float, *, fits: int, confidence: float, units: int) -> float:
    """The lower bound to be expected of the best test if `mu` is the truth, with so many fits of each table."""
    from scipy.special import ndtr

    misses = round(float(ndtr(-units * mu / 2)) * fits)
    seen = Alarms(without=misses, fits_without=fits, hits=fits - misses, fits_with=fits)
    return mu_lower_bound(seen, confidence=confidence, units=units)


def claimed_mu(charges: Sequence[Charge]) -> tuple[float, float]:
    """The mu that a plan claims, and the delta that its thresholds take besides.

    What is not sampled is exactly one Gaussian. A plan that samples is not: it is held against the smallest Gaussian
    that is no more private than it at any of some deltas, so that its curve is not refuted where it is looser than at
    the budget's delta.
    """
    composition = Composition.of(charges)
    if not composition.sampled:
        return math.sqrt(composition.mu_squared), composition.threshold_delta
    noise = composition._replace(threshold_delta=0.0)
    found = [gaussian_mu(max(account_composition(noise, delta)[0], 1e-9), delta) for delta in _DELTAS]
    return max(found), composition.threshold_delta


def best_threshold(without: Floats, with_units: Floats, *, error: float) -> tuple[float, float]:
    """A threshold with a large lower bound on the shift between two samples, and about that bound.

    It is the middle of the two means, in deviations, unless another one is clearly better: the best one of a small
    sample is mostly luck. The bound is the normal approximation, which is enough to choose by. What is certified is
    counted on other fits.
    """
    pooled = np.unique(np.concatenate([without, with_units]))
    if len(pooled) == 1:
        return float(pooled[0]), 0.0
    middles = (pooled[1:] + pooled[:-1]) / 2
    spreads = without.std() + 1e-12, with_units.std() + 1e-12
    middle = (without.mean() * spreads[1] + with_units.mean() * spreads[0]) / sum(spreads)
    candidates = np.append(middles[np.unique(np.linspace(0, len(middles) - 1, 200).astype(int))], middle)
    bounds = _shift_bounds(without, with_units, candidates, error)
    best = int(np.argmax(bounds))
    best = best if bounds[best] > bounds[-1] + _CLEARLY_BETTER else len(candidates) - 1
    return float(candidates[best]), float(bounds[best])


def _shift_bounds(without: Floats, with_units: Floats, thresholds: Floats, error: float) -> Floats:
    """About the lower bound on the shift that each threshold certifies."""
    from scipy.special import ndtri

    shift, variance = np.zeros(len(thresholds)), np.zeros(len(thresholds))
    for sample, sign in ((without, -1.0), (with_units, 1.0)):
        above = len(sample) - np.searchsorted(np.sort(sample), thresholds, side="right")
        rates = (above + 0.5) / (len(sample) + 1.0)
        z = ndtri(rates)
        shift += sign * z
        variance += rates * (1 - rates) / len(sample) * 2 * math.pi * np.exp(z**2)
    return shift + float(ndtri(error)) * np.sqrt(variance)
