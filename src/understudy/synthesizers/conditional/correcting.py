"""What was released of weighted families, as if all rows had counted alike.

Rows of units that are much alike weigh less in what is released (privacy/unit_weights.py). With t_w what was released,
and p and p_w what a pool of drawn families has without and with such weights,

    t = p + t_w / k - p_w / l,

where weights leave k of a private row and l of a drawn one, is what all rows would have shown, as far as weights do to
private families what they do to drawn ones. Once drawn families are like private ones, p_w = t_w and t = p.

The one rule: no private row comes here.
"""

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.unit_weights import STEPS, count_weights, moment_weights
from understudy.synthesizers.conditional.basis import Bases
from understudy.synthesizers.conditional.measuring import Margins, PairCount, Sums
from understudy.synthesizers.conditional.pools import CodedPool

Floats = NDArray[np.float64]

LEAST_KEPT = 0.1
"""Weights are taken to leave at least this part of a row."""
KEPT_APART = 0.05
"""What weights leave of private rows and of drawn ones is expected to differ by this."""


@dataclasses.dataclass(frozen=True, eq=False)
class Moments:
    """Covariances of the functions whose products were measured.

    Attributes:
        places: Of these functions among all.
        covariances: (functions, functions); 0 of two that are given.
        noise: The deviation of the noise of one.
    """

    places: NDArray[np.int64]
    covariances: Floats
    noise: float

    def of(self, functions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some functions that were measured."""
        return functions[np.isin(functions, self.places)]

    def up_to(self, degree: int, bases: Bases) -> "Moments":
        """Those of functions up to a degree."""
        kept = np.flatnonzero(bases.degrees[self.places] <= degree)
        return Moments(self.places[kept], self.covariances[np.ix_(kept, kept)], self.noise)


def corrected_moments(sums: Sums, pool: CodedPool) -> Moments:
    """The covariances of the measured functions, as a pool says that they are without weights."""
    x = pool.functions[:, sums.places].astype(np.float64)
    drawn = np.c_[np.ones(len(x)), x[:, ~sums.given]]
    weights = moment_weights(pool.unit, drawn, x[:, sums.given], bound=sums.bound) / STEPS
    kept = max(float(sums.means[0, 0]), LEAST_KEPT)
    means = sums.means[0, 1:] / kept
    found = sums.means[1:, 1:] / kept - np.outer(means, means)
    found += _covariances(x, pool.weights) - _covariances(x, pool.weights * weights)
    found[np.ix_(sums.given, sums.given)] = 0.0
    return Moments(sums.places, found, sums.noise / kept)


def _covariances(x: Floats, weights: NDArray[np.floating]) -> Floats:
    share = weights / max(float(weights.sum()), 1e-12)
    means = share @ x
    return (x * share[:, None]).T @ x - np.outer(means, means)


def corrected_pair(pair: PairCount, bases: Bases, pool: CodedPool) -> PairCount:
    """The shares of a pair, as a pool says that they are without weights."""
    cells = pool.codes[pair.first] * bases.bins[pair.second].size + pool.codes[pair.second]
    weights = count_weights(pool.unit, cells, bound=pair.bound) / STEPS
    every, some = (
        np.bincount(cells, each, pair.shares.size).reshape(pair.shares.shape) / max(pool.count, 1)
        for each in (pool.weights.astype(np.float64), pool.weights * weights)
    )
    drawn = float(some.sum())
    kept = _kept(drawn, float(pair.shares.sum()), (pair.noise**2 * pair.shares.size) ** -1)
    shares = every + pair.shares / kept - some / max(drawn, LEAST_KEPT)
    return dataclasses.replace(pair, shares=shares, noise=pair.noise / kept)


def corrected_margins(margins: Margins, pool: CodedPool) -> Margins:
    """The shares of single columns, as a pool says that they are without weights."""
    sizes = {j: each.size for j, each in margins.bins.items()}
    starts = dict(zip(sizes, np.cumsum([0, *sizes.values()]), strict=False))
    cells = np.stack([pool.fine[j] + start for j, start in starts.items()])
    weights = count_weights(pool.unit, cells, bound=margins.bound) / STEPS
    drawn = max(float(np.mean(weights)) if pool.count else 1.0, LEAST_KEPT)
    counted = float(np.mean([each.sum() for each in margins.shares.values()]))
    noise = margins.noise * math.sqrt(sum(sizes.values())) / len(sizes)
    kept = _kept(drawn, counted, noise**-2)
    found = {}
    for j, size in sizes.items():
        every, some = (np.bincount(pool.fine[j], each, size) / max(pool.count, 1) for each in (None, weights))
        found[j] = every + margins.shares[j] / kept - some / drawn
    return dataclasses.replace(margins, shares=found, noise=margins.noise / kept)


def _kept(drawn: float, counted: float, precision: float) -> float:
    """What weights leave of a private row: what they leave of a drawn one, and the counted sum with its precision."""
    precisions = np.array([KEPT_APART**-2, precision])
    return max(float(precisions @ [drawn, counted] / precisions.sum()), LEAST_KEPT)
