"""CSV files: the columns of a schema out of one, typed by the schema.

The one rule: the schema's [file] says how the file is spelt, and rows decide nothing. A damaged file (a stray quote,
bytes of another encoding) is refused as a whole; in a sound one every cell is read by itself.

Files are read with polars (https://docs.pola.rs).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from understudy.tables.dialect import STANDARD, Dialect
from understudy.tables.files import polars_errors
from understudy.tables.numbers import has_marks, with_points
from understudy.tables.schema import Schema
from understudy.tables.structure import FoundColumn, Source, TableError, check_names, numbered_names, wanted
from understudy.tables.text_file import TextFile

_FEW = 5  # One cell in so many may be no number in a column that a draft takes for numbers.
_USUAL_DELIMITERS = ";\t|,"
_NUMBERS = ("continuous", "integer")


def load_csv(path: Path, source: str, schema: Schema, *, covered: bool = True) -> Source:
    """Reads the wanted columns in one pass, typed by the schema, so that nothing has to be inferred.

    Columns of numbers are parsed as such while every cell of theirs is a number or empty. As soon as one is not (it has
    space around it, or it is no number at all), all of them are read again as text, and text is parsed to the same
    numbers. Clean files thus cost nothing more.

    Args:
        covered: Whether a budget covers what is made of it, so that rows may not decide how the file is read.
    """
    file, names, skipped = _opened(path, source, schema, covered=covered)
    check_csv(file, names, schema)
    columns = _cells(file, names, schema, wanted(schema), skipped)
    return Source(columns=columns, kind="polars", from_file=True, name=source)


def check_csv(file: TextFile, names: list[str], schema: Schema) -> None:
    """Refuses a file whose structure is not the schema's, or that is damaged as a whole."""
    check_names(names, schema, file.source)
    file.check_quotes()
    if len(names) > 1 and file.is_one_column():
        raise _one_column(file)
    file.check_lines(len(wanted(schema)))


def open_csv(path: Path, source: str, schema: Schema) -> tuple[TextFile, list[str], int]:
    """A checked file that a fit reads, the names of its columns, and how many lines of it are no rows."""
    file, names, skipped = _opened(path, source, schema, covered=True)
    check_csv(file, names, schema)
    return file, names, skipped


def load_csv_block(
    path: Path, source: str, schema: Schema, columns: Sequence[str], start: int, end: int | None
) -> Source:
    """Some columns of the lines between two bytes of a file that was checked; of all lines if `end` is None."""
    file, names, skipped = _opened(path, source, schema, covered=True)
    content = None if end is None else file.between(start, end)
    found = _cells(file, names, schema, columns, skipped if start == 0 else 0, content)
    return Source(columns=found, kind="polars", from_file=True, name=source)


def _cells(
    file: TextFile,
    names: list[str],
    schema: Schema,
    wanted: Sequence[str],
    skipped: int,
    content: bytes | None = None,
) -> dict[str, FoundColumn]:
    """The wanted columns of a file, or of the content given."""
    places = {name: names.index(name) for name in wanted}
    dtypes: dict[str, Any] = {str(place): pl.String for place in range(len(names))}
    for column in schema:
        if column.kind in ("categorical", "boolean") and column.name in places:
            # Each with categories of its own, so that codes are small and the text is freed with the column.
            dtypes[str(places[column.name])] = pl.Categorical(pl.Categories.random())
    options = {
        "skip_rows": skipped,
        "columns": sorted(places.values()),
        "null_values": [text.strip() for text in schema.missing] or None,
    }
    numeric = [str(places[each.name]) for each in schema if each.name in places and each.kind in _NUMBERS]
    spelt = has_marks(file.dialect)
    with polars_errors(file.source, "CSV"):
        try:
            typed = dtypes | ({} if spelt else dict.fromkeys(numeric, pl.Float64))
            frame = file.parse(content, schema=typed, **options)
        except pl.exceptions.PolarsError:
            frame = file.parse(content, schema=dtypes, ignore_errors=True, **options)
    columns = {}
    for name, place in places.items():
        series, unreadable = frame.get_column(str(place)), None
        if spelt and str(place) in numeric:
            series, unreadable = with_points(series, file.dialect)
        columns[name] = FoundColumn(series=series, untyped=True, unreadable=unreadable)
    return columns


def _opened(path: Path, source: str, schema: Schema, *, covered: bool) -> tuple[TextFile, list[str], int]:
    """The file, the names of its columns, and how many lines of it are no rows.

    A file whose first line names the columns in the standard form, as `sample` writes it, but not in the schema's
    dialect, is read in the standard form. Names are public, so this tells nothing about rows. If the schema says that
    there are no names, the first line is a row, and only where no budget covers it may it be taken for names.
    """
    dialect = schema.file
    if not covered and (made_here := _as_sample_writes(path, source, schema)) is not None:
        return *made_here, 1
    if not dialect.header:
        file = TextFile(path, source, dialect)
        names = numbered_names(schema, source)
        return file, names, int(file.first_line()[: len(names)] == names)  # a first row of just these names is none
    try:
        file = TextFile(path, source, dialect)
        names = file.header()
    except TableError:
        if dialect == STANDARD or (standard := _in_standard_form(path, source, schema)) is None:
            raise
        return *standard, 1
    if dialect != STANDARD and not set(wanted(schema)) <= set(names):
        file, names = _in_standard_form(path, source, schema) or (file, names)
    if len(names) == 1 and (len(wanted(schema)) > 1 or _is_unsplit(file)):
        raise _one_column(file)
    return file, names, 1


def _as_sample_writes(path: Path, source: str, schema: Schema) -> tuple[TextFile, list[str]] | None:
    """The file and its names, if the schema's dialect would misread a file that is in the standard form.

    Where there is no header, the first line tells; where commas are the same in both, letters and numbers do.
    """
    dialect = schema.file
    if dialect == STANDARD or (dialect.header and dialect.delimiter != STANDARD.delimiter):
        return None
    found = _in_standard_form(path, source, schema)
    if found is None or not dialect.header:
        return found
    seen = Dialect.detect(path)
    return found if seen.encoding == STANDARD.encoding and not has_marks(seen) else None


def _is_unsplit(file: TextFile) -> bool:
    """Whether the first line, read as one name, holds what is usually a delimiter, and no quotes around it."""
    line = file.head.partition(b"\n")[0].decode("utf-8", "replace")
    is_quoted = file.dialect.quote != "" and file.dialect.quote in line
    return not is_quoted and any(mark in line for mark in _USUAL_DELIMITERS)


def _in_standard_form(path: Path, source: str, schema: Schema) -> tuple[TextFile, list[str]] | None:
    """The file and its names, if its first line names the columns of the schema in the standard form."""
    try:
        file = TextFile(path, source, STANDARD)
        names = file.header()
    except TableError:
        return None
    return (file, names) if set(wanted(schema)) <= set(names) else None


def _one_column(file: TextFile) -> TableError:
    mark = "a tab" if file.separator == "\t" else repr(file.separator)
    return TableError(
        f"{file.source} reads as one column, because {mark} does not separate its fields. Write the right `delimiter` "
        "under [file] in the schema; `understudy schema draft` finds it."
    )


def csv_texts(path: Path, source: str, dialect: Dialect, *, rows: int) -> tuple[list[str], list[pl.Series]]:
    """The names of all columns and the cells of the first rows as text, for a draft of a schema.

    Numbers are spelt with a decimal point and without groups in a column where most cells with a digit are numbers.
    """
    file = TextFile(path, source, dialect)
    names = file.header() if dialect.header else []
    file.check_quotes()
    with polars_errors(source, "CSV"):
        cells = file.parse(skip_rows=int(dialect.header), n_rows=rows, ignore_errors=True, infer_schema=False)
    names = names or [f"column_{place}" for place in range(1, cells.width + 1)]
    columns = [_with_points(column, dialect) for column in cells.get_columns()[: len(names)]]
    blank = pl.Series([None] * len(cells), dtype=pl.String)  # of the last columns, if the first row is too short
    return names, [*columns, *[blank] * (len(names) - len(columns))]


def _with_points(text: pl.Series, dialect: Dialect) -> pl.Series:
    if not has_marks(dialect):
        return text
    numbers, unreadable = with_points(text, dialect)
    return text if unreadable.sum() > len(text.drop_nulls()) // _FEW else numbers.set(unreadable, None)
