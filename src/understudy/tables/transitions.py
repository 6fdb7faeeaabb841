"""Transitions: which values of a column may follow each other in a history, as its owner knows them.

Of a listed value the schema states what the next row of the same history may have; an empty list ends the history. A
value that is not listed may be followed by anything, and a missing one neither breaks a rule nor restricts what follows
it. The one rule: nothing here is learned. No row is read to find a transition, and holding synthetic histories to one
is post-processing, which costs no privacy.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.text import did_you_mean
from understudy.tables.column import Column
from understudy.tables.values import SchemaError, is_list, repeated, show

Transitions = Mapping[str, Mapping[str, tuple[str, ...]]]
"""By column and by value, the values that the next row may have."""
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, eq=False)
class Chain:
    """The transitions of one column in codes. The last place, which is also -1, is that of a missing value.

    Attributes:
        follows: Whether a code (column) may follow another one (row).
        most: How many rows may follow each code at most; infinite if there is no end.
    """

    follows: Mask
    most: NDArray[np.float64]

    def possible(self, before: Whole | None, to_come: Whole) -> Mask:
        """For each row, the codes that it may have, as a table with a column for each.

        Args:
            before: The codes of the rows before; None for first rows.
            to_come: How many rows of the same history follow each.
        """
        lasting = self.most >= to_come[:, None]  # (rows, codes)
        return lasting if before is None else lasting & self.follows[before]

    def broken(self, before: Whole, after: Whole) -> Mask:
        """Which rows may not follow the rows before."""
        return ~self.follows[before, after]


def chain(column: Column, allowed: Mapping[str, Sequence[str]], labels: Sequence[str]) -> Chain:
    """The transitions of one column as codes into its labels."""
    codes = {label: code for code, label in enumerate(labels)}
    follows = np.ones((len(codes) + 1, len(codes) + 1), bool)
    for value, after in allowed.items():
        follows[codes[value]] = False
        follows[codes[value], [*(codes[each] for each in after), *[-1] * bool(after)]] = True
    known = follows if column.nullable else follows[:-1, :-1]
    most = _most_after(known)
    return Chain(follows, most if column.nullable else np.append(most, np.inf))


def _most_after(follows: Mask) -> NDArray[np.float64]:
    """How many rows may follow each code at most."""
    most, able = np.zeros(len(follows)), np.ones(len(follows), bool)
    for _ in follows:  # a longer way would pass a code twice, and so have no end
        able = (follows & able).any(axis=1)
        most += able
    return np.where(able, np.inf, most)


def read_transitions(given: Any, columns: Sequence[Column], most_rows: int) -> dict[str, dict[str, tuple[str, ...]]]:
    """Transitions in their one form, checked against the columns of their table.

    Args:
        given: As a person writes them.
        columns: Of the table.
        most_rows: How many rows a history may have.

    Raises:
        SchemaError: A column or a value is not there, or no history of so many rows could keep them. The message
            begins with the key.
    """
    if not isinstance(given, Mapping):
        raise SchemaError(f"transitions: expected a table such as outcome = {{ died = [] }}, got {show(given)}.")
    known = {each.name: each for each in columns}
    found = {}
    for name, allowed in given.items():
        place = f"transitions.{name}"
        if name not in known:
            raise SchemaError(f"{place}: expected a column of the table, got {show(name)}.{did_you_mean(name, known)}")
        found[name] = _read(place, known[name], allowed)
        _check_length(place, known[name], found[name], most_rows)
    return found


def _read(place: str, column: Column, allowed: Any) -> dict[str, tuple[str, ...]]:
    """The transitions of one column."""
    if column.values is None:
        raise SchemaError(f"{place}: expected a categorical column with values, got {column}.")
    if not isinstance(allowed, Mapping) or not all(map(is_list, allowed.values())):
        raise SchemaError(f"{place}: expected lists of values such as {{ died = [] }}, got {show(allowed)}.")
    found = {}
    for value, after in allowed.items():
        own = str(column.canonical(f"{place}: expected a value", value))
        found[own] = tuple(str(column.canonical(f"{place}, {own!r}: expected each value", each)) for each in after)
        if (twice := repeated(found[own])) is not None:
            raise SchemaError(f"{place}, {own!r}: expected distinct values, got {twice!r} twice.")
    return found


def _check_length(place: str, column: Column, allowed: Mapping[str, Sequence[str]], most_rows: int) -> None:
    longest = chain(column, allowed, column.labels or ()).most[: None if column.nullable else -1].max() + 1
    if longest < most_rows:
        raise SchemaError(
            f"{place}: expected histories of max_per_parent = {most_rows} rows to be possible, but all end after "
            f"{longest:.0f}. Lower max_per_parent, or let a value stay."
        )
