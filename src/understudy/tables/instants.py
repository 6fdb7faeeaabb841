"""Instants: microseconds since 1970 in UTC, from ticks of any unit, from Python's objects and from text.

The one rule: the years 1 to 9999 are what ISO 8601 writes with four digits and what Python holds; an instant outside
them is missing. It is compared as a whole number before it is cast, because polars panics if a cast overflows.
Whatever is finer than a microsecond is cut off, towards the past.
"""

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

DAY = 86_400_000_000
_EPOCH = datetime.datetime(1970, 1, 1)
FIRST = (datetime.datetime(1, 1, 1) - _EPOCH) // datetime.timedelta(microseconds=1)
LAST = (datetime.datetime(9999, 12, 31) - _EPOCH) // datetime.timedelta(microseconds=1) + DAY - 1

# How many microseconds one tick is, as a multiplier and a divisor.
_TICKS = {
    "W": (7 * DAY, 1),
    "D": (DAY, 1),
    "h": (3_600_000_000, 1),
    "m": (60_000_000, 1),
    "s": (1_000_000, 1),
    "ms": (1000, 1),
    "us": (1, 1),
    "ns": (1, 1000),
    "ps": (1, 10**6),
    "fs": (1, 10**9),
    "as": (1, 10**12),
}
_NS_PER_DAY = 1000 * DAY
_DATE = "%Y-%m-%d"
_TIMES = ("%H:%M", "%H:%M%#z", "%H:%M:%S", "%H:%M:%S%.f", "%H:%M:%S%.f%#z")
FORMS = (_DATE, *(f"{_DATE}{between}{time}" for between in "T " for time in _TIMES))
"""The forms of ISO 8601 that text is read in. Forms that read the same text give the same instant: a zone starts with
a sign or a Z, which no other form has behind the time, and a fraction may be absent. Their order is thus of no effect.
"""
_TOP = 1000  # The most frequent form is looked for in so many cells, to be tried first.


def from_ticks(ticks: pl.Series, unit: str, *, zoned: bool = False) -> pl.Series:
    """Whole numbers of a unit since 1970 as Datetime("us"), null outside the years 1 to 9999."""
    multiplier, divisor = _TICKS[unit]
    ticks = ticks.cast(pl.Int64)
    if divisor == 1:
        ticks = _within(ticks, -(-FIRST // multiplier), LAST // multiplier) * multiplier
    else:
        ticks = ticks // divisor  # 64 bits of nanoseconds end in the year 2262
    return ticks.cast(pl.Datetime("us", "UTC" if zoned else None))


def held(series: pl.Series) -> pl.Series:
    """A series whose dates, times and instants all can be cast and written; those that cannot are null.

    Instants become Datetime("us"), in UTC if they have a zone. All other types are returned as they are.
    """
    dtype: Any = series.dtype
    if dtype == pl.Date:
        return _within(series.to_physical(), FIRST // DAY, LAST // DAY).cast(pl.Date)
    if dtype == pl.Datetime:
        return from_ticks(series.to_physical(), dtype.time_unit, zoned=dtype.time_zone is not None)
    if dtype == pl.Time:
        return _within(series.to_physical(), 0, _NS_PER_DAY - 1).cast(pl.Time)
    return series


def _within(numbers: pl.Series, low: int, high: int) -> pl.Series:
    outside = (numbers < low) | (numbers > high)
    return numbers.set(outside.fill_null(value=False), None) if outside.any() else numbers


def microseconds(series: pl.Series) -> pl.Series:
    """Dates or instants, once `held`, as whole microseconds since 1970."""
    whole = series.to_physical().cast(pl.Int64)
    return whole * DAY if series.dtype == pl.Date else whole


# Text.


def from_text(text: pl.Series) -> pl.Series:
    """Parses ISO 8601, null where it is none: in a long column the most frequent form first, then each in turn."""
    forms: Sequence[str] = FORMS
    if len(text) > _TOP:
        top = text.drop_nulls().head(_TOP).str.strip_chars()
        forms = sorted(FORMS, key=lambda form: parse(top, form).null_count())
    instants = parse(text, forms[0])
    possible = text.str.contains("-", literal=True)  # which every form has
    for form in forms:
        unread = (instants.is_null() & possible).arg_true()
        if not len(unread):  # most tables hold one form only
            break
        instants = instants.scatter(unread, parse(text.gather(unread).str.strip_chars(), form))
    return held(instants)


def parse(text: pl.Series, form: str) -> pl.Series:
    """Text of one form as Datetime("us") in UTC, null where it has another form."""
    if form == _DATE:  # twice as fast as through to_datetime
        return text.str.to_date(form, strict=False, cache=False).cast(pl.Datetime("us"))
    parsed = text.str.to_datetime(form, time_unit="us", strict=False, cache=False)
    return parsed.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if form.endswith("z") else parsed


def as_text(series: pl.Series) -> pl.Series:
    """Dates, times and instants, once `held`, as Python writes them; instants with a zone in UTC, with +00:00."""
    if series.dtype == pl.Date:
        return series.cast(pl.String)
    if series.dtype == pl.Time:
        return series.dt.to_string("%H:%M:%S%.6f").str.strip_suffix(".000000")
    naive = series.to_physical().cast(pl.Datetime("us")).cast(pl.String).str.strip_suffix(".000000")
    zoned = getattr(series.dtype, "time_zone", None) is not None
    return naive + "+00:00" if zoned else naive


# Single objects.


def written(moment: int, *, zoned: bool) -> str | None:
    """One instant, in microseconds since 1970, as `as_text` writes it; None outside the years 1 to 9999."""
    if not FIRST <= moment <= LAST:
        return None
    return str(_EPOCH + datetime.timedelta(microseconds=moment)) + ("+00:00" if zoned else "")


def written_datetime(cell: datetime.datetime) -> str | None:
    """A datetime of Python as text; one with a zone in UTC."""
    base = datetime.datetime
    offset = base.utcoffset(cell)
    naive = base.combine(base.date(cell), base.time(cell))
    moment = (naive - _EPOCH - (offset or datetime.timedelta())) // datetime.timedelta(microseconds=1)
    return written(moment, zoned=offset is not None)


def written_datetime64(cell: np.datetime64, *, zoned: bool = False) -> str | None:
    """A datetime64 of any unit as text."""
    unit, count = np.datetime_data(cell.dtype)
    ticks = int(cell.astype(np.int64)) * count
    if unit in ("Y", "M"):
        years, month = divmod(12 * ticks if unit == "Y" else ticks, 12)
        if not 1 <= 1970 + years <= 9999:
            return None
        return written((datetime.datetime(1970 + years, month + 1, 1) - _EPOCH).days * DAY, zoned=zoned)
    multiplier, divisor = _TICKS[unit]
    return written(ticks * multiplier // divisor, zoned=zoned)
