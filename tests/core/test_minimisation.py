"""L-BFGS finds where a smooth function is smallest."""

import numpy as np
from scipy.optimize import minimize as scipy_minimise

from understudy.core.minimisation import minimise


def quadratic(size=30, seed=0):
    """½ xᵀ A x - bᵀ x with eigenvalues between 0.1 and 10, and where it is smallest."""
    draw = np.random.default_rng(seed)
    vectors, _ = np.linalg.qr(draw.standard_normal((size, size)))
    matrix = vectors @ np.diag(np.geomspace(0.1, 10.0, size)) @ vectors.T
    b = draw.standard_normal(size)
    return (lambda x: (float(0.5 * x @ matrix @ x - b @ x), matrix @ x - b)), np.linalg.solve(matrix, b)


def test_a_quadratic_is_solved():
    function, best = quadratic()
    found = minimise(function, np.zeros(30), iterations=200, tolerance=1e-15)
    np.testing.assert_allclose(found, best, atol=1e-5)


def test_it_finds_what_scipy_finds_of_a_function_that_is_no_quadratic():
    draw = np.random.default_rng(1)
    x = draw.standard_normal((200, 8))

    def function(theta):
        scores = x @ theta
        weights = np.exp(scores - scores.max())
        value = scores.max() + np.log(weights.mean()) - 0.3 * theta.sum() + 0.05 * theta @ theta
        return float(value), x.T @ (weights / weights.sum()) - 0.3 + 0.1 * theta

    found = minimise(function, np.zeros(8), iterations=200, tolerance=1e-15)
    expected = scipy_minimise(function, np.zeros(8), jac=True, method="L-BFGS-B", options={"ftol": 1e-15}).x
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_no_step_goes_up_and_few_iterations_are_few():
    function, _ = quadratic()
    values = [function(minimise(function, np.zeros(30), iterations=n, tolerance=0.0))[0] for n in range(8)]
    assert values == sorted(values, reverse=True) and values[0] == 0.0
