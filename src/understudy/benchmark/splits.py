"""The rows of a run: a public table split in two, or a simulation.

Protocols: "private" fits the columns as they are, with everything inside (ε, δ). "paper" first standardises every
numeric column with the exact mean and deviation of the training rows, as the paper does, and removes its bounds. No
budget covers that, and every result says so.
"""

import dataclasses
import functools
from collections.abc import Mapping

import polars as pl

from understudy import datasets
from understudy.benchmark.grids import EXAMPLE, TRAINING_SHARE, Dataset
from understudy.datasets import simulators
from understudy.tables.column import Column
from understudy.tables.schema import Schema

TEST_SEEDS = 1_000_000
"""The test rows of a simulation are drawn with the seed of its training rows plus this number."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """The rows of one data set, and what is known about them.

    Attributes:
        schema: The public schema, which fits are given.
        target: The column that usefulness predicts, even if the schema of the fits does not name it.
        truth: The true parents where they are known.
    """

    train: pl.DataFrame
    test: pl.DataFrame
    schema: Schema
    target: str | None = None
    truth: Mapping[str, list[str]] | None = None

    @property
    def judged(self) -> Schema:
        """The schema of the evaluation."""
        return dataclasses.replace(self.schema, target=self.target or self.schema.target)


@functools.lru_cache(maxsize=2)
def split(dataset: Dataset, protocol: str, seed: int) -> Split:
    """The rows of a run; the seed is that of the split, or of the simulation."""
    made = _table(dataset, seed) if dataset.table is not None else _simulation(dataset, seed)
    if dataset.public_rows:
        made = dataclasses.replace(made, schema=dataclasses.replace(made.schema, rows=len(made.train)))
    return _standardised(made) if protocol == "paper" else made


def schema_of(dataset: Dataset) -> Schema:
    """The public schema of a data set as the evaluation knows it, without its rows."""
    if dataset.table is not None:
        return datasets.schema(dataset.table, bounds=dataset.bounds)
    return _simulation(dataclasses.replace(dataset, rows=2), seed=0).schema


def _table(dataset: Dataset, seed: int) -> Split:
    assert dataset.table is not None
    train, test = datasets.split(datasets.load(dataset.table), seed)
    if dataset.rows is not None:  # both parts are in an order of the seed's, so these are drawn at random
        fitted = round(TRAINING_SHARE * dataset.rows)
        train, test = train[:fitted], test[: dataset.rows - fitted]
    schema = datasets.schema(dataset.table, bounds=dataset.bounds)
    fits = schema if dataset.target else dataclasses.replace(schema, target=None)
    return Split(train=train, test=test, schema=fits, target=schema.target)


def _simulation(dataset: Dataset, seed: int) -> Split:
    """Training rows and as many test rows. The order of generation is the true one, as in the paper."""
    assert dataset.graph is not None and dataset.rows is not None
    if dataset.graph == EXAMPLE:
        train, test = (datasets.example(dataset.rows, s) for s in (seed, seed + TEST_SEEDS))
        return Split(train=train, test=test, schema=datasets.example_schema(), truth=datasets.EXAMPLE_PARENTS)
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
    return Split(train=made.frame, test=test, schema=schema, truth=made.parents)


def _standardised(raw: Split) -> Split:
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
    return dataclasses.replace(raw, train=train, test=test, schema=dataclasses.replace(raw.schema, columns=columns))
