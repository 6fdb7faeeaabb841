"""The structure of a source: which columns it must have, and the error for one that does not.

The one rule: failing is also a release. What is wrong with the structure of a source (a missing column, a wrong type, a
damaged file) raises a `TableError` of one line that shows no cell. A value never raises.
"""

import dataclasses
from collections.abc import Sequence
from typing import Self

import polars as pl

from understudy.core.text import did_you_mean
from understudy.tables import instants
from understudy.tables.schema import Schema

WIDEST = 100_000
"""A text file has so many columns at most."""


class TableError(ValueError):
    """The table, as a whole or one of its columns, cannot be read or written. The message shows no cell."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FoundColumn:
    """One column as it was found. Private.

    Attributes:
        series: Its cells; null if they are blank or unreadable.
        untyped: Whether the cells have no declared type, as in a CSV file and in pandas, where the type follows from
            the cells. Text among them may be a number; in a column that is declared as text it never is. And a type
            that cannot hold the kind is refused if it is declared, else each cell of it is missing.
        unreadable: Which cells hold something that no kind of column can read, such as a list or the year 12 000; None
            if there are none.
    """

    series: pl.Series
    untyped: bool = False
    unreadable: pl.Series | None = None

    @classmethod
    def typed(cls, series: pl.Series) -> Self:
        """A column of a declared type; instants that cannot be held are unreadable."""
        held = instants.held(series)
        lost = held.null_count() > series.null_count()
        return cls(series=held, unreadable=held.is_null() & series.is_not_null() if lost else None)

    @classmethod
    def from_ticks(cls, ticks: pl.Series, unit: str, *, zoned: bool, untyped: bool = False) -> Self:
        """A column of instants from whole numbers of a unit since 1970; those out of range are unreadable."""
        found = instants.from_ticks(ticks, unit, zoned=zoned)
        return cls(series=found, untyped=untyped, unreadable=found.is_null() & ticks.is_not_null())

    @classmethod
    def of_texts(cls, texts: Sequence[str | None]) -> Self:
        """A column of cells without a declared type, each written as text; None if it is unreadable."""
        series = pl.Series(texts, dtype=pl.String)
        return cls(series=series, untyped=True, unreadable=series.is_null())

    @classmethod
    def foreign(cls, name: str, length: int) -> Self:
        """Stands for a column of a type that polars does not have; no kind accepts it."""
        return cls(series=pl.Series(name, [None] * length, dtype=pl.Object))


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Source:
    """The columns that a schema names, as they were found. Private.

    Attributes:
        columns: By name; the unit is among them.
        kind: The kind of frame they came in: "pandas", "polars" or "pyarrow"; "polars" for a file.
        name: What messages call it.
        from_file: Whether it was a file or a database, which may have been read in the wrong way.
    """

    columns: dict[str, FoundColumn]
    kind: str
    name: str
    from_file: bool = False


def wanted(schema: Schema) -> list[str]:
    """The names of the columns to read: those of the schema, then its unit."""
    return [*schema.names, *([schema.unit] if schema.unit is not None else [])]


def check_names(names: Sequence[str], schema: Schema, source: str) -> None:
    """Refuses missing, extra and repeated columns.

    Missing ones come first: a file without a header has cells in its first line, and while a name of the schema is
    not among them, none of them is shown.
    """
    needed = wanted(schema)
    present = set(names)
    missing = [name for name in needed if name not in present]
    if len(missing) == len(needed):
        raise TableError(f"{source} has none of the columns that the schema names. Are the names in its first line?")
    if missing:
        hint = did_you_mean(missing[0], [name for name in names if name not in needed])
        raise TableError(f"{source} has no column {missing[0]!r}, which the schema names.{hint}")
    check_distinct(names, source)
    known = {*needed, *schema.ignore}
    extra = [name for name in names if name not in known]
    if extra:
        more = f" and {len(extra) - 1} more" if len(extra) > 1 else ""
        raise TableError(
            f"{source} has a column {extra[0]!r}{more}, which the schema does not name. "
            "Add it to the schema, or to its `ignore` list."
        )


def distinct_names(names: list[str]) -> list[str]:
    """Names from a header alone: the second `a` is a_2, a blank third name is column_3, and no two are the same."""
    filled = [name if name.strip() else f"column_{place}" for place, name in enumerate(names, 1)]
    taken, found = set(filled), []
    seen: set[str] = set()
    numbers: dict[str, int] = {}  # the next to be tried, so that many equal names take no longer than others
    for name in filled:
        free = name
        while free in seen or (free != name and free in taken):
            numbers[name] = numbers.get(name, 1) + 1
            free = f"{name}_{numbers[name]}"
        seen.add(free)
        found.append(free)
    return found


def numbered_names(schema: Schema, source: str) -> list[str]:
    """The names of a file without a header, as many as the schema speaks of."""
    numbers = {name: _number(name) for name in (*wanted(schema), *schema.ignore)}
    for name in wanted(schema):
        if not numbers[name]:
            raise TableError(
                f"{source} has no header, so its columns are column_1, column_2 and so on, and the schema names "
                f"{name!r}. Rename it, or set `header = true` under [file]."
            )
    return [f"column_{place}" for place in range(1, max(numbers.values()) + 1)]


def _number(name: str) -> int:
    """The place that a name such as column_3 stands for; 0 if it is no such name."""
    digits = name.removeprefix("column_")
    number = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 8 else 0
    return number if name == f"column_{number}" and number <= WIDEST else 0


def check_distinct(names: Sequence[str], source: str) -> None:
    """Refuses two columns of the same name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise TableError(f"{source} has more than one column {name!r}. Rename all but one.")
        seen.add(name)
