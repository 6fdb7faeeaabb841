"""Predicates that single out one row: guessed from a synthetic table, tried on a table of people.

A predicate is a synthetic row's values in some columns: the same category, a number at least as far out on its side of
the median, a missing value. Only predicates that one synthetic row alone fulfils are tried. The guess is right if they
hold for exactly one person.

Source: Giomi et al. (2023), "A unified framework for quantifying privacy risk in synthetic data", PoPETs.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from understudy.evaluation.pair import Side

FEWEST, MOST = 2, 10
"""A predicate is about at least and at most so many columns; the longer a table, the more it takes to be alone."""
TRIES = 20
"""At most so many synthetic rows are tried for each predicate that is wanted."""


@dataclasses.dataclass(frozen=True, eq=False)
class Predicate:
    """Conditions on some columns: (column, value, side), the side 0 for "equal", 1 for "at least", -1 for "at most"."""

    conditions: tuple[tuple[str, float, int], ...]

    def matches(self, side: Side) -> int:
        """How many rows fulfil all conditions."""
        rows: NDArray[np.int64] | None = None
        for name, value, direction in self.conditions:
            column = side.codes[name] if name in side.codes else side.numbers[name]
            kept = _holds(column if rows is None else column[rows], value, direction)
            rows = np.flatnonzero(kept) if rows is None else rows[kept]
        return 0 if rows is None else len(rows)


def _holds(column: NDArray, value: float, direction: int) -> NDArray[np.bool_]:
    if np.isnan(value):
        return np.isnan(column)
    if direction == 0:
        return column == value
    return column >= value if direction > 0 else column <= value


def predicates(synthetic: Side, count: int, draw: np.random.Generator) -> list[Predicate]:
    """At most so many distinct predicates, each of which holds for one synthetic row alone."""
    names = [*synthetic.numbers, *synthetic.codes]
    medians = {name: _median(column) for name, column in synthetic.numbers.items()}
    found: dict[tuple[tuple[str, float, int], ...], Predicate] = {}
    for _ in range(TRIES * count):
        if len(found) == count:
            break
        row = int(draw.integers(synthetic.rows))
        size = int(draw.integers(min(FEWEST, len(names)), min(MOST, len(names)) + 1))
        chosen = draw.choice(len(names), size, replace=False).tolist()
        conditions = []
        for name in (names[i] for i in sorted(chosen)):
            if name in synthetic.codes:
                conditions.append((name, float(synthetic.codes[name][row]), 0))
            else:
                value = float(synthetic.numbers[name][row])
                conditions.append((name, value, 1 if value >= medians[name] else -1))
        guess = Predicate(tuple(conditions))
        if guess.matches(synthetic) == 1:
            found[guess.conditions] = guess
    return list(found.values())


def _median(column: NDArray[np.float64]) -> float:
    present = column[~np.isnan(column)]
    return float(np.median(present)) if len(present) else 0.0
