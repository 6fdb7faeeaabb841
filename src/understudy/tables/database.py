"""Databases: the columns of a schema out of a table or a query of SQLite, DuckDB or PostgreSQL.

The one rule: a database is only read, and its drivers decide nothing. They would raise for a cell that Python cannot
hold (a date in the year 12 000, bytes that are no text), so cells travel as text or as plain numbers and are read here,
each by itself. Errors of drivers may quote a cell or a password, so none of them passes through.
"""

import contextlib
import io
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from understudy.tables.cells import BLANK, as_written
from understudy.tables.database_url import DatabaseURL, parse
from understudy.tables.files import damaged, extra, polars_errors
from understudy.tables.schema import Schema
from understudy.tables.structure import FoundColumn, Source, TableError, check_names, distinct_names, wanted

Texts = Sequence[str | None]
Opened = tuple[list[str], Callable[[Sequence[int]], list[Texts]]]
"""The names of the columns, and a function that fetches the cells of some of them as text; None is unreadable."""

_BATCH = 10_000
_SECONDS = 10  # A server has so much time to accept a connection.
_DUCKDB_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "BIGNUM")
_DUCKDB_TEXTS = ("VARCHAR", "BOOLEAN", "DATE", "TIME", "UUID", "ENUM")
_POSTGRESQL_BOOLEAN = 16


def load_database(url: str, schema: Schema) -> Source:
    """Reads the wanted columns of a table or a query.

    Raises:
        TableError: The database cannot be reached or read, or the columns are not the schema's.
    """
    place = parse(url)
    with _DRIVERS[place.scheme](place) as (found, fetch):
        names = distinct_names(found)
        check_names(names, schema, place.name)
        columns = fetch([names.index(name) for name in wanted(schema)])
    typed = {name: FoundColumn.of_texts(cells) for name, cells in zip(wanted(schema), columns, strict=True)}
    return Source(columns=typed, kind="polars", from_file=True, name=place.name)


def sample_database(url: str, *, rows: int) -> list[tuple[str, FoundColumn]]:
    """All columns of the first rows, for a draft of a schema."""
    place = parse(url)
    with _DRIVERS[place.scheme](place) as (names, fetch):
        columns = fetch(range(len(names)))
    return [
        (name, FoundColumn.of_texts(each[:rows])) for name, each in zip(distinct_names(names), columns, strict=True)
    ]


def _batches(cursor: Any, places: Sequence[int]) -> list[Texts]:
    """Cells of a cursor as a person would write them."""
    columns: list[list[str | None]] = [[] for _ in places]
    while rows := cursor.fetchmany(_BATCH):
        for column, place in zip(columns, places, strict=True):
            column.extend(as_written(row[place]) for row in rows)
    return list(columns)


def _failed(place: DatabaseURL) -> TableError:
    what = f"there is no table {place.table!r} that can be read" if place.table else "the query cannot be run"
    return TableError(f"{place.name}: {what}.")


def _existing(place: DatabaseURL) -> Path:
    path = Path(place.location)
    if not path.is_file():
        raise TableError(f"{place.name} cannot be read: {'it is a folder' if path.is_dir() else 'no such file'}.")
    return path


# SQLite -------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _sqlite(place: DatabaseURL) -> Iterator[Opened]:
    path = _existing(place)
    connection = None
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
        connection.text_factory = _text_of_sqlite
        cursor = connection.execute(place.statement)
        if cursor.description is None:
            raise _failed(place)
        yield [column[0] for column in cursor.description], lambda places: _batches(cursor, places)
    except (sqlite3.Error, sqlite3.Warning) as error:
        is_foreign = getattr(error, "sqlite_errorname", "") in ("SQLITE_NOTADB", "SQLITE_CORRUPT")
        raise (damaged(place.name, "SQLite") if is_foreign else _failed(place)) from None
    finally:
        if connection is not None:
            connection.close()


def _text_of_sqlite(cell: bytes) -> str:
    return cell.decode("utf-8", "surrogateescape")  # what is no UTF-8 becomes what as_written cannot write


# DuckDB -------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _duckdb(place: DatabaseURL) -> Iterator[Opened]:
    duckdb, path = extra("duckdb", "DuckDB databases"), _existing(place)
    try:
        connection = duckdb.connect(str(path), read_only=True)
    except duckdb.Error:
        raise damaged(place.name, "DuckDB") from None
    try:
        connection.execute("SET TimeZone = 'UTC'")
        described = connection.execute(f"DESCRIBE {place.statement}").fetchall()
        names, types = [row[0] for row in described], [str(row[1]).upper() for row in described]

        def fetch(places: Sequence[int]) -> list[Texts]:
            aliases = [f"c{number}" for number in range(len(names))]
            asked = ", ".join(_asked_of_duckdb(aliases[each], types[each]) for each in places)
            statement = f"SELECT {asked} FROM ({place.statement}\n) AS t({', '.join(aliases)})"
            return _batches(connection.execute(statement), range(len(places)))

        yield names, fetch
    except duckdb.Error:
        raise _failed(place) from None
    finally:
        connection.close()


def _asked_of_duckdb(column: str, dtype: str) -> str:
    """A column as a number or as text; of a list, a structure or bytes only whether there is one."""
    if dtype.removeprefix("U").startswith(_DUCKDB_NUMBERS) and not dtype.endswith("]"):
        return column
    if dtype.startswith(_DUCKDB_TEXTS) and not dtype.endswith("]"):
        return f"coalesce(CAST({column} AS VARCHAR), '')"
    return f"encode(CAST({column} AS VARCHAR))"  # bytes, which are unreadable


# PostgreSQL ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _postgresql(place: DatabaseURL) -> Iterator[Opened]:
    psycopg = extra("psycopg", "PostgreSQL databases")
    waits = {} if "connect_timeout=" in place.location else {"connect_timeout": _SECONDS}
    try:
        connection = psycopg.connect(place.location, client_encoding="utf8", **waits)
    except (psycopg.Error, ValueError, UnicodeError):
        raise TableError(
            f"{place.name}: no connection. Check host, port, user and database, and the password in PGPASSWORD or "
            "~/.pgpass."
        ) from None
    try:
        connection.read_only = True
        cursor = connection.cursor()
        for setting in ("TimeZone = 'UTC'", "DateStyle = 'ISO'", "extra_float_digits = 1"):
            cursor.execute(f"SET LOCAL {setting}")
        cursor.execute(f"SELECT * FROM ({place.statement}\n) AS source LIMIT 0")
        described = [(column.name, column.type_code) for column in cursor.description or ()]

        def fetch(places: Sequence[int]) -> list[Texts]:
            # A first column without a null, so that no row is a blank line.
            numbered = f"SELECT 1, source.* FROM ({place.statement}\n) AS source"
            with cursor.copy(f"COPY ({numbered}) TO STDOUT (FORMAT csv)") as copy:
                content = b"".join(copy)
            return _columns_of_csv(content, len(described), places, place.name, [code for _, code in described])

        yield [name for name, _ in described], fetch
    except psycopg.Error:
        raise _failed(place) from None
    finally:
        connection.close()


def _columns_of_csv(content: bytes, width: int, places: Sequence[int], name: str, types: Sequence[int]) -> list[Texts]:
    """Cells of what PostgreSQL writes as CSV, with a column in front of the first."""
    if not content:
        return [[] for _ in places]
    dtypes = {str(number): pl.String for number in range(width + 1)}
    with polars_errors(name, "a table"):
        frame = pl.read_csv(io.BytesIO(content), has_header=False, schema=dtypes, encoding="utf8-lossy")
    columns = []
    for place in places:
        cells = frame.get_column(str(place + 1)).fill_null(BLANK)
        if types[place] == _POSTGRESQL_BOOLEAN:
            cells = cells.replace({"t": "true", "f": "false"})
        columns.append(cells.to_list())
    return columns


_DRIVERS = {"sqlite": _sqlite, "duckdb": _duckdb, "postgresql": _postgresql}
