"""The fitted generator of GEM: a mixture of products, as one array of shares for every column."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.bins import Bins
from understudy.encoding.encoder import Levels
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class FittedGEM:
    """A mixture of products.

    Attributes:
        bins: Of every column.
        shares: For every column, the share of each bin in each component of the mixture, (components, bins).
    """

    bins: Mapping[str, Bins]
    shares: Mapping[str, Floats]

    def sample(self, n: int, *, key: Key) -> Levels:
        """Draws a component for every row, and given that, every column by itself."""
        components = len(next(iter(self.shares.values())))
        component = key.child("component").numpy().integers(components, size=n)
        levels = {}
        for name, shares in self.shares.items():
            draw = key.child(name).numpy()
            codes = _draw(shares, component, draw.random(n))
            levels[name] = self.bins[name].level(codes, draw.random(n))
        return levels

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        """Every earlier column: the component of a row joins them all."""
        order = schema.generation_order
        return {name: list(order[:i]) for i, name in enumerate(order)}

    def arrays(self) -> dict[str, NDArray]:
        names = list(self.bins)
        arrays: dict[str, NDArray] = {
            "columns": np.array(names),
            "nullable": np.array([self.bins[name].nullable for name in names]),
        }
        for i, name in enumerate(names):
            arrays[f"ends {i}"] = self.bins[name].edges
            arrays[f"shares {i}"] = self.shares[name]
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> "FittedGEM":
        names = arrays["columns"].tolist()
        nullable = arrays["nullable"].tolist()
        bins = {name: Bins(arrays[f"ends {i}"], nullable[i]) for i, name in enumerate(names)}
        return cls(bins, {name: arrays[f"shares {i}"] for i, name in enumerate(names)})


def _draw(shares: Floats, component: NDArray[np.int64], uniform: Floats) -> NDArray[np.int64]:
    """A bin for every row, drawn by the shares of its component.

    All components' distribution functions one after another, component b from b to b + 1, are one ascending list; the
    place of b + uniform in it is the bin.
    """
    components, bins = shares.shape
    cumulative = np.cumsum(shares, axis=1)
    cumulative = np.minimum(cumulative / cumulative[:, -1:], 1.0) + np.arange(components)[:, None]
    place = np.searchsorted(cumulative[:, :-1].reshape(-1), component + uniform, side="right")
    return np.clip(place - component * (bins - 1), 0, bins - 1)
