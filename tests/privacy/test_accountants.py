"""The light import of `dp_accounting`: the same numbers as with all of SciPy, to the last bit."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import signal, stats

from understudy.privacy.accountants import _fftconvolve, _Norm, _StandIn

COSTS = """
import sys
{before}
from understudy.privacy.accounting import Composition, account_composition
sampled = Composition(0.05, ((0.05, 1.5, 500), (0.01, 0.9, 20)), 1e-9)
print(account_composition(sampled, 1e-6), account_composition(Composition(0.3, (), 0.0), 1e-5))
print("scipy.stats" in sys.modules)
"""


def _run(before: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", COSTS.format(before=before)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.slow
def test_costs_are_those_of_the_whole_import_to_the_last_bit():
    light, light_loaded = _run("")
    whole, whole_loaded = _run("import scipy.stats, scipy.signal, scipy.optimize")
    assert light == whole
    assert (light_loaded, whole_loaded) == ("False", "True")


@pytest.mark.parametrize("name", ["cdf", "logcdf"])
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5])
def test_the_light_normal_is_scipys(name, scale):
    x = np.linspace(-40, 40, 4001)
    assert np.array_equal(getattr(_Norm()(scale=scale), name)(x), getattr(stats.norm(scale=scale), name)(x))


def test_the_light_quantile_is_scipys():
    q = np.geomspace(1e-300, 0.999, 500)
    assert np.array_equal(_Norm()(scale=1.7).ppf(q), stats.norm(scale=1.7).ppf(q))


def test_what_the_light_normal_lacks_is_passed_on():
    assert _Norm()(scale=2.0).sf(1.0) == stats.norm(scale=2.0).sf(1.0)


@pytest.mark.parametrize(("first", "second"), [(1, 50), (50, 1), (300, 4001), (17, 17)])
def test_the_light_convolution_is_scipys(first, second):
    draw = np.random.default_rng(0)
    one, other = draw.random(first), draw.random(second)
    assert np.array_equal(_fftconvolve(one, other), signal.fftconvolve(one, other))


def test_a_stand_in_passes_on_what_it_lacks():
    assert _StandIn("scipy.stats").laplace is stats.laplace
