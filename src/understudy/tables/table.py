"""Tables: any frame or file in, one plain array per column out.

The one rule: reading is total. A cell becomes a value or a missing value by itself alone, whatever it is and wherever
it came from; no value raises, and no row changes how another is read. What is wrong with the structure of a table (a
missing column, a wrong type, a damaged file) raises a `TableError` that shows no cell.

sources.py gets columns out of a file or a frame. What their cells mean is decided here, once for each distinct text if
a column repeats itself.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from understudy.core.processors import in_threads
from understudy.tables import formats, instants
from understudy.tables.cells import as_written
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.sources import load
from understudy.tables.structure import Source, TableError

_SPELLINGS = dict.fromkeys(("true", "t", "yes", "y", "on", "1", "1.0"), 1.0) | dict.fromkeys(
    ("false", "f", "no", "n", "off", "0", "0.0"), 0.0
)
_TRUTH = {"true": 1.0, "false": 0.0}
_EXPECTED = {
    "continuous": "numbers",
    "integer": "whole numbers",
    "boolean": "true or false",
    "datetime": "dates or times (ISO 8601, or the column's `format`)",
    "date": "dates (ISO 8601, or the column's `format`)",
    "categorical": "text, numbers or truth values",
}


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Table:
    """A private table as arrays, one for each column. Nothing in it may be shown.

    Whoever asked for it holds the only reference: reading keeps neither the table nor the frame it came from.

    Attributes:
        columns: In the order of the schema. Continuous, integer, boolean (0 or 1), datetime (microseconds since 1970,
            UTC) and date (its midnight) columns are float64 with NaN for a missing value. Whole numbers are exact up to
            2**53, instants to the microsecond up to the year 2255. Infinities and values out of bounds are kept:
            clamping is the encoder's. Categorical columns are int64 codes with -1 for a missing value, into
            `Column.labels` where the schema gives the values and into `labels` where it does not.
        labels: The exact distinct categories, sorted, of the columns whose values the schema does not give.
            Private: only partition selection may let one out.
        unit: Codes of the unit column, one number per unit; None if every row is its own unit.
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
        """The true number of rows. It is private, so a table has no `len`."""
        return len(next(iter(self.columns.values())))

    def __repr__(self) -> str:
        return f"Table({self.source}, kind={self.kind!r}, columns={list(self.columns)})"


def read(source: Any, schema: Schema, *, covered: bool = True) -> Table:
    """Reads a table into arrays.

    Only the columns of the schema and its unit are read. Text is read without the space around it. The spellings in
    `schema.missing` are missing in every kind of column, the empty text too. Integer columns are rounded to whole
    numbers. A cell that its kind cannot hold is missing: text that is no number, an instant outside the years 1 to
    9999, a list. A blank line of a CSV file is a row of missing values; an index of a pandas frame is not a column.

    Args:
        source: A path to a file (docs/files.md lists the formats), the URL of a table or query in a database, or a
            pandas, polars or pyarrow table.
        schema: What is publicly known about it.
        covered: Whether a budget covers what is made of it, as in a fit. An evaluation has none.

    Privacy:
        Releases nothing by what it returns. By failing it tells facts about all rows together, before anything is
        charged: that the table is empty (or that no row of it has a unit), that a text file is damaged or reads as one
        column, and that a column has not one cell that can be read. docs/privacy.md says why. Rows without a unit are
        left out: nobody knows whose they are, so no bound on one person's rows could hold for them, neither if each
        were a unit nor if all of them were one.

    Raises:
        TableError: The structure is not the schema's, the source cannot be read, or one of these facts holds. A
            single value never raises.
        ImportError: The source needs a package of the extra `files`.
    """
    return _assemble(load(source, schema, covered=covered), schema)


def _assemble(source: Source, schema: Schema) -> Table:
    if not len(next(iter(source.columns.values())).series):
        raise TableError(f"{source.name} has no rows.")
    unit, known = _units(source, schema)
    facts = {name: Facts() for name in schema.names}
    columns, labels = convert(source, schema, schema.names, facts, known=known)
    check_facts(facts, schema, source.name, from_file=source.from_file)
    return Table(columns=columns, labels=labels, unit=unit, kind=source.kind, source=source.name)


@dataclasses.dataclass
class Facts:
    """What is known of a column after some of its rows. Private, but for the errors of `check_facts`.

    Attributes:
        read: Whether a cell could be read.
        held: Whether a cell held something, in rows of which none could be read.
        present: Whether a value is not missing.
        texts: Whether a category is not missing.
        listed: Whether a category is one of the schema's.
    """

    read: bool = False
    held: bool = False
    present: bool = False
    texts: bool = False
    listed: bool = False

    @property
    def settled(self) -> bool:
        """Whether no further row can make a difference to `check_facts`."""
        return self.present and (self.listed or not self.texts)


def convert(
    source: Source,
    schema: Schema,
    names: Sequence[str],
    facts: Mapping[str, Facts],
    *,
    known: pl.Series | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """Some columns as arrays, and the categories of those whose values the schema does not give.

    Args:
        facts: Of each of them; what is found is added.
        known: Which rows are kept; None for all.
        labels: Categories of columns whose values the schema does not give; those of the rows if None.
    """

    def one(name: str) -> tuple[np.ndarray, list[str] | None]:
        column, given = schema[name], None if labels is None else labels.get(name)
        cells = _Cells.of(column, source, schema, facts[name], known)
        array, found = _codes(cells, given) if column.kind == "categorical" else (_ARRAYS[column.kind](cells), None)
        missing = array < 0 if column.kind == "categorical" else np.isnan(array)
        facts[name].present |= not missing.all()
        return array, found

    length = len(next(iter(source.columns.values())).series)
    converted = dict(zip(names, in_threads(one, names, length=length), strict=True))
    return (
        {name: array for name, (array, _) in converted.items()},
        {name: found for name, (_, found) in converted.items() if found is not None and schema[name].values is None},
    )


def check_facts(facts: Mapping[str, Facts], schema: Schema, source: str, *, from_file: bool) -> None:
    """Refuses a column of which not one cell can be read, or is a value, after all rows."""
    for name, found in facts.items():
        column = schema[name]
        place, expected = f"{source}, column {name!r}", _EXPECTED[column.kind]
        if found.held and not (found.read or found.present):
            raise TableError(
                f"{place}: expected {expected} for kind {column.kind!r}, and no cell can "
                "be read as that. Change the kind or [file] in the schema, or list how a missing value is spelt under "
                "`missing`."
            )
        if from_file and found.texts and not found.listed:
            raise TableError(
                f"{place}: expected categories of `values`, and no cell is one of them. "
                "Compare their spelling in the table, or leave `values` out."
            )
        if from_file and not column.nullable and not found.present:
            raise TableError(
                f"{place}: expected {expected}, and every cell is missing. "
                "Correct [file] in the schema, set `nullable = true`, or `ignore` the column."
            )


def _units(source: Source, schema: Schema) -> tuple[np.ndarray | None, pl.Series | None]:
    """The units of the rows that have one, and which rows those are; None if all are kept."""
    if schema.unit is None:
        return None, None
    places, texts = unit_texts(source, schema)
    units = texts.cast(pl.Categorical(pl.Categories.random())).to_physical()
    codes = units.cast(pl.Int64).fill_null(-1).to_numpy()[places]
    known = codes >= 0
    if not known.any():
        raise no_units(source.name, schema)
    return codes[known], None if known.all() else pl.Series(known)


def unit_texts(source: Source, schema: Schema) -> tuple[np.ndarray, pl.Series]:
    """The place of each row's unit in a list of texts, and that list, null where nobody knows whose the row is."""
    assert schema.unit is not None
    return key_texts(source, schema, schema.unit, Facts())


def key_texts(source: Source, schema: Schema, name: str, facts: Facts) -> tuple[np.ndarray, pl.Series]:
    """The place of each cell of a key in a list of texts, and that list, null where the cell is missing."""
    cells = _Cells.of(Column(name=name, kind="categorical"), source, schema, facts)
    places, texts = cells.factorised()
    texts = cells.without_missing(texts)
    cells.require_one(texts.null_count() < len(texts), lambda: False)
    return places, texts


def no_units(source: str, schema: Schema) -> TableError:
    """The error for a table of which no row has a unit."""
    return TableError(f"{source} has no rows with a {schema.unit!r}, the unit that the schema names.")


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _Cells:
    """One column as it was found, with all that is needed to say what its cells mean."""

    series: pl.Series
    column: Column
    missing: frozenset[str]
    place: str
    typed: bool
    from_file: bool
    some_unreadable: bool
    facts: Facts

    @classmethod
    def of(
        cls, column: Column, source: Source, schema: Schema, facts: Facts, known: pl.Series | None = None
    ) -> "_Cells":
        found = source.columns[column.name]
        series, unreadable = found.series, found.unreadable
        if known is not None:
            series = series.filter(known)
            unreadable = None if unreadable is None else unreadable.filter(known)
        return cls(
            series=series,
            column=column,
            missing=frozenset(spelling.strip() for spelling in schema.missing),
            place=f"{source.name}, column {column.name!r}",
            typed=not found.untyped,
            from_file=source.from_file,
            some_unreadable=unreadable is not None and bool(unreadable.any()),
            facts=facts,
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

    def require_one(self, some_read: bool, some_held: Callable[[], bool]) -> None:
        """Notes whether the column holds something, but nothing that can be read as the kind.

        Args:
            some_read: Whether a cell could be read.
            some_held: Says whether a cell beside the unreadable ones is not missing; asked only if none could be read.
        """
        self.facts.read |= some_read
        if not some_read:
            self.facts.held |= self.some_unreadable or some_held()

    def none_readable(self) -> np.ndarray:
        """The values of a type that cannot hold the kind: it is refused if it was declared, else every cell is missing.

        A type of pandas was not declared but follows from the cells, and all of these may be blank.
        """
        if self.typed:
            raise self.wrong_type()
        held = self.series.fill_nan(None) if self.series.dtype.is_float() else self.series
        self.require_one(False, lambda: held.null_count() < len(held))
        return np.full(len(held), np.nan)

    def without_missing(self, text: pl.Series) -> pl.Series:
        """Text without the space around it, null where it says that the value is missing."""
        stripped = text.str.strip_chars()
        return stripped.set(stripped.is_in(["", *self.missing]), None)

    def holds_text(self, text: pl.Series) -> bool:
        """Whether some text does not say that the value is missing."""
        return self.without_missing(text).null_count() < len(text)

    def missing_numbers(self) -> list[float]:
        """The numbers that spell a missing value, such as -999."""
        return _numbers_from_text(pl.Series(sorted(self.missing)), {}).drop_nulls().to_list() if self.missing else []

    def instants_from(self, text: pl.Series) -> pl.Series:
        """Text as instants, null where it is none: in the column's format, else as in ISO 8601.

        Objects of Python are written as in ISO 8601 before they come here, so that it is read beside a format; but not
        beside one that begins like it, such as "%Y-%d-%m", where a cell could mean either.
        """
        form = self.column.format
        if form is None:
            return instants.from_text(text)
        found = formats.in_century(formats.parse(text.str.strip_chars(), form), form, self.column.high)
        found = instants.held(found)
        unread = (found.is_null() & text.is_not_null()).arg_true()
        if form.startswith("%Y-") or not len(unread):
            return found
        return found.scatter(unread, instants.from_text(text.gather(unread)))

    def factorised(self) -> tuple[np.ndarray, pl.Series]:
        """The place of each cell in a list of texts, and that list, so that the rest is done once per distinct text.

        The list ends in a null, which is the place of an empty cell; texts that no cell holds are null in it.
        """
        series = self.series
        if not (series.dtype.is_numeric() or self.base in _TEXTUAL):
            raise self.wrong_type()
        if series.dtype.is_float() or series.dtype.is_decimal():
            series = as_text(series)
        elif self.base in (pl.Date, pl.Datetime, pl.Time):
            series = instants.as_text(series)
        if self.base != pl.Categorical:
            series = series.cast(pl.String).cast(pl.Categorical(pl.Categories.random()))
        dtype: Any = series.dtype
        texts = pl.concat([dtype.categories.to_series().cast(pl.String), pl.Series([None], dtype=pl.String)])
        places = series.to_physical().cast(pl.UInt32).fill_null(len(texts) - 1).to_numpy()
        unseen = np.ones(len(texts), dtype=bool)
        unseen[places] = False
        return places, texts.set(pl.Series(unseen), None)


def as_text(numbers: pl.Series) -> pl.Series:
    """Floats and decimals as a column of objects would spell them, whole ones as whole numbers."""
    numbers = numbers.fill_nan(None) if numbers.dtype.is_float() else numbers
    different = numbers.drop_nulls().unique()
    texts = pl.Series([as_written(number) for number in different.to_list()], dtype=pl.String)
    return numbers.replace_strict(different, texts, default=None, return_dtype=pl.String)


def _numbers(cells: _Cells) -> np.ndarray:
    array = _plain_numbers(cells)
    missing = cells.missing_numbers()
    if missing:
        array = np.where(np.isin(array, missing), np.nan, array)
    if cells.column.kind == "integer":  # in place, if the array is not the frame's own: new memory costs more
        array = np.rint(array, out=array if array.flags.writeable else None)
    return array if cells.column.decimals is None else formats.rounded(array, cells.column.decimals)


def _plain_numbers(cells: _Cells) -> np.ndarray:
    """The numbers in a column, NaN if there is none; those that spell a missing value are still among them."""
    series = cells.series
    truth = {text: number for text, number in _TRUTH.items() if text not in cells.missing}
    if cells.base in _TEXTS and not cells.typed:
        text = series.cast(pl.String)
        series = _numbers_from_text(text, truth)
        cells.require_one(series.null_count() < len(series), lambda: cells.holds_text(text))
    elif series.dtype == pl.Boolean and cells.missing:
        series = series.cast(pl.String).replace_strict(truth, default=None, return_dtype=pl.Float64)
    elif series.dtype.is_decimal():
        series = series.cast(pl.String).cast(pl.Float64)  # rounded once; a cast rounds twice
    elif not (series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.Null)):
        return cells.none_readable()
    return series.cast(pl.Float64).to_numpy()  # NaN for null


def _numbers_from_text(text: pl.Series, truth: dict[str, float]) -> pl.Series:
    """Each text as a number or a truth value, null if it is neither; of "12 %" the number before the sign."""
    plain = text.str.strip_chars().str.strip_suffix("%").str.strip_chars_end()
    numbers = plain.cast(pl.Float64, strict=False)
    if truth and numbers.null_count() > plain.null_count():  # else none of them is a truth value
        lowered = plain.str.to_lowercase()
        numbers = numbers.fill_null(lowered.replace_strict(truth, default=None, return_dtype=pl.Float64))
    return numbers


def _booleans(cells: _Cells) -> np.ndarray:
    if cells.base not in _TEXTS:
        numbers = _numbers(cells)
        truths = np.where(np.isin(numbers, (0.0, 1.0)), numbers, np.nan)
        cells.require_one(not np.isnan(truths).all(), lambda: not np.isnan(numbers).all())
        return truths
    places, texts = cells.factorised()
    missing = {"1", "1.0"} if 1.0 in cells.missing_numbers() else set()
    missing |= {"0", "0.0"} if 0.0 in cells.missing_numbers() else set()
    known = {text: truth for text, truth in _SPELLINGS.items() if text not in missing}
    spellings = cells.without_missing(texts).str.to_lowercase()
    meanings = spellings.replace_strict(known, default=None, return_dtype=pl.Float64)
    cells.require_one(meanings.null_count() < len(meanings), lambda: cells.holds_text(texts))
    return meanings.to_numpy()[places]


def _instants(cells: _Cells) -> np.ndarray:
    series = cells.series
    if cells.base in _TEXTS:
        text = series.cast(pl.String)
        moments = cells.instants_from(text)
        cells.require_one(moments.null_count() < len(moments), lambda: cells.holds_text(text))
    elif cells.base in (pl.Date, pl.Datetime, pl.Null):
        moments = series
        cells.require_one(moments.null_count() < len(moments), lambda: False)
    else:
        return cells.none_readable()
    array = instants.microseconds(moments).cast(pl.Float64).to_numpy()
    if cells.missing:
        missing = cells.instants_from(pl.Series(sorted(cells.missing))).drop_nulls()
        array = np.where(np.isin(array, instants.microseconds(missing).cast(pl.Float64).to_numpy()), np.nan, array)
    return np.floor(array / instants.DAY) * instants.DAY if cells.column.kind == "date" else array


def _codes(cells: _Cells, given: Sequence[str] | None) -> tuple[np.ndarray, list[str]]:
    """Codes of a categorical column and the text they stand for, which may be given."""
    column = cells.column
    places, texts = cells.factorised()
    texts = cells.without_missing(texts)
    cells.require_one(texts.null_count() < len(texts), lambda: False)
    labels = list(column.labels or given or texts.drop_nulls().unique().sort().to_list())
    cells.facts.texts |= texts.null_count() < len(texts)
    cells.facts.listed |= bool(texts.is_in(labels).any())
    unknown = labels.index(column.other) if column.values is not None and column.other is not None else -1
    order = {label: code for code, label in enumerate(labels)}
    meanings = texts.replace_strict(order, default=unknown, return_dtype=pl.Int64).set(texts.is_null(), -1)
    return meanings.to_numpy()[places], labels


_TEXTS: Sequence[Any] = (pl.String, pl.Categorical, pl.Enum)
_TEXTUAL: Sequence[Any] = (*_TEXTS, pl.Boolean, pl.Null, pl.Date, pl.Datetime, pl.Time)
_ARRAYS = {"continuous": _numbers, "integer": _numbers, "boolean": _booleans, "datetime": _instants} | {
    "date": _instants
}
