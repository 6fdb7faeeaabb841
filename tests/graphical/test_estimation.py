"""Estimated models against brute force over the whole joint distribution, closed forms, and another library."""

import itertools

import numpy as np
import pytest

from graphs import DOMAIN, LOOP, SIZES, TREE, every_graph, project, random_joint
from understudy.core.randomness import Key
from understudy.encoding.bins import Bins
from understudy.graphical.estimation import estimate
from understudy.graphical.marginals import Domain, Measured
from understudy.tables.column import Column
from understudy.tables.schema import Schema


def bins_of(domain):
    return {name: Bins(np.linspace(0, 1, size + 1), False) for name, size in domain.sizes.items()}


@every_graph
def test_marginals_without_noise_are_met(cliques):
    joint = random_joint(3)
    measured = [Measured(clique, 1e4 * project(joint, clique), 1e-3) for clique in [*cliques, ("e",)]]
    fitted = estimate(DOMAIN, measured, rows=1e4, iterations=3000, shrinkage=1e-3)
    for each in measured:
        assert np.abs(fitted.marginal(each.clique) - each.counts).max() < 2.0


@every_graph
def test_any_marginal_is_that_of_the_joint_distribution(cliques):
    joint = random_joint(1)
    measured = [Measured(clique, 500 * project(joint, clique), 3.0) for clique in cliques]
    fitted = estimate(DOMAIN, measured, rows=500, iterations=50)
    whole = fitted.marginal(tuple(SIZES))
    assert whole.sum() == pytest.approx(500)
    for width in (1, 2, 3):
        for clique in itertools.permutations(SIZES, width):
            assert np.allclose(fitted.marginal(clique), project(whole, clique))


def test_columns_at_the_ends_of_a_long_chain_have_a_marginal():
    names = [f"c{i}" for i in range(100)]
    stay = np.array([[0.49, 0.01], [0.01, 0.49]])
    measured = [Measured(pair, 1e4 * stay, 1e-3) for pair in itertools.pairwise(names)]
    fitted = estimate(Domain(dict.fromkeys(names, 2)), measured, rows=1e4, iterations=2000, shrinkage=1e-4)
    expected = np.linalg.matrix_power(2 * stay, 99) / 2
    assert np.abs(fitted.marginal(("c99", "c0")) / 1e4 - expected).max() < 0.01


def test_blocks_smooth_neighbours_and_change_nothing_without_noise():
    draw = np.random.default_rng(0)
    domain = Domain({"x": 17, "y": 16, "z": 2})
    place = np.linspace(-2, 2, 17)[:, None] - np.linspace(-2, 2, 16)
    joint = np.exp(-(place**2))
    joint *= 5000 / joint.sum()
    noisy = Measured(("x", "y"), joint + draw.normal(0, 20, joint.shape), 20.0)
    rough, smooth = (estimate(domain, [noisy], rows=5000, shrinkage=1.0, ordered=o) for o in (None, {"x": 16, "y": 16}))
    errors = [np.abs(each.marginal(("x", "y")) - joint).sum() for each in (rough, smooth)]
    assert errors[1] < errors[0]
    exact = estimate(domain, [Measured(("y", "x"), joint.T, 1e-3)], rows=5000, ordered={"x": 16, "y": 16})
    assert np.abs(exact.marginal(("x", "y")) - joint).max() < 0.5


def test_a_tree_without_noise_has_the_closed_form():
    joint = random_joint(5)
    measured = [Measured(clique, 1e4 * project(joint, clique), 1e-3) for clique in TREE]
    fitted = estimate(DOMAIN, measured, rows=1e4, iterations=3000, shrinkage=1e-4)
    ab, bc, b = (project(joint, clique) for clique in (("a", "b"), ("b", "c"), ("b",)))
    expected = np.einsum("ab,bc->ac", ab / b, bc)  # P(a, c) = Σ_b P(a, b) P(b, c) / P(b)
    assert np.abs(fitted.marginal(("a", "c")) / 1e4 - expected).max() < 1e-3


def test_the_dual_s_optimum_is_the_primal_s():
    """At the minimum λ_m = (y_m - n p_m) / (c σ_m), up to a constant per marginal."""
    joint, draw = random_joint(2), np.random.default_rng(0)
    measured = []
    for clique in LOOP:
        noise = draw.normal(0, 5, DOMAIN.shape(clique))
        noise -= noise.mean(0) + noise.mean(1, keepdims=True) - noise.mean()  # single columns agree
        measured.append(Measured(clique, 200 * project(joint, clique) + noise, 5.0))
    fitted = estimate(DOMAIN, measured, rows=200, iterations=5000, shrinkage=2.0)
    for each in measured:
        clique = DOMAIN.ordered(each.clique)
        expected = (each.counts - fitted.marginal(clique)) / (2.0 * 5.0)
        gap = fitted.potentials[clique, 1].reshape(expected.shape) - expected
        assert np.abs(gap - gap.mean()).max() < 1e-3


def test_noise_within_its_deviation_leaves_columns_nearly_independent():
    draw = np.random.default_rng(0)
    singles = [Measured(("a",), np.full(2, 300.0), 0.1), Measured(("b",), np.full(3, 200.0), 0.1)]
    measured = [*singles, Measured(("a", "b"), np.full((2, 3), 100.0) + draw.normal(0, 10, (2, 3)), 10.0)]
    gaps = [
        np.abs(estimate(DOMAIN, measured, rows=600, shrinkage=s).marginal(("a", "b")) - 100).max() for s in (0.01, 30)
    ]
    assert gaps[1] < 0.5 * gaps[0]


def test_marginals_of_one_clique_are_pooled_by_precision():
    one, other = np.array([300.0, 100.0]), np.array([100.0, 300.0])
    measured = [Measured(("a",), one, 1.0), Measured(("a",), other, 1e3)]
    assert np.abs(estimate(DOMAIN, measured, rows=400).marginal(("a",)) - one).max() < 5


def test_the_order_of_a_clique_s_columns_does_not_matter():
    joint = random_joint(4)
    there, back = (
        estimate(DOMAIN, [Measured(c, 100 * project(joint, c), 2.0)], rows=100) for c in (("a", "d"), ("d", "a"))
    )
    assert np.allclose(there.marginal(("a", "d")), back.marginal(("a", "d")))


def test_a_model_can_start_from_an_earlier_one():
    joint = random_joint(6)
    measured = [Measured(c, 1000 * project(joint, c), 2.0) for c in LOOP]
    far = estimate(DOMAIN, measured, rows=1000, iterations=2000)
    near = estimate(
        DOMAIN, [*measured, Measured(("e",), np.array([400.0, 600.0]), 2.0)], rows=1000, iterations=2, start=far
    )
    assert np.abs(near.marginal(("a", "d")) - far.marginal(("a", "d"))).max() < 1.0


def test_a_new_clique_is_fitted_alone_before_the_whole_model():
    joint = random_joint(2)
    known = [Measured(clique, 1000 * project(joint, clique), 1.0) for clique in [("a", "b"), ("c",), ("d",)]]
    start = estimate(DOMAIN, known, rows=1000, iterations=3000)
    held = [*known, Measured(("c", "d"), 1000 * project(joint, ("c", "d")), 1.0)]
    fitted = estimate(DOMAIN, held, rows=1000, iterations=1, start=start, new={("d", "c"): start.marginal(("d", "c"))})
    best = estimate(DOMAIN, held, rows=1000, iterations=3000)
    assert np.abs(fitted.marginal(("c", "d")) - best.marginal(("c", "d"))).max() < 0.5
    known_by_now = {clique: best.marginal(clique) for clique in [("c", "d"), ("a", "b"), ("a",)]}
    again = estimate(DOMAIN, held, rows=1000, iterations=1, start=best, new=known_by_now)
    assert np.abs(again.marginal(tuple(SIZES)) - best.marginal(tuple(SIZES))).max() < 0.1


@pytest.mark.parametrize("counts", [[-5.0, -7.0], [0.0, 0.0], [1e9, -1e9]])
def test_counts_that_no_table_has_are_taken(counts):
    measured = [Measured(("a",), np.array(counts), 3.0), Measured(("a", "b"), np.full((2, 3), -4.0), 3.0)]
    for rows in (1.0, 1e6):
        whole = estimate(DOMAIN, measured, rows=rows).marginal(("a", "b", "e"))
        assert np.isfinite(whole).all() and whole.sum() == pytest.approx(rows)


# Drawing.


@every_graph
def test_tables_along_the_tree_draw_from_the_model(cliques):
    joint = random_joint(7)
    measured = [Measured(clique, 1e3 * project(joint, clique), 1.0) for clique in cliques]
    fitted = estimate(DOMAIN, measured, rows=1.0)
    net = fitted.to_bayesnet(bins_of(DOMAIN))
    product = np.ones(tuple(SIZES.values()))
    for table in net.tables:
        clique = (*table.parents, table.column)
        order = [clique.index(name) for name in SIZES if name in clique]
        product *= np.transpose(table.probabilities, order).reshape([SIZES[n] if n in clique else 1 for n in SIZES])
    assert np.allclose(product, fitted.marginal(tuple(SIZES)))
    codes = net.sample_codes(40_000, key=Key.new(0))
    drawn = np.zeros(tuple(SIZES.values()))
    np.add.at(drawn, tuple(codes[name] for name in SIZES), 1 / 40_000)
    assert np.abs(drawn - product).sum() / 2 < 0.03


def test_parents_list_every_edge_once_in_the_schema_s_order():
    joint = random_joint(0)
    fitted = estimate(DOMAIN, [Measured(c, 100 * project(joint, c), 1.0) for c in TREE], rows=100)
    schema = Schema(columns=tuple(Column(name=name, kind="boolean") for name in "dcbae"))
    assert fitted.to_bayesnet(bins_of(DOMAIN)).parents(schema) == {
        "d": [],
        "c": [],
        "b": ["d", "c"],
        "a": ["b"],
        "e": [],
    }


# Another library.


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cliques", [TREE, LOOP], ids=["tree", "loop"])
def test_with_hardly_any_shrinkage_it_is_private_pgm(cliques):
    mbi = pytest.importorskip("mbi")
    draw = np.random.default_rng(0)
    joint = random_joint(8)
    noisy = {c: 1000 * project(joint, c) + draw.normal(0, 10, DOMAIN.shape(c)) for c in cliques}
    ours = estimate(
        DOMAIN, [Measured(c, y, 10.0) for c, y in noisy.items()], rows=1000, iterations=20000, shrinkage=0.01
    )
    domain = mbi.Domain(list(SIZES), list(SIZES.values()))
    measurements = [mbi.LinearMeasurement(y.ravel(), c, stddev=10.0) for c, y in noisy.items()]
    theirs = mbi.estimation.MirrorDescent().estimate(domain, measurements, known_total=1000.0, iters=3000)
    for clique in cliques:
        assert np.abs(ours.marginal(clique) - np.asarray(theirs.project(clique).values)).max() < 2.0


# Marginals counted in blocks.


def test_a_marginal_in_blocks_is_fitted_and_the_rest_stays_as_independent_as_it_can():
    draw = np.random.default_rng(0)
    domain = Domain({"a": 4, "b": 6, "c": 3})
    singles = {name: draw.dirichlet(np.full(size, 5.0)) for name, size in domain.sizes.items()}
    starts = (np.array([0, 2]), np.array([0, 1, 4]), np.array([0, 1, 2]))
    shares = np.einsum("i,j,k->ijk", *singles.values())
    tilt = np.repeat(np.repeat(draw.uniform(0.5, 2.0, (2, 3, 3)), [2, 2], 0), [1, 3, 2], 1)
    true = shares * tilt  # q times potentials of blocks: a member of the model's family
    true /= true.sum()
    blocks = np.add.reduceat(np.add.reduceat(true, starts[0], axis=0), starts[1], axis=1)
    others = {"a": (1, 2), "b": (0, 2), "c": (0, 1)}
    own = [Measured((name,), 1e4 * true.sum(axis=axes), 0.5) for name, axes in others.items()]
    coarse = Measured(("a", "b", "c"), 1e4 * blocks, 0.5, starts)
    fitted = estimate(domain, [*own, coarse], rows=1e4, shrinkage=1e-6, iterations=2000)
    found = fitted.marginal(("a", "b", "c")) / 1e4
    np.testing.assert_allclose(
        np.add.reduceat(np.add.reduceat(found, starts[0], axis=0), starts[1], axis=1), blocks, atol=2e-4
    )
    np.testing.assert_allclose(found.sum(axis=(1, 2)), true.sum(axis=(1, 2)), atol=2e-4)
    inside = found / np.einsum("i,j,k->ijk", found.sum((1, 2)), found.sum((0, 2)), found.sum((0, 1)))
    assert np.ptp(np.log(inside[:2, 1:4, 0])) < 0.2 * np.ptp(np.log(inside))
