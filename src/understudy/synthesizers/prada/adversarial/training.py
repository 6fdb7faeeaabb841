"""Adversarial training: a generator against a critic that meets the real rows through the mechanism for gradients.

One round is `generator_every` steps of the critic, then one of the generator, which stands still in between, so that
the fakes of a whole round are made at once. The one rule: real rows enter through `gradients.train` alone. Fakes and
penalties are public and enter without noise.

The critic f is trained to raise mean f(real) - mean f(fake), and the generator to raise mean f(fake).

Sources: the PrAda-GAN paper, Algorithm 1; Bie, Kamath and Zhang (2023), arXiv:2302.02936, for several critic steps to
one of the generator; Yazıcı et al. (2019), arXiv:1806.04498, for averaged generators.

Departures:
- Fakes are clipped as real rows are, though privacy does not ask for it: if only one side is clipped, a generator that
  is right still moves on.
- The paper names no optimiser and no Lipschitz constraint, without which training diverges. Both are settings here.
"""

import dataclasses
from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from understudy.privacy.clipping import Layer, clipped_sums
from understudy.synthesizers.prada.adversarial.critic import (
    Critic,
    clamped,
    critic,
    critic_factors,
    initial_critic,
    penalty_points,
    steepness_penalty,
)
from understudy.synthesizers.prada.adversarial.layers import SLOPE, Dense, Noise, adam
from understudy.synthesizers.prada.batch import running_mean
from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.programs import Array, zeros_like

STEEPNESS = 10.0
"""The weight of the penalty on a steep critic, as is usual since Gulrajani et al. (2017), arXiv:1704.00028."""
FINAL_RATE = 0.1
"""Rates that decay end at this multiple of where they began."""

WeightsT = TypeVar("WeightsT")
MemoryT = TypeVar("MemoryT")


class Hyperparameters(NamedTuple):
    """Numbers of one training, as arrays, so that trainings that differ in them share a program."""

    critic_rate: Array
    generator_rate: Array
    clip_norm: Array
    limit: Array  # of clamped weights
    batch: Array  # the expected number of rows in a batch
    rounds: Array
    average: Array  # the last share of the rounds that the mean is over
    penalty: Array  # λ_j, (columns,)
    allowed: Array  # which pairs may have weights, (columns, columns)


class Generator(Protocol[WeightsT, MemoryT]):
    """A network that makes rows, and how it takes a step; frozen and hashable."""

    @property
    def layout(self) -> Layout: ...

    def initial(self, draw: np.random.Generator) -> WeightsT: ...

    def draw(self, key: jax.Array, n: int) -> Noise: ...

    def generate(self, params: WeightsT, noise: Noise) -> jax.Array: ...

    def start(self, params: WeightsT) -> MemoryT:
        """The optimiser's state."""
        ...

    def step(
        self, params: WeightsT, gradient: WeightsT, memory: MemoryT, rate: jax.Array, numbers: Hyperparameters
    ) -> tuple[WeightsT, MemoryT]:
        """The parameters after a step down the gradient."""
        ...


class State(NamedTuple, Generic[WeightsT, MemoryT]):
    """What changes from step to step, and the numbers that do not."""

    generator: WeightsT
    memory: MemoryT
    mean: WeightsT
    critic: Critic
    critic_memory: optax.OptState
    round: Array
    numbers: Hyperparameters


class Prepared(NamedTuple):
    """The fakes of a round, and points at which the critic must not be steep: (steps, fakes, features)."""

    fakes: jax.Array
    points: jax.Array | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adversarial(Generic[WeightsT, MemoryT]):
    """The loop that `gradients.train` runs.

    Attributes:
        generator: What is trained in the end.
        steps_per_round: Critic steps to one of the generator.
        fakes: Rows in a batch of fakes.
        critic_adam: Whether the critic takes Adam's steps, or plain gradient steps.
        penalised: Whether steepness is penalised; otherwise weights are clamped.
        decay: Whether the rates fall.
    """

    generator: Generator[WeightsT, MemoryT]
    steps_per_round: int
    fakes: int
    critic_adam: bool = True
    penalised: bool = True
    decay: bool = True
    slope: float = SLOPE

    def start(
        self, draw: np.random.Generator, widths: Sequence[int], numbers: Hyperparameters
    ) -> State[WeightsT, MemoryT]:
        """The state before the first step: random weights and empty memories, as plain arrays.

        Nothing is compiled here: dozens of small programs, or a large one, would take seconds.

        Args:
            draw: The source of randomness.
            widths: Hidden layers of the critic.
        """
        made = self.generator.initial(draw)
        first_critic = initial_critic(draw, self.generator.layout.features, widths)
        if not self.penalised:
            limit = np.asarray(numbers.limit)
            first_critic = tuple(layer._replace(weight=np.clip(layer.weight, -limit, limit)) for layer in first_critic)
        return State(
            generator=made,
            memory=zeros_like(jax.eval_shape(self.generator.start, made)),
            mean=zeros_like(made),
            critic=first_critic,
            critic_memory=zeros_like(jax.eval_shape(adam().init, first_critic)),
            round=np.zeros((), np.float32),
            numbers=numbers,
        )

    def prepare(self, state: State[WeightsT, MemoryT], key: jax.Array) -> Prepared:
        """The fakes of a round, and points at which the critic must not be steep."""
        for_fakes, for_points = jax.random.split(key)
        noise = self.generator.draw(for_fakes, self.steps_per_round * self.fakes)
        fakes = self.generator.generate(state.generator, noise)
        prepared = Prepared(fakes, penalty_points(for_points, fakes) if self.penalised else None)
        return jax.tree.map(lambda x: x.reshape(self.steps_per_round, self.fakes, -1), prepared)

    def factors(self, state: State[WeightsT, MemoryT], rows: jax.Array) -> list[Layer]:
        """The factors of the critic's gradient at every row, with a one beside the inputs for the bias."""
        ones = jnp.ones((1, rows.shape[1]), rows.dtype)
        found = critic_factors(state.critic, rows.T, slope=self.slope)
        return [Layer(jnp.concatenate([a.T, ones]), delta.T) for a, delta in found]

    def update(
        self, state: State[WeightsT, MemoryT], gradient: Sequence[jax.Array], prepared: Prepared
    ) -> State[WeightsT, MemoryT]:
        """One step of the critic, given the noisy sum over real rows."""
        numbers, fakes = state.numbers, prepared.fakes
        inside = jnp.ones((self.fakes, 1), bool)
        made = clipped_sums(self.factors(state, fakes.T), inside, jnp.asarray(numbers.clip_norm))
        down = [of_fakes / self.fakes - real / numbers.batch for of_fakes, real in zip(made, gradient, strict=True)]
        descent = tuple(Dense(layer[:-1], layer[-1]) for layer in down)
        if prepared.points is not None:
            steep = jax.grad(steepness_penalty)(state.critic, prepared.points, slope=self.slope)
            descent = jax.tree.map(lambda a, b: a + STEEPNESS * b, descent, steep)
        memory = state.critic_memory
        if self.critic_adam:
            descent, memory = adam().update(descent, memory)
        rate = numbers.critic_rate * self._left(state)
        moved = jax.tree.map(lambda weight, step: weight - rate * step, state.critic, descent)
        if not self.penalised:
            moved = clamped(moved, jnp.asarray(numbers.limit))
        return state._replace(critic=moved, critic_memory=memory)

    def finish(self, state: State[WeightsT, MemoryT], key: jax.Array) -> State[WeightsT, MemoryT]:
        """One step of the generator."""
        noise, numbers = self.generator.draw(key, self.fakes), state.numbers

        def loss(params: WeightsT) -> jax.Array:
            made = self.generator.generate(params, noise)
            return -jnp.mean(critic(state.critic, made, slope=self.slope))

        gradient = jax.grad(loss)(state.generator)
        rate = jnp.asarray(numbers.generator_rate * self._left(state))
        made, memory = self.generator.step(state.generator, gradient, state.memory, rate, numbers)
        mean = running_mean(state.mean, made, done=state.round, total=numbers.rounds, share=numbers.average)
        return state._replace(generator=made, memory=memory, mean=mean, round=state.round + 1)

    def _left(self, state: State[WeightsT, MemoryT]) -> Array | float:
        """What is left of the rates."""
        if not self.decay:
            return 1.0
        return 1.0 - (1.0 - FINAL_RATE) * state.round / state.numbers.rounds
