"""The structure: how a penalty on the rows of W finds the parents, and how an order is found in a public table.

The one rule: private rows never come here. What is learned of them has gone through the critic already, and
`order_from` is for tables that are public.

The penalty of column j is λ_j Σ_{k < j} ‖W_j^k‖, where W_j^k are the rows that column k's features have in W_j: one
group for each earlier column, however many features it has. `pairs` below are (columns, columns) arrays, [j, k] for the
group that k has in W_j.

Sources: the PrAda-GAN paper, sections "Adaptive Feature Selection" and "Theoretical Guarantees"; Yuan and Lin (2006),
"Model selection and estimation in regression with grouped variables"; Parikh and Boyd (2014), "Proximal algorithms";
Reisach et al. (2023), arXiv:2303.18211, for orders by R²; Bühlmann, Peters and Ernest (2014), arXiv:1310.1533, for
orders by likelihood; Rudell (1993) for sifting.

Departures:
- Proximal steps, where the paper adds the penalty to the loss and takes its subgradient (`subgradient`). A subgradient
  step never lands on zero; it jumps to and fro about it.
- Adam with one second moment for each group, so that the proximal step in Adam's own metric has a closed form.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from understudy.synthesizers.prada.networks import Layout, masked

# Groups -------------------------------------------------------------------------------------------------------------


def groups(layout: Layout, noise: int) -> np.ndarray:
    """The group of every row of W_j: the column it belongs to, and one group more for each dimension of the noise."""
    return np.concatenate([layout.owners, layout.columns + np.arange(noise)])


def group_norms(rows: jax.Array, layout: Layout) -> jax.Array:
    """‖W_j^k‖ for all pairs; zero unless k comes before j."""
    return jnp.sqrt(_group_squares(masked(rows, layout), layout)[:, : layout.columns])


def _group_squares(rows: jax.Array, layout: Layout) -> jax.Array:
    """Sums of squares over groups: (columns, columns + noise)."""
    noise = rows.shape[1] - layout.features
    empty = jnp.zeros((layout.columns, layout.columns + noise), rows.dtype)
    return empty.at[:, groups(layout, noise)].add(jnp.sum(rows**2, axis=2))


# The penalty --------------------------------------------------------------------------------------------------------


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


def subgradient(rows: jax.Array, layout: Layout, penalty: jax.Array | np.ndarray) -> jax.Array:
    """λ_j W_j^k / ‖W_j^k‖, and 0 at 0: the paper's own step adds it to the gradient. Noise is not penalised."""
    norms = group_norms(rows, layout)
    direction = jnp.where(norms > 0, penalty[:, None] / jnp.where(norms > 0, norms, 1.0), 0.0)
    return masked(rows, layout) * _to_rows(direction, layout, rows.shape[1], noise=0.0)


def shrunk(rows: jax.Array, layout: Layout, amount: jax.Array | np.ndarray) -> jax.Array:
    """W_j^k · max(0, 1 - amount_jk / ‖W_j^k‖): every group shorter by its amount, and exactly zero below it.

    It is the proximal map of Σ amount_jk ‖W_j^k‖. Noise is not penalised.
    """
    norms = group_norms(rows, layout)
    kept = jnp.where(norms > amount, 1.0 - amount / jnp.where(norms > amount, norms, 1.0), 0.0)
    return masked(rows, layout) * _to_rows(kept, layout, rows.shape[1], noise=1.0)


def _to_rows(pairs: jax.Array, layout: Layout, height: int, *, noise: float) -> jax.Array:
    """A number for each pair, repeated for every row of W: (columns, height, 1)."""
    padding = jnp.full((layout.columns, height - layout.features), noise, pairs.dtype)
    return jnp.concatenate([pairs[:, layout.owners], padding], axis=1)[:, :, None]


# Steps --------------------------------------------------------------------------------------------------------------


def proximal_step(
    rows: jax.Array, gradient: jax.Array, layout: Layout, *, rate: float | jax.Array, penalty: jax.Array | np.ndarray
) -> jax.Array:
    """One step of proximal gradient descent: down the gradient by the rate η, then shrunk by η·λ_j.

    It stands still where the gradient is -λ_j W_j^k / ‖W_j^k‖, or where W_j^k = 0 and the gradient is at most λ_j long:
    at the stationary points of loss + penalty, whatever the rate.
    """
    amount = jnp.broadcast_to((rate * penalty)[:, None], (layout.columns, layout.columns))
    return shrunk(rows - rate * gradient, layout, amount)


class Moments(NamedTuple):
    """Adam's running moments of the gradient of W: the mean of each weight, the mean square of each group."""

    count: jax.Array
    mean: jax.Array  # (columns, features + noise, hidden)
    square: jax.Array  # (columns, columns + noise)


def no_moments(rows: jax.Array, layout: Layout) -> Moments:
    """Before the first step."""
    noise = rows.shape[1] - layout.features
    return Moments(jnp.zeros((), jnp.int32), jnp.zeros_like(rows), jnp.zeros((layout.columns, layout.columns + noise)))


def proximal_adam_step(
    rows: jax.Array,
    gradient: jax.Array,
    moments: Moments,
    layout: Layout,
    *,
    rate: float | jax.Array,
    penalty: jax.Array | np.ndarray,
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
        decays: Adam's β_1 and β_2. A critic that moves wants short memories.
    """
    gradient = masked(gradient, layout)
    height = rows.shape[1]
    sizes = np.bincount(groups(layout, height - layout.features)) * rows.shape[2]
    (b1, b2), count = decays, moments.count + 1
    mean = b1 * moments.mean + (1 - b1) * gradient
    square = b2 * moments.square + (1 - b2) * _group_squares(gradient, layout) / sizes
    # 1e-4 caps the step of a group that the loss does not feel: η·λ/s must not be infinite, nor 0/0.
    scale = jnp.sqrt(square / (1 - b2**count)) + 1e-4
    direction = mean / (1 - b1**count) / scale[:, groups(layout, height - layout.features), None]
    amount = rate * penalty[:, None] / scale[:, : layout.columns]
    return shrunk(rows - rate * direction, layout, amount), Moments(count, mean, square)


# Parents ------------------------------------------------------------------------------------------------------------


def parents(pairs: np.ndarray | jax.Array, layout: Layout) -> dict[str, list[str]]:
    """The parents of every column, in generation order."""
    joined = np.asarray(pairs)
    return {
        name: [parent for k, parent in enumerate(layout.names) if joined[j, k]] for j, name in enumerate(layout.names)
    }


def only(rows: jax.Array, pairs: jax.Array, layout: Layout) -> jax.Array:
    """W with exact zeros but for the given pairs and the noise.

    The second step keeps its parents by applying this to the weights after every step, or to their gradient once the
    weights have it.
    """
    return masked(rows, layout) * _to_rows(pairs.astype(rows.dtype), layout, rows.shape[1], noise=1.0)


# An order from a public table ---------------------------------------------------------------------------------------

MOST_ROWS = 2000
LEAST_GAIN = 0.003  # nats a row: below it a move is as likely chance
SWEEPS = 5
RIDGE = 0.01  # of curves, a share of the rows


def order_from(values: np.ndarray, *, seed: int = 0) -> list[int]:
    """A generation order, causes first, guessed from a PUBLIC table of numbers (rows, columns).

    Two ideas, since neither is enough. In linear models only the variances tell: what is caused by much is explained
    well by the rest, so columns start in the order of their R² on all others. In additive models that are not linear
    the likelihood tells: with the wrong direction the noise is not additive and its variance is larger. So each column
    in turn is moved to the place that lowers Σ_j log Var(x_j | those before) / 2 most, by cross-validated regression
    on curved features, if that is worth `LEAST_GAIN`; linear models give nothing to move for.

    A guess: it says nothing of privacy, and a wrong order costs parents (more are needed), not validity.

    Raises:
        ValueError: The table is not two-dimensional, or a number is missing.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 2 or not np.isfinite(x).all():
        raise ValueError("order_from: expected a two-dimensional array of finite numbers.")
    draw = np.random.default_rng(seed)
    x = x[draw.permutation(len(x))[:MOST_ROWS]]
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12)
    order, fits = _by_explained_variance(x), _Fits(x, seed)
    for _ in range(SWEEPS):
        before = order
        for column in before:
            order = _sifted(order, column, fits)
        if order == before:
            break
    return order


def _by_explained_variance(x: np.ndarray) -> list[int]:
    """Columns by their R² on all the others, 1 - 1 / (C⁻¹)_jj, the least explained first."""
    c = x.T @ x / len(x) + 1e-6 * np.eye(x.shape[1])
    return [int(j) for j in np.argsort(np.diag(np.linalg.inv(c)), kind="stable")]


def order_by_moments(moments: np.ndarray) -> list[int]:
    """The rank of every column in the same order, from (noisy) second moments: R² again, after mending the matrix."""
    values, vectors = np.linalg.eigh((moments + moments.T) / 2)
    nearest_correlation = (vectors * np.maximum(values, 0.05)) @ vectors.T
    deviations = np.sqrt(np.diag(nearest_correlation))
    order = np.argsort(np.diag(np.linalg.inv(nearest_correlation / np.outer(deviations, deviations))), kind="stable")
    return [int(rank) for rank in np.argsort(order)]


class _Fits:
    """What curves add to straight lines in explaining x_j by some columns, each computed once.

    It is min(0, log Var_curved - log Var_straight) / 2, out of sample. Straight lines alone add up to the same for
    every order (half the log determinant of the covariance), so leaving them out takes away noise and nothing else; and
    in a linear model nothing is left.
    """

    def __init__(self, x: np.ndarray, seed: int):
        self.x, self.seed, self.known = x, seed, {}

    def __call__(self, j: int, given: Sequence[int]) -> float:
        key = (j, frozenset(given))
        if key not in self.known:
            self.known[key] = self._fit(j, sorted(given)) if given else 0.0
        return self.known[key]

    def _fit(self, j: int, given: list[int]) -> float:
        features, y, straight = _curved(self.x[:, given], self.seed), self.x[:, j], 1 + len(given)
        ridge = np.where(np.arange(features.shape[1]) < straight, 1e-6, RIDGE)  # lines are free
        curved = _left_over(features, y, ridge) / _left_over(features[:, :straight], y, ridge[:straight])
        return 0.5 * float(np.log(np.clip(curved, 1e-6, 1.0)))


def _left_over(features: np.ndarray, y: np.ndarray, ridge: np.ndarray) -> float:
    """The sum of squares that ridge regression leaves, each half predicted from the other."""
    half, squares = len(y) // 2, 1e-12
    for here, there in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        gram = features[here].T @ features[here] + len(y) * np.diag(ridge)
        weights = np.linalg.solve(gram, features[here].T @ y[here])
        squares += float(np.sum((y[there] - features[there] @ weights) ** 2))
    return squares


def _curved(x: np.ndarray, seed: int, pairs: int = 60) -> np.ndarray:
    """A constant, each column, waves of each, and waves of random mixtures of two."""
    k = x.shape[1]
    parts = [np.ones((len(x), 1)), x, np.cos(1.5 * x), np.sin(1.5 * x), 0.5 * np.cos(3 * x), 0.5 * np.sin(3 * x)]
    if k > 1:
        draw = np.random.default_rng(seed)
        mixtures = np.zeros((k, pairs))
        for i in range(pairs):
            mixtures[draw.choice(k, 2, replace=False), i] = 1.2 * draw.standard_normal(2)
        parts.append(np.cos(x @ mixtures + draw.uniform(0, 2 * np.pi, pairs)))
    return np.hstack(parts)


def _sifted(order: list[int], column: int, fits: _Fits) -> list[int]:
    """The order with one column moved to its best place: it passes its neighbours one by one, to either end."""
    best, most = order, LEAST_GAIN
    for step in (-1, 1):
        moved, gain, i = list(order), 0.0, order.index(column)
        while 0 <= i + step < len(moved):
            low = min(i, i + step)
            first, second, before = moved[low], moved[low + 1], moved[:low]
            gain += fits(first, before) + fits(second, [*before, first])
            gain -= fits(second, before) + fits(first, [*before, second])
            moved[low], moved[low + 1] = second, first
            i += step
            if gain > most:
                best, most = list(moved), gain
    return best
