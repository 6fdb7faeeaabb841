"""A training loop that says, of every noisy sum it is given, how much more likely it is with the canaries.

The one rule: it changes nothing of what is trained. Factors, clipping, batches and noise are those of the mechanism in
`privacy`, which runs this loop as it runs any other. The rows that it has are those of two tables that the attacker
knows; which of them is trained on it does not know.

A step releases y, the clipped sum over a Poisson batch with Gaussian noise. The attacker knows the weights, which
follow from the earlier sums, and so every unit's clipped gradient g_u. Of the k canaries, b are in the batch, b ~
Binomial(k, q), and the sum of the others is about normal,

    y ~ N(q Σ g_u + b c, σ² I + q (1 - q) Σ g_u g_uᵀ),   c the canaries' mean gradient.

Along a direction w near to that covariance's inverse times c, y is one number: z = wᵀ (y - q Σ g_u) in its deviations,
which each canary in the batch moves by τ. The likelihood ratio of a step is that of a mixture of N(bτ, 1) against
N(0, 1). What is approximated, the normal crowd and its covariance, makes the test weaker and no bound wrong: bounds
hold for any statistic.

Source: Nasr et al. (2023), arXiv:2302.07956, for attacks on every step of a training.
"""

# JAX leaves many types open, so what comes out of it is not checked here. SciPy has no type stubs.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from understudy.privacy.batches import pad_rows
from understudy.privacy.clipping import Layer
from understudy.privacy.factors import Loop
from understudy.privacy.rows import PrivateRows

Array = jax.Array
Floats = NDArray[np.float64]

ITERATIONS = 6
"""Steps of conjugate gradients towards a direction; more than the directions in which a crowd varies much."""
NODES = 24
"""Nodes of the quadrature for the expected loss of a step."""


class KnownTable(NamedTuple):
    """A table that the attacker knows."""

    rows: Array  # (rows + 1, columns); the last one is empty
    units: Array  # (units, rows of a unit): places in `rows`, the last one where there is no row

    @classmethod
    def of(cls, rows: PrivateRows, columns: Sequence[str]) -> "KnownTable":
        padded = pad_rows(rows, columns, 0)
        return cls(padded.exact, padded.units)  # pyright: ignore[reportArgumentType]


class Attack(NamedTuple):
    """What the attacker knows besides the weights.

    Attributes:
        without, with_units: Both tables.
        canaries: How many units the second has more.
        rate: The rate that units are drawn with.
        sigma: The deviation of the noise.
        clip_norm: Of the part, (): or one for each layer side by side.
    """

    without: KnownTable
    with_units: KnownTable
    canaries: Array
    rate: Array
    sigma: Array
    clip_norm: Array


class AttackedState(NamedTuple):
    """The state of a loop, and what its steps told: z and τ of every step, (steps, 2)."""

    inner: Any
    step: Array
    told: Array
    attack: Attack


@dataclasses.dataclass(frozen=True)
class AttackedLoop:
    """A loop whose noisy sums are held against two tables."""

    inner: Loop[Any, Any]

    @property
    def steps_per_round(self) -> int:
        return self.inner.steps_per_round

    def prepare(self, state: AttackedState, key: Array) -> Any:
        return self.inner.prepare(state.inner, key)

    def factors(self, state: AttackedState, rows: Array) -> Sequence[Layer]:
        return self.inner.factors(state.inner, rows)

    def update(self, state: AttackedState, gradient: Sequence[Array], prepared: Any) -> AttackedState:
        noisy = jnp.concatenate([layer.ravel() for layer in gradient]).astype(jnp.float32)
        told = state.told.at[state.step].set(self._told(state, noisy))
        inner = self.inner.update(state.inner, gradient, prepared)
        return state._replace(inner=inner, step=state.step + 1, told=told)

    def finish(self, state: AttackedState, key: Array) -> AttackedState:
        return state._replace(inner=self.inner.finish(state.inner, key))

    def _told(self, state: AttackedState, noisy: Array) -> Array:
        known = state.attack
        crowd, all_units = (
            unit_gradients(self.inner.factors(state.inner, _columns(table)), table, known.clip_norm)
            for table in (known.without, known.with_units)
        )
        canary = (all_units.sum(axis=1) - crowd.sum(axis=1)) / known.canaries

        def covariance(direction: Array) -> Array:
            return known.sigma**2 * direction + known.rate * (1 - known.rate) * (crowd @ (direction @ crowd))

        direction, _ = jax.scipy.sparse.linalg.cg(covariance, canary, maxiter=ITERATIONS)
        deviation = jnp.sqrt(jnp.maximum(direction @ covariance(direction), 1e-30))
        gap = noisy - known.rate * crowd.sum(axis=1)
        return jnp.stack([direction @ gap, direction @ canary]) / deviation


def _columns(table: KnownTable) -> Array:
    """The rows of all units, (columns, units · rows of a unit)."""
    return table.rows[table.units.ravel()].T


def unit_gradients(layers: Sequence[Layer], table: KnownTable, clip_norm: Array) -> Array:
    """The clipped gradient of every unit, (numbers in a sum, units): what `clipping.clipped_sums` adds up."""
    inside = (table.units < len(table.rows) - 1).ravel()
    gradients = [jnp.where(inside, _gradients(layer), 0.0) for layer in layers]  # (..., in, out, rows) each
    axes = (-3, -2) if clip_norm.ndim else tuple(range(gradients[0].ndim - 1))
    squares = sum((jnp.sum(each**2, axis=axes) for each in gradients), jnp.zeros(()))
    norms = jnp.sqrt(squares).reshape(*clip_norm.shape, *table.units.shape)
    scale = jnp.minimum(1.0, clip_norm[..., None] / jnp.maximum(norms.sum(axis=-1), 1e-30))  # (..., units)
    summed = [each.reshape(*each.shape[:-1], *table.units.shape).sum(axis=-1) for each in gradients]
    # One for each unit, with as many axes as a layer's gradients: (..., in, out, units).
    weights = [jnp.expand_dims(scale, tuple(range(clip_norm.ndim, each.ndim - 1))) for each in summed]
    return jnp.concatenate([(w * each).reshape(-1, len(table.units)) for w, each in zip(weights, summed, strict=True)])


def _gradients(layer: Layer) -> Array:
    a, delta, seen = layer
    if seen is not None:
        a = jnp.where(seen[..., None], a.reshape(*(1 for _ in seen.shape[:-1]), *a.shape), 0.0)
    made = jnp.expand_dims(a, -2) * jnp.expand_dims(delta, -3)
    return jnp.where(jnp.isfinite(made), made, 0.0)


def attack_part(
    part: Any, steps: int, tables: Sequence[PrivateRows], *, canaries: int, rate: float, sigma: float
) -> Any:
    """A part of a training, to be run with an attacked loop."""
    known = [KnownTable.of(table, part.columns) for table in tables]
    numbers: Any = [np.asarray(each, np.float32) for each in (canaries, rate, sigma, part.clip_norm)]
    state = AttackedState(
        inner=part.state,
        step=np.zeros((), np.int32),  # pyright: ignore[reportArgumentType]
        told=np.zeros((steps, 2), np.float32),  # pyright: ignore[reportArgumentType]
        attack=Attack(known[0], known[1], *numbers),
    )
    return dataclasses.replace(part, loop=AttackedLoop(part.loop), state=state)


def loss_of_steps(told: Sequence[NDArray[np.floating[Any]]], *, canaries: int, rate: float) -> tuple[float, float]:
    """The loss of all steps of a training, and its expectation with the canaries.

    Args:
        told: Of every part z and τ of every step, (steps, 2). Parts have the same batches and noise of their own.
    """
    from scipy.special import logsumexp
    from scipy.stats import binom

    z, tau = np.moveaxis(np.asarray(told, np.float64), 2, 0)  # (parts, steps) each
    shift = np.sqrt(np.sum(tau**2, axis=0))
    place = np.sum(tau * z, axis=0) / np.maximum(shift, 1e-30)  # of all parts together, in deviations
    drawn = np.arange(canaries + 1.0)
    chances = binom.logpmf(drawn, canaries, rate)

    def loss(place: Floats, shift: Floats) -> Floats:
        exponents = drawn * (shift * place)[..., None] - (drawn * shift[..., None]) ** 2 / 2
        return np.asarray(logsumexp(chances + exponents, axis=-1), np.float64)

    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    places = shift[:, None, None] * drawn[:, None] + nodes  # (steps, canaries drawn, nodes)
    mean = loss(places, np.broadcast_to(shift[:, None, None], places.shape)) @ (weights / weights.sum())
    return float(np.sum(loss(place, shift))), float(np.sum(mean @ np.exp(chances)))
