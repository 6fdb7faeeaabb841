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

from understudy.core.randomness import Key
from understudy.core.settings import Constraints, Number, Settings, Whole
from understudy.encoding.bins import bin_rows
from understudy.encoding.encoder import Encoder
from understudy.graphical.estimation import estimate
from understudy.graphical.marginals import (
    Clique,
    Domain,
    Floats,
    Measured,
    all_pairs,
    choose,
    cut,
    from_encoder,
    measure,
    product,
    value_weights,
    z_scores,
)
from understudy.graphical.markov import MarkovNet
from understudy.privacy.ledger import Ledger
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
            Rows are read by `marginals.choose` and `marginals.measure`.
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
        model = estimate(
            domain,
            measured,
            rows=encoder.rows,
            iterations=self.iterations,
            shrinkage=self.shrinkage,
            ordered={name: len(b.edges) - 1 for name, b in bins.items() if encoder.columns[name].labels is None},
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
            One choice for each edge, through `marginals.choose`; which edges are still open depends on the earlier
            choices alone.
        """
        from scipy.cluster.hierarchy import DisjointSet  # takes a while to load

        counts = {single.clique[0]: single for single in singles}
        guesses = {pair: product([counts[name] for name in pair], rows) for pair in all_pairs(domain)}
        weights = {pair: value_weights(zscores, pair) for pair in guesses}
        parts = DisjointSet(domain.names)
        edges: list[Clique] = []
        while parts.n_subsets > 1:
            open_pairs = [(a, b) for a, b in guesses if not parts.connected(a, b)]
            chosen = choose(
                coded,
                open_pairs,
                [guesses[pair] for pair in open_pairs],
                [0.0] * len(open_pairs),
                domain,
                [1.0] * len(open_pairs),
                planned="tree",
                what="which columns go together",
                ledger=ledger,
                key=key.child(f"edge {len(edges)}"),
                weights=[weights[pair] for pair in open_pairs],
            )
            edges.append(open_pairs[chosen])
            parts.merge(*open_pairs[chosen])
        return edges
