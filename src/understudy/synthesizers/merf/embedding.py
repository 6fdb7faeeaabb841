"""How the public embedding of DP-MERF is drawn, and what it expects of independent columns. Public facts alone."""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.encoder import Encoder
from understudy.encoding.features import category_count
from understudy.privacy.embedding import EmbeddedColumn, Embedding
from understudy.privacy.normal_scores import mean_score

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


def embedded_column(encoder: Encoder, name: str) -> EmbeddedColumn:
    """A column's features, as `encoding.features` lists them."""
    column_map = encoder.columns[name]
    missing = column_map.missing
    if column_map.labels is None:
        return EmbeddedColumn(name, True, (1.0 - missing, missing) if category_count(encoder, name) else (), ())
    cdf = column_map.distribution.cdf
    present = np.diff(cdf) * (1.0 - missing)
    middle = mean_score(np.clip(cdf[:-1], 1e-6, 1 - 1e-6), np.clip(cdf[1:], 1e-6, 1 - 1e-6))
    nullable = column_map.column.nullable
    shares, scores = ((*present, missing), (*middle, 0.0)) if nullable else ((*present,), (*middle,))
    return EmbeddedColumn(name, False, shares, scores)


def independent_features(embedding: Embedding) -> NDArray[np.complex128]:
    """E e^{iA} if all columns were independent: E e^{iwx} = exp(-w²/2) for a score, Σ share e^{iθ} for categories."""
    expected = np.ones(len(embedding.touched), dtype=np.complex128)
    for c, column in enumerate(embedding.columns):
        mine = embedding.touching[c]
        number = np.exp(-(embedding.frequencies[mine, c] ** 2) / 2)
        if not column.categories:
            expected[mine] *= number
            continue
        turned = np.exp(1j * embedding.phases[c][mine]) * np.asarray(column.shares)
        expected[mine] *= number * turned[:, 0] + turned[:, 1] if column.number else turned.sum(axis=1)
    return expected


def draw_embedding(
    columns: Sequence[EmbeddedColumn],
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
    d = len(columns)
    touched = np.full((count, max(touching)), -1)
    for part, size in enumerate(touching):
        mine = np.arange(part, count, len(touching))
        size = min(size, d)
        touched[mine, :size] = _sets(d, size, len(mine), draw)
    frequencies, phases = np.zeros((count, d)), tuple(np.zeros((count, column.categories)) for column in columns)
    width = touched.shape[1]
    scale = np.asarray(scales)[draw.permutation(count) % len(scales)]
    directions = np.concatenate([_rotation(width, draw) for _ in range(-(-count // width))])[:count]
    lengths = np.sqrt(draw.chisquare(width, count))
    w = directions * (lengths / scale)[:, None]
    for slot in range(width):
        for c, column in enumerate(columns):
            mine = np.flatnonzero(touched[:, slot] == c)
            if column.number:
                frequencies[mine, c] = w[mine, slot]
            if column.categories:
                phases[c][mine] = draw.uniform(0.0, 2 * np.pi, (len(mine), column.categories))
    return Embedding(
        columns=tuple(columns), touched=touched, frequencies=frequencies, phases=phases, moments=moments, clip=clip
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
