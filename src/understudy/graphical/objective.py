"""The objective of a graphical model: what it minimises, as a function of its potentials, and its gradient.

The model is p(x) ∝ q(x) · exp(Σ_m λ_m(x_m)): q is the product of the single columns that were measured, and every
measured clique m has an array of potentials λ_m. With n rows, noisy counts y_m of deviation σ_m and p_m the marginals
of p, the model minimises

    n KL(p ‖ q)  +  Σ_m ‖ n p_m - y_m ‖² / (2 c σ_m).

The dual of this is smooth, convex and free of constraints; `Dual` computes it:

    D(λ) = log Z(λ) - Σ_m ⟨λ_m, y_m / n⟩ + Σ_m c σ_m / (2n) · ‖λ_m‖²,    ∇_m D = p_m - y_m / n + c σ_m λ_m / n.

So λ_m = (y_m - n p_m) / (c σ_m): a cell that is to be e^λ times as heavy as under q is missed by c λ deviations of its
noise, and a cell whose count is within the noise of what q says stays near q. `shrinkage` is c. As c → 0 this is
Private-PGM: the distribution nearest to q among those that fit best.

If the cells of a column are ordered (numbers), m also runs over the sums of blocks of 2 × 2, 4 × 4, ... cells of the
same counts, with the same σ. They add no information but weight: what many neighbouring cells have in common is
believed sooner than what one cell shows alone.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn.

Sources: McKenna, Sheldon, Miklau (2019), arXiv:1901.09136, "Graphical-model based estimation and inference for
differential privacy"; Dudík, Phillips, Schapire (2007), "Maximum entropy density estimation with generalized
regularization and an application to species distribution modeling", for the dual.

Departures:
- c > 0, and blocks. Mirror descent that is stopped early also stays near independent columns, without saying how near.
- One value and gradient is one pass over the junction tree in float64 NumPy, not a compiled program: cliques change
  from fit to fit, and compiling for each takes seconds (4 for a chain of 8 columns of 22 cells).
"""

import functools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.graphical.blocks import Blocks
from understudy.graphical.junction_tree import Holders, Node
from understudy.graphical.marginals import Clique, Domain, Measured
from understudy.graphical.messages import MessagePasser, Sums, shape_within
from understudy.graphical.pooling import SMALLEST_SIGMA, Pooled, margin

Floats = NDArray[np.float64]
Places = NDArray[np.int64]
Potentials = Mapping[tuple[Clique, int], Floats]
"""For each measured clique and block size, the potentials of its blocks, flat."""

# No cell of q holds less than this share of the rows, so that its logarithm exists.
SMALLEST_SHARE = 1e-9
# Cells of nodes with at most this many are added up all at once, by their places.
SMALL_NODE = 1024


class Dual:
    """D as a function of one flat vector: all potentials, each in units of the root of its curvature.

    The curvature of the dual along one potential is about p + c σ / n, so that in these units all are alike.

    Args:
        pooled: The measured marginals, which agree on single columns.
        in_blocks: Marginals that were counted in blocks; they are made to agree here.
        ordered: For each column whose neighbouring cells are alike, how many cells, from the first, are ordered.
        base: log q on every node, if q is not the product of single columns.
    """

    def __init__(
        self,
        domain: Domain,
        nodes: Sequence[Node],
        pooled: Pooled,
        in_blocks: Sequence[Measured] = (),
        *,
        ordered: Mapping[str, int],
        rows: float,
        shrinkage: float,
        base: Sequence[Floats] | None = None,
    ):
        self._passer = MessagePasser(domain, nodes)
        self._base = _log_independent(domain, pooled, self._passer)
        for array, given in zip(self._passer.arrays(self._base), base or (), strict=base is not None):
            array[...] = given
        self._blocks = blocks = Blocks(domain, list(pooled), ordered, in_blocks)
        self._cells = CellsOnNodes(domain, self._passer, blocks.cliques)
        own = [pooled[clique] for clique, _ in blocks.cliques[: len(pooled)]]
        shares = [counts.ravel() / rows for counts, _ in own]
        agreed = [_agreed(each, pooled, rows).ravel() / rows for each in in_blocks]
        targets = blocks.sums(np.concatenate([*shares, np.zeros(blocks.cells - sum(map(len, shares)))]))
        self._target = np.concatenate([targets[: blocks.size - sum(map(len, agreed))], *agreed])
        # Every potential's ridge, and its unit.
        sigmas = [sigma for _, sigma in own] + [max(each.sigma, SMALLEST_SIGMA) for each in in_blocks]
        sizes = np.array([size for _, size in blocks.terms], np.int64)
        ridges = np.array([max(shrinkage, 1e-6) * sigmas[number] / rows for number, _ in blocks.terms])
        self._ridge = np.repeat(ridges, sizes)
        self._scale = np.sqrt(np.maximum(self._target, np.repeat(0.25 / sizes, sizes)) + self._ridge)

    @property
    def size(self) -> int:
        """How many potentials there are."""
        return self._blocks.size

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        """The value and the gradient."""
        potentials = x / self._scale
        marginals, value = self._passer.marginals(self._on_nodes(potentials))
        gradient = self._blocks.sums(self._cells.sums(marginals))
        gradient -= self._target
        ridges = self._ridge * potentials
        value += float(potentials @ (ridges / 2 - self._target))
        gradient += ridges
        gradient /= self._scale
        return value, gradient

    def vector(self, potentials: Potentials) -> Floats:
        """The vector of given potentials; 0 for those that are not given."""
        x = np.zeros(self.size)
        for term, at in self._blocks.potentials.items():
            if (known := potentials.get(term)) is not None:
                x[at] = known
        return x * self._scale

    def potentials(self, x: Floats) -> Potentials:
        """The potentials of a vector."""
        found = x / self._scale
        return {term: found[at] for term, at in self._blocks.potentials.items()}

    def distributions(self, x: Floats) -> tuple[list[Floats], list[Floats]]:
        """The marginals and conditionals of every node."""
        marginals, conditionals, _ = self._passer.run(self._passer.arrays(self._on_nodes(x / self._scale)))
        return marginals, conditionals

    def take_out(self, x: Floats) -> None:
        """Takes potentials out of q, for a q that they are part of."""
        self._base -= self._on_nodes(x / self._scale) - self._base

    def _on_nodes(self, potentials: Floats) -> Floats:
        """log q and all potentials, added up on the nodes of the tree."""
        total = self._base.copy()
        self._cells.add(self._blocks.on_cells(potentials), total)
        return total


class CellsOnNodes:
    """Where the cells of measured cliques lie on the nodes of a junction tree: each in the smallest that holds it.

    Args:
        cliques: Every clique, and the place of its cells in a vector of all cells.
    """

    def __init__(self, domain: Domain, passer: MessagePasser, cliques: Sequence[tuple[Clique, slice]]):
        self._passer, self._count = passer, cliques[-1][1].stop if cliques else 0
        holders, nodes = Holders(domain, passer.nodes), passer.nodes
        self._sums = Sums(domain, [node.clique for node in nodes])
        self._large: list[tuple[int, slice, tuple[int, ...], int]] = []  # node, cells, their shape in it, sum
        node_cells, clique_cells = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        self._small = max((at.stop for at in passer.at if at.stop - at.start <= SMALL_NODE), default=0)
        for clique, at in cliques:
            home = holders.smallest(clique)
            assert home is not None  # the tree was made for all cliques
            own, place = nodes[home].clique, passer.at[home]
            if place.stop <= self._small:
                node_cells.append(np.arange(place.start, place.stop))
                axes = tuple(own.index(name) for name in clique)
                clique_cells.append(_cells_within(passer.shapes[home], axes) + at.start)
            else:
                summed = self._sums.down_to(home, clique)
                self._large.append((home, at, shape_within(domain, clique, own), summed))
        self._node_cells, self._clique_cells = np.concatenate(node_cells), np.concatenate(clique_cells)

    def add(self, cells: Floats, vector: Floats) -> None:
        """Adds numbers of cells to a vector of all nodes, wherever they lie."""
        if self._small:
            vector[: self._small] += np.bincount(self._node_cells, cells[self._clique_cells], self._small)
        for node, at, shape, _ in self._large:
            array = vector[self._passer.at[node]].reshape(self._passer.shapes[node])
            array += cells[at].reshape(shape)

    def sums(self, vector: Floats) -> Floats:
        """The sums of a vector of all nodes in every cell."""
        found = np.zeros(self._count)
        if self._small:
            found += np.bincount(self._clique_cells, vector[self._node_cells], self._count)
        if self._large:
            sums = self._sums.run(self._passer.arrays(vector))
            for _, at, _, place in self._large:
                found[at] = sums[place].ravel()
        return found


@functools.lru_cache(maxsize=4096)
def _cells_within(shape: tuple[int, ...], axes: tuple[int, ...]) -> Places:
    """For every cell of an array, the number of its cell along some axes."""
    place = np.zeros([1] * len(shape), np.int64)
    for axis in axes:
        place = place * shape[axis] + np.arange(shape[axis]).reshape(
            [-1 if i == axis else 1 for i in range(len(shape))]
        )
    return np.broadcast_to(place, shape).ravel()


def _agreed(measured: Measured, pooled: Pooled, rows: float) -> Floats:
    """The counts of a marginal that was counted in blocks, made to agree with the single columns."""
    counts = measured.counts + (rows - measured.counts.sum()) / measured.counts.size
    for axis, (name, starts) in enumerate(zip(measured.clique, measured.starts, strict=True)):
        if (name,) in pooled:
            single = np.add.reduceat(pooled[(name,)][0], starts)
            gap = (single - margin(counts, axis)) * (len(single) / counts.size)
            counts = counts + gap.reshape([-1 if i == axis else 1 for i in range(counts.ndim)])
    return counts


def _log_independent(domain: Domain, pooled: Pooled, passer: MessagePasser) -> Floats:
    """log q: the logarithm of each single column, in the node that adds the column to the tree."""
    potentials = np.zeros(passer.size)
    for node, potential in zip(passer.nodes, passer.arrays(potentials), strict=True):
        for name in node.residual:
            if (name,) in pooled:
                shares = pooled[(name,)][0]
                shares = np.maximum(shares / shares.sum(), SMALLEST_SHARE)
                potential += np.log(shares).reshape(shape_within(domain, (name,), node.clique))
    return potentials
