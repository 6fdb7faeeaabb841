"""A pool: rows drawn from a model that is public already, as levels, features and bins.

The one rule: no private row comes here. A pool is post-processing, so it may be as large as one likes.
"""

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.bins import Bins
from understudy.encoding.encoder import Encoder, Levels
from understudy.privacy.normal_scores import ValueWeighting, normal_score
from understudy.synthesizers.prada.layout import Block, Layout


@dataclasses.dataclass(frozen=True, eq=False)
class Pool:
    """Rows of a public model.

    Attributes:
        levels: A level for every row and column; NaN is a missing value.
    """

    levels: Levels
    encoder: Encoder
    layout: Layout

    @property
    def rows(self) -> int:
        return len(self.levels[self.layout.names[0]])

    @functools.cached_property
    def plain_features(self) -> NDArray[np.float32]:
        """The features without any weighting, made once: what the densities learn."""
        return self.features()

    def features(self, weightings: Mapping[str, ValueWeighting] | None = None) -> NDArray[np.float32]:
        """The features of the rows: (features, rows). Columns with a weighting have scores that follow values too."""
        found = np.zeros((self.layout.features, self.rows), np.float32)
        for block, start in zip(self.layout.blocks, self.layout.starts, strict=True):
            own = found[start : start + block.width]
            missing = np.isnan(self.levels[block.name])
            if block.number:
                own[0] = np.where(missing, 0.0, self._scores(block, (weightings or {}).get(block.name)))
            if block.categories:
                own[block.number + self._categories(block, missing), np.arange(self.rows)] = 1.0
        return found

    def _scores(self, block: Block, weighting: ValueWeighting | None) -> NDArray[np.float64]:
        edge = self.encoder.outermost_level
        level = np.clip(np.nan_to_num(self.levels[block.name], nan=0.5), edge, 1 - edge)
        normal = normal_score(level)
        if weighting is None:
            return normal
        return weighting.score(self.encoder.columns[block.name].distribution.quantile(level), normal)

    def _categories(self, block: Block, missing: NDArray[np.bool_]) -> NDArray[np.int64]:
        if block.number:
            return missing.astype(np.int64)
        cdf = self.encoder.columns[block.name].distribution.cdf
        level = np.nan_to_num(self.levels[block.name], nan=0.5)
        code = np.clip(np.searchsorted(cdf, level, side="right") - 1, 0, len(cdf) - 2)
        return np.where(missing, block.categories - 1, code)

    def codes(self, bins: Mapping[str, Bins]) -> dict[str, NDArray[np.int64]]:
        """The bin of every row and column."""
        return {name: _codes(self.levels[name], each) for name, each in bins.items()}


def _codes(level: NDArray[np.float64], bins: Bins) -> NDArray[np.int64]:
    missing, last = np.isnan(level), len(bins.edges) - 2
    code = np.clip(np.searchsorted(bins.edges, np.where(missing, 0.5, level), side="right") - 1, 0, last)
    return np.where(missing, last + 1, code) if bins.nullable else code
