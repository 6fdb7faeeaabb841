"""The hatches: each pays before it reads, adds the noise it paid for, and changes by no more than it says."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from understudy.core.randomness import Key
from understudy.privacy.accounting import Budget, BudgetExceeded, PlannedMechanism, lattice
from understudy.privacy.ledger import Ledger
from understudy.privacy.mechanisms import (
    BLOCK_ROWS,
    FINE_POINT,
    FIXED_POINT,
    noisy_counts,
    noisy_row_count,
    noisy_scores,
    noisy_second_moments,
    noisy_sum,
    popular_categories,
    private_choice,
    threshold,
    to_fixed_point,
)
from understudy.privacy.noise import discrete_gaussian
from understudy.privacy.rows import PrivateRows, lock

KEYS = {"secret": Key.new(), "seeded": Key.new(0)}
tried_hard = settings(deadline=None, derandomize=True, max_examples=60)


def till(mechanism="discrete gaussian", *, noise=1e-3, times=1, delta=0.5, threshold_delta=0.0) -> Ledger:
    """A ledger for one item, "it", whose noise multiplier is given."""
    item = PlannedMechanism(
        name="it", mechanism=mechanism, noise_multiplier=noise, times=times, threshold_delta=threshold_delta
    )
    return Ledger(Budget(epsilon=1e7, delta=delta), [item])


def box(m=1, **columns) -> PrivateRows:
    return PrivateRows({name: np.asarray(column) for name, column in columns.items()}, {}, m)


def named(labels, codes, m=1) -> PrivateRows:
    """A box with one column of private categories."""
    return PrivateRows({"c": np.asarray(codes, dtype=np.int64)}, {"c": labels}, m)


def count_rows(rows, **paid):
    return noisy_row_count(rows, planned="it", **paid)


def count_cells(rows, **paid):
    return noisy_counts(rows, ["c"], [5], what="cells", planned="it", **paid)


def sum_products(rows, clip_norm=2.0, **paid):
    return noisy_second_moments(rows, list("ab"), clip_norm=clip_norm, what="moments", planned="it", **paid)


def sum_features(rows, features=lambda x: x, bound=1.0, **paid):
    return noisy_sum(rows, list("ab"), features, bound=bound, what="sum", planned="it", **paid)


def choose(rows, **paid):
    return private_choice(rows, ["c"], lambda c: np.zeros(3), sensitivity=1.0, what="choice", planned="it", **paid)


def release_scores(rows, scores=lambda c: np.zeros(3), count=3, sensitivity=1.0, **paid):
    return noisy_scores(rows, ["c"], scores, count=count, sensitivity=sensitivity, what="scores", planned="it", **paid)


def name_categories(rows, **paid):
    return popular_categories(rows, "c", what="categories", planned="it", **paid)


HATCHES = {
    "row count": (count_rows, "discrete gaussian"),
    "counts": (count_cells, "discrete gaussian"),
    "second moments": (sum_products, "discrete gaussian"),
    "sum": (sum_features, "discrete gaussian"),
    "choice": (choose, "exponential"),
    "scores": (release_scores, "discrete gaussian"),
    "categories": (name_categories, "gaussian threshold"),
}
every_hatch = pytest.mark.parametrize(("hatch", "mechanism"), HATCHES.values(), ids=HATCHES)
both_keys = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)


# Paying first.


@every_hatch
def test_a_spent_ledger_is_refused_before_a_row_is_read(hatch, mechanism):
    ledger = till(mechanism, noise=1.0, threshold_delta=0.01 * (mechanism == "gaussian threshold"))
    ledger.charge("it", what="all there is", sensitivity=1.0)
    empty = PrivateRows({}, {}, 1)  # reading anything in here raises KeyError or StopIteration
    with pytest.raises(BudgetExceeded):
        hatch(empty, ledger=ledger, key=Key.new(0))


@every_hatch
def test_a_purchase_is_on_the_receipt_even_if_reading_fails(hatch, mechanism):
    ledger = till(mechanism, noise=1.0, threshold_delta=0.01 * (mechanism == "gaussian threshold"))
    with pytest.raises((KeyError, StopIteration)):
        hatch(PrivateRows({}, {}, 1), ledger=ledger, key=Key.new(0))
    assert ledger.left("it") == 0


@every_hatch
@pytest.mark.parametrize("m", [1, 4])
def test_what_is_paid_grows_with_the_rows_of_a_unit(hatch, mechanism, m):
    ledger = till(mechanism, noise=1.0, threshold_delta=0.01 * (mechanism == "gaussian threshold"))
    rows = PrivateRows({"c": np.zeros(3, dtype=np.int64), "a": np.zeros(3), "b": np.zeros(3)}, {"c": ["only"]}, m)
    hatch(rows, ledger=ledger, key=Key.new(0))
    per_row = 4.0 if hatch is sum_products else 1.0
    assert ledger.receipt().charges[0].sensitivity == m * per_row


# Noise.


def assert_is_noise(noise, sigma):
    """Variance within six standard errors, mean within six, and the shape of a normal."""
    n = len(noise)
    assert abs(noise.mean()) < 6 * sigma / np.sqrt(n)
    assert abs(noise.var() / sigma**2 - 1) < 6 * np.sqrt(2 / n)
    assert stats.kstest(noise / sigma, "norm").pvalue > 1e-6


@both_keys
@pytest.mark.parametrize("sigma", [1e-3, 0.4, 1.0, 31.9, 32.0, 1e3, 1e8])
def test_noise_lies_on_the_lattice_that_is_accounted_for(key, sigma):
    steps = discrete_gaussian(sigma, 200, key) * lattice(sigma)
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert sigma * lattice(sigma) >= 32
    assert 0.7 < steps.std() / (sigma * lattice(sigma)) < 1.3


@both_keys
@pytest.mark.parametrize("m", [1, 3])
def test_every_cell_gets_the_noise_that_was_paid_for_empty_ones_too(key, m):
    ledger = till(noise=2.5)
    rows = box(m, c=np.zeros(100, dtype=np.int64))
    counts = noisy_counts(rows, ["c"], [3000], what="cells", planned="it", ledger=ledger, key=key)
    assert_is_noise(counts[1:], 2.5 * m)
    assert np.abs(counts[1:]).min() < m and len(np.unique(counts)) > 100
    assert abs(counts[0] - 100) < 6 * 2.5 * m


@both_keys
@pytest.mark.slow
def test_the_row_count_gets_the_noise_that_was_paid_for(key):
    ledger = till(noise=2.5, times=1500)
    rows = box(2, c=np.zeros(40))
    draws = [noisy_row_count(rows, planned="it", ledger=ledger, key=key.child(str(i))) for i in range(1500)]
    assert_is_noise(np.array(draws) - 40, 5.0)


@both_keys
@pytest.mark.slow
def test_squares_get_sigma_and_products_sigma_over_root_two(key):
    width, m, clip, noise, rounds = 20, 2, 1.5, 0.7, 40
    names = [f"x{i}" for i in range(width)]
    rows = PrivateRows({name: np.zeros(5) for name in names}, {}, m)
    ledger = till(noise=noise, times=rounds)
    drawn = [
        noisy_second_moments(
            rows, names, clip_norm=clip, what="moments", planned="it", ledger=ledger, key=key.child(str(i))
        )
        for i in range(rounds)
    ]
    sigma = noise * m * clip**2
    upper = np.triu_indices(width, 1)
    assert all(np.array_equal(matrix, matrix.T) for matrix in drawn)
    assert_is_noise(np.concatenate([np.diag(matrix) for matrix in drawn]), sigma)
    assert_is_noise(np.concatenate([matrix[upper] for matrix in drawn]), sigma / np.sqrt(2))


def test_noise_is_fresh_in_every_call_with_a_secret_key():
    key = Key.new()
    assert not np.array_equal(discrete_gaussian(10.0, 20, key), discrete_gaussian(10.0, 20, key))


def test_labels_of_keys_do_not_share_streams():
    root = Key.new(0)
    # These two have the same CRC-32.
    streams = [root, root.child("plumless"), root.child("buckeroo"), root.child("a").child("b"), root.child("a b")]
    draws = {tuple(stream.numpy().integers(0, 2**62, 2).tolist()) for stream in streams}
    assert len(draws) == len(streams)


# Sensitivity: attempts to change an answer by more than was paid.


def exact(hatch, rows, **options):
    """The hatch's answer with so little noise that rounding takes it off."""
    return np.rint(hatch(rows, ledger=till(noise=1e-3), key=Key.new(0), **options))


codes = st.integers(-3, 9)


@tried_hard
@given(st.lists(codes, min_size=1, max_size=20), st.integers(1, 4), st.data())
def test_a_unit_moves_counts_by_no_more_than_its_rows(others, m, data):
    unit = data.draw(st.one_of(st.lists(codes, max_size=m), codes.map(lambda code: [code] * m)))
    without, with_unit = box(m, c=np.array(others)), box(m, c=np.array(others + unit))
    for hatch in (count_cells, count_rows):
        change = exact(hatch, with_unit) - exact(hatch, without)
        assert np.linalg.norm(np.atleast_1d(change)) <= m


@tried_hard
@given(st.lists(st.tuples(codes, codes), min_size=1, max_size=8), st.tuples(codes, codes))
def test_a_row_moves_one_cell_of_a_marginal_by_one(others, row):
    def cells(pairs):
        a, b = np.array(pairs).T
        options = {"what": "pairs", "item": "it", "ledger": till(), "key": Key.new(0)}
        return np.rint(noisy_counts(box(a=a, b=b), ["a", "b"], [3, 4], **options))

    change = cells([*others, row]) - cells(others)
    inside = 0 <= row[0] < 3 and 0 <= row[1] < 4
    assert np.abs(change).sum() == inside
    assert not inside or change[row] == 1


any_float = st.floats(allow_nan=True, allow_infinity=True, width=64)
WORST = {
    "spike": [1e300, 0, 0],
    "overflow": [1.7e308, 1.7e308, -1.7e308],
    "infinite": [np.inf, -np.inf, 1.0],
    "missing": [np.nan, np.nan, 5.0],
    "subnormal": [5e-324, 5e-324, 5e-324],
    "even": [1.0, 1.0, 1.0],
    "on the sphere": [2.0, 0.0, 0.0],
    "just outside": [np.nextafter(2.0, 3.0), 1e-9, -1e-9],
    "opposite": [1e5, -1e5, 1e5],
}


def assert_within_norm(x, clip_norm):
    """Whole numbers whose squared norm, in Python's own integers, is at most that of the clip norm."""
    fixed = to_fixed_point(x, clip_norm)
    np.testing.assert_array_equal(fixed, np.rint(fixed))
    limit = int(np.floor((clip_norm * FIXED_POINT) ** 2))
    for row in fixed:
        assert sum(int(entry) ** 2 for entry in row) <= limit
    return fixed


@pytest.mark.parametrize("clip_norm", [2.0, 1 / 3, np.sqrt(7), 1e-3, 50.0])
@pytest.mark.parametrize("row", WORST.values(), ids=WORST)
def test_no_row_is_longer_than_the_clip_norm(row, clip_norm):
    assert_within_norm(np.array([row]), clip_norm)


@tried_hard
@given(arrays(np.float64, (4, 5), elements=any_float), st.floats(0.01, 100.0))
def test_no_row_at_all_is_longer_than_the_clip_norm(x, clip_norm):
    assert_within_norm(x, clip_norm)


def test_rows_within_the_clip_norm_keep_their_values():
    x = np.random.default_rng(0).uniform(-1, 1, (100, 3))
    np.testing.assert_allclose(to_fixed_point(x, 2.0) / FIXED_POINT, x, atol=1 / FIXED_POINT)


@tried_hard
@given(arrays(np.float64, st.tuples(st.integers(1, 3), st.just(4)), elements=any_float), st.floats(0.1, 10.0))
def test_a_unit_moves_second_moments_by_no_more_than_was_paid_in_their_own_noise(x, clip_norm):
    fixed = [[int(entry) for entry in row] for row in to_fixed_point(x, clip_norm)]
    d, m = x.shape[1], len(fixed)
    change = [[sum(row[i] * row[j] for row in fixed) for j in range(d)] for i in range(d)]
    # Squares have sigma, products i < j sigma / sqrt(2): the squared change in units of sigma is
    squared = sum(change[i][i] ** 2 for i in range(d)) + 2 * sum(
        change[i][j] ** 2 for i in range(d) for j in range(i + 1, d)
    )
    paid = m * (clip_norm * FIXED_POINT) ** 2
    assert squared <= paid**2 * (1 + 1e-9)


def test_the_bound_on_second_moments_is_reached_so_it_is_not_loose_either():
    fixed = to_fixed_point(np.array([[1e6, 0.0, 0.0]]), 2.0)[0] / FIXED_POINT
    assert 0.999 * 4.0 <= np.linalg.norm(np.outer(fixed, fixed)) <= 4.0


def test_second_moments_are_those_of_the_clipped_rows():
    draw = np.random.default_rng(1)
    a, b = draw.normal(size=70_000), draw.normal(size=70_000)  # more than one block
    ledger = till(noise=1e-3)
    moments = sum_products(box(a=a, b=b), clip_norm=1.5, ledger=ledger, key=Key.new(0))
    x = np.stack([a, b], axis=1)
    x *= np.minimum(1, 1.5 / np.linalg.norm(x, axis=1, keepdims=True))
    np.testing.assert_allclose(moments, x.T @ x, atol=70_000 * 3 / FIXED_POINT)


# Scores.


@tried_hard
@given(
    arrays(np.float64, 5, elements=st.floats(-1e6, 1e6)),
    arrays(np.float64, 5, elements=st.floats(-1, 1)),
    st.sampled_from([1e-3, 0.5, 1.0, 300.0]),
    st.integers(1, 4),
)
def test_scores_that_move_by_their_sensitivity_move_by_no_more_after_rounding(start, direction, sensitivity, m):
    direction = direction / max(np.linalg.norm(direction), 1e-9)

    def released(scores):
        options = {"count": 5, "sensitivity": sensitivity, "ledger": till(noise=1e-3), "key": Key.new(0)}
        return release_scores(box(m, c=np.zeros(1)), lambda c: scores, **options)

    # The same noise twice, so that the difference is that of the whole numbers.
    moved = start + m * sensitivity * direction
    allowed = np.linalg.norm(moved - start) if np.linalg.norm(moved - start) > m * sensitivity else m * sensitivity
    steps = (released(moved) - released(start)) * FINE_POINT / sensitivity
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-2 * max(1.0, 1 / sensitivity))
    assert np.linalg.norm(np.rint(steps)) <= allowed * FINE_POINT / sensitivity * (1 + 1e-12)


def test_without_the_hair_that_is_taken_off_rounding_would_move_scores_by_more():
    # Just below and just above a half: rounding moves 10^4 scores by a step each, where they moved by less.
    step, count = 1.0 / FINE_POINT, 10_000
    below, above = (np.full(count, 0.5 * step * side) for side in (0.999, 1.001))
    above[0] += 1.0 - 1e-6

    def released(scores):
        options = {"count": count, "ledger": till(noise=1e-3), "key": Key.new(0)}
        return release_scores(box(c=np.zeros(1)), lambda c: scores, **options)

    assert np.linalg.norm(above - below) < 1.0
    assert np.linalg.norm(released(above) - released(below)) <= 1.0


@both_keys
@pytest.mark.parametrize(("m", "sensitivity"), [(1, 1.0), (3, 40.0)])
def test_every_score_gets_the_noise_that_was_paid_for(key, m, sensitivity):
    options = {"count": 3000, "sensitivity": sensitivity, "ledger": till(noise=2.5), "key": key}
    drawn = release_scores(box(m, c=np.zeros(2)), lambda c: np.full(3000, 7.0), **options)
    assert_is_noise(drawn - 7.0, 2.5 * m * sensitivity)


def test_scores_that_are_no_numbers_neither_raise_nor_warn():
    wild = np.array([np.nan, np.inf, -np.inf, 1e308, 1.0])
    drawn = release_scores(box(c=np.zeros(2)), lambda c: wild, count=5, ledger=till(), key=Key.new(0))
    assert np.isfinite(drawn).all() and abs(drawn[0]) < 0.1 and abs(drawn[4] - 1.0) < 0.1


def test_another_number_of_scores_than_was_said_is_refused():
    with pytest.raises(ValueError, match="expected 4 scores"):
        release_scores(box(c=np.zeros(2)), count=4, ledger=till(), key=Key.new(0))


# Sums of features.


@tried_hard
@given(arrays(np.float64, (6, 2), elements=any_float), st.integers(1, 3), st.floats(1e-3, 1e3))
def test_a_unit_moves_a_sum_by_no_more_than_its_rows_times_the_bound(x, m, bound):
    def exact_sum(rows):
        a, b = rows.T
        options = {"bound": bound, "ledger": till(noise=1e-3), "key": Key.new(0)}  # the same noise twice
        return sum_features(box(m, a=a, b=b), lambda y: np.stack([y[:, 0], y[:, 1], y[:, 0] * y[:, 1]], 1), **options)

    change = exact_sum(x) - exact_sum(x[:-m])
    assert np.linalg.norm(change) <= m * bound * (1 + 1e-6)


@pytest.mark.parametrize("row", WORST.values(), ids=WORST)
@pytest.mark.parametrize("bound", [1.0, 1 / 3, 50.0])
def test_no_vector_that_is_summed_is_longer_than_its_bound_in_whole_numbers(row, bound):
    steps = FINE_POINT / bound
    fixed = to_fixed_point(np.array([row * 700], dtype=np.float64).reshape(1, -1), bound, steps=steps)[0]
    assert sum(int(entry) ** 2 for entry in fixed) <= FINE_POINT**2


@both_keys
@pytest.mark.parametrize(("m", "bound"), [(1, 1.0), (3, 0.2)])
def test_every_feature_gets_the_noise_that_was_paid_for(key, m, bound):
    rows = box(m, a=np.zeros(5), b=np.zeros(5))
    options = {"bound": bound, "ledger": till(noise=2.5), "key": key}
    drawn = sum_features(rows, lambda x: np.zeros((len(x), 3000)), **options)
    assert_is_noise(drawn, 2.5 * m * bound)


def test_sums_are_those_of_the_features_over_more_than_one_block():
    draw = np.random.default_rng(1)
    a, b = draw.uniform(-0.5, 0.5, (2, 3 * BLOCK_ROWS + 7))
    total = sum_features(box(a=a, b=b), bound=0.8, ledger=till(noise=1e-3), key=Key.new(0))
    np.testing.assert_allclose(total, [a.sum(), b.sum()], atol=len(a) / FINE_POINT + 5e-3)


def test_features_that_warn_or_are_not_numbers_are_silent_and_count_as_nothing(recwarn):
    rows = box(a=np.array([0.0, -1.0, 1e308]), b=np.zeros(3))
    options = {"ledger": till(noise=1e-3), "key": Key.new(0)}
    total = sum_features(rows, lambda x: np.concatenate([1 / x[:, :1], np.sqrt(x), x * x], 1), **options)
    assert np.isfinite(total).all() and not len(recwarn)


# Choice.


@both_keys
@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 3])
def test_a_choice_is_a_draw_from_the_exponential_mechanism(key, m):
    n, sensitivity, noise = 6000, 0.5, 1.2
    scores = np.array([0.0, 1.0, 2.0, -1.0, 1.9])
    ledger = till("exponential", noise=noise, times=n)
    rows = box(m, c=np.zeros(3))
    options = {"sensitivity": sensitivity, "what": "choice", "item": "it", "ledger": ledger}
    chosen = [private_choice(rows, ["c"], lambda c: scores, key=key.child(str(i)), **options) for i in range(n)]
    epsilon = 2 / noise
    odds = np.exp(epsilon * scores / (2 * sensitivity * m))
    observed = np.bincount(chosen, minlength=len(scores))
    assert stats.chisquare(observed, n * odds / odds.sum()).pvalue > 1e-6


# Categories.


def exact_tail(sigma, t):
    """P(noise >= t) for discrete Gaussian noise on its lattice, summed term by term."""
    s = sigma * lattice(sigma)
    k = np.arange(-int(14 * s), int(14 * s) + 1)
    mass = np.exp(-(k.astype(float) ** 2) / (2 * s**2))
    return mass[k >= t * lattice(sigma) - 1e-9].sum() / mass.sum()


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 7.7, 33.0, 400.0])
@pytest.mark.parametrize("delta", [0.4, 0.05, 1e-3, 1e-6, 1e-10])
def test_the_threshold_is_passed_with_probability_at_most_delta(sigma, delta):
    t = threshold(sigma, delta)
    assert exact_tail(sigma, t) <= delta
    assert exact_tail(sigma, t - 3 / lattice(sigma)) > delta  # and not far above what is needed


def share_of_fits_that_name(rows, wanted, *, noise, threshold_delta, tries, key=KEYS["seeded"]):
    hits = 0
    for i in range(tries):
        ledger = till("gaussian threshold", noise=noise, threshold_delta=threshold_delta)
        labels, _ = name_categories(rows, ledger=ledger, key=key.child(str(i)))
        hits += bool(wanted & set(labels))
    return hits / tries


LONERS = {
    "one row": ({"loner"}, [0] * 50 + [1], ["crowd", "loner"], 1),
    "all rows of a unit": ({"loner"}, [0] * 50 + [1] * 3, ["crowd", "loner"], 3),
    "a category for each row": ({"x", "y", "z"}, [0] * 50 + [1, 2, 3], ["crowd", "x", "y", "z"], 3),
}


@pytest.mark.parametrize(("loners", "rows", "labels", "m"), LONERS.values(), ids=LONERS)
@pytest.mark.parametrize("noise", [0.2, 3.0])
def test_what_one_unit_alone_holds_is_named_with_probability_at_most_delta(loners, rows, labels, m, noise):
    share = share_of_fits_that_name(named(labels, rows, m), loners, noise=noise, threshold_delta=0.05, tries=1000)
    assert stats.binomtest(round(1000 * share), 1000, 0.05, alternative="greater").pvalue > 1e-6


@pytest.mark.slow
@both_keys
def test_a_loner_is_named_about_as_often_as_the_threshold_allows(key):
    rows = named(["crowd", "loner"], [0] * 50 + [1])
    share = share_of_fits_that_name(rows, {"loner"}, noise=3.0, threshold_delta=0.05, tries=2000, key=key)
    assert stats.binomtest(round(2000 * share), 2000, 0.05, alternative="greater").pvalue > 1e-6
    assert share > 0.025


def test_categories_of_rows_that_were_left_out_are_never_named():
    # One unit with 1000 rows, each of a category of its own; one row gets in. Were the other labels counted too, with
    # nothing but noise, the unit would be seen with probability near 1000 delta.
    labels = ["crowd", *(f"own {i:04}" for i in range(1000))]
    unit = np.r_[np.arange(40), np.full(1000, 40)]
    codes_ = np.r_[np.zeros(40, dtype=np.int64), np.arange(1, 1001)]
    rows = lock({"c": codes_}, {"c": labels}, unit=unit, max_rows_per_unit=1, key=Key.new(0))
    share = share_of_fits_that_name(rows, set(labels[1:]), noise=4.0, threshold_delta=1e-3, tries=300)
    assert share <= 0.02


def test_frequent_categories_are_named_with_counts_near_the_truth():
    rows = named(["a", "b", "rare"], [0] * 300 + [1] * 200 + [2])
    ledger = till("gaussian threshold", noise=2.0, delta=1e-3, threshold_delta=1e-6)
    labels, counts = name_categories(rows, ledger=ledger, key=Key.new(0))
    assert labels == ["a", "b"]
    np.testing.assert_allclose(counts, [300, 200], atol=12)


# The box.


def test_a_unit_gets_no_more_rows_in_than_it_may_and_a_small_one_gets_all():
    draw = np.random.default_rng(0)
    unit = draw.integers(0, 40, 500)
    rows = lock({"u": unit, "i": np.arange(500)}, {}, unit=unit, max_rows_per_unit=7, key=Key.new(1))
    kept = np.bincount(rows._exact["u"], minlength=40)
    np.testing.assert_array_equal(kept, np.minimum(np.bincount(unit, minlength=40), 7))
    np.testing.assert_array_equal(unit[rows._exact["i"]], rows._exact["u"])
    assert rows.max_rows_per_unit == 7


@pytest.mark.parametrize("others", [0, 1, 60])
def test_which_row_of_a_unit_stays_does_not_depend_on_other_units(others):
    unit = np.r_[np.full(others, 5), np.array([9, 9, 9]), np.arange(10, 10 + others)]
    stayed = np.zeros(3)
    for seed in range(600):
        rows = lock({"i": np.arange(len(unit))}, {}, unit=unit, max_rows_per_unit=1, key=Key.new(seed))
        inside = rows._exact["i"] - others
        stayed[inside[(inside >= 0) & (inside < 3)]] += 1
    assert stayed.sum() == 600
    assert stats.chisquare(stayed).pvalue > 1e-6


def test_without_a_unit_every_row_is_its_own():
    assert lock({"a": np.arange(3)}, {}, key=Key.new(0)).max_rows_per_unit == 1


def test_the_box_shows_the_names_of_its_columns_and_nothing_else():
    rows = named(["Xanthippe"], np.full(4, 0))
    assert repr(rows) == str(rows) == "PrivateRows(c)"


@pytest.mark.parametrize("write", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
def test_the_box_cannot_be_written_anywhere(write):
    with pytest.raises(TypeError, match="never written"):
        write(box(a=np.arange(3)))


def test_relabelled_codes_point_into_the_public_labels_however_often():
    rows = named(["ash", "elm", "oak"], [0, 1, 2, -1, 1])
    once = rows.relabel("c", ["oak", "elm", "other"], other=2)
    twice = once.relabel("c", ["oak", "elm", "other"], other=2)
    for relabelled in (once, twice):
        np.testing.assert_array_equal(relabelled._exact["c"], [2, 1, 0, -1, 1])


@pytest.mark.parametrize("key", [Key.new(), Key.new(0)])
def test_noise_that_64_bits_cannot_hold_is_refused(key):
    """At the ends of 64 bits it would stand still, and what it is added to would show."""
    assert len(np.unique(discrete_gaussian(2.0**44, 200, key))) == 200
    with pytest.raises(ValueError, match="epsilon: expected enough"):
        discrete_gaussian(2.0**60, 1, key)
