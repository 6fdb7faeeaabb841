"""Tables for replays: small ones made from a schema alone, each with neighbours that have one unit more.

The one rule: no row of anybody is in here. Everything follows from the schema's public facts and from a fixed seed.

They are hard on mechanisms, so that sensitivities are reached: rows all alike, of which a unit's differ in every
column (the dependence of two columns moves most then); values at the ends of the bounds and far beyond them; cells that
are missing; categories that nobody else has; and, if the schema has a unit, as many rows as a unit may have, and more.
"""

import dataclasses
import datetime
import math
from typing import Any

import numpy as np
import polars as pl

from understudy.tables.column import DAY, Column
from understudy.tables.schema import Schema

UNITS = 48
"""Units of a table: enough for every mechanism to have something to measure, and few enough to be fast."""
OPEN_LABELS = ("ash", "beech", "cedar")
"""Categories of a column whose values the schema does not give."""
UNHEARD = "a label that nobody else has"
FAR = 1e300
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST, _LAST = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)
TYPES: dict[str, Any] = {
    "continuous": pl.Float64,
    "integer": pl.Float64,
    "boolean": pl.Boolean,
    "datetime": pl.Datetime("us"),
    "date": pl.Date,
    "categorical": pl.String,
}


@dataclasses.dataclass(frozen=True, eq=False)
class ReplayTables:
    """A table and its neighbours.

    Attributes:
        name: What is special about it.
        table: Without the unit.
        neighbours: By what is special about their unit: the same table with the rows of one more unit, at its end.
    """

    name: str
    table: pl.DataFrame
    neighbours: dict[str, pl.DataFrame]


def small(schema: Schema) -> Schema:
    """The schema with the number of rows that these tables have, if it gives one."""
    return schema if schema.rows is None else dataclasses.replace(schema, rows=UNITS)


def replay_tables(schema: Schema, *, units: int = UNITS) -> list[ReplayTables]:
    """The tables of a schema: rows spread over all values, and rows all alike."""
    spread = _with_units(_spread(schema, units), schema)
    alike = _with_units(_alike(schema, units), schema)
    return [_with_neighbours("spread", spread, schema), _with_neighbours("alike", alike, schema)]


def _with_neighbours(name: str, table: pl.DataFrame, schema: Schema) -> ReplayTables:
    last = table.tail(1)
    most = schema.max_rows_per_unit or 1
    extra = {
        "a copy": last,
        "lowest values": _frame(schema, {column.name: [_end(column, 0)] for column in schema}),
        "highest values": _frame(schema, {column.name: [_end(column, 1)] for column in schema}),
        "far below": _frame(schema, {column.name: [_far(column, -1)] for column in schema}),
        "far above": _frame(schema, {column.name: [_far(column, 1)] for column in schema}),
        "missing": _frame(schema, {column.name: [None] for column in schema}),
    }
    made: dict[str, pl.DataFrame] = {}
    for what, row in extra.items():
        made[what] = _joined(table, pl.concat([row.select(schema.names)] * most), schema)
    new = [_frame(schema, {column.name: [_unheard(column, i)] for column in schema}) for i in range(most)]
    made["a new category"] = _joined(table, pl.concat(new), schema)
    if schema.unit is not None:
        several = pl.concat([row.select(schema.names) for row in extra.values()] * most)
        made["rows of every kind"] = _joined(table, several.head(most), schema)
        made["too many rows"] = _joined(table, pl.concat([several] * 2), schema)
    return ReplayTables(name, table, made)


def _joined(table: pl.DataFrame, rows: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """A table with the rows of one more unit, whose name sorts behind all others."""
    if schema.unit is None:
        return pl.concat([table, rows])
    return pl.concat([table, rows.with_columns(pl.lit("z").alias(schema.unit))])


def _with_units(table: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The table with a unit for every row but a few, which share one as far as a unit may have rows."""
    if schema.unit is None:
        return table
    most = schema.max_rows_per_unit or 1
    whose = [i // min(most, 2) if i < table.height // 2 else i for i in range(table.height)]
    return table.with_columns(pl.Series(schema.unit, [f"u{i:05}" for i in whose]))


def _frame(schema: Schema, cells: dict[str, list[Any]]) -> pl.DataFrame:
    return pl.DataFrame({c.name: pl.Series(c.name, cells[c.name], dtype=TYPES[c.kind]) for c in schema})


def _spread(schema: Schema, units: int) -> pl.DataFrame:
    """Rows over all values, columns independent, with a missing cell now and then where the schema allows it."""
    draw = np.random.default_rng(0)
    cells: dict[str, list[Any]] = {}
    for column in schema:
        levels = draw.permutation((np.arange(units) + 0.5) / units)
        cells[column.name] = [_value(column, level) for level in levels]
        if column.nullable:
            cells[column.name][:: max(3, units // 6)] = [None] * len(range(0, units, max(3, units // 6)))
    return _frame(schema, cells)


def _alike(schema: Schema, units: int) -> pl.DataFrame:
    return _frame(schema, {column.name: [_value(column, 0.25)] * units for column in schema})


def _value(column: Column, level: float) -> Any:
    """The value of a column at a level between 0 and 1; atoms, if there are any, at the lowest levels."""
    if column.kind == "boolean":
        return level > 0.5
    if column.kind == "categorical":
        labels = column.values or OPEN_LABELS
        return labels[min(int(level * len(labels)), len(labels) - 1)]
    if column.atoms and level < 0.2:
        return column.atoms[int(5 * level * len(column.atoms)) % len(column.atoms)]
    low, high = _bounds(column)
    number = low + level * (high - low)
    if column.is_instant:
        return _instant(column, number)
    return float(round(number)) if column.kind == "integer" else number


def _bounds(column: Column) -> tuple[float, float]:
    """The bounds on the scale of a table; where the schema gives none, a hundred units or ten years apart."""
    low, high = column.bounds
    width = 3650 * DAY if column.is_instant else 100.0
    if low is None:
        low = 0.0 if high is None else high - width
    return low, (low + width if high is None else high)


def _instant(column: Column, microseconds: float) -> datetime.date:
    farthest = (_LAST - _EPOCH) // datetime.timedelta(microseconds=1)
    least = (_FIRST - _EPOCH) // datetime.timedelta(microseconds=1)
    at = _EPOCH + datetime.timedelta(microseconds=int(min(max(microseconds, least), farthest)))
    return at.date() if column.kind == "date" else at


def _end(column: Column, end: int) -> Any:
    """The lowest value of a column, or the highest."""
    if column.is_numeric:
        number = _bounds(column)[end]
        return _instant(column, number) if column.is_instant else number
    return _value(column, float(end))


def _far(column: Column, sign: int) -> Any:
    """A value far outside of the bounds, as far as the kind goes."""
    if column.is_instant:
        return _instant(column, sign * math.inf)
    return sign * FAR if column.is_numeric else _end(column, int(sign > 0))


def _unheard(column: Column, number: int) -> Any:
    """A category that nobody else has, and no other row; a number that is none."""
    if column.kind == "categorical":
        return f"{UNHEARD}, number {number}"
    return math.nan if column.kind in ("continuous", "integer") else _end(column, 0)


def value_at(column: Column, place: float | int | str) -> Any:
    """A value of a column: at a level between 0 and 1, at an end ("low", "high") or beyond it ("below", "above").

    A whole number stands for a category that nobody else has, one for each number.
    """
    if isinstance(place, str):
        ends = {"low": (_end, 0), "high": (_end, 1), "below": (_far, -1), "above": (_far, 1)}
        find, which = ends[place]
        return find(column, which)
    return _unheard(column, place) if isinstance(place, int) else _value(column, place)
