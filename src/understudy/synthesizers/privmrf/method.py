"""PrivMRF: a Markov random field on a triangulated graph of columns, from marginals inside the graph's cliques.

Three steps. Noisy scores of all pairs say how much columns depend on each other, and a triangulated graph is grown from
the strongest pair on, as long as all its cliques can be counted usefully. Then the pairs of the graph's best tree are
counted, and further marginals inside its cliques, each selected by how wrong the model still is about it. The model
that fits them all is the fitted generator.

Sources: Cai, Lei, Wei, Xiao (2021), "Data synthesis via differentially private Markov random fields", PVLDB 14(11);
Deshpande, Garofalakis, Jordan (2001), "Efficient stepwise selection in decomposable models", for which edges keep a
graph triangulated.

Departures:
- The score of a pair is the paper's R, in rows, but against the product of the single columns that the encoder released
  rather than against that of the exact ones. The estimate being public, a row moves a score by 1/2 instead of 2 (times
  its weight), so that scores carry a quarter of the noise. The expected sampling error is subtracted from a score.
- Scores of pairs and marginals use value weighting (`marginals.value_weights`): a cell weighs the more, the farther its
  values are from their columns' means, as far as the noise that this brings allows (`LARGEST_SELECTION_NOISE`); the
  blocks of a column keep its variance apart, too. The paper takes all rows alike, and so misses the few that hold most
  of a column's variance.
- An edge is taken only if its score stands out of the noise; columns without any stay independent. The paper searches
  for the largest sum of scores, in which pairs that say nothing count as much as their noise.
- The graph is grown edge by edge and is triangulated all the time, instead of being triangulated after each trial.
- A clique is useful if it has at most that many cells when its columns are counted in blocks, of at least
  `least` blocks each. The paper's columns come discretised; numbers have as many bins as one likes. Pairs are counted
  in finer bins, since the estimate also looks at blocks of them (graphical.inference).
- Noise below one row counts as one: with fewer than theta rows a cell says more about sampling than about the columns.
- The next marginal is selected by the exponential mechanism, which is less noisy for the same budget than noisy norms
  of which the largest is taken; if there are many, several are selected between two estimates.
- How many marginals there are follows from noise and columns (`PrivMRF.marginals`): with little noise, more are
  measured. The paper stops by a rule of its own on noisy norms.
- Single columns come from the encoder, whose share of the budget is its own. The shares of the steps are of the rest.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import one_thread_each
from understudy.core.randomness import Key
from understudy.core.settings import Constraints, Number, Settings, Whole
from understudy.encoding.encoder import Encoder
from understudy.graphical.estimation import ESTIMATING
from understudy.graphical.marginals import Measured, all_pairs, cut, expected_sampling_error, from_encoder
from understudy.graphical.markov import MarkovNet
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.privacy.selection import MarginalError, l2_sensitivity, noisy_marginal_errors, select_marginal
from understudy.synthesizers.privmrf.context import FILTER, MEAN_ABSOLUTE, Candidate, FitContext, Model
from understudy.synthesizers.privmrf.graph import Graph
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]

FittedPrivMRF = MarkovNet

MOST_BINS = 64
"""A number column has at most this many bins, however little noise there is."""
MOST_ESTIMATES = 8
"""The model is estimated at most this many times while marginals are selected."""
LEAST_PAIR_SENSITIVITY = 0.5
"""Scores of pairs get the noise of at least this sensitivity: if no column has any variance, all weights are 0."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivMRF(Settings):
    """A Markov random field of marginals selected inside the cliques of a triangulated graph.

    Attributes:
        encoding_share: Part of the budget for single columns.
        graph_share: Of the rest, the part for the scores of pairs; 0.1 is the paper's.
        choice_share: Of the rest, the part that selects marginals; 0.1 is the paper's. What remains counts them.
        theta: A useful marginal has this many times more rows a cell than noise moves it by; 6 is the paper's.
        fineness: How many times more cells a pair has than is useful by itself.
        least: Blocks that each column of a useful clique has at least, unless it has fewer bins.
        certainty: Deviations by which the score of an edge must stand out of noise and sampling.
        wanted_cells: More marginals are measured as long as those of so many cells stay useful.
        most_clique_cells: Cells of the model's largest clique.
        most_model_cells: Cells of the model's graph.
        shrinkage: How strongly the model stays at independent columns within the noise; as of `inference.estimate`.
        iterations: Steps of the model's estimation at most.
    """

    encoding_share: float = 0.3
    graph_share: float = 0.1
    choice_share: float = 0.1
    theta: float = 6.0
    fineness: float = 2.4
    least: int = 4
    certainty: float = 1.5
    wanted_cells: float = 200.0
    most_clique_cells: int = 40_000
    most_model_cells: int = 400_000
    shrinkage: float = 0.3
    iterations: int = 300

    name: ClassVar[str] = "privmrf"
    constraints: ClassVar[Constraints] = {
        "encoding_share": Number(least=0.01, most=0.98),
        "graph_share": Number(least=0.01, most=0.98),
        "choice_share": Number(least=0.01, most=0.98),
        "theta": Number(above=0),
        "fineness": Number(above=0),
        "least": Whole(least=2),
        "certainty": Number(least=0),
        "wanted_cells": Number(above=0),
        "most_clique_cells": Whole(least=4),
        "most_model_cells": Whole(least=4),
        "shrinkage": Number(above=0),
        "iterations": Whole(least=1),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if (total := self.graph_share + self.choice_share) > 0.99:
            raise ValueError(f"PrivMRF: expected graph_share + choice_share <= 0.99, got {total:g}.")

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """The scores of all pairs, and a filter for selections and counts; two columns have nothing to select."""
        rest = 1.0 - self.encoding_share
        if len(schema) == 1:
            return []
        if len(schema) == 2:
            return [PlannedMechanism(name=FILTER, mechanism="privacy filter", share=rest)]
        return [
            PlannedMechanism(name="graph", mechanism="discrete gaussian", share=rest * self.graph_share),
            PlannedMechanism(name=FILTER, mechanism="privacy filter", share=rest * (1.0 - self.graph_share)),
        ]

    @one_thread_each()
    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> MarkovNet:
        """Scores pairs, grows the graph, then selects and measures marginals.

        Privacy:
            Rows are read by `noisy_marginal_errors`, `select_marginal` and `noisy_counts`. Everything else sees what
            they released.
        """
        width, n = len(encoder.schema), max(encoder.rows, 1.0)
        useful_cells, wanted = math.inf, 0
        if width > 1:
            counting = FilterShare(FILTER, 1.0 - self._selecting)
            alone = ledger.noise(counting, "discrete gaussian") * rows.max_rows_per_unit
            wanted = self.marginals(n, alone, width)
            useful_cells = self.useful_cells(n, alone * math.sqrt(wanted))
        fine = max(2.0, math.sqrt(self.fineness * useful_cells))
        bins = cut(encoder, most=round(min(fine, MOST_BINS)), least=0.25 / fine)
        context = FitContext(rows, encoder, bins, useful_cells, ledger, key)
        model = Model(
            context,
            from_encoder(encoder, bins, ledger=ledger),
            shrinkage=self.shrinkage,
            iterations=self.iterations,
            most_cells=self.most_model_cells,
        )
        if width > 1:
            graph = self.graph(context, model.measured)
            self._measure(context, model, graph, wanted)
        ledger.phase(ESTIMATING)
        fitted = model.estimate(tolerance=1e-8).to_bayesnet(bins)
        ledger.step(1, 1)
        return fitted

    @property
    def _selecting(self) -> float:
        """The share of the filter that selects."""
        return self.choice_share / (1.0 - self.graph_share)

    def useful_cells(self, rows: float, sigma: float) -> float:
        """The most cells of a theta-useful marginal: rows / cells >= theta · E|noise|, the noise at least one row."""
        return rows / (self.theta * max(MEAN_ABSOLUTE * sigma, 1.0))

    def marginals(self, rows: float, sigma: float, columns: int) -> int:
        """How many marginals to count: T, of noise √T · `sigma` each, while `wanted_cells` are useful; a few a column.

        rows / (theta · E|noise| · √T) = wanted_cells  gives  T.
        """
        affordable = (rows / (self.theta * MEAN_ABSOLUTE * sigma * self.wanted_cells)) ** 2
        return round(min(max(affordable, columns), 6.0 * columns, columns + 120.0))

    def graph(self, context: FitContext, singles: Sequence[Measured]) -> Graph:
        """The triangulated graph, grown from noisy scores."""
        graph = Graph(context.domain)
        pairs = all_pairs(context.domain)
        if len(pairs) == 1:
            graph.join(*pairs[0])
            return graph
        scores, deviation = pair_scores(context, context.pair_errors(pairs, {s.clique[0]: s for s in singles}))
        order = np.argsort(-scores, kind="stable")
        waiting = [pairs[i] for i in order if scores[i] > self.certainty * deviation[i]] or [pairs[order[0]]]
        graph.scores = {pair: float(score) for pair, score in zip(pairs, scores, strict=True)}
        grown = True
        while grown:  # an edge that waits for others to keep the graph triangulated is tried again
            edges, left = graph.count, []
            for a, b in waiting:
                if self._fits(context, graph, a, b):
                    if graph.stays_triangulated(a, b):
                        graph.join(a, b)
                    else:
                        left.append((a, b))
            grown, waiting = graph.count > edges, left
        return graph

    def _fits(self, context: FitContext, graph: Graph, a: str, b: str) -> bool:
        """Whether the clique of two columns that are joined is useful, and small enough; if not, it never will be."""
        clique = context.domain.ordered({a, b} | graph.shared(a, b))
        cells = context.domain.size(clique)
        if len(clique) > 2 and (cells > self.most_clique_cells or not context.useful(clique, self.least)):
            return False
        return not graph.cliques or sum(graph.cliques.values()) + cells <= self.most_model_cells

    def _measure(self, context: FitContext, model: Model, graph: Graph, wanted: int) -> None:
        """Measures the pairs of the best tree, then selected marginals until the filter is used up."""
        tree = graph.tree()
        offered = [clique for clique in graph.marginals() if clique not in tree]
        selections = min(max(wanted - len(tree), 0), len(offered))
        offered = offered[: most_candidates(selections, context.encoder.rows)]
        selections = min(selections, len(offered))
        share = (1.0 - (self._selecting if selections else 0.0)) / (len(tree) + selections)
        counts = len(tree) + selections
        for i, clique in enumerate(tree):
            model.add(context.measure(clique, (), share))
            context.ledger.step(i + 1, counts + 1)  # the last is the estimation at the end
        at_once = math.ceil(selections / MOST_ESTIMATES) if selections else 1
        selection = FilterShare(FILTER, self._selecting / max(selections, 1))
        soft = context.softened(max(map(len, offered), default=1), context.ledger.noise(selection, "exponential"))
        done = 0
        while done < selections:
            fitted = model.estimate(tolerance=1e-6)
            now = min(at_once, selections - done)
            candidates = [Candidate.of(context, clique, fitted, soft, context.sigma(share)) for clique in offered]
            for i in range(now):
                index = select_marginal(
                    context.coded,
                    [candidate.error for candidate in candidates],
                    what="which marginal to count next",
                    planned=selection,
                    ledger=context.ledger,
                    key=context.key.child(f"{done + i}").child("choice"),
                )
                taken = candidates.pop(index)
                offered.remove(taken.clique)
                model.add(context.measure(taken.clique, taken.blocks, share))
            done += now
            context.ledger.step(len(tree) + done, counts + 1)


def most_candidates(selections: int, rows: float) -> int:
    """How many candidates are scored in each selection, so that all of them together end in about half a minute."""
    return max(40, int(min(60_000 / max(selections, 1), 1e9 / (max(selections, 1) * max(rows, 1.0)))))


def pair_scores(context: FitContext, errors: Sequence[MarginalError]) -> tuple[Floats, Floats]:
    """Noisy scores of pairs, less their expected sampling error, and the deviation of noise and sampling of each.

    Privacy:
        Through `noisy_marginal_errors`, which bounds its own sensitivity.
    """
    released = noisy_marginal_errors(
        context.coded,
        errors,
        least_sensitivity=LEAST_PAIR_SENSITIVITY,
        what="how much columns depend on each other",
        planned="graph",
        ledger=context.ledger,
        key=context.key.child("graph"),
    )
    sensitivity = l2_sensitivity(errors, least_sensitivity=LEAST_PAIR_SENSITIVITY)
    noise = context.ledger.noise("graph") * sensitivity * context.max_rows_per_unit
    expected = np.array([expected_sampling_error(error.estimate, error.cell_weights) for error in errors]) / 2
    sampling = [sampling_error_deviation(error.estimate, error.cell_weights) for error in errors]
    return released - expected, np.hypot(noise, sampling)


def sampling_error_deviation(estimate: Floats, weights: Floats | float = 1.0) -> float:
    """The deviation of the score of independent columns: of 1/2 Σ a |n_xy - e_xy|, each of variance (1 - 2/π) e_xy."""
    return 0.5 * math.sqrt((1 - 2 / math.pi) * float((weights**2 * np.maximum(estimate, 0.0)).sum()))
