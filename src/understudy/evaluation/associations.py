"""Associations of pairs of columns, and how far apart they are in two tables.

The one rule: an association is defined for every pair of kinds, and it is 0 if one of the columns is constant.

Sources: Spearman (1904), "The proof and measurement of association between two things". Correlation ratio, Pearson
(1905), "On the general theory of skew correlation". Cramér's V, Cramér (1946), "Mathematical Methods of Statistics".
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
    definition = (
        "numbers: Pearson correlation over rows that have both; a category and a number: "
        "correlation ratio; categories: Cramér's V; missing: a category, or a row left out"
    )
    real, synthetic = (associations(side) for side in pair.sides)
    parts = {columns: abs(real[columns] - synthetic[columns]) for columns in itertools.combinations(pair.names, 2)}
    return MetricResult(
        value=combine(parts.values()), summary=f"{word} gap over pairs of columns", definition=definition, parts=parts
    )


def rank_correlation(pair: Pair) -> MetricResult:
    """The mean gap between Spearman's rank correlations of pairs of numbers in the two tables."""
    definition = "Spearman correlation over rows that have both, ties at their mean rank; 0 if one is constant"
    return _mean_gap(pair, _spearman, "numbers", definition)


def cramers_v(pair: Pair) -> MetricResult:
    """The mean gap between Cramér's V of pairs of categories in the two tables."""
    definition = "Cramér's V without bias correction; missing: a category; 0 if one is constant"
    return _mean_gap(pair, _cramers, "categories", definition)


def correlation_ratio(pair: Pair) -> MetricResult:
    """The mean gap between the correlation ratios η of a category and a number in the two tables."""
    definition = "correlation ratio η over rows that have the number; missing: a category; 0 if one is constant"
    return _mean_gap(pair, _ratios, "a category and a number", definition)


Associations = Callable[[Side], Iterator[tuple[str, str, float]]]
"""Finds the pairs of one kind in a table, each with its association."""


def _mean_gap(pair: Pair, of: Associations, kinds: str, definition: str) -> MetricResult:
    real, synthetic = ({(one, other): value for one, other, value in of(side)} for side in pair.sides)
    if not real:
        return MetricResult(value=None, summary=f"needs at least one pair of {kinds}")
    parts = {columns: abs(real[columns] - synthetic[columns]) for columns in real}
    value = float(np.mean(list(parts.values())))
    return MetricResult(value=value, summary=f"mean gap over pairs of {kinds}", definition=definition, parts=parts)


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


def _spearman(side: Side) -> Iterator[tuple[str, str, float]]:
    """Pearson's r of mean ranks, which are counted among the rows that have both numbers."""
    places = {name: _places(column) for name, column in side.numbers.items()}
    whole = {name: _mean_ranks(column) for name, column in places.items() if (column >= 0).all()}
    for one, other in itertools.combinations(places, 2):
        if one in whole and other in whole:
            yield one, other, _pearson_of_ranks(whole[one], whole[other])
        else:
            both = (places[one] >= 0) & (places[other] >= 0)
            yield one, other, _pearson_of_ranks(*(_mean_ranks(places[name][both]) for name in (one, other)))


def _places(column: Floats) -> Codes:
    """The place of each value among the distinct ones; -1 for a missing value."""
    present = ~np.isnan(column)
    places = np.full(len(column), -1)
    places[present] = np.unique(column[present], return_inverse=True)[1]
    return places


def _mean_ranks(places: Codes) -> Floats:
    """Ranks around 0, ties at their mean: by counting, since the distinct values are sorted already."""
    counts = np.bincount(places)
    ranks = np.cumsum(counts) - (counts + 1) / 2  # from 0
    return ranks[places] - (len(places) - 1) / 2


def _pearson_of_ranks(one: Floats, other: Floats) -> float:
    scale = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / scale if scale > 0 else 0.0


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
    cells, counts = _occurring(a * size + b, len(rows) * size)
    # χ² / n = Σ o² / (r·c) − 1, over the cells that occur.
    chi = float((counts / rows[cells // size] * (counts / columns[cells % size])).sum()) - 1
    return math.sqrt(min(max(chi, 0.0) / degrees, 1.0))


def _occurring(codes: Codes, size: int) -> tuple[Codes, Codes]:
    """The codes that occur among `size`, and how often; sorted only if an array of all would be much longer."""
    if size > 4 * len(codes):
        found, counts = np.unique(codes, return_counts=True)
        return found, counts
    counts = np.bincount(codes, minlength=size)
    found = np.flatnonzero(counts)
    return found, counts[found]


def _standardised(column: Floats) -> Floats:
    """A column as z-scores of its own: correlations do not change, and huge values do not overflow."""
    present = column[~np.isnan(column)]
    if not len(present) or present.min() == present.max():
        return np.where(np.isnan(column), np.nan, 0.0)
    centred = column - present.mean()
    return centred / (present.std() or 1.0)
