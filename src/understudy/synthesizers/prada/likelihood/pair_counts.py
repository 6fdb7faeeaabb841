"""Counts of pairs of categories, measured where the trained densities are most wrong; calibration.py uses them.

DP-SGD spreads its noise over all weights of all columns; a table of two columns with few cells is known better from
being counted. Which pairs to count is selected with the rows the densities generate as the guess, as AIM does. The
schema's target is left out: its density is trained hardest and sees every other column, and counts make it worse.

The one rule: rows go to `marginals.choose` and `marginals.measure`, and nowhere else.

Sources: McKenna et al. (2022), arXiv:2201.12677, for selecting what the model has most wrong; Della Pietra, Della
Pietra and Lafferty (1997), "Inducing features of random fields", for calibrating a model to expectations.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.features import category_rows
from understudy.graphical.marginals import Domain, choose, measure
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.prada.layout import Layout
from understudy.tables.schema import Schema

MOST_PAIRS = 20
"""At most this many pairs of columns are counted."""
MOST_CELLS = 2**14
"""A pair with more cells than this is never counted."""
SELECTION_SHARE = 0.1
"""Of the budget for pair counts, this share goes into selecting the pairs."""
PENALTY = 0.4
"""A pair must be wrong by this many rows for every cell, in deviations of a count: about half of what noise adds."""


def plan(schema: Schema, share: float) -> list[PlannedMechanism]:
    """A selection and a count for each pair; nothing without two categorical columns beside the target."""
    free = [column for column in schema.columns if column.name != schema.target]
    times = min(math.comb(sum(column.kind in ("categorical", "boolean") for column in free), 2), MOST_PAIRS)
    if not times or not share:
        return []
    return [
        PlannedMechanism(name="which tables", mechanism="exponential", share=SELECTION_SHARE * share, times=times),
        PlannedMechanism(
            name="tables", mechanism="discrete gaussian", share=(1.0 - SELECTION_SHARE) * share, times=times
        ),
    ]


class PairCounts(NamedTuple):
    """What measured pair counts say of every column: its categories together with earlier columns' features.

    Attributes:
        target: Shares of the rows: (columns, features, width).
        noise: The deviation of a share; 0 for a feature whose pair was not counted: (columns, features).
    """

    target: NDArray[np.float32]
    noise: NDArray[np.float32]

    @classmethod
    def none(cls, layout: Layout) -> "PairCounts":
        """Nothing measured yet."""
        shape = layout.columns, layout.features
        return cls(target=np.zeros((*shape, layout.width), np.float32), noise=np.zeros(shape, np.float32))

    def within(self, pairs: NDArray[np.bool_], layout: Layout) -> "PairCounts":
        """The counts of these pairs of columns alone: (columns, columns)."""
        return self._replace(noise=np.where(pairs[:, layout.owners], self.noise, np.float32(0.0)))


def measure_pairs(
    rows: PrivateRows,
    columns: tuple[str, ...],
    made: NDArray,
    total: float,
    layout: Layout,
    *,
    target: str | None,
    times: int,
    ledger: Ledger,
    key: Key,
) -> PairCounts:
    """Selects pairs of columns that the generated rows have wrong, and counts them.

    Args:
        rows: Locked rows of features.
        columns: The features' names, in the order of the layout.
        made: Generated rows: (features, rows).
        total: The number of rows, as the encoder has it.
        target: The schema's target, which is left out.
        times: The most pairs to count.

    Privacy:
        Every selection goes through `marginals.choose`, whose guesses are generated rows, and every count through
        `marginals.measure`. Codes are made of one row's own categories.
    """
    blocks = [(j, block) for j, block in enumerate(layout.blocks) if not block.number and block.name != target]
    place = {block.name: layout.starts[j] + np.arange(block.categories) for j, block in blocks}
    at = {block.name: j for j, block in blocks}
    coded = category_rows(rows, {name: [columns[int(f)] for f in features] for name, features in place.items()})
    domain = Domain({name: len(features) for name, features in place.items()})
    open_pairs = [pair for pair in itertools.combinations(place, 2) if domain.size(pair) <= MOST_CELLS]
    guesses = {(a, b): total * made[place[a]] @ made[place[b]].T / made.shape[1] for a, b in open_pairs}
    counted = PairCounts.none(layout)
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
