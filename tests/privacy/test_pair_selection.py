"""Selection among all pairs at once, against the same scores computed one by one and against brute force."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ledgers import both_keys, ledger_for, locked, tried_hard
from understudy.core.randomness import Key
from understudy.privacy import pair_counts, pair_selection, selection
from understudy.privacy.exact_counts import Marginal, exact_marginals
from understudy.privacy.pair_selection import PairErrors, PairSelection
from understudy.privacy.selection import MarginalError

NAMES, SIZES = ("a", "b", "c"), (2, 3, 4)
STARTS = np.cumsum([0, *SIZES])
code = st.integers(-1, 4)
tables = st.lists(st.tuples(code, code, code), max_size=12)
seeds = st.integers(0, 10_000)


def rows_of(table, m=1):
    columns = np.array(table, np.float64).reshape(-1, 3).T
    return locked(m, **dict(zip(NAMES, columns, strict=True)))


def random_errors(seed, *, independent=False) -> PairErrors:
    """A description that owes nothing to any table."""
    draw, bins = np.random.default_rng(seed), sum(SIZES)
    pairs, factors = draw.exponential(2.0, (bins, bins)), draw.choice([0.5, 1.0, 3.0], (3, 3))
    return PairErrors(
        singles=draw.exponential(2.0, bins),
        pairs=None if independent else pairs + pairs.T,
        rows=7.0,
        weights=draw.uniform(0, 4, bins),
        factors=factors + factors.T,
        penalties=np.full((3, 3), draw.normal(0, 5)),
    )


def one_by_one(errors: PairErrors) -> dict[tuple[int, int], MarginalError]:
    """The same scores, described one by one."""
    at = [slice(*ends) for ends in itertools.pairwise(STARTS.tolist())]
    found = {}
    for i, j in itertools.combinations_with_replacement(range(3), 2):
        how = {"factor": float(errors.factors[i, j]), "penalty": float(errors.penalties[i, j])}
        if i == j:
            estimate, weights, columns = errors.singles[at[i]], errors.weights[at[i]], (NAMES[i],)
        else:
            product = np.outer(errors.singles[at[i]], errors.singles[at[j]]) / errors.rows
            estimate = product if errors.pairs is None else errors.pairs[at[i], at[j]]
            weights, columns = np.outer(errors.weights[at[i]], errors.weights[at[j]]), (NAMES[i], NAMES[j])
        found[i, j] = MarginalError(columns=columns, estimate=estimate, weights=weights, **how)  # pyright: ignore[reportArgumentType]
    return found


def scores(rows, errors):
    chooser = PairSelection(rows, NAMES, SIZES)
    chooser.compare(errors)
    return chooser._score(errors)


@pytest.mark.parametrize(
    ("together", "strip"), [(0, 4), (10**4, 4), (10**4, 10**6)], ids=["one by one", "in strips", "all together"]
)
@tried_hard
@given(table=tables, seed=seeds, independent=st.booleans())
def test_scores_are_those_of_marginals_one_by_one(together, strip, table, seed, independent):
    errors, rows = random_errors(seed, independent=independent), rows_of(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_counts, "MOST_TOGETHER", together)
        patch.setattr(pair_selection, "STRIP", strip)
        patch.setattr(pair_counts, "ROWS_AT_ONCE", 5)
        found = scores(rows, errors)
    expected = one_by_one(errors)
    exact = selection._exact_errors(rows, list(expected.values()))
    assert [found[pair] for pair in expected] == pytest.approx(exact.tolist(), abs=1e-9)
    assert np.array_equal(found, found.T)


@tried_hard
@given(tables, st.integers(1, 3), seeds, st.data())
def test_no_unit_moves_a_score_by_more_than_its_sensitivity(table, m, seed, data):
    row = st.tuples(code, code, code)
    unit = data.draw(st.one_of(st.lists(row, max_size=m), row.map(lambda one: [one] * m)))
    errors = random_errors(seed)
    moved = scores(rows_of([*table, *unit], m), errors) - scores(rows_of(table, m), errors)
    assert (np.abs(moved) <= m * errors.sensitivities(STARTS[:-1]) + 1e-9).all()


def test_the_sensitivities_are_reached_so_they_are_not_loose_either():
    reached = np.zeros((3, 3))
    for seed in range(10):
        errors = random_errors(seed)
        before = scores(rows_of([]), errors)
        for row in itertools.product(*map(range, SIZES)):
            moved = np.abs(scores(rows_of([row]), errors) - before)
            reached = np.maximum(reached, moved / errors.sensitivities(STARTS[:-1]))
    assert (reached > 0.999).all() and (reached <= 1 + 1e-9).all()


def choose(rows, errors, opened=None, *, noise=1e-3, key=None, ledger=None, times=1):
    chooser = PairSelection(rows, NAMES, SIZES)
    chooser.compare(errors)
    ledger = ledger or ledger_for("exponential", noise=noise, times=times)
    opened = np.ones((3, 3), bool) if opened is None else opened
    how = {"what": "test", "planned": "it", "ledger": ledger}
    return [chooser.choose(opened, key=(key or Key.new(0)).child(str(i)), **how) for i in range(times)], ledger


@both_keys
@pytest.mark.parametrize("seed", range(5))
def test_the_most_wrong_open_pair_is_chosen_if_there_is_hardly_any_noise(key, seed):
    errors, rows = random_errors(seed), rows_of([(0, 1, 3), (1, 2, 0), (1, 0, 0)])
    opened = np.random.default_rng(seed).random((3, 3)) < 0.5
    opened[0, 2] = True
    both = np.triu(opened | opened.T)
    best = np.unravel_index(np.argmax(np.where(both, scores(rows, errors), -np.inf)), (3, 3))
    assert choose(rows, errors, opened, key=key)[0] == [tuple(map(int, best))]


@pytest.mark.parametrize("m", [1, 3])
def test_choices_are_draws_from_the_exponential_mechanism(m):
    errors, rows, times = random_errors(2), rows_of([(0, 1, 3), (1, 2, 0), (1, 0, 0)], m), 1000
    opened = np.ones((3, 3), bool)
    opened[1, 2] = opened[2, 1] = False
    found, _ = choose(rows, errors, opened, noise=1.5, times=times)
    pairs = [(i, j) for i, j in itertools.combinations_with_replacement(range(3), 2) if (i, j) != (1, 2)]
    scale = 1.5 * m * max(errors.sensitivities(STARTS[:-1])[pair] for pair in pairs)
    weights = np.exp([scores(rows, errors)[pair] / scale for pair in pairs])
    counts = [found.count(pair) for pair in pairs]
    assert sum(counts) == times
    assert stats.chisquare(counts, times * weights / weights.sum()).pvalue > 1e-4


def test_what_is_open_may_change_from_choice_to_choice():
    errors, rows = random_errors(4), rows_of([(0, 1, 3), (1, 2, 0)] * 4)
    chooser = PairSelection(rows, NAMES, SIZES)
    chooser.compare(errors)
    opened, found = np.ones((3, 3), bool), []
    ledger = ledger_for("exponential", noise=1e-3, times=6)
    for i in range(6):
        pair = chooser.choose(opened, what="", planned="it", ledger=ledger, key=Key.new(i))
        found.append(pair)
        opened[pair] = opened[pair[::-1]] = False
    exact = scores(rows, errors)
    assert [exact[pair] for pair in found] == sorted((exact[pair] for pair in found), reverse=True)
    assert len(set(found)) == 6


def test_scores_far_apart_do_not_underflow():
    singles = np.zeros(sum(SIZES))
    errors = PairErrors(
        singles=singles, rows=1.0, weights=np.ones(len(singles)), factors=np.ones((3, 3)), penalties=np.diag([1e6] * 3)
    )
    opened = np.eye(3, dtype=bool)
    assert choose(rows_of([(0, 0, 0)]), errors, opened, noise=1e-3)[0][0] in {(0, 0), (1, 1), (2, 2)}


def test_the_largest_sensitivity_of_what_is_open_is_charged():
    errors = random_errors(1)
    opened = np.zeros((3, 3), bool)
    opened[0, 1] = True
    _, ledger = choose(rows_of([(0, 0, 0)], 3), errors, opened)
    (charge,) = ledger.receipt().charges
    assert charge.sensitivity == pytest.approx(3 * errors.sensitivities(STARTS[:-1])[0, 1], rel=2e-6)
    assert charge.sensitivity > 3 * errors.sensitivities(STARTS[:-1])[0, 1]


def test_the_weight_of_a_row_of_pairs_is_exact_to_far_less_than_the_rounding_charged():
    errors, rows = random_errors(3), rows_of([(0, 1, 3), (1, 2, 0)] * 500)
    chooser = PairSelection(rows, NAMES, SIZES)
    chooser.compare(errors)
    chooser.choose(
        np.ones((3, 3), bool), what="", planned="it", ledger=ledger_for("exponential", noise=9.0), key=Key.new(0)
    )
    exact, scale = scores(rows, errors), chooser._scale
    largest = errors.sensitivities(STARTS[:-1]).max()
    for i in range(3):
        terms = [exact[i, j] / scale + (math.log(2) if i == j else 0.0) for j in range(3)]
        top = max(terms)
        true = top + math.log(math.fsum(math.exp(term - top) for term in terms))
        assert abs(chooser._exact_logs[i] - true) * scale < pair_selection.ROUNDING / 8 * largest


@pytest.mark.parametrize(
    "wrong",
    [
        {"singles": np.zeros(3)},
        {"pairs": np.zeros((9, 8))},
        {"weights": -np.ones(9)},
        {"factors": np.full((3, 3), np.nan)},
        {"rows": 0.0},
    ],
)
def test_descriptions_that_do_not_fit_are_refused_before_anything_is_charged(wrong):
    good = {
        "singles": np.ones(9),
        "rows": 1.0,
        "weights": np.ones(9),
        "factors": np.ones((3, 3)),
        "penalties": np.ones((3, 3)),
    }
    with pytest.raises(ValueError, match="expected"):
        PairSelection(rows_of([]), NAMES, SIZES).compare(PairErrors(**{**good, **wrong}))


@pytest.mark.parametrize("write", [pickle.dumps, copy.copy, copy.deepcopy])
def test_exact_counts_are_never_copied_or_written(write):
    with pytest.raises(TypeError, match="never"):
        write(PairSelection(rows_of([]), NAMES, SIZES))


def test_nothing_open_is_refused_before_anything_is_charged():
    ledger = ledger_for("exponential")
    with pytest.raises(ValueError, match="open"):
        choose(rows_of([]), random_errors(0), np.zeros((3, 3), bool), ledger=ledger)
    assert ledger.left("it") == 1


@pytest.mark.parametrize("together", [0, 10**4], ids=["one by one", "together"])
@tried_hard
@given(table=tables)
def test_marginals_that_were_counted_with_all_pairs_are_not_counted_again(together, table):
    """In any order of columns, in groups too, and until the selection is gone."""
    rows, group = rows_of(table), np.array([1, 0, 1])
    asked = [Marginal((name,), (size,)) for name, size in zip(NAMES, SIZES, strict=True)]
    asked += [Marginal(("a", "c"), (2, 4)), Marginal(("c", "a"), (4, 2)), Marginal(("b", "c"), (3, 4))]
    asked += [Marginal(("a", "b"), (2, 2), (np.arange(2), group))]
    expected = exact_marginals(rows, asked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_counts, "MOST_TOGETHER", together)
        patch.setattr(pair_selection, "STRIP", 4)
        chooser = PairSelection(rows, NAMES, SIZES)
        chooser.compare(errors := random_errors(0))
        chooser._score(errors)
        object.__setattr__(rows, "_parts", ())  # nothing is there to be counted
        for found, exact in zip(exact_marginals(rows, asked), expected, strict=True):
            np.testing.assert_array_equal(found, exact)
        other = [Marginal(("a", "b"), (2, 5)), Marginal(("a", "a"), (2, 2)), Marginal(("a", "b", "c"), SIZES)]
        assert all(chooser.exact_counts(each.columns, each.shape) is None for each in other)
        del chooser
        assert not any(each() for each in rows._counted)
