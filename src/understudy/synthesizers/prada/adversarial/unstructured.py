"""The unstructured generator of DPGAN: an MLP from noise to whole rows.

Pure functions over arrays. A category is a relaxed draw of one of them in training, and exactly one in sampled rows.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from understudy.synthesizers.prada.adversarial.layers import TEMPERATURE, Dense, Noise, adam, leaky
from understudy.synthesizers.prada.adversarial.training import Hyperparameters
from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.programs import CHUNK, rows_in_chunks

Weights = tuple[Dense, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unstructured:
    """One network from noise to whole rows, as `training.Adversarial` trains it."""

    layout: Layout
    widths: tuple[int, ...]
    noise: int

    def initial(self, draw: np.random.Generator) -> Weights:
        layers = []
        for i, (a, b) in enumerate(itertools.pairwise((self.noise, *self.widths, self.layout.features))):
            weight = draw.standard_normal((a, b)) * math.sqrt((2 if i else 1) / a)
            layers.append(Dense(weight.astype(np.float32), np.zeros(b, np.float32)))
        return tuple(layers)

    def draw(self, key: jax.Array, n: int) -> Noise:
        return draw_noise(self.layout, key, n, self.noise)

    def generate(self, params: Weights, noise: Noise) -> jax.Array:
        return generate(params, noise, self.layout)

    def start(self, params: Weights) -> optax.OptState:
        return adam().init(params)

    def step(
        self, params: Weights, gradient: Weights, memory: optax.OptState, rate: jax.Array, numbers: Hyperparameters
    ) -> tuple[Weights, optax.OptState]:
        steps, memory = adam().update(gradient, memory)
        return jax.tree.map(lambda value, step: value - rate * step, params, steps), memory


def draw_noise(layout: Layout, key: jax.Array, n: int, dimensions: int) -> Noise:
    """What `n` rows are made of: (n, dimensions) normals, and (n, features) Gumbel noise."""
    for_z, for_categories = jax.random.split(key)
    gumbel = jax.random.gumbel(for_categories, (n, layout.features))
    return Noise(jax.random.normal(for_z, (n, dimensions)), gumbel)


def generate(params: Weights, noise: Noise, layout: Layout, *, hard: bool = False) -> jax.Array:
    """Rows of features, one for each of the noise: (n, features)."""
    x = noise.z
    for i, layer in enumerate(params):
        x = x @ layer.weight + layer.bias[None, :]
        x = x if i == len(params) - 1 else leaky(x)
    if noise.gumbel is None or not layout.has_categories.any():
        return x
    parts = []
    for block, start in zip(layout.blocks, layout.starts.tolist(), strict=True):
        number = x[:, start : start + block.number]
        if block.categories:
            logits = (x + noise.gumbel)[:, start + block.number : start + block.width]
            soft = jax.nn.softmax(logits / TEMPERATURE, axis=1)
            category = jax.nn.one_hot(logits.argmax(axis=1), block.categories) if hard else soft
            parts += [number * category[:, :1], category]
        else:
            parts.append(number)
    return jnp.concatenate(parts, axis=1)


def sample(params: Weights, layout: Layout, key: jax.Array, n: int) -> np.ndarray:
    """`n` rows: (n, features), every category exactly 0 or 1."""
    ready = jax.tree.map(lambda value: jnp.asarray(value, jnp.float32), params)
    return rows_in_chunks(lambda k: _chunk(ready, k, layout), key, n, layout.features)


@functools.partial(jax.jit, static_argnames="layout")
def _chunk(params: Weights, key: jax.Array, layout: Layout) -> jax.Array:
    return generate(params, draw_noise(layout, key, CHUNK, params[0].weight.shape[0]), layout, hard=True)


def to_arrays(params: Weights) -> dict[str, NDArray]:
    """The layers as arrays by name."""
    named = [(f"{part} {i}", value) for i, layer in enumerate(params) for part, value in layer._asdict().items()]
    return {name: np.asarray(value) for name, value in named}


def from_arrays(arrays: Mapping[str, NDArray]) -> Weights:
    """The layers that `to_arrays` wrote down."""
    return tuple(Dense(arrays[f"weight {i}"], arrays[f"bias {i}"]) for i in range(len(arrays) // 2))
