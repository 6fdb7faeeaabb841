"""Reading: what later columns see of a column, as a few numbers.

A number is read as its score. A state is read through a table of a few numbers for each: whether it is one of the most
common, and, of a column with many states, its place in a few directions in which other columns tell states apart. So a
column of 500 values costs its readers a dozen weights and not 500.

The one rule: no private row comes here. Tables follow from public rows.

Sources: Greenacre (1984), "Theory and applications of correspondence analysis", for the directions.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder
from understudy.privacy.row_maps import RowMap
from understudy.synthesizers.prada.likelihood.variables import Variable, seen_score_map, state_map

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

MOST_FLAGS = 12
"""A column with at most this many states is read as one flag for each but the most common."""
FLAGS_OF_MANY = 4
"""One with more is read as flags of this many of the most common states, ..."""
DIRECTIONS = 8
"""... and its place in this many directions."""
ATOM_FLAGS = 4
"""A number is read as its score, and flags of this many of the most common states but regular."""
FEW_ROWS = 20.0
"""The place of a state that so many public rows are in is halved: what they say of it is half chance."""
FARTHEST = 4.0
"""Places are held within ± this many deviations."""


@dataclasses.dataclass(frozen=True, eq=False)
class Reading:
    """The inputs that columns become, side by side.

    Attributes:
        tables: For each variable, the numbers that stand for its states: (states, numbers).
    """

    variables: tuple[Variable, ...]
    tables: tuple[NDArray[np.float32], ...]

    @functools.cached_property
    def widths(self) -> Whole:
        return np.array([v.number + t.shape[1] for v, t in zip(self.variables, self.tables, strict=True)])

    @functools.cached_property
    def starts(self) -> Whole:
        """Where the inputs of each column begin."""
        return np.cumsum([0, *self.widths])[:-1]

    @functools.cached_property
    def owners(self) -> Whole:
        """The column of every input."""
        return np.repeat(np.arange(len(self.variables)), self.widths)

    @property
    def size(self) -> int:
        return int(self.widths.sum())

    def of_column(self, j: int, seen: NDArray, state: NDArray) -> NDArray[np.float32]:
        """The inputs of one column: (inputs, rows).

        Args:
            seen: The scores that later columns see.
            state: The states of the rows.
        """
        found = np.empty((int(self.widths[j]), len(seen)), np.float32)
        if self.variables[j].number:
            found[0] = seen
        if self.tables[j].shape[1]:
            found[int(self.variables[j].number) :] = self.tables[j].T[:, state]
        return found

    def of_rows(self, seen: NDArray, states: NDArray) -> NDArray[np.float32]:
        """The inputs of rows: from (columns, rows) to (inputs, rows)."""
        return np.concatenate([self.of_column(j, seen[j], states[j]) for j in range(len(self.variables))])

    def maps(self, encoder: Encoder, key: Key) -> list[tuple[str, RowMap]]:
        """Names and maps of the inputs of private rows, in order."""
        found: list[tuple[str, RowMap]] = []
        for variable, table in zip(self.variables, self.tables, strict=True):
            scale = encoder.columns[variable.name].scale
            if variable.number:
                found.append((f"seen {variable.name}", seen_score_map(variable, scale, key)))
            for k, numbers in enumerate(table.T):
                found.append((f"input {k} {variable.name}", state_map(variable, scale, key, numbers)))
        return found


def reading_of(variables: Sequence[Variable], states: NDArray, codes: Sequence[Whole], weights: Floats) -> Reading:
    """How columns are read, from weighted public rows.

    Args:
        states: Of the rows: (columns, rows).
        codes: The bin of every row, by column.
        weights: Of the rows.
    """
    tables = [
        _places(j, v, states[j], codes, weights) if _is_wide(v) else _flags(v, ATOM_FLAGS if v.number else v.states)
        for j, v in enumerate(variables)
    ]
    return Reading(tuple(variables), tuple(tables))


def _is_wide(variable: Variable) -> bool:
    return not variable.number and variable.states > MOST_FLAGS


def _flags(variable: Variable, most: int) -> NDArray[np.float32]:
    """Flags of the most common states: of a category all but the first of them, of a number all but regular."""
    order = np.argsort(-variable.shares, kind="stable")
    order = order[order != 0] if variable.number else order[1:]
    table = np.zeros((variable.states, len(order[:most])), np.float32)
    table[order[:most], np.arange(table.shape[1])] = 1.0
    return table


def _places(j: int, variable: Variable, state: Whole, codes: Sequence[Whole], weights: Floats) -> NDArray[np.float32]:
    """Flags of a few states, and the places of all in the directions in which other columns tell them apart.

    By correspondence analysis: the deviations of P(bin of another column | state) from P(bin), each in units of its
    own chance, are summed up by their first singular vectors.
    """
    from scipy import sparse

    shares = weights / weights.sum()
    own = sparse.csr_array((shares, (state, np.arange(len(state)))), shape=(variable.states, len(state)))
    held = np.bincount(state, shares, variable.states)
    seen, blocks = np.bincount(state, minlength=variable.states), []
    for k, code in enumerate(codes):
        if k != j:
            size = int(code.max()) + 1
            hot = sparse.csr_array((np.ones(len(code)), (np.arange(len(code)), code)), shape=(len(code), size))
            joint = sparse.csr_array(own @ hot).toarray()
            single = np.bincount(code, shares, size)
            expected = np.outer(held, single)
            blocks.append((joint - expected) / np.sqrt(np.maximum(expected, 1e-12)))
    gaps = np.concatenate([np.zeros((variable.states, 0)), *blocks], axis=1) * (seen / (seen + FEW_ROWS))[:, None]
    vectors, strength, _ = np.linalg.svd(gaps, full_matrices=False)
    found = vectors[:, :DIRECTIONS][:, strength[:DIRECTIONS] > 1e-9] / np.sqrt(np.maximum(held, 1e-9))[:, None]
    found = np.clip(found * (seen / (seen + FEW_ROWS))[:, None], -FARTHEST, FARTHEST)
    return np.concatenate([_flags(variable, FLAGS_OF_MANY), found.astype(np.float32)], axis=1)
