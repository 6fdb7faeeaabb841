"""The time that is left: by the plan until training begins, and by counted steps from then on."""

import pytest

from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.synthesizers.progress import Expectation

COUNT = PlannedMechanism(name="count", mechanism="discrete gaussian", share=1.0, times=3)
TRAIN = PlannedMechanism(name="train", mechanism="sampled gaussian", share=1.0, times=50, sampling_rate=0.01)


class Clock:
    """A clock that stands until it is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def fit():
    ledger, clock = Ledger(Budget(epsilon=1, delta=1e-6), [COUNT, TRAIN]), Clock()
    expected = Expectation([ledger], (2.0, 8.0), clock)
    ledger.on_charge, ledger.on_step = expected.charge, expected.step
    return ledger, clock, expected


def test_before_training_the_plan_counts_and_all_of_the_training_is_still_to_come(fit):
    ledger, clock, expected = fit
    assert (expected.total, expected.left, expected.share) == (10.0, 10.0, 0.0)
    clock.now += 1.0
    ledger.charge("count", what="a count", sensitivity=1.0)
    assert (expected.left, expected.share) == (9.0, pytest.approx(0.1))
    clock.now += 30.0  # measuring takes far longer than expected
    assert expected.left == 8.0


def test_counted_steps_say_how_long_the_training_takes(fit):
    ledger, clock, expected = fit
    clock.now += 2.0
    ledger.charge("train", what="train", sensitivity=1.0, times=50)
    clock.now += 3.0
    assert expected.left == pytest.approx(5.0)  # by the plan: no step is done
    ledger.on_step(10, 50)  # three seconds for ten steps
    assert expected.left == pytest.approx(12.0) and expected.share == pytest.approx(5 / 17)
    clock.now += 12.0
    ledger.on_step(50, 50)
    assert expected.left == 0.0 and expected.share == 1.0


def test_it_is_the_list_of_its_ledgers(fit):
    ledger, _, expected = fit
    assert list(expected) == [ledger] and len(expected) == 1
