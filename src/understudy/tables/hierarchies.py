"""Hierarchies of categories: what a rare category falls back to, such as a diagnosis to its block and its chapter.

The one rule: a hierarchy is public. It is a rule about the spelling (prefixes), or a table that anybody can look up;
no row is read to find it.
"""

import csv
import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping

from understudy.core.files import reason
from understudy.tables.values import SchemaError, is_list, read_category, show

PREFIX = "prefix"
DEFAULT_LENGTHS = (1, 3)
"""The lengths that "prefix" stands for: chapter and category of the ICD, region and district of many postal codes."""
LONGEST_PREFIX = 100
LEVEL_FILES = (".csv",)
"""What the name of a file with a table of parents ends in."""
MOST_LEVELS = 6
"""A hierarchy has at most this many levels above the categories: each costs budget."""


@dataclasses.dataclass(frozen=True)
class Hierarchy:
    """What a category falls back to, level by level.

    Attributes:
        lengths: Of prefixes, ascending; empty if there is a table.
        parents: The pairs (child, parent) of a table, sorted; empty if there are prefixes.
    """

    lengths: tuple[int, ...] = ()
    parents: tuple[tuple[str, str], ...] = ()

    @property
    def depth(self) -> int:
        """How many levels there are above the categories."""
        if self.lengths:
            return len(self.lengths)
        found = dict(self.parents)
        return max(sum(1 for _ in _chain(child, found)) for child in found)

    def nearest(self, label: str, known: Collection[str]) -> str | None:
        """The category itself or its narrowest group that is known; None if none is."""
        above = (
            (label[:length] for length in reversed(self.lengths)) if self.lengths else _chain(label, dict(self.parents))
        )
        return next((each for each in (label, *above) if each in known), None)

    def written(self) -> list[int] | dict[str, str]:
        """The hierarchy as TOML holds it."""
        return list(self.lengths) if self.lengths else dict(self.parents)

    def __str__(self) -> str:
        if self.lengths:
            return f"prefixes of {', '.join(map(str, self.lengths))}"
        return f"a table of {len(self.parents)} parents"


def read_hierarchy(rule: str, value: object) -> Hierarchy:
    """A hierarchy from its written form: "prefix", lengths of prefixes, or a table of parents.

    Raises:
        SchemaError: It is none, or has a circle or too many levels.
    """
    if isinstance(value, Hierarchy):
        value = value.written()
    if value == PREFIX:
        return Hierarchy(lengths=DEFAULT_LENGTHS)
    if is_list(value):
        return Hierarchy(lengths=_read_lengths(rule, value))
    if isinstance(value, Mapping):
        return Hierarchy(parents=_read_parents(rule, value))
    raise SchemaError(f'{rule} to be "prefix", lengths such as [1, 3], or a table of parents, got {show(value)}.')


def _read_lengths(rule: str, value: list | tuple) -> tuple[int, ...]:
    for length in value:
        if isinstance(length, bool) or not isinstance(length, int) or not 1 <= length <= LONGEST_PREFIX:
            raise SchemaError(f"{rule} to hold lengths of prefixes from 1 to {LONGEST_PREFIX}, got {show(length)}.")
    if not value or len(value) > MOST_LEVELS or len(set(value)) < len(value):
        raise SchemaError(f"{rule} to hold 1 to {MOST_LEVELS} lengths, each once, got {show(list(value))}.")
    return tuple(sorted(value))


def _read_parents(rule: str, value: Mapping) -> tuple[tuple[str, str], ...]:
    if not value:
        raise SchemaError(f"{rule} to name at least one parent, got an empty table.")
    found = {  # plain text: a subclass of `str` could look at private labels
        str(read_category(f"{rule}: each category", child)): str(read_category(f"{rule}: each parent", parent))
        for child, parent in value.items()
    }
    for child in found:
        above = 0
        for above, parent in enumerate(_chain(child, found), 1):
            if parent == child or above > MOST_LEVELS:
                fact = f"{child!r} is above itself" if parent == child else f"{child!r} has more"
                raise SchemaError(f"{rule} to lead upwards in at most {MOST_LEVELS} steps, but {fact}.")
    return tuple(sorted(found.items()))


def _chain(child: str, parents: Mapping[str, str]) -> Iterator[str]:
    """The ancestors of a category, the nearest first."""
    while (parent := parents.get(child)) is not None:
        yield parent
        child = parent


def read_levels(path: str, place: str) -> dict[str, str]:
    """The parents that a public CSV file gives: in every line a category, its parent, the parent of that, and so on.

    Raises:
        SchemaError: It cannot be read, has a line without a parent, or gives a category two parents.
    """
    found: dict[str, str] = {}
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = list(csv.reader(file))
    except OSError as error:
        raise SchemaError(f"{place}: {path} cannot be read: {reason(error)}.") from None
    except (UnicodeDecodeError, csv.Error):
        raise SchemaError(f"{place}: expected {path} to be CSV in UTF-8.") from None
    for number, line in enumerate(lines, 1):
        chain = [cell.strip() for cell in line if cell.strip()]
        if line and len(chain) < 2:
            raise SchemaError(f"{place}: expected a category and its parents in line {number} of {path}.")
        for child, parent in itertools.pairwise(chain):
            if child != parent and found.setdefault(child, parent) != parent:
                raise SchemaError(f"{place}: {path} gives {child!r} two parents; the second is in line {number}.")
    return found
