"""Bins: every column cut into a few intervals of levels, for methods that count."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.columns import ColumnEncoder
from understudy.encoding.encoder import Encoder, with_public_codes
from understudy.privacy.piecewise import Distribution, Floats, Whole, bin_of
from understudy.privacy.row_maps import LevelBin
from understudy.privacy.rows import PrivateRows

# Distances between values have this weight beside distances between levels; see docs/design-notes.md.
VALUE_WEIGHT = 0.5
# A bin of a column that is cut into `most` bins holds at least this mass over `most`.
LIGHTEST = 0.15
# A column is looked at in this many pieces, evenly spaced in levels, and in as many evenly spaced in values.
PIECES = 128


@dataclasses.dataclass(frozen=True)
class Bins:
    """One column cut into bins for counting: ascending edges of levels, and a last bin for missing values."""

    edges: Floats
    nullable: bool

    @property
    def size(self) -> int:
        return len(self.edges) - 1 + self.nullable

    def cut_at(self, edges: Floats) -> "Bins":
        """These bins cut at further edges."""
        return dataclasses.replace(self, edges=np.union1d(self.edges, edges))

    def within(self, coarse: "Bins") -> Whole:
        """The bin of `coarse` that each of these bins lies in, if these are finer."""
        middles = (self.edges[:-1] + self.edges[1:]) / 2
        found = coarse.code(middles, middles)
        return np.r_[found, coarse.size - 1] if self.nullable else found

    def code(self, below: Floats, above: Floats) -> Whole:
        """The bin of every interval of levels, by its middle; -1 for a missing value that has no bin."""
        found = bin_of((below + above) / 2, self.edges)
        return np.where(found < 0, self.size - 1 if self.nullable else -1, found)

    def code_of(self, level: Floats) -> Whole:
        """The bin of every level; a missing value that has no bin counts as the first."""
        return np.maximum(self.code(level, level), 0)

    def level(self, codes: NDArray, uniform: Floats) -> Floats:
        """A level inside every code's bin, at the place `uniform` says; NaN in the bin for missing values."""
        gone = codes >= len(self.edges) - 1
        at = np.where(gone, 0, codes)
        level = self.edges[at] + uniform * (self.edges[at + 1] - self.edges[at])
        return np.where(gone, np.nan, level)


def bin_rows(
    rows: PrivateRows,
    encoder: Encoder,
    bins: Mapping[str, Bins],
    *,
    key: Key,
    groups: Mapping[str, Whole] | None = None,
) -> PrivateRows:
    """Locked rows of codes, a column for each of `bins`. A missing value that the schema rules out gets a random code.

    Args:
        groups: Of columns that are counted in groups of bins, the group of every bin. It is the code then.

    Privacy:
        Releases nothing: row by row, through public maps.
    """
    maps = {
        name: LevelBin(
            name,
            encoder.columns[name].scale,
            each.edges,
            each.nullable,
            key=key.child(f"code {name}"),
            groups=None if groups is None else groups.get(name),
        )
        for name, each in bins.items()
    }
    return with_public_codes(rows, encoder, bins).derive(maps)


def make_bins(encoder: Encoder, most: int) -> dict[str, Bins]:
    """Cuts every number column into at most about `most` bins, never through a repeated value.

    Rows of a bin should be alike in rank and in value, so the bins minimise

        Σ_bins Σ_(x in bin) (1 - w) · (u - mean u)² / Var u  +  w · (x - mean x)² / Var x

    with u the level of x, w `VALUE_WEIGHT`, and the sums over the measured distribution. With w = 0 all bins would hold
    the same mass; the values give a small group far from the rest a bin of its own. A value that holds 1 / most or more
    always has its own bin, and so has every category. No other bin holds less than `LIGHTEST` / most, unless it lies
    between two such values.
    """
    return {name: Bins(_edges(known, most), known.column.nullable) for name, known in encoder.columns.items()}


def _edges(known: ColumnEncoder, most: int) -> Floats:
    if known.labels is not None:
        return known.distribution.cdf
    learned, least = known.distribution, LIGHTEST / most
    below, above = learned.atoms()
    heavy = above - below >= 1.0 / most
    walls, own = _walls(below[heavy], above[heavy], least / 10)
    far = least / 2  # values farther out than this are not told apart: no bin could separate them
    edges = _with_points(walls, own, _points(learned, far))
    alone = own[np.searchsorted(walls, (edges[:-1] + edges[1:]) / 2) - 1]
    return edges[best_cut(np.diff(edges), places(learned, edges, far), most=most, least=least, alone=alone)]


def places(learned: Distribution, edges: Floats, far: float) -> Floats:
    """Where the middles of bins lie, in levels and in values, both in deviations and weighted: (2, bins)."""
    masses, levels = np.diff(edges), (edges[:-1] + edges[1:]) / 2
    values = learned.quantile(np.clip(levels, far, 1.0 - far))
    weights = np.sqrt([1.0 - VALUE_WEIGHT, VALUE_WEIGHT])
    return np.array([_standardised(levels, masses), _standardised(values, masses)]) * weights[:, None]


def _walls(below: Floats, above: Floats, least: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Levels that heavy values begin and end at, and which intervals between them hold one.

    An interval that holds none and less than `least` belongs to the next.
    """
    walls = np.unique(np.concatenate([[0.0], below, above, [1.0]]))
    own = np.isin(walls[:-1], below)
    stays = np.ones(len(walls), bool)
    for i in np.flatnonzero(~own & (np.diff(walls) < least)):
        stays[i + 1 if i + 1 < len(own) else i] = False
    return walls[stays], np.logical_or.reduceat(own, np.flatnonzero(stays[:-1]))


def _points(learned: Distribution, far: float) -> Floats:
    """Levels at which a column could be cut: evenly spaced ones and those of evenly spaced values.

    A repeated value gives both edges of its interval.
    """
    first, last = learned.quantile(np.array([far, 1.0 - far]))
    part = np.linspace(0.0, 1.0, PIECES + 1)
    values = np.concatenate([learned.quantile(part), first * (1.0 - part) + last * part])
    values = np.rint(values) if learned.integer else values
    return np.unique(np.concatenate(learned.interval(values)))


def _with_points(walls: Floats, own: NDArray[np.bool_], points: Floats) -> Floats:
    """The walls, and those points that neither lie almost on one nor inside the interval of a heavy value."""
    points = points[(points > 0.0) & (points < 1.0)]
    at = np.searchsorted(walls, points, side="right") - 1
    clear = np.minimum(points - walls[at], walls[at + 1] - points) > 1e-9
    points = points[~own[at] & clear]
    return np.union1d(walls, points[np.diff(points, prepend=-1.0) > 1e-9])


def _standardised(places: Floats, masses: Floats) -> Floats:
    centred = places - np.average(places, weights=masses)
    centred = centred / max(float(np.abs(centred).max()), 1e-300)  # squares of the farthest floats would overflow
    return centred / max(float(np.sqrt(np.average(centred**2, weights=masses))), 1e-15)


def best_cut(
    masses: Floats, places: Floats, *, most: int, least: float, alone: NDArray[np.bool_] | None = None
) -> Whole:
    """Where to cut pieces in a row into at most `most` groups, so that the variance within groups is least.

    By dynamic programming: the best cut of the first j pieces into k groups is, for some i, the best one of the first i
    into k - 1, and one more group from i to j.

    Args:
        masses: Of the pieces.
        places: Where they lie, in any number of coordinates: (coordinates, pieces).
        least: The least mass of a group, unless it lies between pieces that are alone.
        alone: Pieces that are groups of their own, however many groups that makes.

    Returns:
        The piece that every group begins with, and at last the number of pieces.
    """
    pieces = len(masses)
    alone = np.zeros(pieces, bool) if alone is None else alone
    wall = np.r_[True, alone[1:] | alone[:-1], True]
    cost = _costs(masses, places, wall, least)
    best, came = [cost[:, 0]], [np.zeros(pieces + 1, np.int64)]
    for _ in range(max(most, int(wall.sum()) - 1) - 1):
        reached = cost + best[-1]
        came.append(reached.argmin(axis=1))
        best.append(reached[np.arange(pieces + 1), came[-1]])
    groups = int(np.argmin([each[-1] for each in best]))
    cuts = [pieces]
    for step in range(groups, -1, -1):
        cuts.append(int(came[step][cuts[-1]]))
    return np.array(cuts[::-1])


def _costs(masses: Floats, places: Floats, wall: NDArray[np.bool_], least: float) -> Floats:
    """The squared distances, from their mean, of the group from piece i up to, and without, j; (j, i).

    Infinite where the group is empty or too light, or where a wall lies inside.
    """
    held, cost = _between(masses), _between(masses * np.sum(places**2, axis=0))
    for place in places:
        moment = _between(masses * place)
        moment *= moment
        cost -= np.divide(moment, held, out=moment, where=held > 0)
    allowed = held >= least
    if wall[1:-1].any():
        walls = np.cumsum(wall)
        allowed |= wall[:, None] & wall
        allowed &= walls[:, None] - wall[:, None] <= walls
    allowed[-1, 0] |= not wall[1:-1].any()
    allowed &= np.tri(len(wall), k=-1, dtype=np.bool_)
    return np.where(allowed, np.maximum(cost, 0.0, out=cost), np.inf)


def _between(x: Floats) -> Floats:
    """The sum of x from i up to, and without, j; (j, i)."""
    sums = np.concatenate([[0.0], np.cumsum(x)])
    return sums[:, None] - sums
