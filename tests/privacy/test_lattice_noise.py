"""Exact noise on sums: as private as the real-valued noise that is charged, and as large."""

import math

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import stats

from conftest import examples
from understudy.core.randomness import Key
from understudy.privacy.alias_table import reach
from understudy.privacy.lattice_noise import LARGEST_SUM, SMOOTH, WIDEST, LatticeNoise, add_noise

ETA = 2.0**-136

# The proof, in numbers ------------------------------------------------------------------------------------------------


def gauss(s, x):
    return mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * mpmath.mpf(s) ** 2))


@pytest.mark.parametrize("centre", [0.0, 0.1, 0.25, 0.5])
def test_a_gaussian_summed_over_whole_numbers_hardly_depends_on_its_centre(centre):
    with mpmath.workprec(300):
        total = sum(gauss(SMOOTH, x - mpmath.mpf(centre)) for x in range(-60, 61))
        assert abs(total / (SMOOTH * mpmath.sqrt(2 * mpmath.pi)) - 1) < ETA


@pytest.mark.parametrize(("base", "factor"), [(7.0, 3), (2.2 * math.sqrt(2), 1), (40.0, 18)])
def test_two_tables_make_one_discrete_gaussian(base, factor):
    """P(Y + k Z = x) over exp(-x² / (2 σ²)) is the same at every x, out to ten deviations."""
    sigma = base * math.sqrt(1 + factor**2)
    assert base / math.sqrt(1 + factor**2) >= SMOOTH
    with mpmath.workprec(300):
        wide = mpmath.mpf(base) * mpmath.sqrt(1 + factor**2)
        ratios = []
        for x in np.linspace(0, 10 * sigma, 9).astype(int).tolist():
            middle = factor * x // (1 + factor**2)
            places = range(middle - 60, middle + 61)
            made = sum(gauss(base, z) * gauss(base, x - factor * z) for z in places)
            ratios.append(made / gauss(wide, x))
        assert max(ratios) / min(ratios) - 1 < 3 * ETA


def profile(first, second, epsilon, order):
    if order < 0:
        first, second = second, first
    return np.maximum(first - math.exp(epsilon) * second, 0.0).sum()


@pytest.mark.parametrize("rate", [1.0, 0.2])
@pytest.mark.parametrize(("steps", "noise"), [(8, 1.0), (32, 0.7), (8, 4.0)])
def test_the_lattice_is_no_less_private_than_what_is_charged(rate, steps, noise):
    """Hockey-stick divergences of the sampled mechanism, both ways: never above those of real-valued noise."""
    sigma = steps  # real-valued noise, in steps of the grid
    drawn, shift = math.hypot(sigma, SMOOTH), round(sigma / noise)
    x = np.arange(-14 * steps, 14 * steps + shift + 1)
    plain, moved = (np.exp(-((x - at) ** 2) / (2 * drawn**2)) for at in (0, shift))
    plain, moved = plain / plain.sum(), moved / moved.sum()
    fine = np.linspace(x[0], x[-1], 400_001)
    width = fine[1] - fine[0]
    real, real_moved = (stats.norm.pdf(fine, at, sigma) * width for at in (0, shift))
    for epsilon in (0.0, 0.05, 0.3, 1.0, 2.5):
        for order in (1, -1):
            exact = profile((1 - rate) * plain + rate * moved, plain, epsilon, order)
            charged = profile((1 - rate) * real + rate * real_moved, real, epsilon, order)
            assert exact <= charged + 1e-9


# Sizes ----------------------------------------------------------------------------------------------------------------

norms = st.floats(-6, 6).map(lambda power: 10.0**power)
multipliers = st.floats(-6, 4).map(lambda power: 10.0**power)


@examples(120)
@hypothesis.given(norms, multipliers, st.integers(1, 10**7))
def test_whole_numbers_stay_within_32_bits_and_the_grid_is_fine(clip_norm, multiplier, size):
    noise = LatticeNoise.of(multiplier * clip_norm, clip_norm=clip_norm, size=size)
    assert math.frexp(noise.step)[0] == 0.5 and np.float32(noise.step) == noise.step and np.isfinite(1 / noise.step)
    largest = reach(noise.base) * sum(noise.factor**number for number in range(noise.tables))
    assert largest + LARGEST_SUM < 2**31
    assert 8 <= multiplier * clip_norm / noise.step <= WIDEST
    assert noise.tables == 1 or noise.base / math.hypot(1, noise.factor) >= SMOOTH
    in_steps = multiplier * clip_norm / noise.step
    assert math.hypot(in_steps, SMOOTH) <= noise.sigma / noise.step <= math.hypot(in_steps, SMOOTH) * (1 + 1e-9)
    if multiplier <= 16:
        assert noise.rounding(size) <= clip_norm / 1000


@pytest.mark.parametrize(
    ("sigma", "clip_norm", "size", "tables"),
    [(1e-6, 1.0, 3, 1), (1.0, 1.0, 1, 2), (1e6, 1e6, 100, 2), (3e-6, 1e-6, 10_000, 2), (1e4, 1.0, 10_000, 3)],
)
def test_noise_is_normal_and_has_the_deviation_that_was_charged(sigma, clip_norm, size, tables):
    noise = LatticeNoise.of(sigma, clip_norm=clip_norm, size=size)
    steps = noise.draw(100_000, Key.new(0))
    assert steps.dtype == np.int32 and noise.tables == tables
    found = steps * noise.step / noise.sigma
    spread = found + (Key.new(1).numpy().random(len(found)) - 0.5) * noise.step / noise.sigma  # no ties
    assert stats.kstest(spread, "norm").pvalue > 1e-4
    assert abs(found.var() - 1) < 5 * math.sqrt(2 / len(found)) and abs(found.mean()) < 5 / math.sqrt(len(found))
    beyond = int((np.abs(found) > 3).sum())
    assert stats.binomtest(beyond, len(found), 2 * float(stats.norm.sf(3))).pvalue > 1e-4
    for lag in (1, 2, 7):
        assert abs(np.corrcoef(found[:-lag], found[lag:])[0, 1]) < 5 / math.sqrt(len(found))


def test_low_bits_of_noise_are_even():
    """What the last bits of floating-point noise give away, whole numbers do not: odd and even are as frequent."""
    steps = LatticeNoise.of(1.0, clip_norm=1.0, size=10_000).draw(100_000, Key.new(3))
    for modulus in (2, 3, 8):
        assert stats.chisquare(np.bincount(steps % modulus, minlength=modulus)).pvalue > 1e-4


def test_a_seed_draws_the_same_noise_and_nothing_else_does():
    noise = LatticeNoise.of(5.0, clip_norm=1.0, size=10**6)
    many = noise.draw(5000, Key.new(0))
    assert noise.tables == 3
    np.testing.assert_array_equal(noise.draw(5000, Key.new(0)), many)
    assert (noise.draw(5000, Key.new(1)) != many).mean() > 0.99
    assert abs(np.corrcoef(noise.draw(2000, Key.new()), noise.draw(2000, Key.new()))[0, 1]) < 5 / math.sqrt(2000)


# The addition ---------------------------------------------------------------------------------------------------------


def test_sums_and_noise_are_added_as_whole_numbers():
    step = np.float32(2.0**-10)
    exact = jnp.asarray([0.0, 0.3, -0.3, 1e30, -1e30, 0.5 * step, 1.5 * step], jnp.float32)
    noise = jnp.asarray([5, 0, 0, 2**30, -(2**30), 0, 0], jnp.int32)
    found = np.asarray(add_noise(exact, noise, step), np.float64) / step
    limit = LARGEST_SUM + 2**30
    assert found.tolist() == [5, 307, -307, limit, -limit, 0, 2]


def test_a_sum_in_float64_is_rounded_in_float64():
    with jax.enable_x64(True):
        exact = jnp.asarray([2.0**18 + 2.0**-9, -1e300])
    found = jax.jit(add_noise)(exact, jnp.asarray([-(2**28), 0], jnp.int32), np.float32(2.0**-10))
    assert found.dtype == jnp.float32 and found.tolist() == [2 * 2.0**-10, -LARGEST_SUM * 2.0**-10]


def test_every_output_without_a_canary_is_possible_with_it():
    """One coordinate, everybody drawn, sigma about 1: the attack on single sums, which float32 noise gives way to."""
    without, with_canary = np.float32(0.0), np.float32(0.9871)
    noise, ends = LatticeNoise.of(1.0, clip_norm=1.0, size=1), 12 * 1024
    released = add_noise(jnp.full(4000, without), noise.draw(4000, Key.new(0)), np.float32(noise.step))
    possible = add_noise(jnp.full(2 * ends, with_canary), np.arange(-ends, ends), np.float32(noise.step))
    assert reach(noise.base) * (1 + noise.factor) >= ends and np.isin(released, possible).all()

    of_float32 = Key.new(1).numpy().standard_normal(4000).astype(np.float32) + without
    needed = of_float32 - with_canary  # of float32 noise, this or a neighbour would have to lead to the same output
    near = needed, np.nextafter(needed, np.float32(9)), np.nextafter(needed, np.float32(-9))
    possible = np.any([with_canary + each == of_float32 for each in near], axis=0)
    assert possible.mean() < 0.8
