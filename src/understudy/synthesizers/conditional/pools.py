"""Pools: rows of drawn families as bins and functions, and what densities learn and pairs are compared on.

The one rule: no private row comes here.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.bins import Bins
from understudy.encoding.encoder import Levels
from understudy.synthesizers.conditional.basis import Bases
from understudy.synthesizers.conditional.landing import Landing

Floats = NDArray[np.float64]
Single = NDArray[np.floating[Any]]
Whole = NDArray[np.int64]

RAKINGS = 8
"""The weights of rows are found in so many rounds, ..."""
WEIGHTS = (0.2, 5.0)
"""... and stay between these multiples of their mean."""
FITTINGS = 3
"""Shares of pairs are fitted to those of columns so often."""


@dataclasses.dataclass(frozen=True, eq=False)
class CodedPool:
    """Rows that a model draws: the bins of all columns, and their functions.

    Attributes:
        codes: (columns, rows).
        functions: (rows, functions).
        weights: Of the rows, of mean 1: what their contexts count.
        unit: Of the rows; those of a unit stand together.
        landings: Of a history, the order that every gap leads to: (rows, bins of gaps).
        fine: The fine bins of columns that were counted by themselves, by their number.
    """

    codes: Whole
    functions: Single
    weights: Single
    unit: Whole
    landings: Whole | None = None
    fine: Mapping[int, Whole] = dataclasses.field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.functions)

    def joined(self, other: "CodedPool | None") -> "CodedPool":
        """A copy of these rows, and of another pool's."""
        both = [self] if other is None else [self, other]
        landings = [each.landings for each in both if each.landings is not None]
        last = int(self.unit.max(initial=-1)) + 1
        return CodedPool(
            np.concatenate([each.codes for each in both], axis=1),
            np.concatenate([each.functions for each in both]),
            np.concatenate([each.weights for each in both]),
            np.concatenate([each.unit + i * last for i, each in enumerate(both)]),
            np.concatenate(landings) if landings else None,
            {j: np.concatenate([each.fine[j] for each in both]) for j in self.fine},
        )


def coded(
    bases: Bases, levels: Levels, unit: Whole, landing: Landing | None = None, fine: Mapping[int, Bins] | None = None
) -> CodedPool:
    """Rows of levels as bins and functions.

    Args:
        fine: Further bins of columns, by their number.
    """
    codes = np.stack([bins.code_of(levels[name]) for name, bins in zip(bases.names, bases.bins, strict=True)])
    functions = np.concatenate(
        [each.table.astype(np.float32)[code] for each, code in zip(bases.of, codes, strict=True)], axis=1
    )
    landings = None if landing is None else landing.codes(levels[bases.names[landing.base]])
    finer = {j: bins.code_of(levels[bases.names[j]]) for j, bins in (fine or {}).items()}
    return CodedPool(codes, functions, np.ones(len(functions), np.float32), unit, landings, finer)


def raked(pool: CodedPool, bases: Bases, columns: Sequence[int]) -> CodedPool:
    """The pool with weights under which some columns have the measured shares: iterative proportional fitting.

    Without it, what drawn histories have a little wrong would be learned as the context of the next fit, and grow.
    """
    weights = np.ones(pool.count)
    if not pool.count:
        return pool
    for _ in range(RAKINGS if len(columns) else 0):
        for j in columns:
            shares = bases.of[j].shares / bases.of[j].shares.sum()
            held = np.bincount(pool.codes[j], weights, len(shares)) / weights.sum()
            found = weights * np.where(held > 0, shares / np.maximum(held, 1e-9), 1.0)[pool.codes[j]]
            if found.any():  # else no row has a value that was measured, as in a table of a few rows
                weights = np.clip(found / found.mean(), *WEIGHTS)
    return dataclasses.replace(pool, weights=(weights / weights.mean()).astype(np.float32))


def pair_shares(bases: Bases, pool: CodedPool, drawn: NDArray[np.bool_]) -> Floats:
    """The shares of rows by the bins of all columns, in pairs: (bins, bins).

    Every pair is fitted to the measured shares of drawn columns, so that what differs from counts is how they depend on
    each other, and not what another column has wrong.
    """
    from scipy import sparse

    sizes = [each.size for each in bases.bins]
    starts = np.cumsum([0, *sizes])
    places = (pool.codes + starts[:-1, None]).T.ravel()
    rows = np.arange(pool.count + 1) * len(sizes)
    one_hot = sparse.csr_array((np.ones(len(places), np.float32), places, rows), shape=(pool.count, starts[-1]))
    shares = np.repeat(pool.weights / max(pool.count, 1), len(sizes)).astype(np.float32)
    weighted = sparse.csr_array((shares, places, rows), shape=one_hot.shape)
    found = np.asarray((weighted.T @ one_hot).todense(), np.float64)
    own = np.diag(found).copy()
    for j in np.flatnonzero(drawn).tolist():
        own[starts[j] : starts[j + 1]] = bases.of[j].shares / bases.of[j].shares.sum()
    for _ in range(FITTINGS):
        for table in (found, found.T):
            held = np.repeat(np.add.reduceat(table, starts[:-1], axis=1), sizes, axis=1)
            table *= np.where(held > 0, own[:, None] / np.maximum(held, 1e-12), 0.0)
    return found
