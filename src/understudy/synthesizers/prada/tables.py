"""Counts of pairs of categories, bought where the trained densities are most wrong, that they are then set straight by.

DP-SGD spreads its noise over all weights of all columns; a table of two columns with few cells is known better from
being counted. Which tables to count is chosen with the rows the densities generate as the guess, as AIM does. The
schema's target is left out: its density is trained hardest and sees every other column, and loses by it.

The one rule: rows go to `marginals.choose` and `marginals.measure`, and nowhere else.

Sources: McKenna et al. (2022), arXiv:2201.12677, for choosing what the model has most wrong; Della Pietra, Della Pietra
and Lafferty (1997), "Inducing features of random fields", for setting a model straight by expectations.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import category_rows
from understudy.graphical.marginals import Domain, choose, measure
from understudy.privacy.accounting import PlannedMechanism
from understudy.privacy.ledger import Ledger
from understudy.privacy.rows import PrivateRows
from understudy.tables.schema import Schema

if TYPE_CHECKING:
    from understudy.synthesizers.prada.networks import Layout

MOST_TABLES = 20
"""That are counted."""
MOST_CELLS = 2**14
"""Of a table that is counted."""
CHOICE = 0.1
"""Of their budget, for which tables."""
PENALTY = 0.4
"""Rows that a table must be more wrong by, for every cell, in deviations of a count: about half of what noise adds."""


def plan(schema: Schema, share: float) -> list[PlannedMechanism]:
    """A choice and a count for each table; nothing where there are no two columns of categories beside the target."""
    free = [column for column in schema.columns if column.name != schema.target]
    times = min(math.comb(sum(column.kind in ("categorical", "boolean") for column in free), 2), MOST_TABLES)
    if not times or not share:
        return []
    return [
        PlannedMechanism(name="which tables", mechanism="exponential", share=CHOICE * share, times=times),
        PlannedMechanism(name="tables", mechanism="discrete gaussian", share=(1.0 - CHOICE) * share, times=times),
    ]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """What counted tables say: of every column, its states together with earlier columns' features.

    Attributes:
        target: Shares of the rows: (columns, features, width).
        noise: The deviation of a share; 0 for a feature whose table was not counted: (columns, features).
    """

    target: NDArray[np.float32]
    noise: NDArray[np.float32]

    @classmethod
    def none(cls, layout: "Layout") -> "Tables":
        """Nothing counted yet."""
        shape = layout.columns, layout.features
        return cls(target=np.zeros((*shape, layout.width), np.float32), noise=np.zeros(shape, np.float32))

    def within(self, pairs: NDArray[np.bool_], layout: "Layout") -> "Tables":
        """Those of the pairs of columns that are there: (columns, columns)."""
        return dataclasses.replace(self, noise=np.where(pairs[:, layout.owners], self.noise, np.float32(0.0)))


def bought(
    rows: PrivateRows,
    columns: Sequence[str],
    made: NDArray,
    total: float,
    layout: "Layout",
    *,
    target: str | None,
    times: int,
    ledger: Ledger,
    key: Key,
) -> Tables:
    """Chooses tables that the generated rows have wrong, and counts them.

    Args:
        rows: Of signals.
        columns: The signals' names, in the order of the features.
        made: Generated rows: (features, rows).
        total: The number of rows.
        target: The schema's, which is left out.
        times: How many tables at most.

    Privacy:
        Every choice goes through `marginals.choose`, whose guesses are generated rows, and every count through
        `marginals.measure`. Codes are made of one row's own states.
    """
    blocks = [(j, block) for j, block in enumerate(layout.blocks) if not block.number and block.name != target]
    place = {block.name: layout.starts[j] + np.arange(block.states) for j, block in blocks}
    at = {block.name: j for j, block in blocks}
    coded = category_rows(rows, {name: [columns[int(f)] for f in features] for name, features in place.items()})
    domain = Domain({name: len(features) for name, features in place.items()})
    open_pairs = [pair for pair in itertools.combinations(place, 2) if domain.size(pair) <= MOST_CELLS]
    guesses = {(a, b): total * made[place[a]] @ made[place[b]].T / made.shape[1] for a, b in open_pairs}
    counted = Tables.none(layout)
    sigma = ledger.noise("tables") * rows.max_rows_per_unit
    for i in range(min(times, len(open_pairs))):
        chosen = choose(
            coded,
            open_pairs,
            [guesses[pair] for pair in open_pairs],
            [PENALTY * sigma * domain.size(pair) for pair in open_pairs],
            domain,
            [1.0] * len(open_pairs),
            planned="which tables",
            what="which tables to count",
            ledger=ledger,
            key=key.child(f"choice {i}"),
        )
        a, b = open_pairs.pop(chosen)
        what, draw = f"count '{a}' with '{b}'", key.child("count").child(a).child(b)
        found = measure(coded, (a, b), domain, planned="tables", what=what, ledger=ledger, key=draw)
        counted.target[at[b], place[a], : domain.sizes[b]] = found.counts / max(total, 1.0)
        counted.noise[at[b], place[a]] = found.sigma / max(total, 1.0)
    return counted
