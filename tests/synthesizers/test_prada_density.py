"""Conditional densities of `prada`: as their formulas say, the same in both programs, and packed without loss."""

import functools
import math

import jax
import numpy as np
import pytest
from prada_oracle import log_density as oracle
from scipy import integrate, stats

from prada_densities import (
    COMPONENTS,
    FOUR,
    HIDDEN,
    MANY,
    VARIABLES,
    columns,
    densities,
    every_pair,
    parts,
    reading,
    rows,
    some_pairs,
)
from understudy.privacy.densities import SCALES
from understudy.synthesizers.prada.likelihood import columns as single
from understudy.synthesizers.prada.likelihood.parts import MOST_COLUMNS, MOST_FEATURES, parts_of

log_density = jax.jit(oracle, static_argnames="shape")
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
        low, high = np.log(SCALES)
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
        found = log_density(part.pack(made, VARIABLES), part.rows(x), part.shape)
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
        found = log_density(packed, part.rows(x), part.shape)
        np.testing.assert_allclose(
            found[: len(part.members)], single_densities("some")[list(part.members)], rtol=1e-4, atol=2e-4
        )


def test_columns_of_a_kind_are_a_part_and_have_no_room_to_spare():
    kinds = {part.members: part.shape for part in parts(columns())}
    assert {tuple(sorted(members)) for members in kinds} == {(0,), (1, 3), (2, 5), (4,), (6,)}
    assert kinds[4,].rank == reading().tables[4].shape[1] and kinds[4,].states == MANY
    shape = kinds[0,]
    assert (shape.number, shape.states, shape.outputs, shape.linear) == (True, 0, 3 * COMPONENTS, 1)
    own = columns()[0]
    assert shape.size == own.first.size + own.second.size


@pytest.mark.parametrize(("count", "sizes"), [(4, [4]), (5, [3, 2]), (19, [10, 9]), (70, [24, 24, 22])])
def test_many_columns_are_split_evenly_into_parts(count, sizes):
    many = [columns(read=reading(FOUR))[0]] * count
    found = parts_of(many, [FOUR[0]] * count, components=COMPONENTS)
    assert [len(part.members) for part in found] == sizes and max(sizes) <= MOST_COLUMNS
    assert [j for part in found for j in part.members] == list(range(count))


def test_columns_that_read_much_between_them_are_in_parts_of_their_own():
    own = columns(read=reading(FOUR))[0]
    many = [own._replace(sources=np.arange(10 * j, 10 * j + 80, dtype=np.int32)) for j in range(4)]
    found = parts_of([*many, many[-1]], [FOUR[0]] * 5, components=COMPONENTS)
    assert [part.members for part in found] == [(0, 1), (2, 3, 4)]
    assert max(len(part.features) for part in found) <= MOST_FEATURES


def test_columns_that_each_read_few_inputs_are_in_one_part_however_many_they_read_between_them():
    own = columns(read=reading(FOUR))[0]
    many = [own._replace(sources=np.arange(12 * j, 12 * j + 12, dtype=np.int32)) for j in range(20)]
    found = parts_of(many, [FOUR[0]] * 20, components=COMPONENTS)
    assert [len(part.members) for part in found] == [10, 10]
    assert all(part.shape.gathered and len(part.features) == 120 for part in found)


def test_a_column_sees_its_sources_alone():
    made, x = columns(some_pairs()), rows()
    for part in parts(made):
        weights, read = part.pack(made, VARIABLES), part.rows(x)
        found = np.asarray(log_density(weights, read, part.shape))
        owners = reading().owners[part.features]
        for k in range(7):
            moved = read.copy()
            moved[:, np.flatnonzero(owners == k)] += 1.0
            differs = np.abs(np.asarray(log_density(weights, moved, part.shape)) - found).max(axis=1) > 1e-3
            np.testing.assert_array_equal(differs, some_pairs()[list(part.members), k])


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
    assert found.max() <= -math.log(SCALES[0] * min(float(column.unit) for column in made))


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
