"""Noisy counts made consistent: over nested partitions by least squares, and as non-negative masses with a given sum.

Public mathematics: counts already carry noise.

Sources: Hay et al. (2010), "Boosting the accuracy of differentially private histograms through consistency", for the
least squares on a tree; Duchi et al. (2008) for the projection to the simplex.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.piecewise import Floats


@dataclasses.dataclass(frozen=True)
class Round:
    """Noisy counts of one round over one partition, with their noise variance and each bin's parent."""

    counts: Floats
    variance: float
    parents: NDArray[np.int64]


def combine(rounds: Sequence[Round]) -> Floats:
    """Generalised least squares over nested partitions: the best unbiased masses of the last one's bins.

    Upwards, each bin's own count is averaged with the sum of its children, weighted by 1 / variance; downwards, the
    difference that remains is shared among the children in proportion to their variance.
    """
    z, v = rounds[-1].counts, np.full(len(rounds[-1].counts), rounds[-1].variance)
    below = []
    for upper, lower in zip(rounds[-2::-1], rounds[:0:-1], strict=True):
        size = len(upper.counts)
        child_sum, child_variance = np.bincount(lower.parents, z, size), np.bincount(lower.parents, v, size)
        below.append((z, v, child_sum, child_variance))
        v = 1 / (1 / upper.variance + 1 / child_variance)
        z = v * (upper.counts / upper.variance + child_sum / child_variance)
    for (z_child, v_child, child_sum, child_variance), lower in zip(below[::-1], rounds[1:], strict=True):
        z = z_child + v_child * ((z - child_sum) / child_variance)[lower.parents]
    return z


def to_simplex(masses: Floats, total: float) -> Floats:
    """The nearest non-negative masses with the given sum, in the Euclidean distance."""
    descending = np.sort(masses)[::-1]
    shift = (np.cumsum(descending) - total) / np.arange(1, len(masses) + 1)
    above = np.flatnonzero(descending > shift)
    if len(above) == 0:  # noise so large that the total is lost in rounding
        return np.where(np.arange(len(masses)) == np.argmax(masses), total, 0.0)
    return np.maximum(masses - shift[above[-1]], 0.0)
