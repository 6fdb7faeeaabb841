"""The unstructured generator of DPGAN: an MLP from noise to whole rows.

Pure functions over a plain dictionary of arrays, as in `networks`. States are a relaxed draw of one of them, hard when
rows are made for good.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from understudy.synthesizers.prada.networks import CHUNK, TEMPERATURE, Layout, Params, leaky
from understudy.synthesizers.prada.training import adam


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unstructured:
    """One network from noise to whole rows, as `training.Adversarial` trains it."""

    layout: Layout
    widths: tuple[int, ...]
    noise: int

    def initial(self, draw: np.random.Generator) -> Params:
        params = {}
        for i, (a, b) in enumerate(itertools.pairwise((self.noise, *self.widths, self.layout.features))):
            weights = draw.standard_normal((a, b)) * math.sqrt((2 if i else 1) / a)
            params[f"weight {i}"] = weights.astype(np.float32)
            params[f"bias {i}"] = np.zeros(b, np.float32)
        return params

    def draw(self, key: jax.Array, n: int) -> Params:
        for_z, for_states = jax.random.split(key)
        gumbel = jax.random.gumbel(for_states, (n, self.layout.features))
        return {"z": jax.random.normal(for_z, (n, self.noise)), "gumbel": gumbel}

    def generate(self, params: Params, noise: Params) -> jax.Array:
        return generate(params, noise, self.layout)

    def start(self, params: Params) -> Any:
        return adam().init(params)

    def step(
        self, params: Params, gradient: Params, memory: Any, rate: jax.Array, settings: dict
    ) -> tuple[Params, Any]:
        steps, memory = adam().update(gradient, memory)
        return {name: value - rate * steps[name] for name, value in params.items()}, memory


def generate(params: Params, noise: Params, layout: Layout, *, hard: bool = False) -> jax.Array:
    """Rows of features, one for each of the noise: (n, features)."""
    x, last = noise["z"], len(params) // 2 - 1
    for i in range(last + 1):
        x = x @ params[f"weight {i}"] + params[f"bias {i}"]
        x = x if i == last else leaky(x)
    if not layout.has_states.any():
        return x
    parts = []
    for block, start in zip(layout.blocks, layout.starts.tolist(), strict=True):
        number = x[:, start : start + block.number]
        if block.states:
            logits = (x + noise["gumbel"])[:, start + block.number : start + block.width]
            soft = jax.nn.softmax(logits / TEMPERATURE, axis=1)
            state = jax.nn.one_hot(logits.argmax(axis=1), block.states) if hard else soft
            parts += [number * state[:, :1], state]
        else:
            parts.append(number)
    return jnp.concatenate(parts, axis=1)


def sample(params: Mapping[str, Any], layout: Layout, key: jax.Array, n: int) -> np.ndarray:
    """`n` rows for good, chunk by chunk: (n, features), every state exactly 0 or 1."""
    rows = np.empty((n, layout.features), dtype=np.float32)
    ready = {name: jnp.asarray(value, jnp.float32) for name, value in params.items()}
    for i, start in enumerate(range(0, n, CHUNK)):
        rows[start : start + CHUNK] = _chunk(ready, jax.random.fold_in(key, i), layout)[: n - start]
    return rows


@functools.partial(jax.jit, static_argnames="layout")
def _chunk(params: Params, key: jax.Array, layout: Layout) -> jax.Array:
    network = Unstructured(layout=layout, widths=(), noise=params["weight 0"].shape[0])
    return generate(params, network.draw(key, CHUNK), layout, hard=True)
