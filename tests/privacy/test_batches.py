"""Poisson batches: every unit at its rate, independently, in arrays of public lengths."""

import math

import numpy as np
import pytest
from scipy import stats

from understudy.core.randomness import Key
from understudy.privacy.batches import (
    OVERFLOW,
    draw_rounds,
    fits,
    largest_batch,
    pad_rows,
    poisson_batches,
    shuffled,
)
from understudy.privacy.lattice_noise import LatticeNoise
from understudy.privacy.rows import lock


def included_units(rate, units, count, seed=0):
    """How often each unit is in each of so many batches."""
    most = largest_batch(units, rate)
    places, drawn = poisson_batches(Key.new(seed), rate, units, count, most)
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


@pytest.mark.parametrize("rate", [1e-300, 1e-17, 1e-9])
def test_a_rate_next_to_nothing_draws_nobody(rate):
    assert (included_units(rate, 25, 10) == 0).all()


def test_no_units_are_nobody():
    places, drawn = poisson_batches(Key.new(0), 0.5, 0, 4, 3)
    assert not drawn.any() and (places == 0).all()


def test_more_places_leave_a_batch_as_it_is():
    few, many = (poisson_batches(Key.new(0), 0.2, 100, 6, most) for most in (40, 64))
    for one, other in zip(few, many, strict=True):
        np.testing.assert_array_equal(one, other[:, :40])
    assert not many[1][:, 40:].any()  # a batch that fits has no more


def test_batches_that_do_not_fit_lose_their_last_units():
    places, drawn = poisson_batches(Key.new(0), 0.9, 100, 6, 10)
    whole, _ = poisson_batches(Key.new(0), 0.9, 100, 6, 100)
    assert drawn.all() and np.array_equal(places, whole[:, :10])


@pytest.mark.parametrize("units", [1, 2, 50, 10_000, 10_000_000])
@pytest.mark.parametrize("rate", [1e-6, 0.004, 0.5, 1.0])
def test_a_batch_fits_into_its_place(units, rate):
    most = largest_batch(units, rate)
    assert most <= units and (most == units or stats.binom.logsf(most, units, rate) <= math.log(OVERFLOW))


def test_rows_are_padded_to_the_capacity_and_units_keep_theirs():
    columns = {"a": np.arange(4.0), "b": np.array([np.nan, np.inf, -1e300, 1.0])}
    rows = lock(columns, {}, unit=np.array([7, 7, 7, 9]), max_rows_per_unit=3, key=Key.new(0))
    padded = pad_rows(rows, ["a", "b"], 6)
    assert fits(rows, 6) and padded.exact_count == 2
    assert padded.exact.shape == (7, 2) and padded.units.shape == (6, 3)
    assert sorted(np.sum(padded.units < 6, axis=1).tolist()) == [0, 0, 0, 0, 1, 3]
    assert np.array_equal(padded.exact[:, 1], np.array([0, 0, -1e18, 1, 0, 0, 0], np.float32))


def test_a_table_that_does_not_fit_is_kept_whole():
    rows = lock({"a": np.arange(9.0)}, {}, key=Key.new(0))
    padded = pad_rows(rows, ["a"], 4)
    assert not fits(rows, 4) and fits(rows, 9) and padded.exact.shape == (10, 1) and padded.exact_count == 9


# Places -------------------------------------------------------------------------------------------------------------


def test_units_stand_in_places_that_say_nothing_about_the_others():
    places, drawn = poisson_batches(Key.new(0), 0.3, 20, 3000, 16)
    moved, held = shuffled(places, drawn, Key.new(1))
    for one, other in zip(np.where(drawn, places, -1), np.where(held, moved, -1), strict=True):
        assert sorted(one.tolist()) == sorted(other.tolist())
    whole = held.sum(axis=0)
    assert stats.chisquare(whole).pvalue > 1e-4  # every place holds somebody as often
    first = np.argmax(held & (moved == np.where(drawn, places, -1).max(axis=1)[:, None]), axis=1)
    assert stats.chisquare(np.bincount(first, minlength=16)).pvalue > 1e-4  # wherever the last unit stands


# Rounds -------------------------------------------------------------------------------------------------------------


NOISE = LatticeNoise.of(2.0, clip_norm=1.0, size=500)


def rounds(numbers, *, part=0, most=16, size=500):
    return draw_rounds(Key.new(0), np.array(numbers), 0.3, NOISE, 20, part=part, steps=4, most=most, size=size)


def members(found):
    """The units of every batch, in order."""
    batches = zip(found.units.reshape(8, -1), found.drawn.reshape(8, -1), strict=True)
    return [sorted(units[drawn].tolist()) for units, drawn in batches]


def test_rounds_have_batches_and_noise_of_their_own():
    found = rounds([0, 1])
    assert found.units.shape == found.drawn.shape == (2, 4, 16) and found.noise.shape == (2, 4, 500)
    assert found.noise.dtype == np.int32 and found.units.dtype == np.int32
    assert found.grid.tolist() == [NOISE.step] * 2
    assert not np.array_equal(found.units[0], found.units[1])
    together = np.asarray(np.corrcoef(found.noise.reshape(8, 500)))
    assert np.abs(together[np.triu_indices(8, 1)]).max() < 5 / math.sqrt(500)
    assert stats.kstest(found.noise.ravel() * NOISE.step / 2.0, "norm").pvalue > 1e-3


def test_a_round_is_the_same_whichever_rounds_it_is_drawn_with():
    [alone], among = rounds([3]).noise, rounds([1, 3])
    np.testing.assert_array_equal(alone, among.noise[1])
    np.testing.assert_array_equal(rounds([3]).units[0], among.units[1])


def test_parts_have_the_same_batches_and_noise_of_their_own():
    one, other = rounds([0, 1], part=0), rounds([0, 1], part=1, most=20, size=300)
    assert members(one) == members(other)
    together = np.corrcoef(one.noise[:, :, :300].ravel(), other.noise.ravel())[0, 1]
    assert abs(together) < 4 / math.sqrt(other.noise.size)
