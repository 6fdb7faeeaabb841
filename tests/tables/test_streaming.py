"""Tables in partitions: the same cells as a table that is read at once, the same refusals, and pieces that fit."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from conftest import MIXED, mixed_table
from understudy.tables import streaming
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.streaming import StreamedTable, spans, stream
from understudy.tables.structure import TableError
from understudy.tables.table import read
from understudy.tables.text_file import TextFile

TABLE = mixed_table(500)
ODD = Schema(
    name="odd",
    unit="who",
    max_rows_per_unit=2,
    missing=("n/a",),
    columns=(
        Column(name="x", kind="continuous", nullable=True),
        Column(name="c", kind="categorical", nullable=True),
        Column(name="b", kind="boolean", nullable=True),
    ),
)
LINES = [
    '1.5,"a, b",yes,u1',
    ' 2 ,"line\nfeed",no,u2',
    "n/a,,,u1",
    ",x,true,",
    "7,a,0,u2",
    "8 %,zz,1,u3",
    '9,"q""q",no,u1',
]


@pytest.fixture
def cut_small(monkeypatch):
    """Pieces of a few rows."""
    monkeypatch.setattr(streaming, "_LEAST_ROWS", 97)
    monkeypatch.setattr(streaming, "_SHARE", 2 * 2**30 / 4 / 1500)  # 1 500 bytes of text


def put_together(table, schema):
    return {name: np.concatenate([each.read([name])[name] for each in table.readers]) for name in schema.names}


def in_files(folder, table, count):
    ends = np.linspace(0, len(table), count + 1).astype(int).tolist()
    for i in range(count):
        table[ends[i] : ends[i + 1]].write_parquet(folder / f"{i:03}.parquet", row_group_size=11)
    return folder


def streamed(source: Any, schema: Schema, **options: Any) -> StreamedTable:
    found = stream(source, schema, **options)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["file", "folder", "glob", "lazy", "csv"])
def test_a_table_in_partitions_has_the_cells_of_one_read_at_once(kind, tmp_path, cut_small):
    whole = read(TABLE, MIXED)
    in_files(tmp_path, TABLE, 1 if kind == "file" else 4)
    source = {"file": tmp_path / "000.parquet", "folder": tmp_path, "glob": f"{tmp_path}/0*.parquet"}.get(kind)
    source = TABLE.lazy() if kind == "lazy" else source
    if kind == "csv":
        source = tmp_path / "rows.csv"
        TABLE.write_csv(source)
        whole = read(source, MIXED)
    table = streamed(source, MIXED, always=True)
    assert len(table.readers) > 3
    assert {name: list(labels) for name, labels in table.labels.items()} == whole.labels
    for name, column in put_together(table, MIXED).items():
        np.testing.assert_array_equal(column, whole.columns[name])


def odd_csv(path, repeated):
    path.write_text("\n".join(["x,c,b,who", *LINES * repeated]))
    return path


def test_lines_of_text_are_cut_outside_quotes_and_rows_without_a_unit_are_left_out(tmp_path, monkeypatch):
    path = odd_csv(tmp_path / "odd.csv", 8)
    monkeypatch.setattr(streaming, "_SHARE", 0.25 * 2**30 / 4 / 60)  # 60 bytes
    whole, table = read(path, ODD), streamed(path, ODD, memory=0.25, always=True)
    assert whole.unit is not None
    assert len(table.readers) > 10 and sum(each.rows for each in table.readers) == whole.exact_rows == 48
    for name, column in put_together(table, ODD).items():
        np.testing.assert_array_equal(column, whole.columns[name])
    units = np.concatenate([each.read_units((5, 7)) for each in table.readers])
    assert units.shape == (48, 2)
    for column in (units[:, 0], units[:, 1]):  # the same rows belong together
        pairs = set(zip(column.tolist(), whole.unit.tolist(), strict=True))
        assert len(pairs) == len({pair[0] for pair in pairs}) == 3
    assert not set(units[:, 0].tolist()) & set(units[:, 1].tolist())


@pytest.mark.parametrize("size", [1, 9, 30, 64, 10_000])
def test_cuts_of_a_text_file_stand_behind_lines(size, tmp_path):
    path = odd_csv(tmp_path / "odd.csv", 3)
    content = path.read_bytes()
    cuts = TextFile(path, "odd.csv", ODD.file).cuts(size)
    assert cuts[0] == 0 and cuts == sorted(set(cuts)) and cuts[-1] < len(content)
    for cut in cuts[1:]:
        assert content[cut - 1 : cut] == b"\n" and content.count(b'"', 0, cut) % 2 == 0
    assert (len(cuts) == 1) == (size == 10_000)


def test_a_small_file_and_a_frame_are_read_at_once(tmp_path):
    TABLE.write_parquet(tmp_path / "rows.parquet")
    assert stream(tmp_path / "rows.parquet", MIXED) is None and stream(TABLE, MIXED) is None
    assert stream(tmp_path / "rows.parquet", MIXED, always=True) is not None


def test_a_large_file_is_read_in_partitions(tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "_LEAST_ROWS", 1)
    TABLE.write_parquet(tmp_path / "rows.parquet", row_group_size=50)
    monkeypatch.setattr(streaming, "_SHARE", 0.25 * 2**30 / (8 * 8 * 100))  # 100 rows
    monkeypatch.setattr(streaming, "_SMALL", 1e9)
    assert [each.rows for each in streamed(tmp_path / "rows.parquet", MIXED, memory=0.25).readers] == [100] * 5


@pytest.mark.parametrize(
    ("groups", "most", "expected"),
    [
        ([3, 4], 10, [(0, 7)]),
        ([3, 4], 5, [(0, 3), (3, 4)]),
        ([10], 4, [(0, 3), (3, 3), (6, 4)]),
        ([0, 2, 0], 9, [(0, 2)]),
        ([], 9, []),
    ],
)
def test_row_groups_are_put_together_or_cut(groups, most, expected):
    assert spans(groups, most) == expected


def with_a_sheet(folder):
    (in_files(folder, TABLE, 2) / "x.xlsx").touch()
    return f"{folder}/*"


REFUSED = {
    "an empty folder": (lambda folder: folder, "expected Parquet or CSV files"),
    "no rows": (lambda folder: in_files(folder, TABLE[:0], 2), "has no rows"),
    "other files": (with_a_sheet, "one by one"),
    "a missing column": (lambda folder: in_files(folder, TABLE.drop("age"), 2), "no column 'age'"),
    "a wrong type": (lambda folder: in_files(folder, TABLE.with_columns(age=pl.lit("x")), 2), "got the type String"),
    "all missing": (lambda folder: in_files(folder, TABLE.with_columns(member=None), 2), "every cell is missing"),
}


@pytest.mark.parametrize("made", REFUSED.values(), ids=REFUSED)
def test_what_a_table_is_refused_for_it_is_refused_for_in_partitions(made, tmp_path):
    source, message = made
    with pytest.raises(TableError, match=message):
        stream(source(tmp_path), MIXED)


def test_a_file_of_another_type_is_refused_though_others_are_right(tmp_path):
    in_files(tmp_path, TABLE, 3)
    TABLE.with_columns(age=pl.lit("x")).write_parquet(tmp_path / "001.parquet")
    with pytest.raises(TableError, match=r"001\.parquet, column 'age'.*got the type String"):
        stream(tmp_path, MIXED)


def test_a_file_that_changes_between_two_passes_is_refused(tmp_path):
    in_files(tmp_path, TABLE, 2)
    table = streamed(tmp_path, MIXED)
    TABLE[:100].write_parquet(tmp_path / "001.parquet")
    with pytest.raises(TableError, match=r"001\.parquet"):
        table.readers[-1].read(["age"])
