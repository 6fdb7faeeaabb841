"""Progress is counted in expected seconds: charges move the measuring, steps move the training."""

import pytest

from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.synthesizers.progress import Expectation

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
