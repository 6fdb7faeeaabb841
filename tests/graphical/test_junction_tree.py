"""Junction trees: their defining properties on random graphs, and message passing against brute force."""

import itertools

import numpy as np
import pytest

from graphs import DOMAIN, SIZES, TREE, every_graph, project
from understudy.graphical.junction_tree import junction_tree, megabytes, model_size
from understudy.graphical.marginals import Domain
from understudy.graphical.messages import MessagePasser


@pytest.mark.parametrize("seed", range(30))
def test_every_clique_is_held_and_every_column_s_nodes_are_connected(seed):
    draw = np.random.default_rng(seed)
    names = list("abcdefgh")
    domain = Domain({name: int(draw.integers(2, 5)) for name in names})
    cliques = [tuple(draw.choice(names, draw.integers(1, 4), replace=False)) for _ in range(draw.integers(0, 9))]
    nodes = junction_tree(domain, cliques)
    assert {name for node in nodes for name in node.clique} == set(names)
    assert all(any(set(clique) <= set(node.clique) for node in nodes) for clique in cliques)
    assert [node.parent for node in nodes].count(-1) == 1 and nodes[0].parent == -1
    seen = set()
    for i, node in enumerate(nodes):
        assert node.parent < i
        shared = set(node.clique) & seen
        assert set(node.separator) == shared  # the running intersection property
        assert i == 0 or shared <= set(nodes[node.parent].clique)
        seen |= set(node.clique)
    assert model_size(domain, cliques) == sum(domain.size(node.clique) for node in nodes)


def test_the_size_of_a_model_is_known_beforehand():
    wide = Domain({f"c{i}": 100 for i in range(60)})
    assert model_size(wide, [(f"c{i}", f"c{i + 1}") for i in range(59)]) == 59 * 100**2
    everything = list(itertools.combinations(wide.names, 2))
    assert model_size(wide, everything) == 100**60  # stated, not built
    assert megabytes(2**17) == 1.0


@every_graph
def test_messages_give_what_brute_force_does(cliques):
    nodes = junction_tree(DOMAIN, cliques)
    draw = np.random.default_rng(0)
    potentials = [draw.normal(0, 3, DOMAIN.shape(node.clique)) for node in nodes]
    log_joint = np.zeros(tuple(SIZES.values()))
    for node, potential in zip(nodes, potentials, strict=True):
        log_joint += potential.reshape([SIZES[name] if name in node.clique else 1 for name in SIZES])
    joint = np.exp(log_joint)
    marginals, conditionals, log_z = MessagePasser(DOMAIN, nodes).run([each.copy() for each in potentials])
    assert log_z == pytest.approx(np.log(joint.sum()))
    joint /= joint.sum()
    for node, marginal, conditional in zip(nodes, marginals, conditionals, strict=True):
        assert np.allclose(marginal, project(joint, node.clique))
        residual = tuple(i for i, name in enumerate(node.clique) if name in node.residual)
        assert np.allclose(conditional.sum(axis=residual), 1.0)


def test_potentials_far_apart_neither_overflow_nor_vanish():
    nodes = junction_tree(DOMAIN, TREE)
    potentials = [np.random.default_rng(0).normal(0, 1e5, DOMAIN.shape(node.clique)) for node in nodes]
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        marginals, _, log_z = MessagePasser(DOMAIN, nodes).run(potentials)
    assert np.isfinite(log_z) and all(np.isclose(each.sum(), 1.0) for each in marginals)
