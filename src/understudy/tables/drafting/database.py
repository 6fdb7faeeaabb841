"""The draft of a database's schema: a draft of every table, and the keys that hang them together.

The one rule: a draft is always a schema. Which columns are keys is seen in names and cells and marked so; how many rows
of one parent are used is a round number that does not come from the tables, for the owner to set.
"""

import dataclasses
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import tomli_w

from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.dialect import STANDARD
from understudy.tables.drafting.catalogue import suggestions, words_of
from understudy.tables.drafting.columns import ColumnDraft
from understudy.tables.drafting.draft import Draft, draft_of
from understudy.tables.drafting.keys import Lead, is_of_people, key_of, leads
from understudy.tables.drafting.reading import sample
from understudy.tables.families import DATABASES
from understudy.tables.files import damaged, extra
from understudy.tables.sources import readable, title
from understudy.tables.structure import TableError
from understudy.tables.values import SchemaError

KEY_ROWS = 1_000_000
"""So many rows of each table are looked at for keys."""
CHILDREN = 12
"""How many rows of one parent a draft proposes to use: a round number, not one from the tables."""
_ORDERS = {"year", "date", "day", "month", "time", "rank", "sequence", "seq", "position", "round", "jahr", "datum"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableDraft:
    """What a draft proposes for one table. It holds no cell.

    Attributes:
        draft: Its columns, those that are left out too; without its keys.
        key: The column that tells its rows apart, if others point here.
        lead: The column that leads to its parent; None for the unit and for a public table.
        order: The column by which the rows of one parent are a history.
        most: How many rows of one parent are used at most.
        references: Columns that lead to public tables, with their names.
        public: Whether it is proposed as public: tables of people point there, and it points nowhere.
        confirmed: Names of what the owner confirmed: "key", "parent", "order", "max_per_parent", "public".
    """

    draft: Draft
    key: str | None = None
    lead: Lead | None = None
    order: str | None = None
    most: int = CHILDREN
    references: Mapping[str, str] = dataclasses.field(default_factory=dict)
    public: bool = False
    confirmed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.draft.name

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that are keys, and so neither columns nor left out."""
        named = (self.key, None if self.lead is None else self.lead.column)
        return tuple(dict.fromkeys(name for name in named if name is not None))

    @property
    def times(self) -> tuple[str, ...]:
        """The columns that could order the rows of one parent: those that are never missing and have an order."""
        return tuple(
            each.name
            for each in self.draft.kept
            if each.kind in ("date", "datetime", "integer") and not any(fact.key == "nullable" for fact in each.facts)
        )

    def document(self) -> dict[str, Any]:
        """The table as a schema's TOML would hold it."""
        own = self.draft.document()
        link: dict[str, Any] = {"key": self.key} if self.key is not None else {}
        if self.lead is not None:
            link |= {"parent": self.lead.parent, "foreign_key": self.lead.column, "max_per_parent": self.most}
        link |= {"order": self.order} if self.order is not None and self.lead is not None else {}
        link |= {"public": True} if self.public else {}
        link |= {"references": dict(self.references)} if self.references else {}
        own = {key: own[key] for key in ("ignore", "missing", "constraints", "file", "columns") if own.get(key)}
        return link | own


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatabaseDraft:
    """What a draft proposes for a database.

    Attributes:
        name: What it is called.
        source: What the header calls it.
        unit: The table whose rows are protected, with everything that hangs on them.
        tables: The unit first, parents before children, public ones last.
        left_out: Tables that nothing leads from to the unit, by name.
        unit_confirmed: Whether the owner confirmed the unit.
    """

    name: str
    source: str
    unit: str
    tables: tuple[TableDraft, ...]
    left_out: tuple[str, ...] = ()
    unit_confirmed: bool = False

    def __getitem__(self, name: str) -> TableDraft:
        return next(each for each in self.tables if each.name == name)

    def with_table(self, changed: TableDraft) -> "DatabaseDraft":
        tables = tuple(changed if each.name == changed.name else each for each in self.tables)
        return dataclasses.replace(self, tables=tables)

    def document(self) -> dict[str, Any]:
        """The draft as a schema's TOML would hold it, without remarks."""
        return {
            "name": self.name,
            "unit": self.unit,
            "tables": {each.name: each.document() for each in self.tables},
        }

    def schema(self) -> DatabaseSchema:
        """The draft as a schema.

        Raises:
            SchemaError: It breaks a rule.
        """
        return DatabaseSchema.parse(tomli_w.dumps(self.document()), "the draft")


def is_database(given: Any) -> bool:
    """Whether a draft of this is one of several tables: tables by name, a folder, or a file of SQLite or DuckDB."""
    if isinstance(given, Mapping):
        return True
    if not isinstance(given, str | os.PathLike) or "://" in os.fspath(given):
        return False
    return Path(given).is_dir() or Path(given).suffix.lower() in DATABASES


def draft_database(given: Any) -> DatabaseDraft:
    """The draft for a folder with a file for each table, a file of SQLite or DuckDB, or tables by name.

    Privacy:
        It reads the tables outside any budget, as a draft of a single table does, and holds no cell, no count and no
        bound of the data.

    Raises:
        TableError: There is no table, one cannot be read, or none has a key that another one leads to.
    """
    sources = tables_in(given)
    shown = "the tables" if isinstance(given, Mapping) else Path(given).name
    name = "database" if isinstance(given, Mapping) else title(given)
    samples = {table: sample(source, rows=KEY_ROWS) for table, source in sources.items()}
    keys = {table: key_of(table, each) for table, each in samples.items()}
    found = leads(samples, keys)
    del samples
    if not found:
        raise TableError(
            f"{shown}: expected tables of which one leads to another by a key, but no column has the name and the "
            "cells of another table's key. Draft the schemas of single tables instead."
        )
    drafts = {table: dataclasses.replace(draft_of(source), name=table) for table, source in sources.items()}
    return _assembled(name, shown, drafts, keys, found)


def tables_in(given: Any) -> dict[str, Any]:
    """The source of every table, by its name.

    Raises:
        TableError: There is none, or two files are of one table.
    """
    if isinstance(given, Mapping):
        found = dict(given)
    elif (path := Path(given)).is_dir():
        files = sorted(each for each in path.iterdir() if each.is_file() and readable(each))
        names = [title(each) for each in files]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise TableError(f"{os.fspath(given)}: expected one file for each table, got several of {twice!r}.")
        found = {title(each): os.fspath(each) for each in files}
    else:
        scheme = DATABASES[path.suffix.lower()]
        names = _names_in(path, scheme)
        found = {name: f"{scheme}:///{quote(os.fspath(path))}?table={quote(name)}" for name in names}
    if not found:
        raise TableError(f"{os.fspath(given) if not isinstance(given, Mapping) else 'the tables'}: there is no table.")
    return found


def _names_in(path: Path, scheme: str) -> list[str]:
    """The names of the tables in a file of SQLite or DuckDB."""
    if not path.is_file():
        raise TableError(f"{path} cannot be read: no such file.")
    if scheme == "sqlite":
        try:
            connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
            try:
                asked = (
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
                )
                return [row[0] for row in connection.execute(asked)]
            finally:
                connection.close()
        except sqlite3.Error:
            raise damaged(str(path), "SQLite") from None
    duckdb = extra("duckdb", "DuckDB databases")
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            asked = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' ORDER BY table_name"
            return [row[0] for row in connection.execute(asked).fetchall()]
    except duckdb.Error:
        raise damaged(str(path), "DuckDB") from None


# The tree -----------------------------------------------------------------------------------------------------------


def _assembled(
    name: str, shown: str, drafts: Mapping[str, Draft], keys: Mapping[str, str | None], found: list[Lead]
) -> DatabaseDraft:
    unit = _unit(drafts, found)
    chosen = _tree(unit, found)
    public = {each.parent for each in found if each.table in (unit, *chosen) and each.parent not in (unit, *chosen)}
    tables = []
    for table in (unit, *chosen, *(each for each in drafts if each in public)):
        pointed_at = any(each.parent == table for each in (*chosen.values(), *found))
        lead = chosen.get(table)
        columns = {
            each.column: each.parent
            for each in found
            if each.table == table and each.parent in public and table not in public and each != lead
        }
        others = [each for each in found if each.table == table and each != lead and each.column not in columns]
        made = TableDraft(
            draft=drafts[table],
            key=keys[table] if pointed_at else None,
            lead=lead,
            references=columns,
            public=table in public,
        )
        tables.append(_accepted(_with_order(_without_keys(made, others, unit))))
    left_out = tuple(each for each in drafts if each not in (unit, *chosen) and each not in public)
    return DatabaseDraft(name=name, source=shown, unit=unit, tables=tuple(tables), left_out=left_out)


def _unit(drafts: Mapping[str, Draft], found: list[Lead]) -> str:
    """The table of people, the first that others lead to; else the one that most tables lead to."""
    pointed_at = [table for table in drafts if any(each.parent == table for each in found)]
    people = [table for table in pointed_at if is_of_people(table)]
    return next(iter(people), max(pointed_at, key=lambda table: len(_tree(table, found))))


def _tree(unit: str, found: list[Lead]) -> dict[str, Lead]:
    """For every table that leads to the unit, the column by which it does, parents first.

    Of several ways the longest is taken: a prescription that names its visit and its patient belongs to the visit.
    """
    depth = {unit: 0}
    best: dict[str, Lead] = {}
    for _ in found:  # so many rounds reach every depth
        for each in found:
            deeper = depth.get(each.parent, -1) + 1
            if each.table != unit and deeper > depth.get(each.table, 0) and each.table not in _above(each.parent, best):
                depth[each.table], best[each.table] = deeper, each
    return {table: best[table] for table in sorted(best, key=lambda table: depth[table])}


def _above(table: str, best: Mapping[str, Lead]) -> list[str]:
    """A table and those that it hangs on."""
    path = [table]
    while path[-1] in best:
        path.append(best[path[-1]].parent)
    return path


def _without_keys(made: TableDraft, others: list[Lead], unit: str) -> TableDraft:
    """The table with its keys taken out of the columns, and with what other keys identify left out."""
    columns = []
    for each in made.draft.columns:
        lead = next((lead for lead in others if lead.column == each.name), None)
        if each.name in made.keys:
            continue
        if each.name in made.references:
            each = ColumnDraft(name=each.name, kind="categorical")
        elif lead is not None:
            each = dataclasses.replace(each, left_out=f"it leads to {lead.parent!r}, which is not its parent")
        elif each.name == made.draft.unit or (each.person and each.left_out is None):
            each = dataclasses.replace(each, left_out=f"it identifies people; rows belong to them by {unit!r}")
        columns.append(each)
    rules = tuple(rule for rule in made.draft.constraints if not set(made.keys) & set(_words(rule)))
    draft = dataclasses.replace(made.draft, columns=tuple(columns), unit=None, constraints=rules)
    return dataclasses.replace(made, draft=draft)


def _words(rule: str) -> list[str]:
    return rule.replace("`", " ").split()


def _with_order(made: TableDraft) -> TableDraft:
    """The table with the column that orders its rows: the first date that is no birth, else one that counts time."""
    if made.lead is None:
        return made
    kinds = {each.name: each.kind for each in made.draft.kept}
    dates = [name for name in made.times if kinds[name] in ("date", "datetime") and not _speaks_of_birth(name)]
    counts = [name for name in made.times if kinds[name] == "integer" and _ORDERS & set(words_of(name))]
    return dataclasses.replace(made, order=next(iter([*dates, *counts]), None))


def _speaks_of_birth(name: str) -> bool:
    return any("birth" in entry.key or "birth" in entry.about for entry in suggestions(name))


def _accepted(made: TableDraft) -> TableDraft:
    """The table without the rules that its schema would refuse."""
    draft = made.draft
    for rules in (draft.constraints, ()):
        draft = dataclasses.replace(draft, constraints=rules, dialect=draft.dialect or STANDARD)
        try:
            if draft.kept:
                draft.schema()
        except SchemaError:
            continue
        break
    return dataclasses.replace(made, draft=draft)
