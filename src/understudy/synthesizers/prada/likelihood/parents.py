"""Parents: which earlier columns a column may read, how much it takes from each, and which are cut in the end.

A pair [j, k] of the (columns, columns) arrays below is what column j has of the earlier column k. `sources` say which
feature every input of a column reads (density.py).

The one rule: no private row comes here. Everything is measured on public rows.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.likelihood.density import Densities, log_density
from understudy.synthesizers.prada.programs import Array, runs_once

FEW_NATS = 0.02
"""Inputs that are cut may cost a column this much, however little it takes from all of them."""
INPUTS_AT_A_TIME = 8
"""Numbers of inputs are rounded up to a multiple of this, so that fits of one table share compiled programs."""

Pairs = NDArray[np.bool_]

# Before the training -------------------------------------------------------------------------------------------------


def candidate_parents(codes: dict[str, NDArray[np.int64]], weights: NDArray, layout: Layout, most: int) -> Pairs:
    """The earlier columns that each column may read: at most `most`, those it shares most information with.

    Args:
        codes: The bin of every row of a pool, by column.
        weights: Of the rows.
    """
    pairs = np.tril(np.ones((layout.columns, layout.columns), bool), -1)
    if layout.columns - 1 <= most:
        return pairs
    nats = np.where(pairs, mutual_information([codes[name] for name in layout.names], weights), -1.0)
    ranks = np.argsort(np.argsort(-nats, axis=1, kind="stable"), axis=1)
    return pairs & (ranks < most)


def mutual_information(codes: list[NDArray[np.int64]], weights: NDArray) -> NDArray[np.float64]:
    """Σ p_ab log(p_ab / p_a p_b) of every two columns of weighted codes, in nats: (columns, columns).

    All tables of two columns come out of one product of one-hot matrices.
    """
    from scipy import sparse

    sizes = [int(each.max()) + 1 for each in codes]
    starts = np.cumsum([0, *sizes])
    rows, places = (
        np.tile(np.arange(len(weights)), len(codes)),
        np.concatenate([each + start for each, start in zip(codes, starts[:-1], strict=True)]),
    )
    one_hot = sparse.csr_matrix((np.ones(len(rows)), (rows, places)), shape=(len(weights), starts[-1]))
    joint = np.asarray((one_hot.T @ one_hot.multiply((weights / weights.sum())[:, None]).tocsr()).todense())
    single = np.diag(joint)
    ratio = joint / np.maximum(np.outer(single, single), 1e-300)
    nats = joint * np.log(np.where(joint > 0, ratio, 1.0))
    return np.add.reduceat(np.add.reduceat(nats, starts[:-1], axis=0), starts[:-1], axis=1)


def sources_of(pairs: Pairs, layout: Layout) -> NDArray[np.int32]:
    """The feature that every input of a column reads, -1 for none: (columns, inputs)."""
    read = [np.flatnonzero(pairs[j, layout.owners]) for j in range(layout.columns)]
    most = max(max(map(len, read)), 1)
    found = np.full((layout.columns, -(-most // INPUTS_AT_A_TIME) * INPUTS_AT_A_TIME), -1, np.int32)
    for row, features in zip(found, read, strict=True):
        row[: len(features)] = features
    return found


# While training -----------------------------------------------------------------------------------------------------


def group_norms(first: Array, sources: Array, layout: Layout) -> jax.Array:
    """The norm of the weights of every pair; zero where nothing is read: (columns, columns)."""
    squares = jnp.sum(jnp.asarray(first)[:, :-1] ** 2, axis=2)
    empty = jnp.zeros((layout.columns, layout.columns + 1), squares.dtype)
    found = empty.at[jnp.arange(layout.columns)[:, None], _owners(sources, layout)].add(squares)
    return jnp.sqrt(found[:, : layout.columns])


def shrink_groups(first: Array, sources: Array, layout: Layout, amount: Array) -> jax.Array:
    """W_j^k · max(0, 1 - amount_jk / ‖W_j^k‖): every group shorter by its amount, and exactly zero below it.

    It is the proximal map of Σ amount_jk ‖W_j^k‖. Constants are not penalised.
    """
    norms = group_norms(first, sources, layout)
    kept = jnp.where(norms > amount, 1.0 - amount / jnp.where(norms > amount, norms, 1.0), 0.0)
    kept = jnp.concatenate([kept, jnp.zeros((layout.columns, 1), kept.dtype)], axis=1)
    factor = jnp.take_along_axis(kept, _owners(sources, layout), axis=1)
    return jnp.concatenate([first[:, :-1] * factor[:, :, None], first[:, -1:]], axis=1)


def _owners(sources: Array, layout: Layout) -> jax.Array:
    """The column that every input reads, `layout.columns` for none: (columns, inputs)."""
    owners = jnp.asarray(np.append(layout.owners, layout.columns))
    return owners[jnp.where(jnp.asarray(sources) >= 0, sources, layout.features)]


# After it -----------------------------------------------------------------------------------------------------------


@runs_once("layout", "components")
def influences(params: Densities, x: Array, key: jax.Array, layout: Layout, components: int) -> jax.Array:
    """How much every column takes from each earlier one, √(nats lost when that one is drawn anew): (columns, columns).

    E[log p(x_j | x_k, others) - log p(x_j | x_k', others)] with x_k' another row's: what the density of j makes of k,
    through all its layers. For x_j ~ N(w x_k, s²) it is (w / s)², so that the root is in deviations of what is left.

    Args:
        x: Generated rows to measure on, (features, rows).
    """
    x = jnp.asarray(x)
    before = jnp.mean(log_density(params, x, layout, components), axis=1)

    def without(k, key):
        shuffled = x[:, jax.random.permutation(key, x.shape[1])]
        given = jnp.where((jnp.asarray(layout.owners) == k)[:, None], shuffled, x)
        found = log_density(params, x, layout, components, given=given)
        reads = jnp.any(_owners(params.sources, layout) == k, axis=1)
        return jnp.where(reads, before - jnp.mean(found, axis=1), 0.0)  # of others rounding errors would be left

    _, lost = lax.scan(
        lambda _, at: (None, without(*at)), None, (jnp.arange(layout.columns), jax.random.split(key, layout.columns))
    )
    return jnp.sqrt(jnp.maximum(lost.T, 0.0))


def prune_parents(influences: NDArray, share: float, weights: NDArray | float = 1.0) -> Pairs:
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


def cut_inputs(params: Densities, pairs: Pairs, means: NDArray, layout: Layout) -> Densities:
    """Densities that read these pairs alone; the mean of what is cut goes into the constant."""
    first, sources = np.array(params.first, np.float32), np.array(params.sources, np.int32)
    owners = np.append(layout.owners, 0)[sources]
    cut = (sources >= 0) & ~np.take_along_axis(pairs, owners, axis=1)
    lost = np.where(cut, np.append(means, 0.0)[sources], 0.0)
    first[:, -1] += np.einsum("di,dio->do", lost, first[:, :-1])
    first[:, :-1][cut] = 0.0
    sources[cut] = -1
    return params._replace(first=first, sources=sources)
