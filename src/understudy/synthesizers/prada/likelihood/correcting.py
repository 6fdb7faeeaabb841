"""How a correction is found: the tilt of what the densities draw towards what was measured (correction.py).

The one rule: no private row comes here. The model is public, and so are counts and moments with their noise.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.bins import Bins
from understudy.graphical.marginals import Measured
from understudy.synthesizers.prada.likelihood.correction import Correction, middles_of_cells
from understudy.synthesizers.prada.likelihood.drawing import Densities
from understudy.synthesizers.prada.likelihood.moments import NoisyMoments
from understudy.synthesizers.prada.likelihood.pool import Pool
from understudy.synthesizers.prada.likelihood.tilt import count_term, effective_part, moment_term, softening, solve
from understudy.synthesizers.prada.likelihood.variables import Variable

LEAST_KEPT = 1 / 3
"""At least this share of the drawn rows is kept."""
NEARLY_ALL = 0.97
"""If the weights of rows are worth this part of even ones, there is no correction."""
ROUNDS = 6
"""Columns get their shares back in this many rounds."""
MOST_CUT = 0.02
"""The limit cuts at most this share of the weight of all rows, unless fewer than `LEAST_KEPT` of them would be kept."""


def correction_of(
    densities: Densities,
    bins: Mapping[str, Bins],
    measured: Sequence[Measured],
    moments: NoisyMoments,
    *,
    rows: float,
    pool_rows: int,
    key: Key,
) -> Correction | None:
    """The correction that gives what the densities draw the measured counts and moments; None if there is little to do.

    Args:
        measured: Counts of bins.
        rows: How many rows the table has.
        pool_rows: How many are drawn from the densities to find it.
    """
    variables = densities.variables
    if any(v.pass_through for v in variables):
        return None
    pool = Pool(densities.sample(pool_rows, key=key), variables)
    codes = pool.codes(bins)
    counts, products = count_term(measured, codes, rows), moment_term(pool.levels, moments)
    parts = solve([counts, products], pool.count)
    scores = counts.scores(parts[0]) + products.scores(parts[1])
    power = softening(scores)
    scores, parts = power * scores, [power * part for part in parts]
    if effective_part(np.exp(scores - scores.max())) >= NEARLY_ALL:
        return None
    sizes = [bins[v.name].size for v in variables]
    singles, _ = _with_own_shares(scores, [codes[v.name] for v in variables], sizes)
    place = {v.name: j for j, v in enumerate(variables)}
    matrix = np.zeros((0, 0), np.float32)
    if products.size:
        size = len(moments.features.features)
        matrix = np.zeros((size, size), np.float32)
        matrix[products.used[products.pairs[0]], products.used[products.pairs[1]]] = parts[1]
    found = Correction(
        names=tuple(place),
        bins=tuple(bins[v.name] for v in variables),
        cliques=(
            *(np.array([place[name] for name in clique]) for clique in counts.cliques),
            *(np.array([j]) for j in place.values()),
        ),
        tables=(*(np.split(parts[0], np.cumsum(counts.sizes)[:-1]) if counts.cliques else ()), *singles),
        features=_features(moments, variables, bins, densities.limit),
        numbers=np.array([v.number for v in variables]),
        farthest=densities.limit,
        clip_norm=moments.clip_norm,
        matrix=matrix,
        limit=0.0,
        kept=1.0,
    )
    scores = found.scores(pool.levels)
    limit = _limit(scores)
    return dataclasses.replace(found, limit=limit, kept=float(np.mean(np.exp(np.minimum(scores - limit, 0.0)))))


def _with_own_shares(
    scores: NDArray[np.float64], codes: Sequence[NDArray[np.int64]], sizes: Sequence[int]
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    """Tables of single columns that give kept rows the shares of bins that drawn ones have, and scores with them.

    Densities draw every column as it was measured. Where rows would weigh more than the limit lets them, their bins
    would lose, so columns get their shares back one after the other, as in iterative proportional fitting.
    """
    shares = [np.bincount(code, minlength=size) / len(code) for code, size in zip(codes, sizes, strict=True)]
    tables = [np.zeros(len(share)) for share in shares]
    for _ in range(ROUNDS):
        weights, before = np.exp(scores - _limit(scores)), [table.copy() for table in tables]
        for code, share, table in zip(codes, shares, tables, strict=True):
            kept = np.minimum(weights, 1.0)
            made = np.bincount(code, kept, len(share)) / kept.sum()
            change = np.log(np.maximum(share, 1e-12) / np.maximum(made, 1e-12))
            change = np.clip(np.where(share > 0.0, change, 0.0), -1.0, 1.0)
            table += change
            weights *= np.exp(change)[code]
        for code, table, old in zip(codes, tables, before, strict=True):
            scores = scores + (table - old)[code]
    return tables, scores


def _limit(scores: NDArray[np.float64]) -> float:
    """The smallest limit that cuts at most `MOST_CUT` of the weight, or the largest that keeps `LEAST_KEPT` of rows.

    With weights w = exp(s) and a threshold t = exp(limit), a share mean(min(1, w / t)) of the rows is kept, and a share
    1 - Σ min(w, t) / Σ w of the weight is cut. Both fall with t, so the smaller one of the two thresholds is taken.
    """
    largest, n = float(scores.max()), len(scores)
    weights = np.sort(np.exp(np.maximum(scores - largest, -600.0)))
    below = np.concatenate([[0.0], np.cumsum(weights)[:-1]])  # the sum of the smaller ones
    above, total = n - np.arange(n), float(weights.sum())
    kept = (below / weights + above) / n  # at a threshold of each
    cut = 1.0 - (below + weights * above) / total
    last, first = int(np.count_nonzero(kept >= LEAST_KEPT)) - 1, int(np.argmax(cut <= MOST_CUT))
    of_kept = 1.0 if last == n - 1 else below[last + 1] / (LEAST_KEPT * n - above[last + 1])
    of_cut = ((1.0 - MOST_CUT) * total - below[first]) / above[first]
    return largest + float(np.log(min(of_kept, of_cut)))


def _features(
    moments: NoisyMoments, variables: Sequence[Variable], bins: Mapping[str, Bins], farthest: float
) -> tuple[NDArray[np.float32], ...]:
    """Of every column, its features in every cell of scores, or in every bin of a category."""
    middles, levels = middles_of_cells(farthest), {}
    for v in variables:
        edges = bins[v.name].edges
        levels[v.name] = middles if v.number else np.append((edges[:-1] + edges[1:]) / 2, np.nan)
    owners, found = moments.features.owners, []
    for j, v in enumerate(variables):
        own = [moments.features.of_level(i, levels[v.name]) for i in np.flatnonzero(owners == j).tolist()]
        found.append(np.stack(own).astype(np.float32))
    return tuple(found)
