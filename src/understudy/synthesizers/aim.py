"""AIM: marginals chosen and counted one after another, each where the model so far is the most wrong.

The start is a model of independent columns, from the encoder. Every round chooses a marginal with the exponential
mechanism, by how wrong the model is about it, how much of the workload it bears on and how much noise counting it would
bring; counts it; and fits the graphical model to everything counted so far. Rounds are cheap at first. If a round has
taught the model less than its noise, the next ones get four times as much of the budget. The last takes what is left.

One privacy filter holds the budget of all rounds: how it is divided follows from the rounds themselves, and the filter
is charged in full (`accounting`).

Sources: McKenna, Mullins, Sheldon, Miklau (2022), "AIM: an adaptive and iterative mechanism for differentially private
synthetic data", arXiv:2201.12677.

Departures:
- Single columns are not measured first: the encoder has their distributions. They stay candidates.
- Numbers are cut into bins of even mass, as many as the noise allows (`AIM.rows_per_noise`); the paper's tables come
  cut.
- The noise expected of a count is at most what the model already expects in the cell (`noise_expected`): the estimator
  shrinks what is within the noise, so that many thin cells do no more harm than that.
- There are at least two rounds a column (`AIM.least_rounds`): the paper's fourfold steps may otherwise leave two or
  three for a table of ten columns. With one round a column and finer bins, R² on California is lower by 0.05.
- The score of a marginal is reduced by its expected sampling error (`marginals.expected_sampling_error`) and by a part
  of the noise (`NOISE_LEFT`). The paper subtracts all of the noise; pairs that matter then lose to single columns.
- The distance of the model from a marginal gives a cell more weight, the farther its values are from their columns'
  means (value weighting, `marginals.value_weights`), as far as the noise that this brings into the choice allows
  (`LARGEST_SELECTION_NOISE`). The paper weighs all rows alike, and so misses the few that hold most of a column's
  variance.
- Rounds start at 4 a column, not 16: a count that is drowned in noise is soon made again. California is the same
  either way, Cpu-act gains.
- A clique that joins unconnected parts of the graph may fill the model's limit at once; for others the limit grows with
  the budget used, as in the paper. A tree is the least that a model needs.
- With more than 16 columns, one model serves for several rounds (`COLUMNS_PER_CHOICE`), whose pairs share no column and
  close no loop through the same clique (`pair_candidates.OpenPairs`): wide tables need no more estimations than narrow
  ones.
- With `degree` 3, if there are very many candidates, each round sees a random sample of them (`MOST_CANDIDATES`). Pairs
  are all scored at once (`privacy.pair_selection`).
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import one_thread_each
from understudy.core.randomness import Key
from understudy.core.settings import Constraints, Number, Settings, Whole
from understudy.encoding.bins import Bins, bin_rows
from understudy.encoding.encoder import Encoder
from understudy.graphical.estimation import ESTIMATING, estimate
from understudy.graphical.marginals import (
    Clique,
    Domain,
    Measured,
    choose,
    cut,
    expected_sampling_error,
    from_encoder,
    measure,
    soften,
    value_weights,
    z_scores,
)
from understudy.graphical.markov import MarkovModel, MarkovNet
from understudy.graphical.pair_marginals import pair_marginals
from understudy.graphical.pooling import Pool
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.pair_selection import MOST_KEPT_BINS, PairErrors, PairSelection
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.clique_candidates import Candidates
from understudy.synthesizers.pair_candidates import OpenPairs, pair_sums, starts_of
from understudy.tables.schema import Schema

FittedAIM = MarkovNet
Floats = NDArray[np.float64]

# A number column has at most this many bins, however little noise there is: three such columns have 32768 cells.
MOST_BINS = 32
# One model serves for one choice in this many columns.
COLUMNS_PER_CHOICE = 16
# A model of one megabyte has this many cells.
CELLS_PER_MB = 2**20 / 8
# Beyond this many columns the cap on the model falls with the square of their number: every pair has less of the
# budget, so that wide cliques hold mostly noise. It stays above this many times the cells of a tree of pairs.
WIDE = 24
LOOPS_PER_TREE = 4.0
# Progress is told in parts of the budget, of which there are this many.
PROGRESS = 1000
# What a choice asks, for the receipt.
CHOICE = "which marginal the model has most wrong"
# The planned mechanism that all rounds share is called this.
ROUNDS = "rounds"
# Shrinkage leaves about this part of the noise of a count.
NOISE_LEFT = 0.25
# Value weighting may make the noise of a choice this part of the rows, and no larger.
LARGEST_SELECTION_NOISE = 0.1
# A round that taught the model less than its noise makes the next ones this much larger: half the noise, and a choice
# twice as sharp.
ANNEALING = 4.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class AIM(Settings):
    """Adaptive iterative marginals.

    Attributes:
        degree: Columns in the widest marginals of the workload, which is all of them: 2 or 3.
        encoding_share: Part of the budget for single columns.
        selection_share: Part of a round for its choice; the rest is for its count. 0.1 is the paper's.
        rounds_per_column: Rounds for each column if there were no annealing; the paper has 16.
        least_rounds: The fewest rounds for each column, whatever the annealing.
        max_model_mb: Cap on the graphical model, scaled by the part of the budget that is used. The paper has 80; this
            is smaller, to keep every step of the estimation short.
        rows_per_noise: How many rows a cell of a pair should hold, in deviations of the noise that `least_rounds`
            would have: more makes fewer, surer cells.
        shrinkage: How strongly the model stays at independent columns within the noise (`estimation.estimate`).
        iterations: The most steps of a round's estimation, which starts from the round before.
        last_iterations: The most steps of the last estimation.
    """

    degree: int = 2
    encoding_share: float = 0.35
    selection_share: float = 0.1
    rounds_per_column: float = 4.0
    least_rounds: float = 2.0
    max_model_mb: float = 4.0
    rows_per_noise: float = 3.0
    shrinkage: float = 0.3
    iterations: int = 5
    last_iterations: int = 100

    name: ClassVar[str] = "aim"
    constraints: ClassVar[Constraints] = {
        "degree": Whole(least=2, most=3),
        "encoding_share": Number(least=0.01, most=0.98),
        "selection_share": Number(least=0.01, most=0.98),
        "rounds_per_column": Number(above=0),
        "least_rounds": Number(above=0),
        "max_model_mb": Number(above=0),
        "rows_per_noise": Number(above=0),
        "shrinkage": Number(above=0),
        "iterations": Whole(),
        "last_iterations": Whole(),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds_per_column < self.least_rounds:
            fact = f"{self.rounds_per_column:g} < {self.least_rounds:g}"
            raise ValueError(f"AIM: expected rounds_per_column >= least_rounds, got {fact}.")

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        """One privacy filter for all rounds; nothing for a single column."""
        if len(schema) == 1:
            return []
        return [PlannedMechanism(name=ROUNDS, mechanism="privacy filter", share=1.0 - self.encoding_share)]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> MarkovNet:
        """Chooses, counts and estimates, round after round.

        Privacy:
            As of `measure`.
        """
        found = self.measure(rows, encoder, ledger=ledger, key=key)
        return found.model.to_bayesnet(found.bins)

    @one_thread_each()
    def measure(
        self,
        rows: PrivateRows,
        encoder: Encoder,
        *,
        ledger: Ledger,
        key: Key,
        part: float = 1.0,
        emphasis: Mapping[str, float] = MappingProxyType({}),
    ) -> "MeasuredModel":
        """The graphical model, and the marginals that it was made from.

        Args:
            part: Of the privacy filter, for all rounds.
            emphasis: How much more the errors of marginals with a column count when one is chosen; 1 for others.

        Privacy:
            Rows are read by `marginals.choose` and `marginals.measure`, under one privacy filter.
        """
        columns = len(encoder.schema)
        least = max(1.0, self.least_rounds * columns)
        sigma = ledger.noise(self.count_share(part / least), "discrete gaussian") if columns > 1 else 0.0
        fine = self.bins_allowed(encoder.rows, sigma * rows.max_rows_per_unit)
        bins = cut(encoder, most=round(min(fine, MOST_BINS)), least=0.25 / fine)
        state = _State(self, encoder, bins, from_encoder(encoder, bins, ledger=ledger))
        if columns == 1:
            return MeasuredModel(state.model, bins, state.measured)
        coded = bin_rows(rows, encoder, bins, key=key.child("codes"))
        at_once = self.degree == 2 and sum(state.domain.sizes.values()) <= MOST_KEPT_BINS
        rounds = (_PairRounds if at_once else _Rounds)(self, coded, state, ledger, emphasis)
        share, left, number = 1 / (self.rounds_per_column * columns), 1.0, 0
        while left > 0:
            share = min(share, 1 / least)
            share = share if left > 2 * share else left  # the last round takes what is left
            most = max(1, min(math.ceil(columns / COLUMNS_PER_CHOICE), int(left / share) - 1))
            counted, guesses = list[Measured](), list[Floats]()
            rounds.begin(part * share, used=min(1.0, 1 - left + share), key=key.child(f"round {number}"))
            while len(counted) < most and (found := rounds.choose(key.child(f"round {number}").child("choice"))):
                draw = key.child(f"round {number}").child("count")
                counted.append(self._measure(coded, found[0], state.domain, part * share, ledger, draw))
                guesses.append(found[1])
                number += 1
            left = left - share * len(counted) if left > share * len(counted) + 1e-12 else 0.0
            ledger.step(round(PROGRESS * (1 - left)) - 1, PROGRESS)  # the estimation is still to come
            if not left:
                ledger.phase(ESTIMATING)
            state.add(counted, guesses, last=not left)
            moved = sum(
                np.abs(state.model.marginal(each.clique) - guess).sum()
                for each, guess in zip(counted, guesses, strict=True)
            )
            if moved <= sum(noise_expected(g, each.sigma) for each, g in zip(counted, guesses, strict=True)):
                share *= ANNEALING
        ledger.step(PROGRESS, PROGRESS)
        return MeasuredModel(state.model, bins, state.measured)

    def count_share(self, share: float) -> FilterShare:
        """The part of the filter that a round of this share has for its count."""
        return FilterShare(ROUNDS, (1 - self.selection_share) * share)

    def _measure(
        self, coded: PrivateRows, clique: Clique, domain: Domain, share: float, ledger: Ledger, key: Key
    ) -> Measured:
        what = "count " + " with ".join(f"'{name}'" for name in clique)
        return measure(coded, clique, domain, planned=self.count_share(share), what=what, ledger=ledger, key=key)

    def bins_allowed(self, rows: float, noise: float) -> float:
        """Bins k of a number column so that a pair's k² cells of even mass hold `rows_per_noise` · noise rows each."""
        return max(2.0, math.sqrt(rows / max(self.rows_per_noise * noise, 1e-9)))


@dataclasses.dataclass(frozen=True, eq=False)
class MeasuredModel:
    """A graphical model, the bins of its columns, and the marginals that it was made from. Public."""

    model: MarkovModel
    bins: Mapping[str, Bins]
    measured: Sequence[Measured]


class _State:
    """What is known between rounds: the marginals measured so far and the model that fits them."""

    def __init__(self, method: AIM, encoder: Encoder, bins: Mapping[str, Bins], measured: list[Measured]):
        self.method, self.rows, self.domain, self.measured = method, encoder.rows, Domain.of(bins), measured
        self._pool = Pool(self.domain, measured)
        self.zscores = z_scores(encoder, bins)
        self._ordered = {name: len(b.edges) - 1 for name, b in bins.items() if encoder.columns[name].labels is None}
        self.model = self._estimate(None, {}, method.iterations, tolerance=1e-8)

    def add(self, counted: list[Measured], guesses: list[Floats], *, last: bool) -> None:
        """Takes in more marginals, and what the model said of them; the last estimation is the most exact."""
        self.measured += counted
        for each in counted:
            self._pool.add(each)
        iterations = self.method.last_iterations if last else self.method.iterations
        new = {each.clique: guess for each, guess in zip(counted, guesses, strict=True)}
        self.model = self._estimate(self.model, new, iterations, tolerance=1e-10 if last else 1e-8)

    def _estimate(
        self, start: MarkovModel | None, new: Mapping[Clique, Floats], iterations: int, *, tolerance: float
    ) -> MarkovModel:
        return estimate(
            self.domain,
            self._pool,
            rows=self.rows,
            iterations=iterations,
            start=start,
            new=new,
            shrinkage=self.method.shrinkage,
            ordered=self._ordered,
            tolerance=tolerance,
        )


class _Rounds:
    """Choices among marginals of any width, each worked out by itself; of very many candidates, among a sample."""

    def __init__(self, method: AIM, coded: PrivateRows, state: _State, ledger: Ledger, emphasis: Mapping[str, float]):
        self._method, self._coded, self._state, self._ledger = method, coded, state, ledger
        self._emphasis = emphasis
        self._choice, self._sigma, self._softened = FilterShare(ROUNDS, 1.0), 0.0, dict[str, Floats]()
        self._allowed: list[Clique] = []

    @functools.cached_property
    def _candidates(self) -> "Candidates":
        return Candidates.of(self._state.domain, self._method.degree, self._emphasis)

    def begin(self, share: float, *, used: float, key: Key) -> None:
        """Takes the model as it is now; the choices that follow have this share of the budget each."""
        self._weigh(share)
        draw = key.child("sample").numpy()
        self._allowed = self._candidates.allowed(self._state.measured, self._method.max_model_mb, used, draw)

    def choose(self, key: Key) -> tuple[Clique, Floats] | None:
        """The marginal that the model has (nearly) the most wrong, and what the model says of it; None: no more."""
        if not self._allowed:
            return None
        weights = [value_weights(self._softened, clique) for clique in self._allowed]
        guesses = [self._state.model.marginal(clique) for clique in self._allowed]
        penalties = [
            expected_sampling_error(guess, each) + NOISE_LEFT * noise_expected(guess, self._sigma, each)
            for guess, each in zip(guesses, weights, strict=True)
        ]
        chosen = choose(
            self._coded,
            self._allowed,
            guesses,
            penalties,
            self._state.domain,
            [self._candidates.weights[clique] for clique in self._allowed],
            planned=self._choice,
            what=CHOICE,
            ledger=self._ledger,
            key=key,
            weights=weights,
        )
        clique, self._allowed = self._allowed[chosen], []  # one choice for each model
        return clique, guesses[chosen]

    def _weigh(self, share: float) -> None:
        """How much the choices of a round cost, what noise its counts have, and the value weights of all bins."""
        method, state, rows_per_unit = self._method, self._state, self._coded.max_rows_per_unit
        self._choice = FilterShare(ROUNDS, method.selection_share * share)
        self._sigma = self._ledger.noise(method.count_share(share), "discrete gaussian") * rows_per_unit
        unweighted = self._ledger.noise(self._choice, "exponential") * rows_per_unit  # noise if all rows weigh the same
        most = LARGEST_SELECTION_NOISE * state.rows / unweighted
        self._softened = soften(state.zscores, min(method.degree, len(state.zscores)), most)


class _PairRounds(_Rounds):
    """Choices among all pairs and single columns at once."""

    def __init__(self, method: AIM, coded: PrivateRows, state: _State, ledger: Ledger, emphasis: Mapping[str, float]):
        super().__init__(method, coded, state, ledger, emphasis)
        names = state.domain.names
        self._selection = PairSelection(coded, names, state.domain.shape(names))
        self._starts = starts_of(state.domain)
        more = np.array([emphasis.get(name, 1.0) for name in names])
        self._factors = np.maximum(more[:, None], more)
        np.fill_diagonal(self._factors, 0.5)  # as in `Candidates`
        self._open: OpenPairs | None = None
        self._pairs, self._singles = np.zeros((0, 0)), np.zeros(0)

    def begin(self, share: float, *, used: float, key: Key) -> None:
        self._weigh(share)
        state, most = self._state, self._method.max_model_mb * CELLS_PER_MB
        held = {state.domain.ordered(each.clique) for each in state.measured}
        self._open = OpenPairs(state.model, held, most, used * self._most_cells(most))
        self._pairs, self._singles = pair_marginals(state.model)
        weights = np.concatenate([self._softened[name] for name in state.domain.names])
        penalties = pair_sums(self._pairs, self._penalty, weights, self._starts)
        np.fill_diagonal(penalties, np.add.reduceat(self._penalty(self._singles) * weights, self._starts))
        self._selection.compare(
            PairErrors(
                singles=self._singles,
                pairs=self._pairs,
                rows=state.rows,
                weights=weights,
                factors=self._factors,
                penalties=penalties,
            )
        )

    def choose(self, key: Key) -> tuple[Clique, Floats] | None:
        if self._open is None or not (opened := self._open.flags()).any():
            return None
        i, j = self._selection.choose(opened, what=CHOICE, planned=self._choice, ledger=self._ledger, key=key)
        self._open.take(i, j)
        names, sizes = self._state.domain.names, self._state.domain.sizes
        one = slice(self._starts[i], self._starts[i] + sizes[names[i]])
        other = slice(self._starts[j], self._starts[j] + sizes[names[j]])
        if i == j:
            return (names[i],), self._singles[one]
        return (names[i], names[j]), self._pairs[one, other]

    def _most_cells(self, most: float) -> float:
        """The cells that loops may fill: fewer in wide tables, but always a few times those of a tree."""
        sizes = np.array(list(self._state.domain.sizes.values()), np.float64)
        return min(most, max(most * (WIDE / len(sizes)) ** 2, LOOPS_PER_TREE * float(sizes @ sizes)))

    def _penalty(self, expected: Floats) -> Floats:
        """What a cell adds to the penalty: its sampling error and a part of its noise, as in `_Rounds.choose`."""
        expected = np.maximum(expected, 0.0)
        sampling = np.minimum(np.sqrt(expected * (2 / np.pi)), 2 * expected)
        return sampling + NOISE_LEFT * np.minimum(math.sqrt(2 / math.pi) * self._sigma, expected)


def noise_expected(estimate: Floats, sigma: float, weights: Floats | float = 1.0) -> float:
    """The L1 error that a count with this noise leaves: Σ min(√(2/π) σ, e), e the count that is expected in a cell.

    Each cell's error is weighted by `weights`, as in `marginals.choose`.
    """
    return float((weights * np.minimum(math.sqrt(2 / math.pi) * sigma, np.maximum(estimate, 0.0))).sum())
