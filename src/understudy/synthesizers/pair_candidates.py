"""Pairs of columns that a graphical model may take in next, and what it says of them: for all pairs at once.

The one rule: no row comes here. These are functions of a model, which was made from releases, and of public numbers.

Whether a pair may be counted is a question of size. A pair that a clique holds costs nothing; one that joins two parts
of the graph adds its own cells; any other closes a loop. A loop can always be filled by adding the smaller column to
every clique on the way from one to the other, which bounds the size of the model from above for all pairs at once;
only pairs beyond that bound are worked out one by one (`model_sizes.ModelSizes`), if they are few.
"""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from understudy.graphical.marginals import Clique, Domain
from understudy.graphical.markov import MarkovModel
from understudy.graphical.model_sizes import ModelSizes

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# At most this many pairs are worked out one by one, and none in tables with more columns than the second number.
MOST_WORKED_OUT = 300
WIDEST_WORKED_OUT = 24


@dataclasses.dataclass(eq=False)
class OpenPairs:
    """Which pairs may be drawn in one batch, all drawn from one model.

    The pairs of a batch share no column, and no loop is closed through the same clique twice: what the model says of a
    pair is then hardly out of date when it is drawn, and sizes add up.

    Attributes:
        most_joining: The most cells the model may have after a pair that joins two parts of its graph.
        most: The same for other pairs.
    """

    model: MarkovModel
    held: set[Clique]
    most_joining: float
    most: float

    def __post_init__(self) -> None:
        domain, nodes = self.model.domain, self.model.nodes
        self._names, self._sizes = domain.names, np.array(domain.shape(domain.names), np.float64)
        self._cells = float(sum(marginal.size for marginal in self.model.marginals))
        self._home = np.array([self.model.first_node(name) for name in self._names])
        self._part = _parts(self._home, [(node.parent, len(node.separator)) for node in nodes])
        self._first_part = self._part.copy()
        self._free = np.ones(len(self._names), np.bool_)  # columns that no pair of the batch has
        self._crossed = np.zeros((len(self._names), len(self._names)), np.bool_)
        inside = np.eye(len(self._names), dtype=np.bool_)
        place = domain.places
        for node in nodes:
            at = [place[name] for name in node.clique]
            inside[np.ix_(at, at)] = True
        sizes = np.array([marginal.size for marginal in self.model.marginals], np.float64)
        filled = self._between(sizes) * np.minimum.outer(self._sizes, self._sizes)
        self._added = np.where(inside, 0.0, filled)
        joining = self._part[:, None] != self._part
        self._added = np.where(joining, np.outer(self._sizes, self._sizes), self._added)
        self._work_out(joining)

    def flags(self) -> Flags:
        """The open pairs, on the diagonal the columns alone; (columns, columns)."""
        limit = np.where(self._first_part[:, None] != self._first_part, self.most_joining, self.most)
        opened = (self._cells + self._added <= limit) | (self._added == 0.0)
        opened &= self._free[:, None] & self._free & ~self._crossed
        opened &= (self._first_part[:, None] == self._first_part) | (self._part[:, None] != self._part)
        return opened

    def take(self, i: int, j: int) -> None:
        """Draws a pair: what it touches is closed for the rest of the batch."""
        self._free[[i, j]] = False
        added = self._added[i, j]
        self._cells += added
        if self._part[i] != self._part[j]:
            self._part[self._part == self._part[j]] = self._part[i]
        elif added:
            weights = np.zeros(len(self.model.nodes))
            weights[self._way(i, j)] = 1.0
            loops = (self._first_part[:, None] == self._first_part) & (self._added > 0.0)
            self._crossed |= loops & (self._between(weights) > 0.0)

    def _work_out(self, joining: Flags) -> None:
        """Replaces the bound by the model's size, for pairs that exceed it."""
        beyond = np.argwhere(np.triu(~joining & (self._cells + self._added > self.most), 1))
        if len(self._names) > WIDEST_WORKED_OUT or not len(beyond):
            return
        nearest = beyond[np.argsort(self._added[beyond[:, 0], beyond[:, 1]], kind="stable")][:MOST_WORKED_OUT]
        sizes = ModelSizes(self.model.domain, self.held)
        for i, j in nearest.tolist():
            size = sizes.with_pair(i, j, self.most)
            self._added[i, j] = self._added[j, i] = max(min(self._added[i, j], size - self._cells), 1.0)

    def _between(self, weights: Floats) -> Floats:
        """The sum of the nodes' weights on the way from the node of one column to that of another, for all pairs."""
        nodes = self.model.nodes
        sums = np.zeros((len(nodes), len(nodes)))
        for i, node in enumerate(nodes):
            if node.parent >= 0:
                sums[i, :i] = sums[node.parent, :i] + weights[i]
                sums[:i, i] = sums[i, :i]
            sums[i, i] = weights[i]
        return sums[np.ix_(self._home, self._home)]

    def _way(self, i: int, j: int) -> list[int]:
        """The nodes from one column's to another's."""
        ends, found = [int(self._home[i]), int(self._home[j])], set[int]()
        while ends[0] != ends[1]:
            later = int(ends[1] > ends[0])  # parents come first
            found.add(ends[later])
            ends[later] = self.model.nodes[ends[later]].parent
        return [*found, ends[0]]


def _parts(home: NDArray[np.int64], nodes: list[tuple[int, int]]) -> NDArray[np.int64]:
    """For every column the connected part of the graph it is in, from each node's parent and shared columns."""
    part: list[int] = []
    for i, (parent, shared) in enumerate(nodes):
        part.append(part[parent] if shared else i)
    return np.array(part)[home]


def pair_sums(cells: Floats, term: Callable[[Floats], Floats], weights: Floats, starts: NDArray[np.int64]) -> Floats:
    """Σ a_u a_v f(x_uv) for every pair of columns, u over the bins of one and v over those of the other; x symmetric.

    Column by column, so that what is computed for each cell stays in the processor's cache.
    """
    found = np.empty((len(starts), len(starts)))
    for i, (first, last) in enumerate(itertools.pairwise([*starts.tolist(), len(weights)])):
        sums = weights[first:last] @ term(cells[first:last, first:])
        found[i, i:] = found[i:, i] = np.add.reduceat(sums * weights[first:], starts[i:] - first)
    return found


def starts_of(domain: Domain) -> NDArray[np.int64]:
    """The first bin of every column, if the bins of all are counted on."""
    return np.cumsum([0, *domain.shape(domain.names)[:-1]])
