"""The metrics by name, and what a call of `evaluate` asks for.

The one rule: a request is checked as a whole before a table is read: every metric and learner is known and installed,
and suits the schema's target.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Mapping

from understudy.core.text import did_you_mean
from understudy.evaluation.associations import correlation_max, correlation_mean
from understudy.evaluation.distances import mmd, mmd_rbf, wd, wd_joint
from understudy.evaluation.histograms import js, tvd, tvd2_quantile
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
    "tvd2_quantile": tvd2_quantile,
    "mmd": mmd,
    "mmd_rbf": mmd_rbf,
    "js": js,
    "correlation_max": correlation_max,
    "correlation_mean": correlation_mean,
}
"""Metrics of two tables. All are distances: 0 for a table against itself, larger is worse. `tvd` with any other width
is a metric too."""
USEFULNESS = (*NUMBER_METRICS, *CLASS_METRICS)
"""Metrics of a learner."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What `evaluate` is asked to compute.

    Attributes:
        similarity: Metrics of two tables, by name.
        usefulness: Names of metrics of a learner.
        learners: Names of the learners to train; none if `usefulness` is empty.
    """

    similarity: Mapping[str, Metric]
    usefulness: tuple[str, ...]
    learners: tuple[str, ...]


def resolve(schema: Schema, metrics: Iterable[str] | None = None, learners: Iterable[str] | None = None) -> Request:
    """The request that the arguments of `evaluate` make. Reads no table.

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
    target, suited = target_of(schema), _suited(schema)
    if not asked:
        raise ValueError(f"metrics: expected some of {', '.join(suited)} for the learners, got none.")
    for name in asked:
        if name not in suited:
            rule = f"expected some of {', '.join(suited)} for the {target.kind} target {target.name!r}"
            raise ValueError(f"metrics: {rule}, got {name!r}.")
