"""Selection mechanisms: which marginal an estimate has most wrong, and which columns depend most on each other.

A candidate is a public description: columns, the estimate it is compared with, weights. The mechanism computes its
score from the rows and derives the sensitivity from the description, so that no caller has to prove one.

`select_marginal` and `select_dependence` are the exponential mechanism: Gumbel noise of scale 2 · sensitivity / ε on
every score, the largest wins. That is ε-DP, and its privacy losses lie within a range of ε, which is what it is
charged for. `noisy_marginal_errors` releases all scores at once, with discrete Gaussian noise.

Sources: McSherry and Talwar (2007) for the exponential mechanism; McKenna et al. (2022), arXiv:2201.12677, for the
weighted and penalised error of a marginal; Zhang et al. (2017), "PrivBayes", ACM TODS 42(4), for the dependence R.
"""

# pyright: strict

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy import recording
from understudy.privacy.counts import Codes, check_groups, make_plain
from understudy.privacy.exact_counts import Marginal, exact_marginals
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.noise import discrete_gaussian, largest_with_gumbel
from understudy.privacy.rows import PrivateRows

Floats = NDArray[np.float64]

FINE_POINT = 2**24
"""Released scores divide their sensitivity into this many steps."""
LARGEST = 1e100
"""Numbers of a description stay within this, so that no score overflows."""
SMALLEST_SENSITIVITY = 1e-300
"""The ledger needs a sensitivity above 0, also if all weights are 0 and no row can move a score."""


# Errors of marginals --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MarginalError:
    """How wrong an estimate of one marginal is: factor · (Σ a |n - e| - penalty), n the exact counts. Public.

    Attributes:
        columns: Columns of codes. A row with a code outside its column's bins is counted nowhere.
        estimate: e, one axis for each column.
        weights: a >= 0, the weight of an error in each cell; 1 if not given.
        groups: If cells are coarse, for each column the cell of every bin. Empty: cells are bins.
        factor: At least 0; scales the whole score.
        penalty: Subtracted from the error.
    """

    columns: tuple[str, ...]
    estimate: Floats
    weights: Floats | None = None
    groups: tuple[Codes, ...] = ()
    factor: float = 1.0
    penalty: float = 0.0

    def __post_init__(self) -> None:
        make_plain(self, arrays=("estimate", "weights"), groups=("groups",), numbers=("factor", "penalty"))
        check_groups("MarginalError", self.columns, self.estimate.shape, self.groups)
        check_finite("MarginalError.estimate", self.estimate)
        check_finite("MarginalError.penalty", self.penalty)
        check_weights("MarginalError.factor", self.factor)
        if self.weights is not None:
            check_weights("MarginalError.weights", self.weights)
            if self.weights.shape != self.estimate.shape:
                expected, got = self.estimate.shape, self.weights.shape
                raise ValueError(f"MarginalError.weights: expected the estimate's shape {expected}, got {got}.")

    @property
    def cell_weights(self) -> Floats | float:
        """a of every cell, or 1 for all."""
        return 1.0 if self.weights is None else self.weights

    @property
    def sensitivity(self) -> float:
        """The most by which one row moves the score: factor · max a.

        A row is in at most one cell, in coarse cells too, and changes its count by 1. The other terms of the sum stay
        as they are, and by the triangle inequality that one changes by at most its weight:
        ||n ± 1 - e| - |n - e|| <= 1.
        """
        return self.factor * float(np.max(self.cell_weights))


def select_marginal(
    rows: PrivateRows,
    candidates: Sequence[MarginalError],
    *,
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
) -> int:
    """The number of the candidate whose estimate is (nearly) the most wrong: the exponential mechanism.

    Privacy:
        Candidates are public, so a neighbour has the same. One row moves any score by at most the largest
        `MarginalError.sensitivity`. The ledger is charged before the rows are read.

    Raises:
        BudgetExceeded: The budget does not cover it. Nothing has been read.
    """
    _check_candidates("select_marginal", candidates, MarginalError)
    sensitivity = max(candidate.sensitivity for candidate in candidates)
    scale = _charge_selection(rows, sensitivity, what=what, planned=planned, ledger=ledger)
    if (kept := ledger.kept()) is not None:
        return kept
    exact_errors = _exact_errors(rows, candidates)
    selected = largest_with_gumbel(exact_errors, scale, key)
    return ledger.keep(recording.released("selected marginal", selected, exact=exact_errors))


def noisy_marginal_errors(
    rows: PrivateRows,
    candidates: Sequence[MarginalError],
    *,
    least_sensitivity: float = 0.0,
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
) -> Floats:
    """The scores of all candidates, with discrete Gaussian noise.

    Args:
        least_sensitivity: The noise is that of at least this sensitivity; public.

    Privacy:
        Let s be `l2_sensitivity`, of which a step of the fixed point is a 2^-24th. Rounding to steps moves the
        difference of two scores by at most one step, so that of two vectors of k by at most √k steps; before rounding,
        the vectors are shrunk by the factor 1 - √k / 2^24 to make up for it. So a row moves the whole numbers by at
        most s, in L2 norm, and m rows of a unit, one after another, by m s: the shrinking makes up for rounding once,
        and rounding happens once. The ledger is charged before the rows are read.

    Raises:
        BudgetExceeded: The budget does not cover it. Nothing has been read.
    """
    _check_candidates("noisy_marginal_errors", candidates, MarginalError)
    count = len(candidates)
    shrink = 1.0 - math.sqrt(count) / FINE_POINT
    if shrink <= 0.5:
        raise ValueError(f"noisy_marginal_errors: expected at most {FINE_POINT**2 // 4} candidates, got {count}.")
    sensitivity = max(l2_sensitivity(candidates, least_sensitivity=least_sensitivity), SMALLEST_SENSITIVITY)
    sigma = ledger.charge(
        planned, what=what, sensitivity=sensitivity * rows.max_rows_per_unit, mechanism="discrete gaussian"
    )
    if (kept := ledger.kept()) is not None:
        return kept
    steps = FINE_POINT / sensitivity
    with np.errstate(all="ignore"):  # a warning would be a release
        exact = np.rint(np.clip(_exact_errors(rows, candidates) * shrink * steps, -(2.0**52), 2.0**52))
    noisy = (exact + discrete_gaussian(sigma * steps, count, key)) / steps
    return ledger.keep(recording.released("errors of marginals", noisy, exact=exact / steps))


def l2_sensitivity(candidates: Sequence[MarginalError], *, least_sensitivity: float = 0.0) -> float:
    """The most by which one row moves the vector of all scores: √Σ s², s the sensitivity of each; or `least`."""
    return max(math.sqrt(sum(candidate.sensitivity**2 for candidate in candidates)), least_sensitivity)


def _exact_errors(rows: PrivateRows, candidates: Sequence[MarginalError]) -> Floats:
    """The scores without noise, for use inside a mechanism."""
    exact_scores = np.empty(len(candidates))
    asked = [Marginal(each.columns, each.estimate.shape, each.groups) for each in candidates]
    for i, (candidate, exact_marginal) in enumerate(zip(candidates, exact_marginals(rows, asked), strict=True)):
        exact_gaps = np.abs(exact_marginal - candidate.estimate)
        exact_error = (exact_gaps if candidate.weights is None else candidate.weights * exact_gaps).sum()
        exact_scores[i] = candidate.factor * (float(exact_error) - candidate.penalty)
    return exact_scores


# Dependence ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DependenceCandidate:
    """A column and its possible parents, of which `dependence` is the score, less an offset. Public.

    Attributes:
        columns: The parents, then the column; a column without parents depends on nothing and scores 0.
        groups: For each of them, the coarse cell of every bin.
        shape: For each of them, how many coarse cells there are.
        across: Weights >= 0 of the parents' cells together, the last parent running fastest.
        along: Weights >= 0 of the column's cells.
        offset: Subtracted from the score.
    """

    columns: tuple[str, ...]
    groups: tuple[Codes, ...]
    shape: tuple[int, ...]
    across: Floats
    along: Floats
    offset: float = 0.0

    def __post_init__(self) -> None:
        make_plain(self, arrays=("across", "along"), groups=("groups",), numbers=("offset",))
        check_groups("DependenceCandidate", self.columns, self.shape, self.groups)
        check_finite("DependenceCandidate.offset", self.offset)
        for field, weights, size in (
            ("across", self.across, math.prod(self.shape[:-1])),
            ("along", self.along, self.shape[-1]),
        ):
            check_weights(f"DependenceCandidate.{field}", weights)
            if weights.shape != (size,):
                raise ValueError(f"DependenceCandidate.{field}: expected {size} weights, got shape {weights.shape}.")

    @property
    def sensitivity(self) -> float:
        """The most by which one row moves the score: 2 · max a · max b, as proved in `dependence`."""
        return 2.0 * float(self.across.max() * self.along.max())


def dependence(counts: Floats, across: Floats | float = 1.0, along: Floats | float = 1.0) -> float:
    """How far counts are from independence of rows and columns, in rows: n·R = 1/2 Σ a_x b_y |n_xy - n_x n_y / n|.

    Args:
        counts: One row for each x, one column for each y.
        across: Weights a_x >= 0 of the table's rows; public.
        along: Weights b_y >= 0 of its columns; public.

    Privacy:
        Releases nothing; a mechanism that takes it as a score has this sensitivity. Let a table hold n rows with
        shares p along x and q along y, and one row (a, b) be added. Entry by entry D = n_xy - n_x n_y / n changes by

            e_a e_b - (n p + e_a)(n q + e_b) / (n + 1) + n p q  =  n / (n + 1) · (e_a - p) ⊗ (e_b - q),

        an outer product, whose entries sum in absolute value to n / (n + 1) · 2 (1 - p_a) · 2 (1 - q_b) < 4. Half of
        that, times the largest a_x b_y, bounds the change of the score: less than 2 max a max b for a row added, so
        also for one removed. Without weights it comes near: n rows all alike score 0, and with one more that differs in
        both places 2 n / (n + 1). An empty table scores 0, and so does one row.
    """
    total = max(float(counts.sum()), 1.0)
    gaps = np.abs(counts - np.outer(counts.sum(1), counts.sum(0)) / total)
    return 0.5 * float(np.sum(np.reshape(across, (-1, 1)) * gaps * along))


def select_dependence(
    rows: PrivateRows,
    candidates: Sequence[DependenceCandidate],
    *,
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
) -> int:
    """The number of the candidate with (nearly) the highest dependence, less its offset: the exponential mechanism.

    Privacy:
        Candidates are public, so a neighbour has the same. One row moves any score by at most the largest
        `DependenceCandidate.sensitivity`; a row with a code outside its column's bins moves none. The ledger is
        charged before the rows are read.

    Raises:
        BudgetExceeded: The budget does not cover it. Nothing has been read.
    """
    _check_candidates("select_dependence", candidates, DependenceCandidate)
    sensitivity = max(candidate.sensitivity for candidate in candidates)
    scale = _charge_selection(rows, sensitivity, what=what, planned=planned, ledger=ledger)
    if (kept := ledger.kept()) is not None:
        return kept
    exact_dependences = _exact_dependences(rows, candidates)
    selected = largest_with_gumbel(exact_dependences, scale, key)
    return ledger.keep(recording.released("selected dependence", selected, exact=exact_dependences))


def _exact_dependences(rows: PrivateRows, candidates: Sequence[DependenceCandidate]) -> Floats:
    """The scores without noise, for use inside a mechanism."""
    exact_scores = np.empty(len(candidates))
    asked = [Marginal(each.columns, each.shape, each.groups) for each in candidates if len(each.columns) > 1]
    counted = iter(exact_marginals(rows, asked) if asked else [])
    for i, candidate in enumerate(candidates):
        exact_dependence = 0.0
        if len(candidate.columns) > 1:
            exact_marginal = next(counted)
            exact_table = exact_marginal.reshape(-1, candidate.shape[-1])
            exact_dependence = dependence(exact_table, candidate.across, candidate.along)
        exact_scores[i] = exact_dependence - candidate.offset
    return exact_scores


# What both have in common ---------------------------------------------------------------------------------------------


def _charge_selection(
    rows: PrivateRows, sensitivity: float, *, what: str, planned: str | FilterShare, ledger: Ledger
) -> float:
    """Charges one selection whose scores move by at most `sensitivity` per row; returns the scale of its noise."""
    most = max(sensitivity, SMALLEST_SENSITIVITY) * rows.max_rows_per_unit
    return ledger.charge(planned, what=what, sensitivity=most, mechanism="exponential")


def _check_candidates(place: str, candidates: Sequence[object], kind: type) -> None:
    if not candidates:
        raise ValueError(f"{place}: expected at least one candidate, got none.")
    if any(type(candidate) is not kind for candidate in candidates):  # a subclass could bring code of its own
        raise TypeError(f"{place}: expected candidates of type {kind.__name__} itself.")


def check_finite(place: str, numbers: Floats | float) -> None:
    """Raises a ValueError unless all numbers are finite and not too large."""
    magnitudes = np.abs(np.asarray(numbers, np.float64))
    if not magnitudes.size or not bool(np.all(magnitudes <= LARGEST)):  # NaN is not below anything
        raise ValueError(f"{place}: expected finite numbers within ±{LARGEST:g}.")


def check_weights(place: str, weights: Floats | float) -> None:
    """Raises a ValueError unless all weights are finite and at least 0."""
    check_finite(place, weights)
    if not bool(np.all(np.asarray(weights) >= 0)):
        raise ValueError(f"{place}: expected weights >= 0.")
