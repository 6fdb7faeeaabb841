"""Parents of `prada`: candidates by mutual information, groups of weights, influences, and what is cut."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from prada_densities import FOUR, HIDDEN, LAYOUT, densities, every_pair, rows, some_pairs
from understudy.synthesizers.prada.layout import Layout, categorical, numeric
from understudy.synthesizers.prada.likelihood.parents import (
    FEW_NATS,
    INPUTS_AT_A_TIME,
    candidate_parents,
    cut_inputs,
    group_norms,
    influences,
    mutual_information,
    prune_parents,
    shrink_groups,
    sources_of,
)
from understudy.synthesizers.prada.likelihood.start import LinearStart, start_params

norms_of = jax.jit(group_norms, static_argnames="layout")
shrunk_of = jax.jit(shrink_groups, static_argnames="layout")

# Candidates ---------------------------------------------------------------------------------------------------------


def plain_information(a, b, weights):
    """Σ p_ab log(p_ab / p_a p_b), cell by cell."""
    p, total = weights / weights.sum(), 0.0
    for i, j in itertools.product(range(a.max() + 1), range(b.max() + 1)):
        both, one, other = p[(a == i) & (b == j)].sum(), p[a == i].sum(), p[b == j].sum()
        total += both * np.log(both / (one * other)) if both > 0 else 0.0
    return total


def chained(n=500, seed=0):
    """Codes of four columns: b and d follow a, more and less closely, and c is alone. Their sizes differ."""
    draw = np.random.default_rng(seed)
    a = draw.integers(0, 3, n)
    b = np.where(draw.random(n) < 0.9, a, draw.integers(0, 4, n))
    d = np.where(draw.random(n) < 0.4, a, draw.integers(0, 5, n))
    return [a, b, draw.integers(0, 2, n), d]


@pytest.mark.parametrize("even", [True, False], ids=["even weights", "uneven weights"])
def test_mutual_information_is_the_sum_over_cells(even):
    codes, draw = chained(), np.random.default_rng(1)
    weights = np.ones(500) if even else draw.exponential(size=500)
    found = mutual_information(codes, weights)
    plain = [[plain_information(one, other, weights) for other in codes] for one in codes]
    np.testing.assert_allclose(found, plain, atol=1e-10)


def test_a_bin_without_rows_has_no_information():
    a = np.array([0, 2, 0, 2])  # nothing is in bin 1
    assert mutual_information([a, a // 2], np.ones(4))[0, 1] == pytest.approx(np.log(2))


def test_all_earlier_columns_are_candidates_if_they_are_few():
    codes = dict(zip(FOUR.names, chained(), strict=True))
    np.testing.assert_array_equal(candidate_parents(codes, np.ones(500), FOUR, 3), every_pair(FOUR))


def test_the_most_informative_earlier_columns_are_candidates_if_there_are_many():
    codes = chained(4000)
    found = candidate_parents(dict(zip(FOUR.names, codes, strict=True)), np.ones(4000), FOUR, 1)
    np.testing.assert_array_equal(found, [[0, 0, 0, 0], [1, 0, 0, 0], found[2], [1, 0, 0, 0]])
    assert found[2].sum() == 1 and not np.triu(found).any()


def test_candidates_are_counted_with_the_weights_of_the_rows():
    """Where a row weighs nothing, b follows a; where it counts, b follows c."""
    draw = np.random.default_rng(0)
    a, c = draw.integers(0, 2, (2, 2000))
    weights = (np.arange(2000) % 2).astype(float)
    b = np.where(weights > 0, c, a)
    layout = Layout(tuple(categorical(name, 2) for name in "acb"))
    found = candidate_parents({"a": a, "c": c, "b": b}, weights, layout, 1)
    np.testing.assert_array_equal(found[2], [False, True, False])


def test_sources_are_the_features_of_the_parents():
    sources = sources_of(some_pairs(), LAYOUT)
    read = [[f for f in row if f >= 0] for row in sources.tolist()]
    assert read == [[], [], [1, 2, 3], [0], [1, 2, 3, 4, 5, 6]]  # b is features 1 to 3, c 4 to 6
    assert sources.shape == (5, INPUTS_AT_A_TIME)
    assert sources_of(every_pair(LAYOUT), LAYOUT).shape == (5, 2 * INPUTS_AT_A_TIME)  # the last reads ten


def test_columns_that_read_nothing_have_inputs_all_the_same():
    sources = sources_of(np.zeros((4, 4), bool), FOUR)
    assert sources.shape == (4, INPUTS_AT_A_TIME) and (sources == -1).all()


# Groups of weights --------------------------------------------------------------------------------------------------


def plain_norms(made, layout):
    """‖W_j^k‖, one input after the other."""
    squares = np.zeros((layout.columns, layout.columns))
    for j, row in enumerate(made.sources):
        for i, feature in enumerate(row):
            if feature >= 0:
                squares[j, layout.owners[feature]] += (made.first[j, i] ** 2).sum()
    return np.sqrt(squares)


@pytest.mark.parametrize("pairs", [every_pair(LAYOUT), some_pairs()], ids=["all earlier", "some"])
def test_group_norms_are_those_of_the_weights_of_a_pair(pairs):
    made = densities(pairs)
    found = np.asarray(norms_of(made.first, made.sources, LAYOUT))
    np.testing.assert_allclose(found, plain_norms(made, LAYOUT), rtol=1e-5)
    np.testing.assert_array_equal(found > 0, pairs)


def test_groups_are_shorter_by_their_amount_and_zero_below_it():
    made, draw = densities(some_pairs()), np.random.default_rng(2)
    norms = plain_norms(made, LAYOUT)
    amount = norms * draw.uniform(0.2, 0.8, norms.shape)
    amount[4, 2] = 1.01 * norms[4, 2]
    shrunk = np.asarray(shrunk_of(made.first, made.sources, LAYOUT, amount.astype(np.float32)))
    expected = np.array(made.first)
    for j, row in enumerate(made.sources):
        for i, feature in enumerate(row):
            if feature >= 0:
                k = LAYOUT.owners[feature]
                expected[j, i] *= max(0.0, 1.0 - amount[j, k] / norms[j, k])
    np.testing.assert_allclose(shrunk, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(shrunk[:, -1], made.first[:, -1])  # constants are not penalised
    assert not shrunk[4, :-1][np.isin(made.sources[4], [4, 5, 6])].any()
    left = plain_norms(made._replace(first=shrunk), LAYOUT)
    np.testing.assert_allclose(left, np.maximum(norms - amount, 0.0), atol=1e-4)


# Influences and pruning ---------------------------------------------------------------------------------------------


def test_influence_is_in_deviations_and_zero_without_weights():
    layout = Layout(tuple(numeric(f"c{i}") for i in range(3)))
    start = LinearStart(
        weights=np.array([[0, 0, 0], [0.8, 0, 0], [0, 0.3, 0]]), means=np.zeros(3), left=np.array([1, 0.6, 0.9])
    )
    sources = sources_of(every_pair(layout), layout)
    made = start_params(start, np.zeros((3, 1)), sources, layout, 6, 1, np.random.default_rng(0))
    x = np.random.default_rng(1).standard_normal((8000, 3)) @ np.array([[1, 0.8, 0.24], [0, 0.6, 0.18], [0, 0, 0.9]])
    found = np.asarray(influences(made, jnp.asarray(x.T, jnp.float32), jax.random.key(0), layout, 1))
    assert found[1, 0] == pytest.approx(0.8 / 0.6, abs=0.05) and found[2, 1] == pytest.approx(0.3 / 0.9, abs=0.05)
    assert np.abs(np.triu(found)).max() == 0 and found[2, 0] < 1e-3


def test_a_column_takes_nothing_from_what_it_does_not_read():
    found = np.asarray(influences(densities(some_pairs()), jnp.asarray(rows(500)), jax.random.key(0), LAYOUT, 3))
    assert not found[~some_pairs()].any()


def test_the_weakest_inputs_are_cut_up_to_a_share_of_the_nats():
    found = np.sqrt(np.array([[0.0, 0.0, 0.0, 0.0], [0.01, 0, 0, 0], [0.9, 0.03, 0, 0], [0.5, 0.04, 0.46, 0]]))
    kept = prune_parents(found, 0.05)
    assert kept.tolist() == [[False] * 4, [False] * 4, [True, False, False, False], [True, False, True, False]]
    more = prune_parents(found, 0.5)
    assert more[3].tolist() == [True, False, False, False]  # 0.46 and 0.04 are half of it, 0.5 is not cut
    assert np.array_equal(prune_parents(found, 0.0), found > 0)
    counted_more = prune_parents(found, 0.05, np.array([1.0, 1.0, 8.0, 1.0]))
    assert counted_more.tolist() == [[False] * 4, [False] * 4, [True, True, False, False], [True, False, True, False]]


def test_a_few_nats_are_cut_however_small_the_share():
    nats = np.array([[0.0, 0.0, 0.0], [0.9 * FEW_NATS, 0.0, 0.0], [1.1 * FEW_NATS, 0.0, 0.0]])
    np.testing.assert_array_equal(prune_parents(np.sqrt(nats), 1e-6), nats > FEW_NATS)


# What is cut --------------------------------------------------------------------------------------------------------


def test_what_is_no_parent_is_cut_and_leaves_its_mean():
    made, pairs = densities(), every_pair(LAYOUT)
    pairs[4, 1] = pairs[3, 0] = False
    means = np.linspace(0.1, 0.5, LAYOUT.features)
    cut = cut_inputs(made, pairs, means, LAYOUT)
    np.testing.assert_array_equal(np.asarray(norms_of(cut.first, cut.sources, LAYOUT)) > 0, pairs)
    for j, features in ((4, [1, 2, 3]), (3, [0])):
        gone = np.isin(made.sources[j], features)
        assert not np.isin(cut.sources[j], features).any() and (cut.sources[j][gone] == -1).all()
        assert not cut.first[j, :-1][gone].any()
    np.testing.assert_array_equal(cut.first[:3], made.first[:3])
    at_means = np.append(means, 0.0)  # what reads nothing reads a zero
    for j in range(5):
        before = np.append(at_means[made.sources[j]], 1.0) @ made.first[j]
        after = np.append(at_means[cut.sources[j]], 1.0) @ cut.first[j]
        np.testing.assert_allclose(after, before, atol=1e-5)
    assert not np.allclose(cut.first[4, -1, HIDDEN:], made.first[4, -1, HIDDEN:])


def test_nothing_is_cut_of_pairs_that_stay():
    made = densities(some_pairs())
    cut = cut_inputs(made, every_pair(LAYOUT), np.ones(LAYOUT.features), LAYOUT)
    for before, after in zip(made, cut, strict=True):
        np.testing.assert_array_equal(after, before)
