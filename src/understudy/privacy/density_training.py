"""Trainings of densities, in NumPy: one part on each core.

The one rule: rows meet the derivatives of densities.py, which is in this folder, and nothing else. What leaves are
clipped sums with noise on them. gradients.py has the promise, and clipping.py says what clipping does.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import in_threads
from understudy.privacy.batches import draw_round, largest_batch, pad_rows
from understudy.privacy.densities import (
    DensityLoop,
    Derivatives,
    Fixed,
    Floats,
    Slopes,
    Weights,
    derivatives_at,
    draw_own,
    fixed_of,
    layers,
    own_of,
    plain_weights,
    slopes_of,
)
from understudy.privacy.lattice_noise import LatticeNoise, rounded_sum
from understudy.privacy.summation import summation_blocks
from understudy.privacy.training import Count, Training

# A row one of whose factors has a squared norm of this or more counts as zero.
LARGEST_SQUARE = 2.0**44


def train_densities(trainings: Sequence[Training[Any]], capacity: int, count: Count) -> list[Any]:
    """The last state of each training; the longest begin first."""

    def run(number: int) -> Any:
        return _train(trainings[number], capacity, count)

    order = sorted(range(len(trainings)), key=lambda i: -trainings[i].network.size * trainings[i].steps)
    done = dict(zip(order, in_threads(run, order), strict=True))
    return [done[i] for i in range(len(trainings))]


def _train(training: Training[Any], capacity: int, count: Count) -> Any:
    loop, state, size = training.part.loop, training.part.state, training.network.size
    assert isinstance(loop, DensityLoop)
    padded = pad_rows(training.job.rows, training.part.columns, capacity)
    padded.exact[:, loop.shape.features] = 1.0
    most, steps = largest_batch(padded.exact_places, training.rate), loop.steps_per_round
    fixed = fixed_of(plain_weights(loop.weights(state), loop.shape), loop.shape)
    for number in range(training.rounds):
        places, drawn, noise = draw_round(
            training.key,
            number,
            training.rate,
            training.noise,
            padded.exact_count,
            part=training.number,
            steps=steps,
            most=most,
            size=size,
            among=padded.numbers,
        )
        draw = training.key.child(f"round {number}").child(f"part {training.number}").child("contrasts").numpy()
        members = padded.units[places]  # (steps, units, rows of a unit)
        inside = drawn[:, :, None] & (members < len(padded.exact) - 1)
        for step in range(steps):
            x = padded.exact[members[step].ravel()]
            weights = plain_weights(loop.weights(state), loop.shape)
            with np.errstate(all="ignore"):
                slopes = row_slopes(loop, weights, fixed, x, training.clip_norm, draw)
                exact_sums = clipped_sums(slopes, fixed, inside[step], training.clip_norm)
            if loop.silent:
                exact_sums = Slopes(*(np.zeros_like(each) for each in exact_sums))
            state = loop.update(state, _noisy(exact_sums, noise[step], training.noise))
        count.add(steps)
    return state


def row_slopes(
    loop: DensityLoop, weights: Weights, fixed: Fixed, x: Floats, clip_norms: Floats, draw: np.random.Generator
) -> Derivatives:
    """The derivatives of every row or, with contrasts, those of its clipped slope minus that of rows that are drawn.

    Clipped slopes do not vanish on average where a density is right: clipping takes most from the rows that it finds
    surprising. Those of rows that it draws itself, given the same inputs, do not vanish either, and in the same way. So
    the difference vanishes on average where a density is right, whatever the inputs of the rows are like.

    Args:
        x: Rows, as `densities.derivatives` reads them.
        clip_norms: What slopes are clipped to before one is subtracted from the other: (columns,).

    Privacy:
        Releases nothing, and bounds nothing: `clipped_sums` clips what comes out of it. What is made of a row depends
        on that row, on the weights, and on numbers that are drawn for its place without looking at any row. One more
        unit fills an empty place (`batches.shuffled`), so all others are contrasted with the same as without it.
    """
    made = layers(weights, fixed, x[:, : loop.shape.features + 1], loop.shape)
    slopes = derivatives_at(weights, fixed, made, *own_of(x, loop.shape), loop.shape)
    if loop.contrasts:
        _clip_rows(slopes, fixed, clip_norms)
    for _ in range(loop.contrasts):
        own, state = draw_own(weights, fixed, made, loop.shape, draw)
        others = derivatives_at(weights, fixed, made, own, state, loop.shape)
        _clip_rows(others, fixed, clip_norms, part=1.0 / loop.contrasts)
        for ours, theirs in zip(_factors(slopes), _factors(others), strict=True):
            ours -= theirs
    return slopes


def _clip_rows(made: Derivatives, fixed: Fixed, clip_norms: Floats, *, part: float = 1.0) -> None:
    """Makes the gradient g of every row part · min(1, C_j / |g|) · g, in place."""
    norms = np.sqrt(_squared_norms(made, fixed)[0])
    scale = np.float32(part) * np.minimum(clip_norms[:, None] / np.maximum(norms, np.float32(1e-30)), np.float32(1.0))
    for factor in _factors(made):
        factor *= scale[:, None, :]


def clipped_sums(made: Derivatives, fixed: Fixed, inside: NDArray[np.bool_], clip_norms: Floats) -> Slopes:
    """Σ_u c_u Σ_r g_r of every column, with c_u = min(1, C_j / Σ_r |g_r|).

    The gradient g_r of a row with respect to a layer is an outer product a ⊗ δ of what the layer is given and of the
    derivative by what it makes, so its squared norm is |a|² |δ|², and that by both layers their sum.

    Args:
        made: Of the rows of a batch, whose inputs are finite (`pad_rows`). Its derivatives are changed.
        inside: (units, rows of a unit): which places hold a row.
        clip_norms: (columns,).

    Returns:
        In float32, or in float64 if there are thousands of rows.

    Privacy:
        Releases nothing by itself: the sums have no noise. But for rounding (`summation.usable_part`), adding or
        removing one unit changes the sums of column j by at most C_j in L2 norm, over both layers together, and those
        of all columns by at most √Σ C_j²: the norm of a unit's gradient is at most the sum of its rows' norms, and it
        is that sum which is clipped. A row whose gradient is not finite, or one of whose factors has a squared norm of
        LARGEST_SQUARE or more, counts as zero, since an error would be a release. So what squares lose that are too
        small for float32, below 2^-126 each, is below 2^-126 · 2^44 · 2^20 of a squared norm, and below the last bit of
        C_j² >= 2^-41.
    """
    squares, usable = _squared_norms(made, fixed)
    finite = usable & inside.ravel()[None, :]
    norms = np.sqrt(np.where(finite, squares, np.float32(0.0))).reshape(len(clip_norms), *inside.shape)
    of_unit = norms.sum(axis=2, keepdims=True)
    scale = np.minimum(np.float32(1.0), clip_norms[:, None, None] / np.maximum(of_unit, np.float32(1e-30)))
    weights = np.broadcast_to(scale, norms.shape).reshape(finite.shape) * finite
    for factor in _factors(made):
        factor *= weights[:, None, :]
    if not usable.all():  # else a weight of zero makes zero of what is not counted
        for factor in (made.hidden, *_factors(made)):
            np.copyto(factor, np.float32(0.0), where=~finite[:, None, :])
    return _summed(made, fixed, summation_blocks(*inside.shape))


def _factors(made: Derivatives) -> tuple[Floats, Floats, Floats]:
    return made.by_hidden, made.by_linear, made.by_second


def _squared_norms(made: Derivatives, fixed: Fixed) -> tuple[Floats, NDArray[np.bool_]]:
    """The squared norm of the gradient of every row, and whether it can be counted: (columns, rows)."""
    of_inputs = _squares(made.read) if made.read.ndim == 3 else fixed.reads @ np.square(made.read).T
    by_first, by_second = _squares(made.by_hidden) + _squares(made.by_linear), _squares(made.by_second)
    squares = of_inputs * by_first + (_squares(made.hidden) + np.float32(1.0)) * by_second
    small = np.maximum(np.maximum(of_inputs, by_first), by_second) < np.float32(LARGEST_SQUARE)
    return squares, small & np.isfinite(squares)


def _squares(factor: Floats) -> Floats:
    """The squared norm of every row: (columns, rows)."""
    return np.einsum("dfr,dfr->dr", factor, factor)


def _summed(made: Derivatives, fixed: Fixed, blocks: int) -> Slopes:
    """The sums over rows, added up in so many blocks of rows; with none in float64."""
    if not blocks:
        return slopes_of(Derivatives(*(each.astype(np.float64) for each in made)), fixed)
    return slopes_of(made, fixed, blocks=blocks)


def _noisy(exact_sums: Slopes, noise: NDArray[np.int32], grid: LatticeNoise) -> list[Floats]:
    """Sums on the grid, with the noise of a step."""
    ends = np.cumsum([layer.size for layer in exact_sums])[:-1].tolist()
    parts = zip(exact_sums, np.split(noise, ends), strict=True)
    return [rounded_sum(layer, part, grid.step) for layer, part in parts]
