"""Transitions in drawn histories: which drawn rows keep them, and values for those that never do.

The one rule: every drawn history keeps every stated transition. A value is also refused if fewer rows can follow it
than are to come, so that no history is led into a value that ends it too early. All of it is public.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.synthesizers.relational.fitted import FittedTable
from understudy.tables.database_context import Arrays, Whole
from understudy.tables.database_design import Design
from understudy.tables.transitions import Chain, Mask, chain


@dataclasses.dataclass(frozen=True, eq=False)
class Following:
    """What the transitions of a table allow some rows of one rank.

    Attributes:
        chains: The transitions by column.
        before: The values of the rows before; None for first rows.
        to_come: How many rows of the same history follow each.
    """

    chains: Mapping[str, Chain]
    before: Arrays | None
    to_come: Whole

    def some(self, places: Whole) -> "Following":
        before = None if self.before is None else {name: cells[places] for name, cells in self.before.items()}
        return Following(self.chains, before, self.to_come[places])

    @functools.cached_property
    def possible(self) -> dict[str, Mask]:
        """By column, the codes that each row may have."""
        return {
            name: each.possible(None if self.before is None else self.before[name], self.to_come)
            for name, each in self.chains.items()
        }

    def keeps(self, values: Arrays) -> Mask:
        """Which rows keep all transitions."""
        kept = np.ones(len(self.to_come), bool)
        for name, possible in self.possible.items():
            kept &= _at(possible, values[name])
        return kept

    def mended(self, values: Arrays, *, staying: bool, key: Key) -> dict[str, NDArray[Any]]:
        """The columns with transitions, with other codes in the rows that break them.

        Args:
            staying: Whether such a row takes the code of the row before, if it may. Else it takes a random one.
        """
        found = {}
        for name, possible in self.possible.items():
            chance = np.where(possible, key.child(name).numpy().random(possible.shape), -1.0)
            chance[:, -1] = np.where(possible[:, -1], -0.5, -1.0)  # it is missing only if nothing else is possible
            other = chance.argmax(axis=1)
            other = np.where(other == possible.shape[1] - 1, -1, other)
            if staying and self.before is not None:
                other = np.where(_at(possible, self.before[name]), self.before[name], other)
            found[name] = np.where(_at(possible, values[name]), values[name], other).astype(np.int64)
        return found


def following(
    fitted: FittedTable, design: Design, before: Arrays | None, children: Whole, rank: int
) -> Following | None:
    """What the stated transitions allow all rows of a rank; None if none are stated.

    Args:
        before: The values of the rows before.
        children: How many rows each history has.
    """
    table, labels = design.table, fitted.encoder.labels
    if not table.transitions:
        return None
    chains = {name: chain(table[name], allowed, labels[name]) for name, allowed in table.transitions.items()}
    own = None if before is None else {name: before[name] for name in chains}
    return Following(chains, own, children - rank)


def _at(possible: Mask, codes: Whole) -> Mask:
    return possible[np.arange(len(codes)), codes]
