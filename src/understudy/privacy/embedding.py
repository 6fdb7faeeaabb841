"""The random-feature embedding of rows, and its noisy sum.

A row is one or more features for every column: the normal score x of a number, one indicator for every category. It is
embedded by two kernels side by side, each a finite vector φ with φ(x)·φ(y) = k(x, y):

    Fourier   e^{iA_k} / √m,   A_k = Σ_{c in S_k} (w_kc x_c + θ_kc[category of c]),   k = 1 … m
    moments   g_i g_j √2 / C²,   i < j,   g the row's scores scaled to norm at most C

Each frequency touches the few columns S_k: seen through all columns at once, dependence fades with their number. A
random phase for every category makes the kernel of two categories 1 if they are equal and 0 on average if not.

Norms: |e^{iA}| = 1, so the first vector has norm 1; 2 Σ_{i<j} g_i² g_j² <= |g|⁴ <= C⁴, so the second has norm at most
1. With weights √(1-a) and √a the whole has norm at most 1. The mechanism does not rely on that: it clips every vector.

Sources: Rahimi and Recht (2007) for random features; Harder, Adamczewski, Park (2021), arXiv:2002.11603, for their
private mean.
"""

# pyright: strict, reportPrivateUsage=false

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy import recording
from understudy.privacy.counts import make_plain
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.moments import to_fixed_point
from understudy.privacy.noise import discrete_gaussian
from understudy.privacy.rows import PrivateRows
from understudy.privacy.sums import exact_sums

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

FINE_POINT = 2**24
"""Sums of embedded rows divide the norm bound into this many steps."""
BLOCK_ROWS = 2**10
"""Rows are embedded and summed this many at a time: so few that their whole numbers sum exactly below 2**53."""
MOST_PAIRS = 8000
"""At most this many products of two scores are taken; d columns have d (d - 1) / 2."""


@dataclasses.dataclass(frozen=True)
class EmbeddedColumn:
    """The features of one column: possibly a score, then possibly an indicator for every category. Public.

    Attributes:
        name: The column.
        number: Whether the first feature is a score. A number that may be missing has two categories, present and
            missing.
        shares: The share of every category, from the encoder's released distribution.
        scores: For a column that is no number, the mean normal score of every category, used in the moments; 0 for a
            missing value.
    """

    name: str
    number: bool
    shares: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()

    @property
    def categories(self) -> int:
        return len(self.shares)

    @property
    def width(self) -> int:
        """How many features the column has."""
        return int(self.number) + self.categories


def first_features(columns: Sequence[EmbeddedColumn]) -> list[int]:
    """The place of every column's first feature in a row."""
    return list(itertools.accumulate((column.width for column in columns), initial=0))[:-1]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """The public description of an embedding.

    Attributes:
        columns: What a row of features consists of.
        touched: The columns of every frequency, (frequencies, most columns); -1 where it touches fewer.
        frequencies: w of every frequency and column, (frequencies, columns); 0 where not touched or not a number.
        phases: θ of every frequency and category, one matrix (frequencies, categories) for each column.
        moments: a, the part of the squared norm that goes to the moments.
        clip: C², the squared norm that scores are scaled to.
    """

    columns: tuple[EmbeddedColumn, ...]
    touched: Whole
    frequencies: Floats
    phases: tuple[Floats, ...]
    moments: float
    clip: float

    def __post_init__(self) -> None:
        make_plain(self, arrays=("frequencies",), groups=("phases",), numbers=("moments", "clip"))
        object.__setattr__(self, "touched", np.asarray(self.touched))
        count, width = len(self.touched), len(self.columns)
        fits = (
            count > 0
            and self.touched.ndim == 2
            and self.touched.dtype.kind == "i"
            and all(phases.dtype.kind == "f" for phases in self.phases)
            and all(column.number or len(column.scores) == column.categories for column in self.columns)
            and bool(np.all((self.touched >= -1) & (self.touched < width)))
            and self.frequencies.shape == (count, width)
            and [phases.shape for phases in self.phases] == [(count, column.categories) for column in self.columns]
        )
        if not fits:
            raise ValueError("Embedding: expected frequencies and phases that fit its columns.")
        if not (0 <= self.moments < 1 and 0 < self.clip < np.inf):
            raise ValueError("Embedding: expected 0 <= moments < 1 and a finite clip > 0.")

    @functools.cached_property
    def pairs(self) -> tuple[Whole, Whole]:
        """The columns whose scores are multiplied: all pairs, or `MOST_PAIRS` evenly taken from them."""
        i, j = np.triu_indices(len(self.columns), 1)
        taken = np.linspace(0, len(i) - 1, MOST_PAIRS).astype(int) if len(i) > MOST_PAIRS else slice(None)
        return i[taken], j[taken]

    @functools.cached_property
    def touching(self) -> list[Whole]:
        """The frequencies that touch each column."""
        return [np.flatnonzero((self.touched == c).any(axis=1)) for c in range(len(self.columns))]

    @functools.cached_property
    def weights(self) -> tuple[float, float]:
        """The factors of the Fourier features and of the products of scores."""
        a = self.moments if len(self.columns) > 1 else 0.0
        return float(np.sqrt((1 - a) / len(self.touched))), float(np.sqrt(2 * a) / self.clip)

    @property
    def size(self) -> int:
        """The length of an embedded row."""
        return 2 * len(self.touched) + len(self.pairs[0])

    def embed(self, features: Floats) -> Floats:
        """Embedded rows: cosines, sines, products. Each depends on its own row of features alone."""
        angles = np.zeros((len(features), len(self.touched)))
        scores = np.zeros((len(features), len(self.columns)))
        for c, (column, start) in enumerate(zip(self.columns, first_features(self.columns), strict=True)):
            mine = self.touching[c]
            if column.number:
                scores[:, c] = features[:, start]
                angles[:, mine] += features[:, start, None] * self.frequencies[mine, c]
            if column.categories:
                category = features[:, start + column.number : start + column.width].argmax(axis=1)
                angles[:, mine] += self.phases[c][mine].T[category]
                if not column.number:
                    scores[:, c] = np.asarray(column.scores, np.float64)[category]
        scores *= np.sqrt(self.clip / np.maximum((scores**2).sum(axis=1, keepdims=True), self.clip))
        fourier, product = self.weights
        i, j = self.pairs
        return np.concatenate(
            [fourier * np.cos(angles), fourier * np.sin(angles), product * scores[:, i] * scores[:, j]], axis=1
        )


def noisy_embedding_sum(
    rows: PrivateRows,
    features: Sequence[str],
    embedding: Embedding,
    *,
    bound: float = 1.0,
    what: str,
    planned: str | FilterShare,
    ledger: Ledger,
    key: Key,
) -> Floats:
    """The sum over rows of their embeddings, Σ φ(x), with discrete Gaussian noise.

    Vectors longer than B = `bound` are scaled to that norm, and all are cut to fixed point, towards zero, so that the
    bound holds for the whole numbers that are summed.

    Args:
        features: The columns of features, in the order of the embedding's columns.

    Privacy:
        One row adds one vector of norm at most B: L2 sensitivity B per row, whatever the description says. Entries
        that are not numbers count as 0. The ledger is charged before the rows are read.

    Raises:
        BudgetExceeded: The budget does not cover it. Nothing has been read.
        ValueError: The features are not those of the embedding. Nothing has been charged or read.
    """
    if type(embedding) is not Embedding:  # a subclass could bring code of its own
        raise TypeError("noisy_embedding_sum: expected an embedding of type Embedding itself.")
    width = sum(column.width for column in embedding.columns)
    if len(features) != width:
        raise ValueError(f"noisy_embedding_sum: expected {width} features, got {len(features)}.")
    sensitivity = bound * rows.max_rows_per_unit
    sigma = ledger.charge(planned, what=what, sensitivity=sensitivity, mechanism="discrete gaussian")
    if (kept := ledger.kept()) is not None:
        return kept
    steps = FINE_POINT / bound
    (exact_sum,) = exact_sums(rows, _EmbeddedRows(tuple(features), embedding, bound))
    noisy = (exact_sum + discrete_gaussian(sigma * steps, len(exact_sum), key)) / steps
    return ledger.keep(recording.released("embedding sum", noisy, exact=exact_sum / steps))


@dataclasses.dataclass(frozen=True, eq=False)
class _EmbeddedRows:
    """The summation of embedded rows that are clipped to a norm and cut to fixed point."""

    columns: tuple[str, ...]
    embedding: Embedding
    bound: float

    def exact_sums(self, exact: Mapping[str, NDArray[Any]]) -> list[NDArray[np.int64]]:
        features = np.stack([exact[name] for name in self.columns], axis=1).astype(np.float64)
        exact_sum = np.zeros(self.embedding.size, dtype=np.int64)
        for start in range(0, len(features), BLOCK_ROWS):
            block = Embedding.embed(self.embedding, features[start : start + BLOCK_ROWS])
            exact_sum += to_fixed_point(block, self.bound, steps=FINE_POINT / self.bound).sum(axis=0).astype(np.int64)
        return [exact_sum]
