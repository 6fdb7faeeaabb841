"""Selections: no unit moves a score by more than the mechanism declares, and the best is selected as often as stated.

The exact scores are attacked by brute force: every table here is compared with neighbours that have up to m rows more,
with codes inside, outside and far outside the bins, and with NaN.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ledgers import assert_is_noise, both_keys, ledger_for, locked, tried_hard
from understudy.core.randomness import Key
from understudy.privacy import selection
from understudy.privacy.exact_counts import ExactCodes
from understudy.privacy.selection import (
    FINE_POINT,
    DependenceCandidate,
    MarginalError,
    dependence,
    l2_sensitivity,
    noisy_marginal_errors,
    select_dependence,
    select_marginal,
)

SIZES = {"a": 3, "b": 2, "c": 4}
COARSE = {"a": np.array([0, 1, 1]), "b": np.array([0, 1]), "c": np.array([1, 0, 0, 1])}
CLIQUES = [("a",), ("a", "b"), ("c", "b"), ("a", "b", "c")]
ODD = [-1.0, -3.0, 4.0, 2.0**62, -(2.0**62), 1e300, float("nan"), float("inf"), -float("inf"), 0.5]
code = st.one_of(st.integers(0, 3).map(float), st.sampled_from(ODD))
tables = st.lists(st.tuples(code, code, code), max_size=8)
seeds = st.integers(0, 2**32 - 1)


def rows_of(table, m=1):
    a, b, c = np.array(table, np.float64).reshape(-1, 3).T
    return locked(m, a=a, b=b, c=c)


def neighbours(data, table, m):
    """A table and the same with up to m rows more, of which all may be alike."""
    row = st.tuples(code, code, code)
    unit = data.draw(st.one_of(st.lists(row, max_size=m), row.map(lambda one: [one] * m)))
    return rows_of(table, m), rows_of([*table, *unit], m)


def random_errors(seed, *, coarse):
    """Descriptions that owe nothing to any table."""
    draw = np.random.default_rng(seed)
    found = []
    for clique in CLIQUES:
        groups = tuple(COARSE[name] for name in clique) if coarse else ()
        shape = tuple(2 if coarse else SIZES[name] for name in clique)
        estimate = draw.exponential(2.0, shape) * draw.integers(0, 2, shape)
        weights = draw.uniform(0, 16, shape) if draw.random() < 0.7 else None
        how = {"factor": float(draw.choice([0.0, 0.5, 1.0, 3.0])), "penalty": float(draw.normal(0, 5))}
        found.append(MarginalError(columns=clique, estimate=estimate, weights=weights, groups=groups, **how))
    return found


# Errors of marginals.


@tried_hard
@given(tables, st.integers(1, 4), seeds, st.booleans(), st.data())
def test_no_unit_moves_an_error_by_more_than_its_sensitivity(table, m, seed, coarse, data):
    errors = random_errors(seed, coarse=coarse)
    before, after = (selection._exact_errors(rows, errors) for rows in neighbours(data, table, m))
    assert np.isfinite(before).all()
    assert (np.abs(after - before) <= [m * error.sensitivity + 1e-9 for error in errors]).all()
    assert np.linalg.norm(after - before) <= m * l2_sensitivity(errors) + 1e-9


@pytest.mark.parametrize("coarse", [False, True], ids=["bins", "blocks"])
def test_the_sensitivity_of_an_error_is_reached_so_it_is_not_loose_either(coarse):
    draw, reached = np.random.default_rng(0), 0.0
    for seed in range(20):
        table = [tuple(draw.integers(0, 2, 3).tolist()) for _ in range(int(draw.integers(0, 6)))]
        errors = random_errors(seed, coarse=coarse)
        most = np.array([max(error.sensitivity, 1e-9) for error in errors])
        before = selection._exact_errors(rows_of(table), errors)
        for row in itertools.product(*(range(size) for size in SIZES.values())):
            moved = np.abs(selection._exact_errors(rows_of([*table, row]), errors) - before)
            reached = max(reached, float((moved / most).max()))
    assert 0.999 < reached <= 1 + 1e-9


def test_the_l2_sensitivity_of_equal_weights_is_reached():
    errors = [MarginalError(columns=clique, estimate=np.zeros([SIZES[n] for n in clique])) for clique in CLIQUES]
    before, after = (selection._exact_errors(rows_of(table), errors) for table in ([], [(0, 0, 0)]))
    assert np.linalg.norm(after - before) == pytest.approx(l2_sensitivity(errors)) == 2.0


def test_scores_are_scaled_weighted_errors_less_penalties():
    table = [(0, 1, 3), (2, 1, 3), (2, 0, 0)]
    weights = np.array([[1.0, 2.0], [0.0, 5.0], [3.0, 4.0]])
    estimate = np.full((3, 2), 0.5)
    error = MarginalError(columns=("a", "b"), estimate=estimate, weights=weights, factor=2.0, penalty=1.5)
    exact = np.array([[0, 1], [0, 0], [1, 1]])
    by_hand = 2.0 * (np.sum(weights * np.abs(exact - estimate)) - 1.5)
    assert selection._exact_errors(rows_of(table), [error]).tolist() == [by_hand]


def select(rows, errors, *, noise=1e-3, key=None, ledger=None):
    ledger = ledger or ledger_for("exponential", noise=noise)
    return select_marginal(rows, errors, what="", planned="it", ledger=ledger, key=key or Key.new(0))


@pytest.mark.parametrize("wrong", range(3))
def test_the_most_wrong_candidate_is_selected_if_there_is_hardly_any_noise(wrong):
    draw = np.random.default_rng(0)
    rows = locked(**{name: draw.integers(0, size, 400) for name, size in SIZES.items()})
    exact = [ExactCodes(rows._exact).marginal(clique, [SIZES[n] for n in clique]) for clique in CLIQUES[1:]]
    errors = [
        MarginalError(columns=clique, estimate=each + 9.0 * (i == wrong))
        for i, (clique, each) in enumerate(zip(CLIQUES[1:], exact, strict=True))
    ]
    assert select(rows, errors) == wrong


@both_keys
@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 3])
def test_a_selection_is_a_draw_from_the_exponential_mechanism(key, m):
    n, noise, penalties = 2000, 1.2, np.array([0.0, 1.0, 2.0, -1.0, 1.9])
    errors = [MarginalError(columns=("a",), estimate=np.zeros(3), factor=0.5, penalty=p) for p in penalties]
    ledger, rows = ledger_for("exponential", noise=noise, times=n), rows_of([(0, 0, 0)], m)
    selected = [select(rows, errors, ledger=ledger, key=key.child(str(i))) for i in range(n)]
    odds = np.exp(-0.5 * penalties / (0.5 * m * noise))
    observed = np.bincount(selected, minlength=len(penalties))
    assert stats.chisquare(observed, n * odds / odds.sum()).pvalue > 1e-6


GOOD: dict[str, Any] = {"columns": ("a",), "estimate": np.zeros(3)}
WRONG = {
    "negative weights": {"weights": np.array([1.0, -1.0, 1.0])},
    "weights that are no numbers": {"weights": np.array([1.0, np.nan, 1.0])},
    "weights of another shape": {"weights": np.ones(2)},
    "an infinite estimate": {"estimate": np.array([np.inf, 0.0, 0.0])},
    "no cells": {"estimate": np.zeros(0)},
    "a negative factor": {"factor": -1.0},
    "an infinite factor": {"factor": math.inf},
    "a penalty that is no number": {"penalty": math.nan},
    "another number of axes": {"estimate": np.zeros((3, 2))},
    "groups beyond the cells": {"groups": (np.array([0, 3]),)},
    "no columns": {"columns": (), "estimate": np.array(1.0)},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_descriptions_without_a_bounded_sensitivity_are_refused(wrong):
    with pytest.raises(ValueError, match="MarginalError"):
        MarginalError(**{**GOOD, **wrong})


def test_estimates_in_single_precision_neither_raise_nor_warn():
    assert MarginalError(columns=("a",), estimate=np.zeros(3, np.float32)).sensitivity == 1.0  # pyright: ignore


@pytest.mark.parametrize("run", [select_marginal, select_dependence, noisy_marginal_errors])
def test_no_candidates_are_refused_before_anything_is_charged(run):
    ledger = ledger_for("exponential")
    with pytest.raises(ValueError, match="at least one candidate"):
        run(rows_of([]), [], what="", planned="it", ledger=ledger, key=Key.new(0))
    assert ledger.left("it") == 1


# All errors at once.


def release(rows, errors, *, noise=1e-3, key=None, **how):
    return noisy_marginal_errors(
        rows, errors, what="", planned="it", ledger=ledger_for(noise=noise), key=key or Key.new(0), **how
    )


@tried_hard
@given(tables, st.integers(1, 4), seeds, st.booleans(), st.data())
def test_no_unit_moves_released_errors_by_more_than_was_charged_after_rounding(table, m, seed, coarse, data):
    errors = random_errors(seed, coarse=coarse)
    without, with_unit = neighbours(data, table, m)
    # The same noise twice, so that the difference is that of the whole numbers.
    change = release(with_unit, errors, least_sensitivity=0.5) - release(without, errors, least_sensitivity=0.5)
    charged = l2_sensitivity(errors, least_sensitivity=0.5)
    steps = change * FINE_POINT / charged
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-2)
    assert np.linalg.norm(np.rint(steps)) <= m * FINE_POINT * (1 + 1e-12)


def test_without_shrinking_before_rounding_scores_would_move_by_more():
    # Penalties put 10^4 scores of weight 0 just below or above a half step: rounding moves each by a step, in the same
    # direction in which a row moves the only score that it can move.
    count, step = 10_000, 1.0 / FINE_POINT
    nothing = {"columns": ("a",), "estimate": np.zeros(3), "weights": np.zeros(3)}
    mover = MarginalError(columns=("a",), estimate=np.zeros(3))

    def released(side, table):
        still = [MarginalError(**nothing, penalty=-0.5 * step * side)] * (count - 1)
        return release(rows_of(table), [mover, *still])

    change = released(1.001, [(0, 0, 0)]) - released(0.999, [])
    assert np.linalg.norm(change) <= 1.0


@both_keys
@pytest.mark.parametrize(("m", "factor"), [(1, 1.0), (3, 40.0)])
def test_every_error_gets_the_noise_that_was_charged(key, m, factor):
    errors = [MarginalError(columns=("a",), estimate=np.zeros(3), factor=factor)] * 1500
    drawn = release(rows_of([(0, 0, 0)], m), errors, noise=2.5, key=key)
    assert_is_noise(drawn - factor, 2.5 * m * factor * math.sqrt(1500))


def test_errors_without_any_weight_are_released_with_the_noise_of_the_least_sensitivity():
    errors = [MarginalError(columns=("a",), estimate=np.zeros(3), weights=np.zeros(3))]
    assert l2_sensitivity(errors, least_sensitivity=0.5) == 0.5
    assert np.isfinite(release(rows_of([(0, 0, 0)]), errors, least_sensitivity=0.5)).all()
    assert np.isfinite(release(rows_of([(0, 0, 0)]), errors)).all()


# Dependence.


def changes(counts, across: Any = 1.0, along: Any = 1.0):
    """What one more row, in each cell, does to the dependence, and what the proof allows it to do."""
    n = counts.sum()
    before = dependence(counts, across, along)
    for a, b in np.ndindex(counts.shape):
        more = counts.copy()
        more[a, b] += 1
        p, q = (counts.sum(1)[a] / n, counts.sum(0)[b] / n) if n else (0.0, 0.0)
        yield abs(dependence(more, across, along) - before), 2 * n / (n + 1) * (1 - p) * (1 - q)


@pytest.mark.parametrize(("shape", "most"), [((2, 2), 5), ((2, 3), 2), ((3, 3), 1), ((2, 4), 1), ((1, 3), 3)])
def test_no_row_added_or_removed_moves_the_dependence_by_more_than_proved(shape, most):
    # Every table with cells of 0 to `most`, every cell a row may come to: removing it is the same pair the other way.
    for flat in itertools.product(range(most + 1), repeat=math.prod(shape)):
        for change, allowed in changes(np.array(flat, float).reshape(shape)):
            assert change <= allowed + 1e-9 <= 2.0 + 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_weights_move_the_dependence_by_no_more_than_the_largest_of_them(seed):
    draw = np.random.default_rng(seed)
    across, along = draw.uniform(0, 4, 3), draw.uniform(0, 4, 4)
    for counts in (draw.integers(0, 9, (3, 4)), draw.integers(0, 2, (3, 4)), np.zeros((3, 4))):
        for change, allowed in changes(counts.astype(float), across, along):
            assert change <= allowed * across.max() * along.max() + 1e-9


def test_the_proved_sensitivity_of_dependence_is_nearly_reached():
    assert max(change for change, _ in changes(np.diag([60.0, 0.0]))) > 0.98 * 2.0 - 0.01


def test_large_random_tables_do_not_break_the_bound():
    draw = np.random.default_rng(0)
    for _ in range(60):
        counts = draw.poisson(draw.gamma(0.3, 20, (4, 5))).astype(float)
        assert all(change <= allowed + 1e-6 for change, allowed in changes(counts))


def test_dependence_is_that_of_the_definition():
    draw = np.random.default_rng(1)
    x, y = draw.integers(0, 3, 50), draw.integers(0, 2, 50)
    joint = np.array([[np.mean((x == i) & (y == j)) for j in range(2)] for i in range(3)])
    distance = 0.5 * np.abs(joint - np.outer(joint.sum(1), joint.sum(0))).sum()
    assert dependence(joint * 50) == pytest.approx(50 * distance)


def random_candidates(seed):
    draw = np.random.default_rng(seed)
    found = []
    for columns, coarse in itertools.product([("a",), ("a", "b"), ("c", "a"), ("b", "c", "a")], [False, True]):
        groups = tuple(COARSE[name] if coarse else np.arange(SIZES[name]) for name in columns)
        shape = tuple(int(group.max()) + 1 for group in groups)
        across, along = draw.uniform(0, 4, math.prod(shape[:-1])), draw.uniform(0, 4, shape[-1])
        offset = float(draw.normal(0, 3))
        found.append(
            DependenceCandidate(columns=columns, groups=groups, shape=shape, across=across, along=along, offset=offset)
        )
    return found


@tried_hard
@given(tables, st.integers(1, 4), seeds, st.data())
def test_no_unit_moves_a_dependence_by_more_than_its_sensitivity(table, m, seed, data):
    candidates = random_candidates(seed)
    before, after = (selection._exact_dependences(rows, candidates) for rows in neighbours(data, table, m))
    assert (np.abs(after - before) <= [m * candidate.sensitivity + 1e-9 for candidate in candidates]).all()


def test_the_weights_of_parents_lie_in_the_order_of_their_codes():
    rows = rows_of([(0, 0, 1), (2, 1, 3), (2, 1, 3), (1, 0, 0)])
    groups = tuple(np.arange(SIZES[name]) for name in "abc")
    across, along = np.arange(6.0), np.ones(4)
    candidate = DependenceCandidate(columns=("a", "b", "c"), groups=groups, shape=(3, 2, 4), across=across, along=along)
    table = np.zeros((6, 4))
    for a, b, c in [(0, 0, 1), (2, 1, 3), (2, 1, 3), (1, 0, 0)]:
        table[2 * a + b, c] += 1
    assert selection._exact_dependences(rows, [candidate]).tolist() == [dependence(table, across, along)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"across": np.ones(3)},
        {"along": np.ones(3)},
        {"along": -np.ones(2)},
        {"across": np.full(2, np.inf)},
        {"offset": math.nan},
        {"groups": (np.array([0, 2]), np.array([0, 1]))},
        {"groups": (np.array([0, 1]),)},
    ],
)
def test_dependences_without_a_bounded_sensitivity_are_refused(wrong):
    good: dict[str, Any] = {"columns": ("a", "b"), "shape": (2, 2), "across": np.ones(2), "along": np.ones(2)}
    good["groups"] = (np.arange(2), np.arange(2))
    with pytest.raises(ValueError, match="DependenceCandidate"):
        DependenceCandidate(**{**good, **wrong})


def test_the_highest_dependence_is_selected_if_there_is_hardly_any_noise():
    draw = np.random.default_rng(0)
    a = draw.integers(0, 3, 300)
    rows = locked(a=a, b=draw.integers(0, 2, 300), c=(a + (draw.random(300) < 0.1)) % 3)
    candidates = [
        DependenceCandidate(
            columns=(parent, "c"),
            groups=(np.arange(SIZES[parent]), np.arange(4)),
            shape=(SIZES[parent], 4),
            across=np.ones(SIZES[parent]),
            along=np.ones(4),
        )
        for parent in "ab"
    ]
    how = {"what": "", "planned": "it", "key": Key.new(0)}
    for order, best in ((candidates, 0), (candidates[::-1], 1)):
        assert select_dependence(rows, order, ledger=ledger_for("exponential"), **how) == best
