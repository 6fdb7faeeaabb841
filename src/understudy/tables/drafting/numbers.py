"""Numbers: whether the cells of a column are numbers, how they are written, and whether they are labels instead.

The one rule: what is found is a public choice (whole or not, how many decimals up to a few, a percent sign, leading
zeros), never a number of a cell.
"""

import dataclasses

import numpy as np
import polars as pl

ENOUGH = 0.95
"""A column has a kind if so large a share of its cells can be read as that."""
MOST_DECIMALS = 4
"""More decimals than this are how a computer writes a measurement, not a property of it."""
_FEWEST_ZEROS = 2
_FIRST = 100  # If none of the first cells has a digit, the column is none of numbers.
_LONGEST_WHOLE = 15  # Longer ones are labels: not every whole number of 16 digits is a float64.
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$"


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Numbers:
    """Cells that are numbers. Private, except for the choices.

    Attributes:
        values: Each cell as a number, NaN if it is none.
        whole: Whether all of them are whole.
        decimals: How many decimals they are written with at most; None if that says nothing.
        percent: Whether they are written with a percent sign.
        zeros: Whether some begin with a zero that is no number, as postal codes do.
        long: Whether some have so many digits that they must be labels.
    """

    values: np.ndarray
    whole: bool
    decimals: int | None
    percent: bool
    zeros: bool
    long: bool


def numbers_in(text: pl.Series, *, decimal: str = ".", thousands: str | None = None) -> Numbers | None:
    """The numbers of a column, or None if its cells are something else.

    Args:
        text: The cells, null where they are missing.
        decimal, thousands: How numbers are written in the file.
    """
    if not text.drop_nulls().head(_FIRST).str.contains(r"\d").any():
        return None
    plain, percent = _plain(text, decimal, thousands)
    is_number = plain.str.contains(_NUMBER).fill_null(value=False)
    known = len(plain) - plain.null_count()
    if not known or is_number.sum() < ENOUGH * known:
        return None
    plain = plain.set(~is_number, None)
    values = plain.cast(pl.Float64, strict=False).to_numpy()
    if not np.isfinite(values).any():
        return None
    behind = plain.str.extract(r"\.(\d*)$")
    digits = behind.str.strip_chars_end("0").str.len_chars()
    exponent = bool(plain.str.contains("[eE]").any())
    written = int(behind.str.len_chars().max() or 0)  # pyright: ignore[reportArgumentType]
    whole = not exponent and int(digits.max() or 0) == 0  # pyright: ignore[reportArgumentType]
    return Numbers(
        values=values,
        whole=whole,
        decimals=None if whole or exponent or written > MOST_DECIMALS else written,
        percent=percent,
        zeros=int(plain.str.contains(r"^[+-]?0\d").sum()) >= _FEWEST_ZEROS,
        long=bool((plain.str.extract(r"^[+-]?(\d+)").str.len_chars() > _LONGEST_WHOLE).any()),
    )


def _plain(text: pl.Series, decimal: str, thousands: str | None) -> tuple[pl.Series, bool]:
    """The cells as Python would write numbers, without percent signs; and whether most had one."""
    signs = text.str.ends_with("%").fill_null(value=False)
    percent = bool(2 * signs.sum() > len(text) - text.null_count())
    plain = text.str.strip_suffix("%").str.strip_chars()
    if thousands:
        plain = plain.str.replace_all(thousands, "", literal=True)
    return (plain if decimal == "." else plain.str.replace(decimal, ".", literal=True)), percent
