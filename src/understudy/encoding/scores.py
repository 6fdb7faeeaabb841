"""Scores: rows in standard normal coordinates, one for every column and one more for every nullable column.

Ties and gaps hide part of the normal behind a column; `loading` says how much of it a score keeps.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, with_public_codes
from understudy.privacy.normal_scores import ValueWeighting, mean_score, normal_density, normal_score
from understudy.privacy.piecewise import Floats
from understudy.privacy.row_maps import MissingScore, NormalScore, RowMap
from understudy.privacy.rows import PrivateRows

# The moments of a weighted score are means over this many levels.
MOMENT_LEVELS = 4096


@dataclasses.dataclass(frozen=True)
class ScoreColumn:
    """One standard normal coordinate: the value of a column, or whether it is missing."""

    column: str
    missing: bool = False

    @property
    def name(self) -> str:
        return f"{'missing' if self.missing else 'value'} {self.column}"


def score_columns(encoder: Encoder) -> list[ScoreColumn]:
    """The coordinates of a row in score space: one for every column, one more for every nullable one."""
    return [
        ScoreColumn(c.name, missing) for c in encoder.schema for missing in ((False, True) if c.nullable else (False,))
    ]


def score_rows(
    rows: PrivateRows,
    encoder: Encoder,
    *,
    key: Key,
    spread: bool,
    weightings: Mapping[str, ValueWeighting] | None = None,
) -> PrivateRows:
    """Locked rows of scores, a column for each of `score_columns`.

    Args:
        spread: A value that owns an interval of levels (an atom, a whole number, a category) gets a random level of
            it, so that scores are normal. Otherwise it gets the mean score over the interval: less noise in products.
        weightings: Of columns whose scores follow their values too.

    Privacy:
        Releases nothing: row by row, through public maps.
    """
    maps = {
        each.name: score_map(encoder, each, key=key, spread=spread, weighting=(weightings or {}).get(each.column))
        for each in score_columns(encoder)
    }
    return with_public_codes(rows, encoder, encoder.schema.names).derive(maps)


def score_map(
    encoder: Encoder, wanted: ScoreColumn, *, key: Key, spread: bool, weighting: ValueWeighting | None = None
) -> RowMap:
    """The map of one coordinate; `weighting` is ignored by that of being missing."""
    known, edge = encoder.columns[wanted.column], encoder.outermost_level
    own = key.child(f"score {wanted.name}")
    if wanted.missing:
        coded = known.labels is not None
        return MissingScore(wanted.column, coded, known.missing, edge, spread=spread, key=own)
    nullable = known.column.nullable
    return NormalScore(wanted.column, known.scale, edge, nullable, spread=spread, key=own, weighting=weighting)


def loading(encoder: Encoder, wanted: ScoreColumn) -> float:
    """E[S Z] of a mean score S with the normal Z behind it: how much of Z survives ties and gaps.

    With E[S_i S_j] = r · loading_i · loading_j to first order in the correlation r of the normals behind (the
    first Hermite coefficient of S), it turns products of scores into latent correlations.
    """
    known = encoder.columns[wanted.column]
    if wanted.missing:
        edges = np.array([0.0, 1.0 - known.missing, 1.0])
        below, above = edges[:-1], edges[1:]
        present = 1.0
    else:
        below, above = known.distribution.atoms()
        present = 1.0 - known.missing
    wide = above - below > 1e-9
    below, above = below[wide], above[wide]
    width = above - below
    second = width + _times_density(below) - _times_density(above)  # E[Z²; atom]
    lost = second - width * mean_score(below, above) ** 2
    return float(present * np.clip(1.0 - lost.sum(), 0.0, 1.0))


def _times_density(level: Floats) -> Floats:
    z = normal_score(np.clip(level, 1e-300, 1 - 1e-16))
    return z * normal_density(z)


def value_weighting(encoder: Encoder, name: str) -> ValueWeighting | None:
    """The value weighting of a column; None unless it is a measured number whose values vary."""
    known = encoder.columns[name]
    if known.is_pass_through or known.labels is not None:
        return None
    levels = (np.arange(MOMENT_LEVELS) + 0.5) / MOMENT_LEVELS
    values = known.distribution.quantile(levels)
    largest = max(float(np.abs(values).max()), 1e-300)
    mean, deviation = largest * float((values / largest).mean()), largest * float((values / largest).std())
    if not 1e-9 * largest < deviation < np.inf:
        return None
    normal = normal_score(levels)
    plain = ValueWeighting(mean, deviation).score(values, normal)
    shift, scale = float(plain.mean()), float(plain.std())
    found = (plain - shift) / scale
    return ValueWeighting(mean, deviation, shift, scale, float(np.mean(found * normal)), float(np.abs(found).max()))


def target_weightings(encoder: Encoder) -> dict[str, ValueWeighting]:
    """The value weighting of the schema's target, whose values, not ranks, are to be predicted; of no other column."""
    target = encoder.schema.target
    weighting = None if target is None else value_weighting(encoder, target)
    return {} if target is None or weighting is None else {target: weighting}
