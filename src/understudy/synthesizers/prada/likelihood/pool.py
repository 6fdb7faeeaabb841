"""Public rows: drawn from a model that is public already, as levels, scores, states, inputs and bins.

The one rule: no private row comes here. What is made of public rows is post-processing, so there may be as many as one
likes.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.bins import Bins
from understudy.encoding.encoder import Levels
from understudy.synthesizers.prada.likelihood.reading import Reading
from understudy.synthesizers.prada.likelihood.variables import Variable

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class Pool:
    """Rows of a public model.

    Attributes:
        levels: A level for every row and column; NaN is a missing value.
    """

    levels: Levels
    variables: tuple[Variable, ...]

    @property
    def count(self) -> int:
        return len(self.levels[self.variables[0].name])

    @functools.cached_property
    def states(self) -> Whole:
        """The state of every row and column: (columns, rows)."""
        return np.stack([v.state_of(self.levels[v.name]) for v in self.variables])

    def codes(self, bins: Mapping[str, Bins]) -> dict[str, Whole]:
        """The bin of every row and column."""
        return {name: each.code_of(self.levels[name]) for name, each in bins.items()}

    def read(self, reading: Reading) -> "PublicRows":
        """The rows as densities see them."""
        scores = [v.scores_of(self.levels[v.name], self.states[j]) for j, v in enumerate(self.variables)]
        own, seen = (np.stack(each).astype(np.float32) for each in zip(*scores, strict=True))
        return PublicRows(self.variables, own, self.states, reading.of_rows(seen, self.states))


@dataclasses.dataclass(frozen=True, eq=False)
class PublicRows:
    """Public rows as densities see them.

    Attributes:
        own: The score of every row and column among its regular values: (columns, rows).
        states: (columns, rows).
        inputs: What later columns read: (inputs, rows).
    """

    variables: tuple[Variable, ...]
    own: NDArray[np.float32]
    states: Whole
    inputs: NDArray[np.float32]

    @property
    def count(self) -> int:
        return self.own.shape[1]

    def some(self, rows: int) -> "PublicRows":
        """The first of them."""
        return PublicRows(self.variables, self.own[:, :rows], self.states[:, :rows], self.inputs[:, :rows])


def joined(levels: Sequence[Levels]) -> Levels:
    """The rows of several models, one after the other."""
    return {name: np.concatenate([each[name] for each in levels]) for name in levels[0]}
