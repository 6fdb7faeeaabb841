"""Rows drawn from the densities of `prada`: their marginals, their density, and model files of them."""

import dataclasses
import functools

import numpy as np
import pytest
from scipy import stats

from prada_densities import ENCODER, FOUR, VARIABLES, columns, densities, every_pair, reading, rows, some_pairs
from understudy.core.randomness import Key
from understudy.synthesizers.prada.likelihood.drawing import (
    CELLS,
    CHUNK_CELLS,
    KNOTS,
    LEAST_CHUNK,
    MOST_CHUNK,
    NormalMap,
    quantiles,
    share_constants,
)
from understudy.synthesizers.prada.likelihood.fitted import FittedDensity
from understudy.synthesizers.prada.likelihood.pool import Pool, PublicRows
from understudy.synthesizers.prada.likelihood.reading import Reading


@functools.cache
def calibrated(some=False):
    """Calibrated densities, and the rows that they were calibrated on."""
    made = densities(columns(some_pairs() if some else None))
    return made.calibrated(2**13, np.random.default_rng(0))


@pytest.mark.parametrize("some", [False, True], ids=["all earlier", "some"])
def test_drawn_columns_have_the_distributions_that_were_measured(some):
    levels = calibrated(some)[0].sample(8192, key=Key.new(1))
    for v in VARIABLES:
        level, known = levels[v.name], ENCODER.columns[v.name]
        assert np.isnan(level).mean() == pytest.approx(known.missing, abs=0.015), v.name
        assert stats.kstest(level[~np.isnan(level)], "uniform").statistic < 0.025, v.name
        state = v.state_of(level)
        if v.states:
            assert np.abs(np.bincount(state, minlength=v.states) / len(state) - v.shares).max() < 0.02, v.name


def test_the_rows_of_a_calibration_have_the_distributions_that_were_measured():
    found = calibrated()[1]
    for j, v in enumerate(VARIABLES):
        if v.states:
            made = np.bincount(found.states[j], minlength=v.states) / found.count
            assert np.abs(made - v.shares).max() < 0.02
        if v.number:
            regular = found.states[j] == 0
            assert stats.kstest(found.own[j, regular], "norm").statistic < 0.025
            assert not found.own[j, ~regular].any()


def test_drawn_rows_are_read_as_a_pool_of_them_is():
    """What later columns see while rows are drawn is what a public table with the drawn levels would show."""
    made, draw = calibrated()[0], np.random.default_rng(3)
    drawn = made.draw(500, draw)
    again = Pool(made.levels(drawn, draw), VARIABLES).read(made.reading)
    np.testing.assert_array_equal(again.states, drawn.states)
    inner = np.abs(drawn.own) < 3.3  # beyond them levels are held within the edges
    np.testing.assert_allclose(np.where(inner, again.own, 0.0), np.where(inner, drawn.own, 0.0), atol=1e-3)
    rows_inside = inner.all(axis=0)
    assert rows_inside.mean() > 0.95
    np.testing.assert_allclose(again.inputs[:, rows_inside], drawn.inputs[:, rows_inside], atol=2e-3)


def test_calibration_changes_constants_and_knots_alone():
    before, after = densities(), calibrated()[0]
    for j, (one, other) in enumerate(zip(before.columns, after.columns, strict=True)):
        np.testing.assert_array_equal(one.first, other.first)
        np.testing.assert_array_equal(one.second[:-1], other.second[:-1])
        outputs = one.second.shape[1] - (VARIABLES[j].states if not one.places.size else 0)
        np.testing.assert_array_equal(one.second[-1, :outputs], other.second[-1, :outputs])
    assert (np.diff(after.knots, axis=1) > 0).all()


def test_fewer_rows_are_the_first_of_more_and_none_are_none():
    made = calibrated()[0]
    few, more = made.sample(10, key=Key.new(0)), made.sample(made.chunk + 5, key=Key.new(0))
    for name, level in few.items():
        np.testing.assert_array_equal(level, more[name][:10])
        assert len(more[name]) == made.chunk + 5
    assert all(len(level) == 0 for level in made.sample(0, key=Key.new(0)).values())


def test_constants_give_states_their_shares():
    draw = np.random.default_rng(0)
    logits, shares = (2 * draw.standard_normal((5, 4000))).astype(np.float32), np.array([0.5, 0.3, 0.1, 0.0999, 1e-4])
    weights = np.exp(logits + share_constants(logits, shares)[:, None])
    np.testing.assert_allclose((weights / weights.sum(axis=0)).mean(axis=1), shares, rtol=0.02)


def test_the_map_takes_knots_to_normal_quantiles_and_ends_at_the_limit():
    knots = np.sort(np.random.default_rng(0).standard_normal(KNOTS)).astype(np.float32)
    at = np.linspace(knots[0], knots[-1], CELLS + 1)
    np.testing.assert_allclose(
        NormalMap(knots, 9.0)(at.astype(np.float32)), np.interp(at, knots, quantiles()), atol=2e-4
    )
    np.testing.assert_allclose(NormalMap(knots, 9.0)(knots), quantiles(), atol=0.05)
    beyond = np.array([knots[0] - 1, knots[-1] + 1, 100.0], np.float32)
    np.testing.assert_allclose(NormalMap(knots, 9.0)(beyond), [quantiles()[0] - 1, quantiles()[-1] + 1, 9.0], atol=1e-6)


def test_the_inverse_of_a_map_and_its_growth_are_those_of_the_map():
    knots = np.sort(np.random.default_rng(0).standard_normal(KNOTS)).astype(np.float32)
    mapped, scores = NormalMap(knots, 9.0), np.linspace(-4, 4, 1001).astype(np.float32)
    back, growth = mapped.inverse(mapped(scores))
    np.testing.assert_allclose(back, scores, atol=1e-4)
    nearby, _ = mapped.inverse(mapped(scores) + 1e-5)
    assert np.median(np.abs((nearby - back) / 1e-5 - growth)) < 0.05


def test_the_density_of_what_is_drawn_is_that_of_the_drawing():
    """Two numbers, one grid: the density integrates to one, and to the shares of drawn rows in cells."""
    read = reading(FOUR[:2])
    wide = densities(columns(every_pair(2), read), read)
    made = dataclasses.replace(wide, limit=8.0).calibrated(2**13, np.random.default_rng(0))[0]
    x = made.draw(60_000, np.random.default_rng(1)).own
    edges = np.linspace(-7, 7, 281)
    middle = (edges[1:] + edges[:-1]) / 2
    grid = np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1).reshape(-1, 2).T.astype(np.float32)
    states = np.zeros(grid.shape, np.int64)
    public = PublicRows(read.variables, grid, states, read.of_rows(grid, states))
    mass = np.exp(made.total_log_density(public)).reshape(280, 280) * 0.05**2
    assert mass.sum() == pytest.approx(1.0, abs=0.02)
    coarse = mass.reshape(14, 20, 14, 20).sum(axis=(1, 3))
    seen = np.histogram2d(*x, bins=[edges[::20]] * 2)[0] / x.shape[1]
    assert np.abs(coarse - seen).max() < 0.01


def test_the_log_density_of_rows_is_the_sum_over_their_columns():
    """Without calibration to speak of: knots that are normal quantiles leave scores as they are."""
    made, x = densities(), rows()
    each = [made.log_density(j, x, x.inputs[own.sources]) for j, own in enumerate(made.columns)]
    np.testing.assert_allclose(made.total_log_density(x), np.sum(each, axis=0), rtol=1e-4, atol=1e-3)


# Model files ----------------------------------------------------------------------------------------------------------


def fitted():
    return FittedDensity(densities=calibrated()[0], norms=np.tri(7, k=-1, dtype=np.float32), pairs=every_pair(7))


def test_a_model_of_arrays_draws_the_same_rows():
    before, saved = fitted(), fitted().arrays()
    assert all(isinstance(each, np.ndarray) and each.dtype.kind != "O" for each in saved.values())
    after = FittedDensity.from_arrays(saved)
    one, other = (each.sample(300, key=Key.new(5)) for each in (before, after))
    for name, level in one.items():
        np.testing.assert_array_equal(level, other[name])
    x = rows()
    np.testing.assert_array_equal(before.densities.total_log_density(x), after.densities.total_log_density(x))
    assert after.parents(ENCODER.schema) == before.parents(ENCODER.schema)
    assert after.strengths() == before.strengths()
    again = after.arrays()
    for name, array in saved.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)


def test_sampled_numbers_are_stratified_and_states_are_not_moved():
    levels, plain = fitted().sample(400, key=Key.new(2)), fitted().densities.sample(400, key=Key.new(2))
    for v in VARIABLES:
        level = levels[v.name][~np.isnan(levels[v.name])]
        if v.number:
            cells = np.bincount((level * len(level)).astype(int), minlength=len(level))
            assert (cells == 1).all()
        else:
            np.testing.assert_array_equal(levels[v.name], plain[v.name])


def test_parents_and_strengths_are_named():
    found = fitted()
    assert found.parents(ENCODER.schema)["c"] == ["a", "b"] and found.parents(ENCODER.schema)["a"] == []
    assert found.strengths()["c"] == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize(("columns", "states"), [(3, 0), (3, 800), (3, 10**7), (9000, 0)])
def test_chunks_are_smaller_where_rows_are_wider(columns, states):
    """A chunk takes memory for the inputs of its rows, and for the states of one column at a time."""
    number = VARIABLES[0]
    shares = np.full(states, 1.0 / states) if states else np.zeros(0)
    variables = (*[number] * (columns - 1), dataclasses.replace(number, number=not states, shares=shares))
    tables = tuple(np.zeros((v.states, 0), np.float32) for v in variables)
    made = dataclasses.replace(densities(), reading=Reading(variables, tables))
    most = max(columns, states)
    assert LEAST_CHUNK <= made.chunk <= MOST_CHUNK
    assert made.chunk == LEAST_CHUNK or made.chunk * most <= CHUNK_CELLS
    assert made.chunk == MOST_CHUNK or 2 * made.chunk * most > CHUNK_CELLS
