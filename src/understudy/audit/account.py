"""What the recorded charges cost, computed without the ledger.

The one rule: only the charges are read, and no accounting of `privacy` is called. Gaussian releases add up as squares
of mu in closed form; a selection counts as the Gaussian of its bounded range; steps of a training are composed by
dp-accounting's privacy loss distributions.

Sources: Balle and Wang (2018), arXiv:1805.06530; Dong, Durfee and Rogers (2020), arXiv:1909.13830.
"""

# SciPy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import math
from collections.abc import Iterator, Sequence

from understudy.audit.finding import Finding
from understudy.privacy.plan import Charge

SLACK = 0.005
"""The part by which two accountants may differ on sampled steps: both are exact but for the grid of their losses."""
ROUNDING = 1e-6
"""The same for everything else, which has a closed form."""


def epsilon_of(charges: Sequence[Charge], delta: float) -> float:
    """The epsilon of all charges together at delta; infinite if delta is spent by thresholds alone."""
    delta -= sum(charge.times * charge.threshold_delta for charge in charges)
    if delta <= 0:
        return math.inf
    sampled = [charge for charge in charges if charge.sampling_rate is not None]
    mu = math.sqrt(sum(charge.times * _mu(charge) ** 2 for charge in charges if charge.sampling_rate is None))
    return _composed(sampled, mu, delta) if sampled else _gaussian(mu, delta)


def _mu(charge: Charge) -> float:
    """The mu of the Gaussian that a release is as private as."""
    from scipy.special import ndtri

    if charge.mechanism != "exponential":
        return 1 / charge.noise_multiplier
    return 2 * float(ndtri(1 / (1 + math.exp(-1 / charge.noise_multiplier))))


def _gaussian(mu: float, delta: float) -> float:
    """The epsilon of a Gaussian at delta, by bisection of its closed form."""
    from scipy.special import log_ndtr, ndtr

    def delta_at(epsilon: float) -> float:
        first = float(ndtr(mu / 2 - epsilon / mu))
        return first - math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu)))

    if mu == 0 or delta_at(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_at(high) > delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return high


def _composed(sampled: Sequence[Charge], mu: float, delta: float) -> float:
    """The epsilon of sampled steps and of one Gaussian of mu together."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-3)
    for charge in sampled:
        assert charge.sampling_rate is not None
        step = PoissonSampledDpEvent(charge.sampling_rate, GaussianDpEvent(charge.noise_multiplier))
        accountant.compose(step, charge.times)
    if mu > 0:
        accountant.compose(GaussianDpEvent(1 / mu))
    return float(accountant.get_epsilon(delta))


def judge(charges: Sequence[Charge], spent: float, claimed: float) -> Iterator[Finding]:
    """Whether the charges, which cost `spent`, cost more than was claimed."""
    slack = SLACK if any(charge.sampling_rate is not None for charge in charges) else ROUNDING
    if spent > claimed * (1 + slack):
        what = f"the recorded charges cost epsilon = {spent:.4g}; claimed: {claimed:.4g}."
        yield Finding("account", "the ledger", what)
