"""Graphical models: from noisy marginals to one distribution of whole rows.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn: the same marginals give the same model.

The model is p(x) ∝ q(x) · exp(Σ_m λ_m(x_m)): q the product of the single columns that were measured, and one array of
potentials λ_m for every measured clique m. It lies on a junction tree, whose cliques hold every measured one.

With n rows, noisy counts y_m of deviation σ_m and p_m the marginals of p, it is the minimum of

    n KL(p ‖ q)  +  Σ_m ‖ n p_m - y_m ‖² / (2 c σ_m),

found through its dual, which is smooth, convex and free of constraints, by L-BFGS:

    D(λ) = log Z(λ) - Σ_m ⟨λ_m, y_m / n⟩ + Σ_m c σ_m / (2n) · ‖λ_m‖²,    ∇_m D = p_m - y_m / n + c σ_m λ_m / n.

So λ_m = (y_m - n p_m) / (c σ_m): a cell that is to be e^λ times as heavy as under q is missed by c λ deviations of its
noise, and a cell whose count is within the noise of what q says stays near q. `shrinkage` is c.

Where cells stand in a row (numbers), m also runs over the sums of blocks of 2 × 2, 4 × 4, ... cells of the same
counts, with the same σ. They add no information, but a say: what many neighbours have in common is believed sooner
than what one cell has alone.

One value and gradient is one pass over the junction tree, in float64 NumPy. As c → 0 this is Private-PGM: the
distribution nearest to q among those that fit best.

Sources: McKenna, Sheldon, Miklau (2019), arXiv:1901.09136, "Graphical-model based estimation and inference for
differential privacy"; Dudík, Phillips, Schapire (2007), "Maximum entropy density estimation with generalized
regularization and an application to species distribution modeling", for the dual; Koller and Friedman (2009), chapter
10, for junction trees.

Departures:
- c > 0, and blocks. Mirror descent that is stopped early also stays near independent columns, without saying how much.
- The dual by L-BFGS rather than the primal by mirror descent, and NumPy rather than compiled programs: cliques change
  from fit to fit, and compiling for each takes seconds (4 for a chain of 8 columns of 22 cells).
"""

import dataclasses
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.encoder import Bins
from understudy.graphical.bayes_net import BayesNet, Table
from understudy.graphical.marginals import Clique, Domain, Measured, product
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]

SMALLEST_SIGMA = 0.5  # rows; to be sharper than half a row costs many steps and changes nothing that can be seen
SMALLEST_SHARE = 1e-9  # of q in one cell: a logarithm must exist


# Junction trees -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Node:
    """A clique of a junction tree.

    Attributes:
        clique: Its columns, in the domain's order.
        parent: The number of its parent, which comes earlier; -1 at the root.
        separator: The columns that it shares with its parent; none where two parts of the table lie apart.
    """

    clique: Clique
    parent: int
    separator: Clique

    @property
    def residual(self) -> Clique:
        return tuple(name for name in self.clique if name not in self.separator)


def junction_tree(domain: Domain, cliques: Iterable[Clique]) -> tuple[Node, ...]:
    """A junction tree whose cliques hold every given one, and every column, parents first.

    The graph of the cliques is made chordal by taking out, again and again, the column whose clique with its neighbours
    has the fewest cells.
    """
    maximal = _chordal_cliques(domain, cliques)
    first = next(i for i, clique in enumerate(maximal) if domain.names[0] in clique)
    nodes = [Node(maximal[first], -1, ())]
    nearest = {i: 0 for i in range(len(maximal)) if i != first}  # of each clique outside, the node it shares most with
    shared = {i: set(maximal[i]) & set(maximal[first]) for i in nearest}
    while nearest:
        i = max(nearest, key=lambda j: (len(shared[j]), -j))
        nodes.append(Node(maximal[i], nearest.pop(i), domain.ordered(shared.pop(i))))
        for j in nearest:
            common = set(maximal[j]) & set(maximal[i])
            if len(common) > len(shared[j]):
                nearest[j], shared[j] = len(nodes) - 1, common
    return tuple(nodes)


def _chordal_cliques(domain: Domain, cliques: Iterable[Clique]) -> list[Clique]:
    beside: dict[str, set[str]] = {name: set() for name in domain.names}
    for clique in cliques:
        for a, b in itertools.permutations(clique, 2):
            beside[a].add(b)
    found: list[set[str]] = []
    cost = {name: domain.size((name, *beside[name])) for name in beside}
    while cost:
        name = min(cost, key=lambda each: cost[each])
        del cost[name]
        around = beside.pop(name)
        if not any(around | {name} <= other for other in found):
            found.append(around | {name})
        for other in around:
            beside[other] = (beside[other] | around) - {name, other}
        for other in around:
            cost[other] = domain.size((other, *beside[other]))
    return sorted(
        (domain.ordered(clique) for clique in found), key=lambda clique: [domain.names.index(c) for c in clique]
    )


def model_size(domain: Domain, cliques: Iterable[Clique]) -> int:
    """How many cells a model with these cliques would have; 8 bytes each. Known before anything is built."""
    return sum(domain.size(clique) for clique in _chordal_cliques(domain, cliques))


def megabytes(cells: int) -> float:
    return cells * 8 / 2**20


# Passes over the tree -----------------------------------------------------------------------------------------------


class Passes:
    """Messages over one junction tree: from log potentials to marginals, conditionals and log Z."""

    def __init__(self, domain: Domain, nodes: Sequence[Node]):
        self.nodes = nodes
        self.shapes = [domain.shape(node.clique) for node in nodes]
        self._residual = [_axes(node.clique, node.residual) for node in nodes]
        self._kept = [
            _axes(nodes[node.parent].clique, set(nodes[node.parent].clique) - set(node.separator))
            if node.parent >= 0
            else ()
            for node in nodes
        ]
        self._in_parent = [
            _spread(domain, node.separator, nodes[node.parent].clique) if node.parent >= 0 else () for node in nodes
        ]
        self._in_child = [_spread(domain, node.separator, node.clique) for node in nodes]

    def run(self, potentials: Sequence[Floats]) -> tuple[list[Floats], list[Floats], float]:
        """The marginals of all cliques, their conditionals given the separators, and log Z.

        Every clique is normalised per cell of its separator, so that nothing underflows however far apart potentials
        are. The potentials are overwritten.
        """
        belief, log_z = list(potentials), 0.0
        conditionals: list[Floats] = [np.zeros(0)] * len(belief)
        for i in reversed(range(len(belief))):
            axes, b = self._residual[i], belief[i]
            top = b.max(axis=axes, keepdims=True)
            weight = np.exp(b - top)
            total = weight.sum(axis=axes, keepdims=True)
            weight /= total
            conditionals[i] = weight
            message = np.log(total) + top
            if self.nodes[i].parent >= 0:
                belief[self.nodes[i].parent] += message.reshape(self._in_parent[i])
            else:
                log_z = float(message.sum())
        marginals: list[Floats] = []
        for i, conditional in enumerate(conditionals):
            if self.nodes[i].parent < 0:
                marginals.append(conditional)
                continue
            separator = marginals[self.nodes[i].parent].sum(axis=self._kept[i])
            marginals.append(conditional * np.reshape(separator, self._in_child[i]))
        return marginals, conditionals, log_z


def _axes(clique: Clique, columns: Iterable[str]) -> tuple[int, ...]:
    wanted = set(columns)
    return tuple(i for i, name in enumerate(clique) if name in wanted)


def _spread(domain: Domain, columns: Clique, clique: Clique) -> tuple[int, ...]:
    """The shape that lets an array over columns stand beside one over a clique that holds them."""
    return tuple(domain.sizes[name] if name in columns else 1 for name in clique)


# Estimation ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class Fitted:
    """A graphical model: marginals and conditionals on a junction tree.

    Attributes:
        domain: Its columns.
        rows: How many rows its marginals add up to.
        nodes: The junction tree, parents first.
        marginals: Of every node's clique, as probabilities.
        conditionals: Of every node's residual given its separator, in the clique's shape.
        potentials: λ of every measured clique and size of blocks, flat; where a later estimate may start from.
    """

    domain: Domain
    rows: float
    nodes: tuple[Node, ...]
    marginals: list[Floats]
    conditionals: list[Floats]
    potentials: Mapping[tuple[Clique, int], Floats]

    def marginal(self, clique: Clique) -> Floats:
        """The counts that the model expects in every cell of any clique, one axis for each of its columns."""
        within = [i for i, node in enumerate(self.nodes) if set(clique) <= set(node.clique)]
        if within:
            home = min(within, key=lambda i: self.marginals[i].size)
            factors = [(self.nodes[home].clique, self.marginals[home])]
        else:
            factors = self._between(clique)
        return self.rows * _summed(self.domain, factors, clique)

    def _between(self, clique: Clique) -> list[tuple[Clique, Floats]]:
        """Factors whose product is the distribution of a subtree that holds the clique.

        The marginal of the node where the paths to all columns meet, and the conditionals of the nodes on them.
        """
        homes = [next(i for i, node in enumerate(self.nodes) if name in node.clique) for name in clique]
        paths = [self._path(i) for i in homes]
        meeting = max(set.intersection(*map(set, paths)))  # parents come first, so the last common one is the deepest
        used = sorted({i for path in paths for i in path[: path.index(meeting)]})
        return [(self.nodes[meeting].clique, self.marginals[meeting])] + [
            (self.nodes[i].clique, self.conditionals[i]) for i in used
        ]

    def _path(self, i: int) -> list[int]:
        """From a node up to the root."""
        path = [i]
        while self.nodes[path[-1]].parent >= 0:
            path.append(self.nodes[path[-1]].parent)
        return path

    def to_bayesnet(self, cells: Mapping[str, Bins]) -> "MarkovNet":
        """Conditional tables along the junction tree: one column after another, each given those it stands beside."""
        tables = []
        for node, conditional in zip(self.nodes, self.conditionals, strict=True):
            for i, column in enumerate(node.residual):
                later = node.residual[i + 1 :]
                clique = tuple(name for name in node.clique if name not in later)
                joint = conditional.sum(axis=_axes(node.clique, later))  # P(residual up to here | separator)
                joint = np.moveaxis(joint, clique.index(column), -1)
                tables.append(Table(column, tuple(name for name in clique if name != column), _normalised(joint)))
        return MarkovNet(tuple(tables), dict(cells))


class MarkovNet(BayesNet):
    """The tables of a graphical model, whose edges have no direction: rows may be drawn from any end."""

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        """Every edge once: of the columns beside a column, those that come earlier in the schema's order."""
        order = schema.generation_order
        beside: dict[str, set[str]] = {name: set() for name in order}
        for table in self.tables:
            for a, b in itertools.permutations((table.column, *table.parents), 2):
                beside[a].add(b)
        return {name: [other for other in order[:i] if other in beside[name]] for i, name in enumerate(order)}


def _normalised(joint: Floats) -> Floats:
    """Rows of probabilities along the last axis; a row of nothing becomes even."""
    total = joint.sum(axis=-1, keepdims=True)
    return np.where(total > 0, joint / np.where(total > 0, total, 1.0), 1.0 / joint.shape[-1])


def _summed(domain: Domain, factors: list[tuple[Clique, Floats]], clique: Clique) -> Floats:
    """The product of factors, summed over all columns outside the clique: one after another, the cheapest first."""
    place = {name: i for i, name in enumerate(domain.names)}
    left = {name for held, _ in factors for name in held} - set(clique)

    def joined(name: str) -> Clique:
        return tuple(dict.fromkeys(c for held, _ in factors if name in held for c in held))

    while left:
        name = min(left, key=lambda each: (domain.size(joined(each)), place[each]))
        left.remove(name)
        kept = tuple(c for c in joined(name) if c != name)
        parts = [factor for factor in factors if name in factor[0]]
        factors = [factor for factor in factors if name not in factor[0]] + [(kept, _contract(parts, kept))]
    return _contract(factors, clique)


def _contract(factors: Sequence[tuple[Clique, Floats]], out: Clique) -> Floats:
    """The product of factors, summed over what is not in `out`."""
    number = {name: i for i, name in enumerate(dict.fromkeys(c for held, _ in factors for c in held))}
    operands: list[Any] = [x for held, array in factors for x in (array, [number[c] for c in held])]
    return np.einsum(*operands, [number[c] for c in out], optimize=len(factors) > 2)


def estimate(
    domain: Domain,
    measured: Sequence[Measured],
    *,
    rows: float,
    iterations: int = 300,
    start: Fitted | None = None,
    shrinkage: float = 0.3,
    ordered: Mapping[str, int] | None = None,
    tolerance: float = 1e-10,
) -> Fitted:
    """The graphical model that fits the measured marginals.

    Args:
        measured: Noisy marginals; several of one clique are pooled. Columns in none of them come out even. One that was
            counted in blocks (`Measured.starts`) has its columns in the domain's order, and is not pooled.
        rows: How many rows there are.
        iterations: Steps of L-BFGS at most.
        start: A model to start from, with some of the same cliques.
        shrinkage: c above. 0 fits as nearly as can be.
        ordered: Of columns whose neighbouring cells are alike, how many cells, from the first, stand in a row.
        tolerance: A step that gains less than this part of the dual is the last.
    """
    rows = max(float(rows), 1.0)
    pooled = _consistent(domain, _pool(domain, [each for each in measured if not each.starts]), rows)
    coarse = [each for each in measured if each.starts]
    nodes = junction_tree(domain, [*pooled, *(each.clique for each in coarse)])
    passes = Passes(domain, nodes)
    base = _base(domain, pooled, nodes)
    terms = [
        _Term.of(clique, counts, sigma, size, ordered or {}, rows, domain, nodes)
        for clique, (counts, sigma) in pooled.items()
        for size in _block_sizes(clique, ordered or {})
    ]
    terms += [_Term.in_blocks(each, pooled, rows, domain, nodes) for each in coarse]
    ends = np.cumsum([0, *(term.target.size for term in terms)])
    ridges = [max(shrinkage, 1e-6) * term.sigma / rows for term in terms]
    # The dual's curvature along one potential is about p + ridge: in units of its root all are alike.
    scales = [
        np.sqrt(np.maximum(term.target, 0.25 / term.target.size) + ridge)
        for term, ridge in zip(terms, ridges, strict=True)
    ]
    parts = list(zip(terms, scales, ridges, itertools.starmap(slice, itertools.pairwise(ends)), strict=True))
    groups = [list(group) for _, group in itertools.groupby(parts, key=lambda part: part[0].clique)]

    def potentials(x: Floats) -> list[Floats]:
        total = [part.copy() for part in base]
        for group in groups:  # everything of one clique at once: homes may be large
            cells = sum(term.spread(x[at] / scale) for term, scale, _, at in group)
            total[group[0][0].home] += np.reshape(cells, group[0][0].beside)
        return total

    def dual(x: Floats) -> tuple[float, Floats]:
        marginals, _, value = passes.run(potentials(x))
        gradient = np.empty_like(x)
        for group in groups:
            cells = marginals[group[0][0].home].sum(axis=group[0][0].others)
            for term, scale, ridge, at in group:
                potential = x[at] / scale
                value += float(ridge / 2 * potential @ potential - potential @ term.target)
                gradient[at] = (term.project(cells) - term.target + ridge * potential) / scale
        return value, gradient

    known = (
        start.potentials if start is not None else _start(domain, pooled, nodes, rows, iterations, shrinkage, ordered)
    )
    x = np.zeros(ends[-1])
    for term, scale, _, at in parts:
        if (term.clique, term.block) in known:
            x[at] = known[term.clique, term.block] * scale
    if terms:
        x = _minimise(dual, x, iterations, tolerance)
    marginals, conditionals, _ = passes.run(potentials(x))
    found = {(term.clique, term.block): x[at] / scale for term, scale, _, at in parts}
    return Fitted(domain, rows, nodes, marginals, conditionals, found)


def _minimise(dual: Callable[[Floats], tuple[float, Floats]], x: Floats, iterations: int, tolerance: float) -> Floats:
    """L-BFGS with a backtracking line search (Nocedal and Wright, 2006, algorithm 7.4), in vector operations alone.

    SciPy's solves small dense systems at every step, for which a linear algebra library may wake all its threads.
    """
    value, gradient = dual(x)
    memory: deque[tuple[Floats, Floats, float]] = deque(maxlen=20)
    for _ in range(iterations):
        direction, alphas = -gradient, []
        for step, change, curvature in reversed(memory):
            alphas.append(float(step @ direction) / curvature)
            direction -= alphas[-1] * change
        if memory:
            _, change, curvature = memory[-1]
            direction *= curvature / float(change @ change)
        for (step, change, curvature), alpha in zip(memory, reversed(alphas), strict=True):
            direction += (alpha - float(change @ direction) / curvature) * step
        slope, length = float(gradient @ direction), 1.0
        for _ in range(30):
            ahead, there = dual(x + length * direction)
            if ahead <= value + 1e-4 * length * slope:
                break
            length /= 2
        else:
            return x
        step, change = length * direction, there - gradient
        gained, x, value, gradient = value - ahead, x + step, ahead, there
        if (curvature := float(step @ change)) > 1e-12 * float(change @ change):
            memory.append((step, change, curvature))
        if gained <= tolerance * max(abs(value), 1.0) or np.abs(gradient).max() < 1e-7:
            break
    return x


def _start(
    domain: Domain,
    pooled: Mapping[Clique, tuple[Floats, float]],
    nodes: Sequence[Node],
    rows: float,
    iterations: int,
    shrinkage: float,
    ordered: Mapping[str, int] | None,
) -> Mapping[tuple[Clique, int], Floats]:
    """Potentials to start from, where the measured cliques form a tree: those of every clique's own small model.

    If the small models p_e agree on the single columns p_i they share, and those are q's, the whole is in closed form
    p = q · Π_e p_e / Π_{i in e} p_i, so potentials of cliques stay and those of single columns add up. A small model
    starts from the logarithm of how far its counts are from independence, as far as they stand out of the noise.
    """
    wide = [clique for clique in pooled if len(clique) > 1]
    if len(wide) == 1:
        (clique,) = wide
        counts, sigma = pooled[clique]
        guess = product([Measured((c,), *pooled.get((c,), (np.ones(domain.sizes[c]), 1.0))) for c in clique], rows)
        return {(clique, 1): np.log((np.maximum(counts, 0.0) + 2 * sigma) / (guess + 2 * sigma)).ravel()}
    if any(node.clique not in pooled or len(node.separator) > 1 for node in nodes if len(node.clique) > 1):
        return {}
    found: dict[tuple[Clique, int], Floats] = {}
    for clique in wide:
        own = [
            Measured(each, *pooled[each]) for each in pooled if each == clique or (len(each) == 1 and each[0] in clique)
        ]
        small = Domain({name: domain.sizes[name] for name in clique})
        fitted = estimate(small, own, rows=rows, iterations=iterations, shrinkage=shrinkage, ordered=ordered)
        for term, potential in fitted.potentials.items():
            found[term] = found[term] + potential if term in found else potential
    return found


@dataclasses.dataclass(frozen=True)
class _Term:
    """One pooled marginal on blocks of its cells, ready for the dual.

    Attributes:
        target: Shares that add up to 1, flat.
        sigma: Of the noise of one cell's count.
        home: The node that holds the clique.
        others: The axes of the home that are not the clique's.
        beside: The shape in which the clique's array stands beside the home's.
        block: Bins along a block; below 0, blocks are as they were counted.
        blocks: The cell that each block begins with, and how many cells it has, along every axis of the clique.
    """

    clique: Clique
    block: int
    target: Floats
    sigma: float
    home: int
    others: tuple[int, ...]
    beside: tuple[int, ...]
    blocks: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]

    @classmethod
    def of(
        cls,
        clique: Clique,
        counts: Floats,
        sigma: float,
        block: int,
        ordered: Mapping[str, int],
        rows: float,
        domain: Domain,
        nodes: Sequence[Node],
    ) -> "_Term":
        holders = [i for i, node in enumerate(nodes) if set(clique) <= set(node.clique)]
        home = min(holders, key=lambda i: domain.size(nodes[i].clique))
        blocks = tuple(_blocks(domain.sizes[name], ordered.get(name, 0), block) for name in clique)
        shares = counts / rows
        for axis, (starts, _) in enumerate(blocks if block > 1 else ()):
            shares = np.add.reduceat(shares, starts, axis=axis)
        shares = shares.ravel() + (1.0 - shares.sum()) / shares.size  # as probabilities, they add up to 1
        others = _axes(nodes[home].clique, set(nodes[home].clique) - set(clique))
        beside = _spread(domain, clique, nodes[home].clique)
        return cls(clique, block, shares, sigma, home, others, beside, blocks)

    @classmethod
    def in_blocks(
        cls,
        measured: Measured,
        pooled: Mapping[Clique, tuple[Floats, float]],
        rows: float,
        domain: Domain,
        nodes: Sequence[Node],
    ) -> "_Term":
        """A marginal that was counted in blocks, made to agree with the single columns."""
        clique, counts = measured.clique, measured.counts
        counts = counts + (rows - counts.sum()) / counts.size
        for axis, (name, starts) in enumerate(zip(clique, measured.starts, strict=True)):
            if (name,) in pooled:
                single = np.add.reduceat(pooled[(name,)][0], starts)
                gap = (single - _margin(counts, axis)) * (len(single) / counts.size)
                counts = counts + gap.reshape([-1 if i == axis else 1 for i in range(counts.ndim)])
        holders = [i for i, node in enumerate(nodes) if set(clique) <= set(node.clique)]
        home = min(holders, key=lambda i: domain.size(nodes[i].clique))
        lengths = [np.diff(np.append(s, domain.sizes[name])) for name, s in zip(clique, measured.starts, strict=True)]
        others = _axes(nodes[home].clique, set(nodes[home].clique) - set(clique))
        beside = _spread(domain, clique, nodes[home].clique)
        blocks = tuple(zip(measured.starts, lengths, strict=True))
        sigma = max(measured.sigma, SMALLEST_SIGMA)
        return cls(clique, -counts.size, counts.ravel() / rows, sigma, home, others, beside, blocks)

    def project(self, cells: Floats) -> Floats:
        """The shares of the blocks in the clique's marginal, flat."""
        if self.block != 1:
            for axis, (starts, _) in enumerate(self.blocks):
                cells = np.add.reduceat(cells, starts, axis=axis)
        return cells.ravel()

    def spread(self, potential: Floats) -> Floats:
        """Flat potentials of blocks, in every cell of the clique: the transpose of `project`."""
        potential = potential.reshape([len(starts) for starts, _ in self.blocks])
        for axis, (_, lengths) in enumerate(self.blocks if self.block != 1 else ()):
            potential = np.repeat(potential, lengths, axis=axis)
        return potential


def _block_sizes(clique: Clique, ordered: Mapping[str, int]) -> list[int]:
    """1, and 2, 4, ... while there is a column of the clique that has more than two blocks of that size in a row."""
    longest = max((ordered.get(name, 0) for name in clique), default=0) if len(clique) > 1 else 0
    return [1, *(2**i for i in range(1, 30) if longest > 2 * 2**i)]


def _blocks(size: int, in_a_row: int, block: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where blocks along an axis begin, and how long they are; cells that do not stand in a row are by themselves."""
    starts = np.concatenate([np.arange(0, in_a_row, block), np.arange(in_a_row, size)]).astype(np.int64)
    return starts, np.diff(np.append(starts, size))


def _pool(domain: Domain, measured: Sequence[Measured]) -> dict[Clique, tuple[Floats, float]]:
    """The measured marginals in the domain's order, those of one clique weighted by precision and made one."""
    sums: dict[Clique, tuple[Floats, float]] = {}
    for each in measured:
        clique = domain.ordered(each.clique)
        counts = np.transpose(each.counts, [each.clique.index(name) for name in clique])
        weight = max(each.sigma, SMALLEST_SIGMA) ** -2
        total, precision = sums.get(clique, (np.zeros(counts.shape), 0.0))
        sums[clique] = total + weight * counts, precision + weight
    return {clique: (total / precision, precision**-0.5) for clique, (total, precision) in sums.items()}


def _consistent(
    domain: Domain, pooled: Mapping[Clique, tuple[Floats, float]], rows: float
) -> dict[Clique, tuple[Floats, float]]:
    """The same marginals, agreeing on how many rows there are and on every single column.

    A column's own counts are pooled from all marginals that hold it, weighted by precision: least squares, as far as
    single columns go. What marginals disagree on would otherwise hold large potentials against each other.
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
            counts = np.maximum(counts, precision**-0.5 / 4)  # an empty cell may hold a part of the noise
            singles[name] = counts * (rows / counts.sum())
    found = {}
    for clique, (counts, sigma) in pooled.items():
        agreed = counts + (rows - counts.sum()) / counts.size
        for axis, name in enumerate(clique):
            gap = (singles[name] - _margin(agreed, axis)) * (len(singles[name]) / counts.size)
            agreed = agreed + gap.reshape(_spread(domain, (name,), clique))
        found[clique] = agreed, sigma
    return {**{(name,): (counts, sums[name][1] ** -0.5) for name, counts in singles.items()}, **found}


def _margin(counts: Floats, axis: int) -> Floats:
    return counts.sum(axis=tuple(i for i in range(counts.ndim) if i != axis))


def _base(domain: Domain, pooled: Mapping[Clique, tuple[Floats, float]], nodes: Sequence[Node]) -> list[Floats]:
    """log q: the logarithm of each single column, in the node where the column comes in."""
    potentials = [np.zeros(domain.shape(node.clique)) for node in nodes]
    for node, potential in zip(nodes, potentials, strict=True):
        for name in node.residual:
            if (name,) in pooled:
                shares = pooled[(name,)][0]
                shares = np.maximum(shares / shares.sum(), SMALLEST_SHARE)
                potential += np.log(shares).reshape(_spread(domain, (name,), node.clique))
    return potentials
