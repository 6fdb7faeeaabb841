"""Numbers as text: how a cell with a decimal comma or marks between groups of digits is read.

The one rule: a cell is a number by itself alone. What is no number in the dialect of its file is unreadable, even if it
would be one in another: with a decimal comma, 1.5 is no number, and 1.234 is one only if the point groups digits.
"""

import re

import polars as pl

from understudy.tables.dialect import APOSTROPHES, SPACES, Dialect


def has_marks(dialect: Dialect) -> bool:
    """Whether numbers are spelt in another way than polars reads them."""
    return dialect.decimal != "." or dialect.thousands != ""


def with_points(text: pl.Series, dialect: Dialect) -> tuple[pl.Series, pl.Series]:
    """Number cells spelt with a decimal point and without groups, and which cells are unreadable.

    A cell without a digit is left as it is: whether it says "true", "inf" or nothing that is a number does not depend
    on the dialect. A cell with one that is no number in the dialect is null.
    """
    stripped = text.str.strip_chars()
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
