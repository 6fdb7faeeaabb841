"""The start of a training: linear predictions from one noisy matrix of second moments.

The one rule: rows go to `noisy_second_moments` and nowhere else. What comes back is public.

Source: Ledoit and Wolf (2004), "A well-conditioned estimator for large-dimensional covariance matrices", for why a
noisy matrix is shrunk before it is inverted.
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder
from understudy.privacy.ledger import Ledger
from understudy.privacy.moments import noisy_second_moments
from understudy.synthesizers.moments import nearest_correlation, squared_clip_norm
from understudy.synthesizers.prada.batch import LockedFeatures
from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.likelihood.density import Densities, start_second

Floats = NDArray[np.float64]

CLIP_RANGE = (1.0, 3.0)
"""For their moments rows are clipped to a squared norm between these multiples of its expectation."""
NOISE_TARGET = 0.04
"""Rows are clipped as loosely as keeps the noise of a second moment at this deviation."""
SMALLEST = 1e-3
"""A correlation matrix that is inverted has eigenvalues of at least this."""
SMALLEST_OF_NOISE = 0.5
"""Its eigenvalues are also at least this multiple of the radius of its noise."""
LEAST_UNIT = 0.05
"""A number deviates from its prediction by at least this: a score is never known better at the start."""


class FeatureFacts(NamedTuple):
    """What the encoder says of the features."""

    means: Floats  # (features,)
    variances: Floats  # (features,)
    shares: Floats  # of categories, (columns, width)


def feature_facts(encoder: Encoder, layout: Layout) -> FeatureFacts:
    """Means and variances of the features, and the shares of categories, as the encoder measured them."""
    means, variances, shares = [], [], np.zeros((layout.columns, layout.width))
    for j, block in enumerate(layout.blocks):
        m = encoder.columns[block.name]
        if block.number:
            means.append(0.0)
            variances.append(max(1.0 - m.missing, 1e-3))
            found = np.array([1.0 - m.missing, m.missing])[: block.categories]
        else:
            found = np.append(np.diff(m.distribution.cdf) * (1.0 - m.missing), m.missing)[: block.categories]
        found = np.maximum(found, 1e-4) / max(float(np.maximum(found, 1e-4).sum()), 1e-12)
        means.extend(found)
        variances.extend(np.maximum(found * (1.0 - found), 1e-4))
        shares[j, block.number : block.width] = found
    return FeatureFacts(np.array(means), np.array(variances), shares)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """What second moments say: a linear prediction of every feature from the earlier columns.

    Attributes:
        weights: (features, features): row f predicts the centred feature f from earlier columns' centred features.
        means: Of the features, from the encoder.
        left: The deviation that the prediction leaves.
        noise: The deviation of the noise of one correlation.
    """

    weights: Floats
    means: Floats
    left: Floats
    noise: float


def measure_start(
    locked: LockedFeatures,
    encoder: Encoder,
    layout: Layout,
    facts: FeatureFacts,
    *,
    loadings: Floats,
    largest_weighting: float,
    ledger: Ledger,
    key: Key,
) -> Start:
    """Linear predictions from a noisy matrix of second moments.

    Args:
        loadings: As of `start_from`.
        largest_weighting: The square of the largest value weighting, which rows may have on top.

    Privacy:
        A function of one release of `noisy_second_moments`. Rows are clipped to a norm that follows from the noise.
    """
    noise, total = ledger.noise("moments") * locked.rows.max_rows_per_unit, max(encoder.rows, 1.0)
    clip_squared = squared_clip_norm(
        float(np.sum(facts.variances + facts.means**2)),
        noise=noise,
        rows=total,
        noise_target=NOISE_TARGET,
        clip_range=CLIP_RANGE,
        largest_weighting=largest_weighting,
    )
    moments = noisy_second_moments(
        locked.rows,
        locked.columns,
        clip_norm=math.sqrt(clip_squared),
        what="second moments of the features",
        planned="moments",
        ledger=ledger,
        key=key.child("moments"),
    )
    deviation = noise * clip_squared / math.sqrt(2) / total
    return start_from(moments / total, facts.means, facts.variances, layout, noise=deviation, loadings=loadings)


def start_from(
    moments: Floats, means: Floats, variances: Floats, layout: Layout, *, noise: float, loadings: Floats | float = 1.0
) -> Start:
    """Linear predictions from noisy second moments, Σ x xᵀ / rows of clipped features.

    The measured diagonal undoes what clipping took from each feature; the known means are subtracted; the correlations
    become the nearest correlation matrix, and each feature is regressed on those of earlier columns.

    Args:
        loadings: Of value-weighted scores, E[a Z] with Z the normal score behind: correlations are those of Z, as a
            normal copula has them, and predictions and what they leave are in units of a = loading · Z.
    """
    squares = variances + means**2
    kept = np.sqrt(np.clip(np.diag(moments) / squares, 0.3, 1.2))
    covariance = moments / np.outer(kept, kept) - np.outer(means, means)
    deviations = np.sqrt(variances)
    spread = deviations * loadings
    correlation = np.clip(covariance / np.outer(spread, spread), -0.99, 0.99)
    smallest = min(max(SMALLEST, SMALLEST_OF_NOISE * 2 * noise * math.sqrt(len(means))), 0.9)
    correlation = nearest_correlation(correlation, smallest=smallest, rounds=50, tolerance=None)
    weights, left = np.zeros_like(correlation), np.ones(len(means))
    for j in range(1, layout.columns):
        own, earlier = np.flatnonzero(layout.owners == j), np.flatnonzero(layout.owners < j)
        b = np.linalg.solve(correlation[np.ix_(earlier, earlier)], correlation[np.ix_(earlier, own)])
        left[own] = 1.0 - np.sum(b * correlation[np.ix_(earlier, own)], axis=0)
        weights[np.ix_(own, earlier)] = b.T * spread[own][:, None] / spread[earlier]
    left = np.sqrt(np.clip(left, LEAST_UNIT**2, 1.0)) * spread
    return Start(weights=weights, means=means, left=left, noise=noise)


def start_params(
    start: Start, shares: Floats, layout: Layout, hidden: int, components: int, draw: np.random.Generator
) -> Densities:
    """The densities before training: normal about the linear prediction; categories by a first-order logistic model.

    With p_c = π_c + b_cᵀ(x - m), log p_c = log π_c + b_cᵀ(x - m) / π_c to first order. Hidden units look in random
    directions, and have no effect yet.
    """
    d, features = layout.columns, layout.features
    first = np.zeros((d, features + 1, hidden + layout.width))
    first[:, :-1, :hidden] = draw.standard_normal((d, features, hidden)) * layout.earlier[:, :, None]
    first[:, :-1, :hidden] /= np.sqrt(layout.earlier.sum(axis=1) + 1.0)[:, None, None]
    first[:, -1, :hidden] = 0.5 * draw.standard_normal((d, hidden))
    unit = np.ones(d)
    for j, (block, at) in enumerate(zip(layout.blocks, layout.starts, strict=True)):
        for place in range(block.width):
            row = start.weights[at + place]
            if block.number and place == 0:
                unit[j] = max(start.left[at], LEAST_UNIT)
                scale, constant = 1.0 / unit[j], 0.0
            else:
                share = shares[j, place]
                scale, constant = 1.0 / max(share, 3.0 * start.noise, 0.02), math.log(max(share, 1e-4))
            first[j, :-1, hidden + place] = row * scale
            first[j, -1, hidden + place] = constant - scale * float(row @ start.means)
    second = start_second(layout, hidden, components)
    return Densities(*(np.asarray(value, np.float32) for value in (first, second, unit)))
