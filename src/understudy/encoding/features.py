"""Features: rows as networks take them, a score for every number and a column of 0 and 1 for every category."""

import dataclasses
from collections.abc import Mapping, Sequence

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder, with_public_codes
from understudy.encoding.scores import ScoreColumn, score_map
from understudy.privacy.normal_scores import ValueWeighting
from understudy.privacy.row_maps import ArgMax, Clip, MissingFlag, OneHot, RowMap
from understudy.privacy.rows import PrivateRows


@dataclasses.dataclass(frozen=True)
class Feature:
    """One input of a network: the score of a number, or whether a column is in one of its categories.

    The categories of a category column are its values and, if it may be missing, "missing"; those of a number that may
    be missing are "present" and "missing".
    """

    column: str
    category: int | None = None

    @property
    def name(self) -> str:
        return f"score {self.column}" if self.category is None else f"category {self.category} {self.column}"


def category_count(encoder: Encoder, name: str) -> int:
    """How many categories a column has, missing among them; none if it is a number that is never missing."""
    labels, nullable = encoder.columns[name].labels, encoder.schema[name].nullable
    return len(labels) + nullable if labels is not None else 2 * nullable


def features(encoder: Encoder, order: Sequence[str]) -> list[Feature]:
    """The features that columns become, in this order of the columns."""
    found: list[Feature] = []
    for name in order:
        number = [] if encoder.columns[name].labels is not None else [Feature(name)]
        found += [*number, *(Feature(name, category) for category in range(category_count(encoder, name)))]
    return found


def feature_rows(
    rows: PrivateRows,
    encoder: Encoder,
    wanted: Sequence[Feature],
    *,
    key: Key,
    weightings: Mapping[str, ValueWeighting] | None = None,
) -> PrivateRows:
    """Locked rows of features, a column for each.

    Args:
        weightings: Of columns whose scores follow their values too.

    Privacy:
        Releases nothing: row by row, through public maps.
    """
    maps = {
        each.name: _feature_map(encoder, each, key=key, weighting=(weightings or {}).get(each.column))
        for each in wanted
    }
    return with_public_codes(rows, encoder, [each.column for each in wanted]).derive(maps)


def _feature_map(encoder: Encoder, wanted: Feature, *, key: Key, weighting: ValueWeighting | None) -> RowMap:
    known = encoder.columns[wanted.column]
    if known.is_pass_through:
        return Clip(wanted.column)
    if wanted.category is None:
        return score_map(encoder, ScoreColumn(wanted.column), key=key, spread=True, weighting=weighting)
    if known.labels is None:
        return MissingFlag(wanted.column, missing=bool(wanted.category))
    return OneHot(
        wanted.column,
        wanted.category,
        len(known.labels),
        known.distribution,
        known.column.nullable,
        key=key.child(f"state {wanted.column}"),
    )


def category_rows(rows: PrivateRows, categories: Mapping[str, Sequence[str]]) -> PrivateRows:
    """Locked rows of codes from rows of features: the number of the category that a row is in.

    Args:
        categories: Of each category column, the names of the features of its categories, in order.

    Privacy:
        Releases nothing: row by row.
    """
    return rows.derive({name: ArgMax(tuple(names)) for name, names in categories.items()})
