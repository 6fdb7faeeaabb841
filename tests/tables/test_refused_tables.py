"""Tables that are refused: in one line, for their structure, and without a cell."""

import datetime
import gzip

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from small_tables import NAN, SECRET, assert_columns, cells, one, saved
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.structure import TableError
from understudy.tables.table import read

BAD_FILES = {
    "missing column": (
        "x.csv",
        f"agee,y\n{SECRET},1\n",
        "x.csv has no column 'age', which the schema names. Did you mean 'agee'?",
    ),
    "extra column": (
        "x.csv",
        f"age,y,zip\n1,1,{SECRET}\n",
        "has a column 'zip', which the schema does not name. Add it",
    ),
    "extra columns": ("x.csv", f"age,y,zip,zap\n1,1,{SECRET},1\n", "has a column 'zip' and 1 more, which"),
    "no header": ("x.csv", f"{SECRET},{SECRET}\n1,2\n", "has none of the columns that the schema names. Are the names"),
    "duplicate name": ("x.csv", f'age,y,"age"\n1,2,{SECRET}\n', "has a column 'age_2', which the schema does not name"),
    "wrong type": (
        "x.csv",
        f"age,y\n{SECRET},1\n{SECRET},1\n",
        "column 'age': expected whole numbers for kind 'integer', and no",
    ),
    "empty": ("x.csv", "", "x.csv is empty"),
    "blank": ("x.csv", "\n\n", "first line, and it is blank"),
    "header only": ("x.csv", "age,y\n", "x.csv has no rows"),
    "header without line end": ("x.csv", "age,y", "x.csv has no rows"),
    "old line ends": ("x.csv", f"age,y\r1,{SECRET}\r", "expected lines that end in a line feed"),
    "not UTF-8 in the header": ("x.csv", b"age,\xffy\n1,2\n", "x.csv: expected UTF-8 text"),
    "not UTF-8 in text": ("x.csv", b"age,y\n1,2\n2,Xanthippe\xff\n", "x.csv: expected UTF-8 text"),
    "UTF-16 without a mark": ("x.csv", f"age,ÿ\n1,{SECRET}\n".encode("utf-16-le"), "x.csv: expected UTF-8 text"),
    "cut UTF-16": ("x.csv", f"age,y\n1,{SECRET}\n".encode("utf-16")[:-1], "x.csv: expected UTF-16 text"),
    "semicolons": ("x.csv", f"age;y\n1;{SECRET}\n", "x.csv reads as one column, because ',' does not separate"),
    "semicolons below": ("x.csv", f"age,y\n1;{SECRET}\n", "x.csv reads as one column, because ',' does not"),
    "open quote": ("x.csv", f'age,y\n1,"{SECRET}\n2,3\n', "cannot be read as CSV"),
    "cut gzip": ("x.csv.gz", gzip.compress(b"age,y\n1,2\n" * 99)[:-20], "cannot be read as CSV"),
    "no Parquet": ("x.parquet", f"age,y\n1,{SECRET}\n", "cannot be read as Parquet"),
    "empty Parquet": ("x.parquet", "", "x.parquet is empty"),
    "foreign Parquet": ("x.parquet", b"PAR1" + b"\0" * 40 + b"PAR1", "cannot be read as Parquet"),
    "unknown extension": ("x.docx", SECRET, r"expected a file that ends in \.csv, "),
    "no extension": ("x", SECRET, r"expected a file that ends in \.csv, "),
}
AGES = Schema(columns=(Column(name="age", kind="integer"), Column(name="y", kind="categorical")))


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_in_one_line_without_a_cell(tmp_path, monkeypatch, case):
    name, content, message = BAD_FILES[case]
    saved(tmp_path, content, name)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TableError, match=message) as caught:
        read(name, AGES)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_cut_parquet_file_is_refused(tmp_path):
    pl.DataFrame({"age": range(1000), "y": [SECRET] * 1000}).write_parquet(tmp_path / "x.parquet")
    whole = (tmp_path / "x.parquet").read_bytes()
    for part in (whole[:-1], whole[: len(whole) // 2], whole[len(whole) // 2 :]):
        with pytest.raises(TableError, match="cannot be read as Parquet"):
            read(saved(tmp_path, part, "cut.parquet"), AGES)


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("place", [0, 999])
def test_a_parquet_file_with_text_that_is_not_utf8_is_refused(tmp_path, dictionary, place):
    """Such a file is no Parquet by its specification, as a CSV file of such bytes is no text: a matter of structure."""
    cells = [SECRET.encode()] * 1000
    cells[place] = b"\xff\xfe"
    column = pa.Array.from_buffers(pa.string(), 1000, pa.array(cells, pa.binary()).buffers())
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"age": range(1000), "y": column}), path, use_dictionary=dictionary)
    with pytest.raises(TableError, match=r"x\.parquet: expected UTF-8 text") as caught:
        read(path, AGES)
    assert "\n" not in str(caught.value) and SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"), [("absent.csv", "no such file"), ("folder.csv", "is a directory"), ("a\0.csv", "null")]
)
def test_a_place_without_a_file_is_refused(tmp_path, name, message):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match=f"cannot be read: .*{message}"):
        read(tmp_path / name, AGES)


def test_a_column_of_unlisted_missing_marks_says_how_to_list_them(tmp_path):
    with pytest.raises(TableError, match="list how a missing value is spelt under `missing`"):
        cells(tmp_path, "continuous", "NA", "NA")
    assert_columns(cells(tmp_path, "continuous", "NA", "NA", missing=["NA"], nullable=True), {"x": [NAN, NAN]})


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("continuous", pl.Series([SECRET])),
        ("continuous", pl.Series(["1"])),
        ("integer", pl.Series(["1"], dtype=pl.Enum(["1", SECRET]))),
        ("integer", pl.Series([datetime.date(2020, 1, 1)])),
        ("continuous", pl.Series([{SECRET: 1}])),
        ("categorical", pl.Series([{SECRET: 1}])),
        ("categorical", pl.Series([[1]])),
        ("categorical", pl.Series([b"a"])),
        ("boolean", pl.Series([datetime.date(2020, 1, 1)])),
        ("boolean", pl.Series([SECRET])),
        ("datetime", pl.Series([datetime.timedelta(1)])),
        ("datetime", pl.Series([1])),
        ("datetime", pl.Series([SECRET])),
        ("continuous", pd.Series([SECRET, SECRET], dtype=object)),
        ("continuous", pd.Series([1j])),
        ("datetime", pd.Series([pd.Timedelta(1)])),
    ],
)
def test_a_type_that_cannot_hold_the_kind_is_refused(kind, values):
    make = pl.DataFrame if isinstance(values, pl.Series) else pd.DataFrame
    with pytest.raises(TableError, match=f"table, column 'x': expected .* for kind '{kind}'") as caught:
        read(make({"x": values}), one(kind))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "the pandas table has more than one column 'x'"),
        (pd.DataFrame([[1, 2]]), "expected the names of its columns to be text"),
        (pa.table([[1], [2]], names=["x", "x"]), "the pyarrow table has more than one column 'x'"),
        (pl.DataFrame({"z": [1]}), "the polars table has none of the columns"),
        (pl.DataFrame({"x": []}), "the polars table has no rows"),
        (pl.LazyFrame({"x": [SECRET]}).select(pl.col("x").cast(pl.Int64)), "the polars table cannot be read"),
        ({"x": [1]}, "expected a path or a pandas, polars or pyarrow table, got builtins.dict"),
        (None, "expected a path or a pandas"),
        (pd.Series([1], name="x"), "expected a path or a pandas"),
    ],
)
def test_a_bad_frame_is_refused(frame, message):
    with pytest.raises(TableError, match=message) as caught:
        read(frame, one("integer"))
    assert SECRET not in str(caught.value)
