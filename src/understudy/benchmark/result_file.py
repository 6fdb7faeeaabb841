"""The results of a benchmark: a folder with `grid.toml` and `runs.jsonl`, one JSON object a run and a line.

The one rule: a line that is on the disk stays, and a run without a whole line was not made. Lines are appended and
synced as their runs are made. A last line without its end belongs to a run that was cut off: readers pass over it, and
the next start of the benchmark drops it. Anything else that is broken is an error that names its line. Only a finished
benchmark is rewritten, whole or not at all, in the order of its grid.
"""

import contextlib
import dataclasses
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from understudy.benchmark.grids import BASELINES
from understudy.core.files import lock, reason, replacing

FILE, GRID, LOCK = "runs.jsonl", "grid.toml", ".lock"

Line = dict[str, Any]
"""A line of the file as JSON holds it; `RunResult` is what tables and figures need of it."""


class ResultError(ValueError):
    """A result file cannot be read or written, or is damaged."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunResult:
    """The result of one run.

    Attributes:
        label: What its row is called in tables.
        epsilon: None for a baseline.
        scores: The value of each metric, by name; None where it is undefined.
        settings: The settings of its method.
        measured: Time, memory, date and machine.
        grid, protocol, delta, sweep: As in its grid; None where the line does not say.
    """

    id: str
    dataset: str
    label: str
    seed: int
    epsilon: float | None = None
    scores: Mapping[str, float | None]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    measured: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    grid: str | None = None
    protocol: str | None = None
    delta: float | None = None
    sweep: str | None = None

    @classmethod
    def of(cls, line: Line) -> Self:
        """What a line says."""
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{key: value for key, value in line.items() if key in known and value is not None})

    @property
    def is_baseline(self) -> bool:
        return self.label in BASELINES


# Reading ------------------------------------------------------------------------------------------------------------


def read(folder: str | os.PathLike[str]) -> list[Line]:
    """The whole lines of a folder's result file, without one that was cut off.

    Raises:
        ResultError: The file is missing, or a line is damaged or repeated.
    """
    path = Path(folder) / FILE
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {reason(error)}. Was it made by `understudy bench`?") from None
    *whole, _cut_off = content.split(b"\n")
    lines, first = [], {}
    for number, text in enumerate(whole, start=1):
        place = f"{path}, line {number}"
        line = _parse(text, place)
        if first.setdefault(line["id"], number) != number:
            raise ResultError(f"{place}: the run {line['id']!r} is already on line {first[line['id']]}.")
        lines.append(line)
    return lines


def _parse(text: bytes, place: str) -> Line:
    try:
        line = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ResultError(f"{place}: expected a JSON object, but {error}.") from None
    if not isinstance(line, dict):
        raise ResultError(f"{place}: expected a JSON object, got {type(line).__name__}.")
    for key, (holds, rule) in _RULES.items():
        if not holds(line.get(key)):
            raise ResultError(f"{place}: expected {key} to be {rule}.")
    return line


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number; an undefined score is null")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_scores(value: Any) -> bool:
    return isinstance(value, dict) and all(score is None or _is_number(score) for score in value.values())


def _is_object_or_null(value: Any) -> bool:
    return value is None or isinstance(value, dict)


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "id": (_is_text, "a text"),
    "dataset": (_is_text, "a text"),
    "label": (_is_text, "a text"),
    "epsilon": (lambda value: value is None or (_is_number(value) and value > 0), "a number > 0 or null"),
    "seed": (lambda value: isinstance(value, int), "a whole number"),
    "scores": (_is_scores, "an object of finite numbers and nulls"),
    "settings": (_is_object_or_null, "an object or null"),
    "measured": (_is_object_or_null, "an object or null"),
}


# Writing ------------------------------------------------------------------------------------------------------------


class ResultFile:
    """The result file of a benchmark that is running; made by `open_results`."""

    def __init__(self, folder: Path, descriptor: int, lines: list[Line]):
        self.path = folder / FILE
        self._descriptor = descriptor
        self._lines = {line["id"]: line for line in lines}

    @property
    def done(self) -> set[str]:
        """The ids of the runs that are on the disk."""
        return set(self._lines)

    def append(self, *lines: Line) -> None:
        """Adds runs in one write and waits until the disk has them; a run that is there already stays as it is."""
        new = {line["id"]: line for line in lines if line["id"] not in self._lines}
        content = b"".join(map(_dump, new.values()))
        while content:
            content = content[os.write(self._descriptor, content) :]
        os.fsync(self._descriptor)
        self._lines |= new

    def sort(self, ids: Iterable[str]) -> None:
        """Puts the runs of a grid in its order; runs that are not in it follow, in their own order."""
        wanted = [name for name in dict.fromkeys([*ids, *self._lines]) if name in self._lines]
        with replacing(self.path) as temporary:
            temporary.write_bytes(b"".join(_dump(self._lines[name]) for name in wanted))


def _dump(line: Line) -> bytes:
    return json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"


@contextlib.contextmanager
def open_results(folder: str | os.PathLike[str], grid: str) -> Iterator[ResultFile]:
    """A folder's result file, for one process at a time.

    Args:
        folder: Made if it is missing.
        grid: The text of the grid, which is stored beside the results.

    Raises:
        ResultError: Another process writes there, or the folder holds something else, or cannot be written.
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
            os.ftruncate(descriptor, os.path.getsize(folder / FILE) - _cut_off_bytes(folder / FILE))
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


def _claim(folder: Path, descriptor: int) -> None:
    try:
        lock(descriptor)
    except BlockingIOError:
        raise ResultError(f"{folder}: another benchmark is running there. Wait, or give another folder.") from None


def _cut_off_bytes(path: Path) -> int:
    """How many bytes at the end belong to a line that was cut off."""
    return len(path.read_bytes().rpartition(b"\n")[2])
