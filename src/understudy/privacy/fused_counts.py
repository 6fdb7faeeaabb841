"""Counts of many columns in one pass, each charged and noisy by itself.

The one rule: every count is a release of its own. They share the pass over the rows and nothing else, so that a table
that is not in memory is read once for all of them.
"""

# pyright: strict, reportPrivateUsage=false

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy import recording, row_maps
from understudy.privacy.exact_counts import Floats, Marginal, exact_marginals
from understudy.privacy.ledger import Ledger
from understudy.privacy.noise import discrete_gaussian
from understudy.privacy.partitions import Held
from understudy.privacy.row_maps import RowMap
from understudy.privacy.rows import PrivateRows
from understudy.privacy.unit_sums import UnitCounts, checked_bound, exact_unit_counts, released_counts, unit_sensitivity


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ColumnCount:
    """A count that is asked for: rows by what a map makes of them. Public.

    Attributes:
        row_map: Gives the bin of a row. A row with a bin outside 0 to `bins` - 1 is counted nowhere.
        what: What is measured, for the receipt.
        planned: The name of the planned mechanism.
        unit_bound: The norm of what the rows of one unit add at most; units that would add more weigh less
            (unit_weights.py). None: every row counts one.
    """

    row_map: RowMap
    bins: int
    what: str
    planned: str
    key: Key
    unit_bound: float | None = None

    def __post_init__(self) -> None:
        if self.unit_bound is not None:
            object.__setattr__(self, "unit_bound", checked_bound(self.unit_bound))

    def sensitivity(self, rows: PrivateRows) -> float:
        """In L2 norm, for one unit more."""
        return float(rows.max_rows_per_unit) if self.unit_bound is None else unit_sensitivity(rows, self.unit_bound)


def noisy_column_counts(rows: PrivateRows, asked: Sequence[ColumnCount], *, ledger: Ledger) -> list[Floats]:
    """Counts the rows in every bin of each of some columns, empty bins too, with discrete Gaussian noise.

    Privacy:
        Each count is that of `counts.noisy_counts`: one row lies in at most one bin and changes its count by one, so
        the L2 sensitivity is 1 per row, and each is charged for it; one with a `unit_bound` is that of
        `unit_sums.noisy_unit_counts`, whose sensitivity is the bound. All are charged before any is counted.

    Raises:
        BudgetExceeded: The budget does not cover one of them. Nothing has been read.
        TypeError: Something is not exactly one of the maps in row_maps.py. Nothing has been charged or read.
    """
    if not asked:
        return []
    for each in asked:
        row_maps.check(each.row_map)
    sigmas = [
        ledger.charge(each.planned, what=each.what, sensitivity=each.sensitivity(rows), mechanism="discrete gaussian")
        for each in asked
    ]
    if (kept := ledger.kept()) is not None:
        return kept
    released: list[Floats] = []
    plain = [each for each in asked if each.unit_bound is None]
    weighted = [each for each in asked if each.unit_bound is not None]
    exact_plain = _exact_counts(rows, plain) if plain else []
    exact_steps = _exact_steps(rows, weighted) if weighted else []
    # The last first: an audit's tape takes a release to be for the last charge that has none.
    for each, sigma in reversed(list(zip(asked, sigmas, strict=True))):
        if each.unit_bound is None:
            exact_counts = exact_plain.pop()
            noisy = exact_counts + discrete_gaussian(sigma, each.bins, each.key)
            released.append(recording.released("counts", noisy, exact=exact_counts))
        else:
            released.append(released_counts(exact_steps.pop(), sigma, each.key))
    return ledger.keep(released[::-1])


def _exact_steps(rows: PrivateRows, asked: Sequence[ColumnCount]) -> list[NDArray[np.int64]]:
    """Weighted counts in steps of a weight, without noise, in one pass. Each count has weights of its own."""
    names = [f"bin {number}" for number in range(len(asked))]
    derived = rows.derive({name: each.row_map for name, each in zip(names, asked, strict=True)})
    counts = [
        UnitCounts(((name,),), ((each.bins,),), each.unit_bound)
        for name, each in zip(names, asked, strict=True)
        if each.unit_bound is not None
    ]
    return exact_unit_counts(derived, counts)


def _exact_counts(rows: PrivateRows, asked: Sequence[ColumnCount]) -> list[Floats]:
    """The counts without noise. Of a table in memory column by column, so that bins of one column alone take memory."""
    if all(isinstance(part, Held) for part in rows._parts):
        bins = (rows.derive({"bin": each.row_map}) for each in asked)
        return [
            exact_marginals(own, [Marginal(("bin",), (each.bins,))])[0] for own, each in zip(bins, asked, strict=True)
        ]
    names = [f"bin {number}" for number in range(len(asked))]
    derived = rows.derive({name: each.row_map for name, each in zip(names, asked, strict=True)})
    return exact_marginals(derived, [Marginal((name,), (each.bins,)) for name, each in zip(names, asked, strict=True)])
