"""Which rows of a synthetic table are nearest to somebody's row, by all columns, by some, and by all but one.

The squared distance of two rows is a sum over columns: of squared differences for numbers, in deviations of the
synthetic column and at most `FARTHEST` each; 1 for two categories that differ, and for a missing and a present value.
Distances are computed for some rows at a time, so that memory stays bounded.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.evaluation.pair import Side, location_and_deviation

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]

FARTHEST = 10.0
"""Two numbers are at most this many deviations apart, so that one column cannot drown the others."""
DISTANCES_AT_ONCE = 2**24
"""So many distances are in memory at a time."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Neighbours:
    """What of a synthetic table is near to each of some rows.

    Attributes:
        distances: To the nearest synthetic row.
        linked: Whether one synthetic row is among the nearest by the first part of the columns and by the second.
        without: For each column, the nearest synthetic row by all others.
    """

    distances: NDArray[np.float64]
    linked: NDArray[np.bool_]
    without: dict[str, Whole]


def neighbours(rows: Side, synthetic: Side, *, parts: tuple[Sequence[str], Sequence[str]], nearest: int) -> Neighbours:
    """Looks for the nearest synthetic rows of each row.

    Args:
        parts: Two parts of the columns, of which somebody knows one and somebody else the other.
        nearest: How many of the nearest rows count for `linked`.
    """
    own, others = _Scaled(rows, synthetic), _Scaled(synthetic, synthetic)
    names, size = own.names, max(1, DISTANCES_AT_ONCE // synthetic.rows)
    found: list[Neighbours] = []
    for start in range(0, rows.rows, size):
        chunk = slice(start, start + size)
        total = np.zeros((min(size, rows.rows - start), synthetic.rows), np.float32)
        first = np.zeros_like(total)
        for name in names:
            squares = own.squares(others, name, chunk)
            total += squares
            if name in parts[0]:
                first += squares
        without = {name: (total - own.squares(others, name, chunk)).argmin(axis=1) for name in names}
        linked = _meet(_nearest(first, nearest), _nearest(total - first, nearest))
        distances = np.sqrt(total.min(axis=1).astype(np.float64))
        found.append(Neighbours(distances=distances, linked=linked, without=without))
    return Neighbours(
        distances=np.concatenate([each.distances for each in found]),
        linked=np.concatenate([each.linked for each in found]),
        without={name: np.concatenate([each.without[name] for each in found]) for name in names},
    )


class _Scaled:
    """The columns of a table on the scale of the synthetic one; a missing number is NaN."""

    def __init__(self, side: Side, scale: Side):
        self.names = [*side.numbers, *side.codes]
        self._codes = side.codes
        self._numbers: dict[str, Floats] = {}
        for name, column in side.numbers.items():
            centre, deviation = location_and_deviation(scale.numbers[name])
            self._numbers[name] = ((column - centre) / deviation).astype(np.float32)

    def squares(self, others: "_Scaled", name: str, chunk: slice) -> Floats:
        """Squared distances by one column, (rows of the chunk, rows of the others)."""
        if name in self._codes:
            return (self._codes[name][chunk, None] != others._codes[name][None, :]).astype(np.float32)
        one, other = self._numbers[name][chunk, None], others._numbers[name][None, :]
        with np.errstate(invalid="ignore", over="ignore"):
            squares = np.minimum((one - other) ** 2, np.float32(FARTHEST**2))
        if np.isnan(one).any() or np.isnan(other).any():
            differ = (np.isnan(one) != np.isnan(other)).astype(np.float32)
            squares = np.where(np.isnan(squares), differ, squares)
        return squares


def _nearest(distances: Floats, count: int) -> Whole:
    """The columns of the smallest entries of each row."""
    if count >= distances.shape[1]:
        return np.tile(np.arange(distances.shape[1]), (len(distances), 1))
    return np.argpartition(distances, count - 1, axis=1)[:, :count]


def _meet(one: Whole, other: Whole) -> NDArray[np.bool_]:
    """Whether two lists have an entry in common, for each row."""
    return (one[:, :, None] == other[:, None, :]).any(axis=(1, 2))
