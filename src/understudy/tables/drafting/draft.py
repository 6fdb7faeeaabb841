"""The draft of a schema: everything that a look at a table suggests, put together so that it is a valid schema.

The one rule: a draft is always a schema that reads the table it was drafted from. A suggestion that the schema would
refuse is dropped, not repaired.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import tomli_w

from understudy.tables.dialect import STANDARD, Dialect
from understudy.tables.drafting import missing, relations
from understudy.tables.drafting.catalogue import suggestions, words_of
from understudy.tables.drafting.columns import BLANK, ColumnDraft, Fact, Judged, judged
from understudy.tables.drafting.numbers import numbers_in
from understudy.tables.drafting.reading import Cells, Sample, sample
from understudy.tables.rules import Inequality
from understudy.tables.schema import Schema
from understudy.tables.values import SchemaError

ROWS_PER_PERSON = 4
"""How many rows of one person a draft proposes to use: a round number, not one from the table."""
_FEWEST_DIFFERENT = 2
"""Columns of fewer different cells agree by chance."""
_PLACES = ("country", "region", "language")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Draft:
    """What a draft proposes. It holds no cell.

    Attributes:
        name: What the table is called.
        source: What the header calls it.
        columns: Every column of the table, those that are left out too.
        unit: The column that says whose row it is; None if there is none.
        max_rows_per_unit: How many rows of one person are used at most.
        missing: Spellings of a missing value that occur.
        doubtful: For some columns, numbers that may spell a missing value there but are ordinary in another column.
        constraints: Rules between columns that the rows keep.
        rejected: Those of them that are best kept by rejection, because the difference varies more than a column.
        dialect: How the file is spelt.
        unit_confirmed: Whether the owner confirmed the unit.
        confirmed: Spellings of a missing value and rules that the owner confirmed.
    """

    name: str
    source: str
    columns: tuple[ColumnDraft, ...]
    unit: str | None = None
    max_rows_per_unit: int = ROWS_PER_PERSON
    missing: tuple[str, ...] = ()
    doubtful: tuple[tuple[str, str], ...] = ()
    constraints: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    dialect: Dialect = STANDARD
    unit_confirmed: bool = False
    confirmed: tuple[str, ...] = ()

    @property
    def kept(self) -> tuple[ColumnDraft, ...]:
        """The columns of the schema: neither left out nor the unit."""
        return tuple(each for each in self.columns if each.left_out is None and each.name != self.unit)

    @property
    def ignored(self) -> dict[str, str]:
        """The columns that are left out, each with the reason."""
        return {
            each.name: each.left_out for each in self.columns if each.left_out is not None and each.name != self.unit
        }

    def document(self) -> dict[str, Any]:
        """The draft as a schema's TOML would hold it, without remarks."""
        document: dict[str, Any] = {"name": self.name}
        if self.unit is not None:
            document |= {"unit": self.unit, "max_rows_per_unit": self.max_rows_per_unit}
        document |= {"ignore": list(self.ignored)} if self.ignored else {}
        document |= {"missing": list(self.missing)} if self.missing else {}
        rules = [{"rule": rule, "by": "rejection"} if rule in self.rejected else rule for rule in self.constraints]
        document |= {"constraints": rules} if rules else {}
        document |= {"file": self.dialect.stated()} if self.dialect != STANDARD else {}
        columns = {}
        for each in self.kept:
            columns[each.name] = {"kind": each.kind} | {fact.key: fact.value for fact in each.facts if fact.stated}
        return document | {"columns": columns}

    def schema(self) -> Schema:
        """The draft as a schema.

        Raises:
            SchemaError: It breaks a rule, which a draft made by `draft_of` never does.
        """
        return Schema.parse(tomli_w.dumps(self.document()), "the draft")


def draft_of(table: Any, file: Mapping[str, Any] | None = None) -> Draft:
    """The draft for a path or a pandas, polars or pyarrow table.

    Args:
        file: Keys of [file] that the owner states, such as {"delimiter": ";"}, in place of what is found.

    Privacy:
        It reads the table outside any budget. What it returns follows from the names of the columns, from public lists,
        and from which of a few public choices the cells suggest; it holds no cell, no count and no bound of the data.

    Raises:
        TableError: The table cannot be read, has no rows, or has two columns of the same name.
    """
    found = sample(table, file)
    spellings, doubtful = _spellings(found)
    columns = _without_copies(found, [judged(cells, spellings) for cells in found.columns])
    unit = _unit(found, columns)
    drafts = _without_names(_without_other_people([each.draft for each in columns], unit), unit)
    drafts = _with_some_kept(drafts, unit)
    made = Draft(
        name=found.name,
        source=found.source,
        columns=tuple(drafts),
        unit=unit,
        missing=tuple(sorted(spellings)),
        doubtful=doubtful,
        dialect=found.dialect,
    )
    return _with_constraints(_accepted(made), columns)


def _spellings(found: Sample) -> tuple[set[str], tuple[tuple[str, str], ...]]:
    """The spellings of a missing value in a table, and those that are in doubt: pairs of column and spelling."""
    words: set[str] = set()
    numbers: dict[str, np.ndarray] = {}
    for cells in found.columns:
        entries = suggestions(cells.name)
        words |= missing.words_in(cells.text, is_place=any(entry.key in _PLACES for entry in entries))
        plain = missing.without(cells.text, (*missing.WORDS, *missing.SOFT_WORDS))
        found_numbers = numbers_in(plain) if cells.declared not in ("text", "boolean", "instant") else None
        if found_numbers is not None:
            numbers[cells.name] = found_numbers.values
    far = {name: missing.far_numbers(values) for name, values in numbers.items()}
    everywhere, doubtful = missing.agreed(far, numbers)
    return words | everywhere, tuple((name, text) for name, texts in doubtful.items() for text in sorted(texts))


def _without_copies(found: Sample, columns: list[Judged]) -> list[Judged]:
    """The columns with every copy left out: one whose cells are those of an earlier column, row by row."""
    earlier: dict[tuple[int, int], str] = {}
    kept = []
    for cells, each in zip(found.columns, columns, strict=True):
        print_of = (cells.text.null_count(), int(cells.text.hash(0).implode().hash(0)[0]))
        first = earlier.setdefault(print_of, cells.name)
        if first != cells.name and each.draft.left_out is None and cells.text.n_unique() > _FEWEST_DIFFERENT:
            each = Judged(dataclasses.replace(each.draft, left_out=f"its cells are those of {first!r}", person=False))
        kept.append(each)
    return kept


def _unit(found: Sample, columns: list[Judged]) -> str | None:
    """The column that says whose row it is, if the cells of one repeat: the first whose name speaks of people."""
    repeating = [
        cells.name for cells, each in zip(found.columns, columns, strict=True) if each.draft.person and _repeats(cells)
    ]
    named = [name for name in repeating if suggestions(name)[0].role == "person"]
    return next(iter([*named, *repeating]), None)


def _repeats(cells: Cells) -> bool:
    known: pl.Series = cells.text.drop_nulls()
    return known.n_unique() < len(known)


def _without_other_people(drafts: list[ColumnDraft], unit: str | None) -> list[ColumnDraft]:
    """The columns with every other identifier of people left out."""
    reason = "it identifies people" if unit is None else f"it identifies people, as {unit!r} does"
    return [
        dataclasses.replace(each, left_out=reason) if each.person and each.name != unit else each for each in drafts
    ]


def _without_names(drafts: list[ColumnDraft], unit: str | None) -> list[ColumnDraft]:
    """The columns without one that is called just "name": if rows belong to people, it is theirs though it repeats."""
    if unit is None:
        return drafts
    reason = f"the name speaks of names, and rows belong to people by {unit!r}"
    return [
        dataclasses.replace(each, left_out=reason) if _is_called_name(each) and each.left_out is None else each
        for each in drafts
    ]


def _is_called_name(each: ColumnDraft) -> bool:
    best = next(iter(suggestions(each.name)), None)
    return each.kind == "categorical" and best is not None and best.key == "name" and words_of(each.name) in best.words


def _with_some_kept(drafts: list[ColumnDraft], unit: str | None) -> list[ColumnDraft]:
    """The columns with one of them kept in any case, since a schema needs one."""
    if any(each.left_out is None and each.name != unit for each in drafts):
        return drafts
    places = [place for place, each in enumerate(drafts) if each.name != unit] or [0]
    place = next((place for place in places if drafts[place].left_out != BLANK), places[0])
    note = f"kept because a schema needs a column; it should be left out: {drafts[place].left_out}"
    blank = Fact(key="nullable", value=True, why="every cell is missing", seen=True)
    facts = (blank,) if drafts[place].left_out == BLANK else ()
    drafts[place] = dataclasses.replace(drafts[place], left_out=None, notes=(note,), facts=facts)
    return drafts


def _accepted(made: Draft) -> Draft:
    """The draft without what a schema would refuse: a unit that is the only column, a fact that does not fit."""
    if not made.kept:
        made = dataclasses.replace(made, unit=None)
    columns = []
    for each in made.columns:
        alone = dataclasses.replace(made, columns=(dataclasses.replace(each, left_out=None),), unit=None)
        try:
            alone.schema()
        except SchemaError:
            each = dataclasses.replace(each, kind="categorical", facts=(), other_format=None)
        columns.append(each)
    return dataclasses.replace(made, columns=tuple(columns))


def _with_constraints(made: Draft, columns: list[Judged]) -> Draft:
    """The draft with every rule that the rows keep and the schema accepts."""
    kept = {each.name for each in made.kept}
    dates = {each.draft.name: each.instants for each in columns if each.instants is not None}
    numbers = {each.draft.name: each.numbers for each in columns if each.numbers is not None}
    kinds = {each.draft.name: each.draft.kind for each in columns}
    orders = list[Inequality]()
    for kind in dict.fromkeys(kinds[name] for name in dates):  # a day and a time of day have no difference to model
        orders += relations.orders({name: each for name, each in dates.items() if name in kept and kinds[name] == kind})
    rules = [*map(str, orders), *relations.sums({name: each for name, each in numbers.items() if name in kept})]
    made = dataclasses.replace(made, rejected=tuple(str(each) for each in orders if each.by == "rejection"))
    for rule in rules:
        longer = dataclasses.replace(made, constraints=(*made.constraints, rule))
        try:
            longer.schema()
        except SchemaError:
            continue
        made = longer
    return made
