"""Reading of `prada`: a column as a few numbers, whatever it is."""

import numpy as np
import pytest

from prada_densities import VARIABLES, category, encoder_of, independent_levels, number, reading, rows
from understudy.synthesizers.prada.likelihood.pool import Pool
from understudy.synthesizers.prada.likelihood.ragged import flat, ragged
from understudy.synthesizers.prada.likelihood.reading import (
    ATOM_FLAGS,
    DIRECTIONS,
    FARTHEST,
    FLAGS_OF_MANY,
    MOST_FLAGS,
    reading_of,
)
from understudy.synthesizers.prada.likelihood.variables import variables_of


def test_a_number_is_its_score_and_flags_of_its_states():
    read = reading()
    assert read.widths.tolist() == [1, 2, 1 + 3, 2, FLAGS_OF_MANY + DIRECTIONS, 1 + 3, 1 + 1]
    assert read.size == read.widths.sum() == len(read.owners)
    np.testing.assert_array_equal(read.starts, np.cumsum(read.widths) - read.widths)
    np.testing.assert_array_equal(read.owners, np.repeat(np.arange(7), read.widths))
    np.testing.assert_array_equal(read.tables[2], [[0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]])  # missing is commoner


def test_few_states_are_flags_of_all_but_the_most_common():
    b, d = reading().tables[1], reading().tables[3]
    np.testing.assert_array_equal(b, [[0, 0], [1, 0], [0, 1]])
    np.testing.assert_array_equal(d, [[1, 0], [0, 0], [0, 1]])


def test_a_number_has_flags_of_its_most_common_atoms():
    edges = np.concatenate([[0.0], np.cumsum([0.1, 0.12, 0.14, 0.16, 0.18, 0.2])])
    atoms = number("x", (np.arange(8) - 0.5).tolist(), [*edges, 1.0], whole=True)
    variables = variables_of(encoder_of(atoms), ["x"])
    [table] = reading_of(variables, np.zeros((1, 9), int), [np.zeros(9, int)], np.ones(9)).tables
    assert table.shape == (variables[0].states, ATOM_FLAGS)
    assert np.argmax(table, axis=0).tolist() == [6, 5, 4, 3]  # state 0 is regular


@pytest.mark.parametrize("states", [MOST_FLAGS, MOST_FLAGS + 1])
def test_a_column_with_more_states_has_places(states):
    encoder = encoder_of(category("x", np.arange(states, 0, -1.0)), category("y", np.ones(2)))
    variables = variables_of(encoder, ["x", "y"])
    pool = Pool(independent_levels(encoder, 500), variables)
    table = reading_of(variables, pool.states, list(pool.states), np.ones(500)).tables[0]
    np.testing.assert_array_equal(table[:5, :4], np.eye(5)[:, 1:])  # the most common state has no flag
    assert table.shape[1] == (states - 1 if states <= MOST_FLAGS else FLAGS_OF_MANY + 1)  # two values: one direction


def grouped(weights=None, n=20_000):
    """Twenty values in two groups, which another column tells apart, and a third that is alone."""
    draw = np.random.default_rng(0)
    x, alone = draw.integers(0, 20, n), draw.integers(0, 3, n)
    y = np.where(draw.random(n) < 0.9, x % 2, 1 - x % 2)
    encoder = encoder_of(category("x", np.ones(20)), category("y", np.ones(2)), category("z", np.ones(3)))
    codes = [x, y, alone]
    variables = variables_of(encoder, ["x", "y", "z"])
    return reading_of(variables, np.stack(codes), codes, np.ones(n) if weights is None else weights(codes)).tables[0]


def test_places_are_where_other_columns_tell_states_apart():
    first = grouped()[:, FLAGS_OF_MANY]
    even, odd = first[::2], first[1::2]
    assert abs(even.mean() - odd.mean()) > 10 * max(np.std(even), np.std(odd))
    assert np.abs(first).mean() == pytest.approx(1.0, abs=0.1)  # in deviations


def test_places_count_rows_by_their_weights():
    first = grouped(lambda codes: (codes[1] == codes[0] % 2).astype(float) + 1e-6)[:, FLAGS_OF_MANY]
    assert np.ptp(first[::2]) < 0.2 and np.ptp(first[1::2]) < 0.2


def test_a_state_of_few_rows_is_near_the_middle():
    draw = np.random.default_rng(0)
    x = np.where(draw.random(5000) < 0.001, 19, draw.integers(0, 19, 5000))
    y = np.where(x < 10, 0, 1)
    encoder = encoder_of(category("x", np.ones(20)), category("y", np.ones(2)))
    table = reading_of(variables_of(encoder, ["x", "y"]), np.stack([x, y]), [x, y], np.ones(5000)).tables[0]
    place = np.abs(table[:, FLAGS_OF_MANY])
    assert 0 < (x == 19).sum() < 10 and place[19] < 0.5 * place[:19].min()
    assert np.abs(table).max() <= FARTHEST


def test_a_column_of_many_states_may_be_alone():
    encoder = encoder_of(category("x", np.ones(30)))
    variables = variables_of(encoder, ["x"])
    pool = Pool(independent_levels(encoder, 300), variables)
    [table] = reading_of(variables, pool.states, [np.zeros(300, int)], np.ones(300)).tables
    assert table.shape == (30, FLAGS_OF_MANY)


def test_inputs_of_rows_are_those_of_their_columns():
    found, read = rows(50), reading()
    for j, variable in enumerate(VARIABLES):
        own = found.inputs[read.owners == j]
        if variable.number:
            plain = found.states[j] == 0 if variable.states else np.ones(50, bool)
            assert not (own[0] == 0)[plain].all()
        if variable.states:
            np.testing.assert_array_equal(own[int(variable.number) :], read.tables[j].T[:, found.states[j]])


# Ragged arrays --------------------------------------------------------------------------------------------------------


def test_arrays_of_different_shapes_come_back_from_two_flat_ones():
    draw = np.random.default_rng(0)
    arrays = [draw.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (0, 4), (5, 0), (1, 1))]
    saved = flat("some", arrays)
    assert set(saved) == {"some", "some shapes"} and saved["some"].ndim == 1 and len(saved["some"]) == 7
    back = ragged("some", saved)
    assert len(back) == 4
    for before, after in zip(arrays, back, strict=True):
        assert after.dtype == before.dtype
        np.testing.assert_array_equal(after, before)


def test_arrays_of_one_axis_come_back_too():
    arrays = [np.arange(3, dtype=np.int32), np.zeros(0, np.int32)]
    for before, after in zip(arrays, ragged("x", flat("x", arrays)), strict=True):
        assert after.dtype == np.int32
        np.testing.assert_array_equal(after, before)
