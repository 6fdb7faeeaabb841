"""Parts: columns of one shape, side by side, as they are trained.

Columns differ in what they read and draw, and padding all to the widest would cost what the widest does. So columns of
a kind (numbers, few states, many states) are put together: time and noise follow from each column. Parts are trained on
all cores at once. Small ones would do so little in each operation that threads wait for the interpreter.

The one rule: nothing here is private.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.densities import Shape, Weights, are_gathered
from understudy.synthesizers.prada.likelihood.columns import Column
from understudy.synthesizers.prada.likelihood.pool import PublicRows
from understudy.synthesizers.prada.likelihood.variables import Variable

MOST_COLUMNS = 32
"""A part has at most this many columns, ..."""
MOST_FEATURES = 96
"""... which read at most so many different inputs if all are multiplied with weights of all (`Shape.gathered`), ..."""
MOST_STATES = 512
"""... and at most so many states in all, unless it is a single column."""
FEW_COLUMNS = 4
"""More columns of a kind than this make two parts at least."""


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

    def rows(self, rows: PublicRows) -> NDArray[np.float32]:
        """What a training reads of public rows: features, a one, own scores and states, side by side, row by row."""
        members, one = list(self.members), np.ones((1, rows.count), np.float32)
        read = np.concatenate([rows.inputs[self.features], one, rows.own[members], rows.states[members]])
        return np.ascontiguousarray(read.T, np.float32)


def parts_of(columns: Sequence[Column], variables: Sequence[Variable], *, components: int) -> list[Part]:
    """All columns, in parts of one shape each."""
    found: list[Part] = []
    for (number, states, rank), members in _kinds(columns, variables).items():
        for group in _groups(columns, members, max(1, MOST_STATES // max(states, 1))):
            features = np.unique(np.concatenate([columns[j].sources for j in group])).astype(np.int64)
            shape = Shape(
                columns=len(group),
                inputs=max(len(columns[j].sources) for j in group),
                features=len(features),
                number=number,
                states=max(variables[j].states for j in group),
                rank=rank,
                hidden=columns[group[0]].hidden,
                components=components,
            )
            found.append(Part(shape, group, features))
    return found


def _groups(columns: Sequence[Column], members: Sequence[int], most: int) -> list[tuple[int, ...]]:
    """Members of one kind in groups of about the same size, at most so many in each."""
    parts = max(-(-len(members) // min(most, MOST_COLUMNS)), 2 if len(members) > FEW_COLUMNS else 1)
    size = -(-len(members) // parts)
    found, read = [[members[0]]], set(columns[members[0]].sources.tolist())
    for j in members[1:]:
        own = set(columns[j].sources.tolist())
        widest = max(len(columns[i].sources) for i in (*found[-1], j))
        too_many = len(read | own) > MOST_FEATURES and not are_gathered(widest, len(read | own))
        if len(found[-1]) == size or too_many:
            found.append([])
            read = set()
        found[-1].append(j)
        read |= own
    return [tuple(group) for group in found]


def _kinds(columns: Sequence[Column], variables: Sequence[Variable]) -> dict[tuple[bool, int, int], list[int]]:
    """Columns by whether they are numbers, how many states they have, to the next power of two, and rank."""
    kinds: dict[tuple[bool, int, int], list[int]] = {}
    for j, (own, variable) in enumerate(zip(columns, variables, strict=True)):
        states = 1 << max(variable.states - 1, 0).bit_length() if variable.states else 0
        kinds.setdefault((variable.number, states, own.places.shape[1]), []).append(j)
    return kinds
