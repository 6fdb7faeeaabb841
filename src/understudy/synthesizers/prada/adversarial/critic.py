"""The critic: one network over whole rows, its derivatives in closed form, and what keeps it from being steep.

Pure functions over arrays, so that they run under `jit`, `grad` and `vmap` over many fits.

Sources: Arjovsky, Chintala and Bottou (2017), arXiv:1701.07875, for clamped weights; Petzka, Fischer and Lukovnikov
(2018), arXiv:1709.08894, for the one-sided penalty; Goodfellow (2015), arXiv:1510.01799, for norms of per-example
gradients.

Departure: the paper does not say how the critic is kept Lipschitz. Here: clamped weights, or a penalty on points made
of fakes and noise alone, which costs no privacy.
"""

import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from understudy.synthesizers.prada.adversarial.layers import SLOPE, Dense, leaky

Critic = tuple[Dense, ...]
Factors = list[tuple[jax.Array, jax.Array]]


def default_widths(features: int) -> tuple[int, int]:
    """The paper's hidden layers: as wide as a row, then half of it."""
    return features, max(features // 2, 1)


def initial_critic(draw: np.random.Generator, features: int, widths: Sequence[int] | None = None) -> Critic:
    """Random weights of a critic with the given hidden layers (`default_widths` unless told): He's, for LeakyReLU."""
    sizes = (features, *(default_widths(features) if widths is None else widths), 1)
    return tuple(
        Dense(
            weight=(draw.standard_normal((a, b)) * math.sqrt(2 / (1 + SLOPE**2) / a)).astype(np.float32),
            bias=np.zeros(b, np.float32),
        )
        for a, b in itertools.pairwise(sizes)
    )


def critic(params: Critic, x: jax.Array, *, slope: float = SLOPE) -> jax.Array:
    """The critic's value of every row: (n,)."""
    for layer in params[:-1]:
        x = leaky(x @ layer.weight + layer.bias[None, :], slope)
    return (x @ params[-1].weight + params[-1].bias[None, :])[:, 0]


def critic_factors(params: Critic, x: jax.Array, *, slope: float = SLOPE) -> Factors:
    """For every layer l, (a_l, δ_l): the inputs (n, in), and ∂ critic / ∂ pre-activation (n, out), of every row.

    The gradient of one row is a_l δ_lᵀ for the weights and δ_l for the bias, so its squared norm over all layers is
    Σ_l (‖a_l‖² + 1)·‖δ_l‖² and no gradient of a single row is ever formed.
    """
    inputs, slopes = [x], []
    for layer in params[:-1]:
        before = inputs[-1] @ layer.weight + layer.bias[None, :]
        inputs.append(leaky(before, slope))
        slopes.append(jnp.where(before > 0, 1.0, slope))
    deltas = [jnp.ones((x.shape[0], 1), x.dtype)]
    for layer, steep in zip(params[:0:-1], slopes[::-1], strict=True):
        deltas.append((deltas[-1] @ layer.weight.T) * steep)
    return list(zip(inputs, deltas[::-1], strict=True))


def input_gradient(params: Critic, x: jax.Array, *, slope: float = SLOPE) -> jax.Array:
    """∂ critic / ∂ x of every row: (n, features)."""
    _, delta = critic_factors(params, x, slope=slope)[0]
    return delta @ params[0].weight.T


# Lipschitz ----------------------------------------------------------------------------------------------------------


def clamped(params: Critic, limit: float | jax.Array) -> Critic:
    """Every weight within ±limit. Biases do not change how steep a critic is and stay free."""
    return tuple(layer._replace(weight=jnp.clip(layer.weight, -limit, limit)) for layer in params)


def lipschitz_bound(params: Critic, limit: float) -> float:
    """The Lipschitz constant that clamping implies: Π_l limit·√(in_l · out_l), the largest Frobenius norms.

    LeakyReLU adds nothing, since its slope is at most 1.
    """
    return math.prod(limit * math.sqrt(math.prod(layer.weight.shape)) for layer in params)


def steepness_penalty(params: Critic, points: jax.Array, *, slope: float = SLOPE) -> jax.Array:
    """The mean of max(0, ‖∇_x critic‖ - 1)²: a critic that is not steep is left alone."""
    norm = jnp.sqrt(jnp.sum(input_gradient(params, points, slope=slope) ** 2, axis=1) + 1e-12)
    return jnp.mean(jnp.maximum(norm - 1.0, 0.0) ** 2)


def penalty_points(key: jax.Array, fakes: jax.Array) -> jax.Array:
    """Points on random segments from fakes to N(0, I): no row is looked at, and scores live about there."""
    for_place, for_end = jax.random.split(key)
    place = jax.random.uniform(for_place, (fakes.shape[0], 1), fakes.dtype)
    return place * fakes + (1 - place) * jax.random.normal(for_end, fakes.shape, fakes.dtype)
