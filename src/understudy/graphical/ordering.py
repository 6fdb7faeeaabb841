"""An order of columns, causes first, guessed from a public table.

The one rule: private rows never come here. `order_from` is for tables that are public.

Sources: Reisach et al. (2023), arXiv:2303.18211, for orders by R²; Bühlmann, Peters and Ernest (2014), arXiv:1310.1533,
for orders by likelihood; Rudell (1993), "Dynamic variable ordering for ordered binary decision diagrams", for sifting.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_ROWS = 2000
"""A larger table is thinned to this many rows: more hardly change the order, and take longer."""
LEAST_GAIN = 0.003
"""A column is moved if that gains this many nats a row. A smaller gain is as likely chance."""
SWEEPS = 5
"""Every column is considered for a move this many times at most."""
RIDGE = 0.01
"""The ridge penalty on curves, as a share of the rows. Straight lines have next to none."""
MIXTURES = 60
"""Curves in a mixture of two columns get this many random features."""


def order_from(values: NDArray, *, seed: int = 0) -> list[int]:
    """A generation order, causes first, guessed from a PUBLIC table of numbers (rows, columns).

    It joins two ideas, since neither is enough. In linear models only the variances tell: what is caused by much is
    explained well by the rest, so columns start in the order of their R² on all others. In additive models that are
    not linear the likelihood tells: with the wrong direction the noise is not additive and its variance is larger. So
    each column in turn is moved to the place that lowers Σ_j log Var(x_j | those before) / 2 most, by cross-validated
    regression on curved features, if that gains `LEAST_GAIN`; linear models give no reason to move.

    The order is a guess. It says nothing of privacy, and a wrong order costs parents (more are needed), not validity.

    Raises:
        ValueError: The table is not two-dimensional, or a number is missing.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 2 or not np.isfinite(x).all():
        raise ValueError("order_from: expected a two-dimensional array of finite numbers.")
    draw = np.random.default_rng(seed)
    x = x[draw.permutation(len(x))[:MOST_ROWS]]
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12)
    order = by_explained_variance(x.T @ x / len(x) + 1e-6 * np.eye(x.shape[1]))
    curves = _Curves(x, seed)
    for _ in range(SWEEPS):
        before = order
        for column in before:
            order = _sifted(order, column, curves)
        if order == before:
            break
    return order


def by_explained_variance(correlation: Floats) -> list[int]:
    """Columns by their R² on all the others, 1 - 1 / (C⁻¹)_jj, the least explained first."""
    return [int(j) for j in np.argsort(np.diag(np.linalg.inv(correlation)), kind="stable")]


class _Curves:
    """What curves add to straight lines in explaining x_j by some columns, each computed once.

    It is min(0, log Var_curved - log Var_straight) / 2, out of sample. Straight lines alone add up to the same for
    every order (half the log determinant of the covariance), so leaving them out removes noise and nothing else; in a
    linear model nothing is left.
    """

    def __init__(self, x: Floats, seed: int):
        self.x, self.seed = x, seed
        self.known: dict[tuple[int, frozenset[int]], float] = {}

    def __call__(self, j: int, given: Sequence[int]) -> float:
        key = (j, frozenset(given))
        if key not in self.known:
            self.known[key] = self._gain(j, sorted(given)) if given else 0.0
        return self.known[key]

    def _gain(self, j: int, given: list[int]) -> float:
        features, y, straight = _curved(self.x[:, given], self.seed), self.x[:, j], 1 + len(given)
        ridge = np.where(np.arange(features.shape[1]) < straight, 1e-6, RIDGE)
        curved = _left_over(features, y, ridge) / _left_over(features[:, :straight], y, ridge[:straight])
        return 0.5 * float(np.log(np.clip(curved, 1e-6, 1.0)))


def _left_over(features: Floats, y: Floats, ridge: Floats) -> float:
    """The sum of squares that ridge regression leaves, each half predicted from the other."""
    half, squares = len(y) // 2, 1e-12
    for here, there in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        gram = features[here].T @ features[here] + len(y) * np.diag(ridge)
        weights = np.linalg.solve(gram, features[here].T @ y[here])
        squares += float(np.sum((y[there] - features[there] @ weights) ** 2))
    return squares


def _curved(x: Floats, seed: int) -> Floats:
    """A constant, each column, waves of each, and waves of random mixtures of two."""
    k = x.shape[1]
    parts = [np.ones((len(x), 1)), x, np.cos(1.5 * x), np.sin(1.5 * x), 0.5 * np.cos(3 * x), 0.5 * np.sin(3 * x)]
    if k > 1:
        draw = np.random.default_rng(seed)
        mixtures = np.zeros((k, MIXTURES))
        for i in range(MIXTURES):
            mixtures[draw.choice(k, 2, replace=False), i] = 1.2 * draw.standard_normal(2)
        parts.append(np.cos(x @ mixtures + draw.uniform(0, 2 * np.pi, MIXTURES)))
    return np.hstack(parts)


def _sifted(order: list[int], column: int, curves: _Curves) -> list[int]:
    """The order with one column moved to its best place: it passes its neighbours one by one, to either end."""
    best, most = order, LEAST_GAIN
    for step in (-1, 1):
        moved, gain, i = list(order), 0.0, order.index(column)
        while 0 <= i + step < len(moved):
            low = min(i, i + step)
            first, second, before = moved[low], moved[low + 1], moved[:low]
            gain += curves(first, before) + curves(second, [*before, first])
            gain -= curves(second, before) + curves(first, [*before, second])
            moved[low], moved[low + 1] = second, first
            i += step
            if gain > most:
                best, most = list(moved), gain
    return best
