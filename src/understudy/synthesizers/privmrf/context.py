"""The context of a fit: locked codes, public bins and the ledger; and the model that is estimated along the way."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.bins import Bins, bin_rows
from understudy.encoding.encoder import Encoder
from understudy.graphical.estimation import estimate
from understudy.graphical.junction_tree import model_size
from understudy.graphical.marginals import (
    Clique,
    Domain,
    Measured,
    expected_sampling_error,
    measure,
    product,
    soften,
    value_weights,
    z_scores,
)
from understudy.graphical.markov import MarkovModel
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.rows import PrivateRows
from understudy.privacy.selection import MarginalError
from understudy.synthesizers.privmrf.blocks import Blocks, even_sizes, in_blocks

Floats = NDArray[np.float64]

FILTER = "marginals"
"""The name of the privacy filter that selections and counts draw on."""
LARGEST_SELECTION_NOISE = 0.15
"""Value weighting may raise the noise of a score to this part of the rows, and no further."""
MOST_PAIR_BLOCKS = 8
"""The score of a pair sees each column in at most this many blocks: dependence in finer bins is mostly sampling."""
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
"""E|z| of a standard normal z."""


class FitContext:
    """What a fit works on.

    Attributes:
        domain: The columns and their bins.
        z: |z| of every column's bins, as in `marginals.z_scores`.
        coded: Locked codes of the bins.
        useful_cells: The most cells of a useful marginal.
    """

    def __init__(
        self,
        rows: PrivateRows,
        encoder: Encoder,
        bins: Mapping[str, Bins],
        useful_cells: float,
        ledger: Ledger,
        key: Key,
    ):
        self.encoder, self.bins, self.useful_cells = encoder, bins, useful_cells
        self.ledger, self.key = ledger, key
        self.max_rows_per_unit = rows.max_rows_per_unit
        self.domain = Domain.of(bins)
        self.z = z_scores(encoder, bins)
        self.coded = bin_rows(rows, encoder, bins, key=key.child("codes"))
        self._blocks: dict[tuple[str, int], Blocks] = {}

    def sigma(self, share: float) -> float:
        """The noise of a marginal that is measured with this share of the filter."""
        return self.ledger.noise(FilterShare(FILTER, share), "discrete gaussian") * self.max_rows_per_unit

    def blocks(self, name: str, size: int) -> Blocks:
        """A column in at most `size` blocks. Made once, so that mechanisms group its codes once."""
        if (name, size) not in self._blocks:
            self._blocks[name, size] = Blocks.of(self.bins[name], size, self.z[name])
        return self._blocks[name, size]

    def softened(self, width: int, unweighted_noise: float) -> dict[str, Floats]:
        """Z-scores as large as value weighting may make them, given the noise of scores that treat all rows alike."""
        noise = unweighted_noise * self.max_rows_per_unit
        return soften(self.z, width, LARGEST_SELECTION_NOISE * self.encoder.rows / noise)

    def weights(self, z: Mapping[str, Floats], clique: Clique, blocks: Sequence[Blocks]) -> Floats:
        """The value weighting of the clique's cells. In blocks, |z| is the root of the mean of z² over the rows."""
        if not blocks:
            return value_weights(z, clique)
        rooted: dict[str, Floats] = {}
        for name, each in zip(clique, blocks, strict=True):
            bins, starts = self.bins[name], each.starts
            masses = np.append(np.diff(bins.edges), 1.0) if bins.nullable else np.diff(bins.edges)
            masses = np.maximum(masses, 1e-12)
            rooted[name] = np.sqrt(np.add.reduceat(masses * z[name] ** 2, starts) / np.add.reduceat(masses, starts))
        return value_weights(rooted, clique)

    def useful(self, clique: Clique, least: int) -> bool:
        """Whether the clique has few enough cells with `least` blocks for each column, or all the bins it has."""
        shape = self.domain.shape(clique)
        sizes = even_sizes(shape, self.useful_cells)
        within = math.prod(sizes) <= self.useful_cells
        return within and all(size >= min(least, own) for size, own in zip(sizes, shape, strict=True))

    def blocks_of(self, clique: Clique) -> tuple[Blocks, ...]:
        """The blocks that a marginal is counted in. None for pairs, and for more columns if their bins fit."""
        own = self.domain.shape(clique)
        if len(clique) == 2 or math.prod(own) <= self.useful_cells:
            return ()
        return tuple(
            self.blocks(name, size) for name, size in zip(clique, even_sizes(own, self.useful_cells), strict=True)
        )

    def measure(self, clique: Clique, blocks: Sequence[Blocks], share: float) -> Measured:
        """Measures a marginal, in bins or in blocks."""
        return measure(
            self.coded,
            clique,
            self.domain,
            starts=tuple(each.starts for each in blocks),
            planned=FilterShare(FILTER, share),
            what=f"count {' with '.join(map(repr, clique))}",
            ledger=self.ledger,
            key=self.key.child("count").child(" ".join(f"{len(name)} {name}" for name in clique)),
        )

    def pair_errors(self, pairs: Sequence[Clique], singles: Mapping[str, Measured]) -> list[MarginalError]:
        """How far every pair is from independent columns: 1/2 Σ a_xy |n_xy - e_xy|, in coarse blocks."""
        soft = self.softened(2, self.ledger.noise("graph") * math.sqrt(len(pairs)) / 2)
        found: list[MarginalError] = []
        for pair in pairs:
            blocks = tuple(self.blocks(name, MOST_PAIR_BLOCKS) for name in pair)
            estimate = in_blocks(product([singles[name] for name in pair], self.encoder.rows), blocks)
            found.append(
                MarginalError(
                    columns=pair,
                    estimate=estimate,
                    weights=self.weights(soft, pair, blocks),
                    groups=tuple(each.of_bins for each in blocks),
                    factor=0.5,
                )
            )
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
    """A marginal that may be measured next.

    Attributes:
        error: How wrong the model is about it, less the error that sampling and the noise to come would make.
        blocks: What it would be counted in; empty for bins.
    """

    error: MarginalError
    blocks: tuple[Blocks, ...]

    @property
    def clique(self) -> Clique:
        return self.error.columns

    @classmethod
    def of(
        cls, context: FitContext, clique: Clique, fitted: MarkovModel, z: Mapping[str, Floats], sigma: float
    ) -> "Candidate":
        blocks = context.blocks_of(clique)
        guess = in_blocks(fitted.marginal(clique), blocks)
        weights = context.weights(z, clique, blocks)
        error = MarginalError(
            columns=clique,
            estimate=guess,
            weights=weights,
            groups=tuple(each.of_bins for each in blocks),
            penalty=expected_sampling_error(guess, weights) + MEAN_ABSOLUTE * sigma * float(weights.sum()),
        )
        return cls(error, blocks)


class Model:
    """The measured marginals and the estimate made from them; each estimate starts from the last.

    Args:
        shrinkage, iterations: As of `inference.estimate`.
        most_cells: A marginal that would make the model's graph much larger than this is left out.
    """

    def __init__(
        self,
        context: FitContext,
        singles: Sequence[Measured],
        *,
        shrinkage: float,
        iterations: int,
        most_cells: int,
    ):
        self.context, self.measured = context, list(singles)
        self.shrinkage, self.iterations, self.limit = shrinkage, iterations, 8 * most_cells
        self.fitted: MarkovModel | None = None

    def add(self, measured: Measured) -> None:
        """Takes a marginal in, unless the model would outgrow memory: selected marginals are triangulated anew."""
        cliques = [each.clique for each in self.measured if len(each.clique) > 1]
        if not cliques or model_size(self.context.domain, [*cliques, measured.clique]) <= self.limit:
            self.measured.append(measured)

    def estimate(self, *, tolerance: float) -> MarkovModel:
        context = self.context
        maps = context.encoder.columns
        self.fitted = estimate(
            context.domain,
            self.measured,
            rows=context.encoder.rows,
            iterations=self.iterations,
            start=self.fitted,
            shrinkage=self.shrinkage,
            ordered={name: len(c.edges) - 1 for name, c in context.bins.items() if maps[name].labels is None},
            tolerance=tolerance,
        )
        return self.fitted
