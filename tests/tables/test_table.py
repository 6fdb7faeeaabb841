"""Tables: what comes in from each source, each cell by itself, and what goes out."""

import datetime
import gzip
import os
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import examples
from small_tables import CSV, EXPECTED, NAN, PEOPLE, SECRET, START, assert_columns, cells, one, saved, with_y
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.structure import TableError
from understudy.tables.table import Table, read
from understudy.tables.writing import write

# What comes in.


@pytest.mark.parametrize("name", ["people.csv", "people.CSV", "people[1].csv"])
def test_a_csv_file_is_read_as_the_schema_says(tmp_path, name):
    table = read(saved(tmp_path, CSV, name), PEOPLE)
    assert_columns(table, EXPECTED)
    assert table.labels == {"job": ["baker", "clerk"]}
    assert (table.kind, table.unit, table.exact_rows) == ("polars", None, 5)


def test_tabs_gzip_byte_order_marks_and_windows_lines_are_read(tmp_path):
    for name, content in {
        "people.tsv": CSV.replace(",", "\t").encode(),
        "people.csv.gz": gzip.compress(CSV.encode()),
        "mark.csv": b"\xef\xbb\xbf" + CSV.encode(),
        "windows.csv": CSV.replace("\n", "\r\n").encode(),
    }.items():
        assert_columns(read(saved(tmp_path, content, name), PEOPLE), EXPECTED)


def test_arrays_are_float64_or_int64(tmp_path):
    table = read(saved(tmp_path, CSV), PEOPLE)
    assert {name: str(array.dtype) for name, array in table.columns.items()} == {
        "age": "float64",
        "income": "float64",
        "state": "int64",
        "job": "int64",
        "member": "float64",
        "joined": "float64",
    }


def frames():
    moments = [datetime.datetime(2020, 1, 1), None, datetime.datetime(2020, 1, 2)]
    data = {"n": [1, None, 3], "f": [0.5, None, 2.0], "c": ["a", None, "b"], "b": [True, None, False], "t": moments}
    polars = pl.DataFrame(data)
    pandas = pd.DataFrame(data | {"b": pd.array([True, None, False], dtype="boolean")})
    categorical = pandas.assign(c=pandas["c"].astype("category"), n=pandas["n"].astype("Int64"))
    arrow = pa.table(data)
    return {
        "polars": polars,
        "lazy polars": polars.lazy(),
        "polars categorical": polars.with_columns(pl.col("c").cast(pl.Categorical)),
        "polars zoned": polars.with_columns(pl.col("t").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")),
        "pandas": pandas,
        "pandas categorical": categorical,
        "pandas objects": pandas.astype(object),
        "pandas zoned": pandas.assign(t=pandas["t"].dt.tz_localize("UTC").dt.tz_convert("Europe/Paris")),
        "pyarrow": arrow,
        "pyarrow dictionary": arrow.set_column(2, "c", arrow["c"].dictionary_encode()),
    }


MIXED = Schema(
    columns=(
        Column(name="t", kind="datetime"),
        Column(name="n", kind="integer"),
        Column(name="f", kind="continuous"),
        Column(name="c", kind="categorical"),
        Column(name="b", kind="boolean"),
    )
)


@pytest.mark.parametrize("which", frames())
def test_every_frame_gives_the_same_arrays(which):
    table = read(frames()[which], MIXED)
    assert table.kind == which.removeprefix("lazy ").split()[0]
    assert table.labels == {"c": ["a", "b"]}
    day = 86_400e6
    expected = {"t": [START, NAN, START + day], "n": [1, NAN, 3], "f": [0.5, NAN, 2], "c": [0, -1, 1]}
    assert_columns(table, expected | {"b": [1, NAN, 0]})


def test_a_parquet_file_gives_the_same_arrays_as_its_frame(tmp_path):
    frame = frames()["polars"].with_columns(stray=pl.lit(1))
    frame.write_parquet(tmp_path / "x.parquet")
    schema = Schema(columns=MIXED.columns, ignore=("stray",))
    assert_columns(read(tmp_path / "x.parquet", schema), read(frame, schema).columns)


def test_pandas_and_pyarrow_are_not_imported_for_a_file(tmp_path):
    path = saved(tmp_path, "x\n1\n")
    program = (
        "import sys; from understudy.tables.schema import *; from understudy.tables.table import *;"
        f"read({str(path)!r}, Schema(columns=[Column(name='x', kind='integer')]));"
        "assert not {'pandas', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", program], check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (pd.Series([3, 12, 3]), ["12", "3"]),
        (pd.Series([3.0, NAN, 2.5]), ["2.5", "3"]),
        (pd.Series([True, False, True]), ["false", "true"]),
        (pd.Series([1, "a", 2.0, None, True], dtype=object), ["1", "2", "a", "true"]),
        (pd.Series(pd.Categorical([3, None, 5])), ["3", "5"]),
        (pd.Series([" a ", "a", ""]), ["a"]),
        (pl.Series([None, None], dtype=pl.Null), []),
        (pl.Series(["a", "b"], dtype=pl.Enum(["b", "a", "c"])), ["a", "b"]),
        (pl.Series([1, 2], dtype=pl.Decimal(10, 2)), ["1", "2"]),
        (pl.Series([datetime.date(2020, 1, 1)]), ["2020-01-01"]),
    ],
)
def test_categories_are_written_as_a_person_would(values, labels):
    make = pl.DataFrame if isinstance(values, pl.Series) else pd.DataFrame
    assert read(make({"x": values}), one("categorical", nullable=True)).labels == {"x": labels}


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([1, 0], dtype=pl.Int8),
        pl.Series([1, 0], dtype=pl.UInt64),
        pl.Series([1, 0], dtype=pl.Decimal(10, 2)),
        pl.Series([1, 0], dtype=pl.Float32),
        pl.Series([True, False]),
    ],
)
@pytest.mark.parametrize("kind", ["continuous", "integer", "boolean"])
def test_every_number_type_holds_numbers(values, kind):
    assert_columns(read(pl.DataFrame({"x": values}), one(kind)), {"x": [1.0, 0.0]})


def test_without_other_an_unknown_category_is_missing(tmp_path):
    assert_columns(cells(tmp_path, "categorical", "a", "b", "", values=["a"]), {"x": [0, -1, -1]})


def test_other_may_be_one_of_the_values(tmp_path):
    table = cells(tmp_path, "categorical", "a", "b", "z", values=["z", "a"], other="z")
    assert_columns(table, {"x": [1, 0, 0]})


def test_a_number_may_spell_missing_in_text_and_in_types(tmp_path):
    assert_columns(cells(tmp_path, "continuous", "-999", "-999.0", "1", missing=["-999"]), {"x": [NAN, NAN, 1]})
    assert_columns(read(pl.DataFrame({"x": [-999, 1]}), one("integer", missing=["-999"])), {"x": [NAN, 1]})


@pytest.mark.parametrize(
    ("kind", "lines", "expected"),
    [
        (
            "continuous",
            ["1", SECRET, "1_0", "inf", "-Infinity", "nan", "1e999"],
            [1, NAN, NAN, np.inf, -np.inf, NAN, np.inf],
        ),
        ("continuous", ["1 ", " 2 "], [1, 2]),
        ("integer", ["39", "40 ", "", " 41", '" 42 "', "43\t"], [39, 40, NAN, 41, 42, 43]),
        ("integer", ["1.6", "1e3", "9007199254740992", SECRET], [2, 1000, 2**53, NAN]),
        ("boolean", ["T", "N", "on", "OFF", "1", "0", "2", SECRET], [1, 0, 1, 0, 1, 0, NAN, NAN]),
        ("datetime", ["2020-01-01", "2020-01-01 00:00", "2020-01-01T00:00Z", SECRET], [START, START, START, NAN]),
        ("datetime", ["2020-01-01T00:00:00Z", "01/02/2020", "2020-13-01"], [START, NAN, NAN]),
        ("continuous", ["", "", ""], [NAN, NAN, NAN]),
        ("boolean", ["", ""], [NAN, NAN]),
        ("datetime", ["", ""], [NAN, NAN]),
        ("categorical", ["", ""], [-1, -1]),
    ],
)
def test_values_never_raise(tmp_path, kind, lines, expected):
    assert_columns(cells(tmp_path, kind, *lines, nullable=True), {"x": expected})


@pytest.mark.parametrize("kind", ["continuous", "integer", "boolean", "datetime", "categorical"])
def test_a_column_without_a_cell_is_refused_unless_cells_may_be_missing(tmp_path, kind):
    with pytest.raises(TableError, match=r"column 'x': expected .*, and every cell is missing\. Correct \[file\]"):
        cells(tmp_path, kind, "", "", "")
    read(pl.DataFrame({"x": pl.Series([None, None], dtype=pl.Null)}), one(kind))  # nobody read a frame in the wrong way


@pytest.mark.parametrize("other", [None, "b", "rest"])
def test_a_column_of_unknown_categories_alone_is_refused(tmp_path, other):
    fields = {"values": ["a", "b"], "other": other, "nullable": True}
    with pytest.raises(
        TableError, match="column 'x': expected categories of `values`, and no cell is one of them"
    ) as caught:
        cells(tmp_path, "categorical", SECRET, "", SECRET, **fields)
    assert SECRET not in str(caught.value)
    assert len(cells(tmp_path, "categorical", SECRET, "a", **fields).columns["x"]) == 2


def test_a_percent_sign_behind_a_number_is_not_part_of_it(tmp_path):
    lines = ["12.5%", "3 %", "%", "4", "% 5", "5%%"]
    assert_columns(cells(tmp_path, "continuous", *lines), {"x": [12.5, 3, NAN, 4, NAN, NAN]})


@pytest.mark.parametrize("content", ["x,y\n1\n2,3,4\n5,6\n", "x,y\n1,2,3\n2\n5,6\n"])
def test_ragged_lines_are_a_matter_of_values(tmp_path, content):
    table = read(saved(tmp_path, content), with_y(one("integer")))
    assert_columns(table, {"x": [1, 2, 5]})


def test_a_ten_megabyte_cell_is_read(tmp_path):
    table = cells(tmp_path, "categorical", "a", "b" * 10_000_000)
    assert [len(label) for label in table.labels["x"]] == [1, 10_000_000]


def test_quoted_names_are_respected(tmp_path):
    names = ["a,b", 'say "hi"', "two\nlines", "naïve"]
    header = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    schema = Schema(columns=tuple(Column(name=name, kind="integer") for name in names))
    table = read(saved(tmp_path, f"{header}\n1,2,3,4\n"), schema)
    assert_columns(table, {name: [place + 1.0] for place, name in enumerate(names)})


@given(st.lists(st.none() | st.floats(allow_nan=False), min_size=1, max_size=20))
@examples(20)
def test_every_float_survives_a_csv_file(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("floats") / "x.csv"
    write(pl.DataFrame({"x": pl.Series(values, dtype=pl.Float64), "y": [1] * len(values)}), path)
    table = read(path, with_y(one("continuous", nullable=True)))
    assert_columns(table, {"x": [NAN if value is None else value for value in values]})


CELLS = st.sampled_from(
    ["", "1", "-.5", "+7", "1e5", "007", "inf", "nan", '"3"', "1_0", "x", "1e999", "0x1", " 2", "4 "]
)


@given(st.lists(CELLS, min_size=1, max_size=8))
@examples(12)
def test_a_cell_that_is_no_number_changes_no_other(tmp_path_factory, lines):
    """Numbers are read twice in different ways, as numbers and, where one cell is none, as text."""
    folder = tmp_path_factory.mktemp("cells")
    alone = [cells(folder, "continuous", line, "1").columns["x"][0] for line in lines]
    together = cells(folder, "continuous", *lines, "no number", "1").columns["x"][: len(lines)]
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("spelling", ["?", " ? ", "NA"])
def test_missing_numbers_are_missing_however_they_are_padded(tmp_path, spelling):
    text = spelling.strip()
    for padded in (text, f" {text}", f"{text} "):
        table = cells(tmp_path, "integer", "1", padded, "3", missing=[spelling])
        assert_columns(table, {"x": [1, NAN, 3]})


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_header_of_any_length_is_read(tmp_path, quote):
    names = [f"column number {place}" for place in range(6000)]
    header = ",".join(f"{quote}{name}{quote}" for name in names)
    path = saved(tmp_path, f"{header}\n{','.join(map(str, range(6000)))}\n")
    schema = Schema(columns=(Column(name=names[-1], kind="integer"),), ignore=tuple(names[:-1]))
    assert_columns(read(path, schema), {names[-1]: [5999]})


# Units.


def test_rows_without_a_unit_are_left_out_and_so_are_their_categories(tmp_path):
    schema = Schema(columns=(Column(name="x", kind="categorical"),), unit="id", max_rows_per_unit=2, missing=("?",))
    table = read(saved(tmp_path, "x,id\na,u\nb,\nc,v\nd,?\na, u\n"), schema)
    assert table.labels == {"x": ["a", "c"]}
    assert_columns(table, {"x": [0, 1, 0]})
    assert table.unit is not None
    assert table.unit.dtype == np.int64
    assert table.unit[0] == table.unit[2] != table.unit[1]


@pytest.mark.parametrize("ids", [[7, 8, 7], ["p", "q", "p"], [7.0, 8.0, 7.0], [True, False, True]])
def test_units_of_any_type_are_told_apart(ids):
    schema = Schema(columns=(Column(name="x", kind="integer"),), unit="id", max_rows_per_unit=2)
    unit = read(pl.DataFrame({"x": [1, 2, 3], "id": ids}), schema).unit
    assert unit is not None
    assert unit[0] == unit[2] != unit[1]


def test_a_table_in_which_nobody_has_a_unit_is_refused(tmp_path):
    schema = Schema(columns=(Column(name="x", kind="integer"),), unit="id", max_rows_per_unit=2)
    with pytest.raises(TableError, match="no rows with a 'id'"):
        read(saved(tmp_path, "x,id\n1,\n"), schema)


@pytest.mark.parametrize("odd", [SECRET, [1], 1j, object()])
def test_one_odd_cell_in_a_pandas_column_of_objects_is_missing(odd):
    frame = pd.DataFrame({"x": pd.Series([1, 2.5, odd], dtype=object)})
    assert_columns(read(frame, one("continuous")), {"x": [1, 2.5, NAN]})


def test_a_table_shows_neither_its_rows_nor_their_number(tmp_path):
    table = read(saved(tmp_path, CSV), PEOPLE)
    assert not hasattr(Table, "__len__")
    assert "clerk" not in repr(table)
    assert repr(table).endswith("kind='polars', columns=['age', 'income', 'state', 'job', 'member', 'joined'])")


@pytest.mark.parametrize(
    ("kind", "cells", "odd"),
    [
        ("integer", [True, False], 7),
        ("continuous", [True, False], 1.5),
        ("continuous", [1, 2.5], "x"),
        ("integer", [Decimal("3"), 4], "x"),
        ("categorical", [Decimal("1.50"), Decimal("2.00")], "x"),
        ("categorical", [1e-7, 0.5], "x"),
        ("categorical", [1e20, 3.0], "x"),
        ("categorical", [-0.0, 1.5], "x"),
        ("categorical", [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, 1, 2, 3, 4000)], "x"),
        ("categorical", [True, False], "x"),
        ("boolean", [True, False], "x"),
        ("datetime", [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, 1, 2, 3, 4000)], "x"),
        ("datetime", [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)], "x"),
    ],
)
@pytest.mark.parametrize("dtype", [object, None])
def test_one_cell_does_not_change_how_others_are_read(kind, cells, odd, dtype):
    """Else one row more would change all others, which no noise is made for."""
    schema = Schema(columns=(Column(name="x", kind=kind, nullable=True),))

    def first(values):
        table = read(pd.DataFrame({"x": pd.Series(values, dtype=dtype)}), schema)
        codes = table.columns["x"][:2].tolist()
        return [table.labels["x"][int(code)] for code in codes] if kind == "categorical" else codes

    assert first(cells) == first([*cells, odd])


def test_a_missing_cell_does_not_change_how_whole_numbers_are_named():
    schema = Schema(columns=(Column(name="x", kind="categorical", nullable=True),))
    for whole in ([10**16, 8], [7, 8]):
        tables = [read(pd.DataFrame({"x": pd.Series(each)}), schema) for each in (whole, [*whole, None])]
        assert tables[0].labels["x"] == tables[1].labels["x"] == sorted(map(str, whole))


# Drafts.


def test_a_file_of_text_is_drafted_like_one_with_types(tmp_path):
    frame = frames()["polars"].with_columns(d=pl.col("t").dt.date())
    frame.write_csv(tmp_path / "x.csv")
    frame.write_parquet(tmp_path / "x.parquet")
    drafts = [Schema.draft(tmp_path / name) for name in ("x.csv", "x.parquet")]
    assert drafts[0] == drafts[1]
    expected = {"n": "integer", "f": "continuous", "c": "categorical", "b": "boolean", "t": "date", "d": "date"}
    assert {column.name: column.kind for column in drafts[0]} == expected  # every instant is a midnight


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "is empty"), (b"a,\xff\0\n1", "UTF-8"), ("a\n", "no rows"), ('a,b\n"x",1\n"x"y,2\n', "a quote stands")],
)
def test_drafts_refuse_what_reading_refuses(tmp_path, content, message):
    with pytest.raises(TableError, match=message):
        Schema.draft(saved(tmp_path, content))
