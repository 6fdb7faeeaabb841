"""Files: what CSV and Parquet have in common when they are opened.

The one rule: errors of polars may quote a cell, so none of them passes through.
"""

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import polars as pl

from understudy.core.files import reason
from understudy.tables.structure import TableError


def open_binary(path: Path, source: str) -> BinaryIO:
    """Opens a file, or raises a TableError that says why it cannot be."""
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        raise TableError(f"{source} cannot be read: {reason(error)}.") from None


def damaged(source: str, form: str) -> TableError:
    """The error for a file that is not of its form."""
    return TableError(f"{source} cannot be read as {form}: it is damaged, cut short or something else.")


@contextlib.contextmanager
def polars_errors(source: str, form: str) -> Iterator[None]:
    """Turns whatever polars raises about a file into one line that shows no cell, and drops its warnings."""
    try:
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            yield
    except pl.exceptions.NoDataError:
        raise TableError(f"{source} has no rows.") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, MemoryError) as error:
        if "utf-8" in str(error).lower():
            raise TableError(f"{source}: expected UTF-8 text. Save it in that encoding.") from None
        raise damaged(source, form) from None


def kind_of(dtype: pl.DataType) -> str:
    """The kind of column that a type suggests, for a draft of a schema."""
    if dtype.is_integer():
        return "integer"
    if dtype.is_numeric():
        return "continuous"
    if dtype == pl.Boolean:
        return "boolean"
    return "datetime" if dtype.base_type() in (pl.Date, pl.Datetime) else "categorical"
