"""Piecewise linear distribution functions, and intervals of levels read through them.

A *level* is a place in [0, 1]: the probability that lies below a value. All numbers in here are public: knots, bounds
and edges were measured with noise or stand in the schema. The one rule: every function works entry by entry, so that an
entry of the result depends on the same entry of the argument alone.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.interpolation import MANY, Interpolation, Pieces, place_among
from understudy.privacy.made_once import made_once

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

# Numbers beyond this are read as this; the range that floats have above it keeps widths and slopes from overflowing.
LARGEST = 2.0**900
MOST_WHOLE = 2**16
"""A function of at most so many whole numbers is computed once for each of them, and looked up."""


@dataclasses.dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
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
        """The probabilities (P(X < x), P(X <= x)) of every value; they differ on atoms and whole numbers alone."""
        if self.integer:
            return self._whole_interval(x)
        level, piece = self._levels(x)
        firsts = made_once(self, "firsts", self._firsts)
        if firsts is None:  # most distributions have no atom
            return level, level
        repeated = np.flatnonzero((self.values.take(piece) == x) & (firsts.take(piece) != piece))
        if not len(repeated):
            return level, level
        below = level.copy()
        below[repeated] = self.cdf[firsts[piece[repeated]]]
        return below, level

    def _whole_interval(self, x: Floats) -> tuple[Floats, Floats]:
        places = whole_places(x, *self.ends)
        if places is not None:
            below, above = made_once(self, "intervals", lambda: self._interval_around(whole_numbers(*self.ends)))
            return below.take(places), above.take(places)
        return self._interval_around(x)

    def _interval_around(self, x: Floats) -> tuple[Floats, Floats]:
        below, above = self._levels(x - 0.5)[0], self._levels(x + 0.5)[0]
        return below, np.maximum(below, above)

    def _levels(self, x: Floats) -> tuple[Floats, NDArray[np.intp]]:
        """`numpy.interp` of the distribution function, and the place of the last knot that is at most x."""
        if len(x) < MANY:
            return np.interp(x, self.values, self.cdf), np.maximum(np.searchsorted(self.values, x, side="right") - 1, 0)
        return made_once(self, "levels", lambda: Interpolation(self.values, self.cdf)).with_pieces(x)

    def _firsts(self) -> NDArray[np.intp] | None:
        """The first of the knots that are equal to each; None if all differ."""
        firsts = np.searchsorted(self.values, self.values, side="left")
        return None if (firsts == np.arange(len(firsts))).all() else firsts

    def quantile(self, u: Floats) -> Floats:
        """The value at probability u: the inverse of `interval`."""
        if np.size(u) < MANY or np.ndim(u) != 1:
            x = np.interp(u, self.cdf, self.values)
        else:
            x = made_once(self, "quantiles", lambda: Interpolation(self.cdf, self.values))(u)
        # A knot k + 1/2 is the end of k: several levels may lie on it, none of them of k + 1.
        return np.maximum(np.ceil(x - 0.5), np.ceil(self.values[0])) if self.integer else x

    @property
    def ends(self) -> tuple[float, float]:
        """Whole numbers beyond which intervals are those of the last, if the distribution is over whole numbers."""
        return np.floor(self.values[0]) - 1.0, np.ceil(self.values[-1]) + 1.0

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
        return self.distribution.interval(self.clamped(values))

    def clamped(self, values: NDArray[Any]) -> Floats:
        """The numbers that the distribution is over; NaN if the value is missing."""
        x = numbers(values)
        if self.coded:
            x = np.where(x < 0, np.nan, x)
        if self.step is not None:
            x = np.rint(x / self.step)
        return np.clip(x, self.low, self.high)

    def tabulated(self, owner: object, x: Floats, function: Callable[[Floats], NDArray[Any]]) -> NDArray[Any]:
        """What a function makes of clamped numbers, looked up in a table if these are few different whole numbers.

        Args:
            owner: A map that the table belongs to.
            function: Entry by entry, and through the interval of a number alone.
        """
        places = whole_places(x, *self.distribution.ends) if self.distribution.integer else None
        if places is None:
            return function(x)
        table = made_once(owner, "table", lambda: function(whole_numbers(*self.distribution.ends)))
        return table.take(places)


def whole_numbers(first: float, last: float) -> Floats:
    """All of them from the first to the last, and NaN, in the order of `whole_places`."""
    return np.append(np.arange(first, last + 1.0), np.nan)


def whole_places(x: Floats, first: float, last: float) -> NDArray[np.intp] | None:
    """Places in a table of whole numbers, held within its ends, with NaN after the last.

    None if it is not worth a table, or if a number is not whole.
    """
    if len(x) < MANY or not last - first < MOST_WHOLE:
        return None
    place = np.clip(x, first, last)
    place -= first
    gone = np.isnan(place)
    place[gone] = last - first + 1.0
    found = place.astype(np.intp)
    return found if (found == place).all() else None


def numbers(column: NDArray[Any]) -> Floats:
    """A column of any dtype as floats; entries of a dtype that does not hold real numbers are NaN."""
    if column.dtype.kind not in "biuf":
        return np.full(len(column), np.nan)
    return column.astype(np.float64, copy=False)


def is_missing(column: NDArray[Any], *, coded: bool) -> NDArray[np.bool_]:
    """Whether an entry is missing: NaN, or a negative code."""
    x = numbers(column)
    return np.isnan(x) | (x < 0) if coded else np.isnan(x)


def bin_of(values: Floats, edges: Floats, owner: object | None = None) -> Whole:
    """The bin [edges[i], edges[i + 1]) of every value; beyond the edges the nearest one, and -1 for NaN.

    Args:
        owner: Of the edges, if they are asked for more than once.
    """
    if owner is None or len(values) < MANY or len(edges) < 2:
        found = place_among(values, edges)
        np.maximum(found, 0, out=found)
    else:
        found = made_once(owner, "bins", lambda: Pieces(edges))(np.clip(values, edges[0], edges[-1]))
    np.minimum(found, len(edges) - 2, out=found)
    np.putmask(found, np.isnan(values), -1)
    return found
