"""A triangulated graph of columns that grows edge by edge.

Source: Deshpande, Garofalakis, Jordan (2001), "Efficient stepwise selection in decomposable models", for which edges
keep a graph triangulated.
"""

import itertools

import numpy as np

from understudy.graphical.marginals import Clique, Domain


class Graph:
    """A triangulated graph of columns.

    Attributes:
        neighbours: For every column, those it is joined to.
        cliques: The maximal cliques, and how many cells each has.
        count: How many edges there are.
        scores: The scores of pairs.
    """

    def __init__(self, domain: Domain):
        self.domain = domain
        self.neighbours: dict[str, set[str]] = {name: set() for name in domain.names}
        self.cliques: dict[frozenset[str], int] = {}
        self.count = 0
        self.scores: dict[Clique, float] = {}

    @property
    def edges(self) -> list[Clique]:
        """In the order of the columns."""
        return [(a, b) for a, b in itertools.combinations(self.neighbours, 2) if b in self.neighbours[a]]

    def shared(self, a: str, b: str) -> set[str]:
        """The neighbours that two columns have in common."""
        return self.neighbours[a] & self.neighbours[b]

    def stays_triangulated(self, a: str, b: str) -> bool:
        """Whether the graph stays triangulated with the edge: the common neighbours of a and b must separate them."""
        closed, reached, border = self.shared(a, b), {a}, [a]
        while border:
            for other in self.neighbours[border.pop()] - closed - reached:
                if other == b:
                    return False
                reached.add(other)
                border.append(other)
        return True

    def join(self, a: str, b: str) -> None:
        """Adds an edge that keeps the graph triangulated."""
        clique = frozenset({a, b} | self.shared(a, b))
        self.neighbours[a].add(b)
        self.neighbours[b].add(a)
        self.cliques = {each: cells for each, cells in self.cliques.items() if not each <= clique}
        self.cliques[clique] = self.domain.size(tuple(clique))
        self.count += 1

    def tree(self) -> list[Clique]:
        """The edges of the heaviest forest, by Kruskal's algorithm."""
        parts, found = {name: {name} for name in self.neighbours}, list[Clique]()
        for a, b in sorted(self.edges, key=lambda edge: -self.scores.get(edge, 0.0)):
            if parts[a] is not parts[b]:
                parts[a] |= parts[b]
                parts.update(dict.fromkeys(parts[b], parts[a]))
                found.append((a, b))
        return found

    def marginals(self) -> list[Clique]:
        """Every two to four columns of a clique, those of the highest mean score first."""
        found: dict[Clique, float] = {}
        for clique in self.cliques:
            for width in range(2, min(len(clique), 4) + 1):
                for group in itertools.combinations(self.domain.ordered(set(clique)), width):
                    found[group] = float(np.mean([self.scores.get(p, 0.0) for p in itertools.combinations(group, 2)]))
        return sorted(found, key=lambda group: (-found[group], group))
