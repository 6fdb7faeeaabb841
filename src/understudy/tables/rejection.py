"""Rejection sampling: rows are drawn from a model until enough of them keep the rules.

The one rule: no returned row breaks a rule, and never fewer rows are returned than were asked for. If rows that keep
the rules are too rare, an error says how rare. The rows that are kept have exactly the model's distribution given the
rules, and the same seed gives the same rows.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.tables.constraints import sums
from understudy.tables.rules import Condition, Constraint, Implication, Rule, SyntheticRows
from understudy.tables.schema import Schema

# Sampling gives up if fewer than LEAST_KEPT of the rows keep the rules after max(FEWEST_DRAWN, DRAWN_PER_ROW * n) rows.
FEWEST_DRAWN, DRAWN_PER_ROW, LEAST_KEPT = 20_000, 20, 0.01
# For conditions, which may ask for a small group, it gives up after PATIENCE rows if it seems to need over MOST_DRAWN.
PATIENCE, MOST_DRAWN = 400_000, 20_000_000
_SMALLEST_BATCH, _LARGEST_BATCH = 1024, 2**17


class SamplingError(ValueError):
    """Rows that keep the rules are too rare to be drawn."""


@dataclasses.dataclass(frozen=True)
class Acceptance:
    """How many of the rows that a model drew keep the rules.

    Attributes:
        drawn: How many were drawn.
        kept: How many of them keep every rule.
        broken: For each rule, how many break it.
        effective: If rows were drawn by importance, how many independent ones they are worth; else None.
    """

    drawn: int
    kept: int
    broken: Mapping[str, int] = dataclasses.field(default_factory=dict)
    effective: float | None = None

    @property
    def share(self) -> float:
        """The acceptance rate; 1 if nothing was drawn."""
        return self.kept / self.drawn if self.drawn else 1.0

    def __str__(self) -> str:
        text = f"{self.kept} of {self.drawn} rows drawn keep the rules ({_percent(self.share)})"
        if self.effective is not None:
            text = f"{text}; drawn by importance, worth about {self.effective:.0f} independent rows"
        return f"{text}; {self.worst}" if self.kept < self.drawn else text

    @property
    def worst(self) -> str:
        """The rule that is broken most often, in words."""
        rule, count = max(self.broken.items(), key=lambda item: item[1])
        return f"most often broken: {rule}, by {_percent(count / self.drawn)} of rows"


def rules(schema: Schema) -> list[Constraint]:
    """The rules that every synthetic row keeps: the constraints, and the bounds of totals, which are computed."""
    bounded = []
    for each in sums(schema.constraints):
        column = schema[each.total]
        if column.low is not None or column.high is not None:
            bounded.append(Implication((), Condition(each.total, low=column.low, high=column.high)))
    return [*schema.constraints, *bounded]


def keep(
    draw: Callable[[int, Key], SyntheticRows], held: Sequence[Rule], n: int, *, key: Key, patient: bool = False
) -> tuple[dict[str, NDArray], Acceptance]:
    """The columns of `n` rows that keep all rules, and how many rows were drawn for them.

    Args:
        draw: Draws rows from the model.
        held: The rules that every row is held to.
        patient: Whether few rows may keep the rules, because they ask for a small group.

    Raises:
        SamplingError: After max(20 n, 20000) rows, fewer than one in a hundred keep the rules; with `patient`, after
            400 000 rows, more than 20 million would have to be drawn.
    """
    if not held:
        return dict(draw(n, key).columns), Acceptance(n, n)
    parts: list[dict[str, NDArray]] = []
    drawn, kept, broken, size = 0, 0, [0] * len(held), n
    while True:
        rows = draw(size, key if not drawn else key.child(f"further rows, after {drawn}"))
        met = [rule.holds(rows) for rule in held]
        good = np.logical_and.reduce(met)
        parts.append({name: column[good] for name, column in rows.columns.items()})
        drawn, kept = drawn + size, kept + int(good.sum())
        broken = [before + size - int(each.sum()) for before, each in zip(broken, met, strict=True)]
        tally = Acceptance(drawn, kept, dict(zip(map(str, held), broken, strict=True)))
        if kept >= n:
            return {name: np.concatenate([part[name] for part in parts])[:n] for name in parts[0]}, tally
        if _is_hopeless(tally, n, patient=patient):
            raise SamplingError(
                f"of {drawn} rows drawn from the model, {kept} ({_percent(tally.share)}) keep the rules, of {n} "
                f"wanted; {tally.worst}. Check that rule against the schema, widen it, or ask for fewer rows."
            )
        size = _next_batch(tally, n)


def _is_hopeless(tally: Acceptance, n: int, *, patient: bool) -> bool:
    if tally.drawn < _limit(n) or tally.kept >= LEAST_KEPT * tally.drawn:
        return False
    return not patient or (tally.drawn >= PATIENCE and n * tally.drawn > MOST_DRAWN * (tally.kept + 1))


def _limit(n: int) -> int:
    return max(DRAWN_PER_ROW * n, FEWEST_DRAWN)


def _next_batch(tally: Acceptance, n: int) -> int:
    """How many rows to draw next: as many as are likely to suffice, rounded to few sizes so that few are compiled."""
    likely = 1.1 * (n - tally.kept) * (tally.drawn + 1) / (tally.kept + 1)
    most = max(_LARGEST_BATCH, n)
    if tally.drawn < _limit(n):  # stop at the limit, where sampling may give up
        likely = min(likely, _limit(n) - tally.drawn)
    return min(max(_SMALLEST_BATCH, 1 << (int(min(likely, most)) - 1).bit_length()), most)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
