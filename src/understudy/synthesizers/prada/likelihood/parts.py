"""Parts: columns of one shape, side by side, as one compiled program trains them.

Columns differ in what they read and draw, and padding all to the widest would cost what the widest does. So columns
of a kind (numbers, few states, many states) are put together, a few at a time, and padded to sizes that grow in steps:
time and noise follow from each column, and tables of about the same size share their compiled programs.

The one rule: nothing here is private.
"""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.synthesizers.prada.likelihood.columns import MOST_DIRECT, Column
from understudy.synthesizers.prada.likelihood.variables import Variable
from understudy.synthesizers.prada.programs import Array

MOST_COLUMNS = 8
"""A part has at most this many columns, ..."""
ENOUGH_COLUMNS = 5
"""Of two kinds, one of which has fewer columns, all have the roomier: another program takes longer than padding."""
MOST_STATES = 512
"""... and at most so many states in all, unless it is a single column."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """The sizes of a part, which a program is compiled for.

    Attributes:
        columns: Columns side by side.
        inputs: Inputs that each reads, at most.
        features: Different inputs that are read by any of them, at most.
        number: Whether they are numbers.
        states: States that each has, at most; 0 for none.
        rank: The places of a state; 0 if states are drawn directly.
    """

    columns: int
    inputs: int
    features: int
    number: bool
    states: int
    rank: int
    hidden: int
    components: int

    @property
    def drawn(self) -> int:
        """Outputs that states are drawn from."""
        return self.rank or self.states

    @property
    def linear(self) -> int:
        return self.number + self.drawn

    @property
    def outputs(self) -> int:
        return 3 * self.components * self.number + self.drawn


class Weights(NamedTuple):
    """The weights of a part: those of its columns, padded and stacked; those beyond its columns are zero."""

    first: Array  # (columns, inputs + 1, hidden + linear)
    second: Array  # (columns, hidden + 1, outputs)
    places: Array  # (columns, states, rank); empty if states are drawn directly
    bias: Array  # (columns, states); empty as well
    unit: Array  # (columns,)
    sources: Array  # the feature that every input reads, -1 for none: (columns, inputs)
    is_state: Array  # which states there are: (columns, states)


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """Some columns of one shape.

    Attributes:
        members: Which columns.
        features: The inputs that they read, between them.
    """

    shape: Shape
    members: tuple[int, ...]
    features: NDArray[np.int64]

    def pack(self, columns: Sequence[Column], variables: Sequence[Variable]) -> Weights:
        """The weights of the members."""
        s = self.shape
        first = np.zeros((s.columns, s.inputs + 1, s.hidden + s.linear), np.float32)
        second = np.zeros((s.columns, s.hidden + 1, s.outputs), np.float32)
        places, bias = (np.zeros((s.columns, s.states * bool(s.rank), *more), np.float32) for more in ((s.rank,), ()))
        unit, is_state = np.ones(s.columns, np.float32), np.zeros((s.columns, s.states), bool)
        sources = np.full((s.columns, s.inputs), -1, np.int32)
        for at, j in enumerate(self.members):
            own, states = columns[j], variables[j].states
            read = len(own.sources)
            into = np.ix_([*range(read), s.inputs], range(own.first.shape[1]))
            first[at][into] = own.first
            second[at, :, : own.second.shape[1]] = own.second
            sources[at, :read] = np.searchsorted(self.features, own.sources)
            unit[at], is_state[at, : max(states, 1)] = own.unit, True
            if s.rank:
                places[at, :states, : own.places.shape[1]], bias[at, :states] = own.places, own.bias
        is_state[len(self.members) :] = True
        return Weights(first, second, places, bias, unit, sources, is_state)

    def unpack(self, weights: Weights, columns: Sequence[Column]) -> list[tuple[int, Column]]:
        """The members, with weights that were trained."""
        found = []
        first, second, places, bias = (np.nan_to_num(np.asarray(w)) for w in weights[:4])
        for at, j in enumerate(self.members):
            own = columns[j]
            read, states, rank = len(own.sources), *own.places.shape
            found.append(
                (
                    j,
                    own._replace(
                        first=first[at][[*range(read), self.shape.inputs], : own.first.shape[1]],
                        second=second[at, :, : own.second.shape[1]],
                        places=places[at, :states, :rank] if rank else own.places,
                        bias=bias[at, :states] if rank else own.bias,
                    ),
                )
            )
        return found

    def rows(self, inputs: Array, own: Array, states: Array) -> NDArray[np.float32]:
        """What the program reads of public rows: features, own scores and states, (features + 2 · columns, rows)."""
        s, n = self.shape, inputs.shape[1]
        found = np.zeros((s.features + 2 * s.columns, n), np.float32)
        found[: len(self.features)] = np.asarray(inputs)[self.features]
        for at, j in enumerate(self.members):
            found[s.features + at], found[s.features + s.columns + at] = own[j], states[j]
        return found


def parts_of(columns: Sequence[Column], variables: Sequence[Variable], *, components: int) -> list[Part]:
    """All columns, in parts of one shape each, with room to spare: the shapes that programs are compiled for."""
    found: list[Part] = []
    for (number, states, rank), members in _kinds(columns, variables).items():
        most = min(MOST_COLUMNS, max(1, MOST_STATES // max(states, 1)))
        chunks = -(-len(members) // most)
        size = _power(-(-len(members) // chunks))
        groups = [tuple(members[i : i + size]) for i in range(0, len(members), size)]
        read = [_read_by(group, columns) for group in groups]
        shape = Shape(
            columns=size,
            inputs=_step(max(len(columns[j].sources) for j in members)),
            features=_step(max(map(len, read))),
            number=number,
            states=states,
            rank=rank,
            hidden=columns[members[0]].hidden,
            components=components,
        )
        found += [Part(shape, group, features) for group, features in zip(groups, read, strict=True)]
    return found


def tight_part(part: Part, columns: Sequence[Column], variables: Sequence[Variable]) -> Part:
    """The same columns without room to spare: what is not compiled needs none."""
    features = _read_by(part.members, columns)
    shape = dataclasses.replace(
        part.shape,
        columns=len(part.members),
        inputs=max(len(columns[j].sources) for j in part.members),
        features=len(features),
        states=max(variables[j].states for j in part.members),
    )
    return Part(shape, part.members, features)


def _read_by(members: Sequence[int], columns: Sequence[Column]) -> NDArray[np.int64]:
    """The inputs that some columns read, between them."""
    return np.unique(np.concatenate([columns[j].sources for j in members])).astype(np.int64)


def _kinds(columns: Sequence[Column], variables: Sequence[Variable]) -> dict[tuple[bool, int, int], list[int]]:
    """Columns by whether they are numbers, room for states, and rank; few of a kind join a roomier one."""
    kinds: dict[tuple[bool, int, int], list[int]] = {}
    for j, (own, variable) in enumerate(zip(columns, variables, strict=True)):
        kinds.setdefault((variable.number, _states(variable.states), own.places.shape[1]), []).append(j)
    for kind in sorted(kinds):
        number, states, rank = kind
        roomier = [other for other in kinds if other[0] == number and other[2] == rank and other[1] > states]
        few = len(kinds[kind]) < ENOUGH_COLUMNS or any(len(kinds[other]) < ENOUGH_COLUMNS for other in roomier)
        if few and roomier and not (rank and min(roomier)[1] > 4 * states):
            kinds[min(roomier)] = sorted(kinds[min(roomier)] + kinds.pop(kind))
    return kinds


def _states(states: int) -> int:
    """Room for so many states: 0, 2, 8, 16, or a power of two."""
    return next(size for size in (0, 2, 8, 16) if states <= size) if states <= MOST_DIRECT else _power(states)


def _step(size: int) -> int:
    """Room for so many inputs: a power of two, or a multiple of 32."""
    return max(8, _power(size)) if size <= 32 else -(-size // 32) * 32


def _power(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()
