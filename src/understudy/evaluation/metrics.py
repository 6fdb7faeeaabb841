"""The metrics by name, and what a call of `evaluate` asks for.

The one rule: a request is checked as a whole before a table is read: every metric and learner is known and installed,
and suits the schema's target.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping

from understudy.core.text import did_you_mean
from understudy.evaluation.associations import (
    correlation_max,
    correlation_mean,
    correlation_ratio,
    cramers_v,
    rank_correlation,
)
from understudy.evaluation.distances import mmd, mmd_rbf, wd, wd_joint
from understudy.evaluation.every import EVERY, EVERY_LEARNER
from understudy.evaluation.histograms import js, tvd, tvd_quantile
from understudy.evaluation.learners import LEARNERS, check_learners
from understudy.evaluation.pair import MetricResult, Pair
from understudy.evaluation.usefulness import CLASS_METRICS, NUMBER_METRICS, target_of
from understudy.tables.schema import Schema

Metric = Callable[[Pair], MetricResult]

METRICS: Mapping[str, Metric] = {
    "wd": wd,
    "wd_joint": wd_joint,
    "tvd1": functools.partial(tvd, width=1),
    "tvd2": functools.partial(tvd, width=2),
    "tvd3": functools.partial(tvd, width=3),
    "tvd2_quantile": functools.partial(tvd_quantile, width=2),
    "tvd3_quantile": functools.partial(tvd_quantile, width=3),
    "mmd": mmd,
    "mmd_rbf": mmd_rbf,
    "js": js,
    "correlation_max": correlation_max,
    "correlation_mean": correlation_mean,
    "rank_correlation": rank_correlation,
    "cramers_v": cramers_v,
    "correlation_ratio": correlation_ratio,
}
"""Metrics of two tables. All are distances: 0 for a table against itself, larger is worse. `tvd` with any other width
is a metric too."""
USEFULNESS = (*NUMBER_METRICS, *CLASS_METRICS, EVERY)
"""Metrics of a learner: those of the target, and `every`, which predicts all columns."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What `evaluate` is asked to compute.

    Attributes:
        similarity: Metrics of two tables, by name.
        usefulness: Names of metrics of a learner that predicts the target.
        learners: Names of the learners to train for these; none if `usefulness` is empty.
        every: Whether to predict every column as well.
    """

    similarity: Mapping[str, Metric]
    usefulness: tuple[str, ...]
    learners: tuple[str, ...]
    every: bool

    @property
    def trains(self) -> list[str]:
        """All learners that are trained, by name."""
        return list(dict.fromkeys([*self.learners, *([EVERY_LEARNER] if self.every else [])]))


def resolve(
    schema: Schema,
    metrics: Iterable[str] | None = None,
    learners: Iterable[str] | None = None,
    *,
    train: bool = True,
) -> Request:
    """The request that the arguments of `evaluate` make. Reads no table.

    Args:
        metrics: Names of metrics; None: all distances. If learners are named, the metrics that suit the target are
            added, unless some metric of usefulness is among them.
        learners: Names of learners, or "all".
        train: Whether there is a training table, which `every` needs.

    Raises:
        ValueError: A metric or a learner is unknown, or does not suit the target, or `every` has no training table.
        ImportError: The library of a learner is missing.
    """
    named, trained = _listed(metrics), _listed(learners)
    if named is None:
        named = [*METRICS, *(suited(schema) if trained else ())]
    elif trained and not set(named) & set(USEFULNESS):
        check_learners([name for name in trained if name != "all"])
        named = [*named, *suited(schema)]  # learners are asked for: what they are trained for follows from the target
    asked = tuple(name for name in named if name in USEFULNESS and name != EVERY)
    if trained == ["all"] or (trained is None and asked):
        trained = list(LEARNERS)
    every = EVERY in named
    if every:
        _check_every(trained, train)
    if every and not asked:
        trained = [name for name in trained or [] if name != EVERY_LEARNER]
    similarity = {name: _metric(name) for name in named if name not in USEFULNESS}
    _check_usefulness(schema, asked, trained or [])
    return Request(similarity=similarity, usefulness=asked, learners=tuple(trained or ()), every=every)


def _check_every(learners: list[str] | None, train: bool) -> None:
    if not train:
        raise ValueError(f"train: expected the table that was fitted, which the metric {EVERY!r} needs, got none.")
    if learners is not None and EVERY_LEARNER not in learners:
        raise ValueError(f"learners: expected {EVERY_LEARNER!r} among them for {EVERY!r}, got {', '.join(learners)}.")
    check_learners([EVERY_LEARNER])


def _listed(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else list(dict.fromkeys([names] if isinstance(names, str) else names))


def without_unsuited(schema: Schema, metrics: Iterable[str]) -> list[str]:
    """The metrics without those of a target of another kind than the schema's: one list for tables of both kinds.

    If none of them suits the target they all stay, and `resolve` refuses them.
    """
    metrics = list(metrics)
    if schema.target is None or not set(metrics) & set(suited(schema)):
        return metrics
    return [name for name in metrics if name in suited(schema) or name not in (*NUMBER_METRICS, *CLASS_METRICS)]


def suited(schema: Schema) -> tuple[str, ...]:
    """The metrics of usefulness that suit the target."""
    return NUMBER_METRICS if target_of(schema).is_numeric else CLASS_METRICS


def _metric(name: str) -> Metric:
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
    target, fitting = target_of(schema), suited(schema)
    if not asked:
        raise ValueError(f"metrics: expected some of {', '.join(fitting)} for the learners, got none.")
    for name in asked:
        if name not in fitting:
            rule = f"expected some of {', '.join(fitting)} for the {target.kind} target {target.name!r}"
            raise ValueError(f"metrics: {rule}, got {name!r}.")
