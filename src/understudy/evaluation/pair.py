"""Two tables side by side: the same columns, the same codes, the same scale; and what a metric says of them.

The one rule: both tables are read through the schema, exactly as `fit` reads a table, so a difference between them is
one of values and never of spelling. Booleans are categories here. A number that is not finite counts as missing, and
one beyond ±1e100 is clamped there, where squares of differences still fit into a float.
"""

import dataclasses
import functools
import os
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.tables.schema import Schema
from understudy.tables.table import Table, read

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    Source = str | os.PathLike[str] | IntoDataFrame
    """A table as `fit` takes it: a path, or a pandas, polars or pyarrow table."""

FARTHEST = 1e100
"""Numbers are clamped to plus or minus this, so that their squares are finite."""

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Parts = dict[tuple[str, ...], float]
"""A value for each column or tuple of columns."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricResult:
    """What a metric says of a pair of tables.

    Attributes:
        value: The value of the whole table; None if there is none, and then `how` says why.
        summary: How the value is made of its parts: a sum, a mean, over which of them.
        definition: The binning, the scale, the sample; true of each part as well.
        parts: The same by column or by tuple of columns, if the value is made of such.
    """

    value: float | None
    summary: str
    definition: str = ""
    parts: Parts = dataclasses.field(default_factory=dict)

    @property
    def how(self) -> str:
        """The whole definition in words."""
        return "; ".join(filter(None, (self.summary, self.definition)))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Side:
    """One table as arrays. It holds rows, so nothing in it is printed.

    Attributes:
        numbers: Continuous, integer and datetime columns as float64, NaN for a missing value.
        codes: Categorical and boolean columns as int64, the number of labels for a missing value.
        sizes: How many codes each of `codes` may hold, the missing one included.
    """

    numbers: dict[str, Floats]
    codes: dict[str, Codes]
    sizes: dict[str, int]

    @property
    def rows(self) -> int:
        return len(next(iter((self.numbers or self.codes).values())))

    def take(self, rows: NDArray[np.int64]) -> "Side":
        """The same columns with some of the rows."""
        numbers = {name: column[rows] for name, column in self.numbers.items()}
        codes = {name: column[rows] for name, column in self.codes.items()}
        return dataclasses.replace(self, numbers=numbers, codes=codes)

    def sample(self, rows: int, seed: int) -> "Side":
        """At most this many rows, drawn without replacement; tables of one length get the same draw."""
        if self.rows <= rows:
            return self
        return self.take(np.sort(np.random.default_rng(seed).choice(self.rows, rows, replace=False)))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Pair:
    """A real and a synthetic table, and the table that sets the scale.

    Attributes:
        names: The columns, in the order of the schema.
        real: The table to be matched; best a part that was kept from `fit`.
        synthetic: The table that is evaluated.
        scale: The table whose means and standard deviations make z-scores: the training table, else `real`.
        seed: Where subsamples come from.
    """

    names: tuple[str, ...]
    real: Side
    synthetic: Side
    scale: Side
    seed: int = 0

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.real, self.synthetic

    @functools.cached_property
    def z_scores(self) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """The numbers of both sides as z-scores; a column that is constant in `scale` is only centred."""
        scales = {name: location_and_deviation(column) for name, column in self.scale.numbers.items()}
        real, synthetic = (
            {name: (column - scales[name][0]) / scales[name][1] for name, column in side.numbers.items()}
            for side in self.sides
        )
        return real, synthetic

    def sample(self, rows: int) -> "Pair":
        """At most this many rows of either side, on the same scale."""
        real, synthetic = (side.sample(rows, self.seed) for side in self.sides)
        return dataclasses.replace(self, real=real, synthetic=synthetic)


def open_table(source: "Source | Table", schema: Schema) -> Table:
    """A table without its unit: whom a row belongs to is nothing that a synthetic table could match.

    Raises:
        TableError: It cannot be read, or its structure is not the schema's.
    """
    if isinstance(source, Table):
        return source
    if schema.unit is not None:
        ignore = (*schema.ignore, schema.unit)
        schema = dataclasses.replace(schema, unit=None, max_rows_per_unit=None, ignore=ignore)
    return read(source, schema, covered=False)


def open_tables(schema: Schema, tables: "Mapping[str, Source | Table]") -> dict[str, Side]:
    """Reads tables of one schema over shared labels, without their unit.

    Args:
        schema: What the columns are.
        tables: By a name of the caller's; each as `fit` takes it.

    Raises:
        TableError: A table cannot be read, or its structure is not the schema's.
    """
    opened = in_known_groups(schema, {key: open_table(table, schema) for key, table in tables.items()})
    labels = labels_of(schema, opened)
    return {key: _side(table, schema, labels) for key, table in opened.items()}


def in_known_groups(schema: Schema, opened: Mapping[str, Table]) -> dict[str, Table]:
    """The tables with categories of a hierarchy as fine as the synthetic table has them.

    A synthetic I21 stands for all I21.4 that were too rare to be seen, so a real I21.4 is compared as I21, unless the
    synthetic table has I21.4 too; and as `other` if it has no group of it. Tables without a synthetic one beside them
    stay as they are.
    """
    if "synthetic" not in opened:
        return dict(opened)
    grouped = [column for column in schema if column.levels is not None]
    known = {column.name: set(opened["synthetic"].labels[column.name]) for column in grouped}
    found = {}
    for key, table in opened.items():
        labels = dict(table.labels)
        for column in grouped if key != "synthetic" else ():
            assert column.levels is not None and column.other is not None
            names = known[column.name]
            labels[column.name] = [column.levels.nearest(each, names) or column.other for each in labels[column.name]]
        found[key] = dataclasses.replace(table, labels=labels)
    return found


def labels_of(schema: Schema, opened: Mapping[str, Table]) -> dict[str, list[str]]:
    """The text of every code of a `Side`, of categories and truth values."""
    labels = {column.name: ["false", "true"] for column in schema if column.kind == "boolean"}
    for column in schema:
        if column.kind == "categorical":
            labels[column.name] = list(column.labels) if column.labels is not None else _union(column.name, opened)
    return labels


def _union(name: str, tables: Mapping[str, Table]) -> list[str]:
    return sorted({label for table in tables.values() for label in table.labels[name]})


def _side(table: Table, schema: Schema, labels: Mapping[str, list[str]]) -> Side:
    numbers = {column.name: _finite(table.columns[column.name]) for column in schema if column.is_numeric}
    codes, sizes = {}, {}
    for column in schema:
        name = column.name
        if column.kind == "boolean":
            codes[name] = np.where(np.isnan(table.columns[name]), 2, table.columns[name]).astype(np.int64)
            sizes[name] = 3
        elif column.kind == "categorical":
            own = table.labels.get(name, labels[name])
            places = {label: place for place, label in enumerate(labels[name])}
            # A missing value is -1, so it reads the last entry.
            new_codes = np.array([*(places[label] for label in own), len(places)], dtype=np.int64)
            codes[name] = new_codes[table.columns[name]]
            sizes[name] = len(places) + 1
    return Side(numbers=numbers, codes=codes, sizes=sizes)


def shuffled_side(side: Side, seed: int) -> Side:
    """The same table with each column in an order of its own: the same margins, and no dependence."""
    return dataclasses.replace(side, numbers=permuted(side.numbers, seed), codes=permuted(side.codes, seed))


ColumnType = TypeVar("ColumnType", NDArray, pl.Series)


def permuted(columns: Mapping[str, ColumnType], seed: int) -> dict[str, ColumnType]:
    """The orders depend on the names, so that a table is shuffled alike in any form and any order of its columns."""
    draws = {name: np.random.default_rng([seed, zlib.crc32(name.encode())]) for name in columns}
    return {name: column[draws[name].permutation(len(column))] for name, column in columns.items()}


def _finite(column: Floats) -> Floats:
    return np.clip(np.where(np.isfinite(column), column, np.nan), -FARTHEST, FARTHEST)


def location_and_deviation(column: Floats) -> tuple[float, float]:
    """The mean and the standard deviation of the present values; a deviation of 1 if they do not vary."""
    present = column[~np.isnan(column)]
    if not len(present):
        return 0.0, 1.0
    # The computed deviation of a constant column may be a rounding error.
    varies = present.min() < present.max()
    return float(present.mean()), (float(present.std()) or 1.0) if varies else 1.0
