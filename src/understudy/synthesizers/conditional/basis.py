"""Functions of the bins of a column: what one column tells another is a sum of products of these.

A number has its score and cosines of its level, of mean 0 and variance 1 over its bins and uncorrelated with each
other, and a flag for missing values. A category has a flag for each of its values. The share of a category among
earlier siblings has one function, itself, so that all shares of a column together are no longer than its flags. The
*linear* ones are the score of a number, a share, and the flags of the commonest values of a category. Products of two
linear ones, and of cosines up to a degree that the noise allows, are measured as second moments.

The one rule: all of it is public, made of the encoder.
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.bins import Bins
from understudy.encoding.columns import ColumnEncoder
from understudy.encoding.encoder import Encoder
from understudy.privacy.normal_scores import mean_score

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

DEGREE = 5
"""The highest frequency of a cosine."""
MOST_CATEGORIES = 8
"""So many of the commonest values of a category have linear flags."""
LEAST_SHARE = 1e-4
"""No bin is taken to hold less than this share."""


@dataclasses.dataclass(frozen=True, eq=False)
class Basis:
    """The functions of one column.

    Attributes:
        shares: Of the bins, the missing one last if there is one.
        table: (bins, functions).
        degrees: The frequency of a cosine; of a score and of a flag, 1.
        measured: Those whose products are measured.
        number: Whether it is a number.
    """

    shares: Floats
    table: Floats
    degrees: Whole
    measured: NDArray[np.bool_]
    number: bool


def basis_of(known: ColumnEncoder, bins: Bins, *, structural: bool, share: bool = False, degree: int = 1) -> Basis:
    """The functions of a column.

    Args:
        structural: Whether it is missing where its place among its siblings says so; then there is no flag for it.
        share: Whether it is the share of a category in some rows. Its function is the share itself, the mean of flags.
        degree: Of the highest function of a number whose products are measured.
    """
    present = np.diff(bins.edges) * (1.0 - known.missing)
    shares = np.append(present, known.missing) if bins.nullable else present
    if known.labels is not None:
        table = np.eye(len(shares))
        common = np.argsort(-shares, kind="stable")[:MOST_CATEGORIES]
        measured = np.isin(np.arange(len(shares)), common) & (shares > LEAST_SHARE)
        return Basis(shares, table, np.ones(len(shares), np.int64), measured, False)
    middles = (bins.edges[:-1] + bins.edges[1:]) / 2
    if share:
        powers = known.values(middles)[:, None]
    else:
        masses = np.maximum(np.diff(bins.edges), 1e-9)
        powers = _orthogonal(mean_score(bins.edges[:-1], bins.edges[1:]), middles, masses / masses.sum())
    if not bins.nullable:
        table, flags = powers, 0
    else:
        flags = int(not structural)
        table = np.zeros((len(shares), powers.shape[1] + flags))
        table[:-1, : powers.shape[1]] = powers
        table[-1, powers.shape[1] :] = 1.0
    degrees = np.append(np.arange(powers.shape[1]) + 1, np.ones(flags, np.int64))
    return Basis(shares, table, degrees, degrees <= degree, True)


def _orthogonal(score: Floats, level: Floats, masses: Floats) -> Floats:
    """The score and cosines of the level, made orthonormal over the masses by Gram and Schmidt: (bins, functions)."""
    found = [np.ones(len(score))]
    for degree in range(1, min(DEGREE, len(score) - 1) + 1):
        new = score if degree == 1 else np.cos(degree * np.pi * level)
        for old in found:
            new = new - (masses @ (new * old)) * old
        spread = float(np.sqrt(masses @ new**2))
        if spread < 1e-6:
            break
        found.append(new / spread)
    return np.stack(found[1:], axis=1) if len(found) > 1 else np.zeros((len(score), 0))


@dataclasses.dataclass(frozen=True, eq=False)
class Bases:
    """The functions of all columns of a table, side by side.

    Attributes:
        names: The columns, in generation order.
        starts: The first function of every column, and at last how many there are.
    """

    names: tuple[str, ...]
    bins: tuple[Bins, ...]
    of: tuple[Basis, ...]

    @functools.cached_property
    def starts(self) -> Whole:
        return np.cumsum([0, *(each.table.shape[1] for each in self.of)])

    @property
    def measured(self) -> NDArray[np.bool_]:
        return np.concatenate([each.measured for each in self.of])

    @functools.cached_property
    def degrees(self) -> Whole:
        return np.concatenate([each.degrees for each in self.of])

    @functools.cached_property
    def owners(self) -> Whole:
        return np.repeat(np.arange(len(self.of)), [each.table.shape[1] for each in self.of])

    @property
    def means(self) -> Floats:
        """Of all functions, as the encoder has them."""
        return np.concatenate([each.shares @ each.table for each in self.of])

    @property
    def squares(self) -> Floats:
        return np.concatenate([each.shares @ each.table**2 for each in self.of])

    def functions_of(self, number: int) -> Whole:
        """The places of the functions of a column."""
        return np.arange(self.starts[number], self.starts[number + 1])


def bases_of(
    encoder: Encoder,
    bins: Mapping[str, Bins],
    order: Sequence[str],
    structural: Collection[str],
    shares: Collection[str],
    degrees: Mapping[str, int] | None = None,
) -> Bases:
    """The functions of all columns, in this order; 1 is the degree of those that have no other."""
    made = [
        basis_of(
            encoder.columns[name],
            bins[name],
            structural=name in structural,
            share=name in shares,
            degree=(degrees or {}).get(name, 1),
        )
        for name in order
    ]
    return Bases(tuple(order), tuple(bins[name] for name in order), tuple(made))
