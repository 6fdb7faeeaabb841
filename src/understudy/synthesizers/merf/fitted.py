"""The fitted generator of DP-MERF as arrays, and the levels it draws. NumPy alone; it holds no row."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, Levels
from understudy.privacy.embedding import EmbeddedColumn, first_features
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]

CALIBRATION = 2**15
"""The generator's own quantiles are read from this many generated rows."""
KNOTS = 512
"""A distribution function is kept at this many quantiles."""
CHUNK = 2**15
"""Rows are generated at most this many at a time, which bounds memory."""


def outputs(params: Mapping[str, NDArray], z: NDArray) -> NDArray:
    """Scores and logits, one row for each row of the noise."""
    return with_layers(params, z)[0]


def with_layers(params: Mapping[str, NDArray], z: NDArray) -> tuple[NDArray, list[NDArray]]:
    """Scores and logits, and the layers behind them: the noise, then each hidden layer."""
    layers, depth = [z], sum(name.startswith("shift") for name in params)
    for i in range(depth):
        layers.append(np.tanh(layers[-1] @ params[f"weight {i}"] + params[f"shift {i}"]))
    return z @ params["straight"] + params["bias"] + layers[-1] @ params[f"weight {depth}"], layers


def draw_categories(logits: Floats, uniform: Floats) -> NDArray[np.int64]:
    """One category for each row, drawn with the probabilities of its logits."""
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    cumulative = np.cumsum(weight, axis=1)
    return (uniform[:, None] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=1)


def generate(
    params: Mapping[str, NDArray], columns: Sequence[EmbeddedColumn], n: int, draw: np.random.Generator
) -> list[tuple[Floats | None, NDArray[np.int64] | None]]:
    """`n` rows of the generator: for each column its scores and its categories, None if it has none."""
    y = outputs(params, draw.standard_normal((n, params["straight"].shape[0]), dtype=np.float32)).astype(np.float64)
    found: list[tuple[Floats | None, NDArray[np.int64] | None]] = []
    for column, start in zip(columns, first_features(columns), strict=True):
        logits = y[:, start + column.number : start + column.width]
        categories = draw_categories(logits, draw.random(n)) if column.categories else None
        found.append((y[:, start] if column.number else None, categories))
    return found


def calibrate(params: Mapping[str, NDArray], columns: Sequence[EmbeddedColumn], key: Key) -> Floats:
    """The quantiles of every number that the generator makes, (columns, knots), by which its scores become levels.

    With them every column of numbers has exactly the released distribution, whatever the generator missed.
    """
    knots = np.zeros((len(columns), KNOTS))
    for c, (score, category) in enumerate(generate(params, columns, CALIBRATION, key.numpy())):
        if score is not None:
            present = score if category is None or not (category == 0).any() else score[category == 0]
            knots[c] = np.quantile(present, quantile_levels())
    return knots


def quantile_levels() -> Floats:
    """Levels of the knots: even in normal score, so that tails are resolved."""
    from scipy.special import ndtr

    return ndtr(np.linspace(-3.8, 3.8, KNOTS))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FittedMERF:
    """The fitted generator.

    Attributes:
        columns: The features of each column.
        edges: The levels between which the categories of each category column lie; empty for a number.
        params: The network.
        knots: As of `calibrate`.
    """

    columns: tuple[EmbeddedColumn, ...]
    edges: tuple[Floats, ...]
    params: Mapping[str, NDArray]
    knots: Floats

    @classmethod
    def of(
        cls, params: Mapping[str, NDArray], columns: tuple[EmbeddedColumn, ...], encoder: Encoder, key: Key
    ) -> "FittedMERF":
        edges = tuple(np.zeros(0) if c.number else encoder.columns[c.name].distribution.cdf for c in columns)
        return cls(columns=columns, edges=edges, params=params, knots=calibrate(params, columns, key))

    def sample(self, n: int, *, key: Key) -> Levels:
        draw = key.numpy()
        parts = [self._chunk(min(CHUNK, n - start), draw) for start in range(0, n, CHUNK)] or [self._chunk(0, draw)]
        return {column.name: np.concatenate([part[column.name] for part in parts]) for column in self.columns}

    def _chunk(self, n: int, draw: np.random.Generator) -> Levels:
        levels: Levels = {}
        at = quantile_levels()
        at[0], at[-1] = 0.0, 1.0
        generated = generate(self.params, self.columns, n, draw)
        for c, (column, (score, category)) in enumerate(zip(self.columns, generated, strict=True)):
            if score is not None:
                knots = self.knots[c] + 1e-9 * np.arange(KNOTS)  # ascending even where the generator repeats itself
                level = np.interp(score, knots, at)
                levels[column.name] = level if category is None else np.where(category == 1, np.nan, level)
            else:
                cdf = self.edges[c]
                levels[column.name] = np.append((cdf[:-1] + cdf[1:]) / 2, np.nan)[category]
        return levels

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        """Every earlier column: all are generated at once, from one noise vector."""
        order = schema.generation_order
        return {name: list(order[:i]) for i, name in enumerate(order)}

    def arrays(self) -> dict[str, NDArray]:
        return {
            "names": np.array([column.name for column in self.columns]),
            "numbers": np.array([column.number for column in self.columns]),
            "states": np.array([column.categories for column in self.columns]),
            "shares": np.array([share for column in self.columns for share in column.shares]),
            "knots": self.knots,
            **{f"edges/{c}": edges for c, edges in enumerate(self.edges)},
            **{f"params/{name}": value for name, value in self.params.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> "FittedMERF":
        facts = zip(arrays["names"].tolist(), arrays["numbers"].tolist(), arrays["states"].tolist(), strict=True)
        shares, columns = iter(arrays["shares"].tolist()), []
        for name, number, count in facts:
            columns.append(EmbeddedColumn(name, number, tuple(next(shares) for _ in range(count))))
        return cls(
            columns=tuple(columns),
            edges=tuple(arrays[f"edges/{c}"] for c in range(len(columns))),
            params={key.removeprefix("params/"): value for key, value in arrays.items() if key.startswith("params/")},
            knots=arrays["knots"],
        )
