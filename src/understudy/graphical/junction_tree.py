"""Junction trees: a tree of cliques that holds every measured one.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn.

`junction_tree` builds the tree, and `model_size` says beforehand how large a model on it would be. `messages` computes
with it.

Sources: Koller and Friedman (2009), "Probabilistic graphical models", chapters 9 and 10.

Departures:
- The tree is found by Prim's algorithm here, not by SciPy's spanning tree: nodes must come parents first, cliques that
  share no column must still hang together, and ties must always be broken alike.
"""

import dataclasses
import functools
import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

from understudy.graphical.marginals import Clique, Domain


@dataclasses.dataclass(frozen=True)
class Node:
    """A clique of a junction tree.

    Attributes:
        clique: Its columns, in the domain's order.
        parent: The number of its parent, which comes earlier; -1 at the root.
        separator: The columns that it shares with its parent; none if they belong to unconnected parts of the graph.
    """

    clique: Clique
    parent: int
    separator: Clique

    @functools.cached_property
    def residual(self) -> Clique:
        """The columns that the clique adds to its parent's."""
        return tuple(name for name in self.clique if name not in self.separator)


def junction_tree(domain: Domain, cliques: Iterable[Clique]) -> tuple[Node, ...]:
    """A junction tree whose cliques hold every given one and every column, parents first.

    The graph of the cliques is made chordal by eliminating columns one by one, each time the one whose clique with its
    neighbours has the fewest cells. The tree joins each maximal clique to the one it shares the most columns with.
    """
    maximal = _chordal_cliques(domain, cliques)
    members = [set(clique) for clique in maximal]
    holders: dict[str, list[int]] = {}
    for i, clique in enumerate(maximal):
        for name in clique:
            holders.setdefault(name, []).append(i)
    # For each clique outside the tree: the node that shares the most columns with it, and how many. The heap has the
    # one that shares the most first; an entry with another number than `most` is out of date.
    first = holders[domain.names[0]][0]
    nearest, most, place = dict.fromkeys(range(len(maximal)), 0), [0] * len(maximal), {first: 0}
    heap = [(0, i) for i in nearest if i != first]
    nodes = [Node(maximal[first], -1, ())]
    added = first
    while True:
        common = Counter(j for name in maximal[added] for j in holders[name] if j not in place)
        for j, shared in common.items():
            if shared > most[j]:
                nearest[j], most[j] = place[added], shared
                heapq.heappush(heap, (-shared, j))
        while heap and (heap[0][1] in place or -heap[0][0] != most[heap[0][1]]):
            heapq.heappop(heap)
        if not heap:
            return tuple(nodes)
        added = heapq.heappop(heap)[1]
        place[added] = len(nodes)
        parent = nearest[added]
        nodes.append(Node(maximal[added], parent, domain.ordered(members[added] & set(nodes[parent].clique))))


def _chordal_cliques(domain: Domain, cliques: Iterable[Clique]) -> list[Clique]:
    """The maximal cliques of a chordal graph that holds all the given ones, in the domain's order."""
    neighbours: dict[str, set[str]] = {name: set() for name in domain.names}
    for clique in cliques:
        for a, b in itertools.permutations(clique, 2):
            neighbours[a].add(b)
    found: list[Clique] = []
    holders: dict[str, list[set[str]]] = {}
    place = domain.places
    cost = {name: domain.size((name, *around)) for name, around in neighbours.items()}
    heap = [(each, place[name], name) for name, each in cost.items()]  # entries with another cost are out of date
    heapq.heapify(heap)
    while heap:
        size, _, name = heapq.heappop(heap)
        if cost.get(name) != size:
            continue
        del cost[name]
        around = neighbours.pop(name)
        clique = around | {name}
        if not any(clique <= other for other in holders.get(name, ())):
            found.append(domain.ordered(clique))
            for other in around:
                holders.setdefault(other, []).append(clique)
        for other in around:
            neighbours[other] = (neighbours[other] | around) - {name, other}
        for other in around:
            cost[other] = domain.size((other, *neighbours[other]))
            heapq.heappush(heap, (cost[other], place[other], other))
    return sorted(found, key=lambda clique: [place[name] for name in clique])


def model_size(domain: Domain, cliques: Iterable[Clique]) -> int:
    """How many cells a model with these cliques would have, 8 bytes each. Known before anything is built."""
    return sum(domain.size(clique) for clique in _chordal_cliques(domain, cliques))


def megabytes(cells: int) -> float:
    """The size of an array of so many 8-byte numbers."""
    return cells * 8 / 2**20


class Holders:
    """Which nodes of a junction tree hold which columns."""

    def __init__(self, domain: Domain, nodes: Sequence[Node]):
        self._members = [set(node.clique) for node in nodes]
        self._sizes = [domain.size(node.clique) for node in nodes]
        self._of: dict[str, list[int]] = {name: [] for name in domain.names}
        for i, node in enumerate(nodes):
            for name in node.clique:
                self._of[name].append(i)

    def first(self, column: str) -> int:
        """The node nearest to the root that holds a column."""
        return self._of[column][0]

    def smallest(self, clique: Clique) -> int | None:
        """The node with the fewest cells that holds a clique; the first of several; None if there is none."""
        wanted = set(clique)
        fewest = min((self._of[name] for name in clique), key=len)
        holders = [i for i in fewest if wanted <= self._members[i]]
        return min(holders, key=self._sizes.__getitem__, default=None)
