"""A progress bar is told of every round and step, in order, and up to the end."""

import contextlib

import numpy as np
import polars as pl
import pytest

import understudy
from understudy import pipeline
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.synthesizers.progress import Expectation, shown, watched
from understudy.tables.column import Column
from understudy.tables.schema import Schema

SCHEMA = Schema(columns=tuple(Column(name=name, kind="continuous", low=0.0, high=1.0) for name in "abcd"))
METHODS = [
    pytest.param(understudy.AIM(iterations=3, last_iterations=3), id="aim"),
    pytest.param(understudy.PrivMRF(iterations=5), id="privmrf"),
    pytest.param(understudy.MERF(steps=20, features=40, fakes=20), id="dp-merf"),
    pytest.param(understudy.GEM(steps=2, last_steps=3, components=8, width=4), id="gem", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("method", METHODS)
def test_a_bar_moves_in_small_parts_from_its_beginning_to_its_end(method, monkeypatch):
    told = []

    @contextlib.contextmanager
    def shown(expected, progress):
        for ledger in expected:
            ledger.on_step = lambda done, total: told.append(done / total)
        yield

    monkeypatch.setattr(pipeline, "shown", shown)
    draw = np.random.default_rng(0)
    x = draw.random((400, 1)) * 0.5 + draw.random((400, 4)) * 0.5
    understudy.fit(pl.DataFrame(x, schema=list("abcd")), SCHEMA, method, epsilon=20.0, seed=0)
    assert told == sorted(told)
    assert told[-1] == 1.0 and told[0] < 0.5
    assert len(set(told)) >= 4


def test_a_bar_says_what_is_done_and_how_far_that_has_come():
    told = []
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [PlannedMechanism(name="a", mechanism="discrete gaussian", share=1)])
    with watched(lambda what, expected: told.append(what)), shown(Expectation([ledger]), None):
        ledger.step(1, 4)
        ledger.charge("a", what="count 'x'", sensitivity=1.0)
        ledger.step(2, 4)
        ledger.phase("estimate the graphical model")
        ledger.step(3, 4)
    assert told == [
        "25 %",
        "count 'x'",
        "count 'x', 50 %",
        "estimate the graphical model",
        "estimate the graphical model, 75 %",
    ]
