"""Usefulness: how well a learner trained on one table predicts rows of another.

Train on synthetic, test on real. The one rule: all learners see the same matrix, but for the limits that `LEARNERS`
states. Numbers (truth values and instants among them) are imputed by the training median and standardised by the
training rows, with a column that says where they were missing; trees do not mind, and instants keep their digits in
float32. Categories are one column each, 0 or 1, a missing value too; a category that the training rows do not hold is 0
everywhere. What does not vary in the training rows is left out: nothing can be learned from it, and a network would
answer with its random first weights. Rows without a target are left out of both tables.

Privacy:
    Reads both tables without noise. The numbers that come out are covered by no budget.

Source: area under the curve by ranks, Hanley and McNeil (1982), doi:10.1148/radiology.143.1.7063747.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.evaluation.learners import LEARNERS, Learner, check_learners, predict
from understudy.evaluation.pair import FARTHEST, Codes, Floats, MetricResult, open_table
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.table import Table
from understudy.tables.values import SchemaError

if TYPE_CHECKING:
    from understudy.evaluation.pair import Source

NUMBER_METRICS, CLASS_METRICS = ("r2", "rmse"), ("f1", "auc", "accuracy")
"""The metrics of a numeric target, and those of a categorical or boolean one."""
FEWEST_ROWS = 10
"""With fewer training rows nothing is trained, and their mean or commonest class is predicted."""
MOST_LABELS = 50
"""How many columns one categorical column becomes at most: its commonest labels. The others are 0 in all of them."""
FARTHEST_DEVIATIONS = 1e6
"""Standardised numbers are clamped to this, so that float32 holds them."""
_MATRIX = f"numbers median-imputed and standardised by the training part, {MOST_LABELS} commonest categories one-hot"

Results = dict[tuple[str, str], MetricResult]
"""What metrics say, by metric and learner; the learner is "" if nothing is trained."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """A training and a test table as matrices. Targets are numbers, or codes of classes that both tables share.

    Attributes:
        scale: The numeric target in the table that sets the unit of rmse.
        scaled_by: What that table is called.
    """

    features: Floats  # (training rows, features)
    target: NDArray
    test_features: Floats  # (test rows, features)
    test_target: NDArray
    classify: bool
    scale: NDArray
    scaled_by: str

    @property
    def constant_answer(self) -> str | None:
        """Why nothing is trained; None if a learner is."""
        if not len(self.target) or not len(self.test_target):
            return "no rows have a target, so there is no value"
        answer = "commonest class" if self.classify else "mean"
        if len(self.target) < FEWEST_ROWS:
            return f"fewer than {FEWEST_ROWS} training rows, so their {answer} is the answer"
        if np.ptp(self.target) == 0:
            return f"the target is constant in the training rows, so their {answer} is the answer"
        if not self.features.shape[1]:
            return f"no feature varies in the training rows, so their {answer} is the answer"
        return None


def usefulness(
    train: "Source | Table",
    test: "Source | Table",
    schema: Schema,
    *,
    learners: Iterable[str] = tuple(LEARNERS),
    scale: "Source | Table | None" = None,
    seed: int = 0,
    threads: int = 2,
) -> Results:
    """Trains each learner on `train` to predict `schema.target`, and measures its predictions on `test`.

    A numeric target gives r2 and rmse, the latter with the target z-scored by `scale`. A categorical or boolean one
    gives f1 (the mean over the classes of the test table), auc (one class against the rest, the mean over the same) and
    accuracy. A class that the training rows lack is never predicted and has an auc of one half. What is undefined is
    NaN: every metric if a table has no row with a target, r2 and auc if the test target is constant, rmse if that of
    `scale` is.

    Args:
        train: Usually synthetic rows: whatever `table.read` takes, or a `Table`.
        test: Real rows that the synthesizer has not seen, likewise.
        schema: Names the target. The column of units is not needed, and not used.
        learners: Names from `LEARNERS`.
        scale: The real table that was fitted, for a unit of rmse that all synthetic tables share; None: `test`.
        seed: Fixes whatever a learner draws: same rows, seed and number of threads, same values.
        threads: How many a learner may use.

    Raises:
        SchemaError: It names no target.
        ValueError: There is no such learner.
        ImportError: A library is missing.
    """
    target, learners = target_of(schema), list(learners)
    check_learners(learners)
    task = _task(open_table(train, schema), open_table(test, schema), schema, target)
    if scale is not None and not task.classify:
        known = _known_numbers(open_table(scale, schema), target)
        task = dataclasses.replace(task, scale=known, scaled_by="the fitted table")
    evaluate = _class_metrics if task.classify else _number_metrics
    counts = f"trained on {len(task.target)} rows, tested on {len(task.test_target)}"
    results: Results = {}
    for name in learners:
        trained = task.constant_answer or f"{LEARNERS[name]}, seed {seed}; {_MATRIX}"
        for metric, (value, meaning) in evaluate(task, LEARNERS[name], seed, threads).items():
            results[metric, name] = MetricResult(value=value, summary=f"{meaning}; {counts}; {trained}")
    return results


def target_of(schema: Schema) -> Column:
    """The column to be predicted.

    Raises:
        SchemaError: The schema names none.
    """
    if schema.target is None:
        raise SchemaError("target: expected the name of the column to be predicted, got none. Add it to the schema.")
    return schema[schema.target]


# From tables to matrices --------------------------------------------------------------------------------------------


def _task(train: Table, test: Table, schema: Schema, target: Column) -> Task:
    classify = not target.is_numeric
    if classify:
        order = sorted({*_labels(train, target), *_labels(test, target)})
        targets = [_codes(table, target, order) for table in (train, test)]
        known = [codes >= 0 for codes in targets]
    else:
        targets = [table.columns[target.name] for table in (train, test)]
        known = [np.isfinite(values) for values in targets]
        targets = [np.clip(values, -FARTHEST, FARTHEST) for values in targets]
    pairs = []
    for column in schema:
        if column.name != target.name:
            make = _one_hot if column.kind == "categorical" else _numbers
            pairs += make(train, test, column, *known)
    pairs = [pair for pair in pairs if len(pair[0]) and np.ptp(pair[0]) > 0]
    return Task(
        features=np.column_stack([np.empty((int(known[0].sum()), 0)), *(pair[0] for pair in pairs)]),
        target=targets[0][known[0]],
        test_features=np.column_stack([np.empty((int(known[1].sum()), 0)), *(pair[1] for pair in pairs)]),
        test_target=targets[1][known[1]],
        classify=classify,
        scale=targets[1][known[1]],
        scaled_by="the test part",
    )


def _known_numbers(table: Table, column: Column) -> Floats:
    values = table.columns[column.name]
    return np.clip(values[np.isfinite(values)], -FARTHEST, FARTHEST)


def _numbers(train: Table, test: Table, column: Column, *known: NDArray) -> list[tuple[Floats, Floats]]:
    """The standardised column of both tables, and where it is missing."""
    shown, asked = (table.columns[column.name][rows] for table, rows in zip((train, test), known, strict=True))
    gone = (~np.isfinite(shown)).astype(np.float64), (~np.isfinite(asked)).astype(np.float64)
    if gone[0].all():  # true without rows too
        return [gone]
    median = np.median(np.clip(shown[gone[0] == 0], -FARTHEST, FARTHEST))
    filled = [np.clip(np.where(np.isfinite(x), x, median), -FARTHEST, FARTHEST) for x in (shown, asked)]
    centre, scale = _centre_and_scale(filled[0])
    return [(_standard(filled[0], centre, scale), _standard(filled[1], centre, scale)), gone]


def _one_hot(train: Table, test: Table, column: Column, *known: NDArray) -> list[tuple[Floats, Floats]]:
    """A column for each of the commonest labels of the training rows, and one for a missing value."""
    order = _labels(train, column)
    shown, asked = (_codes(table, column, order)[rows] for table, rows in zip((train, test), known, strict=True))
    counts = np.bincount(shown[shown >= 0], minlength=len(order))
    common = np.argsort(-counts, kind="stable")[:MOST_LABELS]
    return [((shown == code).astype(np.float64), (asked == code).astype(np.float64)) for code in (*common, -1)]


def _labels(table: Table, column: Column) -> Sequence[str]:
    if column.kind == "boolean":
        return ("false", "true")
    return table.labels[column.name] if column.labels is None else column.labels


def _codes(table: Table, column: Column, order: Sequence[str]) -> Codes:
    """A column as places in `order`; -1 for a missing value, -2 for a label that is not there."""
    values = table.columns[column.name]
    own = np.where(np.isnan(values), -1, values).astype(np.int64)
    places = {label: place for place, label in enumerate(order)}
    return np.array([*(places.get(label, -2) for label in _labels(table, column)), -1])[own]  # -1 is the last


def _centre_and_scale(values: Floats) -> tuple[float, float]:
    """Mean and standard deviation, the latter 1 if it would be zero. Tiny deviations do not vanish when squared."""
    centre = float(values.mean())
    largest = float(np.abs(values - centre).max()) or 1.0
    return centre, largest * float(np.sqrt(np.mean(((values - centre) / largest) ** 2))) or 1.0


def _standard(values: Floats, centre: float, scale: float, farthest: float = FARTHEST_DEVIATIONS) -> Floats:
    with np.errstate(over="ignore"):
        return np.clip((values - centre) / scale, -farthest, farthest)


# Metrics ------------------------------------------------------------------------------------------------------------

Measured = dict[str, tuple[float, str]]
"""A value and its meaning, by metric."""


def _number_metrics(task: Task, learner: Learner, seed: int, threads: int) -> Measured:
    """R² = 1 − mse / variance of the test target, and rmse / standard deviation of the target that sets the scale."""
    r2 = rmse = math.nan
    if len(task.target) and len(task.test_target):
        centre, scale = _centre_and_scale(task.target)
        guess = np.full(len(task.test_target), centre)
        if task.constant_answer is None:
            guess += scale * _predict(task, _standard(task.target, centre, scale), learner, seed, threads)
        r2 = 1.0 - _squared_error(task.test_target - guess, task.test_target)
        rmse = math.sqrt(_squared_error(task.test_target - guess, task.scale))
    return {
        "r2": (r2, "R² on the test part"),
        "rmse": (rmse, f"root mean squared error on the test part, its target z-scored by {task.scaled_by}"),
    }


def _squared_error(errors: Floats, scale: Floats) -> float:
    """The mean of squared errors over the variance of `scale`; NaN if `scale` is constant."""
    if not len(scale) or np.ptp(scale) == 0:
        return math.nan
    return float(np.mean(_standard(errors, 0.0, _centre_and_scale(scale)[1], FARTHEST) ** 2))


def _class_metrics(task: Task, learner: Learner, seed: int, threads: int) -> Measured:
    """Macro F1, macro one-against-rest area under the curve, and accuracy, over the classes of the test part."""
    truth, f1, auc, accuracy = task.test_target, math.nan, math.nan, math.nan
    if len(task.target) and len(truth):
        classes, places = np.unique(task.target, return_inverse=True)
        if task.constant_answer is None:
            likely = _predict(task, places, learner, seed, threads)  # (test rows, classes)
        else:
            likely = np.tile(np.bincount(places) / len(places), (len(truth), 1))
        guess = classes[likely.argmax(axis=1)]
        accuracy = float(np.mean(guess == truth))
        asked = np.unique(truth)
        f1 = float(np.mean([_f1(guess == c, truth == c) for c in asked]))
        if len(asked) > 1:
            by_class = dict(zip(classes, likely.T, strict=True))
            auc = float(np.mean([area(by_class.get(c, np.zeros(len(truth))), truth == c) for c in asked]))
    return {
        "f1": (f1, "F1, mean over the classes of the test part"),
        "auc": (auc, "area under the ROC curve, one class against the rest, mean over the classes of the test part"),
        "accuracy": (accuracy, "share of the test part whose class is predicted"),
    }


def _f1(guess: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    """The harmonic mean of precision and recall of one class, which occurs among the truth."""
    return float(2 * np.sum(guess & truth) / (np.sum(guess) + np.sum(truth)))


def area(confidence: Floats, positive: NDArray[np.bool_]) -> float:
    """The probability that the confidence in a positive row exceeds that in a negative one; ties count half."""
    from scipy.stats import rankdata

    ours, others = int(positive.sum()), int((~positive).sum())
    return float((rankdata(confidence)[positive].sum() - ours * (ours + 1) / 2) / (ours * others))


def _predict(task: Task, target: NDArray, learner: Learner, seed: int, threads: int) -> Floats:
    return predict(
        learner, task.features, target, task.test_features, classify=task.classify, seed=seed, threads=threads
    )
