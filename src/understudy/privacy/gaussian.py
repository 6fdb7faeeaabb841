"""The Gaussian mechanism in closed form: delta as a function of (mu, epsilon), and its two inverses.

The one rule: this is the only closed form in the library. Whatever needs delta, epsilon or mu of a Gaussian calls it,
and both inverses are rounded towards privacy: epsilon up, mu down.

mu is the sensitivity in deviations of the noise, 1 / noise multiplier. SciPy has no type stubs, so its functions are
called here alone and come out as floats.

Sources:
    Balle and Wang (2018), arXiv:1805.06530: the Gaussian mechanism in closed form.
    Dong, Durfee and Rogers (2020), arXiv:1909.13830: mechanisms whose losses have a bounded range.
"""

# pyright: reportMissingTypeStubs=false

import math
from collections.abc import Callable

# Inverses are searched to this relative precision.
_PRECISION = 1e-13


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta of the Gaussian mechanism with noise multiplier 1 / mu (Balle and Wang, theorem 8).

    Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu). If both are so small that the two terms would
    cancel, the integral of phi(epsilon/u - u/2) over u in (0, mu) is bounded by that of exp(epsilon/2) phi(epsilon/u),
    which has a closed form without cancellation.
    """
    t = epsilon / mu
    if epsilon < 1e-4 and mu < 1e-2:
        density = math.exp(-t * t / 2) / math.sqrt(2 * math.pi) if t < 40 else 0.0
        return math.exp(epsilon / 2) * mu * max(0.0, density - t * math.exp(_log_cdf(-t)))
    first = _log_cdf(mu / 2 - t)
    second = epsilon + _log_cdf(-mu / 2 - t)
    return math.exp(first) * -math.expm1(min(0.0, second - first))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon at which a Gaussian of this mu is (epsilon, delta) private, rounded up."""
    if mu == 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return _smallest(lambda epsilon: gaussian_delta(mu, epsilon) <= delta)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu at which a Gaussian is (epsilon, delta) private, rounded down by at most one part in 1e13."""
    return 1 / _smallest(lambda noise_multiplier: gaussian_delta(1 / noise_multiplier, epsilon) <= delta)


def mu_of_range(half_range: float) -> float:
    """The mu of the Gaussian as private as a mechanism with losses in a range of epsilon = 2 `half_range`, at least.

    mu = 2 Phi^-1(1 / (1 + exp(-epsilon / 2))): both have total variation tanh(epsilon / 4), and at every other epsilon
    the mechanism of bounded range has the smaller delta.
    """
    from scipy.special import ndtri_exp

    # Phi^-1(1 / (1 + exp(-x))) = -Phi^-1(1 / (1 + exp(x)))
    return -2 * float(ndtri_exp(-math.log1p(math.exp(-half_range)) - half_range))


def range_of_mu(mu: float) -> float:
    """Half the range of losses at which a mechanism is as private as a Gaussian of mu: the inverse of `mu_of_range`."""
    return _log_cdf(mu / 2) - _log_cdf(-mu / 2)  # log(p / (1 - p)) with p = Phi(mu / 2)


def _log_cdf(x: float) -> float:
    """The logarithm of the standard normal distribution function."""
    from scipy.special import log_ndtr

    return float(log_ndtr(x))


def _smallest(holds: Callable[[float], bool]) -> float:
    """The smallest x > 0 for which `holds` is true, given that it stays true for every larger x; rounded up."""
    low = high = 1.0
    while not holds(high):
        low, high = high, high * 2
    while low == high or holds(low):
        low, high = low / 2, low
        if low < 1e-300:
            return high
    while high / low > 1 + _PRECISION:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
