"""Second moments: no row is longer than the clip norm, and squares and products get their own noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ledgers import assert_is_noise, both_keys, ledger_for, locked, tried_hard
from understudy.core.randomness import Key
from understudy.privacy.moments import FIXED_POINT, noisy_second_moments, to_fixed_point

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


def moments_of(x, m=1, *, clip_norm, noise=1e-3, times=1, key=None):
    rows = locked(m, **{f"x{i}": column for i, column in enumerate(x.T)})
    how = {"what": "moments", "planned": "it", "ledger": ledger_for(noise=noise, times=times)}
    return noisy_second_moments(rows, rows.names, clip_norm=clip_norm, key=key or Key.new(0), **how)


def assert_within_norm(x, clip_norm):
    """Whole numbers whose squared norm, in Python's own integers, is at most that of the clip norm."""
    fixed = to_fixed_point(x, clip_norm)
    np.testing.assert_array_equal(fixed, np.rint(fixed))
    limit = int(np.floor((clip_norm * FIXED_POINT) ** 2))
    for row in fixed:
        assert sum(int(entry) ** 2 for entry in row) <= limit


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
def test_a_unit_moves_second_moments_by_no_more_than_was_charged_in_their_own_noise(x, clip_norm):
    fixed = [[int(entry) for entry in row] for row in to_fixed_point(x, clip_norm)]
    d, m = x.shape[1], len(fixed)
    change = [[sum(row[i] * row[j] for row in fixed) for j in range(d)] for i in range(d)]
    # Squares have sigma, products i < j sigma / sqrt(2): the squared change in units of sigma is
    squared = sum(change[i][i] ** 2 for i in range(d)) + 2 * sum(
        change[i][j] ** 2 for i in range(d) for j in range(i + 1, d)
    )
    charged = m * (clip_norm * FIXED_POINT) ** 2
    assert squared <= charged**2 * (1 + 1e-9)


@tried_hard
@given(arrays(np.float64, (6, 3), elements=any_float), st.integers(1, 3), st.floats(0.1, 10.0))
def test_the_released_moments_move_by_no_more_than_was_charged(x, m, clip_norm):
    # The same noise twice, so that the difference is that of the exact moments.
    change = moments_of(x, m, clip_norm=clip_norm) - moments_of(x[:-m], m, clip_norm=clip_norm)
    assert np.linalg.norm(change) <= m * clip_norm**2 * (1 + 1e-6)


def test_the_bound_on_second_moments_is_reached_so_it_is_not_loose_either():
    fixed = to_fixed_point(np.array([[1e6, 0.0, 0.0]]), 2.0)[0] / FIXED_POINT
    assert 0.999 * 4.0 <= np.linalg.norm(np.outer(fixed, fixed)) <= 4.0


def test_second_moments_are_those_of_the_clipped_rows():
    x = np.random.default_rng(1).normal(size=(70_000, 2))  # more than one block
    moments = moments_of(x, clip_norm=1.5)
    x = x * np.minimum(1, 1.5 / np.linalg.norm(x, axis=1, keepdims=True))
    np.testing.assert_allclose(moments, x.T @ x, atol=70_000 * 3 / FIXED_POINT)


@both_keys
@pytest.mark.slow
def test_squares_get_sigma_and_products_sigma_over_root_two(key):
    width, m, clip, noise, rounds = 20, 2, 1.5, 0.7, 40
    zeros = np.zeros((5, width))
    drawn = [moments_of(zeros, m, clip_norm=clip, noise=noise, key=key.child(str(i))) for i in range(rounds)]
    sigma = noise * m * clip**2
    upper = np.triu_indices(width, 1)
    assert all(np.array_equal(matrix, matrix.T) for matrix in drawn)
    assert_is_noise(np.concatenate([np.diag(matrix) for matrix in drawn]), sigma)
    assert_is_noise(np.concatenate([matrix[upper] for matrix in drawn]), sigma / np.sqrt(2))
