"""A comparison of methods on one's own table: fit each to a part of the rows, compare what it draws with the rest.

The one rule: every fit is an ordinary one, with secret noise, and is charged like one. What the comparison prints is
computed on real rows, and no budget covers it.
"""

import dataclasses
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from understudy.evaluation.evaluate import metric_values
from understudy.pipeline import fit
from understudy.privacy.ledger_file import LedgerFile
from understudy.tables.schema import Schema
from understudy.tables.structure import TableError
from understudy.tables.table import read
from understudy.tables.writing import to_frame

METRICS = ("wd", "tvd1", "tvd2_quantile", "tvd3_quantile", "rank_correlation", "cramers_v")
"""What is compared unless the caller says otherwise."""
MOST_DRAWN = 20_000
"""At most so many synthetic rows are drawn from each model."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a comparison.

    Attributes:
        name: The method, or "real rows" (the floor) or "shuffled rows" (the reference).
        values: What the metrics say, by name; None if undefined.
        fit_seconds, sample_seconds: How long it took; None for real and shuffled rows.
        charged: Whether the fit was entered in the ledger file.
        refused: Why there are no values; None if there are.
    """

    name: str
    values: dict[str, float | None]
    fit_seconds: float | None = None
    sample_seconds: float | None = None
    charged: bool = False
    refused: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Comparison:
    """What is asked for, and the two parts of the table. Private.

    Attributes:
        train, holdout: The rows to fit, and those to compare with. All rows of one unit are in one part.
        metrics, learners: As `evaluate` takes them.
        ledger: The ledger file to charge, if any.
        folder: Where the models are kept, if anywhere.
    """

    schema: Schema
    train: pl.DataFrame
    holdout: pl.DataFrame
    epsilon: float
    delta: float
    metrics: Sequence[str] = METRICS
    learners: Sequence[str] | None = None
    ledger: str | os.PathLike[str] | None = None
    folder: Path | None = None

    def baselines(self) -> Iterator[Line]:
        """What real rows reach, and what they reach with every column shuffled."""
        draw = np.random.default_rng(0)
        shuffled = pl.DataFrame([series.gather(draw.permutation(len(series))) for series in self.train])
        for name, rows in (("real rows", self.train), ("shuffled rows", shuffled)):
            yield Line(name=name, values=self._values(rows))

    def run(self, method: str) -> Line:
        """Fits one method, draws rows and compares them.

        Privacy:
            The fit is charged. What is returned is not covered by it.
        """
        before = self._fits()
        started = time.perf_counter()
        try:
            model = fit(
                self.train,
                self.schema,
                method,
                epsilon=self.epsilon,
                delta=self.delta,
                ledger=self.ledger,
                progress=False,
            )
            fitted = time.perf_counter()
            if self.folder is not None:
                model.save(self.folder / f"{method}.understudy")
            rows = model.sample(min(len(self.train), MOST_DRAWN))
            drawn = time.perf_counter()
            values = self._values(rows)
        except Exception as error:  # one method that fails is a line, not the end
            return Line(name=method, values={}, charged=self._fits() > before, refused=_reason(error))
        return Line(
            name=method,
            values=values,
            fit_seconds=fitted - started,
            sample_seconds=drawn - fitted,
            charged=self.ledger is not None,
        )

    def _values(self, rows: pl.DataFrame) -> dict[str, float | None]:
        parts = {"train": self.train, "metrics": self.metrics, "learners": self.learners}
        return metric_values(self.holdout, self._with_unit(rows), self.schema, seed=0, **parts)

    def _with_unit(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Synthetic rows have no unit; here each is given one of its own, because the schema asks for it."""
        unit = self.schema.unit
        return rows if unit is None or unit in rows.columns else rows.with_row_index(unit)

    def _fits(self) -> int:
        if self.ledger is None or not Path(self.ledger).exists():
            return 0
        return LedgerFile(self.ledger).total(self.schema.name).fits


def split(table: Any, schema: Schema, *, holdout: float, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of a table in two parts, drawn at random: those to fit, and those to compare with.

    Args:
        holdout: The share of the rows, or of the units, that is kept from the fits.

    Privacy:
        Returns exact rows, as `evaluate` reads them. Nothing of them is kept.

    Raises:
        TableError: The table's structure does not fit the schema, or one part would be empty.
    """
    exact = read(table, schema)
    labels = {column.name: column.labels or exact.labels.get(column.name, ()) for column in schema}
    frame = to_frame(exact.columns, schema, labels)
    units = np.arange(len(frame)) if exact.unit is None else exact.unit
    if schema.unit is not None:
        frame = frame.with_columns(pl.Series(schema.unit, units))
    different = np.random.default_rng(seed).permutation(np.unique(units))
    kept = np.isin(units, different[: round(holdout * len(different))])
    if kept.all() or not kept.any():
        raise TableError(f"{exact.source} has too few rows to keep a share of {holdout:g} of them from the fits.")
    return frame.filter(~kept), frame.filter(kept)


def _reason(error: Exception) -> str:
    """Why a method failed: the message of an error of ours, which shows no private value, or the type of another."""
    ours = type(error).__module__.startswith("understudy.") or isinstance(error, ImportError)
    return str(error) if ours else f"unexpected {type(error).__name__}"
