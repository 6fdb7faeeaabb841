"""The generator of GEM, and how it is fitted to noisy marginals. It sees released numbers alone.

A fixed batch of B noise vectors goes through a network that gives, for each of them, a distribution over the bins of
every column. So the table is a mixture of B products, and its marginals are means over the batch:

    p_c(i) = 1/B Σ_b q_bc(i),    p_ac(i, j) = 1/B Σ_b q_ba(i) q_bc(j),    q_bc = softmax of the network's logits.

All bins of all columns stand in one list of length D, so all pairs at once are one product of matrices, QᵀQ / B; a
pair that was not measured has weight 0. Nothing is compiled again from round to round.

Source: Liu, Vietri, Wu (2021), arXiv:2106.07153.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Params = dict[str, jax.Array]

BETAS = (0.9, 0.99)
"""Adam's decay rates. The second is short, since every round changes the loss."""
DECAY = 0.98
"""The average over steps decays at this rate."""
LARGEST_LOGIT = 30.0
"""Logits stay within this, so that no share is 0."""


class State(NamedTuple):
    """A generator in training.

    Attributes:
        noise: The fixed batch, (components, inputs).
        params: The network.
        mean: The average of the network over the steps.
        first, second: Adam's moments.
        step: How many steps were taken.
    """

    noise: jax.Array
    params: Params
    mean: Params
    first: Params
    second: Params
    step: jax.Array


def start(key: jax.Array, shares: Floats, *, components: int, width: int, inputs: int) -> State:
    """A generator whose bins have these shares, and whose columns hardly depend on each other yet."""
    for_noise, first, second, last = jax.random.split(key, 4)
    params = {
        "in": jax.random.normal(first, (inputs, width)) / np.sqrt(inputs),
        "in_shift": jnp.zeros(width),
        "mix": jax.random.normal(second, (width, width)) / np.sqrt(width),
        "mix_shift": jnp.zeros(width),
        "out": 0.5 * jax.random.normal(last, (width, len(shares))) / np.sqrt(width),
        "out_shift": jnp.asarray(np.log(np.maximum(shares, 1e-6)), jnp.float32),
    }
    zeros = jax.tree.map(jnp.zeros_like, params)
    return State(
        noise=jax.random.normal(for_noise, (components, inputs)),
        params=params,
        mean=params,
        first=zeros,
        second=zeros,
        step=jnp.zeros((), jnp.int32),
    )


def products(params: Mapping[str, jax.Array], noise: jax.Array, whose: jax.Array) -> jax.Array:
    """The share of every bin of every column in every component: the softmax of each column's logits.

    Args:
        whose: 1 where a bin belongs to a column, else 0.  # (bins, columns)
    """
    h = jax.nn.relu(noise @ params["in"] + params["in_shift"][None, :])
    h = h + jax.nn.relu(h @ params["mix"] + params["mix_shift"][None, :])
    weights = jnp.exp(jnp.clip(h @ params["out"] + params["out_shift"][None, :], -LARGEST_LOGIT, LARGEST_LOGIT))
    return weights / (weights @ whose @ whose.T)  # (components, bins)


def loss(params: Mapping[str, jax.Array], noise: jax.Array, measured: Mapping[str, jax.Array]) -> jax.Array:
    """Σ_c w_c |p_c - y_c|² + Σ_ac w_ac |p_ac - y_ac|², with w = 1 / variance of y."""
    q = products(params, noise, measured["whose"])
    single = (q.mean(0) - measured["shares"]) ** 2
    double = (q.T @ q / len(noise) - measured["pairs"]) ** 2
    return measured["share_weights"] @ single + jnp.sum(measured["pair_weights"] * double)


@jax.jit
def fit(state: State, measured: Mapping[str, jax.Array], steps: jax.Array, rate: jax.Array, cool: jax.Array) -> State:
    """Takes `steps` steps of Adam; with `cool` the rate falls to 0 along half a cosine."""

    def step(i: jax.Array, state: State) -> State:
        gradient = jax.grad(loss)(state.params, state.noise, measured)
        count = state.step + 1
        done = i / steps
        size = rate * jnp.where(cool, 0.5 * (1 + jnp.cos(jnp.pi * done)), 1.0)
        size *= jnp.sqrt(1 - BETAS[1] ** count) / (1 - BETAS[0] ** count)
        first = jax.tree.map(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, state.first, gradient)
        second = jax.tree.map(lambda v, g: BETAS[1] * v + (1 - BETAS[1]) * g**2, state.second, gradient)
        params = jax.tree.map(lambda p, m, v: p - size * m / (jnp.sqrt(v) + 1e-10), state.params, first, second)
        mean = jax.tree.map(lambda a, p: DECAY * a + (1 - DECAY) * p, state.mean, params)
        return State(state.noise, params, mean, first, second, count)

    return lax.fori_loop(0, steps, step, state)


@jax.jit
def mixture(state: State, whose: jax.Array) -> jax.Array:
    """The products of the averaged generator.  # (components, bins)"""
    return products(state.mean, state.noise, whose)
