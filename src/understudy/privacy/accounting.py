"""What a composition costs: from charges to (epsilon, delta).

The one rule: every cost is an upper bound, rounded towards privacy, and found in two ways that must agree. Nothing here
sees a row: charges are public facts.

Which accountant:
    Nothing sampled     PLD over one merged Gaussian; the closed form beyond PLD's reach.
    Something sampled   PLD; RDP beyond its reach.
    Whenever PLD gives the total, RDP is asked too, and the two must agree (`cross_check`).

Sources:
    Dong, Roth and Su (2019), arXiv:1905.02383: Gaussians compose to one Gaussian.
    Doroshenko et al. (2022), arXiv:2207.04380: PLD by connecting the dots.
    Wilkins et al. (2024), "Exact privacy analysis of the Gaussian sparse histogram mechanism".
"""

# pyright: reportMissingTypeStubs=false

import contextlib
import functools
import logging
import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from understudy.privacy import accountants
from understudy.privacy.gaussian import gaussian_epsilon, gaussian_mu
from understudy.privacy.plan import Charge

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# Above this epsilon PLD would need too wide a grid, so other accountants are used.
_LARGEST_PLD_EPSILON = 300.0
# PLD drops tails of about 1e-15, so below this delta its answer is too coarse to be used.
_SMALLEST_PLD_DELTA = 1e-12
# With more sampled steps than this, PLD takes too long and RDP is used.
_MOST_PLD_STEPS = 500_000
# This part of delta is set aside when batches are sampled: for batches that overflow their places (1e-20 a step) and
# for the tables that noise and batches are drawn from (2^-100 in all). Either counts 1 + exp(epsilon) times.
_SET_ASIDE = 1e-3
# The accountants are cross-checked up to this epsilon: far above, each is allowed to be loose.
_LARGEST_CHECKED_EPSILON = 100.0


class Composition(NamedTuple):
    """Charges added up, as far as each kind adds up exactly; hashable, so costs are remembered."""

    mu_squared: float  # all that is not sampled is one Gaussian of noise multiplier 1 / mu
    sampled: tuple[tuple[float, float, int], ...]  # (sampling rate, noise multiplier, steps)
    threshold_delta: float

    @classmethod
    def of(cls, charges: Iterable[Charge]) -> "Composition":
        """Equal charges count together, so that a plan and the releases it was charged for are one composition."""
        gaussian: Counter[float] = Counter()
        thresholds: Counter[float] = Counter()
        sampled: Counter[tuple[float, float]] = Counter()
        for charge in charges:
            thresholds[charge.threshold_delta] += charge.times
            if charge.sampling_rate is None:
                gaussian[charge.mu] += charge.times
            else:
                sampled[charge.sampling_rate, charge.noise_multiplier] += charge.times
        steps = tuple(sorted((rate, noise, steps) for (rate, noise), steps in sampled.items()))
        mu_squared = math.fsum(times * mu**2 for mu, times in gaussian.items())
        return cls(mu_squared, steps, math.fsum(times * delta for delta, times in thresholds.items()))

    @property
    def steps(self) -> int:
        """The number of sampled steps."""
        return sum(steps for _, _, steps in self.sampled)


class Asked(NamedTuple):
    """What an accountant was asked: the epsilon of a composition at a delta."""

    accountant: str  # "PLD" or "RDP"
    composition: Composition
    delta: float


Costs = dict[Asked, float]
"""Epsilon for everything that was asked."""

# Costs of this process: an accountant takes a tenth of a second for one.
_costs: Costs = {}
# What was asked inside each block of `remembered` that is open.
_open: ContextVar[tuple[Costs, ...]] = ContextVar("open", default=())


@contextlib.contextmanager
def remembered(known: Costs) -> Generator[Costs, None, None]:
    """Takes these costs as computed; gives everything that is asked for inside the block, with its cost."""
    _costs.update(known)
    asked: Costs = {}
    before = _open.set((*_open.get(), asked))
    try:
        yield asked
    finally:
        _open.reset(before)


def _remember(accountant: str, compute: Callable[[Composition, float], float]) -> Callable[[Composition, float], float]:
    """The same function, which computes each cost once."""

    @functools.wraps(compute)
    def cost(composition: Composition, delta: float) -> float:
        asked = Asked(accountant, composition, delta)
        if asked not in _costs:
            _costs[asked] = compute(composition, delta)
        for each in _open.get():
            each[asked] = _costs[asked]
        return _costs[asked]

    return cost


def account(charges: Iterable[Charge], delta: float) -> tuple[float, str]:
    """The epsilon of all these charges together, at this delta, and the name of the accountant that gave it."""
    return account_composition(Composition.of(charges), delta)


def epsilon_spent(charges: Iterable[Charge], delta: float) -> float:
    """The epsilon of all these charges together, at this delta."""
    return account(charges, delta)[0]


def epsilon_alone(charge: Charge, delta: float) -> float:
    """The epsilon of one charge by itself, at this delta; for a selection its pure epsilon if that is less.

    In closed form unless batches are sampled: no accountant is loaded for a receipt of Gaussians.
    """
    composition = Composition.of([charge])
    left = _left(composition, delta)
    if composition.sampled or left <= 0:
        return account_composition(composition, delta)[0]
    epsilon = _gaussian_epsilon(math.sqrt(composition.mu_squared), left)
    return min(epsilon, 2 * charge.times / charge.noise_multiplier) if charge.mechanism == "exponential" else epsilon


_gaussian_epsilon = functools.lru_cache(maxsize=1024)(gaussian_epsilon)


def epsilon_by_rdp(charges: Iterable[Charge], delta: float) -> float:
    """The same total by Renyi differential privacy: never smaller, and computed another way."""
    composition = Composition.of(charges)
    left = _left(composition, delta)
    return _rdp_epsilon(composition, left) if left > 0 else math.inf


def event_of(charge: Charge) -> "DpEvent":
    """A charge as a `dp_accounting` event, without its threshold delta, which no event expresses.

    A selection is the Gaussian that it is charged as.
    """
    return _gaussian_event(1 / charge.mu, charge.sampling_rate, charge.times)


def _left(composition: Composition, delta: float) -> float:
    """What is left of delta once the thresholds and what is set aside are subtracted."""
    left = delta - composition.threshold_delta
    return left * (1 - _SET_ASIDE) if composition.sampled else left


def account_composition(composition: Composition, delta: float) -> tuple[float, str]:
    """Epsilon of a composition, and the name of the accountant that gave it.

    The threshold deltas are set aside first. Leaving out the category that one unit alone holds
    moves the output by at most threshold_delta in one direction and the loss by
    -log(1 - threshold_delta) in the other; adding the deltas covers both.
    """
    left = _left(composition, delta)
    if left <= 0:
        return math.inf, "thresholds"
    if composition.steps > _MOST_PLD_STEPS or (composition.steps and left < _SMALLEST_PLD_DELTA):
        return _rdp_epsilon(composition, left), "RDP"
    if composition.sampled:
        by_rdp = _rdp_epsilon(composition, left)
        if by_rdp <= _LARGEST_PLD_EPSILON:
            return _pld_epsilon(composition, left), "PLD"
        # Beyond the reach of PLD. Sampling only helps, so the same noise on everybody is a bound, too.
        mu_squared = composition.mu_squared + sum(steps / noise**2 for _, noise, steps in composition.sampled)
        return min((by_rdp, "RDP"), (gaussian_epsilon(math.sqrt(mu_squared), left), "closed form, unsampled"))
    exact = gaussian_epsilon(math.sqrt(composition.mu_squared), left)
    if not 1e-4 <= exact <= 100 or left < _SMALLEST_PLD_DELTA:
        return exact, "closed form"
    return max(exact, _pld_epsilon(composition, left)), "PLD"


def cross_check(composition: Composition, delta: float) -> None:
    """Raises if PLD and RDP cannot both be right.

    RDP bounds PLD from above, and the Gaussians alone, in closed form, bound it from below. With
    nothing sampled, RDP is also within a factor of two (a fifth, as a rule). For small batches and
    few steps, or a large delta, it is known to be looser than that, and the lower bound is not applied.

    Raises:
        ArithmeticError: The accountants disagree.
    """
    epsilon, accountant = account_composition(composition, delta)
    if accountant != "PLD" or epsilon > _LARGEST_CHECKED_EPSILON:
        return
    left = _left(composition, delta)
    bound = _rdp_epsilon(composition, left)
    floor = gaussian_epsilon(math.sqrt(composition.mu_squared), left) * (1 - 1e-6)
    if not composition.sampled and epsilon >= 0.05 and left <= 1e-4:
        floor = max(floor, bound / 2)
    _require_agreement(epsilon, floor, bound * (1 + 1e-6))


def _require_agreement(epsilon: float, low: float, high: float) -> None:
    if not low <= epsilon <= high:
        raise ArithmeticError(
            f"the accountants disagree: epsilon = {epsilon:.6g} by PLD, at least {low:.6g} and at most "
            f"{high:.6g} by other ways. No budget was spent. Please report the plan."
        )


def _gaussian_event(noise_multiplier: float, sampling_rate: float | None = None, times: int = 1) -> "DpEvent":
    dp_accounting = accountants.load()
    gaussian = dp_accounting.GaussianDpEvent(noise_multiplier)
    if sampling_rate is None:
        return dp_accounting.SelfComposedDpEvent(gaussian, times)
    return dp_accounting.SelfComposedDpEvent(dp_accounting.PoissonSampledDpEvent(sampling_rate, gaussian), times)


def _gaussian_events(composition: Composition) -> "list[DpEvent]":
    merged = [_gaussian_event(1 / math.sqrt(composition.mu_squared))] if composition.mu_squared else []
    return [*(_gaussian_event(noise, rate, steps) for rate, noise, steps in composition.sampled), *merged]


@contextlib.contextmanager
def _quiet_absl() -> Generator[None, None, None]:
    """Keeps the accountant from reporting, on stderr, each Renyi order it leaves out."""
    logger = logging.getLogger("absl")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


@functools.partial(_remember, "RDP")
def _rdp_epsilon(composition: Composition, delta: float) -> float:
    import numpy as np

    rdp = accountants.load().rdp
    if composition.sampled:  # each order takes time when there is sampling
        orders = [*rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS, 2048, 4096]
    else:
        orders = (1 + np.geomspace(0.0102, 1e12, 900)).tolist()
    accountant = rdp.RdpAccountant(orders)
    with _quiet_absl():
        for one in _gaussian_events(composition):
            accountant.compose(one)
        return float(accountant.get_epsilon(delta))


@functools.partial(_remember, "PLD")
def _pld_epsilon(composition: Composition, delta: float) -> float:
    """Epsilon by privacy loss distributions, on a grid that fits the width of the loss.

    Connecting the dots adds up to h^2 / 6 to the variance mu^2 of the loss at each composition on a
    grid of spacing h: one part in 1e4 of epsilon for the spacing chosen here, and always upwards. A
    huge epsilon gets a coarser grid, so that memory stays bounded.
    """
    pld = accountants.load().pld
    bound = _rdp_epsilon(composition, delta)
    mu = gaussian_mu(bound, delta)  # as wide as the loss may be
    spacing = mu * min(1.6e-3, max(2e-5, math.sqrt(1.2e-3 / (1 + composition.steps))))
    accountant = pld.PLDAccountant(value_discretization_interval=max(spacing, bound / 2e5))
    for one in _gaussian_events(composition):
        accountant.compose(one)
    return float(accountant.get_epsilon(delta))
