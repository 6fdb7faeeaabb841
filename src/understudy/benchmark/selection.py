"""Which runs a table or a figure shows, and what tells them apart.

The one rule: a mean is over seeds and over nothing else. Settings that vary under one label become part of it, and two
runs that would be one seed of one mean are refused.
"""

import collections
import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from understudy.benchmark import grid_file, result_file
from understudy.benchmark.grids import FigureRequest, Grid, TableRequest
from understudy.benchmark.result_file import FILE, GRID, ResultError, RunResult
from understudy.benchmark.typesetting import LEARNERS

HIGHER_IS_BETTER = (
    *("r2", "f1", "auc", "accuracy", "every"),
    *("structure/precision", "structure/recall", "structure/f1", "structure/skeleton_f1"),
    *("aggregate", "next", "score"),
)


class ScoreboardError(ValueError):
    """A table or a figure cannot be made of these results."""


@dataclasses.dataclass(frozen=True)
class Results:
    """What a folder holds: the grid that was run, and its runs in the order in which they were written."""

    grid: Grid
    runs: list[RunResult]


def read(folder: str | os.PathLike[str]) -> Results:
    """Reads a folder of results.

    Raises:
        GridError, ResultError: A file is missing or damaged, or holds no whole run.
    """
    for name in (GRID, FILE):
        if not (Path(folder) / name).exists():
            raise ResultError(f"{os.fspath(folder)} has no {name}, so `understudy bench` did not write it.")
    grid = grid_file.read(Path(folder) / GRID)
    runs = [RunResult.of(line) for line in result_file.read(folder)]
    if not runs:
        raise ResultError(f"{Path(folder) / FILE} holds no whole run. Let the benchmark finish at least one.")
    return Results(grid=grid, runs=runs)


def better(score: str) -> str:
    """The direction in which a score is better: "higher" or "lower"."""
    return "higher" if score.startswith(HIGHER_IS_BETTER) else "lower"


def datasets(runs: Iterable[RunResult]) -> list[str]:
    """The data sets of some runs, in order of appearance."""
    return list(dict.fromkeys(run.dataset for run in runs))


def select(request: TableRequest | FigureRequest, runs: Iterable[RunResult]) -> list[RunResult]:
    """The runs a table or a figure shows: those on its data sets, and of its sweep if it names one."""
    found = [run for run in runs if request.datasets is None or run.dataset in request.datasets]
    return [run for run in found if request.sweep is None or run.sweep == request.sweep or run.is_baseline]


def with_settings_in_labels(runs: Sequence[RunResult], *, leave_out: Iterable[str] = ()) -> list[RunResult]:
    """The same runs, with those settings in the label that vary under it: "copula, degrees = 3"."""
    by_label = collections.defaultdict(list)
    for run in runs:
        by_label[run.label].append(run)
    varied = {label: _varied(found) - set(leave_out) for label, found in by_label.items()}
    return [dataclasses.replace(run, label=_label(run, varied[run.label])) for run in runs]


def _varied(runs: Sequence[RunResult]) -> set[str]:
    keys = {key for run in runs for key in run.settings}
    return {key for key in keys if len({repr(run.settings.get(key)) for run in runs}) > 1}


def _label(run: RunResult, keys: set[str]) -> str:
    parts = [f"{key} = {value}" for key, value in run.settings.items() if key in keys]
    return ", ".join([run.label, *parts])


def check_seeds(runs: Iterable[RunResult], place: str, by: Callable[[RunResult], tuple]) -> None:
    """Refuses runs of which two would be one seed of the same mean.

    Raises:
        ScoreboardError: Two runs with one seed have the same `by`.
    """
    means = collections.Counter((by(run), run.seed) for run in runs)
    for (what, seed), count in means.items():
        if count > 1:
            mean = ", ".join(str(part) for part in what if part is not None)
            raise ScoreboardError(f"{place}: {count} runs of {mean} have the seed {seed}. Name one `sweep` to draw.")


def expand(scores: Iterable[str], runs: Iterable[RunResult]) -> list[str]:
    """Scores by name, where "r2/*" stands for r2 with every learner that the runs have."""
    found = dict.fromkeys(score for run in runs for score in run.scores)
    order = list(LEARNERS)
    names = []
    for score in scores:
        metric = score.removesuffix("*")
        learners = [name.removeprefix(metric) for name in found if name.startswith(metric)]
        learners.sort(key=lambda learner: order.index(learner) if learner in order else len(order))
        names += [metric + learner for learner in learners] if score.endswith("/*") else [score]
    return list(dict.fromkeys(names))
