"""Sizes of models with one pair of columns more, for many pairs at once.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn.

Columns are eliminated as in `junction_tree`, with sets of columns as the bits of whole numbers. One more pair (i, j)
changes nothing before the first of the two is eliminated: it makes the cliques of both larger and no other, so that
neither comes earlier than without it. So the elimination without the pair is kept step by step, and that of every pair
goes on from there.

Sources: Koller and Friedman (2009), "Probabilistic graphical models", section 9.4.3.2, for elimination by size.
"""

import dataclasses
import math
from collections.abc import Iterable

from understudy.graphical.marginals import Clique, Domain


@dataclasses.dataclass
class _Graph:
    """A graph of which some columns are eliminated.

    Attributes:
        around: The neighbours of every column that is left, as bits.
        costs: The cells of its clique with them; infinite for columns that are eliminated.
        left: The columns that are left, as bits.
        maximal: The maximal cliques found so far.
        cells: Their cells in all.
    """

    around: list[int]
    costs: list[float]
    left: int
    maximal: list[int]
    cells: int

    def copy(self) -> "_Graph":
        return _Graph(self.around.copy(), self.costs.copy(), self.left, self.maximal.copy(), self.cells)


class ModelSizes:
    """The cells of the model with some cliques, and of those with one pair more."""

    def __init__(self, domain: Domain, cliques: Iterable[Clique]):
        self._sizes, places = domain.shape(domain.names), domain.places
        self._known = {0: 1}
        around = [0] * len(self._sizes)
        for clique in cliques:
            members = sum(1 << places[name] for name in clique)
            for name in clique:
                around[places[name]] |= members & ~(1 << places[name])
        costs: list[float] = [self._size(own | 1 << i) for i, own in enumerate(around)]
        graph = _Graph(around, costs, (1 << len(costs)) - 1, [], 0)
        self._before: list[_Graph] = []  # every elimination
        self._step = [0] * len(costs)  # at which a column is eliminated
        while graph.left:
            for i, cost in enumerate(graph.costs):
                if cost < math.inf:
                    self._step[i] = len(self._before)
            self._before.append(graph.copy())
            self._eliminate(graph)
        self.cells = graph.cells

    def with_pair(self, i: int, j: int, most: float = math.inf) -> float:
        """The cells of the model with the pair of these columns, by number; infinite if they are more than `most`."""
        graph = self._before[min(self._step[i], self._step[j])]
        if graph.around[i] >> j & 1:
            return self.cells
        graph = graph.copy()
        for one, other in ((i, j), (j, i)):
            graph.around[one] |= 1 << other
            graph.costs[one] = self._size(graph.around[one] | 1 << one)
        while graph.left:
            self._eliminate(graph)
            if graph.cells > most:
                return math.inf
        return graph.cells

    def _eliminate(self, graph: _Graph) -> None:
        """Takes out the column whose clique has the fewest cells, the first of several, and joins its neighbours."""
        column = graph.costs.index(min(graph.costs))
        around = graph.around[column]
        clique = around | 1 << column
        if not any(clique & ~other == 0 for other in graph.maximal):
            graph.maximal.append(clique)
            graph.cells += self._size(clique)
        if clique == graph.left:  # all that is left is in this clique
            graph.left = 0
            return
        graph.left &= ~(1 << column)
        graph.costs[column] = math.inf
        rest = around
        while rest:
            own = rest & -rest
            rest ^= own
            other = own.bit_length() - 1
            graph.around[other] = (graph.around[other] | around) & ~(own | 1 << column)
            graph.costs[other] = self._size(graph.around[other] | own)

    def _size(self, columns: int) -> int:
        """The cells of a set of columns."""
        if columns not in self._known:
            first = columns & -columns
            self._known[columns] = self._size(columns ^ first) * self._sizes[first.bit_length() - 1]
        return self._known[columns]
