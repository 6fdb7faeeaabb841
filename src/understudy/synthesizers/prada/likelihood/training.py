"""The private steps of a part: Adam on the noisy slope of the log density, and the penalty's proximal map.

The one rule: what comes here are noisy sums, and weights that are public. Rows meet the densities in privacy/.

Source: Kingma and Ba (2015), arXiv:1412.6980, for Adam.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.densities import DensityLoop, Floats, Shape, Weights
from understudy.synthesizers.prada.likelihood.contrast import Contrast
from understudy.synthesizers.prada.likelihood.schedule import DECAYS

EPSILON = 1e-6
"""Added to Adam's denominators, so that a weight without gradient does not divide by zero."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Hyperparameters:
    """Numbers of one training.

    Attributes:
        penalty: Of each group of a column's inputs, and 0 at last: (columns, inputs + 1).
        groups: The group of every input, `inputs` for none: (columns, inputs).
        batch: The expected number of rows in a batch.
        average: The last share of the steps that the mean is over; 0 for the last step alone.
    """

    rate: float
    penalty: Floats
    groups: NDArray[np.int32]
    batch: float
    steps: int
    average: float


class State:
    """What changes from step to step, in place.

    Attributes:
        weights: After the steps so far.
        mean: Both layers, averaged over the last share of the steps.
        done: Steps so far.
        contrast: What is subtracted from the slopes; None for nothing.
    """

    def __init__(self, weights: Weights, numbers: Hyperparameters, contrast: Contrast | None = None):
        self.contrast = contrast
        self.weights = weights._replace(first=weights.first.copy(), second=weights.second.copy())
        self.numbers, self.done = numbers, 0
        self.mean = [np.zeros_like(each) for each in self.weights[:2]]
        self.memory = [(np.zeros_like(each), np.zeros_like(each)) for each in self.weights[:2]]
        used = weights.sources >= 0
        self.used = np.concatenate([used, np.ones((len(used), 1), bool)], axis=1).astype(np.float32)[:, :, None]

    def trained(self) -> Weights:
        """The weights at the end."""
        if not self.numbers.average:
            return self.weights
        return self.weights._replace(first=self.mean[0], second=self.mean[1])


def density_loop(shape: Shape, steps_per_round: int, *, contrasts: int = 0) -> DensityLoop:
    """The loop that `gradients.train` runs."""
    return DensityLoop(
        shape=shape,
        steps_per_round=steps_per_round,
        weights=lambda state: state.weights,
        update=update,
        contrasts=contrasts,
    )


def update(state: State, slopes: Sequence[Floats]) -> State:
    """One step of Adam with the penalty, and of the mean over the last steps.

    Adam's direction is the slope over its own root mean square, so a penalty in those units is shrunk by η · λ alone
    (adversarial/penalty.py explains why it must be Adam's metric).
    """
    numbers = state.numbers
    one, other = (1.0 - decay ** (state.done + 1) for decay in DECAYS)
    rate = numbers.rate * max(1.0 - state.done / numbers.steps, 0.0)
    # The noise is everywhere, also where an input reads nothing.
    first, second = (each / np.float32(numbers.batch) for each in slopes)
    if state.contrast is not None:
        of_first, of_second = state.contrast(state.weights, state.done)
        first, second = first - of_first, second - of_second
    slopes = [first * state.used, second]
    length = np.float32(rate * np.sqrt(other) / one)
    least = np.float32(EPSILON * np.sqrt(other))
    for weight, found, (mean, square) in zip(state.weights[:2], slopes, state.memory, strict=True):
        mean += np.float32(1.0 - DECAYS[0]) * (found - mean)
        square += np.float32(1.0 - DECAYS[1]) * (found * found - square)
        weight += length * mean / (np.sqrt(square) + least)
    shrink_groups(state.weights.first, numbers.groups, np.float32(rate) * numbers.penalty)
    since = state.done - np.floor((1 - numbers.average) * numbers.steps)
    if since >= 0:
        for mean, weight in zip(state.mean, state.weights[:2], strict=True):
            mean += np.float32(1 / (since + 1)) * (weight - mean)
    state.done += 1
    return state


def shrink_groups(first: Floats, groups: NDArray[np.int32], amount: Floats) -> None:
    """W_g · max(0, 1 - amount_g / ‖W_g‖): every group shorter by its amount, and exactly zero below it.

    It is the proximal map of Σ amount_g ‖W_g‖. Constants are not penalised.

    Args:
        first: (columns, inputs + 1, out); changed in place.
        groups: The group of every input: (columns, inputs).
        amount: Of every group: (columns, inputs + 1).
    """
    weights = first[:, :-1]
    squares = np.einsum("dio,dio->di", weights, weights)
    at = groups + np.arange(len(first))[:, None] * amount.shape[1]
    norms = np.sqrt(np.bincount(at.ravel(), squares.ravel(), amount.size)).reshape(amount.shape)
    kept = np.where(norms > amount, 1.0 - amount / np.where(norms > amount, norms, 1.0), 0.0).astype(np.float32)
    weights *= np.take_along_axis(kept, groups.astype(np.int64), axis=1)[:, :, None]
