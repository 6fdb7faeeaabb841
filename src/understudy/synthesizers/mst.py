"""MST: the best tree of pairs of columns, chosen and counted under privacy, and the graphical model on it.

Three steps: single columns; then a spanning tree of pairs, chosen one by one with the exponential mechanism by how far
each pair is from independent columns; then a noisy count of every pair in the tree. Rows are drawn from the graphical
model that fits them.

Sources: McKenna, Miklau, Sheldon (2021), "Winning the NIST contest: a scalable and general approach to differentially
private synthetic data", arXiv:2108.04978.

Departures:
- Single columns are not measured again: the encoder has their distributions, and its share takes the place of the
  first third of the budget.
- Numbers are cut into as many bins as the noise allows (`MST.bins_allowed`); the paper's tables come cut.
- The distance of a pair from independence gives a cell more weight, the farther its values are from both means (value
  weighting, `marginals.value_weights`). The paper weighs all rows alike, and so misses two columns that say everything
  about the few rows that hold most of a third one's variance: Cpu-act at ε = 5 has an R² of 0.15 without it and of
  0.88 with it.
- The paper compresses rare values of the domain by their noisy counts; here neighbouring rare categories share a bin.
- The paper gives a third of the budget to each step; here the choice gets less, since scores are sums over thousands of
  rows.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from understudy.core.processors import one_thread_each
from understudy.core.randomness import Key
from understudy.core.settings import Constraints, Number, Settings, Whole
from understudy.encoding.bins import bin_rows
from understudy.encoding.encoder import Encoder
from understudy.graphical.estimation import ESTIMATING, estimate
from understudy.graphical.marginals import (
    Clique,
    Domain,
    Floats,
    Measured,
    cut,
    from_encoder,
    measure,
    z_scores,
)
from understudy.graphical.markov import MarkovNet
from understudy.privacy.ledger import Ledger
from understudy.privacy.pair_selection import PairErrors, PairSelection
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.tables.schema import Schema

FittedMST = MarkovNet
# A number column has at most this many bins, however little noise there is: a pair of such columns has 4096 cells.
MOST_BINS = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class MST(Settings):
    """A maximum spanning tree of pairs of columns.

    Attributes:
        encoding_share: Part of the budget for single columns.
        selection_share: Part of the budget for the choice of the tree; the rest counts its pairs.
        rows_per_noise: How many rows a cell of a pair should hold, in deviations of its noise: more makes fewer, surer
            cells.
        shrinkage: How strongly the model stays at independent columns within the noise (`estimation.estimate`).
        iterations: The most steps of the model's estimation.
    """

    encoding_share: float = 0.35
    selection_share: float = 0.15
    rows_per_noise: float = 3.0
    shrinkage: float = 0.3
    iterations: int = 300

    name: ClassVar[str] = "mst"
    constraints: ClassVar[Constraints] = {
        "encoding_share": Number(least=0.01, most=0.98),
        "selection_share": Number(least=0.01, most=0.98),
        "rows_per_noise": Number(above=0),
        "shrinkage": Number(above=0),
        "iterations": Whole(),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoding_share + self.selection_share > 0.99:
            total = self.encoding_share + self.selection_share
            raise ValueError(f"MST: expected encoding_share + selection_share <= 0.99, got {total:g}.")

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """The choice of every edge and the count of every pair; nothing for a single column."""
        edges = len(schema) - 1
        if not edges:
            return []
        rest = 1.0 - self.encoding_share - self.selection_share
        return [
            PlannedMechanism(name="tree", mechanism="exponential", share=self.selection_share, times=edges),
            PlannedMechanism(name="pairs", mechanism="discrete gaussian", share=rest, times=edges),
        ]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> MarkovNet:
        """Chooses the tree, counts its pairs and fits the model.

        Privacy:
            Rows are read by `PairSelection` and `marginals.measure`.
        """
        single = len(encoder.schema) == 1
        fine = self.bins_allowed(encoder.rows, math.inf if single else ledger.noise("pairs") * rows.max_rows_per_unit)
        bins = cut(encoder, most=round(min(fine, MOST_BINS)), least=0.25 / fine)
        domain = Domain.of(bins)
        measured = from_encoder(encoder, bins, ledger=ledger)
        if not single:
            coded = bin_rows(rows, encoder, bins, key=key.child("codes"))
            for a, b in self.tree(coded, domain, measured, z_scores(encoder, bins), encoder.rows, ledger, key):
                what, draw = f"count '{a}' with '{b}'", key.child("pair").child(a).child(b)
                measured.append(measure(coded, (a, b), domain, planned="pairs", what=what, ledger=ledger, key=draw))
        ledger.phase(ESTIMATING)
        with one_thread_each():
            model = estimate(
                domain,
                measured,
                rows=encoder.rows,
                iterations=self.iterations,
                shrinkage=self.shrinkage,
                ordered={name: len(b.edges) - 1 for name, b in bins.items() if encoder.columns[name].labels is None},
                tolerance=1e-8,
            )
        return model.to_bayesnet(bins)

    def bins_allowed(self, rows: float, noise: float) -> float:
        """Bins k of a number column so that a pair's k² cells of even mass hold `rows_per_noise` · noise rows each."""
        return max(2.0, math.sqrt(rows / (self.rows_per_noise * noise)))

    def tree(
        self,
        coded: PrivateRows,
        domain: Domain,
        singles: Sequence[Measured],
        zscores: Mapping[str, Floats],
        rows: float,
        ledger: Ledger,
        key: Key,
    ) -> list[Clique]:
        """The edges of a spanning tree, each chosen among those that join two of its parts (Kruskal, with noise).

        Privacy:
            One choice for each edge, through `PairSelection`; which edges are still open depends on the earlier choices
            alone.
        """
        names = domain.names
        counts = {single.clique[0]: np.maximum(single.counts, 0.0) for single in singles}
        singles_of = [counts[name] * (rows / max(float(counts[name].sum()), 1e-300)) for name in names]
        selection = PairSelection(coded, names, domain.shape(names))
        selection.compare(
            PairErrors(
                singles=np.concatenate(singles_of),
                rows=rows,
                weights=np.concatenate([zscores[name] for name in names]),
                factors=np.ones((len(names), len(names))),
                penalties=np.zeros((len(names), len(names))),
            )
        )
        part, edges = np.arange(len(names)), list[Clique]()
        given = np.isin(names, list(ledger.context))  # what is given is not drawn, and tells nothing by itself
        opened = ~(np.eye(len(names), dtype=np.bool_) | (given[:, None] & given))
        while len(edges) < len(names) - 1:
            what, draw = "which columns go together", key.child(f"edge {len(edges)}")
            i, j = selection.choose(opened, what=what, planned="tree", ledger=ledger, key=draw)
            edges.append((names[i], names[j]))
            one, other = np.flatnonzero(part == part[i]), np.flatnonzero(part == part[j])
            opened[np.ix_(one, other)] = opened[np.ix_(other, one)] = False
            part[other] = part[i]
        return edges
