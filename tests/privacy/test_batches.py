"""Poisson batches: every unit at its rate, independently, in arrays of public lengths."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from understudy.core.randomness import Key
from understudy.privacy.batches import OVERFLOW, largest_batch, pad_rows, poisson_batch
from understudy.privacy.rows import lock


@pytest.fixture(autouse=True)
def _no_rank_promotion():
    with jax.numpy_rank_promotion("raise"):
        yield


def included_units(rate, units, count, seed=0):
    most = largest_batch(units, rate)
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed), count)
        places, drawn = jax.jit(jax.vmap(lambda key: poisson_batch(key, jnp.float64(rate), units, most)))(keys)
    included = np.zeros((count, units + 1), dtype=int)
    rows = np.repeat(np.arange(count), most).reshape(count, most)
    np.add.at(included, (rows, np.where(drawn, places, units)), 1)
    return included[:, :units]


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.9])
def test_each_unit_is_drawn_at_most_once_and_at_its_rate(rate):
    included = included_units(rate, 40, 4000)
    assert included.max() == 1
    chances = [stats.binomtest(int(k), 4000, rate).pvalue for k in included.sum(axis=0)]
    assert min(chances) > 1e-5


@pytest.mark.parametrize("rate", [0.02, 0.3])
def test_units_are_drawn_independently(rate):
    included = included_units(rate, 30, 20_000)
    expected = 20_000 * stats.binom.pmf(np.arange(31), 30, rate)
    sizes = np.bincount(included.sum(axis=1), minlength=31)
    common = expected > 10
    found, wanted = np.append(sizes[common], sizes[~common].sum()), np.append(expected[common], expected[~common].sum())
    assert stats.chisquare(found, wanted).pvalue > 1e-4
    together = np.corrcoef(included.T)[np.triu_indices(30, 1)]
    assert np.abs(together).max() < 5 / math.sqrt(20_000)


def test_a_rate_of_one_draws_everyone():
    assert (included_units(1.0, 25, 10) == 1).all()


@pytest.mark.parametrize("units", [1, 2, 50, 10_000, 10_000_000])
@pytest.mark.parametrize("rate", [1e-6, 0.004, 0.5, 1.0])
def test_a_batch_fits_into_its_place(units, rate):
    most = largest_batch(units, rate)
    assert most <= units and (most == units or stats.binom.logsf(most, units, rate) <= math.log(OVERFLOW))


def test_rows_are_padded_to_the_capacity_and_units_keep_theirs():
    columns = {"a": np.arange(4.0), "b": np.array([np.nan, np.inf, -1e300, 1.0])}
    rows = lock(columns, {}, unit=np.array([7, 7, 7, 9]), max_rows_per_unit=3, key=Key.new(0))
    padded = pad_rows(rows, ["a", "b"], 6)
    assert padded.fits and padded.exact_count == 2
    assert padded.exact.shape == (7, 2) and padded.units.shape == (6, 3)
    assert sorted(np.sum(padded.units < 6, axis=1).tolist()) == [0, 0, 0, 0, 1, 3]
    assert np.array_equal(padded.exact[:, 1], np.array([0, 0, -1e18, 1, 0, 0, 0], np.float32))


def test_a_table_that_does_not_fit_is_kept_whole():
    rows = lock({"a": np.arange(9.0)}, {}, key=Key.new(0))
    padded = pad_rows(rows, ["a"], 4)
    assert not padded.fits and padded.exact.shape == (10, 1) and padded.exact_count == 9
