"""Groups of weights: which rows of W_j belong to which earlier column, and how a group lasso shrinks them.

W_j is the first layer of column j: one row for every feature, then rows for further inputs (noise or a constant), which
are never penalised. W_j^k are the rows that column k's features have in W_j: one group for each earlier column, however
many features it has. `pairs` below are (columns, columns) arrays, [j, k] for the group that k has in W_j.

The one rule: private rows never come here. What is learned of them has gone through a mechanism already.

Sources: the PrAda-GAN paper, section "Adaptive Feature Selection"; Yuan and Lin (2006), "Model selection and estimation
in regression with grouped variables"; Parikh and Boyd (2014), "Proximal algorithms".
"""

import jax
import jax.numpy as jnp
import numpy as np

from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.programs import Array


def groups(layout: Layout, extra: int) -> np.ndarray:
    """The group of every row of W_j: the column it belongs to, and a group of its own for each further input."""
    return np.concatenate([layout.owners, layout.columns + np.arange(extra)])


def masked(rows: Array, layout: Layout) -> jax.Array:
    """W with exact zeros for a column's own features and those of later ones; further inputs are always seen."""
    return jnp.where(layout.seen(rows.shape[1] - layout.features)[:, :, None], rows, 0.0)


def group_norms(rows: Array, layout: Layout) -> jax.Array:
    """‖W_j^k‖ for all pairs; zero unless k comes before j."""
    return jnp.sqrt(group_squares(masked(rows, layout), layout)[:, : layout.columns])


def group_squares(rows: jax.Array, layout: Layout) -> jax.Array:
    """Sums of squares over groups: (columns, columns + further inputs)."""
    extra = rows.shape[1] - layout.features
    empty = jnp.zeros((layout.columns, layout.columns + extra), rows.dtype)
    return empty.at[:, groups(layout, extra)].add(jnp.sum(rows**2, axis=2))


def shrunk(rows: Array, layout: Layout, amount: Array) -> jax.Array:
    """W_j^k · max(0, 1 - amount_jk / ‖W_j^k‖): every group shorter by its amount, and exactly zero below it.

    It is the proximal map of Σ amount_jk ‖W_j^k‖. Further inputs are not penalised.
    """
    norms = group_norms(rows, layout)
    kept = jnp.where(norms > amount, 1.0 - amount / jnp.where(norms > amount, norms, 1.0), 0.0)
    return masked(rows, layout) * to_rows(kept, layout, rows.shape[1], extra=1.0)


def only(rows: Array, pairs: Array, layout: Layout) -> jax.Array:
    """W with exact zeros but for the given pairs and the further inputs.

    A second training keeps the parents of the first by applying this to the weights after every step.
    """
    return masked(rows, layout) * to_rows(jnp.asarray(pairs).astype(rows.dtype), layout, rows.shape[1], extra=1.0)


def to_rows(pairs: jax.Array, layout: Layout, height: int, *, extra: float) -> jax.Array:
    """A number for each pair, repeated for every row of W, and `extra` for further inputs: (columns, height, 1)."""
    padding = jnp.full((layout.columns, height - layout.features), extra, pairs.dtype)
    return jnp.concatenate([pairs[:, layout.owners], padding], axis=1)[:, :, None]
