"""Shares of bins, measured again and again: a pair that is counted counts each of its columns too.

The encoder counts a column once, and bins are made of that. The sum of a counted pair over the bins of its other column
has noise of its own. Both together, each weighted by its precision, are nearer to the truth than either, and nothing
is spent on it.

The one rule: no private row comes here.
"""

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.encoder import Encoder
from understudy.encoding.plan import single_column_noise
from understudy.privacy.ledger import Ledger
from understudy.synthesizers.conditional.basis import Bases
from understudy.synthesizers.conditional.measuring import PairCount

Floats = NDArray[np.float64]


def encoder_noise(encoder: Encoder, names: Collection[str], ledger: Ledger) -> dict[str, float]:
    """The deviation of a bin's share, as the encoder has it, of columns that it counted."""
    total = max(encoder.rows, 1.0)
    return {name: single_column_noise(encoder.columns[name].column, ledger) / total for name in names}


def with_counted(bases: Bases, noise: Mapping[str, float], pairs: Collection[PairCount]) -> Bases:
    """The bases with the shares of some columns found from the encoder and from the pairs that were counted.

    Args:
        bases: As the encoder has them.
        noise: Of the columns that are found anew, what `encoder_noise` says.
    """
    made = list(bases.of)
    for j, name in enumerate(bases.names):
        if name in noise:
            made[j] = dataclasses.replace(made[j], shares=_combined(j, made[j].shares, noise[name], pairs))
    return dataclasses.replace(bases, of=tuple(made))


def _combined(j: int, shares: Floats, noise: float, pairs: Collection[PairCount]) -> Floats:
    precision = noise**-2.0
    total = shares * (precision / shares.sum())
    for each in pairs:
        if j in (each.first, each.second):
            counted = each.shares.sum(axis=1 if each.first == j else 0)
            summed = each.shares.size // len(counted)
            total += counted * (each.noise**-2.0 / summed)
            precision += each.noise**-2.0 / summed
    found = np.maximum(total / precision, 0.0)
    return found / max(float(found.sum()), 1e-12)
