"""Usefulness: what a learner trained on one table is worth on rows of another.

Train on synthetic, test on real. The one rule kept here: nothing is tuned. Every setting is in `LEARNERS`, the same for
every table and every synthesizer, and goes into the text beside every value. None was chosen by looking at synthetic
rows; that the network and the SVM see features within 5 deviations was, on real rows of public tables.

All learners see the same matrix, but for those limits. Numbers (truth values and instants among them) are imputed by
the training median and standardised by the training part, with a column that says where they were missing; trees do not
mind, and instants keep their digits in float32. Categories are one column each, 0 or 1, a missing value too; one that
the training rows do not hold is 0 everywhere. What does not vary in the training rows is left out: nothing can be
learned from it, and a network would answer with its random first weights. Rows without a target are left out on both
sides.

Privacy:
    Reads both tables without noise. The numbers that come out are covered by no budget.

Source: area under the curve by ranks, Hanley and McNeil (1982), doi:10.1148/radiology.143.1.7063747.
"""

import contextlib
import dataclasses
import importlib
import math
import types
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.text import did_you_mean
from understudy.tables.schema import Column, Schema, SchemaError
from understudy.tables.table import Table, read

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

NUMBER_METRICS, CLASS_METRICS = ("r2", "rmse"), ("f1", "auc", "accuracy")
FEWEST_ROWS = 10  # with fewer training rows nothing is trained: their mean or commonest class is the answer
MOST_LABELS = 50  # columns that one categorical column may become: its commonest labels; the rest share the zero
MOST_PASSES = 200  # of a network over its rows; more would learn the noise of a small table
_MATRIX = f"numbers median-imputed and standardised by the training part, {MOST_LABELS} commonest categories one-hot"
FARTHEST = 1e100  # numbers are held within this, so that their squares are finite,
FARTHEST_DEVIATIONS = 1e6  # and standardised ones within this, so that float32 holds them


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learner:
    """One learner and its settings, fixed in advance.

    Attributes:
        module: Where the library keeps it.
        regressor: The class for a numeric target.
        classifier: The class for a categorical or boolean one.
        settings: What its answer depends on.
        reason: Why these.
        running: What its answer does not depend on, such as silence.
        seed_as: What the library calls the seed; None where it draws nothing.
        threads_as: What the library calls the number of threads; None where it has no such setting.
        most_rows: Training rows beyond this many are left out at random, though no class entirely.
        farthest: Standardised features are held within so many deviations. For learners that extrapolate: one far value
            among the test rows would otherwise decide the whole score.
        steps: For a network: as many passes over the rows as make about this many batches, and at most `MOST_PASSES`.
    """

    module: str
    regressor: str
    classifier: str
    settings: Mapping[str, Any]
    reason: str
    running: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    seed_as: str | None = None
    threads_as: str | None = None
    most_rows: int | None = None
    steps: int | None = None
    farthest: int | None = None

    def __str__(self) -> str:
        shown = {key: f"{value:.3g}" if isinstance(value, float) else value for key, value in self.settings.items()}
        parts = [f"{key} = {value}" for key, value in shown.items()]
        parts += [f"about {self.steps} batches, at most {MOST_PASSES} passes"] * (self.steps is not None)
        parts += [f"features within {self.farthest} deviations"] * (self.farthest is not None)
        parts += [f"at most {self.most_rows} training rows, drawn by the seed"] * (self.most_rows is not None)
        return ", ".join(parts)


LEARNERS: Mapping[str, Learner] = types.MappingProxyType(
    {
        "catboost": Learner(
            module="catboost",
            regressor="CatBoostRegressor",
            classifier="CatBoostClassifier",
            settings={"iterations": 300, "depth": 6, "learning_rate": 0.08},
            reason="strong without tuning; the settings of every earlier measurement of this project",
            running={"verbose": 0, "allow_writing_files": False},
            seed_as="random_seed",
            threads_as="thread_count",
        ),
        "mlp": Learner(
            module="sklearn.neural_network",
            regressor="MLPRegressor",
            classifier="MLPClassifier",
            settings={"hidden_layer_sizes": (64, 32), "batch_size": 200, "learning_rate_init": 0.002},
            reason="small, for tables from some hundred rows; the number of batches bounds the time on large ones",
            running={"n_iter_no_change": 1_000_000},  # the number of steps is fixed, whatever the loss does
            seed_as="random_state",
            steps=3000,
            farthest=5,
        ),
        "random forest": Learner(
            module="sklearn.ensemble",
            regressor="RandomForestRegressor",
            classifier="RandomForestClassifier",
            settings={"n_estimators": 100, "max_features": 1 / 3, "min_samples_leaf": 2},
            reason="a third of the features a split is Breiman's default for regression, and 100 trees scikit-learn's",
            seed_as="random_state",
            threads_as="n_jobs",
        ),
        "xgboost": Learner(
            module="xgboost",
            regressor="XGBRegressor",
            classifier="XGBClassifier",
            settings={"n_estimators": 300, "max_depth": 6, "learning_rate": 0.08, "tree_method": "hist"},
            reason="as CatBoost, so that the two differ by library only",
            # One thread: its threads wait for each other by spinning, and on cores that something else uses too, two
            # of them were measured at 78 s where one takes 2.
            running={"verbosity": 0, "n_jobs": 1},
            seed_as="random_state",
        ),
        "svm": Learner(
            module="sklearn.svm",
            regressor="SVR",
            classifier="SVC",
            settings={"kernel": "rbf", "gamma": "scale", "C": 0.1},
            reason="the weak machine that published tables report; its time grows with the square of the rows",
            running={"cache_size": 500},
            most_rows=4000,
            farthest=5,
        ),
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Task:
    """Two parts as matrices. Targets are numbers, or codes of classes that both parts share.

    Attributes:
        scale: A numeric target in the table that sets the unit of rmse.
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
    def shortcut(self) -> str | None:
        """Why nothing is to be trained, if nothing is."""
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
    train: Any,
    test: Any,
    schema: Schema,
    *,
    learners: Sequence[str] = tuple(LEARNERS),
    scale: Any = None,
    seed: int = 0,
    threads: int = 2,
) -> list[dict[str, Any]]:
    """Trains each learner on `train` to predict `schema.target` and scores it on `test`.

    A numeric target gives r2 and rmse, the latter with the target z-scored by `scale`. A categorical or boolean one
    gives f1 (the mean over the classes of the test part), auc (one class against the rest, the mean over the same) and
    accuracy. A class that the training rows lack is never predicted and has an auc of one half. What is undefined is
    NaN: all where a part has no row with a target, r2 and auc where the test part's target is constant, rmse where
    that of `scale` is.

    Args:
        train: Usually synthetic rows: whatever `table.read` takes, or a `Table`.
        test: Real rows that the synthesizer has not seen, likewise.
        schema: Names the target. The column of units is not needed, and not used.
        learners: Which of `LEARNERS`.
        scale: The real table that was fitted, for a unit of rmse that all synthetic tables share; None: the test part.
        seed: Fixes whatever a learner draws: same rows, seed and number of threads, same values.
        threads: How many a learner may use.

    Returns:
        Rows of metric, learner, value and how.

    Raises:
        SchemaError: It names no target.
        ValueError: There is no such learner.
        ImportError: A library is missing.
    """
    target = target_of(schema)
    check_learners(learners)
    task = _task(open_table(train, schema), open_table(test, schema), schema, target)
    if scale is not None and not task.classify:
        known = _known_numbers(open_table(scale, schema), target)
        task = dataclasses.replace(task, scale=known, scaled_by="the fitted table")
    score = _score_classes if task.classify else _score_numbers
    counts = f"trained on {len(task.target)} rows, scored on {len(task.test_target)}"
    rows = []
    for name in learners:
        trained = task.shortcut or f"{LEARNERS[name]}, seed {seed}; {_MATRIX}"
        for metric, (value, meaning) in score(task, LEARNERS[name], seed, threads).items():
            rows.append({"metric": metric, "learner": name, "value": value, "how": f"{meaning}; {counts}; {trained}"})
    return rows


def target_of(schema: Schema) -> Column:
    """The column to be predicted.

    Raises:
        SchemaError: The schema names none.
    """
    if schema.target is None:
        raise SchemaError("target: expected the name of the column to be predicted, got none. Add it to the schema.")
    return schema[schema.target]


def check_learners(names: Sequence[str]) -> None:
    """Refuses learners that are unknown or not installed, before anything is trained.

    Raises:
        ValueError: There is no such learner.
        ImportError: Its library is missing.
    """
    for name in names:
        if name not in LEARNERS:
            known = ", ".join(LEARNERS)
            raise ValueError(f"learners: expected some of {known}, got {name!r}.{did_you_mean(name, LEARNERS)}")
    for name in names:
        _library(LEARNERS[name].module)


def open_table(source: Any, schema: Schema) -> Table:
    """The table without its units: synthetic rows belong to nobody."""
    if isinstance(source, Table):
        return source
    if schema.unit is not None:
        ignore = (*schema.ignore, schema.unit)
        schema = dataclasses.replace(schema, unit=None, max_rows_per_unit=None, ignore=ignore)
    return read(source, schema)


# From tables to matrices --------------------------------------------------------------------------------------------


def _task(train: Table, test: Table, schema: Schema, target: Column) -> _Task:
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
    return _Task(
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
    """The standardised column of both parts, and where it is missing."""
    shown, asked = (table.columns[column.name][rows] for table, rows in zip((train, test), known, strict=True))
    gone = (~np.isfinite(shown)).astype(np.float64), (~np.isfinite(asked)).astype(np.float64)
    if gone[0].all():  # also where there are no rows
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
    """Mean and standard deviation, the latter 1 where it would be zero. Tiny deviations do not vanish when squared."""
    centre = float(values.mean())
    largest = float(np.abs(values - centre).max()) or 1.0
    return centre, largest * float(np.sqrt(np.mean(((values - centre) / largest) ** 2))) or 1.0


def _standard(values: Floats, centre: float, scale: float, farthest: float = FARTHEST_DEVIATIONS) -> Floats:
    with np.errstate(over="ignore"):
        return np.clip((values - centre) / scale, -farthest, farthest)


# Scores -------------------------------------------------------------------------------------------------------------

Scores = dict[str, tuple[float, str]]  # a value and its meaning, by metric


def _score_numbers(task: _Task, learner: Learner, seed: int, threads: int) -> Scores:
    """R² = 1 − mse / variance of the test target, and rmse / standard deviation of the target that sets the scale."""
    r2 = rmse = math.nan
    if len(task.target) and len(task.test_target):
        centre, scale = _centre_and_scale(task.target)
        guess = np.full(len(task.test_target), centre)
        if task.shortcut is None:
            guess += scale * _train(task, _standard(task.target, centre, scale), learner, seed, threads)
        r2 = 1.0 - _squared_error(task.test_target - guess, task.test_target)
        rmse = math.sqrt(_squared_error(task.test_target - guess, task.scale))
    return {
        "r2": (r2, "R² on the test part"),
        "rmse": (rmse, f"root mean squared error on the test part, its target z-scored by {task.scaled_by}"),
    }


def _squared_error(errors: Floats, scale: Floats) -> float:
    """The mean of squared errors over the variance of `scale`; NaN where that does not vary."""
    if not len(scale) or np.ptp(scale) == 0:
        return math.nan
    return float(np.mean(_standard(errors, 0.0, _centre_and_scale(scale)[1], FARTHEST) ** 2))


def _score_classes(task: _Task, learner: Learner, seed: int, threads: int) -> Scores:
    """Macro F1, macro one-against-rest area under the curve, and accuracy, over the classes of the test part."""
    truth, f1, auc, accuracy = task.test_target, math.nan, math.nan, math.nan
    if len(task.target) and len(truth):
        classes, places = np.unique(task.target, return_inverse=True)
        if task.shortcut is None:
            likely = _train(task, places, learner, seed, threads)  # (test rows, classes)
        else:
            likely = np.tile(np.bincount(places) / len(places), (len(truth), 1))
        guess = classes[likely.argmax(axis=1)]
        accuracy = float(np.mean(guess == truth))
        asked = np.unique(truth)
        f1 = float(np.mean([_f1(guess == c, truth == c) for c in asked]))
        if len(asked) > 1:
            by_class = dict(zip(classes, likely.T, strict=True))
            auc = float(np.mean([_area(by_class.get(c, np.zeros(len(truth))), truth == c) for c in asked]))
    return {
        "f1": (f1, "F1, mean over the classes of the test part"),
        "auc": (auc, "area under the ROC curve, one class against the rest, mean over the classes of the test part"),
        "accuracy": (accuracy, "share of the test part whose class is predicted"),
    }


def _f1(guess: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    """The harmonic mean of precision and recall of one class, which is among the truth."""
    return float(2 * np.sum(guess & truth) / (np.sum(guess) + np.sum(truth)))


def _area(scores: Floats, positive: NDArray[np.bool_]) -> float:
    """The chance that a positive row scores higher than a negative one; ties count half."""
    from scipy.stats import rankdata

    ours, others = int(positive.sum()), int((~positive).sum())
    return float((rankdata(scores)[positive].sum() - ours * (ours + 1) / 2) / (ours * others))


# Learners -----------------------------------------------------------------------------------------------------------


def _train(task: _Task, target: NDArray, learner: Learner, seed: int, threads: int) -> Floats:
    """What the learner says of the test rows: numbers, or one score per class, highest for the likeliest."""
    rows = np.arange(len(target))
    if learner.most_rows is not None and len(rows) > learner.most_rows:
        rows = _sample(target, learner.most_rows, seed, keep_classes=task.classify)
    features, target, asked = task.features[rows], target[rows], task.test_features
    if learner.farthest is not None:
        features, asked = (np.clip(x, -learner.farthest, learner.farthest) for x in (features, asked))
    model = _build(learner, len(rows), task.classify, seed, threads)
    with _limited(learner, threads), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Stochastic Optimizer: Maximum iterations")  # as many as were meant
        model.fit(features, target)
        if learner.threads_as == "n_jobs":
            model.set_params(n_jobs=1)  # a forest adds up its trees in the order in which threads end
        if not task.classify:
            return np.asarray(model.predict(asked), dtype=np.float64)
        if hasattr(model, "predict_proba"):
            return np.asarray(model.predict_proba(asked), dtype=np.float64)
        distances = np.asarray(model.decision_function(asked), dtype=np.float64)
        return np.column_stack([-distances, distances]) if distances.ndim == 1 else distances


def _build(learner: Learner, rows: int, classify: bool, seed: int, threads: int) -> Any:
    settings = {**learner.settings, **learner.running}
    if learner.seed_as is not None:
        settings[learner.seed_as] = seed % 2**31  # the widest that all libraries take
    if learner.threads_as is not None:
        settings[learner.threads_as] = threads
    if learner.steps is not None:
        settings["batch_size"] = min(settings["batch_size"], rows)
        settings["max_iter"] = min(MOST_PASSES, math.ceil(learner.steps / math.ceil(rows / settings["batch_size"])))
    return getattr(_library(learner.module), learner.classifier if classify else learner.regressor)(**settings)


def _sample(target: NDArray, size: int, seed: int, *, keep_classes: bool) -> NDArray[np.int64]:
    """Places of `size` rows drawn at random; the first one drawn of every class is among them."""
    order = np.random.default_rng(seed).permutation(len(target))
    if keep_classes:
        first = np.unique(target[order], return_index=True)[1]
        order = np.concatenate([order[first], np.delete(order, first)])
    return np.sort(order[:size])


def _limited(learner: Learner, threads: int) -> contextlib.AbstractContextManager[Any]:
    """Holds linear algebra, which has no setting of its own, to the number of threads."""
    if not learner.module.startswith("sklearn."):
        return contextlib.nullcontext()
    return _library("threadpoolctl").threadpool_limits(limits=threads)


def _library(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        package = "scikit-learn" if module.startswith("sklearn") else module
        raise ImportError(f"usefulness needs {package}. Run: pip install 'understudy[eval]'") from None
