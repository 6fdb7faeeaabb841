"""Locked rows: what gets in, what a look from outside shows, and that only public maps are applied to them."""

import copy
import functools
import inspect
import pickle

import numpy as np
import pytest
from scipy import stats

from understudy.core.randomness import Key
from understudy.privacy.piecewise import Distribution, LevelScale
from understudy.privacy.row_maps import ROW_MAPS, ArgMax, Clip, Code, LevelBin, OneHot, ValueBin
from understudy.privacy.rows import PrivateRows, lock

EDGES = np.array([0.0, 1.0, 2.0])
KEY = Key.new(0)


def named(labels, codes) -> PrivateRows:
    return lock({"c": np.asarray(codes)}, {"c": labels}, key=KEY)


# What gets in.


def test_a_unit_gets_no_more_rows_in_than_it_may_and_a_small_one_gets_all():
    draw = np.random.default_rng(0)
    unit = draw.integers(0, 40, 500)
    rows = lock({"u": unit, "i": np.arange(500)}, {}, unit=unit, max_rows_per_unit=7, key=Key.new(1))
    kept = np.bincount(rows._exact["u"], minlength=40)
    np.testing.assert_array_equal(kept, np.minimum(np.bincount(unit, minlength=40), 7))
    np.testing.assert_array_equal(unit[rows._exact["i"]], rows._exact["u"])
    assert rows.max_rows_per_unit == 7


@pytest.mark.parametrize("others", [0, 1, 60])
def test_which_row_of_a_unit_stays_does_not_depend_on_other_units(others):
    unit = np.r_[np.full(others, 5), np.array([9, 9, 9]), np.arange(10, 10 + others)]
    stayed = np.zeros(3)
    for seed in range(600):
        rows = lock({"i": np.arange(len(unit))}, {}, unit=unit, max_rows_per_unit=1, key=Key.new(seed))
        inside = rows._exact["i"] - others
        stayed[inside[(inside >= 0) & (inside < 3)]] += 1
    assert stayed.sum() == 600
    assert stats.chisquare(stayed).pvalue > 1e-6


def test_without_a_unit_every_row_is_its_own():
    rows = lock({"a": np.arange(3)}, {}, key=KEY)
    assert rows.max_rows_per_unit == 1 and rows._exact_units is None


# What a look from outside shows.


def test_rows_show_the_names_of_their_columns_and_nothing_else():
    rows = named(["Xanthippe"], np.full(4, 0))
    assert repr(rows) == str(rows) == f"{rows}" == "PrivateRows(c)"
    assert dir(rows) == ["coarsen", "derive", "max_rows_per_unit", "names", "relabel"]
    assert not hasattr(rows, "__dict__") and not hasattr(rows, "__len__") and not hasattr(rows, "__array__")


ESCAPES = {
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "reduce": lambda rows: rows.__reduce__(),
    "reduce_ex": lambda rows: rows.__reduce_ex__(4),
    "getstate": lambda rows: rows.__getstate__(),
}


@pytest.mark.parametrize("write", ESCAPES.values(), ids=ESCAPES)
def test_rows_cannot_be_written_anywhere(write):
    with pytest.raises(TypeError, match="never written"):
        write(lock({"a": np.arange(3)}, {}, key=KEY))


@pytest.mark.parametrize("name", ["max_rows_per_unit", "_exact", "_exact_units", "more"])
def test_rows_cannot_be_changed(name):
    rows = lock({"a": np.arange(3)}, {}, key=KEY)
    with pytest.raises(AttributeError, match="cannot be changed"):
        setattr(rows, name, 1)
    with pytest.raises(AttributeError, match="cannot be changed"):
        delattr(rows, name)


# Relabelling.


def test_relabelled_codes_point_into_the_public_labels_however_often():
    rows = named(["ash", "elm", "oak"], [0, 1, 2, -1, 1])
    once = rows.relabel("c", ["oak", "elm", "other"], other=2)
    twice = once.relabel("c", ["oak", "elm", "other"], other=2)
    for relabelled in (once, twice):
        np.testing.assert_array_equal(relabelled._exact["c"], [2, 1, 0, -1, 1])


@pytest.mark.parametrize("labels", [[], ["ash"]])
def test_a_code_without_a_label_is_missing(labels):
    relabelled = named(labels, [0, 1, 2**62, -(2**62)]).relabel("c", ["ash", "other"], other=1)
    np.testing.assert_array_equal(relabelled._exact["c"], [0 if labels else -1, -1, -1, -1])


# Only public maps are applied.


class Spying(np.ndarray):
    """An array that would see what it is computed with."""


class SpyingDistribution(Distribution):
    def interval(self, x):
        raise AssertionError("a subclass saw the rows")


class SpyingKey(Key):
    pass


LINE = Distribution(EDGES, np.array([0.0, 0.5, 1.0]))
NOT_MAPS = {
    "function": lambda values: values,
    "partial": functools.partial(np.multiply, 2),
    "class": Clip,
    "tuple": (["a"], np.abs),
    "none": None,
    "array of objects": ValueBin("a", np.array([0.0, None], dtype=object)),  # pyright: ignore[reportArgumentType]
    "subclass of array": ValueBin("a", EDGES.view(Spying)),
    "function for a number": Clip("a", abs, 1.0),  # pyright: ignore[reportArgumentType]
    "function for a source": Clip(abs),  # pyright: ignore[reportArgumentType]
    "list of sources": ArgMax(["a"]),  # pyright: ignore[reportArgumentType]
    "subclass of distribution": OneHot("a", 0, 2, SpyingDistribution(EDGES, EDGES / 2), True, KEY),
    "subclass inside": LevelBin("a", LevelScale(SpyingDistribution(EDGES, EDGES / 2)), EDGES / 2, True, KEY),
    "subclass of key": LevelBin("a", LevelScale(LINE), EDGES / 2, False, SpyingKey(KEY.entropy, KEY.path, False)),
}


@pytest.mark.parametrize("candidate", NOT_MAPS.values(), ids=NOT_MAPS)
def test_whatever_is_not_exactly_a_map_of_public_numbers_is_refused(candidate):
    rows = lock({"a": np.arange(3.0)}, {}, key=KEY)
    with pytest.raises(TypeError, match="expected"):
        rows.derive({"fine": Clip("a"), "y": candidate})


@pytest.mark.parametrize("kind", ROW_MAPS, ids=lambda kind: kind.__name__)
def test_a_subclass_of_a_map_is_refused(kind):
    seen = []
    spying = type("Spying", (kind,), {"apply": lambda self, *columns: seen.append(columns)})
    with pytest.raises(TypeError, match="expected one of the maps"):
        lock({"a": np.arange(3.0)}, {}, key=KEY).derive({"y": object.__new__(spying)})
    assert not seen


@pytest.mark.parametrize("kind", [*ROW_MAPS, Distribution, LevelScale], ids=lambda kind: kind.__name__)
def test_a_map_has_no_room_for_a_method_of_its_own(kind):
    made = object.__new__(kind)
    with pytest.raises(AttributeError):
        object.__setattr__(made, "apply", print)
    assert not any(callable(getattr(made, name, None)) for name in inspect.signature(kind).parameters)


def test_a_mapping_that_changes_after_the_check_changes_nothing():
    class Turning(dict):
        def items(self):  # pyright: ignore[reportIncompatibleMethodOverride]
            return [("y", print)]

    rows = lock({"a": np.arange(3.0)}, {}, key=KEY).derive(Turning(y=Clip("a")))
    np.testing.assert_array_equal(rows._exact["y"], [0.0, 1.0, 2.0])


def test_derived_rows_keep_their_units_and_none_of_the_labels():
    unit = np.array([3, 3, 5, 5])
    rows = lock({"c": np.array([0, 1, 1, 0])}, {"c": ["a", "b"]}, unit=unit, max_rows_per_unit=2, key=KEY)
    derived = rows.derive({"y": Code("c", 2)})
    assert derived.names == ("y",) and derived.max_rows_per_unit == 2 and not derived._exact_labels
    np.testing.assert_array_equal(derived._exact_units, rows._exact_units)
