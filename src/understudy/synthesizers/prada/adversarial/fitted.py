"""The fitted generators of adversarial training: networks as arrays, and levels from what they make.

The one rule: no row comes here. JAX is loaded when rows are drawn, not when a model is read.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Levels
from understudy.synthesizers.prada.fitted import FittedNetwork, FittedSequential, network_from
from understudy.synthesizers.prada.levels import to_levels
from understudy.tables.schema import Schema


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedPrada(FittedSequential):
    """The sequential generator that was trained against a critic; its norms are ‖W_j^k‖.

    Attributes:
        slope: Of the generator's LeakyReLU.
    """

    slope: float

    def sample(self, n: int, *, key: Key) -> Levels:
        from understudy.synthesizers.prada.adversarial import sequential

        weights = sequential.Weights(**self.params)
        return to_levels(
            sequential.sample(weights, self.layout, key.jax(), n, slope=self.slope), self.layout, self.edges
        )

    def arrays(self) -> dict[str, NDArray]:
        return {"slope": np.array(self.slope), **super().arrays()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> "FittedPrada":
        layout, params, edges = network_from(arrays)
        return cls(
            layout=layout,
            params=params,
            edges=edges,
            norms=arrays["norms"],
            pairs=arrays["pairs"],
            slope=float(arrays["slope"]),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedDPGAN(FittedNetwork):
    """The unstructured generator; layer i has the arrays "weight i" and "bias i"."""

    def sample(self, n: int, *, key: Key) -> Levels:
        from understudy.synthesizers.prada.adversarial import unstructured

        weights = unstructured.from_arrays(self.params)
        return to_levels(unstructured.sample(weights, self.layout, key.jax(), n), self.layout, self.edges)

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        """Every earlier column: all are made at once, from one noise."""
        order = schema.generation_order
        return {name: list(order[:i]) for i, name in enumerate(order)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> "FittedDPGAN":
        layout, params, edges = network_from(arrays)
        return cls(layout=layout, params=params, edges=edges)
