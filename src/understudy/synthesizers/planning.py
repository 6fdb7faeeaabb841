"""The plan of a fit: what it will measure, how it divides the budget, and what to expect. No data is touched."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from understudy import encoding
from understudy.core.red_flag import RedFlag
from understudy.privacy.plan import Budget, Charge, PlannedMechanism
from understudy.synthesizers.base import Method
from understudy.synthesizers.expected_time import expected_megabytes, expected_seconds
from understudy.tables.schema import Schema


def planned_mechanisms(schema: Schema, method: Method, budget: Budget) -> list[PlannedMechanism]:
    """Everything one fit will measure: a function of public facts. With no share for encoding, columns pass through."""
    share = method.encoding_share
    encoder = encoding.plan(schema, share=share, delta=budget.delta) if share else []
    return [*encoder, *method.plan(schema)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How a budget will be divided, before any data is touched.

    Attributes:
        items: The planned mechanisms.
        charges: What each of them will charge, with its noise multiplier.
        seconds, megabytes: What to expect on two cores, by a formula that is fitted to measurements (expected_time.py).
        rows_to_be_seen: For every column whose categories are not listed, how many rows a category needs so that half
            of all fits see it; fewer, and it becomes its group or `other`. With a unit, how many units.
        unit: What is counted there: "row", or the column that says whose row it is.
        flags: Red flags, the gravest first.
    """

    method: str
    budget: Budget
    items: tuple[PlannedMechanism, ...]
    charges: tuple[Charge, ...]
    rows: int | None
    seconds: float
    megabytes: float
    rows_to_be_seen: Mapping[str, int] = dataclasses.field(default_factory=dict)
    flags: tuple[RedFlag, ...] = ()
    unit: str = "row"

    def shares(self) -> dict[str, float]:
        """The part of the (concentrated) budget that each mechanism gets."""
        total = sum(planned.share for planned in self.items)
        return {planned.name: planned.share / total for planned in self.items}

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "rows": self.rows,
            "items": [
                {
                    "name": planned.name,
                    "mechanism": planned.mechanism,
                    "share": self.shares()[planned.name],
                    "times": planned.times,
                    "noise_multiplier": charge.noise_multiplier,
                }
                for planned, charge in zip(self.items, self.charges, strict=True)
            ],
            "rows_to_be_seen": dict(self.rows_to_be_seen),
            "seconds": self.seconds,
            "megabytes": self.megabytes,
            "flags": [flag.to_json() for flag in self.flags],
        }

    def __str__(self) -> str:
        head = f"{self.method} with epsilon = {self.budget.epsilon:g}, delta = {self.budget.delta:g}"
        wide = max(16, *(len(planned.name) + 2 for planned in self.items))
        rows = [f"{'planned':<{wide}}{'mechanism':<22}{'times':>9}{'share':>9}{'noise per row':>15}"]
        for planned, charge in zip(self.items, self.charges, strict=True):
            share = f"{100 * self.shares()[planned.name]:.1f} %"
            noise = f"{charge.noise_multiplier:>15.2f}"
            rows.append(f"{planned.name:<{wide}}{planned.mechanism:<22}{planned.times:>9}{share:>9}{noise}")
        size = f"for {self.rows} rows " if self.rows else ""
        foot = f"Expect {size}about {self.seconds:.0f} s and {self.megabytes:.0f} MB. No data was touched."
        flags = [str(flag) for flag in self.flags]
        return "\n".join([head, "", *rows, "", *self._seen(), *flags, foot])

    def _seen(self) -> list[str]:
        """Says how many rows make a category visible; nothing if all categories are listed."""
        if not self.rows_to_be_seen:
            return []
        names, needed = ", ".join(map(repr, self.rows_to_be_seen)), max(self.rows_to_be_seen.values())
        counted = f"{needed} rows" if self.unit == "row" else f"{needed} values of {self.unit!r}"
        share = f" ({100 * needed / self.rows:.2g} % of them)" if self.rows and self.unit == "row" else ""
        return [
            f"A category of {names} is seen if about {counted} have it{share}.",
            "Rarer ones become `other`, or their group if the column has `levels`.",
        ]


def expected_cost(
    schema: Schema, method: Method, planned: Sequence[PlannedMechanism], rows: int
) -> tuple[float, float]:
    """Seconds and megabytes to expect of a fit on two cores."""
    return sum(expected_seconds(schema, method, planned, rows)), expected_megabytes(schema, method, rows)
