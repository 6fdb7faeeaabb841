"""What a method and a fitted generator are: the two protocols every synthesizer keeps.

A *method* is a frozen, keyword-only dataclass of public settings (`core.settings.Settings`). It plans what it will
measure from public facts alone, then fits: it hands the locked rows to mechanisms and works on what they release. A
*fitted generator* is arrays and public facts; it holds no row, and sampling from it costs nothing.

What only some methods can do is a protocol of its own, which `model` and `pipeline` ask for by `isinstance`:
`BatchMethod`, `FamilyMethod`, `DensityModel`, `ConditionalSampler`, `GivenSampler`, `WeightedParents`. Neither ever
asks for one method by name.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, Levels
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.tables.schema import Schema

Interval = tuple[float, float]
"""Levels from a first to a last one."""


class Fitted(Protocol):
    """A fitted generator: draws levels, names the parents of each column, and is saved as arrays."""

    def sample(self, n: int, *, key: Key) -> Levels:
        """`n` rows: a level in [0, 1] for every row and column, NaN for a missing value."""
        ...

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        """For every column, in generation order, the earlier ones it is made from."""
        ...

    def arrays(self) -> dict[str, NDArray]:
        """All of it, as arrays that need no pickle."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> Self:
        """The generator that `arrays` came from."""
        ...


class Method(Protocol):
    """A method, configured.

    Attributes:
        name: What the front door and the command line call it.
        encoding_share: Part of the budget for the encoder. 0 means that columns pass through as they are.
    """

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @property
    def encoding_share(self) -> float: ...

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """What it will measure beside the encoder, from public facts alone."""
        ...

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> Fitted:
        """Fits a generator to locked rows, which only mechanisms read.

        Raises:
            BudgetExceeded: The ledger does not cover it. Nothing has been read.
        """
        ...


class MethodClass(Protocol):
    """The class of a method, before it is configured."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __call__(self, **settings: Any) -> Method:
        """The method with these settings; the others have their defaults."""
        ...


MethodT = TypeVar("MethodT", bound=Method)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HistoryNames:
    """The columns that the order of a history is drawn with: where it starts, or a gap from the row before.

    Attributes:
        start: The column of the context that says where a history starts.
        before: The column of the row before that gaps are reckoned from.
        unit: The length of a gap of 1 on the scale of the order.
    """

    start: str
    gap: str
    order: str
    before: str
    unit: float


class Simulation(Protocol):
    """Families of one table, drawn with a generator that is still being fitted. Public: no row comes here.

    Attributes:
        given: The columns that the table is drawn given.
        derived: Columns that follow from others and are never drawn.
        structural: Columns that are missing where a row's place among its siblings says so, and nowhere else.
        smooth: Given columns whose encoder says little of their values: means, which lie on no grid, and shares.
        shares: Those of them that are shares of a category.
        history: If it has an order.
    """

    @property
    def given(self) -> Collection[str]: ...

    @property
    def derived(self) -> Collection[str]: ...

    @property
    def structural(self) -> Collection[str]: ...

    @property
    def smooth(self) -> Collection[str]: ...

    @property
    def shares(self) -> Collection[str]: ...

    @property
    def history(self) -> "HistoryNames | None": ...

    def rows(self, generator: "GivenSampler", n: int, *, key: Key) -> tuple[Levels, NDArray[np.int64]]:
        """About `n` rows with the levels of all columns, as many of each unit as are learned from, and their units.

        Rows of a unit stand together.
        """
        ...


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FitRequest(Generic[MethodT]):
    """One of many fits that are made together."""

    method: MethodT
    rows: PrivateRows
    encoder: Encoder
    ledger: Ledger
    key: Key


@runtime_checkable
class BatchMethod(Method, Protocol):
    """A method of which many fits share one compiled program."""

    @classmethod
    def fit_many(cls, requests: Sequence[FitRequest]) -> list[Fitted]:
        """The fitted generators, in the order of the requests; each keeps the promise of `fit` by itself."""
        ...


@runtime_checkable
class FamilyMethod(Method, Protocol):
    """A method that learns a table of children better from the families that it draws itself.

    Attributes:
        family_encoding_share: Part of the budget of a table of children for its encoder.
    """

    @property
    def family_encoding_share(self) -> float: ...

    def plan_families(self, columns: int) -> list[PlannedMechanism]:
        """As `plan`, for a table of children of which so many columns are drawn."""
        ...

    def fit_families(
        self, rows: PrivateRows, encoder: Encoder, *, simulation: Simulation, ledger: Ledger, key: Key
    ) -> Fitted:
        """As `fit`, for a table of children."""
        ...


@runtime_checkable
class DensityModel(Protocol):
    """A fitted generator whose density is explicit."""

    def log_density(
        self, encoder: Encoder, columns: Mapping[str, NDArray], labels: Mapping[str, Sequence[str]]
    ) -> NDArray[np.float64]:
        """The log density of every row, in nats."""
        ...


@runtime_checkable
class ConditionalSampler(Protocol):
    """A fitted generator that can keep a column's levels within an interval without rejecting rows."""

    def sample_within(self, n: int, within: Mapping[str, Interval], *, key: Key) -> Levels:
        """`n` rows whose levels lie within the interval given for their column."""
        ...


@runtime_checkable
class GivenSampler(Protocol):
    """A fitted generator that draws some columns of a row given the others."""

    def sample_given(self, given: Levels, *, key: Key, present: Collection[str] = ()) -> Levels:
        """Rows whose levels in the given columns are these, one row for each; all columns are returned.

        Args:
            present: Columns that are drawn and not missing, though they may be.
        """
        ...


@runtime_checkable
class WeightedParents(Protocol):
    """A fitted generator that measures how much a column takes from each of its parents."""

    def strengths(self) -> dict[str, dict[str, float]]: ...
