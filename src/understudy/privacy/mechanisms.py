"""The locked box and the hatches for counts, moments, sums and choices.

The one rule: rows are read here (and in dpsgd.py) and nowhere else, and every hatch pays before it reads. A hatch
passes its sensitivity to the ledger, gets the noise scale back, and only then opens the box; so the noise and the
account cannot disagree.

Neighbours differ by one unit: a row, or all rows of one value of the unit column, of which at most
`max_rows_per_unit` are ever let into the box. Each sensitivity below is stated for one row and multiplied by that
bound, which covers the worst case: all of a unit's rows alike.

Releases are whole numbers (counts, and moments and sums in fixed point) with exact discrete Gaussian noise from
OpenDP, which draws from the operating system. With a seeded key the noise is NumPy's: repeatable, and worthless as
protection.

Sources: Canonne, Kamath, Steinke (2020), arXiv:2004.00010, for the discrete Gaussian; Dwork et al. (2014), "Analyze
Gauss", for noisy second moments; McSherry and Talwar (2007) for the exponential mechanism; Desfontaines, Voss,
Gipson, Mandayam (2022), arXiv:2006.03684, for partition selection.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy.accounting import lattice
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.noise import discrete_gaussian, largest_with_gumbel
from understudy.privacy.rows import PrivateRows

Floats = NDArray[np.float64]

# Fixed point of the second moments: a score of 1 is this many steps. Rounding costs 2**-12 of a deviation.
FIXED_POINT = 2**12
# Fixed point of sums of features: their bound is this many steps. Blocks of rows sum exactly below 2**53.
FINE_POINT = 2**24
BLOCK_ROWS = 2**10


def noisy_row_count(rows: PrivateRows, *, planned: str, ledger: Ledger, key: Key) -> float:
    """The number of rows, with discrete Gaussian noise.

    Privacy:
        One row changes the count by one: sensitivity 1 per row. Paid before counting.

    Raises:
        BudgetExceeded: The ledger cannot pay. Nothing has been read.
    """
    sensitivity = float(rows.max_rows_per_unit)
    sigma = ledger.charge(
        planned, what="how many rows there are", sensitivity=sensitivity, mechanism="discrete gaussian"
    )
    exact_count = len(next(iter(rows._exact.values())))
    return exact_count + float(discrete_gaussian(sigma, 1, key)[0])


def noisy_counts(
    rows: PrivateRows,
    columns: Sequence[str],
    shape: Sequence[int],
    *,
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
) -> Floats:
    """Counts the rows in every cell of one marginal, empty cells too, with discrete Gaussian noise.

    Args:
        columns: Columns of codes; a row with a code below 0 is counted nowhere.
        shape: The number of cells along each column, public.

    Privacy:
        One row changes one cell by one: L2 sensitivity 1 per row. Paid before counting.

    Raises:
        BudgetExceeded: The ledger cannot pay. Nothing has been read.
    """
    sensitivity = float(rows.max_rows_per_unit)
    sigma = ledger.charge(planned, what=what, sensitivity=sensitivity, mechanism="discrete gaussian")
    exact_codes = [rows._exact[name] for name in columns]
    cells = int(np.prod(shape))
    inside = np.all([(codes >= 0) & (codes < size) for codes, size in zip(exact_codes, shape, strict=True)], axis=0)
    flat = np.ravel_multi_index([codes[inside] for codes in exact_codes], tuple(shape))
    exact_counts = np.bincount(flat, minlength=cells)
    return (exact_counts + discrete_gaussian(sigma, cells, key)).reshape(shape)


def noisy_second_moments(
    rows: PrivateRows,
    columns: Sequence[str],
    *,
    clip_norm: float,
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
) -> Floats:
    """The matrix of sums of products, Σ x xᵀ over rows clipped to a norm, with discrete Gaussian noise.

    Rows are scaled to norm at most C = `clip_norm` and cut to fixed point, towards zero, so that the bound holds for
    the whole numbers that are summed.

    Privacy:
        The entries x_i² on the diagonal get noise of deviation σ, the products x_i x_j (i < j) get σ / √2. One row
        moves the first by x_i² and the second by x_i x_j; measured in their own noise that is
        (Σ x_i⁴ + 2 Σ_{i<j} x_i² x_j²) / σ² = |x|⁴ / σ² <= C⁴ / σ². So the L2 sensitivity is C² per row. Paid before
        the rows are read.

    Raises:
        BudgetExceeded: The ledger cannot pay. Nothing has been read.
    """
    sensitivity = clip_norm**2 * rows.max_rows_per_unit
    sigma = ledger.charge(planned, what=what, sensitivity=sensitivity, mechanism="discrete gaussian")
    exact = np.stack([rows._exact[name] for name in columns], axis=1)
    width = exact.shape[1]
    exact_sum = np.zeros((width, width), dtype=np.int64)
    block_rows = max(1, min(2**16, int(2**53 / (clip_norm * FIXED_POINT) ** 2)))  # products sum exactly below 2**53
    for start in range(0, len(exact), block_rows):
        block = to_fixed_point(exact[start : start + block_rows], clip_norm)
        exact_sum += (block.T @ block).astype(np.int64)
    unit_sigma = sigma * FIXED_POINT**2
    upper = np.triu_indices(width, 1)
    noise = np.zeros((width, width))
    noise[upper] = discrete_gaussian(unit_sigma / np.sqrt(2), len(upper[0]), key.child("products"))
    noise += noise.T + np.diag(discrete_gaussian(unit_sigma, width, key.child("squares")))
    return (exact_sum + noise) / FIXED_POINT**2


def noisy_sum(
    rows: PrivateRows,
    columns: Sequence[str],
    features: Callable[[Floats], Floats],
    *,
    bound: float,
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
) -> Floats:
    """The sum over rows of a public vector function of the row, Σ φ(x), with discrete Gaussian noise.

    Vectors longer than B = `bound` are scaled to that norm, and all are cut to fixed point, towards zero, so that the
    bound holds for the whole numbers that are summed.

    Args:
        features: Called with blocks of at most `BLOCK_ROWS` rows, (rows, columns); returns one vector for each, made of
            that row alone: (rows, features). How many features there are must not depend on the rows.

    Privacy:
        One row adds one vector of norm at most B: L2 sensitivity B per row, whatever the function gives. What is not a
        number counts as 0. Paid before the rows are read.

    Raises:
        BudgetExceeded: The ledger cannot pay. Nothing has been read.
    """
    sensitivity = bound * rows.max_rows_per_unit
    sigma = ledger.charge(planned, what=what, sensitivity=sensitivity, mechanism="discrete gaussian")
    exact = np.stack([rows._exact[name] for name in columns], axis=1).astype(np.float64)
    steps = FINE_POINT / bound
    exact_sum = np.zeros(features(exact[:0]).shape[1], dtype=np.int64)
    for start in range(0, len(exact), BLOCK_ROWS):
        with np.errstate(all="ignore"):  # a warning would be a release
            block = np.asarray(features(exact[start : start + BLOCK_ROWS]), dtype=np.float64)
        exact_sum += to_fixed_point(block, bound, steps=steps).sum(axis=0).astype(np.int64)
    return (exact_sum + discrete_gaussian(sigma * steps, len(exact_sum), key)) / steps


def to_fixed_point(x: Floats, clip_norm: float, *, steps: float = FIXED_POINT) -> Floats:
    """Rows of whole numbers whose norm is at most clip_norm · steps. Missing entries count as 0."""
    x = np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)
    with np.errstate(over="ignore"):  # a warning would be a release; an infinite norm makes the row 0
        norms = np.sqrt(np.sum(x**2, axis=1, keepdims=True))
    factor = np.minimum(1.0, clip_norm * (1 - 1e-12) / np.maximum(norms, 1e-300))
    return np.trunc(x * factor * steps)


def private_choice(
    rows: PrivateRows,
    columns: Sequence[str],
    scores: Callable[..., Floats],
    *,
    sensitivity: float,
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
) -> int:
    """Chooses the candidate with (nearly) the best score: the exponential mechanism.

    Args:
        scores: Called with the columns; returns one score for each of a public list of candidates.
        sensitivity: The most by which one row can change any one score. The caller's to prove, in its docstring.

    Privacy:
        Gumbel noise of scale 2 · sensitivity / ε on each score, the largest wins: ε-DP, and its losses lie within
        a range of ε, which is what it is charged for.

    Raises:
        BudgetExceeded: The ledger cannot pay. Nothing has been read.
    """
    most = sensitivity * rows.max_rows_per_unit
    scale = ledger.charge(planned, what=what, sensitivity=most, mechanism="exponential")
    exact_scores = np.asarray(scores(*(rows._exact[name] for name in columns)), dtype=np.float64)
    exact_scores = np.nan_to_num(exact_scores, nan=-1e300, posinf=1e300, neginf=-1e300)  # a value must not raise
    return largest_with_gumbel(exact_scores, scale, key)


def noisy_scores(
    rows: PrivateRows,
    columns: Sequence[str],
    scores: Callable[..., Floats],
    *,
    count: int,
    sensitivity: float,
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
) -> Floats:
    """A vector of scores of all rows together, with discrete Gaussian noise.

    Args:
        scores: Called with the columns; returns `count` scores. One that is not a number counts as 0.
        count: How many scores there are, public.
        sensitivity: The most by which one row can move the vector of scores, in L2 norm. The caller's to prove, in its
            docstring.

    Privacy:
        Let s = `sensitivity`, of which a step of the fixed point is a 2^-24th. Rounding to steps moves the difference
        of two scores by at most one step, so that of two vectors of k = `count` by at most √k steps; before rounding,
        the vectors are shrunk by the factor 1 - √k / 2^24 to make up for it. So a row moves the whole numbers by at
        most s, in L2 norm, and m rows of a unit, one after another, by m s: the shrinking makes up for rounding once,
        and rounding happens once. Paid before the rows are read.

    Raises:
        BudgetExceeded: The ledger cannot pay. Nothing has been read.
    """
    hair = 1.0 - np.sqrt(count) / FINE_POINT
    if not (hair > 0.5 and 0 < sensitivity < np.inf):
        raise ValueError(f"noisy_scores: expected fewer scores and a sensitivity > 0, got {count} and {sensitivity}.")
    most = sensitivity * rows.max_rows_per_unit
    sigma = ledger.charge(planned, what=what, sensitivity=most, mechanism="discrete gaussian")
    steps = FINE_POINT / sensitivity
    exact = np.asarray(scores(*(rows._exact[name] for name in columns)), dtype=np.float64)
    if exact.shape != (count,):
        raise ValueError(f"noisy_scores: expected {count} scores, got an array of shape {exact.shape}.")
    with np.errstate(all="ignore"):  # a warning would be a release
        whole = np.rint(np.clip(np.nan_to_num(exact, nan=0.0) * hair * steps, -(2.0**52), 2.0**52))
    return (whole + discrete_gaussian(sigma * steps, count, key)) / steps


def popular_categories(
    rows: PrivateRows, column: str, *, what: str, planned: str, ledger: Ledger, key: Key
) -> tuple[list[str], Floats]:
    """The categories of a column that enough units have, with their noisy counts: partition selection.

    Privacy:
        Counts have L2 sensitivity 1 per row. A category that a single unit brings in holds at most
        m = `max_rows_per_unit` rows and there are at most m of them; it is named only if its noisy count reaches
        m + t with P(noise >= t) <= δ' / m, so with probability at most δ' (the planned's `threshold_delta`) in all.
        Paid before counting.

    Raises:
        BudgetExceeded: The ledger cannot pay. Nothing has been read.
    """
    most = rows.max_rows_per_unit
    sigma = ledger.charge(planned, what=what, sensitivity=float(most), mechanism="gaussian threshold")
    limit = most + threshold(sigma, ledger.planned(planned).threshold_delta / most)
    exact_labels, exact_codes = rows._exact_labels[column], rows._exact[column]
    exact_counts = np.bincount(exact_codes[exact_codes >= 0], minlength=len(exact_labels))
    counts = exact_counts + discrete_gaussian(sigma, len(exact_labels), key)
    # A label that no row in the box has can come from the rows that `lock` left out: one unit may have many of those.
    kept = np.flatnonzero((exact_counts > 0) & (counts >= limit))
    return [exact_labels[int(i)] for i in kept], counts[kept]


def threshold(sigma: float, delta: float) -> float:
    """The t above which discrete Gaussian noise falls with probability at most δ.

    On a lattice of step h the upper tail at t is at most the continuous one at t - h (Canonne et al., proposition 25).
    """
    from scipy.special import ndtri

    return float(sigma * -ndtri(delta) + 1.0 / lattice(sigma))
