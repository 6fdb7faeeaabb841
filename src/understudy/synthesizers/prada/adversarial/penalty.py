"""The group lasso of the sequential generator: how large it is, and the steps that apply it.

The penalty of column j is λ_j Σ_{k < j} ‖W_j^k‖, with groups as in structure.py.

Sources: the PrAda-GAN paper, sections "Adaptive Feature Selection" and "Theoretical Guarantees"; Yuan and Lin (2006),
"Model selection and estimation in regression with grouped variables"; Parikh and Boyd (2014), "Proximal algorithms".

Departures:
- Proximal steps, where the paper adds the penalty to the loss and takes its subgradient (`subgradient`). A subgradient
  step never lands on zero; it jumps to and fro about it.
- Adam with one second moment for each group, so that the proximal step in Adam's own metric has a closed form. Optax
  has no such optimiser.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.programs import Array
from understudy.synthesizers.prada.structure import group_norms, group_squares, groups, masked, shrunk, to_rows


def penalties(columns: int, scale: float, growth: float = 0.0) -> np.ndarray:
    """λ_j = λ · j^γ for j = 1, …, columns: a later column has more earlier ones to be wrong about."""
    return (scale * np.arange(1.0, columns + 1) ** growth).astype(np.float32)


def theory_penalty(
    n: int,
    columns: int,
    *,
    ancestors: int | None = None,
    optimisation_error: float = 0.0,
    approximation_error: float = 0.0,
) -> float:
    """λ_j = ψ^{1/2} / d of the paper's theorems, the same for every column, up to a constant that they leave open.

    ψ = (√d + log n) · n^{-1/s} + E + A

    Args:
        n: Rows.
        columns: d.
        ancestors: s. All columns (the default) before the parents are known; the largest number of ancestors of a
            column, itself included, in the second step.
        optimisation_error: E, what training falls short of the best generator and critic, in the units of the
            Wasserstein distance. It holds all of privacy's cost and grows with its noise.
        approximation_error: A, the worst distance of a 1-Lipschitz function from the nearest critic.
    """
    s = columns if ancestors is None else ancestors
    psi = (np.sqrt(columns) + np.log(n)) * n ** (-1.0 / s) + optimisation_error + approximation_error
    return float(np.sqrt(psi) / columns)


def subgradient(rows: Array, layout: Layout, penalty: Array) -> jax.Array:
    """λ_j W_j^k / ‖W_j^k‖, and 0 at 0: the paper's own step adds it to the gradient. Noise is not penalised."""
    norms = group_norms(rows, layout)
    direction = jnp.where(norms > 0, penalty[:, None] / jnp.where(norms > 0, norms, 1.0), 0.0)
    return masked(rows, layout) * to_rows(direction, layout, rows.shape[1], extra=0.0)


def proximal_step(
    rows: Array, gradient: Array, layout: Layout, *, rate: float | jax.Array, penalty: Array
) -> jax.Array:
    """One step of proximal gradient descent: down the gradient by the rate η, then shrunk by η·λ_j.

    It stands still where the gradient is -λ_j W_j^k / ‖W_j^k‖, or where W_j^k = 0 and the gradient is at most λ_j long:
    at the stationary points of loss + penalty, whatever the rate.
    """
    amount = jnp.broadcast_to((rate * penalty)[:, None], (layout.columns, layout.columns))
    return shrunk(rows - rate * gradient, layout, amount)


class Moments(NamedTuple):
    """Adam's running moments of the gradient of W: the mean of each weight, the mean square of each group."""

    steps: jax.Array
    mean: jax.Array  # (columns, features + noise, hidden)
    square: jax.Array  # (columns, columns + noise)


def no_moments(rows: Array, layout: Layout) -> Moments:
    """The moments before the first step."""
    noise = rows.shape[1] - layout.features
    return Moments(jnp.zeros((), jnp.int32), jnp.zeros_like(rows), jnp.zeros((layout.columns, layout.columns + noise)))


def proximal_adam_step(
    rows: Array,
    gradient: Array,
    moments: Moments,
    layout: Layout,
    *,
    rate: float | jax.Array,
    penalty: Array,
    decays: tuple[float, float] = (0.5, 0.9),
) -> tuple[jax.Array, Moments]:
    """One step of Adam with the penalty's proximal map in Adam's metric.

    Adam divides the gradient by its root mean square s, so that its step is η/s and a penalty must be shrunk by
    η·λ_j/s. Shrinking by η·λ_j alone would weigh the penalty by s, which differs from group to group and drifts in
    training. One s for a whole group, the root mean square over its weights, makes the metric a multiple of the
    identity there: the map is then a plain shrinking and the stationary points are those of `proximal_step`.

    Args:
        rows: W.
        gradient: Of the loss without the penalty.
        moments: Of the steps before; `no_moments` to begin with.
        layout: The columns.
        rate: η.
        penalty: λ_j.
        decays: Adam's β_1 and β_2. A critic that moves asks for short memories.
    """
    gradient = masked(gradient, layout)
    extra = rows.shape[1] - layout.features
    sizes = np.bincount(groups(layout, extra)) * rows.shape[2]
    (b1, b2), count = decays, moments.steps + 1
    mean = b1 * moments.mean + (1 - b1) * gradient
    square = b2 * moments.square + (1 - b2) * group_squares(gradient, layout) / sizes[None, :]
    # 1e-4 caps the step of a group that the loss does not feel: η·λ/s must not be infinite, nor 0/0.
    scale = jnp.sqrt(square / (1 - b2**count)) + 1e-4
    direction = mean / (1 - b1**count) / scale[:, groups(layout, extra), None]
    amount = rate * penalty[:, None] / scale[:, : layout.columns]
    return shrunk(rows - rate * direction, layout, amount), Moments(count, mean, square)
