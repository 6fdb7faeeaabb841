"""Conditional densities of `prada`: as their formulas say, the same in both programs, and packed without loss."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from prada_densities import (
    COMPONENTS,
    FOUR,
    HIDDEN,
    VARIABLES,
    columns,
    densities,
    every_pair,
    parts,
    reading,
    rows,
    some_pairs,
)
from understudy.synthesizers.prada.likelihood import columns as single
from understudy.synthesizers.prada.likelihood import density
from understudy.synthesizers.prada.likelihood.parts import MOST_COLUMNS, Shape, parts_of

log_density = jax.jit(density.log_density, static_argnames="shape")
both_readings = pytest.mark.parametrize("pairs", [every_pair(7), some_pairs()], ids=["all earlier", "some"])


def plain_log_density(column, variable, read, own, state):
    """The formulas of columns.py for one row."""
    first = np.append(read, 1.0) @ column.first
    hidden = column.second.shape[0] - 1
    o = np.append(np.tanh(first[:hidden]), 1.0) @ column.second
    linear, found = first[hidden:], 0.0
    split = 3 * COMPONENTS if variable.number else 0
    if variable.states:
        logits = linear[int(variable.number) :] + o[split:]
        if column.places.shape[1]:
            logits = column.bias + column.places @ logits
        found += logits[state] - np.log(np.exp(logits).sum())
    if variable.number and (not variable.states or state == 0):
        shift, raw, weight = np.split(o[:split], 3)
        low, high = np.log(single.SCALES)
        scale = np.exp((low + high) / 2 + (high - low) / 2 * np.tanh((raw - (low + high) / 2) * 2 / (high - low)))
        share, s = np.exp(weight) / np.exp(weight).sum(), float(column.unit)
        found += np.log(share @ stats.norm.pdf(own, s * (linear[0] + shift), s * scale))
    return found


@functools.cache
def single_densities(pairs_key=None, n=40):
    """The log density of every column and row, in NumPy: (columns, rows)."""
    made, x = densities(columns(some_pairs() if pairs_key == "some" else None)), rows(n)
    return np.stack([made.log_density(j, x, x.inputs[own.sources]) for j, own in enumerate(made.columns)])


@both_readings
def test_the_log_density_is_that_of_its_formulas(pairs):
    made, x = columns(pairs), rows()
    found = single_densities("some" if (pairs == some_pairs()).all() else None)
    plain = [
        [plain_log_density(c, v, x.inputs[c.sources, r], x.own[j, r], x.states[j, r]) for r in range(40)]
        for j, (c, v) in enumerate(zip(made, VARIABLES, strict=True))
    ]
    np.testing.assert_allclose(found, plain, rtol=2e-4, atol=2e-4)


# Parts ----------------------------------------------------------------------------------------------------------------


@both_readings
def test_the_density_of_a_part_is_that_of_its_columns(pairs):
    made, x = columns(pairs), rows()
    expected = single_densities("some" if (pairs == some_pairs()).all() else None)
    seen = []
    for part in parts(made):
        found = log_density(part.pack(made, VARIABLES), part.rows(x.inputs, x.own, x.states), part.shape)
        assert found.shape == (part.shape.columns, 40) and np.isfinite(np.asarray(found)).all()
        np.testing.assert_allclose(found[: len(part.members)], expected[list(part.members)], rtol=1e-4, atol=2e-4)
        seen += part.members
    assert sorted(seen) == list(range(7))


@both_readings
def test_columns_are_packed_and_unpacked_without_loss(pairs):
    made, back = columns(pairs), {}
    for part in parts(made):
        back |= dict(part.unpack(part.pack(made, VARIABLES), made))
    for j, before in enumerate(made):
        for one, other in zip(before, back[j], strict=True):
            assert one.shape == other.shape and one.dtype == other.dtype
            np.testing.assert_array_equal(other, one)


def test_columns_that_were_cut_fit_into_the_parts_of_before():
    made, fewer, x = columns(), columns(some_pairs()), rows()
    for part in parts(made):
        packed = part.pack(fewer, VARIABLES)
        back = dict(part.unpack(packed, fewer))
        assert all(np.array_equal(back[j].first, fewer[j].first) for j in part.members)
        found = log_density(packed, part.rows(x.inputs, x.own, x.states), part.shape)
        np.testing.assert_allclose(
            found[: len(part.members)], single_densities("some")[list(part.members)], rtol=1e-4, atol=2e-4
        )


def test_few_columns_of_a_kind_join_a_roomier_one_and_many_states_have_a_part_of_their_own():
    kinds = {part.members: part.shape for part in parts(columns())}
    assert set(kinds) == {(0, 2, 5, 6), (1, 3), (4,)}
    shape = kinds[0, 2, 5, 6]
    assert (shape.number, shape.states, shape.rank, shape.columns) == (True, 8, 0, 4)
    assert kinds[4,].rank == reading().tables[4].shape[1] and kinds[4,].states == 64
    assert shape.outputs == 3 * COMPONENTS + 8 and shape.linear == 9


def test_many_columns_are_split_evenly_into_parts_of_one_shape():
    many = [columns(read=reading(FOUR))[0]] * 19
    found = parts_of(many, [FOUR[0]] * 19, components=COMPONENTS)
    assert len({part.shape for part in found}) == 1 and found[0].shape.columns == MOST_COLUMNS
    assert sorted(j for part in found for j in part.members) == list(range(19))


@functools.cache
def numbers_with_atoms():
    """The part of numbers, its weights, and rows."""
    made, x = columns(some_pairs()), rows()
    [part] = [part for part in parts(made) if part.shape.number]
    return part, part.pack(made, VARIABLES), jnp.asarray(part.rows(x.inputs, x.own, x.states))


@functools.cache
def many_states():
    made, x = columns(some_pairs()), rows()
    [part] = [part for part in parts(made) if part.shape.rank]
    return part, part.pack(made, VARIABLES), jnp.asarray(part.rows(x.inputs, x.own, x.states))


def test_a_column_sees_its_sources_alone():
    part, weights, x = numbers_with_atoms()
    found = np.asarray(log_density(weights, x, part.shape))
    owners = reading().owners[part.features]
    for k in range(7):
        moved = x.at[np.flatnonzero(owners == k)].add(1.0)
        differs = np.abs(np.asarray(log_density(weights, moved, part.shape)) - found).max(axis=1) > 1e-3
        np.testing.assert_array_equal(differs[: len(part.members)], some_pairs()[list(part.members), k])


@pytest.mark.parametrize("kind", [numbers_with_atoms, many_states])
def test_factors_are_the_gradient_of_the_log_density_row_by_row(kind):
    part, weights, x = kind()

    def loss(layers, row):
        return -jnp.sum(density.log_density(weights._replace(**layers), row[:, None], part.shape))

    each = jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 1)))({"first": weights.first, "second": weights.second}, x)
    layers = jax.jit(lambda x: [layer[:2] for layer in density.factors(weights, x, part.shape)])(x)
    used = np.asarray(density.used_inputs(weights.sources))
    for (a, delta), exact in zip(layers, (each["first"], each["second"]), strict=True):
        np.testing.assert_allclose(np.einsum("dir,dor->rdio", a, delta), exact, rtol=1e-3, atol=2e-4)
    unread = np.broadcast_to(~used[..., 0], weights.first.shape[:2])
    assert unread.any() and not np.asarray(layers[0][0])[unread].any()  # inputs that read nothing have no gradient


def test_room_for_columns_and_states_that_are_not_there_changes_nothing():
    part, weights, x = numbers_with_atoms()
    roomy: Shape = dataclasses.replace(part.shape, columns=8, inputs=32, features=64, states=16)
    wider = dataclasses.replace(part, shape=roomy)
    made, public = columns(some_pairs()), rows()
    found = log_density(wider.pack(made, VARIABLES), wider.rows(public.inputs, public.own, public.states), roomy)
    expected = np.asarray(log_density(weights, x, part.shape))
    np.testing.assert_allclose(np.asarray(found)[: len(part.members)], expected[: len(part.members)], atol=2e-4)
    assert not np.isnan(np.asarray(found)).any()


# One column -----------------------------------------------------------------------------------------------------------


def at_one_row(j, n, made=None):
    """What column j makes of the inputs of one row, n times over."""
    made, x = made or densities(), rows(1, seed=4)
    return made, made.outputs(j, np.repeat(x.inputs[made.columns[j].sources], n, axis=1))


def test_densities_of_a_number_integrate_to_one():
    grid = np.linspace(-12, 12, 4001, dtype=np.float32)
    made, outputs = at_one_row(0, 4001)
    found = np.exp(single.log_density(made.columns[0], outputs, grid, np.zeros(4001, int)))
    assert integrate.trapezoid(found, grid) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("j", [2, 5, 6])
def test_densities_of_a_number_with_states_are_one_over_all_of_them(j):
    grid = np.linspace(-12, 12, 4001, dtype=np.float32)
    made, outputs = at_one_row(j, 4001)
    regular = single.log_density(made.columns[j], outputs, grid, np.zeros(4001, int))
    others = [
        single.log_density(made.columns[j], outputs, grid, np.full(4001, s))[0] for s in range(1, VARIABLES[j].states)
    ]
    total = integrate.trapezoid(np.exp(regular), grid) + np.exp(others).sum()
    assert total == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("j", [1, 3, 4])
def test_densities_of_states_sum_to_one(j):
    states = VARIABLES[j].states
    made, outputs = at_one_row(j, states)
    found = single.log_density(made.columns[j], outputs, np.zeros(states), np.arange(states))
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-5)


def test_no_density_is_large_without_bound():
    made = [column._replace(second=column.second * 1e4) for column in columns()]
    wild, x = densities(made), rows()
    found = np.stack([wild.log_density(j, x, x.inputs[own.sources]) for j, own in enumerate(made)])
    assert np.isfinite(found).all()
    assert found.max() <= -math.log(single.SCALES[0] * min(float(column.unit) for column in made))


def test_numbers_start_nearly_normal_about_their_linear_output():
    read, draw = reading(FOUR), np.random.default_rng(0)
    start = single.start_second(HIDDEN, 3 * COMPONENTS, number=True, components=COMPONENTS)
    column = columns(read=read)[3]._replace(second=start)
    x, own = draw.standard_normal((3, 400)).astype(np.float32), draw.standard_normal(400).astype(np.float32)
    outputs = single.outputs_of(column, x, number=True, components=COMPONENTS)
    found = single.log_density(column, outputs, own, np.zeros(400, int))
    linear = column.first[:-1, HIDDEN] @ x + column.first[-1, HIDDEN]
    exact = stats.norm.logpdf(own, column.unit * linear, column.unit)
    near = np.abs(own / column.unit - linear) < 1.5
    assert near.sum() > 50 and np.abs(found - exact)[near].max() < 0.05


def test_scores_are_drawn_from_their_density():
    made, outputs = at_one_row(0, 20_000)
    drawn = np.sort(single.draw_score(made.columns[0], outputs, np.random.default_rng(0)))
    grid = np.linspace(-15, 15, 20_000, dtype=np.float32)
    mass = np.exp(single.log_density(made.columns[0], outputs, grid, np.zeros(20_000, int)))
    cdf = np.cumsum(mass) * (grid[1] - grid[0])
    assert stats.kstest(drawn, lambda z: np.interp(z, grid, cdf)).pvalue > 1e-3


@pytest.mark.parametrize("j", [1, 4])
def test_states_are_drawn_from_their_density(j):
    (_, outputs), states = at_one_row(j, 20_000), VARIABLES[j].states
    assert outputs.logits is not None
    found = np.bincount(single.draw_state(outputs.logits, np.random.default_rng(0)), minlength=states)
    chances = np.exp(outputs.logits[:, 0].astype(float))
    expected = 20_000 * chances / chances.sum()
    common = expected > 10
    both = [np.append(each[common], each[~common].sum()) for each in (found, expected)]
    some = both[1] > 0
    assert stats.chisquare(both[0][some], both[1][some]).pvalue > 1e-3
