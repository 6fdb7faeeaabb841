"""Trainings of densities: each row by itself, clipped sums as by brute force, and noise that is what is charged."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportIndexIssue=false, reportOptionalMemberAccess=false, reportReturnType=false, reportOptionalOperand=false

import numpy as np
import pytest

from understudy.core.randomness import Key
from understudy.privacy.batches import draw_round, largest_batch
from understudy.privacy.densities import DensityLoop, Shape, Weights, derivatives, fixed_of, slopes_of
from understudy.privacy.density_training import LARGEST_SQUARE, clipped_sums
from understudy.privacy.gradients import Job, Part, train
from understudy.privacy.lattice_noise import LatticeNoise, add_noise, rounded_sum
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.privacy.rows import lock
from understudy.privacy.summation import SUMMATION, summation_blocks

KINDS = {
    "numbers": {"number": True, "states": 0, "rank": 0},
    "numbers with states": {"number": True, "states": 4, "rank": 0},
    "few states": {"number": False, "states": 3, "rank": 0},
    "many states": {"number": False, "states": 20, "rank": 4},
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
COLUMNS = ["x0", "x1", "x2", "x3", "one", "own 0", "own 1", "state 0", "state 1"]


def shape_of(kind) -> Shape:
    return Shape(columns=2, inputs=3, features=4, hidden=5, components=2, **kind)


def weights_of(shape: Shape, seed=0) -> Weights:
    draw = np.random.default_rng(seed)

    def some(*sizes):
        return draw.standard_normal(sizes).astype(np.float32)

    sources = np.array([[0, 2, -1], [3, -1, -1]], np.int32)
    first = some(2, 4, 5 + shape.linear)
    first[:, :-1][sources < 0] = 0.0
    return Weights(
        first=first,
        second=some(2, 6, shape.outputs),
        places=some(2, shape.states * bool(shape.rank), shape.rank),
        bias=some(2, shape.states * bool(shape.rank)),
        unit=np.array([0.7, 1.3], np.float32),
        sources=sources,
        is_state=np.ones((2, shape.states), bool),
    )


def rows_of(shape: Shape, n: int, seed=1) -> np.ndarray:
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((n, 9)).astype(np.float32)
    x[:, 4] = 1.0
    x[:, 7:] = draw.integers(0, max(shape.states, 1), (n, 2))
    return x


def one_by_one(shape: Shape, weights: Weights, x: np.ndarray) -> np.ndarray:
    """The slopes of every row by itself, by both layers: (rows, columns, numbers)."""
    fixed, found = fixed_of(weights, shape), []
    for row in x:
        with np.errstate(all="ignore"):
            first, second = slopes_of(derivatives(weights, fixed, row[None, :], shape), fixed)
        found.append(np.concatenate([first.reshape(2, -1), second.reshape(2, -1)], axis=1))
    return np.array(found, np.float64)


def clipped(each: np.ndarray, units: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Σ_u min(1, C_j / Σ_r |g_r|) Σ_r g_r, by brute force: (columns, numbers)."""
    total = np.zeros(each.shape[1:])
    for unit in np.unique(units):
        own = np.where(np.isfinite(each[units == unit]), each[units == unit], 0.0)
        lengths = np.linalg.norm(own, axis=2).sum(axis=0)
        total += (np.minimum(1.0, norms / np.maximum(lengths, 1e-30)) * own.sum(axis=0).T).T
    return total


def flat(sums) -> np.ndarray:
    return np.concatenate([np.asarray(each, np.float64).reshape(2, -1) for each in sums], axis=1)


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
    np.testing.assert_array_equal(after.features[3], before.features[3])
    for one, other in zip(before[1:], after[1:], strict=True):
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
    shape = shape_of(KINDS["numbers"])
    weights, x = weights_of(shape), rows_of(shape, 2)
    x[0, 0] = 2 * np.sqrt(LARGEST_SQUARE)
    fixed = fixed_of(weights, shape)
    found = clipped_sums(derivatives(weights, fixed, x, shape), fixed, np.ones((2, 1), bool), np.ones(2, np.float32))
    alone = clipped(one_by_one(shape, weights, x[1:]), np.zeros(1), np.ones(2))
    np.testing.assert_allclose(flat(found)[0], alone[0], atol=1e-5)


def test_sums_in_blocks_and_in_float64_are_those_in_one():
    shape = shape_of(KINDS["numbers with states"])
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
        np.testing.assert_array_equal(found, np.asarray(add_noise(exact.astype(np.float32), draws, noise.step)))


# Training -------------------------------------------------------------------------------------------------------------


class Kept:
    """A state that keeps the noisy sums and stays as it is."""

    def __init__(self, weights: Weights):
        self.weights, self.seen = weights, []


def keep(state: Kept, slopes):
    state.seen.append(flat(slopes))
    return state


def trained(shape: Shape, *, silent: bool, norms=(0.3, 0.5), rows=200, steps=4):
    """The noisy sums of a training of one part, and its noise."""
    planned = PlannedMechanism(
        name="gradients", mechanism="sampled gaussian", share=1.0, times=steps, sampling_rate=0.25
    )
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-5), [planned])
    x = rows_of(shape, rows)
    locked = lock({name: x[:, i].astype(np.float64) for i, name in enumerate(COLUMNS)}, {}, key=Key.new(0))
    loop = DensityLoop(shape=shape, steps_per_round=2, weights=lambda state: state.weights, update=keep, silent=silent)
    part = Part(loop=loop, state=Kept(weights_of(shape)), columns=COLUMNS, clip_norm=np.array(norms))
    job = Job(rows=locked, ledger=ledger, key=Key.new(7), parts=[part], capacity=256)
    [[state]] = train([job], planned="gradients", what="test")
    return np.array(state.seen), ledger, x


def test_noise_has_the_deviation_that_is_charged():
    shape = shape_of(KINDS["numbers with states"])
    seen, ledger, _ = trained(shape, silent=True, steps=200)
    expected = ledger.noise("gradients") * np.hypot(0.3, 0.5)
    assert seen.std() == pytest.approx(expected, rel=0.05)
    assert abs(seen.mean()) < 5 * expected / np.sqrt(seen.size)


def test_a_step_is_the_clipped_sum_of_its_batch_on_the_grid_plus_the_noise():
    shape, norms = shape_of(KINDS["few states"]), np.array([0.3, 0.5])
    seen, ledger, x = trained(shape, silent=False)
    noise_alone, _, _ = trained(shape, silent=True)
    noise = LatticeNoise.of(
        ledger.noise("gradients") * np.hypot(*norms), clip_norm=float(np.hypot(*norms)), size=shape.size
    )
    each = one_by_one(shape, weights_of(shape), x)
    most = largest_batch(256, 0.25)
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
    shape = shape_of(KINDS["numbers"])
    planned = PlannedMechanism(name="gradients", mechanism="sampled gaussian", share=1.0, times=2, sampling_rate=0.5)
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-5), [planned])
    locked = lock({name: np.zeros(4) for name in COLUMNS}, {}, key=Key.new(0))
    loop = DensityLoop(shape=shape, steps_per_round=2, weights=lambda state: state.weights, update=keep)
    part = Part(loop=loop, state=Kept(weights_of(shape)), columns=COLUMNS, clip_norm=0.5)
    job = Job(rows=locked, ledger=ledger, key=Key.new(7), parts=[part], capacity=256)
    with pytest.raises(ValueError, match="one for each column"):
        train([job], planned="gradients", what="test")
    assert not ledger.receipt().charges
