"""The bins of GEM's columns, and the noisy marginals that its generator is fitted to. Released numbers alone."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.bins import Bins, make_bins
from understudy.encoding.encoder import Encoder
from understudy.encoding.plan import COUNT, COUNT_SELECTED, ROUNDS
from understudy.privacy.ledger import Ledger

Floats = NDArray[np.float64]
Pair = tuple[int, int]

TOLERANCE = 0.3
"""In rows: smaller noise is not worth weighing, nor is the loss of rounding to float32."""


# Bins ---------------------------------------------------------------------------------------------------------------


def bins_for(encoder: Encoder, finest: int, *, most: int, least: float) -> dict[str, Bins]:
    """Bins of like values for numbers, and a bin of its own for every value or category that is repeated often enough.

    Categories between two such categories share a bin.

    Args:
        finest: About how many bins a number gets.
        most: How many values of a column may have a bin of their own.
        least: The share that a value needs for it.
    """
    found: dict[str, Bins] = {}
    for name, even in make_bins(encoder, finest).items():
        if encoder.columns[name].labels is not None:
            edges = _category_edges(even.edges, most, least)
        else:
            edges = _with_atoms(even.edges, *encoder.columns[name].distribution.atoms(), most=finest // 2, least=least)
        found[name] = Bins(edges, even.nullable)
    return found


def _category_edges(edges: Floats, most: int, least: float) -> Floats:
    shares = np.diff(edges)
    common = np.zeros(len(shares), bool)
    common[np.argsort(-shares, kind="stable")[:most]] = True
    common &= (shares >= least) & (shares > 0)
    keep = np.r_[True, common[1:] | common[:-1], True]  # an edge stays unless it has rare categories on both sides
    kept = np.unique(edges[keep])
    return kept if len(kept) > 1 else np.array([0.0, 1.0])


def _with_atoms(edges: Floats, below: Floats, above: Floats, *, most: int, least: float) -> Floats:
    """The edges of bins, and those of the most common repeated values."""
    shares = above - below
    common = np.argsort(-shares, kind="stable")[:most]
    common = common[shares[common] >= max(least, 1e-6)]
    inside = np.any((edges[:, None] > below[common]) & (edges[:, None] < above[common]), axis=1)
    every = np.unique(np.concatenate([edges[~inside], below[common], above[common]]))
    return every[np.r_[True, np.diff(every) > 1e-9]]


def first_shares(encoder: Encoder, bins: Mapping[str, Bins]) -> list[Floats]:
    """The share of every bin, as the encoder released it."""
    found: list[Floats] = []
    for name, one in bins.items():
        missing = encoder.columns[name].missing if one.nullable else 0.0
        shares = np.diff(one.edges) * (1.0 - missing)
        found.append(np.append(shares, missing) if one.nullable else shares)
    return found


# Measured marginals ---------------------------------------------------------------------------------------------------


class MeasuredPairs:
    """Noisy marginals so far, as shares, all bins of all columns in one list.

    Counts of a pair that is measured again are averaged with the earlier ones, by their precision.
    """

    def __init__(self, encoder: Encoder, bins: Mapping[str, Bins], *, ledger: Ledger, max_rows_per_unit: int):
        self.names = list(bins)
        self.rows = max(encoder.rows, 1.0)
        self.sizes = [one.size for one in bins.values()]
        self.pairs: list[Pair] = list(itertools.combinations(range(len(bins)), 2))
        offsets = np.cumsum([0, *self.sizes])
        self.at = [slice(a, b) for a, b in itertools.pairwise(offsets)]
        self.whose = np.repeat(np.eye(len(bins), dtype=np.float32), self.sizes, axis=0)  # (bins, columns)
        self.shares = np.concatenate(first_shares(encoder, bins))
        known = [1 / _share_variance(encoder, name, ledger, max_rows_per_unit) for name in self.names]
        self.precision = np.repeat(known, self.sizes)
        self.pair_shares = np.zeros((offsets[-1], offsets[-1]))
        self.pair_precision = np.zeros((offsets[-1], offsets[-1]))

    def add(self, clique: Sequence[int], counts: Floats, sigma: float) -> None:
        """Enters the noisy counts of a pair, or of the only column."""
        precision = (self.rows / max(sigma, TOLERANCE)) ** 2
        at = tuple(self.at[c] for c in clique)
        known, total = (self.shares, self.precision) if len(clique) == 1 else (self.pair_shares, self.pair_precision)
        before = total[at]
        known[at] = (before * known[at] + precision * counts / self.rows) / (before + precision)
        total[at] = before + precision

    def expected(self, mixture: Floats) -> list[Floats]:
        """The counts of every pair in a table of as many rows that is drawn from the mixture."""
        joint = mixture.T @ mixture * (self.rows / len(mixture))
        return [joint[self.at[a], self.at[b]] for a, b in self.pairs]

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """What the loss takes. Weights are precisions, as parts of the largest."""
        largest = max(self.precision.max(), self.pair_precision.max())
        arrays = {
            "whose": self.whose,
            "shares": self.shares,
            "share_weights": self.precision / largest,
            "pairs": self.pair_shares,
            "pair_weights": self.pair_precision / largest,
        }
        return {name: array.astype(np.float32) for name, array in arrays.items()}


def _share_variance(encoder: Encoder, name: str, ledger: Ledger, max_rows_per_unit: int) -> float:
    """The variance of the share of one of a column's bins, as the encoder knows it: that of its last counts."""
    numeric = encoder.columns[name].labels is None
    counted = tuple(ROUNDS) if numeric else (COUNT, COUNT_SELECTED)
    planned = {mechanism.name for mechanism in ledger.plan}
    precision = sum((ledger.noise(count) * max_rows_per_unit) ** -2 for count in counted if count in planned)
    sigma = max(precision**-0.5, TOLERANCE) if precision else TOLERANCE
    return float((sigma / max(encoder.rows, 1.0)) ** 2)
