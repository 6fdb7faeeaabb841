"""A correction: what the densities still have wrong, as the probability with which a drawn row is kept.

Let q be what the densities draw, and s(x) the score of a row under the tilt that gives q the counts and moments that
were measured (tilt.py). Rows are drawn from q and kept with probability a(x) = min(1, exp(s(x) - limit)), so that

    p(x) = q(x) a(x) / Z,    Z = E_q a(x).

The limit is the largest at which a third of the rows are kept: what would weigh more than three times the mean weighs
as much as that. A network learns a tilt but roughly, from rows that were drawn; here all of it is used.

The one rule: no private row comes here. The model is public, and so are counts and moments with their noise.

Sources: von Neumann (1951), "Various techniques used in connection with random digits", for rejection; Rosenfeld, Chen
and Zhu (2001), "Whole-sentence exponential language models", for a sequential model times an exponential one.
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.bins import Bins
from understudy.encoding.encoder import Levels
from understudy.privacy.normal_scores import normal_score
from understudy.synthesizers.prada.likelihood.pool import code_of
from understudy.synthesizers.prada.likelihood.ragged import flat, ragged

Floats = NDArray[np.float64]
Single = NDArray[np.float32]
Whole = NDArray[np.int64]

CELLS = 1024
"""Scores of a number are looked up in this many cells."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Correction:
    """The score s of a row, and the limit: s(x) = Σ_c table_c[bins of x] + φ(x)ᵀ matrix φ(x).

    Attributes:
        names: The columns.
        bins: Of every column, for the tables.
        cliques: The columns of every table.
        tables: By bin, flat.
        features: Of every column, its part of φ in every cell of scores, or in every bin of a category; the last cell
            is that of missing values: (features, cells).
        numbers: Whether a column has cells of scores.
        farthest: Cells lie between ± this score.
        clip_norm: φ is clipped to this norm.
        matrix: (features, features); empty if no product counts.
        limit: The score from which on rows are always kept.
        kept: Z, the share of the rows that is kept.
    """

    names: tuple[str, ...]
    bins: tuple[Bins, ...]
    cliques: tuple[Whole, ...]
    tables: tuple[Floats, ...]
    features: tuple[Single, ...]
    numbers: NDArray[np.bool_]
    farthest: float
    clip_norm: float
    matrix: Single
    limit: float
    kept: float

    def scores(self, levels: Levels, as_scores: Collection[str] = ()) -> Floats:
        """s of every row.

        Args:
            as_scores: Columns whose normal scores stand in the place of levels.
        """
        codes = [self._bin(j, levels[name], name in as_scores) for j, name in enumerate(self.names)]
        found = np.zeros(len(codes[0]))
        for clique, table in zip(self.cliques, self.tables, strict=True):
            place = codes[clique[0]]
            for j in clique[1:].tolist():
                place = place * self.bins[j].size + codes[j]
            found += table[place]
        if self.matrix.size:
            parts = [
                self.features[j][:, self._cell(levels[name], name in as_scores) if self.numbers[j] else codes[j]]
                for j, name in enumerate(self.names)
            ]
            x = np.concatenate(parts)
            norms = np.sqrt(np.einsum("fr,fr->r", x, x))
            shrink = np.minimum(1.0, self.clip_norm / np.maximum(norms, 1e-12)) ** 2
            found += shrink * np.einsum("fr,fr->r", x, self.matrix @ x)
        return found

    def log_kept(self, levels: Levels, as_scores: Collection[str] = ()) -> Floats:
        """log a of every row."""
        return np.minimum(self.scores(levels, as_scores) - self.limit, 0.0)

    def log_density(self, levels: Levels) -> Floats:
        """log a - log Z, which the log density of a row has more."""
        return self.log_kept(levels) - np.log(self.kept)

    def keeps(self, levels: Levels, draw: np.random.Generator, as_scores: Collection[str] = ()) -> NDArray[np.bool_]:
        """Which of the rows are kept."""
        log_kept = self.log_kept(levels, as_scores)
        return draw.random(len(log_kept)) < np.exp(log_kept)

    @functools.cached_property
    def _score_edges(self) -> tuple[Floats, ...]:
        return tuple(normal_score(each.edges) for each in self.bins)

    def _bin(self, j: int, level: NDArray, as_score: bool) -> Whole:
        return code_of(level, Bins(self._score_edges[j], self.bins[j].nullable) if as_score else self.bins[j])

    def _cell(self, level: NDArray, as_score: bool) -> Whole:
        score = level if as_score else normal_score(np.clip(level, 0.0, 1.0))
        place = np.clip((score + self.farthest) * (CELLS / (2.0 * self.farthest)), 0.0, CELLS - 1.0)
        return np.where(np.isnan(place), CELLS, place).astype(np.int64)

    # In a model file ------------------------------------------------------------------------------------------------

    def arrays(self) -> dict[str, NDArray]:
        return {
            "correction numbers": np.array([self.farthest, self.clip_norm, self.limit, self.kept]),
            "correction of scores": self.numbers,
            "correction nullable": np.array([each.nullable for each in self.bins]),
            "correction matrix": self.matrix,
            **flat("correction edges", [each.edges for each in self.bins]),
            **flat("correction features", self.features),
            **flat("correction cliques", self.cliques or [np.zeros(0, np.int64)]),
            **flat("correction tables", self.tables or [np.zeros(0)]),
        }

    @classmethod
    def from_arrays(cls, names: Sequence[str], arrays: Mapping[str, NDArray]) -> "Correction | None":
        """The correction that `arrays` came from, if there is one."""
        if "correction numbers" not in arrays:
            return None
        farthest, clip_norm, limit, kept = arrays["correction numbers"].tolist()
        edges, cliques = ragged("correction edges", arrays), ragged("correction cliques", arrays)
        tables = ragged("correction tables", arrays)
        some = [i for i, clique in enumerate(cliques) if len(clique)]
        return cls(
            names=tuple(names),
            bins=tuple(Bins(e, bool(n)) for e, n in zip(edges, arrays["correction nullable"], strict=True)),
            cliques=tuple(cliques[i] for i in some),
            tables=tuple(tables[i] for i in some),
            features=tuple(ragged("correction features", arrays)),
            numbers=arrays["correction of scores"],
            farthest=farthest,
            clip_norm=clip_norm,
            matrix=arrays["correction matrix"],
            limit=limit,
            kept=kept,
        )
