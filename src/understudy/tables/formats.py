"""How dates and numbers are written in a table: formats of dates, and digits behind the point.

The one rule: a format is accepted only if it gives back every date that it writes, so that a table is written as it was
read. Formats use the directives that Python and polars understand alike.
"""

import datetime
import re

import numpy as np
import polars as pl

from understudy.tables.values import SchemaError, is_text, show

MOST_DECIMALS = 12
"""With more digits, neighbouring values of ordinary size could not be told apart as floats."""
_DIRECTIVES = frozenset("dmYybBjHMS%")
_TRIED = (datetime.datetime(2004, 2, 29), datetime.datetime(1999, 12, 31))
"""Dates that a format must give back: a leap day, and one whose day is no month."""


def read_format(rule: str, value: object) -> str:
    """A format of dates and instants, such as "%d.%m.%Y".

    Raises:
        SchemaError: It uses an unknown directive, or does not give back the day, the month and the year.
    """
    if not is_text(value):
        raise SchemaError(f'{rule} to be text such as "%d.%m.%Y", got {show(value)}.')
    unknown = [sign for sign in re.findall(r"%(.?)", value.replace("%%", "")) if sign not in _DIRECTIVES]
    if unknown:
        known = " ".join(f"%{sign}" for sign in "dmYybBjHMS")
        raise SchemaError(f"{rule} to use {known} only, got '%{unknown[0]}' in {show(value)}.")
    if value != value.strip() or not _gives_back(value):
        raise SchemaError(f'{rule} to hold a day, a month and a year, such as "%d.%m.%Y", got {show(value)}.')
    return value


def _gives_back(form: str) -> bool:
    """Whether polars reads every date from the text that it writes in this form."""
    moments = pl.Series(_TRIED, dtype=pl.Datetime("us"))
    try:
        return bool((parse(written(moments, form), form) == moments).fill_null(value=False).all())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return False


def written(moments: pl.Series, form: str) -> pl.Series:
    """Dates or instants as text in a form."""
    return moments.cast(pl.Datetime("us")).dt.to_string(form)


def parse(text: pl.Series, form: str) -> pl.Series:
    """Text in a form as Datetime("us"), null where it has another form. A form without a time means midnight."""
    if any(sign in form.replace("%%", "") for sign in ("%H", "%M", "%S")):
        return text.str.to_datetime(form, time_unit="us", strict=False, cache=False)
    return text.str.to_date(form, strict=False, cache=False).cast(pl.Datetime("us"))


def in_century(moments: pl.Series, form: str, latest: float | datetime.date | None) -> pl.Series:
    """Instants read in a form, those of a two-digit year in the last century that ends no later than `latest`.

    Without `latest`, such years are those from 1969 to 2068: 48 is 2048, and with a `high` of 2030 it is 1948.
    """
    if not isinstance(latest, datetime.date) or "%y" not in form.replace("%%", ""):
        return moments
    late = (moments > pl.Series([latest]).cast(pl.Datetime("us"))).fill_null(value=False)
    return moments.zip_with(~late, moments.dt.offset_by("-100y")) if late.any() else moments


def rounded(numbers: np.ndarray, decimals: int) -> np.ndarray:
    """Numbers with so many digits behind the point; those too large to have any stay as they are."""
    small = np.abs(numbers) < 2.0**53 * 10.0**-decimals
    return np.where(small, np.round(np.where(small, numbers, 0.0), decimals), numbers)


def read_decimals(rule: str, value: object) -> int:
    """How many digits stand behind the point.

    Raises:
        SchemaError: It is no such number.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_DECIMALS:
        raise SchemaError(f"{rule} to be a whole number from 0 to {MOST_DECIMALS}, got {show(value)}.")
    return value
