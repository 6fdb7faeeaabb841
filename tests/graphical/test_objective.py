"""The dual and its gradient against brute force over whole joint distributions and blocks."""

import itertools

import numpy as np
import pytest

from graphs import DOMAIN, SIZES, every_graph, project, random_joint
from understudy.graphical import objective
from understudy.graphical.blocks import Blocks
from understudy.graphical.junction_tree import junction_tree
from understudy.graphical.marginals import Domain, Measured
from understudy.graphical.objective import Dual
from understudy.graphical.pooling import Pool

SHRINKAGE, ROWS = 0.3, 1000.0


def counted(cliques):
    """Noisy marginals of some cliques and of two columns, and one that was counted in blocks."""
    draw, joint = np.random.default_rng(0), random_joint(0)
    found = []
    for i, clique in enumerate([*cliques, ("a",), ("d",)]):
        counts = ROWS * project(joint, clique)
        found.append(Measured(clique, counts + draw.normal(0, 5, counts.shape), 2.0 + i))
    starts = (np.array([0, 2]), np.array([0, 1, 2]))
    return [*found, Measured(("b", "d"), draw.random((2, 3)) * 300, 4.0, starts)]


def brute_force_value(pool, potentials):
    """D of given potentials, from the whole joint distribution; without blocks beside those that were counted."""
    pooled, log_joint = pool.consistent(ROWS), np.zeros(tuple(SIZES.values()))
    value = 0.0

    def spread(array, clique):
        return array.reshape([SIZES[name] if name in clique else 1 for name in SIZES])

    for name in SIZES:
        if (name,) in pooled:
            shares = pooled[(name,)][0]
            log_joint = log_joint + spread(np.log(shares / shares.sum()), (name,))
    for clique, (counts, sigma) in pooled.items():
        own = potentials[clique, 1]
        log_joint = log_joint + spread(own, clique)
        value += SHRINKAGE * sigma / (2 * ROWS) * own @ own - own @ counts.ravel() / ROWS
    for each in pool.in_blocks:
        own = potentials[each.clique, -each.counts.size]
        cells = np.repeat(own.reshape(2, 3), [2, 1], axis=0)
        log_joint = log_joint + spread(cells, each.clique)
        target = objective._agreed(each, pooled, ROWS).ravel() / ROWS
        value += SHRINKAGE * each.sigma / (2 * ROWS) * own @ own - own @ target
    return value + np.log(np.exp(log_joint).sum())


@every_graph
@pytest.mark.parametrize("small", [0, 6, 1024], ids=["all large", "some small", "all small"])
def test_the_dual_is_that_of_the_joint_distribution(cliques, small, monkeypatch):
    monkeypatch.setattr(objective, "SMALL_NODE", small)
    pool = Pool(DOMAIN, counted(cliques))
    nodes = junction_tree(DOMAIN, [*pool.consistent(ROWS), ("b", "d")])
    dual = Dual(DOMAIN, nodes, pool.consistent(ROWS), pool.in_blocks, ordered={}, rows=ROWS, shrinkage=SHRINKAGE)
    x = np.random.default_rng(1).normal(0, 0.3, dual.size)
    assert dual(x)[0] == pytest.approx(brute_force_value(pool, dual.potentials(x)))
    assert dual.vector(dual.potentials(x)) == pytest.approx(x)


@every_graph
@pytest.mark.parametrize("small", [0, 6, 1024], ids=["all large", "some small", "all small"])
def test_the_gradient_is_the_slope_of_the_dual(cliques, small, monkeypatch):
    monkeypatch.setattr(objective, "SMALL_NODE", small)
    pool = Pool(DOMAIN, counted(cliques))
    pooled, ordered = pool.consistent(ROWS), {"b": 3, "d": 3}
    nodes = junction_tree(DOMAIN, [*pooled, ("b", "d")])
    dual = Dual(DOMAIN, nodes, pooled, pool.in_blocks, ordered=ordered, rows=ROWS, shrinkage=SHRINKAGE)
    x = np.random.default_rng(1).normal(0, 0.3, dual.size)
    steps = 1e-6 * np.eye(dual.size)
    slopes = [(dual(x + step)[0] - dual(x - step)[0]) / 2e-6 for step in steps]
    assert dual(x)[1] == pytest.approx(np.array(slopes), abs=1e-7)


def block_of(cell, ordered, block):
    """The block of a cell along one axis: cells that are not ordered are blocks by themselves."""
    return ("block", cell // block) if cell < ordered else ("cell", cell)


def test_cells_have_the_potentials_of_their_blocks():
    domain = Domain({"x": 11, "y": 3, "z": 9})
    ordered, cliques = {"x": 10, "z": 9}, [("y",), ("x", "y"), ("x", "z"), ("x",)]
    blocks = Blocks(domain, cliques, ordered)
    assert {size for clique, size in blocks.potentials if clique == ("x", "z")} == {1, 2, 4}
    assert {size for clique, size in blocks.potentials if len(clique) == 1} == {1}
    potentials = np.random.default_rng(0).random(blocks.size)
    found = blocks.on_cells(potentials)
    for clique, at in blocks.cliques:
        expected = np.zeros(domain.size(clique))
        for size in (size for name, size in blocks.potentials if name == clique):
            cells = itertools.product(*(range(domain.sizes[name]) for name in clique))
            own = [
                tuple(block_of(c, ordered.get(name, 0), size) for c, name in zip(cell, clique, strict=True))
                for cell in cells
            ]
            number = {block: i for i, block in enumerate(dict.fromkeys(own))}
            values = potentials[blocks.potentials[clique, size]]
            assert len(values) == len(number)
            # Blocks are numbered in the order of their first cells.
            expected += values[[number[block] for block in own]]
        assert found[at] == pytest.approx(expected)


def test_sums_over_blocks_are_the_transpose_of_what_cells_have():
    domain = Domain({"x": 11, "y": 3, "z": 9})
    in_blocks = Measured(("x", "y"), np.zeros((3, 2)), 1.0, (np.array([0, 4, 10]), np.array([0, 1])))
    blocks = Blocks(domain, [("y",), ("x", "y"), ("x", "z")], {"x": 10, "z": 9}, [in_blocks])
    draw = np.random.default_rng(0)
    potentials, cells = draw.random(blocks.size), draw.random(blocks.cells)
    assert blocks.sums(cells) @ potentials == pytest.approx(cells @ blocks.on_cells(potentials))


def test_pooled_marginals_agree_on_rows_and_on_single_columns():
    pool = Pool(DOMAIN, [each for each in counted([("a", "b"), ("b", "c", "d"), ("a", "b")]) if not each.starts])
    pooled = pool.consistent(ROWS)
    assert set(pooled) == {("a",), ("b",), ("c",), ("d",), ("a", "b"), ("b", "c", "d")}
    for clique, (counts, _) in pooled.items():
        assert counts.sum() == pytest.approx(ROWS)
        for axis, name in enumerate(clique):
            rest = tuple(i for i in range(len(clique)) if i != axis)
            assert counts.sum(axis=rest) == pytest.approx(pooled[(name,)][0])
