"""What a fit plans to release and what it was charged for: public facts about noise, and nothing about rows.

The one rule: a mechanism without a known cost is refused when it is planned, and again when it is charged.

A plan gives each mechanism a relative share of the budget. One common scale s turns shares into noise: the k releases
of a mechanism of share w are together as private as one Gaussian of

    mu = sqrt(w) / s,    each of them as one of    mu / sqrt(k),

and mu says what noise each kind of mechanism needs (`noise_for`; `Charge.mu` the other way round). Gaussian noise of
multiplier m = scale of the noise / sensitivity has mu = 1 / m. The exponential mechanism with Gumbel noise of
multiplier m has privacy losses within a range of epsilon = 2 / m, and every mechanism of that range is as private as
a Gaussian of

    mu = 2 Phi^-1(1 / (1 + exp(-epsilon / 2))):

the two have the same total variation, tanh(epsilon / 4), and at every other epsilon the exponential mechanism has the
smaller delta (tests/privacy/test_accounting.py). So selections and counts add up as squares of mu, without the loss of
converting concentrated costs, which is a sixth of the budget at (1, 1e-5). A selection alone costs more that way than
by its concentrated cost of epsilon^2 / 8; a plan gains as long as selections get less than about 0.3 of it.

A *privacy filter* is a planned mechanism whose releases are decided one after another, by what the earlier ones
showed: how much each takes, by which mechanism, and when to stop. Squares of mu may be added up to a limit set in
advance even then (Smith and Thakurta), so a filter is charged in full, whatever was released under it.

Sources:
    Canonne, Kamath and Steinke (2020), arXiv:2004.00010: the discrete Gaussian.
    Dong, Durfee and Rogers (2020), arXiv:1909.13830: the exponential mechanism's losses have a bounded range.
    Smith and Thakurta (2022), arXiv:2210.17520: fully adaptive composition of Gaussian privacy, with a limit.
    Bu et al. (2019), arXiv:1911.11607: the Gaussian limit of the sampled mechanism.
"""

import dataclasses
import math

from understudy.core.settings import Constraint, Number, OneOf, Whole, require
from understudy.privacy.gaussian import mu_of_range, range_of_mu

FILTER = "privacy filter"
MECHANISMS = ("discrete gaussian", "gaussian", "gaussian threshold", "exponential", "sampled gaussian", FILTER)
"""Every kind of mechanism whose cost is known."""
DISCRETE = ("discrete gaussian", "gaussian threshold")
"""The kinds whose noise lies on a lattice."""

# Discrete noise has at least this many lattice steps to one sigma, so that it is continuous noise, rounded (`lattice`).
STEPS_PER_SIGMA = 128
# Discrete noise is charged as continuous noise smaller by this factor; `lattice` proves that it covers the difference.
DISCRETE_FACTOR = 1 - 1e-4

POSITIVE = Number(above=0)
PROBABILITY = Number(above=0, below=1)
RATE = Number(above=0, most=1)
TIMES = Whole(least=1)


class BudgetExceeded(ValueError):
    """The budget does not cover it. Nothing was read."""


def _number(place: str, value: float, constraint: Constraint) -> float:
    """The value as a Python float, if the constraint holds."""
    require(place, value, constraint)
    return float(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """What one fit may cost in all: (epsilon, delta) for adding or removing one unit.

    Attributes:
        epsilon: Finite and > 0.
        delta: Between 0 and 1; well below one over the number of units.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _number("epsilon", self.epsilon, POSITIVE))
        object.__setattr__(self, "delta", _number("delta", self.delta, PROBABILITY))


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlannedMechanism:
    """What a plan will release under one name: by which mechanism, how often, and for which share of the budget.

    Attributes:
        name: The name that `Ledger.charge` asks for.
        mechanism: One of MECHANISMS.
        share: Relative share of the budget, as a square of mu, for all `times` together.
        times: Number of releases; for "sampled gaussian" the number of steps; 1 for a privacy filter, whose
            releases take shares of it.
        threshold_delta: For "gaussian threshold" only: the largest probability with which one
            release shows any category that one unit alone holds.
        sampling_rate: For "sampled gaussian" only: the probability with which each *unit*
            enters a batch, independently (Poisson sampling).
        noise_multiplier: Fixes the noise of each release; it is then not scaled, and `share`
            is not used.
    """

    name: str
    mechanism: str
    share: float = 0.0
    times: int = 1
    threshold_delta: float = 0.0
    sampling_rate: float | None = None
    noise_multiplier: float | None = None

    def __post_init__(self) -> None:
        place = f'"{self.name}" of the plan'
        _check_mechanism(place, self)
        if self.noise_multiplier is None:
            require(f"{place}, share", self.share, POSITIVE)
        else:
            require(f"{place}, noise_multiplier", self.noise_multiplier, POSITIVE)

    def noise_at(self, scale: float) -> float:
        """The noise multiplier of one release when the common scale is `scale`.

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
        """The charge for `times` releases (None: all of them) at this scale."""
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
    """One charge as the ledger and the receipt list it: one release, or several equal ones.

    Attributes:
        name: The name of the planned mechanism.
        what: What was measured, in words; holds public names only.
        mechanism: One of MECHANISMS.
        noise_multiplier: Scale of the noise / sensitivity.
        sensitivity: The most one unit can change the exact answer, in L2 norm (for
            "exponential": the most it can change any score).
        times: How many equal releases this charge stands for.
        sampling_rate: Probability of a unit entering a batch, if batches are sampled.
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

    def __post_init__(self) -> None:
        place = f'"{self.name}"'
        _check_mechanism(place, self)
        for field in ("noise_multiplier", "sensitivity"):
            object.__setattr__(self, field, _number(f"{place}, {field}", getattr(self, field), POSITIVE))
        object.__setattr__(self, "times", int(self.times))

    @property
    def sigma(self) -> float:
        """Scale of the noise in the units of the answer; for "exponential" that of the Gumbel noise."""
        return self.noise_multiplier * self.sensitivity

    @property
    def mu(self) -> float:
        """The mu of a Gaussian that no release of this charge is less private than; sampling is not counted."""
        if self.mechanism == "exponential":
            return mu_of_range(1 / self.noise_multiplier)
        return 1 / (self.noise_multiplier * (DISCRETE_FACTOR if self.mechanism in DISCRETE else 1.0))


def _check_mechanism(place: str, given: PlannedMechanism | Charge) -> None:
    """Refuses a mechanism without a known cost, and parameters that belong to another mechanism."""
    mechanism = given.mechanism
    require(f"{place}, mechanism", mechanism, OneOf(*MECHANISMS))
    require(f"{place}, times", given.times, TIMES)
    if mechanism == "gaussian threshold":
        require(f"{place}, threshold_delta", given.threshold_delta, PROBABILITY)
    elif given.threshold_delta:
        raise ValueError(f'{place}: threshold_delta belongs to "gaussian threshold", not to "{mechanism}".')
    if mechanism == "sampled gaussian":
        require(f"{place}, sampling_rate", given.sampling_rate, RATE)
    elif given.sampling_rate is not None:
        raise ValueError(f'{place}: sampling_rate belongs to "sampled gaussian", not to "{mechanism}".')


def noise_for(mechanism: str, mu: float) -> float:
    """The noise multiplier at which one release is as private as a Gaussian of mu: the inverse of `Charge.mu`.

    Discrete noise is charged as a little less than it is, so its multiplier is a little above 1 / mu.
    """
    if mechanism == "exponential":
        return 1 / range_of_mu(mu)
    return 1 / (mu * (DISCRETE_FACTOR if mechanism in DISCRETE else 1.0))


def lattice(sigma: float) -> int:
    """Lattice steps to one unit of the answer, for discrete Gaussian noise of this sigma.

    A mechanism draws whole numbers k from the discrete Gaussian of standard deviation
    sigma * lattice(sigma), which is at least 128 steps, and adds k / lattice(sigma).

    Privacy:
        Take continuous noise of deviation F s, with s >= 128 steps and F = `DISCRETE_FACTOR`, and round its sum y to a
        whole number k with probability proportional to exp(-(k - y)^2 / (2 t^2)), t^2 = (1 - F^2) s^2. Rounding knows
        nothing of the rows, so it costs nothing. What comes out is the discrete Gaussian of deviation s, up to a factor
        within 1 +- 2e-28 for every k, because the normalising sum over k hardly depends on y: it is t sqrt(2 pi) times
        1 + 2 sum_m exp(-2 pi^2 t^2 m^2) cos(2 pi m y), with t^2 > 3.27. So discrete noise is as private as continuous
        noise smaller by F, however many releases there are and however they were chosen: a billion of them change
        epsilon by less than 1e-18. docs/proofs.md has the whole proof, tests/privacy/test_proofs.py its numbers.
    """
    return max(1, 2 ** math.ceil(math.log2(STEPS_PER_SIGMA / sigma)))
