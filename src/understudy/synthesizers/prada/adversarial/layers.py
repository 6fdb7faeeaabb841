"""What the networks of adversarial training share: dense layers, LeakyReLU and Adam."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from understudy.synthesizers.prada.programs import Array

SLOPE = 0.2
"""The slope of the LeakyReLU below zero, in the generator and the critic, unless told otherwise."""
TEMPERATURE = 0.5
"""The temperature of relaxed categories: low enough to be nearly one category, high enough for steady gradients."""
DECAYS = (0.5, 0.9)
"""Adam's running means decay by these factors. The other player moves, so old gradients are soon wrong."""


class Dense(NamedTuple):
    """A dense layer."""

    weight: Array  # (in, out)
    bias: Array  # (out,)


def leaky(x: jax.Array, slope: float = SLOPE) -> jax.Array:
    """LeakyReLU."""
    return jnp.maximum(x, slope * x)


def adam() -> optax.GradientTransformation:
    """Adam's direction of descent, without a rate."""
    return optax.scale_by_adam(b1=DECAYS[0], b2=DECAYS[1])


class Noise(NamedTuple):
    """What generated rows are made of: standard normals, and Gumbel noise if there are categories to draw."""

    z: jax.Array
    gumbel: jax.Array | None = None
