"""Every column: how much of what can be predicted from real rows can be predicted from synthetic ones.

A learner is trained to predict one column from all others, on the synthetic rows and on the training rows, and tested
on the real rows; then the next column. The one rule: both learners are the same, and see the same features, so that
their ratio says what the synthetic rows lost and nothing about the learner.

Privacy:
    Reads all tables without noise. The numbers that come out are covered by no budget.
"""

import dataclasses
import importlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.evaluation.learners import Learner, build
from understudy.evaluation.pair import Codes, Floats, MetricResult, Pair, Side, location_and_deviation
from understudy.evaluation.usefulness import FARTHEST_DEVIATIONS, FEWEST_ROWS, area

EVERY, EVERY_LEARNER = "every", "catboost"
"""The name of the metric, and of its learner."""
MOST_CLASSES = 20
"""How many categories a column keeps at most, the merged one included: training time grows with the classes."""
LOWEST_SCORE = 0.05
"""A column whose score from the training table is not above this cannot be predicted, and does not count."""
LEARNER = Learner(
    module="catboost",
    regressor="CatBoostRegressor",
    classifier="CatBoostClassifier",
    settings={"iterations": 150, "depth": 6, "learning_rate": 0.12},
    reason="half as many trees as for the target, since it is trained once for every column",
    # No statistics of the target stand for a category: all categories that are left are compared one by one.
    running={"verbose": 0, "allow_writing_files": False, "one_hot_max_size": 2 * MOST_CLASSES},
    seed_as="random_seed",
    threads_as="thread_count",
    most_rows=20_000,
)
MANY_CLASSES = dataclasses.replace(
    LEARNER,
    settings={"iterations": 40, "depth": 6, "learning_rate": 0.3},
    reason="a tree for several classes costs as much as one for each; with 20, scores are lower by 0.01 (ACS Income)",
)
"""The learner of a column with more than two classes."""
_DEFINITION = (
    "score of a learner trained on the table / on the training table, cut to [0, 1], tested on the real table; scores "
    "are R² of numbers and 2·AUC − 1 of categories, one against the rest, weighted by share; "
    f"{LEARNER}; for more than two classes {MANY_CLASSES.settings['iterations']} iterations at rate "
    f"{MANY_CLASSES.settings['learning_rate']}; numbers z-scored, missing ones left to the learner; categories "
    f"one-hot, and if there are more than {MOST_CLASSES} the {MOST_CLASSES - 1} commonest of the training table are "
    "kept and the others merged"
)

Scores = Mapping[str, float]
"""The score of each column; NaN if it is undefined."""


def every(pair: Pair, *, scores: Scores, train_scores: Scores) -> MetricResult:
    """The mean over columns of (score from the synthetic rows) / (score from the training rows), cut to [0, 1].

    Args:
        pair: Names the columns.
        scores: By column, of a learner that was trained on the synthetic rows.
        train_scores: Likewise, on the training rows. Columns with a score of at most `LOWEST_SCORE` are left out.
    """
    counted = [name for name in pair.names if train_scores[name] > LOWEST_SCORE]
    if not counted:
        return MetricResult(value=None, summary=f"no column has a score above {LOWEST_SCORE} from the training table")
    parts = {(name,): float(np.clip(np.nan_to_num(scores[name]) / train_scores[name], 0, 1)) for name in counted}
    summary = f"mean over the {len(parts)} columns whose score from the training table is above {LOWEST_SCORE}"
    return MetricResult(
        value=float(np.mean(list(parts.values()))), summary=summary, definition=_DEFINITION, parts=parts
    )


def column_scores(shown: Side, pair: Pair, *, threads: int = 2) -> dict[str, float]:
    """How well each column of `pair.real` is predicted from its other columns by a learner that is trained on `shown`.

    Returns:
        R² for a number and 2·AUC − 1 for a category: 1 is perfect, 0 is guessing. Rows without a value of the column
        are left out. NaN if the real rows hold fewer than two values.
    """
    assert LEARNER.most_rows is not None
    train, test = (_Features(side, pair.scale) for side in (shown.sample(LEARNER.most_rows, pair.seed), pair.real))
    score = {True: _class_score, False: _number_score}
    return {name: score[name in pair.real.codes](train, test, name, pair.seed, threads) for name in pair.names}


class _Features:
    """A table as features of a learner, which are prepared once for all columns."""

    def __init__(self, side: Side, scale: Side):
        self.numbers = {name: _standardised(column, scale.numbers[name]) for name, column in side.numbers.items()}
        self.codes = {
            name: _merged(column, scale.codes[name], scale.sizes[name]) for name, column in side.codes.items()
        }

    def without(self, target: str, rows: NDArray[np.bool_]) -> tuple[list[NDArray], list[NDArray]]:
        """The columns of numbers and of categories other than the target, in some of the rows."""
        numbers = [column[rows] for name, column in self.numbers.items() if name != target]
        return numbers, [column[rows] for name, column in self.codes.items() if name != target]


def _standardised(column: Floats, scale: Floats) -> Floats:
    centre, deviation = location_and_deviation(scale)
    return np.clip((column - centre) / deviation, -FARTHEST_DEVIATIONS, FARTHEST_DEVIATIONS)


def _merged(codes: Codes, scale: Codes, size: int) -> Codes:
    """Codes of at most `MOST_CLASSES` categories, the commonest of `scale` first; -1 for a missing value."""
    counts = np.bincount(scale, minlength=size)[:-1]
    order = np.argsort(-counts, kind="stable")
    places = np.empty(size, dtype=np.int64)
    places[order] = np.arange(size - 1)
    if size - 1 > MOST_CLASSES:
        places = np.minimum(places, MOST_CLASSES - 1)
    places[-1] = -1  # the last code is the missing one
    return places[codes]


def _number_score(train: _Features, test: _Features, name: str, seed: int, threads: int) -> float:
    known = [~np.isnan(side.numbers[name]) for side in (train, test)]
    target, truth = (side.numbers[name][rows] for side, rows in zip((train, test), known, strict=True))
    if len(truth) < 2 or np.ptp(truth) == 0:
        return math.nan
    if not len(target):
        return 0.0
    guess = np.full(len(truth), target.mean())
    if (model := _trained(train, name, known[0], target, False, seed, threads)) is not None:
        guess = np.asarray(model.predict(_pool(*test.without(name, known[1]))))
    return 1.0 - float(np.mean((truth - guess) ** 2) / truth.var())


def _class_score(train: _Features, test: _Features, name: str, seed: int, threads: int) -> float:
    known = [side.codes[name] >= 0 for side in (train, test)]
    target, truth = (side.codes[name][rows] for side, rows in zip((train, test), known, strict=True))
    asked, counts = np.unique(truth, return_counts=True)
    if len(asked) < 2:
        return math.nan
    classes, places = np.unique(target, return_inverse=True)
    if (model := _trained(train, name, known[0], places, True, seed, threads)) is None:
        return 0.0
    likely = dict(zip(classes, model.predict_proba(_pool(*test.without(name, known[1]))).T, strict=True))
    nothing = np.zeros(len(truth))  # a class that was never seen has an area of one half
    areas = [area(likely.get(code, nothing), truth == code) for code in asked]
    return 2.0 * float(np.average(areas, weights=counts)) - 1.0


def _trained(
    train: _Features, name: str, rows: NDArray[np.bool_], target: NDArray, classify: bool, seed: int, threads: int
) -> Any:
    """A learner that was trained, or None if there is nothing to learn: few rows, or nothing that varies."""
    numbers, codes = train.without(name, rows)
    varied = any(map(_varies, (*numbers, *codes)))
    # The learner reads targets as float32.
    if len(target) < FEWEST_ROWS or np.ptp(target.astype(np.float32)) == 0 or not varied:
        return None
    learner = MANY_CLASSES if classify and target.max() > 1 else LEARNER
    return build(learner, len(target), classify, seed, threads).fit(_pool(numbers, codes, target))


def _varies(column: NDArray) -> bool:
    missing = np.isnan(column)
    return bool(missing.any() and not missing.all()) or bool(
        not missing.all() and np.nanmin(column) < np.nanmax(column)
    )


_LABELS = np.array([str(code).encode() for code in (*range(MOST_CLASSES), -1)], dtype=object)


def _pool(numbers: list[NDArray], codes: list[NDArray], target: NDArray | None = None) -> Any:
    catboost = importlib.import_module("catboost")
    features = catboost.FeaturesData(
        num_feature_data=np.column_stack(numbers).astype(np.float32) if numbers else None,
        cat_feature_data=np.column_stack([_LABELS[column] for column in codes]) if codes else None,
    )
    return catboost.Pool(features, label=target)
