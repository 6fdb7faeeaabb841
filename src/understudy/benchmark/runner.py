"""The race track: every run of a grid, one line each, in as many processes as are wanted.

The one rule: stop it whenever you like. A run is made whole or not at all, its line is on the disk before the next is
counted, and a second start goes on with what is missing. The line of a run depends on the run alone and not on when, in
which order or beside what it was made, except for what is `measured`: time, memory, date and machine.

The judges look at real rows and pay nothing. A benchmark is for public tables and simulations.

Protocols: "private" fits the columns as they are, with everything inside (ε, δ). "paper" first standardises every
numeric column with the exact mean and deviation of the training rows, as the paper does, and takes away its bounds. No
budget covers that, and every line says so.
"""

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import math
import multiprocessing
import multiprocessing.connection
import os
import platform
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

import understudy
from understudy import datasets
from understudy.benchmark.grids import BASELINES, EXAMPLE, REAL, Dataset, Grid, GridError, Run
from understudy.benchmark.result_file import open_results
from understudy.core.version import __version__
from understudy.datasets import simulators
from understudy.evaluation.evaluate import resolve as resolve_judges
from understudy.evaluation.evaluate import scores, shuffled
from understudy.evaluation.structure import compare
from understudy.pipeline import fit_many, resolve
from understudy.synthesizers import METHODS
from understudy.tables.schema import Column, Schema

NOT_PRIVATE = "COLUMNS WERE STANDARDISED WITH EXACT MOMENTS OF THE TRAINING ROWS, WHICH NO BUDGET COVERS."
EVERY_SECONDS = 30.0
MOST_TOGETHER = 48  # runs of one heat: what a kill may cost
TEST_SEEDS = 1_000_000  # a simulation's test rows have a seed of their own
_PACKAGES = (
    *("numpy", "polars", "scipy", "dp-accounting", "opendp", "jax", "optax", "mbi"),
    *("scikit-learn", "catboost", "xgboost-cpu", "xgboost", "POT"),
)
_SINGLE = {  # libraries of linear algebra that would each take every core, in every process
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


# One run ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Course:
    """What a run is made on: two parts of a table, what is public of it, and the true graph where there is one."""

    train: pl.DataFrame
    test: pl.DataFrame
    schema: Schema
    truth: Mapping[str, list[str]] | None = None


@functools.lru_cache(maxsize=2)
def course(dataset: Dataset, protocol: str, seed: int) -> Course:
    """The rows of a run; the seed is that of the split, or of the simulation."""
    made = _table(dataset, seed) if dataset.table is not None else _simulation(dataset, seed)
    if dataset.public_rows:
        made = dataclasses.replace(made, schema=dataclasses.replace(made.schema, rows=len(made.train)))
    return _standardised(made) if protocol == "paper" else made


def _table(dataset: Dataset, seed: int) -> Course:
    assert dataset.table is not None
    train, test = datasets.split(datasets.load(dataset.table), seed)
    schema = datasets.schema(dataset.table, bounds=dataset.bounds)
    return Course(train=train[: dataset.rows], test=test[: dataset.rows], schema=schema)


def _simulation(dataset: Dataset, seed: int) -> Course:
    """Training rows and as many test rows. The order of generation is the true one, as in the paper."""
    assert dataset.graph is not None and dataset.rows is not None
    if dataset.graph == EXAMPLE:
        train, test = (datasets.example(dataset.rows, s) for s in (seed, seed + TEST_SEEDS))
        return Course(train=train, test=test, schema=datasets.example_schema(), truth=datasets.EXAMPLE_PARENTS)
    made = simulators.simulate(
        dataset.rows,
        dataset.columns,
        graph=dataset.graph,
        equations=dataset.equations,
        degree=dataset.degree,
        seed=seed,
    )
    schema = dataclasses.replace(made.schema, order=made.order)
    test = made.draw(dataset.rows, seed=seed + TEST_SEEDS)
    return Course(train=made.frame, test=test, schema=schema, truth=made.parents)


def _standardised(raw: Course) -> Course:
    """Numbers as z-scores of the training rows, without bounds: the paper's way, and not private."""
    numeric = [column.name for column in raw.schema if column.is_numeric]
    moments = {name: (raw.train[name].mean(), raw.train[name].std(ddof=0) or 1.0) for name in numeric}
    train, test = (
        frame.with_columns((pl.col(name) - mean) / deviation for name, (mean, deviation) in moments.items())
        for frame in (raw.train, raw.test)
    )
    columns = tuple(
        Column(name=column.name, kind="continuous", nullable=column.nullable) if column.name in moments else column
        for column in raw.schema
    )
    return Course(train=train, test=test, schema=dataclasses.replace(raw.schema, columns=columns), truth=raw.truth)


def perform(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Makes the runs of a heat: fits, draws as many rows as were fitted, judges. Returns their lines."""
    on = course(runs[0].dataset, runs[0].protocol, runs[0].seed)
    _forget_peak()
    start, models, spent = time.perf_counter(), [None] * len(runs), {}
    if runs[0].label not in BASELINES:
        models = fit_many(
            on.train,
            on.schema,
            [configured(run) for run in runs],
            [run.seed for run in runs],
            epsilon=[run.epsilon or 0.0 for run in runs],
            delta=runs[0].delta,
            progress=False,
        )
        spent = {"fit_s": (time.perf_counter() - start) / len(runs), "fits_at_once": len(runs)}
    return [_judged(run, on, model, spent) for run, model in zip(runs, models, strict=True)]


def configured(run: Run) -> Any:
    """The method of a run. The setting `published` stands for what the paper used for the table and ε of the run."""
    settings = dict(run.settings)
    if settings.pop("published", False):
        return METHODS[run.method].paper(run.dataset.table, run.epsilon, **settings)
    return resolve(run.method, settings)


def _judged(run: Run, on: Course, model: Any, spent: dict[str, float]) -> dict[str, Any]:
    start = time.perf_counter()
    if model is None:
        rows = on.train if run.label == REAL else shuffled(on.train, run.seed)
    else:
        rows = model.sample(len(on.train), seed=run.seed)
        spent = {**spent, "sample_s": time.perf_counter() - start, "peak_mb": _peak()}
    start = time.perf_counter()
    verdict = scores(
        on.test,
        rows,
        on.schema,
        train=on.train,
        metrics=run.metrics,
        learners=run.learners or None,
        seed=run.seed,
        threads=1,  # the learners' answers depend on it
    )
    if model is not None and on.truth is not None:
        verdict |= _structure(model.parents, on.truth)
    return _line(run, verdict, model, {**spent, "judge_s": time.perf_counter() - start})


def _structure(learned: Mapping[str, list[str]], truth: Mapping[str, list[str]]) -> dict[str, float]:
    found = compare(learned, truth)
    kinds = ("precision", "recall", "f1", "hamming", "skeleton_f1")
    return {f"structure/{kind}": float(getattr(found, kind)) for kind in kinds}


def _line(run: Run, scores: Mapping[str, float | None], model: Any, spent: Mapping[str, float]) -> dict[str, Any]:
    described = dataclasses.asdict(run)
    described |= {"dataset": run.dataset.name, "metrics": None, "learners": None}
    described["settings"] = {key: str(value) if value == math.inf else value for key, value in run.settings.items()}
    return {
        "id": run.id,
        **{key: value for key, value in described.items() if value is not None},
        "epsilon": run.epsilon,
        "scores": {name: value if value is None else float(f"{value:.6g}") for name, value in scores.items()},
        "receipt": None if model is None else _receipt(model.receipt),
        **({"warning": NOT_PRIVATE} if run.protocol == "paper" else {}),
        "versions": _versions(),
        "measured": {key: float(f"{value:.4g}") for key, value in spent.items()}
        | {"date": time.strftime("%Y-%m-%d", time.gmtime()), "machine": _machine()},
    }


def _receipt(receipt: understudy.Receipt) -> dict[str, Any]:
    """The receipt with equal purchases counted instead of listed; nothing that the account depends on is left out."""
    facts = json.loads(receipt.to_json())
    groups: dict[str, dict[str, Any]] = {}
    for line in facts.pop("lines"):
        what = {key: value for key, value in line.items() if key not in ("what", "sigma", "epsilon")}
        groups.setdefault(json.dumps(what), {"purchases": 0, **what})["purchases"] += 1
    return {**facts, "lines": list(groups.values())}


@functools.cache
def _versions() -> dict[str, str]:
    found = {"understudy": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores"


def _forget_peak() -> None:
    """Starts the count of the process's largest memory again, where the system can."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def _peak() -> float:
    """The largest memory since, in megabytes; since the process began where the system cannot tell."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (2**20 if sys.platform == "darwin" else 2**10)


# All runs -----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a race: runs made now, runs that were there already, and what went wrong, by run."""

    made: int
    there: int
    failed: dict[str, str]


def heats(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that are made together: those on one table of a method that fits many at once; every other alone.

    What is fitted together rounds together, so a heat is always made of the same runs: of the whole grid, and again as
    a whole where a line of it is missing.
    """
    found: dict[Any, list[Run]] = {}
    for run in runs:
        together = run.label not in BASELINES and hasattr(METHODS[run.method], "fit_many")
        key = (run.dataset, run.protocol, run.seed, run.method) if together else run.id
        found.setdefault(key, []).append(run)
    return [group[i : i + MOST_TOGETHER] for group in found.values() for i in range(0, len(group), MOST_TOGETHER)]


def race(
    grid: Grid, folder: str | os.PathLike[str], *, processes: int | None = None, progress: bool | None = None
) -> Outcome:
    """Makes every run of the grid that is not in the folder yet.

    A run that fails has no line, is reported, and is tried again by the next start.

    Args:
        folder: Where `runs.jsonl` and `grid.toml` are, or will be.
        processes: How many at once; None for one a core.
        progress: Whether to show a bar; None shows one on a terminal, and elsewhere a line now and then.

    Raises:
        GridError: The grid asks for a method, a setting, a metric or a learner that there is not.
        ResultError: The folder cannot be used.
    """
    runs = grid.runs()
    check(grid)
    with open_results(folder, grid.text) as results:
        missing = {run.id for run in runs} - results.done
        failed, made = {}, 0
        with _shown(grid.name, len(runs), len(runs) - len(missing), progress) as advance:
            work = [heat for heat in heats(runs) if any(run.id in missing for run in heat)]
            for heat, lines, error in _spread(work, processes or os.cpu_count() or 1):
                wanted = [run for run in heat if run.id in missing]
                results.append(*lines)
                failed |= {str(run): error for run in wanted if not lines}
                made += len(wanted) if lines else 0
                advance(str(heat[-1]), len(wanted))
        results.sort(run.id for run in runs)
    return Outcome(made=made, there=len(runs) - len(missing), failed=failed)


def check(grid: Grid) -> None:
    """Refuses what cannot be run, before anything is."""
    try:
        for dataset in grid.datasets:
            resolve_judges(_schema(dataset), grid.metrics, grid.learners or None)
        for run in grid.runs():
            if run.label not in BASELINES:
                configured(run)
    except (ValueError, AttributeError, TypeError, ImportError, datasets.DatasetError) as error:
        raise GridError(f"grid {grid.name!r}: {error}") from None


def _schema(dataset: Dataset) -> Schema:
    """What is public of a data set, without its rows."""
    if dataset.table is not None:
        return datasets.schema(dataset.table, bounds=dataset.bounds)
    return _simulation(dataclasses.replace(dataset, rows=2), seed=0).schema


Answer = tuple[list[Run], list[dict[str, Any]], str]
"""A heat, the lines of its runs or none, and why there are none."""


def _spread(work: list[list[Run]], processes: int) -> Iterator[Answer]:
    """The lines of every heat, as they come, from processes; what a process dies of is its heat's error."""
    waiting = iter(work)
    workers: dict[Any, _Worker] = {}
    try:
        while True:
            while len(workers) < processes and (heat := next(waiting, None)) is not None:
                worker = _Worker()
                worker.give(heat)
                workers[worker.connection] = worker
            if not workers:
                return
            for ready in multiprocessing.connection.wait(list(workers)):
                worker = workers[ready]
                answer, alive = worker.take()
                if alive and (heat := next(waiting, None)) is not None:
                    worker.give(heat)
                else:
                    workers.pop(ready).stop()
                yield answer
    finally:
        for worker in workers.values():
            worker.stop()


class _Worker:
    """A process that makes one run after another, and ends when its parent does."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, os.getpid()), daemon=True)
        before = {key: os.environ.get(key) for key in _SINGLE}
        flags = f"{before['XLA_FLAGS'] or ''} {_SINGLE['XLA_FLAGS']}".strip()
        os.environ.update({**_SINGLE, "XLA_FLAGS": flags})  # read by the libraries when the process imports them
        try:
            self.process.start()
        finally:
            for key, value in before.items():
                os.environ.pop(key) if value is None else os.environ.update({key: value})
        theirs.close()
        self.heat: list[Run] = []

    def give(self, heat: list[Run]) -> None:
        self.heat = heat
        self.connection.send(heat)

    def take(self) -> tuple[Answer, bool]:
        """The lines of the heat, or why there are none; and whether the process lives."""
        try:
            lines, error = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(timeout=5)
            error = f"its process ended with code {self.process.exitcode}; was there too little memory?"
            return (self.heat, [], error), False
        return (self.heat, lines, error), True

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _work(connection: Any, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops us
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # the parent is gone: nobody would take the result
        while True:
            connection.send(_answer(connection.recv()))


def _answer(heat: list[Run]) -> tuple[list[dict[str, Any]], str]:
    try:
        return perform(heat), ""
    except Exception as error:  # whatever it is, the other heats go on
        return [], f"{type(error).__name__}: {error}"


def _follow(parent: int) -> None:
    """Ends this process in the middle of a run when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


# The bar ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _shown(name: str, total: int, there: int, progress: bool | None) -> Iterator[Callable[[str, int], None]]:
    """Shows how far a race is and when it may end; off a terminal a line every half minute."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console, start, made = Console(stderr=True), time.monotonic(), 0
    last = start

    def left() -> str:
        return f"about {_duration((time.monotonic() - start) / made * (total - there - made))} left" if made else ""

    if progress is False:
        yield lambda what, count: None
    elif progress or console.is_terminal:
        columns = (
            TextColumn(name),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}  {task.description}"),
        )
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("starting", total=total, completed=there, left="")

            def advance(what: str, count: int) -> None:
                nonlocal made
                made += count
                bar.update(task, advance=count, description=what, left=left())

            yield advance
    else:

        def tell(what: str, count: int) -> None:
            nonlocal made, last
            made += count
            if time.monotonic() - last > EVERY_SECONDS:
                last = time.monotonic()
                print(f"{name}: {there + made} of {total} runs, {left()}", file=sys.stderr, flush=True)

        yield tell


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
