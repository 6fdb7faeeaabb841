"""The recipe: a fitted generator as arrays, and levels from what it makes. NumPy alone; no row is in here."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, Levels
from understudy.synthesizers.merf.embedding import Block, starts
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]

CALIBRATION = 2**15
"""Rows that the generator's own distribution functions are read from."""
KNOTS = 512
CHUNK = 2**15


def outputs(params: Mapping[str, Any], z: Any) -> Any:
    """Scores and logits, one row for each of the noise."""
    return with_layers(params, z)[0]


def with_layers(params: Mapping[str, Any], z: Any) -> tuple[Any, list[Any]]:
    """Scores and logits, and what they were made of: the noise, then each hidden layer."""
    layers, depth = [z], sum(name.startswith("shift") for name in params)
    for i in range(depth):
        layers.append(np.tanh(layers[-1] @ params[f"weight {i}"] + params[f"shift {i}"]))
    return z @ params["straight"] + params["bias"] + layers[-1] @ params[f"weight {depth}"], layers


def states_of(logits: Floats, uniform: Floats) -> NDArray[np.int64]:
    """One state a row, drawn with the probabilities that the logits say."""
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    cumulative = np.cumsum(weight, axis=1)
    return (uniform[:, None] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=1)


def made(params: Mapping[str, NDArray], blocks: Sequence[Block], n: int, draw: np.random.Generator):
    """`n` rows of the generator: scores and states, one array a column, None where a column has none."""
    y = outputs(params, draw.standard_normal((n, params["straight"].shape[0]), dtype=np.float32)).astype(np.float64)
    scores, states = [], []
    for block, start in zip(blocks, starts(blocks), strict=True):
        logits = y[:, start + block.number : start + block.width]
        scores.append(y[:, start] if block.number else None)
        states.append(states_of(logits, draw.random(n)) if block.states else None)
    return scores, states


def calibrate(params: Mapping[str, NDArray], blocks: Sequence[Block], key: Key) -> Floats:
    """The quantiles of every number that the generator makes, (columns, knots): what its scores are levels of.

    With them every column of numbers has exactly the distribution that was bought, whatever the generator missed.
    """
    scores, states = made(params, blocks, CALIBRATION, key.numpy())
    knots = np.zeros((len(blocks), KNOTS))
    for c, (score, state) in enumerate(zip(scores, states, strict=True)):
        if score is not None:
            present = score if state is None or not (state == 0).any() else score[state == 0]
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
        blocks: What the columns are made of.
        edges: The levels at which the values of each category column begin and end; empty for a number.
        knots: As of `calibrate`.
    """

    blocks: tuple[Block, ...]
    edges: tuple[Floats, ...]
    params: Mapping[str, NDArray]
    knots: Floats

    @classmethod
    def of(cls, params: Mapping[str, NDArray], blocks: tuple[Block, ...], encoder: Encoder, key: Key) -> "FittedMERF":
        edges = tuple(np.zeros(0) if b.number else encoder.maps[b.name].distribution.cdf for b in blocks)
        return cls(blocks=blocks, edges=edges, params=params, knots=calibrate(params, blocks, key))

    def sample(self, n: int, *, key: Key) -> Levels:
        draw = key.numpy()
        parts = [self._chunk(min(CHUNK, n - start), draw) for start in range(0, n, CHUNK)] or [self._chunk(0, draw)]
        return {block.name: np.concatenate([part[block.name] for part in parts]) for block in self.blocks}

    def _chunk(self, n: int, draw: np.random.Generator) -> Levels:
        scores, states = made(self.params, self.blocks, n, draw)
        levels, at = {}, quantile_levels()
        at[0], at[-1] = 0.0, 1.0
        for c, (block, score, state) in enumerate(zip(self.blocks, scores, states, strict=True)):
            if score is not None:
                knots = self.knots[c] + 1e-9 * np.arange(KNOTS)  # ascending even where the generator repeats itself
                level = np.interp(score, knots, at)
                levels[block.name] = level if state is None else np.where(state == 1, np.nan, level)
            else:
                cdf = self.edges[c]
                levels[block.name] = np.append((cdf[:-1] + cdf[1:]) / 2, np.nan)[state]
        return levels

    def parents(self, schema: Schema) -> dict[str, list[str]]:
        """Every earlier column: all are made at once, from one noise."""
        order = schema.generation_order
        return {name: list(order[:i]) for i, name in enumerate(order)}

    def arrays(self) -> dict[str, NDArray]:
        return {
            "names": np.array([block.name for block in self.blocks]),
            "numbers": np.array([block.number for block in self.blocks]),
            "states": np.array([block.states for block in self.blocks]),
            "shares": np.array([share for block in self.blocks for share in block.shares]),
            "knots": self.knots,
            **{f"edges/{c}": edges for c, edges in enumerate(self.edges)},
            **{f"params/{name}": value for name, value in self.params.items()},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> "FittedMERF":
        facts = zip(arrays["names"].tolist(), arrays["numbers"].tolist(), arrays["states"].tolist(), strict=True)
        shares, blocks = iter(arrays["shares"].tolist()), []
        for name, number, count in facts:
            blocks.append(Block(name, number, tuple(next(shares) for _ in range(count))))
        return cls(
            blocks=tuple(blocks),
            edges=tuple(arrays[f"edges/{c}"] for c in range(len(blocks))),
            params={key.removeprefix("params/"): value for key, value in arrays.items() if key.startswith("params/")},
            knots=arrays["knots"],
        )
