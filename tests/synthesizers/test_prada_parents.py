"""Parents of `prada`: candidates by mutual information, groups of weights, influences, and what is cut."""

import itertools

import numpy as np
import pytest

from prada_densities import FOUR, HIDDEN, VARIABLES, columns, densities, every_pair, reading, rows, some_pairs
from understudy.synthesizers.prada.likelihood import parents
from understudy.synthesizers.prada.likelihood.columns import Column, start_second
from understudy.synthesizers.prada.likelihood.parents import (
    FEW_NATS,
    candidate_parents,
    cut_inputs,
    influences,
    mutual_information,
    prune_parents,
    sources_of,
)
from understudy.synthesizers.prada.likelihood.pool import PublicRows
from understudy.synthesizers.prada.likelihood.training import shrink_groups

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
    np.testing.assert_allclose(found, plain, atol=1e-5)


def test_a_bin_without_rows_has_no_information():
    a = np.array([0, 2, 0, 2])  # nothing is in bin 1
    assert mutual_information([a, a // 2], np.ones(4))[0, 1] == pytest.approx(np.log(2))


def test_all_earlier_columns_are_candidates_if_they_are_few():
    np.testing.assert_array_equal(candidate_parents(chained(), np.ones(500), 3), every_pair(4))


def test_the_most_informative_earlier_columns_are_candidates_if_there_are_many():
    found = candidate_parents(chained(4000), np.ones(4000), 1)
    np.testing.assert_array_equal(found, [[0, 0, 0, 0], [1, 0, 0, 0], found[2], [1, 0, 0, 0]])
    assert found[2].sum() == 1 and not np.triu(found).any()


def test_candidates_are_counted_with_the_weights_of_the_rows():
    """Where a row weighs nothing, b follows a; where it counts, b follows c."""
    draw = np.random.default_rng(0)
    a, c = draw.integers(0, 2, (2, 2000))
    weights = (np.arange(2000) % 2).astype(float)
    b = np.where(weights > 0, c, a)
    found = candidate_parents([a, c, b], weights, 1)
    np.testing.assert_array_equal(found[2], [False, True, False])


def test_candidates_of_columns_with_very_many_bins_are_found_from_fewer(monkeypatch):
    """Three columns of 300 bins each, of which 32 are made; c follows b."""
    monkeypatch.setattr(parents, "MOST_CODES", 96)
    draw = np.random.default_rng(0)
    a, b = draw.integers(0, 300, (2, 6000))
    c = np.where(draw.random(6000) < 0.5, b, draw.integers(0, 300, 6000))
    np.testing.assert_array_equal(candidate_parents([a, b, c], np.ones(6000), 1)[2], [False, True, False])


def test_sources_are_the_inputs_of_the_parents():
    read, pairs = reading(), some_pairs()
    for j, found in enumerate(sources_of(pairs, read)):
        assert found.tolist() == [i for i in range(read.size) if pairs[j, read.owners[i]]]
    assert [len(found) for found in sources_of(np.zeros((7, 7), bool), read)] == [0] * 7


# Groups of weights --------------------------------------------------------------------------------------------------


def test_groups_are_shorter_by_their_amount_and_zero_below_it():
    """Three columns of six inputs: groups of several inputs and of one, and inputs that are in no group."""
    draw = np.random.default_rng(2)
    first = draw.standard_normal((3, 7, 4)).astype(np.float32)
    groups = np.array([[0, 0, 1, 1, 1, 6], [0, 1, 2, 3, 4, 5], [0, 0, 0, 6, 6, 6]], np.int32)
    amount = np.zeros((3, 7), np.float32)
    amount[:, :6] = draw.uniform(0.2, 1.5, (3, 6))
    amount[0, 1] = 100.0
    found, expected = first.copy(), first.copy()
    shrink_groups(found, groups, amount)
    for j in range(3):
        for g in range(6):
            own = np.flatnonzero(groups[j] == g)
            length = np.sqrt((first[j, own] ** 2).sum())
            expected[j, own] *= max(0.0, 1.0 - amount[j, g] / length) if length else 0.0
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found[:, -1], first[:, -1])  # constants are not penalised
    np.testing.assert_array_equal(found[2, 3:6], first[2, 3:6])  # nor is what is in no group
    assert not found[0, 2:5].any()


# Influences and pruning ---------------------------------------------------------------------------------------------


def linear_column(sources, slopes, deviation):
    """A number that is normal about a linear prediction, with this deviation."""
    first = np.zeros((len(sources) + 1, HIDDEN + 1), np.float32)
    first[:-1, HIDDEN] = np.array(slopes) / deviation
    second = start_second(HIDDEN, 3, number=True, components=1)
    nothing = np.zeros((0, 0), np.float32)
    unit = np.asarray(deviation, np.float32)
    return Column(first, second, unit, np.array(sources, np.int32), nothing, nothing[0:0].ravel())


def test_influence_is_in_deviations_and_zero_without_weights():
    made = [linear_column([], [], 1.0), linear_column([0], [0.8], 0.6), linear_column([0, 1], [0.0, 0.3], 0.9)]
    read = reading(FOUR[:3])
    x = np.random.default_rng(1).standard_normal((8000, 3)) @ np.array([[1, 0.8, 0.24], [0, 0.6, 0.18], [0, 0, 0.9]])
    x, states = x.T.astype(np.float32), np.zeros((3, 8000), np.int64)
    public = PublicRows(read.variables, x, states, x)
    found = influences(densities(made, read, components=1), public, np.random.default_rng(0))
    assert found[1, 0] == pytest.approx(0.8 / 0.6, abs=0.05)
    assert found[2, 1] == pytest.approx(0.3 / 0.9 * 0.6, abs=0.05)  # of it, the other input tells 0.8² of the variance
    assert np.abs(np.triu(found)).max() == 0 and found[2, 0] < 1e-3


def test_what_the_other_inputs_tell_is_no_influence():
    """Two inputs that are nearly the same: neither adds much, although the column follows both."""
    made = [linear_column([], [], 1.0), linear_column([0], [0.99], 0.14), linear_column([0, 1], [0.4, 0.4], 0.6)]
    read = reading(FOUR[:3])
    x = np.random.default_rng(1).standard_normal((8000, 3)) @ np.array([[1, 0.99, 0.8], [0, 0.14, 0.06], [0, 0, 0.6]])
    x, states = x.T.astype(np.float32), np.zeros((3, 8000), np.int64)
    found = influences(
        densities(made, read, components=1), PublicRows(read.variables, x, states, x), np.random.default_rng(0)
    )
    assert found[2, 0] < 0.15 and found[2, 1] < 0.15 and found[1, 0] > 3.0


def test_a_column_takes_nothing_from_what_it_does_not_read():
    found = influences(densities(columns(some_pairs())), rows(500), np.random.default_rng(0))
    assert not found[~some_pairs()].any() and found[some_pairs()].any()


def test_the_weakest_inputs_are_cut_up_to_a_share_of_the_nats():
    found = np.sqrt(np.array([[0.0, 0.0, 0.0, 0.0], [0.005, 0, 0, 0], [0.9, 0.03, 0, 0], [0.5, 0.04, 0.46, 0]]))
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
    made, pairs, read = columns(), every_pair(7), reading()
    pairs[4, 1] = pairs[4, 2] = pairs[3, 0] = False
    means = np.linspace(0.1, 0.5, read.size)
    cut = cut_inputs(made, pairs, means, read.owners)
    for j, (before, after) in enumerate(zip(made, cut, strict=True)):
        np.testing.assert_array_equal(after.sources, sources_of(pairs, read)[j])
        assert after.first.shape == (len(after.sources) + 1, before.first.shape[1])
        kept = np.isin(before.sources, after.sources)
        np.testing.assert_array_equal(after.first[:-1], before.first[:-1][kept])
        one, other = (np.append(means[each.sources], 1.0) @ each.first for each in (before, after))
        np.testing.assert_allclose(other, one, atol=1e-5)
    assert not np.allclose(cut[4].first[-1], made[4].first[-1])
    np.testing.assert_array_equal(cut[2].first, made[2].first)
    np.testing.assert_array_equal(made[4].first, columns()[4].first)  # nothing is changed in place


def test_at_the_means_of_what_is_cut_densities_stay():
    """Rows that all have the same inputs, which are their means."""
    made, pairs, read, x = columns(), every_pair(7), reading(), rows()
    pairs[6, [1, 4, 5]] = False
    same = np.repeat(x.inputs[:, :1], x.count, axis=1)
    cut = cut_inputs(made, pairs, same[:, 0].astype(float), read.owners)
    public = PublicRows(VARIABLES, x.own, x.states, same)
    one, other = (densities(each).log_density(6, public, same[each[6].sources]) for each in (made, cut))
    np.testing.assert_allclose(other, one, atol=1e-4)


def test_nothing_is_cut_of_pairs_that_stay():
    made = columns(some_pairs())
    cut = cut_inputs(made, every_pair(7), np.ones(reading().size), reading().owners)
    for before, after in zip(made, cut, strict=True):
        for one, other in zip(before, after, strict=True):
            np.testing.assert_array_equal(other, one)
