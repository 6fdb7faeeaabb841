"""Weights of units: how much the rows of one unit count, so that what they add together has a bounded norm.

The rows r of a unit add Σ φ(r) to a sum, a vector whose squared norm is Σ k(r, s) over all pairs of its rows, with
k(r, s) = φ(r)·φ(s). The unit weighs

    w = min(1, bound / |Σ φ(r)|),

so that w |Σ φ(r)| <= bound, however many rows it has and however alike they are. Of counts φ(r) is a cell of each
table, and k says in how many two rows lie in the same one; of second moments it is x xᵀ, and k = (x_r·x_s)².

The one rule: weights are whole numbers of `STEPS`ths, rounded down, so that weighted sums of whole numbers are whole
numbers. Functions here are pure: mechanisms call them with private rows, and models with drawn ones, so that the two
are weighted alike.
"""

# pyright: strict

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Places = NDArray[np.intp]
Kernel = Callable[[Any, Any], Floats]
"""k of rows at some places with rows at others."""

STEPS = 2**10
"""A weight of 1 is this whole number."""
SLACK = 1 + 1e-9
"""Norms are taken as larger by this factor, which covers their rounding."""


def count_weights(unit: Whole, cells: Whole, *, bound: float) -> Whole:
    """The weight of every row for counts of rows by cell, of one table or of several.

    Args:
        unit: Of every row; rows of a unit stand together.
        cells: The cell that each lies in, (rows,), or one of each table, (tables, rows). A row with a negative one is
            not counted in that table.
        bound: Of the norm of what a unit adds to all tables together.
    """
    tables = np.atleast_2d(cells)

    def kernel(i: Any, j: Any) -> Floats:
        return ((tables[:, i] == tables[:, j]) & (tables[:, i] >= 0)).sum(axis=0).astype(np.float64)

    return _weights(unit, kernel, bound)


def moment_weights(unit: Whole, drawn: NDArray[Any], given: NDArray[Any], *, bound: float) -> Whole:
    """The weight of every row for sums of products of the numbers of a row, x xᵀ without those of two given ones.

    With y the drawn and c the given numbers of a row, these are y yᵀ and y cᵀ, each product of two different numbers
    counting twice: k = (y_r·y_s + c_r·c_s)² - (c_r·c_s)².

    Args:
        unit: Of every row; rows of a unit stand together.
        drawn, given: Whole numbers, or floats; (rows, numbers).
        bound: Of the norm of what a unit adds.
    """

    def kernel(i: Any, j: Any) -> Floats:
        own = np.einsum("rk,rk->r", drawn[i], drawn[j]).astype(np.float64)
        other = np.einsum("rk,rk->r", given[i], given[j]).astype(np.float64)
        return own * (own + 2.0 * other)

    return _weights(unit, kernel, bound)


def _weights(unit: Whole, kernel: Kernel, bound: float) -> Whole:
    if not len(unit):
        return np.zeros(0, np.int64)
    first = np.flatnonzero(np.r_[True, unit[1:] != unit[:-1]])
    lengths = np.diff(np.r_[first, len(unit)])
    every = np.arange(len(unit))
    squares = kernel(every, every)
    for lag in range(1, int(lengths.max())):
        earlier = np.flatnonzero(unit[lag:] == unit[:-lag])
        squares[earlier] += 2.0 * kernel(earlier, earlier + lag)
    norms = np.sqrt(np.maximum(np.add.reduceat(squares, first), 0.0)) * SLACK
    weights = np.floor(np.minimum(1.0, bound / np.maximum(norms, 1e-300)) * STEPS)
    return np.repeat(weights.astype(np.int64), lengths)
