"""PrivBayes: a Bayes network whose parents are selected privately, and one noisy table for each column.

Columns are placed one after another. In each round the exponential mechanism selects the next column together with its
parents among those already placed, and with the bins in which both are counted; afterwards the counts of every
selected column with its parents are measured, all with equal noise.

Sources: Zhang, Cormode, Procopiuc, Srivastava, Xiao (2017), "PrivBayes: private data release via Bayesian networks",
ACM TODS 42(4); Efron and Morris (1973) for shrinkage by the measured spread.

Departures:
- Neighbours differ by a row added or removed and the number of rows is private, so the score is the paper's R counted
  in rows, which then has a bounded sensitivity (`selection.dependence`); mutual information has not.
- The error that a table of that size is expected to owe to noise and to the sampling of rows is subtracted from the
  score. A larger table must earn its cells, so that parents which say nothing are left out.
- Theta-usefulness is measured against Gaussian noise, and noise below one row counts as one: with fewer than theta rows
  in a cell a table says more about sampling than about the columns, however little noise is added. A fixed `most_cells`
  bounds tables of very many rows.
- A parent is seen in as many coarse bins as the bound leaves for it, and the column itself is counted in coarse bins
  if that scores better: the paper's hierarchies of attributes, made of runs of like bins for numbers and of
  "the most frequent, and the rest" for categories. The encoder's distribution fills the coarse bins in.
- Scores use value weighting (`views.value_weights`): a cell weighs the more, the farther its values are from the
  means, since a few rows far out can be most of what one column says about another.
- At most about `most_candidates` are scored in a round: all single parents if they fit, and of larger sets as many as
  fit, drawn at random without a look at the rows. The paper scores all, which explodes.
- Selections get less than half of the budget: their scores are sums over all rows and need far less than the tables.
- A parent that the measured table does not support is pruned (`tables.prune_parents`), which costs nothing.
- A conditional distribution is shrunk towards the one with one parent less, as far as noise explains the difference.
  Taken as it is, a row of a table that holds hardly anything but noise would be a random distribution.
- The first column is the first of the schema's order, and is taken from the encoder.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.core.settings import Constraints, Number, Settings, Whole
from understudy.encoding.bins import bin_rows, make_bins
from understudy.encoding.encoder import Encoder
from understudy.graphical.bayes_net import BayesNet, ConditionalTable
from understudy.graphical.marginals import z_scores
from understudy.privacy.counts import noisy_counts
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.privacy.selection import select_dependence
from understudy.synthesizers.privbayes.tables import MEAN_ABSOLUTE, table_of
from understudy.synthesizers.privbayes.views import (
    Candidate,
    View,
    described,
    even_sizes,
    groups_of,
    parent_sets,
    value_weights,
)
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]

FittedPrivBayes = BayesNet


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivBayes(Settings):
    """A Bayes network with parents selected by the exponential mechanism.

    Attributes:
        encoding_share: Part of the budget for the margins; between 0.15 and 0.3 it hardly matters.
        choice_share: Of the rest, the part that selects parents; what remains counts tables.
        theta: A table has at most rows / (theta · noise) cells, the noise at least one row; 4 is the paper's.
        caution: How much of the error expected of noise and sampling is subtracted from a score.
        degree: Most parents of a column.
        most: Bins of a number column at its finest.
        most_cells: Most cells of one table, whatever the budget.
        most_candidates: Most candidates of one selection.
    """

    encoding_share: float = 0.3
    choice_share: float = 0.25
    theta: float = 4.0
    caution: float = 0.5
    degree: int = 4
    most: int = 32
    most_cells: int = 30_000
    most_candidates: int = 3000

    name: ClassVar[str] = "privbayes"
    constraints: ClassVar[Constraints] = {
        "encoding_share": Number(least=0.01, most=0.99),
        "choice_share": Number(least=0.01, most=0.99),
        "theta": Number(least=0.01),
        "caution": Number(least=0),
        "degree": Whole(least=1),
        "most": Whole(least=2),
        "most_cells": Whole(least=4),
        "most_candidates": Whole(least=1),
    }

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """A selection and a table for every column but the first; one table for a single column."""
        share, rounds = 1.0 - self.encoding_share, len(schema) - 1
        if rounds == 0:
            return [PlannedMechanism(name="tables", mechanism="discrete gaussian", share=share)]
        selections = share * self.choice_share
        return [
            PlannedMechanism(name="parents", mechanism="exponential", share=selections, times=rounds),
            PlannedMechanism(name="tables", mechanism="discrete gaussian", share=share - selections, times=rounds),
        ]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> BayesNet:
        """Selects all parents, then measures all tables.

        Privacy:
            Rows are read by `select_dependence` and by `noisy_counts`.
        """
        bins = make_bins(encoder, self.most)
        z = z_scores(encoder, bins)
        views = {name: View.of(bins[name], encoder, name, z[name]) for name in bins}
        coded = bin_rows(rows, encoder, bins, key=key.child("codes"))
        noise = ledger.noise("tables") * rows.max_rows_per_unit
        first, *waiting = encoder.schema.generation_order
        useful_cells = self.useful_cells(noise, encoder.rows)
        alone = not waiting
        selected = [Candidate(first, views[first].finest(useful_cells), (), ())]
        while waiting:
            placed = [candidate.column for candidate in selected]
            offered = self.candidates(
                views, waiting, placed, useful_cells=useful_cells, draw=key.child(f"offer {len(placed)}").numpy()
            )
            index = select_dependence(
                coded,
                [described(views, *each) for each in self.scored(views, offered, noise=noise, rows=encoder.rows)],
                what="the next column and its parents",
                planned="parents",
                ledger=ledger,
                key=key.child(f"choose {len(placed)}"),
            )
            waiting.remove(offered[index].column)
            selected.append(offered[index])
        tables = [] if alone else [ConditionalTable(first, (), views[first].masses)]
        for candidate in selected[len(tables) :]:
            tables.append(_measured_table(coded, views, candidate, ledger=ledger, key=key, noise=noise))
        return BayesNet(tuple(tables), bins)

    def useful_cells(self, noise: float, rows: float) -> float:
        """The most cells of a table that is theta-useful: rows / cells >= theta · max(noise, 1)."""
        return float(np.clip(max(rows, 1.0) / (self.theta * max(noise, 1.0)), 4.0, self.most_cells))

    def expected_error(self, cells: Floats, noise: float, rows: float) -> Floats:
        """The distance from independence that noise and sampling add: 1/2 Σ E|z| √(noise² + rows / cells)."""
        return 0.5 * MEAN_ABSOLUTE * cells * np.sqrt(noise**2 + max(rows, 1.0) / cells)

    def candidates(
        self,
        views: Mapping[str, View],
        waiting: Sequence[str],
        placed: Sequence[str],
        *,
        useful_cells: float,
        draw: np.random.Generator,
    ) -> list[Candidate]:
        """What may come next, from public facts alone: every column without parents, and with them."""
        found = [Candidate(column, views[column].finest(useful_cells), (), ()) for column in waiting]
        most = min(self.degree, len(placed), int(math.log2(useful_cells)))
        for count in range(1, most + 1):
            left = (self.most_candidates - len(found)) // (most - count + 1 if count > 1 else 1)
            sets = list(parent_sets(waiting, placed, count, most=left, draw=draw))
            offered: list[Candidate] = []
            for column, parents in sets:
                for size in views[column].child_sizes(useful_cells, most=max(1, left // len(sets))):
                    sizes = even_sizes([views[name].sizes for name in parents], useful_cells / size)
                    if sizes is not None:
                        offered.append(Candidate(column, size, parents, sizes))
            found += offered
        return found

    def scored(
        self, views: Mapping[str, View], offered: Sequence[Candidate], *, noise: float, rows: float
    ) -> list[tuple[Candidate, tuple[Floats, Floats], float]]:
        """The candidates with their weights, and the expected error that is subtracted from each score."""
        weights = [value_weights(views, candidate) for candidate in offered]
        typical = np.array([across.mean() * along.mean() for across, along in weights])
        cells = np.array([candidate.cells for candidate in offered], np.float64)
        joint = np.array([bool(candidate.parents) for candidate in offered])
        offsets = self.caution * np.where(joint, typical * self.expected_error(cells, noise, rows), 0.0)
        return list(zip(offered, weights, offsets.tolist(), strict=True))


def _measured_table(
    coded: PrivateRows, views: Mapping[str, View], candidate: Candidate, *, ledger: Ledger, key: Key, noise: float
) -> ConditionalTable:
    """Measures the counts of a column with its parents, and makes conditional distributions of them."""
    groups = groups_of(views, candidate)
    counts = noisy_counts(
        coded,
        candidate.columns,
        candidate.shape,
        groups=groups,
        what=f"the table of '{candidate.column}'",
        planned="tables",
        ledger=ledger,
        key=key.child(f"table {candidate.column}"),
    )
    return table_of(candidate, groups, counts, views[candidate.column], noise=noise)
