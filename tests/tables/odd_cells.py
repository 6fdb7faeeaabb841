"""Odd cells: what a column of objects may hold, classes that object to being asked, and what a reader makes of them."""

import datetime
import decimal
import enum
import math
import uuid
import warnings
import zoneinfo

import numpy as np
import pandas as pd

from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.table import read


def hostile(name):
    def fail(self, *arguments):
        raise RuntimeError("asked a cell to act")

    return property(fail) if name == "__class__" else fail


ACTS = ("str", "repr", "eq", "hash", "bool", "float", "int", "index", "len", "iter", "format", "array", "class")
Hostile = type("Hostile", (), {f"__{act}__": hostile(f"__{act}__") for act in ACTS})
HostileText = type("HostileText", (str,), {f"__{act}__": hostile("") for act in ACTS[:5]})
HostileNumber = type("HostileNumber", (float,), {f"__{act}__": hostile("") for act in ACTS[:8]})
HostileInteger = type("HostileInteger", (int,), {f"__{act}__": hostile("") for act in ACTS[:8]})
HostileDecimal = type("HostileDecimal", (decimal.Decimal,), {f"__{act}__": hostile("") for act in ACTS[:7]})


class Chatty:
    def __str__(self):
        print("a cell was asked")
        warnings.warn("a cell was asked", stacklevel=1)
        return "1"


class NotText:
    def __str__(self):  # pyright: ignore[reportIncompatibleMethodOverride]
        return 3


class Colour(str, enum.Enum):  # noqa: UP042 (a StrEnum writes itself as its value)
    RED = "red"
    ONE = "1"


class Level(enum.IntEnum):
    LOW = 1


class Plain(enum.Enum):
    DAY = "2020-01-01"


class BrokenZone(datetime.tzinfo):
    def utcoffset(self, dt):
        raise RuntimeError("no such zone")


PARIS, TOKYO = zoneinfo.ZoneInfo("Europe/Paris"), datetime.timezone(datetime.timedelta(hours=9))
MOMENT = datetime.datetime(2020, 1, 1, 1, 2, 3, 4)
ODD = [
    *(None, math.nan, pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT"), np.float32("nan"), ""),
    *(True, False, np.True_, 0, 1, 7, -3, 2**53, 2**64, -(2**200), 10**4400, Level.LOW, HostileInteger(1)),
    *(0.0, -0.0, 1.0, 2.5, 1e300, 1e-300, math.inf, -math.inf, HostileNumber(2.5), np.float16(1.5), np.float32(0.1)),
    *(np.int8(1), np.uint64(2**64 - 1), np.float64(0.1), np.longdouble(2.5), np.longdouble("1e4000"), np.str_("é")),
    *(decimal.Decimal(text) for text in ("NaN", "sNaN", "Infinity", "1.50", "3.00", "1E+999999", "1E-999999", "-0")),
    *(HostileDecimal("1.5"), 1j, complex(math.nan, 0), np.complex64(1)),
    *("a", " a ", "A", "1", " 1", "1.0", "true", "FALSE", "no", "nan", "inf", "1e5", "1_0", "x", "?", "é", "\0"),
    *("2020-01-01", "2020-01-01T00:00:01Z", "2020-01-01 00:00+01:00", "0000-01-01", "10000-01-01", "9999-12-31T23:59"),
    *("9" * 5000, "\ud800", "a\udfff", HostileText("a"), Colour.RED, Colour.ONE, Plain.DAY, uuid.UUID(int=5)),
    *(b"a", b"\xff", bytearray(b"a"), [1], [], (1,), {"a": 1}, set(), range(3), np.array([1, 2]), np.array(1)),
    *(object(), Hostile(), Chatty(), NotText(), str, len, ...),
    *(datetime.date(2020, 1, 1), datetime.date.min, datetime.date.max, datetime.time(1, 2, 3), datetime.timedelta(1)),
    *(MOMENT, MOMENT.replace(tzinfo=PARIS), MOMENT.replace(tzinfo=TOKYO), MOMENT.replace(tzinfo=BrokenZone())),
    *(datetime.datetime.min, datetime.datetime.max, datetime.datetime.min.replace(tzinfo=TOKYO)),
    *(np.datetime64(text) for text in ("2020", "2020-01", "2020-01-01", "2020-01-01T01:02:03.123456789")),
    *(np.datetime64(2**62, unit) for unit in ("Y", "M", "W", "D", "h", "s", "ms", "us", "ns", "as")),
    *(pd.Timestamp(MOMENT), pd.Timestamp("2020-01-01 00:00:00.123456789"), pd.Timestamp(MOMENT, tz="Asia/Tokyo")),
    *(pd.Timestamp(np.datetime64(2**50, "s")), pd.Timedelta(1), pd.Period("2020-01", "M"), pd.Interval(0, 1)),
]  # fmt: skip


def objects(cells):
    """A column of objects, without a look at any of them."""
    column = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        column[place] = cell
    return pd.Series(column, dtype=object)


def schema_of(kinds, missing=()):
    return Schema(columns=tuple(Column(name=kind, kind=kind, nullable=True) for kind in kinds), missing=missing)


def values(source, kinds, missing=()):
    """What every cell was read as, by kind: a number, a label, or None."""
    table = read(source, schema_of(kinds, missing))
    found = {}
    for name, array in table.columns.items():
        if name in table.labels:
            found[name] = [None if code < 0 else table.labels[name][code] for code in array.tolist()]
        else:
            found[name] = [None if math.isnan(number) else number for number in array.tolist()]
    return found
