"""Partitions: the same bits however a table is cut, and units bounded wherever their rows are."""

import dataclasses
import itertools

import numpy as np
import pytest

from ledgers import ledger_for
from understudy.core.randomness import Key
from understudy.privacy import partitions, scratch, units
from understudy.privacy.counts import popular_categories
from understudy.privacy.exact_counts import Marginal, exact_marginals
from understudy.privacy.moments import SecondMoments
from understudy.privacy.partitions import Read
from understudy.privacy.piecewise import Distribution, LevelScale
from understudy.privacy.row_maps import LevelBin, NormalScore, ValueBin
from understudy.privacy.rows import PrivateRows, lock, lock_readers
from understudy.privacy.sums import exact_row_count, exact_sums

DRAW = np.random.default_rng(0)
X = np.where(DRAW.random(1003) < 0.1, np.nan, DRAW.standard_normal(1003))
C = DRAW.integers(-1, 4, 1003)
UNIT = DRAW.integers(0, 90, 1003)
SCALE = LevelScale(Distribution(np.array([-3.0, 0.0, 3.0]), np.array([0.0, 0.5, 1.0])))
CUTS = [1, 7, 64]


@dataclasses.dataclass(frozen=True, eq=False)
class ArrayReader:
    """Some rows of arrays, as a file would be read."""

    columns: dict
    first: int
    end: int

    @property
    def rows(self):
        return self.end - self.first

    def read(self, names):
        return {name: self.columns[name][self.first : self.end] for name in names}

    def read_units(self, seeds):
        whose = UNIT[self.first : self.end].astype(np.uint64)
        return np.stack([whose * np.uint64(seeds[0] | 1), whose ^ np.uint64(seeds[1])], axis=1)


def streamed(cut, *, has_unit=False, most=1, memory=scratch.MEMORY) -> PrivateRows:
    ends = np.linspace(0, len(X), cut + 1).astype(int).tolist()
    columns = {"x": X, "c": C}
    readers = [ArrayReader(columns, first, end) for first, end in itertools.pairwise(ends)]
    options = {"has_unit": has_unit, "max_rows_per_unit": most, "key": Key.new(3), "memory": memory}
    return lock_readers(readers, ["x", "c"], {"c": ["a", "b", "d", "e"]}, **options)


def held(cut, *, has_unit=False, most=1) -> PrivateRows:
    unit = UNIT if has_unit else None
    options = {"unit": unit, "max_rows_per_unit": most, "key": Key.new(3), "partitions": cut}
    return lock({"x": X, "c": C}, {"c": ["a", "b", "d", "e"]}, **options)


def derived(rows: PrivateRows) -> PrivateRows:
    """Columns that draw, bins and labels, one on top of the other."""
    score = NormalScore("x", SCALE, 1e-3, False, True, Key.new(1))
    level = LevelBin("x", SCALE, np.linspace(0, 1, 6), False, Key.new(2))
    made = rows.relabel("c", ["b", "other"], other=1).derive({"score": score, "bin": level}, keep=True)
    return made.derive({"again": ValueBin("score", np.array([-1.0, 0.0, 1.0]))}, keep=True)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("made", [held, streamed])
def test_sums_are_the_same_bits_for_any_partitions(made, cut):
    rows, whole = derived(made(cut)), derived(held(1))
    asked = [Marginal(("again", "c"), (3, 2)), Marginal(("bin",), (5,))]
    for one, other in zip(exact_marginals(rows, asked), exact_marginals(whole, asked), strict=True):
        assert one.tobytes() == other.tobytes()
    moments = SecondMoments(("score", "x"), 2.0)
    assert exact_sums(rows, moments)[0].tobytes() == exact_sums(whole, moments)[0].tobytes()
    assert exact_row_count(rows) == 1003 and rows.names == whole.names
    np.testing.assert_array_equal(rows._exact["score"], whole._exact["score"])


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("made", [held, streamed])
@pytest.mark.parametrize("most", [1, 5])
def test_a_unit_that_is_scattered_over_partitions_is_bounded_all_the_same(made, cut, most):
    rows, whole = made(cut, has_unit=True, most=most), held(1, has_unit=True, most=most)
    for name in ("x", "c"):
        np.testing.assert_array_equal(rows._exact[name], whole._exact[name])
    np.testing.assert_array_equal(rows._exact_units, whole._exact_units)
    sizes = np.bincount(rows._exact_units)
    assert sizes.max() == most and sizes.sum() == np.minimum(np.bincount(UNIT), most).sum()
    ledgers = [ledger_for("gaussian threshold", noise=1.0, threshold_delta=1e-3) for _ in range(2)]
    selected = [
        popular_categories(each, "c", what="which", planned="it", key=Key.new(5), ledger=ledger)
        for each, ledger in zip((rows, whole), ledgers, strict=True)
    ]
    assert selected[0][0] == selected[1][0] and selected[0][1].tolist() == selected[1][1].tolist() != []


def test_units_are_the_same_if_they_are_brought_together_in_many_groups(monkeypatch):
    whole = streamed(7, has_unit=True, most=3)
    monkeypatch.setattr(units, "ROWS_AT_ONCE", 100)
    rows = streamed(7, has_unit=True, most=3)
    np.testing.assert_array_equal(rows._exact["x"], whole._exact["x"])
    leading = [units.leaders(part) for part in rows._parts if isinstance(part, Read)]
    assert sum(map(len, leading)) == len(np.unique(UNIT))


@pytest.mark.parametrize("memory", [0, 2**20])
def test_columns_that_are_asked_for_again_are_kept_small_and_as_they_were(memory):
    rows = derived(streamed(7, memory=memory))
    found = [rows._parts[3].exact(["again", "bin"]) for _ in range(4)]
    for each in found[1:]:
        for name in each:
            np.testing.assert_array_equal(each[name], found[0][name])
    assert found[0]["bin"].dtype == np.int64 and found[3]["bin"].dtype == np.uint8


@pytest.mark.parametrize("memory", [0, 2**20])
@pytest.mark.parametrize("has_unit", [False, True])
def test_codes_are_read_once_and_numbers_each_time(memory, has_unit, monkeypatch):
    rows, asked = streamed(7, memory=memory, has_unit=has_unit, most=2), list[str]()
    read = ArrayReader.read
    monkeypatch.setattr(ArrayReader, "read", lambda self, names: asked.extend(names) or read(self, names))
    found = [rows._parts[3].exact(["x", "c"]) for _ in range(3)]
    assert asked == ["x", "c", "x", "x"]
    for each in found[1:]:
        np.testing.assert_array_equal(each["c"], found[0]["c"])
        np.testing.assert_array_equal(each["x"], found[0]["x"])


def test_the_scratch_file_holds_no_column_and_has_no_name(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    kept = scratch.Scratch(0)
    column = np.full(5000, 77, np.int64)
    first, second = kept.keep(column), kept.keep(column)
    assert list(tmp_path.iterdir()) == []
    assert kept._file is not None
    kept._file.seek(0)
    content = kept._file.read()
    assert len(content) == 10_000 and bytes([77]) * 4 not in content and content[:5000] != content[5000:]
    np.testing.assert_array_equal(first.exact(), column)
    np.testing.assert_array_equal(second.exact(), column)


@pytest.mark.parametrize(
    ("least", "most", "kind"), [(0, 255, "u1"), (-1, 127, "i1"), (-1, 200, "i2"), (0, 60_000, "u2"), (-1, 2**31, "i8")]
)
def test_whole_numbers_take_the_smallest_type_that_holds_them(least, most, kind):
    column = np.array([least, most])
    assert scratch.compact(column).dtype == np.dtype(kind) and scratch.compact(column).tolist() == [least, most]


def test_bits_are_the_places_they_are_made_of():
    at = np.array([0, 3, 8, 9])
    np.testing.assert_array_equal(partitions.from_bits(partitions.to_bits(at, 10), 10), at)
