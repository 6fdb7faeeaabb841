"""Blocks: which potentials every cell of the measured cliques has.

If the cells of a column are ordered, a measured clique has potentials not only of its cells but also of blocks of
2 × 2, 4 × 4, ... of them (`objective`). Blocks of one size are made of blocks of half that size, so that sums over all
of them take little longer than those of the smallest.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn.
"""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.graphical.marginals import Clique, Domain, Measured

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


class Blocks:
    """All potentials as one vector: those of cells, then those of blocks of 2 × 2, of 4 × 4, ..., each for all cliques.

    The cliques with the most sizes of blocks come first, so that those with blocks of some size are the first ones.

    Args:
        ordered: For each column whose neighbouring cells are alike, how many cells, from the first, are ordered.
        in_blocks: Marginals that were counted in blocks of their own. Their potentials come last.

    Attributes:
        cliques: Every clique, and the place of its cells in a vector of all cells; `in_blocks` at the end.
        potentials: The place of every clique's potentials by block size, which is below 0 for blocks as counted.
        terms: Of the potentials of one clique and block size after another, in the vector's order: the place of the
            clique in `cliques`, and how many there are.
        cells, size: How many cells and potentials there are.
    """

    def __init__(
        self, domain: Domain, cliques: Sequence[Clique], ordered: Mapping[str, int], in_blocks: Sequence[Measured] = ()
    ):
        shapes = {each: _folds(domain.shape(each), tuple(ordered.get(name, 0) for name in each)) for each in cliques}
        known = sorted(cliques, key=lambda clique: -len(shapes[clique]))
        self.cliques: list[tuple[Clique, slice]] = []
        self.potentials: dict[tuple[Clique, int], slice] = {}
        self.terms: list[tuple[int, int]] = []
        self.cells = self.size = 0
        self._levels: list[slice] = []  # the potentials of every size of blocks
        self._folds: list[Places] = []  # of every block of one size, the block of the next size that it lies in
        for level in range(1 + max((len(folds) for folds in shapes.values()), default=0)):
            self._add_level(level, domain, [clique for clique in known if len(shapes[clique]) >= level], shapes)
        self._cells_of_levels, self._own = self.cells, self.size
        places = [np.zeros(0, np.int64)]
        for each in in_blocks:
            places.append(_blocks_as_counted(domain, each) + (self.size - self._own))
            self.potentials[each.clique, -each.counts.size] = slice(self.size, self.size + each.counts.size)
            self.terms.append((len(self.cliques), each.counts.size))
            self.cliques.append((each.clique, slice(self.cells, self.cells + len(places[-1]))))
            self.size += each.counts.size
            self.cells += len(places[-1])
        self._as_counted = np.concatenate(places)

    def _add_level(
        self, level: int, domain: Domain, cliques: Sequence[Clique], shapes: Mapping[Clique, "Sequence[Fold]"]
    ) -> None:
        """The potentials of blocks of one size."""
        first, places = self.size, list[Places]()
        for number, clique in enumerate(cliques):
            if level:
                place, size = shapes[clique][level - 1]
                places.append(place + (self.size - first))
            else:
                size = domain.size(clique)
                self.cliques.append((clique, slice(self.size, self.size + size)))
            self.potentials[clique, 2**level] = slice(self.size, self.size + size)
            self.terms.append((number, size))
            self.size += size
        self._levels.append(slice(first, self.size))
        if level:
            self._folds.append(np.concatenate(places))
        else:
            self.cells = self.size

    def on_cells(self, potentials: Floats) -> Floats:
        """The sum of its potentials for every cell."""
        found = potentials[self._levels[-1]]
        for at, fold in zip(self._levels[-2::-1], reversed(self._folds), strict=True):
            above, found = found, potentials[at].copy()
            found[: len(fold)] += above[fold]
        if self.size > self._own:
            found = np.concatenate([found, potentials[self._own :][self._as_counted]])
        return found

    def sums(self, cells: Floats) -> Floats:
        """The sum of its cells for every potential."""
        found, finer = np.empty(self.size), self._levels[0]
        found[finer] = cells[: self._cells_of_levels]
        for at, fold in zip(self._levels[1:], self._folds, strict=True):
            found[at] = np.bincount(fold, found[finer][: len(fold)], at.stop - at.start)
            finer = at
        if self.size > self._own:
            found[self._own :] = np.bincount(self._as_counted, cells[self._cells_of_levels :], self.size - self._own)
        return found


Fold = tuple[Places, int]
"""Of every block of one size, the block of the next size that it lies in; and how many of these there are."""


@functools.lru_cache(maxsize=4096)
def _folds(shape: tuple[int, ...], ordered: tuple[int, ...]) -> Sequence[Fold]:
    """How cells are joined to blocks of 2 × 2, those to 4 × 4, ..., as long as some column has more than two blocks.

    A cell that is not ordered is a block by itself. Single columns have no blocks.
    """
    longest = max(ordered, default=0) if len(shape) > 1 else 0
    found = []
    for block in itertools.takewhile(lambda size: longest > 2 * size, (2**i for i in itertools.count(1))):
        place = np.zeros((), np.int64)
        for size, many in zip(shape, ordered, strict=True):
            finer, coarser = math.ceil(many / (block // 2)), math.ceil(many / block)
            own = np.concatenate([np.arange(finer) // 2, np.arange(coarser, coarser + size - many)])
            place = np.add.outer(place * (coarser + size - many), own)
        found.append(
            (place.ravel(), math.prod(math.ceil(m / block) + s - m for s, m in zip(shape, ordered, strict=True)))
        )
    return found


def _blocks_as_counted(domain: Domain, measured: Measured) -> Places:
    """The block of every cell of a clique that was counted in blocks."""
    place = np.zeros((), np.int64)
    for name, starts in zip(measured.clique, measured.starts, strict=True):
        own = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, domain.sizes[name])))
        place = np.add.outer(place * len(starts), own)
    return place.ravel()
