"""Variables: what a column is to its density. Perhaps a number, a standard normal score; perhaps one of some states.

The states of a categorical column are its values and, if it may be missing, "missing". A number has states where it is
not all of one piece: "regular", one for each *atom* (a value that holds many rows, such as zero) and for each *far
group* (values at one end that an empty gap parts from the rest, such as 0 among hundreds of thousands), and "missing".
Only the regular values of a number have a score of their own, normal among them; to later columns, an atom or a far
group is the mean score of its interval of levels.

The one rule: nothing here is private. A variable is a function of the encoder.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.columns import ColumnEncoder
from understudy.encoding.encoder import Encoder
from understudy.privacy.normal_scores import mean_score, normal_score
from understudy.privacy.piecewise import Distribution, LevelScale, bin_of
from understudy.privacy.row_maps import Clip, LevelBin, NormalScore, RowMap

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

LEAST_ATOM = 0.07
"""A value that owns more than this share of levels is an atom. A number has at most 14 of them."""
LEAST_LISTED = 0.8
"""A number has atoms if they hold at least this share of it between them: it is hardly more than a list of values."""
LEAST_GROUP, MOST_GROUP = 0.01, 0.25
"""A far group holds a share between these, ..."""
EMPTY = 0.05
"""... the gap beside it holds at most this part of the group, ..."""
WIDE_GAP = 2.0
"""... is at least this many deviations of the other values wide, ..."""
NARROW = 0.5
"""... and the values of the group have a deviation of at most this part of the gap."""
LEAST_SHARE = 1e-4
"""No state is taken to be rarer than this."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Variable:
    """A column as its density sees it.

    Attributes:
        number: Whether it has a score.
        shares: Of its states; empty if it has none.
        levels: The interval of levels of each state, (states, 2); NaN for those without one: regular and missing.
        edges: Levels that bins of one state lie between.
        bins: The state of every bin between edges, and at last that of missing values if it may be missing.
        nullable: Whether it may be missing.
        edge: Levels are held within [edge, 1 - edge] before they become scores.
        pass_through: Whether its own numbers take the place of levels and scores.
    """

    name: str
    number: bool
    shares: Floats
    levels: Floats
    edges: Floats
    bins: Whole
    nullable: bool
    edge: float
    pass_through: bool = False

    @property
    def states(self) -> int:
        return len(self.shares)

    @functools.cached_property
    def has_atoms(self) -> bool:
        return self.number and bool(np.isfinite(self.levels).any())

    @property
    def state_scores(self) -> Floats:
        """What a later column sees of each state of a number: 0 for regular (it has a score) and missing values."""
        found = np.zeros(self.states)
        atoms = np.isfinite(self.levels[:, 0])
        found[atoms] = mean_score(*self._within(self.levels[atoms].T))
        return found

    # Public levels ------------------------------------------------------------------------------------------------

    def state_of(self, level: Floats) -> Whole:
        """The state at every level; NaN is a missing value."""
        if not self.states:
            return np.zeros(len(level), np.int64)
        found = bin_of(level, self.edges)
        return self.bins[np.where(found < 0, len(self.bins) - 1 if self.nullable else 0, found)]

    def scores_of(self, level: Floats, state: Whole) -> tuple[Floats, Floats]:
        """A row's own score, among regular values, and the one that later columns see; 0 for missing values."""
        if not self.number:
            nothing = np.zeros(len(level))
            return nothing, nothing
        if self.pass_through:
            return level, level
        known = np.nan_to_num(level, nan=0.5)
        seen = normal_score(self._within(known))
        own = normal_score(self._within(self.to_regular(known))) if self.has_atoms else seen
        if self.states:
            own, seen = np.where(state == 0, own, 0.0), np.where(state == 0, seen, self.state_scores[state])
        return own, seen

    def to_regular(self, level: Floats) -> Floats:
        """The level among regular values of a level among all."""
        return np.interp(level, *self._gaps())

    def level_of(self, score: Floats, state: Whole, uniform: Floats) -> Floats:
        """Levels of drawn rows: NaN for missing values, the place in their interval for atoms and categories.

        Args:
            score: A row's own, among regular values.
            uniform: The place in the interval of a state.
        """
        if self.pass_through:
            return score
        found = np.full(len(score), np.nan)
        if self.number:
            from scipy.special import ndtr

            found = ndtr(score)
            if self.has_atoms:
                all_levels, among = self._gaps()
                at = np.searchsorted(among, found, side="right").clip(1, len(among) - 1)  # beyond the atom at a tie
                width = np.maximum(among[at] - among[at - 1], 1e-300)
                part = np.clip((found - among[at - 1]) / width, 0.0, 1.0)
                found = all_levels[at - 1] + part * (all_levels[at] - all_levels[at - 1])
        if self.states:
            low, high = self.levels.T
            inside = low[state] + uniform * (high[state] - low[state])
            found = np.where(state == 0, found, inside) if self.number else inside
        return found

    def _gaps(self) -> tuple[Floats, Floats]:
        """Edges of levels, and the level among regular values at each: flat over atoms, linear between them."""
        regular = np.diff(self.edges) * (self.bins[: len(self.edges) - 1] == 0)
        total = max(float(regular.sum()), 1e-300)
        return self.edges, np.concatenate([[0.0], np.cumsum(regular) / total])

    def _within(self, level: Floats) -> Floats:
        return np.clip(level, self.edge, 1.0 - self.edge)


# Private rows ---------------------------------------------------------------------------------------------------------


def own_score_map(variable: Variable, scale: LevelScale, key: Key) -> RowMap:
    """The map to a row's own score, among regular values; that of an atom is not used."""
    return _score_map(variable, _without_atoms(variable, scale) if variable.has_atoms else scale, key, widest=1.0)


def seen_score_map(variable: Variable, scale: LevelScale, key: Key) -> RowMap:
    """The map to the score that later columns see."""
    if variable.has_atoms:
        for group in far_groups(scale.distribution):
            if any(variable.levels[:, 0] == group.below) and any(variable.levels[:, 1] == group.above):
                scale = _as_one_value(group, variable, scale)
    return _score_map(variable, scale, key, widest=LEAST_ATOM if variable.has_atoms else 1.0)


def state_map(variable: Variable, scale: LevelScale, key: Key, numbers: NDArray | None = None) -> RowMap:
    """The map to a row's state, or to a number that stands for it: (states,)."""
    found = variable.bins if numbers is None else np.asarray(numbers, np.float64)[variable.bins]
    own = key.child(f"state {variable.name}")
    return LevelBin(variable.name, scale, variable.edges, variable.nullable, own, groups=found)


def _score_map(variable: Variable, scale: LevelScale, key: Key, *, widest: float) -> RowMap:
    if variable.pass_through:
        return Clip(variable.name)
    own = key.child(f"score {variable.name}")
    return NormalScore(variable.name, scale, variable.edge, variable.nullable, spread=True, key=own, widest=widest)


def _without_atoms(variable: Variable, scale: LevelScale) -> LevelScale:
    """The scale of regular values among themselves: atoms take no room."""
    learned = scale.distribution
    cdf = variable.to_regular(learned.cdf)
    cdf = cdf if cdf[-1] > 0 else np.linspace(0.0, 1.0, len(cdf))  # there is nothing but atoms
    return LevelScale(Distribution(learned.values, cdf, learned.integer), scale.low, scale.high, scale.coded)


def _as_one_value(group: "FarGroup", variable: Variable, scale: LevelScale) -> LevelScale:
    """The scale on which all values of a far group have one level, that of its mean score; others are as they were."""
    from scipy.special import ndtr

    learned, first = scale.distribution, group.below == 0.0
    score = float(mean_score(*variable._within(np.array([[group.below], [group.above]])))[0])
    half = 0.5 if learned.integer else 0.0
    ends, levels = np.array([group.beside - half, group.beside + half]), np.full(2, ndtr(score))
    next_to = np.nextafter(ends[1], np.inf) if first else np.nextafter(ends[0], -np.inf)
    others = learned.values > next_to if first else learned.values < next_to
    values, cdf = learned.values[others], learned.cdf[others]
    level = np.interp(next_to, learned.values, learned.cdf)
    values = np.concatenate([ends, [next_to], values] if first else [values, [next_to], ends])
    cdf = np.concatenate([levels, [level], cdf] if first else [cdf, [level], levels])
    made = Distribution(values, cdf, learned.integer)
    if first:
        return dataclasses.replace(scale, distribution=made, low=max(group.beside, scale.low))
    return dataclasses.replace(scale, distribution=made, high=min(group.beside, scale.high))


# From an encoder ------------------------------------------------------------------------------------------------------


def variables_of(encoder: Encoder, order: Sequence[str]) -> tuple[Variable, ...]:
    """The variables of encoded columns, in this order."""
    return tuple(_variable(name, encoder.columns[name], encoder.outermost_level) for name in order)


@dataclasses.dataclass(frozen=True)
class FarGroup:
    """Values at one end of a distribution that an empty gap parts from the rest.

    Attributes:
        below, above: Its interval of levels.
        beside: A value in the gap, next to it.
    """

    below: float
    above: float
    beside: float


def far_groups(learned: Distribution) -> list[FarGroup]:
    """The far groups of a distribution: one at either end, at most."""
    lower = _lowest_group(learned)
    upper = _lowest_group(Distribution(-learned.values[::-1], 1.0 - learned.cdf[::-1], learned.integer))
    found = [] if lower is None else [lower]
    return found if upper is None else [*found, FarGroup(1.0 - upper.above, 1.0, -upper.beside)]


def _lowest_group(learned: Distribution) -> FarGroup | None:
    """The group below the widest gap, if it is far from the rest."""
    values, cdf = learned.values, learned.cdf
    starts = np.flatnonzero((cdf >= LEAST_GROUP) & (cdf <= MOST_GROUP))
    if not len(starts):
        return None
    ends = np.searchsorted(cdf, cdf[starts] * (1.0 + EMPTY), side="right") - 1
    widest = int(np.argmax(values[ends] - values[starts]))
    start, end = int(starts[widest]), int(ends[widest])
    even, width = (np.arange(64) + 0.5) / 64, float(values[end] - values[start])
    group, rest = learned.quantile(cdf[start] * even), learned.quantile(cdf[end] + (1.0 - cdf[end]) * even)
    least = max(WIDE_GAP * float(rest.std()), float(group.std()) / NARROW, 2.0 * learned.integer)
    if width <= 0.0 or width < least:
        return None
    beside = math.floor(values[start]) + 1.0 if learned.integer else float(values[start] + 0.01 * width)
    return FarGroup(0.0, float(cdf[start]), beside)


def _variable(name: str, known: ColumnEncoder, edge: float) -> Variable:
    nullable, learned = known.column.nullable and not known.is_pass_through, known.distribution
    if known.labels is not None:
        cdf, present = learned.cdf, 1.0 - known.missing
        levels, shares = np.stack([cdf[:-1], cdf[1:]], axis=1), present * np.diff(cdf)
        edges, bins = cdf, np.arange(len(cdf) - 1)
    else:
        below, above = learned.atoms()
        wide = above - below > LEAST_ATOM
        if float((above - below)[wide].sum()) < LEAST_LISTED:
            wide = np.zeros_like(wide)
        below, above = below[wide], above[wide]
        for group in far_groups(learned):
            if not np.any((below < group.above) & (above > group.below)):
                below, above = np.append(below, group.below), np.append(above, group.above)
        if known.is_pass_through:
            below, above = below[:0], above[:0]
        levels = np.concatenate([[[np.nan, np.nan]], np.stack([below, above], axis=1)])
        edges = np.unique(np.concatenate([[0.0, 1.0], below, above]))
        middle = (edges[:-1] + edges[1:]) / 2
        inside = (middle[:, None] > levels[1:, 0]) & (middle[:, None] < levels[1:, 1])
        bins = np.where(inside.any(axis=1), inside.argmax(axis=1) + 1, 0) if len(below) else np.zeros(1, np.int64)
        width = levels[1:, 1] - levels[1:, 0]
        shares = (1.0 - known.missing) * np.concatenate([[1.0 - width.sum()], width])
    if nullable:
        levels, shares = np.concatenate([levels, [[np.nan, np.nan]]]), np.append(shares, known.missing)
        bins = np.append(bins, len(shares) - 1)
    shares = np.maximum(shares, LEAST_SHARE) / np.maximum(shares, LEAST_SHARE).sum()
    if known.labels is None and len(shares) == 1:
        shares, levels = np.zeros(0), np.zeros((0, 2))
    return Variable(
        name=name,
        number=known.labels is None,
        shares=shares,
        levels=levels,
        edges=edges,
        bins=bins,
        nullable=nullable,
        edge=edge,
        pass_through=known.is_pass_through,
    )
