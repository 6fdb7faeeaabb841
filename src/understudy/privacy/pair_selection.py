"""Selection among all pairs of columns at once: which pair an estimate has most wrong.

`PairSelection` scores every pair of columns, and every column alone, in one pass over the rows (pair_counts.py). Exact
counts and scores stay inside the object, but for mechanisms that are charged for one of the pairs (exact_counts.py).
What it takes are public descriptions (`PairErrors`, a table of pairs that are open), what it gives are pairs drawn by
the exponential mechanism.

Sources: McSherry and Talwar (2007) for the exponential mechanism; McKenna et al. (2022), arXiv:2201.12677, for the
weighted and penalised error of a marginal.
"""

# pyright: strict

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NoReturn, final

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy import recording
from understudy.privacy.counts import make_plain
from understudy.privacy.exact_counts import Marginal, exact_marginals, remember
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.noise import largest_with_gumbel
from understudy.privacy.pair_counts import PairCounts
from understudy.privacy.rows import PrivateRows
from understudy.privacy.selection import SMALLEST_SENSITIVITY, check_finite, check_weights
from understudy.privacy.sums import exact_sums

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MOST_KEPT_BINS = 4096
"""Exact counts of all pairs are kept from one comparison to the next if columns have at most this many bins in all."""
STRIP = 512
"""Pairs are counted in strips of columns that have about this many bins in all."""
ROUNDING = 1e-6
"""Sensitivities are charged as larger by this part, for the rounding of the weight of a row of pairs."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PairErrors:
    """How wrong estimates are of every pair of columns and of every column alone. Public.

    With n the exact counts, e the estimates, a the weights of bins, u over the bins of column i and v over those of j,
    the score of a pair, and that of a column alone, on the diagonal, are

        score_ij = factor_ij · (Σ_uv a_u a_v |n_uv - e_uv| - penalty_ij),
        score_ii = factor_ii · (Σ_u a_u |n_u - e_u| - penalty_ii).

    Attributes:
        singles: e_u for the bins of all columns, one column after another.
        pairs: e_uv for the bins of all columns. None: columns are independent, e_uv = e_u e_v / `rows`.
        rows: How many rows the estimates are of.
        weights: a_u >= 0.
        factors: At least 0; (columns, columns) and symmetric.
        penalties: (columns, columns) and symmetric.
    """

    singles: Floats
    pairs: Floats | None = None
    rows: float
    weights: Floats
    factors: Floats
    penalties: Floats

    def __post_init__(self) -> None:
        make_plain(self, arrays=("singles", "pairs", "weights", "factors", "penalties"), numbers=("rows",))
        for name in ("singles", "pairs", "penalties"):
            if getattr(self, name) is not None:
                check_finite(f"PairErrors.{name}", getattr(self, name))
        for name in ("weights", "factors"):
            check_weights(f"PairErrors.{name}", getattr(self, name))
        if not self.rows > 0:
            raise ValueError("PairErrors.rows: expected a number > 0.")

    def sensitivities(self, starts: NDArray[np.int64]) -> Floats:
        """The most by which one row moves each score: factor · max a_u · max a_v, and factor · max a_u alone.

        A row is in at most one cell of a pair and changes its count by 1; the other terms of the sum stay as they are,
        and by the triangle inequality that one changes by at most its weight: ||n ± 1 - e| - |n - e|| <= 1.
        """
        largest = np.maximum.reduceat(self.weights, starts)
        products = np.outer(largest, largest)
        np.fill_diagonal(products, largest)
        return self.factors * products


@final
class PairSelection:
    """Draws pairs of columns by how wrong an estimate has them. Exact counts and scores are inside, and stay there.

    Args:
        rows: Columns of codes. A row with a code outside its column's bins is in no cell of that column.
        columns: Their names.
        sizes: How many bins each has.
    """

    def __init__(self, rows: PrivateRows, columns: Sequence[str], sizes: Sequence[int]):
        if not len(columns) == len(sizes) > 0 or min(sizes) < 1:
            raise ValueError("PairSelection: expected a size >= 1 for each of at least one column.")
        self._rows, self._columns, self._sizes = rows, tuple(columns), tuple(map(int, sizes))
        self._starts = np.cumsum([0, *self._sizes[:-1]])
        self._bins = sum(self._sizes)
        self._errors: PairErrors | None = None
        self._exact_counts: list[Floats] = []  # the strips of all pairs, once they are counted, if they are kept
        self._exact_singles: list[Floats] = []  # the counts of every column alone, once they are counted
        self._exact_scores: Floats | None = None
        # Of every row of pairs: what is open, the largest sensitivity, the weight, and whether that is out of date.
        self._open = np.zeros((len(columns), len(columns)), np.bool_)
        self._sensitivities, self._largest = np.zeros_like(self._open, np.float64), np.zeros(len(columns))
        self._exact_logs, self._stale, self._scale = np.zeros(len(columns)), np.ones(len(columns), np.bool_), 0.0

    def __reduce__(self) -> NoReturn:
        raise TypeError("PairSelection holds exact counts and is never copied or written anywhere.")

    def compare(self, errors: PairErrors) -> None:
        """Takes these estimates from now on. Reads nothing.

        Raises:
            ValueError: They do not fit the columns.
        """
        if type(errors) is not PairErrors:  # a subclass could bring code of its own
            raise TypeError("PairSelection: expected errors of type PairErrors itself.")
        columns, bins = len(self._columns), self._bins
        shapes = [errors.singles.shape, errors.weights.shape, errors.factors.shape, errors.penalties.shape]
        if shapes != [(bins,), (bins,), (columns, columns), (columns, columns)]:
            raise ValueError(f"PairSelection: expected estimates of {columns} columns with {bins} bins.")
        if errors.pairs is not None and errors.pairs.shape != (bins, bins):
            raise ValueError(f"PairSelection: expected estimates of pairs of {bins} bins.")
        self._errors, self._exact_scores, self._scale = errors, None, 0.0
        self._sensitivities = errors.sensitivities(self._starts)
        self._open = np.zeros_like(self._open)
        self._largest[:] = 0.0

    def choose(
        self, open_pairs: Flags, *, what: str, planned: str | FilterShare, ledger: Ledger, key: Key
    ) -> tuple[int, int]:
        """The pair (i <= j) among the open ones that is (nearly) the most wrong: the exponential mechanism.

        The score of the row of pairs (i, ·) is the logarithm of the sum of exp(score / scale) over its open pairs. A
        row is drawn by these, then a pair of the row: together that draws each pair with probability proportional to
        exp(score / scale), from thousands of numbers instead of from a million.

        Args:
            open_pairs: Which pairs may be drawn, on the diagonal which columns alone; (columns, columns), public. A
                pair counts as open in both orders.

        Privacy:
            Estimates and open pairs are public, so a neighbour has the same. One row moves any score by at most the
            largest of `PairErrors.sensitivities` among the open pairs, s. Scores of rows of pairs are computed to
            within `ROUNDING` / 8 of s, which acts as if scores were off by as much, on each of two neighbours: s is
            charged as larger by `ROUNDING`. The ledger is charged before rows are read.

        Raises:
            BudgetExceeded: The budget does not cover it. Nothing has been read.
        """
        if self._errors is None:
            raise ValueError("PairSelection.choose: expected `compare` first.")
        columns = len(self._columns)
        opened = np.array(open_pairs, np.bool_)
        if opened.shape != (columns, columns) or not opened.any():
            raise ValueError(f"PairSelection.choose: expected open pairs of {columns} columns.")
        opened |= opened.T
        changed = np.flatnonzero((opened != self._open).any(axis=1))
        self._largest[changed] = self._sensitivities[changed].max(axis=1, initial=0.0, where=opened[changed])
        most = float(self._largest.max()) * (1 + ROUNDING)
        self._open, self._stale = opened, self._stale | np.isin(np.arange(columns), changed)
        scale = ledger.charge(
            planned,
            what=what,
            sensitivity=max(most, SMALLEST_SENSITIVITY) * self._rows.max_rows_per_unit,
            mechanism="exponential",
        )
        if (kept := ledger.kept()) is not None:
            return kept
        if self._exact_scores is None:
            self._exact_scores = self._score(self._errors)
        self._weigh_rows(self._exact_scores, scale)
        some = np.flatnonzero(np.isfinite(self._exact_logs))
        row = int(some[largest_with_gumbel(self._exact_logs[some] * scale, scale, key.child("row"))])
        entries = np.flatnonzero(opened[row])
        exact_entries = self._exact_scores[row, entries] + np.where(entries == row, scale * math.log(2.0), 0.0)
        other = int(entries[largest_with_gumbel(exact_entries, scale, key.child("pair"))])
        pair = min(row, other), max(row, other)
        if not recording.is_on():  # a wide table has a million scores
            return ledger.keep(pair)
        exact = np.r_[self._exact_logs[some] * scale, self._exact_scores[opened]]
        return recording.released("selected pair", pair, exact=exact)

    def _weigh_rows(self, exact_scores: Floats, scale: float) -> None:
        """log Σ exp(score / scale) over the open pairs of every row; rows whose open pairs are the same stay."""
        if scale != self._scale:
            self._stale[:] = True
        changed = np.flatnonzero(self._stale)
        for some in np.array_split(changed, len(changed) * len(self._stale) // 2**17 + 1):
            exact = np.where(self._open[some], exact_scores[some], -math.inf)
            exact[np.arange(len(some)), some] += scale * math.log(2.0)  # a pair has two orders, a column alone has one
            top = exact.max(axis=1, initial=-math.inf)
            known = np.isfinite(top)
            exact = exact[known]
            exact -= top[known, None]
            exact /= scale
            sums = np.exp(exact, out=exact).sum(axis=1)
            self._exact_logs[some] = -math.inf
            self._exact_logs[some[known]] = np.log(sums) + top[known] / scale
        self._stale[:], self._scale = False, scale

    def exact_counts(self, columns: Sequence[str], shape: Sequence[int]) -> Floats | None:
        """The counts of a pair or of one column, for a mechanism that was charged for them; None if none are kept."""
        if not self._exact_counts or not set(columns) <= set(self._columns):
            return None
        at = [self._columns.index(name) for name in columns]
        if tuple(shape) != tuple(self._sizes[i] for i in at) or len(set(at)) != len(at) or len(at) > 2:
            return None
        if len(at) == 1:
            return self._exact_singles[at[0]].copy()
        i, j = sorted(at)
        number = next(k for k, (first, last) in enumerate(self._strips()) if first <= i < last)
        low = self._starts[self._strips()[number][0]]
        across, along = (slice(start := self._starts[k] - low, start + self._sizes[k]) for k in (i, j))
        exact = self._exact_counts[number][across, along]
        return exact.copy() if at == [i, j] else exact.T.copy()

    def _score(self, errors: PairErrors) -> Floats:
        """All scores without noise; (columns, columns), symmetric."""
        exact_errors = np.zeros((len(self._columns), len(self._columns)))
        weights, singles = errors.weights, errors.singles
        for (first, last), exact_strip in zip(self._strips(), self._strip_counts(), strict=True):
            low, high = self._starts[first], self._starts[last - 1] + self._sizes[last - 1]
            if errors.pairs is not None:
                estimate = errors.pairs[low:high, low:]
            else:
                estimate = np.outer(singles[low:high], singles[low:] / errors.rows)
            exact_gaps = np.abs(exact_strip - estimate)
            exact_gaps *= weights[low:high, None]
            exact_gaps = np.add.reduceat(exact_gaps, self._starts[first:last] - low, axis=0)
            exact_gaps *= weights[low:]
            exact_errors[first:last, first:] = np.add.reduceat(exact_gaps, self._starts[first:] - low, axis=1)
        exact_errors = np.triu(exact_errors, 1)
        exact_errors += exact_errors.T
        if not self._exact_singles:
            asked = [Marginal((name,), (size,)) for name, size in zip(self._columns, self._sizes, strict=True)]
            self._exact_singles = exact_marginals(self._rows, asked)
        for i, (exact_single, size) in enumerate(zip(self._exact_singles, self._sizes, strict=True)):
            at = slice(self._starts[i], self._starts[i] + size)
            exact_errors[i, i] = weights[at] @ np.abs(exact_single - singles[at])
        return errors.factors * (exact_errors - errors.penalties)

    def _strips(self) -> list[tuple[int, int]]:
        """First and last column of every strip, the last one not in it."""
        place = np.cumsum(self._sizes) // STRIP
        ends = [*(np.flatnonzero(np.diff(place)) + 1).tolist(), len(place)]
        return list(itertools.pairwise([0, *ends]))

    def _strip_counts(self) -> Iterator[Floats]:
        """The exact counts of each strip's columns with themselves and all later ones."""
        if self._exact_counts:
            yield from self._exact_counts
            return
        strips = self._strips()
        if self._bins <= MOST_KEPT_BINS:
            found = exact_sums(self._rows, PairCounts(self._columns, self._sizes, strips, strips, singles=True))
            self._exact_counts, self._exact_singles = found[: len(strips)], found[len(strips) :]
            remember(self._rows, self)
            yield from self._exact_counts
            return
        for strip in strips:  # one at a time, to bound memory
            yield exact_sums(self._rows, PairCounts(self._columns, self._sizes, strips, [strip]))[0]
