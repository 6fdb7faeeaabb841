"""Shared by the suites: one small table that has a column of every kind, and its schema."""

import contextlib
import dataclasses
import datetime
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Tests compile many small programs and run each for a moment: before JAX is imported, ask for haste.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported: threads of small products only wait
os.environ.setdefault("JAX_NUMPY_RANK_PROMOTION", "raise")  # arrays of different ranks never meet by accident

import numpy as np
import polars as pl
import pytest
from hypothesis import settings

from understudy.synthesizers import METHODS
from understudy.tables.column import Column
from understudy.tables.schema import Schema

# Methods that train take few steps here: what is tested is what they promise, not how good they are.
QUICK = {
    "aim": {"rounds_per_column": 1.0, "least_rounds": 0.5, "iterations": 10},
    "gem": {"steps": 4, "last_steps": 40, "components": 64, "width": 16},
    "prada": {
        "steps": 25,
        "batch_size": 50,
        "hidden": 4,
        "components": 2,
        "distillation_steps": 50,
        "pool_rows": 2048,
        "correction_rows": 2048,
    },
    "prada-gan": {"critic_steps": 40, "batch_size": 50},
    "dpgan": {"critic_steps": 40, "batch_size": 50, "widths": (16,)},
    "dp-merf": {"features": 200, "steps": 40, "fakes": 100, "widths": (16,)},
}


# Methods that train by gradients compile a program for every new shape, which takes some ten seconds.
COMPILED = ("prada", "prada-gan", "dpgan", "gem")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests of a new shape as slow for methods that compile."""
    for item in items:
        method = getattr(getattr(item, "callspec", None), "params", {}).get("method")
        if item.get_closest_marker("new_shape") is not None and method in COMPILED:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests that share models run in one worker; imported here, since one process needs no scheduler."""
    from workers import SharingScheduling

    return SharingScheduling(config, log)


def quick(method: str):
    """The method of this name, configured to be fitted in a second."""
    return METHODS[method](**QUICK.get(method, {}))


# `make test-all` tries properties on more examples than `make test`.
MORE = 6 if os.environ.get("UNDERSTUDY_FAULTS") == "full" else 1


def examples(number: int, **options: Any) -> settings:
    """Tries a property on so many examples, always the same ones; on more in `make test-all`."""
    return settings(deadline=None, derandomize=True, max_examples=number * MORE, **options)


MIXED = Schema(
    name="mixed",
    columns=(
        Column(name="age", kind="integer", low=0, high=120),
        Column(name="income", kind="continuous", nullable=True, atoms=(1000.0,)),
        Column(name="weight", kind="continuous", low=0.0, high=300.0),
        Column(name="city", kind="categorical"),
        Column(name="colour", kind="categorical", values=("red", "green", "blue"), other="else", nullable=True),
        Column(name="member", kind="boolean"),
        Column(name="joined", kind="datetime", low=datetime.datetime(2000, 1, 1), high=datetime.datetime(2030, 1, 1)),
    ),
)


def mixed_table(n: int, seed: int = 0) -> pl.DataFrame:
    """`n` rows of the mixed schema whose columns depend on each other."""
    draw = np.random.default_rng(seed)
    z = draw.standard_normal(n)
    age = np.clip(np.rint(45 + 15 * z), 0, 120).astype(np.int64)
    income = np.where(draw.random(n) < 0.2, 1000.0, np.exp(10 + 0.6 * z + 0.5 * draw.standard_normal(n)))
    days = np.clip(5000 + 1500 * (0.7 * z + 0.7 * draw.standard_normal(n)), 0, 10950).astype(int)
    first = datetime.datetime(2000, 1, 1)
    return pl.DataFrame(
        {
            "age": age,
            "income": pl.Series(income).set(pl.Series(draw.random(n) < 0.15), None),
            "weight": np.clip(75 + 12 * (0.6 * z + 0.8 * draw.standard_normal(n)), 0, 300),
            "city": draw.choice(["Ulm", "Bonn", "Kiel"], n, p=[0.5, 0.3, 0.2]),
            "colour": pl.Series(np.array(["red", "green", "blue"])[np.digitize(z, [-0.5, 0.7])]).set(
                pl.Series(draw.random(n) < 0.1), None
            ),
            "member": z + draw.standard_normal(n) > 0,
            "joined": [first + datetime.timedelta(days=int(d)) for d in days],
        }
    )


@pytest.fixture(scope="session")
def mixed_schema() -> Schema:
    return MIXED


@pytest.fixture(scope="session")
def mixed() -> pl.DataFrame:
    return mixed_table(1500)


@pytest.fixture
def place(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Any:
    """A folder with a table, a schema and the `understudy` command, for the tests of bad input."""
    from bad_input import Place

    return Place(tmp_path, capfd)


FEW_TREES = {
    "catboost": {"iterations": 30, "learning_rate": 0.3},
    "random forest": {"n_estimators": 20},
    "xgboost": {"n_estimators": 30, "learning_rate": 0.3},
}


@contextlib.contextmanager
def few_trees() -> Iterator[None]:
    """Learners that train for a moment, for tests of the tables they see and not of how much they learn."""
    from understudy.evaluation.learners import LEARNERS

    made = {
        name: dataclasses.replace(
            learner,
            settings={**learner.settings, **FEW_TREES.get(name, {})},
            steps=None if learner.steps is None else 300,
        )
        for name, learner in LEARNERS.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("understudy.evaluation.usefulness.LEARNERS", made)
        yield


@pytest.fixture
def quick_learners() -> Iterator[None]:
    with few_trees():
        yield


MOST_MAPPINGS = 30_000
_tests_run = itertools.count()


@pytest.fixture(autouse=True)
def _few_compiled_programs():
    """Forgets compiled programs when there are very many: each maps memory, and Linux allows 65 530 mappings."""
    yield
    mappings = Path("/proc/self/maps")
    if next(_tests_run) % 20 or "jax" not in sys.modules or not mappings.exists():
        return
    if mappings.read_bytes().count(b"\n") > MOST_MAPPINGS:
        sys.modules["jax"].clear_caches()


TINY_GRID = """\
name = "tiny"
epsilons = [1.0]
seeds = [0]
metrics = ["tvd1"]
[[datasets]]
graph = "example"
rows = 100
[[methods]]
name = "independent"
"""
"""A grid of one run."""
