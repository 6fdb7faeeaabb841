"""All pair marginals at once, against the marginal of each pair."""

import itertools

import numpy as np
import pytest

from graphs import DOMAIN, every_graph, project, random_joint
from understudy.graphical.estimation import estimate
from understudy.graphical.marginals import Domain, Measured
from understudy.graphical.pair_marginals import pair_marginals


def _assert_all_pairs(model):
    pairs, singles = pair_marginals(model)
    names = model.domain.names
    starts = dict(zip(names, np.cumsum([0, *model.domain.shape(names)]), strict=False))
    at = {name: slice(starts[name], starts[name] + model.domain.sizes[name]) for name in names}
    for a, b in itertools.permutations(names, 2):
        assert pairs[at[a], at[b]] == pytest.approx(model.marginal((a, b)), abs=1e-9)
    for name in names:
        assert singles[at[name]] == pytest.approx(model.marginal((name,)), abs=1e-9)
        assert pairs[at[name], at[name]] == pytest.approx(np.diag(model.marginal((name,))), abs=1e-9)


@every_graph
def test_all_pairs_of_a_small_model_are_its_marginals(cliques):
    joint = random_joint(3)
    measured = [Measured(clique, 1000 * project(joint, clique), 1.0) for clique in [*cliques, ("a",), ("d",)]]
    _assert_all_pairs(estimate(DOMAIN, measured, rows=1000.0, iterations=30))


@pytest.mark.parametrize("seed", range(8))
def test_all_pairs_of_a_random_model_are_its_marginals(seed):
    draw = np.random.default_rng(seed)
    domain = Domain({f"c{i}": int(draw.integers(1, 5)) for i in range(9)})
    measured = []
    for _ in range(int(draw.integers(1, 11))):
        clique = tuple(str(name) for name in draw.choice(domain.names, int(draw.integers(1, 4)), replace=False))
        shares = draw.dirichlet(np.ones(domain.size(clique))).reshape(domain.shape(clique))
        measured.append(Measured(clique, 500 * shares, 3.0))
    _assert_all_pairs(estimate(domain, measured, rows=500.0, iterations=10))
