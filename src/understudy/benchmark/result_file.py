"""The result file of a benchmark: one JSON object a line, safe to be cut off at any moment.

The one rule: a line that is on the disk stays, and a run without a whole line was not made. Lines are appended and
synced as their runs are made; a last line without its end belongs to a run that was cut off, and is dropped by the next
start. Only a finished benchmark is rewritten, whole or not at all, in the order of its grid.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from understudy.core.files import reason, replacing

FILE, GRID, LOCK = "runs.jsonl", "grid.toml", ".lock"


class ResultError(ValueError):
    """A result file cannot be read, written or believed."""


def read(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The whole lines of a folder's result file, without one that was cut off.

    Raises:
        ResultError: There is no such file, or a line in it is not a run.
    """
    path = Path(folder) / FILE
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {reason(error)}. Was it made by `understudy bench`?") from None
    *lines, _torn = content.split(b"\n")
    return [_parse(path, number, line) for number, line in enumerate(lines, 1)]


def _parse(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        run = json.loads(line)
    except (ValueError, RecursionError):
        run = None
    if not isinstance(run, dict) or not isinstance(run.get("id"), str) or not isinstance(run.get("scores"), dict):
        raise ResultError(f"{path}, line {number}: expected a run as `understudy bench` writes it. Mend or delete it.")
    return run


class ResultFile:
    """The result file of a benchmark that is running; made by `open_results`."""

    def __init__(self, folder: Path, descriptor: int, lines: list[dict[str, Any]]):
        self.path = folder / FILE
        self._descriptor = descriptor
        self._lines = {line["id"]: line for line in lines}

    @property
    def done(self) -> set[str]:
        """The ids of the runs that are on the disk."""
        return set(self._lines)

    def append(self, *lines: dict[str, Any]) -> None:
        """Adds runs, all in one stroke, and waits until the disk has them; one that is there already stays as it is."""
        new = {line["id"]: line for line in lines if line["id"] not in self._lines}
        content = b"".join(map(_dump, new.values()))
        while content:
            content = content[os.write(self._descriptor, content) :]
        os.fsync(self._descriptor)
        self._lines |= new

    def sort(self, ids: Iterable[str]) -> None:
        """Puts the runs of a grid in its order; runs that are not in it keep theirs, at the end."""
        wanted = [name for name in dict.fromkeys([*ids, *self._lines]) if name in self._lines]
        with replacing(self.path) as temporary:
            temporary.write_bytes(b"".join(_dump(self._lines[name]) for name in wanted))


def _dump(line: dict[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"


@contextlib.contextmanager
def open_results(folder: str | os.PathLike[str], grid: str) -> Iterator[ResultFile]:
    """A folder's result file, for one process at a time.

    Args:
        folder: Made if it is missing.
        grid: The text of the grid, which is left beside the results.

    Raises:
        ResultError: Another process is at it, or the folder holds something else, or cannot be written.
    """
    folder = Path(folder)
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _claim(folder, stack.enter_context(_opened(folder / LOCK)))
            for left in folder.glob(".*.tmp"):  # of a process that was killed while it replaced a file
                left.unlink(missing_ok=True)
            lines = read(folder) if (folder / FILE).exists() else []
            descriptor = stack.enter_context(_opened(folder / FILE))
            os.ftruncate(descriptor, os.path.getsize(folder / FILE) - _torn(folder / FILE))
            with replacing(folder / GRID) as temporary:
                temporary.write_text(grid, encoding="utf-8")
        except OSError as error:
            raise ResultError(f"{folder} cannot be written: {reason(error)}.") from None
        yield ResultFile(folder, descriptor, lines)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _claim(folder: Path, lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ResultError(f"{folder}: another benchmark is running there. Wait, or give another folder.") from None


def _torn(path: Path) -> int:
    """How many bytes at the end belong to a line that was cut off."""
    return len(path.read_bytes().rpartition(b"\n")[2])
