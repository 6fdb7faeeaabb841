"""Parquet files in an object store, by URL: `s3://bucket/rows/*.parquet`, `gs://bucket/rows`, `file:///data/rows`.

The one rule: a key in a URL is never shown. What messages call a file is its URL without user, password and parameters.

pyarrow opens the store, with the credentials that it finds in its environment; where it knows none of a scheme, fsspec
does. Types and cells are those of a pyarrow table, which is to say of the same file on a disk.
"""

import dataclasses
import fnmatch
import glob
import importlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from understudy.tables.files import damaged, library_errors
from understudy.tables.pyarrow_table import column_of_pyarrow
from understudy.tables.schema import Schema
from understudy.tables.structure import Source, TableError, check_names

SCHEMES = ("s3", "gs", "gcs", "hdfs", "abfs", "abfss", "az", "file", "memory")
HERE = ("memory",)
"""What is in these is in this process alone."""


def is_stored(source: object) -> bool:
    """Whether a source is the URL of an object store, or of a file."""
    return isinstance(source, str) and "://" in source and urlsplit(source).scheme.lower() in SCHEMES


def shown(url: str) -> str:
    """A URL without anything that may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@dataclasses.dataclass(frozen=True, repr=False)
class StoredPiece:
    """Consecutive rows of a Parquet file in a store.

    Attributes:
        url: Of the store, with whatever it takes to open it.
        path: Of the file in it.
    """

    url: str
    path: str
    name: str
    first: int
    rows: int

    def load(self, schema: Schema, names: Sequence[str]) -> Source:
        with library_errors(self.name, "Parquet"), _opened(self.url, self.path) as file:
            groups, before, skipped = list[int](), 0, 0
            for number, size in enumerate(_sizes(file)):
                if before < self.first + self.rows and before + size > self.first:
                    skipped = skipped if groups else before
                    groups.append(number)
                before += size
            found = file.read_row_groups(groups, columns=list(names)).slice(self.first - skipped, self.rows)
        if len(found) != self.rows:
            raise damaged(self.name, "Parquet")
        columns = {each: column_of_pyarrow(each, found.column(each)) for each in names}
        return Source(columns=columns, kind="polars", name=self.name, from_file=True)


def stored_groups(url: str, schema: Schema) -> list[tuple[str, str, list[int]]]:
    """Every Parquet file that a URL stands for, by name: its path, what messages call it, and the rows of its groups.

    Raises:
        TableError: There are none, the store cannot be reached, or a file's columns are not the schema's.
    """
    store, place = _store(url)
    beginning = f"{urlsplit(url).scheme}://"
    found: list[tuple[str, str, list[int]]] = []
    for path in _paths(store, place, shown(url)):
        name = f"{beginning}{path}"
        with library_errors(name, "Parquet"), _opened(url, path) as file:
            names, sizes = list(file.schema_arrow.names), _sizes(file)
        check_names(names, schema, name)
        found.append((path, name, sizes))
    return found


def _paths(store: Any, place: str, name: str) -> list[str]:
    """The files of a folder, of a glob or of one name, in order."""
    fs = _pyarrow("pyarrow.fs")
    try:
        if glob.has_magic(place):
            fixed = place[: min(place.index(sign) for sign in "*?[" if sign in place)].rpartition("/")[0]
            listed = store.get_file_info(fs.FileSelector(fixed, recursive=True))
            wanted = [each for each in listed if _fits(each.path, place)]
        else:
            [there] = store.get_file_info([place])
            is_folder = there.type == fs.FileType.Directory
            listed = store.get_file_info(fs.FileSelector(place, recursive=True)) if is_folder else [there]
            wanted = [each for each in listed if not is_folder or each.path.endswith(".parquet")]
    except Exception as error:  # a store may say anything, keys included
        raise TableError(f"{name} cannot be reached ({type(error).__name__}).") from None
    found = sorted(each.path for each in wanted if each.type == fs.FileType.File)
    if not found:
        raise TableError(f"{name}: expected Parquet files, and there are none.")
    return found


def _fits(path: str, pattern: str) -> bool:
    """Whether a path is one of a glob; a star stays within a folder, two do not."""
    deep = "**" in pattern or path.count("/") == pattern.count("/")
    return deep and fnmatch.fnmatchcase(path, pattern.replace("**/", "*"))


def _store(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the place in it."""
    fs, parts = _pyarrow("pyarrow.fs"), urlsplit(url)
    plain = url.split("://", 1)[1]
    try:
        if not glob.has_magic(plain):
            return fs.FileSystem.from_uri(url)
        asked = f"?{parts.query}" if parts.query else ""
        store, _ = fs.FileSystem.from_uri(f"{parts.scheme}://{parts.netloc}/{asked}")
        return store, f"{parts.netloc.rpartition('@')[2]}{parts.path}"
    except Exception:  # pyarrow has no such store, or says of it what a key may be in
        pass
    try:
        opened = importlib.import_module("fsspec").filesystem(parts.scheme)
        return fs.PyFileSystem(fs.FSSpecHandler(opened)), opened._strip_protocol(url)
    except Exception as error:
        raise TableError(f"{shown(url)} cannot be reached ({type(error).__name__}).") from None


def _opened(url: str, path: str) -> Any:
    """A Parquet file, open."""
    return _pyarrow("pyarrow.parquet").ParquetFile(_store(url)[0].open_input_file(path))


def _sizes(file: Any) -> list[int]:
    return [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]


def _pyarrow(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError("reading from an object store needs pyarrow. Run: pip install 'understudy-dp[ray]'") from None
