"""The embedding: what a row is turned into before rows are added up. Public functions of public facts, in NumPy.

A row is a block of signals for every column: the normal score x of a number, the states of what has states. It is
embedded by two kernels side by side, each a finite vector φ with φ(x)·φ(y) = k(x, y):

    Fourier   e^{iA_k} / √m,   A_k = Σ_{c in S_k} (w_kc x_c + θ_kc[state of c]),   k = 1 … m
    moments   g_i g_j √2 / C²,   i < j,   g the row's scores scaled to norm at most C

Each frequency touches the few columns S_k: seen through all columns at once, dependence fades with their number. A
random phase for every state makes the kernel of two states 1 if they are equal and 0 on average if not: the products
with one-hot vectors of the paper, in Fourier's form.

Norms: |e^{iA}| = 1, so the first is of norm 1; 2 Σ_{i<j} g_i² g_j² <= |g|⁴ <= C⁴, so the second is of norm at most 1.
With weights √(1-a) and √a the whole is of norm at most 1.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.encoder import Encoder, category_count, mean_score

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

MOST_PAIRS = 8000
"""Products of two scores, of which there are d (d - 1) / 2."""


@dataclasses.dataclass(frozen=True)
class Block:
    """The signals of one column: perhaps a number, then perhaps its states; and what is known of them.

    Attributes:
        number: Whether the first signal is a score. One that may be missing has two states, present and missing.
        shares: Of the states, from the bought distribution.
        scores: The mean normal score of every state, for the moments; 0 where a value is missing.
    """

    name: str
    number: bool
    shares: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()

    @property
    def states(self) -> int:
        return len(self.shares)

    @property
    def width(self) -> int:
        return int(self.number) + self.states


def block_of(encoder: Encoder, name: str) -> Block:
    """A column's signals, as `encoding.signals` lists them."""
    column_map = encoder.maps[name]
    gone = column_map.missing
    if column_map.labels is None:
        return Block(name, True, (1.0 - gone, gone) if category_count(encoder, name) else (), ())
    cdf = column_map.distribution.cdf
    present = np.diff(cdf) * (1.0 - gone)
    middle = mean_score(np.clip(cdf[:-1], 1e-6, 1 - 1e-6), np.clip(cdf[1:], 1e-6, 1 - 1e-6))
    nullable = column_map.column.nullable
    return Block(name, False, (*present, gone) if nullable else (*present,), (*middle, 0.0) if nullable else (*middle,))


def starts(blocks: Sequence[Block]) -> list[int]:
    return list(itertools.accumulate((block.width for block in blocks), initial=0))[:-1]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Embedding:
    """A public vector function of a row, of norm at most 1.

    Attributes:
        touched: The columns of every frequency, (frequencies, most columns); -1 where it touches fewer.
        frequencies: w of every frequency and column, (frequencies, columns); 0 where not touched or not a number.
        phases: θ of every frequency and state, one matrix (frequencies, states) a column.
        moments: a, the part of the squared norm that goes to the moments.
        clip: C², the squared norm that scores are scaled to.
    """

    blocks: tuple[Block, ...]
    touched: Whole
    frequencies: Floats
    phases: tuple[Floats, ...]
    moments: float
    clip: float

    @functools.cached_property
    def pairs(self) -> tuple[Whole, Whole]:
        """The columns whose scores are multiplied: all pairs, or `MOST_PAIRS` evenly taken from them."""
        i, j = np.triu_indices(len(self.blocks), 1)
        taken = np.linspace(0, len(i) - 1, MOST_PAIRS).astype(int) if len(i) > MOST_PAIRS else slice(None)
        return i[taken], j[taken]

    @functools.cached_property
    def touching(self) -> list[Whole]:
        """The frequencies that touch each column."""
        return [np.flatnonzero((self.touched == c).any(axis=1)) for c in range(len(self.blocks))]

    @functools.cached_property
    def weights(self) -> tuple[float, float]:
        """What the Fourier features and the products of scores are multiplied by."""
        a = self.moments if len(self.blocks) > 1 else 0.0
        return float(np.sqrt((1 - a) / len(self.touched))), float(np.sqrt(2 * a) / self.clip)

    def rows(self, signals: Floats) -> Floats:
        """The features of rows of signals: cosines, sines, products. Each row by itself."""
        angles = np.zeros((len(signals), len(self.touched)))
        scores = np.zeros((len(signals), len(self.blocks)))
        for c, (block, start) in enumerate(zip(self.blocks, starts(self.blocks), strict=True)):
            mine = self.touching[c]
            if block.number:
                scores[:, c] = signals[:, start]
                angles[:, mine] += signals[:, start, None] * self.frequencies[mine, c]
            if block.states:
                state = signals[:, start + block.number : start + block.width].argmax(axis=1)
                angles[:, mine] += self.phases[c][mine].T[state]
                if not block.number:
                    scores[:, c] = np.asarray(block.scores)[state]
        scores *= np.sqrt(self.clip / np.maximum((scores**2).sum(axis=1, keepdims=True), self.clip))
        fourier, product = self.weights
        i, j = self.pairs
        return np.concatenate(
            [fourier * np.cos(angles), fourier * np.sin(angles), product * scores[:, i] * scores[:, j]], axis=1
        )

    def independent(self) -> NDArray[np.complex128]:
        """E e^{iA} were all columns independent: E e^{iwx} = exp(-w²/2) for a score, Σ share e^{iθ} for states."""
        expected = np.ones(len(self.touched), dtype=np.complex128)
        for c, block in enumerate(self.blocks):
            mine = self.touching[c]
            number = np.exp(-(self.frequencies[mine, c] ** 2) / 2)
            if not block.states:
                expected[mine] *= number
                continue
            turned = np.exp(1j * self.phases[c][mine]) * np.asarray(block.shares)
            expected[mine] *= number * turned[:, 0] + turned[:, 1] if block.number else turned.sum(axis=1)
        return expected


def draw_embedding(
    blocks: Sequence[Block],
    count: int,
    *,
    touching: Sequence[int],
    scales: Sequence[float],
    moments: float,
    clip: float,
    draw: np.random.Generator,
) -> Embedding:
    """Draws the frequencies.

    Sets of columns are taken in turn, so that every one of a size is touched equally often (up to one). Within them
    the numbers' frequencies are normal with deviation 1 / scale, of orthogonal directions: rows of random rotations,
    with the lengths of independent normal vectors (Yu et al., 2016).
    """
    d = len(blocks)
    touched = np.full((count, max(touching)), -1)
    for part, size in enumerate(touching):
        mine = np.arange(part, count, len(touching))
        size = min(size, d)
        touched[mine, :size] = _sets(d, size, len(mine), draw)
    frequencies, phases = np.zeros((count, d)), tuple(np.zeros((count, b.states)) for b in blocks)
    width = touched.shape[1]
    scale = np.asarray(scales)[draw.permutation(count) % len(scales)]
    directions = np.concatenate([_rotation(width, draw) for _ in range(-(-count // width))])[:count]
    lengths = np.sqrt(draw.chisquare(width, count))
    w = directions * (lengths / scale)[:, None]
    for slot in range(width):
        for c, block in enumerate(blocks):
            mine = np.flatnonzero(touched[:, slot] == c)
            if block.number:
                frequencies[mine, c] = w[mine, slot]
            if block.states:
                phases[c][mine] = draw.uniform(0.0, 2 * np.pi, (len(mine), block.states))
    return Embedding(
        blocks=tuple(blocks), touched=touched, frequencies=frequencies, phases=phases, moments=moments, clip=clip
    )


def _sets(d: int, size: int, count: int, draw: np.random.Generator) -> Whole:
    """`count` sets of columns: all there are, equally often but for one; random ones if they are too many to list."""
    if math.comb(d, size) > 50_000:
        return np.sort(np.argsort(draw.random((count, d)), axis=1)[:, :size], axis=1)
    every = np.array(list(itertools.combinations(range(d), size)))
    return every[np.arange(count) * len(every) // count]


def _rotation(size: int, draw: np.random.Generator) -> Floats:
    q, r = np.linalg.qr(draw.standard_normal((size, size)))
    return q * np.sign(np.diag(r))
