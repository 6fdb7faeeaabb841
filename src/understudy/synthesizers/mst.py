"""MST: the best tree of pairs of columns, chosen and counted under privacy, and the graphical model on it.

Three steps: single columns, then a spanning tree of pairs chosen one by one with the exponential mechanism, by how far
each pair is from independent columns, then a noisy count of every pair in the tree. Rows are drawn from the
graphical model that fits them.

Sources: McKenna, Miklau, Sheldon (2021), "Winning the NIST contest: a scalable and general approach to differentially
private synthetic data", arXiv:2108.04978.

Departures:
- Single columns are not bought again: the encoder has their distributions, and its share takes the place of the first
  third of the budget.
- Numbers are cut into as many cells as the noise allows (`MST.cells_allowed`); the paper's tables come cut.
- In the distance of a pair from independence a cell counts the more, the farther its values are from both means
  (`marginals.accent`). The paper takes all rows alike, and so misses two columns that say everything about the few
  rows that hold most of a third one's variance: Cpu-act at ε = 5 has an R² of 0.15 without it and of 0.88 with it.
- The paper compresses rare values of the domain by their noisy counts; here neighbouring rare categories share a cell.
- The paper gives a third of the budget to each step; here choosing gets less: scores are sums over thousands of
  rows.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, bin_rows
from understudy.graphical.inference import MarkovNet, estimate
from understudy.graphical.marginals import (
    Clique,
    Domain,
    Floats,
    Measured,
    accent,
    all_pairs,
    choose,
    cut,
    deviations,
    from_encoder,
    measure,
    product,
)
from understudy.privacy.accounting import PlannedMechanism, checked_number, checked_positive, checked_whole
from understudy.privacy.ledger import Ledger
from understudy.privacy.rows import PrivateRows
from understudy.tables.schema import Schema

FittedMST = MarkovNet
MOST_CELLS = 64  # of a number column, however little noise there is: a pair of them has 4096 cells


@dataclasses.dataclass(frozen=True, kw_only=True)
class MST:
    """A maximum spanning tree of pairs of columns.

    Attributes:
        encoding_share: Part of the budget for single columns.
        selection_share: Part of the budget for the choice of the tree; what is left counts its pairs.
        rows_per_noise: How many rows a cell of a pair should hold, in deviations of its noise: more makes fewer, surer
            cells.
        shrinkage: How strongly the model stays at independent columns within the noise; as of `pgm.estimate`.
        iterations: Steps of the model's estimation at most.
    """

    encoding_share: float = 0.35
    selection_share: float = 0.15
    rows_per_noise: float = 3.0
    shrinkage: float = 0.3
    iterations: int = 300

    name = "mst"

    def __post_init__(self):
        for field in ("encoding_share", "selection_share"):
            checked_number(f"MST.{field}", getattr(self, field), "0.01 to 0.98", lambda x: 0.01 <= x <= 0.98)
        if self.encoding_share + self.selection_share > 0.99:
            total = self.encoding_share + self.selection_share
            raise ValueError(f"MST: expected encoding_share + selection_share <= 0.99, got {total:g}.")
        for field in ("rows_per_noise", "shrinkage"):
            checked_positive(f"MST.{field}", getattr(self, field))
        checked_whole("MST.iterations", self.iterations)

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        edges = len(schema) - 1
        if not edges:
            return []
        rest = 1.0 - self.encoding_share - self.selection_share
        return [
            PlannedMechanism(name="tree", mechanism="exponential", share=self.selection_share, times=edges),
            PlannedMechanism(name="pairs", mechanism="discrete gaussian", share=rest, times=edges),
        ]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> MarkovNet:
        alone = len(encoder.schema) == 1
        fine = self.cells_allowed(encoder.rows, math.inf if alone else ledger.noise("pairs") * rows.max_rows_per_unit)
        cells = cut(encoder, most=round(min(fine, MOST_CELLS)), least=0.25 / fine)
        domain = Domain.of(cells)
        measured = from_encoder(encoder, cells, ledger=ledger)
        if not alone:
            coded = bin_rows(rows, encoder, cells, key=key.child("codes"))
            for a, b in self.tree(coded, domain, measured, deviations(encoder, cells), encoder.rows, ledger, key):
                what, draw = f"count '{a}' with '{b}'", key.child("pair").child(a).child(b)
                measured.append(measure(coded, (a, b), domain, planned="pairs", what=what, ledger=ledger, key=draw))
        fitted = estimate(
            domain,
            measured,
            rows=encoder.rows,
            iterations=self.iterations,
            shrinkage=self.shrinkage,
            ordered={name: len(c.edges) - 1 for name, c in cells.items() if encoder.maps[name].labels is None},
        )
        return fitted.to_bayesnet(cells)

    def cells_allowed(self, rows: float, noise: float) -> float:
        """Bins k of a number column so that a pair's k² cells of even mass hold `rows_per_noise` · noise rows each."""
        return max(2.0, math.sqrt(rows / (self.rows_per_noise * noise)))

    def tree(
        self,
        coded: PrivateRows,
        domain: Domain,
        singles: Sequence[Measured],
        far: Mapping[str, Floats],
        rows: float,
        ledger: Ledger,
        key: Key,
    ) -> list[Clique]:
        """The edges of a spanning tree, each chosen among those that join two of its parts.

        Privacy:
            One choice for each edge, through `marginals.choose`; what an edge may still be depends on the earlier
            choices alone.
        """
        alone = {single.clique[0]: single for single in singles}
        guesses = {pair: product([alone[name] for name in pair], rows) for pair in all_pairs(domain)}
        accents = {pair: accent(far, pair) for pair in guesses}
        part = {name: i for i, name in enumerate(domain.names)}
        edges: list[Clique] = []
        while len(edges) < len(part) - 1:
            open_pairs = [(a, b) for a, b in guesses if part[a] != part[b]]
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
                accents=[accents[pair] for pair in open_pairs],
            )
            a, b = open_pairs[chosen]
            edges.append((a, b))
            joined, kept = part[b], part[a]
            part = {name: kept if each == joined else each for name, each in part.items()}
        return edges
