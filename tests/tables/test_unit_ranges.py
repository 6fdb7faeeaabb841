"""Databases some units at a time: the same rows as of a whole one, however tables are cut, and what is refused."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false

import dataclasses

import numpy as np
import polars as pl
import pytest

import understudy as us
from clinic import clinic, clinic_schema
from offices import offices, offices_schema
from understudy.core.randomness import Key
from understudy.tables import streaming, unit_links, unit_ranges
from understudy.tables.database_design import designs
from understudy.tables.families import flattened, read_families, with_public_keys
from understudy.tables.kept_arrays import Bundle
from understudy.tables.key_hashes import key_words, missing
from understudy.tables.sources import load
from understudy.tables.structure import TableError
from understudy.tables.table import Facts
from wards import wards, wards_schema

KEY = Key.new(0)


@dataclasses.dataclass
class Shelf:
    """Keeps arrays as they are."""

    array: np.ndarray | None = None

    def keep(self, exact):
        return Shelf(exact)

    def exact(self):
        return self.array


@pytest.fixture(params=[(30, 14, 20), (70, 12, 18)], ids=["many", "few"])
def cut(request, monkeypatch):
    """Cuts tables into small pieces, keys into groups, and units into ranges."""
    rows, ranges, groups = request.param
    monkeypatch.setattr(streaming, "_LEAST_ROWS", rows)
    monkeypatch.setattr(streaming, "_SHARE", 2**40)
    monkeypatch.setattr(unit_ranges, "_RANGE", 2**ranges)
    monkeypatch.setattr(unit_links, "BYTES", 2**groups)


def in_ranges(tables, schema, made):
    streams = unit_ranges.streamed(tables, schema, memory=0.25)
    return list(unit_ranges.flat_ranges(streams, schema, made, key=KEY, store=Shelf(), memory=0.25))


def assert_same_rows(tables, schema, sources=None):
    """The tables in ranges of units are those of the whole database; returns how many ranges there were."""
    made = designs(schema, shares=True)
    whole = flattened(read_families(tables, schema, key=KEY)[0], made)
    ranges = in_ranges(sources or tables, schema, made)
    firsts = np.cumsum([0, *(len(each[schema.unit].unit) for each in ranges)])
    for name, flat in whole.items():
        unit = np.concatenate([each[name].unit + first for each, first in zip(ranges, firsts, strict=False)])
        np.testing.assert_array_equal(unit, flat.unit)
        for column, cells in flat.columns.items():
            parts = [each[name].columns[column] for each in ranges]
            assert {part.dtype for part in parts} == {cells.dtype}, column
            np.testing.assert_array_equal(np.concatenate(parts), cells)
        assert {column: list(texts) for column, texts in ranges[0][name].labels.items()} == flat.labels
    return len(ranges)


def ugly(patients):
    """A clinic with orphans, keys that are missing or twice, a crowd, and cells that are no numbers."""
    tables = clinic(patients)
    people, visits, given = tables["patients"], tables["visits"], tables["prescriptions"]
    twice = people.head(6).with_columns(sex=pl.lit("m"))
    nobody = people.head(2).with_columns(id=pl.lit(None, pl.Int64))
    orphans = visits.head(5).with_columns(patient=pl.Series([7, None, 8, 9, None], dtype=pl.Int64))
    crowd = pl.concat([visits.filter(pl.col("patient") == 104).head(1)] * 40)
    again = visits.filter(pl.col("patient") == 110).with_columns(patient=pl.lit(111, pl.Int64))  # one key in two units
    doses = given["dose"].set(pl.Series(np.arange(given.height) % 5 == 0), None)
    found = {
        "patients": pl.concat([people, twice, nobody]),
        "visits": pl.concat([visits, orphans, crowd, again]),
        "prescriptions": given.with_columns(dose=doses),
    }
    return {name: frame.sample(fraction=1.0, shuffle=True, seed=3) for name, frame in found.items()}


@pytest.mark.parametrize("made", [clinic, ugly])
def test_units_at_a_time_have_the_rows_of_a_whole_database(made, cut):
    assert assert_same_rows(made(90), clinic_schema()) > 1


def test_second_keys_and_their_copies_are_those_of_a_whole_database(cut):
    assert assert_same_rows(offices(40), offices_schema()) > 1


def test_keys_of_several_columns_and_public_tables_are_those_of_a_whole_database(cut):
    tables = wards(40)
    assert assert_same_rows(tables, with_public_keys(tables, wards_schema())) > 1


def in_files(tables, folder, many=3, ending=".parquet"):
    """The tables in a folder each, in so many files."""
    for name, frame in tables.items():
        (folder / name).mkdir()
        for i in range(many):
            part = frame[frame.height * i // many : frame.height * (i + 1) // many]
            path = folder / name / f"{i}{ending}"
            part.write_parquet(path) if ending == ".parquet" else part.write_csv(path)
    return folder


def test_tables_may_be_folders_globs_lazy_frames_urls_files_and_frames(cut, tmp_path):
    tables = offices(40)
    in_files(tables, tmp_path)
    tables["staff"].write_csv(tmp_path / "staff.csv")
    for staff in ("staff.csv", "staff/*.parquet"):
        sources = {"offices": tables["offices"], "staff": str(tmp_path / staff), "cases": f"file://{tmp_path}/cases"}
        assert unit_ranges.in_pieces(sources, offices_schema(), memory=2.0)
        assert_same_rows(tables, offices_schema(), sources)
    sources = {"offices": tmp_path / "offices", "staff": tables["staff"], "cases": tables["cases"].lazy()}
    assert_same_rows(tables, offices_schema(), sources)


def test_small_files_are_read_at_once_and_large_ones_together_in_pieces(tmp_path, monkeypatch):
    tables = offices(40)
    for name, frame in tables.items():
        frame.write_parquet(tmp_path / f"{name}.parquet", row_group_size=20)
    sources = {name: tmp_path / f"{name}.parquet" for name in tables}
    assert not unit_ranges.in_pieces(sources, offices_schema(), memory=2.0)
    monkeypatch.setattr(streaming, "_SMALL", 2.0**20)
    assert not unit_ranges.in_pieces(sources, offices_schema(), memory=2.0)  # one partition each
    monkeypatch.setattr(streaming, "_LEAST_ROWS", 10)
    monkeypatch.setattr(streaming, "_SHARE", 2**40)
    assert unit_ranges.in_pieces(sources, offices_schema(), memory=2.0)


def test_an_empty_file_and_units_without_children_make_no_difference(cut, tmp_path):
    tables = clinic(60)
    tables["visits"] = tables["visits"].filter(pl.col("patient") > 140)
    in_files(tables, tmp_path)
    tables["visits"].head(0).write_parquet(tmp_path / "visits" / "empty.parquet")
    assert_same_rows(tables, clinic_schema(), {name: tmp_path / name for name in tables})


def test_a_database_of_which_no_row_belongs_to_a_unit_has_empty_tables(cut):
    tables = clinic(20)
    tables["visits"] = tables["visits"].with_columns(patient=pl.lit(5, pl.Int64))
    assert_same_rows(tables, clinic_schema())
    tables["patients"] = tables["patients"].with_columns(id=pl.lit(None, pl.Int64))
    [alone] = in_ranges(tables, clinic_schema(), designs(clinic_schema()))
    assert [len(flat.unit) for flat in alone.values()] == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop("ward"), r"visits.1\.parquet has no column 'ward'"),
        (lambda frame: frame.drop("patient"), r"visits.1\.parquet has no column 'patient'"),
        (lambda frame: frame.with_columns(more=1), r"visits.1\.parquet has a column 'more'"),
        (lambda frame: frame.with_columns(patient=pl.lit([1])), "column 'patient'.*List"),
        (lambda frame: frame.with_columns(admission=pl.lit(True)), "column 'admission'.*Boolean"),
    ],
)
def test_one_file_of_another_structure_is_named(change, message, tmp_path):
    folder = in_files(clinic(30), tmp_path)
    change(pl.read_parquet(folder / "visits" / "1.parquet")).write_parquet(folder / "visits" / "1.parquet")
    sources = {name: folder / name for name in clinic_schema().private}
    with pytest.raises(TableError, match=message):
        in_ranges(sources, clinic_schema(), designs(clinic_schema()))


def test_a_file_that_changes_between_two_passes_is_refused(tmp_path):
    folder, schema = in_files(clinic(30), tmp_path, ending=".csv"), clinic_schema()
    sources = {name: f"{folder / name}/*.csv" for name in schema.private}
    streams = unit_ranges.streamed(sources, schema, memory=0.25)
    pl.read_csv(folder / "visits" / "1.csv").head(3).write_csv(folder / "visits" / "1.csv")
    made = unit_ranges.flat_ranges(streams, schema, designs(schema), key=KEY, store=Shelf(), memory=0.25)
    with pytest.raises(TableError, match=r"visits.1\.csv was changed while it was read"):
        next(made)


def test_hashes_tell_keys_apart_by_their_texts_and_their_order():
    frame = pl.DataFrame(
        {"a": ["x", " x", "y", None, "x", ""], "b": [1, 1, 1, 1, 2, 1], "c": ["1", "1", "x", "1", "2", "1"]}
    )
    text = '[columns.a]\nkind = "categorical"\n[columns.b]\nkind = "categorical"\n[columns.c]\nkind = "categorical"'
    schema = us.Schema.parse(f'name = "t"\n{text}')
    source = load(frame, schema)

    def words(*names):
        found = key_words(source, schema, names, (1, 2), {name: Facts() for name in "abc"})
        return [
            None if gone else pair for gone, pair in zip(missing(found), zip(*found.tolist(), strict=True), strict=True)
        ]

    one, both = words("a"), words("a", "b")
    assert one[0] == one[1] == one[4] != one[2] and one[3] is one[5] is None
    assert both[0] == both[1] != both[4] and both[3] is both[5] is None and len(set(both)) == 4
    assert words("a", "c")[:2] == both[:2]  # a number is the text that stands for it
    assert words("c", "a")[2] == (None if one[2] is None else words("c", "a")[2]) and words("b", "a")[0] != both[0]


def test_bundles_give_arrays_back_as_they_were():
    arrays = {
        "codes": np.array([-1, 3, 300], np.int64),
        "words": np.array([2**64 - 1, 0, 5], np.uint64),
        "numbers": np.array([np.nan, -np.inf, 0.1]),
        "far": np.array([2**62, -(2**62), 0]),
    }
    found = Bundle.of(arrays, Shelf()).arrays()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
