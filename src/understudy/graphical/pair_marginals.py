"""All marginals of two columns at once: what a Markov model says of every pair, as one matrix.

A pair of columns that no clique holds costs a walk through the junction tree. For all pairs together one walk is
enough: from the leaves up, every node learns how the columns below it depend on its separator, as one matrix for all of
them; where two branches meet, their pairs are one product of matrices. So all pairs cost about as much as one entry
each.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn.

Sources: Koller and Friedman (2009), "Probabilistic graphical models", section 10.3.3.2, for queries outside a clique.
"""

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from understudy.graphical.junction_tree import Node, summed
from understudy.graphical.marginals import Clique, Domain
from understudy.graphical.markov import MarkovModel

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclasses.dataclass
class _Branch:
    """Columns below a node, or one of its own: their bins, and P(bin | separator) for every bin."""

    bins: Places
    given: Floats  # (separator's cells, bins)


def pair_marginals(model: MarkovModel) -> tuple[Floats, Floats]:
    """The counts that a model expects in every cell of every pair of columns, and in every bin of every column.

    Returns:
        A symmetric matrix over the bins of all columns, one column after another in the domain's order. A column's
        block with itself holds its bins on the diagonal. And the diagonal.
    """
    domain, nodes = model.domain, model.nodes
    starts = np.cumsum([0, *domain.shape(domain.names)])
    bins_of = {name: np.arange(starts[i], starts[i + 1]) for i, name in enumerate(domain.names)}
    below: list[list[tuple[Clique, _Branch]]] = [[] for _ in nodes]
    pairs = np.zeros((starts[-1], starts[-1]))
    for i in reversed(range(len(nodes))):
        node = nodes[i]
        groups = _groups(node, below[i], bins_of)
        _write_pairs(pairs, groups, _Tables(domain, node.clique, model.marginals[i]), set(node.separator))
        if node.parent >= 0:
            tables = _Tables(domain, node.clique, model.conditionals[i])
            below[node.parent].append((node.separator, _lift(groups, tables, node, bins_of)))
        below[i] = []
    singles = np.concatenate([model.marginal((name,)) / model.rows for name in domain.names])
    pairs[np.arange(len(singles)), np.arange(len(singles))] = singles
    return pairs * model.rows, singles * model.rows


Group = tuple[Clique, list[_Branch]]
"""A separator, and the branches that hang on it."""


def _groups(node: Node, branches: list[tuple[Clique, _Branch]], bins_of: dict[str, Places]) -> list[Group]:
    """The node's own columns and the branches below it, by the columns through which they depend on the node."""
    found: dict[Clique, list[_Branch]] = {
        (name,): [_Branch(bins_of[name], np.eye(len(bins_of[name])))] for name in node.clique
    }
    for separator, branch in branches:
        found.setdefault(separator, []).append(branch)
    return list(found.items())


def _write_pairs(pairs: Floats, groups: list[Group], tables: "_Tables", above: set[str]) -> None:
    """The pairs that meet in one node.

    Two columns of its separator meet in its parent, too, and a column of a branch's separator met all of that branch
    below: these are left out.
    """
    earlier: list[tuple[Clique, _Branch, bool]] = []
    for separator, branches in groups:
        own, alone = _joined(branches), len(separator) == len(branches) == 1
        for other, branch, other_alone in earlier:
            met = other_alone and (other[0] in separator or (alone and above.issuperset((*separator, *other))))
            if not met:
                _write(pairs, branch.bins, own.bins, branch.given.T @ tables.table(other, separator) @ own.given)
        if len(branches) > 1:
            shares = tables.table(separator, ()).ravel()
            held = branches[0]
            for branch in branches[1:]:
                _write(pairs, held.bins, branch.bins, (held.given * shares[:, None]).T @ branch.given)
                held = _joined([held, branch])
        earlier.append((separator, own, alone))


def _write(pairs: Floats, rows: Places, columns: Places, found: Floats) -> None:
    pairs[np.ix_(rows, columns)] = found
    pairs[np.ix_(columns, rows)] = found.T


def _lift(groups: list[Group], tables: "_Tables", node: Node, bins_of: dict[str, Places]) -> _Branch:
    """All columns that the node and the branches below it add to its parent, given its separator."""
    lifted: list[_Branch] = []
    for separator, branches in groups:
        own = bins_of[separator[0]] if len(separator) == 1 else None
        below = [branch for branch in branches if branch.bins is not own]
        added = own is not None and separator[0] not in node.separator  # the node's own column, if its parent lacks it
        if below or added:
            table = tables.table(node.separator, separator)
            if added:
                lifted.append(_Branch(branches[0].bins, table))
            if below:
                joined = _joined(below)
                lifted.append(_Branch(joined.bins, table @ joined.given))
    return _joined(lifted)


def _joined(branches: list[_Branch]) -> _Branch:
    if len(branches) == 1:
        return branches[0]
    return _Branch(
        np.concatenate([each.bins for each in branches]), np.concatenate([each.given for each in branches], axis=1)
    )


class _Tables:
    """An array over a clique, summed to matrices. Sums share their first steps."""

    def __init__(self, domain: Domain, clique: Clique, array: Floats):
        self._sizes, self._clique = domain.sizes, clique
        self._made = {clique: array}

    def table(self, rows: Clique, columns: Clique) -> Floats:
        """A matrix over two sets of the clique's columns.

        What the two sets have in common must agree: elsewhere the matrix is 0.
        """
        kept = tuple(name for name in self._clique if name in rows or name in columns)
        cells = self._sum(kept)
        shape = tuple(math.prod(self._sizes[name] for name in names) for names in (rows, columns))
        if kept == (*rows, *columns):
            return cells.reshape(shape)
        if not set(rows) & set(columns):
            return cells.transpose([kept.index(name) for name in (*rows, *columns)]).reshape(shape)
        table = np.zeros(shape)
        table[self._places(kept, rows), self._places(kept, columns)] = cells
        return table

    def _places(self, kept: Clique, names: Clique) -> Places:
        """For every cell of the kept columns, the number of its cell of some of them."""
        place = np.zeros([1] * len(kept), np.int64)
        for name in names:
            own = np.arange(self._sizes[name]).reshape([-1 if other == name else 1 for other in kept])
            place = place * self._sizes[name] + own
        return np.broadcast_to(place, [self._sizes[name] for name in kept])

    def _sum(self, kept: Clique) -> Floats:
        if kept not in self._made:
            left = [name for name in self._clique if name not in kept]
            last = min(left, key=self._sizes.__getitem__)  # the longest axes are summed over first
            before = tuple(name for name in self._clique if name in kept or name == last)
            self._made[kept] = summed(self._sum(before), (before.index(last),))
        return self._made[kept]
