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
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy.normal_scores import ValueWeighting, mean_score, normal_score
from understudy.privacy.piecewise import LARGEST, Distribution, Floats, LevelScale, Whole, bin_of, is_missing, numbers

Columns = Sequence[NDArray[Any]]


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class ValueBin:
    """The bin of a value: i for [edges[i], edges[i + 1]), the nearest beyond the edges, and a last for missing ones."""

    source: str
    edges: Floats

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def apply(self, columns: Columns, uniforms: Floats) -> Whole:
        found = bin_of(numbers(columns[0]), self.edges)
        return np.where(found < 0, len(self.edges) - 1, found)


@dataclasses.dataclass(frozen=True, slots=True)
class Code:
    """The code of a category, 0 to `size` - 1, and `missing` for a missing value. Any other number is -1."""

    source: str
    size: int
    missing: int = -1

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,)

    def apply(self, columns: Columns, uniforms: Floats) -> Whole:
        codes = numbers(columns[0])
        known = (codes >= 0) & (codes < self.size)
        found = np.where(known, codes, -1.0).astype(np.int64)
        return np.where(is_missing(codes, coded=True), self.missing, found)


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
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

    def apply(self, columns: Columns, uniforms: Floats) -> Whole | Floats:
        below, above = self.scale.interval(columns[0])
        found = bin_of((below + above) / 2, self.edges)
        instead = len(self.edges) - 1 if self.nullable else bin_of(uniforms[0], self.edges)
        found = np.where(found < 0, instead, found)
        return found if self.groups is None else self.groups[found]


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
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

    def apply(self, columns: Columns, uniforms: Floats) -> Floats:
        below, above = self.scale.interval(columns[0])
        gone = np.isnan(below)
        wide = above - below > self.widest
        if not self.nullable:
            below, above = np.where(gone, uniforms[0], below), np.where(gone, uniforms[0], above)
        below, above = np.clip(below, self.edge, 1 - self.edge), np.clip(above, self.edge, 1 - self.edge)
        score = _spread(below, above, uniforms[-1]) if self.spread else mean_score(below, above)
        if self.spread and self.widest < 1:
            score = np.where(wide, mean_score(below, above), score)
        if self.weighting is not None:
            score = self.weighting.score(self.scale.distribution.quantile((below + above) / 2), score)
        return np.where(gone, 0.0, score) if self.nullable else score


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

    def apply(self, columns: Columns, uniforms: Floats) -> Floats:
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

    def apply(self, columns: Columns, uniforms: Floats) -> Floats:
        return (is_missing(columns[0], coded=False) == self.missing).astype(np.float64)


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
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

    def apply(self, columns: Columns, uniforms: Floats) -> Floats:
        codes = numbers(columns[0])
        if self.nullable:
            instead = float(self.size)
        else:
            instead = np.clip(self.distribution.quantile(uniforms[0]), 0, self.size - 1)
        return (np.where(is_missing(codes, coded=True), instead, codes) == self.category).astype(np.float64)


@dataclasses.dataclass(frozen=True, slots=True)
class ArgMax:
    """The place of the largest of several columns: a category from its one-hot columns. NaN is the smallest number."""

    sources: tuple[str, ...]

    def apply(self, columns: Columns, uniforms: Floats) -> Whole:
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

    def apply(self, columns: Columns, uniforms: Floats) -> Floats:
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

    def apply(self, columns: Columns, uniforms: Floats) -> Floats:
        upper, lower = (np.clip(numbers(column), -LARGEST, LARGEST) for column in columns)
        return (upper - lower) / self.unit


RowMap = ValueBin | Code | LevelBin | NormalScore | MissingScore | MissingFlag | OneHot | ArgMax | Clip | Gap
ROW_MAPS: tuple[type, ...] = get_args(RowMap)
_MATHEMATICS = (Distribution, LevelScale, ValueWeighting)
_PLAIN = (str, bool, int, float, type(None), np.float64, np.int64, np.bool_, Key)


def draws(row_map: RowMap) -> int:
    """How many uniform numbers a map uses for each row."""
    match row_map:
        case NormalScore():
            return (not row_map.nullable) + row_map.spread
        case MissingScore():
            return int(row_map.spread)
        case LevelBin() | OneHot():
            return int(not row_map.nullable)
        case _:
            return 0


def uniforms(row_map: RowMap, first: int, rows: int) -> Floats:
    """The uniform numbers of so many rows, of which the first has this number in its table: (draws, rows).

    Row i has the words i · draws to (i + 1) · draws of the stream that belongs to the map's key. So a row has the same
    numbers whichever rows are read with it, and one row more at the end leaves those of all others as they are.
    """
    each = draws(row_map)
    if not isinstance(row_map, NormalScore | MissingScore | LevelBin | OneHot) or not each:
        return np.zeros((0, rows))
    words = row_map.key.sealed().words(each * rows, start=each * first)
    return np.ascontiguousarray(((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(rows, each).T)


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
