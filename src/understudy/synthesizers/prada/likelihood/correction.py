"""A correction: what the densities still have wrong, as the probability with which a drawn row is kept.

Let q be what the densities draw, and s(x) the score of a row under the tilt that gives q the counts and moments that
were measured (tilt.py). Rows are drawn from q and kept with probability a(x) = min(1, exp(s(x) - limit)), so that

    p(x) = q(x) a(x) / Z,    Z = E_q a(x).

The limit is the smallest that takes no more than a fiftieth of all weight from the rows that weigh most, but keeps at
least a third of the rows: at most, what would weigh more than three times the mean weighs as much as that. A network
learns a tilt but roughly, from rows that were drawn; here all of it is used.

The one rule: no private row comes here. The model is public, and so are counts and moments with their noise.

Sources: von Neumann (1951), "Various techniques used in connection with random digits", for rejection; Rosenfeld, Chen
and Zhu (2001), "Whole-sentence exponential language models", for a sequential model times an exponential one.
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.bins import Bins
from understudy.encoding.encoder import Levels
from understudy.privacy.normal_scores import normal_score
from understudy.synthesizers.prada.likelihood.ragged import flat, ragged

Floats = NDArray[np.float64]
Single = NDArray[np.float32]
Whole = NDArray[np.int64]

CELLS = 1024
"""Scores of a number are looked up in this many cells."""


def middles_of_cells(farthest: float) -> Floats:
    """The level in the middle of every cell of scores between ± this one; at last NaN, for missing values."""
    from scipy.special import ndtr

    return np.append(ndtr(((np.arange(CELLS) + 0.5) / CELLS * 2.0 - 1.0) * farthest), np.nan)


class _ByCell(NamedTuple):
    """The tables of a correction, for look-ups by cell.

    Attributes:
        bins: Of every column, the bin of each cell.
        single: Of some columns, the sum of their own tables at each cell.
        pairs: The sums of the tables of two columns, and of tables of one of them that are counted here.
        wider: Those of more.
    """

    bins: tuple[Whole, ...]
    single: dict[int, Single]
    pairs: dict[tuple[int, int], Single]
    wider: dict[tuple[int, ...], Single]


class _ByFeature(NamedTuple):
    """The products of a correction, for look-ups by cell.

    Attributes:
        tables: Of every feature that has a product, its column, and its value in each cell.
        others: Of columns with features that have none, the sum of their squares in each cell: they count for the norm.
        matrix: Of the former.
    """

    tables: list[tuple[int, Single]]
    others: dict[int, Single]
    matrix: Single


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
        cells = [self._cell(j, levels[name], name in as_scores) for j, name in enumerate(self.names)]
        tables, found = self._by_cell, np.zeros(len(cells[0]), np.float32)
        room = np.empty_like(found)
        for j, table in tables.single.items():
            found += np.take(table, cells[j], out=room, mode="clip")
        counted = {j for clique in (*tables.pairs, *tables.wider) for j in clique}
        bins = {j: np.take(tables.bins[j], cells[j], mode="clip") for j in counted}
        for (one, other), table in tables.pairs.items():
            place = bins[one] * self.bins[other].size
            place += bins[other]
            found += np.take(table, place, out=room, mode="clip")
        for clique, table in tables.wider.items():
            place = bins[clique[0]]
            for j in clique[1:]:
                place = place * self.bins[j].size + bins[j]
            found += table[place]
        if self.matrix.size:
            found += self._products(cells)
        return found.astype(np.float64)

    def _products(self, cells: Sequence[Whole]) -> Single:
        """φᵀ matrix φ of rows, with φ clipped."""
        features = self._by_feature
        x = np.empty((len(features.tables), len(cells[0])), np.float32)
        for own, (j, table) in zip(x, features.tables, strict=True):
            np.take(table, cells[j], out=own, mode="clip")
        squares = np.einsum("fr,fr->r", x, x)
        for j, table in features.others.items():
            squares += np.take(table, cells[j], mode="clip")
        shrink = np.minimum(np.float32(1.0), np.float32(self.clip_norm**2) / np.maximum(squares, np.float32(1e-24)))
        return shrink * np.einsum("fr,fr->r", x, features.matrix @ x)

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
    def _by_feature(self) -> "_ByFeature":
        """The features that have a product, as they are looked up."""
        used = (self.matrix != 0.0).any(axis=0) | (self.matrix != 0.0).any(axis=1)
        flags = np.split(used, np.cumsum([len(table) for table in self.features])[:-1])
        tables, others = list[tuple[int, Single]](), dict[int, Single]()
        for j, (table, own) in enumerate(zip(self.features, flags, strict=True)):
            tables += [(j, each) for each in table[own]]
            if not own.all():
                others[j] = np.square(table[~own]).sum(axis=0)
        return _ByFeature(tables, others, np.ascontiguousarray(self.matrix[np.ix_(used, used)]))

    @functools.cached_property
    def _by_cell(self) -> "_ByCell":
        """The tables, as they are looked up: one for all those of the same columns."""
        bins = tuple(self._bins_of_cells(j) for j in range(len(self.names)))
        sums: dict[tuple[int, ...], Floats] = {}
        for clique, table in zip((tuple(each.tolist()) for each in self.cliques), self.tables, strict=True):
            sums[clique] = sums[clique] + table if clique in sums else table
        pairs = {(one, other): sums[one, other] for one, other in (each for each in sums if len(each) == 2)}
        single = {}
        for [j] in (each for each in sums if len(each) == 1):
            place = next((pair for pair in pairs if j in pair), None)
            if place is None:
                single[j] = sums[j,][bins[j]].astype(np.float32)
            else:
                both = pairs[place].reshape(self.bins[place[0]].size, -1)
                pairs[place] = (both + (sums[j,][:, None] if place[0] == j else sums[j,][None, :])).ravel()
        return _ByCell(
            bins,
            single,
            {pair: table.astype(np.float32) for pair, table in pairs.items()},
            {clique: table.astype(np.float32) for clique, table in sums.items() if len(clique) > 2},
        )

    def _bins_of_cells(self, j: int) -> Whole:
        """The bin of every cell of a column."""
        own = self.bins[j]
        return own.code_of(middles_of_cells(self.farthest)) if self.numbers[j] else np.arange(own.size)

    def _cell(self, j: int, level: NDArray, as_score: bool) -> Whole:
        if not self.numbers[j]:
            return self.bins[j].code_of(level)
        score = level if as_score else normal_score(np.clip(level, 0.0, 1.0)).astype(np.float32)
        place = (score + np.float32(self.farthest)) * np.float32(CELLS / (2.0 * self.farthest))
        missing = np.zeros(0, bool) if as_score else np.isnan(place)  # a drawn score is a number
        np.minimum(np.maximum(place, 0.0, out=place), CELLS - 1.0, out=place)
        if missing.any():
            place[missing] = CELLS
        return place.astype(np.intp)

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
