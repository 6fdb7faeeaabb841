"""Watches a fit for functions outside the trusted base that are handed rows."""

import contextlib
import sys
import threading
import types
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import understudy

PACKAGE = Path(understudy.__file__).parent
TRUSTED = PACKAGE / "privacy"
_OURS, _TRUSTED, _ROWS_MODULE = f"{PACKAGE}/", f"{TRUSTED}/", str(TRUSTED / "rows.py")


class RowWatch:
    """Sees every call of a function of ours outside privacy/ and collects those that are handed rows.

    A function is handed rows by an argument, or by a variable of an enclosing function. What counts as rows is
    anything as long as the table. It watches from the moment the rows are locked: before that, `tables` reads them and
    `pipeline` brings them to the door.
    """

    def __init__(self, rows: int, *, locked: bool = False) -> None:
        self.rows = rows
        self.locked = locked
        self.calls = 0
        self.found: set[str] = set()

    def __call__(self, frame: types.FrameType, event: str, value: Any) -> Any:
        """What `sys.settrace` calls for every function that is entered; its own lines are of no interest."""
        path = frame.f_code.co_filename
        if not path.startswith(_OURS):
            return None
        if path == _ROWS_MODULE and frame.f_code.co_name == "lock":
            return self._until_it_returns
        is_function = frame.f_code.co_name != "<module>"
        if self.locked and is_function and not path.startswith(_TRUSTED):
            self.calls += 1
            for name, held in frame.f_locals.items():
                if any(self.is_as_long_as_the_table(each) for each in contents(held)):
                    self.found.add(f"{Path(path).relative_to(PACKAGE)}: {frame.f_code.co_qualname}({name})")
        return None

    def _until_it_returns(self, frame: types.FrameType, event: str, value: Any) -> Any:
        self.locked = self.locked or event == "return"
        return self._until_it_returns

    def is_as_long_as_the_table(self, held: object) -> bool:
        if isinstance(held, np.ndarray) or type(held).__module__.startswith(("jaxlib", "polars", "pandas", "pyarrow")):
            return self.rows in getattr(held, "shape", ())
        return isinstance(held, list | tuple) and len(held) == self.rows


@contextlib.contextmanager
def watching(rows: int, *, locked: bool = False) -> Generator[RowWatch, None, None]:
    """Watches what is called in the block; `rows` is the length of the table, and best of nothing else."""
    watch, before, in_threads = RowWatch(rows, locked=locked), sys.gettrace(), threading.gettrace()
    sys.settrace(watch)
    threading.settrace(watch)  # and in threads that are started from now on
    try:
        yield watch
    finally:
        sys.settrace(before)
        threading.settrace(in_threads)  # pyright: ignore[reportArgumentType]


def contents(held: object, depth: int = 3) -> Iterator[object]:
    """A value and what is inside it, as far as containers and partial functions go."""
    yield held
    if depth == 0:
        return
    inside: list[object] = []
    if isinstance(held, dict):
        inside = list(held.values())[:100]
    elif isinstance(held, list | tuple | set) and len(held) <= 100:
        inside = list(held)
    elif isinstance(held, types.FunctionType):
        inside = [cell.cell_contents for cell in held.__closure__ or () if cell_is_filled(cell)]
    elif hasattr(held, "func") and hasattr(held, "args") and hasattr(held, "keywords"):
        inside = [held.func, *held.args, *held.keywords.values()]  # pyright: ignore
    for each in inside:
        yield from contents(each, depth - 1)


def cell_is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
