"""The densities of a part's columns, for training: those of columns.py, in JAX, over padded weights side by side.

Pure functions over arrays; rows are the last axis. What the program reads of a row are the features of its part, its
own scores, and its own states (`Part.rows`).

The one rule: a column reads the features of its `sources` alone. Columns with fewer inputs than others have some that
read nothing; their weights are zero, and stay zero.

Source: Goodfellow (2015), arXiv:1510.01799, for gradients of single rows from factors.
"""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from understudy.privacy.clipping import Layer
from understudy.synthesizers.prada.likelihood.columns import HALF, MIDDLE, NEVER
from understudy.synthesizers.prada.likelihood.parts import Shape, Weights
from understudy.synthesizers.prada.programs import Array


def factors(weights: Weights, x: jax.Array, shape: Shape) -> list[Layer]:
    """For both layers, (a, δ) of every row: inputs, and derivatives of -log density by the pre-activations.

    The derivatives are those by something added to the pre-activations, at zero: exact, and no gradient of a row is
    ever formed. Columns are layers side by side.
    """
    a = _inputs(weights, x, shape)
    first = _first(weights, a)

    def densities(first, added):
        b, linear = _bent(first, shape)
        return column_densities(weights, linear, _second(weights, b) + added, x, shape), b

    nothing = jnp.zeros((shape.columns, shape.outputs, x.shape[1]), x.dtype)
    found, pull_back, b = jax.vjp(densities, first, nothing, has_aux=True)
    of_first, of_second = pull_back(-jnp.ones_like(found))
    return [Layer(a, of_first), Layer(b, of_second)]


def log_density(weights: Weights, x: jax.Array, shape: Shape) -> jax.Array:
    """The log density of every column of every row, given what it reads: (columns, rows)."""
    b, linear = _bent(_first(weights, _inputs(weights, x, shape)), shape)
    return column_densities(weights, linear, _second(weights, b), x, shape)


def used_inputs(sources: Array) -> jax.Array:
    """Which rows of the first layers have weights: those of inputs that read something, and the constants."""
    used = jnp.asarray(sources) >= 0
    return jnp.concatenate([used, jnp.ones((used.shape[0], 1), bool)], axis=1)[:, :, None]


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
    sources = jnp.asarray(weights.sources)
    read = jnp.take(x[: shape.features], jnp.maximum(sources, 0), axis=0, mode="clip")
    return _with_one(read * (sources >= 0)[:, :, None].astype(x.dtype))


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
