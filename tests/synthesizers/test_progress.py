"""Progress is counted in expected seconds: charges move the measuring, steps move the training."""

import contextlib

import numpy as np
import polars as pl
import pytest

import understudy
from understudy import pipeline
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.synthesizers.progress import Expectation
from understudy.tables.column import Column
from understudy.tables.schema import Schema

COUNT = PlannedMechanism(name="count", mechanism="discrete gaussian", share=1.0, times=3)
TRAIN = PlannedMechanism(name="train", mechanism="sampled gaussian", share=1.0, times=50, sampling_rate=0.01)


def test_training_moves_the_bar_and_a_charge_for_it_does_not_end_it():
    ledger = Ledger(Budget(epsilon=1, delta=1e-6), [COUNT, TRAIN])
    expected = Expectation([ledger], (2.0, 8.0))
    seen = [expected.done]
    for _ in range(3):
        ledger.charge("count", what="a count", sensitivity=1.0)
        seen.append(expected.done)
    ledger.charge("train", what="train", sensitivity=1.0, times=50)
    seen.append(expected.done)
    assert expected.total == 10.0 and seen == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0])
    for done in (10, 25, 50):
        expected.step(done, 50)
        seen.append(expected.done)
    assert seen[-3:] == pytest.approx([3.6, 6.0, 10.0])
    expected.step(1, 50)  # another fit of the same batch begins
    assert expected.done == 10.0


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
    def shown(ledgers, progress, expected):
        for ledger in ledgers:
            ledger.on_step = lambda done, total: told.append(done / total)
        yield

    monkeypatch.setattr(pipeline, "shown", shown)
    draw = np.random.default_rng(0)
    x = draw.random((400, 1)) * 0.5 + draw.random((400, 4)) * 0.5
    understudy.fit(pl.DataFrame(x, schema=list("abcd")), SCHEMA, method, epsilon=20.0, seed=0)
    assert told == sorted(told)
    assert told[-1] == 1.0 and told[0] < 0.5
    assert len(set(told)) >= 4
