"""Partitions of a number column: where the first counts look, and where the next ones look closer.

Public mathematics: what comes in are facts of the schema, and counts that already carry noise.

A partition is its ascending edges; bin i is [edges[i], edges[i + 1]). A value that a column repeats (an atom) is a
bin one float wide, [a, nextafter(a)). Integers live between half-integers, so that every whole number is a bin.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.piecewise import LARGEST, Floats

# The first grid has an edge at every power of two between these, positive and negative.
SMALLEST_OCTAVE, LARGEST_OCTAVE = -20, 60
# These values have bins of their own in the first grid, declared or not.
ALWAYS_LOOKED_AT = (-1.0, 0.0, 1.0)

# A bin with more rows than this many deviations of the noise is split. These three were chosen on real tables, see
# docs/design-notes.md.
OCCUPIED = 2.0
# Each part of a split bin should hold this many deviations of the noise.
ROWS_PER_PART = 5.0
# A bin is split into at most this many parts.
MOST_PARTS = 32


def next_float(x):
    return np.nextafter(x, np.inf)


def starting_edges(
    *, low: float | None, high: float | None, integer: bool, atoms: Sequence[float] | Floats, octaves: int
) -> Floats:
    """The data-independent grid of the first round: powers of two over all floats, cut to the bounds.

    Args:
        octaves: Doublings that one bin spans, see `octaves_for`.
    """
    powers = 2.0 ** np.arange(0 if integer else SMALLEST_OCTAVE, LARGEST_OCTAVE + 1, octaves)
    singles = np.array([*ALWAYS_LOOKED_AT, *atoms, *(b for b in (low, high) if b is not None)])
    first = -LARGEST if low is None else low
    last = LARGEST if high is None else high
    if integer:
        edges = np.concatenate([-powers + 0.5, powers - 0.5, singles - 0.5, singles + 0.5])
        first, last = first - 0.5, last + 0.5
    else:
        edges = np.concatenate([-powers, powers, singles, next_float(singles)])
        last = next_float(last) if high is not None else last
    edges = edges[(edges > first) & (edges < last)]
    return np.unique(np.concatenate([[first], edges, [last]]))


def octaves_for(noise: float, rows: float, *, bounded: bool = False) -> int:
    """How many doublings a bin of the first round spans: 1, 2 or 4.

    The larger the noise beside the number of rows, the wider, so that a small group far from the rest falls into
    one bin and stands out. Between bounds there are few bins, so that 2 are enough, and a long tail is seen better.
    """
    return int(2 ** np.clip(np.ceil(np.log2(noise / rows / 0.0015)), 0, 1 if bounded else 2))


def is_geometric(a, b):
    """Whether bins [a, b) are so wide that their inside is best measured in doublings."""
    near, far = np.minimum(np.abs(a), np.abs(b)), np.maximum(np.abs(a), np.abs(b))
    return (np.sign(a) * np.sign(b) > 0) & (far > 2.001 * near) & (near >= 2.0**SMALLEST_OCTAVE) & (far < LARGEST)


def inner_points(a: float, b: float, parts: int) -> Floats:
    """`parts` + 1 points from a to b, evenly spaced or, over more than a doubling, evenly in the logarithm."""
    if is_geometric(a, b):
        return np.sign(a) * np.geomspace(abs(a), abs(b), parts + 1)
    return np.linspace(a, b, parts + 1)


def split_bin(a: float, b: float, parts: int, *, integer: bool) -> list[float]:
    """The lower edges of the parts of one bin; a bin that cannot be divided stays whole."""
    narrow = b - a < 1.5 if integer else b <= next_float(a)
    if parts < 2 or narrow or max(abs(a), abs(b)) >= LARGEST:
        return [a]
    points = inner_points(a, b, parts)[1:-1]
    points = np.floor(points) + 0.5 if integer else points
    return [a, *np.unique(points[(points > a) & (points < b)]).tolist()]


def refine(
    edges: Floats, masses: Floats, *, noise_so_far: float, noise_ahead: float, integer: bool
) -> tuple[Floats, NDArray[np.int64]]:
    """Splits every bin that is surely occupied into parts that the noise still to come can tell apart.

    Returns:
        The finer edges, and for every new bin the index of the bin it came from.
    """
    new: list[float] = []
    parents: list[int] = []
    for i, mass in enumerate(masses):
        parts = 1
        if mass > OCCUPIED * noise_so_far:
            parts = int(np.clip(mass // (ROWS_PER_PART * noise_ahead), 1, MOST_PARTS))
        lower = split_bin(edges[i], edges[i + 1], parts, integer=integer)
        new += lower
        parents += [i] * len(lower)
    return np.array([*new, edges[-1]]), np.array(parents)
