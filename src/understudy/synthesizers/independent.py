"""Independent columns: the encoder's own distributions, and nothing about how columns depend on each other.

The baseline that every other method has to beat, and the best there is for one column at a time: the whole budget goes
to the 1-way marginals.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.core.settings import Settings
from understudy.core.stratified import stratified_levels
from understudy.encoding.encoder import Encoder, Levels
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.base import Interval
from understudy.tables.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True)
class Independent(Settings):
    """Every column on its own."""

    name: ClassVar[str] = "independent"
    encoding_share: ClassVar[float] = 1.0

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """Nothing: the encoder measures all there is."""
        return []

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> "FittedIndependent":
        """Takes the shares of missing values from the encoder. Reads no row."""
        missing = {name: m.missing for name, m in encoder.columns.items()}
        return FittedIndependent(tuple(missing), np.array(list(missing.values())))


@dataclasses.dataclass(frozen=True)
class FittedIndependent:
    """The columns and their shares of missing values."""

    columns: tuple[str, ...]
    missing: NDArray[np.float64]

    def sample(self, n: int, *, key: Key) -> Levels:
        levels = {}
        for name, missing in zip(self.columns, self.missing, strict=True):
            draw = key.child(name).numpy()
            level = draw.random(n)
            level = np.where(draw.random(n) < missing, np.nan, level) if missing > 0 else level
            levels[name] = stratified_levels(level, draw)
        return levels

    def sample_within(self, n: int, within: Mapping[str, Interval], *, key: Key) -> Levels:
        """Rows within intervals of levels. Columns are independent: a condition on one does not change the others."""
        levels = self.sample(n, key=key)
        for name, (low, high) in within.items():
            levels[name] = low + (high - low) * key.child(f"where {name}").numpy().random(n)
        return levels

    def sample_given(self, given: Levels, *, key: Key, present: Collection[str] = ()) -> Levels:
        """Rows with the given levels. Columns are independent: what is given changes no other column."""
        n = len(next(iter(given.values())))
        levels = self.sample(n, key=key)
        for name in present:
            levels[name] = np.where(
                np.isnan(levels[name]), key.child(f"present {name}").numpy().random(n), levels[name]
            )
        return {**levels, **given}

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        return {name: [] for name in schema.generation_order}

    def arrays(self) -> dict[str, NDArray]:
        return {"columns": np.array(self.columns), "missing": self.missing}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> "FittedIndependent":
        return cls(tuple(arrays["columns"].tolist()), arrays["missing"])
