"""A small domain, a few graphs on it, and marginals of whole joint distributions by brute force."""

import numpy as np
import pytest

from understudy.graphical.marginals import Domain

SIZES = {"a": 2, "b": 3, "c": 2, "d": 3, "e": 2}
DOMAIN = Domain(SIZES)
TREE = [("a", "b"), ("b", "c"), ("b", "d")]
LOOP = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
WIDE = [("a", "b", "c"), ("c", "d"), ("d", "e")]
every_graph = pytest.mark.parametrize("cliques", [[], TREE, LOOP, WIDE], ids=["none", "tree", "loop", "wide"])


def project(joint, clique):
    """A marginal of an array over all columns, axes in the clique's order."""
    axes = [list(SIZES).index(name) for name in clique]
    rest = tuple(i for i in range(len(SIZES)) if i not in axes)
    return np.transpose(joint.sum(axis=rest), np.argsort(np.argsort(axes)))


def random_joint(seed):
    draw = np.random.default_rng(seed)
    return draw.dirichlet(np.full(72, 0.7)).reshape(tuple(SIZES.values()))
