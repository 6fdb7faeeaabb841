"""Structure: edges are counted as they should be, in empty graphs too."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from conftest import examples
from understudy.datasets import EXAMPLE_PARENTS
from understudy.evaluation.structure import compare

NAMES = "abcde"
graphs = st.builds(
    lambda chosen: {child: [parent for parent in NAMES if (parent, child) in chosen] for child in NAMES},
    st.sets(st.sampled_from(list(itertools.combinations(NAMES, 2)))),
)
turned = st.builds(
    lambda graph, turn: {
        child: sorted({p for p in graph[child] if p not in turn} | {o for o in turn if child in graph[o]})
        for child in NAMES
    },
    graphs,
    st.sets(st.sampled_from(NAMES)),
)


def matrix(graph):
    return [parent in graph.get(child, ()) for parent, child in itertools.permutations(NAMES, 2)]


def test_the_true_graph_is_perfect():
    found = compare(EXAMPLE_PARENTS, EXAMPLE_PARENTS)
    assert (found.precision, found.recall, found.f1, found.skeleton_f1, found.hamming) == (1, 1, 1, 1, 0)


@examples(20)
@given(learned=graphs, truth=graphs)
def test_ratios_are_those_of_scikit_learn_on_the_adjacency_matrix(learned, truth):
    found, y, z = compare(learned, truth), matrix(truth), matrix(learned)
    empty: Any = 1.0  # a number is as good as a word here, but for scikit-learn's types
    assert found.precision == pytest.approx(metrics.precision_score(y, z, zero_division=empty))
    assert found.recall == pytest.approx(metrics.recall_score(y, z, zero_division=empty))
    assert found.f1 == pytest.approx(metrics.f1_score(y, z, zero_division=empty))
    assert found.hamming == sum(a != b for a, b in zip(y, z, strict=True))  # one order: nothing is turned round
    assert (found.learned, found.true) == (sum(z), sum(y))


@examples(20)
@given(learned=turned, truth=turned)
def test_the_hamming_distance_is_a_symmetric_count_of_pairs(learned, truth):
    pairs = itertools.combinations(NAMES, 2)
    differ = sum(((a in learned[b]) != (a in truth[b])) or ((b in learned[a]) != (b in truth[a])) for a, b in pairs)
    assert compare(learned, truth).hamming == compare(truth, learned).hamming == differ


def test_a_turned_edge_counts_once_and_keeps_the_skeleton():
    found = compare({"a": ["b"]}, {"b": ["a"]})
    assert (found.precision, found.recall, found.f1, found.skeleton_f1, found.hamming) == (0, 0, 0, 1, 1)


def test_two_empty_graphs_agree():
    found = compare({}, {"a": [], "b": []})
    assert (found.precision, found.recall, found.f1, found.skeleton_f1, found.hamming) == (1, 1, 1, 1, 0)


def test_an_empty_graph_claims_nothing_wrong_and_finds_nothing():
    found = compare({"a": [], "b": []}, {"a": [], "b": ["a"]})
    assert (found.precision, found.recall, found.f1, found.hamming) == (1, 0, 0, 1)


def test_where_there_is_no_edge_none_is_missed():
    found = compare({"b": ["a"]}, {"a": [], "b": []})
    assert (found.precision, found.recall, found.f1, found.hamming) == (0, 1, 0, 1)


def test_a_stranger_and_a_loop_are_refused():
    with pytest.raises(ValueError, match="learned: expected columns of the true graph, got 'c'"):
        compare({"a": ["c"]}, {"a": [], "b": ["a"]})
    with pytest.raises(ValueError, match="truth: expected no column to be its own parent, got 'a'"):
        compare({}, {"a": ["a"]})
