"""Simulators: the graphs are what they are called, and the rows obey the paper's structural equations."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from understudy.datasets.simulators import EQUATIONS, GRAPHS, erdos_renyi, random_weights, scale_free, simulate

every_graph = pytest.mark.parametrize("graph", GRAPHS)
every_equation = pytest.mark.parametrize("equations", EQUATIONS)


def residuals(simulation) -> dict[str, np.ndarray]:
    """The noise of every column, by the paper's equations written out row by row."""
    found = {}
    for name, parents in simulation.parents.items():
        total = np.zeros(len(simulation.frame))
        for row, values in enumerate(simulation.frame.select(parents).iter_rows()):
            sums = [sum(w * x for w, x in zip(ws, values, strict=True)) for ws in simulation.weights[name]]
            if not parents:
                total[row] = 0.0
            elif simulation.equations == "linear":
                total[row] = sums[0]
            else:
                total[row] = np.tanh(sums[0]) + np.cos(sums[1]) + np.sin(sums[2])
        found[name] = simulation.frame[name].to_numpy() - total
    return found


# Graphs -------------------------------------------------------------------------------------------------------------


@every_graph
@pytest.mark.parametrize("d", [1, 5, 10, 40])
def test_parents_come_before_children(graph, d):
    simulation = simulate(3, d, graph=graph, degree=min(2, (d - 1) // 2), seed=d)
    place = {name: i for i, name in enumerate(simulation.order)}
    assert sorted(place) == sorted(simulation.schema.names) == sorted(simulation.parents)
    assert all(place[parent] < place[child] for child, found in simulation.parents.items() for parent in found)


@pytest.mark.parametrize(("d", "degree"), [(10, 0), (10, 2), (10, 4), (9, 4), (50, 3)])
def test_an_erdos_renyi_graph_has_degree_edges_a_node(d, degree):
    edges = erdos_renyi(d, degree, np.random.default_rng(0))
    assert edges.sum() == degree * d
    assert not np.tril(edges).any()


@pytest.mark.slow
def test_every_edge_of_an_erdos_renyi_graph_is_equally_likely():
    draw = np.random.default_rng(1)
    counts = np.sum([erdos_renyi(6, 1, draw) for _ in range(3000)], axis=0)[np.triu_indices(6, k=1)]
    expected = 3000 * 6 / 15
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected * (1 - 6 / 15))


@pytest.mark.parametrize(("d", "degree"), [(10, 0), (10, 1), (10, 2), (4, 3), (50, 3)])
def test_a_scale_free_graph_gives_every_new_node_degree_children(d, degree):
    edges = scale_free(d, degree, np.random.default_rng(0))
    assert not np.tril(edges).any()
    assert edges.sum() == degree * d - degree * (degree + 1) // 2
    assert edges.sum(axis=1).tolist() == [min(degree, d - 1 - i) for i in range(d)]


@pytest.mark.slow
def test_a_scale_free_graph_prefers_those_who_have_been_preferred():
    # By hand: node 2 (the third) chooses between 0, which has one edge, and 1, which has none: 2 to 1.
    draw = np.random.default_rng(2)
    chose_first = sum(bool(scale_free(3, 1, draw)[0, 2]) for _ in range(3000))
    assert stats.binomtest(chose_first, 3000, 2 / 3).pvalue > 0.001


@pytest.mark.slow
def test_a_scale_free_graph_has_hubs_and_an_erdos_renyi_graph_has_none():
    draw = np.random.default_rng(3)
    hub = np.mean([scale_free(200, 2, draw).sum(axis=0).max() for _ in range(20)])
    widest = np.mean([erdos_renyi(200, 2, draw).sum(axis=0).max() for _ in range(20)])
    assert hub > 3 * widest


@pytest.mark.slow
def test_the_column_order_says_nothing_of_the_graph():
    places = [simulate(1, 10, seed=seed).order.index("x1") for seed in range(600)]
    assert stats.chisquare(np.bincount(places, minlength=10)).pvalue > 0.001


# Equations ----------------------------------------------------------------------------------------------------------


@every_graph
@every_equation
def test_what_the_equations_leave_is_standard_normal_noise(graph, equations):
    simulation = simulate(1500, 10, graph=graph, equations=equations, seed=5)
    noise = np.array(list(residuals(simulation).values()))  # (columns, rows)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 0.001
    assert np.abs(np.corrcoef(noise) - np.eye(10)).max() < 5 / np.sqrt(1500)


@every_equation
def test_noise_knows_nothing_of_the_parents(equations):
    simulation = simulate(1500, 10, equations=equations, seed=6)
    noise = residuals(simulation)
    for child, parents in simulation.parents.items():
        for parent in parents:
            assert abs(np.corrcoef(noise[child], simulation.frame[parent])[0, 1]) < 5 / np.sqrt(1500)


def test_least_squares_finds_the_linear_weights():
    simulation = simulate(5000, 10, graph="scale-free", equations="linear", seed=7)
    for child, parents in simulation.parents.items():
        if parents:
            x, y = simulation.frame.select(parents).to_numpy(), simulation.frame[child].to_numpy()
            found, *_ = np.linalg.lstsq(x, y, rcond=None)
            # Five standard errors of least squares with noise of variance 1.
            assert (np.abs(found - simulation.weights[child][0]) < 5 * np.sqrt(np.diag(np.linalg.inv(x.T @ x)))).all()


def test_parents_explain_most_of_the_variance_of_a_column_that_has_some():
    simulation = simulate(2000, 10, seed=8)
    noise = residuals(simulation)
    explained = {name: 1 - noise[name].var() / simulation.frame[name].to_numpy().var() for name in noise}
    assert all((explained[name] > 0.05) == bool(parents) for name, parents in simulation.parents.items())
    assert np.median([explained[name] for name, parents in simulation.parents.items() if parents]) > 0.5


def test_weights_are_uniform_in_size_with_a_fair_sign():
    weights = random_weights((20_000,), np.random.default_rng(9))
    assert stats.kstest(np.abs(weights), stats.uniform(0.5, 1.5).cdf).pvalue > 0.001
    assert stats.binomtest(int((weights > 0).sum()), 20_000).pvalue > 0.001


def test_every_term_of_the_nonlinear_equation_has_its_own_weights():
    simulation = simulate(1, 10, seed=10)
    for name, parents in simulation.parents.items():
        assert simulation.weights[name].shape == (3, len(parents))
        assert len(np.unique(np.abs(simulation.weights[name]))) == 3 * len(parents)


# The table ----------------------------------------------------------------------------------------------------------


def test_the_default_is_the_paper_s_main_setting():
    simulation = simulate(2000, seed=0)
    assert simulation.frame.shape == (2000, 10)
    assert (simulation.equations, sum(map(len, simulation.parents.values()))) == ("nonlinear", 20)


@every_graph
@every_equation
def test_the_same_seed_gives_the_same_simulation(graph, equations):
    one, two = (simulate(50, 8, graph=graph, equations=equations, seed=3) for _ in range(2))
    assert one.frame.equals(two.frame)
    assert (one.parents, one.order, one.schema) == (two.parents, two.order, two.schema)
    assert not one.frame.equals(simulate(50, 8, graph=graph, equations=equations, seed=4).frame)


def test_fewer_rows_are_the_first_of_more():
    few, many = simulate(10, seed=3), simulate(100, seed=3)
    assert few.parents == many.parents
    np.testing.assert_allclose(few.frame.to_numpy(), many.frame[:10].to_numpy(), rtol=1e-12)


def test_new_rows_come_from_the_same_network():
    simulation = simulate(100, seed=3)
    new = simulation.draw(1500, seed=4)
    assert new.columns == simulation.frame.columns
    noise = residuals(dataclasses.replace(simulation, frame=new))
    assert stats.kstest(np.concatenate(list(noise.values())), "norm").pvalue > 0.001
    assert not np.isin(new["x1"], simulation.frame["x1"]).any()


@every_equation
def test_the_schema_fits_the_rows_and_keeps_the_truth_to_itself(equations):
    simulation = simulate(500, 6, equations=equations, seed=1)
    assert simulation.schema.names == tuple(simulation.frame.columns) and not simulation.schema.order
    for column in simulation.schema:
        assert (column.kind, column.high is None) == ("continuous", equations == "linear")
        if column.high is not None:
            assert simulation.frame[column.name].is_between(column.low, column.high).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"graph": "ring"}, "graph: expected one of erdos-renyi, scale-free, got 'ring'"),
        ({"equations": "cubic"}, "equations: expected one of linear, nonlinear"),
        ({"degree": 5}, r"expected degree <= \(d - 1\) / 2"),
        ({"degree": 10, "graph": "scale-free"}, "expected degree < d = 10, got 10"),
        ({"degree": -1}, "degree: expected a whole number >= 0"),
        ({"d": 0}, "d: expected a whole number >= 1"),
        ({"n": -1}, "n: expected a whole number >= 0"),
    ],
)
def test_settings_that_make_no_network_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        simulate(**{"n": 5, "d": 10, "seed": 0, **settings})
