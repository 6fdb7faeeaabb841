"""Families of a database that is still being fitted, drawn as `DatabaseModel.sample` will draw them.

The one rule: all of it is public. What is drawn here comes from tables that were fitted, and from a generator that has
learned nothing but what was released.
"""

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, Levels
from understudy.synthesizers.base import GivenSampler, HistoryNames
from understudy.synthesizers.relational.drawing import DrawnTable, draw_children, levels_of, parents_of
from understudy.synthesizers.relational.fitted import FittedTable
from understudy.tables.database_context import SUMMARIES, Whole
from understudy.tables.database_design import Design

UNITS = 12_000
"""So many units are drawn. A pool has rows of the first of them, and of all if they have no more."""


@dataclasses.dataclass(frozen=True, eq=False)
class FamilySimulation:
    """Families of one table of children.

    Attributes:
        design: Of the table.
        encoder: Of its columns and its context.
        drawn: The rows of its ancestors, by table.
    """

    design: Design
    encoder: Encoder
    drawn: Mapping[str, DrawnTable]

    @property
    def given(self) -> Collection[str]:
        return frozenset(each.name for each in self.design.context)

    @property
    def derived(self) -> Collection[str]:
        return self.design.derived

    @property
    def structural(self) -> Collection[str]:
        history = self.design.history
        hidden = () if history is None else (history.gap.name,)
        return frozenset(
            [*hidden, *(each.name for each in self.design.context if each.kind in ("previous", *SUMMARIES))]
        )

    @property
    def smooth(self) -> Collection[str]:
        return frozenset(each.name for each in self.design.context if each.kind in SUMMARIES)

    @property
    def shares(self) -> Collection[str]:
        return frozenset(each.name for each in self.design.context if each.kind == "share")

    @property
    def history(self) -> HistoryNames | None:
        history = self.design.history
        if history is None or int(self.design.table.max_per_parent or 1) < 2:
            return None
        return HistoryNames(
            start=f"{self.design.ancestors[-1]}.{history.start.name}",
            gap=history.gap.name,
            order=history.column,
            before=f"previous.{history.base}",
            unit=history.unit,
        )

    def rows(self, generator: GivenSampler, n: int, *, key: Key) -> tuple[Levels, Whole]:
        """About `n` rows of the table, context included, as many of each unit as are learned from, and their units."""
        above = self._with_rows(n)
        made = draw_children(FittedTable(self.encoder, generator), self.design, above, key=key)  # pyright: ignore
        unit = unit_of(made.parent, self.design.ancestors, above)
        kept = self._learned(unit, key.child("learned"))
        parents = parents_of(self.design, above)
        previous = np.where(made.rank > 1, np.arange(len(made.rank)) - 1, -1)
        ancestors = {
            name: {column: cells[made.parent] for column, cells in own.items()}
            for name, own in parents.ancestors.items()
        }
        siblings = parents.children[made.parent]
        context = self.design.context_of(made.own, ancestors, made.rank, siblings, previous)
        cells = {**context, **made.own}
        levels = {
            name: levels_of(known, cells[name][kept], key.child(name)) for name, known in self.encoder.columns.items()
        }
        return levels, unit[kept]

    def _with_rows(self, n: int) -> dict[str, DrawnTable]:
        """The ancestors of about `n` rows that are learned from: those of the first units."""
        parents = parents_of(self.design, self.drawn)
        most = self.design.max_rows
        units = len(self.drawn[self.design.ancestors[0]].rank)
        unit = unit_of(np.arange(len(parents.children)), self.design.ancestors, self.drawn)
        learned = np.minimum(np.bincount(unit, parents.children, units), most)
        wanted = int(np.searchsorted(np.cumsum(learned), n)) + 1
        found: dict[str, DrawnTable] = {}
        for name in self.design.ancestors:
            table = self.drawn[name]
            rows = wanted if not found else int(np.searchsorted(table.parent, wanted))
            found[name] = table.first(rows)
            wanted = rows
        return found

    def _learned(self, unit: Whole, key: Key) -> Whole:
        """The places of the rows that are learned from: of each unit a random choice, as `privacy.rows.lock` has it."""
        chance = key.numpy().random(len(unit))
        order = np.lexsort([chance, unit])
        starts = np.flatnonzero(np.r_[True, np.diff(unit[order]) > 0]) if len(unit) else np.zeros(0, np.int64)
        place = np.arange(len(unit)) - np.repeat(starts, np.diff(np.r_[starts, len(unit)]))
        return np.sort(order[place < self.design.max_rows])


def unit_of(parent: Whole, ancestors: Collection[str], drawn: Mapping[str, DrawnTable]) -> Whole:
    """The number of the unit of rows that hang on these rows of the last ancestor."""
    for name in list(ancestors)[:0:-1]:
        parent = drawn[name].parent[parent]
    return parent
