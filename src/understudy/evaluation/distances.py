"""Distances of columns and of whole rows: optimal transport, and mean discrepancies.

The one rule: every result says what was scaled or sampled. All values are 0 for a table against itself; larger is
worse.

Sources: Wasserstein distances, Villani (2009), "Optimal Transport"; joint ones by POT, Flamary et al. (2021), JMLR 22.
MMD, Gretton et al. (2012), JMLR 13.
"""

import importlib

import numpy as np
from numpy.typing import NDArray

from understudy.evaluation.histograms import shares, total_variation
from understudy.evaluation.pair import Floats, MetricResult, Pair, Side

JOINT_ROWS, KERNEL_ROWS, BANDWIDTH_ROWS = 1000, 2000, 1000
"""How many rows of each table the joint distance, the kernel and its bandwidth use at most: time grows with squares."""

_ROW_DISTANCE = (
    "Euclidean on z-scores; two categories, or a missing and a present number, are 1 apart; a missing number is at "
    "the mean"
)

Points = tuple[Floats, NDArray]
"""Rows as points: z-scores with missing ones at 0, and codes, of shapes (rows, numbers) and (rows, flags)."""


def wd(pair: Pair) -> MetricResult:
    """Sum over columns of the 1-D Wasserstein-1 distance of z-scores; total variation for categories.

    If shares m of a column are missing, it is (1 − max(m_real, m_synthetic))·W₁(present) + |m_real − m_synthetic|: the
    mass that both sides have is moved, and making a value missing costs one standard deviation.
    """
    parts = {(name,): _column_distance(pair, name) for name in pair.names}
    definition = (
        "1-D Wasserstein-1; numbers z-scored by the training table, or the real one without it; a missing one is 1 "
        "away; categories: half the L1 distance of shares"
    )
    return MetricResult(value=sum(parts.values()), summary="sum over columns", definition=definition, parts=parts)


def _column_distance(pair: Pair, name: str) -> float:
    from scipy.stats import wasserstein_distance

    if name in pair.real.codes:
        return total_variation(pair.real.codes[name], pair.synthetic.codes[name], pair.real.sizes[name])
    columns = [side[name] for side in pair.z_scores]
    present = [column[~np.isnan(column)] for column in columns]
    known = [len(some) / len(column) for some, column in zip(present, columns, strict=True)]
    moved = min(known) * float(wasserstein_distance(*present)) if all(known) else 0.0
    return moved + abs(known[0] - known[1])


def wd_joint(pair: Pair) -> MetricResult:
    """Wasserstein-1 distance of whole rows, exact on a subsample."""
    summary = f"Wasserstein-1 of whole rows (POT emd2), at most {JOINT_ROWS} rows a side, seed {pair.seed}"
    try:
        ot = importlib.import_module("ot")
    except ImportError:
        return MetricResult(value=None, summary="skipped: POT is not installed. pip install 'understudy-dp[eval]'.")
    costs = np.sqrt(_squared_distances(*_points(pair.sample(JOINT_ROWS))))
    uniform = [np.full(size, 1 / size) for size in costs.shape]
    value = float(ot.emd2(*uniform, costs, numItermax=1_000_000))
    return MetricResult(value=value, summary=summary, definition=_ROW_DISTANCE)


def mmd(pair: Pair) -> MetricResult:
    """Squared distance of the mean vectors: z-scores, and one coordinate per category."""
    parts = {(name,): _mean_gap(pair, name) for name in pair.names}
    definition = (
        "numbers z-scored, missing ones at the mean and flagged in a "
        "coordinate of their own; categories one-hot, missing: a category"
    )
    summary = "linear kernel: squared distance of mean vectors"
    return MetricResult(value=sum(parts.values()), summary=summary, definition=definition, parts=parts)


def _mean_gap(pair: Pair, name: str) -> float:
    if name in pair.real.codes:
        real, synthetic = (shares(side.codes[name], side.sizes[name]) for side in pair.sides)
    else:
        real, synthetic = (
            np.array([np.nan_to_num(side[name]).mean(), np.isnan(side[name]).mean()]) for side in pair.z_scores
        )
    return float(((real - synthetic) ** 2).sum())


def mmd_rbf(pair: Pair) -> MetricResult:
    """Squared MMD with k(x, y) = exp(−‖x − y‖² / 2h²), the biased (V-) statistic: never negative, 0 for equal samples.

    h is the median distance between distinct rows of a subsample of the real table.
    """
    real, synthetic = _points(pair.sample(KERNEL_ROWS))
    bandwidth = _median_distance(_points(pair.sample(BANDWIDTH_ROWS))[0])
    within_real, within_synthetic, across = (
        float(np.exp(_squared_distances(*both) / (-2 * bandwidth**2)).mean())
        for both in ((real, real), (synthetic, synthetic), (real, synthetic))
    )
    summary = (
        f"squared MMD, biased statistic, at most {KERNEL_ROWS} rows a side, seed {pair.seed}; Gaussian kernel, "
        f"bandwidth the median distance of {BANDWIDTH_ROWS} real rows, {bandwidth:.3g}"
    )
    value = max(within_real + within_synthetic - 2 * across, 0.0)
    return MetricResult(value=value, summary=summary, definition=_ROW_DISTANCE)


def _points(pair: Pair) -> tuple[Points, Points]:
    def points(side: Side, z_scores: dict[str, Floats]) -> Points:
        numbers = list(z_scores.values())
        flags = [*side.codes.values(), *(np.isnan(column) for column in numbers)]
        stacked = np.column_stack(numbers) if numbers else np.zeros((side.rows, 0))
        return np.nan_to_num(stacked), np.column_stack(flags)

    real, synthetic = (points(*both) for both in zip(pair.sides, pair.z_scores, strict=True))
    return real, synthetic


def _squared_distances(left: Points, right: Points) -> Floats:
    """‖x − y‖² + the number of flags in which two rows differ, for all pairs of rows."""
    from scipy.spatial.distance import cdist

    (x, a), (y, b) = left, right
    total = np.asarray(cdist(x, y, "sqeuclidean") if x.shape[1] else np.zeros((len(x), len(y))), dtype=np.float64)
    for one, other in zip(a.T, b.T, strict=True):
        if one.min() != other.max() or one.max() != other.min():  # skips a flag in which all rows agree
            total += one[:, None] != other[None, :]
    return total


def _median_distance(points: Points) -> float:
    """The median distance of two rows that are not equal; 1 if all are equal."""
    distances = np.sqrt(_squared_distances(points, points)[np.triu_indices(len(points[0]), 1)])
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0
