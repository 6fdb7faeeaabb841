"""Runs a grid: every run that is not in the folder of results yet, in as many processes as are wanted.

The one rule: it can be stopped at any moment. A run is made whole or not at all, its line is on the disk before the
next is counted, and the next start makes what is missing.
"""

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator

from understudy.benchmark.batches import batches, configured
from understudy.benchmark.grids import Grid, GridError
from understudy.benchmark.result_file import open_results
from understudy.benchmark.splits import schema_of
from understudy.benchmark.workers import spread
from understudy.datasets.public import DatasetError
from understudy.evaluation.metrics import resolve as resolve_metrics
from understudy.evaluation.metrics import without_unsuited

EVERY_SECONDS = 30.0
"""How often progress is printed where there is no terminal."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a start: runs made now, runs that were there already, and what went wrong, by run."""

    made: int
    there: int
    failed: dict[str, str]


def run_grid(
    grid: Grid, folder: str | os.PathLike[str], *, processes: int | None = None, progress: bool | None = None
) -> Outcome:
    """Makes every run of the grid that is not in the folder yet.

    A run that fails has no line, is reported, and is tried again by the next start.

    Args:
        folder: Where `runs.jsonl` and `grid.toml` are, or will be.
        processes: How many at once; None for one a core.
        progress: Whether to show a bar; None shows one on a terminal, and elsewhere prints a line now and then.

    Raises:
        GridError: The grid asks for a method, a setting, a metric or a learner that does not exist.
        ResultError: The folder cannot be used.
    """
    runs = grid.runs()
    check(grid)
    with open_results(folder, grid.text) as results:
        missing = {run.id for run in runs} - results.done
        failed, made = {}, 0
        with _progress(grid.name, len(runs), len(runs) - len(missing), progress) as advance:
            work = [batch for batch in batches(runs) if any(run.id in missing for run in batch)]
            for batch, lines, error in spread(work, processes or os.cpu_count() or 1):
                wanted = [run for run in batch if run.id in missing]
                results.append(*lines)
                failed |= {str(run): error for run in wanted if not lines}
                made += len(wanted) if lines else 0
                advance(str(batch[-1]), len(wanted))
        results.sort(run.id for run in runs)
    return Outcome(made=made, there=len(runs) - len(missing), failed=failed)


def check(grid: Grid) -> None:
    """Refuses what cannot be run, before anything is.

    Raises:
        GridError: The grid asks for something that does not exist.
    """
    try:
        for dataset in grid.datasets:
            schema = schema_of(dataset)
            resolve_metrics(schema, without_unsuited(schema, grid.metrics), grid.learners or None)
        for run in grid.runs():
            if not run.is_baseline:
                configured(run)
    except (ValueError, AttributeError, TypeError, ImportError, DatasetError) as error:
        raise GridError(f"grid {grid.name!r}: {error}") from None


# Progress -----------------------------------------------------------------------------------------------------------

Advance = Callable[[str, int], None]
"""Is told the name of the last run that was made, and how many were made with it."""


class _Clock:
    """How many runs were made, and when the rest may be."""

    def __init__(self, missing: int):
        self.start, self.missing, self.made = time.monotonic(), missing, 0

    def left(self) -> str:
        if not self.made:
            return ""
        seconds = (time.monotonic() - self.start) / self.made * (self.missing - self.made)
        return f"about {_duration(seconds)} left"


@contextlib.contextmanager
def _progress(name: str, total: int, there: int, wanted: bool | None) -> Iterator[Advance]:
    """Shows how far a benchmark is and when it may end: a bar on a terminal, elsewhere a line every half minute."""
    from rich.console import Console

    console, clock = Console(stderr=True), _Clock(total - there)
    if wanted is False:
        yield lambda what, count: None
    elif wanted or console.is_terminal:
        with _bar(name, total, there, clock, console) as advance:
            yield advance
    else:
        yield _lines(name, total, there, clock)


@contextlib.contextmanager
def _bar(name: str, total: int, there: int, clock: _Clock, console) -> Iterator[Advance]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    state = TextColumn("{task.fields[left]}  {task.description}")
    with Progress(TextColumn(name), BarColumn(), MofNCompleteColumn(), state, console=console) as bar:
        task = bar.add_task("starting", total=total, completed=there, left="")

        def advance(what: str, count: int) -> None:
            clock.made += count
            bar.update(task, advance=count, description=what, left=clock.left())

        yield advance


def _lines(name: str, total: int, there: int, clock: _Clock) -> Advance:
    last = clock.start

    def advance(what: str, count: int) -> None:
        nonlocal last
        clock.made += count
        if time.monotonic() - last > EVERY_SECONDS:
            last = time.monotonic()
            print(f"{name}: {there + clock.made} of {total} runs, {clock.left()}", file=sys.stderr, flush=True)

    return advance


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
