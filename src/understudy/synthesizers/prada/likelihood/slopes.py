"""The slope of a part's log density by its weights: what distillation follows.

The derivatives are those of privacy/densities.py, which private rows meet in the same form.

The one rule: rows are public.
"""

from typing import NamedTuple

import numpy as np

from understudy.privacy.densities import Fixed, Floats, Shape, Weights, derivatives, slopes_of


class Learned(NamedTuple):
    """What a distillation trains, or the slope by it."""

    first: Floats
    second: Floats
    places: Floats
    bias: Floats


def slope(weights: Weights, fixed: Fixed, x: Floats, shape: Shape) -> Learned:
    """The slope of the mean over rows of the summed log densities.

    Args:
        x: What the part reads of public rows, as `derivatives` reads them.
    """
    made, part = derivatives(weights, fixed, x, shape), np.float32(1.0 / len(x))
    first, second = slopes_of(made, fixed)
    places = bias = np.zeros(0, np.float32)
    if shape.rank:
        places, bias = made.by_logits @ made.sums.transpose(0, 2, 1), made.by_logits.sum(axis=2)
    return Learned(*(part * each for each in (first, second, places, bias)))
