"""The densities of columns in JAX, as a formula: what privacy/densities.py is held against.

Rows are the last axis here.
"""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from understudy.privacy.densities import HALF, MIDDLE, NEVER, Shape, Weights


def log_density(weights: Weights, x: jax.Array, shape: Shape) -> jax.Array:
    """The log density of every column of every row, given what it reads: (columns, rows).

    Args:
        x: As `densities.derivatives` reads rows: (rows, features + 1 + 2 · columns).
    """
    x = jnp.concatenate([x[:, : shape.features].T, x[:, shape.features + 1 :].T])
    b, linear = _bent(_first(weights, _inputs(weights, x, shape)), shape)
    return column_densities(weights, linear, _second(weights, b), x, shape)


def column_densities(weights: Weights, linear: jax.Array, second: jax.Array, x: jax.Array, shape: Shape) -> jax.Array:
    """log p(x_j | what it reads) from what the layers make: (columns, …, rows) to (columns, rows)."""
    own = x[shape.features : shape.features + shape.columns]
    state = x[shape.features + shape.columns :]
    total, regular = jnp.zeros_like(own), jnp.ones_like(own)
    split = 3 * shape.components * shape.number
    if shape.states:
        logits = linear[:, int(shape.number) :] + second[:, split:]
        if shape.rank:
            logits = jnp.einsum("dsk,dkr->dsr", weights.places, logits) + jnp.asarray(weights.bias)[:, :, None]
        logits = jnp.where(jnp.asarray(weights.is_state)[:, :, None], logits, NEVER)
        chosen = state[:, None, :] == jnp.arange(shape.states, dtype=x.dtype)[None, :, None]
        total += jnp.sum(jnp.where(chosen, logits, 0.0), axis=1) - logsumexp(logits, axis=1)
        regular = (state == 0).astype(x.dtype)
    if shape.number:
        shift, log_scale, log_weight = _mixture(second[:, :split], shape.components)
        z = (own / jnp.asarray(weights.unit)[:, None] - linear[:, 0])[:, None] - shift
        each = log_weight - log_scale - 0.5 * (z * jnp.exp(-log_scale)) ** 2
        found = logsumexp(each, axis=1) - 0.5 * math.log(2 * math.pi) - jnp.log(jnp.asarray(weights.unit))[:, None]
        total += regular * found
    return total


def _mixture(raw: jax.Array, components: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    shift, log_scale, weight = (raw[:, i * components : (i + 1) * components] for i in range(3))
    return shift, MIDDLE + HALF * jnp.tanh((log_scale - MIDDLE) / HALF), jax.nn.log_softmax(weight, axis=1)


def _inputs(weights: Weights, x: jax.Array, shape: Shape) -> jax.Array:
    """What every column reads of rows, and a one: (columns, inputs + 1, rows)."""
    features = jnp.concatenate([x[: shape.features], jnp.zeros((1, x.shape[1]))])
    sources = jnp.where(jnp.asarray(weights.sources) >= 0, weights.sources, shape.features)
    return _with_one(features[sources])


def _with_one(x: jax.Array) -> jax.Array:
    """Arrays of (..., features, rows) with a one below the features."""
    return jnp.concatenate([x, jnp.ones((*x.shape[:-2], 1, x.shape[-1]), x.dtype)], axis=-2)


def _first(weights: Weights, a: jax.Array) -> jax.Array:
    return jnp.einsum("dio,dir->dor", weights.first, a)


def _second(weights: Weights, b: jax.Array) -> jax.Array:
    return jnp.einsum("dho,dhr->dor", weights.second, b)


def _bent(first: jax.Array, shape: Shape) -> tuple[jax.Array, jax.Array]:
    """What the second layer sees, [tanh h, 1], and the linear outputs."""
    return _with_one(jnp.tanh(first[:, : shape.hidden])), first[:, shape.hidden :]
