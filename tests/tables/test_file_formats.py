"""Files of other programs: Arrow, Excel, SPSS, Stata and SAS, each read to the same cells as a CSV file."""

import dataclasses
import datetime
import gzip
import importlib
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from bad_input import assert_refused
from small_tables import NAN, SECRET, assert_columns
from understudy.tables.column import Column
from understudy.tables.dialect import Dialect
from understudy.tables.schema import Schema
from understudy.tables.structure import TableError
from understudy.tables.table import read
from understudy.tables.writing import write

PEOPLE = Schema(
    columns=(
        Column(name="age", kind="integer", nullable=True),
        Column(name="cost", kind="continuous", nullable=True),
        Column(name="ward", kind="categorical", nullable=True),
        Column(name="born", kind="datetime", nullable=True),
    )
)
BORN = [datetime.date(1948, 2, 16), None, datetime.date(2020, 1, 1)]
FRAME = pl.DataFrame({"age": [70, None, 4], "cost": [0.1, 2.5, None], "ward": ["Zürich", None, "b"], "born": BORN})
DAY = 86_400e6
EXPECTED = {
    "age": [70, NAN, 4],
    "cost": [0.1, 2.5, NAN],
    "ward": [0, -1, 1],
    "born": [(BORN[0] - datetime.date(1970, 1, 1)).days * DAY, NAN, 1_577_836_800e6],
}


def drafted(source):
    """The kinds of a draft; a date counts as an instant."""
    return {column.name: column.kind.replace("datetime", "date") for column in Schema.draft(source)}


def assert_people(path):
    table = read(path, PEOPLE)
    assert_columns(table, EXPECTED)
    assert table.labels["ward"] == ["Zürich", "b"] and table.kind == "polars"


@pytest.mark.parametrize(
    "ending", ["csv", "tsv", "csv.gz", "csv.zst", "tsv.zst", "txt", "parquet", "feather", "arrow", "ipc"]
)
def test_what_is_written_is_read_again(tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    write(FRAME.select("ward", "age", "cost", "born"), path)
    table = read(path, PEOPLE)
    assert table.labels["ward"] == ["Zürich", "b"] or table.labels["ward"] == ["b", "Zürich"]
    assert_columns(table, EXPECTED | {"ward": table.columns["ward"]})
    assert drafted(path) == {column.name: column.kind.replace("datetime", "date") for column in PEOPLE}


def test_a_stream_of_arrow_is_read(tmp_path):
    FRAME.write_ipc_stream(tmp_path / "x.arrow")
    assert_people(tmp_path / "x.arrow")


@pytest.mark.parametrize("ending", ["xlsx", "sav", "docx"])
def test_no_table_is_written_in_a_file_of_another_program(tmp_path, ending):
    with pytest.raises(TableError, match=r"cannot be written: no table is written|expected a file that ends in"):
        write(FRAME, tmp_path / f"x.{ending}")
    assert not list(tmp_path.iterdir())


# Excel --------------------------------------------------------------------------------------------------------------


def workbook(path, rows, *, sheets=()):
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra 'files'")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for sheet in sheets:
        book.create_sheet(sheet).append([SECRET])
    book.save(path)
    return path


def test_the_first_sheet_of_a_workbook_is_read(tmp_path):
    rows = [
        ["age", "cost", "ward", "born"],
        [70, 0.1, "Zürich", BORN[0]],
        [None, 2.5, None, None],
        [4, None, "b", BORN[2]],
    ]
    assert_people(workbook(tmp_path / "x.xlsx", rows, sheets=["more"]))
    assert drafted(tmp_path / "x.xlsx") == {column.name: column.kind.replace("datetime", "date") for column in PEOPLE}


def test_a_cell_of_a_sheet_is_read_by_itself(tmp_path):
    rows = [
        ["age", "cost", "age", None, None],
        [1, "2.5", True, None],
        ["x", "#N/A", "007", "note"],
        [None, None, None],
        [3.6, "=1/0", 3.0, datetime.datetime(2020, 1, 1, 10)],
    ]
    columns = (
        Column(name="age", kind="integer"),
        Column(name="cost", kind="continuous"),
        Column(name="age_2", kind="categorical"),
    )
    table = read(workbook(tmp_path / "x.xlsx", rows), Schema(columns=columns))
    assert_columns(table, {"age": [1, NAN, 4], "cost": [2.5, NAN, NAN], "age_2": [2, 0, 1]})
    assert table.labels["age_2"] == ["007", "3", "true"]


def test_a_sheet_without_names_has_numbered_columns(tmp_path):
    columns = (Column(name="column_1", kind="integer"), Column(name="column_3", kind="integer"))
    schema = Schema(columns=columns, ignore=("column_2",), file=Dialect(header=False))
    table = read(workbook(tmp_path / "x.xlsx", [[1, 2, 3], [4], [7, 8, 9, 10]]), schema)
    assert_columns(table, {"column_1": [1, 4, 7], "column_3": [3, NAN, 9]})


def test_a_blank_sheet_is_refused(tmp_path):
    with pytest.raises(TableError, match="expected a table in the first sheet, and it is blank"):
        read(workbook(tmp_path / "x.xlsx", []), PEOPLE)
    with pytest.raises(TableError, match=r"x\.xlsx has no rows"):
        read(workbook(tmp_path / "x.xlsx", [["age", "cost", "ward", "born"]]), PEOPLE)


# SPSS, Stata and SAS ------------------------------------------------------------------------------------------------


@pytest.fixture
def pyreadstat():
    return pytest.importorskip("pyreadstat", reason="needs the extra 'files'")


@pytest.mark.parametrize("ending", ["sav", "zsav", "dta", "xpt"])
def test_a_file_of_a_statistics_program_is_read(tmp_path, pyreadstat, ending):
    frame = pd.DataFrame({"age": [70.0, None, 4], "cost": [0.1, 2.5, None], "ward": ["Zürich", "", "b"], "born": BORN})
    path = tmp_path / f"x.{ending}"
    if ending == "xpt":
        pyreadstat.write_xport(frame, path)
    elif ending == "dta":
        pyreadstat.write_dta(frame, path)
    else:
        pyreadstat.write_sav(frame, path, compress=ending == "zsav")
    assert_people(path)
    assert drafted(path)["born"] == "date" and drafted(path)["ward"] == "categorical"


def test_codes_stay_codes_and_missing_ranges_are_missing(tmp_path, pyreadstat):
    frame = pd.DataFrame({"age": [70.0, -9.0, 4], "sex": [1.0, 2.0, 9.0]})
    labels = {"sex": {1: SECRET, 2: "f", 9: "unknown"}}
    pyreadstat.write_sav(frame, tmp_path / "x.sav", variable_value_labels=labels, missing_ranges={"age": [-9]})
    columns = (Column(name="age", kind="integer"), Column(name="sex", kind="categorical"))
    table = read(tmp_path / "x.sav", Schema(columns=columns))
    assert_columns(table, {"age": [70, NAN, 4], "sex": [0, 1, 2]})
    assert table.labels["sex"] == ["1", "2", "9"]


def test_an_instant_out_of_range_is_missing(tmp_path, pyreadstat):
    frame = pd.DataFrame({"born": [13_797_216_000.5, 1e300, -1e15, None], "other": [1.0] * 4})
    pyreadstat.write_sav(frame, tmp_path / "x.sav", variable_format={"born": "DATETIME20"})
    schema = Schema(columns=(Column(name="born", kind="datetime"),), ignore=("other",))
    assert_columns(read(tmp_path / "x.sav", schema), {"born": [1_577_836_800e6 + 5e5, NAN, NAN, NAN]})


def test_a_file_of_sas_is_read(tmp_path, pyreadstat):
    """The sample is from the tests of pyreadstat (Apache License 2.0), packed."""
    packed = Path(__file__).with_name("sample.sas7bdat.gz").read_bytes()
    path = tmp_path / "x.sas7bdat"
    path.write_bytes(gzip.decompress(packed))
    columns = [("mychar", "categorical"), ("mynum", "continuous"), ("mydate", "datetime"), ("dtime", "datetime")]
    schema = Schema(
        columns=tuple(Column(name=name, kind=kind) for name, kind in columns), ignore=("mylabl", "myord", "mytime")
    )
    table = read(path, schema)
    days = [datetime.datetime(2018, 5, 6), datetime.datetime(1880, 5, 6), datetime.datetime(1960, 1, 1)]
    expected = [(day - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1) for day in days]
    np.testing.assert_array_equal(table.columns["mydate"][:3], expected)
    np.testing.assert_array_equal(table.columns["dtime"][:2], np.array(expected[:2]) + 36_610e6)
    assert np.isnan(table.columns["mydate"][4]) and table.labels["mychar"] == list("abcde")
    assert table.columns["mynum"].tolist() == [1.1, 1.2, -1000.3, -1.4, 1000.3]


def test_a_text_column_of_such_a_file_is_no_number(tmp_path, pyreadstat):
    pyreadstat.write_dta(pd.DataFrame({"age": ["70", SECRET]}), tmp_path / "x.dta")
    with pytest.raises(TableError, match=r"column 'age': expected whole numbers .* got the type String") as caught:
        read(tmp_path / "x.dta", Schema(columns=(Column(name="age", kind="integer"),)))
    assert SECRET not in str(caught.value)


# Without the extra --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("x.xlsx", "openpyxl"),
        ("x.sav", "pyreadstat"),
        ("x.dta", "pyreadstat"),
        ("duckdb:///x.duckdb?table=y", "duckdb"),
        ("postgresql://me@localhost/x?table=y", "psycopg"),
    ],
)
def test_without_the_extra_one_line_says_what_to_install(place, monkeypatch, source, module):
    monkeypatch.chdir(place.folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    with pytest.raises(ImportError):
        importlib.import_module(module)
    with place.untouched():
        result = place.fit("--ledger", place.folder / "budget.jsonl", data=source)
        assert_refused(result, module, "pip install 'understudy-dp[files]'")


def test_a_dialect_is_nothing_to_a_typed_file(tmp_path):
    write(FRAME, tmp_path / "x.parquet")
    schema = dataclasses.replace(PEOPLE, file=Dialect(delimiter=";", header=False, decimal=","))
    assert_columns(read(tmp_path / "x.parquet", schema), EXPECTED)
