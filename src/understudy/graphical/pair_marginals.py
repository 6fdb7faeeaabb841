"""All marginals of two columns at once: what a Markov model says of every pair, as one matrix.

A pair of columns that no clique holds costs a walk through the junction tree. For all pairs together one walk is
enough: from the leaves up, every node learns how the columns below it depend on its separator, as one matrix for all of
them; where two branches meet, their pairs are one product of matrices. So all pairs cost about as much as one entry
each.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn.

Sources: Koller and Friedman (2009), "Probabilistic graphical models", section 10.3.3.2, for queries outside a clique.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from understudy.graphical.junction_tree import Node, axes_of
from understudy.graphical.marginals import Clique
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
        node, marginal = nodes[i], model.marginals[i]
        groups = _groups(node, below[i], bins_of)
        _write_pairs(pairs, groups, marginal, node.clique)
        if node.parent >= 0:
            branch = _lift(groups, model.conditionals[i], node, bins_of)
            below[node.parent].append((node.separator, branch))
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


def _write_pairs(pairs: Floats, groups: list[Group], marginal: Floats, clique: Clique) -> None:
    """The pairs that meet in one node."""
    earlier: list[tuple[Clique, _Branch]] = []
    for separator, branches in groups:
        shares = _table(marginal, clique, separator, ()).ravel()
        own = _joined(branches)
        for other, branch in earlier:
            across = _table(marginal, clique, other, separator)
            _write(pairs, branch.bins, own.bins, branch.given.T @ across @ own.given)
        held = branches[0]
        for branch in branches[1:]:
            _write(pairs, held.bins, branch.bins, (held.given * shares[:, None]).T @ branch.given)
            held = _joined([held, branch])
        earlier.append((separator, own))


def _write(pairs: Floats, rows: Places, columns: Places, found: Floats) -> None:
    pairs[np.ix_(rows, columns)] = found
    pairs[np.ix_(columns, rows)] = found.T


def _lift(groups: list[Group], conditional: Floats, node: Node, bins_of: dict[str, Places]) -> _Branch:
    """All columns that the node and the branches below it add to its parent, given its separator."""
    lifted: list[_Branch] = []
    for separator, branches in groups:
        if len(separator) == 1 and separator[0] in node.separator and len(branches[0].bins):
            branches = [each for each in branches if each.bins is not bins_of[separator[0]]]
        if branches:
            own = _joined(branches)
            lifted.append(_Branch(own.bins, _table(conditional, node.clique, node.separator, separator) @ own.given))
    return _joined(lifted)


def _joined(branches: list[_Branch]) -> _Branch:
    if len(branches) == 1:
        return branches[0]
    return _Branch(
        np.concatenate([each.bins for each in branches]), np.concatenate([each.given for each in branches], axis=1)
    )


def _table(array: Floats, clique: Clique, rows: Clique, columns: Clique) -> Floats:
    """An array over a clique as a matrix, summed over all but two sets of its columns.

    What the two sets have in common must agree: elsewhere the matrix is 0.
    """
    kept = tuple(name for name in clique if name in rows or name in columns)
    summed = np.asarray(array.sum(axis=axes_of(set(clique) - set(kept), clique)))
    sizes = dict(zip(kept, summed.shape, strict=True))
    if kept == (*rows, *columns):
        return summed.reshape(int(np.prod([sizes[name] for name in rows], dtype=np.int64)), -1)
    at = np.indices(summed.shape)
    place = []
    for names in (rows, columns):
        flat, size = np.zeros(summed.shape, np.int64), 1
        for name in names:
            flat, size = flat * sizes[name] + at[kept.index(name)], size * sizes[name]
        place.append((flat.ravel(), size))
    table = np.zeros((place[0][1], place[1][1]))
    table[place[0][0], place[1][0]] = summed.ravel()
    return table
