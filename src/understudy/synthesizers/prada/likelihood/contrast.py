"""A contrast: the mean clipped slope of rows that the densities draw themselves.

Clipping takes most from the rows that a density finds surprising, such as those of rare values. So the mean of clipped
slopes is not zero where the densities are right, and steps along it lead away from there: rare values become rarer, and
dependence weaker. Rows that are drawn from the densities have the same bias, up to what their inputs differ in. Their
mean clipped slope is subtracted from that of the private rows:

    E_rows clip(∇ log p) - E_densities clip(∇ log p),

which is zero, but for noise, where the densities are right: the clipped slope is a function whose mean is matched.

The one rule: no private row comes here. Inputs are those of public rows, and what is drawn given them is public.

Source: Hansen (1982), "Large sample properties of generalized method of moments estimators".
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.densities import (
    HALF,
    MIDDLE,
    Fixed,
    Floats,
    Layers,
    Shape,
    Weights,
    derivatives_at,
    fixed_of,
    layers,
    logits_of,
)
from understudy.privacy.density_training import clipped_sums

EVERY = 5
"""A contrast is made anew after so many steps: weights hardly move in fewer."""


@dataclasses.dataclass(eq=False)
class Contrast:
    """The contrast of one part.

    Attributes:
        features: Of public rows, with a one at last: (rows, features + 1).
        levels: Running sums of the weights of these rows, up to 1.
        norms: What slopes are clipped to: (columns,).
        batch: How many rows a contrast is the mean over.
    """

    shape: Shape
    features: Floats
    levels: NDArray[np.float64]
    norms: Floats
    batch: int
    draw: np.random.Generator
    last: tuple[Floats, ...] = ()

    def __call__(self, weights: Weights, step: int) -> tuple[Floats, ...]:
        """The mean clipped slopes by both layers, under densities with these weights or those of a few steps ago."""
        if step % EVERY == 0 or not self.last:
            fixed = fixed_of(weights, self.shape)
            places = (np.arange(self.batch) + self.draw.random(self.batch)) / self.batch
            rows = np.minimum(np.searchsorted(self.levels, places), len(self.levels) - 1)
            made = layers(weights, fixed, self.features[rows], self.shape)
            own, state = drawn(weights, fixed, made, self.shape, self.draw)
            slopes = derivatives_at(weights, fixed, made, own, state, self.shape)
            sums = clipped_sums(slopes, fixed, np.ones((self.batch, 1), bool), self.norms)
            self.last = tuple(each / np.float32(self.batch) for each in sums)
        return self.last


def drawn(
    weights: Weights, fixed: Fixed, made: Layers, shape: Shape, draw: np.random.Generator
) -> tuple[Floats, Floats]:
    """Own scores and states that the densities draw of what their layers made: (columns, rows) each."""
    d, n, k = shape.columns, made.hidden.shape[2], shape.components * shape.number
    own, state = np.zeros((d, n), np.float32), np.zeros((d, n), np.float32)
    if shape.states:
        sums = made.linear[:, int(shape.number) :] + made.second[:, 3 * k :]
        state = _choice(logits_of(weights, fixed, sums, shape), draw).astype(np.float32)
    if shape.number:
        component = _choice(made.second[:, 2 * k : 3 * k], draw)[:, None, :]
        shift, raw = (np.take_along_axis(made.second[:, i : i + k], component, axis=1)[:, 0] for i in (0, k))
        scale = np.exp(np.float32(MIDDLE) + np.float32(HALF) * np.tanh((raw - np.float32(MIDDLE)) / np.float32(HALF)))
        own = (made.linear[:, 0] + shift + scale * draw.standard_normal((d, n), dtype=np.float32)) * fixed.unit
    return own, state


def _choice(logits: Floats, draw: np.random.Generator) -> NDArray[np.int64]:
    """An entry of every column and row, in proportion to exp(logits): (columns, rows)."""
    sums = np.cumsum(np.exp(logits - logits.max(axis=1, keepdims=True)), axis=1)
    level = draw.random((len(logits), 1, logits.shape[2]), dtype=np.float32) * sums[:, -1:]
    return np.minimum((sums <= level).sum(axis=1), logits.shape[1] - 1)
