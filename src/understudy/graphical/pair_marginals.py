"""All marginals of two columns at once: what a Markov model says of every pair, as one matrix.

A pair of columns that no clique holds costs a walk through the junction tree. For all pairs together one walk is
enough: from the leaves up, every node learns how the columns below it depend on its separator, as one matrix for all of
them; where two branches meet, their pairs are one product of matrices. So all pairs cost about as much as one entry
each.

The bins of a branch lie side by side while this goes on. At the end they are put into the domain's order.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn.

Sources: Koller and Friedman (2009), "Probabilistic graphical models", section 10.3.3.2, for queries outside a clique.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.graphical.junction_tree import Node
from understudy.graphical.marginals import Clique, Domain
from understudy.graphical.markov import MarkovModel
from understudy.graphical.messages import summed

Floats = NDArray[np.float64]


def pair_marginals(model: MarkovModel) -> tuple[Floats, Floats]:
    """The counts that a model expects in every cell of every pair of columns, and in every bin of every column.

    Returns:
        A symmetric matrix over the bins of all columns, one column after another in the domain's order. A column's
        block with itself holds its bins on the diagonal. And the diagonal.
    """
    domain, layout = model.domain, _Layout(model.domain, model.nodes)
    pairs, singles = np.zeros((layout.bins, layout.bins)), np.zeros(layout.bins)
    for i in reversed(range(len(model.nodes))):
        node, groups = model.nodes[i], list(layout.groups[i].values())
        tables = _Tables(domain, node.clique, model.marginals[i] * model.rows)
        for name in node.residual:
            singles[layout.columns[name]] = tables.table((), (name,))
        _write_columns(pairs, node, tables, layout)
        _write_groups(pairs, node, groups, tables, layout)
        if node.parent >= 0:
            _lift(layout.branch(i), node, groups, _Tables(domain, node.clique, model.conditionals[i]), layout)
        layout.groups[i].clear()
    place = np.concatenate([np.arange(at.start, at.stop) for at in (layout.columns[name] for name in domain.names)])
    pairs = pairs.take(place, axis=0).take(place, axis=1)  # every pair is in one of the two triangles
    pairs += pairs.T
    singles = singles[place]
    np.fill_diagonal(pairs, singles)
    return pairs, singles


@dataclasses.dataclass
class _Group:
    """Branches below a node that hang on the same separator, side by side.

    Attributes:
        at: Their bins.
        branches: Those of each.
        given: P(bin | separator's cell); (separator's cells, bins).
    """

    separator: Clique
    at: slice
    branches: list[slice]
    given: Floats

    def within(self, at: slice) -> slice:
        """Where some bins lie in `given`."""
        return slice(at.start - self.at.start, at.stop - self.at.start)


class _Layout:
    """Where the bins of every column lie: those that a node adds come first, then those of its branches."""

    def __init__(self, domain: Domain, nodes: Sequence[Node]):
        self.nodes = nodes
        widths = [sum(domain.shape(node.residual)) for node in nodes]
        children: list[dict[Clique, list[int]]] = [{} for _ in nodes]
        for i, node in enumerate(nodes):
            if node.parent >= 0:
                children[node.parent].setdefault(node.separator, []).append(i)
        for i in reversed(range(1, len(nodes))):
            widths[nodes[i].parent] += widths[i]
        self.bins, self.columns = widths[0], dict[str, slice]()
        self.at = [slice(0, self.bins)] * len(nodes)  # the bins of the branch that begins with a node
        self.groups: list[dict[Clique, _Group]] = [{} for _ in nodes]
        for i, node in enumerate(nodes):
            end = self.at[i].start
            for name in node.residual:
                self.columns[name] = slice(end, end := end + domain.sizes[name])
            for separator, group in children[i].items():
                start = end
                for child in group:
                    self.at[child] = slice(end, end := end + widths[child])
                given = np.empty((domain.size(separator), end - start))
                found = _Group(separator, slice(start, end), [self.at[child] for child in group], given)
                self.groups[i][separator] = found

    def branch(self, i: int) -> Floats:
        """The place for P(bin | separator's cell) of a whole branch, in the group that it belongs to."""
        node = self.nodes[i]
        group = self.groups[node.parent][node.separator]
        return group.given[:, group.within(self.at[i])]


def _write_columns(pairs: Floats, node: Node, tables: "_Tables", layout: _Layout) -> None:
    """The pairs of the node's own columns. Two columns of its separator meet in its parent, too."""
    above = set(node.separator)
    for i, one in enumerate(node.clique):
        for other in node.clique[:i]:
            if not (one in above and other in above):
                pairs[layout.columns[one], layout.columns[other]] = tables.table((one,), (other,))


def _write_groups(pairs: Floats, node: Node, groups: list[_Group], tables: "_Tables", layout: _Layout) -> None:
    """The pairs of the node's columns with the branches below, and of branches with each other.

    A column of a branch's separator met all of that branch below.
    """
    for i, group in enumerate(groups):
        for name in node.clique:
            if name not in group.separator:
                pairs[layout.columns[name], group.at] = tables.times((name,), group.separator, group.given)
        for other in groups[:i]:
            pairs[other.at, group.at] = other.given.T @ tables.times(other.separator, group.separator, group.given)
        if len(group.branches) > 1:
            weighted = group.given * tables.table(group.separator, ())
            for at in group.branches[1:]:
                earlier = slice(group.at.start, at.start)
                pairs[earlier, at] = weighted[:, group.within(earlier)].T @ group.given[:, group.within(at)]


def _lift(branch: Floats, node: Node, groups: list[_Group], tables: "_Tables", layout: _Layout) -> None:
    """All bins that the node and the branches below it add to its parent, given its separator."""
    first = layout.columns[node.residual[0]].start
    for name in node.residual:
        at = layout.columns[name]
        branch[:, at.start - first : at.stop - first] = tables.table(node.separator, (name,))
    for group in groups:
        found = tables.times(node.separator, group.separator, group.given)
        branch[:, group.at.start - first : group.at.stop - first] = found


class _Tables:
    """An array over a clique, summed to matrices. Sums share their first steps."""

    def __init__(self, domain: Domain, clique: Clique, array: Floats):
        self._sizes, self._clique = domain.sizes, clique
        self._made = {clique: array}

    def table(self, rows: Clique, columns: Clique) -> Floats:
        """A matrix over two sets of the clique's columns that have none in common."""
        kept = tuple(name for name in self._clique if name in rows or name in columns)
        cells = self._sum(kept)
        if kept != (*rows, *columns):
            cells = cells.transpose([kept.index(name) for name in (*rows, *columns)])
        return cells.reshape(self._size(rows), self._size(columns))

    def times(self, rows: Clique, columns: Clique, given: Floats) -> Floats:
        """The matrix over two sets of the clique's columns, times another matrix.

        Where the two sets disagree on what they have in common, the matrix is 0. So it is one product for each cell of
        what they have in common.
        """
        common = tuple(name for name in columns if name in rows)
        if not common:
            return self.table(rows, columns) @ given
        left = tuple(name for name in rows if name not in common)
        right = tuple(name for name in columns if name not in common)
        cells = self.table((*common, *left), right).reshape(self._size(common), self._size(left), -1)
        given = given.reshape(*(self._sizes[name] for name in columns), -1)
        given = given.transpose([*(columns.index(name) for name in (*common, *right)), len(columns)])
        found = cells @ given.reshape(len(cells), cells.shape[2], -1)
        order = (*common, *left)
        found = found.reshape(*(self._sizes[name] for name in order), -1)
        return found.transpose([*(order.index(name) for name in rows), len(rows)]).reshape(self._size(rows), -1)

    def _size(self, names: Clique) -> int:
        return math.prod(self._sizes[name] for name in names)

    def _sum(self, kept: Clique) -> Floats:
        if kept not in self._made:
            left = [name for name in self._clique if name not in kept]
            last = min(left, key=self._sizes.__getitem__)  # the longest axes are summed over first
            before = tuple(name for name in self._clique if name in kept or name == last)
            self._made[kept] = summed(self._sum(before), (before.index(last),))
        return self._made[kept]
