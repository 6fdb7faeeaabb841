"""What the encoder measures: the planned mechanisms, their names and their shares of the budget.

The one rule: the names of these mechanisms stand here and nowhere else. Whoever needs the noise of a column's counts
asks `single_column_noise`.
"""

import math
import string
from typing import Literal

from understudy.privacy.ancestors import Ancestor
from understudy.privacy.counts import selection_sensitivity, threshold
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Charge, PlannedMechanism
from understudy.tables.column import Column
from understudy.tables.schema import Schema

ROWS = "rows"
# A number column is counted three times, over finer and finer bins: the counts find its values, resolve their spread
# and refine it. These are the shares of the three rounds. Two rounds see less of small separate groups, four have too
# much noise in each (docs/design-notes.md).
ROUNDS = {"find": 0.3, "resolve": 0.3, "refine": 0.4}
SELECT = "select"
COUNT_SELECTED = "count selected"
COUNT = "count"
CONTEXT = "context"

# This share of an open category column's budget finds out which categories it has; the rest counts them.
SELECTION_SHARE = 0.3
# The number of rows gets this share of the encoder's budget, unless the schema gives it.
ROW_COUNT_SHARE = 0.01
# All selections of categories together may spend this share of delta.
THRESHOLD_DELTA = 0.1

FIRST_CHARACTERS = string.digits + string.ascii_letters
"""What a code may begin with. Groups by another first character are selected like any category."""

Measurement = Literal["numeric", "listed", "open"]
_COUNTED_AS: dict[Measurement, tuple[str, ...]] = {
    "numeric": tuple(ROUNDS),
    "listed": (COUNT,),
    "open": (COUNT_SELECTED,),
}


def measurement_of(column: Column) -> Measurement:
    """How a column is measured: as a number, or as categories that the schema lists or leaves open."""
    if column.is_numeric:
        return "numeric"
    return "open" if column.kind == "categorical" and column.values is None else "listed"


def counted_as(column: Column) -> tuple[str, ...]:
    """The planned mechanisms that count a column's values."""
    return _COUNTED_AS[measurement_of(column)]


def single_column_noise(column: Column, ledger: Ledger, *, unit_bound: float | None = None) -> float:
    """The standard deviation of a column's measured counts, in rows: that of a bin counted by every mechanism.

    Args:
        unit_bound: The norm of what a unit adds to a count at most; None if each of its rows counts one.
    """
    counted = (CONTEXT,) if column.name in ledger.context else counted_as(column)
    precision = sum(ledger.noise(name) ** -2 for name in counted)
    sensitivity = ledger.max_rows_per_unit if unit_bound is None else unit_bound
    return sensitivity * precision**-0.5


def selections(column: Column) -> int:
    """How many selections of categories a column needs: one if it is open, and one for each level above."""
    if measurement_of(column) != "open":
        return 0
    return 1 + (column.levels.depth if column.levels is not None else 0)


def ancestors(column: Column) -> tuple[Ancestor, ...]:
    """The public groups that a rare category of a column falls back to, the narrowest first."""
    if column.levels is None:
        return ()
    if column.levels.lengths:
        return tuple(Ancestor(length=length) for length in reversed(column.levels.lengths))
    return tuple(Ancestor(parents=column.levels.parents, steps=step + 1) for step in range(column.levels.depth))


def public_labels(column: Column, level: int) -> tuple[str, ...]:
    """The categories, or the groups so many levels up, that the schema itself names.

    A table of parents lists them. The first character of a code is a digit or a letter.
    """
    if column.levels is None:
        return ()
    if column.levels.lengths:
        return tuple(FIRST_CHARACTERS) if level and column.levels.lengths[-level] == 1 else ()
    children = [child for child, _ in column.levels.parents]
    return tuple(dict.fromkeys(ancestors(column)[level - 1].of(children) if level else children))


def rows_to_be_seen(schema: Schema, charge: Charge) -> dict[str, int]:
    """For each open column, how many units (rows, if each is one) need a category or a group for half of all fits."""
    if charge.name != SELECT:
        return {}
    most = schema.max_rows_per_unit or 1
    limit = 1 + threshold(charge.noise_multiplier * selection_sensitivity(most), charge.threshold_delta / most)
    return {column.name: math.ceil(limit) for column in schema if selections(column)}


def plan(schema: Schema, *, share: float, delta: float) -> list[PlannedMechanism]:
    """What the encoder will measure with `share` of the whole budget.

    It is divided evenly among the columns, but every level of a column's categories adds the share of a selection, so
    that a further level makes none of the others noisier than those of another column.
    """
    kinds = [measurement_of(column) for column in schema]
    numeric, listed, unlisted = (kinds.count(kind) for kind in ("numeric", "listed", "open"))
    selected = sum(map(selections, schema))
    each = share / (len(schema) + SELECTION_SHARE * (selected - unlisted))
    planned: list[PlannedMechanism] = []
    if schema.rows is None:
        planned.append(_counts(ROWS, share=ROW_COUNT_SHARE * share))
    if numeric:
        planned += [_counts(name, share=part * each * numeric, times=numeric) for name, part in ROUNDS.items()]
    if unlisted:
        select = PlannedMechanism(
            name=SELECT,
            mechanism="gaussian threshold",
            share=SELECTION_SHARE * each * selected,
            times=selected,
            threshold_delta=THRESHOLD_DELTA * delta / selected,
        )
        count = _counts(COUNT_SELECTED, share=(1 - SELECTION_SHARE) * each * unlisted, times=unlisted)
        planned += [select, count]
    if listed:
        planned.append(_counts(COUNT, share=each * listed, times=listed))
    return planned


def context_plan(columns: int, *, share: float) -> list[PlannedMechanism]:
    """What is measured of so many columns that a table is drawn given: one count of each (context.py)."""
    return [_counts(CONTEXT, share=share, times=columns)] if columns else []


def _counts(name: str, *, share: float, times: int = 1) -> PlannedMechanism:
    return PlannedMechanism(name=name, mechanism="discrete gaussian", share=share, times=times)
