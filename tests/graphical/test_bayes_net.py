"""The fitted generator of methods that end in tables: samples against the product of tables, flat arrays and back."""

import itertools
import time

import numpy as np
import pytest

from understudy.core.randomness import Key
from understudy.encoding.bins import Bins
from understudy.encoding.consistency import to_simplex
from understudy.graphical.bayes_net import BayesNet, ConditionalTable, conditional, to_simplices
from understudy.tables.column import Column
from understudy.tables.schema import Schema


def cut(size: int, nullable: bool = False) -> Bins:
    return Bins(np.linspace(0, 1, size + 1 - nullable), nullable)


def random_table(column, parents, shape, draw, groups=()):
    return ConditionalTable(column, parents, draw.dirichlet(np.ones(shape[-1]), size=shape[:-1]), groups)


def small_net(draw) -> BayesNet:
    """b -> c, (c coarse, b) -> a; listed as a, b, c; c may be missing."""
    tables = (
        random_table("b", (), (3,), draw),
        random_table("c", ("b",), (3, 4), draw),
        random_table("a", ("c", "b"), (2, 3, 5), draw, (np.array([0, 0, 1, 1]), np.arange(3))),
    )
    return BayesNet(tables, {"a": cut(5), "b": cut(3), "c": cut(4, nullable=True)})


def test_samples_follow_the_product_of_the_tables():
    net = small_net(np.random.default_rng(0))
    n = 400_000
    codes = net.sample_codes(n, key=Key.new(0))
    p_b, p_c, p_a = (table.probabilities for table in net.tables)
    for a, b, c in itertools.product(range(5), range(3), range(4)):
        expected = p_b[b] * p_c[b, c] * p_a[c // 2, b, a]
        found = np.mean((codes["a"] == a) & (codes["b"] == b) & (codes["c"] == c))
        assert abs(found - expected) < 5 * np.sqrt(expected / n) + 1e-6


def test_levels_lie_in_their_bins_and_a_missing_one_is_nan():
    net = small_net(np.random.default_rng(1))
    codes, levels = net.sample_codes(5000, key=Key.new(1)), net.sample(5000, key=Key.new(1))
    assert list(levels) == ["a", "b", "c"]
    assert np.array_equal(np.floor(levels["a"] * 5).astype(int), codes["a"])
    assert np.array_equal(np.isnan(levels["c"]), codes["c"] == 3)


def test_a_bin_without_mass_is_never_drawn():
    sharp = np.array([[0.0, 1.0, 0.0], [0.1, 0.0, 0.9]])
    tables = (ConditionalTable("a", (), np.array([0.3, 0.7])), ConditionalTable("b", ("a",), sharp))
    codes = BayesNet(tables, {"a": cut(2), "b": cut(3)}).sample_codes(100_000, key=Key.new(0))
    assert (sharp[codes["a"], codes["b"]] > 0).all()


def test_arrays_give_back_the_same_net():
    net = small_net(np.random.default_rng(2))
    arrays = net.arrays()
    assert all(array.dtype != object and array.ndim == 1 for array in arrays.values())
    again = BayesNet.from_arrays(arrays)
    assert list(again.bins) == list(net.bins)
    for mine, theirs in zip(net.tables, again.tables, strict=True):
        assert (mine.column, mine.parents) == (theirs.column, theirs.parents)
        assert np.array_equal(mine.probabilities, theirs.probabilities)
        assert len(mine.groups) == len(theirs.groups)
    one, two = net.sample(100, key=Key.new(3)), again.sample(100, key=Key.new(3))
    assert all(np.array_equal(one[name], two[name], equal_nan=True) for name in one)


def test_a_net_of_one_column_and_no_rows():
    net = BayesNet((ConditionalTable("a", (), np.ones(1)),), {"a": cut(1)})
    assert len(BayesNet.from_arrays(net.arrays()).sample(0, key=Key.new(0))["a"]) == 0
    assert (net.sample_codes(10, key=Key.new(0))["a"] == 0).all()


def test_parents_are_given_in_the_order_of_sampling():
    schema = Schema(columns=tuple(Column(name=name, kind="boolean") for name in "abc"))
    parents = small_net(np.random.default_rng(0)).parents(schema)
    assert parents == {"b": [], "c": ["b"], "a": ["c", "b"]}
    assert list(parents) == ["b", "c", "a"]


def test_a_table_before_its_parents_is_refused():
    tables = (ConditionalTable("a", ("b",), np.full((2, 2), 0.5)), ConditionalTable("b", (), np.full(2, 0.5)))
    with pytest.raises(ValueError, match="table of 'a': expected every column once and parents first"):
        BayesNet(tables, {"a": cut(2), "b": cut(2)})


def test_a_table_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"table of 'a': expected shape \(3,\), got \(2,\)"):
        BayesNet((ConditionalTable("a", (), np.full(2, 0.5)),), {"a": cut(3)})


@pytest.mark.parametrize("bad", [[0.5, 0.6], [1.5, -0.5], [np.nan, 1.0]])
def test_what_is_no_distribution_is_refused(bad):
    with pytest.raises(ValueError, match="sum to 1"):
        ConditionalTable("a", (), np.array(bad))


def test_rows_are_projected_as_one_by_one():
    draw = np.random.default_rng(0)
    masses, totals = draw.normal(1, 3, (7, 4, 6)), draw.uniform(0.1, 9, (7, 4))
    found = to_simplices(masses, totals)
    for i, j in np.ndindex(7, 4):
        assert np.allclose(found[i, j], to_simplex(masses[i, j], float(totals[i, j])))


def test_conditionals_of_exact_counts_are_their_shares():
    counts = np.array([[3.0, 1.0], [0.0, 6.0]])
    assert np.allclose(conditional(counts), [[0.75, 0.25], [0.0, 1.0]])


def test_a_parent_bin_without_mass_gets_the_marginal():
    counts = np.array([[3.0, 1.0], [0.0, 0.0], [-4.0, 3.0]])
    assert np.allclose(conditional(counts, marginal=np.array([0.2, 0.8]))[1:], [[0.2, 0.8]] * 2)
    assert np.allclose(conditional(np.array([[3.0, 1.0], [0.0, 0.0]]))[1], [0.75, 0.25])


@pytest.mark.parametrize("masses", [np.full((2, 3), -5.0), np.array([[1e300, -1e300]]), np.zeros((0, 3))])
def test_hopeless_counts_give_a_distribution_still(masses):
    found = conditional(masses)
    assert np.isfinite(found).all() and np.allclose(found.sum(-1), 1)


@pytest.mark.slow
def test_a_million_rows_of_twenty_columns_take_seconds():
    draw = np.random.default_rng(0)
    names = [f"c{i}" for i in range(20)]
    tables = tuple(
        random_table(name, tuple(names[max(0, i - 2) : i]), (20,) * (min(i, 2) + 1), draw)
        for i, name in enumerate(names)
    )
    net = BayesNet(tables, {name: cut(20) for name in names})
    start = time.perf_counter()
    net.sample(1_000_000, key=Key.new(0))
    assert time.perf_counter() - start < 60  # seconds, on any machine; drawing rows one by one would take hours
