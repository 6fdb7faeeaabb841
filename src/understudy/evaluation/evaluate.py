"""The judges' bench: one call that holds a synthetic table against a real one.

The one rule: every value has its definition beside it, and where the training table is given also what the number
means: the floor that real rows reach, and the reference that a table without any dependence reaches.

Privacy:
    None. These numbers are computed on real rows without noise, and no budget covers them. Do not publish them unless
    the real table may be published, or is another one than the one that is protected.
"""

import dataclasses
import functools
import itertools
import math
import os
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from understudy.core.text import did_you_mean
from understudy.evaluation.pair import Pair, Side, open_tables
from understudy.evaluation.similarity import METRICS, Score, tvd
from understudy.evaluation.usefulness import (
    CLASS_METRICS,
    LEARNERS,
    NUMBER_METRICS,
    check_learners,
    open_table,
    target_of,
    usefulness,
)
from understudy.tables.schema import Schema

NOT_COVERED = "Not covered by the budget: computed on real rows without noise. Look at it, do not publish it."
WORST = 10
"""How many pairs of columns are listed."""
USEFULNESS = (*NUMBER_METRICS, *CLASS_METRICS)
_BY_COLUMN, _BY_PAIR = ("wd", "tvd1"), ("tvd2", "correlation_max")
_SHAPE = {
    "metric": pl.String,
    "columns": pl.String,
    "learner": pl.String,
    "value": pl.Float64,
    "floor": pl.Float64,
    "reference": pl.Float64,
    "how": pl.String,
}

Verdict = dict[tuple[str, str], Score]  # by metric and learner, "" where nothing is trained


def evaluate(
    real: Any,
    synthetic: Any,
    schema: Schema | str | os.PathLike[str],
    *,
    metrics: Iterable[str] | None = None,
    learners: Iterable[str] | None = None,
    train: Any = None,
    seed: int = 0,
) -> pl.DataFrame:
    """Holds a synthetic table against a real one.

    Args:
        real: What is to be matched: best a part of the table that was kept from `fit`. A path or a frame, as for `fit`.
        synthetic: What is judged; likewise.
        schema: Public facts about both, or the path of their TOML file.
        metrics: Names from `METRICS`, "tvdK" for marginals of K columns, or names from `USEFULNESS` that suit the
            schema's target; None: all of `METRICS`, and with `learners` all that suit the target.
        learners: Names from `LEARNERS`, trained on `synthetic` and tested on `real`, or "all"; None: all where a
            metric of usefulness is named, else none. They need `pip install 'understudy[eval]'`.
        train: The table that was fitted. It sets the scale, and it is put in the place of `synthetic` as it is (the
            floor) and with each of its columns shuffled (the reference).
        seed: Where subsamples, shuffles and what a learner draws come from: the same seed gives the same numbers.

    Returns:
        One row per value: metric, columns ("" for the whole table), learner ("" where nothing is trained), value,
        floor, reference, how. The whole table comes first, then wd and tvd1 by column, then the ten worst pairs of
        tvd2 and correlation_max. What is undefined is null.

    Privacy:
        None: see `NOT_COVERED`.

    Raises:
        ValueError: A metric or a learner is unknown, or does not suit the target.
        SchemaError, TableError: The schema is wrong, or a table's structure does not fit it.
        ImportError: The library of a learner is missing.
    """
    schema = schema if isinstance(schema, Schema) else Schema.read(schema)
    tables = {"real": real, "synthetic": synthetic} | ({} if train is None else {"train": train})
    bench = _Bench(schema, tables, resolve(schema, metrics, learners), seed=seed)
    verdict, floor, reference = bench.judge("synthetic"), {}, {}
    if train is not None:
        floor, reference = bench.judge("train"), bench.judge("train", shuffle=True)
    return pl.DataFrame(_rows(verdict, floor, reference), schema=_SHAPE, orient="row")


def scores(
    real: Any,
    synthetic: Any,
    schema: Schema,
    *,
    train: Any,
    metrics: Iterable[str] | None,
    learners: Iterable[str] | None,
    seed: int,
    threads: int = 2,
) -> dict[str, float | None]:
    """The values that `evaluate` gives of whole tables, without floor and reference.

    Returns:
        By "metric", or "metric/learner" where one is trained; None where a value is undefined.

    Privacy:
        None: see `NOT_COVERED`.
    """
    tables = {"real": real, "synthetic": synthetic} | ({} if train is None else {"train": train})
    bench = _Bench(schema, tables, resolve(schema, metrics, learners), seed=seed, threads=threads)
    verdict = bench.judge("synthetic")
    return {"/".join(filter(None, key)): _finite(score.value) for key, score in verdict.items()}


# What is asked for --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What the judges are asked.

    Attributes:
        similarity: Metrics of two tables, by name.
        usefulness: Names of metrics of a learner.
        learners: Who is to be trained; none where `usefulness` is empty.
    """

    similarity: Mapping[str, Callable[[Pair], Score]]
    usefulness: tuple[str, ...]
    learners: tuple[str, ...]


def resolve(schema: Schema, metrics: Iterable[str] | None = None, learners: Iterable[str] | None = None) -> Request:
    """What `evaluate` makes of its arguments. Reads no table.

    Raises:
        ValueError: A metric or a learner is unknown, or does not suit the target.
        ImportError: The library of a learner is missing.
    """
    named, trained = _listed(metrics), _listed(learners)
    if named is None:
        named = [*METRICS, *(_suited(schema) if trained else ())]
    asked = tuple(name for name in named if name in USEFULNESS)
    if trained == ["all"] or (trained is None and asked):
        trained = list(LEARNERS)
    similarity = {name: _metric(name) for name in named if name not in asked}
    _check_usefulness(schema, asked, trained or [])
    return Request(similarity=similarity, usefulness=asked, learners=tuple(trained or ()))


def _listed(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else list(dict.fromkeys([names] if isinstance(names, str) else names))


def _suited(schema: Schema) -> tuple[str, ...]:
    """The metrics of usefulness that suit the target."""
    return NUMBER_METRICS if target_of(schema).is_numeric else CLASS_METRICS


def _metric(name: str) -> Callable[[Pair], Score]:
    if name in METRICS:
        return METRICS[name]
    if isinstance(name, str) and re.fullmatch(r"tvd[1-9]\d?", name):
        return functools.partial(tvd, width=int(name[3:]))
    known = (*METRICS, *USEFULNESS)
    hint = did_you_mean(name, known)
    raise ValueError(f"metrics: expected some of {', '.join(known)} or tvdK, got {name!r}.{hint}")


def _check_usefulness(schema: Schema, asked: tuple[str, ...], learners: list[str]) -> None:
    check_learners(learners)
    if asked and not learners:
        raise ValueError(f"learners: expected at least one for {', '.join(asked)}, got none.")
    if not learners:
        return
    target, suited = target_of(schema), _suited(schema)
    if not asked:
        raise ValueError(f"metrics: expected some of {', '.join(suited)} for the learners, got none.")
    for name in asked:
        if name not in suited:
            rule = f"expected some of {', '.join(suited)} for the {target.kind} target {target.name!r}"
            raise ValueError(f"metrics: {rule}, got {name!r}.")


# The tables ---------------------------------------------------------------------------------------------------------


class _Bench:
    """The tables of one evaluation, and what is asked of them. Learners are given the same rows as the metrics."""

    def __init__(self, schema: Schema, tables: Mapping[str, Any], request: Request, *, seed: int, threads: int = 2):
        self.schema, self.request, self.seed, self.threads = schema, request, seed, threads
        self.sides = open_tables(schema, tables) if request.similarity else {}
        self.tables = {name: open_table(table, schema) for name, table in tables.items()} if request.learners else {}

    def judge(self, name: str, *, shuffle: bool = False) -> Verdict:
        """What is to be said of one of the tables, as it is or with each column shuffled."""
        with np.errstate(all="ignore"):  # a warning would tell of somebody's value
            return self._similarity(name, shuffle) | self._usefulness(name, shuffle)

    def _similarity(self, name: str, shuffle: bool) -> Verdict:
        if not self.request.similarity:
            return {}
        side, scale = self.sides[name], self.sides.get("train", self.sides["real"])
        side = _shuffled_side(side, self.seed) if shuffle else side
        pair = Pair(names=self.schema.names, real=self.sides["real"], synthetic=side, scale=scale, seed=self.seed)
        return {(metric, ""): judge(pair) for metric, judge in self.request.similarity.items()}

    def _usefulness(self, name: str, shuffle: bool) -> Verdict:
        if not self.request.learners:
            return {}
        table = self.tables[name]
        if shuffle:
            table = dataclasses.replace(table, columns=_permuted(table.columns, self.seed))
        rows = usefulness(
            table,
            self.tables["real"],
            self.schema,
            learners=self.request.learners,
            scale=self.tables.get("train"),
            seed=self.seed,
            threads=self.threads,
        )
        found = {(row["metric"], row["learner"]): Score(value=row["value"], whole=row["how"]) for row in rows}
        order = itertools.product(self.request.usefulness, self.request.learners)
        return {key: found[key] for key in order}


def shuffled(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Each column in an order of its own: the same margins, and no dependence. The reference of `evaluate`."""
    return pl.DataFrame(_permuted(frame.to_dict(), seed))


def _shuffled_side(side: Side, seed: int) -> Side:
    return dataclasses.replace(side, numbers=_permuted(side.numbers, seed), codes=_permuted(side.codes, seed))


def _permuted(columns: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The orders depend on the names, so that a table is shuffled alike in any form and any order of its columns."""
    draws = {name: np.random.default_rng([seed, zlib.crc32(name.encode())]) for name in columns}
    return {name: column[draws[name].permutation(len(column))] for name, column in columns.items()}


# The answer ---------------------------------------------------------------------------------------------------------


def _rows(verdict: Verdict, floor: Verdict, reference: Verdict) -> list[tuple]:
    """Whole tables first, then columns, then the worst pairs; the floor and the reference of the same beside each."""
    rows: list[tuple] = []
    for (name, learner), score in verdict.items():
        values = (score.value, *(of[name, learner].value if of else None for of in (floor, reference)))
        rows.append((name, "", learner, *map(_finite, values), score.how))
    for name in (*_BY_COLUMN, *_BY_PAIR):
        score = verdict.get((name, ""), _NOTHING)
        ranked = sorted(score.parts, key=lambda columns: -score.parts[columns])
        for columns in ranked[:WORST] if name in _BY_PAIR else score.parts:
            values = (
                score.parts[columns],
                *(of[name, ""].parts.get(columns) if of else None for of in (floor, reference)),
            )
            rows.append((name, ", ".join(columns), "", *map(_finite, values), score.binning))
    return rows


def _finite(value: float | None) -> float | None:
    """What JSON has a word for."""
    return value if value is not None and math.isfinite(value) else None


_NOTHING = Score(value=None, whole="not asked for")
