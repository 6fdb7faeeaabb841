"""Writing: frames of every kind and files, whole or not at all; and pandas in and out without pyarrow."""

import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.structure import TableError
from understudy.tables.table import read
from understudy.tables.writing import to_frame, write

NAN, SECRET = np.nan, "Xanthippe"
START = 1_577_836_800e6
MIXED = Schema(
    columns=(
        Column(name="t", kind="datetime"),
        Column(name="n", kind="integer"),
        Column(name="f", kind="continuous"),
        Column(name="c", kind="categorical"),
        Column(name="b", kind="boolean"),
    )
)


def one(kind):
    return Schema(columns=(Column(name="x", kind=kind),))


def assert_columns(table, expected):
    assert list(table.columns) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(table.columns[name], np.asarray(values))


DECODED = {"t": [START, NAN], "n": [3.0, NAN], "f": [0.5, NAN], "c": [1, -1], "b": [0.0, NAN]}


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow"])
def test_a_frame_out_reads_back_as_it_went_in(kind):
    frame = to_frame(DECODED, MIXED, {"c": ["u", "v"]}, kind)
    table = read(frame, MIXED)
    assert table.kind == kind
    assert table.labels == {"c": ["v"]}
    assert_columns(table, DECODED | {"c": [0, -1]})


def test_polars_columns_have_the_types_of_their_kinds():
    frame = to_frame(DECODED, MIXED, {"c": ["u", "v"]}, "polars")
    assert frame.dtypes == [pl.Datetime("us"), pl.Int64, pl.Float64, pl.String, pl.Boolean]
    assert frame.null_count().row(0) == (1, 1, 1, 1, 1)


def test_pandas_columns_have_the_types_of_their_kinds():
    dtypes = to_frame(DECODED, MIXED, {"c": ["u", "v"]}, "pandas").dtypes
    assert [str(dtype) for dtype in dtypes] == ["datetime64[us]", "Int64", "float64", "str", "boolean"]
    whole = to_frame({"x": np.array([1.0])}, one("integer"), {}, "pandas")
    assert str(whole["x"].dtype) == "int64"


def test_far_away_numbers_stay_within_what_their_type_holds():
    assert to_frame({"x": [1e300, -np.inf]}, one("integer"), {})["x"].to_list() == [2**53, -(2**53)]
    years = to_frame({"x": [1e300, -1e300]}, one("datetime"), {})["x"].dt.year().to_list()
    assert years == [9999, 1]


def test_an_unknown_kind_of_frame_is_refused():
    with pytest.raises(ValueError, match="expected kind to be polars, pandas or pyarrow, got 'dask'"):
        to_frame(DECODED, MIXED, {"c": ["u", "v"]}, "dask")


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.csv.gz", "out.parquet"])
def test_a_written_file_reads_back(tmp_path, name):
    write(to_frame(DECODED, MIXED, {"c": ["u", "v"]}), tmp_path / name)
    assert_columns(read(tmp_path / name, MIXED), DECODED | {"c": [0, -1]})
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("place", ["absent/out.csv", "folder.csv", "out.xlsx", "out"])
def test_an_unwritable_place_is_refused_and_left_alone(tmp_path, place):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError) as caught:
        write(pl.DataFrame({"x": [1]}), tmp_path / place)
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["folder.csv"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("old")
    with pytest.raises(TableError, match="cannot be written: it does not fit the format"):
        write(pl.DataFrame({"x": [{SECRET: 1}]}), path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["people.csv"]


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None
import datetime, numpy as np, pandas as pd
from understudy.tables.schema import Column, Schema
from understudy.tables.table import read
from understudy.tables.writing import to_frame

moment = datetime.datetime(2020, 1, 1)
frame = pd.DataFrame({
    "n": pd.array([1, None, 3], dtype="Int64"), "f": [0.5, np.nan, 2.0], "c": ["a", None, "b"], "o": [1, "x", b"y"],
    "b": pd.array([True, None, False], dtype="boolean"), "t": [moment, None, moment],
    "k": pd.Categorical(["a", None, "b"]), "z": pd.Series([moment, None, moment]).dt.tz_localize("Europe/Paris"),
})
kinds = {"n": "integer", "f": "continuous", "c": "categorical", "o": "categorical", "b": "boolean", "t": "datetime",
         "k": "categorical", "z": "datetime"}
schema = Schema(columns=[Column(name=name, kind=kind, nullable=True) for name, kind in kinds.items()])
table = read(frame, schema)
assert table.labels == {"c": ["a", "b"], "o": ["1", "x"], "k": ["a", "b"]}, table.labels
assert np.isnan(table.columns["n"]).tolist() == [False, True, False]
back = read(to_frame(table.columns, schema, table.labels, "pandas"), schema)
assert all(np.array_equal(back.columns[n], table.columns[n], equal_nan=True) for n in kinds)
assert back.labels == table.labels
"""


def test_pandas_needs_no_pyarrow():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT_PYARROW], check=True, env=environment)
