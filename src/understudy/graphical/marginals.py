"""Marginals: how many rows lie in every cell of a few columns. Measures them, and selects the one a model has wrong.

The one rule: a marginal without noise stays inside its mechanism. This module hands out `Measured` marginals, which
carry the deviation of their noise, and the numbers of selected cliques.

Columns enter as codes of `Bins`. A *clique* is a tuple of columns; its marginal is an array with one axis for each, in
the clique's order. An entry of a marginal is a *cell*; a *block* is a coarse cell made of neighbouring bins.

Sources: McKenna, Sheldon, Miklau (2019), arXiv:1901.09136; McKenna, Miklau, Sheldon (2021), arXiv:2108.04978;
McKenna et al. (2022), arXiv:2201.12677, for the weighted and penalised score of a clique.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.bins import Bins, make_bins
from understudy.encoding.columns import ColumnEncoder
from understudy.encoding.encoder import Encoder
from understudy.encoding.plan import single_column_noise
from understudy.privacy.counts import noisy_counts
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.rows import PrivateRows
from understudy.privacy.selection import MarginalError, select_marginal

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Clique = tuple[str, ...]

LARGEST_Z_SCORE = 4.0
"""Values farther from the mean than this many deviations weigh no more: the noise of a selection grows with it."""
RARE = 0.002
"""Z-scores are not computed farther out in levels than this."""
PLACES_PER_BIN = 32
"""The values of a bin are read at this many places for their z-score."""
MOST_CATEGORIES = 512
"""A category column has at most about this many bins; rarer categories share one."""
INTERPOLATION_ERROR = 0.002
"""Part of the rows by which a number's count may be off because its edges lie between the edges that were counted."""


# Domains ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Domain:
    """The columns, in order, and how many bins each has. Public."""

    sizes: Mapping[str, int]

    @classmethod
    def of(cls, bins: Mapping[str, Bins]) -> "Domain":
        return cls({name: each.size for name, each in bins.items()})

    @functools.cached_property
    def names(self) -> Clique:
        return tuple(self.sizes)

    @functools.cached_property
    def places(self) -> dict[str, int]:
        """The number of every column."""
        return {name: i for i, name in enumerate(self.sizes)}

    def shape(self, clique: Clique) -> tuple[int, ...]:
        return tuple(self.sizes[name] for name in clique)

    def size(self, clique: Clique) -> int:
        """How many cells the clique's marginal has."""
        if clique not in self._cells:
            self._cells[clique] = math.prod(self.shape(clique))
        return self._cells[clique]

    @functools.cached_property
    def _cells(self) -> dict[Clique, int]:
        """The sizes that were asked for."""
        return {}

    def ordered(self, columns: Sequence[str] | set[str]) -> Clique:
        """The columns as a clique, in the order of the domain."""
        return tuple(sorted(self.places.keys() & columns, key=self.places.__getitem__))


def all_pairs(domain: Domain) -> list[Clique]:
    return list(itertools.combinations(domain.names, 2))


def cut(encoder: Encoder, *, most: int, least: float = 0.0) -> dict[str, Bins]:
    """Bins for counting: numbers in about `most` bins, categories one by one unless they are rare.

    Neighbouring categories that hold less than `least` of the rows share a bin. Inside it they keep the proportions
    that the encoder released.
    """
    bins = make_bins(encoder, most)
    for name, each in encoder.columns.items():
        if each.labels is not None:
            rare = max(least, 1 / MOST_CATEGORIES if bins[name].size > MOST_CATEGORIES else 0.0)
            bins[name] = dataclasses.replace(bins[name], edges=_without_rare(bins[name].edges, rare))
    return bins


def _without_rare(edges: Floats, least: float) -> Floats:
    """The edges without those between rare neighbours: bins are joined until they hold `least`, common ones never."""
    masses = np.diff(edges)
    kept, held = [0], 0.0
    for i, mass in enumerate(masses):
        if i and (mass >= least or held >= least):
            kept.append(i)
            held = 0.0
        held += mass
    return np.append(edges[kept], edges[-1])


# Measured marginals -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Measured:
    """A noisy marginal.

    Attributes:
        clique: Its columns.
        counts: Noisy counts, one axis for each column.
        sigma: The deviation of the noise of one cell.
        starts: If it was counted in blocks of neighbouring bins: for each column, the bin that every block begins
            with. Empty if it was counted bin by bin.
    """

    clique: Clique
    counts: Floats
    sigma: float
    starts: tuple[Codes, ...] = ()


def measure(
    rows: PrivateRows,
    clique: Clique,
    domain: Domain,
    *,
    starts: tuple[Codes, ...] = (),
    planned: str | FilterShare,
    what: str,
    ledger: Ledger,
    key: Key,
) -> Measured:
    """Measures one marginal, in bins or in blocks of them.

    Privacy:
        Through `noisy_counts`: one row is in one cell, so the L2 sensitivity is 1 per row.

    Raises:
        BudgetExceeded: The budget does not cover it. Nothing has been read.
    """
    sigma = ledger.noise(planned, "discrete gaussian") * rows.max_rows_per_unit
    shape = tuple(len(at) for at in starts) if starts else domain.shape(clique)
    groups = block_groups(domain, clique, starts)
    counts = noisy_counts(rows, clique, shape, groups=groups, what=what, planned=planned, ledger=ledger, key=key)
    return Measured(clique, counts, sigma, starts)


def block_groups(domain: Domain, clique: Clique, starts: Sequence[Codes]) -> tuple[Codes, ...]:
    """For each column, the block of every bin. Empty if there are no blocks."""
    return tuple(blocks_of_bins(at, domain.sizes[name]) for name, at in zip(clique, starts, strict=False))


def blocks_of_bins(starts: Codes, size: int) -> Codes:
    """The block of each of `size` bins, given the bin that every block begins with."""
    return np.searchsorted(starts, np.arange(size), side="right") - 1


def from_encoder(encoder: Encoder, bins: Mapping[str, Bins], *, ledger: Ledger) -> list[Measured]:
    """The marginals of single columns, which the encoder has already released: they cost nothing.

    A bin between two edges of levels holds (end - start) · (1 - missing) · rows. Its noise is that of a bin that was
    counted in every round. For numbers it is √2 times that, since both edges of a bin lie between edges that were
    counted, and `INTERPOLATION_ERROR` of the rows, since what lies between them is only interpolated, however little
    noise there is.
    """
    found: list[Measured] = []
    for name, each in encoder.columns.items():
        present = np.diff(bins[name].edges) * (1.0 - each.missing)
        shares = np.append(present, each.missing) if bins[name].nullable else present
        sigma = single_column_noise(each.column, ledger)
        if each.labels is None:
            sigma = math.hypot(math.sqrt(2) * sigma, INTERPOLATION_ERROR * encoder.rows)
        found.append(Measured((name,), shares * encoder.rows, sigma))
    return found


def product(singles: Sequence[Measured], rows: float) -> Floats:
    """The marginal that columns would have if they were independent of each other."""
    found = np.array(rows)
    for single in singles:
        shares = np.maximum(single.counts, 0.0)
        found = np.multiply.outer(found, shares / max(float(shares.sum()), 1e-300))
    return found


# Scores ---------------------------------------------------------------------------------------------------------------


def expected_sampling_error(estimate: Floats, weights: Floats | float = 1.0) -> float:
    """The L1 error that sampled rows have against a correct estimate: Σ a E|Poisson(e) - e|, about a √(2e/π), <= 2ae.

    It is public, so it can serve as a penalty: without one, a marginal with more cells looks more wrong. `weights` are
    those of the error, as in `choose`.
    """
    expected = np.maximum(estimate, 0.0)
    return float((weights * np.minimum(np.sqrt(expected * 2 / np.pi), 2 * expected)).sum())


def z_scores(encoder: Encoder, bins: Mapping[str, Bins]) -> dict[str, Floats]:
    """|z| of every bin: how many deviations its values lie from their column's mean, at most `LARGEST_Z_SCORE`.

    Computed from the distribution that the encoder released, so public. |z| is the root mean square over the bin, so
    that over a column z² has mean 1. Categories have |z| = 1.
    """
    return {name: _z_scores(encoder.columns[name], each) for name, each in bins.items()}


def _z_scores(column: ColumnEncoder, bins: Bins) -> Floats:
    if column.labels is not None:
        return np.ones(bins.size)
    masses, within = np.diff(bins.edges), (np.arange(PLACES_PER_BIN) + 0.5) / PLACES_PER_BIN
    levels = bins.edges[:-1, None] + masses[:, None] * within  # (bins, places)
    values = column.distribution.quantile(np.clip(levels, RARE, 1.0 - RARE))
    centred = values - masses @ values.mean(axis=1)
    squares = np.mean((centred / max(float(np.abs(centred).max()), 1e-300)) ** 2, axis=1)
    z = np.minimum(np.sqrt(squares / max(float(masses @ squares), 1e-30)), LARGEST_Z_SCORE)
    return np.append(z, 1.0) if bins.nullable else z


def value_weights(z: Mapping[str, Floats], clique: Clique) -> Floats:
    """The value weighting of a clique: how much an error in each cell matters, Π |z|, with |z| as in `z_scores`.

    An L1 distance of counts treats all rows alike, but squared errors do not: a few rows far out in two columns can be
    most of what one column says about the other. Public.
    """
    return functools.reduce(np.multiply.outer, [z[name] for name in clique])


def soften(z: Mapping[str, Floats], width: int, most: float) -> dict[str, Floats]:
    """The z-scores to the power p, the largest p <= 1 for which no weight of `width` columns exceeds `most`.

    The noise of a selection grows with its largest weight. If that would drown the scores, p evens the rows out; p = 0
    treats all alike. Public, if `most` is.
    """
    largest = max(float(each.max()) for each in z.values()) ** width
    power = math.log(max(most, 1.0)) / math.log(largest) if largest > max(most, 1.0) else 1.0
    return {name: each**power for name, each in z.items()}


def choose(
    rows: PrivateRows,
    candidates: Sequence[Clique],
    estimates: Sequence[Floats],
    penalties: Sequence[float] | Floats,
    domain: Domain,
    factors: Sequence[float] | Floats,
    *,
    planned: str | FilterShare,
    what: str,
    ledger: Ledger,
    key: Key,
    weights: Sequence[Floats] | None = None,
) -> int:
    """The number of the candidate whose estimate is (nearly) the most wrong, by the exponential mechanism.

    The score of clique c with factor w, penalty b, estimated marginal e and cell weights a is

        score_c = w_c · (Σ a_c |exact_c - e_c| - b_c).

    Args:
        estimates: One array for each candidate, computed from releases alone.
        penalties: Subtracted from the errors; public.
        factors: At least 0; public.
        weights: a_c >= 0, one array for each candidate; public. 1 unless given.

    Privacy:
        Through `select_marginal`, which takes these public descriptions and bounds its own sensitivity.

    Raises:
        BudgetExceeded: The budget does not cover it. Nothing has been read.
        ValueError: Candidates, estimates, penalties, factors and weights do not fit. Nothing has been charged or read.
    """
    if not len(candidates) == len(estimates) == len(factors) == len(penalties) > 0:
        raise ValueError("choose: expected an estimate, a penalty and a factor for each of at least one candidate.")
    for clique, estimate in zip(candidates, estimates, strict=True):
        if estimate.shape != domain.shape(clique):
            raise ValueError(f"choose: expected an estimate of shape {domain.shape(clique)}, got {estimate.shape}.")
    errors = [
        MarginalError(columns=clique, estimate=estimate, weights=each, factor=float(factor), penalty=float(penalty))
        for clique, estimate, each, factor, penalty in zip(
            candidates,
            estimates,
            itertools.repeat(None, len(candidates)) if weights is None else weights,
            factors,
            penalties,
            strict=True,
        )
    ]
    return select_marginal(rows, errors, what=what, planned=planned, ledger=ledger, key=key)
