"""Counting mechanisms: the number of rows, the cells of a marginal, the common categories of a column.

Every mechanism charges the ledger before it reads a row: it states its sensitivity, gets the noise scale back, and
only then counts. So noise and accounting cannot disagree.

Neighbours differ by one unit: a row, or all rows of one value of the unit column, of which at most
`max_rows_per_unit` are ever locked. Each sensitivity is proved for one row and multiplied by that bound, which covers
the worst case of m rows that are all alike.

Sources: Canonne, Kamath, Steinke (2020), arXiv:2004.00010, for the discrete Gaussian; Desfontaines, Voss, Gipson,
Mandayam (2022), arXiv:2006.03684, for partition selection.
"""

# pyright: strict, reportPrivateUsage=false, reportMissingTypeStubs=false

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy import recording, units
from understudy.privacy.exact_counts import Marginal, exact_marginals
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.noise import discrete_gaussian
from understudy.privacy.plan import lattice
from understudy.privacy.rows import PrivateRows
from understudy.privacy.sums import exact_row_count, exact_sums, exact_unit_sums

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Groups = Sequence[Codes]
"""For each column of a marginal, the coarse cell of every fine bin. Empty if the marginal is counted in fine bins."""


BY_CHANCE = 0.1
"""The probability with which noise makes one or more of the public categories visible that nobody has."""


def noisy_row_count(rows: PrivateRows, *, planned: str, ledger: Ledger, key: Key) -> float:
    """The number of rows, with discrete Gaussian noise.

    Privacy:
        One row changes the count by one: sensitivity 1 per row. The ledger is charged before counting.

    Raises:
        BudgetExceeded: The budget does not cover it. Nothing has been read.
    """
    sensitivity = float(rows.max_rows_per_unit)
    sigma = ledger.charge(
        planned, what="how many rows there are", sensitivity=sensitivity, mechanism="discrete gaussian"
    )
    if (kept := ledger.kept()) is not None:
        return kept
    exact_count = exact_row_count(rows)
    noisy = exact_count + float(discrete_gaussian(sigma, 1, key)[0])
    return ledger.keep(recording.released("row count", noisy, exact=np.array([exact_count]), noisy=np.array([noisy])))


def noisy_counts(
    rows: PrivateRows,
    columns: Sequence[str],
    shape: Sequence[int],
    *,
    groups: Groups = (),
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
) -> Floats:
    """Counts the rows in every cell of one marginal, empty cells too, with discrete Gaussian noise.

    Args:
        columns: Columns of codes. A row with a code outside its column's bins is counted nowhere.
        shape: The number of cells along each column; public.
        groups: If the marginal is counted in coarse cells, for each column the cell of every bin; public.

    Privacy:
        One row lies in at most one cell and changes its count by one: L2 sensitivity 1 per row. The ledger is charged
        before counting.

    Raises:
        BudgetExceeded: The budget does not cover it. Nothing has been read.
        ValueError: Groups and shape do not fit. Nothing has been charged or read.
    """
    groups = tuple(map(np.asarray, groups))
    check_groups("noisy_counts", columns, shape, groups)
    sensitivity = float(rows.max_rows_per_unit)
    sigma = ledger.charge(planned, what=what, sensitivity=sensitivity, mechanism="discrete gaussian")
    if (kept := ledger.kept()) is not None:
        return kept
    (exact_counts,) = exact_marginals(rows, [Marginal(tuple(columns), tuple(shape), groups)])
    noisy = exact_counts + discrete_gaussian(sigma, exact_counts.size, key).reshape(exact_counts.shape)
    return ledger.keep(recording.released("counts", noisy, exact=exact_counts))


def check_groups(place: str, columns: Sequence[str], shape: Sequence[int], groups: Groups) -> None:
    """Raises a ValueError unless every column has a size and, if there are groups, one that maps into its cells."""
    if not len(columns) == len(shape) > 0 or (len(groups) and len(groups) != len(columns)):
        raise ValueError(f"{place}: expected one size, and one group or none, for each of at least one column.")
    for name, size, group in zip(columns, shape, groups, strict=False):
        if group.ndim != 1 or group.dtype.kind not in "iu" or not len(group):
            raise ValueError(f"{place}, column {name!r}: expected a group that lists the coarse cell of every bin.")
        if group.min() < 0 or group.max() >= size:
            raise ValueError(f"{place}, column {name!r}: expected groups from 0 to {size - 1}.")


def make_plain(
    description: object, *, arrays: Sequence[str] = (), groups: Sequence[str] = (), numbers: Sequence[str] = ()
) -> None:
    """Turns the fields of a frozen description into NumPy's own arrays of numbers and Python's own floats.

    An array or a number of another class could run code of its own when it meets an exact count.
    """
    for name in arrays:
        if getattr(description, name) is not None:
            object.__setattr__(description, name, np.asarray(getattr(description, name), np.float64))
    for name in groups:
        object.__setattr__(description, name, tuple(map(np.asarray, getattr(description, name))))
    for name in numbers:
        object.__setattr__(description, name, float(getattr(description, name)))


def popular_categories(
    rows: PrivateRows, column: str, *, what: str, planned: str, ledger: Ledger, key: Key, public: Sequence[str] = ()
) -> tuple[list[str], Floats]:
    """The categories of a column that enough units have, with noisy counts of these units: partition selection.

    Args:
        public: Categories that are known to exist, distinct; whether anybody has them is private. They are named if
            their count stands out of the noise.

    Privacy:
        A unit has at most m = `max_rows_per_unit` rows, so it has at most m categories and counts once in each: it
        changes at most m counts by one, an L2 sensitivity of sqrt(m). A category that a single unit brings in has the
        count 1, and there are at most m of them; it is named only if its noisy count reaches 1 + t with
        P(noise >= t) <= δ' / m, so with probability at most δ' (the plan's `threshold_delta`) in all. If nobody says
        which rows belong together, rows are counted: the sensitivity is m, and the limit m + t. The ledger is charged
        before counting. The categories may be groups that a public rule makes of others (`PrivateRows.coarsen`): the
        group of a row depends on that row alone, so all of this holds for groups. A public category is counted
        whether a row has it or not, so that its name tells nothing beyond its noisy count, and needs no such limit.

    Raises:
        BudgetExceeded: The budget does not cover it. Nothing has been read.
    """
    most, has_units = rows.max_rows_per_unit, units.known(rows._parts)
    alone = 1 if has_units else most  # how often one unit counts in one category
    sensitivity = selection_sensitivity(most) if has_units else float(most)
    sigma = ledger.charge(planned, what=what, sensitivity=sensitivity, mechanism="gaussian threshold")
    if (kept := ledger.kept()) is not None:
        return kept
    limit = alone + threshold(sigma, ledger.planned(planned).threshold_delta / most)
    known = list(dict.fromkeys(public))
    place = {label: code for code, label in enumerate(known)}
    exact_labels = list(rows._exact_labels[column])
    exact_own = [label for label in exact_labels if label not in place]
    place |= {label: len(known) + code for code, label in enumerate(exact_own)}
    exact_places = np.array([place[label] for label in exact_labels], np.int64)
    exact_counts = _exact_categories(rows, column, exact_places, len(place))
    counts = exact_counts + discrete_gaussian(sigma, len(place), key)
    # A label without a locked row can come from the rows that `lock` left out: one unit may have many of those.
    named = (exact_counts > 0) & (counts >= limit)
    named[: len(known)] = counts[: len(known)] >= clear_of_noise(sigma, len(known))
    labels = [*known, *exact_own]
    released = [labels[int(i)] for i in np.flatnonzero(named)], counts[named]
    if not recording.is_on():
        return ledger.keep(released)
    exact, noisy = (dict(zip(labels, each.tolist(), strict=True)) for each in (exact_counts, counts))
    return recording.released("categories", released, exact=exact, noisy=noisy, limits=dict.fromkeys(exact_own, limit))


@dataclasses.dataclass(frozen=True, eq=False)
class _Categories:
    """The summation of rows by category: codes of a column, and the place of each among the counts. Private itself."""

    column: str
    exact_places: Codes
    size: int

    @property
    def columns(self) -> Sequence[str]:
        return (self.column,)

    def exact_sums(self, exact: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        codes = exact[self.column]
        return [np.bincount(self.exact_places[codes[codes >= 0]], minlength=self.size)]


def _exact_categories(rows: PrivateRows, column: str, exact_places: Codes, size: int) -> Codes:
    """How many units, or rows where these are not known, have each category."""
    if not units.known(rows._parts):
        return exact_sums(rows, _Categories(column, exact_places, size))[0]
    return exact_unit_sums(rows, _UnitCategories(column, exact_places, size))[0]


@dataclasses.dataclass(frozen=True, eq=False)
class _UnitCategories:
    """The summation of units by category, each once in every category that it has; as of `_Categories`."""

    column: str
    exact_places: Codes
    size: int

    @property
    def columns(self) -> Sequence[str]:
        return (self.column,)

    def exact_sums(self, unit: Codes, exact: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        codes = exact[self.column]
        inside = codes >= 0
        exact_codes = self.exact_places[codes[inside]]
        exact_codes = units.distinct(unit[inside], exact_codes)
        return [np.bincount(exact_codes, minlength=self.size)]


def clear_of_noise(sigma: float, many: int) -> float:
    """The count that noise alone reaches in one of so many public categories with probability `BY_CHANCE` at most."""
    from scipy.special import ndtri

    return float(sigma * -ndtri(min(BY_CHANCE / max(many, 1), 0.5)))


def selection_sensitivity(most: int) -> float:
    """The L2 sensitivity of the numbers of units that have each category, if a unit has at most so many rows."""
    return math.sqrt(most)


def threshold(sigma: float, delta: float) -> float:
    """The t above which discrete Gaussian noise falls with probability at most δ.

    On a lattice of step h the upper tail at t is at most the continuous one at t - h (Canonne et al., proposition 25).
    """
    from scipy.special import ndtri

    return float(sigma * -ndtri(delta) + 1.0 / lattice(sigma))
