"""What row maps draw: uniform numbers that go by the number of a row in its table.

The one rule: row i has the words i · draws to (i + 1) · draws of the stream that belongs to its map's key. So a row has
the same numbers whichever rows are read with it, and one row more at the end leaves those of all others as they are.
"""

# pyright: strict

import dataclasses

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.piecewise import Floats
from understudy.privacy.row_maps import LevelBin, MissingScore, NormalScore, OneHot, RowMap


def draws(row_map: RowMap) -> int:
    """How many uniform numbers a map uses for each row."""
    match row_map:
        case NormalScore():
            return (not row_map.nullable) + row_map.spread
        case MissingScore():
            return int(row_map.spread)
        case LevelBin() | OneHot():
            return int(not row_map.nullable)
        case _:
            return 0


@dataclasses.dataclass(eq=False, repr=False)
class RowUniforms:
    """The uniform numbers of some rows of a table, drawn if somebody asks for them: most maps do for few rows.

    Attributes:
        first: The number of a row in its table.
        at: How far after that row each of some rows comes; None for all rows from there on.
        rows: How many rows.
    """

    row_map: RowMap
    first: int
    rows: int
    at: NDArray[np.int64] | None = None
    _drawn: Floats | None = None

    def __getitem__(self, number: int) -> Floats:
        """Number i of every row."""
        if self._drawn is None:
            self._drawn = self._draw()
        return self._drawn[number]

    def _draw(self) -> Floats:
        if self.at is None or not len(self.at):
            return uniforms(self.row_map, self.first, self.rows)
        start, end = int(self.at.min()), int(self.at.max())
        return uniforms(self.row_map, self.first + start, end - start + 1)[:, self.at - start]


def uniforms(row_map: RowMap, first: int, rows: int) -> Floats:
    """The uniform numbers of so many rows, of which the first has this number in its table: (draws, rows)."""
    each = draws(row_map)
    if not isinstance(row_map, NormalScore | MissingScore | LevelBin | OneHot) or not each:
        return np.zeros((0, rows))
    words = row_map.key.sealed().words(each * rows, start=each * first)
    return np.ascontiguousarray(((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(rows, each).T)
