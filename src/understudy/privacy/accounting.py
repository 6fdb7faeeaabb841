"""What a composition costs: from purchases to (epsilon, delta), and from (epsilon, delta) to noise.

The one rule: every cost is an upper bound, rounded towards privacy, and found in two ways that must agree. What has no
known cost is refused. Nothing here sees a row: plans and purchases are public facts.

A plan gives each item a relative share of the budget. One common scale s prices them all: the k
purchases of an item of share w are together as private as one Gaussian of

    mu = sqrt(w) / s,    each of them as one of    mu / sqrt(k),

and mu says what noise each mechanism needs (`Charge.mu`, `noise_for`). Gaussian noise of multiplier m = scale
of the noise / sensitivity has mu = 1 / m. A private choice with Gumbel noise of multiplier m has privacy losses
within a range of epsilon = 2 / m, and whatever has that is as private as a Gaussian of

    mu = 2 Phi^-1(1 / (1 + exp(-epsilon / 2))):

the two have the same total variation, tanh(epsilon / 4), and at every other epsilon the choice has the smaller delta
(tests/test_accounting.py). So choices and counts add up as squares of mu, without the loss of converting
concentrated costs, a sixth of the budget at (1, 1e-5). A choice alone is dearer so than by its concentrated cost of
epsilon^2 / 8; a plan gains as long as choices get less than about 0.3 of it.

A *pot* ("adaptive") is an item whose purchases are decided one after another, by what the earlier ones
showed: how much each takes, of which mechanism, and when to stop. Squares of mu may be added up to a limit set in
advance even then (the filter of Smith and Thakurta), so a pot is charged in full, whatever was bought from it.

Which accountant:
    No sampling       PLD over one merged Gaussian; the closed form beyond PLD's reach.
    ... and sampled   PLD.
    Whenever PLD gives the total, RDP is asked too, and the two must agree.

Sources:
    Balle and Wang (2018), arXiv:1805.06530: the Gaussian mechanism in closed form.
    Dong, Roth and Su (2019), arXiv:1905.02383: Gaussians compose to one Gaussian.
    Bu et al. (2019), arXiv:1911.11607: the Gaussian limit of the sampled mechanism.
    Doroshenko et al. (2022), arXiv:2207.04380: PLD by connecting the dots.
    Canonne, Kamath and Steinke (2020), arXiv:2004.00010: the discrete Gaussian.
    Dong, Durfee and Rogers (2020), arXiv:1909.13830: the exponential mechanism's losses have a bounded range.
    Smith and Thakurta (2022), arXiv:2210.17520: fully adaptive composition of Gaussian privacy, with a limit.
    Wilkins et al. (2024), "Exact privacy analysis of the Gaussian sparse histogram mechanism".
"""

import contextlib
import dataclasses
import functools
import logging
import math
import numbers
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

MECHANISMS = ("discrete gaussian", "gaussian", "gaussian threshold", "exponential", "sampled gaussian", "adaptive")

# Kept back from epsilon, for the rounding of whichever accountant checks the receipt later.
_RESERVE = 0.001
# Calibration stops this near below the target.
_NEAR_ENOUGH = 0.002
# Above this the noise is already far below a thousandth of a row; epsilon counts as this much.
_HUGE_EPSILON = 1e7
# Discrete noise has at least this many lattice steps to its sigma ...
_STEPS_PER_SIGMA = 32
# ... and is charged as continuous noise a little smaller; `lattice` says why this is enough.
_DISCRETE = 1 - 1e-4
# Beyond this PLD would need too wide a grid.
_LARGEST_PLD_EPSILON = 300.0
# PLD drops tails of about 1e-15, so below this delta it says too little; and its time grows.
_SMALLEST_PLD_DELTA = 1e-12
_MOST_PLD_STEPS = 500_000


class BudgetExceeded(ValueError):
    """The budget cannot pay. Nothing was read."""


def checked_number(place: str, value: Any, rule: str, holds: Callable[[float], bool]) -> float:
    """The value as a float, or a ValueError that names the place, the rule and the fact."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not holds(float(value)):
        shown = f"{value:g}" if isinstance(value, float) else repr(value)
        raise ValueError(f"{place}: expected {rule}, got {shown}.")
    return float(value)


def checked_positive(place: str, value: Any) -> float:
    return checked_number(place, value, "a finite number > 0", lambda x: 0 < x < math.inf)


def checked_whole(place: str, value: Any) -> int:
    return int(checked_number(place, value, "a whole number >= 1", lambda x: x >= 1 and x == int(x)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """What one fit may cost in all: (epsilon, delta) for adding or removing one unit.

    Attributes:
        epsilon: Finite and > 0.
        delta: Between 0 and 1; well below one over the number of units.
    """

    epsilon: float
    delta: float

    def __post_init__(self):
        object.__setattr__(self, "epsilon", checked_positive("epsilon", self.epsilon))
        delta = checked_number("delta", self.delta, "a number between 0 and 1, both excluded", lambda x: 0 < x < 1)
        object.__setattr__(self, "delta", delta)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedMechanism:
    """One charge of a plan: what will be bought, how often, and its share of the budget.

    Attributes:
        name: The key `Ledger.charge` asks for.
        mechanism: One of MECHANISMS.
        share: Relative share of the budget, as a square of mu, for all `times` together.
        times: Number of purchases; for "sampled gaussian" the number of steps; 1 for a pot ("adaptive"), which
            is bought in parts.
        threshold_delta: For "gaussian threshold" only: the largest probability with which one
            purchase shows any category that one unit alone holds.
        sampling_rate: For "sampled gaussian" only: the probability with which each *unit*
            enters a batch, independently (Poisson sampling).
        noise_multiplier: Fixes the noise of each purchase; it is then not scaled, and `share`
            is not used.
    """

    name: str
    mechanism: str
    share: float = 0.0
    times: int = 1
    threshold_delta: float = 0.0
    sampling_rate: float | None = None
    noise_multiplier: float | None = None

    def __post_init__(self):
        place = f"plan item {self.name!r}"
        _check_purchase(place, self)
        if self.noise_multiplier is None:
            checked_positive(f"{place}, share", self.share)
        else:
            checked_positive(f"{place}, noise_multiplier", self.noise_multiplier)

    def noise_at(self, scale: float) -> float:
        """The noise multiplier of one purchase when the common scale is `scale`.

        A sampled Gaussian of rate q, repeated k times, is near a Gaussian of
        mu = q sqrt(k (exp(1 / noise_multiplier^2) - 1)); solved here for noise_multiplier, so that
        a share means about the same for every mechanism.
        """
        if self.noise_multiplier is not None:
            return self.noise_multiplier
        if self.mechanism == "exponential":
            return noise_for(self.mechanism, math.sqrt(self.share / self.times) / scale)
        if self.sampling_rate is None:
            return scale * math.sqrt(self.times / self.share)
        return 1 / math.sqrt(math.log1p(self.share / self.times / (scale * self.sampling_rate) ** 2))

    def charge(self, scale: float, *, what: str = "", sensitivity: float = 1.0, times: int | None = None) -> "Charge":
        """The charge that `times` purchases of this item (None: all of them) leave at this scale."""
        return Charge(
            name=self.name,
            what=what,
            mechanism=self.mechanism,
            noise_multiplier=self.noise_at(scale),
            sensitivity=sensitivity,
            times=self.times if times is None else times,
            sampling_rate=self.sampling_rate,
            threshold_delta=self.threshold_delta,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Charge:
    """One purchase as it stands in the ledger and on the receipt.

    Attributes:
        name: The plan item it was bought under.
        what: What was asked, in words; holds public names only.
        mechanism: One of MECHANISMS.
        noise_multiplier: Scale of the noise / sensitivity.
        sensitivity: The most one unit can change the exact answer, in L2 norm (for
            "exponential": the most it can change any score).
        times: How many equal releases this charge stands for.
        sampling_rate: Probability of a unit entering a batch, where sampled.
        threshold_delta: Delta of the threshold, for each of `times`.
        epsilon: Cost of this charge alone at the whole delta; filled in on the receipt.
    """

    name: str
    what: str
    mechanism: str
    noise_multiplier: float
    sensitivity: float = 1.0
    times: int = 1
    sampling_rate: float | None = None
    threshold_delta: float = 0.0
    epsilon: float | None = None

    def __post_init__(self):
        place = f'"{self.name}"'
        _check_purchase(place, self)
        for field, check in (
            ("noise_multiplier", checked_positive),
            ("sensitivity", checked_positive),
            ("times", checked_whole),
        ):
            object.__setattr__(self, field, check(f"{place}, {field}", getattr(self, field)))

    @property
    def sigma(self) -> float:
        """Scale of the noise in the units of the answer; for "exponential" that of the Gumbel noise."""
        return self.noise_multiplier * self.sensitivity

    @property
    def mu(self) -> float:
        """The Gaussian that each of the releases is as private as, or more; without its sampling."""
        if self.mechanism == "exponential":
            from scipy.special import ndtri_exp

            # Phi^-1(1 / (1 + exp(-x))) = -Phi^-1(1 / (1 + exp(x))) with x = epsilon / 2 = 1 / noise_multiplier
            return -2 * float(ndtri_exp(-math.log1p(math.exp(-1 / self.noise_multiplier)) - 1 / self.noise_multiplier))
        discrete = self.mechanism in ("discrete gaussian", "gaussian threshold")
        return 1 / (self.noise_multiplier * (_DISCRETE if discrete else 1.0))  # see `lattice`

    def event(self) -> Any:
        """The charge as a `dp_accounting` event, without its threshold delta, which no event expresses.

        A private choice is the Gaussian that it is charged as.
        """
        return _gaussian_event(1 / self.mu, self.sampling_rate, self.times)

    def alone(self, delta: float) -> float:
        """Epsilon of this charge by itself, at this delta; for selection its pure epsilon where that is less."""
        epsilon = epsilon_spent([self], delta)
        return min(epsilon, 2 * self.times / self.noise_multiplier) if self.mechanism == "exponential" else epsilon


def _check_purchase(place: str, purchase: PlannedMechanism | Charge) -> None:
    """Refuses a mechanism without a known cost, and parameters that are not the mechanism's."""
    mechanism, rate, threshold = purchase.mechanism, purchase.sampling_rate, purchase.threshold_delta
    if mechanism not in MECHANISMS:
        raise ValueError(f"{place}: unknown mechanism {mechanism!r}; expected one of {', '.join(MECHANISMS)}.")
    checked_whole(f"{place}, times", purchase.times)
    if mechanism == "gaussian threshold":
        checked_number(f"{place}, threshold_delta", threshold, "a number between 0 and 1", lambda x: 0 < x < 1)
    elif threshold:
        raise ValueError(f'{place}: threshold_delta belongs to "gaussian threshold", not to "{mechanism}".')
    if mechanism == "sampled gaussian":
        checked_number(f"{place}, sampling_rate", rate, "a number > 0 and <= 1", lambda x: 0 < x <= 1)
    elif rate is not None:
        raise ValueError(f'{place}: sampling_rate belongs to "sampled gaussian", not to "{mechanism}".')


def noise_for(mechanism: str, mu: float) -> float:
    """The noise multiplier at which one release is as private as a Gaussian of mu; `Charge.mu` the other way round.

    Discrete noise is charged as a little less than it is, so it comes out a little above 1 / mu.
    """
    if mechanism == "exponential":  # epsilon / 2 = log(p / (1 - p)) with p = Phi(mu / 2)
        from scipy.special import log_ndtr

        return 1 / float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    discrete = mechanism in ("discrete gaussian", "gaussian threshold")
    return 1 / (mu * (_DISCRETE if discrete else 1.0))


def lattice(sigma: float) -> int:
    """Lattice steps to one unit of the answer, for discrete Gaussian noise of this sigma.

    A hatch draws whole numbers k from the discrete Gaussian of standard deviation
    sigma * lattice(sigma), which is at least 32 steps, and adds k / lattice(sigma).

    Privacy:
        The discrete Gaussian has the concentrated cost of the continuous one (Canonne et al.,
        theorem 4), but its losses lie on a grid, and delta is a sum over that grid instead of an
        integral. The summand has one kink, at epsilon, where its slope jumps by the density of the
        loss, phi(t) / mu. So on a grid of spacing h the sum exceeds the integral by at most
        h^2 / 24 * phi(t) / mu, reached when epsilon lies midway between two losses. (On a loss it falls
        short by twice that.) With n steps to a sigma, h = mu / n, which makes phi(t) mu / (24 n^2);
        and since d delta / d mu = phi(t), that is the cost of noise smaller by one part in 24 n^2, whatever
        epsilon, delta and the shift. For n >= 32 this is 0.41e-4, and each purchase is charged as
        noise smaller by 1e-4. tests/test_accounting.py holds this against exact sums.
    """
    return max(1, 2 ** math.ceil(math.log2(_STEPS_PER_SIGMA / sigma)))


# --- What purchases cost -------------------------------------------------------------------


class _Composition(NamedTuple):
    """Purchases added up, as far as each kind adds up exactly; hashable, so costs are cached."""

    mu_squared: float  # all that is not sampled is one Gaussian of noise multiplier 1 / mu
    sampled: tuple[tuple[float, float, int], ...]  # (sampling rate, noise multiplier, steps)
    threshold_delta: float


def _compose(charges: Iterable[Charge]) -> _Composition:
    gaussian, thresholds, sampled = [], [], Counter()
    for charge in charges:
        thresholds.append(charge.times * charge.threshold_delta)
        if charge.mechanism == "sampled gaussian":
            sampled[charge.sampling_rate, charge.noise_multiplier] += charge.times
        else:
            gaussian.append(charge.times * charge.mu**2)
    parts = tuple(sorted((rate, noise, steps) for (rate, noise), steps in sampled.items()))
    return _Composition(math.fsum(gaussian), parts, math.fsum(thresholds))


def _smallest(holds: Callable[[float], bool]) -> float:
    """The smallest x > 0 for which `holds` is true, given that it stays true; rounded up."""
    low = high = 1.0
    while not holds(high):
        low, high = high, high * 2
    while low == high or holds(low):
        low, high = low / 2, low
        if low < 1e-300:
            return high
    while high / low > 1 + 1e-13:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta of the Gaussian mechanism with noise multiplier 1 / mu (Balle and Wang, theorem 8).

    Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu). Where the two terms would cancel,
    the integral of phi(epsilon/u - u/2) over u in (0, mu) is bounded by that of
    exp(epsilon/2) phi(epsilon/u), which has a closed form without that trouble.
    """
    from scipy.special import log_ndtr

    t = epsilon / mu
    if epsilon < 1e-4 and mu < 1e-2:
        density = math.exp(-t * t / 2) / math.sqrt(2 * math.pi) if t < 40 else 0.0
        return math.exp(epsilon / 2) * mu * max(0.0, density - t * math.exp(log_ndtr(-t)))
    first = float(log_ndtr(mu / 2 - t))
    second = epsilon + float(log_ndtr(-mu / 2 - t))
    return math.exp(first) * -math.expm1(min(0.0, second - first))


def _gaussian_epsilon(mu: float, delta: float) -> float:
    if mu == 0 or _gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return _smallest(lambda epsilon: _gaussian_delta(mu, epsilon) <= delta)


def _gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which the Gaussian mechanism is (epsilon, delta) private."""
    return 1 / _smallest(lambda noise: _gaussian_delta(1 / noise, epsilon) <= delta)


def _gaussian_event(noise_multiplier: float, sampling_rate: float | None = None, times: int = 1) -> Any:
    import dp_accounting

    event = dp_accounting.GaussianDpEvent(noise_multiplier)
    if sampling_rate is not None:
        event = dp_accounting.PoissonSampledDpEvent(sampling_rate, event)
    return dp_accounting.SelfComposedDpEvent(event, times)


def _gaussian_events(composition: _Composition) -> list[Any]:
    merged = [_gaussian_event(1 / math.sqrt(composition.mu_squared))] if composition.mu_squared else []
    return [*(_gaussian_event(noise, rate, steps) for rate, noise, steps in composition.sampled), *merged]


@contextlib.contextmanager
def _quiet_absl():
    """Keeps the accountant from reporting, on stderr, each Renyi order it leaves out."""
    logger = logging.getLogger("absl")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


@functools.lru_cache(maxsize=1024)
def _rdp_epsilon(composition: _Composition, delta: float) -> float:
    import numpy as np
    from dp_accounting import rdp

    if composition.sampled:  # these orders cost time
        orders = [*rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS, 2048, 4096]
    else:
        orders = (1 + np.geomspace(0.0102, 1e12, 900)).tolist()
    accountant = rdp.RdpAccountant(orders)
    with _quiet_absl():
        for event in _gaussian_events(composition):
            accountant.compose(event)
        return float(accountant.get_epsilon(delta))


@functools.lru_cache(maxsize=1024)
def _pld_epsilon(composition: _Composition, delta: float) -> float:
    """Epsilon by privacy loss distributions, on a grid that fits the width of the loss.

    Connecting the dots adds up to h^2 / 6 to the variance mu^2 of the loss at each composition on a
    grid of spacing h: one part in 1e4 of epsilon for the spacing chosen here, and always upwards. A
    huge epsilon gets a coarser grid, so that memory stays bounded.
    """
    from dp_accounting import pld

    bound = _rdp_epsilon(composition, delta)
    mu = _gaussian_mu(bound, delta)  # as wide as the loss may be
    compositions = 1 + sum(steps for _, _, steps in composition.sampled)
    spacing = mu * min(1.6e-3, max(2e-5, math.sqrt(1.2e-3 / compositions)))
    accountant = pld.PLDAccountant(value_discretization_interval=max(spacing, bound / 2e5))
    for event in _gaussian_events(composition):
        accountant.compose(event)
    return float(accountant.get_epsilon(delta))


def _account(composition: _Composition, delta: float) -> tuple[float, str]:
    """Epsilon of a composition, and the name of the accountant that gave it.

    The threshold deltas are set aside first. Leaving out the category that one unit alone holds
    moves the output by at most threshold_delta in one direction and the loss by
    -log(1 - threshold_delta) in the other; both are paid for by adding the deltas.
    """
    left = delta - composition.threshold_delta
    if left <= 0:
        return math.inf, "thresholds"
    steps = sum(steps for _, _, steps in composition.sampled)
    if steps > _MOST_PLD_STEPS or (steps and left < _SMALLEST_PLD_DELTA):
        return _rdp_epsilon(composition, left), "RDP"
    if composition.sampled:
        by_rdp = _rdp_epsilon(composition, left)
        if by_rdp <= _LARGEST_PLD_EPSILON:
            return _pld_epsilon(composition, left), "PLD"
        # Beyond the reach of PLD. Sampling only helps, so the same noise on everybody is a bound, too.
        mu_squared = composition.mu_squared + sum(steps / noise**2 for _, noise, steps in composition.sampled)
        return min((by_rdp, "RDP"), (_gaussian_epsilon(math.sqrt(mu_squared), left), "closed form, unsampled"))
    exact = _gaussian_epsilon(math.sqrt(composition.mu_squared), left)
    if not 1e-4 <= exact <= 100 or left < _SMALLEST_PLD_DELTA:
        return exact, "closed form"
    return max(exact, _pld_epsilon(composition, left)), "PLD"


def account(charges: Iterable[Charge], delta: float) -> tuple[float, str]:
    """The epsilon of all these purchases together, at this delta, and the name of the accountant that gave it."""
    return _account(_compose(charges), delta)


def epsilon_spent(charges: Iterable[Charge], delta: float) -> float:
    """The epsilon of all these purchases together, at this delta."""
    return account(charges, delta)[0]


def epsilon_by_rdp(charges: Iterable[Charge], delta: float) -> float:
    """The same by Renyi differential privacy: never smaller, and computed another way."""
    composition = _compose(charges)
    left = delta - composition.threshold_delta
    return _rdp_epsilon(composition, left) if left > 0 else math.inf


def _cross_check(composition: _Composition, delta: float) -> None:
    """Raises if PLD and RDP cannot both be right.

    RDP bounds PLD from above, and the Gaussians alone, in closed form, bound it from below. With
    nothing sampled, RDP is also within a factor of two (a fifth, as a rule); for small batches and
    few steps, or a large delta, it is known to be looser than that, so there it is not held to it.
    """
    epsilon, accountant = _account(composition, delta)
    if accountant != "PLD" or epsilon > 100:
        return
    left = delta - composition.threshold_delta
    bound = _rdp_epsilon(composition, left)
    floor = _gaussian_epsilon(math.sqrt(composition.mu_squared), left) * (1 - 1e-6)
    if not composition.sampled and epsilon >= 0.05 and left <= 1e-4:
        floor = max(floor, bound / 2)
    _agree(epsilon, floor, bound * (1 + 1e-6))


def _agree(epsilon: float, low: float, high: float) -> None:
    if not low <= epsilon <= high:
        raise ArithmeticError(
            f"the accountants disagree: epsilon = {epsilon:.6g} by PLD, at least {low:.6g} and at most "
            f"{high:.6g} by other ways. No budget was spent. Please report the plan."
        )


# --- One scale for a plan ------------------------------------------------------------------


def planned_charges(plan: Sequence[PlannedMechanism], scale: float) -> list[Charge]:
    """The charges the whole plan would leave at this scale, for sensitivity 1."""
    return [item.charge(scale) for item in plan]


def calibrate(plan: Sequence[PlannedMechanism], budget: Budget) -> float:
    """The smallest common scale at which the whole plan stays within the budget.

    The plan then costs between 99.5 % and 99.9 % of epsilon: never more, and a thousandth is kept
    back for the rounding of other accountants. (Less only if epsilon is so small, beside delta, that
    it hardly matters.) Of delta, the thresholds take theirs first. Public: no row is needed.

    Raises:
        BudgetExceeded: The parts of the plan with fixed noise, or the thresholds, cost it all.
    """
    if not plan:
        raise ValueError("plan: expected at least one item, got none.")
    fixed = _compose(planned_charges([item for item in plan if item.noise_multiplier is not None], 1.0))
    thresholds = _compose(planned_charges(plan, 1.0)).threshold_delta
    if thresholds >= budget.delta:
        raise BudgetExceeded(
            f"the thresholds of the plan take delta = {thresholds:g} of {budget.delta:g} and leave nothing for "
            "the noise. Give them less, or raise delta."
        )
    target = min(budget.epsilon, _HUGE_EPSILON) * (1 - _RESERVE)
    fixed_epsilon = _account(fixed._replace(threshold_delta=thresholds), budget.delta)[0]
    if fixed_epsilon > target:
        raise BudgetExceeded(
            f"the noise fixed in the plan costs epsilon = {fixed_epsilon:.4g} of {budget.epsilon:g}. "
            "Raise epsilon, raise that noise, or take fewer steps."
        )
    shares = math.fsum(item.share for item in plan if item.noise_multiplier is None)
    scale = 1.0
    if shares:
        guess = math.sqrt(shares) / _gaussian_mu(target, budget.delta - thresholds)
        scale = _search(lambda s: epsilon_spent(planned_charges(plan, s), budget.delta), guess, target)
    _cross_check(_compose(planned_charges(plan, scale)), budget.delta)
    return scale


def _search(cost: Callable[[float], float], guess: float, target: float) -> float:
    """A scale with target * (1 - _NEAR_ENOUGH) <= cost <= target; the cost falls with the scale.

    Secant steps in the logarithms of both, where the cost is nearly straight, kept inside the
    bracket found so far. Only a scale seen to cost no more than the target is returned. A cost may
    never reach the target (a sampling rate below delta is private by itself), so the search ends at a
    thousandth of the guess.
    """
    unsafe, safe, slope = -math.inf, math.inf, -1.0
    x, last = math.log(guess), None
    aim, lowest = target * (1 - _NEAR_ENOUGH / 2), math.log(guess / 1000)
    for _ in range(200):
        epsilon = cost(math.exp(x))
        if epsilon <= target:
            safe = x
            if epsilon >= target * (1 - _NEAR_ENOUGH):
                break
        else:
            unsafe = x
        if safe - unsafe < 1e-7 or safe == lowest:
            break
        if 0 < epsilon < math.inf:
            y = math.log(epsilon / aim)
            if last is not None and x != last[0]:
                slope = min(-0.1, max(-50.0, (y - last[1]) / (x - last[0])))
            last = (x, y)
            move = max(-3.0, min(3.0, -y / slope))
        else:
            move = 1.0 if epsilon else -1.0
        x = max(x + move, lowest)
        if not unsafe < x < safe:
            x = (unsafe + safe) / 2
    if safe == math.inf:
        raise BudgetExceeded(f"no noise was found at which the plan costs epsilon <= {target:g}. Raise epsilon.")
    return math.exp(safe)
