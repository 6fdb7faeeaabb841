"""Noisy second moments of scores: how far rows are clipped for them, and the nearest correlation matrix.

The one rule: no row comes here. These are functions of what a mechanism has released, and of public numbers.

Source: Higham (2002), "Computing the nearest correlation matrix: a problem from finance".
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A nearest correlation matrix takes this many projections over its width, and at least the second number of them.
WORK = 10_000
FEWEST_ROUNDS = 10


def squared_clip_norm(
    expected: float,
    *,
    noise: float,
    rows: float,
    noise_target: float,
    clip_range: tuple[float, float],
    largest_weighting: float,
) -> float:
    """The square of the norm C that rows are clipped to: as loose as `noise_target` allows, within a range.

    One second moment has noise of deviation noise · C² / √2, so one correlation has noise · C² / (√2 · rows).

    Args:
        expected: The expected squared norm of a row.
        noise: The noise multiplier of the release, for one unit.
        noise_target: The wanted deviation of one correlation.
        clip_range: The least and the largest multiple of `expected`.
        largest_weighting: The sum of the squares of the largest value weightings. It is added to the upper limit,
            because the rows that far out are the ones that value weighting is for.
    """
    wanted = noise_target * math.sqrt(2) * rows / noise
    least, most = clip_range
    return float(np.clip(wanted, least * expected, most * expected + largest_weighting))


def nearest_correlation(
    matrix: Floats, *, smallest: float = 1e-3, rounds: int = 100, tolerance: float | None = 1e-8
) -> Floats:
    """The nearest correlation matrix with eigenvalues of about `smallest` or more, by alternating projections.

    Args:
        matrix: Symmetric up to rounding; its diagonal is taken for 1.
        rounds: The most projections; fewer if the matrix is wide, where one takes longer and ten are enough
            (docs/design-notes.md).
        tolerance: Projections end when the unit diagonal moves no entry by more than this, on average. With None they
            end as soon as a matrix has such eigenvalues already, which leaves a valid matrix as it is to the last bit
            but one and is enough where only an inverse is wanted.
    """
    nearest, correction = (matrix + matrix.T) / 2, np.zeros_like(matrix)
    np.fill_diagonal(nearest, 1.0)
    for _ in range(min(rounds, max(FEWEST_ROUNDS, WORK // len(matrix)))):
        shifted = nearest - correction
        values, vectors = np.linalg.eigh(shifted)
        if tolerance is None and values[0] >= smallest:
            break
        positive = (vectors * np.maximum(values, smallest)) @ vectors.T
        correction = positive - shifted
        nearest = positive.copy()
        np.fill_diagonal(nearest, 1.0)
        if tolerance is not None and np.linalg.norm(nearest - positive) < tolerance * len(nearest):
            break
    return positive_correlation(nearest, smallest=smallest)


def positive_correlation(matrix: Floats, *, smallest: float) -> Floats:
    """A symmetric matrix with its eigenvalues raised to `smallest`, then scaled to a unit diagonal: one projection."""
    values, vectors = np.linalg.eigh(matrix)
    positive = (vectors * np.maximum(values, smallest)) @ vectors.T
    deviations = np.sqrt(np.diag(positive))
    return positive / np.outer(deviations, deviations)
