"""Simulated tables to audit a method on: rows whose columns depend on each other, as those of real tables do.

The one rule: the rows are drawn here, from the equations of a simulator in `datasets` and from a fixed seed. No table
is taken, so nobody's can be recorded.
"""

import dataclasses
import itertools
from collections.abc import Callable

import polars as pl

from understudy import datasets
from understudy.core.text import did_you_mean
from understudy.datasets.simulators import EQUATIONS, GRAPHS, simulate
from understudy.tables.schema import Schema

SEED = 0
"""The seed of every simulated network and of its rows."""
COLUMNS = 5
"""Columns of a simulated network; the paper's ten would take twice as long and show the same mechanisms."""
NAMES = ("example", *map("-".join, itertools.product(GRAPHS, EQUATIONS)))
"""The simulated people of the demonstration, and every kind of random network with every kind of equations."""


@dataclasses.dataclass(frozen=True, eq=False)
class Simulated:
    """A simulated table of as many rows as are needed.

    Attributes:
        name: One of `NAMES`.
        schema: What is public about it.
        draw: So many rows; fewer rows of a network are the first of more.
    """

    name: str
    schema: Schema
    draw: Callable[[int], pl.DataFrame]

    @classmethod
    def named(cls, name: str) -> "Simulated":
        """The simulated table of this name.

        Raises:
            ValueError: There is none.
        """
        if name not in NAMES:
            hint = did_you_mean(name, NAMES) if isinstance(name, str) else ""
            raise ValueError(f"simulated: expected one of {', '.join(NAMES)}, got {name!r}.{hint}")
        if name == "example":
            return cls(name, datasets.example_schema(), lambda n: datasets.example(n, seed=SEED))
        graph = next(graph for graph in GRAPHS if name.startswith(f"{graph}-"))
        equations = name[len(graph) + 1 :]

        def rows(n: int) -> pl.DataFrame:
            return simulate(n, COLUMNS, graph=graph, equations=equations, seed=SEED).frame

        return cls(name, simulate(0, COLUMNS, graph=graph, equations=equations, seed=SEED).schema, rows)
