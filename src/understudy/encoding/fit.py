"""Fitting an encoder: the distribution of every column from noisy counts.

The one rule: rows go to the counting mechanisms that `plan` lists, and nowhere else.
"""

from collections.abc import Sequence

import numpy as np

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
from understudy.privacy.counts import noisy_counts, noisy_row_count, popular_categories
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

FittedColumn = tuple[ColumnEncoder, float]
"""A column's encoder, and how many rows its counts add up to."""


def fit_encoder(rows: PrivateRows, schema: Schema, *, ledger: Ledger, key: Key) -> Encoder:
    """Measures the distribution of every column.

    The number of rows is a noisy count. If the schema gives one instead, that is only approximate, so the columns'
    own counts say how many there are.

    Privacy:
        Reads rows through the counting mechanisms only, as `plan` lists them.
    """
    if schema.rows is None:
        variance = (ledger.noise(ROWS) * rows.max_rows_per_unit) ** 2
        total = max(noisy_row_count(rows, planned=ROWS, ledger=ledger, key=key.child("rows")), 1.0)
    else:
        variance, total = UNKNOWN, float(schema.rows)
    root = Round(np.array([total]), variance, np.zeros(1, int))
    fitted = {column.name: _fit_column(rows, column, root, ledger, key) for column in schema}
    if schema.rows is not None:
        total = max(float(np.median([counted for _, counted in fitted.values()])), 1.0)
    return Encoder(schema, {name: encoder for name, (encoder, _) in fitted.items()}, total)


def _fit_column(rows: PrivateRows, column: Column, root: Round, ledger: Ledger, key: Key) -> FittedColumn:
    match measurement_of(column):
        case "numeric":
            return _fit_numeric(rows, column, root, ledger, key)
        case "listed":
            labels = BOOLEAN_LABELS if column.kind == "boolean" else column.labels
            assert labels is not None  # the schema lists them
            return _fit_categories(rows, column, labels, COUNT, ledger, key)
        case "open":
            return _fit_open(rows, column, ledger, key)


def _fit_numeric(rows: PrivateRows, column: Column, root: Round, ledger: Ledger, key: Key) -> FittedColumn:
    """Three rounds of counts over partitions that grow finer where there are rows.

    Missing values have a bin, the last, whether the schema allows them or not: every row is counted somewhere. Values
    that lie on a grid (dates, numbers of so many decimals) are whole numbers of steps.
    """
    name, integer, grid = column.name, column.step is not None, column.step or 1.0
    low, high = column.bounds_in_steps
    atoms = np.rint(np.array(column.atoms) / grid) if integer else column.atoms
    sigma = {planned: ledger.noise(planned) * rows.max_rows_per_unit for planned in ROUNDS}
    precision = np.cumsum([1 / sigma[planned] ** 2 for planned in ROUNDS])
    noise = precision[-1] ** -0.5  # of a bin that is counted in every round
    bounded = low is not None and high is not None
    octaves = partitions.octaves_for(noise, float(root.counts[0]), bounded=bounded)
    edges = partitions.starting_edges(low=low, high=high, integer=integer, atoms=atoms, octaves=octaves)
    rounds, parents, masses = [root], np.zeros(len(edges), int), np.zeros(0)
    counted: list[Counted] = []
    for step, planned in enumerate(ROUNDS):
        bins = len(edges)
        counts = noisy_counts(
            rows.derive({"bin": ValueBin(name, edges * grid)}),
            ["bin"],
            [bins],
            what=QUESTIONS[planned].format(name),
            planned=planned,
            ledger=ledger,
            key=key.child(planned).child(name),
        )
        rounds.append(Round(counts, sigma[planned] ** 2, parents))
        counted.append(Counted(edges, counts, sigma[planned] ** 2))
        masses = combine(rounds)
        if step < len(ROUNDS) - 1:
            edges, parents = partitions.refine(
                edges,
                masses[: len(edges) - 1],
                noise_so_far=precision[step] ** -0.5,
                noise_ahead=(precision[-1] - precision[step]) ** -0.5,
                integer=integer,
            )
            parents = np.append(parents, bins - 1)
    present = masses[: len(edges) - 1]
    missing = _missing_share(masses[-1], present.sum()) if column.nullable else 0.0
    learned = distribution(edges, present, noise=noise, low=low, high=high, integer=integer, counted=counted)
    return NumericEncoder(column, learned, missing), float(masses.sum())


def _fit_open(rows: PrivateRows, column: Column, ledger: Ledger, key: Key) -> FittedColumn:
    """Selects the categories of a column whose values the schema does not list, then counts them.

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
    labels = tuple(sorted(found)) if other in found else (*sorted(found), other)
    return _fit_categories(relabelled(rows, column, labels), column, labels, COUNT_SELECTED, ledger, key)


def _fit_categories(
    rows: PrivateRows, column: Column, labels: Sequence[str], planned: str, ledger: Ledger, key: Key
) -> FittedColumn:
    """Noisy shares of public categories, as a distribution function over their codes."""
    name, size = column.name, len(labels)
    counts = noisy_counts(
        rows.derive({"code": Code(name, size, size if column.nullable else -1)}),
        ["code"],
        [size + column.nullable],
        what=f"count the categories of '{name}'",
        planned=planned,
        ledger=ledger,
        key=key.child(planned).child(name),
    )
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
