"""Targets: what was released of one column, as covariances that its density should have over the rows of a pool.

The one rule: no private row comes here.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from understudy.synthesizers.conditional.basis import Bases
from understudy.synthesizers.conditional.correcting import Moments
from understudy.synthesizers.conditional.measuring import PairCount
from understudy.synthesizers.conditional.pools import CodedPool

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_EXPLAINED = 0.97
"""A linear prediction explains at most this part of the variance of a column."""
CLEARLY = 1.5
"""A function is read if a column depends on it by more than so many deviations of the noise, ..."""
MOST_READ = 160
"""... and is among so many that it depends on most."""
SINGULAR = 1e-12
"""Added to variances of noise, so that they have an inverse."""


@dataclasses.dataclass(frozen=True, eq=False)
class Released:
    """All that was released of a table beside its encoder."""

    moments: Moments
    pairs: dict[tuple[int, int], PairCount]


@dataclasses.dataclass(frozen=True, eq=False)
class Targets:
    """What was released of one column.

    Attributes:
        reads: The functions that it reads.
        covariances: Of every product, (functions that it reads, functions of its own).
        noise: τ of each; infinite where nothing was released.
        prior: v of every function that it reads.
        shares: Of its bins.
        stay: The share of rows that have the category of the row before; None if that was not released.
        before: The column of that category.
        landings: Of a gap, the shares of the orders that it leads to (landing.py).
    """

    reads: Whole
    covariances: Floats
    noise: Floats
    prior: Floats
    shares: Floats
    stay: float | None = None
    before: int = -1
    landings: Floats | None = None


def targets_of(
    j: int, bases: Bases, released: Released, pool: CodedPool, rows: Flags, *, readable: Flags, prior: Floats
) -> Targets:
    """What was released of column j.

    Args:
        rows: The rows of the pool in which it is drawn.
        readable: Columns that it may read; those after it are none of them anyway.
        prior: What the square of a weight is expected to be, of each column that is read.
    """
    own, felt = bases.of[j], _felt(j, bases, released.moments, readable)
    earlier = {
        min(each.first, each.second): each
        for each in released.pairs.values()
        if max(each.first, each.second) == j and readable[min(each.first, each.second)]
    }
    reads = np.union1d(felt, np.flatnonzero(np.isin(bases.owners, list(earlier)))).astype(np.int64)
    shape = len(reads), own.table.shape[1]
    means, noise = np.zeros(shape), np.full(shape, np.inf)
    if len(felt):
        mine = released.moments.of(bases.functions_of(j))
        products = np.ix_(np.searchsorted(reads, felt), mine - bases.starts[j])
        means[products] = _explainable(mine, bases, released.moments, felt, pool, rows, prior[bases.owners[felt]])
        noise[products] = released.moments.noise
    stay, before = None, -1
    for i, each in earlier.items():
        shares = each.shares if each.first == i else each.shares.T
        apart = shares - np.outer(shares.sum(axis=1), own.shares)
        at, table = np.flatnonzero(bases.owners[reads] == i), bases.of[i].table
        spread = each.noise * np.sqrt(np.outer((table**2).sum(axis=0), (own.table**2).sum(axis=0)))
        precision = spread**-2.0 + noise[at] ** -2.0
        means[at] = (table.T @ apart @ own.table * spread**-2.0 + means[at] * noise[at] ** -2.0) / precision
        noise[at] = precision**-0.5
        if not own.number and bases.names[i] == f"previous.{bases.names[j]}":
            labels = len(bases.bins[j].edges) - 1
            held = np.bincount(pool.codes[i], pool.weights, shares.shape[0]) / pool.count
            joint = apart + np.outer(held, own.shares)
            stay, before = float(np.trace(joint[:labels, :labels])), i
    return Targets(reads, means, noise, prior[bases.owners[reads]], own.shares.copy(), stay, before)


def _felt(j: int, bases: Bases, moments: Moments, readable: Flags) -> Whole:
    """The measured functions of earlier columns that column j depends on beyond the noise, at most `MOST_READ`."""
    whose = bases.owners[moments.places]
    mine, others = np.flatnonzero(whose == j), np.flatnonzero((whose < j) & readable[whose])
    if not len(mine) or not len(others):
        return np.zeros(0, np.int64)
    spread = np.sqrt(np.maximum(bases.squares[moments.places], 1e-3))
    units = np.outer(spread[others], spread[mine])
    felt = np.max(np.abs(moments.covariances[np.ix_(others, mine)]) / units - CLEARLY * moments.noise / units, axis=1)
    order = np.argsort(-felt)[:MOST_READ]
    return np.sort(moments.places[others[order[felt[order] > 0]]])


def _explainable(
    mine: Whole, bases: Bases, moments: Moments, reads: Whole, pool: CodedPool, rows: Flags, prior: Floats
) -> Floats:
    """The measured covariances of functions with those of a column, `mine`, as far as contexts of the pool allow.

    A column cannot be explained by more than all of its variance. If it would be, by contexts that depend on each other
    in another way than those of private rows do, all its covariances are made smaller.
    """
    at, own = np.searchsorted(moments.places, reads), np.searchsorted(moments.places, mine)
    found = moments.covariances[np.ix_(at, own)]
    x, weights = pool.functions[rows][:, reads], pool.weights[rows, None] / pool.count
    x = x - (x * weights).sum(axis=0) / max(float(weights.sum()), 1e-12)
    among = (x.T @ (x * weights)).astype(np.float64)
    variances = np.maximum(bases.squares[mine] - bases.means[mine] ** 2, 1e-4)
    explained = np.zeros(len(mine))
    noise = np.full(len(reads), moments.noise)
    for q, variance in enumerate(variances.tolist()):
        moved = expected_weights(found[:, q], noise, variance * among, prior)
        explained[q] = variance**2 * float(moved @ among @ moved)
    return found * np.sqrt(np.minimum(1.0, MOST_EXPLAINED * variances / np.maximum(explained, 1e-12)))


def expected_weights(found: Floats, noise: Floats, curvature: Floats, prior: Floats) -> Floats:
    """What weights are expected to be: t = G w has noise τ, and w is normal with variances v.

    Of contexts that say the same, noise makes differences that no weights could: a direction in which contexts hardly
    vary has hardly any covariance. E[w | t] = V G (G V G + T)⁻¹ t, with V the variances of w and T those of the noise,
    leaves these out.

    Args:
        found: t, with noise.
        noise: τ of each.
        curvature: G, how weights move covariances.
        prior: v of each weight.
    """
    signal = (curvature * prior) @ curvature
    solved = np.linalg.solve(signal + np.diag(noise**2 + SINGULAR), found)
    return prior * (curvature @ solved)
