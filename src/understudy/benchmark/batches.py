"""Batches of runs: one is fitted, sampled and evaluated, and leaves one line of the result file for each of its runs.

The one rule: a line depends on its run alone and not on when, in which order or beside what it was made, except for
what is under `measured`: time, memory, date and machine. Methods that fit many models at once round together, so a
batch is always made of the same runs, and again as a whole if one of its lines is missing.

The evaluation reads real rows without noise, and no budget covers it. A benchmark is for public tables and simulations.
"""

import dataclasses
import functools
import importlib.metadata
import json
import math
import os
import platform
import resource
import sys
import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from understudy.benchmark import database_runs
from understudy.benchmark.grids import REAL, Run
from understudy.benchmark.result_file import Line
from understudy.benchmark.splits import Split, split
from understudy.core.version import __version__
from understudy.databases.model import DatabaseModel
from understudy.evaluation.evaluate import metric_values, shuffled, train_column_scores
from understudy.evaluation.every import Scores
from understudy.evaluation.metrics import without_unsuited
from understudy.evaluation.structure import compare
from understudy.model import Model
from understudy.pipeline import fit_many
from understudy.privacy.receipt import Receipt
from understudy.synthesizers import METHODS, resolve
from understudy.synthesizers.base import BatchMethod

NOT_PRIVATE = "COLUMNS WERE STANDARDISED WITH EXACT MOMENTS OF THE TRAINING ROWS, WHICH NO BUDGET COVERS."
MOST_TOGETHER = 48
"""A batch has at most this many runs, which bounds what is lost if the benchmark is killed."""
_PACKAGES = (
    *("numpy", "polars", "scipy", "dp-accounting", "opendp", "jax", "optax", "mbi"),
    *("scikit-learn", "catboost", "xgboost-cpu", "xgboost", "POT"),
)


def batches(runs: Sequence[Run]) -> list[list[Run]]:
    """Runs that are made together: those on one table by a method that fits many at once; every other alone."""
    found: dict[Hashable, list[Run]] = {}
    for run in runs:
        alone = run.is_baseline or run.dataset.database is not None
        together = not alone and isinstance(configured(run), BatchMethod)
        key = (run.dataset, run.protocol, run.seed, run.method) if together else run.id
        found.setdefault(key, []).append(run)
    return [group[i : i + MOST_TOGETHER] for group in found.values() for i in range(0, len(group), MOST_TOGETHER)]


def perform(runs: Sequence[Run]) -> list[Line]:
    """Makes the runs of a batch: fits, draws as many rows as were fitted, evaluates. Returns their lines."""
    if runs[0].dataset.database is not None:
        return [_of_database(run) for run in runs]
    rows = split(runs[0].dataset, runs[0].protocol, runs[0].seed)
    _reset_peak_memory()
    start = time.perf_counter()
    if runs[0].is_baseline:
        return [_evaluated(run, rows, None, {}) for run in runs]
    models = fit_many(
        rows.train,
        rows.schema,
        [configured(run) for run in runs],
        [run.seed for run in runs],
        epsilon=[run.epsilon or 0.0 for run in runs],
        delta=runs[0].delta,
        progress=False,
    )
    measured = {"fit_s": (time.perf_counter() - start) / len(runs), "fits_at_once": len(runs)}
    return [_evaluated(run, rows, model, measured) for run, model in zip(runs, models, strict=True)]


def _of_database(run: Run) -> Line:
    """The line of a run on a database."""
    units = database_runs.database_split(run.dataset, run.seed)
    _reset_peak_memory()
    start, model, measured = time.perf_counter(), None, dict[str, float]()
    if not run.is_baseline:
        budget = {"epsilon": run.epsilon or 0.0, "delta": run.delta}
        model = database_runs.fitted(units, configured(run), **budget, seed=run.seed)
        measured = {"fit_s": time.perf_counter() - start, "fits_at_once": 1}
    found, seconds = database_runs.scores(units, model, run.label, run.metrics, run.seed)
    peak = {} if model is None else {"peak_mb": _peak_memory()}
    return _line(run, found, model, {**measured, **seconds, **peak})


def configured(run: Run) -> Any:
    """The method of a run. The setting `published` stands for what the paper used for the run's table and ε."""
    settings = dict(run.settings)
    if settings.pop("published", False):
        method: Any = METHODS[run.method]  # only some have settings that were published
        return method.paper(run.dataset.table, run.epsilon, **settings)
    return resolve(run.method, settings)


def _evaluated(run: Run, rows: Split, model: Model | None, measured: Mapping[str, float]) -> Line:
    """The line of a run; without a model, that of a baseline."""
    start = time.perf_counter()
    if model is None:
        shown = rows.train if run.label == REAL else shuffled(rows.train, run.seed)
    else:
        shown = model.sample(len(rows.train), seed=run.seed)
        measured = {**measured, "sample_s": time.perf_counter() - start, "peak_mb": _peak_memory()}
    start = time.perf_counter()
    found = metric_values(
        rows.test,
        shown,
        rows.judged,
        train=rows.train,
        metrics=without_unsuited(rows.judged, run.metrics),
        learners=run.learners or None,
        seed=run.seed,
        threads=1,  # the learners' answers depend on it
        train_scores=functools.partial(_train_scores, run, rows),
    )
    if model is not None and rows.truth is not None:
        found |= _structure(model.parents, rows.truth)
    return _line(run, found, model, {**measured, "evaluate_s": time.perf_counter() - start})


_KEPT_SCORES: dict[Hashable, Scores] = {}
"""What `every` divides by: the same for all runs on one split, so that a process computes it once."""


def _train_scores(run: Run, rows: Split) -> Scores:
    key = dataclasses.replace(run.dataset, target=True), run.protocol, run.seed
    if key not in _KEPT_SCORES:
        _KEPT_SCORES[key] = train_column_scores(rows.test, rows.train, rows.judged, seed=run.seed, threads=1)
    return _KEPT_SCORES[key]


def _structure(learned: Mapping[str, list[str]], truth: Mapping[str, list[str]]) -> dict[str, float]:
    found = compare(learned, truth)
    kinds = ("precision", "recall", "f1", "hamming", "skeleton_f1")
    return {f"structure/{kind}": float(getattr(found, kind)) for kind in kinds}


# The line -----------------------------------------------------------------------------------------------------------


def _line(
    run: Run, scores: Mapping[str, float | None], model: Model | DatabaseModel | None, measured: Mapping[str, float]
) -> Line:
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
        "measured": {key: float(f"{value:.4g}") for key, value in measured.items()}
        | {"date": time.strftime("%Y-%m-%d", time.gmtime()), "machine": _machine()},
    }


def _receipt(receipt: Receipt) -> dict[str, Any]:
    """The receipt with equal charges counted instead of listed; nothing that the accounting needs is left out."""
    facts = json.loads(receipt.to_json())
    groups: dict[str, dict[str, Any]] = {}
    for charge in facts.pop("charges"):
        same = {key: value for key, value in charge.items() if key not in ("what", "sigma", "epsilon")}
        groups.setdefault(json.dumps(same), {"count": 0, **same})["count"] += 1
    return {**facts, "charges": list(groups.values())}


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


def _reset_peak_memory() -> None:
    """Starts the count of the process's largest memory again, where the system can."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def _peak_memory() -> float:
    """The largest memory since the reset, in megabytes; since the process began where the system cannot reset."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (2**20 if sys.platform == "darwin" else 2**10)
