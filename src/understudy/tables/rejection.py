"""Rejection sampling: rows are drawn from a model until enough of them keep the rules.

The one rule: no returned row breaks a rule, and never fewer rows are returned than were asked for. If rows that keep
the rules are too rare, an error says how rare. The same seed gives the same rows.

Rejection is the last resort: sums and most inequalities hold by construction. Where rows are rejected or totals are
computed, more rows are drawn than are wanted, and those to be returned are chosen so that the measured margins stay
what they were without the rules (raking.py). Conditions (`where`) are different: they ask for other margins, and the
rows that meet them have exactly the model's distribution under these conditions.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.tables import raking
from understudy.tables.constraints import sums
from understudy.tables.rules import Condition, Constraint, Implication, Rule, SyntheticRows
from understudy.tables.schema import Schema

# Sampling gives up if fewer than LEAST_KEPT of the rows keep the rules after max(FEWEST_DRAWN, DRAWN_PER_ROW * n) rows.
FEWEST_DRAWN, DRAWN_PER_ROW, LEAST_KEPT = 20_000, 20, 0.01
# For conditions, which may ask for a small group, it gives up after PATIENCE rows if it seems to need over MOST_DRAWN.
PATIENCE, MOST_DRAWN = 400_000, 20_000_000
# Where rules are broken, this many times the wanted rows are drawn that keep them, for a choice among them.
POOL = 2
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
        shift: How far rules move the share of any measured bin in the returned rows, at most; 0 if no rule is broken.
    """

    drawn: int
    kept: int
    broken: Mapping[str, int] = dataclasses.field(default_factory=dict)
    effective: float | None = None
    shift: float = 0.0

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


def in_all(parts: Sequence[Acceptance]) -> Acceptance:
    """The acceptance of rows that were drawn in several parts."""
    broken = {rule: sum(part.broken.get(rule, 0) for part in parts) for part in parts for rule in part.broken}
    effective = [part.kept if part.effective is None else part.effective for part in parts]
    return Acceptance(
        sum(part.drawn for part in parts),
        sum(part.kept for part in parts),
        broken,
        sum(effective) if any(part.effective is not None for part in parts) else None,
        max((part.shift for part in parts), default=0.0),
    )


def held_rules(schema: Schema) -> list[Constraint]:
    """The rules that every synthetic row keeps: the constraints, and the bounds of totals, which are computed."""
    bounded = []
    for each in sums(schema.constraints):
        column = schema[each.total]
        if column.low is not None or column.high is not None:
            bounded.append(Implication((), Condition(each.total, low=column.low, high=column.high)))
    return [*schema.constraints, *bounded]


def keep(
    draw: Callable[[int, Key], SyntheticRows],
    held: Sequence[Rule],
    n: int,
    *,
    key: Key,
    conditions: Sequence[Condition] = (),
    patient: bool = False,
) -> tuple[dict[str, NDArray], Acceptance]:
    """The columns of `n` rows that keep all rules and conditions, and how many rows were drawn for them.

    Args:
        draw: Draws rows from the model.
        held: The rules that every row is held to. The margins of the rows that meet the conditions are those that
            the returned rows have.
        conditions: What every row is to meet besides.
        patient: Whether few rows may keep the rules, because the conditions ask for a small group.

    Raises:
        SamplingError: After max(20 n, 20000) rows, fewer than one in a hundred keep the rules; with `patient`, after
            400 000 rows, more than 20 million would have to be drawn.
    """
    every = [*held, *conditions]
    if not every:
        return dict(draw(n, key).columns), Acceptance(n, n)
    parts: list[dict[str, NDArray]] = []
    strata: list[Mapping[str, NDArray]] = []
    before: list[Mapping[str, NDArray]] = []
    drawn, kept, broken, size = 0, 0, [0] * len(every), n
    while True:
        rows = draw(size, key if not drawn else key.child(f"further rows, after {drawn}"))
        met = [rule.holds(rows) for rule in every]
        good = np.logical_and.reduce(met)
        asked = np.logical_and.reduce([np.ones(size, bool), *met[len(held) :]])
        parts.append({name: column[good] for name, column in rows.columns.items()})
        strata.append({name: bins[good] for name, bins in rows.strata.items()})
        before.append({name: bins[asked] for name, bins in {**rows.strata, **rows.drawn}.items()})
        drawn, kept = drawn + size, kept + int(good.sum())
        broken = [count + size - int(each.sum()) for count, each in zip(broken, met, strict=True)]
        tally = Acceptance(drawn, kept, dict(zip(map(str, every), broken, strict=True)))
        unbalanced = bool(rows.strata) and (any(broken[: len(held)]) or bool(rows.drawn))
        if kept >= (POOL * n if unbalanced else n):
            return _returned(parts, strata, before, n, tally, unbalanced=unbalanced, key=key)
        if _is_hopeless(tally, n, patient=patient):
            raise SamplingError(
                f"of {drawn} rows drawn from the model, {kept} ({_percent(tally.share)}) keep the rules, of {n} "
                f"wanted; {tally.worst}. Check that rule against the schema, widen it, or ask for fewer rows."
            )
        size = _next_batch(tally, POOL * n if unbalanced else n)


def _returned(
    parts: Sequence[Mapping[str, NDArray]],
    strata: Sequence[Mapping[str, NDArray]],
    before: Sequence[Mapping[str, NDArray]],
    n: int,
    tally: Acceptance,
    *,
    unbalanced: bool,
    key: Key,
) -> tuple[dict[str, NDArray], Acceptance]:
    """The rows to return: the first ones or, if rules were broken, those that keep the margins."""
    columns = _joined(parts)
    if not unbalanced or n == 0:
        return {name: column[:n] for name, column in columns.items()}, tally
    bins, wanted = _joined(strata), raking.margins(_joined(before))
    picked = raking.chosen(raking.raked(bins, wanted), n, float(key.child("chosen rows").numpy().random()))
    picked = raking.balanced(picked, bins, wanted)
    sizes = {name: len(shares) for name, shares in wanted.items()}
    found = raking.margins({name: each[picked] for name, each in bins.items()}, sizes=sizes)
    shift = max(float(np.abs(found[name] - wanted[name]).max()) for name in wanted)
    return {name: column[picked] for name, column in columns.items()}, dataclasses.replace(tally, shift=shift)


def _joined(parts: Sequence[Mapping[str, NDArray]]) -> dict[str, NDArray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


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
