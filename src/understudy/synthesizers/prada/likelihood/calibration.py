"""Calibrating marginals: generated columns get exactly the distributions that the encoder measured.

In generation order, the scores of a number go through the monotone map that makes the generated ones standard normal,
as real scores are, and categories get constants that give them their measured shares. Later columns then see what they
were trained on. Where pairs of columns were counted (pair_counts.py), the later one's categories also get linear
weights that bring the counts about.

The one rule: no private row comes here. Marginals are calibrated on generated rows, to released numbers.

Source: Della Pietra, Della Pietra and Lafferty (1997), "Inducing features of random fields".
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr

from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.likelihood.density import Densities
from understudy.synthesizers.prada.likelihood.drawing import (
    Calibrated,
    Column,
    draw_column,
    quantiles,
    scan_columns,
    to_block,
    to_normal,
)
from understudy.synthesizers.prada.likelihood.pair_counts import PairCounts
from understudy.synthesizers.prada.programs import Array, runs_once

SHARE_ROUNDS = 6
"""The shares of categories are calibrated in this many rounds; each about squares the error."""
PAIR_ROUNDS = 30
"""Pair counts are calibrated in this many rounds."""


class _Measured(NamedTuple):
    """What was released of every column."""

    shares: Array  # (columns, width)
    pairs: PairCounts | None


@runs_once("layout", "components", "n")
def calibrate_marginals(
    params: Densities,
    shares: Array,
    limit: Array,
    key: jax.Array,
    layout: Layout,
    components: int,
    n: int,
    pairs: PairCounts | None = None,
) -> tuple[Calibrated, jax.Array]:
    """Calibrates every column on `n` generated rows: the knots of its scores, and constants of its categories.

    Constants go into `second`, weights for pair counts into `first` (`pair_weights`).

    Args:
        shares: The measured shares of the categories: (columns, width).
        limit: Scores are kept within ± this.

    Returns:
        The calibrated densities, and the rows: (features, n).
    """
    levels = ndtr(jnp.asarray(quantiles()))

    def step(x: jax.Array, column: Column, measured: _Measured):
        drawn = draw_column(column, x, layout, components)
        logits, constants, tilt = drawn.logits, jnp.zeros(layout.width), jnp.zeros(())
        if measured.pairs is not None and logits is not None:
            tilt = pair_weights(x, logits, measured.pairs, column.is_category, layout)
            logits = logits + tilt.T @ x
        if logits is not None:
            constants = _share_constants(logits, measured.shares, column.is_category)
            logits = logits + constants[:, None]
        knots = jnp.quantile(drawn.score, levels)
        knots = knots + 1e-5 * jnp.arange(len(knots))  # ascending, whatever was drawn
        score = to_normal(drawn.score, knots, limit)
        return to_block(drawn._replace(score=score, logits=logits), column, layout), (knots, constants, tilt)

    x, (knots, constants, tilt) = scan_columns(step, params, _Measured(shares, pairs), layout, key, n)
    first, second = jnp.asarray(params.first), jnp.asarray(params.second)
    if layout.has_categories.any():
        second = second.at[:, -1, -layout.width :].add(constants)
    if pairs is not None:
        first = first.at[:, : layout.features, -layout.width :].add(tilt)
    return Calibrated(first, second, params.unit, knots), x


def _share_constants(logits: jax.Array, shares: Array, is_category: jax.Array) -> jax.Array:
    """Constants that give a column's categories their shares in the generated rows: (width,)."""
    wanted = jnp.where(is_category, jnp.log(jnp.maximum(shares, 1e-6)), 0.0)

    def one_round(_, constants):
        made = jnp.mean(jax.nn.softmax(logits + constants[:, None], axis=0), axis=1)
        move = jnp.clip(wanted - jnp.log(jnp.maximum(made, 1e-9)), -3.0, 3.0)
        return jnp.where(is_category, constants + move, 0.0)

    return lax.fori_loop(0, SHARE_ROUNDS, one_round, jnp.zeros(len(logits)))


def pair_weights(
    x: jax.Array, logits: jax.Array, counts: PairCounts, is_category: jax.Array, layout: Layout
) -> jax.Array:
    """Linear weights of a column's categories by earlier features that bring its pair counts about: (features, width).

    Let q be the shares of a pair's cells as they are generated, and t as they were counted, with noise τ and without
    what they say of the earlier column alone, which is given. If the true shares lie about q with variance ω q, then
    t - q(w) = λ w with λ = τ² / ω has the most likely weights w, to first order: a difference within the noise is left
    as it is. ω is each pair's own, from how much farther t is from q than its noise is. Steps are Newton's by the
    diagonal alone, divided among the pairs of the column.

    Args:
        counts: Of one column: `target` (features, width) and `noise` (features,).
    """
    known = (counts.noise > 0)[:, None] & is_category[None, :]
    owner, widths = jnp.asarray(layout.owners), np.bincount(layout.owners)
    nothing = jnp.zeros((layout.features, layout.width))

    def of_pairs(cells):
        by_feature = jnp.sum(jnp.where(known, cells, 0.0), axis=1)
        return jax.ops.segment_sum(by_feature, owner, layout.columns)[owner]

    def made(weights):
        return x @ jax.nn.softmax(logits + weights.T @ x, axis=0).T / x.shape[1]

    def off(q):
        r = jnp.where(known, counts.target - q, 0.0)
        return r - q * jnp.sum(r, axis=1, keepdims=True) / jnp.maximum(jnp.sum(q, axis=1, keepdims=True), 1e-9)

    def found():
        q, noise = made(nothing), counts.noise[:, None] ** 2
        away = of_pairs(off(q) ** 2 - noise) / (of_pairs(q) + 1e-12)
        stiff = noise / jnp.maximum(away, 1e-9)[:, None]
        pairs = jnp.sum(known.any(axis=1) / widths[layout.owners])

        def step(_, weights):
            q = made(weights)
            move = (off(q) - stiff * weights) / (jnp.maximum(q, 1e-6) + stiff) / pairs
            return weights + jnp.where(known, jnp.clip(move, -1.0, 1.0), 0.0)

        return lax.fori_loop(0, PAIR_ROUNDS, step, nothing)

    return lax.cond(known.any(), found, lambda: nothing)
