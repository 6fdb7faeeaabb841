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

from understudy.core.files import reason, replacing
from understudy.tables.schema import MAX_INTEGER, Column, Schema
from understudy.tables.sources import SEPARATORS, Source, TableError, as_written, extension, kinds, load

__all__ = ["Table", "TableError", "as_shown", "kinds", "read", "to_frame", "write"]

_SPELLINGS = dict.fromkeys(("true", "t", "yes", "y", "on", "1", "1.0"), 1.0) | dict.fromkeys(
    ("false", "f", "no", "n", "off", "0", "0.0"), 0.0
)
_TIMES = ("%H:%M", "%H:%M%#z", "%H:%M:%S", "%H:%M:%S%.f", "%H:%M:%S%.f%#z")
_DAY = "%Y-%m-%d"
_INSTANTS = (_DAY, *(f"{_DAY}{between}{time}" for between in "T " for time in _TIMES))
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


def _assemble(source: Source, schema: Schema) -> Table:
    if not len(next(iter(source.series.values()))):
        # That nobody is in the table is the one fact about its rows that is ever told.
        raise TableError(f"{source.name} has no rows.")
    unit, known = _units(source, schema)

    def convert(column: Column) -> tuple[np.ndarray, list[str] | None]:
        cells = _Cells.of(column, source, schema, known)
        return _codes(cells) if column.kind == "categorical" else (_ARRAYS[column.kind](cells), None)

    with ThreadPoolExecutor() as pool:  # polars and numpy work outside Python's lock
        converted = dict(zip(schema.names, pool.map(convert, schema), strict=True))
    return Table(
        columns={name: array for name, (array, _) in converted.items()},
        labels={
            name: labels
            for name, (_, labels) in converted.items()
            if labels is not None and schema[name].values is None
        },
        unit=unit,
        kind=source.kind,
        source=source.name,
    )


def _units(source: Source, schema: Schema) -> tuple[np.ndarray | None, pl.Series | None]:
    """The units of the rows that have one, and which rows those are; None where all are kept."""
    if schema.unit is None:
        return None, None
    cells = _Cells.of(Column(name=schema.unit, kind="categorical"), source, schema)
    places, texts = cells.factorised()
    units = cells.without_missing(texts).cast(pl.Categorical(pl.Categories.random())).to_physical()
    codes = units.cast(pl.Int64).fill_null(-1).to_numpy()[places]
    known = codes >= 0
    if not known.any():
        raise TableError(f"{source.name} has no rows with a {schema.unit!r}, the unit that the schema names.")
    return codes[known], None if known.all() else pl.Series(known)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _Cells:
    """One column as it was found, with all that is needed to say what its cells mean."""

    series: pl.Series
    column: Column
    missing: Sequence[str]
    place: str
    typed: bool

    @classmethod
    def of(cls, column: Column, source: Source, schema: Schema, known: pl.Series | None = None) -> "_Cells":
        series = source.series[column.name]
        return cls(
            series=series if known is None else series.filter(known),
            column=column,
            missing=schema.missing,
            place=f"{source.name}, column {column.name!r}",
            typed=column.name not in source.untyped,
        )

    @property
    def base(self) -> type[pl.DataType]:
        """The type without its parameters: one Categorical equals another only if they share their categories."""
        return self.series.dtype.base_type()

    def wrong_type(self) -> TableError:
        # The base type only: the full name of an Enum lists its categories.
        return TableError(
            f"{self.place}: expected {_EXPECTED[self.column.kind]} for kind {self.column.kind!r}, got the type "
            f"{self.base.__name__}. Change the kind in the schema, or the type in the table, or `ignore` the column."
        )

    def require_one(self, read: pl.Series, text: pl.Series) -> None:
        """Refuses a column of text in which nothing could be read as the kind, unless all of it is missing."""
        if read.null_count() == len(read) and self.without_missing(text).null_count() < len(text):
            raise TableError(
                f"{self.place}: expected {_EXPECTED[self.column.kind]} for kind {self.column.kind!r}, and no cell can "
                "be read as that. Change the kind in the schema, or list how a missing value is spelt under `missing`."
            )

    def without_missing(self, text: pl.Series) -> pl.Series:
        """Text without the space around it, null where it says that the value is missing."""
        stripped = text.str.strip_chars()
        return stripped.set(stripped.is_in(["", *(spelling.strip() for spelling in self.missing)]), None)

    def factorised(self) -> tuple[np.ndarray, pl.Series]:
        """The place of each cell in a list of texts, and that list, so that the rest is done once per distinct text.

        The list ends in a null, which is the place of an empty cell; texts that no cell holds are null in it.
        """
        series = self.series
        if not (series.dtype.is_numeric() or self.base in _TEXTUAL):
            raise self.wrong_type()
        if series.dtype.is_decimal():
            series = series.cast(pl.Float64)
        if series.dtype.is_float():
            series = _as_text(series.fill_nan(None))
        if self.base == pl.Datetime:  # as Python writes instants
            series = series.dt.cast_time_unit("us").cast(pl.String).str.strip_suffix(".000000")
        if self.base != pl.Categorical:
            series = series.cast(pl.String).cast(pl.Categorical(pl.Categories.random()))
        dtype: Any = series.dtype
        texts = pl.concat([dtype.categories.to_series().cast(pl.String), pl.Series([None], dtype=pl.String)])
        places = series.to_physical().cast(pl.UInt32).fill_null(len(texts) - 1).to_numpy()
        unseen = np.ones(len(texts), dtype=bool)
        unseen[places] = False
        return places, texts.set(pl.Series(unseen), None)


def _as_text(numbers: pl.Series) -> pl.Series:
    """Floats as a column of objects would spell them, whole ones as whole numbers."""
    different = numbers.drop_nulls().unique()
    texts = pl.Series([as_written(number) for number in different.to_list()], dtype=pl.String)
    return numbers.replace_strict(different, texts, default=None, return_dtype=pl.String)


_TRUTH = {"true": 1.0, "false": 0.0}


def _numbers(cells: _Cells) -> np.ndarray:
    series = cells.series
    if cells.base == pl.String and not cells.typed:
        plain = series.str.strip_chars()
        numbers = plain.cast(pl.Float64, strict=False)
        if numbers.null_count() > plain.null_count():  # truth values, as a column of them would be read
            numbers = numbers.fill_null(plain.str.to_lowercase().replace_strict(_TRUTH, default=None))
        cells.require_one(numbers, series)
        series = numbers
    if not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null)):
        raise cells.wrong_type()
    array = series.cast(pl.Float64).to_numpy()  # NaN for null
    sentinels = [float(spelling) for spelling in cells.missing if _is_number(spelling)]
    if sentinels:
        array = np.where(np.isin(array, sentinels), np.nan, array)
    if cells.column.kind == "integer":  # in place, where the array is not the frame's own: new memory costs more
        array = np.rint(array, out=array if array.flags.writeable else None)
    return array


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _booleans(cells: _Cells) -> np.ndarray:
    if cells.base not in _TEXTS:
        numbers = _numbers(cells)
        return np.where(np.isin(numbers, (0.0, 1.0)), numbers, np.nan)
    places, texts = cells.factorised()
    spellings = cells.without_missing(texts).str.to_lowercase()
    meanings = spellings.replace_strict(_SPELLINGS, default=None, return_dtype=pl.Float64)
    cells.require_one(meanings, texts)
    return meanings.to_numpy()[places]


def _instants(cells: _Cells) -> np.ndarray:
    series = cells.series
    if cells.base in _TEXTS:
        text = series.cast(pl.String)
        instants = _instants_from_text(text)
        cells.require_one(instants, text)
    elif cells.base in (pl.Date, pl.Datetime, pl.Null):
        instants = series.cast(pl.Datetime("us", getattr(series.dtype, "time_zone", None)))
    else:
        raise cells.wrong_type()
    # Zoned instants are held in UTC, so their physical form is UTC already.
    return instants.to_physical().cast(pl.Float64).to_numpy()


def _instants_from_text(text: pl.Series) -> pl.Series:
    """Parses ISO 8601: the commonest form at the top of the table first, then each on the cells still unread."""
    top = text.drop_nulls().head(_TOP).str.strip_chars()
    forms = sorted(_INSTANTS, key=lambda form: _parse_instants(top, form).null_count())
    instants = _parse_instants(text, forms[0])
    for form in forms:
        unread = (instants.is_null() & text.is_not_null()).arg_true()
        if not len(unread):  # most tables hold one form only
            break
        instants = instants.scatter(unread, _parse_instants(text.gather(unread).str.strip_chars(), form))
    return instants


def _parse_instants(text: pl.Series, form: str) -> pl.Series:
    if form == _DAY:  # twice as fast as through to_datetime
        return text.str.to_date(form, strict=False, cache=False).cast(pl.Datetime("us"))
    parsed = text.str.to_datetime(form, time_unit="us", strict=False, cache=False)
    return parsed.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if form.endswith("z") else parsed


def _codes(cells: _Cells) -> tuple[np.ndarray, list[str]]:
    """Codes of a categorical column and the text they stand for."""
    column = cells.column
    places, texts = cells.factorised()
    texts = cells.without_missing(texts)
    labels = list(column.labels) if column.labels is not None else texts.drop_nulls().unique().sort().to_list()
    unknown = labels.index(column.other) if column.values is not None and column.other is not None else -1
    order = {label: code for code, label in enumerate(labels)}
    meanings = texts.replace_strict(order, default=unknown, return_dtype=pl.Int64).set(texts.is_null(), -1)
    return meanings.to_numpy()[places], labels


_TEXTS = (pl.String, pl.Categorical, pl.Enum)
_TEXTUAL = (*_TEXTS, pl.Boolean, pl.Null, pl.Date, pl.Datetime, pl.Time)
_ARRAYS = {"continuous": _numbers, "integer": _numbers, "boolean": _booleans, "datetime": _instants}


# The way out.


def as_shown(values: np.ndarray | Sequence[float], column: Column) -> np.ndarray:
    """Numbers as a frame will hold them: whole where they are whole numbers or instants, and within what there is."""
    array = np.asarray(values, dtype=np.float64)
    if column.kind == "integer":
        return np.clip(np.rint(array), -MAX_INTEGER, MAX_INTEGER)
    if column.kind == "datetime":
        return np.clip(np.rint(array), _FIRST_INSTANT, _LAST_INSTANT)
    return array


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
