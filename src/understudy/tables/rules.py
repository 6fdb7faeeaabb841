"""Rules: what holds in every row of a synthetic table.

The one rule: nothing here is learned. The owner writes a constraint into the schema from knowledge of the subject, no
row is read to find it, and holding synthetic rows to it is post-processing, which costs no privacy.

A rule says nothing about a row in which one of its cells is missing. Numbers compare as they are shown: whole numbers
as whole numbers, instants to the microsecond, categories by their text.
"""

import dataclasses
import math
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.tables.values import Value, on_table_scale, show_plain

Mask = NDArray[np.bool_]
Written = dict[str, Any]
"""A constraint as a TOML table."""

BROKEN_BY = {">=": operator.lt, ">": operator.le, "<=": operator.gt, "<": operator.ge}
"""For each relation of an inequality, the comparison that is true of the rows that break it."""
_BARE_NAME = re.compile(r"""[^"'<>=+\s](?:[^"'<>=+]*[^"'<>=+\s])?""")
_MOST_SHOWN = 5
"""How many values a rule lists when it is printed; more are counted."""


@dataclasses.dataclass(frozen=True, eq=False)
class SyntheticRows:
    """Synthetic rows that are checked against rules.

    Attributes:
        columns: Arrays in the form of a `Table`: numbers with NaN for a missing cell, categories as codes with -1.
        labels: The text of the codes.
        strata: For each measured column, the bin of every row; margins over them are kept when rows are rejected.
        drawn: The same of columns that were computed after they were drawn, as they were drawn: their margins are
            those that the computed ones should have.
    """

    columns: Mapping[str, NDArray]
    labels: Mapping[str, Sequence[str]]
    strata: Mapping[str, NDArray] = dataclasses.field(default_factory=dict)
    drawn: Mapping[str, NDArray] = dataclasses.field(default_factory=dict)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column as numbers, NaN where the cell is missing."""
        cells = self.columns[name]
        return np.where(cells < 0, np.nan, cells) if np.issubdtype(cells.dtype, np.integer) else cells

    def number(self, name: str, value: Value) -> float:
        """The number that stands for a public value in `numbers(name)`; NaN, which equals nothing, if it is unknown."""
        if isinstance(value, str):
            labels = list(self.labels[name])
            return float(labels.index(value)) if value in labels else math.nan
        return on_table_scale(value)


@dataclasses.dataclass(frozen=True)
class Condition:
    """A condition on one cell: it is one of some values, lies within bounds, or is missing.

    Attributes:
        column: The column of the cell.
        values: Categories or truth values, one of which the cell holds.
        low, high: Bounds of a number or an instant, both included; None is open.
        missing: Whether the cell is missing instead.
    """

    column: str
    values: tuple[Value, ...] = ()
    low: Value | None = None
    high: Value | None = None
    missing: bool = False

    def holds(self, rows: SyntheticRows) -> Mask:
        """Which rows meet it. A missing cell meets no condition but `missing`."""
        cells = rows.numbers(self.column)
        if self.missing:
            return np.isnan(cells)
        if self.values:
            return np.isin(cells, [rows.number(self.column, value) for value in self.values])
        met = ~np.isnan(cells)
        if self.low is not None:
            met &= cells >= on_table_scale(self.low)
        if self.high is not None:
            met &= cells <= on_table_scale(self.high)
        return met

    def bounds(self) -> dict[str, Value]:
        """The bounds that are given, by their keys."""
        return {key: bound for key, bound in (("low", self.low), ("high", self.high)) if bound is not None}

    def written(self) -> Value | list[Value] | dict[str, Value] | None:
        """The condition as `when` writes it in TOML."""
        if self.values:
            return self.values[0] if len(self.values) == 1 else list(self.values)
        return self.low if self.low == self.high else self.bounds()

    def __str__(self) -> str:
        if self.missing:
            return f"{self.column} is missing"
        if self.values:
            few = len(self.values) <= _MOST_SHOWN
            shown = " or ".join(map(show_plain, self.values)) if few else f"one of {len(self.values)} values"
            return f"{self.column} = {shown}"
        if self.low == self.high:
            return f"{self.column} = {show_plain(self.low)}"
        if self.low is None or self.high is None:
            return f"{self.column} {'<=' if self.low is None else '>='} {show_plain(*self.bounds().values())}"
        return f"{self.column} from {show_plain(self.low)} to {show_plain(self.high)}"


@dataclasses.dataclass(frozen=True)
class Inequality:
    """Two numbers or two instants of a row compare as `relation` says.

    Attributes:
        left, relation, right: A column, ">=", ">", "<=" or "<", and another column.
        by: How synthetic rows are held to it: by learning the "difference", or by "rejection".
    """

    left: str
    relation: str
    right: str
    by: str = "difference"

    def holds(self, rows: SyntheticRows) -> Mask:
        # No comparison with NaN is true, so a row with a missing cell breaks nothing.
        return ~BROKEN_BY[self.relation](rows.numbers(self.left), rows.numbers(self.right))

    def written(self) -> Written:
        return {"rule": str(self)} | ({} if self.by == "difference" else {"by": self.by})

    def __str__(self) -> str:
        return f"{quoted(self.left)} {self.relation} {quoted(self.right)}"


@dataclasses.dataclass(frozen=True)
class Implication:
    """If all conditions `when` hold, the condition `then` holds too; without conditions it always holds."""

    when: tuple[Condition, ...]
    then: Condition

    def holds(self, rows: SyntheticRows) -> Mask:
        kept = self.then.holds(rows) | np.isnan(rows.numbers(self.then.column))
        for condition in self.when:
            kept |= ~condition.holds(rows)
        return kept

    def written(self) -> Written:
        values = {"values": list(self.then.values)} if self.then.values else {}
        when = {condition.column: condition.written() for condition in self.when}
        return {"when": when, "column": self.then.column, **self.then.bounds(), **values}

    def __str__(self) -> str:
        return f"{self.then} when {' and '.join(map(str, self.when))}" if self.when else f"{self.then}, its bounds"


@dataclasses.dataclass(frozen=True)
class Combination:
    """The cells of some columns occur in listed combinations only."""

    columns: tuple[str, ...]
    allowed: tuple[tuple[Value, ...], ...]

    def holds(self, rows: SyntheticRows) -> Mask:
        # A combination is one number whose digits are its cells, each the place among the column's allowed values.
        listed = np.array(
            [[rows.number(*pair) for pair in zip(self.columns, row, strict=True)] for row in self.allowed]
        )
        listed = listed[~np.isnan(listed).any(axis=1)]
        cells = np.stack([rows.numbers(name) for name in self.columns])
        gone = np.asarray(np.isnan(cells).any(axis=0))
        if not len(listed):
            return gone
        found, wanted, known = np.zeros(len(gone), np.int64), np.zeros(len(listed), np.int64), ~gone
        for column, own in zip(cells, listed.T, strict=True):
            values, digit = np.unique(own, return_inverse=True)
            place = np.minimum(np.searchsorted(values, column), len(values) - 1)
            known &= values[place] == column
            # Numbers are renumbered after every digit, so that any number of columns fits into 64 bits.
            steps, wanted = np.unique(wanted * len(values) + digit, return_inverse=True)
            found = found * len(values) + place
            at = np.minimum(np.searchsorted(steps, found), len(steps) - 1)
            known &= steps[at] == found
            found = at
        return known | gone

    def written(self) -> Written:
        return {"columns": list(self.columns), "allowed": [list(row) for row in self.allowed]}

    def __str__(self) -> str:
        return f"{', '.join(map(quoted, self.columns))} among {len(self.allowed)} combinations"


@dataclasses.dataclass(frozen=True)
class Sum:
    """One number is the sum of others, added from left to right, to within a tolerance."""

    total: str
    parts: tuple[str, ...]
    tolerance: float = 0.0

    def enforced(self, rows: SyntheticRows) -> NDArray[np.float64]:
        """The totals: as drawn where the rule holds, else the sum of the parts. A missing total stays missing."""
        return np.where(self.holds(rows), rows.numbers(self.total), self._sum(rows))

    def holds(self, rows: SyntheticRows) -> Mask:
        total, sum_of_parts = rows.numbers(self.total), self._sum(rows)
        unknown = np.isnan(total) | np.isnan(sum_of_parts)
        return unknown | (np.abs(total - sum_of_parts) <= self.tolerance)

    def _sum(self, rows: SyntheticRows) -> NDArray[np.float64]:
        found = rows.numbers(self.parts[0])
        for name in self.parts[1:]:
            found = found + rows.numbers(name)
        return found

    def written(self) -> Written:
        rule = f"{quoted(self.total)} = {' + '.join(map(quoted, self.parts))}"
        return {"rule": rule, "tolerance": self.tolerance} if self.tolerance else {"rule": rule}

    def __str__(self) -> str:
        return self.written()["rule"] + (f", to within {self.tolerance:g}" if self.tolerance else "")


Constraint = Inequality | Implication | Combination | Sum
Rule = Constraint | Condition
"""Whatever a synthetic row can be checked against."""


def quoted(name: str) -> str:
    """A name as a rule spells it."""
    if _BARE_NAME.fullmatch(name):
        return name
    return f"'{name}'" if '"' in name else f'"{name}"'
