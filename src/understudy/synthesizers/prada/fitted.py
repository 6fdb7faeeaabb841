"""The fitted generators of trained generators: networks as arrays, and levels from what they make.

The one rule: no row goes in here. JAX is loaded when rows are drawn, not when a model is read.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.core.stratified import stratified_levels
from understudy.encoding.encoder import Encoder, Levels, PassThrough, category_count
from understudy.tables.schema import Schema

if TYPE_CHECKING:
    from understudy.synthesizers.prada.networks import Layout


def category_edges(encoder: Encoder, layout: "Layout") -> dict[str, NDArray]:
    """The levels at which the values of each category column begin and end; nothing for a column taken as it is."""
    return {
        block.name: np.zeros(0) if isinstance(m := encoder.maps[block.name], PassThrough) else m.distribution.cdf
        for block in layout.blocks
        if not block.number or isinstance(encoder.maps[block.name], PassThrough)
    }


def to_levels(made: NDArray, layout: "Layout", edges: Mapping[str, NDArray]) -> Levels:
    """Levels from rows of features: scores through the normal distribution function, states to their middle."""
    from scipy.special import ndtr

    levels = {}
    for block, start in zip(layout.blocks, layout.starts, strict=True):
        state = (
            made[:, start + block.number : start + block.width].argmax(axis=1)
            if block.states
            else np.zeros(len(made), int)
        )
        if block.number:
            score = made[:, start].astype(np.float64)
            level = score if block.name in edges else ndtr(score)
            levels[block.name] = np.where(state == 1, np.nan, level)
        else:
            cdf = edges[block.name]
            middle = np.append((cdf[:-1] + cdf[1:]) / 2, np.nan)
            levels[block.name] = middle[state]
    return levels


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedSequential:
    """One trained network for each column, and who is whose parent.

    Attributes:
        params: Of the networks.
        norms: How far an earlier column moves a later one, (columns, columns), in generation order.
        pairs: Which of them count as parents.
        edges: Of category columns; an empty entry for a column that is taken as it is.
    """

    layout: "Layout"
    params: Mapping[str, NDArray]
    norms: NDArray
    pairs: NDArray
    edges: Mapping[str, NDArray]

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        names = self.layout.names
        return {
            name: [p for p, joined in zip(names, self.pairs[j], strict=True) if joined] for j, name in enumerate(names)
        }

    def strengths(self) -> dict[str, dict[str, float]]:
        names = self.layout.names
        return {name: {names[k]: float(self.norms[j, k]) for k in range(j)} for j, name in enumerate(names)}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedPrada(FittedSequential):
    """The generator that was trained against a critic; its norms are ‖W_j^k‖.

    Attributes:
        slope: Of the generator's LeakyReLU.
    """

    slope: float

    def sample(self, n: int, *, key: Key) -> Levels:
        from understudy.synthesizers.prada import networks

        made = networks.sample({**self.params}, self.layout, key.jax(), n, slope=self.slope)
        return to_levels(made, self.layout, self.edges)

    def arrays(self) -> dict[str, NDArray]:
        return {
            "norms": self.norms,
            "pairs": self.pairs,
            "slope": np.array(self.slope),
            **layout_arrays(self.layout, self.edges),
            **{f"params/{name}": value for name, value in self.params.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> "FittedPrada":
        layout, edges = layout_from(arrays)
        params = params_from(arrays)
        facts = {name: arrays[name] for name in ("norms", "pairs")}
        return cls(layout=layout, params=params, edges=edges, slope=float(arrays["slope"]), **facts)


def public_signals(
    encoder: Encoder, order: Sequence[str], columns: Mapping[str, NDArray], labels: Mapping[str, Sequence[str]]
) -> NDArray:
    """The signals of a PUBLIC table, (rows, signals), without chance: a repeated value has the middle of its levels.

    A category that is not known is `other` where there is one, and else the first. A value that is missing against the
    schema has the level 1/2.
    """
    from scipy.special import ndtri

    edge, found = 0.25 / max(encoder.rows, 10.0), []
    for name in order:
        m, values = encoder.maps[name], columns[name]
        gone = np.isnan(values) if values.dtype.kind == "f" else values < 0
        count = category_count(encoder, name)
        if m.labels is None:
            below, above = m.levels(values)
            level = np.where(gone, 0.5, (below + above) / 2)
            score = level if isinstance(m, PassThrough) else ndtri(np.clip(level, edge, 1 - edge))
            found.append(np.where(gone & (count > 0), 0.0, score))
            state = gone.astype(np.int64)
        else:
            place = {label: code for code, label in enumerate(m.labels)}
            other = place.get(m.column.other or "other", 0)
            known = labels.get(name)
            codes = np.where(gone, 0, np.nan_to_num(values)).astype(np.int64)
            if known is not None and len(known):
                codes = np.array([place.get(label, other) for label in known], dtype=np.int64)[codes]
            state = np.where(gone, len(m.labels) if m.column.nullable else other, codes)
        found += [(state == s).astype(np.float64) for s in range(count)]
    return np.stack(found, axis=1) if found else np.zeros((0, 0))


def layout_arrays(layout: "Layout", edges: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """A layout as arrays."""
    places = {name: i for i, name in enumerate(layout.names)}
    return {
        "names": np.array(layout.names),
        "numbers": np.array([block.number for block in layout.blocks]),
        "states": np.array([block.states for block in layout.blocks]),
        **{f"edges/{places[name]}": value for name, value in edges.items()},
    }


def params_from(arrays: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """The parameters among saved arrays."""
    return {key.removeprefix("params/"): value for key, value in arrays.items() if key.startswith("params/")}


def layout_from(arrays: Mapping[str, NDArray]) -> tuple["Layout", dict[str, NDArray]]:
    """The layout that `layout_arrays` wrote down."""
    from understudy.synthesizers.prada.networks import Block, Layout

    facts = zip(arrays["names"].tolist(), arrays["numbers"].tolist(), arrays["states"].tolist(), strict=True)
    layout = Layout(tuple(Block(name, number, count) for name, number, count in facts))
    edges = {name: arrays[f"edges/{i}"] for i, name in enumerate(layout.names) if f"edges/{i}" in arrays}
    return layout, edges


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedDensity(FittedSequential):
    """Conditional densities, set straight (density.py).

    Attributes:
        components: Normals in the mixture of a number.
        limit: Scores lie within ± this, as those of the rows do.
    """

    components: int
    limit: float

    def sample(self, n: int, *, key: Key) -> Levels:
        from understudy.synthesizers.prada import density

        made = density.sample(self.params, self.layout, self.components, self.limit, key.jax(), n)
        levels = to_levels(made, self.layout, self.edges)
        numbers = {block.name for block in self.layout.blocks if block.number} - self.edges.keys()
        draw = key.child("even").numpy()
        return {name: stratified_levels(level, draw) if name in numbers else level for name, level in levels.items()}

    def log_density(
        self, encoder: Encoder, columns: Mapping[str, NDArray], labels: Mapping[str, Sequence[str]]
    ) -> NDArray:
        """The log density of the signals of a public table's rows, in nats: (rows,)."""
        from understudy.synthesizers.prada import density

        x = public_signals(encoder, self.layout.names, columns, labels).astype(np.float32)
        return density.straight_log_density(self.params, x, self.layout, self.components)

    def arrays(self) -> dict[str, NDArray]:
        return {
            "norms": self.norms,
            "pairs": self.pairs,
            "components": np.array(self.components),
            "limit": np.array(self.limit),
            **layout_arrays(self.layout, self.edges),
            **{f"params/{name}": value for name, value in self.params.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> "FittedDensity":
        layout, edges = layout_from(arrays)
        params = params_from(arrays)
        return cls(
            layout=layout,
            params=params,
            norms=arrays["norms"],
            pairs=arrays["pairs"],
            edges=edges,
            components=int(arrays["components"]),
            limit=float(arrays["limit"]),
        )
