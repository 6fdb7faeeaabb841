"""Sums over axes against NumPy's, and quick messages against those in logarithms."""

import itertools

import numpy as np
import pytest

from graphs import DOMAIN, TREE, every_graph
from understudy.graphical import messages
from understudy.graphical.junction_tree import junction_tree
from understudy.graphical.messages import MessagePasser, summed

SHAPE = (2, 3, 1, 4, 2)


@pytest.mark.parametrize("beside", [0, 1, 4, 100])
def test_sums_over_any_axes_are_numpy_s(beside, monkeypatch):
    messages.Summation.over.cache_clear()
    monkeypatch.setattr(messages, "MOST_BESIDE", beside)
    array = np.random.default_rng(0).random(SHAPE)
    for count in range(len(SHAPE) + 1):
        for axes in itertools.combinations(range(len(SHAPE)), count):
            assert summed(array, axes) == pytest.approx(array.sum(axis=axes))
    messages.Summation.over.cache_clear()


@every_graph
def test_quick_messages_are_those_in_logarithms(cliques):
    passer = MessagePasser(DOMAIN, junction_tree(DOMAIN, cliques))
    potentials = np.random.default_rng(0).normal(0, 3, passer.size)
    expected, _, expected_log_z = passer.run(passer.arrays(potentials.copy()))
    marginals, log_z = passer.marginals(potentials)
    assert log_z == pytest.approx(expected_log_z)
    for found, each in zip(passer.arrays(marginals), expected, strict=True):
        assert found == pytest.approx(each)


@pytest.mark.parametrize("shift", [-500.0, 500.0, 1e6], ids=["vanishing", "overflowing", "beyond floats"])
def test_messages_outside_the_range_of_floats_are_computed_in_logarithms(shift):
    passer = MessagePasser(DOMAIN, junction_tree(DOMAIN, TREE))
    potentials = np.random.default_rng(0).normal(0, 3, passer.size) + shift
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        marginals, log_z = passer.marginals(potentials.copy())
        centred, centred_log_z = MessagePasser(DOMAIN, passer.nodes).marginals(potentials - shift)
    assert log_z == pytest.approx(centred_log_z + shift * len(passer.nodes))
    assert marginals == pytest.approx(centred, rel=1e-6)
