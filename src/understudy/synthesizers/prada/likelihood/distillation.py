"""Distillation: densities trained on weighted rows of a pool, without noise.

The one rule: a pool is public, so this training is post-processing and costs nothing.

Sources: Hinton, Vinyals and Dean (2015), arXiv:1503.02531; Kingma and Ba (2015), arXiv:1412.6980, for Adam.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from numpy.typing import NDArray

from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.likelihood.density import Densities, log_density, used_inputs
from understudy.synthesizers.prada.likelihood.training import Layers
from understudy.synthesizers.prada.programs import Array, runs_once

BATCH = 512
"""A step draws this many rows of the pool."""
DECAYS = (0.9, 0.99)
"""Adam's running means decay by these factors: shorter than under noise, since there is none."""


def distil(
    params: Densities,
    features: NDArray[np.float32],
    weights: NDArray[np.float64],
    *,
    steps: int,
    rate: float,
    key: jax.Array,
    layout: Layout,
    components: int,
) -> Densities:
    """Densities that are trained further on rows of a pool, which are drawn in proportion to their weights.

    Args:
        features: (features, rows).
        weights: (rows,).
        rate: The length of the first steps; later ones are shorter, down to zero.
    """
    levels = (np.cumsum(weights) / np.sum(weights)).astype(np.float32)
    layers = _train(
        params, features, levels, np.asarray(steps, np.int32), np.asarray(rate, np.float32), key, layout, components
    )
    return params._replace(first=np.asarray(layers.first), second=np.asarray(layers.second))


@runs_once("layout", "components")
def _train(
    params: Densities,
    features: Array,
    levels: Array,
    steps: Array,
    rate: Array,
    key: jax.Array,
    layout: Layout,
    components: int,
) -> Layers:
    used, adam = used_inputs(params.sources), optax.scale_by_adam(b1=DECAYS[0], b2=DECAYS[1])
    rows = jnp.asarray(features).T  # a row is read at once

    def loss(layers: Layers, x: jax.Array) -> jax.Array:
        return -jnp.sum(jnp.mean(log_density(params._replace(**layers._asdict()), x, layout, components), axis=1))

    def step(i: jax.Array, carry: tuple[Layers, optax.OptState]) -> tuple[Layers, optax.OptState]:
        layers, memory = carry
        places = (jnp.arange(BATCH) + jax.random.uniform(jax.random.fold_in(key, i), (BATCH,))) / BATCH
        drawn = jnp.minimum(jnp.searchsorted(levels, places), len(rows) - 1)
        slope: Layers = jax.grad(loss)(layers, rows[drawn].T)
        direction, memory = adam.update(slope._replace(first=jnp.where(used, slope.first, 0.0)), memory)
        length = rate * 0.5 * (1.0 + jnp.cos(jnp.pi * i / steps))
        return jax.tree.map(lambda weight, move: weight - length * move, layers, direction), memory

    layers = Layers(jnp.asarray(params.first), jnp.asarray(params.second))
    layers, _ = lax.fori_loop(0, steps, step, (layers, adam.init(layers)))
    return layers
