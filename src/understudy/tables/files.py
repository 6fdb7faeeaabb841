"""Files: what their formats have in common when they are opened.

The one rule: errors of libraries may quote a cell, so none of them passes through.
"""

import contextlib
import importlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from understudy.core.files import reason
from understudy.tables.structure import TableError


def open_binary(path: Path, source: str) -> BinaryIO:
    """Opens a file, or raises a TableError that says why it cannot be."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # opening a pipe would wait for somebody
            raise TableError(f"{source} cannot be read: it is not a regular file.")
        return path.open("rb")
    except TableError:
        raise
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
            advice = " Save it so, or state its `encoding` under [file] in the schema." if form == "CSV" else ""
            raise TableError(f"{source}: expected UTF-8 text.{advice}") from None
        raise damaged(source, form) from None


@contextlib.contextmanager
def library_errors(source: str, form: str) -> Iterator[None]:
    """Turns whatever another library raises about a file into one line that shows no cell, and drops its warnings."""
    try:
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            yield
    except TableError:
        raise
    except Exception:
        raise damaged(source, form) from None


def extra(module: str, what: str) -> Any:
    """A module of the extra `files`, or an ImportError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"reading {what} needs {module}. Run: pip install 'understudy-dp[files]'") from None
