"""GEM: a generator network fitted to noisy marginals of pairs, each chosen because the generator is wrong about it.

Round after round: choose privately the pair of columns whose counts the generator misses most, buy these counts with
noise, fit the generator to all that was bought. What is left is a mixture of products over cells.

Sources: Liu, Vietri, Wu (2021), "Iterative Methods for Private Synthetic Data: Unifying Framework and New Methods",
arXiv:2106.07153; McKenna, Mullins, Sheldon, Miklau (2022), arXiv:2201.12677, for what noise takes off a score.

Departures:
- How many cells a number gets, and, where the noise leaves hardly anything, how many rounds there are below the usual
  five a column, follow the noise (`GEM.layout`). So rounds are parts of one pot rather than purchases of a size known
  beforehand. No more than 100 rounds, which bounds the time of a wide table.
- A choice gets a tenth of a round instead of half of it: scores are sums over a whole table of counts, far above
  their noise, while every cell that is bought carries its own.
- From a score the error that noise alone would leave is taken off, as in AIM: else large tables win for their size.
- In a score a cell counts the more, the farther its values are from the means (`marginals.accent`): a few rows far out
  can be most of what one column says of another.
- The columns' own marginals are part of the loss from the start (the encoder has bought them), and the generator starts
  from them.
- A fixed number of steps each round, not until the loss is below a limit; after the last round a longer fit
  whose rate falls to nothing. What is kept is the average over its last steps, where the paper averages over rounds.
- The network is small, with one residual block and no batch normalisation: twice the width was no better on
  California at ε = 1, and this one is fast without an accelerator.
- Rare categories next to each other share a cell, inside which the encoder's shares decide.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import ROUNDS, Bins, Encoder, bin_rows, make_bins
from understudy.graphical.marginals import accent, deviations
from understudy.privacy.accounting import PlannedMechanism, checked_number, checked_whole
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.mechanisms import noisy_counts, private_choice
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.gem.fitted import FittedGEM
from understudy.tables.schema import Schema

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Pair = tuple[int, int]

POT = "rounds"
MOST_ROUNDS = 100
MOST_CELLS = 300  # of all columns together, about; three for each are always allowed. A fit takes its square
TOLERANCE = 0.3  # in rows: noise below this is not worth weighing, nor is the loss of rounding to float32


@dataclasses.dataclass(frozen=True, kw_only=True)
class GEM:
    """Generative networks with the exponential mechanism.

    Attributes:
        encoding_share: Part of the budget for the columns' own distributions.
        choice_share: Part of the rest for choosing pairs; what remains counts them.
        rounds_per_column: Rounds are at most this many times the columns (and at most 100), and at least one each.
        cell_noise: The noise of a cell of a pair, as a part of its mean count, that a number's cells are chosen for.
        atom_noise: A repeated value or a category has a cell of its own if its count is this many times the noise.
        coarsest: Bins that a number has before there is more than one round a column.
        cell_range: Least and most cells of a number.
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

    name = "gem"

    def __post_init__(self):
        for field in ("encoding_share", "choice_share"):
            value = getattr(self, field)
            checked_number(f"GEM.{field}", value, "a number from 0.01 to 0.99", lambda x: 0.01 <= x <= 0.99)
        for field in ("cell_noise", "atom_noise", "rate"):
            value = getattr(self, field)
            checked_number(f"GEM.{field}", value, "a finite number > 0", lambda x: 0 < x < math.inf)
        for field in ("rounds_per_column", "coarsest", "components", "width", "inputs", "steps", "last_steps"):
            checked_whole(f"GEM.{field}", getattr(self, field))
        if len(self.cell_range) != 2 or not 2 <= self.cell_range[0] <= self.cell_range[1]:
            raise ValueError(f"GEM.cell_range: expected two whole numbers 2 <= least <= most, got {self.cell_range}.")

    def plan(self, schema: Schema) -> list[PlannedMechanism]:
        return [PlannedMechanism(name=POT, mechanism="adaptive", share=1.0 - self.encoding_share)]

    def layout(self, columns: int, signal: float) -> tuple[int, int]:
        """How many rounds, and how many cells a number gets.

        With s = `signal` the rows over the noise that a single count for all the money would have, T rounds leave a
        cell of m × m a noise of √T m² / s of its mean count. T is as large as keeps that at `cell_noise` for
        m = `coarsest`, within a round and `rounds_per_column` rounds a column; m then follows from T.
        """
        most = max(1, min(MOST_ROUNDS, self.rounds_per_column * columns))
        affordable = self.cell_noise * signal
        rounds = int(np.clip((affordable / self.coarsest**2) ** 2, min(columns, most), most))
        return rounds, int(np.clip(np.sqrt(affordable / np.sqrt(rounds)), self.cell_range[0], self.most_cells(columns)))

    def most_cells(self, columns: int) -> int:
        """Of one column: so many that all columns together stay small enough to be fitted in a minute."""
        return max(self.cell_range[0], min(self.cell_range[1], MOST_CELLS // columns))

    def fit(self, rows: PrivateRows, encoder: Encoder, *, ledger: Ledger, key: Key) -> FittedGEM:
        columns, most_rows = len(encoder.schema), rows.max_rows_per_unit
        money = 1.0 if columns == 1 else 1.0 - self.choice_share
        whole = ledger.noise(FilterShare(POT, money), "discrete gaussian") * most_rows
        rounds, finest = self.layout(columns, encoder.rows / whole)
        rounds = 1 if columns == 1 else rounds
        sigma = whole * math.sqrt(rounds)
        cut = cut_for(encoder, finest, most=self.most_cells(columns), least=self.atom_noise * sigma / encoder.rows)
        measured = Measured(encoder, cut, ledger=ledger, most_rows=most_rows)
        far = deviations(encoder, cut)
        accents = [accent(far, (measured.names[a], measured.names[b])) for a, b in measured.pairs]
        coded = bin_rows(rows, encoder, cut, key=key.child("codes"))
        training = Training(self, measured, key.child("generator"))
        for turn in range(rounds):
            now = key.child(f"round {turn}")
            pair = (
                (0,) if columns == 1 else self._choose(coded, measured, accents, training, sigma, rounds, ledger, now)
            )
            names = [measured.names[c] for c in pair]
            counts = noisy_counts(
                coded,
                names,
                [measured.sizes[c] for c in pair],
                what=f"count {' and '.join(map(repr, names))} together" if columns > 1 else f"count {names[0]!r}",
                planned=FilterShare(POT, money / rounds),
                ledger=ledger,
                key=now.child("counts"),
            )
            measured.add(pair, counts, sigma)
            training.go(self.steps, last=False)
        training.go(self.last_steps, last=True)
        shares = training.mixture()
        kept = {name: shares[:, at].copy() for name, at in zip(measured.names, measured.at, strict=True)}
        return FittedGEM(cut, kept)

    def _choose(
        self,
        coded: PrivateRows,
        measured: "Measured",
        accents: Sequence[Floats],
        training: "Training",
        sigma: float,
        rounds: int,
        ledger: Ledger,
        key: Key,
    ) -> Pair:
        """The pair of columns that the generator is most wrong about, nearly."""
        chosen = private_choice(
            coded,
            measured.names,
            functools.partial(
                errors,
                pairs=measured.pairs,
                expected=measured.expected(training.mixture()),
                accents=accents,
                sigma=sigma,
            ),
            sensitivity=max(*(float(each.max()) for each in accents), 1e-300),
            what="which pair of columns is farthest off",
            planned=FilterShare(POT, self.choice_share / rounds),
            ledger=ledger,
            key=key.child("choice"),
        )
        return measured.pairs[chosen]


def errors(
    *exact_columns: Codes, pairs: Sequence[Pair], expected: Sequence[Floats], accents: Sequence[Floats], sigma: float
) -> Floats:
    """The score of every pair: how far its counts are from what is expected, beyond what noise alone would leave.

        score = Σ_ij a_ij (|exact count_ij - expected_ij| - σ √(2/π))

    Privacy:
        Of sensitivity max a_ij to one row, whichever is added or removed. Expected counts, accents a >= 0, σ and
        the cells are public, and stay as they are. A row is in one cell of each pair and changes its count by one, so
        one term of the sum changes, by at most its accent: ||x ± 1 - e| - |x - e|| <= 1. To be called by a hatch alone.
    """
    scores = np.empty(len(pairs))
    for k, ((a, b), counts, weights) in enumerate(zip(pairs, expected, accents, strict=True)):
        flat = exact_columns[a] * counts.shape[1] + exact_columns[b]
        exact_counts = np.bincount(flat, minlength=counts.size).reshape(counts.shape)
        scores[k] = np.sum(weights * (np.abs(exact_counts - counts) - sigma * math.sqrt(2 / math.pi)))
    return scores


# Bins --------------------------------------------------------------------------------------------------------------


def cut_for(encoder: Encoder, finest: int, *, most: int, least: float) -> dict[str, Bins]:
    """Bins of like values for numbers, but with a cell of its own for a value that is repeated often enough; and one
    for every category that is, those between two of them together.

    Args:
        finest: About how many cells a number gets.
        most: How many values of a column may have a cell of their own.
        least: The share that a value needs for it.
    """
    found = {}
    for name, even in make_bins(encoder, finest).items():
        if encoder.maps[name].labels is not None:
            ends = _category_ends(even.edges, most, least)
        else:
            ends = _with_atoms(even.edges, *encoder.maps[name].distribution.atoms(), most=finest // 2, least=least)
        found[name] = Bins(ends, even.nullable)
    return found


def _category_ends(ends: Floats, most: int, least: float) -> Floats:
    shares = np.diff(ends)
    common = np.zeros(len(shares), bool)
    common[np.argsort(-shares, kind="stable")[:most]] = True
    common &= (shares >= least) & (shares > 0)
    keep = np.r_[True, common[1:] | common[:-1], True]  # an end stays unless it has rare categories on both sides
    kept = np.unique(ends[keep])
    return kept if len(kept) > 1 else np.array([0.0, 1.0])


def _with_atoms(ends: Floats, below: Floats, above: Floats, *, most: int, least: float) -> Floats:
    """The ends of cells, and those of the commonest repeated values."""
    shares = above - below
    common = np.argsort(-shares, kind="stable")[:most]
    common = common[shares[common] >= max(least, 1e-6)]
    inside = np.any((ends[:, None] > below[common]) & (ends[:, None] < above[common]), axis=1)
    every = np.unique(np.concatenate([ends[~inside], below[common], above[common]]))
    return every[np.r_[True, np.diff(every) > 1e-9]]


def first_shares(encoder: Encoder, cut: Mapping[str, Bins]) -> list[Floats]:
    """The share of every cell, as the encoder bought it."""
    found = []
    for name, one in cut.items():
        missing = encoder.maps[name].missing if one.nullable else 0.0
        shares = np.diff(one.edges) * (1.0 - missing)
        found.append(np.append(shares, missing) if one.nullable else shares)
    return found


# What was bought ----------------------------------------------------------------------------------------------------


class Measured:
    """Noisy marginals so far, as shares, all cells of all columns in one list.

    Counts of a pair that is bought again are averaged with the earlier ones, by their precision.
    """

    def __init__(self, encoder: Encoder, cut: Mapping[str, Bins], *, ledger: Ledger, most_rows: int):
        self.names = list(cut)
        self.rows = max(encoder.rows, 1.0)
        self.sizes = [one.size for one in cut.values()]
        self.pairs = list(itertools.combinations(range(len(cut)), 2))
        ends = np.cumsum([0, *self.sizes])
        self.at = [slice(a, b) for a, b in itertools.pairwise(ends)]
        self.whose = np.repeat(np.eye(len(cut), dtype=np.float32), self.sizes, axis=0)  # (cells, columns)
        self.shares = np.concatenate(first_shares(encoder, cut))
        known = [1 / _bought_variance(encoder, name, ledger, most_rows) for name in self.names]
        self.precision = np.repeat(known, self.sizes)
        self.pair_shares = np.zeros((ends[-1], ends[-1]))
        self.pair_precision = np.zeros((ends[-1], ends[-1]))

    def add(self, clique: Sequence[int], counts: Floats, sigma: float) -> None:
        """Enters the noisy counts of a pair, or of the only column."""
        precision = (self.rows / max(sigma, TOLERANCE)) ** 2
        at = tuple(self.at[c] for c in clique)
        known, total = (self.shares, self.precision) if len(clique) == 1 else (self.pair_shares, self.pair_precision)
        before = total[at]
        known[at] = (before * known[at] + precision * counts / self.rows) / (before + precision)
        total[at] = before + precision

    def expected(self, mixture: Floats) -> list[Floats]:
        """The counts of every pair in a table of as many rows that is drawn from the mixture."""
        joint = mixture.T @ mixture * (self.rows / len(mixture))
        return [joint[self.at[a], self.at[b]] for a, b in self.pairs]

    def arrays(self) -> dict[str, Floats]:
        """What the loss takes. Weights are precisions, as parts of the largest."""
        largest = max(self.precision.max(), self.pair_precision.max())
        arrays = {
            "whose": self.whose,
            "shares": self.shares,
            "share_weights": self.precision / largest,
            "pairs": self.pair_shares,
            "pair_weights": self.pair_precision / largest,
        }
        return {name: array.astype(np.float32) for name, array in arrays.items()}


def _bought_variance(encoder: Encoder, name: str, ledger: Ledger, most_rows: int) -> float:
    """Of the share of one of a column's cells, as the encoder knows it: that of its last counts."""
    items = [*ROUNDS] if encoder.maps[name].labels is None else ["count", "count selected"]
    planned = {item.name for item in ledger.plan}
    precision = sum((ledger.noise(item) * most_rows) ** -2 for item in items if item in planned)
    sigma = max(precision**-0.5, TOLERANCE) if precision else TOLERANCE
    return float((sigma / max(encoder.rows, 1.0)) ** 2)


class Training:
    """The generator between rounds."""

    def __init__(self, settings: GEM, measured: Measured, key: Key):
        from understudy.privacy.gradients import keep_compiled
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
        """The share of every cell in every component.  # (components, cells)"""
        return np.asarray(self.generator.mixture(self.state, self.measured.whose), np.float64)
