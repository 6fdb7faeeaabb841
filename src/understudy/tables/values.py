"""Public values in their one form: numbers, instants, truth values and categories, as a schema may state them.

The one rule: a value is accepted in one canonical form or refused by a message that quotes it. Everything read here is
written by the owner of a table and public, so quoting is safe.
"""

import datetime
import math
import numbers
from collections.abc import Hashable, Iterable
from typing import TypeGuard, TypeVar

Entry = TypeVar("Entry", bound=Hashable)

Value = float | bool | str | datetime.date
"""A public value in canonical form; whole numbers are `int`, and instants are naive and in UTC."""

MAX_INTEGER = 2**53
"""The widest whole number that a float64, the inner form of every number, holds exactly."""

_EPOCH = datetime.datetime(1970, 1, 1)
_LONGEST_QUOTE = 60
"""How many characters of a value a message may quote."""


class SchemaError(ValueError):
    """The schema breaks a rule. The message gives place, rule and fact; a schema is public, so it may quote it."""


def on_table_scale(value: Value) -> float:
    """The number that stands for a value in the arrays of a table; an instant is microseconds since 1970.

    A date is its midnight.
    """
    if isinstance(value, datetime.date):
        return float((read_instant("", value) - _EPOCH) // datetime.timedelta(microseconds=1))
    return float(value)


# Each reader takes the beginning of an error message, such as "column 'age': expected low", and a value as a person
# gives it. It returns the canonical form or raises a SchemaError.


def read_number(rule: str, value: object) -> float:
    """A finite number as a float."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise SchemaError(f"{rule} to be a number, got {show(value)}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SchemaError(f"{rule} to be a finite number, got {show(value)}.")
    return number + 0.0  # -0.0 and 0.0 are one value


def read_whole_number(rule: str, value: object) -> int:
    """A whole number that float64 holds exactly, as an int."""
    number = read_number(rule, value)
    if number != math.floor(number):
        raise SchemaError(f"{rule} to be a whole number for kind 'integer', got {show(value)}.")
    whole = int(value) if isinstance(value, numbers.Integral) else int(number)  # exact beyond 2**53 too
    if abs(whole) > MAX_INTEGER:
        raise SchemaError(f"{rule} to lie within plus or minus 2**53, got {show(value)}.")
    return whole


def read_instant(rule: str, value: object) -> datetime.datetime:
    """A naive instant in UTC; a date means its midnight."""
    if not isinstance(value, datetime.date):
        raise SchemaError(f"{rule} to be a date or a date and time, such as 2000-01-01, got {show(value)}.")
    if not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        return value.replace(fold=0)
    try:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    except OverflowError:
        raise SchemaError(f"{rule} to lie between the years 1 and 9999 in UTC, got {show(value)}.") from None


def read_instant_or_text(rule: str, value: object) -> datetime.datetime:
    """The same, but ISO 8601 text is an instant too."""
    try:
        parsed = datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        parsed = value
    return read_instant(rule, parsed)


def read_date(rule: str, value: object) -> datetime.date:
    """A date without a time of day; midnight means its date, and ISO 8601 text is a date too."""
    moment = read_instant_or_text(rule, value)
    if moment.time() != datetime.time():
        raise SchemaError(f"{rule} to be a date without a time of day for kind 'date', got {show(value)}.")
    return moment.date()


def read_truth(rule: str, value: object) -> bool:
    """True or False; the texts "true" and "false" mean the same."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise SchemaError(f"{rule} to be true or false, got {show(value)}.")
    return value


def read_category(rule: str, value: object) -> str:
    """A category as text. Whole numbers and truth values have one usual spelling; fractions do not."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if not is_text(value):
        raise SchemaError(f"{rule} to be text as it is spelt in the table, got {show(value)}.")
    if not value or value != value.strip():
        # Reading strips the space around a cell, so no cell could ever match such a category.
        raise SchemaError(f"{rule} to be visible text without space around it, got {value!r}.")
    return value


def is_text(value: object) -> TypeGuard[str]:
    """Whether it is text that TOML can hold: a lone surrogate has no UTF-8 form."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value))


def is_list(value: object) -> TypeGuard[list | tuple]:
    return isinstance(value, list | tuple)


def repeated(entries: Iterable[Entry]) -> Entry | None:
    """The first entry that comes a second time; None if all are distinct."""
    seen: set[Entry] = set()
    for entry in entries:
        if entry in seen:
            return entry
        seen.add(entry)
    return None


def show(value: object) -> str:
    """A public value as TOML spells it, kept short."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value.isoformat() if isinstance(value, datetime.date) else repr(value)
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."


def show_plain(value: object) -> str:
    """A public value as a person writes it: midnight is left out of an instant, and ".0" of a number."""
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return show(value)
