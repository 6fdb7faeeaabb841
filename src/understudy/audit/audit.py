"""The audit of a method: what it claims, and what stands against it.

The one rule: an audit needs a schema and no table. Everything that is fitted was made from the schema or simulated, so
an audit costs no budget and may be shown to anybody.
"""

import dataclasses
import json
import os
from typing import TYPE_CHECKING, Any

from understudy import pipeline
from understudy.audit.finding import Finding
from understudy.audit.noise import NoiseTest, judge_noise
from understudy.audit.replay import Replay, replay
from understudy.audit.simulated import Simulated
from understudy.core.randomness import Key
from understudy.core.version import __version__
from understudy.synthesizers import DEFAULT, resolve
from understudy.synthesizers.base import Method
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.schema import Schema

if TYPE_CHECKING:
    from understudy.audit.end_to_end import EndToEnd


@dataclasses.dataclass(frozen=True, kw_only=True)
class Audit:
    """What an audit found. `str` is a table for people, `to_json` the same for programs.

    Attributes:
        schema: The name of the schema.
        method: The name of the method.
        claimed_epsilon: What the method claims, at `delta`.
        delta: The claim's delta.
        replay: Fits to neighbouring tables, mechanism by mechanism.
        noise: The samplers that ship.
        end_to_end: The attack on whole fits; None if no fits were asked for.
        simulated: The name of the simulated table; None if tables were made from the schema alone.
    """

    schema: str
    method: str
    claimed_epsilon: float
    delta: float
    replay: Replay
    noise: NoiseTest
    end_to_end: "EndToEnd | None" = None
    simulated: str | None = None

    @property
    def epsilon_lower(self) -> float:
        """The certified lower bound on epsilon; 0 if no fits were attacked."""
        return 0.0 if self.end_to_end is None else self.end_to_end.epsilon_lower

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that must not be so."""
        found = (*self.replay.findings, *self.noise.findings)
        if self.end_to_end is None or self.end_to_end.passed:
            return found
        what = f"epsilon is at least {self.epsilon_lower:.4g}, with confidence {self.end_to_end.confidence:g}."
        return *found, Finding("end to end", "the claim", what)

    @property
    def passed(self) -> bool:
        """Whether nothing was found against the claim."""
        return not self.findings

    def to_json(self) -> str:
        """All of it as one JSON object."""
        attacked = None if self.end_to_end is None else json.loads(self.end_to_end.to_json())
        whole = {
            "version": __version__,
            "schema": self.schema,
            "simulated": self.simulated,
            "method": self.method,
            "claimed_epsilon": self.claimed_epsilon,
            "delta": self.delta,
            "epsilon_lower": self.epsilon_lower,
            "passed": self.passed,
            "findings": [dataclasses.asdict(each) for each in self.findings],
            "replay": self.replay.to_json(),
            "noise": self.noise.to_json(),
            "end_to_end": attacked,
        }
        return json.dumps(whole, default=float)

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        head = f"Audit of {self.method} at epsilon = {self.claimed_epsilon:g}, delta = {self.delta:g}: {verdict}"
        head = (
            head if self.simulated is None else head.replace(" at ", f" on simulated rows of {self.simulated} at ", 1)
        )
        lines = [head, "", *_table(self._rows())]
        lines += [f"  {each}" for each in self.findings]
        return "\n".join(lines)

    def _rows(self) -> list[tuple[str, str, str]]:
        rows = [("check", "looked at", "result")]
        for each in self.replay.mechanisms:
            at = f"{each.releases} pairs of exact answers"
            rows.append((f"replay: {each.mechanism}", at, f"worst change {each.worst:.6f} of the sensitivity"))
        rest = sum(each.check in ("identical", "messages", "programs", "charges") for each in self.replay.findings)
        rows.append(("replay: everything else", f"{self.replay.pairs} pairs of fits", _differences(rest)))
        rows.append(("account", "all charges, anew", f"epsilon = {self.replay.accounted_epsilon:.4f}"))
        lowest = min((test.p_value for test in self.noise.tests), default=1.0)
        tests = f"{len(self.noise.tests)} tests of unseeded samplers"
        rows.append(("noise", tests, f"{len(self.noise.findings)} failed; least p = {lowest:.2g}"))
        if self.end_to_end is None:
            rows.append(("end to end", "no fits", "not run"))
        else:
            tight = self.end_to_end.power.get("tight", 0.0)
            bound = f"epsilon >= {self.epsilon_lower:.4g} with confidence {self.end_to_end.confidence:g}"
            rows.append(("end to end", f"{self.end_to_end.fits} fits", f"{bound}; a tight claim shows {tight:.4g}"))
        return rows


def _differences(count: int) -> str:
    return "identical" if not count else f"{count} differences"


def _table(rows: list[tuple[str, str, str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def audit(
    schema: Schema | DatabaseSchema | str | os.PathLike[str] | None = None,
    method: str | Method = DEFAULT,
    *,
    epsilon: float,
    delta: float = 1e-6,
    fits: int | None = None,
    seed: int | None = None,
    simulated: str | None = None,
) -> Audit:
    """Audits a method on tables made from a schema, or on a simulated table.

    Args:
        schema: Public facts, or the path of their TOML file. No table is needed, and none is read. Neighbours of a
            database differ by one unit, with as many children as it may have at every depth.
        method: A name from `METHODS`, or one of them configured.
        epsilon, delta: The claim: the budget of every fit.
        fits: How many whole fits are attacked for a lower bound on epsilon; None or 0 for none. Hundreds are needed.
            Fits of a database are not attacked.
        seed: For tests: the attack on whole fits with noise that can be repeated.
        simulated: In place of a schema: "example" or a random network, such as "erdos-renyi-nonlinear". Neighbours then
            have simulated rows, whose columns depend on each other.

    Raises:
        ValueError: The method cannot be fitted to such a table within the budget, or there is no such table.
    """
    if (schema is None) == (simulated is None):
        raise ValueError("audit: expected either a schema or the name of a simulated table.")
    rows = None if simulated is None else Simulated.named(simulated)
    facts: Schema | DatabaseSchema = Schema.of(schema) if rows is None else rows.schema
    method = resolve(method)
    if fits is not None and (isinstance(fits, bool) or not isinstance(fits, int) or fits < 0):
        raise ValueError(f"fits: expected a whole number >= 0 or None, got {fits!r}.")
    if fits and isinstance(facts, DatabaseSchema):
        raise ValueError("fits: expected none for a database, whose mechanisms are replayed and whose noise is tested.")
    pipeline.plan(facts, method, epsilon=epsilon, delta=delta)  # refuses what cannot be fitted
    key, claim = Key.new(seed), {"epsilon": epsilon, "delta": delta, "simulated": rows}
    attacked: Any = None
    if fits and not isinstance(facts, DatabaseSchema):
        from understudy.audit.end_to_end import end_to_end

        attacked = end_to_end(facts, method, fits=fits, key=key, **claim)
    return Audit(
        schema=facts.name,
        method=method.name,
        claimed_epsilon=float(epsilon),
        delta=float(delta),
        replay=replay(facts, method, **claim),
        noise=judge_noise(facts, method, **claim),
        end_to_end=attacked,
        simulated=simulated,
    )
