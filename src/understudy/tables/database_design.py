"""The design of a model of a database: which columns each table is modelled with, and from what they are drawn.

Every table is modelled as one flat table. Its own columns are drawn given its *context*: the columns of its ancestors,
how many siblings there are, its rank among them, and what the earlier siblings were like: the last row, and of the
rows so far the means of numbers and the shares of categories. Beside its own columns a table has one for each of its
children, hidden, that holds how many there are. A history has two more for its order: where it begins (in a first row)
and the distance from the row before.

The one rule: everything here follows from the schema, so it is public. Arrays of values become those of the design by
`Design.measured`, at the door and before they are locked; drawn ones become values again by `Design.moment` and
`Design.restored`.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.tables.column import DAY, Column
from understudy.tables.database_context import PLACES, Arrays, Context, Whole, context_cells, years
from understudy.tables.database_schema import AgeRule, DatabaseSchema, LinkRule
from understudy.tables.differences import Difference, differences, modelled
from understudy.tables.differences import measured as with_differences
from understudy.tables.joint_columns import JointColumn, joined, joint_columns, with_joints
from understudy.tables.rules import Inequality
from understudy.tables.schema import Schema
from understudy.tables.second_keys import SecondKey, second_keys
from understudy.tables.table_schema import TableSchema

MOST_CONTEXT = 40
"""A table is drawn given at most so many columns: first the shares are left out, then the means, then ancestors
beyond the parent."""

MOST_SHARED = 4
"""Of a category with at most so many public values a row sees the shares among its earlier siblings. Every share adds
to the noise of all second moments: with up to 8 values the hospital lost 0.02 of its score on one of two splits."""

LEARNED_ROWS = 3.0
"""A table of children is learned from about so many rows of a unit at ε = 1: `learned_rows` has the rule."""

PLANNED_UNITS = 8_000
"""Batches of children are planned for so many units, each with all rows that are learned from."""


@dataclasses.dataclass(frozen=True)
class History:
    """How the order of a history is modelled.

    Attributes:
        column: The column that orders it.
        start: The hidden column of the parent that holds it for its first row, and is missing without one.
        gap: The hidden column that holds the distance from the row before, and is missing in first rows.
        base: The column of the row before that it is reckoned from: itself, or one that a rule names.
        unit: The length of one step of the gap on the scale of a table.
    """

    column: str
    start: Column
    gap: Column
    base: str
    unit: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Design:
    """How one table is modelled.

    Attributes:
        table: The table.
        ancestors: The names of those it hangs on, the root first.
        values: The schema of its own columns; None if it has none.
        own: The schema of what is drawn: its columns, differences in place of some, and the hidden ones.
        context: What it is drawn given.
        counts: For each child, the hidden column that says how many there are.
        starts: For each child with an order, the hidden column that says where it begins.
        history: If it has an order.
        rules: Inequalities with the parent's row or the row before.
        ages: Columns that are ages.
        max_rows: How many rows of one unit are learned from at most (`learned_rows`).
        unit: The name of the table of units.
        second_keys: Keys that lead to rows of other private tables, or of its own.
    """

    table: TableSchema
    ancestors: tuple[str, ...]
    values: Schema | None
    own: Schema
    context: tuple[Context, ...]
    counts: Mapping[str, str]
    history: History | None
    rules: tuple[LinkRule, ...]
    ages: tuple[AgeRule, ...]
    max_rows: int
    unit: str
    second_keys: tuple[SecondKey, ...] = ()
    starts: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def flat(self) -> Schema:
        """The schema that a method is fitted to: the context first, then what is drawn."""
        columns = (*(each.column for each in self.context), *self.own.columns)
        return dataclasses.replace(self.own, columns=columns, rows=self._planned_rows)

    @property
    def _planned_rows(self) -> int | None:
        """The number of rows that batches are planned for; of a table of children a fixed one.

        A batch has room for the most rows of every unit in it, used or not.
        """
        return PLANNED_UNITS * self.max_rows if self.ancestors else self.own.rows

    @functools.cached_property
    def differences(self) -> tuple[Difference, ...]:
        return () if self.values is None else differences(self.values)

    @functools.cached_property
    def joints(self) -> tuple[JointColumn, ...]:
        """Columns that are modelled as one, since they hold the key of a public table together."""
        return () if self.values is None else joint_columns(self.values, self.table.public_groups)

    @property
    def early(self) -> tuple[str, ...]:
        """What is known of a row before the rest is drawn: the order of a history, and ages that follow from it."""
        if self.history is None:
            return ()
        ages = [each.column for each in self.ages if each.at == self.history.column]
        return self.history.gap.name, self.history.column, *ages

    @property
    def derived(self) -> tuple[str, ...]:
        """What follows from the order of a history and is never drawn: the order itself, and ages."""
        return self.early[1:]

    @property
    def drawn(self) -> tuple[str, ...]:
        """The columns that are drawn."""
        return tuple(name for name in self.own.names if name not in self.derived)

    # From values ------------------------------------------------------------------------------------------------------

    def measured(
        self, values: Arrays, previous: Whole, children: Mapping[str, Whole], starts: Arrays
    ) -> dict[str, NDArray[Any]]:
        """The columns of `own` from values of rows that are sorted by parent and rank.

        Args:
            previous: The place of the row before; -1 for a first row.
            children: For each child, how many of its rows hang on every row.
            starts: For each child with an order, that of the first of them.
        """
        found = with_differences(values, self.differences) | joined(values, self.joints)
        first = previous < 0
        if self.history is not None:
            order = values[self.history.column]
            gap = (order - values[self.history.base][previous]) / self.history.unit
            found[self.history.gap.name] = np.where(first, np.nan, gap)
        for child, name in self.counts.items():
            found[name] = children[child].astype(np.float64)
        found |= {name: starts[child] for child, name in self.starts.items()}
        if self.values is None and not self.counts and not self.second_keys:
            found[self.own.names[0]] = np.zeros(len(previous), np.int64)
        return {name: found[name] for name in self.own.names if name in found}

    def context_of(
        self, own: Arrays, ancestors: Mapping[str, Arrays], rank: Whole, siblings: Whole, previous: Whole
    ) -> dict[str, NDArray[Any]]:
        """The context of rows that are sorted by parent and rank.

        Args:
            own: Their columns, as `measured` has them.
            ancestors: The columns of each row's ancestors, by table.
        """
        return context_cells(self.context, own, ancestors, rank, siblings, previous)

    # Back to values ---------------------------------------------------------------------------------------------------

    def moment(self, drawn: Arrays, before: Arrays | None, parent: Arrays) -> dict[str, NDArray[Any]]:
        """The order of drawn rows, and the ages that follow from it.

        Args:
            drawn: The start of first rows, the gap of others.
            before: The values of the rows before; None for first rows.
            parent: The values of the parents' rows.
        """
        assert self.history is not None  # else there is no order
        column = self.table[self.history.column]
        if before is None:
            order = drawn[self.history.start.name]
        else:
            order = before[self.history.base] + drawn[self.history.gap.name] * self.history.unit
        order = self.within_rules(column, order, before, parent)
        return {column.name: order, **self.ages_at({column.name: order}, parent)}

    def within_rules(
        self, column: Column, cells: NDArray[Any], before: Arrays | None, parent: Arrays
    ) -> NDArray[np.float64]:
        """Cells moved as far as the bounds of a column and its rules with other rows require."""
        low, high = column.bounds
        found = np.clip(cells, low, high) if low is not None or high is not None else np.array(cells)
        for rule in (each for each in self.rules if each.column == column.name):
            if rule.previous and before is None:
                continue
            base = (before if rule.previous and before is not None else parent)[rule.base]
            step = (column.step or 0.0) * rule.strict
            found = np.fmax(found, base + step) if rule.rises else np.fmin(found, base - step)
        return np.where(np.isnan(cells), np.nan, found)

    def ages_at(self, values: Arrays, parent: Arrays) -> dict[str, NDArray[np.float64]]:
        """The ages that follow from dates that are known."""
        return {
            each.column: np.clip(years(parent[each.birth], values[each.at]), *self.table[each.column].bounds)
            for each in self.ages
            if each.at in values
        }


def learned_rows(most: int, epsilon: float) -> int:
    """How many rows of one unit a table is learned from, chosen at random, if a unit may have so many: m = 3 √ε.

    The noise of every mechanism grows with m, as m / ε. The rows of a unit that has k weigh min(1, m / k) each: m = 1
    is weighting by 1 / k, units count alike however many rows they have, and long histories are hardly seen; with all
    of them rows count alike. What is drawn is drawn given the number of siblings, which makes up for the weights as far
    as the model can tell families by it; what is left falls about as 1 / m. a / m + b m / ε is least at m ∝ √ε.
    """
    return min(most, max(1, round(LEARNED_ROWS * math.sqrt(epsilon))))


def designs(schema: DatabaseSchema, epsilon: float = 1.0, *, shares: bool = False) -> dict[str, Design]:
    """The designs of all private tables, parents first, for a fit with this ε.

    Args:
        shares: Whether rows are drawn given shares of categories of their earlier siblings.
    """
    made: dict[str, Design] = {}
    for name in schema.private:
        made[name] = _design(schema, name, made, epsilon, shares)
    return made


def _design(schema: DatabaseSchema, name: str, made: Mapping[str, Design], epsilon: float, shares: bool) -> Design:
    table = schema[name]
    values = _values(table)
    history = _history_of(schema, name)
    counts = {child: f"number of {child}" for child in schema.children(name)}
    joints = joint_columns(values, table.public_groups) if values is not None else ()
    columns = with_joints(modelled(values).columns, joints) if values is not None else []
    hidden = [
        Column(name=column, kind="integer", low=0, high=int(schema[child].max_per_parent or 1))
        for child, column in counts.items()
    ]
    begun = {child: found for child in counts if (found := _history_of(schema, child)) is not None}
    hidden += [each.start for each in begun.values()]
    ages = tuple(each for each in schema.age_rules if each.table == name)
    if history is not None:
        early = [history.column, *(each.column for each in ages if each.at == history.column)]
        columns = [history.gap, *sorted(columns, key=lambda each: each.name not in early)]
    ancestors = schema.path(name)[:-1]
    learned = learned_rows(schema.max_rows(name), epsilon)
    unit = {"unit": f"unit of {name}", "max_rows_per_unit": learned} if ancestors else {}
    seconds = second_keys(table, schema.tables)
    hidden += [column for each in seconds for column in each.hidden]
    every = (*columns, *hidden) or (Column(name=f"rows of {name}", kind="categorical", values=("one",)),)
    own = Schema(columns=every, name=name, rows=None if ancestors else table.rows, **unit)
    return Design(
        table=table,
        ancestors=ancestors,
        values=values,
        own=own,
        context=_context(schema, table, own, history, made, seconds, with_shares=shares) if ancestors else (),
        counts=counts,
        history=history,
        rules=tuple(rule for rule in schema.link_rules if rule.table == name),
        ages=ages,
        max_rows=learned,
        unit=schema.unit,
        second_keys=seconds,
        starts={child: each.start.name for child, each in begun.items()},
    )


def _values(table: TableSchema) -> Schema | None:
    """The schema of a table's columns; the order of a history is never a difference, so its rules may be rejected."""
    if not table.columns:
        return None
    schema = table.schema
    if table.order not in {each.column for each in differences(schema)}:
        return schema
    rules = [
        dataclasses.replace(rule, by="rejection")
        if isinstance(rule, Inequality) and table.order in (rule.left, rule.right)
        else rule
        for rule in schema.constraints
    ]
    return dataclasses.replace(schema, constraints=tuple(rules))


def _history_of(schema: DatabaseSchema, name: str) -> History | None:
    table, rules = schema[name], [rule for rule in schema.link_rules if rule.table == name]
    if table.order is None:
        return None
    column = table[table.order]
    base, strict = column.name, False
    for rule in rules:
        if rule.previous and rule.column == column.name and rule.rises and table[rule.base].kind == column.kind:
            base, strict = rule.base, rule.strict
    low, high = column.bounds
    wide = None if low is None or high is None else high - (table[base].bounds[0] or low)
    unit = DAY if column.kind == "date" else 1.0
    if column.kind in ("date", "integer"):
        most = None if wide is None else max(int(wide // unit), int(strict) + 1)
        gap = Column(name=f"{column.name} since", kind="integer", low=int(strict), high=most, nullable=True)
    else:
        gap = Column(name=f"{column.name} since", kind="continuous", low=0.0, high=wide, nullable=True)
    start = dataclasses.replace(column, name=f"first {column.name} of {name}", nullable=True)
    return History(column.name, start, gap, base, unit)


def _context(
    schema: DatabaseSchema,
    table: TableSchema,
    own: Schema,
    history: History | None,
    made: Mapping[str, Design],
    seconds: tuple[SecondKey, ...],
    *,
    with_shares: bool,
) -> tuple[Context, ...]:
    parents, farther, means = list[Context](), list[Context](), list[Context]()
    shares = list[Context]()
    for ancestor in schema.path(table.name)[:-1]:
        hidden = made[ancestor].history
        skipped = {made[ancestor].counts.get(schema.path(table.name)[len(schema.path(ancestor))])}
        skipped |= set() if hidden is None else {hidden.gap.name}
        skipped |= {column.name for each in made[ancestor].second_keys for column in each.hidden}
        for column in made[ancestor].own:
            if column.name not in skipped and len(column.values or "ab") > 1:
                named = dataclasses.replace(column, name=f"{ancestor}.{column.name}", atoms=())
                found = Context("ancestor", named, ancestor, column.name)
                (parents if ancestor == table.parent else farther).append(found)
    most = int(table.max_per_parent or 1)
    places, last = list[Context](), list[Context]()
    if most > 1:
        for kind, (low, high) in PLACES.items():
            bounds = {"low": low, "high": 1 if high is None else most - 1 + low}
            places.append(Context(kind, Column(name=f"{kind} of it", kind="integer", **bounds), table.name))
        hidden = set() if history is None else {history.gap.name}
        hidden |= {column.name for each in seconds for column in each.hidden}
        for column in own:
            if column.name in hidden or len(column.values or "ab") < 2:
                continue
            before = dataclasses.replace(column, name=f"previous.{column.name}", nullable=True, atoms=())
            last.append(Context("previous", before, table.name, column.name))
            if column.is_numeric and not column.is_instant and (history is None or column.name != history.column):
                low, high = column.bounds
                mean = Column(name=f"mean.{column.name}", kind="continuous", low=low, high=high, nullable=True)
                means.append(Context("mean", mean, table.name, column.name))
            shares += _shares(column, table.name) if with_shares else []
    found = [*parents, *places, *last]
    for more in (farther, means):
        if len(found) + len(more) <= MOST_CONTEXT:
            found += more
    if all(each in found for each in means) and len(found) + len(shares) <= MOST_CONTEXT:
        found += shares
    return tuple(found)


def _shares(column: Column, table: str) -> list[Context]:
    """The shares of a column's public categories, all but the first: it has what the others leave."""
    labels = ("false", "true") if column.kind == "boolean" else column.labels or ()
    if len(labels) > MOST_SHARED:
        return []
    found = []
    for code in range(1, len(labels)):
        share = Column(name=f"share.{column.name}.{code}", kind="continuous", low=0.0, high=1.0, nullable=True)
        found.append(Context("share", share, table, column.name, code))
    return found
