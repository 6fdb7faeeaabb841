"""The hall: any frame or file in, plain arrays inside, the same kind of frame out.

The one rule kept here: failing is also a release. What is wrong with the structure of a table (a missing column, a
wrong type, a broken file) raises a `TableError`; what is wrong with a value never does, and becomes a missing value.
No message shows a cell.

How columns are got out of a file or a frame is in sources.py; what their cells mean is decided here, once for each
distinct text where a column repeats itself.
"""

import dataclasses
import datetime
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl

from understudy.files import reason, replacing
from understudy.schema import MAX_INTEGER, Column, Schema
from understudy.sources import SEPARATORS, Source, TableError, extension, kinds, load

__all__ = ["Table", "TableError", "kinds", "read", "to_frame", "write"]

_SPELLINGS = dict.fromkeys(("true", "t", "yes", "y", "on", "1", "1.0"), 1.0) | dict.fromkeys(
    ("false", "f", "no", "n", "off", "0", "0.0"), 0.0
)
_TIMES = ("%H:%M", "%H:%M:%S", "%H:%M:%S%.f", "%H:%M:%S%.f%#z")
_INSTANTS = ("%Y-%m-%d", *(f"%Y-%m-%d{between}{time}" for between in "T " for time in _TIMES))
_FIRST_INSTANT, _LAST_INSTANT = (
    (moment - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1)
    for moment in (datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
)
_TOP = 1000  # rows from which the form of a column of instants is guessed
_EXPECTED = {
    "continuous": "numbers",
    "integer": "whole numbers",
    "boolean": "true or false",
    "datetime": "dates or times (ISO 8601)",
    "categorical": "text, numbers or truth values",
}


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Table:
    """A private table without its frame: one array per column. Nothing in it may be shown.

    Attributes:
        columns: In the order of the schema. Continuous, integer, boolean (0 or 1) and datetime (microseconds since
            1970, UTC) columns are float64 with NaN for a missing value. Whole numbers are exact up to 2**53, instants
            to the microsecond up to the year 2255. Infinities and values out of bounds are kept: clamping is the
            encoder's. Categorical columns are int64 codes with -1 for a missing value, into `Column.labels` where
            the schema gives the values and into `labels` where it does not.
        labels: The exact distinct categories, sorted, of the columns whose values the schema does not give.
            Private: only partition selection may let one out.
        unit: Codes of the unit column, one number per unit; None where every row is its own.
        kind: The kind of frame it came as: "pandas", "polars" or "pyarrow"; "polars" for a file.
        source: What messages call it.
    """

    columns: dict[str, np.ndarray]
    labels: dict[str, list[str]]
    unit: np.ndarray | None
    kind: str
    source: str

    @property
    def exact_rows(self) -> int:
        """The true number of rows. Private, hence not `len`."""
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return f"Table({self.source}, kind={self.kind!r}, columns={list(self.columns)})"


def read(source: Any, schema: Schema) -> Table:
    """Takes a table out of whatever it came in.

    Only the columns of the schema and its unit are read. Text is read without the space around it. The spellings in
    `schema.missing` are missing in every kind of column, the empty text too. Integer columns are rounded to whole
    numbers. A blank line of a CSV file is a row of missing values; an index of a pandas frame is not a column.

    Args:
        source: A path to a .csv, .tsv, .csv.gz or .parquet file, or a pandas, polars or pyarrow table.
        schema: What is publicly known about it.

    Privacy:
        Releases nothing. Rows without a unit are left out: nobody knows whose they are, so no bound on one person's
        rows could hold for them, neither if each were a unit nor if all of them were one.

    Raises:
        TableError: The structure is not the schema's, or the source cannot be read. Values never raise.
    """
    return _assemble(load(source, schema), schema)


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
    frame = pl.DataFrame([_to_series(columns[column.name], column, labels.get(column.name, ())) for column in schema])
    if kind == "pandas":
        return _to_pandas(frame, columns, schema, labels)
    return frame if kind == "polars" else frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def write(frame: pl.DataFrame, path: str | os.PathLike[str]) -> None:
    """Writes a polars frame as CSV or Parquet, by the extension of the path; whole or not at all.

    Raises:
        TableError: The extension is unknown or the place cannot be written. What was there is untouched.
    """
    name = os.fspath(path)
    ending = extension(path)
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            if ending == ".parquet":
                frame.write_parquet(file)
            else:
                squeeze = "gzip" if ending.endswith(".gz") else "uncompressed"
                frame.write_csv(file, separator=SEPARATORS[ending], compression=squeeze)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        # polars may quote a cell; it objects to a type that the format does not have.
        why = "it does not fit the format" if isinstance(error, pl.exceptions.PolarsError) else reason(error)
        raise TableError(f"{name} cannot be written: {why}.") from None


# Values: from polars series to arrays.


def _assemble(loaded: _Loaded, schema: Schema, source: str, kind: str) -> Table:
    if not len(next(iter(loaded.series.values()))):
        # That nobody is in the table is the one fact about its rows that is ever told.
        raise TableError(f"{source} has no rows.")
    unit, known = _units(loaded, schema, source)
    texts = {
        column.name: loaded.reread(column.name) for column in schema if loaded.reread and _is_blank(loaded, column)
    }

    def convert(column: Column) -> tuple[np.ndarray, list[str] | None]:
        place = f"{source}, column {column.name!r}"
        series = loaded.series[column.name]
        if column.name in texts:
            series = _numbers_from_text(texts[column.name], column, schema, place)
        if known is not None:
            series = series.filter(known)
        if column.kind == "categorical":
            return _codes(series, column, schema, place)
        return _ARRAYS[column.kind](series, column, schema, place), None

    with ThreadPoolExecutor() as pool:  # polars works outside Python's lock
        converted = dict(zip(schema.names, pool.map(convert, schema), strict=True))
    return Table(
        columns={name: array for name, (array, _) in converted.items()},
        labels={
            name: labels
            for name, (_, labels) in converted.items()
            if labels is not None and schema[name].values is None
        },
        unit=unit,
        kind=kind,
        source=source,
    )


def _is_blank(loaded: _Loaded, column: Column) -> bool:
    """Whether nothing in a column of numbers made sense as a number, so that its text has to be looked at."""
    series = loaded.series[column.name]
    return column.kind in ("continuous", "integer") and series.null_count() == len(series)


def _units(loaded: _Loaded, schema: Schema, source: str) -> tuple[np.ndarray | None, pl.Series | None]:
    """The units of the rows that have one, and which rows those are; None where all are kept."""
    if schema.unit is None:
        return None, None
    text = _as_text(loaded.series[schema.unit], "categorical", f"{source}, column {schema.unit!r}").cast(pl.String)
    codes, _ = _factorise(_without_missing(text, schema))
    known = codes >= 0
    if not known.any():
        raise TableError(f"{source} has no rows with a {schema.unit!r}, the unit that the schema names.")
    return codes[known], None if known.all() else pl.Series(known)


def _base(series: pl.Series) -> type[pl.DataType]:
    """The type without its parameters: one Categorical equals another only if they share their categories."""
    return series.dtype.base_type()


def _wrong_type(series: pl.Series, column_kind: str, place: str) -> TableError:
    # The base type only: the full name of an Enum lists its categories.
    found = _base(series).__name__
    return TableError(
        f"{place}: expected {_EXPECTED[column_kind]} for kind {column_kind!r}, got the type {found}. "
        "Change the kind in the schema, or the type in the table, or `ignore` the column."
    )


def _require_one(found: bool, text: pl.Series, column: Column, schema: Schema, place: str) -> None:
    """Refuses a column of text in which nothing can be read as the kind, unless all of it is missing."""
    if not found and _without_missing(text, schema).null_count() < len(text):
        raise TableError(
            f"{place}: expected {_EXPECTED[column.kind]} for kind {column.kind!r}, and no cell can be read as that. "
            "Change the kind in the schema, or list how a missing value is spelt under `missing`."
        )


def _without_missing(text: pl.Series, schema: Schema) -> pl.Series:
    """Text without the space around it, null where it says that the value is missing."""
    stripped = text.str.strip_chars()
    absent = ["", *(spelling.strip() for spelling in schema.missing)]
    return stripped.set(stripped.is_in(absent), None)


def _numbers_from_text(text: pl.Series, column: Column, schema: Schema, place: str) -> pl.Series:
    numbers = text.str.strip_chars().cast(pl.Float64, strict=False)
    _require_one(numbers.null_count() < len(numbers), text, column, schema, place)
    return numbers


def _numbers(series: pl.Series, column: Column, schema: Schema, place: str) -> np.ndarray:
    if not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null)):
        raise _wrong_type(series, column.kind, place)
    array = series.cast(pl.Float64).fill_null(np.nan).to_numpy()
    sentinels = [float(spelling) for spelling in schema.missing if _is_number(spelling)]
    if sentinels:
        array = np.where(np.isin(array, sentinels), np.nan, array)
    return np.rint(array) if column.kind == "integer" else array


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _booleans(series: pl.Series, column: Column, schema: Schema, place: str) -> np.ndarray:
    if _base(series) not in _TEXTS:
        numbers = _numbers(series, column, schema, place)
        return np.where(np.isin(numbers, (0.0, 1.0)), numbers, np.nan)
    codes, distinct = _factorise(_as_text(series, column.kind, place))
    spellings = _without_missing(distinct, schema).str.to_lowercase()
    meanings = spellings.replace_strict(_SPELLINGS, default=None, return_dtype=pl.Float64)
    array = np.append(meanings.fill_null(np.nan).to_numpy(), np.nan)[codes]
    _require_one(meanings.null_count() < len(meanings), distinct, column, schema, place)
    return array


def _instants(series: pl.Series, column: Column, schema: Schema, place: str) -> np.ndarray:
    if _base(series) in _TEXTS:
        series = series.cast(pl.String)
        instants = _instants_from_text(series)
        _require_one(instants.null_count() < len(instants), series, column, schema, place)
    elif _base(series) in (pl.Date, pl.Datetime, pl.Null):
        instants = series.cast(pl.Datetime("us", getattr(series.dtype, "time_zone", None)))
    else:
        raise _wrong_type(series, column.kind, place)
    # Zoned instants are held in UTC, so their physical form is UTC already.
    return instants.to_physical().cast(pl.Float64).fill_null(np.nan).to_numpy()


def _instants_from_text(text: pl.Series) -> pl.Series:
    """Parses ISO 8601, each form in turn on the cells still unread; the commonest at the top of the table first."""
    text = text.str.strip_chars()
    top = text.drop_nulls().head(_DRAFT_ROWS)
    first, *others = sorted(_INSTANTS, key=lambda form: _parse_instants(top, form).null_count())
    instants = _parse_instants(text, first)
    for form in others:
        unread = (instants.is_null() & text.is_not_null()).arg_true()
        if len(unread):  # most tables hold one form only
            instants = instants.scatter(unread, _parse_instants(text.gather(unread), form))
    return instants


def _parse_instants(text: pl.Series, form: str) -> pl.Series:
    parsed = text.str.to_datetime(form, time_unit="us", strict=False, cache=False)
    return parsed.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if form.endswith("z") else parsed


def _codes(series: pl.Series, column: Column, schema: Schema, place: str) -> tuple[np.ndarray, list[str]]:
    """Codes of a categorical column and the text they stand for."""
    codes, distinct = _factorise(_as_text(series, column.kind, place))
    if series.dtype.is_float() or series.dtype.is_decimal():
        distinct = distinct.str.strip_suffix(".0")
    distinct = _without_missing(distinct, schema)
    labels = list(column.labels) if column.labels is not None else distinct.drop_nulls().unique().sort().to_list()
    unknown = labels.index(column.other) if column.values is not None and column.other is not None else -1
    order = {label: code for code, label in enumerate(labels)}
    meanings = distinct.replace_strict(order, default=unknown, return_dtype=pl.Int64)
    meanings = meanings.set(distinct.is_null(), -1)
    return np.append(meanings.to_numpy(), -1)[codes], labels


def _as_text(series: pl.Series, column_kind: str, place: str) -> pl.Series:
    """A column as text, or as the Categorical that it is."""
    if not (series.dtype.is_numeric() or _base(series) in _TEXTUAL):
        raise _wrong_type(series, column_kind, place)
    if series.dtype.is_decimal():
        series = series.cast(pl.Float64)
    if series.dtype.is_float():
        series = series.fill_nan(None)
    return series if _base(series) == pl.Categorical else series.cast(pl.String)


_TEXTS = (pl.String, pl.Categorical, pl.Enum)
_TEXTUAL = (*_TEXTS, pl.Boolean, pl.Null, pl.Date, pl.Datetime, pl.Time)


def _factorise(text: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """Codes into the distinct texts, -1 where there is none, so that the rest is done once per distinct text."""
    coded = text if _base(text) == pl.Categorical else text.cast(pl.Categorical(pl.Categories.random()))
    distinct = coded.drop_nulls().unique()
    places = distinct.to_physical()
    order = np.full(int(places.max() or 0) + 2, -1)  # type: ignore[arg-type]
    order[places.to_numpy()] = np.arange(len(places))
    return order[coded.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()], distinct.cast(pl.String)


_ARRAYS = {"continuous": _numbers, "integer": _numbers, "boolean": _booleans, "datetime": _instants}


# The way out.


def _to_series(values: np.ndarray | Sequence[float], column: Column, labels: Sequence[str]) -> pl.Series:
    if column.kind == "categorical":
        codes = pl.Series(np.asarray(values, dtype=np.int64))
        return pl.Series(column.name, labels, dtype=pl.String).gather(codes.set(codes < 0, None))
    array = np.asarray(values, dtype=np.float64)
    if column.kind == "integer":
        array = np.clip(np.rint(array), -MAX_INTEGER, MAX_INTEGER)
    elif column.kind == "datetime":
        array = np.clip(np.rint(array), _FIRST_INSTANT, _LAST_INSTANT)
    series = pl.Series(column.name, array, nan_to_null=True)
    if column.kind == "continuous":
        return series
    if column.kind == "boolean":
        return series != 0
    whole = series.cast(pl.Int64)
    return whole.cast(pl.Datetime("us")) if column.kind == "datetime" else whole


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
