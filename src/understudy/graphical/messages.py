"""Messages over a junction tree: from log potentials on its cliques to marginals, conditionals and log Z.

The one rule: public mathematics. Nothing here sees a row, and nothing is drawn.

`MessagePasser.marginals` is what an optimiser calls hundreds of times: one exponential of all potentials, then products
and sums. `MessagePasser.run` stays in logarithms. It is slower, gives conditionals as well, and takes over where the
products would leave the range of floats.

Sources: Koller and Friedman (2009), "Probabilistic graphical models", chapter 10.
"""

import functools
import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.graphical.junction_tree import Node
from understudy.graphical.marginals import Clique, Domain

Floats = NDArray[np.float64]

# Logarithms within this range of each other all have an exponential that is a normal float.
WIDEST_RANGE = 600.0
# Up to this many cells side by side are summed by a product with a matrix, most of which is zeros.
MOST_BESIDE = 16
# Sums of products are trusted within this range.
SMALLEST_TOTAL, LARGEST_TOTAL = 1e-280, 1e280


class MessagePasser:
    """Messages over one junction tree.

    The arrays of all nodes lie in one vector, in the order of `at`: those of few cells first.

    Attributes:
        nodes: The junction tree, parents first.
        shapes: Of every node's array.
        at: Where every node's array lies.
        size: Cells of all nodes.
    """

    def __init__(self, domain: Domain, nodes: Sequence[Node]):
        self.nodes = nodes
        self.shapes = [domain.shape(node.clique) for node in nodes]
        sizes = [math.prod(shape) for shape in self.shapes]
        self.at = [slice(0)] * len(nodes)
        self.size = 0
        for i in sorted(range(len(nodes)), key=sizes.__getitem__):
            self.at[i] = slice(self.size, self.size + sizes[i])
            self.size += sizes[i]
        self._weights = np.empty(self.size)
        self._arrays = self.arrays(self._weights)
        self._parents = [node.parent for node in nodes]
        self._residual = [axes_of(node.residual, node.clique) for node in nodes]
        self._in_child = [shape_within(domain, node.separator, node.clique) for node in nodes]
        self._outside: list[tuple[int, ...]] = []  # the axes of a parent that a separator has not
        self._in_parent: list[tuple[int, ...]] = []
        for node in nodes:
            parent = nodes[node.parent].clique if node.parent >= 0 else ()
            self._outside.append(axes_of(set(parent) - set(node.separator), parent))
            self._in_parent.append(shape_within(domain, node.separator, parent))
        self._sums_up = [Summation.over(*each) for each in zip(self.shapes, self._residual, strict=True)]
        self._sums_down = [
            Summation.over(self.shapes[node.parent] if node.parent >= 0 else (), axes)
            for node, axes in zip(nodes, self._outside, strict=True)
        ]

    def arrays(self, vector: Floats) -> list[Floats]:
        """The arrays of all nodes in a vector of all cells."""
        return [vector[at].reshape(shape) for at, shape in zip(self.at, self.shapes, strict=True)]

    def marginals(self, potentials: Floats) -> tuple[Floats, float]:
        """The marginals of all cliques and log Z, from a vector of log potentials. The next call overwrites them.

        With w = exp(potential), a node's message is the sum of its w, times the messages that came to it, over its
        residual; its marginal is its w times what its parent's marginal says of the separator, over its message.
        """
        if not potentials.max() <= WIDEST_RANGE:
            return self._carefully(potentials)
        np.exp(potentials, out=self._weights)
        arrays, totals = self._arrays, [np.ones(1)] * len(self.nodes)
        with np.errstate(over="ignore", invalid="ignore"):
            for i in range(len(arrays) - 1, 0, -1):
                totals[i] = total = self._sums_up[i].flat(arrays[i])
                arrays[self._parents[i]] *= total.reshape(self._in_parent[i])
            totals[0] = arrays[0].sum(keepdims=True).ravel()
        every = np.concatenate(totals)
        if not (every.min() > SMALLEST_TOTAL and every.max() < LARGEST_TOTAL):
            return self._carefully(potentials)
        arrays[0] /= totals[0].item()
        for i in range(1, len(arrays)):
            above = self._sums_down[i].flat(arrays[self._parents[i]])
            above /= totals[i]
            arrays[i] *= above.reshape(self._in_child[i])
        return self._weights, math.log(totals[0].item())

    def _carefully(self, potentials: Floats) -> tuple[Floats, float]:
        marginals, _, log_z = self.run(self.arrays(potentials.copy()))
        for array, marginal in zip(self._arrays, marginals, strict=True):
            array[...] = marginal
        return self._weights, log_z

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
            total = self._sums_up[i].of(weight).reshape(self._in_child[i])
            weight /= total
            conditionals[i] = weight
            message = np.log(total) + top
            if self.nodes[i].parent >= 0:
                beliefs[self.nodes[i].parent] += message.reshape(self._in_parent[i])
            else:
                log_z = float(message.sum())
        marginals: list[Floats] = []
        for i, conditional in enumerate(conditionals):
            if self.nodes[i].parent < 0:
                marginals.append(conditional)
                continue
            separator = self._sums_down[i].of(marginals[self.nodes[i].parent])
            marginals.append(conditional * np.reshape(separator, self._in_child[i]))
        return marginals, conditionals, log_z


class Sums:
    """How to sum arrays over the cliques of some nodes down to fewer columns, one axis at a time.

    Sums that have their first steps in common share them: the pairs of a clique of five columns take little more than
    one pass over its array.
    """

    def __init__(self, domain: Domain, cliques: Sequence[Clique]):
        self._domain, self._cliques = domain, cliques
        self._steps: list[tuple[int, Summation]] = []  # an array's number, and how it is summed
        self._made: dict[tuple[int, Clique], int] = {(i, clique): i for i, clique in enumerate(cliques)}

    def down_to(self, node: int, kept: Clique) -> int:
        """The number that the sum has in the result of `run`; `kept` in the order of the node's clique."""
        if (node, kept) not in self._made:
            left = [name for name in self._cliques[node] if name not in kept]
            last = min(left, key=self._domain.sizes.__getitem__)  # the longest axes are summed over first
            before = tuple(name for name in self._cliques[node] if name in kept or name == last)
            step = Summation.over(self._domain.shape(before), (before.index(last),))
            self._steps.append((self.down_to(node, before), step))
            self._made[node, kept] = len(self._cliques) + len(self._steps) - 1
        return self._made[node, kept]

    def run(self, arrays: Sequence[Floats]) -> list[Floats]:
        """The nodes' arrays, and every sum of them that was asked for."""
        found = list(arrays)
        for source, summation in self._steps:
            found.append(summation.of(found[source]))
        return found


class Summation:
    """The sum of arrays of one shape over some axes, in ascending order: one product for each run of them.

    NumPy's own sum over an axis takes five to fifty times as long where few cells lie side by side.
    """

    __slots__ = ("_kept", "_steps")

    def __init__(self, shape: tuple[int, ...], axes: tuple[int, ...]):
        self._kept = tuple(size for axis, size in enumerate(shape) if axis not in axes)
        # For each run of axes, the last one first: how many cells are summed, and how many lie side by side after them.
        self._steps: list[tuple[int, int, Floats | None]] = []
        beside, run = 1, 1
        for axis in reversed(range(len(shape))):
            if axis in axes:
                run *= shape[axis]
                if axis - 1 not in axes:
                    self._steps.append((run, beside, _adding(run, beside) if axis else None))
                    run = 1
            else:
                beside *= shape[axis]

    @classmethod
    @functools.lru_cache(maxsize=4096)
    def over(cls, shape: tuple[int, ...], axes: tuple[int, ...]) -> "Summation":
        """The summation of a shape, made once."""
        return cls(shape, axes)

    def of(self, array: Floats) -> Floats:
        """The sum of one array."""
        return self.flat(array).reshape(self._kept)

    def flat(self, array: Floats) -> Floats:
        """The sum of one array as a vector of its own."""
        if not self._steps:
            return array.flatten()
        for run, beside, adding in self._steps:
            if adding is not None:
                array = array.reshape(-1, run * beside) @ adding
            elif array.size > run * beside:
                array = np.add.reduce(array.reshape(-1, run, beside), axis=1)
            else:
                array = _ones(run) @ array.reshape(run, beside)
        return array.reshape(-1)


def _adding(run: int, beside: int) -> Floats | None:
    """The matrix that adds up every so manieth number of a row; None if few zeros are no longer worth it."""
    return _repeated_identity(run, beside) if beside <= MOST_BESIDE else None


@functools.lru_cache(maxsize=1024)
def _repeated_identity(run: int, beside: int) -> Floats:
    return np.tile(np.eye(beside), (run, 1)) if beside > 1 else np.ones(run)


@functools.lru_cache(maxsize=1024)
def _ones(count: int) -> Floats:
    return np.ones(count)


def summed(array: Floats, axes: tuple[int, ...]) -> Floats:
    """The sum over some axes, in ascending order."""
    return Summation.over(array.shape, axes).of(array)


def axes_of(columns: Iterable[str], clique: Clique) -> tuple[int, ...]:
    """The axes that some columns have in an array over a clique."""
    wanted = set(columns)
    return tuple(i for i, name in enumerate(clique) if name in wanted)


def shape_within(domain: Domain, columns: Clique, clique: Clique) -> tuple[int, ...]:
    """The shape in which an array over some columns broadcasts against one over a clique that holds them."""
    return tuple(domain.sizes[name] if name in columns else 1 for name in clique)
