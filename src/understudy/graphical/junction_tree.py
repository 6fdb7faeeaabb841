"""Junction trees: a tree of cliques that holds every measured one, and messages over it.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn.

`junction_tree` builds the tree, `model_size` says beforehand how large a model on it would be, and `MessagePasser`
turns log potentials on its cliques into marginals, conditionals and log Z in one pass up and one pass down.

Sources: Koller and Friedman (2009), "Probabilistic graphical models", chapters 9 and 10.

Departures:
- The tree is found by Prim's algorithm here, not by SciPy's spanning tree: nodes must come parents first, cliques that
  share no column must still hang together, and ties must always be broken alike.
"""

import dataclasses
import heapq
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.graphical.marginals import Clique, Domain

Floats = NDArray[np.float64]

# Logarithms within this range of each other all have an exponential that is a normal float.
WIDEST_RANGE = 600.0


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

    @property
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


class Sums:
    """How to sum arrays over the cliques of some nodes down to fewer columns, one axis at a time.

    Sums that have their first steps in common share them: the pairs of a clique of five columns take little more than
    one pass over its array.
    """

    def __init__(self, domain: Domain, cliques: Sequence[Clique]):
        self._domain, self._cliques = domain, cliques
        self._steps: list[tuple[int, int]] = []  # an array's number, and the axis that is summed over
        self._made: dict[tuple[int, Clique], int] = {(i, clique): i for i, clique in enumerate(cliques)}

    def down_to(self, node: int, kept: Clique) -> int:
        """The number that the sum has in the result of `run`; `kept` in the order of the node's clique."""
        if (node, kept) not in self._made:
            left = [name for name in self._cliques[node] if name not in kept]
            last = min(left, key=self._domain.sizes.__getitem__)  # the longest axes are summed over first
            before = tuple(name for name in self._cliques[node] if name in kept or name == last)
            self._steps.append((self.down_to(node, before), before.index(last)))
            self._made[node, kept] = len(self._cliques) + len(self._steps) - 1
        return self._made[node, kept]

    def run(self, arrays: Sequence[Floats]) -> list[Floats]:
        """The nodes' arrays, and every sum of them that was asked for."""
        found = list(arrays)
        for source, axis in self._steps:
            found.append(summed(found[source], (axis,)))
        return found


class MessagePasser:
    """Messages over one junction tree: from log potentials to marginals, conditionals and log Z."""

    def __init__(self, domain: Domain, nodes: Sequence[Node]):
        self.nodes = nodes
        self.shapes = [domain.shape(node.clique) for node in nodes]
        self._residual = [axes_of(node.residual, node.clique) for node in nodes]
        self._summed_in_parent: list[tuple[int, ...]] = []
        self._shape_in_parent: list[tuple[int, ...]] = []
        self._shape_in_child = [shape_within(domain, node.separator, node.clique) for node in nodes]
        for node in nodes:
            parent = nodes[node.parent].clique if node.parent >= 0 else ()
            self._summed_in_parent.append(axes_of(set(parent) - set(node.separator), parent))
            self._shape_in_parent.append(shape_within(domain, node.separator, parent))

    def run(self, potentials: Sequence[Floats]) -> tuple[list[Floats], list[Floats], float]:
        """The marginals of all cliques, their conditionals given the separators, and log Z.

        Every clique is normalised per cell of its separator, so that nothing underflows, whatever the range of the
        potentials. The potentials are overwritten.
        """
        beliefs, log_z = list(potentials), 0.0
        conditionals: list[Floats] = [np.zeros(0)] * len(beliefs)
        for i in reversed(range(len(beliefs))):
            axes, belief = self._residual[i], beliefs[i]
            top = belief.max(keepdims=True)
            if top - belief.min() > WIDEST_RANGE:
                top = belief.max(axis=axes, keepdims=True)
            belief -= top
            weight = np.exp(belief, out=belief)
            total = summed(weight, axes).reshape(self._shape_in_child[i])
            weight /= total
            conditionals[i] = weight
            message = np.log(total) + top
            if self.nodes[i].parent >= 0:
                beliefs[self.nodes[i].parent] += message.reshape(self._shape_in_parent[i])
            else:
                log_z = float(message.sum())
        marginals: list[Floats] = []
        for i, conditional in enumerate(conditionals):
            if self.nodes[i].parent < 0:
                marginals.append(conditional)
                continue
            separator = summed(marginals[self.nodes[i].parent], self._summed_in_parent[i])
            marginals.append(conditional * np.reshape(separator, self._shape_in_child[i]))
        return marginals, conditionals, log_z


def summed(array: Floats, axes: tuple[int, ...]) -> Floats:
    """The sum over some axes, in ascending order.

    The first ones are summed one by one, and the last ones by one product, which is several times as fast as NumPy's
    sum over a short last axis.
    """
    last = 0
    while last < len(axes) and axes[-1 - last] == array.ndim - 1 - last:
        last += 1
    for i, axis in enumerate(axes[: len(axes) - last]):
        array = array.sum(axis=axis - i)
    if not last:
        return array
    kept = array.shape[: array.ndim - last]
    cells = math.prod(array.shape[array.ndim - last :])
    return (array.reshape(-1, cells) @ np.ones(cells)).reshape(kept)


def axes_of(columns: Iterable[str], clique: Clique) -> tuple[int, ...]:
    """The axes that some columns have in an array over a clique."""
    wanted = set(columns)
    return tuple(i for i, name in enumerate(clique) if name in wanted)


def shape_within(domain: Domain, columns: Clique, clique: Clique) -> tuple[int, ...]:
    """The shape in which an array over some columns broadcasts against one over a clique that holds them."""
    return tuple(domain.sizes[name] if name in columns else 1 for name in clique)
