"""Sums over the rows of units, each unit weighted so that what it adds has a bounded norm.

A unit of m rows adds up to m to a cell if its rows are alike, and noise for m rows covers that. Most units are not like
that: m rows in different cells have a norm of √m. Here what one unit adds is cut to a norm, whatever its rows are
(unit_weights.py), and the noise covers that norm alone. The price is that units whose rows are alike weigh less than
others. Whoever reads the sums knows the rule, and weighs the families that a model draws in the same way.

Sources: Wilson et al. (2020), arXiv:1909.01917, for contributions of a user that are bounded as a whole; Canonne,
Kamath, Steinke (2020), arXiv:2004.00010, for the discrete Gaussian.
"""

# pyright: strict, reportPrivateUsage=false

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy import recording, units
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.noise import discrete_gaussian
from understudy.privacy.rows import PrivateRows
from understudy.privacy.sums import exact_unit_sums
from understudy.privacy.unit_weights import STEPS, count_weights, moment_weights

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

FIXED_POINT = 2**10
"""Functions of codes divide 1 into this many steps."""
BLOCK = 2**14
"""Rows are multiplied so many at a time: weighted products, each at most 2**38, then sum exactly."""
LARGEST = 2.0**4
"""No function of a code is larger than this."""


def noisy_unit_counts(
    rows: PrivateRows,
    columns: Sequence[str],
    shape: Sequence[int],
    *,
    bound: float,
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
) -> Floats:
    """Weighted counts of the rows in every cell of one marginal, empty cells too, with discrete Gaussian noise.

    Args:
        columns: Columns of codes. A row with a code outside its column's bins is counted nowhere.
        shape: The number of cells along each column; public.
        bound: The norm of what one unit adds at most; public.

    Privacy:
        With h the counts of one unit's rows, it adds w h with w <= `bound` / |h|, and nothing else of it is read. w is
        a function of this unit's rows alone, so adding or removing a unit changes the counts by a vector of norm at
        most `bound`: that is the L2 sensitivity, however many rows it has. If nobody says which rows belong together,
        each is weighted by itself, and the sensitivity is `bound` for each of `max_rows_per_unit`. Weighted counts are
        whole numbers of steps, and the noise is drawn in these. The ledger is charged before rows are read.

    Raises:
        BudgetExceeded: The budget does not cover it. Nothing has been read.
    """
    bound = _checked(bound)
    sigma = ledger.charge(planned, what=what, sensitivity=_sensitivity(rows, bound), mechanism="discrete gaussian")
    if (kept := ledger.kept()) is not None:
        return kept
    sizes = tuple(map(int, shape))
    exact_total = exact_unit_sums(rows, _UnitCounts(tuple(columns), sizes, bound))[0]
    # Noise in steps of a weight: on whole numbers it would leave the fraction of a weighted count as it is.
    noisy = (exact_total + discrete_gaussian(sigma * STEPS, len(exact_total), key)).reshape(sizes) / STEPS
    return ledger.keep(recording.released("unit counts", noisy, exact=exact_total.reshape(sizes) / STEPS))


def noisy_unit_moments(
    rows: PrivateRows,
    tables: Mapping[str, Floats],
    given: Sequence[str],
    *,
    bound: float,
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
) -> Floats:
    """Weighted sums of products of functions of codes, with discrete Gaussian noise; symmetric.

    The numbers of a row are 1 and, column after column, what the tables hold for its codes.

    Args:
        tables: Of each column, the functions of its codes: (codes, functions); public. A row with a code outside
            counts as 0 there.
        given: Columns whose products with each other are not wanted. They are 0 in the result, without noise.
        bound: The norm of what one unit adds at most; public.

    Privacy:
        Functions are cut to whole numbers of steps, so x is one. With U = Σ x xᵀ over one unit's rows, without the
        products of two given numbers, it adds w U with w <= `bound` / |U|, and nothing else of it is read. w is a
        function of this unit's rows alone. The entries on the diagonal get noise of deviation σ, the products of two
        different numbers get σ / √2; measured in their own noise a unit moves them by w |U| / σ in Frobenius' norm.
        So the L2 sensitivity is `bound`, however many rows a unit has. If nobody says which rows belong together, each
        is weighted by itself, and the sensitivity is `bound` for each of `max_rows_per_unit`. The ledger is charged
        before rows are read.

    Raises:
        BudgetExceeded: The budget does not cover it. Nothing has been read.
    """
    bound = _checked(bound)
    steps = {name: np.rint(np.clip(table, -LARGEST, LARGEST) * FIXED_POINT) for name, table in tables.items()}
    among = np.concatenate([[False], *(np.full(table.shape[1], name in set(given)) for name, table in steps.items())])
    sigma = ledger.charge(planned, what=what, sensitivity=_sensitivity(rows, bound), mechanism="discrete gaussian")
    if (kept := ledger.kept()) is not None:
        return kept
    wanted = ~(among[:, None] & among)
    exact_sum = exact_unit_sums(rows, _UnitProducts(steps, among, bound))[0]
    scale = FIXED_POINT**2 * STEPS
    products, squares = np.nonzero(np.triu(wanted, 1)), np.flatnonzero(~among)
    noise = np.zeros(wanted.shape)
    noise[products] = discrete_gaussian(sigma * scale / math.sqrt(2), len(products[0]), key.child("products"))
    noise += noise.T
    noise[squares, squares] = discrete_gaussian(sigma * scale, len(squares), key.child("squares"))
    noisy = np.where(wanted, exact_sum + np.rint(noise).astype(np.int64), 0) / scale
    if not recording.is_on():
        return ledger.keep(noisy)
    both = exact_sum / scale, noisy
    exact, with_noise = (np.r_[each[squares, squares], math.sqrt(2) * each[products]] for each in both)
    return recording.released("unit moments", noisy, exact=exact, noisy=with_noise)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _UnitCounts:
    """The summation of weighted rows by cell."""

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    bound: float

    def exact_sums(self, unit: Whole, exact: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        sized = list(zip(self.columns, self.sizes, strict=True))
        inside = np.logical_and.reduce([(exact[name] >= 0) & (exact[name] < size) for name, size in sized])
        codes = [exact[name][inside].astype(np.int64) for name in self.columns]
        exact_cells = np.ravel_multi_index(codes, self.sizes)
        exact_weights = count_weights(unit[inside], exact_cells, bound=self.bound)
        return [np.bincount(exact_cells, exact_weights, math.prod(self.sizes)).astype(np.int64)]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _UnitProducts:
    """The summation of weighted products of functions of codes.

    Attributes:
        steps: Of each column, the functions of its codes in whole numbers.
        among: Which functions are given.
    """

    steps: dict[str, Floats]
    among: NDArray[np.bool_]
    bound: float

    @property
    def columns(self) -> Sequence[str]:
        return tuple(self.steps)

    def exact_sums(self, unit: Whole, exact: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        found, among = np.zeros((len(self.among), len(self.among)), np.int64), self.among
        for some in _whole_units(unit):
            one = np.full((some.stop - some.start, 1), float(FIXED_POINT))
            x = np.concatenate([one, *(_functions(exact[name][some], table) for name, table in self.steps.items())], 1)
            exact_weights = moment_weights(unit[some], x[:, ~among], x[:, among], bound=self.bound * FIXED_POINT**2)
            for first in range(0, len(x), BLOCK):
                block = x[first : first + BLOCK]
                found += ((block * exact_weights[first : first + BLOCK, None]).T @ block).astype(np.int64)
        return [found]


def _whole_units(unit: Whole) -> Iterator[slice]:
    """About `BLOCK` rows at a time, all rows of a unit together."""
    start = 0
    while start < len(unit):
        last = int(unit[min(start + BLOCK, len(unit)) - 1])
        end = start + int(np.searchsorted(unit[start:], last, "right"))
        yield slice(start, end)
        start = end


def _functions(codes: NDArray[Any], table: Floats) -> Floats:
    """The functions of codes; 0 of a code that is none."""
    inside = (codes >= 0) & (codes < len(table))
    found = table[np.where(inside, codes, 0).astype(np.int64)]
    found[~inside] = 0.0
    return found


def _sensitivity(rows: PrivateRows, bound: float) -> float:
    return bound if units.known(rows._parts) else bound * rows.max_rows_per_unit


def _checked(bound: float) -> float:
    bound = float(bound)
    if not (math.isfinite(bound) and bound > 0):
        raise ValueError(f"bound: expected a number > 0, got {bound}.")
    return bound
