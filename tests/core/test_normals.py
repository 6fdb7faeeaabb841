import numpy as np
import pytest
from scipy import stats

from understudy.core.normals import standard_normals


def test_normals_have_the_standard_normal_distribution():
    found = standard_normals(200_000, np.random.default_rng(0))
    assert found.dtype == np.float32
    assert stats.kstest(found.astype(float), "norm").pvalue > 1e-3
    far = np.abs(found) > 3.0
    assert stats.binomtest(int(far.sum()), len(found), 2 * float(stats.norm.sf(3.0))).pvalue > 1e-3


def test_the_two_normals_of_a_pair_are_independent_of_each_other():
    one, other = standard_normals(200_000, np.random.default_rng(1)).reshape(2, -1).astype(float)
    for both in ((one, other), (one**2, other**2), (np.abs(one) > 2, np.abs(other) > 2)):
        assert abs(np.corrcoef(*both)[0, 1]) < 4 / np.sqrt(len(one))


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_there_are_as_many_as_asked_for_and_all_are_finite(n):
    found = standard_normals(n, np.random.default_rng(2))
    assert found.shape == (n,) and np.isfinite(found).all()
