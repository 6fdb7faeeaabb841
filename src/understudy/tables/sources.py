"""Sources: how to get the columns of a schema out of a file, a database or somebody's frame.

The one rule: a source is opened, its structure is checked, and its columns are handed on; nothing of it is kept. What
the cells mean is decided in table.py.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from understudy.tables import packed
from understudy.tables.arrow_file import load_arrow, sample_arrow
from understudy.tables.csv_file import csv_texts, load_csv
from understudy.tables.database import load_database, sample_database
from understudy.tables.database_url import is_url, parse
from understudy.tables.dialect import STANDARD, Dialect
from understudy.tables.excel_file import load_excel, sample_excel
from understudy.tables.frames import load_frame
from understudy.tables.parquet_file import load_parquet, sample_parquet
from understudy.tables.schema import Schema
from understudy.tables.statistical_file import ENDINGS as STATISTICAL
from understudy.tables.statistical_file import load_statistical, sample_statistical
from understudy.tables.structure import FoundColumn, Source, TableError

SEPARATORS = {
    text + pack: "\t" if text in (".tsv", ".tab") else ","
    for text in (".csv", ".tsv", ".txt", ".tab")
    for pack in ("", *packed.ENDINGS)
}
"""The endings of text files, and what separates the fields of one that is written."""
ARROW = (".feather", ".arrow", ".ipc")
EXCEL = (".xlsx", ".xlsm")
_ENDINGS = (*SEPARATORS, ".parquet", *ARROW, *EXCEL, *STATISTICAL)
_WRITTEN = (*SEPARATORS, ".parquet", *ARROW)


def load(source: Any, schema: Schema, *, covered: bool = True) -> Source:
    """The columns of the schema, and its unit, out of a path, a URL or a frame; nothing else is read.

    Args:
        covered: Whether a budget covers what is made of it. If not, a text file that `sample` wrote is recognised even
            where that takes a look at its rows.

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
    return load_csv(path, name, schema, covered=covered)


def sample(
    source: str | os.PathLike[str], *, rows: int, overrides: Mapping[str, Any] | None = None
) -> tuple[list[tuple[str, FoundColumn]], Dialect]:
    """All columns of the first rows of a file or a database, and its dialect, for a draft of its schema.

    Args:
        overrides: Keys of the dialect that the owner states, in place of what is found.

    Privacy:
        Reads the table outside any budget, and the dialect may follow from a single row. What is returned is private.
    """
    if is_url(source):
        return sample_database(os.fspath(source), rows=rows), STANDARD
    path, name, ending = Path(source), os.fspath(source), extension(source)
    if ending == ".parquet":
        return sample_parquet(path, name, rows=rows), STANDARD
    if ending in ARROW:
        return sample_arrow(path, name, rows=rows), STANDARD
    if ending in EXCEL:
        return sample_excel(path, name, rows=rows), STANDARD
    if ending in STATISTICAL:
        return sample_statistical(path, name, ending, rows=rows), STANDARD
    dialect = Dialect.read({**dataclasses.asdict(Dialect.detect(path)), **(overrides or {})})
    names, texts = csv_texts(path, name, dialect, rows=rows)
    return [(each, FoundColumn(series=text, untyped=True)) for each, text in zip(names, texts, strict=True)], dialect


def extension(path: str | os.PathLike[str], *, written: bool = False) -> str:
    """The ending of a path that says how a table is in the file, or is to be written there.

    Raises:
        TableError: No table is read from, or written to, a file that ends so.
    """
    name, known = Path(path).name.lower(), _WRITTEN if written else _ENDINGS
    found = [ending for ending in known if name.endswith(ending)]
    if found:
        return max(found, key=len)
    shown = [ending for ending in known if not ending.endswith(packed.ENDINGS) or ending.startswith(".csv")]
    raise TableError(f"{os.fspath(path)}: expected a file that ends in {', '.join(shown)}.")


def readable(path: str | os.PathLike[str]) -> bool:
    """Whether the name of a file ends like one that holds a table."""
    return Path(path).name.lower().endswith(_ENDINGS)


def public_name(source: str | os.PathLike[str]) -> str:
    """What a message, a receipt or a report may call a source: its path, or its URL without password and query."""
    return parse(os.fspath(source)).name if is_url(source) else os.fspath(source)


def title(source: str | os.PathLike[str]) -> str:
    """A short name for the table in a source: that of the file without its endings, or that of the table."""
    return parse(os.fspath(source)).title if is_url(source) else Path(source).name.split(".")[0] or "table"
