"""GEM: a generator network fitted to noisy marginals of pairs, each selected because the generator is wrong about it.

Every round selects privately the pair of columns whose counts the generator misses most, measures these counts with
noise, and fits the generator to everything measured so far. The fitted generator is a mixture of products over bins.

Sources: Liu, Vietri, Wu (2021), "Iterative Methods for Private Synthetic Data: Unifying Framework and New Methods",
arXiv:2106.07153; McKenna, Mullins, Sheldon, Miklau (2022), arXiv:2201.12677, for the penalty of a score.

Departures:
- How many bins a number gets follows the noise, and if the noise leaves hardly anything, so does how many rounds there
  are below the usual five a column (`GEM.layout`). So rounds draw on one privacy filter, and their number is not
  planned beforehand. It is at most 100, which bounds the time of a wide table.
- A selection gets a tenth of a round instead of half of it: scores are sums over a whole table of counts, far above
  their noise, while every cell that is measured carries its own.
- The error that noise alone would leave is subtracted from a score, as in AIM: else large tables win for their size.
- Scores use value weighting (`marginals.value_weights`): a cell weighs the more, the farther its values are from the
  means, since a few rows far out can be most of what one column says about another.
- The columns' own marginals are part of the loss from the start (the encoder has released them), and the generator
  starts from them.
- Each round takes a fixed number of steps instead of stopping when the loss is below a limit; a longer fit, whose rate
  falls to zero, follows the last round. What is kept is the average over its last steps; the paper averages over
  rounds.
- The network is small, with one residual block and no batch normalisation: twice the width was no better on
  California at ε = 1, and this one is fast without an accelerator.
- Rare neighbouring categories share a bin, inside which the encoder's shares decide.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.core.settings import Constraints, Each, Number, Settings, Whole
from understudy.encoding.bins import bin_rows
from understudy.encoding.encoder import Encoder
from understudy.graphical.marginals import value_weights, z_scores
from understudy.privacy.counts import noisy_counts
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.plan import PlannedMechanism
from understudy.privacy.rows import PrivateRows
from understudy.privacy.selection import MarginalError, select_marginal
from understudy.synthesizers.gem.fitted import FittedGEM
from understudy.synthesizers.gem.measured import MeasuredPairs, bins_for
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]

FILTER = "rounds"
"""The name of the privacy filter that all rounds draw on."""
MOST_ROUNDS = 100
"""Bounds the time that a wide table takes."""
MOST_BINS = 300
"""All columns together have about this many bins, since a fit takes its square. Three each are always allowed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GEM(Settings):
    """Generative networks with the exponential mechanism.

    Attributes:
        encoding_share: Part of the budget for the columns' own distributions.
        choice_share: Part of the rest for selecting pairs; what remains counts them.
        rounds_per_column: Rounds are at most this many times the columns (and at most 100), and at least one each.
        cell_noise: The noise of a cell of a pair, as a part of its mean count, that a number's bins are chosen for.
        atom_noise: A repeated value or a category has a bin of its own if its count is this many times the noise.
        coarsest: Bins that a number has before there is more than one round a column.
        cell_range: Least and most bins of a number.
        components: Noise vectors in the fixed batch, and so products in the mixture.
        width: Units in each layer of the generator.
        inputs: Length of a noise vector.
        steps: Steps of Adam in each round.
        last_steps: Steps after the last round.
        rate: Adam's step size.
    """

    encoding_share: float = 0.4
    choice_share: float = 0.1
    rounds_per_column: int = 5
    cell_noise: float = 0.6
    atom_noise: float = 2.0
    coarsest: int = 5
    cell_range: tuple[int, int] = (3, 32)
    components: int = 1024
    width: int = 64
    inputs: int = 32
    steps: int = 30
    last_steps: int = 400
    rate: float = 0.005

    name: ClassVar[str] = "gem"
    constraints: ClassVar[Constraints] = {
        "encoding_share": Number(least=0.01, most=0.99),
        "choice_share": Number(least=0.01, most=0.99),
        "rounds_per_column": Whole(least=1),
        "cell_noise": Number(above=0),
        "atom_noise": Number(above=0),
        "coarsest": Whole(least=1),
        "cell_range": Each(Whole(least=2)),
        "components": Whole(least=1),
        "width": Whole(least=1),
        "inputs": Whole(least=1),
        "steps": Whole(least=1),
        "last_steps": Whole(least=1),
        "rate": Number(above=0),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.cell_range) != 2 or self.cell_range[0] > self.cell_range[1]:
            raise ValueError(f"GEM.cell_range: expected two whole numbers, least <= most, got {self.cell_range}.")

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        return [PlannedMechanism(name=FILTER, mechanism="privacy filter", share=1.0 - self.encoding_share)]

    def layout(self, columns: int, signal: float) -> tuple[int, int]:
        """How many rounds there are, and how many bins a number gets.

        Let s = `signal` be the rows over the noise of a single count that takes the whole filter. T rounds leave a cell
        of m × m a noise of √T m² / s of its mean count. T is as large as keeps that at `cell_noise` for
        m = `coarsest`, within a round and `rounds_per_column` rounds a column; m then follows from T.
        """
        most = max(1, min(MOST_ROUNDS, self.rounds_per_column * columns))
        affordable = self.cell_noise * signal
        rounds = int(np.clip((affordable / self.coarsest**2) ** 2, min(columns, most), most))
        return rounds, int(np.clip(np.sqrt(affordable / np.sqrt(rounds)), self.cell_range[0], self.most_bins(columns)))

    def most_bins(self, columns: int) -> int:
        """The most bins of one column, so that all columns together are fitted in a minute."""
        return max(self.cell_range[0], min(self.cell_range[1], MOST_BINS // columns))

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> FittedGEM:
        """Selects and measures pairs, round after round, and fits the generator to them.

        Privacy:
            Rows are read by `select_marginal` and by `noisy_counts`.
        """
        columns, most_rows = len(encoder.schema), rows.max_rows_per_unit
        counting = 1.0 if columns == 1 else 1.0 - self.choice_share
        whole = ledger.noise(FilterShare(FILTER, counting), "discrete gaussian") * most_rows
        rounds, finest = self.layout(columns, encoder.rows / whole)
        rounds = 1 if columns == 1 else rounds
        sigma = whole * math.sqrt(rounds)
        bins = bins_for(encoder, finest, most=self.most_bins(columns), least=self.atom_noise * sigma / encoder.rows)
        measured = MeasuredPairs(encoder, bins, ledger=ledger, max_rows_per_unit=most_rows)
        z = z_scores(encoder, bins)
        weights = [value_weights(z, (measured.names[a], measured.names[b])) for a, b in measured.pairs]
        coded = bin_rows(rows, encoder, bins, key=key.child("codes"))
        training = Training(self, measured, key.child("generator"))
        for turn in range(rounds):
            now = key.child(f"round {turn}")
            clique: tuple[int, ...] = (0,)
            if columns > 1:
                selected = select_marginal(
                    coded,
                    pair_errors(measured, training.mixture(), weights, sigma),
                    what="which pair of columns is farthest off",
                    planned=FilterShare(FILTER, self.choice_share / rounds),
                    ledger=ledger,
                    key=now.child("choice"),
                )
                clique = measured.pairs[selected]
            names = [measured.names[c] for c in clique]
            counts = noisy_counts(
                coded,
                names,
                [measured.sizes[c] for c in clique],
                what=f"count {' and '.join(map(repr, names))} together" if columns > 1 else f"count {names[0]!r}",
                planned=FilterShare(FILTER, counting / rounds),
                ledger=ledger,
                key=now.child("counts"),
            )
            measured.add(clique, counts, sigma)
            training.go(self.steps, last=False)
            ledger.step((turn + 1) * self.steps, rounds * self.steps + self.last_steps)
        ledger.phase("fit the generator to all counts")
        training.go(self.last_steps, last=True)
        shares = training.mixture()
        ledger.step(rounds * self.steps + self.last_steps, rounds * self.steps + self.last_steps)
        kept = {name: shares[:, at].copy() for name, at in zip(measured.names, measured.at, strict=True)}
        return FittedGEM(bins, kept)


def pair_errors(
    measured: MeasuredPairs, mixture: Floats, weights: Sequence[Floats], sigma: float
) -> list[MarginalError]:
    """How wrong the generator is about every pair, beyond the error that noise alone would leave.

    score = Σ_ij a_ij (|exact count_ij - expected_ij| - σ √(2/π))
    """
    return [
        MarginalError(
            columns=(measured.names[a], measured.names[b]),
            estimate=expected,
            weights=each,
            penalty=sigma * math.sqrt(2 / math.pi) * float(each.sum()),
        )
        for (a, b), expected, each in zip(measured.pairs, measured.expected(mixture), weights, strict=True)
    ]


class Training:
    """The generator between rounds."""

    def __init__(self, settings: GEM, measured: MeasuredPairs, key: Key):
        from understudy.core.compilation import keep_compiled
        from understudy.synthesizers.gem import generator

        keep_compiled()
        self.generator, self.measured, self.rate = generator, measured, settings.rate
        self.state = generator.start(
            key.jax(),
            measured.shares,
            components=settings.components,
            width=settings.width,
            inputs=settings.inputs,
        )

    def go(self, steps: int, *, last: bool) -> None:
        self.state = self.generator.fit(self.state, self.measured.arrays(), steps, self.rate, last)

    def mixture(self) -> Floats:
        """The share of every bin in every component.  # (components, bins)"""
        return np.asarray(self.generator.mixture(self.state, self.measured.whose), np.float64)
