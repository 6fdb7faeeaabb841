"""Adversarial training: a generator against a critic that meets the real rows through the hatch for gradients.

One round is `generator_every` steps of the critic, then one of the generator, which stands still in between, so that
the fakes of a whole round are made at once. The one rule: real rows enter through `dpsgd.train` alone. Fakes and
penalties are public and enter without noise.

The critic f is trained to raise mean f(real) - mean f(fake), and the generator to raise mean f(fake).

Sources: the PrAda-GAN paper, Algorithm 1; Bie, Kamath and Zhang (2023), arXiv:2302.02936, for several critic steps to
one of the generator; Yazıcı et al. (2019), arXiv:1806.04498, for averaged generators.

Departures:
- Fakes are clipped as real rows are, though nothing asks for it: if only one side is clipped, a generator that is right
  still moves on.
- The paper names no optimiser and no Lipschitz constraint, without which training diverges. Both are settings here.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax

from understudy.privacy.gradients import Layer, clipped_sums
from understudy.synthesizers.prada import networks, structure
from understudy.synthesizers.prada.networks import Layout, Params

DECAYS = (0.5, 0.9)
"""Adam's memories. The other player moves, so old gradients are soon wrong."""
STEEPNESS = 10.0
"""Weight of the penalty on a steep critic, as is usual since Gulrajani et al. (2017), arXiv:1704.00028."""
FINAL_RATE = 0.1
"""Of the rates, what is left at the end where they decay."""


class Generator(Protocol):
    """A network that makes rows, and how it takes a step; frozen and hashable."""

    @property
    def layout(self) -> Layout: ...

    def initial(self, draw: np.random.Generator) -> Params: ...

    def draw(self, key: jax.Array, n: int) -> Params: ...

    def generate(self, params: Params, noise: Params) -> jax.Array: ...

    def start(self, params: Params) -> Any:
        """The optimiser's state."""
        ...

    def step(
        self, params: Params, gradient: Params, memory: Any, rate: jax.Array, settings: dict
    ) -> tuple[Params, Any]:
        """The parameters after a step down the gradient."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sequential:
    """The paper's generator: a small network for each column, its inputs penalised in groups."""

    layout: Layout
    hidden: int = 10
    adam: bool = True
    proximal: bool = True
    bounded: bool = True
    slope: float = networks.SLOPE

    def initial(self, draw: np.random.Generator) -> Params:
        return networks.initial(self.layout, draw, hidden=self.hidden)

    def draw(self, key: jax.Array, n: int) -> Params:
        return networks.draw_noise(self.layout, key, n)

    def generate(self, params: Params, noise: Params) -> jax.Array:
        return networks.generate(params, noise, self.layout, slope=self.slope)

    def start(self, params: Params) -> Any:
        others = {name: value for name, value in params.items() if name != "rows"}
        return adam().init(others), structure.no_moments(params["rows"], self.layout)

    def step(
        self, params: Params, gradient: Params, memory: Any, rate: jax.Array, settings: dict
    ) -> tuple[Params, Any]:
        """Down the gradient; the rows of W with the penalty, and none of them where a pair is forbidden."""
        memory, moments = memory
        rows, others = params["rows"], {name: value for name, value in params.items() if name != "rows"}
        steps = {name: gradient[name] for name in others}
        of_rows, penalty = networks.masked(gradient["rows"], self.layout), settings["penalty"]
        if not self.proximal:
            of_rows, penalty = of_rows + structure.subgradient(rows, self.layout, penalty), jnp.zeros_like(penalty)
        if self.adam:
            steps, memory = adam().update(steps, memory)
            rows, moments = structure.proximal_adam_step(
                rows, of_rows, moments, self.layout, rate=rate, penalty=penalty, decays=DECAYS
            )
        else:
            rows = structure.proximal_step(rows, of_rows, self.layout, rate=rate, penalty=penalty)
        rows = structure.only(rows, settings["allowed"], self.layout)
        moved = {name: value - rate * steps[name] for name, value in others.items()}
        moved = {**moved, "rows": rows}
        return (networks.bounded(moved) if self.bounded else moved), (memory, moments)


def adam() -> Any:
    """Adam's direction of descent, without a rate."""
    return optax.scale_by_adam(b1=DECAYS[0], b2=DECAYS[1])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adversarial:
    """The loop that `dpsgd.train` runs.

    Attributes:
        generator: What is trained in the end.
        steps_per_round: Critic steps to one of the generator.
        fakes: Rows in a batch of fakes.
        critic_adam: Adam for the critic, or plain gradient steps.
        penalised: Whether steepness is penalised; otherwise weights are clamped.
        decay: Whether the rates fall.
    """

    generator: Generator
    steps_per_round: int
    fakes: int
    critic_adam: bool = True
    penalised: bool = True
    decay: bool = True
    slope: float = networks.SLOPE

    def start(self, draw: np.random.Generator, widths: Sequence[int], settings: dict[str, Any]) -> dict[str, Any]:
        """The state before the first step: random weights and empty memories, as plain arrays.

        Nothing is compiled here: dozens of small programs, or a large one, would take seconds.

        Args:
            draw: Where chance comes from.
            settings: critic_rate, generator_rate, penalty (one a column), allowed (pairs), clip_norm, batch (expected),
                limit (of clamped weights), rounds, average (share of the rounds at the end).
        """
        made = self.generator.initial(draw)
        critic = networks.initial_critic(draw, self.generator.layout.features, widths)
        if not self.penalised:
            limit = settings["limit"]
            critic = tuple({**layer, "weight": np.clip(layer["weight"], -limit, limit)} for layer in critic)
        return {
            "generator": made,
            "memory": _zeros(jax.eval_shape(self.generator.start, made)),
            "mean": _zeros(made),
            "critic": critic,
            "critic_memory": _zeros(jax.eval_shape(adam().init, critic)),
            "round": np.zeros((), np.float32),
            "settings": {name: np.asarray(value) for name, value in settings.items()},
        }

    def prepare(self, state: dict[str, Any], key: jax.Array) -> dict[str, jax.Array]:
        """The fakes of a round, and points at which the critic must not be steep."""
        for_fakes, for_points = jax.random.split(key)
        noise = self.generator.draw(for_fakes, self.steps_per_round * self.fakes)
        fakes = self.generator.generate(state["generator"], noise)
        prepared = {"fakes": fakes}
        if self.penalised:
            prepared["points"] = networks.penalty_points(for_points, fakes)
        return jax.tree.map(lambda x: x.reshape(self.steps_per_round, self.fakes, -1), prepared)

    def factors(self, state: dict[str, Any], rows: jax.Array) -> list[Layer]:
        """Of the critic at every row, with a one beside the inputs for the bias."""
        ones = jnp.ones((1, rows.shape[1]), rows.dtype)
        found = networks.critic_factors(state["critic"], rows.T, slope=self.slope)
        return [Layer(jnp.concatenate([a.T, ones]), delta.T) for a, delta in found]

    def update(self, state: dict[str, Any], gradient: Sequence[jax.Array], prepared: Any) -> dict[str, Any]:
        """One step of the critic, given the noisy sum over real rows."""
        settings, fakes = state["settings"], prepared["fakes"]
        inside = jnp.ones((self.fakes, 1), bool)
        made = clipped_sums(self.factors(state, fakes.T), inside, settings["clip_norm"])
        down = [of_fakes / self.fakes - real / settings["batch"] for of_fakes, real in zip(made, gradient, strict=True)]
        descent: Any = tuple({"weight": layer[:-1], "bias": layer[-1]} for layer in down)
        if self.penalised:
            steep = jax.grad(networks.steepness_penalty)(state["critic"], prepared["points"], slope=self.slope)
            descent = jax.tree.map(lambda a, b: a + STEEPNESS * b, descent, steep)
        memory = state["critic_memory"]
        if self.critic_adam:
            descent, memory = adam().update(descent, memory)
        rate = settings["critic_rate"] * self._left(state)
        critic = jax.tree.map(lambda weight, step: weight - rate * step, state["critic"], descent)
        if not self.penalised:
            critic = networks.clamped(critic, settings["limit"])
        return {**state, "critic": critic, "critic_memory": memory}

    def finish(self, state: dict[str, Any], key: jax.Array) -> dict[str, Any]:
        """One step of the generator."""
        noise = self.generator.draw(key, self.fakes)

        def loss(params: Params) -> jax.Array:
            made = self.generator.generate(params, noise)
            return -jnp.mean(networks.critic(state["critic"], made, slope=self.slope))

        gradient = jax.grad(loss)(state["generator"])
        settings = state["settings"]
        rate = settings["generator_rate"] * self._left(state)
        made, memory = self.generator.step(state["generator"], gradient, state["memory"], rate, settings)
        since = state["round"] - jnp.floor((1 - settings["average"]) * settings["rounds"])
        weight = jnp.where(since >= 0, 1 / (since + 1), 0.0)  # a running mean over the last rounds
        mean = jax.tree.map(lambda before, now: before + weight * (now - before), state["mean"], made)
        return {**state, "generator": made, "memory": memory, "mean": mean, "round": state["round"] + 1}

    def _left(self, state: dict[str, Any]) -> jax.Array | float:
        """What is left of the rates."""
        if not self.decay:
            return 1.0
        return 1.0 - (1.0 - FINAL_RATE) * state["round"] / state["settings"]["rounds"]


def _zeros(shapes: Any) -> Any:
    """Arrays of zeros, made without compiling anything."""
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
