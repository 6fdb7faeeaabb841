"""Sizes of models with one pair more, against an elimination from the beginning for each."""

import itertools
import math

import numpy as np
import pytest

from understudy.graphical.junction_tree import model_size
from understudy.graphical.marginals import Domain
from understudy.graphical.model_sizes import ModelSizes


def random_graph(seed):
    draw = np.random.default_rng(seed)
    domain = Domain({f"c{i}": int(draw.integers(1, 7)) for i in range(int(draw.integers(2, 15)))})
    count = int(draw.integers(0, 2 * len(domain.names)))
    widths = draw.integers(1, 4, count).clip(max=len(domain.names))
    return domain, [tuple(map(str, draw.choice(domain.names, width, replace=False))) for width in widths]


@pytest.mark.parametrize("seed", range(30))
def test_the_size_with_a_pair_is_that_of_all_cliques_together(seed):
    domain, cliques = random_graph(seed)
    sizes = ModelSizes(domain, cliques)
    assert sizes.cells == model_size(domain, cliques)
    for i, j in itertools.combinations(range(len(domain.names)), 2):
        expected = model_size(domain, [*cliques, (domain.names[i], domain.names[j])])
        assert sizes.with_pair(i, j) == sizes.with_pair(j, i) == expected
        assert sizes.with_pair(i, j, most=expected) == expected
        assert sizes.with_pair(i, j, most=expected - 1) in (math.inf, sizes.cells)
