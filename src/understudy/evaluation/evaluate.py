"""Evaluation: one call that compares a synthetic table with a real one.

The one rule: every value has its definition beside it, and if the training table is given also what the value means:
the floor that real rows reach, and the reference that a table without any dependence reaches.

Privacy:
    None. These numbers are computed on real rows without noise, and no budget covers them. Do not publish them unless
    the real table may be published, or is another one than the one that is protected.
"""

import dataclasses
import functools
import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl

from understudy.core.svg import Picture
from understudy.evaluation import database
from understudy.evaluation.database_verdict import judge_database
from understudy.evaluation.every import EVERY, EVERY_LEARNER, Scores, column_scores, every
from understudy.evaluation.metrics import Request, resolve
from understudy.evaluation.pair import (
    MetricResult,
    Pair,
    in_known_groups,
    open_table,
    open_tables,
    permuted,
    shuffled_side,
)
from understudy.evaluation.picture import picture
from understudy.evaluation.usefulness import Results, usefulness
from understudy.evaluation.verdict import Verdict, judge
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.schema import Schema

if TYPE_CHECKING:
    from understudy.evaluation.database import Database
    from understudy.evaluation.pair import Source

NOT_COVERED = "Not covered by the budget: computed on real rows without noise. Look at it, do not publish it."
"""The stamp on everything that is computed here."""
WORST = 10
"""How many pairs of columns are listed, those with the largest distances."""
_BY_COLUMN, _BY_PAIR = ("wd", "tvd1", EVERY), ("tvd2", "correlation_max")
_LEARNER = {EVERY: EVERY_LEARNER}
_FRAME = {
    "metric": pl.String,
    "columns": pl.String,
    "learner": pl.String,
    "value": pl.Float64,
    "floor": pl.Float64,
    "reference": pl.Float64,
    "how": pl.String,
}
Row = tuple[str, str, str, float | None, float | None, float | None, str]
"""A row of the frame that `evaluate` returns."""


class Evaluation(pl.DataFrame):
    """The frame that `evaluate` returns, and what its numbers mean.

    It is a polars frame like any other; frames that are made from it, by `filter` for example, are plain ones.
    """

    _judge: Callable[[], Verdict] | None = None
    _verdict: Verdict | None = None

    @property
    def verdict(self) -> Verdict:
        """What the numbers mean: a word for columns, pairs, prediction and rules. Computed when first asked for."""
        if self._verdict is None:
            if self._judge is None:
                raise ValueError("verdict: expected the frame that evaluate returned, got one made from it.")
            self._verdict = self._judge()
        return self._verdict

    @property
    def score(self) -> float:
        """The overall score of the verdict, 0 to 1; larger is better."""
        return self.verdict.score

    def to_json(self) -> dict[str, Any]:
        """All of it in types that JSON has, with the stamp that no budget covers it."""
        stamp = {"covered_by_budget": False, "note": NOT_COVERED}
        return {**stamp, "verdict": self.verdict.to_json(), "rows": self.to_dicts()}

    def plot(self) -> Picture:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The verdict as a picture, which a notebook shows and `save` writes as SVG."""
        return picture(self.verdict.to_json())


def evaluate(
    real: "Source | Database",
    synthetic: "Source | Database",
    schema: Schema | DatabaseSchema | str | os.PathLike[str],
    *,
    metrics: Iterable[str] | None = None,
    learners: Iterable[str] | None = None,
    train: "Source | Database | None" = None,
    seed: int = 0,
) -> Evaluation:
    """Compares a synthetic table, or a database, with a real one.

    With the schema of a database, `real`, `synthetic` and `train` are tables by name, or a folder with a file for each;
    the metrics are those of `evaluation.database.HOW`, and the rows of the result name a table or a link.

    Args:
        real: The table to be matched: best a part that was kept from `fit`. A path or a frame, as for `fit`.
        synthetic: The table that is evaluated; likewise.
        schema: Public facts about both, or the path of their TOML file.
        metrics: Names from `METRICS`, "tvdK" for marginals of K columns, or names from `USEFULNESS` that suit the
            schema's target; None: all of `METRICS`, and with `learners` all that suit the target. "every" needs
            `train`, and is computed only if it is named.
        learners: Names from `LEARNERS`, trained on `synthetic` and tested on `real`, or "all"; None: all if a metric
            of usefulness is named, else none. They need `pip install 'understudy-dp[eval]'`.
        train: The table that was fitted. It sets the scale, and it takes the place of `synthetic` as it is (the floor)
            and with each of its columns shuffled (the reference).
        seed: Fixes subsamples, shuffles and what a learner draws: the same seed gives the same numbers.

    Returns:
        One row per value: metric, columns ("" for the whole table), learner ("" if nothing is trained), value, floor,
        reference, how. The whole table comes first, then wd, tvd1 and every by column, then the ten worst pairs of tvd2
        and correlation_max. What is undefined is null. `.score` is the overall score of the verdict, `.verdict` its
        words and findings, `.plot()` its picture.

    Privacy:
        None: see `NOT_COVERED`.

    Raises:
        ValueError: A metric or a learner is unknown, or does not suit the target, or "every" is asked without `train`.
        SchemaError, TableError: The schema is wrong, or a table's structure does not fit it.
        ImportError: The library of a learner is missing.
    """
    schema = Schema.of(schema)
    if isinstance(schema, DatabaseSchema):
        real, synthetic, train = (cast("Database", each) for each in (real, synthetic, train))
        return _evaluate_database(real, synthetic, schema, metrics=metrics, learners=learners, train=train, seed=seed)
    real, synthetic, train = (cast("Source", each) for each in (real, synthetic, train))
    tables = {"real": real, "synthetic": synthetic} | ({} if train is None else {"train": train})
    request = resolve(schema, metrics, learners, train=train is not None)
    comparison = _Comparison(schema, tables, request, seed=seed)
    results, floor, reference = comparison.results("synthetic"), {}, {}
    if train is not None:
        floor, reference = comparison.results("train"), comparison.results("train", shuffle=True)
    found = Evaluation(_rows(results, floor, reference), schema=_FRAME, orient="row")
    found._judge = functools.partial(judge, real, synthetic, schema, train=train, seed=seed)
    return found


def _evaluate_database(
    real: "Database",
    synthetic: "Database",
    schema: DatabaseSchema,
    *,
    metrics: Iterable[str] | None,
    learners: Iterable[str] | None,
    train: "Database | None",
    seed: int,
) -> Evaluation:
    asked = database.asked(metrics, learners)
    compared = database.open_databases(real, synthetic, schema, train=train, seed=seed)
    values = database.findings(compared)
    chosen = [each for each in values if each.metric in asked]
    found = Evaluation(database.rows_of(chosen), schema=database.FRAME, orient="row")
    found._verdict = judge_database(compared, values)
    return found


def metric_values(
    real: "Source",
    synthetic: "Source",
    schema: Schema,
    *,
    train: "Source | None",
    metrics: Iterable[str] | None,
    learners: Iterable[str] | None,
    seed: int,
    threads: int = 2,
    train_scores: Callable[[], Scores] | None = None,
) -> dict[str, float | None]:
    """The values that `evaluate` gives of whole tables, without floor and reference.

    Args:
        train_scores: The result of `train_column_scores` on the same tables, for "every", from a caller who keeps it.

    Returns:
        By "metric", or "metric/learner" if one is trained; None if a value is undefined.

    Privacy:
        None: see `NOT_COVERED`.
    """
    tables = {"real": real, "synthetic": synthetic} | ({} if train is None else {"train": train})
    request = resolve(schema, metrics, learners, train=train is not None)
    comparison = _Comparison(schema, tables, request, seed=seed, threads=threads, train_scores=train_scores)
    results = comparison.results("synthetic")
    return {"/".join(filter(None, key)): _finite(result.value) for key, result in results.items()}


def train_column_scores(real: "Source", train: "Source", schema: Schema, *, seed: int, threads: int = 2) -> Scores:
    """How well each column of `real` is predicted by a learner that is trained on `train`: what "every" divides by."""
    request = resolve(schema, [EVERY])
    comparison = _Comparison(schema, {"real": real, "train": train}, request, seed=seed, threads=threads)
    return comparison.train_scores


# The tables ---------------------------------------------------------------------------------------------------------


class _Comparison:
    """The tables of one evaluation, read once, and what is asked of them. Learners see the same rows as metrics do."""

    def __init__(
        self,
        schema: Schema,
        tables: "Mapping[str, Source]",
        request: Request,
        *,
        seed: int,
        threads: int = 2,
        train_scores: Callable[[], Scores] | None = None,
    ):
        self.schema, self.request, self.seed, self.threads = schema, request, seed, threads
        self._train_scores = train_scores
        self.sides = open_tables(schema, tables) if request.similarity or request.every else {}
        opened = {name: open_table(table, schema) for name, table in tables.items()} if request.learners else {}
        self.tables = in_known_groups(schema, opened)

    def results(self, name: str, *, shuffle: bool = False) -> Results:
        """What the metrics say of one of the tables, as it is or with each column shuffled."""
        with np.errstate(all="ignore"):  # a warning would depend on somebody's value
            return self._similarity(name, shuffle) | self._usefulness(name, shuffle) | self._every(name, shuffle)

    def _pair(self, name: str, shuffle: bool) -> Pair:
        side, scale = self.sides[name], self.sides.get("train", self.sides["real"])
        side = shuffled_side(side, self.seed) if shuffle else side
        return Pair(names=self.schema.names, real=self.sides["real"], synthetic=side, scale=scale, seed=self.seed)

    def _similarity(self, name: str, shuffle: bool) -> Results:
        if not self.request.similarity:
            return {}
        pair = self._pair(name, shuffle)
        return {(metric, ""): compute(pair) for metric, compute in self.request.similarity.items()}

    def _every(self, name: str, shuffle: bool) -> Results:
        if not self.request.every:
            return {}
        pair, own = self._pair(name, shuffle), name == "train" and not shuffle
        scores = self.train_scores if own else column_scores(pair.synthetic, pair, threads=self.threads)
        return {(EVERY, EVERY_LEARNER): every(pair, scores=scores, train_scores=self.train_scores)}

    @functools.cached_property
    def train_scores(self) -> Scores:
        """What a learner reaches from the training rows, by column: computed once, and the same for all tables."""
        if self._train_scores is not None:
            return self._train_scores()
        return column_scores(self.sides["train"], self._pair("train", False), threads=self.threads)

    def _usefulness(self, name: str, shuffle: bool) -> Results:
        if not self.request.learners:
            return {}
        table = self.tables[name]
        if shuffle:
            table = dataclasses.replace(table, columns=permuted(table.columns, self.seed))
        found = usefulness(
            table,
            self.tables["real"],
            self.schema,
            learners=self.request.learners,
            scale=self.tables.get("train"),
            seed=self.seed,
            threads=self.threads,
        )
        return {key: found[key] for key in itertools.product(self.request.usefulness, self.request.learners)}


def shuffled(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Each column in an order of its own: the same margins, and no dependence. The reference of `evaluate`."""
    return pl.DataFrame(permuted(frame.to_dict(), seed))


# The frame ----------------------------------------------------------------------------------------------------------

_NOT_REQUESTED = MetricResult(value=None, summary="not requested")


def _rows(results: Results, floor: Results, reference: Results) -> list[Row]:
    """Whole tables first, then columns, then the worst pairs, each with its floor and its reference."""
    rows: list[Row] = []
    for (name, learner), result in results.items():
        beside = [_finite(of[name, learner].value) if of else None for of in (floor, reference)]
        rows.append((name, "", learner, _finite(result.value), beside[0], beside[1], result.how))
    for name in (*_BY_COLUMN, *_BY_PAIR):
        learner = _LEARNER.get(name, "")
        result = results.get((name, learner), _NOT_REQUESTED)
        ranked = sorted(result.parts, key=lambda columns: -result.parts[columns])
        for columns in ranked[:WORST] if name in _BY_PAIR else result.parts:
            beside = [_finite(of[name, learner].parts.get(columns)) if of else None for of in (floor, reference)]
            value = _finite(result.parts[columns])
            rows.append((name, ", ".join(columns), learner, value, beside[0], beside[1], result.definition))
    return rows


def _finite(value: float | None) -> float | None:
    """None for what JSON has no number for."""
    return value if value is not None and math.isfinite(value) else None
