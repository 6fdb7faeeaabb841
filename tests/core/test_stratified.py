"""Stratified sampling: even together, and each number by itself as uniform as an independent one."""

import numpy as np
import pytest
from scipy import stats

from understudy.core.randomness import Key
from understudy.core.stratified import BLOCK, evenly, stratified_levels, stratified_uniforms


def test_a_group_of_m_has_one_number_in_each_of_m_intervals():
    groups = np.random.default_rng(0).integers(0, 5, 1000)
    uniform = stratified_uniforms(groups, np.random.default_rng(1))
    for group in range(5):
        own = uniform[groups == group]
        assert sorted(np.floor(own * len(own)).astype(int)) == list(range(len(own)))


def test_each_entry_alone_is_uniform_whatever_its_place():
    groups = np.array([0, 0, 1, 0, 2])
    drawn = np.array([stratified_uniforms(groups, np.random.default_rng(seed)) for seed in range(4000)])
    for entry in drawn.T:
        assert stats.kstest(entry, "uniform").pvalue > 1e-4


def test_levels_keep_their_order_and_what_is_missing():
    levels = np.array([0.9, np.nan, 0.2, 0.21, np.nan, 0.95])
    spread = stratified_levels(levels, np.random.default_rng(0))
    assert np.array_equal(np.isnan(spread), np.isnan(levels))
    present = ~np.isnan(levels)
    assert np.array_equal(np.argsort(spread[present]), np.argsort(levels[present]))
    assert sorted(np.floor(spread[present] * 4).astype(int)) == [0, 1, 2, 3]


def test_stratified_levels_of_independent_rows_are_uniform_one_by_one():
    drawn = np.array(
        [
            stratified_levels(np.random.default_rng(seed).random(7), np.random.default_rng(seed + 1))
            for seed in range(4000)
        ]
    )
    for entry in drawn.T:
        assert stats.kstest(entry, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows(count):
    assert stratified_uniforms(np.zeros(count, int), np.random.default_rng(0)).shape == (count,)
    assert stratified_levels(np.full(count, np.nan), np.random.default_rng(0)).shape == (count,)
    assert ((stratified_levels(np.full(count, 0.5), np.random.default_rng(0)) >= 0) & (np.arange(count) < 1)).all()


def test_many_rows_are_stratified_block_by_block():
    levels = np.random.default_rng(0).random(BLOCK + 1000)
    found = evenly({"a": levels, "b": levels}, Key.new(0), ["a"])
    assert found["b"] is levels
    for block, size in ((slice(0, BLOCK), BLOCK), (slice(BLOCK, None), 1000)):
        part = found["a"][block]
        assert np.array_equal(np.argsort(part), np.argsort(levels[block]))
        assert np.array_equal(np.sort(np.floor(part * size)), np.arange(size))
    first = evenly({"a": levels[:BLOCK]}, Key.new(0), ["a"])["a"]
    np.testing.assert_array_equal(found["a"][:BLOCK], first)
