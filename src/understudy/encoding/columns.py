"""Encoders of single columns: values to levels in [0, 1], and back.

One protocol covers numbers, categories and columns that pass through as they are, so that nobody asks which of them a
column has. All of it is public: a distribution was measured with noise, the rest stands in the schema.
"""

import dataclasses
from typing import Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.piecewise import LARGEST, Distribution, Floats, LevelScale
from understudy.tables.column import Column


class ColumnFacts(TypedDict):
    """What a model file says of a column, beside its knots.

    Attributes:
        missing: The share of missing values.
        integer: Whether the distribution is over whole numbers.
        labels: Of a column of categories.
        given: Whether the column passes through; the word is part of the file format.
    """

    missing: float
    integer: bool
    labels: list[str] | None
    given: bool


class ColumnEncoder(Protocol):
    """Turns the values of one column into levels, and levels into values."""

    @property
    def column(self) -> Column: ...

    @property
    def distribution(self) -> Distribution:
        """Of the values that are not missing; of codes for categories."""
        ...

    @property
    def missing(self) -> float:
        """The share of missing values; 0 unless the schema says `nullable`."""
        ...

    @property
    def labels(self) -> tuple[str, ...] | None:
        """What codes stand for; None for a number."""
        ...

    @property
    def is_pass_through(self) -> bool:
        """Whether the column's own numbers take the place of levels and of scores. Nothing of it was measured then."""
        ...

    @property
    def scale(self) -> LevelScale:
        """The public description of `levels`, for maps of locked rows."""
        ...

    def levels(self, values: NDArray) -> tuple[Floats, Floats]:
        """The interval of levels that belongs to every value; NaN if it is missing."""
        ...

    def values(self, levels: Floats) -> NDArray:
        """Values, or codes of categories, at the given levels; a NaN level is a missing value."""
        ...


@dataclasses.dataclass(frozen=True)
class NumericEncoder:
    """A column of numbers or instants, through its measured distribution: over whole steps if values lie on a grid."""

    column: Column
    distribution: Distribution
    missing: float = 0.0

    @property
    def labels(self) -> None:
        return None

    @property
    def is_pass_through(self) -> bool:
        return False

    @property
    def scale(self) -> LevelScale:
        low, high = self.column.bounds_in_steps
        first, last = -LARGEST if low is None else low, LARGEST if high is None else high
        return LevelScale(self.distribution, first, last, step=_step(self.column))

    def levels(self, values: NDArray) -> tuple[Floats, Floats]:
        return self.scale.interval(values)

    def values(self, levels: Floats) -> NDArray:
        x = self.distribution.quantile(levels)  # NaN stays NaN
        low, high = self.column.bounds_in_steps
        x = np.clip(x, low, high) if low is not None or high is not None else x
        x = np.rint(x) if self.column.kind == "datetime" else x
        return _from_steps(x, self.column)


def _step(column: Column) -> float | None:
    """The grid that a distribution counts steps of; None where a step is 1 or there is no grid."""
    return None if column.step == 1.0 else column.step


def _from_steps(steps: Floats, column: Column) -> Floats:
    """Whole numbers of steps on the scale of a table. 30 steps of 0.01 are 0.3, which 30 * 0.01 is not."""
    if column.decimals is not None:
        return steps / 10.0**column.decimals + 0.0  # no -0.0
    step = _step(column)
    return steps if step is None else steps * step


@dataclasses.dataclass(frozen=True)
class CategoricalEncoder:
    """A column of categories or truth values: the measured shares of codes, as if these were whole numbers."""

    column: Column
    distribution: Distribution
    missing: float
    labels: tuple[str, ...]

    @property
    def is_pass_through(self) -> bool:
        return False

    @property
    def scale(self) -> LevelScale:
        return LevelScale(self.distribution, coded=True)

    def levels(self, values: NDArray) -> tuple[Floats, Floats]:
        return self.scale.interval(values)

    def values(self, levels: Floats) -> NDArray:
        """Codes. A table holds truth values as floats, missing ones as NaN; other missing codes are -1."""
        gone = np.isnan(levels)
        codes = np.clip(self.distribution.quantile(np.where(gone, 0.5, levels)), 0, len(self.labels) - 1)
        if self.column.kind == "boolean":
            return np.where(gone, np.nan, codes)
        return np.where(gone, -1, codes).astype(np.int64)


@dataclasses.dataclass(frozen=True)
class PassThroughEncoder:
    """A column that is taken as it is: its own numbers take the place of levels and of scores."""

    column: Column

    @property
    def distribution(self) -> Distribution:
        """The uniform one: nothing is known."""
        return Distribution(np.array([0.0, 1.0]), np.array([0.0, 1.0]))

    @property
    def missing(self) -> float:
        return 0.0

    @property
    def labels(self) -> None:
        return None

    @property
    def is_pass_through(self) -> bool:
        return True

    @property
    def scale(self) -> LevelScale:
        return LevelScale(self.distribution)

    def levels(self, values: NDArray) -> tuple[Floats, Floats]:
        x = np.clip(np.nan_to_num(values), -LARGEST, LARGEST)
        return x, x

    def values(self, levels: Floats) -> NDArray:
        return levels


def facts_of(encoder: ColumnEncoder) -> tuple[ColumnFacts, Floats]:
    """What a model file keeps of a column: its facts, and its knots as values over cdf, (2, knots)."""
    facts = ColumnFacts(
        missing=encoder.missing,
        integer=encoder.distribution.integer,
        labels=None if encoder.labels is None else list(encoder.labels),
        given=encoder.is_pass_through,
    )
    return facts, np.stack([encoder.distribution.values, encoder.distribution.cdf])


def from_facts(column: Column, facts: ColumnFacts, knots: Floats) -> ColumnEncoder:
    """The column encoder that `facts_of` described.

    Raises:
        ValueError: The knots are no distribution function, or the share of missing values is none.
    """
    if facts["given"]:
        return PassThroughEncoder(column)
    if knots.ndim != 2 or knots.dtype != np.float64 or not np.isfinite(knots).all() or (np.diff(knots) < 0).any():
        raise ValueError("expected ascending knots")
    if not 0.0 <= facts["missing"] <= 1.0:
        raise ValueError("expected a share of missing values")
    values, cdf = knots
    learned = Distribution(values, cdf, facts["integer"])
    if facts["labels"] is None:
        return NumericEncoder(column, learned, facts["missing"])
    return CategoricalEncoder(column, learned, facts["missing"], tuple(facts["labels"]))
