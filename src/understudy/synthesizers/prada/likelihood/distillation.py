"""Distillation: densities trained on weighted rows of a pool, without noise.

The one rule: a pool is public, so this training is post-processing and costs nothing.

Sources: Hinton, Vinyals and Dean (2015), arXiv:1503.02531; Kingma and Ba (2015), arXiv:1412.6980, for Adam.
"""

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import in_threads
from understudy.privacy.densities import Floats, Weights, fixed_of
from understudy.synthesizers.prada.likelihood.parts import Part
from understudy.synthesizers.prada.likelihood.slopes import Learned, slope

BATCH = 256
"""A step draws this many rows of the pool."""
DECAYS = (0.9, 0.99)
"""Adam's running means decay by these factors: shorter than under noise, since there is none."""
OF_NUMBERS = 2
"""Numbers take this many times the steps: a mixture needs them, and categories would learn the pool by heart."""
LEAST = 1e-8
"""Adam divides by a root mean square that is this much larger."""


def distil(
    parts: list[tuple[Part, Weights, NDArray[np.float32]]],
    row_weights: NDArray[np.float64],
    *,
    steps: int,
    rate: float,
    draw: np.random.Generator,
) -> list[Weights]:
    """Weights of parts that are trained further on rows of a pool, which are drawn in proportion to their weights.

    Args:
        parts: Of each part, its weights and what it reads of the pool (`Part.rows`).
        rate: The length of the first steps; later ones are shorter, down to zero.
    """
    drawn = _batches(row_weights, OF_NUMBERS * steps, draw)

    def run(given: tuple[Part, Weights, NDArray[np.float32]]) -> Weights:
        part, weights, rows = given
        own = drawn if part.shape.number else drawn[:steps]
        learned = _train(weights, rows, own, rate, part)
        return weights._replace(**learned._asdict())

    # What a step does in one operation, on average: threads pay off if it is much.
    length = BATCH * sum(part.shape.columns for part, _, _ in parts) // max(len(parts), 1)
    return in_threads(run, parts, length=length)


def _batches(row_weights: NDArray[np.float64], steps: int, draw: np.random.Generator) -> NDArray[np.int64]:
    """Rows of every batch, (steps, BATCH): each stratified, so that a batch is as even as can be."""
    levels = np.cumsum(row_weights) / np.sum(row_weights)
    places = (np.arange(BATCH) + draw.random((steps, BATCH))) / BATCH
    return np.minimum(np.searchsorted(levels, places), len(levels) - 1)


def _train(weights: Weights, rows: Floats, drawn: NDArray[np.int64], rate: float, part: Part) -> Learned:
    """Adam, with steps whose length falls from the rate to zero as a cosine does."""
    learned = Learned(*(np.array(value, np.float32) for value in weights[:4]))
    fixed, current = fixed_of(weights, part.shape), weights._replace(**learned._asdict())
    means = [(np.zeros_like(each), np.zeros_like(each)) for each in learned]
    for i, batch in enumerate(drawn):
        length = rate * 0.5 * (1.0 + np.cos(np.pi * i / len(drawn)))
        one, other = (1.0 - decay ** (i + 1) for decay in DECAYS)
        length, least = np.float32(length * np.sqrt(other) / one), np.float32(LEAST * np.sqrt(other))
        slopes = slope(current, fixed, rows[batch], part.shape)
        for weight, found, (mean, square) in zip(learned, slopes, means, strict=True):
            if weight.size:
                mean += np.float32(1.0 - DECAYS[0]) * (found - mean)
                square += np.float32(1.0 - DECAYS[1]) * (found * found - square)
                weight += length * mean / (np.sqrt(square) + least)
    return learned
