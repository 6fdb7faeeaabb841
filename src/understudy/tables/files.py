"""Files: what their formats have in common when they are opened.

The one rule: errors of libraries may quote a cell, so none of them passes through.
"""

import contextlib
import importlib
import os
import threading
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


class BadClaims(ValueError):
    """A file contradicts itself."""


class Oversized(ValueError):
    """A file would unpack to far more than a table of its size does."""


@contextlib.contextmanager
def claims_refused(source: str, form: str) -> Iterator[None]:
    """Turns what is wrong with the claims of a file into one line."""
    try:
        yield
    except BadClaims:
        raise damaged(source, form) from None
    except Oversized:
        raise TableError(
            f"{source} unpacks to far more than a table in a file of its size. If that is right, save it as CSV."
        ) from None


class _Unprinted:
    """While it is open, nothing is printed to the standard error stream; open it as often as you like.

    polars prints a panic there before Python hears of it, in many lines, of which one may quote a cell.
    """

    def __init__(self):
        self._lock, self._depth, self._kept = threading.Lock(), 0, None

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0 and not os.environ.get("UNDERSTUDY_DEBUG"):
                with contextlib.suppress(OSError):  # there is no such stream
                    self._kept = os.dup(_STDERR)
                    null = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(null, _STDERR)
                    os.close(null)
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._kept is not None:
                os.dup2(self._kept, _STDERR)
                os.close(self._kept)
                self._kept = None


_STDERR = 2
_PANICS = _Unprinted()
# How polars says that the machine gave it no memory, or no thread.
_NO_MEMORY = ("WouldBlock", "OutOfMemory", "Cannot allocate memory", "failed to spawn thread")


@contextlib.contextmanager
def polars_errors(source: str, form: str) -> Iterator[None]:
    """Turns whatever polars raises about a file into one line that shows no cell, and drops its warnings."""
    try:
        with warnings.catch_warnings(record=True), _PANICS:
            warnings.simplefilter("always")
            yield
    except pl.exceptions.NoDataError:
        raise TableError(f"{source} has no rows.") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, MemoryError) as error:
        if isinstance(error, MemoryError) or any(sign in str(error) for sign in _NO_MEMORY):
            raise TableError(f"{source} cannot be read: there is not enough memory.") from None
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
    except (TableError, Oversized):
        raise
    except Exception:
        raise damaged(source, form) from None


def extra(module: str, what: str) -> Any:
    """A module of the extra `files`, or an ImportError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"reading {what} needs {module}. Run: pip install 'understudy-dp[files]'") from None
