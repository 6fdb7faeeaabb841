"""Piecewise linear distribution functions, and intervals of levels read through them.

A *level* is a place in [0, 1]: the probability that lies below a value. All numbers in here are public: knots, bounds
and edges were measured with noise or stand in the schema. The one rule: every function works entry by entry, so that an
entry of the result depends on the same entry of the argument alone.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.interpolation import interpolated, place_among

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

# Numbers beyond this are read as this; the range that floats have above it keeps widths and slopes from overflowing.
LARGEST = 2.0**900
# So many atoms are looked for one after another.
FEW_ATOMS = 8


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Distribution:
    """A distribution function that is linear between knots (values, cdf) and jumps at a repeated value.

    Attributes:
        values: Ascending knots; an atom a is two knots, both at a.
        cdf: Ascending from 0 to 1, of the same length.
        integer: Whether values are whole numbers. Then knots are half-integers, and a number k owns [k - 1/2, k + 1/2).
    """

    values: Floats
    cdf: Floats
    integer: bool = False

    def interval(self, x: Floats) -> tuple[Floats, Floats]:
        """The probabilities (P(X < x), P(X <= x)) of every value; they differ on atoms and whole numbers alone.

        NaN stays NaN.
        """
        if self.integer:
            below, above = (interpolated(x + half, self.values, self.cdf) for half in (-0.5, 0.5))
            return below, np.maximum(below, above)
        level = interpolated(x, self.values, self.cdf)
        jumps = (self.values[1:] == self.values[:-1]) & (self.cdf[1:] > self.cdf[:-1])
        atoms = np.unique(self.values[1:][jumps])
        if not len(atoms):
            return level, level
        first, after = (np.searchsorted(self.values, atoms, side=side) for side in ("left", "right"))
        if len(atoms) > FEW_ATOMS:
            atom = np.maximum(place_among(x, atoms), 0)
            repeated = atoms[atom] == x
            below = np.where(repeated, self.cdf[first[atom]], level)
            return below, np.where(repeated, self.cdf[after[atom] - 1], level)
        below, above = level, level.copy()
        for value, low, high in zip(atoms, self.cdf[first], self.cdf[after - 1], strict=True):
            repeated = x == value
            np.putmask(below, repeated, low)
            np.putmask(above, repeated, high)
        return below, above

    def quantile(self, u: Floats) -> Floats:
        """The value at probability u: the inverse of `interval`."""
        x = interpolated(u, self.cdf, self.values)
        # A knot k + 1/2 is the end of k: several levels may lie on it, none of them of k + 1.
        return np.maximum(np.ceil(x - 0.5), np.ceil(self.values[0])) if self.integer else x

    def atoms(self) -> tuple[Floats, Floats]:
        """The probability intervals (below, above) that belong to one value each."""
        repeated = np.diff(self.values) <= (1.0 if self.integer else 0.0)
        return self.cdf[:-1][repeated], self.cdf[1:][repeated]


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class LevelScale:
    """Reads the values of a column as intervals of levels.

    Attributes:
        distribution: Of the values that are not missing; of codes if `coded`.
        low, high: Values outside are clamped to these.
        step: If given, the distribution is over whole numbers of this step, which values are rounded to before they are
            clamped.
        coded: Whether values are codes of categories, of which a negative one is missing. NaN always is.
    """

    distribution: Distribution
    low: float = -LARGEST
    high: float = LARGEST
    coded: bool = False
    step: float | None = None

    def interval(self, values: NDArray[Any]) -> tuple[Floats, Floats]:
        """The interval of levels that belongs to every value; NaN if the value is missing."""
        x = numbers(values)
        if self.coded:
            x = np.where(x < 0, np.nan, x)
        if self.step is not None:
            x = np.rint(x / self.step)
        return self.distribution.interval(np.clip(x, self.low, self.high))


def numbers(column: NDArray[Any]) -> Floats:
    """A column of any dtype as floats; entries of a dtype that does not hold real numbers are NaN."""
    if column.dtype.kind not in "biuf":
        return np.full(len(column), np.nan)
    return column.astype(np.float64, copy=False)


def is_missing(column: NDArray[Any], *, coded: bool) -> NDArray[np.bool_]:
    """Whether an entry is missing: NaN, or a negative code."""
    x = numbers(column)
    return np.isnan(x) | (x < 0) if coded else np.isnan(x)


def bin_of(values: Floats, edges: Floats) -> Whole:
    """The bin [edges[i], edges[i + 1]) of every value; beyond the edges the nearest one, and -1 for NaN."""
    found = place_among(values, edges)
    np.minimum(np.maximum(found, 0, out=found), len(edges) - 2, out=found)
    np.putmask(found, np.isnan(values), -1)
    return found
