"""Shares of bins, measured again and again: a pair that is counted counts each of its columns too.

The encoder counts a column, and bins are made of that; its own columns are counted once more, in finer bins
(measuring.py). The sum of a counted pair over the bins of its other column has noise of its own. All of them
together, each weighted by its precision, are nearer to the truth than any.

The one rule: no private row comes here.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.bins import Bins
from understudy.encoding.encoder import Encoder
from understudy.encoding.plan import single_column_noise
from understudy.privacy.ledger import Ledger
from understudy.synthesizers.conditional.basis import Bases
from understudy.synthesizers.conditional.measuring import Margins, PairCount

Floats = NDArray[np.float64]

APART = 0.06
"""Weights of units move the encoder's shares by about this part of a bin."""
LEAST_SHARE = 1e-4
"""No bin is taken to hold less than this share, however little was counted."""


def encoder_noise(encoder: Encoder, names: Collection[str], ledger: Ledger) -> dict[str, float]:
    """The deviation of a bin's share, as the encoder has it, of columns that it counted with a bound of units."""
    total, bound = max(encoder.rows, 1.0), math.sqrt(ledger.max_rows_per_unit)
    columns = [encoder.columns[name].column for name in names]
    return {each.name: single_column_noise(each, ledger, unit_bound=bound) / total for each in columns}


class Counted(NamedTuple):
    """Counts of single columns and of pairs, as they are without weights of units."""

    margins: Margins
    pairs: Collection[PairCount]


def with_counted(bases: Bases, noise: Mapping[str, float], counted: Counted) -> tuple[Bases, dict[str, "Measured"]]:
    """The bases with the shares of some columns found from all that counted them, and these with what noise is left.

    Args:
        bases: As the encoder has them.
        noise: Of the columns that are found anew, what `encoder_noise` says.
    """
    made, found = list(bases.of), dict[str, Measured]()
    for j, name in enumerate(bases.names):
        if name in noise:
            first = Measured(made[j].shares / made[j].shares.sum(), noise[name])
            found[name] = _combined(j, bases.bins[j], first, counted)
            made[j] = dataclasses.replace(made[j], shares=found[name].shares)
    return dataclasses.replace(bases, of=tuple(made)), found


class Measured(NamedTuple):
    """Shares of bins, and the deviation of one."""

    shares: Floats
    noise: float

    @property
    def distance(self) -> float:
        """The total variation distance that noise alone makes."""
        return len(self.shares) * self.noise / math.sqrt(2 * math.pi)


def fine_shares(j: int, bases: Bases, margins: Margins) -> Measured:
    """The shares of the fine bins of column j, with sums as the bases have them."""
    fine, own = margins.bins[j].within(bases.bins[j]), bases.of[j].shares
    counted = np.maximum(margins.shares[j], 0.0)
    sums = np.bincount(fine, counted, len(own))
    widths = np.append(np.diff(margins.bins[j].edges), [1.0] * margins.bins[j].nullable)
    even = widths / np.bincount(fine, widths, len(own))[fine]
    inside = np.where(sums[fine] > 0, counted / np.maximum(sums[fine], 1e-12), even)
    return Measured(own[fine] * inside, margins.noise)


def _combined(j: int, bins: Bins, first: Measured, counted: Counted) -> Measured:
    """What the encoder, the counts by themselves and the sums of pairs say together."""
    margins, pairs = counted
    apart = APART / bins.size if j in margins.bins else 0.0  # then the encoder's shares are those of weighted rows
    precision = 1.0 / (first.noise**2 + apart**2)
    total = first.shares * precision
    if j in margins.bins:
        fine = margins.bins[j]
        own = margins.noise**-2.0 * bins.size / fine.size
        total += np.bincount(fine.within(bins), margins.shares[j], bins.size) * own
        precision += own
    for each in pairs:
        if j in (each.first, each.second):
            summed_up = each.shares.sum(axis=1 if each.first == j else 0)
            summed = each.shares.size // len(summed_up)
            total += summed_up * (each.noise**-2.0 / summed)
            precision += each.noise**-2.0 / summed
    found = np.maximum(total / precision, LEAST_SHARE)
    return Measured(found / max(float(found.sum()), 1e-12), precision**-0.5)
