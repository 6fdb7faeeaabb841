"""Attacks on one's own release: what a synthetic table tells about the rows it was made from, beyond people in general.

Four attacks are made on rows that were fitted, and the same ones on a control group from the same population that was
not. What works on the control group as well tells about people in general; the risk is what works better on the rows
that were fitted:

    risk = (rate - control rate) / (1 - control rate).

    membership      whoever has a synthetic row nearer than a threshold is said to have been in the table
    singling out    a predicate that holds for one synthetic row alone holds for exactly one person
    linkage         one synthetic row is among the nearest by one half of the columns and by the other half
    attribute       the nearest synthetic row by all other columns has the value of this one

The one rule: this is no promise and no proof. The result is a fact about real rows that no budget covers, so it must be
kept like the rows; and an attack that finds nothing says that this attack found nothing. Both are stamped on it.

Source: Giomi et al. (2023), "A unified framework for quantifying privacy risk in synthetic data" (Anonymeter), PoPETs
2023(2), for the attacks and the risk against a control group.

Departures: intervals are Clopper and Pearson's, and hold for all attacks together; membership is attacked too; singling
out compares equally many rows of both groups; a number counts as guessed within a tenth of its deviation.
"""

# SciPy has no type stubs.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import dataclasses
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.audit.neighbours import Neighbours, neighbours
from understudy.audit.singling_out import predicates
from understudy.evaluation.pair import Side, location_and_deviation, open_tables
from understudy.tables.schema import Schema

Flags = NDArray[np.bool_]
Interval = tuple[float, float]

NOT_COVERED = (
    "Not covered by the budget: these numbers were computed from real rows without noise. Keep them like the rows."
)
NO_PROOF = "No proof: attacks that find nothing do not show that nothing can be found. Only the budget promises that."
ATTACKED = 1000
"""At most so many rows of each group are attacked."""
PREDICATES = 500
"""At most so many predicates are tried."""
NEAREST = 5
"""A row is linked if one of its so many nearest synthetic rows is the same by both halves of the columns."""
TOLERANCE = 0.1
"""A number is guessed if the guess is within this many deviations."""
QUANTILES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Thresholds of the attack on membership are these quantiles of the control group's distances."""
CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReleaseAttack:
    """How often one attack was right.

    Attributes:
        name: "membership", "singling out", "linkage" or "attribute".
        column: The column whose values were guessed, for "attribute".
        attacks: How many rows, or predicates, were tried on each group.
        rate: How often it was right about rows that were fitted.
        control: How often it was right about the control group.
        risk: What it gains on the rows that were fitted.
        rate_interval, control_interval, risk_interval: With the confidence of all attacks together.
    """

    name: str
    column: str = ""
    attacks: int
    rate: float
    rate_interval: Interval
    control: float
    control_interval: Interval
    risk: float
    risk_interval: Interval

    @property
    def found(self) -> bool:
        """Whether the attack surely works better on the rows that were fitted."""
        return self.risk_interval[0] > 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReleaseAttacks:
    """All attacks on a release. `str` is a table for people, `to_json` the same for programs."""

    attacks: tuple[ReleaseAttack, ...]
    confidence: float
    stamps: tuple[str, ...] = (NOT_COVERED, NO_PROOF)

    @property
    def found(self) -> bool:
        """Whether any attack surely works better on the rows that were fitted than on the control group."""
        return any(attack.found for attack in self.attacks)

    def to_json(self) -> str:
        attacks = [{**dataclasses.asdict(attack), "found": attack.found} for attack in self.attacks]
        return json.dumps({"attacks": attacks, "confidence": self.confidence, "found": self.found, **self._stamped()})

    def _stamped(self) -> dict[str, Any]:
        return {"covered_by_budget": False, "proof": False, "stamps": list(self.stamps)}

    def __str__(self) -> str:
        lines = [("attack", "fitted rows", "control group", "risk", "")]
        for each in self.attacks:
            name = f"{each.name}: {each.column}" if each.column else each.name
            rates = _percent(each.rate, each.rate_interval), _percent(each.control, each.control_interval)
            lines.append((name, *rates, _percent(each.risk, each.risk_interval), "found" if each.found else ""))
        widths = [max(len(line[i]) for line in lines) for i in range(5)]
        table = ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines]
        table.append(f"Intervals hold for all attacks together with confidence {self.confidence:g}.")
        return "\n".join(line.rstrip() for line in [*table, *self.stamps])


def _percent(value: float, interval: Interval) -> str:
    low, high = interval
    return f"{100 * value:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def attack_release(
    synthetic: Any,
    real: Any,
    control: Any,
    schema: Schema,
    *,
    attacks: int = ATTACKED,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> ReleaseAttacks:
    """Attacks a synthetic table with the rows it was made from, against a control group.

    Args:
        synthetic: The release; a file or a frame.
        real: The rows that were fitted.
        control: Rows of the same population that were not fitted.
        schema: The public facts about all three.
        attacks: How many rows of each group are attacked at most.
        confidence: Of all intervals together.
        seed: Which rows are attacked, and which predicates are tried.

    Privacy:
        None: the result is about real rows. It is not covered by any budget, and says so.

    Raises:
        TableError: A table cannot be read, or its structure is not the schema's.
    """
    sides = open_tables(schema, {"synthetic": synthetic, "real": real, "control": control})
    release = sides["synthetic"]
    groups = tuple(_shuffled(sides[name], seed + i) for i, name in enumerate(("real", "control")))
    attacked = tuple(group.take(np.arange(min(attacks, group.rows))) for group in groups)
    names = list(schema.names)
    parts = names[::2], names[1::2]
    near = tuple(neighbours(side, release, parts=parts, nearest=NEAREST) for side in attacked)
    outcomes: dict[tuple[str, str], tuple[Flags, Flags]] = {("membership", ""): _membership(*near)}
    outcomes["singling out", ""] = _singled_out(release, groups, np.random.default_rng(seed))
    if len(names) > 1:
        outcomes["linkage", ""] = near[0].linked, near[1].linked
        for name in names:
            one, other = (_guessed(side, release, found, name) for side, found in zip(attacked, near, strict=True))
            outcomes["attribute", name] = one, other
    error = (1.0 - confidence) / len(outcomes)
    return ReleaseAttacks(
        attacks=tuple(_judged(name, column, *both, error=error) for (name, column), both in outcomes.items()),
        confidence=confidence,
    )


def _shuffled(side: Side, seed: int) -> Side:
    return side.take(np.random.default_rng(seed).permutation(side.rows))


def _membership(real: Neighbours, control: Neighbours) -> tuple[Flags, Flags]:
    """Whether each row is said to have been fitted. One half of the rows sets the threshold, the other is judged."""
    (learnt, judged), (learnt_control, judged_control) = (np.array_split(each.distances, 2) for each in (real, control))
    gains: dict[float, float] = {}
    for threshold in np.quantile(learnt_control, QUANTILES).tolist():
        rate, control_rate = float(np.mean(learnt <= threshold)), float(np.mean(learnt_control <= threshold))
        spread = rate * (1 - rate) / len(learnt) + control_rate * (1 - control_rate) / len(learnt_control)
        gains[threshold] = (rate - control_rate) / (np.sqrt(spread) + 1e-9)
    threshold = max(gains, key=lambda t: gains[t])
    return judged <= threshold, judged_control <= threshold


def _singled_out(release: Side, groups: tuple[Side, ...], draw: np.random.Generator) -> tuple[Flags, Flags]:
    """Whether each predicate holds for exactly one row, of equally many rows of both groups."""
    guesses = predicates(release, PREDICATES, draw)
    rows = np.arange(min(group.rows for group in groups))
    tried = [group.take(rows) for group in groups]
    real, control = (np.array([each.matches(side) == 1 for each in guesses], np.bool_) for side in tried)
    return real, control


def _guessed(side: Side, release: Side, found: Neighbours, name: str) -> Flags:
    """Whether the nearest synthetic row has each row's value."""
    guess = found.without[name]
    if name in side.codes:
        return side.codes[name] == release.codes[name][guess]
    truth, value = side.numbers[name], release.numbers[name][guess]
    near = np.abs(truth - value) <= TOLERANCE * location_and_deviation(release.numbers[name])[1]
    return near | (np.isnan(truth) & np.isnan(value))


def _judged(name: str, column: str, real: Flags, control: Flags, *, error: float) -> ReleaseAttack:
    """Rates and risk of an attack, with intervals that fail with probability `error` together."""
    rate, rate_interval = _rate(real, error / 2)
    control_rate, control_interval = _rate(control, error / 2)
    low = _risk(rate_interval[0], control_interval[1])
    high = _risk(rate_interval[1], control_interval[0])
    return ReleaseAttack(
        name=name,
        column=column,
        attacks=len(real),
        rate=rate,
        rate_interval=rate_interval,
        control=control_rate,
        control_interval=control_interval,
        risk=_risk(rate, control_rate),
        risk_interval=(low, high),
    )


def _risk(rate: float, control: float) -> float:
    """What an attack gains; less than 0 if it works worse than on the control group."""
    return (rate - control) / max(1.0 - control, 1e-9) if rate >= control else rate - control


def _rate(right: Flags, error: float) -> tuple[float, Interval]:
    """A rate, and Clopper and Pearson's interval for it."""
    from scipy.special import betaincinv

    n, k = len(right), int(right.sum())
    if not n:
        return 0.0, (0.0, 1.0)
    low = float(betaincinv(k, n - k + 1, error / 2)) if k else 0.0
    high = float(betaincinv(k + 1, n - k, 1 - error / 2)) if k < n else 1.0
    return k / n, (low, high)
