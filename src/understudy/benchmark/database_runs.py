"""Runs on databases: the units of one are split in two, fitted, drawn and judged.

Scores are those of `us.evaluate`, "siblings/batting" for the metric of a link or a table, and "score", that of the
whole verdict. The baselines, which fit nothing, are other real units, and the same with their children shuffled.

The one rule is that of batches.py: a line depends on its run alone.
"""

import dataclasses
import functools
import time
from typing import Any

import polars as pl

from understudy import datasets, pipeline
from understudy.benchmark.grids import REAL, Dataset
from understudy.databases.model import DatabaseModel
from understudy.evaluation.database import findings, open_databases
from understudy.evaluation.database_verdict import judge_database
from understudy.tables.database_schema import DatabaseSchema

HOSPITAL = "hospital"
"""The simulated database; all others are public ones."""
HOSPITAL_UNITS = 20_000
SCORE = "score"

Frames = dict[str, pl.DataFrame]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DatabaseSplit:
    """The units of a database: those that are fitted, and those that are kept."""

    train: Frames
    test: Frames
    schema: DatabaseSchema


def database_schema(name: str) -> DatabaseSchema:
    """The schema of a database.

    Raises:
        DatasetError: There is no such database.
    """
    return datasets.hospital_schema() if name == HOSPITAL else datasets.database_schema(name)


@functools.lru_cache(maxsize=2)
def database_split(dataset: Dataset, seed: int) -> DatabaseSplit:
    """The units of a run; the seed is that of the split, and of the simulation."""
    assert dataset.database is not None  # whoever asks has looked
    schema = database_schema(dataset.database)
    if dataset.database == HOSPITAL:
        frames = datasets.hospital(dataset.rows or HOSPITAL_UNITS, seed=seed)
    else:
        frames = datasets.load_database(dataset.database)
        if dataset.rows is not None:
            root = frames[schema.unit]
            frames = hanging_on(frames | {schema.unit: root.sample(min(dataset.rows, len(root)), seed=seed)}, schema)
    train, test = datasets.split_units(frames, schema, seed)
    return DatabaseSplit(train=train, test=test, schema=schema)


def hanging_on(frames: Frames, schema: DatabaseSchema) -> Frames:
    """The tables without the rows of units that are not there."""
    found = dict(frames)
    for table in schema:
        if table.parent is not None:
            keys: Any = {"left_on": list(table.foreign_key), "right_on": list(schema[table.parent].key)}
            found[table.name] = found[table.name].join(found[table.parent], how="semi", **keys)
    return found


def fitted(units: DatabaseSplit, method: Any, *, epsilon: float, delta: float, seed: int) -> DatabaseModel:
    """The model of a run."""
    model: Any = pipeline.fit(
        units.train, units.schema, method, epsilon=epsilon, delta=delta, seed=seed, progress=False
    )
    return model


def scores(
    units: DatabaseSplit, model: DatabaseModel | None, label: str, metrics: tuple[str, ...], seed: int
) -> tuple[dict[str, float | None], dict[str, float]]:
    """The scores of a model, or of a baseline without one; and seconds of sampling and judging."""
    start = time.perf_counter()
    shown = units.train if model is None else model.sample(len(units.train[units.schema.unit]), seed=seed)
    sampled = time.perf_counter()
    compared = open_databases(units.test, shown, units.schema, train=units.train, seed=seed)
    found = findings(compared)
    which = "value" if model is not None else "floor" if label == REAL else "reference"
    made = {f"{each.metric}/{_table(each.table)}": getattr(each, which) for each in found if each.metric in metrics}
    if model is not None:
        made[SCORE] = judge_database(compared, found).score
    judged = {"evaluate_s": time.perf_counter() - sampled}
    return made, judged if model is None else {"sample_s": sampled - start, **judged}


def _table(name: str) -> str:
    """Of a link, the table of the children."""
    return name.rpartition(" → ")[2]
