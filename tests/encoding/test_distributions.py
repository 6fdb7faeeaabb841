"""Distribution functions from noisy counts: least squares, the simplex, support, and both directions of reading."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq

from conftest import examples
from understudy.encoding.consistency import Round, combine, to_simplex
from understudy.encoding.distributions import distribution
from understudy.encoding.partitions import refine, split_bin, starting_edges
from understudy.privacy.piecewise import LARGEST, Distribution, bin_of

tried_hard = examples(25)


# Least squares and the simplex.


def random_rounds(draw, sizes):
    """Rounds of noisy counts over random nested partitions, and the matrix of each over the last one's bins."""
    parents = [np.zeros(sizes[0], int)]
    for size, before in zip(sizes[1:], sizes[:-1], strict=True):
        parents.append(np.sort(np.r_[np.arange(before), draw.integers(0, before, size - before)]))
    rounds = [Round(draw.normal(10, 5, size), draw.uniform(0.1, 10), p) for size, p in zip(sizes, parents, strict=True)]
    matrices, member = [], np.arange(sizes[-1])
    for size, p in zip(sizes[::-1], parents[::-1], strict=True):
        matrix = np.zeros((size, sizes[-1]))
        matrix[member, np.arange(sizes[-1])] = 1.0
        matrices.append(matrix)
        member = p[member]
    return rounds, matrices[::-1]


@pytest.mark.parametrize("sizes", [[1, 4], [1, 3, 9], [1, 2, 5, 20], [1, 1, 7, 7], [3, 8], [5]])
@pytest.mark.parametrize("seed", range(3))
def test_combined_counts_are_the_generalised_least_squares(sizes, seed):
    rounds, matrices = random_rounds(np.random.default_rng(seed), sizes)
    weights = [r.variance**-0.5 for r in rounds]
    left = np.vstack([w * matrix for w, matrix in zip(weights, matrices, strict=True)])
    right = np.concatenate([w * r.counts for w, r in zip(weights, rounds, strict=True)])
    expected = np.linalg.lstsq(left, right)[0]
    np.testing.assert_allclose(combine(rounds), expected, atol=1e-8)


@tried_hard
@given(arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e4, 1e4)), st.floats(0.5, 1e4))
def test_the_nearest_point_of_the_simplex_is_a_common_shift(masses, total):
    nearest = to_simplex(masses, total)
    shift = brentq(
        lambda s: np.maximum(masses - s, 0).sum() - total, masses.min() - total - 1, masses.max() + 1, xtol=1e-12
    )
    np.testing.assert_allclose(nearest, np.maximum(masses - shift, 0), atol=1e-6)
    assert nearest.min() >= 0 and np.isclose(nearest.sum(), total)


# Bins.


def grid(*, low, high, integer, atoms=(), octaves=1):
    return starting_edges(low=low, high=high, integer=integer, atoms=atoms, octaves=octaves)


BOUNDS = {
    "none": (None, None),
    "round": (0.0, 100.0),
    "low alone": (0.0, None),
    "high alone": (None, 10.0),
    "negative": (-50.0, -3.0),
    "symmetric": (-1e6, 1e6),
    "huge": (-1e250, 1e250),
    "far away": (1e200, 2e200),
    "tiny": (-1e-300, 1e-300),
}
INTEGER_BOUNDS = {
    "none": (None, None),
    "round": (0.0, 120.0),
    "two": (0.0, 1.0),
    "negative": (-50.0, -3.0),
    "wide": (float(-(2**53)), float(2**53)),
    "high alone": (None, 5.0),
}
EVERY_KIND = [
    *(pytest.param(low, high, False, id=f"{name}") for name, (low, high) in BOUNDS.items()),
    *(pytest.param(low, high, True, id=f"{name}, integer") for name, (low, high) in INTEGER_BOUNDS.items()),
]


@pytest.mark.parametrize(("low", "high", "integer"), EVERY_KIND)
@pytest.mark.parametrize("octaves", [1, 2, 4])
def test_the_first_grid_is_public_ascends_and_covers_the_bounds(low, high, integer, octaves):
    edges = grid(low=low, high=high, integer=integer, octaves=octaves)
    assert np.all(np.diff(edges) > 0) and np.all(np.isfinite(edges))
    assert len(edges) < 400
    for bound in (low, high):
        if bound is not None:
            assert 0 <= bin_of(np.array([bound]), edges)[0] < len(edges) - 1
            assert edges[0] <= bound <= edges[-1]


def test_every_value_has_a_bin_and_missing_ones_have_none():
    edges = grid(low=0.0, high=10.0, integer=False, atoms=(3.0,))
    bins = bin_of(np.array([-np.inf, -5.0, 0.0, 3.0, 10.0, 11.0, np.inf, np.nan]), edges)
    assert bins[0] == bins[1] == bins[2] == 0
    assert bins[4] == bins[5] == bins[6] == len(edges) - 2
    assert edges[bins[3]] == 3.0 and edges[bins[3] + 1] == np.nextafter(3.0, 4.0)
    assert bins[-1] == -1


@tried_hard
@given(st.floats(-1e300, 1e300), st.floats(1e-300, 1e300), st.integers(1, 32), st.booleans())
def test_parts_of_a_bin_begin_at_its_lower_edge_and_ascend_inside_it(a, width, parts, integer):
    if integer:
        a, width = np.floor(np.clip(a, -1e15, 1e15)) - 0.5, np.ceil(np.clip(width, 1, 1e15))
    b = a + width
    assume(b > a)
    lower = split_bin(a, b, parts, integer=integer)
    assert lower[0] == a and len(lower) <= parts
    assert np.all(np.diff([*lower, b]) > 0)
    assert not integer or np.all(np.array(lower) % 1 == 0.5)


@tried_hard
@given(arrays(np.float64, 20, elements=st.floats(-1e6, 1e6)), st.floats(0.01, 1e3), st.booleans())
def test_a_refined_partition_keeps_every_edge_and_knows_its_parents(masses, noise, integer):
    edges = np.arange(21.0) * 10 - 0.5
    finer, parents = refine(edges, masses, noise_so_far=noise, noise_ahead=noise, integer=integer)
    assert set(edges) <= set(finer)
    np.testing.assert_array_equal(parents, bin_of((finer[:-1] + finer[1:]) / 2, edges))


# Support.


@pytest.mark.parametrize("bounds", [(None, None), (-1e9, 1e9)], ids=["no bounds", "wide bounds"])
@pytest.mark.parametrize(("tries", "allowed"), [(30, 1), pytest.param(300, 3, marks=pytest.mark.slow)])
def test_far_bins_of_nothing_but_noise_are_not_believed(bounds, tries, allowed):
    low, high = bounds
    edges = grid(low=low, high=high, integer=False)
    draw = np.random.default_rng(0)
    home = bin_of(np.array([100.0]), edges)[0]
    far = 0
    for _ in range(tries):
        masses = draw.normal(0.0, 10.0, len(edges) - 1)
        masses[home] += 2000
        learned = distribution(edges, masses, noise=10.0, low=low, high=high, integer=False)
        far += max(abs(learned.quantile(np.array([1e-6, 1 - 1e-6])))) > 1024
    assert far <= allowed


@pytest.mark.parametrize(
    ("bounds", "deviations", "found"),
    [
        ((0.0, 64.0), 4.0, True),  # noise cannot stretch the range beyond the bounds
        ((None, None), 4.0, False),
        ((0.0, None), 4.0, False),
        ((None, None), 6.0, True),
        ((0.0, 64.0), 3.0, False),
    ],
)
def test_a_small_far_group_needs_fewer_deviations_within_bounds(bounds, deviations, found):
    """Rows in [0, 4) and a few in [60, 62), many times the range away; the bins between are empty."""
    edges, masses = np.arange(0.0, 66.0, 2.0), np.zeros(32)
    masses[:2], masses[30] = 2000.0, deviations * 10.0
    learned = distribution(edges, masses, noise=10.0, low=bounds[0], high=bounds[1], integer=False)
    share = 1.0 - learned.interval(np.array([59.0]))[0][0]
    assert share == pytest.approx(masses[30] / masses.sum(), rel=0.05) if found else share < 1e-3


@pytest.mark.parametrize("seed", range(5))
def test_a_near_tail_is_not_cut_off(seed):
    edges = np.arange(0.0, 41.0)
    true = 3000 * np.exp(-np.arange(40) / 8.0)
    masses = true + np.random.default_rng(seed).normal(0, 10, 40)
    learned = distribution(edges, masses, noise=10.0, low=0.0, high=100.0, integer=False)
    expected = np.interp([0.5, 0.9, 0.99], np.r_[0, np.cumsum(true) / true.sum()], edges)
    np.testing.assert_allclose(learned.quantile(np.array([0.5, 0.9, 0.99])), expected, rtol=0.08)


# Both directions of reading.


def assert_is_distribution(learned: Distribution, low, high, integer):
    """Finite, ascending, from 0 to 1, and within the bounds."""
    assert np.all(np.isfinite(learned.values)) and np.all(np.isfinite(learned.cdf))
    assert np.all(np.diff(learned.values) >= 0) and np.all(np.diff(learned.cdf) >= 0)
    assert learned.cdf[0] == 0.0 and learned.cdf[-1] == 1.0
    margin = 0.5 if integer else 0.0
    assert low is None or learned.values[0] >= low - margin
    assert high is None or learned.values[-1] <= np.nextafter(high + margin, np.inf)


def assert_reads_both_ways(learned: Distribution, u):
    x = learned.quantile(u)
    assert np.all(np.isfinite(x))
    assert np.all(np.diff(x) >= 0)
    below, above = learned.interval(x)
    assert np.all(np.isfinite(below)) and np.all(np.isfinite(above))
    assert np.all((below >= 0) & (below <= above) & (above <= 1))
    if not learned.integer:  # a level may belong to the next float
        below, above = learned.interval(np.nextafter(x, -np.inf))[0], learned.interval(np.nextafter(x, np.inf))[1]
    assert np.all(below <= u + 1e-5) and np.all(u - 1e-5 <= above)


LEVELS = np.linspace(0.0, 1.0, 301)


@pytest.mark.parametrize(("low", "high", "integer"), EVERY_KIND)
@pytest.mark.parametrize(
    "shape", ["noise", "zero", "negative", "first", "last", "middle", "even", "huge", "half a row"]
)
def test_any_counts_make_a_distribution(low, high, integer, shape):
    edges = grid(low=low, high=high, integer=integer)
    size = len(edges) - 1
    masses = {
        "noise": np.random.default_rng(0).normal(0, 5, size),
        "zero": np.zeros(size),
        "negative": np.full(size, -7.0),
        "first": np.r_[1e4, np.zeros(size - 1)],
        "last": np.r_[np.zeros(size - 1), 1e4],
        "middle": np.where(np.arange(size) == size // 2, 1e4, 0.0),
        "even": np.full(size, 100.0),
        "huge": np.full(size, 1e14),
        "half a row": np.full(size, 0.5 / size),
    }[shape]
    learned = distribution(edges, masses, noise=5.0, low=low, high=high, integer=integer)
    assert_is_distribution(learned, low, high, integer)
    assert_reads_both_ways(learned, LEVELS)


@tried_hard
@given(
    kind=st.sampled_from([(*b, False) for b in BOUNDS.values()] + [(*b, True) for b in INTEGER_BOUNDS.values()]),
    octaves=st.sampled_from([1, 2, 4]),
    noise=st.floats(1e-3, 1e3),
    seed=st.integers(0, 2**32),
    empty=st.sampled_from([0.0, 0.5, 0.98, 1.0]),
    size=st.sampled_from([0.1, 30.0, 1e4, 1e9]),
)
def test_arbitrary_counts_make_a_distribution(kind, octaves, noise, seed, empty, size):
    low, high, integer = kind
    edges = grid(low=low, high=high, integer=integer, octaves=octaves)
    draw = np.random.default_rng(seed)
    bins = len(edges) - 1
    masses = np.where(draw.random(bins) < empty, 0.0, size * draw.standard_cauchy(bins))
    finer, parents = refine(edges, masses, noise_so_far=noise, noise_ahead=noise, integer=integer)
    masses = masses[parents] / np.bincount(parents)[parents]
    learned = distribution(finer, masses, noise=noise, low=low, high=high, integer=integer)
    assert_is_distribution(learned, low, high, integer)
    assert_reads_both_ways(learned, LEVELS)


@tried_hard
@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=10), st.sampled_from(list(BOUNDS.values())))
@example([LARGEST, -LARGEST], (None, None))
def test_every_value_has_a_level_between_0_and_1_that_grows_with_it(values, bounds):
    low, high = bounds
    edges = grid(low=low, high=high, integer=False)
    learned = distribution(edges, np.full(len(edges) - 1, 9.0), noise=1.0, low=low, high=high, integer=False)
    x = np.clip(np.sort(values), -LARGEST if low is None else low, LARGEST if high is None else high)
    below, above = learned.interval(x)
    assert np.all((below >= 0) & (below <= above) & (above <= 1))
    assert np.all(np.diff(below) >= -1e-12) and np.all(np.diff(above) >= -1e-12)


@pytest.mark.parametrize("atom", [0.0, 1.0, -1.0, 1000.0, 1e-5, 100.0])
def test_an_atom_comes_back_exactly_and_as_often_as_it_went_in(atom):
    edges = grid(low=-100.0, high=1000.0, integer=False, atoms=(atom,))
    masses = np.full(len(edges) - 1, 20.0)
    masses[bin_of(np.array([atom]), edges)] = 20.0 * (len(edges) - 2)
    learned = distribution(edges, masses, noise=1.0, low=-100.0, high=1000.0, integer=False)
    below, above = learned.interval(np.array([atom]))
    assert np.isclose(above - below, 0.5, atol=0.01)
    inside = np.linspace(below[0] + 1e-9, above[0] - 1e-9, 50)
    np.testing.assert_array_equal(learned.quantile(inside), atom)


@pytest.mark.parametrize(("low", "high"), INTEGER_BOUNDS.values(), ids=INTEGER_BOUNDS)
def test_integers_come_back_as_integers(low, high):
    edges = grid(low=low, high=high, integer=True)
    learned = distribution(edges, np.full(len(edges) - 1, 50.0), noise=1.0, low=low, high=high, integer=True)
    x = learned.quantile(np.random.default_rng(0).random(500))
    np.testing.assert_array_equal(x, np.rint(x))
    assert (low is None or x.min() >= low) and (high is None or x.max() <= high)


def test_integers_own_neighbouring_intervals_that_fill_the_unit_interval():
    learned = Distribution(np.arange(6.0) - 0.5, np.array([0, 0.1, 0.1, 0.6, 0.9, 1.0]), integer=True)
    below, above = learned.interval(np.arange(5.0))
    np.testing.assert_allclose(above - below, [0.1, 0.0, 0.5, 0.3, 0.1])
    np.testing.assert_allclose(below[1:], above[:-1])


def test_a_missing_value_has_no_level():
    learned = Distribution(np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.0, 0.2, 0.8, 1.0]))
    assert np.isnan(learned.interval(np.array([np.nan]))[0][0])
