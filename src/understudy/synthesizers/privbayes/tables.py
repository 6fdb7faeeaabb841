"""Noisy tables made into conditional distributions: parents that a table does not support are pruned, rows shrunk.

Everything here is post-processing of released counts.

Source: Efron and Morris (1973) for shrinkage by the measured spread.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.graphical.bayes_net import ConditionalTable, to_simplices
from understudy.privacy.selection import dependence
from understudy.synthesizers.privbayes.views import Candidate, View

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
"""E|z| of a standard normal z."""


def table_of(
    candidate: Candidate, groups: Sequence[Whole], counts: Floats, view: View, *, noise: float
) -> ConditionalTable:
    """The table of a column with its parents, as conditional distributions.

    Args:
        groups: Of each parent and of the column, the coarse bin of every finest one.
        counts: Noisy; one axis for each parent, the last for the column.
        view: The column's.
        noise: The deviation of a count.
    """
    marginal = np.asarray(np.bincount(groups[-1], view.masses, candidate.size), np.float64)
    order = sorted(range(len(candidate.parents)), key=lambda axis: -_pair_dependence(counts, axis, noise))
    counts, order, noise = prune_parents(counts.transpose(*order, counts.ndim - 1), order, marginal, noise)
    return ConditionalTable(
        candidate.column,
        tuple(candidate.parents[axis] for axis in order),
        view.filled_in(shrunk(counts, marginal, noise), candidate.size),
        tuple(groups[axis] for axis in order),
    )


def _pair_dependence(counts: Floats, axis: int, noise: float) -> float:
    """How much of a noisy table's dependence one parent shows alone, less what the noise shows."""
    others = tuple(i for i in range(counts.ndim - 1) if i != axis)
    pair = counts.sum(axis=others)
    return dependence(pair) - 0.5 * MEAN_ABSOLUTE * noise * math.sqrt(counts.size * pair.size)


def prune_parents(
    counts: Floats, parents: Sequence[int], marginal: Floats, noise: float
) -> tuple[Floats, list[int], float]:
    """The table without the parents that it does not support, the parents that are left, and the noise of a cell.

    From the last to the first, a parent is pruned if the distributions given all parents lie no farther from those
    without it than noise and sampling explain, by three deviations. Costs nothing: the table is released.
    """
    kept = list(parents)
    for axis in reversed(range(counts.ndim - 1)):
        size = counts.shape[axis]
        without = counts.sum(axis=axis)
        prior = np.expand_dims(shrunk(without, marginal, noise * math.sqrt(size)), axis)
        totals, distance, expected = _distance(counts, prior, noise)
        ratio = distance / expected
        spread = noise**2 + totals * prior
        variance = 2 * np.sum(spread**2, -1) / np.sum(spread, -1).clip(1e-150) ** 2
        if np.sum(ratio - 1) <= 3 * math.sqrt(np.sum(variance)):
            counts, noise = without, noise * math.sqrt(size)
            del kept[axis]
    return counts, kept, noise


def shrunk(counts: Floats, marginal: Floats, noise: float) -> Floats:
    """Conditional distributions of the last axis from noisy counts, parent by parent.

    Given the first j parents, a row of counts c with the sum t is expected at t·p, p being the distribution given j - 1
    of them. Noise of variance v in each of m cells and the sampling of t rows move it by

        s = (m - 2 + m Σ p²) v + t (1 - Σ p²)

    in squared distance. If the true distribution lies τ away from p, then |c - t p|² is about t² τ² + s, which gives
    τ² (no more than 1), and with it the best linear estimate:

        c' = t p + w (c - t p),    w = t² τ² / (t² τ² + s).

    τ² is estimated by the mean of what the row itself says and what all rows together say: the one is uncertain, the
    other blind to the few rows that are unlike all others.
    """
    parents = counts.ndim - 1
    found = marginal / marginal.sum()
    if parents == 0:
        return _towards(counts, found, noise)
    for j in range(1, parents + 1):
        rest = tuple(range(j, parents))
        more = math.sqrt(math.prod(counts.shape[axis] for axis in rest))
        found = _towards(counts.sum(axis=rest), found[..., None, :], noise * more)
    return found


def _distance(counts: Floats, prior: Floats, noise: float) -> tuple[Floats, Floats, Floats]:
    """The sum t of every row, its squared distance |c - t p|² from a prior p, and the distance s that is expected."""
    size = counts.shape[-1]
    totals = np.maximum(counts.sum(-1, keepdims=True), 1e-9)
    squares = np.sum(prior**2, -1)
    expected = (size - 2 + size * squares) * noise**2 + totals[..., 0] * (1.0 - squares)
    return totals, np.sum((counts - totals * prior) ** 2, -1), np.maximum(expected, 1e-12)


def _towards(counts: Floats, prior: Floats, noise: float) -> Floats:
    """One step of `shrunk`."""
    totals, distance, expected = _distance(counts, prior, noise)
    t = totals[..., 0]
    farther = (distance - expected) / t**2
    trust = (t**2 / expected) ** 2
    together = np.sum(trust * farther) / np.sum(trust)
    signal = t**2 * (np.clip(farther, 0.0, 1.0) + np.clip(together, 0.0, 1.0)) / 2
    weight = (signal / (signal + expected))[..., None]
    found = to_simplices(totals * prior + weight * (counts - totals * prior), t)
    return found / found.sum(-1, keepdims=True)
