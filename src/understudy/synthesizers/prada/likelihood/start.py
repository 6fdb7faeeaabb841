"""The densities before any training: linear predictions, from second moments of public rows.

The one rule: no private row comes here.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.encoder import Encoder
from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.likelihood.density import Densities, start_second

Floats = NDArray[np.float64]

SMALLEST = 1e-3
"""Added to the diagonal of correlations that are inverted, so that columns that repeat each other share a weight."""
LEAST_UNIT = 0.05
"""A number deviates from its prediction by at least this: a score is never known better at the start."""
LEAST_SHARE = 0.02
"""A category counts as at least this common where its probability is predicted: a rare one has steep logits."""


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


class LinearStart(NamedTuple):
    """A linear prediction of every feature from its column's parents.

    Attributes:
        weights: Row f predicts the centred feature f from the parents' centred features: (features, features).
        means: Of the features.
        left: The deviation that the prediction leaves: (features,).
    """

    weights: Floats
    means: Floats
    left: Floats


class Correlations(NamedTuple):
    """Means, deviations and correlations of the features, from public rows or from noisy moments."""

    means: Floats  # (features,)
    deviations: Floats  # (features,)
    matrix: Floats  # (features, features)


def correlations_of(x: Floats, row_weights: Floats) -> Correlations:
    """Those of weighted public rows, (features, rows)."""
    shares = row_weights / row_weights.sum()
    means = x @ shares
    centred = x - means[:, None]
    covariance = (centred * shares) @ centred.T
    deviations = np.sqrt(np.maximum(np.diag(covariance), 1e-6))
    return Correlations(means, deviations, covariance / np.outer(deviations, deviations))


def linear_start(found: Correlations, pairs: NDArray[np.bool_], layout: Layout) -> LinearStart:
    """Least squares, each column from its parents alone.

    Args:
        pairs: Which earlier columns each column reads: (columns, columns).
    """
    means, deviations, correlation = found
    weights, left = np.zeros_like(correlation), deviations.copy()
    for j in range(layout.columns):
        own, read = np.flatnonzero(layout.owners == j), np.flatnonzero(pairs[j, layout.owners])
        if len(read):
            among = correlation[np.ix_(read, read)] + SMALLEST * np.eye(len(read))
            b = np.linalg.solve(among, correlation[np.ix_(read, own)])
            explained = np.sum(b * correlation[np.ix_(read, own)], axis=0)
            left[own] *= np.sqrt(np.clip(1.0 - explained, LEAST_UNIT**2, 1.0))
            weights[np.ix_(own, read)] = b.T * deviations[own][:, None] / deviations[read]
    return LinearStart(weights, means, left)


def start_params(
    start: LinearStart,
    shares: Floats,
    sources: NDArray[np.int32],
    layout: Layout,
    hidden: int,
    components: int,
    draw: np.random.Generator,
) -> Densities:
    """The densities before training: normal about the linear prediction; categories by a first-order logistic model.

    With p_c = π_c + b_cᵀ(x - m), log p_c = log π_c + b_cᵀ(x - m) / π_c to first order. Hidden units look in random
    directions, and have no effect yet.

    Args:
        shares: The measured shares of the categories: (columns, width).
        sources: What every column reads (`parents.sources_of`).
    """
    d, used = layout.columns, sources >= 0
    first = np.zeros((d, sources.shape[1] + 1, hidden + layout.width))
    first[:, :-1, :hidden] = draw.standard_normal((d, sources.shape[1], hidden)) * used[:, :, None]
    first[:, :-1, :hidden] /= np.sqrt(used.sum(axis=1) + 1.0)[:, None, None]
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
                scale, constant = 1.0 / max(share, LEAST_SHARE), math.log(max(share, 1e-4))
            first[j, :-1, hidden + place] = np.where(used[j], row[sources[j]], 0.0) * scale
            first[j, -1, hidden + place] = constant - scale * float(row @ start.means)
    second = start_second(layout, hidden, components)
    first, second, unit = (np.asarray(value, np.float32) for value in (first, second, unit))
    return Densities(first, second, unit, np.asarray(sources, np.int32))
