"""Writing: decoded columns as a frame of the kind that came in, or as a file.

The one rule: a file is written whole or not at all, and no message shows a cell.
"""

import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from understudy.core.files import reason, replacing
from understudy.core.processors import in_threads
from understudy.tables import formats
from understudy.tables.column import DAY, Column
from understudy.tables.schema import Schema
from understudy.tables.sources import SEPARATORS, extension
from understudy.tables.structure import TableError
from understudy.tables.values import MAX_INTEGER

_FIRST_INSTANT, _LAST_INSTANT = (
    (moment - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1)
    for moment in (datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
)


def to_frame(
    columns: Mapping[str, np.ndarray | Sequence[float]],
    schema: Schema,
    labels: Mapping[str, Sequence[str]],
    kind: str = "polars",
) -> Any:
    """Puts decoded columns back into a frame.

    Args:
        columns: The arrays of a `Table`. Integers are rounded and held within 2**53, datetimes within the years 1
            to 9999.
        schema: Gives the order and the kinds.
        labels: The text of the codes, for every categorical column.
        kind: "polars", "pandas" or "pyarrow".
    """
    if kind not in ("polars", "pandas", "pyarrow"):
        raise ValueError(f"to_frame: expected kind to be polars, pandas or pyarrow, got {kind!r}.")
    length = len(next(iter(columns.values()), ()))

    def one(column: Column) -> pl.Series:
        return _to_series(columns[column.name], column, labels.get(column.name, ()))

    frame = pl.DataFrame(in_threads(one, schema, length=length))
    if kind == "pandas":
        return _to_pandas(frame, columns, schema, labels)
    return frame if kind == "polars" else frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def write(
    frame: pl.DataFrame, path: str | os.PathLike[str], schema: Schema | None = None, *, level: int | None = None
) -> None:
    """Writes a polars frame as text, Parquet or Arrow, by the extension of the path; whole or not at all.

    Args:
        schema: If given, dates are written in their columns' `format` where cells are text.
        level: How hard Zstandard squeezes a Parquet file; None is what polars takes.

    Raises:
        TableError: The extension is unknown or the place cannot be written. What was there is untouched.
    """
    name = os.fspath(path)
    ending = extension(path)
    if schema is not None and ending != ".parquet":
        frame = in_formats(frame, schema)
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            if ending == ".parquet":
                frame.write_parquet(file, compression_level=level)
            elif ending in (".feather", ".arrow", ".ipc"):
                frame.write_ipc(file)
            elif ending not in SEPARATORS:
                raise ValueError("no table is written in such a file")
            else:
                # The standard form, whatever dialect the schema has: readers recognise it by the names in it.
                squeeze: Any = {"gz": "gzip", "zst": "zstd"}.get(ending.rpartition(".")[2], "uncompressed")
                frame.write_csv(file, separator=SEPARATORS[ending], compression=squeeze)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        # polars may quote a cell; it objects to a type that the format does not have.
        why = "it does not fit the format" if isinstance(error, pl.exceptions.PolarsError) else reason(error)
        raise TableError(f"{name} cannot be written: {why}.") from None


def as_shown(values: np.ndarray | Sequence[float], column: Column) -> np.ndarray:
    """Numbers as a frame will hold them: on the column's grid if it has one, and within what there is."""
    array = np.asarray(values, dtype=np.float64)
    if column.kind == "integer":
        return np.clip(np.rint(array), -MAX_INTEGER, MAX_INTEGER)
    if column.kind == "datetime":
        return np.clip(np.rint(array), _FIRST_INSTANT, _LAST_INSTANT)
    if column.kind == "date":
        return np.clip(np.rint(array / DAY) * DAY, _FIRST_INSTANT, _LAST_INSTANT)
    return array if column.decimals is None else formats.rounded(array, column.decimals)


def _to_series(values: np.ndarray | Sequence[float], column: Column, labels: Sequence[str]) -> pl.Series:
    if column.kind == "categorical":
        codes = pl.Series(np.asarray(values, dtype=np.int64))
        return pl.Series(column.name, labels, dtype=pl.String).gather(codes.set(codes < 0, None))
    series = pl.Series(column.name, as_shown(values, column), nan_to_null=True)
    if column.kind == "continuous":
        return series
    if column.kind == "boolean":
        return series != 0
    whole = series.cast(pl.Int64)
    if column.kind == "date":
        return whole.cast(pl.Datetime("us")).cast(pl.Date)
    return whole.cast(pl.Datetime("us")) if column.kind == "datetime" else whole


def in_formats(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The frame with every column that has a `format` as text in it, for a file whose cells have no type."""
    formed = {column.name: column.format for column in schema if column.format is not None}
    return frame.with_columns(formats.written(frame.get_column(name), form) for name, form in formed.items())


def _to_pandas(frame: pl.DataFrame, columns: Mapping[str, Any], schema: Schema, labels: Mapping[str, Any]) -> Any:
    """The frame in pandas. Beside missing values, whole numbers and truth values stay so: Int64 and boolean."""
    import pandas

    def convert(column: Column) -> Any:
        series = frame.get_column(column.name)
        if column.kind == "categorical":
            text = pandas.Series(list(labels.get(column.name, ())), dtype=None if labels.get(column.name) else object)
            return text.array.take(np.asarray(columns[column.name], dtype=np.int64), allow_fill=True)
        if column.kind in ("integer", "boolean") and (column.nullable or series.null_count()):
            blank = series.is_null().to_numpy()
            filled = series.cast(pl.Int64).fill_null(0).to_numpy()
            masked = pandas.arrays.IntegerArray if column.kind == "integer" else pandas.arrays.BooleanArray
            return masked(filled.astype(np.int64 if column.kind == "integer" else bool), blank)
        return series.to_numpy()

    return pandas.DataFrame({column.name: convert(column) for column in schema})
