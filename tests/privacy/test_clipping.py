"""Clipped sums: no unit moves them by more than the clipping norm, whatever the factors are."""

import math

import hypothesis
import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from conftest import examples
from understudy.privacy.clipping import Layer, clipped_sums
from understudy.privacy.summation import MOST_ROWS, SUMMATION, UNIT, summation_blocks, usable_part


@pytest.fixture(autouse=True)
def _no_rank_promotion():
    with jax.numpy_rank_promotion("raise"):
        yield


clipped = jax.jit(clipped_sums)  # few shapes below, so that few programs are compiled


def moved_by_a_unit(sums_of, unit, rows_of_a_unit):
    """How far the sums of six rows move, in L2 norm, when one unit is left out."""
    inside = np.ones((6 // rows_of_a_unit, rows_of_a_unit), dtype=bool)
    without = inside.copy()
    without[unit % len(inside)] = False
    pairs = zip(sums_of(inside), sums_of(without), strict=True)
    return math.sqrt(sum(((np.asarray(x, np.float64) - np.asarray(y, np.float64)) ** 2).sum() for x, y in pairs))


anything = st.floats(width=32, allow_nan=True, allow_infinity=True)


def factors_of(*shapes):
    return st.tuples(*(arrays.arrays(np.float32, (*shape, 6), elements=anything) for shape in shapes))


# The shapes (in, out) of each layer, one after the other.
networks = factors_of((1,), (3,)) | factors_of((3,), (2,), (1,), (1,), (2,), (3,))


@examples(40)
@hypothesis.example((np.full((1, 6), 1e-19, np.float32), np.full((3, 6), 1.8e19, np.float32)), 1.0, 0, 1)
@hypothesis.example((np.full((1, 6), 1e-30, np.float32), np.full((3, 6), 1e38, np.float32)), 1.0, 0, 2)
@hypothesis.example((np.full((1, 6), 65536, np.int32), np.ones((3, 6), np.int32)), 1.0, 0, 1)
@hypothesis.given(networks, st.floats(0.01, 100.0), st.integers(0, 2), st.sampled_from([1, 2, 3]))
def test_no_unit_moves_the_sum_by_more_than_the_clipping_norm(factors, clip, unit, rows_of_a_unit):
    layers = [Layer(a, delta) for a, delta in zip(factors[::2], factors[1::2], strict=True)]
    moved = moved_by_a_unit(lambda inside: clipped(layers, inside, np.float32(clip)), unit, rows_of_a_unit)
    assert moved <= clip * (1 + 2e-6 * 6 / rows_of_a_unit)


SEEN = np.arange(6).reshape(3, 2) % 3 < 2


@jax.jit
def clipped_side_by_side(a, delta, inside, clip):
    """Three layers with inputs of their own, a single one, and three that share their inputs."""
    return clipped_sums([Layer(a, delta), Layer(a[0], delta[0]), Layer(a[0], delta, SEEN)], inside, clip)


@examples(40)
@hypothesis.example((np.full((3, 2, 6), 1e-19, np.float32), np.full((3, 2, 6), 1.8e19, np.float32)), 1.0, 0, 1)
@hypothesis.example((np.full((3, 2, 6), 5.0, np.float32), np.full((3, 2, 6), 7.0, np.float32)), 1.0, 0, 2)
@hypothesis.given(factors_of((3, 2), (3, 2)), st.floats(0.01, 100.0), st.integers(0, 2), st.sampled_from([1, 2, 3]))
def test_no_unit_moves_the_sum_of_layers_side_by_side_by_more(factors, clip, unit, rows_of_a_unit):
    moved = moved_by_a_unit(
        lambda inside: clipped_side_by_side(*factors, inside, np.float32(clip)), unit, rows_of_a_unit
    )
    assert moved <= clip * (1 + 2e-6 * 6 / rows_of_a_unit)


@pytest.mark.parametrize("clip", [0.5, 1e6])
def test_layers_side_by_side_are_clipped_as_one_gradient(clip):
    draw = np.random.default_rng(0)
    a, delta = draw.standard_normal((2, 3, 4, 7)), draw.standard_normal((2, 3, 5, 7))
    each = np.einsum("xyir,xyor->rxyio", a, delta)
    norms = np.sqrt((each**2).sum(axis=(1, 2, 3, 4)))
    expected = np.einsum("r,rxyio->xyio", np.minimum(1, clip / norms), each)
    [found] = clipped([Layer(jnp.asarray(a), jnp.asarray(delta))], np.ones((7, 1), bool), np.float32(clip))
    assert found.shape == (2, 3, 4, 5) and np.allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("clip", [0.5, 1e6])
def test_shared_inputs_are_as_good_as_each_layer_having_its_own(clip):
    draw = np.random.default_rng(0)
    a, delta, seen = draw.standard_normal((4, 7)), draw.standard_normal((3, 5, 7)), draw.random((3, 4)) < 0.6

    @jax.jit
    def sums(a, own, delta):
        layers = Layer(a, delta, seen), Layer(own, delta)
        return [clipped_sums([layer], jnp.ones((7, 1), bool), jnp.float32(clip))[0] for layer in layers]

    shared, separate = sums(a, np.where(seen[:, :, None], a, 0.0), delta)
    assert shared.shape == (3, 4, 5) and np.allclose(shared, separate, atol=1e-5)
    assert (np.asarray(shared)[~seen] == 0).all()


# Clipped one by one ---------------------------------------------------------------------------------------------------

NORMS = np.array([0.3, 0.0, 2.0], np.float32)


@jax.jit
def clipped_one_by_one(a, delta, inside, norms):
    """Three networks of two layers each, the first with inputs of their own and the second with shared ones."""
    return clipped_sums([Layer(a, delta), Layer(a[0], delta, SQUARE)], inside, norms)


SQUARE = np.tri(3, dtype=bool)
"""As many layers side by side as inputs: weights of the one must not be taken for weights of the other."""


@pytest.mark.parametrize("rows_of_a_unit", [1, 3])
@pytest.mark.parametrize("norms", [NORMS, np.full(3, 1e6, np.float32)], ids=["clipped", "not clipped"])
def test_networks_side_by_side_are_clipped_each_by_itself(norms, rows_of_a_unit):
    draw = np.random.default_rng(0)
    a, delta = draw.standard_normal((2, 3, 3, 6)).astype(np.float32)
    inside = np.ones((6 // rows_of_a_unit, rows_of_a_unit), bool)
    inside[0, -1] = False
    found = clipped_one_by_one(a, delta, inside, norms)
    expected = np.zeros((2, 3, 3, 3))
    for j in range(3):
        each = np.stack([np.einsum("ir,or->rio", x, delta[j]) for x in (a[j], a[0] * SQUARE[j][:, None])], axis=1)
        lengths = (np.sqrt((each**2).sum(axis=(1, 2, 3))) * inside.ravel()).reshape(inside.shape).sum(axis=1)
        factors = np.repeat(np.minimum(1.0, norms[j] / np.maximum(lengths, 1e-9)), rows_of_a_unit) * inside.ravel()
        expected[:, j] = np.einsum("r,rlio->lio", factors, each)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@examples(30)
@hypothesis.example((np.full((3, 3, 6), 1e-19, np.float32), np.full((3, 3, 6), 1.8e19, np.float32)), NORMS, 0, 1)
@hypothesis.example((np.full((3, 3, 6), 1e30, np.float32), np.full((3, 3, 6), 1e-17, np.float32)), NORMS, 1, 2)
@hypothesis.example((np.full((3, 3, 6), 5.0, np.float32), np.full((3, 3, 6), 7.0, np.float32)), NORMS, 0, 1)
@hypothesis.given(
    factors_of((3, 3), (3, 3)),
    arrays.arrays(np.float32, 3, elements=st.floats(0.0, 100.0, width=32)),
    st.integers(0, 2),
    st.sampled_from([1, 2, 3]),
)
def test_no_unit_moves_networks_clipped_each_by_itself_by_more_than_their_norms(factors, norms, unit, rows_of_a_unit):
    inside = np.ones((6 // rows_of_a_unit, rows_of_a_unit), dtype=bool)
    without = inside.copy()
    without[unit % len(inside)] = False
    whole, rest = (clipped_one_by_one(*factors, each, norms) for each in (inside, without))
    squares = sum(
        ((np.asarray(x, np.float64) - np.asarray(y, np.float64)) ** 2).sum(axis=(1, 2))
        for x, y in zip(whole, rest, strict=True)
    )
    assert (np.sqrt(squares) <= norms.astype(float) * (1 + 2e-6 * 6 / rows_of_a_unit)).all()


def test_a_row_that_is_not_finite_for_one_network_counts_for_the_others():
    draw = np.random.default_rng(0)
    a, delta = draw.standard_normal((2, 3, 3, 6)).astype(np.float32)
    spoilt = delta.copy()
    spoilt[1, 0, 2] = np.inf
    inside, norms = np.ones((6, 1), bool), np.ones(3, np.float32)
    good, bad = (clipped_one_by_one(a, each, inside, norms) for each in (delta, spoilt))
    for one, other in zip(good, bad, strict=True):
        np.testing.assert_allclose(np.asarray(other)[[0, 2]], np.asarray(one)[[0, 2]], atol=1e-6)
        assert np.isfinite(np.asarray(other)).all() and not np.allclose(other[1], one[1])


@pytest.mark.parametrize("norms", [np.ones(2), np.ones((3, 1)), np.ones(1)])
def test_clipping_norms_are_as_many_as_networks_side_by_side(norms):
    layer = Layer(jnp.ones((3, 1, 6)), jnp.ones((3, 1, 6)))
    with pytest.raises(ValueError, match="one for each layer side by side"):
        clipped_sums([layer], jnp.ones((6, 1), bool), norms)
    with pytest.raises(ValueError, match="one for each layer side by side"):
        clipped_sums([layer, Layer(jnp.ones((1, 6)), jnp.ones((1, 6)))], jnp.ones((6, 1), bool), jnp.ones(3))


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [np.ones((2, 1)), jnp.ones((2, 1), bool), np.ones((2, 2), bool)])
def test_what_is_seen_must_be_known_beforehand(seen):
    with pytest.raises(ValueError, match="NumPy array of truth values"):
        clipped_sums([Layer(jnp.ones((1, 6)), jnp.ones((2, 1, 6)), seen)], jnp.ones((6, 1), bool), jnp.float32(1.0))


def test_layers_side_by_side_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="equal axes"):
        clipped_sums([Layer(jnp.ones((2, 1, 6)), jnp.ones((1, 1, 6)))], jnp.ones((6, 1), bool), jnp.float32(1.0))


# Rounding -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1500, 20_000])
def test_in_a_large_batch_rounding_stays_within_the_margin(m):
    draw = np.random.default_rng(0)
    a, delta = (jnp.asarray(draw.normal(3.0, 0.1, (4, m)), jnp.float32) for _ in range(2))
    clip = jnp.float32(usable_part(16, 1, rounding=0.0))
    inside = np.ones((m, 1), dtype=bool)
    whole = clipped([Layer(a, delta)], jnp.asarray(inside), clip)[0]
    assert whole.dtype == (jnp.float32 if m < 5000 else jnp.float64)
    for unit in range(20):
        inside[unit] = False
        without = clipped([Layer(a, delta)], jnp.asarray(inside), clip)[0]
        inside[unit] = True
        assert np.linalg.norm(np.asarray(whole, np.float64) - np.asarray(without, np.float64)) <= 1.0


def test_sums_in_blocks_are_the_sums():
    draw = np.random.default_rng(0)
    a, delta = (draw.standard_normal((3, wide, 900)).astype(np.float32) for wide in (4, 5))
    assert summation_blocks(900, 1) > 1
    seen = draw.random((3, 4)) < 0.7
    layers = [Layer(jnp.asarray(a), jnp.asarray(delta)), Layer(jnp.asarray(a[0]), jnp.asarray(delta), seen)]
    found = jax.jit(lambda: clipped_sums(layers, jnp.ones((900, 1), bool), jnp.float32(1e6)))()
    exact = np.einsum("sir,sor->sio", a.astype(float), delta.astype(float))
    np.testing.assert_allclose(found[0], exact, atol=2e-3)
    shared = np.einsum("ir,sor->sio", a[0].astype(float), delta.astype(float)) * seen[:, :, None]
    np.testing.assert_allclose(found[1], shared, atol=2e-3)


@pytest.mark.parametrize("order", ["one after the other", "largest partial sums", "pairs"])
@pytest.mark.parametrize("rows", [60, 400, 1300])
def test_errors_of_a_sum_are_within_the_bound_in_any_order(order, rows):
    """Rows that all pull the same way, added in float32 by hand: what `usable_part` says is an upper bound."""
    draw = np.random.default_rng(rows)
    terms = (1 - draw.random((200, rows)) * 1e-3).astype(np.float32)  # 200 coordinates
    blocks = summation_blocks(rows, 1)
    length = math.ceil(rows / blocks)

    def added(parts):
        parts = [part.astype(np.float32) for part in parts]
        while len(parts) > 1:
            if order == "pairs":
                ends = [parts.pop()] if len(parts) % 2 else []
                parts = [one + other for one, other in zip(parts[::2], parts[1::2], strict=True)] + ends
            else:
                parts = [parts[0] + parts[1], *parts[2:]]
        return parts[0]

    if order == "largest partial sums":
        terms = np.sort(terms, axis=1)[:, ::-1]
    found = added([added(list(terms[:, k : k + length].T)) for k in range(0, rows, length)])
    error = np.abs(found - terms.astype(np.float64).sum(axis=1)).max()
    assert error <= rows * (length + blocks + 5) * UNIT / 2 <= SUMMATION / 2


@pytest.mark.parametrize("rows_of_a_unit", [1, 2, 30])
@pytest.mark.parametrize("units", [1, 64, 500, 1229, 2000, 60_000, 10**6])
def test_blocks_keep_errors_of_two_sums_within_their_part(units, rows_of_a_unit):
    blocks, rows = summation_blocks(units, rows_of_a_unit), units * rows_of_a_unit
    if blocks:
        each = units * (math.ceil(rows / blocks) + blocks + 5) * UNIT / (2 if rows_of_a_unit == 1 else 1)
        assert 2 * each <= SUMMATION
    elif rows <= MOST_ROWS:
        assert 2 * units * (rows + 5) * 2.0**-53 <= SUMMATION
    assert units > 64 or rows_of_a_unit == 30 or blocks == 1
