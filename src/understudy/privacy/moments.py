"""Second moments of clipped rows, summed in fixed point.

Rows are clipped to a norm and cut to whole numbers before they are summed, so that the bound on one row holds for the
very numbers that are added up, and sums are exact in any order.

Sources: Dwork et al. (2014), "Analyze Gauss", for noisy second moments; Canonne, Kamath, Steinke (2020),
arXiv:2004.00010, for the discrete Gaussian.
"""

# pyright: strict, reportPrivateUsage=false

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy import recording
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.noise import discrete_gaussian
from understudy.privacy.rows import PrivateRows
from understudy.privacy.sums import exact_sums

Floats = NDArray[np.float64]

FIXED_POINT = 2**12
"""Second moments divide a score of 1 into this many steps. Rounding costs 2**-12 of a deviation."""
BLOCK = 2**17
"""Rows are multiplied this many numbers at a time, so that they stay in a processor's cache."""


def noisy_second_moments(
    rows: PrivateRows,
    columns: Sequence[str],
    *,
    clip_norm: float,
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
    centres: Sequence[float] = (),
    scales: Sequence[float] = (),
) -> Floats:
    """The matrix of sums of products, Σ x xᵀ over rows clipped to a norm, with discrete Gaussian noise.

    Rows are scaled to norm at most C = `clip_norm` and cut to fixed point, towards zero, so that the bound holds for
    the whole numbers that are summed.

    Args:
        centres, scales: Of each column, what is subtracted from it and what it is multiplied with, before rows are
            clipped; both public. None for columns as they are.

    Privacy:
        The entries x_i² on the diagonal get noise of deviation σ, the products x_i x_j (i < j) get σ / √2. One row
        moves the first by x_i² and the second by x_i x_j; measured in their own noise that is
        (Σ x_i⁴ + 2 Σ_{i<j} x_i² x_j²) / σ² = |x|⁴ / σ² <= C⁴ / σ². So the L2 sensitivity is C² per row. The ledger is
        charged before the rows are read.

    Raises:
        BudgetExceeded: The budget does not cover it. Nothing has been read.
    """
    sensitivity = clip_norm**2 * rows.max_rows_per_unit
    sigma = ledger.charge(planned, what=what, sensitivity=sensitivity, mechanism="discrete gaussian")
    if (kept := ledger.kept()) is not None:
        return kept
    summation = SecondMoments(tuple(columns), clip_norm, tuple(map(float, centres)), tuple(map(float, scales)))
    (exact_sum,) = exact_sums(rows, summation)
    width = len(exact_sum)
    unit_sigma = sigma * FIXED_POINT**2
    upper = np.triu_indices(width, 1)
    noise = np.zeros((width, width))
    noise[upper] = discrete_gaussian(unit_sigma / np.sqrt(2), len(upper[0]), key.child("products"))
    noise += noise.T + np.diag(discrete_gaussian(unit_sigma, width, key.child("squares")))
    noisy = (exact_sum + np.rint(noise).astype(np.int64)) / FIXED_POINT**2  # added as whole numbers, however large
    if not recording.is_on():
        return ledger.keep(noisy)
    exact, with_noise = (np.r_[np.diag(m), np.sqrt(2) * m[upper]] for m in (exact_sum / FIXED_POINT**2, noisy))
    return recording.released("second moments", noisy, exact=exact, noisy=with_noise)


@dataclasses.dataclass(frozen=True)
class SecondMoments:
    """The summation of products x xᵀ of rows x that are clipped to a norm and cut to fixed point.

    Attributes:
        centres, scales: Of the columns, before rows are clipped; empty for columns as they are.
    """

    columns: tuple[str, ...]
    clip_norm: float
    centres: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()

    def exact_sums(self, exact: Mapping[str, NDArray[Any]]) -> list[NDArray[np.int64]]:
        width, length = len(self.columns), len(exact[self.columns[0]])
        exact_sum = np.zeros((width, width), dtype=np.int64)
        steps = (self.clip_norm * FIXED_POINT) ** 2
        block_rows = max(1, min(BLOCK // width, int(2**53 / steps)))  # products sum exactly below 2**53
        for start in range(0, length, block_rows):
            some = slice(start, start + block_rows)
            block = to_fixed_point(self._scaled([exact[name][some] for name in self.columns]), self.clip_norm)
            exact_sum += (block.T @ block).astype(np.int64)
        return [exact_sum]

    def _scaled(self, columns: list[NDArray[Any]]) -> Floats:
        """Some rows, centred and scaled: (rows, columns)."""
        rows = np.stack(columns, axis=1)
        if self.centres:
            rows = rows - np.array(self.centres)
        if self.scales:
            rows = rows * np.array(self.scales)
        return rows


def to_fixed_point(x: Floats, clip_norm: float, *, steps: float = FIXED_POINT) -> Floats:
    """Rows of whole numbers whose norm is at most clip_norm · steps. Missing entries count as 0."""
    x = np.where(np.isfinite(x), x, 0.0)
    with np.errstate(over="ignore"):  # a warning would be a release; an infinite norm makes the row 0
        norms = np.sqrt(np.sum(np.square(x), axis=1, keepdims=True))
    factor = np.minimum(1.0, clip_norm * (1 - 1e-12) / np.maximum(norms, 1e-300))
    x *= factor
    x *= steps
    return np.trunc(x, out=x)
