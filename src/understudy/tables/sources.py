"""Sources: how to get the columns of a schema out of a file, a database or somebody's frame.

The one rule: a source is opened, its structure is checked, and its columns are handed on; nothing of it is kept. What
the cells mean is decided in table.py.
"""

import os
from pathlib import Path
from typing import Any

from understudy.tables import packed
from understudy.tables.arrow_file import arrow_kinds, load_arrow
from understudy.tables.csv_file import csv_kinds, load_csv
from understudy.tables.database import database_kinds, load_database
from understudy.tables.database_url import is_url, parse
from understudy.tables.dialect import Dialect
from understudy.tables.excel_file import excel_kinds, load_excel
from understudy.tables.frames import load_frame
from understudy.tables.parquet_file import load_parquet, parquet_kinds
from understudy.tables.schema import Schema
from understudy.tables.statistical_file import ENDINGS as STATISTICAL
from understudy.tables.statistical_file import load_statistical, statistical_kinds
from understudy.tables.structure import Source, TableError

TEXT = (".csv", ".tsv", ".txt", ".tab")
ARROW = (".feather", ".arrow", ".ipc")
EXCEL = (".xlsx", ".xlsm")
_PACKED_TEXT = tuple(text + pack for text in TEXT for pack in packed.ENDINGS)
_ENDINGS = (*TEXT, *_PACKED_TEXT, ".parquet", *ARROW, *EXCEL, *STATISTICAL)


def load(source: Any, schema: Schema) -> Source:
    """The columns of the schema, and its unit, out of a path, a URL or a frame; nothing else is read.

    Raises:
        TableError: It cannot be read, or its columns are not the schema's.
        ImportError: It needs a package of the extra `files`; the message says how to install it.
    """
    if not isinstance(source, str | os.PathLike):
        return load_frame(source, schema)
    if is_url(source):
        return load_database(os.fspath(source), schema)
    path, name, ending = Path(source), os.fspath(source), extension(source)
    if ending == ".parquet":
        return load_parquet(path, name, schema)
    if ending in ARROW:
        return load_arrow(path, name, schema)
    if ending in EXCEL:
        return load_excel(path, name, schema)
    if ending in STATISTICAL:
        return load_statistical(path, name, schema, ending)
    return load_csv(path, name, schema)


def kinds(source: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """The name and the kind of every column in a file or a database, for a draft of its schema.

    The kinds of a typed file are its types. Text, a sheet and a database have none, so they are guessed from the cells
    (of a text file from its first 1000 rows): that guess and the dialect are all that is learned from the data.
    """
    if is_url(source):
        return database_kinds(os.fspath(source))
    path, name, ending = Path(source), os.fspath(source), extension(source)
    if ending == ".parquet":
        return parquet_kinds(path, name)
    if ending in ARROW:
        return arrow_kinds(path, name)
    if ending in EXCEL:
        return excel_kinds(path, name)
    if ending in STATISTICAL:
        return statistical_kinds(path, name, ending)
    return csv_kinds(path, name, Dialect.detect(path))


def extension(path: str | os.PathLike[str]) -> str:
    """The ending of a path that says how a table is written there, or a TableError."""
    name = Path(path).name.lower()
    found = [ending for ending in _ENDINGS if name.endswith(ending)]
    if found:
        return max(found, key=len)
    shown = ", ".join((*TEXT, ".csv.gz", ".csv.zst", ".parquet", *ARROW, *EXCEL, *STATISTICAL))
    raise TableError(f"{os.fspath(path)}: expected a file that ends in {shown}.")


def public_name(source: str | os.PathLike[str]) -> str:
    """What a message, a receipt or a report may call a source: its path, or its URL without password and query."""
    return parse(os.fspath(source)).name if is_url(source) else os.fspath(source)


def title(source: str | os.PathLike[str]) -> str:
    """A short name for the table in a source: that of the file without its endings, or that of the table."""
    return parse(os.fspath(source)).title if is_url(source) else Path(source).name.split(".")[0] or "table"
