"""Row-wise maps: how a column of locked rows is computed from others, described by public numbers alone.

`PrivateRows.derive` accepts exactly the types of `ROW_MAPS`. A map holds names of columns, knots, edges, lookups and
settings, and a key where it draws; it holds no function, so that no code outside this folder is ever handed a row.

Every map keeps three promises.

- *Row by row.* `apply` is built from operations that work entry by entry (arithmetic, comparison, `np.where`,
  `np.interp` and `np.searchsorted` into public arrays, lookup in public arrays) and from an argmax across columns. None
  of them mixes rows, so entry i of the result is a function of the map, of entry i of every source and of column i of
  `uniforms`. The uniforms are drawn independently of each other and of all values, and how many a row gets is public.
  So a row of the result depends on the same row alone, and neighbouring tables stay neighbours.
- *Total.* A value never raises or warns: columns of any dtype are read as floats (`piecewise.numbers`), every place is
  clipped before it is used as an index, and `derive` computes with NumPy's warnings switched off.
- *Public.* `check` admits plain numbers, text, numeric arrays, keys and the public mathematics of `piecewise` and
  `normal_scores`, by exact type: a subclass could look at the rows.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol, cast, get_args

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy.normal_scores import ValueWeighting, mean_score, normal_score
from understudy.privacy.piecewise import LARGEST, Distribution, Floats, LevelScale, Whole, bin_of, is_missing, numbers

Columns = Sequence[NDArray[Any]]


class Uniforms(Protocol):
    """Uniform numbers for some rows, some for each: number i of every row by its place, as of an array."""

    def __getitem__(self, number: int, /) -> Floats: ...


@dataclasses.dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class ValueBin:
    """The bin of a value: i for [edges[i], edges[i + 1]), the nearest beyond the edges, and a last for missing ones."""

    source: str
    edges: Floats

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def apply(self, columns: Columns, uniforms: Uniforms) -> Whole:
        found = bin_of(numbers(columns[0]), self.edges, self)
        found[found < 0] = len(self.edges) - 1
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Code:
    """The code of a category, 0 to `size` - 1, and `missing` for a missing value. Any other number is -1."""

    source: str
    size: int
    missing: int = -1

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def apply(self, columns: Columns, uniforms: Uniforms) -> Whole:
        codes = numbers(columns[0])
        known = (codes >= 0) & (codes < self.size)
        found = np.where(known, codes, -1.0).astype(np.int64)
        return np.where(is_missing(codes, coded=True), self.missing, found)


@dataclasses.dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class LevelBin:
    """The bin of a value's level: i for [edges[i], edges[i + 1]), by the middle of the value's interval of levels.

    Attributes:
        nullable: Whether missing values have a bin of their own, the last. Else each gets the bin of a random level, so
            that nothing is learned from it.
        groups: The group of every bin, or another number that stands for it, in place of the bin itself.
        key: For random levels.
    """

    source: str
    scale: LevelScale
    edges: Floats
    nullable: bool
    key: Key
    groups: Whole | Floats | None = None

    def __post_init__(self) -> None:
        if self.groups is not None and len(self.groups) != len(self.edges) - 1 + self.nullable:
            raise ValueError(f"LevelBin: expected a group for each bin of {self.source!r}, got {len(self.groups)}.")

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def apply(self, columns: Columns, uniforms: Uniforms) -> Whole | Floats:
        x = self.scale.clamped(columns[0])
        found = self.scale.tabulated(self, x, self._bins)
        gone = np.flatnonzero(np.isnan(x))
        if len(gone):
            found[gone] = len(self.edges) - 1 if self.nullable else bin_of(uniforms[0][gone], self.edges)
        return found if self.groups is None else self.groups.take(found)

    def _bins(self, x: Floats) -> Whole:
        below, above = self.scale.distribution.interval(x)
        return bin_of((below + above) / 2, self.edges, self)


@dataclasses.dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class NormalScore:
    """The standard normal score of a value's level.

    Attributes:
        edge: Levels are held within [edge, 1 - edge].
        nullable: Whether a missing value has the score 0. Else it gets a random level, so that nothing is learned
            from it.
        spread: Whether a value that owns an interval of levels gets a random level of it. Else it gets the mean score
            over the interval.
        widest: A value that owns an interval wider than this gets the mean score all the same.
        weighting: Makes the score follow the values as well.
        key: For random levels.
    """

    source: str
    scale: LevelScale
    edge: float
    nullable: bool
    spread: bool
    key: Key
    weighting: ValueWeighting | None = None
    widest: float = 1.0

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def apply(self, columns: Columns, uniforms: Uniforms) -> Floats:
        x = self.scale.clamped(columns[0])
        score = self._spread_scores(x, uniforms) if self.spread else self.scale.tabulated(self, x, self._mean_scores)
        gone = np.flatnonzero(np.isnan(x))
        if len(gone) and self.nullable:
            score[gone] = 0.0
        elif len(gone):
            level = self._held(uniforms[0][gone])
            score[gone] = self._weighted(normal_score(level), level)
        return score

    def _mean_scores(self, x: Floats) -> Floats:
        """The mean scores over the intervals of numbers."""
        below, above = self.scale.distribution.interval(x)
        low = self._held(below)
        high = low if above is below else self._held(above)
        return self._weighted(mean_score(low, high), low if high is low else (low + high) / 2)

    def _spread_scores(self, x: Floats, uniforms: Uniforms) -> Floats:
        """The scores of random levels of the intervals of numbers, but mean scores over the widest."""
        below, above = self.scale.distribution.interval(x)
        low = self._held(below)
        if above is below:
            return self._weighted(normal_score(low), low)
        high = self._held(above)
        score = _spread(low, high, uniforms[-1])
        if self.widest < 1:
            wide = np.flatnonzero(above - below > self.widest)
            score[wide] = mean_score(low[wide], high[wide])
        return self._weighted(score, (low + high) / 2)

    def _held(self, levels: Floats) -> Floats:
        return np.clip(levels, self.edge, 1 - self.edge)

    def _weighted(self, score: Floats, level: Floats) -> Floats:
        if self.weighting is None:
            return score
        return self.weighting.score(self.scale.distribution.quantile(level), score)


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class MissingScore:
    """The standard normal score of being missing: the upper `share` of levels is that of missing values.

    Attributes:
        coded: Whether the column holds codes, of which a negative one is missing.
        share: Of missing values.
        edge, spread, key: As of `NormalScore`.
    """

    source: str
    coded: bool
    share: float
    edge: float
    spread: bool
    key: Key

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def apply(self, columns: Columns, uniforms: Uniforms) -> Floats:
        gone, start = is_missing(columns[0], coded=self.coded), 1.0 - self.share
        below = np.clip(np.where(gone, start, 0.0), self.edge, 1 - self.edge)
        above = np.clip(np.where(gone, 1.0, start), self.edge, 1 - self.edge)
        return _spread(below, above, uniforms[0]) if self.spread else mean_score(below, above)


def _spread(below: Floats, above: Floats, uniform: Floats) -> Floats:
    """The scores of random levels inside intervals."""
    return normal_score(below + uniform * (above - below))


@dataclasses.dataclass(frozen=True, slots=True)
class MissingFlag:
    """1.0 where a number is missing and 0.0 elsewhere, or the other way round if not `missing`."""

    source: str
    missing: bool = True

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def apply(self, columns: Columns, uniforms: Uniforms) -> Floats:
        return (is_missing(columns[0], coded=False) == self.missing).astype(np.float64)


@dataclasses.dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class OneHot:
    """1.0 where a column of codes is in one category and 0.0 elsewhere.

    Attributes:
        category: Its code; `size` is that of missing values.
        size: How many codes there are.
        distribution: Of the codes, as whole numbers.
        nullable: Whether missing values are a category of their own. Else each gets a random code of the
            distribution, the same in all maps with the same key.
        key: For random codes.
    """

    source: str
    category: int
    size: int
    distribution: Distribution
    nullable: bool
    key: Key

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def apply(self, columns: Columns, uniforms: Uniforms) -> Floats:
        codes = numbers(columns[0])
        found = (codes == self.category).astype(np.float64)
        gone = np.flatnonzero(is_missing(codes, coded=True))
        if len(gone) and self.nullable:
            found[gone] = float(self.category == self.size)
        elif len(gone):
            instead = np.clip(self.distribution.quantile(uniforms[0][gone]), 0, self.size - 1)
            found[gone] = instead == self.category
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class ArgMax:
    """The place of the largest of several columns: a category from its one-hot columns. NaN is the smallest number."""

    sources: tuple[str, ...]

    def apply(self, columns: Columns, uniforms: Uniforms) -> Whole:
        stacked = np.stack([numbers(column) for column in columns])
        return np.argmax(np.where(np.isnan(stacked), -np.inf, stacked), axis=0)


@dataclasses.dataclass(frozen=True, slots=True)
class Clip:
    """A number itself, held within bounds; a missing one is 0, within the same bounds."""

    source: str
    low: float = -LARGEST
    high: float = LARGEST

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def apply(self, columns: Columns, uniforms: Uniforms) -> Floats:
        return np.clip(np.nan_to_num(numbers(columns[0])), self.low, self.high)


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """How far one number lies above another, in steps of `unit`; NaN where either is missing."""

    upper: str
    lower: str
    unit: float = 1.0

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.upper, self.lower)

    def apply(self, columns: Columns, uniforms: Uniforms) -> Floats:
        upper, lower = (np.clip(numbers(column), -LARGEST, LARGEST) for column in columns)
        return (upper - lower) / self.unit


RowMap = ValueBin | Code | LevelBin | NormalScore | MissingScore | MissingFlag | OneHot | ArgMax | Clip | Gap
ROW_MAPS: tuple[type, ...] = get_args(RowMap)
_MATHEMATICS = (Distribution, LevelScale, ValueWeighting)
_PLAIN = (str, bool, int, float, type(None), np.float64, np.int64, np.bool_, Key)


def check(row_map: object) -> None:
    """Makes sure that something is one of `ROW_MAPS` and holds public numbers alone, all by exact type.

    Raises:
        TypeError: It is not, or does not: a function, a subclass, an array of objects.
    """
    if type(row_map) not in ROW_MAPS:
        raise TypeError(f"derive: expected one of the maps in privacy/row_maps.py, got a {type(row_map).__name__}.")
    _check_fields(row_map)


def _check_fields(described: Any) -> None:
    for field in dataclasses.fields(described):
        value = getattr(described, field.name)
        if type(value) in _MATHEMATICS:
            _check_fields(value)
        elif not _is_public(value):
            raise TypeError(
                f"{type(described).__name__}.{field.name}: expected numbers, text or a numeric array, got a "
                f"{type(value).__name__}."
            )


def _is_public(value: Any) -> bool:
    if type(value) is tuple:
        return all(type(each) is str for each in cast("tuple[object, ...]", value))
    if type(value) is np.ndarray:
        return value.dtype.kind in "biuf"
    return type(value) in _PLAIN
