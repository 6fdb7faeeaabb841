"""Fitting an encoder: the distribution of every column from noisy counts.

The one rule: rows go to the counting mechanisms that `plan` lists, and nowhere else.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from understudy.core.processors import in_threads
from understudy.core.randomness import Key
from understudy.encoding import partitions
from understudy.encoding.columns import CategoricalEncoder, ColumnEncoder, NumericEncoder
from understudy.encoding.consistency import Round, combine, to_simplex
from understudy.encoding.distributions import distribution
from understudy.encoding.encoder import Encoder, other_label, relabelled
from understudy.encoding.plan import (
    COUNT,
    COUNT_SELECTED,
    ROUNDS,
    ROWS,
    SELECT,
    ancestors,
    measurement_of,
    public_labels,
)
from understudy.encoding.tails import Counted
from understudy.privacy.counts import Floats, noisy_row_count, popular_categories
from understudy.privacy.fused_counts import ColumnCount, noisy_column_counts
from understudy.privacy.ledger import Ledger
from understudy.privacy.piecewise import Distribution
from understudy.privacy.row_maps import Code, ValueBin
from understudy.privacy.rows import PrivateRows
from understudy.tables.column import Column
from understudy.tables.schema import Schema

BOOLEAN_LABELS = ("false", "true")
# What each round of counts asks, for the receipt.
QUESTIONS = {"find": "where '{}' lies", "resolve": "how '{}' is spread", "refine": "how '{}' is spread, finer"}
# A number that nothing is known of has this variance.
UNKNOWN = 1e30
# Weights of units are taken to leave at least this part of the rows.
LEAST_WEIGHED = 0.1

FittedColumn = tuple[ColumnEncoder, float]
"""A column's encoder, and how many rows its counts add up to."""


def fit_encoder(
    rows: PrivateRows, schema: Schema, *, ledger: Ledger, key: Key, unit_bound: float | None = None
) -> Encoder:
    """Measures the distribution of every column.

    The number of rows is a noisy count. If the schema gives one instead, that is only approximate, so the columns'
    own counts say how many there are.

    Args:
        unit_bound: The norm of what a unit adds to one count of a column at most. The noise covers that, in place of
            all rows of a unit, but shares are those of weighted rows: units whose rows are much alike weigh less.

    Privacy:
        Reads rows through the counting mechanisms only, as `plan` lists them.
    """
    if schema.rows is None:
        variance = (ledger.noise(ROWS) * rows.max_rows_per_unit) ** 2
        total = max(noisy_row_count(rows, planned=ROWS, ledger=ledger, key=key.child("rows")), 1.0)
    else:
        variance, total = UNKNOWN, float(schema.rows)
    root = Round(np.array([total]), variance, np.zeros(1, int))
    listed: dict[str, tuple[Sequence[str], str]] = {}
    numeric: dict[str, _Numeric] = {}
    for column in schema:
        match measurement_of(column):
            case "numeric":
                numeric[column.name] = _Numeric(column, root, ledger, rows.max_rows_per_unit, unit_bound)
            case "listed":
                labels = BOOLEAN_LABELS if column.kind == "boolean" else column.labels
                assert labels is not None  # the schema lists them
                listed[column.name] = labels, COUNT
            case "open":
                labels = _select_labels(rows, column, ledger, key)
                rows = relabelled(rows, column, labels)
                listed[column.name] = labels, COUNT_SELECTED
    counted = _count(rows, schema, listed, numeric, ledger, key, unit_bound)

    def fit(column: Column) -> FittedColumn:
        if column.name in numeric:
            return numeric[column.name].fitted()
        return _fitted_categories(column, listed[column.name][0], counted[column.name])

    fitted = dict(zip(schema.names, in_threads(fit, schema, length=int(total)), strict=True))
    if schema.rows is not None:
        total = max(float(np.median([rows_counted for _, rows_counted in fitted.values()])), 1.0)
    return Encoder(schema, {name: encoder for name, (encoder, _) in fitted.items()}, total)


def _count(
    rows: PrivateRows,
    schema: Schema,
    listed: Mapping[str, tuple[Sequence[str], str]],
    numeric: Mapping[str, "_Numeric"],
    ledger: Ledger,
    key: Key,
    unit_bound: float | None = None,
) -> dict[str, Floats]:
    """One pass over the rows for each round of numbers; categories are counted in the first. Returns their counts."""
    categories = {
        name: _count_categories(schema[name], labels, planned, key, unit_bound)
        for name, (labels, planned) in listed.items()
    }
    found: dict[str, Floats] = {}
    for step, planned in enumerate(ROUNDS):
        asked = {name: each.asked(planned, key) for name, each in numeric.items()}
        asked |= {} if step else categories
        found |= zip(asked, noisy_column_counts(rows, list(asked.values()), ledger=ledger), strict=True)
        for name, each in numeric.items():
            each.take(planned, found[name])
    return found


class _Numeric:
    """A column of numbers on its way: three rounds of counts over partitions that grow finer where there are rows.

    Missing values have a bin, the last, whether the schema allows them or not: every row is counted somewhere. Values
    that lie on a grid (dates, numbers of so many decimals) are whole numbers of steps.

    With a bound on what a unit adds, each round has weights of its own, more of the rows the finer its bins are. Its
    counts are taken as shares of all rows.
    """

    def __init__(
        self, column: Column, root: Round, ledger: Ledger, max_rows_per_unit: int, unit_bound: float | None = None
    ):
        self.unit_bound = unit_bound
        self.column, self.integer, self.grid = column, column.step is not None, column.step or 1.0
        self.low, self.high = low, high = column.bounds_in_steps
        atoms = np.rint(np.array(column.atoms) / self.grid) if self.integer else column.atoms
        sensitivity = max_rows_per_unit if unit_bound is None else unit_bound
        self.sigma = {planned: ledger.noise(planned) * sensitivity for planned in ROUNDS}
        self.precision = np.cumsum([1 / self.sigma[planned] ** 2 for planned in ROUNDS])
        self.noise = self.precision[-1] ** -0.5  # of a bin that is counted in every round
        bounded = low is not None and high is not None
        octaves = partitions.octaves_for(self.noise, float(root.counts[0]), bounded=bounded)
        self.edges = partitions.starting_edges(low=low, high=high, integer=self.integer, atoms=atoms, octaves=octaves)
        self.rounds, self.parents, self.masses = [root], np.zeros(len(self.edges), int), np.zeros(0)
        self.counted: list[Counted] = []

    def asked(self, planned: str, key: Key) -> ColumnCount:
        """What the next round counts."""
        name = self.column.name
        return ColumnCount(
            row_map=ValueBin(name, self.edges * self.grid),
            bins=len(self.edges),
            what=QUESTIONS[planned].format(name),
            planned=planned,
            key=key.child(planned).child(name),
            unit_bound=self.unit_bound,
        )

    def take(self, planned: str, counts: Floats) -> None:
        """Takes what a round counted, and makes the partition of the next."""
        step, bins, variance = len(self.counted), len(self.edges), self.sigma[planned] ** 2
        if self.unit_bound is not None:
            total = float(self.rounds[0].counts[0])
            scale = total / max(float(counts.sum()), LEAST_WEIGHED * total)
            counts, variance = counts * scale, variance * scale**2
        self.rounds.append(Round(counts, variance, self.parents))
        self.counted.append(Counted(self.edges, counts, variance))
        self.masses = combine(self.rounds)
        if step < len(ROUNDS) - 1:
            self.edges, parents = partitions.refine(
                self.edges,
                self.masses[: bins - 1],
                noise_so_far=self._noise_so_far,
                noise_ahead=(self.precision[-1] - self.precision[step]) ** -0.5,
                integer=self.integer,
            )
            self.parents = np.append(parents, bins - 1)

    @property
    def _noise_so_far(self) -> float:
        """Of a bin that was counted in every round until now."""
        return sum(1 / each.variance for each in self.counted) ** -0.5

    def fitted(self) -> FittedColumn:
        """The column's encoder once all rounds are counted."""
        present = self.masses[: len(self.edges) - 1]
        missing = _missing_share(self.masses[-1], present.sum()) if self.column.nullable else 0.0
        ends = {"low": self.low, "high": self.high, "integer": self.integer}
        learned = distribution(self.edges, present, noise=self._noise_so_far, counted=self.counted, **ends)
        return NumericEncoder(self.column, learned, missing), float(self.masses.sum())


def _select_labels(rows: PrivateRows, column: Column, ledger: Ledger, key: Key) -> tuple[str, ...]:
    """Selects the categories of a column whose values the schema does not list.

    If the column has levels, the rows whose category was not selected are counted in its narrowest group, those whose
    group was not selected either in the next, and so on; what is left is `other`.
    """
    name, above = column.name, ancestors(column)
    found: list[str] = []
    for level in range(len(above) + 1):
        left = rows.coarsen(name, above[:level], seen=found) if level else rows
        own = key.child("select").child(name)
        selected, _ = popular_categories(
            left,
            name,
            what=f"which categories '{name}' has" + (f", {level} up" if level else ""),
            planned=SELECT,
            ledger=ledger,
            key=own.child(f"level {level}") if level else own,
            public=public_labels(column, level),
        )
        found += [label for label in selected if label not in found]
    other = other_label(column)
    return tuple(sorted(found)) if other in found else (*sorted(found), other)


def _count_categories(
    column: Column, labels: Sequence[str], planned: str, key: Key, unit_bound: float | None
) -> ColumnCount:
    """What is asked of a column of public categories."""
    size = len(labels)
    return ColumnCount(
        row_map=Code(column.name, size, size if column.nullable else -1),
        bins=size + column.nullable,
        what=f"count the categories of '{column.name}'",
        planned=planned,
        key=key.child(planned).child(column.name),
        unit_bound=unit_bound,
    )


def _fitted_categories(column: Column, labels: Sequence[str], counts: Floats) -> FittedColumn:
    """Noisy shares of public categories, as a distribution function over their codes."""
    size = len(labels)
    present = counts[:size]
    missing = _missing_share(counts[-1], present.sum()) if column.nullable else 0.0
    shares = to_simplex(present, max(float(present.sum()), 1.0))
    cdf = np.clip(np.concatenate([[0.0], np.cumsum(shares / shares.sum())]), 0.0, 1.0)
    cdf[-1] = 1.0
    learned = Distribution(np.arange(size + 1.0) - 0.5, cdf, integer=True)
    return CategoricalEncoder(column, learned, missing, tuple(labels)), float(counts.sum())


def _missing_share(missing: float, present: float) -> float:
    missing, present = max(float(missing), 0.0), max(float(present), 0.0)
    return missing / max(missing + present, 1.0)
