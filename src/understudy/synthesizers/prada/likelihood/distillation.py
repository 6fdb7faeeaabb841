"""Distillation: densities trained on weighted rows of a pool, without noise.

The one rule: a pool is public, so this training is post-processing and costs nothing.

Sources: Hinton, Vinyals and Dean (2015), arXiv:1503.02531; Kingma and Ba (2015), arXiv:1412.6980, for Adam.
"""

import concurrent.futures
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from numpy.typing import NDArray

from understudy.core.processors import cores
from understudy.synthesizers.prada.likelihood.density import log_density, used_inputs
from understudy.synthesizers.prada.likelihood.parts import Part, Shape, Weights
from understudy.synthesizers.prada.programs import Array, runs_once

BATCH = 512
"""A step draws this many rows of the pool."""
DECAYS = (0.9, 0.99)
"""Adam's running means decay by these factors: shorter than under noise, since there is none."""


class Learned(NamedTuple):
    """What a distillation trains."""

    first: Array
    second: Array
    places: Array
    bias: Array


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
    drawn = _batches(row_weights, steps, draw)

    def run(part: Part, weights: Weights, rows: NDArray[np.float32]) -> Weights:
        learned = _train(weights, np.ascontiguousarray(rows.T), drawn, np.asarray(rate, np.float32), part.shape)
        return weights._replace(**{name: np.asarray(value) for name, value in learned._asdict().items()})

    with concurrent.futures.ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(lambda each: run(*each), parts))


def _batches(row_weights: NDArray[np.float64], steps: int, draw: np.random.Generator) -> NDArray[np.int32]:
    """Rows of every batch, (steps, BATCH): each stratified, so that a batch is as even as can be."""
    levels = np.cumsum(row_weights) / np.sum(row_weights)
    places = (np.arange(BATCH) + draw.random((steps, BATCH))) / BATCH
    return np.minimum(np.searchsorted(levels, places), len(levels) - 1).astype(np.int32)


@runs_once("shape")
def _train(weights: Weights, rows: Array, drawn: Array, rate: Array, shape: Shape) -> Learned:
    used, adam = used_inputs(weights.sources), optax.scale_by_adam(b1=DECAYS[0], b2=DECAYS[1])
    rows, drawn = jnp.asarray(rows), jnp.asarray(drawn)
    steps = len(drawn)

    def loss(learned: Learned, x: jax.Array) -> jax.Array:
        return -jnp.sum(jnp.mean(log_density(weights._replace(**learned._asdict()), x, shape), axis=1))

    def step(i: jax.Array, carry: tuple[Learned, optax.OptState]) -> tuple[Learned, optax.OptState]:
        learned, memory = carry
        slope: Learned = jax.grad(loss)(learned, rows[drawn[i]].T)
        direction, memory = adam.update(slope._replace(first=jnp.where(used, slope.first, 0.0)), memory)
        length = rate * 0.5 * (1.0 + jnp.cos(jnp.pi * i / steps))
        return jax.tree.map(lambda weight, move: weight - length * move, learned, direction), memory

    learned = Learned(*(jnp.asarray(value) for value in weights[:4]))
    learned, _ = lax.fori_loop(0, steps, step, (learned, adam.init(learned)))
    return learned
