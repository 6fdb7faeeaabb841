"""How far apart two tables are, column by column, pair by pair, and as a whole.

The one rule: every score says in its `how` what was binned, scaled or sampled, so a number is never shown without its
definition. All are distances: 0 for a table against itself, larger is worse. A missing value counts as a cell, or a
category, of its own.

Sources: Wasserstein distances, Villani (2009), "Optimal Transport"; joint ones by POT, Flamary et al. (2021), JMLR 22.
MMD, Gretton et al. (2012), JMLR 13. Jensen-Shannon distance, Endres and Schindelin (2003), IEEE Trans. Inf. Theory 49.
Correlation ratio, Pearson (1905), "On the general theory of skew correlation". Cramér's V, Cramér (1946),
"Mathematical Methods of Statistics".
"""

import dataclasses
import functools
import importlib
import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.spatial.distance import cdist, jensenshannon
from scipy.stats import wasserstein_distance

from understudy.evaluation.pair import Pair, Side

EQUAL_CELLS, QUANTILE_BINS, JS_BINS = 100, 20, 20
JOINT_ROWS, KERNEL_ROWS, BANDWIDTH_ROWS = 1000, 2000, 1000
MOST_PAIRS, MOST_TUPLES = 5000, 200
_DENSE_CELLS = 2**17  # a histogram of more cells is counted by sorting

Parts = dict[tuple[str, ...], float]
Bins = dict[str, tuple[np.ndarray, np.ndarray, int]]  # real codes, synthetic codes, number of cells


@dataclasses.dataclass(frozen=True, kw_only=True)
class Score:
    """What a metric says of a pair.

    Attributes:
        value: Of the whole table; None where it cannot be had, and then `how` says why.
        whole: What was made of the parts: a sum, a mean, over which of them.
        binning: The binning, the scale, the sample; true of each part as well.
        parts: The same by column or by tuple of columns, where the whole is made of such.
    """

    value: float | None
    whole: str
    binning: str = ""
    parts: Parts = dataclasses.field(default_factory=dict)

    @property
    def how(self) -> str:
        return "; ".join(filter(None, (self.whole, self.binning)))


# Optimal transport --------------------------------------------------------------------------------------------------


def wd(pair: Pair) -> Score:
    """Sum over columns of the 1-D Wasserstein-1 distance of z-scores; total variation for categories.

    Where a share m of a column is missing, (1 − max(m_real, m_synthetic))·W₁(present) + |m_real − m_synthetic|: what
    both sides have is moved, and to make a value missing costs one standard deviation.
    """
    parts = {(name,): _wd(pair, name) for name in pair.names}
    binning = (
        "1-D Wasserstein-1; numbers z-scored by the training table, or the real one without it; a missing one is 1 "
        "away; categories: half the L1 distance of shares"
    )
    return Score(value=sum(parts.values()), whole="sum over columns", binning=binning, parts=parts)


def _wd(pair: Pair, name: str) -> float:
    if name in pair.real.codes:
        return _distance(pair.real.codes[name], pair.synthetic.codes[name], pair.real.sizes[name])
    columns = [side[name] for side in pair.z_scores]
    present = [column[~np.isnan(column)] for column in columns]
    shares = [len(some) / len(column) for some, column in zip(present, columns, strict=True)]
    moved = min(shares) * float(wasserstein_distance(*present)) if all(shares) else 0.0
    return moved + abs(shares[0] - shares[1])


def wd_joint(pair: Pair) -> Score:
    """Wasserstein-1 distance of whole rows, exact on a subsample."""
    whole = f"Wasserstein-1 of whole rows (POT emd2), at most {JOINT_ROWS} rows a side, seed {pair.seed}"
    try:
        ot = importlib.import_module("ot")
    except ImportError:
        return Score(value=None, whole="skipped: POT is not installed. pip install 'understudy[eval]'.")
    some = pair.sample(JOINT_ROWS)
    costs = np.sqrt(_squared_distances(_points(some)))
    uniform = [np.full(size, 1 / size) for size in costs.shape]
    return Score(value=float(ot.emd2(*uniform, costs, numItermax=1_000_000)), whole=whole, binning=_ROW_DISTANCE)


_ROW_DISTANCE = (
    "Euclidean on z-scores; two categories, or a missing and a present number, are 1 apart; a missing number is at "
    "the mean"
)
Points = tuple[np.ndarray, np.ndarray]  # z-scores with missing ones at 0, and codes: (rows, numbers), (rows, flags)


def _points(pair: Pair) -> tuple[Points, Points]:
    def points(side: Side, z_scores: dict[str, np.ndarray]) -> Points:
        numbers = [z_scores[name] for name in z_scores]
        flags = [*side.codes.values(), *(np.isnan(column) for column in numbers)]
        stacked = np.column_stack(numbers) if numbers else np.zeros((side.rows, 0))
        return np.nan_to_num(stacked), np.column_stack(flags)

    real, synthetic = (points(*both) for both in zip(pair.sides, pair.z_scores, strict=True))
    return real, synthetic


def _squared_distances(points: tuple[Points, Points]) -> np.ndarray:
    """‖x − y‖² + the number of flags in which two rows differ, for all pairs of rows."""
    (x, a), (y, b) = points
    total = cdist(x, y, "sqeuclidean") if x.shape[1] else np.zeros((len(x), len(y)))
    for one, other in zip(a.T, b.T, strict=True):
        if one.min() != other.max() or one.max() != other.min():  # somebody differs
            total += one[:, None] != other[None, :]
    return total


# Total variation ----------------------------------------------------------------------------------------------------


def tvd(pair: Pair, width: int) -> Score:
    """Mean total variation distance of the marginals of `width` columns, on 100 equal cells a number.

    A number x is in cell round(99·(x − min) / (max − min)), over both sides.
    """
    binning = f"numbers: {EQUAL_CELLS} equal-width cells over both tables; categories by label; missing: a cell"
    return _mean_tvd(pair, _equal_cells(pair), width, binning)


def tvd2_quantile(pair: Pair) -> Score:
    """Mean total variation distance of pairs of columns, on 20 bins of equal mass of the real side.

    A value that makes up a bin's share of the real column by itself, an atom, has a cell of its own.
    """
    binning = (
        f"numbers: {QUANTILE_BINS} quantile bins of the real table, each value with 1/{QUANTILE_BINS} of its "
        "column a cell by itself; categories by label; missing: a cell"
    )
    return _mean_tvd(pair, _cells(pair, _quantile_codes), 2, binning)


def _mean_tvd(pair: Pair, cells: Bins, width: int, binning: str) -> Score:
    tuples, which = _tuples(pair.names, width, pair.seed)
    if not tuples:
        return Score(value=None, whole=f"needs at least {width} columns")
    parts = {names: _distance(*_joint([cells[name] for name in names])) for names in tuples}
    value = float(np.mean(list(parts.values())))
    return Score(
        value=value, whole=f"mean over {which}", binning=f"half the L1 distance of shares; {binning}", parts=parts
    )


def _tuples(names: tuple[str, ...], width: int, seed: int) -> tuple[list[tuple[str, ...]], str]:
    """The tuples of columns to look at, and what they are: all, or a seeded draw where there are very many."""
    total, most = math.comb(len(names), width), MOST_PAIRS if width <= 2 else MOST_TUPLES
    what = {1: "columns", 2: "pairs of columns", 3: "triples of columns"}.get(width, f"{width}-tuples of columns")
    if width == 1 or total <= most:
        return list(itertools.combinations(names, width)), f"all {total} {what}"
    draw, chosen = np.random.default_rng(seed), set()
    while len(chosen) < most:
        chosen.add(tuple(sorted(draw.choice(len(names), width, replace=False).tolist())))
    drawn = [tuple(names[place] for place in places) for places in sorted(chosen)]
    return drawn, f"{most} of {total} {what}, drawn with seed {seed}"


def _joint(cells: list[tuple[np.ndarray, np.ndarray, int]]) -> tuple[np.ndarray, np.ndarray, int]:
    """Codes of the cells of a joint marginal, renumbered where they would be too many to count densely."""
    real, synthetic, size = cells[0]
    for more_real, more_synthetic, factor in cells[1:]:
        real, synthetic, size = real * factor + more_real, synthetic * factor + more_synthetic, size * factor
        if size > _DENSE_CELLS:
            seen, places = np.unique(np.concatenate([real, synthetic]), return_inverse=True)
            real, synthetic, size = places[: len(real)], places[len(real) :], len(seen)
    return real, synthetic, size


def _distance(real: np.ndarray, synthetic: np.ndarray, size: int) -> float:
    """Half the L1 distance of the shares of codes."""
    return 0.5 * float(np.abs(_shares(real, size) - _shares(synthetic, size)).sum())


def _shares(codes: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(codes, minlength=size) / len(codes)


# Binning: two columns of numbers, without their missing values, to codes and the number of cells.
Binning = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, int]]


def _equal_cells(pair: Pair) -> Bins:
    return _cells(pair, functools.partial(_equal_codes, place=lambda unit: np.rint((EQUAL_CELLS - 1) * unit)))


def _cells(pair: Pair, binning: Binning) -> Bins:
    return {name: _column_cells(pair, name, binning) for name in pair.names}


def _column_cells(pair: Pair, name: str, binning: Binning) -> tuple[np.ndarray, np.ndarray, int]:
    if name in pair.real.codes:
        return pair.real.codes[name], pair.synthetic.codes[name], pair.real.sizes[name]
    columns = [side.numbers[name] for side in pair.sides]
    present = [~np.isnan(column) for column in columns]
    *binned, size = binning(*(column[here] for column, here in zip(columns, present, strict=True)))
    real, synthetic = (np.full(len(column), size) for column in columns)  # the last cell: missing
    for codes, here, found in zip((real, synthetic), present, binned, strict=True):
        codes[here] = found
    return real, synthetic, size + 1


def _equal_codes(
    real: np.ndarray, synthetic: np.ndarray, *, place: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray, int]:
    both = np.concatenate([real, synthetic])
    if not len(both):
        return both.astype(np.int64), both.astype(np.int64), 1
    width = both.max() - both.min()
    codes = place((both - both.min()) / width if width > 0 else np.zeros(len(both))).astype(np.int64)
    return codes[: len(real)], codes[len(real) :], int(codes.max()) + 1


def _quantile_codes(real: np.ndarray, synthetic: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    if not len(real):  # there is no quantile: one cell for all that the synthetic side has
        return np.zeros(0, dtype=np.int64), np.zeros(len(synthetic), dtype=np.int64), 1
    values, counts = np.unique(real, return_counts=True)
    atoms = values[counts * QUANTILE_BINS >= len(real)]
    inner = np.quantile(real, np.arange(1, QUANTILE_BINS) / QUANTILE_BINS, method="inverted_cdf")
    edges = np.unique(np.concatenate([inner, atoms]))
    # [edge, next edge) is an even code, and an atom the odd one after that of its own edge.
    codes = [2 * np.searchsorted(edges, side, "right") + np.isin(side, atoms) for side in (real, synthetic)]
    return codes[0], codes[1], 2 * len(edges) + 2


def js(pair: Pair) -> Score:
    """Sum over columns of the Jensen-Shannon distance √JSD, in natural logarithms; at most √ln 2 a column."""
    binning = functools.partial(_equal_codes, place=lambda unit: np.minimum(np.floor(JS_BINS * unit), JS_BINS - 1))
    parts = {}
    for name, (real, synthetic, size) in _cells(pair, binning).items():
        p, q = _shares(real, size), _shares(synthetic, size)
        with np.errstate(invalid="ignore"):  # of two equal sides scipy may take the root of a small negative number
            parts[(name,)] = 0.0 if np.array_equal(p, q) else float(np.nan_to_num(jensenshannon(p, q)))
    binning = (
        f"Jensen-Shannon distance (natural log); numbers: {JS_BINS} equal-width bins over both tables; categories by "
        "label; missing: a cell"
    )
    return Score(value=sum(parts.values()), whole="sum over columns", binning=binning, parts=parts)


# Mean discrepancy ---------------------------------------------------------------------------------------------------


def mmd(pair: Pair) -> Score:
    """Squared distance of the mean vectors: z-scores, and one coordinate per category."""
    parts = {(name,): _mean_gap(pair, name) for name in pair.names}
    binning = (
        "numbers z-scored, missing ones at the mean and flagged in a "
        "coordinate of their own; categories one-hot, missing: a category"
    )
    whole = "linear kernel: squared distance of mean vectors"
    return Score(value=sum(parts.values()), whole=whole, binning=binning, parts=parts)


def _mean_gap(pair: Pair, name: str) -> float:
    if name in pair.real.codes:
        real, synthetic = (_shares(side.codes[name], side.sizes[name]) for side in pair.sides)
    else:
        real, synthetic = (
            np.array([np.nan_to_num(side[name]).mean(), np.isnan(side[name]).mean()]) for side in pair.z_scores
        )
    return float(((real - synthetic) ** 2).sum())


def mmd_rbf(pair: Pair) -> Score:
    """Squared MMD with k(x, y) = exp(−‖x − y‖² / 2h²), the biased (V-) statistic: never negative, 0 for equal samples.

    h is the median distance between distinct rows of a subsample of the real table.
    """
    some = pair.sample(KERNEL_ROWS)
    real, synthetic = _points(some)
    bandwidth = _median_distance(_points(pair.sample(BANDWIDTH_ROWS))[0])
    within_real, within_synthetic, across = (
        float(np.exp(_squared_distances(both) / (-2 * bandwidth**2)).mean())
        for both in ((real, real), (synthetic, synthetic), (real, synthetic))
    )
    whole = (
        f"squared MMD, biased statistic, at most {KERNEL_ROWS} rows a side, seed {pair.seed}; Gaussian kernel, "
        f"bandwidth the median distance of {BANDWIDTH_ROWS} real rows, {bandwidth:.3g}"
    )
    value = max(within_real + within_synthetic - 2 * across, 0.0)
    return Score(value=value, whole=whole, binning=_ROW_DISTANCE)


def _median_distance(points: Points) -> float:
    """The median distance of two rows that are not equal; 1 where all are."""
    distances = np.sqrt(_squared_distances((points, points))[np.triu_indices(len(points[0]), 1)])
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


# Association --------------------------------------------------------------------------------------------------------


def correlation_max(pair: Pair) -> Score:
    """The largest gap between the associations of a pair of columns in the two tables."""
    return _association_gap(pair, "largest", max)


def correlation_mean(pair: Pair) -> Score:
    """The mean gap between the associations of pairs of columns in the two tables."""
    return _association_gap(pair, "mean", lambda gaps: float(np.mean(list(gaps))))


def _association_gap(pair: Pair, word: str, summary: Callable[..., float]) -> Score:
    if len(pair.names) < 2:
        return Score(value=None, whole="needs at least 2 columns")
    real, synthetic = (associations(side) for side in pair.sides)
    parts = {
        (one, other): abs(real[one, other] - synthetic[one, other])
        for one, other in itertools.combinations(pair.names, 2)
    }
    binning = (
        "numbers: Pearson correlation over rows that have both; a category and a number: "
        "correlation ratio; categories: Cramér's V; missing: a category, or a row left out"
    )
    return Score(value=summary(parts.values()), whole=f"{word} gap over pairs of columns", binning=binning, parts=parts)


def associations(side: Side) -> Parts:
    """How strongly each pair of columns goes together, both ways round; 0 where one of them stands still.

    Pearson's r in [−1, 1] for two numbers; for a category and a number the correlation ratio
    η = √(variance between the categories' means / variance) in [0, 1]; for two categories Cramér's
    V = √(χ² / n / min(r − 1, c − 1)) in [0, 1] over the r and c categories that occur, without bias correction.
    """
    found: Parts = {}
    for one, other, value in itertools.chain(_pearson(side), _ratios(side), _cramers(side)):
        found[one, other] = found[other, one] = value
    return found


def _pearson(side: Side) -> Iterator[tuple[str, str, float]]:
    names = list(side.numbers)
    if not names:
        return
    x = np.column_stack([_standardised(column) for column in side.numbers.values()])
    present = (~np.isnan(x)).astype(float)
    x = np.nan_to_num(x)
    # Entry (i, j): a sum over the rows that have both i and j.
    count, sums, squares, products = present.T @ present, x.T @ present, (x * x).T @ present, x.T @ x
    count = np.maximum(count, 1)
    covariance = products / count - (sums / count) * (sums / count).T
    variance = squares / count - (sums / count) ** 2
    scale = np.sqrt(np.maximum(variance, 0) * np.maximum(variance, 0).T)
    correlation = np.where(scale > 1e-12, covariance / np.where(scale > 1e-12, scale, 1), 0.0)
    for i, j in itertools.combinations(range(len(names)), 2):
        yield names[i], names[j], float(np.clip(correlation[i, j], -1, 1))


def _ratios(side: Side) -> Iterator[tuple[str, str, float]]:
    for number, column in side.numbers.items():
        x = _standardised(column)
        present = ~np.isnan(x)
        for category, codes in side.codes.items():
            yield category, number, _correlation_ratio(codes[present], x[present])


def _correlation_ratio(codes: np.ndarray, x: np.ndarray) -> float:
    if not len(x) or (total := float(x.var())) <= 1e-12:
        return 0.0
    counts = np.bincount(codes)
    means = np.bincount(codes, x) / np.maximum(counts, 1)
    between = float(counts @ (means - x.mean()) ** 2) / len(x)
    return math.sqrt(min(between / total, 1.0))


def _cramers(side: Side) -> Iterator[tuple[str, str, float]]:
    for (one, a), (other, b) in itertools.combinations(side.codes.items(), 2):
        yield one, other, _cramers_v(a, b, side.sizes[other])


def _cramers_v(a: np.ndarray, b: np.ndarray, size: int) -> float:
    rows, columns = np.bincount(a), np.bincount(b)
    degrees = min(np.count_nonzero(rows), np.count_nonzero(columns)) - 1
    if degrees < 1:
        return 0.0
    cells, counts = np.unique(a * size + b, return_counts=True)
    # χ² / n = Σ o² / (r·c) − 1, over the cells that occur.
    chi = float((counts / rows[cells // size] * (counts / columns[cells % size])).sum()) - 1
    return math.sqrt(min(max(chi, 0.0) / degrees, 1.0))


def _standardised(column: np.ndarray) -> np.ndarray:
    """A column around its own mean in its own deviations: what correlations do not see, and floats do."""
    present = column[~np.isnan(column)]
    if not len(present) or present.min() == present.max():
        return np.where(np.isnan(column), np.nan, 0.0)
    centred = column - present.mean()
    return centred / (present.std() or 1.0)


METRICS: dict[str, Callable[[Pair], Score]] = {
    "wd": wd,
    "wd_joint": wd_joint,
    "tvd1": functools.partial(tvd, width=1),
    "tvd2": functools.partial(tvd, width=2),
    "tvd3": functools.partial(tvd, width=3),
    "tvd2_quantile": tvd2_quantile,
    "mmd": mmd,
    "mmd_rbf": mmd_rbf,
    "js": js,
    "correlation_max": correlation_max,
    "correlation_mean": correlation_mean,
}
"""By name; every one takes a `Pair`. `tvd` with any other width is a metric too."""
