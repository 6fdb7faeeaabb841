"""Databases for replays: small ones made from a schema alone, each with neighbours that have one unit more.

The one rule is that of replay_tables.py: no row of anybody is in here. The unit that a neighbour has more has as many
children as it may have, at every depth, and in one of them twice as many. Public tables are the same in all of them.
"""

import itertools
from collections.abc import Callable
from typing import Any

import polars as pl

from understudy.audit import replay_tables
from understudy.audit.replay_tables import ReplayTables
from understudy.tables.column import Column
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.table_schema import TableSchema

UNITS = 24
"""Units of a database: their children make its other tables larger."""
MOST_CHILDREN = 2
"""A unit of the first database has at most so many children of each kind."""

Frames = dict[str, pl.DataFrame]
Cell = Callable[[Column, int], Any]
"""The value of a column in a row of some number."""

KINDS: dict[str, Cell] = {
    "values in the middle": lambda column, _: replay_tables.value_at(column, 0.25),
    "lowest values": lambda column, _: replay_tables.value_at(column, "low"),
    "highest values": lambda column, _: replay_tables.value_at(column, "high"),
    "far below": lambda column, _: replay_tables.value_at(column, "below"),
    "far above": lambda column, _: replay_tables.value_at(column, "above"),
    "missing": lambda *_: None,
    "a new category": lambda column, i: replay_tables.value_at(column, i),
}


def replay_databases(schema: DatabaseSchema) -> list[ReplayTables]:
    """The databases of a schema: rows spread over all values, and rows all alike; tables by name."""
    found = []
    for name, cell in (("spread", _spread), ("alike", KINDS["values in the middle"])):
        base = _database(schema, cell, UNITS, lambda i, most: i % (min(most, MOST_CHILDREN) + 1), "u")
        made: dict[str, Any] = {what: _with_unit(base, schema, each) for what, each in KINDS.items()}
        made["rows of every kind"] = _with_unit(base, schema, _every)
        made["too many rows"] = _with_unit(base, schema, _every, times=2)
        found.append(ReplayTables(name, base, made))  # pyright: ignore[reportArgumentType]
    return found


def _spread(column: Column, i: int) -> Any:
    """Values over the whole range, another order for each column, and a missing one now and then."""
    if column.nullable and i % 7 == 3:
        return None
    return replay_tables.value_at(column, ((i * (2 * len(column.name) + 3)) % 23 + 0.5) / 23)


def _every(column: Column, i: int) -> Any:
    return list(KINDS.values())[i % len(KINDS)](column, i)


def _with_unit(base: Frames, schema: DatabaseSchema, cell: Cell, *, times: int = 1) -> Frames:
    """The database with one unit more, at the end of every table."""
    more = _database(schema, cell, 1, lambda _, most: times * most, "z")
    return {name: pl.concat([frame, more[name]]) if name in schema.private else frame for name, frame in base.items()}


def _database(schema: DatabaseSchema, cell: Cell, units: int, children: Callable[[int, int], int], mark: str) -> Frames:
    """The tables of some units.

    Args:
        children: How many children a parent of some number has, of a table with some cap.
        mark: What keys begin with.
    """
    found: Frames = {}
    keys: dict[str, list[str]] = {}
    for name in schema.private:
        table = schema[name]
        if table.parent is None:
            parents = [""] * units
        else:
            most = int(table.max_per_parent or 1)
            parents = [key for i, key in enumerate(keys[table.parent]) for _ in range(children(i, most))]
        keys[name] = [f"{mark}{i:05}" for i in range(len(parents))]
        found[name] = _frame(table, cell, keys[name], parents)
    return found | {table.name: _public(table) for table in schema if table.public}


def _public(table: TableSchema) -> pl.DataFrame:
    """A public table: a row for every combination of the labels that columns without values have."""
    keys = list(itertools.product(replay_tables.OPEN_LABELS, repeat=len(table.key)))
    own = {
        column.name: pl.Series([_spread(column, i) for i in range(len(keys))], dtype=replay_tables.TYPES[column.kind])
        for column in table.columns
    }
    return pl.DataFrame({**own, **{name: [key[i] for key in keys] for i, name in enumerate(table.key)}})


def _frame(table: TableSchema, cell: Cell, keys: list[str], parents: list[str]) -> pl.DataFrame:
    own = {
        column.name: pl.Series([cell(column, i) for i in range(len(keys))], dtype=replay_tables.TYPES[column.kind])
        for column in table.columns
    }
    named = {name: pl.Series(parents, dtype=pl.String) for name in table.foreign_key}
    named |= {name: pl.Series(keys, dtype=pl.String) for name in table.key if name not in named}
    named |= {name: pl.Series(keys[:1] * len(keys), dtype=pl.String) for name in table.keys if name not in named}
    return pl.DataFrame({**named, **own})
