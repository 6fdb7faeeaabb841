"""The till: one budget for a whole fit, every purchase made from it, and the receipt.

The one rule: noise and accounting cannot disagree. A hatch does not choose its noise. It asks
the ledger, which first enters the purchase and then answers with the scale of the noise, and
that scale was fixed before any row was read so that the whole plan meets (epsilon, delta).

A plan gives each item a relative share of the budget. One common scale s prices them all: an
item of share w, bought k times, gets

    noise_multiplier = s * sqrt(k / w),    that is  rho = w / (2 s^2)  for the k together,

where noise_multiplier = scale of the noise / sensitivity. The same line holds for Gaussian
noise (rho = 1 / (2 noise_multiplier^2)) and for the exponential mechanism, taken as Gumbel
noise added to the scores (its epsilon is 2 / noise_multiplier, and rho = epsilon^2 / 8).

Which accountant:
    Gaussians alone   PLD over one merged Gaussian; the closed form beyond PLD's reach.
    ... and sampled   PLD.
    ... and selection RDP, the only one that takes a concentrated cost.
    Whenever PLD gives the total, RDP is asked too, and the two must agree.

Sources:
    Balle and Wang (2018), arXiv:1805.06530: the Gaussian mechanism in closed form.
    Dong, Roth and Su (2019), arXiv:1905.02383: Gaussians compose to one Gaussian.
    Bu et al. (2019), arXiv:1911.11607: the Gaussian limit of the sampled mechanism.
    Doroshenko et al. (2022), arXiv:2207.04380: PLD by connecting the dots.
    Canonne, Kamath and Steinke (2020), arXiv:2004.00010: the discrete Gaussian.
    Cesar and Rogers (2021), arXiv:2004.07223: the exponential mechanism costs epsilon^2 / 8.
    Wilkins et al. (2024), "Exact privacy analysis of the Gaussian sparse histogram mechanism".
"""

import contextlib
import dataclasses
import functools
import json
import math
import numbers
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

MECHANISMS = ("discrete gaussian", "gaussian", "gaussian threshold", "exponential", "sampled gaussian")
ADJACENCY = "add or remove one unit"

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
# PLD drops tails of about 1e-15, so below this delta it says too little; and its time grows.
_SMALLEST_PLD_DELTA = 1e-12
_MOST_PLD_STEPS = 500_000


class BudgetExceeded(ValueError):
    """The budget cannot pay. Nothing was read."""


def _number(place: str, value: Any, rule: str, holds: Callable[[float], bool]) -> float:
    """The value as a float, or a ValueError that names the place, the rule and the fact."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not holds(float(value)):
        shown = f"{value:g}" if isinstance(value, float) else repr(value)
        raise ValueError(f"{place}: expected {rule}, got {shown}.")
    return float(value)


def _positive(place: str, value: Any) -> float:
    return _number(place, value, "a finite number > 0", lambda x: 0 < x < math.inf)


def _whole(place: str, value: Any) -> int:
    return int(_number(place, value, "a whole number >= 1", lambda x: x >= 1 and x == int(x)))


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
        object.__setattr__(self, "epsilon", _positive("epsilon", self.epsilon))
        delta = _number("delta", self.delta, "a number between 0 and 1, both excluded", lambda x: 0 < x < 1)
        object.__setattr__(self, "delta", delta)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Item:
    """One line of a plan: what will be bought, how often, and its share of the budget.

    Attributes:
        name: The key `Ledger.pay` asks for.
        mechanism: One of MECHANISMS.
        share: Relative share of the concentrated budget (rho) for all `times` together.
        times: Number of purchases; for "sampled gaussian" the number of steps.
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
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"{place}: unknown mechanism {self.mechanism!r}; expected one of {', '.join(MECHANISMS)}.")
        _whole(f"{place}, times", self.times)
        if self.noise_multiplier is None:
            _positive(f"{place}, share", self.share)
        else:
            _positive(f"{place}, noise_multiplier", self.noise_multiplier)
        if self.mechanism == "gaussian threshold":
            _number(f"{place}, threshold_delta", self.threshold_delta, "a number between 0 and 1", lambda x: 0 < x < 1)
        elif self.threshold_delta:
            raise ValueError(f'{place}: threshold_delta belongs to "gaussian threshold", not to "{self.mechanism}".')
        if self.mechanism == "sampled gaussian":
            _number(f"{place}, sampling_rate", self.sampling_rate, "a number > 0 and <= 1", lambda x: 0 < x <= 1)
        elif self.sampling_rate is not None:
            raise ValueError(f'{place}: sampling_rate belongs to "sampled gaussian", not to "{self.mechanism}".')

    def noise_at(self, scale: float) -> float:
        """The noise multiplier of one purchase when the common scale is `scale`.

        A sampled Gaussian of rate q, repeated k times, is near a Gaussian of
        mu = q sqrt(k (exp(1 / noise_multiplier^2) - 1)); solved here for noise_multiplier, so that
        a share means about the same for every mechanism.
        """
        if self.noise_multiplier is not None:
            return self.noise_multiplier
        if self.sampling_rate is None:
            return scale * math.sqrt(self.times / self.share)
        return 1 / math.sqrt(math.log1p(self.share / self.times / (scale * self.sampling_rate) ** 2))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """One purchase as it stands in the ledger and on the receipt.

    Attributes:
        name: The plan item it was bought under.
        what: What was asked, in words; holds public names only.
        mechanism: One of MECHANISMS.
        noise_multiplier: Scale of the noise / sensitivity.
        sensitivity: The most one unit can change the exact answer, in L2 norm (for
            "exponential": the most it can change any score).
        times: How many equal releases this line stands for.
        sampling_rate: Probability of a unit entering a batch, where sampled.
        threshold_delta: Delta of the threshold, for each of `times`.
        epsilon: Cost of this line alone at the whole delta; filled in on the receipt.
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
        if self.mechanism not in MECHANISMS:
            raise ValueError(f"unknown mechanism {self.mechanism!r}; its cost cannot be accounted for.")
        _positive("noise_multiplier", self.noise_multiplier)
        _positive("sensitivity", self.sensitivity)
        _whole("times", self.times)
        _number("threshold_delta", self.threshold_delta, "a number >= 0 and < 1", lambda x: 0 <= x < 1)
        if self.mechanism == "sampled gaussian":
            _number("sampling_rate", self.sampling_rate, "a number > 0 and <= 1", lambda x: 0 < x <= 1)
        elif self.sampling_rate is not None:
            raise ValueError(f'sampling_rate belongs to "sampled gaussian", not to "{self.mechanism}".')

    @property
    def sigma(self) -> float:
        """Scale of the noise in the units of the answer; for "exponential" that of the Gumbel noise."""
        return self.noise_multiplier * self.sensitivity

    @property
    def charged_multiplier(self) -> float:
        """The multiplier of the continuous noise this line is charged as; see `lattice`."""
        discrete = self.mechanism in ("discrete gaussian", "gaussian threshold")
        return self.noise_multiplier * (_DISCRETE if discrete else 1.0)


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
        noise smaller by 1e-4. tests/test_budget.py holds this against exact sums.
    """
    return max(1, 2 ** math.ceil(math.log2(_STEPS_PER_SIGMA / sigma)))


# --- What purchases cost -------------------------------------------------------------------


class _Composition(NamedTuple):
    """Purchases added up, as far as each kind adds up exactly; hashable, so costs are cached."""

    mu_squared: float  # all Gaussians are one Gaussian of noise multiplier 1 / mu
    rho: float  # concentrated cost of all private selections
    sampled: tuple[tuple[float, float, int], ...]  # (sampling rate, noise multiplier, steps)
    threshold_delta: float


def _compose(lines: Iterable[Line]) -> _Composition:
    gaussian, selection, thresholds, sampled = [], [], [], Counter()
    for line in lines:
        thresholds.append(line.times * line.threshold_delta)
        if line.mechanism == "exponential":
            selection.append(line.times / line.noise_multiplier**2 / 2)
        elif line.mechanism == "sampled gaussian":
            sampled[line.sampling_rate, line.noise_multiplier] += line.times
        else:
            gaussian.append(line.times / line.charged_multiplier**2)
    parts = tuple(sorted((rate, noise, steps) for (rate, noise), steps in sampled.items()))
    return _Composition(math.fsum(gaussian), math.fsum(selection), parts, math.fsum(thresholds))


def _smallest(holds: Callable[[float], bool]) -> float:
    """The smallest x > 0 for which `holds` is true, given that it stays true; rounded up."""
    low = high = 1.0
    while not holds(high):
        low, high = high, high * 2
    while low == high or holds(low):
        low, high = low / 2, low
        if low < 1e-300:
            return low
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


@contextlib.contextmanager
def _quiet_absl():
    """Keeps the accountant from reporting, on stderr, each Renyi order it leaves out."""
    import logging

    logger = logging.getLogger("absl")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


@functools.lru_cache(maxsize=1024)
def _rdp_epsilon(composition: _Composition, delta: float) -> float:
    import dp_accounting
    import numpy as np
    from dp_accounting import rdp

    if composition.sampled:  # these orders cost time
        orders = [*rdp.rdp_privacy_accountant.DEFAULT_RDP_ORDERS, 2048, 4096]
    else:
        orders = (1 + np.geomspace(0.0102, 1e12, 900)).tolist()
    accountant = rdp.RdpAccountant(orders)
    if composition.mu_squared:
        accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(composition.mu_squared)))
    accountant.compose(dp_accounting.ZCDpEvent(composition.rho))
    with _quiet_absl():
        for rate, noise, steps in composition.sampled:
            accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise)), steps)
        return float(accountant.get_epsilon(delta))


@functools.lru_cache(maxsize=1024)
def _pld_epsilon(composition: _Composition, delta: float) -> float:
    """Epsilon by privacy loss distributions, on a grid that fits the width of the loss.

    Connecting the dots adds up to h^2 / 6 to the variance mu^2 of the loss at each composition on a
    grid of spacing h: one part in 1e4 of epsilon for the spacing chosen here, and always upwards. A
    huge epsilon gets a coarser grid, so that memory stays bounded.
    """
    import dp_accounting
    from dp_accounting import pld

    bound = _rdp_epsilon(composition, delta)
    mu = _gaussian_mu(bound, delta)  # as wide as the loss may be
    compositions = 1 + sum(steps for _, _, steps in composition.sampled)
    spacing = mu * min(1.6e-3, max(2e-5, math.sqrt(1.2e-3 / compositions)))
    spacing = max(spacing, bound / 2e5)
    accountant = pld.PLDAccountant(value_discretization_interval=spacing)
    for rate, noise, steps in composition.sampled:
        accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise)), steps)
    if composition.mu_squared:
        accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(composition.mu_squared)))
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
    if composition.rho or steps > _MOST_PLD_STEPS or (steps and left < _SMALLEST_PLD_DELTA):
        return _rdp_epsilon(composition, left), "RDP"
    if composition.sampled:
        # Both are upper bounds; with a huge epsilon the coarser grid may make PLD the larger.
        by_rdp, by_pld = _rdp_epsilon(composition, left), _pld_epsilon(composition, left)
        return (by_rdp, "RDP") if by_pld > by_rdp > 100 else (by_pld, "PLD")
    exact = _gaussian_epsilon(math.sqrt(composition.mu_squared), left)
    if not 1e-4 <= exact <= 100 or left < _SMALLEST_PLD_DELTA:
        return exact, "closed form"
    return max(exact, _pld_epsilon(composition, left)), "PLD"


def epsilon_spent(lines: Iterable[Line], delta: float) -> float:
    """The epsilon of all these purchases together, at this delta."""
    return _account(_compose(lines), delta)[0]


def epsilon_by_rdp(lines: Iterable[Line], delta: float) -> float:
    """The same by Renyi differential privacy: never smaller, and computed another way."""
    composition = _compose(lines)
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


def planned_lines(plan: Sequence[Item], scale: float) -> list[Line]:
    """The lines the whole plan would leave at this scale, for sensitivity 1."""
    return [
        Line(
            name=item.name,
            what="",
            mechanism=item.mechanism,
            noise_multiplier=item.noise_at(scale),
            times=item.times,
            sampling_rate=item.sampling_rate,
            threshold_delta=item.threshold_delta,
        )
        for item in plan
    ]


def calibrate(plan: Sequence[Item], budget: Budget) -> float:
    """The smallest common scale at which the whole plan stays within the budget.

    The plan then costs between 99.5 % and 99.9 % of epsilon: never more, and a thousandth is kept
    back for the rounding of other accountants. (Less only if epsilon is so small, beside delta, that
    it hardly matters.) Of delta, the thresholds take theirs first. Public: no row is needed.

    Raises:
        BudgetExceeded: The parts of the plan with fixed noise, or the thresholds, cost it all.
    """
    if not plan:
        raise ValueError("plan: expected at least one item, got none.")
    fixed = _compose(planned_lines([item for item in plan if item.noise_multiplier is not None], 1.0))
    thresholds = _compose(planned_lines(plan, 1.0)).threshold_delta
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
        scale = _search(lambda s: _account(_compose(planned_lines(plan, s)), budget.delta)[0], guess, target)
    _cross_check(_compose(planned_lines(plan, scale)), budget.delta)
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


# --- The ledger of one fit -----------------------------------------------------------------


class Ledger:
    """What one fit has bought. Noise comes from here, and only after the purchase is entered.

    Args:
        budget: What the fit may cost in all.
        plan: Everything it may buy; calibrated at once, so a plan that cannot be paid fails here.
        unit: "row", or the name of the column that says which rows are one unit.
        max_rows_per_unit: The bound the hatches enforce; they include it in their sensitivity.
        seed: The seed noise is drawn from in tests, recorded on the receipt. None: real entropy.
    """

    def __init__(
        self,
        budget: Budget,
        plan: Sequence[Item],
        *,
        unit: str = "row",
        max_rows_per_unit: int = 1,
        seed: int | None = None,
    ):
        repeated = [name for name, count in Counter(item.name for item in plan).items() if count > 1]
        if repeated:
            raise ValueError(f"plan: expected each name once, got {_quoted(repeated)} more than once.")
        self.budget = budget
        self.plan = tuple(plan)
        self.unit = unit
        self.max_rows_per_unit = _whole("max_rows_per_unit", max_rows_per_unit)
        self.seed = seed
        self.scale = calibrate(self.plan, budget)
        self._items = {item.name: item for item in self.plan}
        self._left = {item.name: item.times for item in self.plan}
        self._lines: list[Line] = []
        self._warnings: list[str] = []
        self.on_purchase: Callable[[Line], None] | None = None  # for a progress bar; sees public facts alone

    def item(self, name: str) -> Item:
        """The plan's item of this name, or BudgetExceeded: what is not planned cannot be paid."""
        if name not in self._items:
            raise BudgetExceeded(
                f'"{name}" is not in the plan, which holds {_quoted(self._items)}; nothing was read. Plan for it first.'
            )
        return self._items[name]

    def noise(self, name: str) -> float:
        """The noise multiplier of each purchase of this item. Shown, not paid."""
        return self.item(name).noise_at(self.scale)

    def left(self, name: str) -> int:
        """How many purchases of this item are still to be had."""
        return self._left[self.item(name).name]

    def pay(self, name: str, *, what: str, sensitivity: float, times: int = 1) -> float:
        """Enters a purchase, and returns the scale of the noise that the hatch must then add.

        For the Gaussian mechanisms that is sigma, in the units of the answer; the discrete ones draw
        it on the grid that `lattice` gives. For "exponential" it is the scale of the Gumbel noise to be
        added to every score before the largest is taken, which draws each candidate with
        probability proportional to exp(score / scale).

        Args:
            name: The item of the plan.
            what: What is asked, in words, for the receipt. Public names only.
            sensitivity: The most one unit, with all its rows, changes the exact answer, in L2 norm;
                for "exponential" the most it changes any one score.
            times: Releases bought at once, each with noise of its own: the steps of a training run.

        Raises:
            BudgetExceeded: Not planned, or all spent. Nothing was entered, and nothing may be read.
        """
        item = self.item(name)
        sensitivity = _positive(f'"{name}", sensitivity', sensitivity)
        times = _whole(f'"{name}", times', times)
        left = self._left[name]
        if times > left:
            spent = "all are spent" if left == 0 else f"{left} are left where {times} were asked for"
            raise BudgetExceeded(
                f'"{name}" was planned for {_count(item.times, "purchase")} and {spent}; nothing was read. '
                "Plan more of them, or raise epsilon."
            )
        line = Line(
            name=name,
            what=what,
            mechanism=item.mechanism,
            noise_multiplier=self.noise(name),
            sensitivity=sensitivity,
            times=times,
            sampling_rate=item.sampling_rate,
            threshold_delta=item.threshold_delta,
        )
        self._left[name] = left - times
        self._lines.append(line)
        if self.on_purchase is not None:
            self.on_purchase(line)
        return line.sigma

    def warn(self, text: str) -> None:
        """Puts a warning on the receipt, once."""
        if text not in self._warnings:
            self._warnings.append(text)

    def receipt(self, *, version: str = "") -> "Receipt":
        """The receipt for what was paid up to now."""
        from importlib.metadata import version as version_of

        composition = _compose(self._lines)
        epsilon, accountant = _account(composition, self.budget.delta)
        return Receipt(
            lines=tuple(dataclasses.replace(line, epsilon=_alone(line, self.budget.delta)) for line in self._lines),
            epsilon=epsilon,
            delta=self.budget.delta,
            budget=self.budget,
            rdp_epsilon=epsilon_by_rdp(self._lines, self.budget.delta),
            accountant=f"{accountant}, dp-accounting {version_of('dp-accounting')}",
            not_bought=sum(self._left.values()),
            unit=self.unit,
            max_rows_per_unit=self.max_rows_per_unit,
            seed=self.seed,
            warnings=tuple(self._warnings),
            version=version,
        )


def _alone(line: Line, delta: float) -> float:
    """What a line costs by itself; for selection, its pure epsilon where that is less."""
    epsilon = epsilon_spent([line], delta)
    return min(epsilon, 2 * line.times / line.noise_multiplier) if line.mechanism == "exponential" else epsilon


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


# --- The receipt ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Receipt:
    """What a fit spent, on what, and what is promised for it.

    Attributes:
        lines: Every purchase, with its epsilon alone at the whole delta.
        epsilon: All lines together, by the accountant named.
        delta: The delta that epsilon holds at.
        budget: What was promised. If purchases were left out after seeing results, quote this:
            `epsilon` holds only for a choice of purchases that was public.
        rdp_epsilon: The total again by RDP, which must not be smaller.
        accountant: Which one, and its version.
        not_bought: Purchases planned and not made.
        unit: "row", or the column that says which rows are one unit.
        max_rows_per_unit: Rows of one unit that are used at most.
        seed: The seed of a test, or None.
        warnings: What voids or weakens the promise.
        version: Of this library.
        adjacency: What "neighbouring tables" means.
    """

    lines: tuple[Line, ...]
    epsilon: float
    delta: float
    budget: Budget
    rdp_epsilon: float
    accountant: str
    not_bought: int = 0
    unit: str = "row"
    max_rows_per_unit: int = 1
    seed: int | None = None
    warnings: tuple[str, ...] = ()
    version: str = ""
    adjacency: str = ADJACENCY

    @property
    def noise_source(self) -> str:
        """Where the noise came from, and whether the promise survives it."""
        if self.seed is None:
            return "operating system entropy"
        return f"seed = {self.seed}: FOR TESTS ONLY, the guarantee does not hold for anyone who knows the seed"

    def events(self) -> list[Any]:
        """The `dp_accounting` event of each line, for anyone who wants to add them up again."""
        import dp_accounting

        def event(line: Line):
            if line.mechanism == "exponential":
                return dp_accounting.ZCDpEvent(1 / (2 * line.noise_multiplier**2))
            gaussian = dp_accounting.GaussianDpEvent(line.charged_multiplier)
            if line.sampling_rate is not None:
                return dp_accounting.PoissonSampledDpEvent(line.sampling_rate, gaussian)
            return gaussian

        return [dp_accounting.SelfComposedDpEvent(event(line), line.times) for line in self.lines]

    def to_json(self) -> str:
        """Every detail as JSON; `from_json` takes it back."""
        content = {"kind": "understudy-receipt", "format": 1, **dataclasses.asdict(self)}
        return json.dumps(content, indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Receipt":
        """The receipt that `to_json` wrote, or a ValueError for anything else."""
        try:
            content = json.loads(text)
            if (content.pop("kind"), content.pop("format")) != ("understudy-receipt", 1):
                raise ValueError("another kind or format")
            content["lines"] = tuple(Line(**line) for line in content["lines"])
            content["budget"] = Budget(**content["budget"])
            content["warnings"] = tuple(content["warnings"])
            for field in ("epsilon", "delta", "rdp_epsilon"):
                _number(field, content[field], "a number >= 0", lambda x: 0 <= x < math.inf)
            return cls(**content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"expected a receipt written by Receipt.to_json, got something else ({error}).") from None

    def __str__(self) -> str:
        return "\n".join([*self._head(), "", *self._table(), *self._foot()])

    def _head(self) -> list[str]:
        unit = "one row" if self.unit == "row" else f"all rows with the same {self.unit!r}"
        if self.max_rows_per_unit > 1:
            unit += f", of which at most {self.max_rows_per_unit} are used"
        facts = {
            "promised": f"epsilon = {self.budget.epsilon:g}, delta = {self.budget.delta:g}",
            "spent": f"epsilon = {self.epsilon:.4g}, delta = {self.delta:g}",
            "neighbours": self.adjacency,
            "unit": unit,
            "noise from": self.noise_source,
            "accountant": f"{self.accountant} (RDP says {self.rdp_epsilon:.4g})",
        }
        title = f"Privacy receipt, understudy {self.version}" if self.version else "Privacy receipt"
        return [title, *(f"  {key:<12}{value}" for key, value in facts.items())]

    def _table(self) -> list[str]:
        """One row for each group of equal purchases, 100 columns wide."""
        groups: dict[tuple, list[Line]] = {}
        for line in self.lines:
            groups.setdefault(tuple(dataclasses.replace(line, what="").__dict__.values()), []).append(line)
        rows = [("what was bought", "mechanism", "sensitivity", "noise", "epsilon alone")]
        for lines in groups.values():
            first = lines[0]
            alone = f"{first.epsilon:.3g}" if first.epsilon is not None else "?"
            each = " each" if len(lines) > 1 else ""
            rows.append((_what(lines), _how(first), f"{first.sensitivity:.4g}", f"{first.sigma:.4g}", alone + each))
        return ["  {:<39} {:<22} {:>11} {:>9} {:>13}".format(*row).rstrip() for row in rows]

    def _foot(self) -> list[str]:
        foot = []
        if self.not_bought:
            foot += [
                "",
                f"  {_count(self.not_bought, 'planned purchase')} not made. If that was decided after seeing results,",
                f"  quote what was promised: epsilon = {self.budget.epsilon:g}.",
            ]
        if self.warnings:
            foot += ["", *(f"  WARNING: {warning}" for warning in self.warnings)]
        return foot


def _what(lines: list[Line]) -> str:
    """What a group of equal lines bought: the first of them, and how many more, in 39 columns."""
    more = len(lines) - 1
    if all(line.what == lines[0].what for line in lines):
        tail = f" x {len(lines)}" if more else ""
    else:
        tail = f", and {more} more"
    room = 39 - len(tail)
    what = lines[0].what
    return (what if len(what) <= room else what[: room - 1] + "…") + tail


def _how(line: Line) -> str:
    if line.mechanism == "sampled gaussian":
        return f"sampled, {_count(line.times, 'step')}"
    return line.mechanism + (f" x {line.times}" if line.times > 1 else "")
