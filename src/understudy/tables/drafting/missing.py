"""Spellings of a missing value: which of the usual ones occur in a table.

The one rule: only spellings of the lists below are ever told, so what a draft tells is which public word occurs, never
a cell of its own. A number is one of them only if it stands far from all other numbers of its column, in every column
that holds it, because a schema's `missing` speaks for all columns.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

WORDS = (
    *("NA", "N/A", "n/a", "n.a.", "NaN", "nan", "<NA>", "NULL", "null", "\\N", "?", "??", "#N/A", "#NA", "#NULL!"),
    *("#VALUE!", "#DIV/0!", "(null)", "[null]", "NIL", "N.A.", "k.A.", "k. A.", "S/D", "s/d", "n.d.", "N/D"),
)
"""Words that mean a missing value in a column of any kind."""
SOFT_WORDS = (
    *("-", "--", "---", ".", "..", "*", "x", "X", "none", "None", "NONE", "na", "unknown", "Unknown", "UNKNOWN"),
    *("missing", "Missing", "MISSING", "unbekannt", "Unbekannt", "fehlt", "keine Angabe", "leer", "inconnu", "Inconnu"),
    *("non renseigné", "desconocido", "Desconocido", "sin dato", "sin datos", "not available", "not applicable"),
    *("Not available", "not recorded", "nicht erfasst", "nicht bekannt", "empty", "(empty)", "(blank)"),
)
"""Words that mean a missing value among numbers and dates; among texts they may be categories."""
NUMBERS = (
    *("-1", "-7", "-8", "-9", "-66", "-77", "-88", "-99", "-777", "-888", "-999", "-7777", "-8888", "-9999"),
    *("-99999", "-999999", "99", "777", "888", "999", "7777", "8888", "9999", "99999", "999999", "9999999"),
    *("-99.9", "-999.9", "-999.99", "999.9"),
)
"""Numbers that are known to stand for a missing value."""
FEWEST = 3
"""A number must occur so often to be taken for a missing value: one odd cell is one person's."""
_MISSING_ALWAYS = frozenset(WORDS)
_CODES_OF_COUNTRIES = frozenset({"NA"})  # Namibia, and North America


def words_in(text: pl.Series, *, is_place: bool) -> set[str]:
    """The words of `WORDS` among the cells; a column of countries or regions may mean Namibia by "NA"."""
    held = set(text.drop_nulls().unique().to_list()) & _MISSING_ALWAYS
    return held - _CODES_OF_COUNTRIES if is_place else held


def far_numbers(numbers: np.ndarray) -> set[str]:
    """The numbers of `NUMBERS` that occur in a column and stand far from all its other numbers.

    Far means farther from the nearest other number than all others are apart, and three times as far for a large one,
    which may be a value that was cut off. A negative one is also far if no other number of the column is negative.
    """
    finite = numbers[np.isfinite(numbers)]
    present = {text: float(text) for text in NUMBERS if np.count_nonzero(finite == float(text)) >= FEWEST}
    rest = finite[~np.isin(finite, [float(text) for text in NUMBERS])]
    if not present or not len(rest):
        return set()
    low, high = float(rest.min()), float(rest.max())
    return {text for text, number in present.items() if _is_far(number, low, high)}


def _is_far(number: float, low: float, high: float) -> bool:
    if low <= number <= high:
        return False
    spread = max(high - low, 1.0)
    if number > high:
        return number - high > 3 * spread
    return low - number > spread or (number <= -9 and low >= 0)


def agreed(far: Mapping[str, set[str]], numbers: Mapping[str, np.ndarray]) -> tuple[set[str], dict[str, set[str]]]:
    """The numbers that are far in every column that holds them; and for each column those that are not everywhere.

    Args:
        far: For each column of numbers, what `far_numbers` found there.
        numbers: Its numbers.
    """
    candidates = set().union(*far.values()) if far else set()
    everywhere = {text for text in candidates if _is_nowhere_else(text, far, numbers)}
    return everywhere, {name: found - everywhere for name, found in far.items() if found - everywhere}


def _is_nowhere_else(text: str, far: Mapping[str, set[str]], numbers: Mapping[str, np.ndarray]) -> bool:
    return not any(text not in far[name] and bool(np.any(column == float(text))) for name, column in numbers.items())


def without(text: pl.Series, spellings: Iterable[str]) -> pl.Series:
    """The cells with these spellings left out."""
    listed = sorted(spellings)
    return text.set(text.is_in(listed).fill_null(value=False), None) if listed else text
