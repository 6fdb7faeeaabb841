"""Sources: how to get the columns of a schema out of a CSV file, a Parquet file or somebody's frame.

The one rule kept here: failing is also a release. What is wrong with the structure of a source (a missing column, a
broken file) raises a `TableError`, and no message shows a cell. Errors of polars and pyarrow may quote one, so none of
them passes through. What a cell means is not decided here but in table.py.

Files are read with polars (https://docs.pola.rs); frames are recognised with narwhals, so that pandas and pyarrow are
needed only by those who use them.
"""

import contextlib
import dataclasses
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import narwhals as nw
import numpy as np
import polars as pl

from understudy.core.files import reason
from understudy.core.text import did_you_mean
from understudy.tables.schema import Schema

SEPARATORS = {".csv": ",", ".tsv": "\t", ".csv.gz": ","}
_EXTENSIONS = (*SEPARATORS, ".parquet")
_DRAFT_ROWS = 1000
_HEAD_BYTES = 65536


class TableError(ValueError):
    """The table, as a whole or one of its columns, cannot be read or written. The message shows no cell."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Source:
    """The columns that a schema names, as they were found. Private.

    Attributes:
        series: By name; the unit among them.
        kind: The kind of frame they came in: "pandas", "polars" or "pyarrow"; "polars" for a file.
        name: What messages call it.
        untyped: Columns whose cells had no common type before the schema gave them one (a CSV file's, a pandas column
            of objects): text there may be a number, and a cell that is none is missing. Elsewhere text never is.
    """

    series: dict[str, pl.Series]
    kind: str
    name: str
    untyped: frozenset[str] = frozenset()


def load(source: Any, schema: Schema) -> Source:
    """The columns of the schema, and its unit, out of a path or a frame; nothing else is read.

    Raises:
        TableError: It cannot be read, or its columns are not the schema's.
    """
    if not isinstance(source, str | os.PathLike):
        return _load_frame(source, schema)
    path, name = Path(source), os.fspath(source)
    return _load_parquet(path, name, schema) if extension(path) == ".parquet" else _load_csv(path, name, schema)


def kinds(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """The name and the kind of every column in a file, for a draft of its schema.

    The kinds of a Parquet file are its types. A CSV file has none, so they are guessed from the cells of its first
    1000 rows: that guess is the one thing learned from the data, and nothing else about it is returned.
    """
    name = os.fspath(path)
    if extension(path) == ".parquet":
        with _polars_errors(name, "Parquet"):
            dtypes = pl.read_parquet_schema(_check_parquet(Path(path), name))
        return [(column, _kind_of(dtype)) for column, dtype in dtypes.items()]
    header = _header(Path(path), name)
    _check_distinct(header, name)
    with _polars_errors(name, "CSV"):
        cells = _read_csv(
            Path(path),
            skip_rows=1,
            n_rows=_DRAFT_ROWS,
            ignore_errors=True,
            infer_schema_length=None,
            try_parse_dates=True,
        )
    dtypes = cells.dtypes + [pl.String()] * len(header)  # a first row that is too short ends in text
    return [(column, _kind_of(dtype)) for column, dtype in zip(header, dtypes, strict=False)]


def extension(path: str | os.PathLike[str]) -> str:
    """The ending of a path that says how a table is written there, or a TableError."""
    name = Path(path).name.lower()
    for ending in _EXTENSIONS:
        if name.endswith(ending):
            return ending
    raise TableError(f"{os.fspath(path)}: expected a file that ends in {', '.join(_EXTENSIONS)}.")


# Names.


def _wanted(schema: Schema) -> list[str]:
    return [*schema.names, *([schema.unit] if schema.unit is not None else [])]


def _check_names(names: Sequence[str], schema: Schema, source: str) -> None:
    """Refuses missing, extra and repeated columns.

    Missing ones come first: a file without a header has cells in its first line, and while a name of the schema is
    not among them, none of them is shown.
    """
    wanted = _wanted(schema)
    missing = [name for name in wanted if name not in names]
    if len(missing) == len(wanted):
        raise TableError(f"{source} has none of the columns that the schema names. Are the names in its first line?")
    if missing:
        hint = did_you_mean(missing[0], [name for name in names if name not in wanted])
        raise TableError(f"{source} has no column {missing[0]!r}, which the schema names.{hint}")
    _check_distinct(names, source)
    extra = [name for name in names if name not in wanted and name not in schema.ignore]
    if extra:
        more = f" and {len(extra) - 1} more" if len(extra) > 1 else ""
        raise TableError(
            f"{source} has a column {extra[0]!r}{more}, which the schema does not name. "
            "Add it to the schema, or to its `ignore` list."
        )


def _check_distinct(names: Sequence[str], source: str) -> None:
    repeated = [name for place, name in enumerate(names) if name in names[:place]]
    if repeated:
        raise TableError(f"{source} has more than one column {repeated[0]!r}. Rename all but one.")


# Files.


def _open(path: Path, source: str):
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        raise TableError(f"{source} cannot be read: {reason(error)}.") from None


@contextlib.contextmanager
def _polars_errors(source: str, form: str) -> Iterator[list[warnings.WarningMessage]]:
    """Turns whatever polars says about a file into one line that shows no cell; gives the list of its warnings."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield caught
    except pl.exceptions.NoDataError:
        raise TableError(f"{source} has no rows.") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, MemoryError) as error:
        if "utf-8" in str(error).lower():
            raise TableError(f"{source}: expected UTF-8 text. Save it in that encoding.") from None
        raise TableError(f"{source} cannot be read as {form}: it is damaged, cut short or something else.") from None


def _read_csv(path: Path, content: bytes | None = None, **options: Any) -> pl.DataFrame:
    """A CSV file, or that content of it, as polars reads it; lines too long or too short are no error.

    Names are left out of it, since polars renames the ones that come twice and does not unquote all of them.
    """
    return pl.read_csv(
        path if content is None else content,
        has_header=False,
        separator=SEPARATORS[extension(path)],
        glob=False,
        truncate_ragged_lines=True,
        extra_columns="ignore",
        missing_columns="insert",
        **options,
    )


def _header(path: Path, source: str) -> list[str]:
    with _open(path, source) as file:
        head = file.read(_HEAD_BYTES)
    if not head:
        raise TableError(f"{source} is empty.")
    first, end, _ = head.partition(b"\n")
    # Without quotes a header ends with its line, and polars need not be shown the whole file for it.
    alone = end and first.strip() and b'"' not in first and not extension(path).endswith(".gz")
    with _polars_errors(source, "CSV"):
        line = _read_csv(path, first if alone else None, n_rows=1, infer_schema=False, ignore_errors=True)
        names = ["" if name is None else name for name in line.row(0)]  # no row: a quote was never closed
    if not any(names):
        raise TableError(f"{source}: expected the names of the columns in the first line, and it is blank.")
    if any("\r" in name for name in names):
        raise TableError(f"{source}: expected lines that end in a line feed. Save it with ordinary line ends.")
    return names


def _load_csv(path: Path, source: str, schema: Schema) -> Source:
    """Reads the wanted columns in one pass, typed by the schema, so that nothing has to be inferred.

    Columns of numbers are parsed as such while every cell of theirs is a number or empty. As soon as one is not (it has
    space around it, or it is no number at all), all of them are read again as text. Clean files thus cost nothing more.
    """
    header = _header(path, source)
    _check_names(header, schema, source)
    places = {name: header.index(name) for name in _wanted(schema)}
    dtypes: dict[str, Any] = {str(place): pl.String for place in range(len(header))}
    for column in schema:
        if column.kind in ("categorical", "boolean"):
            # Each with categories of its own, so that codes are small and the text is freed with the column.
            dtypes[str(places[column.name])] = pl.Categorical(pl.Categories.random())
    numbers = {str(places[column.name]): pl.Float64 for column in schema if column.kind in ("continuous", "integer")}

    def scan(dtypes: dict[str, Any], **options: Any) -> pl.DataFrame:
        return _read_csv(path, skip_rows=1, schema=dtypes, **options)

    options = {"columns": sorted(places.values()), "null_values": [text.strip() for text in schema.missing] or None}
    with _polars_errors(source, "CSV") as caught:
        try:
            frame = scan(dtypes | numbers, **options)
        except pl.exceptions.PolarsError:
            frame = scan(dtypes, ignore_errors=True, **options)
        if any("malformed" in str(warning.message) for warning in caught):
            # A quote that is never closed swallows the rows behind it; only text columns raise for that.
            scan(dict.fromkeys(dtypes, pl.String))
    series = {name: frame.get_column(str(place)) for name, place in places.items()}
    return Source(series=series, kind="polars", name=source, untyped=frozenset(series))


def _check_parquet(path: Path, source: str) -> Path:
    """The path, once the file has a head and a tail of Parquet's: polars may panic without one."""
    with _open(path, source) as file:
        head = file.read(4)
        if not head:
            raise TableError(f"{source} is empty.")
        file.seek(max(0, os.fstat(file.fileno()).st_size - 4))
        if head not in (b"PAR1", b"PARE") or file.read(4) != head:
            raise TableError(f"{source} cannot be read as Parquet: it is damaged, cut short or something else.")
    return path


def _load_parquet(path: Path, source: str, schema: Schema) -> Source:
    _check_parquet(path, source)
    with _polars_errors(source, "Parquet"):
        names = list(pl.read_parquet_schema(path))
    _check_names(names, schema, source)
    with _polars_errors(source, "Parquet"):
        frame = pl.read_parquet(path, columns=_wanted(schema), glob=False, hive_partitioning=False)
    return Source(series=_columns(frame), kind="polars", name=source)


def _kind_of(dtype: pl.DataType) -> str:
    if dtype.is_integer():
        return "integer"
    if dtype.is_numeric():
        return "continuous"
    if dtype == pl.Boolean:
        return "boolean"
    return "datetime" if dtype.base_type() in (pl.Date, pl.Datetime) else "categorical"


# Frames.


def _load_frame(source: Any, schema: Schema) -> Source:
    native: Any = nw.to_native(source, pass_through=True)
    is_a = nw.dependencies
    if is_a.is_polars_dataframe(native) or is_a.is_polars_lazyframe(native):
        kind, names, load_columns = "polars", _names_of_polars(native), _from_polars
    elif is_a.is_pandas_dataframe(native):
        kind, names, load_columns = "pandas", list(native.columns), _from_pandas
    elif is_a.is_pyarrow_table(native):
        kind, names, load_columns = "pyarrow", list(native.column_names), _from_pyarrow
    else:
        raise TableError(
            "expected a path or a pandas, polars or pyarrow table, "
            f"got {type(native).__module__.split('.')[0]}.{type(native).__name__}."
        )
    name = f"the {kind} table"
    if not all(isinstance(column, str) for column in names):
        raise TableError(f"{name}: expected the names of its columns to be text.")
    _check_names(names, schema, name)
    wanted, frame = _wanted(schema), cast(Any, native)
    objects = [name for name in wanted if kind == "pandas" and frame[name].dtype == object]
    return Source(series=load_columns(native, wanted), kind=kind, name=name, untyped=frozenset(objects))


def _columns(frame: pl.DataFrame) -> dict[str, pl.Series]:
    return {series.name: series for series in frame}


def _names_of_polars(frame: pl.DataFrame | pl.LazyFrame) -> list[str]:
    with _polars_errors("the polars table", "a table"):
        return frame.collect_schema().names()


def _from_polars(frame: Any, wanted: Sequence[str]) -> dict[str, pl.Series]:
    with _polars_errors("the polars table", "a table"):
        return _columns(frame.lazy().select(wanted).collect())


def _from_pandas(frame: Any, wanted: Sequence[str]) -> dict[str, pl.Series]:
    return {name: _column_of_pandas(frame[name]) for name in wanted}


def _from_pyarrow(table: Any, wanted: Sequence[str]) -> dict[str, pl.Series]:
    return {name: _column_of_pyarrow(name, table.column(name)) for name in wanted}


def _column_of_pandas(series: Any) -> pl.Series:
    """A pandas column as polars sees it; one of objects as text, cell by cell.

    How a cell of objects is read must not depend on the other cells, as it would if a column of one type were read as
    that type: one row more could then change how all others are read.
    """
    try:
        found = pl.from_pandas(series)
    except ImportError:
        raise TableError("the pandas table: reading one needs pyarrow. Install pyarrow.") from None
    except Exception:  # whatever pyarrow raises may quote a cell
        if series.dtype != object:
            return _foreign(series.name, len(series))
        found = None
    if found is not None and (series.dtype != object or found.dtype in (pl.String, pl.Null)):
        return found
    cells = [None if blank else as_written(cell) for cell, blank in zip(series, series.isna(), strict=True)]
    return pl.Series(series.name, cells, dtype=pl.String)


def _foreign(name: str, length: int) -> pl.Series:
    """Stands for a column of a type that polars does not have; no kind accepts it."""
    return pl.Series(name, [None] * length, dtype=pl.Object)


def as_written(cell: Any) -> str:
    """A cell of a column of objects, the way a person would write it."""
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell)


def _column_of_pyarrow(name: str, column: Any) -> pl.Series:
    try:
        if type(column.type).__name__ == "DictionaryType":
            column = column.cast(column.type.value_type)
        return pl.Series(name, pl.from_arrow(column))
    except Exception:  # whatever pyarrow raises may quote a cell
        return _foreign(name, len(column))
