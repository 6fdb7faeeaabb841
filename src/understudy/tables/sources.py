"""Sources: how to get the columns of a schema out of a CSV file, a Parquet file or somebody's frame.

The one rule: a source is opened, its structure is checked, and its columns are handed on; nothing of it is kept. What
the cells mean is decided in table.py.
"""

import os
from pathlib import Path
from typing import Any

from understudy.tables.csv_file import csv_kinds, load_csv
from understudy.tables.dialect import Dialect
from understudy.tables.frames import load_frame
from understudy.tables.parquet_file import load_parquet, parquet_kinds
from understudy.tables.schema import Schema
from understudy.tables.structure import Source, TableError

SEPARATORS = {".csv": ",", ".tsv": "\t", ".csv.gz": ","}
_EXTENSIONS = (*SEPARATORS, ".parquet")


def load(source: Any, schema: Schema) -> Source:
    """The columns of the schema, and its unit, out of a path or a frame; nothing else is read.

    Raises:
        TableError: It cannot be read, or its columns are not the schema's.
    """
    if not isinstance(source, str | os.PathLike):
        return load_frame(source, schema)
    path, name, ending = Path(source), os.fspath(source), extension(source)
    if ending == ".parquet":
        return load_parquet(path, name, schema)
    return load_csv(path, name, schema)


def kinds(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """The name and the kind of every column in a file, for a draft of its schema.

    The kinds of a Parquet file are its types. A CSV file has none, so they are guessed from the cells of its first
    1000 rows: that guess is the one thing learned from the data, and nothing else about it is returned.
    """
    name, ending = os.fspath(path), extension(path)
    if ending == ".parquet":
        return parquet_kinds(Path(path), name)
    return csv_kinds(Path(path), name, Dialect.detect(path))


def extension(path: str | os.PathLike[str]) -> str:
    """The ending of a path that says how a table is written there, or a TableError."""
    name = Path(path).name.lower()
    for ending in _EXTENSIONS:
        if name.endswith(ending):
            return ending
    raise TableError(f"{os.fspath(path)}: expected a file that ends in {', '.join(_EXTENSIONS)}.")
