"""Parents: how much every column takes from each earlier one, and which inputs are cut in the end.

The one rule: no private row comes here. Influences are measured on generated rows.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.likelihood.density import Densities, log_density
from understudy.synthesizers.prada.programs import runs_once

FEW_NATS = 0.02
"""Inputs that are cut may cost a column this much, however little it takes from all of them."""


@runs_once("layout", "components")
def influences(params: Densities, x: jax.Array, key: jax.Array, layout: Layout, components: int) -> jax.Array:
    """How much every column takes from each earlier one, √(nats lost when that one is drawn anew): (columns, columns).

    E[log p(x_j | x_k, others) - log p(x_j | x_k', others)] with x_k' another row's: what the density of j makes of k,
    through all its layers. For x_j ~ N(w x_k, s²) it is (w / s)², so that the root is in deviations of what is left.

    Args:
        x: Generated rows to measure on, (features, rows).
    """
    before = jnp.mean(log_density(params, x, layout, components), axis=1)

    def without(k, key):
        shuffled = x[:, jax.random.permutation(key, x.shape[1])]
        given = jnp.where((jnp.asarray(layout.owners) == k)[:, None], shuffled, x)
        found = log_density(params, x, layout, components, given=given)
        return jnp.where(jnp.arange(layout.columns) > k, before - jnp.mean(found, axis=1), 0.0)

    _, lost = lax.scan(
        lambda _, at: (None, without(*at)), None, (jnp.arange(layout.columns), jax.random.split(key, layout.columns))
    )
    return jnp.sqrt(jnp.maximum(lost.T, 0.0))


def prune_parents(influences: NDArray, share: float, weights: NDArray | float = 1.0) -> NDArray[np.bool_]:
    """Which pairs stay: of every column, all but the weakest inputs that hold a `share` of its nats between them.

    What a column takes from its inputs is Σ influence², in nats. The weakest are cut one after the other, as long as
    all that are cut held no more than the share of it, or `FEW_NATS`; of a column whose nats count w times, the w-th
    part of that. With a share of 0 every input stays.
    """
    nats = np.asarray(influences, np.float64) ** 2
    order = np.argsort(nats, axis=1, kind="stable")
    held = np.cumsum(np.take_along_axis(nats, order, axis=1), axis=1)
    most = np.maximum(share * held[:, -1:], FEW_NATS) / np.reshape(weights, (-1, 1)) if share > 0 else 0.0
    kept = np.zeros(nats.shape, bool)
    np.put_along_axis(kept, order, held > most, axis=1)
    return kept & (nats > 0)


def cut_inputs(first: NDArray, pairs: NDArray[np.bool_], means: NDArray, layout: Layout) -> NDArray[np.float32]:
    """First layers with exact zeros for columns that are no parents; the mean of what is cut goes into the constant."""
    kept = np.concatenate([pairs[:, layout.owners], np.ones((layout.columns, 1), bool)], axis=1)[:, :, None]
    lost = np.where(kept, 0.0, first)
    cut = np.where(kept, first, 0.0)
    cut[:, -1] += np.einsum("f,dfo->do", means, lost[:, :-1])
    return cut.astype(np.float32)
