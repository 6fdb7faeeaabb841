"""Worst-case pairs of neighbouring tables, made from a schema alone or from simulated rows.

Each pair is a table of ordinary rows, and the same table with a group of canaries: units whose rows are all alike and
as far from the others as the schema allows, so that each moves what is released by the whole of its sensitivity. A
count moves by 1 wherever a canary is; a second moment moves by the whole clipping norm only if a canary lies far out.

Nothing here is private, and no table of anybody's is read.
"""

import dataclasses
import datetime
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from understudy.audit.simulated import Simulated
from understudy.tables.column import Column
from understudy.tables.schema import Schema

ORDINARY_ROWS = 400
"""Ordinary rows: enough that open categories are found and scores have tails, few enough to be fitted in no time."""
ROWS_PER_CANARY = 20
"""There are at least this many times as many ordinary rows as canaries' rows: what is rare lies far out."""
UNBOUNDED = 1000.0
"""Where a bound is not stated, values lie within this of zero or of the other bound."""
LABEL = "ordinary"
"""The category of every row in a column whose categories are not stated."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Worlds:
    """Two tables that differ by a group of units.

    Attributes:
        description: What the rows and the canaries are like.
        without: The ordinary rows.
        with_units: The same rows, and then the canaries.
        units: How many units the canaries are.
    """

    description: str
    without: pl.DataFrame
    with_units: pl.DataFrame
    units: int

    @property
    def tables(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        return self.without, self.with_units


def worst_cases(schema: Schema, *, units: int, simulated: Simulated | None = None) -> Iterator[Worlds]:
    """Every pair that is tried: ordinary rows alike, spread out or simulated; canaries at either end or missing."""
    per_unit = schema.max_rows_per_unit or 1
    rows = max(ORDINARY_ROWS, ROWS_PER_CANARY * units * per_unit)
    if simulated is None:
        levels = {"all alike": np.full(rows, 0.5), "spread out": (np.arange(rows) + 0.5) / rows}
        ordinary = {
            f"ordinary rows {how}": {column.name: _values(column, places) for column in schema}
            for how, places in levels.items()
        }
    else:
        ordinary = {f"rows of {simulated.name}": _simulated(schema, simulated, rows)}
    canaries = {"canaries at the highest values": 1.0, "canaries at the lowest values": 0.0}
    if any(column.nullable for column in schema):
        canaries["canaries with missing values"] = np.nan
    for base, cells in ordinary.items():
        for kind, place in canaries.items():
            table = dict(cells)
            group = {column.name: _values(column, np.full(units * per_unit, place)) for column in schema}
            if schema.unit is not None:
                table[schema.unit] = [f"ordinary {i}" for i in range(rows)]
                group[schema.unit] = [f"canary {i // per_unit}" for i in range(units * per_unit)]
            without = pl.DataFrame([_series(schema, name, cells) for name, cells in table.items()])
            both = {name: [*cells, *group[name]] for name, cells in table.items()}
            with_units = pl.DataFrame([_series(schema, name, cells) for name, cells in both.items()])
            yield Worlds(description=f"{base}, {kind}", without=without, with_units=with_units, units=units)


def _simulated(schema: Schema, simulated: Simulated, rows: int) -> dict[str, list[object]]:
    """Simulated rows, numbers as floats like those of canaries."""
    drawn = simulated.draw(rows)
    numeric = [column.name for column in schema if column.is_numeric]
    return drawn.with_columns(pl.col(numeric).cast(pl.Float64)).to_dict(as_series=False)


def _values(column: Column, places: np.ndarray) -> list[object]:
    """The values at these places of a column's range, 0 to 1; a place that is not a number is a missing value.

    A column that cannot be missing has its highest value there. An open category has one label for everybody: a
    category that a few alone have is hardly ever shown, so that it would tell nothing.
    """
    gone = np.isnan(places)
    at = np.where(gone, 1.0, places)
    if column.kind == "categorical":
        labels: Sequence[object] = column.labels or (LABEL,)
        found = [labels[min(int(p * len(labels)), len(labels) - 1)] for p in at]
    elif column.kind == "boolean":
        found = [bool(p > 0.5) for p in at]
    else:
        low, high = _range(column)
        numbers = low + at * (high - low)
        found = np.clip(np.rint(numbers) if column.step else numbers, low, high).tolist()
    return [None if column.nullable and missing else value for value, missing in zip(found, gone, strict=True)]


def _range(column: Column) -> tuple[float, float]:
    """The lowest and the highest value on the scale of a table, on the column's grid if it has one."""
    low, high = column.bounds
    width = UNBOUNDED * (column.step or 1.0) * (1e9 if column.kind == "datetime" else 1.0)
    low = low if low is not None else (high - width if high is not None else 0.0)
    return low, high if high is not None else low + width


def _series(schema: Schema, name: str, cells: Sequence[object]) -> pl.Series:
    """A column of a frame. Instants are microseconds since 1970 here."""
    if name == schema.unit or not schema[name].is_instant:
        return pl.Series(name, cells)
    epoch = datetime.datetime(1970, 1, 1)
    moments = [None if t is None else epoch + datetime.timedelta(microseconds=float(str(t))) for t in cells]
    return pl.Series(name, moments, dtype=pl.Datetime("us"))
