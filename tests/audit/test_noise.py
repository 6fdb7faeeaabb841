"""The noise part of an audit: samplers that ship pass, and wrong ones fail."""

import numpy as np
import pytest

from conftest import MIXED
from understudy.audit import noise
from understudy.synthesizers import METHODS


@pytest.mark.slow
def test_independent_columns_pass():
    found = noise.judge_noise(MIXED, METHODS["independent"](), epsilon=1.0, delta=1e-5)
    assert found.passed, found.findings
    assert found.false_alarm == noise.FALSE_ALARM
    assert len(found.tests) > 10


@pytest.mark.slow
def test_the_noise_of_a_training_is_seen_alone():
    found = noise.judge_noise(MIXED, METHODS["dpgan"](), epsilon=1.0, delta=1e-5)
    assert found.passed, found.findings
    assert {test.draws for test in found.tests if "gradient sums: variance" in test.sampler} != set()


@pytest.mark.parametrize("factor", [0.9, pytest.param(1.1, marks=pytest.mark.slow)])
def test_a_deviation_that_is_off_by_a_tenth_is_seen(factor, monkeypatch):
    honest = noise.discrete_gaussian
    monkeypatch.setattr(noise, "discrete_gaussian", lambda sigma, size, key: honest(factor * sigma, size, key))
    assert noise._discrete_gaussian(47.0).p_value < 1e-5


def test_noise_that_two_releases_share_is_seen():
    draws = np.random.default_rng(0).normal(size=(5, 20))
    assert noise._unshared([*draws]) == 1.0
    assert noise._unshared([*draws, draws[2]]) == 0.0


def test_a_chi_square_of_true_counts_is_uniform_enough():
    draw = np.random.default_rng(0)
    shares = np.exp(-np.arange(30.0) / 5)
    shares /= shares.sum()
    p = [noise._chi_square(draw.multinomial(5000, shares).astype(float), 5000 * shares) for _ in range(300)]
    assert 0.4 < np.mean(p) < 0.6 and np.min(p) > 1e-5
