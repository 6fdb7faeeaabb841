"""Odd cells, one by one: those on which version 0.1.0 failed or read other rows differently."""

import datetime
import decimal
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from odd_cells import MOMENT, TOKYO, BrokenZone, Chatty, Colour, Hostile, HostileText, objects, schema_of, values
from understudy.tables import instants
from understudy.tables.structure import TableError
from understudy.tables.table import read


@pytest.mark.parametrize(
    ("kind", "column", "expected"),
    [
        ("datetime", pl.Series([2**31 - 1, 0], dtype=pl.Int32).cast(pl.Date), [None, 0.0]),
        ("datetime", pl.Series([2**62, 5], dtype=pl.Int64).cast(pl.Datetime("ms")), [None, 5000.0]),
        ("datetime", pl.Series([-1, 1999], dtype=pl.Int64).cast(pl.Datetime("ns")), [-1.0, 1.0]),
        ("datetime", pd.Series(np.array([2**62, 5], dtype="datetime64[s]")), [None, 5e6]),
        ("datetime", pa.array([2**62, 5], pa.int64()).view(pa.timestamp("s")), [None, 5e6]),
        ("categorical", pl.Series([2**31 - 1, 0], dtype=pl.Int32).cast(pl.Date), [None, "1970-01-01"]),
        ("categorical", objects(["\ud800", "a"]), [None, "a"]),
        ("categorical", objects([10**4400, 1]), ["1" + "0" * 4400, "1"]),
        ("continuous", objects([10**4400, 1]), [math.inf, 1.0]),
        ("continuous", objects([decimal.Decimal("sNaN"), 1]), [None, 1.0]),
        ("categorical", objects([Colour.RED, Colour.ONE, 3]), ["red", "1", "3"]),
        ("categorical", objects([HostileText("a"), Chatty(), Hostile(), "b"]), ["a", None, None, "b"]),
        ("categorical", objects([MOMENT.replace(tzinfo=TOKYO), "x"]), ["2019-12-31 16:02:03.000004+00:00", "x"]),
        ("datetime", objects([MOMENT.replace(tzinfo=BrokenZone()), datetime.date(1970, 1, 2)]), [None, 86_400e6]),
        ("categorical", pl.Series([1000, 0], dtype=pl.Int64).cast(pl.Time), ["00:00:00.000001", "00:00:00"]),
        ("categorical", pd.cut(pd.Series([1, 9]), [0, 5, 10]), ["(0, 5]", "(5, 10]"]),
    ],
)
def test_an_odd_cell_is_a_value_or_missing(capfd, kind, column, expected):
    make = pa.table if isinstance(column, pa.Array) else pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    assert values(make({kind: column}), [kind]) == {kind: expected}
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_an_odd_row_does_not_change_how_instants_are_written(zone):
    moments = pd.Series(pd.date_range("2020-03-29", periods=4, freq="h", tz=zone))
    typed = values(pd.DataFrame({"categorical": moments}), ["categorical"])["categorical"]
    mixed = values(pd.DataFrame({"categorical": objects([*moments, "x"])}), ["categorical"])["categorical"]
    assert mixed == [*typed, "x"]
    assert len(set(typed)) == 4


@pytest.mark.parametrize(
    ("kind", "cells"), [("continuous", ["x"]), ("datetime", [7]), ("boolean", [7, 8]), ("categorical", [[1], b"a"])]
)
def test_a_column_of_which_no_cell_is_readable_is_refused_and_a_blank_one_is_not(kind, cells):
    with pytest.raises(TableError, match="no cell can be read"):
        read(pd.DataFrame({kind: objects(cells)}), schema_of([kind]))
    assert values(pd.DataFrame({kind: objects([None, pd.NA, ""])}), [kind]) == {kind: [None] * 3}
    assert values(pd.DataFrame({kind: [math.nan] * 2}), [kind]) == {kind: [None] * 2}


def test_forms_of_instants_agree_wherever_they_read_the_same_text():
    """So it does not matter that the form of the first rows is tried first."""
    pieces = [("2020", "0001", " 999"), "-", ("01", "1", "12"), "-", ("01", "31", "7")]
    pieces += [
        ("T", " ", "  ", ""),
        ("10:00", "1:2", "24:00", ""),
        ("", ":00", ":60", ":5"),
        ("", ".5", ".123456789"),
        ("", "Z", "z", "+01:00", "-0130", "+01", " +01:00"),
    ]
    texts = [""]
    for piece in pieces:
        texts = [text + end for text in texts for end in ([piece] if isinstance(piece, str) else piece)]
    text = pl.Series(texts)
    parsed = [instants.parse(text, form).to_physical().to_list() for form in instants.FORMS]
    meanings = [{moment for moment in moments if moment is not None} for moments in zip(*parsed, strict=True)]
    assert max(map(len, meanings)) == 1
    assert sum(map(len, meanings)) > 1000


def test_a_long_column_of_instants_is_read_cell_by_cell():
    """The form of the top of a long column is guessed; the guess changes no cell."""
    cells = ["2020-01-01", "2020-01-01T10:00Z", "2020-01-01 10:00:00.5+01:00", " 2020-01-01 10:00 ", "0000-01-01", "x"]
    few = values(pl.DataFrame({"datetime": cells}), ["datetime"])["datetime"]
    for form in cells[:4]:
        long = values(pl.DataFrame({"datetime": [form] * 1500 + cells}), ["datetime"])["datetime"]
        assert long[-len(cells) :] == few
