"""Parents: which earlier columns a column may read, how much it takes from each, and which are cut in the end.

A pair [j, k] of the (columns, columns) arrays below is what column j has of the earlier column k.

The one rule: no private row comes here. Everything is measured on public rows.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import in_threads
from understudy.synthesizers.prada.likelihood.columns import Column
from understudy.synthesizers.prada.likelihood.drawing import Densities
from understudy.synthesizers.prada.likelihood.pool import PublicRows
from understudy.synthesizers.prada.likelihood.reading import Reading

FEW_NATS = 0.01
"""Inputs that are no parents may be worth this much to a column, however little it takes from all of them."""
RIDGE = 1e-3
"""Added to the variances of inputs before one is predicted from the others."""
MOST_ROWS = 2**14
"""Mutual information is found from about this many rows, ..."""
MOST_CODES = 4096
"""... and from at most this many bins in all; columns of many bins are coarsened before it."""

Pairs = NDArray[np.bool_]
Whole = NDArray[np.int64]

# Before the training -------------------------------------------------------------------------------------------------


def candidate_parents(codes: Sequence[Whole], weights: NDArray, most: int) -> Pairs:
    """The earlier columns that each column may read: at most `most`, those it shares most information with.

    Args:
        codes: The bin of every row of a pool, by column.
        weights: Of the rows.
    """
    pairs = np.tril(np.ones((len(codes), len(codes)), bool), -1)
    if len(codes) - 1 <= most:
        return pairs
    step = max(1, len(weights) // MOST_ROWS)
    some = [code[::step] for code in codes]
    nats = np.where(pairs, mutual_information(_coarse(some), weights[::step]), -1.0)
    ranks = np.argsort(np.argsort(-nats, axis=1, kind="stable"), axis=1)
    return pairs & (ranks < most)


def _coarse(codes: Sequence[Whole]) -> list[Whole]:
    """Codes with fewer bins, if there are very many: neighbours that hold about the same number of rows are joined."""
    most = max(4, MOST_CODES // len(codes))
    found = []
    for code in codes:
        size = int(code.max()) + 1
        if size > most:
            below = np.concatenate([[0], np.cumsum(np.bincount(code, minlength=size))[:-1]]) / len(code)
            code = np.minimum((below * most).astype(np.int64), most - 1)[code]
        found.append(code)
    return found


def mutual_information(codes: Sequence[Whole], weights: NDArray) -> NDArray[np.float64]:
    """Σ p_ab log(p_ab / p_a p_b) of every two columns of weighted codes, in nats: (columns, columns)."""
    sizes = [int(each.max()) + 1 for each in codes]
    starts, shares = np.cumsum([0, *sizes]), weights / weights.sum()
    joint = np.zeros((starts[-1], starts[-1]))
    for i, (one, size) in enumerate(zip(codes, sizes, strict=True)):
        own = slice(starts[i], starts[i + 1])
        joint[own, own] = np.diag(np.bincount(one, shares, size))
        for j in range(i):
            table = np.bincount(codes[j] * size + one, shares, sizes[j] * size).reshape(sizes[j], size)
            joint[starts[j] : starts[j + 1], own] = table
            joint[own, starts[j] : starts[j + 1]] = table.T
    single = np.diag(joint)
    ratio = joint / np.maximum(np.outer(single, single), 1e-300)
    nats = joint * np.log(np.where(joint > 0, ratio, 1.0))
    return np.add.reduceat(np.add.reduceat(nats, starts[:-1], axis=0), starts[:-1], axis=1)


def sources_of(pairs: Pairs, reading: Reading) -> list[Whole]:
    """The inputs that every column reads."""
    return [np.flatnonzero(row[reading.owners]) for row in pairs]


# After it -----------------------------------------------------------------------------------------------------------


def influences(densities: Densities, rows: PublicRows, draw: np.random.Generator) -> NDArray[np.float64]:
    """How much every column takes from each earlier one, √(nats lost when that one is drawn anew): (columns, columns).

    E[log p(x_j | x_k, others) - log p(x_j | x_k', others)], where x_k' has what the other inputs of column j linearly
    tell of k, and the rest of another row's: what the density of j makes of k, through all its layers, and could not
    have from the others. For x_j ~ N(w x_k, s²) without other inputs it is (w / s)², so that the root is in deviations
    of what is left.

    Args:
        rows: Generated rows to measure on.
    """
    d, owners = len(densities.columns), densities.reading.owners
    order = draw.permutation(rows.count)

    def of_column(j: int) -> NDArray[np.float64]:
        found, sources = np.zeros(d), densities.columns[j].sources
        read = rows.inputs[sources]
        before = float(densities.log_density(j, rows, read).mean())
        among = np.cov(read, bias=True).reshape(len(read), len(read)) + RIDGE * np.eye(len(read))
        for k in np.unique(owners[sources]):
            own, others = np.flatnonzero(owners[sources] == k), np.flatnonzero(owners[sources] != k)
            slopes = np.linalg.solve(among[np.ix_(others, others)], among[np.ix_(others, own)])
            told = (slopes.T @ read[others]).astype(np.float32) if len(others) else np.float32(0.0)
            given = read.copy()
            given[own] = told + (read[own] - told)[:, order]
            found[k] = before - float(densities.log_density(j, rows, given).mean())
        return found

    lost = np.stack(in_threads(of_column, range(d)))
    return np.sqrt(np.maximum(np.nan_to_num(lost, posinf=0.0), 0.0))


def prune_parents(influences: NDArray, share: float, weights: NDArray | float = 1.0) -> Pairs:
    """Which pairs are parents: of every column, all but the weakest inputs that hold a `share` of its nats together.

    What a column takes from its inputs is Σ influence², in nats. The weakest are left out one after the other, as long
    as all that are held no more than the share of it, or `FEW_NATS`; of a column whose nats count w times, the w-th
    part of that. With a share of 0 every input is a parent.
    """
    nats = np.asarray(influences, np.float64) ** 2
    order = np.argsort(nats, axis=1, kind="stable")
    held = np.cumsum(np.take_along_axis(nats, order, axis=1), axis=1)
    most = np.maximum(share * held[:, -1:], FEW_NATS) / np.reshape(weights, (-1, 1)) if share > 0 else 0.0
    kept = np.zeros(nats.shape, bool)
    np.put_along_axis(kept, order, held > most, axis=1)
    return kept & (nats > 0)


def cut_inputs(columns: Sequence[Column], pairs: Pairs, means: NDArray, owners: Whole) -> list[Column]:
    """Columns that read these pairs alone; the mean of what is cut goes into the constant.

    Args:
        means: Of the inputs.
        owners: The column of every input.
    """
    found = []
    for j, own in enumerate(columns):
        kept = pairs[j, owners[own.sources]]
        first = own.first[np.append(kept, True)].copy()
        first[-1] += (means[own.sources[~kept]] @ own.first[:-1][~kept]).astype(np.float32)
        found.append(own._replace(first=first, sources=own.sources[kept]))
    return found
