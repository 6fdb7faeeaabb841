"""A contrast: the mean clipped slope of rows that the densities draw themselves.

Clipping takes most from the rows that a density finds surprising, such as those of rare values. So the mean of clipped
slopes is not zero where the densities are right, and steps along it lead away from there: rare values become rarer, and
dependence weaker. Rows that are drawn from the densities have the same bias, up to what their inputs differ in. Their
mean clipped slope is subtracted from that of the private rows:

    E_rows clip(∇ log p) - E_densities clip(∇ log p),

which is zero, but for noise, where the densities are right: the clipped slope is a function whose mean is matched.

That holds if the inputs of public rows are like those of private ones. Where these could hardly be weighted to have
what was measured (`fit.LEAST_ALIKE`), private rows are contrasted with draws given their own inputs instead, inside the
mechanism (`density_training.row_slopes`). It costs a part of the signal, since the draws are as long as the slopes are.

The one rule: no private row comes here. Inputs are those of public rows, and what is drawn given them is public.

Source: Hansen (1982), "Large sample properties of generalized method of moments estimators".
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from understudy.privacy.densities import (
    Floats,
    Shape,
    Weights,
    derivatives_at,
    draw_own,
    fixed_of,
    layers,
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
            own, state = draw_own(weights, fixed, made, self.shape, self.draw)
            slopes = derivatives_at(weights, fixed, made, own, state, self.shape)
            sums = clipped_sums(slopes, fixed, np.ones((self.batch, 1), bool), self.norms)
            self.last = tuple(each / np.float32(self.batch) for each in sums)
        return self.last
