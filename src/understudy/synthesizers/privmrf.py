"""PrivMRF: a Markov random field on a triangulated graph of columns, from marginals inside the graph's cliques.

Three steps. Noisy scores of all pairs say how much columns depend on each other, and a triangulated graph is grown from
the strongest pair on, as long as all its cliques can be counted usefully. Then the pairs of the graph's best tree are
counted, and further marginals inside its cliques, each chosen by how wrong the model still is about it. The model
that fits them all is the recipe.

Sources: Cai, Lei, Wei, Xiao (2021), "Data synthesis via differentially private Markov random fields", PVLDB 14(11);
Deshpande, Garofalakis, Jordan (2001), "Efficient stepwise selection in decomposable models", for which edges keep a
graph triangulated.

Departures:
- The score of a pair is the paper's R, in rows, but against the product of the single columns that the encoder bought
  rather than against that of the exact ones. The guess being public, a row moves a score by 1/2 instead of 2 (times
  its accent), so that scores carry a quarter of the noise. What chance alone would make of a score is taken off.
- In scores of pairs and marginals a cell counts the more, the farther its values are from their columns' means
  (`marginals.accent`), as far as the noise that this brings allows (`LOUDEST`); the coarse cells of a column keep its
  variance apart, too. The paper takes all rows alike, and so misses the few that hold most of a column's variance.
- An edge is taken only if its score stands out of the noise; columns without any stay independent. The paper searches
  for the largest sum of scores, in which pairs that say nothing count as much as their noise.
- The graph is grown edge by edge and is triangulated all the time, instead of being triangulated after each trial.
- A clique is useful if it has at most that many cells when its columns are counted in coarse ones, of at least
  `least` cells each. The paper's columns come cut; numbers have as many cells as one likes. Pairs are counted in finer
  cells, since the estimate also looks at blocks of them (pgm.py).
- Noise below one row counts as one: with fewer than theta rows a cell says more of chance than of the columns.
- The next marginal is chosen by the exponential mechanism, which is less noisy for the same budget than noisy norms of
  which the largest is taken; several are chosen between two estimates where there are many.
- How many marginals there are follows from noise and columns (`PrivMRF.marginals`): when noise is small, more are
  bought. The paper stops by a rule of its own on noisy norms.
- Single columns come from the encoder, whose share of the budget is its own. The shares of the steps are of the rest.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Bins, Encoder, bin_rows
from understudy.graphical.inference import Fitted, MarkovNet, estimate, model_size
from understudy.graphical.marginals import (
    Clique,
    Domain,
    Measured,
    accent,
    all_pairs,
    cut,
    deviations,
    exact_marginal,
    expected_sampling_error,
    from_encoder,
    measure,
    product,
    soften,
)
from understudy.privacy.accounting import PlannedMechanism, checked_number, checked_positive
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.mechanisms import noisy_scores, private_choice
from understudy.privacy.rows import PrivateRows
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]
Starts = tuple[NDArray[np.int64], ...]

FittedPrivMRF = MarkovNet

ABSOLUTE = math.sqrt(2 / math.pi)  # E|z| of a standard normal
MOST_CELLS = 64  # of a number column, however little noise there is
LOUDEST = 0.15  # of the rows: accents may make the noise of a score so large, and no larger
COARSE = 8  # cells of a column in the score of a pair
ESTIMATES = 8  # of the model, at most, while marginals are chosen


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivMRF:
    """A Markov random field of marginals chosen inside the cliques of a triangulated graph.

    Attributes:
        encoding_share: Part of the budget for single columns.
        graph_share: Of the rest, the part for the scores of pairs; 0.1 is the paper's.
        choice_share: Of the rest, the part that chooses marginals; 0.1 is the paper's. What remains counts them.
        theta: A useful marginal has this many times more rows a cell than noise moves it by; 6 is the paper's.
        fineness: How many times more cells a pair has than is useful by itself.
        least: Bins that each column of a useful clique has at least, unless it has fewer.
        certainty: Deviations by which the score of an edge must stand out of noise and chance.
        wanted_cells: More marginals are bought as long as those of so many cells stay useful.
        most_clique_cells: Bins of the model's largest clique.
        most_model_cells: Bins of the model's graph.
        shrinkage: How strongly the model stays at independent columns within the noise; as of `pgm.estimate`.
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

    name = "privmrf"

    def __post_init__(self):
        for field in ("encoding_share", "graph_share", "choice_share"):
            checked_number(f"PrivMRF.{field}", getattr(self, field), "0.01 to 0.98", lambda x: 0.01 <= x <= 0.98)
        if self.graph_share + self.choice_share > 0.99:
            total = self.graph_share + self.choice_share
            raise ValueError(f"PrivMRF: expected graph_share + choice_share <= 0.99, got {total:g}.")
        for field in ("theta", "fineness", "wanted_cells", "shrinkage"):
            checked_positive(f"PrivMRF.{field}", getattr(self, field))
        if not 0 <= self.certainty < math.inf:
            raise ValueError(f"PrivMRF.certainty: expected a finite number >= 0, got {self.certainty}.")
        for field, low in (("least", 2), ("most_clique_cells", 4), ("most_model_cells", 4), ("iterations", 1)):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                raise ValueError(f"PrivMRF.{field}: expected a whole number >= {low}, got {value!r}.")

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """The scores of all pairs, and a pot for what is chosen and counted; two columns have nothing to choose."""
        rest = 1.0 - self.encoding_share
        if len(schema) == 1:
            return []
        if len(schema) == 2:
            return [PlannedMechanism(name="marginals", mechanism="adaptive", share=rest)]
        return [
            PlannedMechanism(name="graph", mechanism="discrete gaussian", share=rest * self.graph_share),
            PlannedMechanism(name="marginals", mechanism="adaptive", share=rest * (1.0 - self.graph_share)),
        ]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> MarkovNet:
        """Scores pairs, grows the graph, then chooses and counts marginals.

        Privacy:
            Rows are read by `noisy_scores` (see `pair_scores`), by `private_choice` (see `_choose`) and by
            `noisy_counts`. Everything else sees what they released.
        """
        width, n = len(encoder.schema), max(encoder.rows, 1.0)
        room, wanted = math.inf, 0
        if width > 1:
            alone = (
                ledger.noise(FilterShare("marginals", 1.0 - self._choosing), "discrete gaussian")
                * rows.max_rows_per_unit
            )
            wanted = self.marginals(n, alone, width)
            room = self.room(n, alone * math.sqrt(wanted))
        fine = max(2.0, math.sqrt(self.fineness * room))
        cells = cut(encoder, most=round(min(fine, MOST_CELLS)), least=0.25 / fine)
        board = Board(rows, encoder, cells, room, ledger, key)
        model = Model(self, board, from_encoder(encoder, cells, ledger=ledger))
        if width > 1:
            graph = self.graph(board, model.measured)
            self._count(board, model, graph, wanted)
        return model.estimate(tolerance=1e-8).to_bayesnet(cells)

    @property
    def _choosing(self) -> float:
        """The part of the pot that chooses."""
        return self.choice_share / (1.0 - self.graph_share)

    def room(self, rows: float, sigma: float) -> float:
        """The most cells of a theta-useful marginal: rows / cells >= theta · E|noise|, the noise at least one row."""
        return rows / (self.theta * max(ABSOLUTE * sigma, 1.0))

    def marginals(self, rows: float, sigma: float, columns: int) -> int:
        """How many marginals to count: T, of noise √T · `sigma` each, while `wanted_cells` are useful; a few a column.

        rows / (theta · E|noise| · √T) = wanted_cells  gives  T.
        """
        affordable = (rows / (self.theta * ABSOLUTE * sigma * self.wanted_cells)) ** 2
        return round(min(max(affordable, columns), 6.0 * columns, columns + 120.0))

    def graph(self, board: "Board", singles: Sequence[Measured]) -> "Graph":
        """The triangulated graph, grown from noisy scores."""
        graph = Graph(board.domain)
        pairs = all_pairs(board.domain)
        if len(pairs) == 1:
            graph.join(*pairs[0])
            return graph
        views = pair_views(board, pairs, {each.clique[0]: each for each in singles})
        scores = pair_scores(board, views)
        noise = board.ledger.noise("graph") * pair_sensitivity(views) * board.rows.max_rows_per_unit
        deviation = np.hypot(noise, [sampling_error_deviation(view.guess, view.accents) for view in views])
        order = np.argsort(-scores, kind="stable")
        waiting = [pairs[i] for i in order if scores[i] > self.certainty * deviation[i]] or [pairs[order[0]]]
        graph.scores = {pair: float(score) for pair, score in zip(pairs, scores, strict=True)}
        grown = True
        while grown:  # an edge that waits for others to keep the graph triangulated is tried again
            edges, left = graph.count, []
            for a, b in waiting:
                if self._fits(board, graph, a, b):
                    if graph.stays_triangulated(a, b):
                        graph.join(a, b)
                    else:
                        left.append((a, b))
            grown, waiting = graph.count > edges, left
        return graph

    def _fits(self, board: "Board", graph: "Graph", a: str, b: str) -> bool:
        """Whether the clique of two columns that are joined is useful, and small enough; if not, it never will be."""
        clique = board.domain.ordered({a, b} | graph.shared(a, b))
        cells = board.domain.size(clique)
        if len(clique) > 2 and (cells > self.most_clique_cells or not board.useful(clique, self.least)):
            return False
        return not graph.cliques or sum(graph.cliques.values()) + cells <= self.most_model_cells

    def _count(self, board: "Board", model: "Model", graph: "Graph", wanted: int) -> None:
        """Counts the pairs of the best tree, then chosen marginals until the pot is empty."""
        tree = graph.tree()
        offered = [clique for clique in graph.marginals() if clique not in tree]
        chosen = min(max(wanted - len(tree), 0), len(offered))
        offered = offered[: most_candidates(chosen, board.encoder.rows)]
        chosen = min(chosen, len(offered))
        part = (1.0 - (self._choosing if chosen else 0.0)) / (len(tree) + chosen)
        for clique in tree:
            model.add(board.count(clique, (), part))
        at_once = math.ceil(chosen / ESTIMATES) if chosen else 1
        quiet = board.ledger.noise(FilterShare("marginals", self._choosing / max(chosen, 1)), "exponential")
        soft = board.soften(max(map(len, offered), default=1), quiet)
        done = 0
        while done < chosen:
            fitted = model.estimate(tolerance=1e-6)
            now = min(at_once, chosen - done)
            candidates = [Candidate.of(board, clique, fitted, soft, board.sigma(part)) for clique in offered]
            for i in range(now):
                index = self._choose(board, candidates, self._choosing / chosen, key=board.key.child(f"{done + i}"))
                taken = candidates.pop(index)
                offered.remove(taken.clique)
                model.add(board.count(taken.clique, taken.starts, part))
            done += now

    def _choose(self, board: "Board", candidates: Sequence["Candidate"], share: float, *, key: Key) -> int:
        """The number of the candidate about which the model is (nearly) the most wrong.

        The score is Σ a |exact - estimate| over the cells, a their accents, less what chance and the noise to come
        would make of it.

        Privacy:
            Estimates, accents and what is taken off are made of releases. A row is in one cell of each exact marginal,
            in coarse cells too, so it moves any score by at most the accent of that cell, and by no more than max a.
        """

        def scores(*columns: NDArray[np.int64]) -> Floats:
            place = dict(zip(board.domain.names, columns, strict=True))
            exact = (exact_blocks(board.domain, place, each.clique, each.starts) for each in candidates)
            return np.array([each.distance(e) - each.off for e, each in zip(exact, candidates, strict=True)])

        return private_choice(
            board.coded,
            board.domain.names,
            scores,
            sensitivity=max(1e-300, *(float(each.accents.max()) for each in candidates)),
            what="which marginal to count next",
            planned=FilterShare("marginals", share),
            ledger=board.ledger,
            key=key.child("choice"),
        )


def most_candidates(choices: int, rows: float) -> int:
    """How many candidates are scored in each choice, so that all choices together end in about half a minute."""
    return max(40, int(min(60_000 / max(choices, 1), 1e9 / (max(choices, 1) * max(rows, 1.0)))))


# Scores of pairs ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class View:
    """Some columns as a choice looks at them.

    Attributes:
        clique: The columns.
        starts: The blocks of cells that are counted.
        guess: What is expected there.
        accents: How much an error there matters.
    """

    clique: Clique
    starts: Starts
    guess: Floats
    accents: Floats

    def distance(self, exact: Floats) -> float:
        """Σ a |exact - guess|."""
        return float((self.accents * np.abs(exact - self.guess)).sum())


def pair_sensitivity(views: Sequence[View]) -> float:
    """Of the vector of scores in L2 norm, per row: each moves by at most max a / 2, so all by √Σ (max a)² / 2.

    At least 1/2, since where no column has any variance all accents are 0.
    """
    return max(math.sqrt(sum(float(view.accents.max()) ** 2 for view in views)), 1.0) / 2


def sampling_error_deviation(guess: Floats, accents: Floats | float = 1.0) -> float:
    """The deviation of the score of independent columns: of 1/2 Σ a |n_xy - e_xy|, each of variance (1 - 2/π) e_xy."""
    return 0.5 * math.sqrt((1 - 2 / math.pi) * float((accents**2 * np.maximum(guess, 0.0)).sum()))


def pair_views(board: "Board", pairs: Sequence[Clique], singles: Mapping[str, Measured]) -> list[View]:
    """Every pair in at most 8 coarse cells a column: what depends in fine cells alone is mostly chance. Public."""
    soft = board.soften(2, board.ledger.noise("graph") * math.sqrt(len(pairs)) / 2)
    coarse = {name: board.starts(name, COARSE) for name in board.domain.names}
    found = []
    for pair in pairs:
        starts = tuple(coarse[name] for name in pair)
        guess = blocks(product([singles[name] for name in pair], board.encoder.rows), starts)
        found.append(View(pair, starts, guess, board.accent(soft, pair, starts)))
    return found


def pair_scores(board: "Board", views: Sequence[View]) -> Floats:
    """How far every pair is from independent columns: 1/2 Σ a_xy |n_xy - e_xy| less what chance makes of it.

    Privacy:
        The guess e is the product of columns that were bought, and accents and what is taken off are made of what was
        bought too; a neighbour has the same. A row moves one n_xy by 1, so each score by at most max a / 2, and the
        vector by at most √Σ (max a)² / 2 in L2 norm.
    """
    domain = board.domain

    def scores(*columns: NDArray[np.int64]) -> Floats:
        place = dict(zip(domain.names, columns, strict=True))
        return exact_pair_scores(domain, place, views)

    noisy = noisy_scores(
        board.coded,
        domain.names,
        scores,
        count=len(views),
        sensitivity=pair_sensitivity(views),
        what="how much columns depend on each other",
        planned="graph",
        ledger=board.ledger,
        key=board.key.child("graph"),
    )
    return noisy - np.array([expected_sampling_error(view.guess, view.accents) for view in views]) / 2


def exact_pair_scores(domain: Domain, columns: Mapping[str, NDArray[np.int64]], views: Sequence[View]) -> Floats:
    """Scores without noise, for use inside a hatch."""
    exact = (exact_blocks(domain, columns, view.clique, view.starts) for view in views)
    return np.array([view.distance(e) for e, view in zip(exact, views, strict=True)]) / 2


# Blocks of cells ----------------------------------------------------------------------------------------------------


def coarse_starts(cells: Bins, size: int, far: Floats | None = None) -> NDArray[np.int64]:
    """The cells that at most `size` blocks of neighbouring cells begin with, of about even mass; missing is its own.

    With deviations `far` given, a block's mass is half rows and half squares, so that the few cells that hold most of
    a column's variance have blocks of their own.
    """
    masses = np.diff(cells.edges)
    if far is not None:
        masses = masses * (1 + far[: len(masses)] ** 2) / 2
    inside = max(size - cells.nullable, 1)
    middle = (np.cumsum(masses) - masses / 2) / max(float(masses.sum()), 1e-300)
    group = np.floor(np.clip(middle, 0.0, 1 - 1e-9) * inside) if len(masses) > inside else np.arange(len(masses))
    starts = np.flatnonzero(np.r_[True, group[1:] != group[:-1]])
    return np.append(starts, len(masses)) if cells.nullable else starts


def even_sizes(sizes: Sequence[int], room: float) -> list[int]:
    """A number of blocks for each column, as even as their cells allow, whose product fits into `room`."""
    found = [1] * len(sizes)
    order = sorted(range(len(sizes)), key=lambda i: sizes[i])
    for left, i in zip(range(len(sizes), 0, -1), order, strict=True):
        found[i] = max(1, min(sizes[i], int(room ** (1 / left) + 1e-9)))
        room /= found[i]
    return found


def blocks(counts: Floats, starts: Starts) -> Floats:
    """Counts of blocks, from those of cells; as they are where there are no blocks."""
    for axis, at in enumerate(starts):
        counts = np.add.reduceat(counts, at, axis=axis)
    return counts


def exact_blocks(domain: Domain, columns: Mapping[str, NDArray[np.int64]], clique: Clique, starts: Starts) -> Floats:
    """Counts of blocks without noise, for use inside a hatch."""
    if not starts:
        return exact_marginal([columns[name] for name in clique], domain.shape(clique))
    block = [
        (np.searchsorted(at, np.arange(domain.sizes[name]), side="right") - 1)[columns[name]]
        for name, at in zip(clique, starts, strict=True)
    ]
    return exact_marginal(block, tuple(len(at) for at in starts))


# Board, model and candidates ----------------------------------------------------------------------------------------


class Board:
    """What a fit works on: locked codes, public cells, and the till.

    Attributes:
        room: The most cells of a useful marginal.
    """

    def __init__(
        self, rows: PrivateRows, encoder: Encoder, cells: Mapping[str, Bins], room: float, ledger: Ledger, key: Key
    ):
        self.rows, self.encoder, self.cells, self.room = rows, encoder, cells, room
        self.ledger, self.key = ledger, key
        self.domain = Domain.of(cells)
        self.far = deviations(encoder, cells)
        self.coded = bin_rows(rows, encoder, cells, key=key.child("codes"))

    def sigma(self, share: float) -> float:
        """The noise of a marginal for this part of the pot."""
        return self.ledger.noise(FilterShare("marginals", share), "discrete gaussian") * self.rows.max_rows_per_unit

    def starts(self, name: str, size: int) -> NDArray[np.int64]:
        return coarse_starts(self.cells[name], size, self.far[name])

    def soften(self, width: int, quiet: float) -> dict[str, Floats]:
        """Deviations as far as accents may go: `quiet` is the noise of scores that take all rows alike."""
        noise = quiet * self.rows.max_rows_per_unit
        return soften(self.far, width, LOUDEST * self.encoder.rows / noise)

    def accent(self, far: Mapping[str, Floats], clique: Clique, starts: Starts) -> Floats:
        """Of the clique's cells, or of its blocks: there |z| is the root of the mean of z² over the rows."""
        if not starts:
            return accent(far, clique)
        rooted = {}
        for name, at in zip(clique, starts, strict=True):
            cells = self.cells[name]
            masses = np.append(np.diff(cells.edges), 1.0) if cells.nullable else np.diff(cells.edges)
            masses = np.maximum(masses, 1e-12)
            rooted[name] = np.sqrt(np.add.reduceat(masses * far[name] ** 2, at) / np.add.reduceat(masses, at))
        return accent(rooted, clique)

    def useful(self, clique: Clique, least: int) -> bool:
        """Whether the clique fits into the room with at least `least` blocks a column, or all the cells it has."""
        sizes = even_sizes(self.domain.shape(clique), self.room)
        within = math.prod(sizes) <= self.room
        return within and all(
            size >= min(least, own) for size, own in zip(sizes, self.domain.shape(clique), strict=True)
        )

    def blocks_of(self, clique: Clique) -> Starts:
        """The blocks a marginal is counted in: cells themselves for pairs, and for more columns where they fit."""
        own = self.domain.shape(clique)
        if len(clique) == 2 or math.prod(own) <= self.room:
            return ()
        sizes = even_sizes(own, self.room)
        return tuple(self.starts(name, size) for name, size in zip(clique, sizes, strict=True))

    def count(self, clique: Clique, starts: Starts, share: float) -> Measured:
        """Buys a marginal, in cells or in blocks."""
        key = self.key.child("count").child(" ".join(f"{len(name)} {name}" for name in clique))
        what = f"count {' with '.join(map(repr, clique))}"
        planned = FilterShare("marginals", share)
        if not starts:
            return measure(self.coded, clique, self.domain, planned=planned, what=what, ledger=self.ledger, key=key)
        coarse = {name: self._coarse(name, at) for name, at in zip(clique, starts, strict=True)}
        some = Schema(columns=tuple(self.encoder.schema[name] for name in clique))
        part = dataclasses.replace(self.encoder, schema=some, maps={name: self.encoder.maps[name] for name in clique})
        coded = bin_rows(self.rows, part, coarse, key=self.key.child("codes"))
        found = measure(coded, clique, Domain.of(coarse), planned=planned, what=what, ledger=self.ledger, key=key)
        return dataclasses.replace(found, starts=starts)

    def _coarse(self, name: str, starts: NDArray[np.int64]) -> Bins:
        """The column in blocks: the same cells with fewer ends."""
        cells = self.cells[name]
        inside = starts[starts < len(cells.edges) - 1]
        return dataclasses.replace(cells, edges=np.append(cells.edges[inside], cells.edges[-1]))


class Model:
    """What was measured, and the estimate made of it; each starts from the last."""

    def __init__(self, method: PrivMRF, board: Board, singles: Sequence[Measured]):
        self.method, self.board = method, board
        self.measured = list(singles)
        self.fitted: Fitted | None = None

    def add(self, measured: Measured) -> None:
        """Takes a marginal in, unless the model would grow beyond memory: chosen marginals triangulate anew."""
        cliques = [each.clique for each in self.measured if len(each.clique) > 1]
        limit = 8 * self.method.most_model_cells
        if not cliques or model_size(self.board.domain, [*cliques, measured.clique]) <= limit:
            self.measured.append(measured)

    def estimate(self, *, tolerance: float) -> Fitted:
        encoder = self.board.encoder
        self.fitted = estimate(
            self.board.domain,
            self.measured,
            rows=encoder.rows,
            iterations=self.method.iterations,
            start=self.fitted,
            shrinkage=self.method.shrinkage,
            ordered={
                name: len(c.edges) - 1 for name, c in self.board.cells.items() if encoder.maps[name].labels is None
            },
            tolerance=tolerance,
        )
        return self.fitted


@dataclasses.dataclass(frozen=True)
class Candidate(View):
    """A marginal that may be counted next, seen as it would be counted.

    Attributes:
        off: What chance, and the noise to come, would make of its distance from the guess.
    """

    off: float

    @classmethod
    def of(cls, board: Board, clique: Clique, fitted: Fitted, far: Mapping[str, Floats], sigma: float) -> "Candidate":
        starts = board.blocks_of(clique)
        guess = blocks(fitted.marginal(clique), starts)
        accents = board.accent(far, clique, starts)
        off = expected_sampling_error(guess, accents) + ABSOLUTE * sigma * float(accents.sum())
        return cls(clique, starts, guess, accents, off)


# Graphs -------------------------------------------------------------------------------------------------------------


class Graph:
    """A triangulated graph of columns.

    Attributes:
        beside: Of every column, those it is joined to.
        cliques: The maximal cliques, and how many cells each has.
        count: How many edges there are.
        scores: Of pairs.
    """

    def __init__(self, domain: Domain):
        self.domain = domain
        self.beside: dict[str, set[str]] = {name: set() for name in domain.names}
        self.cliques: dict[frozenset[str], int] = {}
        self.count = 0
        self.scores: dict[Clique, float] = {}

    @property
    def edges(self) -> list[Clique]:
        """In the order of the columns."""
        return [(a, b) for a, b in itertools.combinations(self.beside, 2) if b in self.beside[a]]

    def shared(self, a: str, b: str) -> set[str]:
        return self.beside[a] & self.beside[b]

    def stays_triangulated(self, a: str, b: str) -> bool:
        """Whether the graph is triangulated with the edge too: what a and b are both beside keeps them apart."""
        closed, reached, border = self.shared(a, b), {a}, [a]
        while border:
            for other in self.beside[border.pop()] - closed - reached:
                if other == b:
                    return False
                reached.add(other)
                border.append(other)
        return True

    def join(self, a: str, b: str) -> None:
        """Adds an edge that keeps the graph triangulated."""
        clique = frozenset({a, b} | self.shared(a, b))
        self.beside[a].add(b)
        self.beside[b].add(a)
        self.cliques = {each: cells for each, cells in self.cliques.items() if not each <= clique}
        self.cliques[clique] = self.domain.size(tuple(clique))
        self.count += 1

    def tree(self) -> list[Clique]:
        """The edges of the heaviest forest."""
        part = {name: i for i, name in enumerate(self.beside)}
        found = []
        for a, b in sorted(self.edges, key=lambda edge: -self.scores.get(edge, 0.0)):
            if part[a] != part[b]:
                joined, kept = part[b], part[a]
                part = {name: kept if each == joined else each for name, each in part.items()}
                found.append((a, b))
        return found

    def marginals(self) -> list[Clique]:
        """Every two to four columns of a clique, those of the highest mean score first."""
        found: dict[Clique, float] = {}
        for clique in self.cliques:
            for width in range(2, min(len(clique), 4) + 1):
                for group in itertools.combinations(self.domain.ordered(set(clique)), width):
                    found[group] = float(np.mean([self.scores.get(p, 0.0) for p in itertools.combinations(group, 2)]))
        return sorted(found, key=lambda group: (-found[group], group))
