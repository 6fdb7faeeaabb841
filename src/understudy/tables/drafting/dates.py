"""Dates and times: in which of the usual formats the cells of a column are written.

The one rule: a format is one of the list below. Whether the day or the month comes first is told only if the cells
leave no doubt; otherwise it is a question.
"""

import dataclasses
import datetime
import re

import numpy as np
import polars as pl

from understudy.tables import formats, instants
from understudy.tables.drafting.numbers import ENOUGH

_DAYS = {
    "%d.%m.%Y": r"\d{1,2}\.\d{1,2}\.\d{4}",
    "%d/%m/%Y": r"\d{1,2}/\d{1,2}/\d{4}",
    "%m/%d/%Y": r"\d{1,2}/\d{1,2}/\d{4}",
    "%d-%m-%Y": r"\d{1,2}-\d{1,2}-\d{4}",
    "%m-%d-%Y": r"\d{1,2}-\d{1,2}-\d{4}",
    "%Y-%m-%d": r"\d{4}-\d{1,2}-\d{1,2}",
    "%Y/%m/%d": r"\d{4}/\d{1,2}/\d{1,2}",
    "%Y.%m.%d": r"\d{4}\.\d{1,2}\.\d{1,2}",
    "%Y%m%d": r"(?:19|20)\d{6}",
    "%d.%m.%y": r"\d{1,2}\.\d{1,2}\.\d{2}",
    "%d/%m/%y": r"\d{1,2}/\d{1,2}/\d{2}",
    "%m/%d/%y": r"\d{1,2}/\d{1,2}/\d{2}",
    "%d-%m-%y": r"\d{1,2}-\d{1,2}-\d{2}",
    "%m-%d-%y": r"\d{1,2}-\d{1,2}-\d{2}",
    "%d %b %Y": r"\d{1,2} [A-Za-z]{3} \d{4}",
    "%d-%b-%Y": r"\d{1,2}-[A-Za-z]{3}-\d{4}",
    "%d-%b-%y": r"\d{1,2}-[A-Za-z]{3}-\d{2}",
    "%d%b%Y": r"\d{1,2}[A-Za-z]{3}\d{4}",
    "%d %B %Y": r"\d{1,2} [A-Za-z]{3,9} \d{4}",
    "%b %d, %Y": r"[A-Za-z]{3} \d{1,2}, \d{4}",
    "%B %d, %Y": r"[A-Za-z]{3,9} \d{1,2}, \d{4}",
}
_TIMES = {"": "", " %H:%M": r" \d{1,2}:\d{2}", " %H:%M:%S": r" \d{1,2}:\d{2}:\d{2}"}
FORMATS = {day + time: f"^{shape}{times}$" for day, shape in _DAYS.items() for time, times in _TIMES.items()}
"""Every format that is looked for besides ISO 8601, and the shape of text in it."""
_ISO = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?$"
_SHAPES = {form: re.compile(shape) for form, shape in FORMATS.items()}
_FIRST = 100  # A format that none of the first cells has is not tried: at most one cell in twenty may have another.
_DAY_FIRST = {"%d/%m": "%m/%d", "%d-%m": "%m-%d"}


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Dates:
    """Cells that are dates or times. Private, except for the choices.

    Attributes:
        values: Each cell as microseconds since 1970, NaN if it is none.
        format: How they are written; None for ISO 8601.
        other_format: Another format that fits as well, with the month first; None if there is no doubt.
        timed: Whether they have a time of day.
    """

    values: np.ndarray
    format: str | None
    other_format: str | None
    timed: bool


def dates_in(text: pl.Series, *, latest: datetime.date | None = None) -> Dates | None:
    """The dates of a column, or None if its cells are something else.

    Args:
        text: The cells, null where they are missing.
        latest: The last date that two-digit years may mean.
    """
    known = len(text) - text.null_count()
    if not known:
        return None
    if text.str.contains(_ISO).sum() >= ENOUGH * known:
        found = _microseconds(instants.from_text(text))
        return Dates(found, None, None, bool((_finite(found) % instants.DAY).any())) if _all(found, known) else None
    fitting, first = {}, text.drop_nulls().head(_FIRST).to_list()
    for form, shape in FORMATS.items():
        if any(map(_SHAPES[form].match, first)) and text.str.contains(shape).sum() >= ENOUGH * known:
            found = _parsed(text, form, shape, latest)
            if _all(found, known):
                fitting[form] = found
    if not fitting:
        return None
    best = max(fitting, key=lambda form: np.isfinite(fitting[form]).sum())
    other = next((each for each in fitting if each == _month_first(best)), None)
    if other is not None and np.isfinite(fitting[other]).sum() < np.isfinite(fitting[best]).sum():
        other = None  # some day is above 12
    return Dates(fitting[best], best, other, "%H" in best)


def parsed(text: pl.Series, form: str) -> np.ndarray:
    """The cells read in one format, as microseconds since 1970, NaN where it does not fit."""
    return _parsed(text, form, FORMATS[form], None)


def _parsed(text: pl.Series, form: str, shape: str, latest: datetime.date | None) -> np.ndarray:
    shaped = text.set(~text.str.contains(shape).fill_null(value=False), None)
    return _microseconds(formats.in_century(formats.parse(shaped, form), form, latest))


def _microseconds(moments: pl.Series) -> np.ndarray:
    return instants.microseconds(moments).cast(pl.Float64).to_numpy()


def _finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def _all(values: np.ndarray, known: int) -> bool:
    return len(_finite(values)) >= max(1, ENOUGH * known)


def _month_first(form: str) -> str | None:
    for day_first, month_first in _DAY_FIRST.items():
        if form.startswith(day_first):
            return month_first + form.removeprefix(day_first)
    return None
