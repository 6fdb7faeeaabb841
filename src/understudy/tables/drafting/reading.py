"""Cells as text, for a draft alone: the first rows of a file or a frame, column by column.

The one rule: what is read here is looked at and thrown away. Nothing but the guesses made from it leaves `drafting`.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from understudy.tables import instants, sources
from understudy.tables.database_url import is_url
from understudy.tables.dialect import STANDARD, Dialect
from understudy.tables.files import polars_errors
from understudy.tables.pandas_frame import column_of_pandas
from understudy.tables.pyarrow_table import column_of_pyarrow
from understudy.tables.structure import FoundColumn, TableError, check_distinct
from understudy.tables.table import as_text

ROWS = 30_000
"""How many rows a draft looks at, from the first on."""
_TEXTS = (pl.String, pl.Categorical, pl.Enum)


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Cells:
    """The cells of one column as text. Private.

    Attributes:
        name: The column's name.
        text: Each cell without the space around it, null if it is blank.
        declared: The kind of type that the column declares: "number", "whole", "boolean", "instant", "text" or
            "foreign", which no kind can hold; None if it declares none, as in a CSV file and in pandas.
    """

    name: str
    text: pl.Series
    declared: str | None = None


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Sample:
    """The columns of a source, for as long as a draft looks at them. Private.

    Attributes:
        columns: In the order of the source.
        source: What messages call it.
        name: What the table may be called.
        dialect: How the file is spelt.
    """

    columns: tuple[Cells, ...]
    source: str
    name: str
    dialect: Dialect


def sample(table: Any, file: Mapping[str, Any] | None = None, *, rows: int = ROWS) -> Sample:
    """The first rows of a path, the URL of a database, or a pandas, polars or pyarrow table.

    Args:
        file: Keys of the dialect that the owner states, in place of what is found.
        rows: How many rows, from the first on.

    Raises:
        TableError: It cannot be read, has no rows, or has two columns of the same name.
        ImportError: It needs a package of the extra `files`; the message says how to install it.
    """
    if not isinstance(table, str | os.PathLike):
        return _of_frame(nw.to_native(table, pass_through=True), rows)
    found, dialect = sources.sample(table, rows=rows, overrides=file)
    name = sources.public_name(table)
    return _assembled(found, name if is_url(table) else Path(table).name, sources.title(table), dialect)


def _of_frame(native: Any, rows: int) -> Sample:
    is_a = nw.dependencies
    if is_a.is_polars_dataframe(native) or is_a.is_polars_lazyframe(native):
        with polars_errors("the polars table", "a table"):
            frame = native.lazy().head(rows).collect()
        return _assembled([(each.name, FoundColumn.typed(each)) for each in frame], "the polars table", "table")
    if is_a.is_pandas_dataframe(native):
        _check_names(list(native.columns), "the pandas table")
        head = native.head(rows)
        return _assembled([(name, column_of_pandas(head[name])) for name in head], "the pandas table", "table")
    if is_a.is_pyarrow_table(native):
        _check_names(native.column_names, "the pyarrow table")
        head = native.slice(0, rows)
        found = [(name, column_of_pyarrow(name, head.column(name))) for name in head.column_names]
        return _assembled(found, "the pyarrow table", "table")
    kind = f"{type(native).__module__.split('.')[0]}.{type(native).__name__}"
    raise TableError(f"expected a path or a pandas, polars or pyarrow table, got {kind}.")


def _check_names(names: list[Any], source: str) -> None:
    if not all(isinstance(name, str) for name in names):
        raise TableError(f"{source}: expected the names of its columns to be text.")
    check_distinct(names, source)


def _assembled(found: list[tuple[str, FoundColumn]], source: str, name: str, dialect: Dialect = STANDARD) -> Sample:
    if not found:
        raise TableError(f"{source} has no columns.")
    if not len(found[0][1].series):
        raise TableError(f"{source} has no rows.")
    return Sample(tuple(_cells(column, each) for column, each in found), source, name, dialect)


def _cells(name: str, found: FoundColumn) -> Cells:
    series, base = found.series, found.series.dtype.base_type()
    declared = None if found.untyped else _declared(series)
    if base == pl.Object or not (series.dtype.is_numeric() or base in (*_TEXTS, *_OTHERS)):
        return Cells(name, pl.Series(name, [None] * len(series), dtype=pl.String), "foreign")
    if series.dtype.is_float() or series.dtype.is_decimal():
        series = as_text(series)
    elif base in (pl.Date, pl.Datetime, pl.Time):
        series = instants.as_text(series)
    text = series.cast(pl.String).str.strip_chars()
    return Cells(name, text.set(text == "", None), declared)


_OTHERS = (pl.Boolean, pl.Null, pl.Date, pl.Datetime, pl.Time)


def _declared(series: pl.Series) -> str | None:
    dtype = series.dtype
    if dtype.is_integer():
        return "whole"
    if dtype.is_numeric():
        return "number"
    if dtype == pl.Boolean:
        return "boolean"
    if dtype.base_type() in (pl.Date, pl.Datetime):
        return "instant"
    return None if dtype == pl.Null else "text"
