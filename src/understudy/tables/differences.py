"""Differences: columns that an inequality ties to another one, modelled by how far they lie from it.

`discharge >= admission` is kept by construction: a model learns admission and the difference, which is never negative,
and discharge is computed. So the stay has a learned distribution of its own. The one rule: everything here follows from
the schema. Which columns are replaced, and the bounds of their differences, are public; rows are mapped one by one
(`privacy.row_maps.Gap`), and no row is read to decide anything.

Inequalities form a graph. Each of its trees is rooted in a lowest column, the first of those that the schema lists, and
every other column of the tree is reckoned from its neighbour towards the root, so that all of the tree's inequalities
hold. An inequality that closes a circle, or ties a total of a sum, or two kinds without a common distance, is left to
rejection, and so is one of which the schema says so. The lowest column is the root because that keeps what is natural:
most amounts are sums of amounts, and a value that many rows share, such as zero, is mostly the lowest. Of dates it is
the one with the narrowest bounds, if all of the tree have bounds: ages added to births would spread the dates of
admission over decades.

Missing cells: a difference is missing if either cell is. If only the base may be missing, the other column never is; if
both may, a truth value beside the difference says whether the cell itself is missing, so that both shares of missing
cells survive. A value that is wanted where its difference is missing comes from another synthetic row.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.tables.column import DAY, Column
from understudy.tables.constraints import sums
from understudy.tables.rules import Inequality
from understudy.tables.schema import Schema
from understudy.tables.values import MAX_INTEGER

Arrays = Mapping[str, NDArray]


@dataclasses.dataclass(frozen=True)
class Difference:
    """A column that is reckoned from another: column = base + difference, or base - difference if it is the lower one.

    Attributes:
        column: The column that is replaced. Its difference has the same name.
        base: The column it is reckoned from.
        rises: Whether the column is the upper one of the two.
        unit: The length of one step of the difference on the scale of a `Table`.
        flag: The name of the truth value that says whether the cell is missing; None if it is not needed.
        gap: The column of the difference, with the bounds that follow from the schema.
    """

    column: str
    base: str
    rises: bool
    unit: float
    flag: str | None
    gap: Column

    @property
    def upper(self) -> str:
        return self.column if self.rises else self.base

    @property
    def lower(self) -> str:
        return self.base if self.rises else self.column


def differences(schema: Schema) -> tuple[Difference, ...]:
    """The columns of a schema that are modelled by a difference, each after the one it is reckoned from."""
    tied = _forest(schema)
    found: dict[str, Difference] = {}
    reached: set[str] = set()
    for name in sorted(tied, key=lambda name: (*_suits_as_root(schema, name, tied), schema.names.index(name))):
        waiting = [name] if name not in reached else []
        reached.update(waiting)
        while waiting:
            base = waiting.pop(0)
            for column, rule in tied[base]:
                if column not in reached:
                    reached.add(column)
                    waiting.append(column)
                    found[column] = _difference(schema, rule, column, base)
    return tuple(found.values())


def _suits_as_root(
    schema: Schema, name: str, tied: Mapping[str, Sequence[tuple[str, Inequality]]]
) -> tuple[float, bool]:
    """What makes a column the root of its tree, the best first: narrow bounds, then that it lies above no other."""
    bounds = [schema[each].bounds for each in _tree(name, tied)]
    low, high = schema[name].bounds
    if not schema[name].is_instant or low is None or high is None or any(None in pair for pair in bounds):
        return 0.0, _is_upper(name, tied)
    return high - low, _is_upper(name, tied)


def _tree(name: str, tied: Mapping[str, Sequence[tuple[str, Inequality]]]) -> set[str]:
    """The columns that inequalities tie to one, itself included."""
    found, waiting = {name}, [name]
    while waiting:
        beside = {column for column, _ in tied[waiting.pop()]} - found
        found |= beside
        waiting += beside
    return found


def _is_upper(name: str, tied: Mapping[str, Sequence[tuple[str, Inequality]]]) -> bool:
    """Whether a column lies above another one of its tree."""
    return any((rule.left == name) == (rule.relation[0] == ">") for _, rule in tied[name])


def _forest(schema: Schema) -> dict[str, list[tuple[str, Inequality]]]:
    """For every column, the ones that inequalities tie it to; without those that would close a circle."""
    totals = {each.total for each in sums(schema.constraints)}
    group = {name: name for name in schema.names}
    tied: dict[str, list[tuple[str, Inequality]]] = {}
    for rule in schema.constraints:
        if (
            not isinstance(rule, Inequality)
            or rule.by == "rejection"
            or {rule.left, rule.right} & totals
            or _modelled(schema, rule) is None
        ):
            continue
        first, second = group[rule.left], group[rule.right]
        if first != second:
            group = {name: first if own == second else own for name, own in group.items()}
            tied.setdefault(rule.left, []).append((rule.right, rule))
            tied.setdefault(rule.right, []).append((rule.left, rule))
    return tied


def modelled(schema: Schema) -> Schema:
    """The schema that a model is fitted to: differences in place of the columns they replace, and no constraints."""
    found = {each.column: each for each in differences(schema)}
    if not found:
        return schema
    columns: list[Column] = []
    order: list[str] = []
    for column in schema:
        if column.name in found:
            flag = found[column.name].flag
            columns += [] if flag is None else [Column(name=flag, kind="boolean")]
            columns.append(found[column.name].gap)
        else:
            columns.append(column)
    for name in schema.order:
        flag = found[name].flag if name in found else None
        order += [name] if flag is None else [flag, name]
    return dataclasses.replace(schema, columns=tuple(columns), order=tuple(order), constraints=())


def measured(columns: Arrays, found: Sequence[Difference]) -> dict[str, NDArray]:
    """Columns of a public table as `modelled` has them; what `privacy.row_maps` does with locked rows."""
    new = dict(columns)
    for each in found:
        new[each.column] = (columns[each.upper] - columns[each.lower]) / each.unit
        if each.flag is not None:
            new[each.flag] = np.isnan(columns[each.column]).astype(np.float64)
    return new


def restored(columns: Arrays, schema: Schema, found: Sequence[Difference], *, key: Key) -> dict[str, NDArray]:
    """Synthetic columns as the schema has them, from those that `modelled` has."""
    new = dict(columns)
    for each in found:
        column, base, gap = schema[each.column], new[each.base], columns[each.column]
        if each.flag is not None:
            wanted = new.pop(each.flag) == 0
        else:
            wanted = np.ones(len(gap), bool) if schema[each.base].nullable else ~np.isnan(gap)
        low, high = column.bounds
        value = base + gap * each.unit if each.rises else base - gap * each.unit
        draw = key.child(f"instead of {each.column}").numpy()
        full = np.flatnonzero(~np.isnan(value))
        lost = np.flatnonzero(wanted & np.isnan(value))
        if len(lost):
            value[lost] = value[draw.choice(full, len(lost))] if len(full) else (low or 0.0)
            # The base stands, so another row's difference is laid on it; where the base is missing, the value stays.
            steps = gap[draw.choice(full, len(lost))] * each.unit if len(full) else np.zeros(len(lost))
            laid = base[lost] + steps if each.rises else base[lost] - steps
            value[lost] = np.where(np.isnan(laid), value[lost], laid)
        value = np.clip(value, low, high) if low is not None or high is not None else value
        new[each.column] = np.where(wanted, value, np.nan)
    return new


def _difference(schema: Schema, rule: Inequality, column: str, base: str) -> Difference:
    gap = _modelled(schema, rule)
    assert gap is not None  # such rules are left out before
    may_be_missing = [schema[column].nullable, schema[base].nullable]
    gap = dataclasses.replace(gap, name=column, nullable=any(may_be_missing))
    return Difference(
        column=column,
        base=base,
        rises=(rule.left == column) == (rule.relation[0] == ">"),
        unit=DAY if schema[column].kind == "date" else 1.0,
        flag=_unused(f"{column} is missing", schema) if all(may_be_missing) else None,
        gap=gap,
    )


def _unused(name: str, schema: Schema) -> str:
    """The name, or a longer one if the schema has it already."""
    taken = {*schema.names, *schema.ignore, schema.unit}
    while name in taken:
        name += "'"
    return name


def _modelled(schema: Schema, rule: Inequality) -> Column | None:
    """The column of a difference, with the bounds that follow from the schema; None if there is none to model."""
    left, right = schema[rule.left], schema[rule.right]
    upper, lower = (left, right) if rule.relation[0] == ">" else (right, left)
    strict = len(rule.relation) == 1
    most, least = upper.bounds[1], lower.bounds[0]
    widest = None if most is None or least is None else most - least
    if left.is_instant and left.kind != right.kind:
        return None
    if left.kind == right.kind and left.kind in ("integer", "date"):
        high = None if widest is None else int(widest // (DAY if left.kind == "date" else 1))
        if high is not None and not int(strict) < high <= MAX_INTEGER:
            return None
        return Column(name="difference", kind="integer", low=int(strict), high=high)
    digits = [0 if column.kind == "integer" else column.decimals for column in (left, right)]
    decimals = None if left.is_instant or None in digits else max(each for each in digits if each is not None)
    low = 0.0 if not strict or decimals is None else 10.0**-decimals
    if widest is not None and widest <= low:
        return None
    return Column(name="difference", kind="continuous", low=low, high=widest, decimals=decimals)
