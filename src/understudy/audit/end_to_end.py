"""End to end: how clearly fits of two neighbouring tables can be told apart, as certified bounds on mu and epsilon.

1. Pairs of worst-case tables are made from the schema (`worlds`); a few fits of each say which one tells most.
2. Both tables of that pair are fitted many times, with the noise that ships. Of every fit the attacker has the privacy
   loss of each release (`privacy_loss`) and the numbers in the model.
3. Two tests are made. The likelihood ratio of all releases, with the threshold that is best if the claim is tight, is
   fixed beforehand and judged on all fits. And one half of the fits chooses a statistic and a threshold by which the
   other half is judged: whatever was tried on the first half needs no correction. Each of the two tests may err with
   half of the stated probability, and the better bound counts.
4. The errors are held against the trade-off curve that the plan claims (`tradeoff`).

What is assumed: nothing about the mechanisms for `mu_lower`, which says that they are not mu-Gaussian private for any
smaller mu. `epsilon_lower` is the epsilon at delta of a Gaussian of that mu. The account of a plan without sampling is
exactly a Gaussian; a plan with sampling is held against the smallest Gaussian that covers its account.

What a bound does not say: it is a lower bound. A leak that no statistic here sees is not found.

Sources: Jagielski, Ullman and Oprea (2020), arXiv:2006.07709; Nasr et al. (2023), arXiv:2302.07956.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy import pipeline
from understudy.audit.privacy_loss import FitLoss, watched
from understudy.audit.shortened import AFTER_RELEASES_OF_PRADA, shortened
from understudy.audit.simulated import Simulated
from understudy.audit.tradeoff import Alarms, best_threshold, claimed_mu, expected_bound, mu_lower_bound
from understudy.audit.worlds import Worlds, worst_cases
from understudy.core.randomness import Key
from understudy.model import Model
from understudy.privacy.calibration import planned_charges
from understudy.privacy.gaussian import gaussian_epsilon
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget
from understudy.synthesizers import resolve
from understudy.synthesizers.base import Method
from understudy.synthesizers.planning import planned_mechanisms
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]

CONFIDENCE = 0.99
"""An honest method is accused in at most one audit of a hundred."""
LEAST_FITS = 8
"""Two fits of each table choose and two are judged, which certifies nothing yet; some hundred fits begin to."""
GROUP_MU = 2.0
"""So many canaries are taken that their mu together is about this: errors of a sixth are counted soonest."""
PILOT_FITS = 2
"""Fits of each pair of tables before one is chosen."""
FITS_AT_ONCE = 50
"""Fits, of both tables, that are made by one call and share its compiled programs."""
FREE: Mapping[str, Mapping[str, object]] = {
    "aim": {"last_iterations": 10},
    "gem": {"steps": 4, "last_steps": 10, "components": 64, "width": 16},
    "mst": {"iterations": 10},
    "privmrf": {"iterations": 10},
    "prada": AFTER_RELEASES_OF_PRADA,
    "dp-merf": {"steps": 10, "fakes": 50, "widths": (16,)},
}
"""Settings of what is done with releases. They cost no budget, so the attacked fits spend little time on it."""
FEWER_STEPS = ("prada-gan", "dpgan")
"""Methods that are all training: fits of a few steps are attacked, with noise that is calibrated for these."""
EXPECTED = "expected loss"
TOTAL = "likelihood ratio of all releases"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EndToEnd:
    """What the fits of two neighbouring tables showed.

    Attributes:
        method: The method's name.
        mu_lower: The mechanisms are not mu-Gaussian private for any mu below this, with `confidence`.
        epsilon_lower: Epsilon at `delta` of a Gaussian of that mu.
        claimed_mu: The mu of the plan's account.
        claimed_epsilon: The budget.
        delta: The budget's delta.
        confidence: The probability with which a true claim is not exceeded, over everything that was tried.
        fits: Fits that chose the statistic or were judged.
        units: How many canaries the two tables differ by; bounds are for one.
        worlds: What the two tables are like.
        statistic: What the fits were told apart by.
        attained_mu: The mu of a Gaussian whose expected loss is that of the watched releases: how much of the claim the
            two tables and the attacker's view reach. It trusts the declared noise, so it is not certified.
        false_alarms, misses: The rates of error of that statistic, on the fits that it was judged by.
        power: The epsilon that would be certified on average if the claim were tight ("tight") and if the noise were
            half of what it should be ("halved noise").
    """

    method: str
    mu_lower: float
    epsilon_lower: float
    claimed_mu: float
    claimed_epsilon: float
    delta: float
    confidence: float
    fits: int
    units: int
    worlds: str
    statistic: str
    attained_mu: float
    false_alarms: float
    misses: float
    power: Mapping[str, float]

    @property
    def passed(self) -> bool:
        """Whether the claim stands: neither lower bound passes it."""
        return self.mu_lower <= self.claimed_mu and self.epsilon_lower <= self.claimed_epsilon

    def to_json(self) -> str:
        return json.dumps({**dataclasses.asdict(self), "passed": self.passed})


def end_to_end(
    schema: Schema,
    method: str | Method,
    *,
    epsilon: float,
    delta: float = 1e-6,
    fits: int = 400,
    key: Key | None = None,
    confidence: float = CONFIDENCE,
    simulated: Simulated | None = None,
) -> EndToEnd:
    """Attacks a method on worst-case tables of a schema, and certifies lower bounds on its mu and epsilon.

    Args:
        schema: The public facts that the tables are made from.
        method: A name or a configured method. Settings that cost no budget are cut down (`FREE`).
        epsilon, delta: The claim.
        fits: How many fits are made, both tables and both halves together, besides a few that choose the tables.
        key: A seeded key repeats an audit, with the noise of tests. None: the noise that ships.
        confidence: Of the bounds.
        simulated: Whose rows both tables have besides canaries; None: rows made from the schema.

    Raises:
        ValueError: There are too few fits for both tables and both halves.
    """
    if fits < LEAST_FITS:
        raise ValueError(f"fits: expected at least {LEAST_FITS}, got {fits}.")
    method = without_free_work(resolve(method), schema)
    attack = Attack(schema, method, Budget(epsilon=epsilon, delta=delta), key or Key.new())
    mu, threshold_delta = attack.claim()
    units = max(1, round(GROUP_MU / mu))
    worlds = attack.choose_worlds(list(worst_cases(schema, units=units, simulated=simulated)))
    half = fits // 4
    without, with_units = attack.fits(worlds, 2 * half)
    chosen = choose_statistic(without[:half], with_units[:half], error=1 - confidence)
    judged = [_Judged.of(likelihood_ratio(without), without, with_units)]
    judged.append(_Judged.of(chosen, without[half:], with_units[half:]))
    each: Any = {"confidence": 1 - (1 - confidence) / len(judged), "units": units}
    bounds = [mu_lower_bound(test.seen, threshold_delta=threshold_delta, **each) for test in judged]
    bound, test = max(zip(bounds, judged, strict=True), key=lambda both: both[0])
    power = {"tight": mu, "halved noise": 2 * mu}
    return EndToEnd(
        method=attack.method.name,
        mu_lower=bound,
        epsilon_lower=gaussian_epsilon(bound, delta),
        claimed_mu=mu,
        claimed_epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        fits=4 * half,
        units=units,
        worlds=worlds.description,
        statistic=test.name,
        attained_mu=float(np.sqrt(2 * np.mean([each[EXPECTED] for each in with_units]))) / units,
        false_alarms=test.seen.without / test.seen.fits_without,
        misses=1 - test.seen.hits / test.seen.fits_with,
        power={
            name: gaussian_epsilon(expected_bound(true, fits=2 * half, **each), delta) for name, true in power.items()
        },
    )


def without_free_work(method: Method, schema: Schema) -> Method:
    """The same method, and the same plan, with little work on what was released; or one of `FEWER_STEPS`, shortened."""
    if method.name in FEWER_STEPS:
        return shortened(method, schema)
    free: Mapping[str, Any] = FREE.get(method.name, {})
    known = {field.name for field in dataclasses.fields(method)}
    return dataclasses.replace(method, **{name: value for name, value in free.items() if name in known})


Observed = dict[str, float]
"""What the attacker has of one fit: numbers by name."""


@dataclasses.dataclass(frozen=True)
class Attack:
    """A method under attack: what is fitted, what it claims, and the randomness of the attack."""

    schema: Schema
    method: Method
    budget: Budget
    key: Key

    def claim(self) -> tuple[float, float]:
        """The mu that the plan claims, and the delta of its thresholds."""
        plan = planned_mechanisms(pipeline.modelled_by(self.method, self.schema), self.method, self.budget)
        return claimed_mu(planned_charges(plan, Ledger(self.budget, plan).scale))

    def choose_worlds(self, tried: Sequence[Worlds]) -> Worlds:
        """The pair of tables whose releases tell the most, by the information in a few fits of each."""
        told = [self._information(worlds, i) for i, worlds in enumerate(tried)]
        return tried[int(np.argmax(told))]

    def _information(self, worlds: Worlds, number: int) -> float:
        found = self.watched_fits(worlds, [1] * PILOT_FITS, self.key.child(f"pilot {number}"))
        return float(np.mean([fit[EXPECTED] for fit in found]))

    def fits(self, worlds: Worlds, count: int) -> tuple[list[Observed], list[Observed]]:
        """What an attacker has of so many fits of each table. Fits of both are made side by side, by one program."""
        observed: tuple[list[Observed], list[Observed]] = [], []
        for start in range(0, count, FITS_AT_ONCE // 2):
            fitted = [0, 1] * min(FITS_AT_ONCE // 2, count - start)
            for world, fit in zip(
                fitted, self.watched_fits(worlds, fitted, self.key.child(f"from {start}")), strict=True
            ):
                observed[world].append(fit)
        return observed

    def watched_fits(self, worlds: Worlds, fitted: Sequence[int], key: Key) -> list[Observed]:
        """What an attacker has of fits of one table or the other, all made by one call."""
        seeds = None if key.secret else key.numpy().integers(2**62, size=len(fitted)).tolist()
        methods, epsilon, delta = [self.method] * len(fitted), self.budget.epsilon, self.budget.delta
        trains = self.method.name in FEWER_STEPS
        with watched(*worlds.tables, fitted=fitted, units=worlds.units, training=trains) as watch:
            models = pipeline.fit_many(
                worlds.without, self.schema, methods, seeds, epsilon=epsilon, delta=delta, progress=False
            )
        return [*map(_observed, models, watch.of_fits)]


def _observed(model: Model, loss: FitLoss) -> Observed:
    """The losses by planned mechanism, and numbers of the model: of each array its size, ends, mean and extremes."""
    numbers: Observed = {f"loss: {name}": value for name, value in loss.losses.items()}
    numbers[EXPECTED] = sum(loss.information.values())
    numbers["model: rows"] = float(model.encoder.rows)
    for name, array in {**model.encoder.arrays(), **model.generator.arrays()}.items():
        numbers[f"model: size of {name}"] = float(array.size)
        if array.size and array.dtype.kind in "biuf":
            flat = np.nan_to_num(array.ravel().astype(np.float64))
            facts = {"first": flat[0], "last": flat[-1], "mean": flat.mean(), "least": flat.min(), "most": flat.max()}
            numbers |= {f"model: {fact} of {name}": float(value) for fact, value in facts.items()}
    return numbers


# The statistic ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Statistic:
    """A weighted sum of observed numbers, and the threshold above which it is an alarm."""

    name: str
    weights: Mapping[str, float]
    threshold: float

    def alarm(self, observed: Observed) -> bool:
        return float(self.of([observed])[0]) > self.threshold

    def of(self, fits: Sequence[Observed]) -> Floats:
        return np.array([sum(w * fit.get(name, 0.0) for name, w in self.weights.items()) for fit in fits])


def likelihood_ratio(fits: Sequence[Observed]) -> Statistic:
    """The likelihood ratio of all releases, which is an alarm above 1: the loss above 0."""
    return Statistic(TOTAL, dict.fromkeys(_losses(fits), 1.0), 0.0)


def _losses(fits: Sequence[Observed]) -> list[str]:
    return sorted({name for fit in fits for name in fit if name.startswith("loss: ")})


@dataclasses.dataclass(frozen=True)
class _Judged:
    """What a statistic made of fits that had no say in it."""

    name: str
    seen: Alarms

    @classmethod
    def of(cls, statistic: Statistic, without: Sequence[Observed], with_units: Sequence[Observed]) -> "_Judged":
        alarms, hits = (sum(map(statistic.alarm, fits)) for fits in (without, with_units))
        seen = Alarms(without=alarms, fits_without=len(without), hits=hits, fits_with=len(with_units))
        return cls(statistic.name, seen)


def choose_statistic(without: Sequence[Observed], with_units: Sequence[Observed], *, error: float) -> Statistic:
    """The statistic with the largest bound on these fits, and its threshold.

    Candidates are the likelihood ratio of all releases; that of each planned mechanism, and a linear discriminant of
    these, for mechanisms whose noise is not what it should be; and every number of the model, for what leaks without a
    mechanism. The more candidates there are of a kind, the surer each of them has to be.
    """
    fits = [*without, *with_units]
    losses = _losses(fits)
    numbers = sorted({name for fit in fits for name in fit if name.startswith("model: ")})
    kinds = [[(TOTAL, dict.fromkeys(losses, 1.0))]] if losses else []
    if len(losses) > 1:
        discriminant = "linear discriminant of the losses", _discriminant(losses, without, with_units)
        kinds.append([(f"likelihood ratio of {name[6:]!r}", {name: 1.0}) for name in losses] + [discriminant])
    kinds.append([(name, {name: sign}) for name in numbers for sign in (1.0, -1.0)])
    best, chosen = -np.inf, Statistic(TOTAL, {}, 0.0)
    for kind in kinds:
        for name, weights in kind:
            candidate = Statistic(name, weights, 0.0)
            values = candidate.of(without), candidate.of(with_units)
            threshold, bound = best_threshold(*values, error=error / len(kind))
            if bound > best:
                best, chosen = bound, dataclasses.replace(candidate, threshold=threshold)
    return chosen


def _discriminant(
    names: Sequence[str], without: Sequence[Observed], with_units: Sequence[Observed]
) -> dict[str, float]:
    """Fisher's weights: the difference of the means over the pooled covariance."""
    samples = [np.array([[fit.get(name, 0.0) for name in names] for fit in fits]) for fits in (without, with_units)]
    gap = samples[1].mean(axis=0) - samples[0].mean(axis=0)
    covariance = np.mean([np.cov(sample, rowvar=False) for sample in samples], axis=0)
    ridge = 1e-3 * np.trace(covariance) / len(names) + 1e-12
    weights = np.linalg.solve(covariance + ridge * np.eye(len(names)), gap)
    return dict(zip(names, weights.tolist(), strict=True))
