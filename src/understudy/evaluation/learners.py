"""Learners: what is trained on one table to predict rows of another, with every setting fixed in advance.

The one rule: nothing is tuned. Every setting is in `LEARNERS`, the same for every table and every synthesizer, and its
text stands beside every value. None was chosen by looking at synthetic rows; that the network and the SVM see features
within 5 deviations was chosen on real rows of public tables.
"""

import contextlib
import dataclasses
import importlib
import math
import types
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.text import did_you_mean
from understudy.evaluation.pair import Floats

MOST_PASSES = 200
"""How often a network passes over its rows at most; more passes would learn the noise of a small table."""

Setting = int | float | str | bool | tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learner:
    """One learner and its settings, fixed in advance.

    Attributes:
        module: The module that defines it.
        regressor: The class for a numeric target.
        classifier: The class for a categorical or boolean target.
        settings: The settings that its predictions depend on.
        reason: Why these settings.
        running: Settings that its predictions do not depend on, such as verbosity.
        seed_as: The library's name for the seed; None if the learner draws nothing.
        threads_as: The library's name for the number of threads; None if it has no such setting.
        most_rows: Training rows beyond this many are left out at random, though no class entirely.
        farthest: Standardised features are clamped to this many deviations. For learners that extrapolate: one far
            value among the test rows would otherwise decide the whole metric.
        steps: For a network: as many passes over the rows as make about this many batches, and at most `MOST_PASSES`.
    """

    module: str
    regressor: str
    classifier: str
    settings: Mapping[str, Setting]
    reason: str
    running: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
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
            reason="small enough for a few hundred rows; the number of batches bounds the time on large tables",
            running={"n_iter_no_change": 1_000_000},  # the number of steps is fixed, whatever the loss is
            seed_as="random_state",
            steps=3000,
            farthest=5,
        ),
        "random forest": Learner(
            module="sklearn.ensemble",
            regressor="RandomForestRegressor",
            classifier="RandomForestClassifier",
            settings={"n_estimators": 100, "max_features": 1 / 3, "min_samples_leaf": 2},
            reason="a third of the features per split is Breiman's default for regression; 100 trees is scikit-learn's",
            seed_as="random_state",
            threads_as="n_jobs",
        ),
        "xgboost": Learner(
            module="xgboost",
            regressor="XGBRegressor",
            classifier="XGBClassifier",
            settings={"n_estimators": 300, "max_depth": 6, "learning_rate": 0.08, "tree_method": "hist"},
            reason="the same as CatBoost, so that the two differ by library only",
            # One thread: XGBoost's threads spin while they wait for each other. On shared cores, two threads took 78 s
            # where one takes 2 s.
            running={"verbosity": 0, "n_jobs": 1},
            seed_as="random_state",
        ),
        "svm": Learner(
            module="sklearn.svm",
            regressor="SVR",
            classifier="SVC",
            settings={"kernel": "rbf", "gamma": "scale", "C": 0.1},
            reason="a weak learner that published tables report; its time grows with the square of the rows",
            running={"cache_size": 500},
            most_rows=4000,
            farthest=5,
        ),
    }
)


def check_learners(names: Iterable[str]) -> None:
    """Refuses learners that are unknown or not installed, before anything is trained.

    Raises:
        ValueError: There is no such learner.
        ImportError: Its library is missing.
    """
    names = list(names)
    for name in names:
        if name not in LEARNERS:
            known = ", ".join(LEARNERS)
            raise ValueError(f"learners: expected some of {known}, got {name!r}.{did_you_mean(name, LEARNERS)}")
    for name in names:
        _library(LEARNERS[name].module)


def predict(
    learner: Learner, features: Floats, target: NDArray, asked: Floats, *, classify: bool, seed: int, threads: int
) -> Floats:
    """Trains a learner and predicts other rows.

    Args:
        features: Of the training rows, (rows, features).
        target: Of the training rows: standardised numbers, or codes of classes from 0 without a gap.
        asked: Features of the rows to be predicted.
        classify: Whether the target is classes.
        seed: Fixes whatever the learner draws.
        threads: How many threads it may use.

    Returns:
        Numbers, (rows,); or for classes a confidence in each, (rows, classes), highest for the likeliest.
    """
    if learner.most_rows is not None and len(target) > learner.most_rows:
        rows = _sample(target, learner.most_rows, seed, keep_classes=classify)
        features, target = features[rows], target[rows]
    if learner.farthest is not None:
        features, asked = (np.clip(x, -learner.farthest, learner.farthest) for x in (features, asked))
    model = build(learner, len(target), classify, seed, threads)
    with _limited(learner, threads), warnings.catch_warnings():
        # The number of iterations is fixed on purpose, so reaching it is no reason to warn.
        warnings.filterwarnings("ignore", "Stochastic Optimizer: Maximum iterations")
        model.fit(features, target)
        if learner.threads_as == "n_jobs":
            model.set_params(n_jobs=1)  # several threads add up a forest's trees in a varying order
        if not classify:
            return np.asarray(model.predict(asked), dtype=np.float64)
        if hasattr(model, "predict_proba"):
            return np.asarray(model.predict_proba(asked), dtype=np.float64)
        distances = np.asarray(model.decision_function(asked), dtype=np.float64)
        return np.column_stack([-distances, distances]) if distances.ndim == 1 else distances


def build(learner: Learner, rows: int, classify: bool, seed: int, threads: int) -> Any:
    """The library's model, which has no type that all libraries share."""
    settings: dict[str, Any] = {**learner.settings, **learner.running}
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


def _limited(learner: Learner, threads: int) -> contextlib.AbstractContextManager[object]:
    """Limits the threads of linear algebra, for which scikit-learn has no setting."""
    if not learner.module.startswith("sklearn."):
        return contextlib.nullcontext()
    return _library("threadpoolctl").threadpool_limits(limits=threads)


def _library(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        package = "scikit-learn" if module.startswith("sklearn") else module
        raise ImportError(f"usefulness needs {package}. Run: pip install 'understudy-dp[eval]'") from None
