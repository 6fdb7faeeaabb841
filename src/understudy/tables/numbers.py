"""Numbers as text: how a cell with a decimal comma, marks between groups of digits or a currency is read.

The one rule: a cell is a number by itself alone. What is no number in the dialect of its file is unreadable, even if it
would be one in another: with a decimal comma, 1.5 is no number, and 1.234 is one only if the point groups digits.
"""

import re

import polars as pl

from understudy.tables.dialect import APOSTROPHES, SPACES, Dialect


def has_marks(dialect: Dialect) -> bool:
    """Whether numbers are spelt in another way than polars reads them."""
    return dialect.decimal != "." or dialect.thousands != "" or dialect.currency != ""


def with_points(text: pl.Series, dialect: Dialect) -> tuple[pl.Series, pl.Series]:
    """Number cells spelt with a decimal point and without groups, and which cells are unreadable.

    A cell without a digit is left as it is: whether it says "true", "inf" or nothing that is a number does not depend
    on the dialect. A cell with one that is no number in the dialect is null. The currency may stand on either side of a
    number, before or behind its sign, and need not be there.
    """
    stripped = _without_currency(text.str.strip_chars(), dialect.currency)
    marks = next((alike for alike in (SPACES, APOSTROPHES) if dialect.thousands in alike), dialect.thousands)
    group = f"[{re.escape(marks)}]" if dialect.thousands else ""
    whole = rf"(?:\d{{1,3}}(?:{group}\d{{2,3}})*{group}\d{{3}}|\d+)" if group else r"\d+"
    pattern = rf"^[+-]?(?:{whole})?(?:{re.escape(dialect.decimal)}\d*)?(?:[eE][+-]?\d+)?\s*%?$"
    unreadable = (stripped.str.contains(r"\d") & ~stripped.str.contains(pattern)).fill_null(value=False)
    if group:
        has_digit = stripped.str.contains(r"\d").fill_null(value=False)
        stripped = stripped.zip_with(~has_digit, stripped.str.replace_all(group, ""))
    pointed = stripped.str.replace_all(dialect.decimal, ".", literal=True)
    return pointed.set(unreadable, None), unreadable


def _without_currency(stripped: pl.Series, currency: str) -> pl.Series:
    """The cells without the currency at one end, and without the space beside it, if a digit is in them."""
    if not currency:
        return stripped
    mark = re.escape(currency)
    plain = stripped.str.replace(rf"^([+-]?)\s*{mark}\s*", "$1").str.replace(rf"\s*{mark}$", "")
    marked_twice = stripped.str.contains(rf"^[+-]?\s*{mark}.*{mark}$")
    return stripped.zip_with((~stripped.str.contains(r"\d") | marked_twice).fill_null(value=True), plain)
