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

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.graphical.junction_tree import Holders, MessagePasser, Node, Sums, shape_within
from understudy.graphical.marginals import Clique, Domain, Measured

Floats = NDArray[np.float64]
Pooled = Mapping[Clique, tuple[Floats, float]]
"""For each clique, noisy counts and the deviation of their noise."""
Axes = tuple[int, ...]
Places = NDArray[np.int64]
Potentials = Mapping[tuple[Clique, int], Floats]
"""For each measured clique and block size, the potentials of its blocks, flat."""

# A count is never taken to be sharper than half a row: that would cost many steps and change nothing that can be seen.
SMALLEST_SIGMA = 0.5
# No cell of q holds less than this share of the rows, so that its logarithm exists.
SMALLEST_SHARE = 1e-9


# Pooling ------------------------------------------------------------------------------------------------------------


def pool(domain: Domain, measured: Sequence[Measured]) -> dict[Clique, tuple[Floats, float]]:
    """The measured marginals in the domain's order; those of one clique are averaged, weighted by their precision."""
    sums: dict[Clique, tuple[Floats, float]] = {}
    for each in measured:
        clique = domain.ordered(each.clique)
        counts = np.transpose(each.counts, [each.clique.index(name) for name in clique])
        weight = max(each.sigma, SMALLEST_SIGMA) ** -2
        total, precision = sums.get(clique, (np.zeros(counts.shape), 0.0))
        sums[clique] = total + weight * counts, precision + weight
    return {clique: (total / precision, precision**-0.5) for clique, (total, precision) in sums.items()}


def make_consistent(domain: Domain, pooled: Pooled, rows: float) -> dict[Clique, tuple[Floats, float]]:
    """The same marginals, made to agree on the number of rows and on every single column.

    The counts of a single column are pooled from all marginals that hold it, weighted by precision: least squares as
    far as single columns go. Without this, marginals that disagree would hold large potentials against each other.
    """
    sums = {name: (np.zeros(size), 0.0) for name, size in domain.sizes.items()}
    for clique, (counts, sigma) in pooled.items():
        for axis, name in enumerate(clique):
            own = _margin(counts, axis)
            weight = len(own) / (sigma**2 * counts.size)
            total, precision = sums[name]
            sums[name] = total + weight * own, precision + weight
    singles = {}
    for name, (total, precision) in sums.items():
        if precision > 0:
            counts = total / precision + (rows - total.sum() / precision) / len(total)
            counts = np.maximum(counts, precision**-0.5 / 4)  # a quarter of the noise may be in an empty cell
            singles[name] = counts * (rows / counts.sum())
    found = {}
    for clique, (counts, sigma) in pooled.items():
        agreed = counts + (rows - counts.sum()) / counts.size
        for axis, name in enumerate(clique):
            gap = (singles[name] - _margin(agreed, axis)) * (len(singles[name]) / counts.size)
            agreed = agreed + gap.reshape(shape_within(domain, (name,), clique))
        found[clique] = agreed, sigma
    return {**{(name,): (counts, sums[name][1] ** -0.5) for name, counts in singles.items()}, **found}


def _margin(counts: Floats, axis: int) -> Floats:
    return counts.sum(axis=tuple(i for i in range(counts.ndim) if i != axis))


# Terms --------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Term:
    """One pooled marginal on blocks of its cells, as the dual needs it.

    Attributes:
        clique: Its columns.
        block: Cells along a block; below 0, blocks are as they were counted.
        target: Shares that add up to 1, flat.
        sigma: The deviation of the noise of one cell's count.
        home: The node that holds the clique.
        shape: The shape in which the clique's array broadcasts against the home's.
        blocks: Along every axis of the clique, the first cell of each block and how many cells it has.
    """

    clique: Clique
    block: int
    target: Floats
    sigma: float
    home: int
    shape: tuple[int, ...]
    blocks: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]

    @classmethod
    def of_cells(
        cls,
        clique: Clique,
        counts: Floats,
        sigma: float,
        *,
        block: int,
        ordered: Mapping[str, int],
        rows: float,
        domain: Domain,
        nodes: Sequence[Node],
        holders: Holders,
    ) -> "Term":
        """A marginal that was counted cell by cell, seen in blocks of one size."""
        blocks = tuple(_blocks(domain.sizes[name], ordered.get(name, 0), block) for name in clique)
        shares = counts / rows
        for axis, (starts, _) in enumerate(blocks if block > 1 else ()):
            shares = np.add.reduceat(shares, starts, axis=axis)
        shares = shares.ravel() + (1.0 - shares.sum()) / shares.size  # as probabilities, they add up to 1
        return cls(clique, block, shares, sigma, *_home(clique, domain, nodes, holders), blocks)

    @classmethod
    def of_blocks(
        cls,
        measured: Measured,
        pooled: Pooled,
        *,
        rows: float,
        domain: Domain,
        nodes: Sequence[Node],
        holders: Holders,
    ) -> "Term":
        """A marginal that was counted in blocks, made to agree with the single columns."""
        clique, counts = measured.clique, measured.counts
        counts = counts + (rows - counts.sum()) / counts.size
        for axis, (name, starts) in enumerate(zip(clique, measured.starts, strict=True)):
            if (name,) in pooled:
                single = np.add.reduceat(pooled[(name,)][0], starts)
                gap = (single - _margin(counts, axis)) * (len(single) / counts.size)
                counts = counts + gap.reshape([-1 if i == axis else 1 for i in range(counts.ndim)])
        lengths = [np.diff(np.append(s, domain.sizes[name])) for name, s in zip(clique, measured.starts, strict=True)]
        blocks = tuple(zip(measured.starts, lengths, strict=True))
        sigma = max(measured.sigma, SMALLEST_SIGMA)
        return cls(clique, -counts.size, counts.ravel() / rows, sigma, *_home(clique, domain, nodes, holders), blocks)

    def block_of_cell(self) -> NDArray[np.int64]:
        """The block of every cell of the clique, flat."""
        place = np.zeros((), np.int64)
        for _, lengths in self.blocks:
            own = np.repeat(np.arange(len(lengths)), lengths)
            place = np.add.outer(place * len(lengths), own)
        return place.ravel()


def _home(clique: Clique, domain: Domain, nodes: Sequence[Node], holders: Holders) -> tuple[int, Axes]:
    """The smallest node that holds a clique, and the clique's shape in it."""
    home = holders.smallest(clique)
    assert home is not None  # the tree was made for all cliques
    return home, shape_within(domain, clique, nodes[home].clique)


def block_sizes(clique: Clique, ordered: Mapping[str, int]) -> list[int]:
    """1, and 2, 4, ... while some column of the clique has more than two blocks of that size."""
    longest = max((ordered.get(name, 0) for name in clique), default=0) if len(clique) > 1 else 0
    return [1, *(2**i for i in range(1, 30) if longest > 2 * 2**i)]


def _blocks(size: int, ordered: int, block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where blocks along an axis begin, and how long they are; each cell that is not ordered is a block by itself."""
    starts = np.concatenate([np.arange(0, ordered, block), np.arange(ordered, size)]).astype(np.int64)
    return starts, np.diff(np.append(starts, size))


# The dual -----------------------------------------------------------------------------------------------------------


class Dual:
    """D as a function of one flat vector: all potentials, each in units of the root of its curvature.

    The curvature of the dual along one potential is about p + c σ / n, so that in these units all are alike.
    """

    def __init__(
        self,
        domain: Domain,
        nodes: Sequence[Node],
        pooled: Pooled,
        terms: Sequence[Term],
        *,
        rows: float,
        shrinkage: float,
    ):
        self._passer = MessagePasser(domain, nodes)
        self._base = _log_independent(domain, pooled, nodes)
        ends = np.cumsum([0, *(term.target.size for term in terms)])
        self._parts = list(zip(terms, itertools.starmap(slice, itertools.pairwise(ends)), strict=True))
        self.size = int(ends[-1])
        self._target = _joined([term.target for term in terms])
        # Every potential's ridge, and its unit.
        self._ridge = _joined([np.full(term.target.size, max(shrinkage, 1e-6) * term.sigma / rows) for term in terms])
        floor = _joined([np.full(term.target.size, 0.25 / term.target.size) for term in terms])
        self._scale = np.sqrt(np.maximum(self._target, floor) + self._ridge)
        # Cells of all measured cliques, one after another, and which potentials each cell has: all at once, because
        # there may be thousands of small cliques.
        self._homes: list[tuple[Term, slice, int]] = []
        self._sums = Sums(domain, [node.clique for node in nodes])
        cell, potential, count = list[Places](), list[Places](), 0
        for clique, group in itertools.groupby(self._parts, key=lambda part: part[0].clique):
            at = slice(count, count + domain.size(clique))
            term = None
            for term, own in group:
                cell.append(np.arange(at.start, at.stop))
                potential.append(term.block_of_cell() + own.start)
            if term is not None:
                self._homes.append((term, at, self._sums.down_to(term.home, clique)))
            count = at.stop
        self._cell_of, self._potential_of, self._count = _joined_places(cell), _joined_places(potential), count

    def __call__(self, x: Floats) -> tuple[float, Floats]:
        """The value and the gradient."""
        marginals, _, value = self._passer.run(self._on_nodes(x))
        sums, cells = self._sums.run(marginals), np.empty(self._count)
        for _, at, place in self._homes:
            cells[at] = sums[place].ravel()
        gap = np.bincount(self._potential_of, cells[self._cell_of], self.size) - self._target
        potential = x / self._scale
        value += float(potential @ (self._ridge * potential / 2 - self._target))
        return value, (gap + self._ridge * potential) / self._scale

    def vector(self, potentials: Potentials) -> Floats:
        """The vector of given potentials; 0 for those that are not given."""
        x = np.zeros(self.size)
        for term, at in self._parts:
            if (term.clique, term.block) in potentials:
                x[at] = potentials[term.clique, term.block] * self._scale[at]
        return x

    def potentials(self, x: Floats) -> Potentials:
        """The potentials of a vector."""
        return {(term.clique, term.block): x[at] / self._scale[at] for term, at in self._parts}

    def distributions(self, x: Floats) -> tuple[list[Floats], list[Floats]]:
        """The marginals and conditionals of every node."""
        marginals, conditionals, _ = self._passer.run(self._on_nodes(x))
        return marginals, conditionals

    def _on_nodes(self, x: Floats) -> list[Floats]:
        """log q and all potentials, added up on the nodes of the tree."""
        total = [part.copy() for part in self._base]
        cells = np.bincount(self._cell_of, (x / self._scale)[self._potential_of], self._count)
        for term, at, _ in self._homes:
            total[term.home] += cells[at].reshape(term.shape)
        return total


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate([np.zeros(0), *parts])


def _joined_places(parts: Sequence[Places]) -> Places:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _log_independent(domain: Domain, pooled: Pooled, nodes: Sequence[Node]) -> list[Floats]:
    """log q: the logarithm of each single column, in the node that adds the column to the tree."""
    potentials = [np.zeros(domain.shape(node.clique)) for node in nodes]
    for node, potential in zip(nodes, potentials, strict=True):
        for name in node.residual:
            if (name,) in pooled:
                shares = pooled[(name,)][0]
                shares = np.maximum(shares / shares.sum(), SMALLEST_SHARE)
                potential += np.log(shares).reshape(shape_within(domain, (name,), node.clique))
    return potentials
