"""How sparse: what the noise of a training allows. All of it is public.

Source: Zou (2006), "The adaptive lasso and its oracle properties", for penalties weighted by a first estimate.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.ledger import Ledger
from understudy.synthesizers.prada.likelihood.columns import Column
from understudy.synthesizers.prada.likelihood.start import Prediction

GRADIENTS = "gradients"
"""The planned steps are called this."""
DECAYS = (0.9, 0.999)
"""Adam's running means of the gradient and of its square decay by these factors."""
STEADY = 0.3
"""Rates fall where the noise in the gradient of a column is more than this part of what it is clipped to."""
MOST_PENALTY = 40.0
"""The group lasso is at most this multiple of the penalty that is set, however little noise there is."""


def noise_of_training(ledger: Ledger, rate: float, rows: float) -> float:
    """The noise in one coordinate of the mean gradient over a whole training, in units of the clipping norm.

    All steps together are about as private, and as exact, as one Gaussian release of
    μ = q √(T (exp(1 / σ²) - 1)) over all rows: its noise is 1 / μ on a sum, and 1 / (μ n) on a mean.

    Args:
        rate: q, the probability that a row is drawn.
    """
    planned, sigma = ledger.planned(GRADIENTS), ledger.noise(GRADIENTS)
    mu = rate * math.sqrt(planned.times * math.expm1(min(1 / sigma**2, 500.0)))
    return 1.0 / (min(mu, 1e6) * max(rows, 1.0))


def steady_rate(rate: float, columns: Sequence[Column], noise: float) -> float:
    """The rate of the first steps: what is set or, under much noise, less, so that steps do not lead into the noise.

    The gradient of a column is clipped to 1 / √d of the clipping norm, for d columns. Where the noise that a whole
    training leaves in it, over all its weights, is more than `STEADY` of that, the rate falls in proportion.

    Args:
        noise: As of `noise_of_training`.
    """
    weights = sum(own.first.size + own.second.size for own in columns)  # of d columns, as √d · √(weights / d)
    return rate * min(1.0, STEADY / max(noise * math.sqrt(weights), 1e-12))


def penalties(
    scale: float,
    columns: Sequence[Column],
    predictions: Sequence[Prediction],
    owners: NDArray[np.int64],
    *,
    start_noise: float,
    rows: float,
    noise: float,
) -> list[NDArray[np.float64]]:
    """λ of each earlier column that a column reads, in units of Adam's direction: (columns,) of every column.

    A group of m weights that the loss does not feel has a direction of length about √(m (1 - β) / (1 + β)), for Adam's
    first decay β; λ is a multiple of it. The multiple is the `scale` where the sampling error of these very rows, which
    a network would learn by heart, is as large in the gradient as the noise is, and it grows with the square of their
    ratio: under much noise there is nothing to learn by heart, and inputs are better left. As in the adaptive lasso,
    pairs that the start is sure of are spared: their λ is divided by how far their prediction is above its noise.

    Args:
        predictions: The linear predictions that columns start from.
        owners: The column of every input.
        start_noise: The deviation of the noise of one correlation.
        noise: As of `noise_of_training`.
    """
    weights = sum(float(own.first[:, : own.hidden].size) for own in columns)
    sampling_error = 1.0 / math.sqrt(max(rows, 1.0) * max(weights, 1.0))  # in one coordinate, for rows of norm 1
    scale *= min((sampling_error / max(noise, 1e-12)) ** 2, MOST_PENALTY)
    found = []
    for own, start in zip(columns, predictions, strict=True):
        whose = owners[own.sources]
        size = np.bincount(whose, minlength=len(columns)) * own.first.shape[1]
        length = np.sqrt(size * (1 - DECAYS[0]) / (1 + DECAYS[0]))
        effect = np.sum((start.slopes * start.deviations / start.left[:, None]) ** 2, axis=0)
        sure = np.sqrt(np.bincount(whose, effect, len(columns))) / (start_noise + 1.0 / math.sqrt(max(rows, 1.0)))
        found.append(scale * length / np.maximum(sure, 1.0))
    return found
