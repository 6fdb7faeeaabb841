"""Interpolation by a guide table: what NumPy gives, to the last bit."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.privacy.interpolation import MANY, Interpolation, Pieces, interpolated, place_among

KNOTS = {
    "even": np.linspace(0.0, 1.0, 7),
    "crowded": np.concatenate([[0.0], 0.5 + np.arange(200) * 1e-7, [1.0]]),
    "repeated": np.array([-3.0, 0.0, 0.0, 0.0, 2.0, 2.0, 5.0]),
    "two": np.array([0.25, 0.75]),
    "one place": np.array([0.5, 0.5]),
    "huge": np.array([-(2.0**900), 0.0, 1.0, 2.0**900]),
    "tiny": np.array([0.0, 5e-324, 1e-300, 1.0]),
    "octaves": np.concatenate([-(2.0 ** np.arange(900, -20, -8)), [0.0], 2.0 ** np.arange(-20, 900, 8)]),
    "long tail": np.exp([2 * NormalDist().inv_cdf(p) for p in np.linspace(1e-9, 1 - 1e-9, 300)]),
    "growing": np.exp(np.linspace(-600.0, 600.0, 400)),
    "far below": np.concatenate([[-1e9, -1e6], np.linspace(0.0, 1.0, 250)]),
}


def tried(at: np.ndarray) -> np.ndarray:
    """Numbers between the knots, on them, beside them and beyond them, and NaN."""
    inside = at[0] + np.random.default_rng(0).random(2000) * (at[-1] - at[0])
    beside = [np.nextafter(at, np.inf), np.nextafter(at, -np.inf)]
    return np.concatenate([inside, at, *beside, [at[0] - 1, at[-1] + 1, -np.inf, np.inf, np.nan]])


@pytest.mark.parametrize("name", KNOTS)
def test_a_guide_table_gives_what_numpy_gives(name):
    at = KNOTS[name]
    to, x = np.sort(np.random.default_rng(1).standard_normal(len(at))), tried(at)
    np.testing.assert_array_equal(Interpolation(at, to)(x), np.interp(x, at, to))


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30), st.integers(1, 600))
def test_so_it_does_for_any_knots_and_any_size_of_the_table(knots, cells):
    at = np.sort(np.array(knots))
    to, x = np.arange(len(at)) ** 2.0, tried(at)
    np.testing.assert_array_equal(Interpolation(at, to, cells)(x), np.interp(x, at, to))


def test_many_numbers_are_interpolated_as_few_are():
    x = np.random.default_rng(0).random(MANY + 5)
    at, to = KNOTS["even"], KNOTS["even"] ** 3
    parts = [interpolated(part, at, to) for part in np.array_split(x, 7)]
    np.testing.assert_array_equal(interpolated(x, at, to), np.concatenate(parts))


def test_the_numbers_that_are_given_stay_as_they_are():
    x = np.random.default_rng(0).random(100)
    before = x.copy()
    Interpolation(KNOTS["even"], KNOTS["even"])(x)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("name", KNOTS)
def test_places_among_knots_are_numpy_s(name):
    at = KNOTS[name]
    x = np.tile(tried(at)[:-1], 12)
    assert len(x) > MANY
    np.testing.assert_array_equal(place_among(x, at), np.searchsorted(at, x, side="right") - 1)


@pytest.mark.parametrize("name", ["even", "long tail", "growing", "far below"])
def test_few_pieces_have_to_be_searched_for(name):
    at = KNOTS[name]
    pieces = Pieces(at)
    assert (pieces._guide[pieces._cells.of((at[:-1] + at[1:]) / 2)] < 0).mean() < 0.2
