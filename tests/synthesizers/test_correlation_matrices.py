"""The nearest correlation matrix is one, and as near as another algorithm finds; clip norms stay within their range."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from conftest import examples
from understudy.synthesizers.moments import nearest_correlation, positive_correlation, squared_clip_norm


def by_the_dual(matrix, smallest):
    """The nearest correlation matrix by another road: Qi and Sun's (2006) smooth convex dual, minimised by BFGS."""
    shifted = matrix.copy()
    np.fill_diagonal(shifted, 1.0)
    shifted -= smallest * np.eye(len(matrix))

    def positive_part(y):
        values, vectors = np.linalg.eigh(shifted + np.diag(y))
        return (vectors * np.maximum(values, 0.0)) @ vectors.T

    def dual(y):
        part = positive_part(y)
        return 0.5 * np.sum(part**2) - (1 - smallest) * y.sum(), np.diag(part) - (1 - smallest)

    y = minimize(dual, np.zeros(len(matrix)), jac=True, method="BFGS", options={"gtol": 1e-10}).x
    return positive_part(y) + smallest * np.eye(len(matrix))


def random_symmetric(seed, size, noise):
    draw = np.random.default_rng(seed)
    true = np.corrcoef(draw.normal(size=(size, size + 3)))
    noisy = true + noise * draw.normal(size=(size, size))
    return np.clip((noisy + noisy.T) / 2, -0.99, 0.99)


def assert_is_a_correlation_matrix(matrix, smallest):
    np.testing.assert_allclose(np.diag(matrix), 1.0)
    np.testing.assert_allclose(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > smallest / 10
    assert np.abs(matrix).max() <= 1 + 1e-12
    np.linalg.cholesky(matrix)


@examples(20)
@given(st.integers(0, 10**6), st.integers(1, 12), st.floats(0.0, 3.0), st.sampled_from([None, 1e-8]))
def test_the_nearest_correlation_matrix_is_one(seed, size, noise, tolerance):
    given_matrix = random_symmetric(seed, size, noise) if size > 1 else np.ones((1, 1))
    assert_is_a_correlation_matrix(nearest_correlation(given_matrix, tolerance=tolerance), 1e-3)
    assert_is_a_correlation_matrix(positive_correlation(given_matrix + 3 * np.eye(size), smallest=0.05), 0.05)


@pytest.mark.parametrize("tolerance", [None, 1e-8])
@pytest.mark.parametrize("seed", range(4))
def test_a_correlation_matrix_is_its_own_nearest(seed, tolerance):
    matrix = np.asarray(np.corrcoef(np.random.default_rng(seed).normal(size=(5, 40))))
    np.testing.assert_allclose(nearest_correlation(matrix, tolerance=tolerance), matrix, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_it_is_as_near_as_the_dual_problem_finds(seed, noise):
    matrix = random_symmetric(seed, 6, noise)
    np.fill_diagonal(matrix, 1.0)
    fast, slow = nearest_correlation(matrix), by_the_dual(matrix, 1e-3)
    assert np.linalg.norm(fast - matrix) <= np.linalg.norm(slow - matrix) * 1.01 + 1e-6
    np.testing.assert_allclose(fast, slow, atol=1e-6)


@pytest.mark.parametrize(("noise", "expected"), [(1e9, 2.0), (1e-9, 6.0 + 5.0), (0.04 * np.sqrt(2) * 100 / 4.0, 4.0)])
def test_rows_are_clipped_as_loosely_as_the_noise_target_allows(noise, expected):
    found = squared_clip_norm(
        2.0, noise=noise, rows=100.0, noise_target=0.04, clip_range=(1.0, 3.0), largest_weighting=5.0
    )
    assert found == pytest.approx(expected)
