"""Guide tables: the knot that a binary search finds, for any knots and any number."""

import gc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.privacy import made_once as kept
from understudy.privacy.interpolation import Pieces
from understudy.privacy.made_once import made_once

KNOTS = {
    "even": np.linspace(0.0, 1.0, 1001),
    "crowded": np.concatenate([[0.0], 0.5 + np.arange(2000) * 1e-9, [1.0]]),
    "repeated": np.repeat(np.arange(-300.0, 300.0), 2),
    "octaves": np.concatenate([-(2.0 ** np.arange(60, -20, -1)), [0.0], 2.0 ** np.arange(-20, 60)]),
    "far away": np.concatenate([[-(2.0**900)], np.linspace(-3, 3, 500), [2.0**900]]),
    "instants": 1.7e15 + np.arange(400) * 8.64e10,
    "neighbours": 1e15 + np.arange(300) * 0.125,
    "one": np.array([0.5]),
    "two": np.array([0.25, 0.75]),
}


def numbers_near(at: np.ndarray) -> np.ndarray:
    """Numbers between the knots, on them, beside them and beyond them."""
    draw = np.random.default_rng(0)
    inside = at[0] / 2 + draw.random(5000) * (at[-1] / 2 - at[0] / 2) * 2 + at[0] / 2
    among = np.interp(draw.random(20_000) * (len(at) - 1), np.arange(len(at)), at)
    beside = [np.nextafter(at, np.inf), np.nextafter(at, -np.inf)]
    return np.concatenate([inside, among, at, *beside, [-np.inf, np.inf]])


@pytest.mark.parametrize("name", KNOTS)
def test_it_finds_what_a_binary_search_finds(name):
    at = KNOTS[name]
    x = numbers_near(at)
    x = np.clip(x, at[0], at[-1])
    np.testing.assert_array_equal(Pieces(at)(x), np.searchsorted(at, x, side="right") - 1)


@settings(deadline=None, derandomize=True)
@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=200), st.integers(1, 5000))
def test_so_it_does_for_any_knots_and_any_number_of_cells(knots, cells):
    at = np.sort(np.array(knots))
    x = np.concatenate([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf), at / 2 + at[::-1] / 2, [np.inf]])
    x = np.clip(x, at[0], at[-1])
    np.testing.assert_array_equal(Pieces(at, cells)(x), np.searchsorted(at, x, side="right") - 1)


def test_a_missing_number_has_some_place_and_moves_no_other():
    at = KNOTS["even"]
    x = np.random.default_rng(0).random(1000)
    beside = np.where(np.arange(1000) % 3 == 0, np.nan, x)
    found = Pieces(at)(beside)
    assert found.min() >= 0 and found.max() < len(at)
    np.testing.assert_array_equal(found[~np.isnan(beside)], Pieces(at)(x)[~np.isnan(beside)])


class Owner:
    pass


def test_what_was_made_for_an_owner_goes_with_it():
    owner, made = Owner(), []
    for _ in range(3):
        made_once(owner, "table", lambda: made.append(1))
    before = len(kept._MADE)
    del owner
    gc.collect()
    assert len(made) == 1 and len(kept._MADE) == before - 1


def test_few_owners_are_remembered():
    owners = [Owner() for _ in range(2 * kept.MOST_OWNERS)]
    assert [made_once(each, "number", lambda number=i: number) for i, each in enumerate(owners)] == list(
        range(len(owners))
    )
    assert len(kept._MADE) <= kept.MOST_OWNERS
