"""Associations of pairs of columns, and how far apart they are in two tables.

The one rule: an association is defined for every pair of kinds, and it is 0 if one of the columns is constant.

Sources: correlation ratio, Pearson (1905), "On the general theory of skew correlation". Cramér's V, Cramér (1946),
"Mathematical Methods of Statistics".
"""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from understudy.evaluation.pair import Codes, Floats, MetricResult, Pair, Parts, Side

_NO_VARIANCE = 1e-12
"""A variance of standardised values up to this is a rounding error, so the column counts as constant."""


def correlation_max(pair: Pair) -> MetricResult:
    """The largest gap between the associations of a pair of columns in the two tables."""
    return _association_gap(pair, "largest", max)


def correlation_mean(pair: Pair) -> MetricResult:
    """The mean gap between the associations of pairs of columns in the two tables."""
    return _association_gap(pair, "mean", lambda gaps: float(np.mean(list(gaps))))


def _association_gap(pair: Pair, word: str, combine: Callable[..., float]) -> MetricResult:
    if len(pair.names) < 2:
        return MetricResult(value=None, summary="needs at least 2 columns")
    real, synthetic = (associations(side) for side in pair.sides)
    parts = {
        (one, other): abs(real[one, other] - synthetic[one, other])
        for one, other in itertools.combinations(pair.names, 2)
    }
    definition = (
        "numbers: Pearson correlation over rows that have both; a category and a number: "
        "correlation ratio; categories: Cramér's V; missing: a category, or a row left out"
    )
    return MetricResult(
        value=combine(parts.values()), summary=f"{word} gap over pairs of columns", definition=definition, parts=parts
    )


def associations(side: Side) -> Parts:
    """How strongly each pair of columns is associated, in both orders; 0 if one of them is constant.

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
    correlation = np.where(scale > _NO_VARIANCE, covariance / np.where(scale > _NO_VARIANCE, scale, 1), 0.0)
    for i, j in itertools.combinations(range(len(names)), 2):
        yield names[i], names[j], float(np.clip(correlation[i, j], -1, 1))


def _ratios(side: Side) -> Iterator[tuple[str, str, float]]:
    for number, column in side.numbers.items():
        x = _standardised(column)
        present = ~np.isnan(x)
        for category, codes in side.codes.items():
            yield category, number, _correlation_ratio(codes[present], x[present])


def _correlation_ratio(codes: Codes, x: Floats) -> float:
    if not len(x) or (total := float(x.var())) <= _NO_VARIANCE:
        return 0.0
    counts = np.bincount(codes)
    means = np.bincount(codes, x) / np.maximum(counts, 1)
    between = float(counts @ (means - x.mean()) ** 2) / len(x)
    return math.sqrt(min(between / total, 1.0))


def _cramers(side: Side) -> Iterator[tuple[str, str, float]]:
    for (one, a), (other, b) in itertools.combinations(side.codes.items(), 2):
        yield one, other, _cramers_v(a, b, side.sizes[other])


def _cramers_v(a: Codes, b: Codes, size: int) -> float:
    rows, columns = np.bincount(a), np.bincount(b)
    degrees = min(np.count_nonzero(rows), np.count_nonzero(columns)) - 1
    if degrees < 1:
        return 0.0
    cells, counts = np.unique(a * size + b, return_counts=True)
    # χ² / n = Σ o² / (r·c) − 1, over the cells that occur.
    chi = float((counts / rows[cells // size] * (counts / columns[cells % size])).sum()) - 1
    return math.sqrt(min(max(chi, 0.0) / degrees, 1.0))


def _standardised(column: Floats) -> Floats:
    """A column as z-scores of its own: correlations do not change, and huge values do not overflow."""
    present = column[~np.isnan(column)]
    if not len(present) or present.min() == present.max():
        return np.where(np.isnan(column), np.nan, 0.0)
    centred = column - present.mean()
    return centred / (present.std() or 1.0)
