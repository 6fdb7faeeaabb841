"""Trainings of densities: each row by itself, clipped sums as by brute force, and noise that is what is charged."""

import jax.numpy as jnp
import numpy as np
import pytest

from small_densities import (
    CAPACITY,
    KINDS,
    clipped,
    flat,
    ledger_of,
    locked_rows,
    loop_of,
    one_by_one,
    part_of,
    rows_of,
    shape_of,
    train_parts,
    weights_of,
)
from understudy.core.randomness import Key
from understudy.privacy import densities
from understudy.privacy.batches import draw_round, largest_batch
from understudy.privacy.densities import Shape, derivatives, draw_own, fixed_of, layers, slopes_of
from understudy.privacy.density_training import LARGEST_SQUARE, clipped_sums, row_slopes
from understudy.privacy.lattice_noise import LatticeNoise, add_noise, rounded_sum
from understudy.privacy.ledger import Ledger
from understudy.privacy.summation import SUMMATION, summation_blocks

kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True, params=[0.0, 9.0], ids=["all features", "gathered"])
def reading(request, monkeypatch):
    """Every test is run twice: columns are given all features, or those that they read."""
    monkeypatch.setattr(densities, "FEW_READ", request.param)


# Rows -----------------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e18, -1e18])
def test_what_is_made_of_a_row_does_not_depend_on_the_others(kind, bad):
    shape = shape_of(kind)
    weights, x = weights_of(shape), rows_of(shape, 7)
    fixed = fixed_of(weights, shape)
    before = derivatives(weights, fixed, x, shape)
    moved = x.copy()
    moved[[0, 1, 2, 4, 5, 6], :4] = moved[[0, 1, 2, 4, 5, 6], 5:] = bad
    with np.errstate(all="ignore"):
        after = derivatives(weights, fixed, moved, shape)
    if not shape.gathered:
        np.testing.assert_array_equal(after.read[3], before.read[3])
    for one, other in zip(before[not shape.gathered :], after[not shape.gathered :], strict=True):
        np.testing.assert_array_equal(one[..., 3], other[..., 3])


@kinds
@pytest.mark.parametrize("rows_of_a_unit", [1, 3])
def test_clipped_sums_are_those_of_brute_force(kind, rows_of_a_unit):
    shape = shape_of(kind)
    weights, x = weights_of(shape), rows_of(shape, 24)
    fixed, norms = fixed_of(weights, shape), np.array([0.3, 2.0], np.float32)
    inside = np.ones((24 // rows_of_a_unit, rows_of_a_unit), bool)
    inside[-1, -1] = False
    x[3, 0] = 1e18  # of a column that reads it, the row counts as zero
    with np.errstate(all="ignore"):
        found = clipped_sums(derivatives(weights, fixed, x, shape), fixed, inside, norms)
    units = np.repeat(np.arange(len(inside)), rows_of_a_unit)
    each = one_by_one(shape, weights, x)
    each[3, 0] = 0.0
    expected = clipped(each[:-1], units[:-1], norms)
    np.testing.assert_allclose(flat(found), expected, atol=2e-5)


@kinds
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e18])
def test_a_contrast_of_a_row_does_not_depend_on_the_others(kind, bad):
    shape, norms = shape_of(kind), np.array([0.3, 2.0], np.float32)
    weights, x = weights_of(shape), rows_of(shape, 7)
    fixed, loop = fixed_of(weights, shape), loop_of(shape, contrasts=2)
    moved = x.copy()
    moved[[0, 1, 2, 4, 5, 6], :4] = moved[[0, 1, 2, 4, 5, 6], 5:] = bad
    with np.errstate(all="ignore"):
        before, after = (row_slopes(loop, weights, fixed, each, norms, np.random.default_rng(0)) for each in (x, moved))
    for one, other in zip(before[1:5], after[1:5], strict=True):
        np.testing.assert_array_equal(one[..., 3], other[..., 3])


@kinds
def test_a_contrast_takes_the_bias_of_clipping_whatever_the_inputs_are(kind):
    """Rows drawn from the densities, given two kinds of inputs: clipped slopes do not vanish, contrasted ones do."""
    shape, norms, count = shape_of(kind), np.array([0.1, 0.2], np.float32), 40_000
    weights, draw = weights_of(shape), np.random.default_rng(5)
    fixed, x = fixed_of(weights, shape), rows_of(shape, count)
    x[: count // 2, :4] = np.abs(x[: count // 2, :4])
    own, state = draw_own(weights, fixed, layers(weights, fixed, x[:, :5], shape), shape, draw)
    x[:, 5:7], x[:, 7:] = own.T, state.T
    for half in (x[: count // 2], x[count // 2 :]):
        sizes = []
        for contrasts in (0, 1):
            made = row_slopes(loop_of(shape, contrasts=contrasts), weights, fixed, half, norms, draw)
            sizes.append(np.linalg.norm(flat(clipped_sums(made, fixed, np.ones((len(half), 1), bool), norms)), axis=1))
        chance = norms * np.sqrt(len(half))  # the length of a sum of independent vectors of mean zero
        assert (sizes[1] < 2 * chance).all()
        assert (sizes[0] > 3 * sizes[1]).any()


@kinds
def test_no_unit_changes_a_sum_by_more_than_the_norm(kind):
    shape = shape_of(kind)
    weights, norms = weights_of(shape), np.array([1e-6, 0.5], np.float32)
    fixed = fixed_of(weights, shape)
    for seed, scale in enumerate([1e-25, 1e-19, 1e-6, 1.0, 1e3, 1e7, 1e17]):
        x = rows_of(shape, 12, seed)
        x[8, :4] *= scale
        x[8, 5:7] *= scale
        inside, without = np.ones((12, 1), bool), np.ones((12, 1), bool)
        without[8] = False
        with np.errstate(all="ignore"):
            pair = [
                flat(clipped_sums(derivatives(weights, fixed, x, shape), fixed, i, norms)) for i in (inside, without)
            ]
        assert np.isfinite(pair).all()
        assert (np.linalg.norm(pair[0] - pair[1], axis=1) <= norms * (1 + SUMMATION)).all()


def test_a_row_with_a_huge_factor_counts_as_zero():
    shape = shape_of("numbers")
    weights, x = weights_of(shape), rows_of(shape, 2)
    x[0, 0] = 2 * np.sqrt(LARGEST_SQUARE)
    fixed = fixed_of(weights, shape)
    found = clipped_sums(derivatives(weights, fixed, x, shape), fixed, np.ones((2, 1), bool), np.ones(2, np.float32))
    alone = clipped(one_by_one(shape, weights, x[1:]), np.zeros(1), np.ones(2))
    np.testing.assert_allclose(flat(found)[0], alone[0], atol=1e-5)


def test_sums_in_blocks_and_in_float64_are_those_in_one():
    shape = shape_of("numbers with states")
    weights, x = weights_of(shape), rows_of(shape, 1000)
    fixed = fixed_of(weights, shape)
    made = derivatives(weights, fixed, x, shape)
    expected = flat(slopes_of(type(made)(*(each.astype(np.float64) for each in made)), fixed))
    assert summation_blocks(1000, 1) > 1
    for blocks in (1, 2, 7):
        np.testing.assert_allclose(flat(slopes_of(made, fixed, blocks=blocks)), expected, rtol=1e-3, atol=2e-2)


def test_noise_is_added_as_in_a_compiled_program():
    noise = LatticeNoise.of(0.3, clip_norm=1.0, size=50)
    draws = noise.draw(50, Key.new(0))
    for exact in (np.linspace(-3, 3, 50, dtype=np.float32), np.linspace(-3, 3, 50) * 1e9):
        found = rounded_sum(exact, draws, noise.step)
        np.testing.assert_array_equal(found, np.asarray(add_noise(jnp.asarray(exact, jnp.float32), draws, noise.step)))


# Training -------------------------------------------------------------------------------------------------------------


def trained(shape: Shape, *, silent: bool, steps: int = 4) -> tuple[np.ndarray, Ledger, np.ndarray]:
    """The noisy sums of a training of one part with norms 0.3 and 0.5, its ledger, and its rows."""
    ledger, x = ledger_of(steps), rows_of(shape, 200)
    part = part_of(shape, weights_of(shape), np.array([0.3, 0.5]), silent=silent)
    [seen] = train_parts(locked_rows(x), ledger, [part])
    return seen, ledger, x


def test_noise_has_the_deviation_that_is_charged():
    shape = shape_of("numbers with states")
    seen, ledger, _ = trained(shape, silent=True, steps=200)
    expected = ledger.noise("gradients") * np.hypot(0.3, 0.5)
    assert seen.std() == pytest.approx(expected, rel=0.05)
    assert abs(seen.mean()) < 5 * expected / np.sqrt(seen.size)


def test_a_step_is_the_clipped_sum_of_its_batch_on_the_grid_plus_the_noise():
    shape, norms = shape_of("few states"), np.array([0.3, 0.5])
    seen, ledger, x = trained(shape, silent=False)
    noise_alone, _, _ = trained(shape, silent=True)
    noise = LatticeNoise.of(
        ledger.noise("gradients") * np.hypot(*norms), clip_norm=float(np.hypot(*norms)), size=shape.size
    )
    each = one_by_one(shape, weights_of(shape), x)
    most = largest_batch(CAPACITY, 0.25)
    for step, found in enumerate(seen - noise_alone):
        places, drawn, _ = draw_round(
            Key.new(7).child("steps").child("gradients"),
            step // 2,
            0.25,
            noise,
            200,
            part=0,
            steps=2,
            most=most,
            size=shape.size,
            among=None,
        )
        members = places[step % 2][drawn[step % 2]]
        expected = clipped(each[members], np.arange(len(members)), norms)
        np.testing.assert_allclose(found, expected, rtol=0.03, atol=0.03)  # some of each norm is left unused
        assert np.abs(found).max() > 0.1


def test_a_norm_for_each_column_is_asked_for_before_anything_is_charged():
    shape, ledger = shape_of("numbers"), ledger_of(2)
    with pytest.raises(ValueError, match="one for each column"):
        train_parts(locked_rows(np.zeros((4, 9))), ledger, [part_of(shape, weights_of(shape), 0.5)])
    assert not ledger.receipt().charges
