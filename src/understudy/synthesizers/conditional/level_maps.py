"""Maps of levels: how the numbers that densities draw are shown, so that each column has its measured distribution.

What a density has a little wrong comes back through the row before, so that the columns of drawn families are never
quite those that were measured. A column of numbers is mended at its end: with F the distribution of its drawn levels
and T the measured one, a drawn level u is shown as T⁻¹(F(u)). The map rises, so that what is larger stays larger; and a
density that is given a shown level reads the drawn one, so that histories go on as they did. What was measured has
noise, so T is a mean of both distributions, with the less weight on the measured one the more of their distance noise
explains.

The one rule: no private row comes here. F is that of drawn families, and T is made of released counts.

Source: James and Stein (1961), "Estimation with quadratic loss", for the weight.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.bins import Bins
from understudy.synthesizers.conditional.shares import Measured

Floats = NDArray[np.float64]

KNOTS = 257
"""A map has so many knots at even levels as they are shown, and one at each edge of a bin."""
EDGES = 0.012
"""What a map costs, since it moves rows across the edges of values that many have, counts as noise of this distance."""
LEAST_STEP = 1e-9
"""Knots lie at least so far apart, so that a map has an inverse."""


class LevelMap(NamedTuple):
    """A map of the levels of a column; both ends stay where they are.

    Attributes:
        drawn: Levels as a density draws them, rising from 0 to 1: (knots,).
        shown: The same as they are shown.
    """

    drawn: Floats
    shown: Floats

    def show(self, level: Floats) -> Floats:
        """Drawn levels as they are shown; a missing one stays missing."""
        return np.interp(level, self.drawn, self.shown)

    def read(self, level: Floats) -> Floats:
        """Shown levels as they were drawn."""
        return np.interp(level, self.shown, self.drawn)


def level_map(level: Floats, bins: Bins, measured: Measured) -> LevelMap | None:
    """The map that gives drawn levels of a column its measured shares; None if noise explains what they lack.

    Args:
        level: As they were drawn; NaN if missing.
        measured: The shares of the bins.
    """
    here = level[~np.isnan(level)]
    if not len(here):
        return None
    masses = np.maximum(measured.shares[: len(bins.edges) - 1], LEAST_STEP)
    shares = masses / masses.sum()
    held = np.bincount(bins.code_of(here), minlength=len(shares))[: len(shares)] / len(here)
    part = _worth_mending(float(np.abs(held - shares).sum()) / 2, math.hypot(measured.distance, EDGES))
    if part <= 0.0:
        return None
    wanted = np.cumsum(held + part * (shares - held))
    places = np.minimum(np.concatenate([[0.0], wanted]), 1.0)
    shown = np.union1d(np.linspace(0.0, 1.0, KNOTS), bins.edges)
    drawn = np.quantile(here, np.interp(shown, bins.edges, places))
    drawn[0], drawn[-1] = 0.0, 1.0
    return LevelMap(_rising(drawn), shown)


def _worth_mending(apart: float, noise: float) -> float:
    """The part of a distance to go, if noise alone makes such a distance of `noise`: Stein's factor, or 0."""
    return 1.0 - (noise / apart) ** 2 if apart > noise else 0.0


def _rising(knots: Floats) -> Floats:
    """The same knots, each beyond the one before it."""
    step = LEAST_STEP * np.arange(len(knots))
    found = np.maximum.accumulate(knots) + step
    return found / found[-1]
