"""A training loop that keeps the noisy sums it is given, and can be made to go on with those of an earlier training.

The one rule: it changes nothing of what is trained. Factors, clipping, batches and noise are those of the mechanism in
`privacy`, which runs this loop as it runs any other; it is handed noisy sums and never a row.
"""

# JAX leaves many types open, so what comes out of it is not checked here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from understudy.privacy.clipping import Layer
from understudy.privacy.densities import DensityLoop, Floats, Weights
from understudy.privacy.factors import Loop, traced_factors

Array = jax.Array


class ObservedState(NamedTuple):
    """The state of a loop, and what is kept of its steps.

    Attributes:
        inner: The state of the loop that is observed.
        step: How many steps are done.
        seen: The noisy sums of all steps, (steps, numbers in a sum).
        frozen: Those of an earlier training.
        replaying: Whether the loop goes on with the frozen ones.
        loudness: What gradients are multiplied by: 1, or 0 to see noise alone.
    """

    inner: Any
    step: Array
    seen: Array
    frozen: Array
    replaying: Array
    loudness: Array


@dataclasses.dataclass(frozen=True)
class ObservedLoop:
    """A loop whose noisy sums are kept."""

    inner: Loop[Any, Any]

    @property
    def steps_per_round(self) -> int:
        return self.inner.steps_per_round

    def prepare(self, state: ObservedState, key: Array) -> Any:
        return self.inner.prepare(state.inner, key)

    def factors(self, state: ObservedState, rows: Array) -> list[Layer]:
        layers = self.inner.factors(state.inner, rows)
        return [Layer(layer.inputs, layer.deltas * state.loudness, layer.seen) for layer in layers]

    def update(self, state: ObservedState, gradient: Sequence[Array], prepared: Any) -> ObservedState:
        noisy = jnp.concatenate([layer.ravel() for layer in gradient])
        used = jnp.where(state.replaying, state.frozen[state.step], noisy)
        ends = np.cumsum([layer.size for layer in gradient])[:-1].tolist()
        parts = [part.reshape(layer.shape) for part, layer in zip(jnp.split(used, ends), gradient, strict=True)]
        inner = self.inner.update(state.inner, parts, prepared)
        return state._replace(inner=inner, step=state.step + 1, seen=state.seen.at[state.step].set(noisy))

    def finish(self, state: ObservedState, key: Array) -> ObservedState:
        return state._replace(inner=self.inner.finish(state.inner, key))


class ObservedDensities:
    """The state of a training of densities, and what is kept of its steps; changed in place.

    Attributes:
        inner: The state of the loop that is observed.
        seen: The noisy sums of all steps, (steps, numbers in a sum).
        frozen: Those of an earlier training, to go on with.
        step: How many steps are done.
    """

    def __init__(self, inner: Any, seen: NDArray[np.float32], frozen: NDArray[np.float32] | None):
        self.inner, self.seen, self.frozen, self.step = inner, seen, frozen, 0


def _observe_densities(part: Any, steps: int, frozen: NDArray[np.float32] | None, *, silent: bool) -> Any:
    loop: DensityLoop = part.loop

    def weights(state: ObservedDensities) -> Weights:
        return loop.weights(state.inner)

    def update(state: ObservedDensities, slopes: Sequence[Floats]) -> ObservedDensities:
        state.seen[state.step] = np.concatenate([each.ravel() for each in slopes])
        used = state.seen[state.step] if state.frozen is None else state.frozen[state.step]
        ends = np.cumsum([each.size for each in slopes])[:-1].tolist()
        parts = [each.reshape(like.shape) for each, like in zip(np.split(used, ends), slopes, strict=True)]
        state.inner, state.step = loop.update(state.inner, parts), state.step + 1
        return state

    state = ObservedDensities(part.state, np.zeros((steps, loop.shape.size), np.float32), frozen)
    observed = dataclasses.replace(loop, weights=weights, update=update, silent=silent)
    return dataclasses.replace(part, loop=observed, state=state)


def observe(part: Any, steps: int, frozen: NDArray[np.float32] | None, *, silent: bool) -> Any:
    """A part of a training, to be run with an observed loop.

    Args:
        part: A `gradients.Part`.
        steps: How many steps it takes.
        frozen: Noisy sums to go on with, (steps, numbers in a sum).
        silent: Whether gradients count as zero, so that the noisy sums are noise alone.
    """
    if isinstance(part.loop, DensityLoop):
        return _observe_densities(part, steps, frozen, silent=silent)
    size = traced_factors(part.loop, part.state, len(part.columns), 1).size
    empty = np.zeros((steps, size), np.float32)
    state = ObservedState(
        inner=part.state,
        step=np.zeros((), np.int32),  # pyright: ignore[reportArgumentType]
        seen=empty,  # pyright: ignore[reportArgumentType]
        frozen=empty if frozen is None else frozen,  # pyright: ignore[reportArgumentType]
        replaying=np.asarray(frozen is not None),  # pyright: ignore[reportArgumentType]
        loudness=np.asarray(0.0 if silent else 1.0, np.float32),  # pyright: ignore[reportArgumentType]
    )
    return dataclasses.replace(part, loop=ObservedLoop(part.loop), state=state)
