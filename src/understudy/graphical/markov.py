"""Markov models: a distribution of whole rows, as marginals and conditionals on a junction tree.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn: a model answers `marginal` for any
clique, and becomes the conditional tables that rows are drawn from.

Sources: Koller and Friedman (2009), "Probabilistic graphical models", chapters 9 and 10.
"""

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.bins import Bins
from understudy.graphical.bayes_net import BayesNet, ConditionalTable
from understudy.graphical.junction_tree import Holders, Node
from understudy.graphical.marginals import Clique, Domain
from understudy.graphical.messages import axes_of, summed
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]
Factor = tuple[Clique, Floats]
"""An array and the columns of its axes."""


@dataclasses.dataclass(frozen=True, eq=False)
class MarkovModel:
    """A graphical model: marginals and conditionals on a junction tree.

    Attributes:
        domain: Its columns.
        rows: How many rows its marginals add up to.
        nodes: The junction tree, parents first.
        marginals: Of every node's clique, as probabilities.
        conditionals: Of every node's residual given its separator, in the clique's shape.
        potentials: λ of every measured clique and block size, flat; a later estimation may start from them.
    """

    domain: Domain
    rows: float
    nodes: tuple[Node, ...]
    marginals: list[Floats]
    conditionals: list[Floats]
    potentials: Mapping[tuple[Clique, int], Floats]

    def marginal(self, clique: Clique) -> Floats:
        """The counts that the model expects in every cell of any clique, one axis for each of its columns."""
        home = self._holders.smallest(clique)
        if home is None:
            return self.rows * _sum_product(self.domain, self._subtree_factors(clique), clique)
        held = self.nodes[home].clique
        kept = tuple(name for name in held if name in clique)
        found = summed(self.marginals[home], axes_of(set(held) - set(clique), held))
        return self.rows * np.transpose(found, [kept.index(name) for name in clique])

    def first_node(self, column: str) -> int:
        """The number of the node nearest to the root that holds a column."""
        return self._holders.first(column)

    @functools.cached_property
    def _holders(self) -> Holders:
        return Holders(self.domain, self.nodes)

    def _subtree_factors(self, clique: Clique) -> list[Factor]:
        """Factors whose product is the distribution of a subtree that holds the clique.

        They are the marginal of the node where the paths from all columns to the root meet, and the conditionals of
        the nodes on these paths.
        """
        homes = [self._holders.first(name) for name in clique]
        paths = [self._path_to_root(i) for i in homes]
        meeting = max(set.intersection(*map(set, paths)))  # parents come first, so the last common one is the deepest
        used = sorted({i for path in paths for i in path[: path.index(meeting)]})
        return [(self.nodes[meeting].clique, self.marginals[meeting])] + [
            (self.nodes[i].clique, self.conditionals[i]) for i in used
        ]

    def _path_to_root(self, i: int) -> list[int]:
        path = [i]
        while self.nodes[path[-1]].parent >= 0:
            path.append(self.nodes[path[-1]].parent)
        return path

    def to_bayesnet(self, bins: Mapping[str, Bins]) -> "MarkovNet":
        """Conditional tables along the junction tree: one column after another, each given those it is joined to."""
        tables = []
        for node, conditional in zip(self.nodes, self.conditionals, strict=True):
            for i, column in enumerate(node.residual):
                later = node.residual[i + 1 :]
                clique = tuple(name for name in node.clique if name not in later)
                joint = conditional.sum(axis=axes_of(later, node.clique))  # P(residual up to here | separator)
                joint = np.moveaxis(joint, clique.index(column), -1)
                parents = tuple(name for name in clique if name != column)
                tables.append(ConditionalTable(column, parents, _normalised(joint)))
        return MarkovNet(tuple(tables), dict(bins))


class MarkovNet(BayesNet):
    """The conditional tables of a Markov model, whose edges have no direction: rows could be drawn from any end."""

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        """Every edge once: of the neighbours of a column, those that come earlier in the schema's order."""
        order = schema.generation_order
        neighbours: dict[str, set[str]] = {name: set() for name in order}
        for table in self.tables:
            for a, b in itertools.permutations((table.column, *table.parents), 2):
                neighbours[a].add(b)
        return {name: [other for other in order[:i] if other in neighbours[name]] for i, name in enumerate(order)}


def _normalised(joint: Floats) -> Floats:
    """Probabilities along the last axis; where there is no mass at all, they are uniform."""
    total = joint.sum(axis=-1, keepdims=True)
    return np.where(total > 0, joint / np.where(total > 0, total, 1.0), 1.0 / joint.shape[-1])


def _sum_product(domain: Domain, factors: list[Factor], clique: Clique) -> Floats:
    """The product of factors, summed over all columns outside the clique: one after another, the cheapest first."""
    place = {name: i for i, name in enumerate(domain.names)}
    remaining = {name for held, _ in factors for name in held} - set(clique)

    def joined(name: str) -> Clique:
        return tuple(dict.fromkeys(c for held, _ in factors if name in held for c in held))

    while remaining:
        name = min(remaining, key=lambda each: (domain.size(joined(each)), place[each]))
        remaining.remove(name)
        kept = tuple(c for c in joined(name) if c != name)
        parts = [factor for factor in factors if name in factor[0]]
        factors = [factor for factor in factors if name not in factor[0]] + [(kept, _contract(parts, kept))]
    return _contract(factors, clique)


def _contract(factors: Sequence[Factor], out: Clique) -> Floats:
    """The product of factors, summed over what is not in `out`."""
    number = {name: i for i, name in enumerate(dict.fromkeys(c for held, _ in factors for c in held))}
    operands: list[Floats | list[int]] = [x for held, array in factors for x in (array, [number[c] for c in held])]
    # NumPy's stubs know the form with subscripts alone, not this one with lists of axes.
    return np.einsum(*operands, [number[c] for c in out], optimize=len(factors) > 2)  # pyright: ignore
