"""Second moments of the features: what linear relations the private rows have, in values as well as in ranks.

Numbers enter as scores that follow their values too (value weighting): a few rows far from the rest can hold most of a
column's variance, and what they depend on hardly shows among ranks.

The one rule: rows go to `noisy_second_moments` and nowhere else. What comes back is public.

Source: Ledoit and Wolf (2004), "A well-conditioned estimator for large-dimensional covariance matrices", for why a
noisy matrix is shrunk before it is inverted.
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder
from understudy.encoding.scores import value_weighting
from understudy.privacy.ledger import Ledger
from understudy.privacy.moments import noisy_second_moments
from understudy.privacy.normal_scores import ValueWeighting
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.moments import nearest_correlation, squared_clip_norm
from understudy.synthesizers.prada.batch import LockedFeatures
from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.likelihood.start import Correlations, FeatureFacts

Floats = NDArray[np.float64]

MOMENTS = "moments"
"""The planned mechanism is called this."""
CLIP_RANGE = (1.0, 3.0)
"""For their moments rows are clipped to a squared norm between these multiples of its expectation."""
NOISE_TARGET = 0.04
"""Rows are clipped as loosely as keeps the noise of a second moment at this deviation."""
LEAST_LOADING = 0.3
"""A value-weighted score is taken to have at least this much of the normal score in it."""
SMALLEST = 1e-3
"""A correlation matrix that is inverted has eigenvalues of at least this."""
SMALLEST_OF_NOISE = 0.5
"""Its eigenvalues are also at least this multiple of the radius of its noise."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class NoisyMoments:
    """Noisy means of products of value-weighted features, over rows clipped to a norm.

    Attributes:
        means: (features, features).
        noise: The deviation of the noise of one product.
        clip_norm: What rows were clipped to.
        weightings: The value weighting of each number column.
    """

    means: Floats
    noise: float
    clip_norm: float
    weightings: Mapping[str, ValueWeighting]

    def correlations(self, facts: FeatureFacts, layout: Layout) -> Correlations:
        """The correlations of normal scores and categories that a normal copula with these moments has.

        The measured diagonal undoes what clipping took from each feature, and the known means are subtracted. A score
        that follows values is a = loading · Z + something that a copula cannot see, so its products are divided by the
        loading. What comes out becomes the nearest correlation matrix.
        """
        loadings = np.ones(layout.features)
        for name, weighting in self.weightings.items():
            loadings[layout.starts[layout.names.index(name)]] = max(weighting.loading, LEAST_LOADING)
        kept = np.sqrt(np.clip(np.diag(self.means) / (facts.variances + facts.means**2), 0.3, 1.2))
        covariance = self.means / np.outer(kept, kept) - np.outer(facts.means, facts.means)
        deviations = np.sqrt(facts.variances)
        spread = deviations * loadings
        smallest = min(max(SMALLEST, SMALLEST_OF_NOISE * 2 * self.noise * math.sqrt(layout.features)), 0.9)
        matrix = np.clip(covariance / np.outer(spread, spread), -0.99, 0.99)
        matrix = nearest_correlation(matrix, smallest=smallest, rounds=50, tolerance=None)
        return Correlations(facts.means, deviations, matrix)

    def clipped(self, x: Floats) -> Floats:
        """Public rows of value-weighted features, (features, rows), clipped as the private ones were."""
        norms = np.sqrt(np.sum(x**2, axis=0, keepdims=True))
        return x * np.minimum(1.0, self.clip_norm / np.maximum(norms, 1e-12))


def all_weightings(encoder: Encoder, layout: Layout) -> dict[str, ValueWeighting]:
    """The value weighting of every number column that has one."""
    found = {name: value_weighting(encoder, name) for name in layout.names}
    return {name: weighting for name, weighting in found.items() if weighting is not None}


def measure_moments(
    rows: PrivateRows, encoder: Encoder, layout: Layout, facts: FeatureFacts, *, ledger: Ledger, key: Key
) -> NoisyMoments:
    """Releases the second moments of value-weighted features.

    Privacy:
        One release of `noisy_second_moments`. Rows are clipped to a norm that follows from the noise.
    """
    weightings = all_weightings(encoder, layout)
    locked = LockedFeatures.of(rows, encoder, layout.names, key=key, weightings=weightings)
    noise, total = ledger.noise(MOMENTS) * rows.max_rows_per_unit, max(encoder.rows, 1.0)
    clip_squared = squared_clip_norm(
        float(np.sum(facts.variances + facts.means**2)),
        noise=noise,
        rows=total,
        noise_target=NOISE_TARGET,
        clip_range=CLIP_RANGE,
        largest_weighting=0.0,
    )
    moments = noisy_second_moments(
        locked.rows,
        locked.columns,
        clip_norm=math.sqrt(clip_squared),
        what="second moments of the features",
        planned=MOMENTS,
        ledger=ledger,
        key=key.child("moments"),
    )
    return NoisyMoments(
        means=moments / total,
        noise=noise * clip_squared / math.sqrt(2) / total,
        clip_norm=math.sqrt(clip_squared),
        weightings=weightings,
    )
