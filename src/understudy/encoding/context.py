"""Encoders of columns that a table is drawn given: another column's encoder, its shares counted anew.

A child sees its parent's columns through the parent's encoder, and the row before through its own. The map from values
to levels is there already and costs nothing; only the distribution is another one, since parents of many children come
often. So each such column is counted once, over a few bins of the encoder that it borrows, and the levels between
their edges are stretched. The one rule: rows go to one counting mechanism, `plan.CONTEXT`, and nowhere else.
"""

import dataclasses

import numpy as np

from understudy.core.randomness import Key
from understudy.encoding.columns import CategoricalEncoder, ColumnEncoder, NumericEncoder
from understudy.encoding.consistency import to_simplex
from understudy.encoding.encoder import relabelled
from understudy.encoding.plan import CONTEXT, measurement_of
from understudy.privacy.fused_counts import ColumnCount, noisy_column_counts
from understudy.privacy.ledger import Ledger
from understudy.privacy.piecewise import Distribution, Floats
from understudy.privacy.row_maps import Code, LevelBin, RowMap
from understudy.privacy.rows import PrivateRows
from understudy.tables.column import Column

BINS = 16
"""A number is counted over so many bins of equal mass in the encoder that it borrows."""
LEAST = 1e-4
"""No bin is taken to hold less than this share, so that levels stay apart."""


def borrowed(known: ColumnEncoder, column: Column) -> ColumnEncoder:
    """The encoder of a column as that of another one with the same values: a parent's, or the row before's."""
    if known.labels is not None:
        return CategoricalEncoder(column, known.distribution, known.missing, known.labels)
    return NumericEncoder(column, known.distribution, known.missing)


def of_means(known: ColumnEncoder, column: Column) -> ColumnEncoder:
    """The encoder of a column of numbers as that of their means, which lie on no grid."""
    step, learned = known.column.step, known.distribution
    values = learned.values * (step or 1.0) if learned.integer else learned.values
    values = values + 1e-9 * np.arange(len(values)) * max(float(np.ptp(values)), 1e-9)  # without atoms
    return NumericEncoder(column, Distribution(values, learned.cdf), known.missing)


def of_shares(column: Column) -> ColumnEncoder:
    """The encoder of shares of rows, all of them equally likely; it has a knot for each bin that may be counted."""
    even = np.linspace(0.0, 1.0, BINS + 1)
    return NumericEncoder(column, Distribution(even, even))


def of_places(column: Column) -> ColumnEncoder:
    """The encoder of whole numbers between the bounds of a column, all of them equally likely."""
    low, high = column.bounds
    assert low is not None and high is not None  # a rank lies between 1 and a public number
    values = np.arange(low, high + 2) - 0.5
    return NumericEncoder(column, Distribution(values, np.linspace(0.0, 1.0, len(values)), integer=True))


def counted(
    rows: PrivateRows, known: ColumnEncoder, *, unit_bound: float | None = None, ledger: Ledger, key: Key
) -> ColumnEncoder:
    """The encoder with the shares that its column has in these rows.

    Args:
        unit_bound: The norm of what a unit adds to the counts at most, as `fit_encoder` has it.

    Privacy:
        Reads rows through one `noisy_column_counts`.
    """
    column = known.column
    edges = None if known.labels is not None else _edges(known.distribution)
    row_map: RowMap
    if edges is None:
        assert known.labels is not None  # it has no edges
        size = len(known.labels)
        row_map = Code(column.name, size, size if column.nullable else -1)
        if measurement_of(column) == "open":
            rows = relabelled(rows, column, known.labels)
    else:
        size = len(edges) - 1
        row_map = LevelBin(column.name, known.scale, edges, column.nullable, key.child(f"bin {column.name}"))
    asked = ColumnCount(
        row_map=row_map,
        bins=size + column.nullable,
        what=f"count '{column.name}'",
        planned=CONTEXT,
        key=key.child(CONTEXT).child(column.name),
        unit_bound=unit_bound,
    )
    counts = noisy_column_counts(rows, [asked], ledger=ledger)[0]
    return _stretched(known, edges, counts)


def _edges(learned: Distribution) -> Floats:
    """Even levels, but none within a value that owns many of them."""
    below, above = learned.atoms()
    wide = above - below > 1.0 / BINS
    below, above = below[wide], above[wide]
    even = np.linspace(0.0, 1.0, BINS + 1)
    inside = ((even[:, None] > below) & (even[:, None] < above)).any(axis=1)
    edges = np.unique(np.concatenate([even[~inside], below, above]))
    return edges[np.r_[True, np.diff(edges) > 1e-9]]


def _stretched(known: ColumnEncoder, edges: Floats | None, counts: Floats) -> ColumnEncoder:
    present = counts[:-1] if known.column.nullable else counts
    gone = max(float(counts[-1]), 0.0) if known.column.nullable else 0.0
    shares = np.maximum(to_simplex(present, max(float(present.sum()), 1.0)), 0.0)
    shares = np.maximum(shares / max(float(shares.sum()), 1e-300), LEAST)
    cdf = np.concatenate([[0.0], np.cumsum(shares / shares.sum())])
    cdf[-1] = 1.0
    missing = gone / max(gone + max(float(present.sum()), 0.0), 1.0)
    learned = known.distribution
    if edges is not None:
        cdf = np.clip(np.interp(learned.cdf, edges, cdf), 0.0, 1.0)
        cdf[0], cdf[-1] = 0.0, 1.0
    made = dataclasses.replace(learned, cdf=cdf)
    if known.labels is not None:
        return CategoricalEncoder(known.column, made, missing, known.labels)
    return NumericEncoder(known.column, made, missing)
