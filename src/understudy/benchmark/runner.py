"""Runs a grid: every run that is not in the folder of results yet, in as many processes as are wanted.

The one rule: it can be stopped at any moment. A run is made whole or not at all, its line is on the disk before the
next is counted, and the next start makes what is missing.
"""

import dataclasses
import os

from understudy.benchmark import database_runs
from understudy.benchmark.batches import batches, configured, perform
from understudy.benchmark.grids import Grid, GridError
from understudy.benchmark.result_file import open_results
from understudy.benchmark.splits import schema_of
from understudy.core import ray_tasks
from understudy.core.progress import progress as shown
from understudy.core.ray_tasks import spread_over
from understudy.datasets.public import DatasetError
from understudy.evaluation.database import asked
from understudy.evaluation.metrics import resolve as resolve_metrics
from understudy.evaluation.metrics import without_unsuited


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a start: runs made now, runs that were there already, and what went wrong, by run."""

    made: int
    there: int
    failed: dict[str, str]


def run_grid(
    grid: Grid,
    folder: str | os.PathLike[str],
    *,
    processes: int | None = None,
    progress: bool | None = None,
    engine: str = "local",
    address: str | None = None,
) -> Outcome:
    """Makes every run of the grid that is not in the folder yet.

    A run that fails has no line, is reported, and is tried again by the next start.

    Args:
        folder: Where `runs.jsonl` and `grid.toml` are, or will be.
        processes: How many at once; None for one a core.
        progress: Whether to show a bar; None shows one on a terminal, and elsewhere prints a line now and then.
        engine: "local" for processes of this machine, or "ray" for tasks on a cluster; the lines are the same.
        address: Of the cluster; None for the one that RAY_ADDRESS names, or else one of this machine alone.

    Raises:
        GridError: The grid asks for a method, a setting, a metric or a learner that does not exist.
        ResultError: The folder cannot be used.
        EngineError: There is no such engine, or no cluster at that address.
    """
    ray_tasks.check(engine, address)
    runs = grid.runs()
    check(grid)
    with open_results(folder, grid.text) as results:
        missing = {run.id for run in runs} - results.done
        failed, made = {}, 0
        with shown(grid.name, len(runs), len(runs) - len(missing), "runs", wanted=progress) as advance:
            work = [batch for batch in batches(runs) if any(run.id in missing for run in batch)]
            for batch, found, error in spread_over(perform, work, processes=processes, engine=engine, address=address):
                wanted, lines = [run for run in batch if run.id in missing], found or []
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
            if dataset.database is not None:
                database_runs.database_schema(dataset.database)
                asked(grid.metrics, grid.learners or None)
                continue
            schema = schema_of(dataset)
            resolve_metrics(schema, without_unsuited(schema, grid.metrics), grid.learners or None)
        for run in grid.runs():
            if not run.is_baseline:
                configured(run)
    except (ValueError, AttributeError, TypeError, ImportError, DatasetError) as error:
        raise GridError(f"grid {grid.name!r}: {error}") from None
