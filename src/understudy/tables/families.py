"""Families: the rows of a database that are used, each with its unit, its parent and its place among its siblings.

The one rule: which rows of a unit are used, and how they are joined, depends on that unit's own rows and on chance. Of
the rows with one foreign key at most `max_per_parent` are used, the first in their order or else a random choice, and
they hang on every used row that has this key. Rows that are equal in their order stay as they stand in their table. A
row whose parent is not there belongs to no unit and is left out, as is all but one of the rows of the root that share a
key, and rows of it without one. None of this is counted or told: it is no error.

This is the door through which a database comes. Joins happen here and in database_design.py, before anything is locked.
"""

import dataclasses
import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.core.text import did_you_mean
from understudy.tables.database_design import Design
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.database_url import is_url
from understudy.tables.references import columns_of, name_of
from understudy.tables.rules import Combination
from understudy.tables.second_keys import looked_up
from understudy.tables.second_keys import measured as second_key_columns
from understudy.tables.sources import readable
from understudy.tables.streaming import stream
from understudy.tables.structure import TableError
from understudy.tables.table import read
from understudy.tables.table_schema import TableSchema

Whole = NDArray[np.int64]
DATABASES = {".sqlite": "sqlite", ".sqlite3": "sqlite", ".db": "sqlite", ".duckdb": "duckdb"}
"""The endings of files that hold a whole database."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Members:
    """The rows of one table that are used, sorted by parent and then by rank. Private.

    Attributes:
        columns: Their values, in the form of a `Table`.
        labels: Of open categories; private.
        row: The place of each in its table as it was read.
        unit: The number of each row's unit.
        parent: The place of each row's parent among the used rows of its table; of the root, its own place.
        rank: Its place among its siblings, from 1 on.
        siblings: How many there are, itself included.
        leads: By the name of each second key, the place of the row of the same unit that it leads to (second_keys.py).
    """

    columns: dict[str, NDArray[Any]]
    labels: Mapping[str, Sequence[str]]
    row: Whole
    unit: Whole
    parent: Whole
    rank: Whole
    siblings: Whole
    leads: dict[str, Whole] = dataclasses.field(default_factory=dict)

    @property
    def previous(self) -> Whole:
        """The place of the previous sibling; -1 for a first one."""
        return np.where(self.rank > 1, np.arange(len(self.rank)) - 1, -1)

    def __repr__(self) -> str:
        return f"Members({list(self.columns)})"


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class KeyedRows:
    """Rows of one table before they are joined, in the order of the table. Private.

    Attributes:
        columns, labels: As of `Members`.
        key, foreign: The cells of its key and of its foreign key, side by side, null if they are missing: texts, or
            words of a hash of these. Both have as many columns as the key that they are compared with.
        seconds: By the name of each second key, its cells; None if one is missing.
        chance: A random number of each row.
    """

    columns: dict[str, NDArray[Any]]
    labels: Mapping[str, Sequence[str]]
    key: pl.DataFrame
    foreign: pl.DataFrame
    seconds: dict[str, list[tuple[Hashable, ...] | None]]
    chance: NDArray[np.float64]


def read_families(given: Any, schema: DatabaseSchema, *, key: Key) -> tuple[dict[str, Members], str]:
    """Reads the private tables of a database and joins them; also says what kind of frame the root came in.

    Args:
        given: The tables by name (paths, URLs or frames), a folder of files, or a file of SQLite or DuckDB.
        key: For random choices.

    Privacy:
        Releases nothing by what it returns; by failing, what `tables.table.read` tells of one table.

    Raises:
        TableError: A table is missing or one too many, or its structure does not fit the schema.
    """
    sources = sources_of(given, schema)
    keyed: dict[str, KeyedRows] = {}
    kind = "polars"
    for name in schema.private:
        table = schema[name]
        exact = read(sources[name], table.with_keys)
        kind = exact.kind if name == schema.unit else kind
        texts, own = _key_texts(exact.columns, exact.labels, table), [column.name for column in table.columns]
        keyed[name] = KeyedRows(
            columns={column: exact.columns[column] for column in own},
            labels={column: exact.labels[column] for column in own if column in exact.labels},
            key=texts.select(table.key),
            foreign=texts.select(table.foreign_key),
            seconds={name_of(each): key_tuples(texts.select(columns_of(each))) for each in table.second_keys},
            chance=chance_of(name, key).random(exact.exact_rows),
        )
    return linked(keyed, schema), kind


def chance_of(table: str, key: Key) -> np.random.Generator:
    """What gives every row of a table its random number, one after the other."""
    return key.child("choice").child(table).numpy()


def linked(tables: Mapping[str, KeyedRows], schema: DatabaseSchema) -> dict[str, Members]:
    """The rows that are used, joined by their keys; parents come before their children.

    Privacy:
        Releases nothing. Which rows of a unit are used depends on that unit's own rows and on their random numbers.
    """
    found: dict[str, Members] = {}
    for name, rows in tables.items():
        table = schema[name]
        if table.parent is None:
            kept = units_of(rows.key, rows.chance)
            parent = np.arange(len(kept))
            found[name] = _members(rows, kept, parent, parent, np.ones_like(parent), np.ones_like(parent))
        else:
            order = None if table.order is None else rows.columns[table.order]
            above = _placed(tables[table.parent].key, found[table.parent])
            kept, parent, rank, siblings = _children(rows.foreign, table, above, order, rows.chance)
            found[name] = _members(rows, kept, found[table.parent].unit[parent], parent, rank, siblings)
    for name in tables:
        for pointer in schema[name].second_keys:
            other, cells = schema[name].references[pointer], tables[name].seconds[name_of(pointer)]
            own = [cells[row] for row in found[name].row.tolist()]
            known = key_tuples(tables[other].key[found[other].row])
            found[name].leads[name_of(pointer)] = looked_up(own, found[name].unit, known, found[other].unit)
    return found


def key_tuples(cells: pl.DataFrame) -> list[tuple[Hashable, ...] | None]:
    """The cells of a key, row by row; None if one is missing."""
    return [None if None in row else row for row in cells.rows()]


def _placed(key: pl.DataFrame, members: Members) -> pl.DataFrame:
    """The keys of the rows that are used, and the place of each."""
    return key[members.row].with_columns(pl.Series("place", np.arange(len(members.row))))


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FlatTable:
    """One table as it is modelled: its context and its own columns side by side. Private, and about to be locked."""

    columns: dict[str, NDArray[Any]]
    labels: Mapping[str, Sequence[str]]
    unit: Whole


def flattened(families: Mapping[str, Members], designs: Mapping[str, Design]) -> dict[str, FlatTable]:
    """The tables of a database as their designs have them.

    Privacy:
        Releases nothing. A row depends on its own unit alone: on itself, its ancestors, and its earlier siblings.
    """
    own: dict[str, dict[str, NDArray[Any]]] = {}
    found: dict[str, FlatTable] = {}
    with np.errstate(all="ignore"):  # a value never raises, and never warns
        for name, design in designs.items():
            these = families[name]
            children = {
                child: np.bincount(families[child].parent, minlength=len(these.unit)) for child in design.counts
            }
            linked: dict[str, NDArray[Any]] = {}
            for second in design.second_keys:
                linked |= second_key_columns(second, these.leads[second.name], families[second.table].columns)
            starts = {child: _starts(families[child], designs[child], len(these.unit)) for child in design.starts}
            own[name] = design.measured(these.columns, these.previous, children, starts) | linked
            places, ancestors = these.parent, dict[str, dict[str, NDArray[Any]]]()
            for ancestor in reversed(design.ancestors):
                ancestors[ancestor] = {column: cells[places] for column, cells in own[ancestor].items()}
                places = families[ancestor].parent[places]
            context = design.context_of(own[name], ancestors, these.rank, these.siblings, these.previous)
            labels = {column: own_labels for column, own_labels in these.labels.items()}
            for second in design.second_keys:
                other = families[second.table].labels
                copied = zip(second.copies, second.sources, strict=True)
                labels |= {copy.name: other[source] for copy, source in copied if source in other}
            for each in design.context:
                source = families[each.table].labels
                if each.kind in ("ancestor", "previous") and each.source in source:
                    labels[each.name] = source[each.source]
            found[name] = FlatTable(columns={**context, **own[name]}, labels=labels, unit=these.unit)
    return found


def _starts(children: Members, design: Design, parents: int) -> NDArray[np.float64]:
    """Where the history of every parent's children begins; NaN if it has none."""
    assert design.history is not None  # else nothing begins
    found, first = np.full(parents, np.nan), children.rank == 1
    found[children.parent[first]] = children.columns[design.history.column][first]
    return found


def _members(rows: KeyedRows, kept: Whole, unit: Whole, parent: Whole, rank: Whole, siblings: Whole) -> Members:
    return Members(
        columns={name: cells[kept] for name, cells in rows.columns.items()},
        labels=rows.labels,
        row=kept,
        unit=unit,
        parent=parent,
        rank=rank,
        siblings=siblings,
    )


def _key_texts(
    columns: Mapping[str, NDArray[Any]], labels: Mapping[str, Sequence[str]], table: TableSchema
) -> pl.DataFrame:
    """The cells of the keys as text; null if one is missing."""
    found = {}
    for name in table.keys:
        codes = pl.Series(columns[name])
        found[name] = pl.Series(labels[name], dtype=pl.String).gather(codes.set(codes < 0, None))
    return pl.DataFrame(found)


def units_of(key: pl.DataFrame, chance: NDArray[np.float64]) -> Whole:
    """The places of the rows of the root that are used: of those with one key, a random one."""
    if not key.width:
        return np.arange(len(chance))
    names = key.columns
    rows = key.with_columns(pl.Series("place", np.arange(len(chance))), pl.Series("chance", chance))
    whole = pl.all_horizontal(pl.col(names).is_not_null())
    one = rows.filter(whole).sort("chance", "place").unique(names, keep="first", maintain_order=True)
    return np.sort(one["place"].to_numpy())


def _children(
    foreign: pl.DataFrame,
    table: TableSchema,
    parents: pl.DataFrame,
    order: NDArray[Any] | None,
    chance: NDArray[np.float64],
) -> tuple[Whole, Whole, Whole, Whole]:
    """The places of the rows that are used, and of each its parent's place, its rank and the number of siblings.

    Args:
        parents: The keys of the parents, and then the place of each.
    """
    assert table.max_per_parent is not None  # else it has no parents
    to = [f"key {i}" for i in range(foreign.width)]
    rows = foreign.rename(dict(zip(foreign.columns, to, strict=True))).with_columns(
        pl.Series("row", np.arange(len(chance))), pl.Series("order", ordered(order, chance))
    )
    rows = first_of(rows.drop_nulls(to), to, table.max_per_parent)
    named = parents.rename(dict(zip(parents.columns[:-1], to, strict=True)))
    joined = rows.join(named, on=to, how="inner").sort("place", "order", "row")
    place = joined["place"].to_numpy()
    starts = np.flatnonzero(np.r_[True, place[1:] != place[:-1]]) if len(place) else np.zeros(0, np.int64)
    many = np.diff(np.r_[starts, len(place)])
    rank = np.arange(len(place)) - np.repeat(starts, many) + 1
    return joined["row"].to_numpy(), place, rank, np.repeat(many, many)


def ordered(order: NDArray[Any] | None, chance: NDArray[np.float64]) -> NDArray[np.float64]:
    """What rows of one parent are sorted by: their order, in which those that have none come last, or else chance."""
    return chance if order is None else np.nan_to_num(order, nan=np.inf)


def first_of(rows: pl.DataFrame, names: Sequence[str], most: int) -> pl.DataFrame:
    """Of the rows with one key, the first in their order; of those that are equal in it, the first in their table."""
    found = rows.sort(*names, "order", "row")
    return found.filter(pl.int_range(pl.len()).over(names) < most)


def with_public_keys(given: Any, schema: DatabaseSchema) -> DatabaseSchema:
    """The schema in which columns that refer to a public table list its keys as their values.

    Columns that hold a key of several together keep their reference, and a rule says which combinations are keys.

    Raises:
        TableError: A public table cannot be read, or has no key.
    """
    used = {other for table in schema for other in table.references.values() if schema[other].public}
    if not used:
        return schema
    sources = sources_of(given, schema)
    keys = {name: _public_keys(sources[name], schema[name]) for name in sorted(used)}
    return dataclasses.replace(schema, tables={table.name: _with_values(table, keys) for table in schema})


def _public_keys(source: Any, table: TableSchema) -> list[tuple[Any, ...]]:
    """The keys of a public table, sorted; rows in which a part is missing have none."""
    parts = stream(source, table.with_keys)
    if parts is None:
        exact = read(source, table.with_keys)
        every = [_key_texts(exact.columns, exact.labels, table)]
    else:
        every = [_key_texts(each.read(table.keys), parts.labels, table) for each in parts.readers]
    found = {row for texts in every for row in key_tuples(texts.select(table.key)) if row is not None}
    if not found:
        raise TableError(f"table {table.name!r}: expected a row with a whole key ({', '.join(table.key)}), got none.")
    return sorted(found)


def _with_values(table: TableSchema, keys: Mapping[str, Sequence[tuple[str, ...]]]) -> TableSchema:
    """A table in which columns that hold the key of a public table have values, by the name of that table."""
    public = {each: keys[other] for each, other in table.references.items() if each not in table.second_keys}
    values: dict[str, list[str]] = {}
    rules = list(table.constraints)
    for pointer, rows in public.items():
        names = columns_of(pointer)
        if len(names) > 1:
            same = [each for each in rules if isinstance(each, Combination) and each.columns == names]
            rows = [row for row in rows if all(row in each.allowed for each in same)]
            if not rows:
                raise TableError(f"table {table.name!r}: expected a public key among the combinations of {names}.")
            rules = [each for each in rules if each not in same] + [Combination(names, tuple(rows))]
        values |= {name: sorted({row[i] for row in rows}) for i, name in enumerate(names)}
    columns = [
        dataclasses.replace(each, values=tuple(values[each.name]), other=None, levels=None)
        if each.name in values
        else each
        for each in table.columns
    ]
    kept = {each: other for each, other in table.references.items() if each not in public or len(columns_of(each)) > 1}
    return dataclasses.replace(table, columns=tuple(columns), references=kept, constraints=tuple(rules))


# Where the tables are -------------------------------------------------------------------------------------------------


def sources_of(given: Any, schema: DatabaseSchema, *, private: bool = False) -> dict[str, Any]:
    """The source of every table: from a mapping, a folder with a file of each name, or a file of a database.

    Args:
        private: Of private tables alone. Synthetic databases have no public ones.

    Raises:
        TableError: One is missing, or there is one that the schema does not name.
    """
    names = schema.private if private else tuple(schema.tables)
    if isinstance(given, Mapping):
        return _named(given, schema, names)
    if not isinstance(given, str | os.PathLike) or is_url(given):
        raise TableError(
            "expected the tables by name, a folder of files, or a file of SQLite or DuckDB, since the schema has "
            f"several tables: {', '.join(schema.tables)}."
        )
    path = Path(given)
    if path.is_dir():
        return {name: _file_in(path, name) for name in names}
    if path.suffix.lower() in DATABASES:
        scheme = DATABASES[path.suffix.lower()]
        return {name: f"{scheme}:///{quote(os.fspath(path))}?table={quote(name)}" for name in names}
    raise TableError(f"{os.fspath(given)}: expected a folder of files, or a file that ends in {', '.join(DATABASES)}.")


def _named(given: Mapping[Any, Any], schema: DatabaseSchema, names: Sequence[str]) -> dict[str, Any]:
    for name in names:
        if name not in given:
            raise TableError(f"table {name!r} is missing, which the schema names.{did_you_mean(name, given)}")
    for name in given:
        if name not in schema.tables:
            raise TableError(f"table {str(name)!r} is not in the schema.{did_you_mean(str(name), schema.tables)}")
    return {name: given[name] for name in names}


def _file_in(folder: Path, name: str) -> str:
    """The file of a folder that holds a table, or the folder with its files."""
    found: Sequence[Path] = sorted(each for each in folder.iterdir() if _is_of(each, name))
    if len(found) != 1:
        fact = "there is none" if not found else f"there are {len(found)}: {', '.join(each.name for each in found)}"
        raise TableError(
            f"{os.fspath(folder)}: expected one file of the table {name!r}, such as {name}.csv, or a folder {name} of "
            f"Parquet files; {fact}."
        )
    return os.fspath(found[0])


def _is_of(path: Path, name: str) -> bool:
    if path.is_dir():
        return path.name.lower() == name.lower()
    return path.is_file() and readable(path) and path.name.lower().startswith(f"{name.lower()}.")
