"""Calibrating marginals: generated columns get exactly the distributions that the encoder measured.

In generation order, the scores of a number go through the monotone map that makes the generated ones standard normal,
as real scores are, and categories get constants that give them their measured shares. Later columns then see what they
were trained on.

The one rule: no private row comes here. Marginals are calibrated on generated rows, to released numbers.
"""

import jax
import jax.numpy as jnp
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
from understudy.synthesizers.prada.programs import Array, runs_once

SHARE_ROUNDS = 6
"""The shares of categories are calibrated in this many rounds; each about squares the error."""


@runs_once("layout", "components", "n")
def calibrate_marginals(
    params: Densities,
    shares: Array,
    limit: Array,
    key: jax.Array,
    layout: Layout,
    components: int,
    n: int,
) -> tuple[Calibrated, jax.Array]:
    """Calibrates every column on `n` generated rows: the knots of its scores, and constants of its categories.

    Constants go into `second`.

    Args:
        shares: The measured shares of the categories: (columns, width).
        limit: Scores are kept within ± this.

    Returns:
        The calibrated densities, and the rows: (features, n).
    """
    levels = ndtr(jnp.asarray(quantiles()))

    def step(x: jax.Array, column: Column, shares: jax.Array):
        drawn = draw_column(column, x, layout, components)
        logits, constants = drawn.logits, jnp.zeros(layout.width)
        if logits is not None:
            constants = _share_constants(logits, shares, column.is_category)
            logits = logits + constants[:, None]
        knots = jnp.quantile(drawn.score, levels)
        knots = knots + 1e-5 * jnp.arange(len(knots))  # ascending, whatever was drawn
        score = to_normal(drawn.score, knots, limit)
        return to_block(drawn._replace(score=score, logits=logits), column, layout), (knots, constants)

    x, (knots, constants) = scan_columns(step, params, jnp.asarray(shares), layout, key, n)
    second = jnp.asarray(params.second)
    if layout.has_categories.any():
        second = second.at[:, -1, -layout.width :].add(constants)
    return Calibrated(params.first, second, params.unit, params.sources, knots), x


def _share_constants(logits: jax.Array, shares: Array, is_category: jax.Array) -> jax.Array:
    """Constants that give a column's categories their shares in the generated rows: (width,)."""
    wanted = jnp.where(is_category, jnp.log(jnp.maximum(shares, 1e-6)), 0.0)

    def one_round(_, constants):
        made = jnp.mean(jax.nn.softmax(logits + constants[:, None], axis=0), axis=1)
        move = jnp.clip(wanted - jnp.log(jnp.maximum(made, 1e-9)), -3.0, 3.0)
        return jnp.where(is_category, constants + move, 0.0)

    return lax.fori_loop(0, SHARE_ROUNDS, one_round, jnp.zeros(len(logits)))
