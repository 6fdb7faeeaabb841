"""Blocks: a column's neighbouring bins joined to coarse cells. Public facts alone."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.bins import Bins
from understudy.graphical.marginals import blocks_of_bins

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class Blocks:
    """One column in blocks of neighbouring bins.

    Attributes:
        starts: The bin that every block begins with.
        of_bins: The block of every bin.
    """

    starts: Codes
    of_bins: Codes

    @classmethod
    def of(cls, bins: Bins, size: int, z: Floats | None = None) -> "Blocks":
        """At most `size` blocks of about even mass, as `block_starts` makes them."""
        starts = block_starts(bins, size, z)
        return cls(starts, blocks_of_bins(starts, bins.size))


def block_starts(bins: Bins, size: int, z: Floats | None = None) -> Codes:
    """The bins that at most `size` blocks of neighbouring bins begin with, of about even mass; missing is its own.

    If z-scores are given, the mass of a bin is half rows and half squares, so that the few bins that hold most of a
    column's variance get blocks of their own.
    """
    masses = np.diff(bins.edges)
    if z is not None:
        masses = masses * (1 + z[: len(masses)] ** 2) / 2
    inside = max(size - bins.nullable, 1)
    middle = (np.cumsum(masses) - masses / 2) / max(float(masses.sum()), 1e-300)
    group = np.floor(np.clip(middle, 0.0, 1 - 1e-9) * inside) if len(masses) > inside else np.arange(len(masses))
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    return np.append(starts, len(masses)) if bins.nullable else starts


def even_sizes(sizes: Sequence[int], limit: float) -> list[int]:
    """A number of blocks for each column, as even as their bins allow, whose product fits into `limit`."""
    found = [1] * len(sizes)
    order = sorted(range(len(sizes)), key=lambda i: sizes[i])
    for left, i in zip(range(len(sizes), 0, -1), order, strict=True):
        found[i] = max(1, min(sizes[i], int(limit ** (1 / left) + 1e-9)))
        limit /= found[i]
    return found


def in_blocks(counts: Floats, blocks: Sequence[Blocks]) -> Floats:
    """Counts of blocks from counts of bins; unchanged if there are no blocks."""
    for axis, each in enumerate(blocks):
        counts = np.add.reduceat(counts, each.starts, axis=axis)
    return counts
