"""Distribution functions of whole numbers give the same interval however many numbers are read at once."""

import numpy as np
import pytest

from understudy.privacy.interpolation import MANY
from understudy.privacy.piecewise import MOST_WHOLE, Distribution


@pytest.mark.parametrize("span", [100, MANY - 10, 2 * MANY, MOST_WHOLE, 4 * MOST_WHOLE])
def test_many_whole_numbers_have_the_intervals_that_few_have(span):
    rng = np.random.default_rng(span)
    cdf = np.concatenate([[0.0], np.sort(rng.random(30)), [1.0]])
    distribution = Distribution(np.linspace(-0.5, span + 0.5, 32).round() - 0.5, cdf, integer=True)
    x = rng.integers(-5, span + 5, MANY + 100).astype(float)
    x[::97] = np.nan
    below, above = distribution.interval(x)
    for part in np.array_split(np.arange(len(x)), 3):
        few_below, few_above = distribution.interval(x[part])
        np.testing.assert_array_equal(below[part], few_below)
        np.testing.assert_array_equal(above[part], few_above)
