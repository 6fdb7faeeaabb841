"""Fitted models that tests share: each is made once a test run, by method and epsilon.

A test that only looks at a model takes it from `fitted`; a test that is about fitting calls `understudy.fit`. All tests
with `every_method` that have the same method run in the same worker (workers.py), so that no model is made twice.
"""

import datetime
import functools
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

import understudy
from conftest import COMPILED, MIXED, QUICK, mixed_table
from row_watch import RowWatch, watching
from understudy.model import Model
from understudy.synthesizers import METHODS
from understudy.synthesizers.base import Method
from understudy.tables.column import Column
from understudy.tables.schema import Schema

# These train as `prada`, the default, does, so `make test` leaves their fits to the slow tests.
ADVERSARIAL = ("prada-gan", "dpgan")

every_method = pytest.mark.parametrize(
    "method",
    [pytest.param(name, id=f"method={name}", marks=[pytest.mark.slow] * (name in ADVERSARIAL)) for name in METHODS],
)

# A mixed table with one unmistakable row ----------------------------------------------------------------------------

ROWS = 1237  # prime, and the length of nothing else in a fit or a model
NUMBER, WEIGHT, INSTANT = 123456.789012, 71.828182845904, datetime.datetime(2017, 3, 5, 7, 11, 13, 171717)
CITY, COLOUR = "Xanthippe", "Zinnober"


def planted(n: int) -> pl.DataFrame:
    """`n` rows of the mixed schema, one of which is unlike any other in every column."""
    table = mixed_table(n - 1)
    row = pl.DataFrame(
        {
            "age": [77],
            "income": [NUMBER],
            "weight": [WEIGHT],
            "city": [CITY],
            "colour": [COLOUR],
            "member": [True],
            "joined": [INSTANT],
        },
        schema=table.schema,
    )
    return pl.concat([table[: n // 2], row, table[n // 2 :]])


# Few categories -----------------------------------------------------------------------------------------------------

FEW = Schema(
    name="few",
    columns=(
        Column(name="a", kind="integer", low=0, high=4),
        Column(name="b", kind="categorical", values=("low", "middle", "high")),
        Column(name="c", kind="boolean"),
        Column(name="d", kind="integer", low=0, high=6, nullable=True),
    ),
)


def few(n: int = 4000) -> pl.DataFrame:
    """Discrete columns that depend on each other, in the order of their values."""
    draw = np.random.default_rng(0)
    z = draw.standard_normal(n)

    def cut(*points: float) -> np.ndarray:
        return np.digitize(0.8 * z + 0.6 * draw.standard_normal(n), points)

    d = pl.Series(cut(-1.5, -1, 0, 0.5, 1, 2)).set(pl.Series(draw.random(n) < 0.1), None)
    words = np.array(["low", "middle", "high"])
    return pl.DataFrame({"a": cut(-1, 0, 0.5, 1.5), "b": words[cut(-0.5, 0.8)], "c": cut(0.2) > 0, "d": d})


def distance(real: pl.DataFrame, synthetic: pl.DataFrame, names: list[str]) -> float:
    """Total variation between two tables' marginals over some columns."""
    counts = [frame.group_by(names).len().with_columns(pl.col("len") / frame.height) for frame in (real, synthetic)]
    joined = counts[0].join(counts[1], on=names, how="full", nulls_equal=True)
    return float((joined["len"].fill_null(0) - joined["len_right"].fill_null(0)).abs().sum() / 2)


# Models -------------------------------------------------------------------------------------------------------------

TABLES: dict[str, tuple[Schema, Callable[[], pl.DataFrame]]] = {
    "mixed": (MIXED, lambda: planted(ROWS)),
    "few": (FEW, few),
}
"""The tables that shared models are fitted to, by name."""


def table_of(name: str) -> pl.DataFrame:
    """A shared table. Made anew each time, so that a cached model is all that is kept."""
    return TABLES[name][1]()


# Without noise the estimation of a graphical model takes its 300 steps.
FEWER_STEPS = {"mst": {"iterations": 20}, "privmrf": {"iterations": 20}}


def quick(method: str) -> Method:
    """The method of this name, configured to be fitted in seconds at any epsilon."""
    return METHODS[method](**QUICK.get(method, {}), **FEWER_STEPS.get(method, {}))


def fitted(method: str, *, epsilon: float = 1.0) -> Model:
    """The model of the mixed table by a method in its quick configuration."""
    return watched_fit(method)[0] if epsilon == 1.0 else _fitted(method, epsilon)


@functools.cache
def watched_fit(method: str) -> tuple[Model, RowWatch]:
    """The same at epsilon = 1, with what was seen of its rows outside the trusted base while it was fitted.

    Programs are compiled by a fit before it: under the watch that takes three times as long, and sees shapes alone.
    """
    if method in COMPILED:
        _fitted(method, 1.0)
    with watching(ROWS) as watch:
        model = understudy.fit(table_of("mixed"), MIXED, quick(method), epsilon=1.0, seed=0)
    return model, watch


@functools.cache
def _fitted(method: str, epsilon: float) -> Model:
    return understudy.fit(table_of("mixed"), MIXED, quick(method), epsilon=epsilon, seed=0)


@functools.cache
def fitted_in_full(method: str, schema: str, epsilon: float, seed: int = 0) -> Model:
    """The same with the method's own defaults, for statistics."""
    return understudy.fit(table_of(schema), TABLES[schema][0], method, epsilon=epsilon, seed=seed)
