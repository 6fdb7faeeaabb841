"""Trainings of densities under attack: what a loop hands over, and what rows hold, cannot break the clipping bound."""

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import examples
from loops import part as compiled_part
from small_densities import (
    CAPACITY,
    COLUMNS,
    KINDS,
    flat,
    ledger_of,
    locked_rows,
    loop_of,
    part_of,
    rows_of,
    shape_of,
    train_parts,
    weights_of,
)
from understudy.core.randomness import Key
from understudy.privacy import densities
from understudy.privacy.densities import Shape, Weights, fixed_of
from understudy.privacy.density_training import clipped_sums, row_slopes
from understudy.privacy.lattice_noise import LatticeNoise
from understudy.privacy.rows import lock
from understudy.privacy.summation import SUMMATION, UNIT


@pytest.fixture(autouse=True, params=[0.0, 9.0], ids=["all features", "gathered"])
def reading(request, monkeypatch):
    """Every test is run twice: columns are given all features, or those that they read."""
    monkeypatch.setattr(densities, "FEW_READ", request.param)


EXTREMES = [0.0, -0.0, 1e-45, -1e-38, 1e-25, 1e-18, 1e-6, 1.0, -30.0, 1e3, 2.0**21.9, -(2.0**22), 1e10, 1e18, -1e18]
"""What a feature may be once `batches.pad_rows` has read it: any float32 up to 1e18."""
NORMS = np.array([2e-6, 0.5], np.float32)


def change(shape: Shape, weights: Weights, x: np.ndarray, rows_of_a_unit: int, contrasts: int = 0) -> np.ndarray:
    """By how much the first unit changes the clipped sums of both columns, as a part of their norms."""
    loop = loop_of(shape, contrasts=contrasts)
    fixed, pair = fixed_of(weights, shape), []
    for there in (True, False):
        inside = np.ones((len(x) // rows_of_a_unit, rows_of_a_unit), bool)
        inside[0] = there
        with np.errstate(all="ignore"):
            made = row_slopes(loop, weights, fixed, x, NORMS, np.random.default_rng(0))
            pair.append(flat(clipped_sums(made, fixed, inside, NORMS)))
    assert np.isfinite(pair).all()
    return np.linalg.norm(pair[0] - pair[1], axis=1) / NORMS


def bound(shape: Shape, rows_of_a_unit: int) -> float:
    return 1 + SUMMATION + (shape.terms + rows_of_a_unit + 16) * UNIT


@examples(20)
@given(st.sampled_from(sorted(KINDS)), st.sampled_from([1, 3]), st.sampled_from([0, 2]), st.data())
def test_no_unit_of_any_rows_and_weights_changes_a_sum_by_more_than_the_norm(kind, rows_of_a_unit, contrasts, data):
    shape = shape_of(kind)
    weights, x = weights_of(shape, data.draw(st.integers(0, 99))), rows_of(shape, 4 * rows_of_a_unit)
    cells = st.sampled_from(EXTREMES)
    for row in range(rows_of_a_unit):
        x[row, :4] = data.draw(st.lists(cells, min_size=4, max_size=4))
        x[row, 5:] = data.draw(st.lists(cells, min_size=4, max_size=4))
    scale = data.draw(st.sampled_from([1e-38, 1e-20, 1e-9, 1.0, 1e4, 1e12, 3e38, np.inf, np.nan]))
    layer = data.draw(st.sampled_from(["first", "second", "unit"]))
    with np.errstate(all="ignore"):
        weights = weights._replace(**{layer: (getattr(weights, layer) * np.float32(scale)).astype(np.float32)})
    assert (change(shape, weights, x, rows_of_a_unit, contrasts) <= bound(shape, rows_of_a_unit)).all()


@pytest.mark.parametrize("sources", [[0, 0, 0], [2, -1, 2], [4, 0, -1]], ids=["thrice", "twice", "the one again"])
def test_a_feature_that_a_column_reads_more_than_once_counts_as_often(sources):
    """Its slopes are in the sum once for every input that reads it; the norm must know."""
    shape = shape_of("numbers")
    weights, x = weights_of(shape), rows_of(shape, 4)
    weights = weights._replace(sources=np.array([sources, [3, -1, -1]], np.int32))
    x[0, :4] = 1000.0
    found = change(shape, weights, x, 1)
    assert (found <= bound(shape, 1)).all()
    assert found[0] == pytest.approx(1.0, abs=0.02)  # and no less of the norm is used than could be


class Spy(np.ndarray):
    """Weights that keep the shape of whatever they are multiplied with."""

    shapes: ClassVar[list[tuple[int, ...]]] = []

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        Spy.shapes += [np.shape(each) for each in inputs if type(each) is np.ndarray]
        plain = [np.asarray(each) for each in inputs]
        options = {**options, "out": tuple(np.asarray(each) for each in out)} if out else options
        return getattr(ufunc, method)(*plain, **options)


NOT_PLAIN = {
    "another class": lambda array: array.view(Spy),
    "objects": lambda array: array.astype(object),
    "complex numbers": lambda array: array * 1j,
}
SHAPES = {"fewer columns": (1, 6, 6), "more outputs": (2, 6, 7)}


@pytest.mark.parametrize("made", NOT_PLAIN.values(), ids=NOT_PLAIN.keys())
@pytest.mark.parametrize("name", Weights._fields)
def test_weights_that_are_no_plain_arrays_meet_no_row_and_cost_nothing(name, made):
    shape, ledger = shape_of("numbers"), ledger_of(2)
    weights = weights_of(shape)
    weights = weights._replace(**{name: made(getattr(weights, name))})
    Spy.shapes.clear()
    with pytest.raises(TypeError, match="plain NumPy arrays"):
        train_parts(locked_rows(rows_of(shape, 50)), ledger, [part_of(shape, weights, NORMS)])
    assert not ledger.receipt().charges and not Spy.shapes


@pytest.mark.parametrize("sizes", SHAPES.values(), ids=SHAPES.keys())
def test_weights_of_another_shape_than_is_paid_for_cost_nothing(sizes):
    shape, ledger = shape_of("numbers"), ledger_of(2)
    weights = weights_of(shape)._replace(second=np.zeros(sizes, np.float32))
    with pytest.raises(ValueError, match="expected layers of"):
        train_parts(locked_rows(rows_of(shape, 50)), ledger, [part_of(shape, weights, NORMS)])
    assert not ledger.receipt().charges


def test_densities_beside_other_networks_are_refused_before_anything_is_charged():
    shape, ledger = shape_of("numbers"), ledger_of(2)
    parts = [part_of(shape, weights_of(shape), NORMS), compiled_part()]
    with pytest.raises(ValueError, match="densities alone"):
        train_parts(locked_rows(rows_of(shape, 50)), ledger, parts)
    assert not ledger.receipt().charges


TABLES = {
    "no row": lambda x: x[:0],
    "one row": lambda x: x[:1],
    "nothing but NaN": lambda x: np.full_like(x, np.nan),
    "infinities": lambda x: np.where(x > 0, np.inf, -np.inf),
    "more rows than capacity": lambda x: np.tile(x, (6, 1)),
}


@pytest.mark.parametrize("made", TABLES.values(), ids=TABLES.keys())
def test_a_training_on_any_table_releases_numbers_on_its_grid(made):
    """What is released is a whole number of steps of the public grid, so floating point tells nothing."""
    shape, ledger, norms = shape_of("numbers with states"), ledger_of(4), np.array([0.3, 0.5])
    rows = made(rows_of(shape, 50))
    [seen] = train_parts(locked_rows(rows), ledger, [part_of(shape, weights_of(shape), norms)])
    norm = float(np.hypot(*norms))
    grid = LatticeNoise.of(ledger.noise("gradients") * norm, clip_norm=norm, size=shape.size)
    whole = seen / grid.step
    np.testing.assert_array_equal(whole, np.rint(whole))
    assert seen.shape == (4, 2, shape.size // 2) and np.isfinite(seen).all() and seen.any()
    assert len(rows) <= CAPACITY or np.abs(seen.mean(axis=0)).max() > 0


def test_a_unit_of_several_rows_is_clipped_as_one():
    """One unit with all rows, the noise being the same: its sum is within the norm of that of nobody."""
    shape, sums = shape_of("numbers with states"), []
    norms = np.array([0.3, 0.5])
    for count in (12, 0):
        x = rows_of(shape, count) * 3
        columns = {name: x[:, i].astype(np.float64) for i, name in enumerate(COLUMNS)}
        rows = lock(columns, {}, key=Key.new(0), unit=np.zeros(count, np.int64), max_rows_per_unit=12)
        sums += train_parts(rows, ledger_of(16), [part_of(shape, weights_of(shape), norms)])
    distances = np.linalg.norm(sums[0] - sums[1], axis=2)  # (steps, columns)
    assert (distances <= norms).all()
    assert (distances.max(axis=0) > 0.5 * norms).all()  # it was drawn, and more than one row would fit
    assert (distances == 0).any()  # and it was not drawn in every step
