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
import itertools
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
    asked = UnitCounts((tuple(columns),), (tuple(map(int, shape)),), checked_bound(bound))
    return _noisy_counts(rows, asked, what=what, planned=planned, ledger=ledger, key=key).reshape(shape)


def noisy_unit_margins(
    rows: PrivateRows,
    sizes: Mapping[str, int],
    *,
    bound: float,
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
) -> dict[str, Floats]:
    """Weighted counts of the rows by the codes of each of some columns, with discrete Gaussian noise: one release.

    Args:
        sizes: The number of codes of each column; public. A row with another code is not counted in that column.
        bound: The norm of what one unit adds at most, to all columns together; public.

    Privacy:
        With h the counts of one unit's rows, column after column in one vector, it adds w h with w <= `bound` / |h|.
        What `noisy_unit_counts` says of one marginal holds of this vector: its L2 sensitivity is `bound`.

    Raises:
        BudgetExceeded: The budget does not cover it. Nothing has been read.
    """
    asked = UnitCounts(
        tuple((name,) for name in sizes), tuple((int(size),) for size in sizes.values()), checked_bound(bound)
    )
    found = _noisy_counts(rows, asked, what=what, planned=planned, ledger=ledger, key=key)
    return dict(zip(sizes, np.split(found, asked.starts[1:-1]), strict=True))


@dataclasses.dataclass(frozen=True, eq=False)
class UnitCounts:
    """Marginals whose cells stand one after another in a vector, and the bound on what one unit adds to it. Public.

    Attributes:
        cliques: The columns of each.
        shapes: Its cells along each of them.
        bound: The norm of what one unit adds at most.
    """

    cliques: tuple[tuple[str, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    bound: float

    @property
    def starts(self) -> list[int]:
        """The first cell of each marginal, and at last how many there are."""
        return list(itertools.accumulate((math.prod(shape) for shape in self.shapes), initial=0))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(itertools.chain.from_iterable(self.cliques)))

    def cells(self, exact: Mapping[str, NDArray[Any]]) -> Whole:
        """The cell of each marginal that every row lies in, -1 if in none: (marginals, rows)."""
        found: list[Whole] = []
        for clique, shape, start in zip(self.cliques, self.shapes, self.starts, strict=False):
            axes = [(exact[name], size) for name, size in zip(clique, shape, strict=True)]
            inside = np.logical_and.reduce([(codes >= 0) & (codes < size) for codes, size in axes])
            codes = [np.where(inside, each, 0).astype(np.int64) for each, _ in axes]
            found.append(np.where(inside, np.ravel_multi_index(codes, shape) + start, -1))
        return np.stack(found)

    def exact_steps(self, unit: Whole, exact: Mapping[str, NDArray[Any]]) -> Whole:
        """The weighted counts in all cells of the rows of some units, in steps of a weight."""
        exact_total, exact_cells = np.zeros(self.starts[-1], np.int64), self.cells(exact)
        exact_weights = count_weights(unit, exact_cells, bound=self.bound)
        for each in exact_cells:
            inside = each >= 0
            exact_total += np.bincount(each[inside], exact_weights[inside], len(exact_total)).astype(np.int64)
        return exact_total


def _noisy_counts(
    rows: PrivateRows, asked: UnitCounts, *, what: str, planned: str | FilterShare, ledger: Ledger, key: Key
) -> Floats:
    """One release of weighted counts in all cells. Privacy: as of `noisy_unit_counts`."""
    sensitivity = unit_sensitivity(rows, asked.bound)
    sigma = ledger.charge(planned, what=what, sensitivity=sensitivity, mechanism="discrete gaussian")
    if (kept := ledger.kept()) is not None:
        return kept
    return ledger.keep(released_counts(exact_unit_counts(rows, [asked])[0], sigma, key))


def released_counts(exact_steps: Whole, sigma: float, key: Key) -> Floats:
    """Weighted counts, given in steps of a weight, with noise: in steps too, or it would leave their fractions bare."""
    noisy = (exact_steps + discrete_gaussian(sigma * STEPS, len(exact_steps), key)) / STEPS
    return recording.released("unit counts", noisy, exact=exact_steps / STEPS)


def exact_unit_counts(rows: PrivateRows, asked: Sequence[UnitCounts]) -> list[Whole]:
    """The weighted counts of each in all cells without noise, in steps of a weight: one pass, and weights for each."""
    return exact_unit_sums(rows, _Together(tuple(asked)))


@dataclasses.dataclass(frozen=True, eq=False)
class _Together:
    """Several counts in one pass."""

    counts: tuple[UnitCounts, ...]

    @property
    def columns(self) -> Sequence[str]:
        return [name for each in self.counts for name in each.columns]

    def exact_sums(self, unit: Whole, exact: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        return [each.exact_steps(unit, exact) for each in self.counts]


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
    bound = checked_bound(bound)
    steps = {name: np.rint(np.clip(table, -LARGEST, LARGEST) * FIXED_POINT) for name, table in tables.items()}
    among = np.concatenate([[False], *(np.full(table.shape[1], name in set(given)) for name, table in steps.items())])
    sigma = ledger.charge(planned, what=what, sensitivity=unit_sensitivity(rows, bound), mechanism="discrete gaussian")
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


def unit_sensitivity(rows: PrivateRows, bound: float) -> float:
    """The L2 sensitivity of sums to which a unit adds at most `bound`: for each row, if nobody says whose it is."""
    return bound if units.known(rows._parts) else bound * rows.max_rows_per_unit


def checked_bound(bound: float) -> float:
    bound = float(bound)
    if not (math.isfinite(bound) and bound > 0):
        raise ValueError(f"bound: expected a number > 0, got {bound}.")
    return bound
