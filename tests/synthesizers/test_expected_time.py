"""The time that is left, by the plan and then by counted steps; and what a plan expects, beside measurements."""

import importlib.util
from pathlib import Path

import pytest

import understudy as us
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.synthesizers import expected_time, resolve
from understudy.synthesizers.planning import planned_mechanisms
from understudy.synthesizers.progress import Expectation

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

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


def test_between_two_steps_the_time_that_is_left_falls(fit):
    ledger, clock, expected = fit
    expected = Expectation([ledger], (10.0, 0.0), clock)
    clock.now += 4.0
    expected.step(2, 10)
    assert expected.left == pytest.approx(16.0)
    clock.now += 6.0
    assert expected.left == pytest.approx(10.0)
    clock.now += 100.0
    assert expected.left == pytest.approx(1.6)


def test_what_follows_the_last_step_is_still_to_come_while_steps_are_made(fit):
    ledger, clock, _ = fit
    expected = Expectation([ledger], (2.0, 8.0, 4.0), clock)
    assert expected.total == 14.0
    ledger.on_charge = expected.charge
    ledger.charge("train", what="train", sensitivity=1.0, times=50)
    clock.now += 3.0
    expected.step(10, 50)
    assert expected.left == pytest.approx(12.0 + 4.0)
    expected.step(50, 50)
    clock.now += 1.0
    assert expected.left == pytest.approx(3.0)
    clock.now += 10.0
    assert expected.left == 0.0


def test_it_is_the_list_of_its_ledgers(fit):
    ledger, _, expected = fit
    assert list(expected) == [ledger] and len(expected) == 1


def script():
    """benchmarks/fit_expected_time.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("fit_expected_time", BENCHMARKS / "fit_expected_time.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MEASURED = script().read(BENCHMARKS / "results" / "speed.jsonl")


@pytest.mark.parametrize("line", MEASURED, ids=lambda line: f"{line['case']}-{line['method']}")
def test_the_plan_expects_every_measured_time_and_memory_within_a_factor_of_two(line):
    fitted = script()
    seconds, megabytes = fitted.predicted(line)
    assert 0.5 <= seconds / fitted.quiet_seconds(line) <= 2.0
    assert 0.5 <= megabytes / line["peak_mib"] <= 2.0


@pytest.mark.parametrize("method", ["prada", "aim", "copula", "mst", "independent", "gem", "privmrf", "dp-merf"])
def test_a_method_has_a_formula_of_its_own(method):
    assert method in expected_time.coefficients()
    assert any(line["method"] == method for line in MEASURED)


def seconds(columns=10, rows=20_000, method="prada", **settings):
    schema = us.Schema(columns=tuple(us.Column(f"c{j}", "continuous", low=0, high=1) for j in range(columns)))
    configured = resolve(method, settings)
    planned = planned_mechanisms(schema, configured, Budget(epsilon=1, delta=1e-6))
    return expected_time.expected_seconds(schema, configured, planned, rows)


def test_distillation_is_expected_before_the_private_steps_and_the_correction_after_them():
    measuring, training, finishing = seconds()
    longer = seconds(distillation_steps=3000)
    assert longer[0] > measuring and longer[1:] == pytest.approx((training, finishing))
    longer = seconds(correction_rows=10**6)
    assert longer[2] > finishing and longer[:2] == pytest.approx((measuring, training))


def test_without_private_steps_nothing_is_expected_of_training():
    assert seconds(steps=0)[1:] == (0.0, 0.0) and seconds(method="copula")[1:] == (0.0, 0.0)


@pytest.mark.parametrize("method", ["prada", "prada-gan", "copula", "gem"])
def test_more_rows_and_more_columns_take_longer(method):
    assert sum(seconds(method=method)) < sum(seconds(method=method, columns=40))
    assert sum(seconds(method=method)) < sum(seconds(method=method, rows=2_000_000))
