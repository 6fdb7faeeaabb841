"""What fitted sequential generators share: one network for each column, as arrays, and who is whose parent.

The one rule: no row comes here. JAX is loaded when rows are drawn, not when a model is read.
"""

import dataclasses
from collections.abc import Mapping

from numpy.typing import NDArray

from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.levels import edge_arrays, edges_from
from understudy.tables.schema import Schema

PREFIX = "params/"
"""Saved arrays of the networks are called this and the name of the array."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedNetwork:
    """Trained networks as arrays.

    Attributes:
        params: The weights, by name.
        edges: Of categorical columns; an empty entry for a pass-through column.
    """

    layout: Layout
    params: Mapping[str, NDArray]
    edges: Mapping[str, NDArray]

    def arrays(self) -> dict[str, NDArray]:
        return {
            **self.layout.arrays(),
            **edge_arrays(self.layout, self.edges),
            **{PREFIX + name: value for name, value in self.params.items()},
        }


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedSequential(FittedNetwork):
    """One trained network for each column, and who is whose parent.

    Attributes:
        norms: How far an earlier column moves a later one, (columns, columns), in generation order.
        pairs: Which of them count as parents.
    """

    norms: NDArray
    pairs: NDArray

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        names = self.layout.names
        return {
            name: [p for p, joined in zip(names, self.pairs[j], strict=True) if joined] for j, name in enumerate(names)
        }

    def strengths(self) -> dict[str, dict[str, float]]:
        names = self.layout.names
        return {name: {names[k]: float(self.norms[j, k]) for k in range(j)} for j, name in enumerate(names)}

    def arrays(self) -> dict[str, NDArray]:
        return {"norms": self.norms, "pairs": self.pairs, **super().arrays()}


def network_from(arrays: Mapping[str, NDArray]) -> tuple[Layout, dict[str, NDArray], dict[str, NDArray]]:
    """Layout, weights and edges among saved arrays."""
    layout = Layout.from_arrays(arrays)
    params = {name.removeprefix(PREFIX): value for name, value in arrays.items() if name.startswith(PREFIX)}
    return layout, params, edges_from(arrays, layout)
