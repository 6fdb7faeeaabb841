"""The encoder of a whole table: an encoder for every column, and the number of rows.

Every column, whatever its kind, becomes a distribution function over levels in [0, 1] and a share of missing values:
numbers and instants through one that is measured in three rounds of counts, categories and booleans through their noisy
shares, as if codes were whole numbers. The one rule: all of it is charged to the budget. Bounds, categories, atoms and
the presence of missing values come from the schema or from a mechanism, never from the rows themselves.

One encoder gives three views of the rows. *Scores* are standard normal: the inverse normal of a level, for the copula.
*Features* are scores and one-hot categories, for networks. *Bins* are for methods that count. Going back, a level
inside a bin is read through the learned distribution function, so that a value comes from where the mass was and not
from the middle of the bin.

Departures from common practice: values outside the bounds are clamped, unknown categories go to `other` and a missing
value that the schema rules out gets a random level. None of these is an error, since failing is also a release.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import in_threads
from understudy.encoding.columns import ColumnEncoder, ColumnFacts, PassThroughEncoder, facts_of, from_facts
from understudy.encoding.plan import ancestors, measurement_of
from understudy.privacy.ledger import Ledger
from understudy.privacy.piecewise import Floats
from understudy.privacy.rows import PrivateRows
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.values import SchemaError

Levels = dict[str, Floats]
"""A level per row and column; NaN is a missing value."""

STRATA = 16
"""Margins of numbers have this many bins of equal mass."""

STANDARDISED = (
    "THE STANDARDISATION OF THE COLUMNS WAS NOT PRIVATE. They were taken as they came, standardised beforehand; if "
    "that was done with moments of these very rows, no budget covers it, and the promise does not hold for it. The "
    "number of rows was taken from the schema, as public."
)


class EncoderFacts(TypedDict):
    """What a model file says of an encoder, beside its arrays."""

    rows: float
    columns: dict[str, ColumnFacts]


@dataclasses.dataclass(frozen=True)
class Encoder:
    """All column encoders, and the noisy or public number of rows."""

    schema: Schema
    columns: Mapping[str, ColumnEncoder]
    rows: float

    @property
    def labels(self) -> dict[str, Sequence[str]]:
        """What codes stand for, of every column of categories."""
        return {name: each.labels for name, each in self.columns.items() if each.labels is not None}

    @property
    def other_shares(self) -> dict[str, float]:
        """For every column whose categories were selected, the noisy share of rows that became `other`."""
        found = {}
        for name, each in self.columns.items():
            if each.labels is not None and measurement_of(each.column) == "open":
                shares = np.diff(each.distribution.cdf)
                place = each.labels.index(other_label(each.column))
                found[name] = float(shares[place]) * (1.0 - each.missing)
        return found

    def as_labelled(self, labels: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
        """The labels of a PUBLIC table with each category replaced by its narrowest group that the encoder knows."""
        found = dict(labels)
        for name in set(found) & set(self.other_shares):
            known, column = set(self.labels[name]), self.columns[name].column
            chains = zip(labels[name], *(each.of(labels[name]) for each in ancestors(column)), strict=True)
            found[name] = [next((label for label in chain if label in known), chain[0]) for chain in chains]
        return found

    @property
    def outermost_level(self) -> float:
        """Levels of scores stay this far from 0 and 1: no score lies farther out than in a sample of this size."""
        return 0.25 / max(self.rows, 10.0)

    def decode(self, levels: Levels) -> dict[str, NDArray]:
        """Columns of values from columns of levels."""
        names = self.schema.names
        length = len(next(iter(levels.values())))
        found = in_threads(lambda name: self.columns[name].values(levels[name]), names, length=length)
        return dict(zip(names, found, strict=True))

    def strata(self, columns: Mapping[str, NDArray]) -> dict[str, NDArray]:
        """The bin of every row in each of some columns of values, for margins: a category, or the bin of its level.

        Numbers have `STRATA` bins of equal mass, but all rows with a repeated value are in one. The last bin is that of
        missing values.
        """
        found = {}
        for name, values in columns.items():
            known = self.columns[name]
            if known.labels is not None:
                gone = np.isnan(values) | (values < 0)
                found[name] = np.where(gone, len(known.labels), np.where(gone, 0, values)).astype(np.int64)
            else:
                below, above = known.levels(values)
                middle = np.nan_to_num((below + above) / 2)
                inside = np.clip(middle * STRATA, 0, STRATA - 1).astype(np.int64)
                found[name] = np.where(np.isnan(below), STRATA, inside)
        return found

    def facts(self) -> EncoderFacts:
        """What a model file says of the encoder, beside `arrays`."""
        return EncoderFacts(rows=self.rows, columns={name: facts_of(each)[0] for name, each in self.columns.items()})

    def arrays(self) -> dict[str, NDArray]:
        """The knots of every column, by its position."""
        return {f"column/{position}": facts_of(each)[1] for position, each in enumerate(self.columns.values())}

    @classmethod
    def from_arrays(cls, schema: Schema, facts: EncoderFacts, arrays: Mapping[str, NDArray]) -> "Encoder":
        """The encoder that `facts` and `arrays` described; it takes other facts and arrays of a model file too."""
        columns = {
            column.name: from_facts(column, facts["columns"][column.name], arrays[f"column/{position}"])
            for position, column in enumerate(schema)
        }
        return cls(schema, columns, float(facts["rows"]))


def pass_through_encoder(schema: Schema, *, ledger: Ledger) -> Encoder:
    """Columns that somebody has standardised already, and the number of rows that the schema gives. Measures nothing.

    Privacy:
        Reads nothing. Whoever standardised the columns may have learned from the rows, which no budget covers; the
        receipt says so and is void.

    Raises:
        SchemaError: As of `check_pass_through`.
    """
    rows = check_pass_through(schema)
    ledger.void(STANDARDISED)
    return Encoder(schema, {column.name: PassThroughEncoder(column) for column in schema}, float(rows))


def check_pass_through(schema: Schema) -> int:
    """The number of rows of a table whose columns can pass through as they are.

    Raises:
        SchemaError: A column is not a number, may be missing, or the schema does not say how many rows there are.
    """
    for column in schema:
        if not column.is_numeric or column.nullable:
            raise SchemaError(f"column {column.name!r}: only numbers that are never missing can be taken as they are.")
    if schema.rows is None:
        raise SchemaError("rows: expected the public number of rows, since it is not measured. Add it to the schema.")
    return schema.rows


def with_public_codes(rows: PrivateRows, encoder: Encoder, names: Iterable[str]) -> PrivateRows:
    """The rows with those of these columns that are open categories as codes into the labels that were selected.

    The codes they came with count the private labels of the whole table, so that one more row could move them all.
    """
    for name in dict.fromkeys(names):
        each = encoder.columns[name]
        if each.labels is not None and measurement_of(each.column) == "open":
            rows = relabelled(rows, each.column, each.labels)
    return rows


def relabelled(rows: PrivateRows, column: Column, labels: Sequence[str]) -> PrivateRows:
    """The rows with one open category column as codes into public labels.

    A category that is not among them becomes its narrowest group that is, if the column has levels, and else `other`.
    """
    other = labels.index(other_label(column))
    return rows.relabel(column.name, labels, other=other, ancestors=ancestors(column))


def other_label(column: Column) -> str:
    """The label of categories that are not listed or not selected."""
    return column.other or "other"
