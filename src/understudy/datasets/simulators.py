"""Simulated tables with a known Bayesian network: the paper's synthetic experiments.

The one rule: the graph, the weights and the rows of a simulation all follow from its seed, and the truth is returned
with the rows.

The model is the paper's, section "Synthetic Experiments": X_j = f_j(Π_j) + z_j for j in [d], where Π_j are the parents
of X_j and z_j ~ N(0, 1) are independent. Nonlinear (same section, "Parameter Analysis of Learning Rate"), on an
Erdős–Rényi graph:

    f_j(Π_j) = tanh(w_1j · Π_j) + cos(w_2j · Π_j) + sin(w_3j · Π_j)

Linear (appendix with further results), on a scale-free graph:

    f_j(Π_j) = Σ_{j' in Π_j} w_{j,j'} X_{j'}

Every weight is uniform on [0.5, 2.0] and independently negated with probability 0.5. The paper takes d = 10 and
n = 2000.

Where the paper is silent we follow the code that goes with its reference for the graphs (Zheng et al. 2018, DAGs with
NO TEARS, arXiv:1803.01422), which has the same weights and functions:

- How many edges: `degree` a node, 2 unless told ("ER2", "SF2"). An Erdős–Rényi graph has exactly degree · d edges,
  uniform among all graphs with that many, and directed along a uniformly random order.
- Scale-free is Barabási–Albert: nodes are added one by one, and each sends edges to `degree` different earlier nodes
  (all of them while there are fewer), with probabilities proportional to 1 + the number of edges they have received.
  So edges go from new to old, and a hub has many parents. There are degree · d - degree (degree + 1) / 2 of them.
- A node without parents is pure noise, X_j = z_j. Read literally, cos(0) would shift it by 1.
- Columns are named in an order that is independent of the graph.
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.core.settings import OneOf, Whole, require
from understudy.tables.column import Column
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]

SMALLEST_WEIGHT, LARGEST_WEIGHT = 0.5, 2.0
"""The absolute value of a weight is uniform between these; its sign is positive with probability one half."""
NONLINEAR_BOUND = 10.0
"""Nonlinear columns lie within ± this: |f_j| <= 3, and a standard normal exceeds 7 with probability 3e-12."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Simulation:
    """A simulated table and its truth.

    Attributes:
        frame: The rows.
        parents: The true parents of every column.
        schema: What is public: names and kinds, and the bounds of nonlinear equations (linear ones have none). It does
            not contain the order.
        order: All columns, parents before children.
        equations: The name of the structural equations, a key of `EQUATIONS`.
        weights: For every column an array of shape (projections, parents): w_kj, in the order of `parents`.
    """

    frame: pl.DataFrame
    parents: dict[str, list[str]]
    schema: Schema
    order: tuple[str, ...]
    equations: str
    weights: dict[str, Floats]

    def draw(self, n: int, *, seed: int) -> pl.DataFrame:
        """`n` new rows of the same network, for testing; the seed is not that of the network."""
        require("draw, n", n, Whole(least=0))
        return self._rows(n, np.random.default_rng(seed))

    def _rows(self, n: int, draw: np.random.Generator) -> pl.DataFrame:
        noise = draw.standard_normal((n, len(self.order)))  # row by row, so that fewer rows are the first of more
        columns: dict[str, Floats] = {}
        for name, z in zip(self.order, noise.T, strict=True):
            columns[name] = structural(self.equations, self.weights[name], columns, self.parents[name], n) + z
        return pl.DataFrame({name: columns[name] for name in self.schema.names})


def simulate(
    n: int,
    d: int = 10,
    *,
    graph: str = "erdos-renyi",
    equations: str = "nonlinear",
    degree: int = 2,
    seed: int,
) -> Simulation:
    """`n` rows of `d` columns from a random Bayesian network with structural equations, as the module defines them.

    Args:
        n: Number of rows. The network does not depend on it.
        d: Number of columns; 10 is the paper's.
        graph: A key of `GRAPHS`.
        equations: A key of `EQUATIONS`.
        degree: Edges per node.
        seed: All of the simulation's randomness.

    Raises:
        ValueError: A setting is none of those above, or a graph of `d` nodes cannot have so many edges.
    """
    require("simulate, graph", graph, OneOf(*GRAPHS))
    require("simulate, equations", equations, OneOf(*EQUATIONS))
    require("simulate, n", n, Whole(least=0))
    require("simulate, d", d, Whole(least=1))
    require("simulate, degree", degree, Whole(least=0))
    for_network, for_rows = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    names = tuple(f"x{j}" for j in range(1, d + 1))
    edges = GRAPHS[graph](d, degree, for_network)
    labels = [names[j] for j in for_network.permutation(d)]  # the name of each node
    parents = {labels[j]: [labels[i] for i in np.flatnonzero(edges[:, j])] for j in range(d)}
    bound = NONLINEAR_BOUND if equations == "nonlinear" else None
    columns = (
        Column(name=name, kind="continuous", low=None if bound is None else -bound, high=bound) for name in names
    )
    empty = Simulation(
        frame=pl.DataFrame(),
        parents={name: parents[name] for name in names},
        schema=Schema(name=f"{graph}-{equations}", columns=tuple(columns)),
        order=tuple(labels),
        equations=equations,
        weights={
            name: random_weights((EQUATIONS[equations].projections, len(parents[name])), for_network) for name in names
        },
    )
    return dataclasses.replace(empty, frame=empty._rows(n, for_rows))


# Graphs -------------------------------------------------------------------------------------------------------------

Edges = NDArray[np.bool_]
"""A directed graph: entry (i, j) says that i is a parent of j, and then i < j."""


def erdos_renyi(d: int, degree: int, draw: np.random.Generator) -> Edges:
    """A graph of `degree * d` edges, uniform among all acyclic graphs in this order that have as many."""
    above = np.transpose(np.triu_indices(d, k=1))
    if degree * d > len(above):
        raise ValueError(
            f"simulate, degree: expected degree <= (d - 1) / 2, because d = {d} nodes cannot have more edges, "
            f"got {degree}."
        )
    edges = np.zeros((d, d), dtype=bool)
    edges[tuple(draw.permutation(above)[: degree * d].T)] = True
    return edges


def scale_free(d: int, degree: int, draw: np.random.Generator) -> Edges:
    """A Barabási–Albert graph, where each new node becomes a parent of `degree` preferred earlier ones."""
    if degree >= d:
        raise ValueError(f"simulate, degree: expected degree < d = {d}, got {degree}.")
    new_to_old = np.zeros((d, d), dtype=bool)
    for new in range(1, d):
        appeal = 1.0 + new_to_old[:, :new].sum(axis=0)  # (earlier nodes,)
        chosen = draw.choice(new, min(degree, new), replace=False, p=appeal / appeal.sum())
        new_to_old[new, chosen] = True
    return new_to_old[::-1, ::-1]  # the newest node first, so that edges go upwards


GRAPHS: Mapping[str, Callable[[int, int, np.random.Generator], Edges]] = {
    "erdos-renyi": erdos_renyi,
    "scale-free": scale_free,
}


# Structural equations -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Equations:
    """A multiple index model: a sum of functions, each of its own projection of the parents."""

    functions: tuple[Callable[[Floats], Floats], ...]

    @property
    def projections(self) -> int:
        """How many weights a parent has."""
        return len(self.functions)


EQUATIONS: Mapping[str, Equations] = {
    "linear": Equations(functions=(np.positive,)),
    "nonlinear": Equations(functions=(np.tanh, np.cos, np.sin)),
}


def random_weights(shape: tuple[int, ...], draw: np.random.Generator) -> Floats:
    """Weights uniform on [0.5, 2.0], independently negated with probability 0.5."""
    return draw.uniform(SMALLEST_WEIGHT, LARGEST_WEIGHT, shape) * draw.choice([-1.0, 1.0], shape)


def structural(equations: str, weights: Floats, columns: Mapping[str, Floats], parents: list[str], n: int) -> Floats:
    """f_j(Π_j) for `n` rows: a column without its noise."""
    if not parents:
        return np.zeros(n)
    values = np.stack([columns[name] for name in parents])  # (parents, rows)
    functions = EQUATIONS[equations].functions
    return np.sum([f(w @ values) for f, w in zip(functions, weights, strict=True)], axis=0)
