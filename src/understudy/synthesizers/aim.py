"""AIM: marginals chosen and counted one after another, each where the model so far is the most wrong.

The start is a model of independent columns, from the encoder. Every round chooses a marginal with the exponential
mechanism, by how wrong the model is about it, how much of the workload it bears on and how much noise counting it would
bring; counts it; and fits the graphical model to everything counted so far. Rounds are cheap at first. Where one
has taught the model less than its noise, the next ones get four times as much of the budget. The last takes
what is left.

The budget of all rounds is one pot: how it is divided follows from the rounds themselves, and the pot is charged in
full (`accounting`).

Sources: McKenna, Mullins, Sheldon, Miklau (2022), "AIM: an adaptive and iterative mechanism for differentially private
synthetic data", arXiv:2201.12677.

Departures:
- Single columns are not bought first: the encoder has their distributions. They stay candidates.
- Numbers are cut into cells of even mass, as many as the noise allows (`AIM.rows_per_noise`); the paper's tables come
  cut.
- The noise that is expected of a count is at most what the model already expects in the cell (`noise_expected`): the
  estimator shrinks what is within the noise, so that many thin cells do no more harm than that.
- There are at least two rounds a column (`AIM.least_rounds`): the paper's fourfold steps may otherwise leave two or
  three for a table of ten columns. With one a column and finer cells, R² on California is lower by 0.05.
- The score of a marginal is less what chance alone would make of it (`marginals.expected_sampling_error`), and less a part of the
  noise (`NOISE_LEFT`), where the paper subtracts all of it. With the whole, pairs that matter lose to single columns.
- In the distance of the model from a marginal a cell counts the more, the farther its values are from their columns'
  means (`marginals.accent`), as far as the noise that this brings into the choice allows (`LOUDEST`). The paper takes
  all rows alike, and so misses the few that hold most of a column's variance.
- Rounds start at 4 a column, not 16: a count that is drowned in noise is soon made again. California is the same
  either way, Cpu-act gains.
- Cliques that join parts of the table that lie apart may fill the model's limit at once; for others it grows with the
  budget used, as in the paper. A tree is the least that a model needs.
- Of very many candidates each round sees a random sample (`MOST_CANDIDATES`), so that wide tables end.
"""

import dataclasses
import itertools
import math

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, bin_rows
from understudy.graphical.inference import Fitted, MarkovNet, estimate, megabytes, model_size
from understudy.graphical.marginals import (
    Clique,
    Domain,
    Measured,
    accent,
    choose,
    cut,
    deviations,
    expected_sampling_error,
    from_encoder,
    measure,
    soften,
)
from understudy.privacy.accounting import PlannedMechanism, checked_number, checked_positive, checked_whole
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.rows import PrivateRows
from understudy.tables.schema import Schema

FittedAIM = MarkovNet
Floats = NDArray[np.float64]

MOST_CELLS = 32  # of a number column, however little noise there is: three of them have 32768 cells
MOST_CANDIDATES = 300  # of one round: all pairs of 24 columns
POT = "rounds"
NOISE_LEFT = 0.25  # of the noise of a count, after shrinkage
LOUDEST = 0.1  # of the rows: accents may make the noise of a choice so large, and no larger
ANNEALING = 4.0  # half the noise, and a choice twice as sharp


@dataclasses.dataclass(frozen=True, kw_only=True)
class AIM:
    """Adaptive iterative marginals.

    Attributes:
        degree: Columns in the widest marginals of the workload, which is all of them: 2 or 3.
        encoding_share: Part of the budget for single columns.
        selection_share: Part of a round for its choice; the rest is for its count. 0.1 is the paper's.
        rounds_per_column: Rounds there would be without annealing, for each column; the paper has 16.
        least_rounds: For each column, rounds that there are at least, whatever the annealing.
        max_model_mb: Size of the graphical model at most, scaled by the part of the budget that is used. The paper has
            80; this is smaller, to keep every step of the estimation short.
        rows_per_noise: How many rows a cell of a pair should hold, in deviations of the noise that `least_rounds`
            would have: more makes fewer, surer cells.
        shrinkage: How strongly the model stays at independent columns within the noise; as of `pgm.estimate`.
        iterations: Steps of a round's estimation at most; it starts where the round before ended.
        last_iterations: Steps of the last estimation at most.
    """

    degree: int = 2
    encoding_share: float = 0.35
    selection_share: float = 0.1
    rounds_per_column: float = 4.0
    least_rounds: float = 2.0
    max_model_mb: float = 4.0
    rows_per_noise: float = 3.0
    shrinkage: float = 0.3
    iterations: int = 20
    last_iterations: int = 200

    name = "aim"

    def __post_init__(self):
        if self.degree not in (2, 3):
            raise ValueError(f"AIM.degree: expected 2 or 3, got {self.degree}.")
        for field in ("encoding_share", "selection_share"):
            checked_number(f"AIM.{field}", getattr(self, field), "0.01 to 0.98", lambda x: 0.01 <= x <= 0.98)
        for field in ("max_model_mb", "rows_per_noise", "shrinkage", "rounds_per_column", "least_rounds"):
            checked_positive(f"AIM.{field}", getattr(self, field))
        if self.rounds_per_column < self.least_rounds:
            fact = f"{self.rounds_per_column:g} < {self.least_rounds:g}"
            raise ValueError(f"AIM: expected rounds_per_column >= least_rounds, got {fact}.")
        for field in ("iterations", "last_iterations"):
            checked_whole(f"AIM.{field}", getattr(self, field))

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        if len(schema) == 1:
            return []
        return [PlannedMechanism(name=POT, mechanism="adaptive", share=1.0 - self.encoding_share)]

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> MarkovNet:
        columns = len(encoder.schema)
        least = max(1.0, self.least_rounds * columns)
        sigma = ledger.noise(self._count(1 / least), "discrete gaussian") if columns > 1 else 0.0
        fine = self.cells_allowed(encoder.rows, sigma * rows.max_rows_per_unit)
        cells = cut(encoder, most=round(min(fine, MOST_CELLS)), least=0.25 / fine)
        in_a_row = {name: len(c.edges) - 1 for name, c in cells.items() if encoder.maps[name].labels is None}
        domain = Domain.of(cells)

        def fitted(iterations: int, start: Fitted | None, tolerance: float) -> Fitted:
            return estimate(
                domain,
                measured,
                rows=encoder.rows,
                iterations=iterations,
                start=start,
                shrinkage=self.shrinkage,
                ordered=in_a_row,
                tolerance=tolerance,
            )

        measured = from_encoder(encoder, cells, ledger=ledger)
        model = fitted(self.iterations, None, 1e-8)
        if columns == 1:
            return model.to_bayesnet(cells)
        coded = bin_rows(rows, encoder, cells, key=key.child("codes"))
        candidates = Candidates.of(domain, self.degree)
        far = deviations(encoder, cells)
        share, left, number = 1 / (self.rounds_per_column * columns), 1.0, 0
        while left > 0:
            share = min(share, 1 / least)
            share = share if left > 2 * share else left  # the last round takes what is left
            draw = key.child(f"round {number}")
            used = min(1.0, 1 - left + share)
            allowed = candidates.allowed(measured, self.max_model_mb, used, draw.child("sample").numpy())
            sigma = ledger.noise(self._count(share), "discrete gaussian") * rows.max_rows_per_unit
            choice = FilterShare(POT, self.selection_share * share)
            quiet = ledger.noise(choice, "exponential") * rows.max_rows_per_unit  # of scores that take all rows alike
            soft = soften(far, min(self.degree, columns), LOUDEST * encoder.rows / quiet)
            accents = [accent(soft, clique) for clique in allowed]
            guesses = [model.marginal(clique) for clique in allowed]
            chosen = choose(
                coded,
                allowed,
                guesses,
                [
                    expected_sampling_error(guess, each) + NOISE_LEFT * noise_expected(guess, sigma, each)
                    for guess, each in zip(guesses, accents, strict=True)
                ],
                domain,
                [candidates.weights[clique] for clique in allowed],
                planned=choice,
                what="which marginal the model has most wrong",
                ledger=ledger,
                key=draw.child("choice"),
                accents=accents,
            )
            clique = allowed[chosen]
            what = "count " + " with ".join(f"'{name}'" for name in clique)
            planned = self._count(share)
            measured.append(
                measure(coded, clique, domain, planned=planned, what=what, ledger=ledger, key=draw.child("count"))
            )
            left = left - share if left > share else 0.0
            model = fitted(self.iterations if left else self.last_iterations, model, 1e-8 if left else 1e-10)
            moved = np.abs(model.marginal(clique) - guesses[chosen]).sum()
            if moved <= noise_expected(guesses[chosen], sigma):
                share *= ANNEALING
            number += 1
        return model.to_bayesnet(cells)

    def _count(self, share: float) -> FilterShare:
        """What a round of this share has for its count."""
        return FilterShare(POT, (1 - self.selection_share) * share)

    def cells_allowed(self, rows: float, noise: float) -> float:
        """Bins k of a number column so that a pair's k² cells of even mass hold `rows_per_noise` · noise rows each."""
        return max(2.0, math.sqrt(rows / max(self.rows_per_noise * noise, 1e-9)))


def noise_expected(estimate: Floats, sigma: float, accents: Floats | float = 1.0) -> float:
    """The L1 error that a count with this noise leaves: Σ min(√(2/π) σ, e), e the count that is expected in a cell.

    Weighted by `accents`, as in `marginals.choose`.
    """
    return float((accents * np.minimum(math.sqrt(2 / math.pi) * sigma, np.maximum(estimate, 0.0))).sum())


@dataclasses.dataclass(frozen=True)
class Candidates:
    """What may be counted: every marginal of the workload, and what lies below it.

    Attributes:
        domain: The columns.
        weights: Of each clique r, Σ |r ∩ s| over the workload's s, over the largest: how much of it r bears on.
    """

    domain: Domain
    weights: dict[Clique, float]

    @classmethod
    def of(cls, domain: Domain, degree: int) -> "Candidates":
        """Cliques of up to `degree` columns. Each column is in equally many of the workload, so |r| is the weight."""
        widest = min(degree, len(domain.names))
        cliques = [clique for width in range(1, widest + 1) for clique in itertools.combinations(domain.names, width)]
        return cls(domain, {clique: len(clique) / widest for clique in cliques})

    def allowed(self, measured: list[Measured], max_mb: float, used: float, draw: np.random.Generator) -> list[Clique]:
        """Those with which the model stays small enough; of very many, of a random sample of them.

        Args:
            max_mb: For cliques that join parts of the table that lie apart, as the edges of a tree do.
            used: The part of it that others may fill by now: as much as is used of the budget.
        """
        cliques = list(self.weights)
        if len(cliques) > MOST_CANDIDATES:
            cliques = [cliques[i] for i in np.sort(draw.choice(len(cliques), MOST_CANDIDATES, replace=False))]
        held = {self.domain.ordered(each.clique) for each in measured}
        part = _parts(self.domain, held)
        now = model_size(self.domain, held)

        def fits(clique: Clique) -> bool:
            if clique in held:
                return True
            if len({part[name] for name in clique}) == len(clique):  # no new cliques but itself
                return megabytes(now + self.domain.size(clique)) <= max_mb
            return megabytes(model_size(self.domain, [*held, clique])) <= max_mb * used

        return [clique for clique in cliques if fits(clique)] or [(self.domain.names[0],)]


def _parts(domain: Domain, cliques: set[Clique]) -> dict[str, int]:
    """For every column, which connected part of the cliques' graph it is in."""
    part = {name: i for i, name in enumerate(domain.names)}
    for clique in cliques:
        joined = {part[name] for name in clique}
        if len(joined) > 1:
            part = {name: min(joined) if each in joined else each for name, each in part.items()}
    return part
