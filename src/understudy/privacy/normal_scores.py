"""Standard normal scores of levels: their mean over an interval, and the score of a target that follows its values.

Public mathematics, entry by entry, like `piecewise`.
"""

# pyright: reportMissingTypeStubs=false

import dataclasses

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The share that values have in a weighted score, beside normal scores; see docs/design-notes.md.
VALUE_SHARE = 0.75
# A value counts as at most this many deviations from the mean.
FARTHEST = 6.0


def normal_score(levels: Floats) -> Floats:
    """The standard normal quantile of every level."""
    from scipy.special import ndtri

    return np.asarray(ndtri(levels), np.float64)


def normal_density(z: Floats) -> Floats:
    return np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)


def mean_score(below: Floats, above: Floats) -> Floats:
    """E[Z | below < Φ(Z) < above] = (φ(a) - φ(b)) / (above - below) with a, b the scores of the two levels."""
    a = normal_score(below)
    if above is below:
        return a
    wide = np.asarray(above - below > 1e-9)
    if np.any(wide):  # of a column of numbers, few
        width = np.asarray(above - below)[wide]
        density = normal_density(a[wide]) - normal_density(normal_score(np.asarray(above)[wide]))
        a[wide] = density / width
    return a


@dataclasses.dataclass(frozen=True, slots=True)
class ValueWeighting:
    """A score of a number column that follows its values as well as their ranks, of mean 0 and deviation 1.

        a(x) = (w · z(x) + (1 - w) · s(x) - shift) / scale

    with z the value in deviations from the mean, within ±`FARTHEST`, s the normal score of its level, and w
    `VALUE_SHARE`. A few rows far from the rest can hold most of a column's variance and hardly show among its ranks:
    what such a column depends on is seen better with the values. Public, computed from the measured distribution.

    Attributes:
        mean, deviation: Of the values.
        shift, scale: Of the sum before it is standardised.
        loading: E[a Z] with Z the normal score behind: how much of a weighted score a normal copula can see.
        farthest: The largest |a|, about.
    """

    mean: float
    deviation: float
    shift: float = 0.0
    scale: float = 1.0
    loading: float = 0.0
    farthest: float = 0.0

    def score(self, values: Floats, normal: Floats) -> Floats:
        """a of values that have these normal scores."""
        z = np.clip((np.nan_to_num(values) - self.mean) / self.deviation, -FARTHEST, FARTHEST)
        return (VALUE_SHARE * z + (1 - VALUE_SHARE) * normal - self.shift) / self.scale
