"""Cells: how one object of a column without a type is written as text.

The one rule: the text is a function of the cell alone, and finding it never fails. The neighbours of a cell decide
nothing, and no code of a foreign class is run: what a cell is follows from its type, and its content is read by the
methods of the built-in base, so that a `__str__`, `__eq__` or `__float__` of its own can neither raise nor answer. (The
one exception is the time zone of a datetime, which must be asked for its offset; if it raises, the cell is unreadable.)
"""

import datetime
import decimal
import enum
import uuid
from typing import Any

import numpy as np

from understudy.tables import instants

BLANK = ""
"""The text of a cell that holds nothing: None, NaN, NaT."""
_LONG_INTEGER = 2000  # Python refuses to write integers of more bits as text where its limit of digits is at its least.
_LONG_DECIMAL = 40  # A decimal of more digits is written as the nearest float: 1E+999999999 would fill the memory.


def as_written(cell: Any) -> str | None:
    """A cell of a column of objects, the way a person would write it.

    Text is itself, also of a subclass of `str` (an Enum of texts by value). Truth values are "true" and "false". A
    number without a fraction is a whole number: 3.0 and Decimal("3.00") are "3". Dates and times are written as in ISO
    8601, with a zone in UTC. `BLANK` stands for nothing. None means that the cell is unreadable: bytes, a list, a
    duration, a complex number, an object of a class not known here, text that is not Unicode.
    """
    if type(cell) is str and cell.isascii():
        return cell
    try:
        return _written(cell)
    except Exception:  # a zone that raises; the guard for whatever a class may still do
        return None


def _written(cell: Any) -> str | None:
    # `issubclass` of the type and not `isinstance`, which would ask the cell for its `__class__`.
    kind = type(cell)
    if cell is None:
        return BLANK
    if issubclass(kind, str):
        return _text(str.__str__(cell))
    if issubclass(kind, bool | np.bool_):
        return "true" if cell else "false"
    if issubclass(kind, int):
        return _integer(int.__index__(cell))
    if issubclass(kind, float):
        return _float(float.__float__(cell))
    if issubclass(kind, np.timedelta64):  # a subclass of np.integer
        return BLANK if np.isnat(cell) else None
    if issubclass(kind, np.integer):
        return _integer(int(cell))
    if issubclass(kind, np.floating):
        with np.errstate(all="ignore"):  # a long double may be too large
            return _float(float(cell))
    if issubclass(kind, decimal.Decimal):
        return _decimal(cell)
    if issubclass(kind, datetime.datetime):
        return instants.written_datetime(cell)
    if issubclass(kind, datetime.date):
        return datetime.date.isoformat(cell)
    if issubclass(kind, datetime.time):
        return datetime.time.isoformat(cell)
    if issubclass(kind, np.datetime64):
        return BLANK if np.isnat(cell) else instants.written_datetime64(cell)
    if issubclass(kind, uuid.UUID):
        return uuid.UUID.__str__(cell)
    return as_written(object.__getattribute__(cell, "_value_")) if issubclass(kind, enum.Enum) else None


def _text(text: str) -> str | None:
    """Text that can be encoded; half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return text


def _integer(number: int) -> str:
    return str(number) if number.bit_length() <= _LONG_INTEGER else format(decimal.Decimal(number), "f")


def _float(number: float) -> str:
    if number != number:
        return BLANK
    return str(int(number)) if number.is_integer() else str(number)


def _decimal(number: decimal.Decimal) -> str:
    base = decimal.Decimal
    if base.is_nan(number):
        return BLANK
    if base.is_finite(number) and base.adjusted(number) < _LONG_DECIMAL:
        whole = base.__int__(number)
        if base.__eq__(number, whole):
            return _integer(whole)
    return _float(base.__float__(number))
