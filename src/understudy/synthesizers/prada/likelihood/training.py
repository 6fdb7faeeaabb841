"""The training loop of a part: Adam on the noisy gradient of -log density, and the penalty's proximal map.

The one rule: `factors` alone sees rows, and hands what it makes of them to `gradients.train`. The rest is public.

Source: Kingma and Ba (2015), arXiv:1412.6980, for Adam.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from understudy.privacy.clipping import Layer
from understudy.synthesizers.prada.batch import running_mean
from understudy.synthesizers.prada.likelihood import density
from understudy.synthesizers.prada.likelihood.density import used_inputs
from understudy.synthesizers.prada.likelihood.parts import Shape, Weights
from understudy.synthesizers.prada.likelihood.schedule import DECAYS
from understudy.synthesizers.prada.programs import Array, zeros_like

EPSILON = 1e-6
"""Added to Adam's denominators, so that a weight without gradient does not divide by zero."""


class Layers(NamedTuple):
    """What is trained."""

    first: Array
    second: Array


class Hyperparameters(NamedTuple):
    """Numbers of one training, as arrays, so that trainings that differ in them share a program."""

    rate: Array
    penalty: Array  # of each group of a column's inputs, and 0 at last: (columns, inputs + 1)
    groups: Array  # the group of every input, `inputs` for none: (columns, inputs)
    batch: Array  # the expected number of rows in a batch
    steps: Array
    average: Array  # the last share of the steps that the mean is over


class State(NamedTuple):
    """What changes from step to step, and the numbers that do not."""

    layers: Layers
    weights: Weights
    mean: Layers
    memory: optax.OptState
    done: Array  # steps so far
    numbers: Hyperparameters


@dataclasses.dataclass(frozen=True, kw_only=True)
class Likelihood:
    """The loop that `gradients.train` runs.

    Adam's direction is the gradient over its own root mean square, so a penalty in those units is shrunk by η · λ
    alone (adversarial/penalty.py explains why it must be Adam's metric).
    """

    shape: Shape
    steps_per_round: int

    def begin(self, weights: Weights, numbers: Hyperparameters) -> State:
        """The state before the first step, as plain arrays."""
        layers = Layers(weights.first, weights.second)
        nothing = np.zeros(0, np.float32)
        return State(
            layers=layers,
            weights=weights._replace(first=nothing, second=nothing),
            mean=zeros_like(layers),
            memory=zeros_like(jax.eval_shape(adam().init, layers)),
            done=np.zeros((), np.float32),
            numbers=numbers,
        )

    def prepare(self, state: State, key: jax.Array) -> jax.Array:
        return jnp.zeros(self.steps_per_round)

    def factors(self, state: State, rows: jax.Array) -> list[Layer]:
        return density.factors(state.weights._replace(**state.layers._asdict()), rows, self.shape)

    def update(self, state: State, gradient: Sequence[jax.Array], prepared: jax.Array) -> State:
        """One step of Adam with the penalty, and of the mean over the last steps."""
        numbers, done = state.numbers, state.done
        used = used_inputs(state.weights.sources)  # the noise is everywhere
        slope = Layers(jnp.where(used, gradient[0], 0.0) / numbers.batch, gradient[1] / numbers.batch)
        direction, memory = adam().update(slope, state.memory)
        rate = numbers.rate * jnp.maximum(1.0 - done / numbers.steps, 0.0)
        layers: Layers = jax.tree.map(lambda weights, step: weights - rate * step, state.layers, direction)
        layers = layers._replace(first=shrink_groups(layers.first, numbers.groups, rate * numbers.penalty))
        mean = running_mean(state.mean, layers, done=done, total=numbers.steps, share=numbers.average)
        return state._replace(layers=layers, memory=memory, mean=mean, done=done + 1)

    def finish(self, state: State, key: jax.Array) -> State:
        return state


def adam() -> optax.GradientTransformation:
    """Adam's direction of descent, m / (√v + ε), without a rate."""
    return optax.scale_by_adam(b1=DECAYS[0], b2=DECAYS[1], eps=EPSILON)


def shrink_groups(first: Array, groups: Array, amount: Array) -> jax.Array:
    """W_g · max(0, 1 - amount_g / ‖W_g‖): every group shorter by its amount, and exactly zero below it.

    It is the proximal map of Σ amount_g ‖W_g‖. Constants are not penalised.

    Args:
        first: (columns, inputs + 1, out).
        groups: The group of every input: (columns, inputs).
        amount: Of every group: (columns, inputs + 1).
    """
    weights, groups = jnp.asarray(first), jnp.asarray(groups)
    squares = jnp.sum(weights[:, :-1] ** 2, axis=2)
    rows = jnp.arange(len(weights))[:, None]
    norms = jnp.sqrt(jnp.zeros_like(amount).at[rows, groups].add(squares))
    kept = jnp.where(norms > amount, 1.0 - amount / jnp.where(norms > amount, norms, 1.0), 0.0)
    factor = jnp.take_along_axis(kept, groups, axis=1)
    return jnp.concatenate([weights[:, :-1] * factor[:, :, None], weights[:, -1:]], axis=1)
