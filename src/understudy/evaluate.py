"""The judges' bench: one call that holds a synthetic table against a real one.

The one rule: every value has its definition beside it, and where the training table is given also what the number
means: the floor that real rows reach, and the reference that a table without any dependence reaches.

Privacy:
    None. These numbers are computed on real rows without noise, and no budget covers them. Do not publish them unless
    the real table may be published, or is another one than the one that is protected.
"""

import functools
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import polars as pl

from understudy.metrics.pair import Pair, Side, open_tables
from understudy.metrics.similarity import METRICS, Score, tvd
from understudy.schema import Schema, did_you_mean

NOT_COVERED = "Not covered by the budget: computed on real rows without noise. Look at it, do not publish it."
WORST = 10
"""How many pairs of columns are listed."""
_BY_COLUMN, _BY_PAIR = ("wd", "tvd1"), ("tvd2", "correlation_max")
_SHAPE = {
    "metric": pl.String,
    "columns": pl.String,
    "value": pl.Float64,
    "floor": pl.Float64,
    "reference": pl.Float64,
    "how": pl.String,
}


def evaluate(
    real: Any,
    synthetic: Any,
    schema: Schema | str | os.PathLike[str],
    *,
    metrics: Iterable[str] | None = None,
    train: Any = None,
    seed: int = 0,
) -> pl.DataFrame:
    """Holds a synthetic table against a real one.

    Args:
        real: What is to be matched: best a part of the table that was kept from `fit`. A path or a frame, as for `fit`.
        synthetic: What is judged; likewise.
        schema: Public facts about both, or the path of their TOML file.
        metrics: Names from `METRICS`, or "tvdK" for marginals of K columns; None: all of `METRICS`.
        train: The table that was fitted. It sets the scale, and it is held against `real` itself (the floor) and with
            each of its columns shuffled (the reference).
        seed: Where subsamples and shuffles come from: the same seed gives the same numbers.

    Returns:
        One row per value: metric, columns ("" for the whole table), value, floor, reference, how. The whole table comes
        first, then wd and tvd1 by column, then the ten worst pairs of tvd2 and correlation_max.

    Privacy:
        None: see `NOT_COVERED`.

    Raises:
        ValueError: A metric is unknown.
        SchemaError, TableError: The schema is wrong, or a table's structure does not fit it.
    """
    chosen = resolve(metrics)
    schema = schema if isinstance(schema, Schema) else Schema.read(schema)
    tables = {"real": real, "synthetic": synthetic} | ({} if train is None else {"train": train})
    sides = open_tables(schema, tables)

    def judge(side: Side) -> dict[str, Score]:
        scale = sides.get("train", sides["real"])
        pair = Pair(names=schema.names, real=sides["real"], synthetic=side, scale=scale, seed=seed)
        with np.errstate(all="ignore"):  # a warning would tell of somebody's value
            return {name: metric(pair) for name, metric in chosen.items()}

    verdict = judge(sides["synthetic"])
    known = judge(sides["train"]) if train is not None else {}
    shuffled = judge(sides["train"].shuffled(seed)) if train is not None else {}
    return pl.DataFrame(_rows(verdict, known, shuffled), schema=_SHAPE, orient="row")


def resolve(metrics: Iterable[str] | None = None) -> dict[str, Callable[[Pair], Score]]:
    """The metrics asked for, by name.

    Raises:
        ValueError: There is no such metric.
    """
    names = list(METRICS) if metrics is None else [metrics] if isinstance(metrics, str) else list(metrics)
    return {name: _metric(name) for name in names}


def _metric(name: str) -> Callable[[Pair], Score]:
    if name in METRICS:
        return METRICS[name]
    if isinstance(name, str) and re.fullmatch(r"tvd[1-9]\d?", name):
        return functools.partial(tvd, width=int(name[3:]))
    hint = did_you_mean(name, METRICS)
    raise ValueError(f"metrics: expected some of {', '.join(METRICS)} or tvdK, got {name!r}.{hint}")


def _rows(verdict: dict[str, Score], known: dict[str, Score], shuffled: dict[str, Score]) -> list[tuple]:
    """Whole tables first, then columns, then the worst pairs; the floor and the reference of the same beside each."""
    rows: list[tuple] = [
        (name, "", score.value, *(of[name].value if of else None for of in (known, shuffled)), score.how)
        for name, score in verdict.items()
    ]
    for name in (*_BY_COLUMN, *_BY_PAIR):
        score = verdict.get(name, _NOTHING)
        ranked = sorted(score.parts, key=lambda columns: -score.parts[columns])
        for columns in ranked[:WORST] if name in _BY_PAIR else score.parts:
            beside = (of[name].parts.get(columns) if of else None for of in (known, shuffled))
            rows.append((name, ", ".join(columns), score.parts[columns], *beside, score.binning))
    return rows


_NOTHING = Score(value=None, whole="not asked for")
