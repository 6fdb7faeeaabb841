"""Dates without a time of day, formats of dates, digits behind the point: read as written, and written as read."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from small_tables import cells, one
from understudy.tables import formats
from understudy.tables.column import DAY, Column
from understudy.tables.schema import Schema
from understudy.tables.table import read
from understudy.tables.values import SchemaError, on_table_scale
from understudy.tables.writing import as_shown, to_frame, write

LEAP = datetime.date(2024, 2, 29)
SPELT = {"%d.%m.%Y": "29.02.2024", "%m/%d/%Y": "02/29/2024", "%d-%b-%y": "29-Feb-24", "%Y%m%d": "20240229"}


def day(date):
    return on_table_scale(date)


@pytest.mark.parametrize(("form", "spelt"), SPELT.items())
def test_a_date_is_read_in_its_format_and_written_in_it(tmp_path, form, spelt):
    found = cells(tmp_path, "date", spelt, "nonsense", "31.02.2024", format=form)
    assert found.columns["x"].tolist()[0] == day(LEAP)
    assert np.isnan(found.columns["x"][1:]).all()
    schema = one("date", format=form)
    write(to_frame({"x": [day(LEAP), np.nan]}, schema, {}), tmp_path / "out.csv", schema)
    assert (tmp_path / "out.csv").read_text().splitlines()[1] == spelt


def test_a_year_of_two_digits_is_the_last_one_that_is_not_beyond_the_bound(tmp_path):
    spelt = ("16.02.48", "16.02.24", "29.02.00")
    for high, years in {None: [2048, 2024, 2000], datetime.date(2030, 1, 1): [1948, 2024, 2000]}.items():
        found = cells(tmp_path, "date", *spelt, format="%d.%m.%y", high=high).columns["x"]
        assert [(datetime.date(1970, 1, 1) + datetime.timedelta(microseconds=each)).year for each in found] == years
    late = cells(tmp_path, "date", "16.02.2048", format="%d.%m.%Y", high=datetime.date(2030, 1, 1))
    assert late.columns["x"].tolist() == [day(datetime.date(2048, 2, 16))]  # four digits mean what they say


def test_parquet_holds_dates_as_dates_whatever_the_format(tmp_path):
    schema = one("date", format="%d.%m.%Y")
    write(to_frame({"x": [day(LEAP)]}, schema, {}), tmp_path / "out.parquet", schema)
    assert pl.read_parquet(tmp_path / "out.parquet")["x"].to_list() == [LEAP]


@pytest.mark.parametrize("source", ["objects", "stamps", "polars"])
def test_typed_dates_are_read_beside_a_format_and_lose_their_time_of_day(source):
    moment = datetime.datetime(2024, 2, 29, 23, 59)
    frame = {
        "objects": lambda: pd.DataFrame({"x": pd.Series([LEAP, "29.02.2024"], dtype=object)}),
        "stamps": lambda: pd.DataFrame({"x": [moment, moment]}),
        "polars": lambda: pl.DataFrame({"x": [moment, moment]}),
    }[source]()
    assert read(frame, one("date", format="%d.%m.%Y")).columns["x"].tolist() == [day(LEAP)] * 2


def test_text_that_another_form_could_mean_is_missing(tmp_path):
    """2024-05-13 has no thirteenth month in %Y-%d-%m; reading it as ISO 8601 would swap day and month in some rows."""
    found = cells(tmp_path, "date", "2024-13-05", "2024-05-13", format="%Y-%d-%m").columns["x"]
    assert found[0] == day(datetime.date(2024, 5, 13)) and np.isnan(found[1])


def test_a_spelling_of_missing_is_missing_in_a_format(tmp_path):
    found = cells(tmp_path, "date", "01.01.1900", "29.02.2024", format="%d.%m.%Y", missing=["01.01.1900"])
    assert np.isnan(found.columns["x"][0]) and found.columns["x"][1] == day(LEAP)


def test_numbers_are_rounded_to_their_decimals_when_read_and_when_shown(tmp_path):
    found = cells(tmp_path, "continuous", "0.300059", "12.346", "1e300", decimals=2).columns["x"]
    assert found.tolist() == [0.3, 12.35, 1e300]
    assert as_shown([0.1 + 0.2, np.nan], Column(name="x", kind="continuous", decimals=1))[0] == 0.3


def test_leading_zeros_stay(tmp_path):
    found = cells(tmp_path, "categorical", "01067", "1067")
    assert found.labels["x"] == ["01067", "1067"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "date", "format": "%d.%m"}, "hold a day, a month and a year"),
        ({"kind": "date", "format": "%d.%m.%Q"}, "got '%Q'"),
        ({"kind": "date", "format": 7}, "to be text"),
        ({"kind": "integer", "format": "%d.%m.%Y"}, "only kind date or datetime"),
        ({"kind": "integer", "decimals": 2}, "only kind continuous"),
        ({"kind": "continuous", "decimals": 13}, "from 0 to 12"),
        ({"kind": "continuous", "decimals": True}, "from 0 to 12"),
        ({"kind": "continuous", "decimals": 0, "low": 0.2, "high": 0.8}, "a number of 0 decimals between"),
        ({"kind": "date", "low": datetime.datetime(2020, 1, 1, 12)}, "without a time of day"),
        ({"kind": "categorical", "levels": "suffix"}, 'to be "prefix"'),
        ({"kind": "categorical", "levels": [0]}, "from 1 to 100"),
        ({"kind": "categorical", "levels": [1, 1]}, "each once"),
        ({"kind": "categorical", "levels": {"a": "b", "b": "a"}}, "above itself"),
        ({"kind": "categorical", "levels": {}}, "at least one parent"),
        ({"kind": "categorical", "levels": [1], "values": ["a"]}, "no levels beside values"),
        ({"kind": "boolean", "levels": [1]}, "only kind categorical"),
    ],
)
def test_what_does_not_fit_a_kind_is_refused(fields, message):
    with pytest.raises(SchemaError, match=message):
        Column(name="x", **fields)


def test_a_column_on_a_grid_counts_in_steps():
    dates = Column(name="x", kind="date", low=datetime.date(1970, 1, 2), high=datetime.date(1970, 1, 9))
    cents = Column(name="x", kind="continuous", low=0.07, high=0.29, decimals=2)  # 0.29 / 0.01 is 28.999999999999996
    assert (dates.step, dates.bounds_in_steps) == (DAY, (1, 8))
    assert cents.bounds_in_steps == (7, 29)
    assert Column(name="x", kind="continuous", low=0.5).step is None


def test_polars_and_python_agree_on_every_directive():
    moments = [datetime.datetime(1999, 12, 31, 23, 5, 9), datetime.datetime(2004, 2, 29)]
    for form in ("%d.%m.%Y", "%j/%y", "%B %d, %Y", "%d%b%Y %H:%M:%S"):
        written = formats.written(pl.Series(moments), form)
        assert written.to_list() == [moment.strftime(form) for moment in moments]


def test_frames_hold_dates_as_dates():
    schema = Schema(columns=(Column(name="x", kind="date", nullable=True),))
    assert to_frame({"x": [day(LEAP), np.nan]}, schema, {})["x"].to_list() == [LEAP, None]
    stamps = to_frame({"x": [day(LEAP), np.nan]}, schema, {}, "pandas")["x"]
    assert stamps.iloc[0] == pd.Timestamp(LEAP) and pd.isna(stamps.iloc[1])


ICD = """A00.0,A00-A09,I
A00.1,A00-A09,I
C50.1,C50,II
"""


def test_levels_may_stand_in_a_public_file(tmp_path):
    (tmp_path / "icd.csv").write_text(ICD)
    (tmp_path / "s.toml").write_text('[columns.x]\nkind = "categorical"\nlevels = "icd.csv"\n')
    levels = Schema.read(tmp_path / "s.toml")["x"].levels
    assert (
        levels is not None
        and levels.depth == 2
        and dict(levels.parents)["A00.1"] == "A00-A09"
        and dict(levels.parents)["C50"] == "II"
    )
    assert Schema.parse(Schema.read(tmp_path / "s.toml").to_toml()) == Schema.read(tmp_path / "s.toml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("A00.0\n", "in line 1"),
        (ICD + "A00.0,other,I", "two parents; the second is in line 4"),
        (None, "cannot be read"),
    ],
)
def test_a_file_of_levels_that_does_not_fit_is_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "icd.csv").write_text(content)
    (tmp_path / "s.toml").write_text('[columns.x]\nkind = "categorical"\nlevels = "icd.csv"\n')
    with pytest.raises(SchemaError, match=message):
        Schema.read(tmp_path / "s.toml")
