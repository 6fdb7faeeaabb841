"""Families: the tables of a database as arrays, every row with its parent and its place among its siblings.

The one rule: rows of a family stand together. A table is sorted by parent, and within a parent by its `order` if it has
one, so that consecutive siblings are neighbouring rows. Keys are used for that and then forgotten.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from understudy.evaluation.pair import Codes, Side, permuted
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.references import columns_of, name_of

NOBODY = -1
"""The parent of a row that has none: of every row of the root, and of an orphan."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Link:
    """How the rows of one table hang on those of another. Public.

    Attributes:
        table: The child.
        parent: The table of its parents.
        order: The column that orders siblings; None if they are a set.
        most: At most so many rows of one parent are used.
    """

    table: str
    parent: str
    order: str | None = None
    most: int | None = None

    @property
    def name(self) -> str:
        return f"{self.parent} → {self.table}"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Members:
    """The rows of one table. Private if the table is.

    Attributes:
        side: The columns; a table of keys alone has none.
        parent: The place of each row's parent in its table, or `NOBODY`; sorted, but for those.
        broken: The share of the rows, before orphans were left out, whose key leads to no parent or to several rows.
    """

    side: Side
    parent: Codes
    broken: float = 0.0

    @property
    def rows(self) -> int:
        return len(self.parent)

    @functools.cached_property
    def pairs(self) -> Codes:
        """Every row that is followed by a sibling; the sibling is the next row."""
        return np.flatnonzero((self.parent[1:] == self.parent[:-1]) & (self.parent[1:] != NOBODY))

    @functools.cached_property
    def rank(self) -> Codes:
        """The place of each row among its siblings, from 0."""
        starts = np.r_[True, self.parent[1:] != self.parent[:-1]] if self.rows else np.zeros(0, dtype=bool)
        places = np.arange(self.rows)
        return places - np.maximum.accumulate(np.where(starts, places, 0)) if self.rows else places

    def counts(self, parents: int) -> Codes:
        """How many rows each of so many parents has."""
        return np.bincount(self.parent[self.parent != NOBODY], minlength=parents)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Families:
    """A database: its tables by name, parents before children, and their links.

    Attributes:
        second_keys: By second key, as "cases.handler → staff", the share of rows for which it leads nowhere.
        labels: The text of every code of a category, by table and column.
    """

    tables: Mapping[str, Members]
    links: tuple[Link, ...]
    second_keys: Mapping[str, float] = dataclasses.field(default_factory=dict)
    labels: Mapping[str, Mapping[str, list[str]]] = dataclasses.field(default_factory=dict)

    @property
    def root(self) -> str:
        return next(iter(self.tables))

    @property
    def units(self) -> int:
        return self.tables[self.root].rows

    def take(self, units: Codes) -> "Families":
        """Some units, with everything that hangs on them."""
        tables = {self.root: _taken(self.tables[self.root], np.sort(units), np.full(len(units), NOBODY))}
        kept = {self.root: np.sort(units)}
        for link in self.links:
            members, parents = self.tables[link.table], kept[link.parent]
            new = np.full(self.tables[link.parent].rows + 1, NOBODY)
            new[parents] = np.arange(len(parents))
            rows = np.flatnonzero(new[members.parent] != NOBODY)  # the last entry answers for NOBODY
            kept[link.table] = rows
            tables[link.table] = _taken(members, rows, new[members.parent[rows]])
        return dataclasses.replace(self, tables=tables)

    def sample(self, units: int, seed: int) -> "Families":
        """At most so many units, drawn without replacement."""
        if self.units <= units:
            return self
        return self.take(np.random.default_rng(seed).choice(self.units, units, replace=False))

    def shuffled(self, seed: int) -> "Families":
        """The same tables with every child at a random parent that has one: rows as they were, families by chance.

        The number of children of each parent stays, and histories are put in order again.
        """
        tables = dict(self.tables)
        for place, link in enumerate(self.links):
            members = tables[link.table]
            rows = np.random.default_rng([seed, place]).permutation(members.rows)
            tables[link.table] = _ordered(_taken(members, rows, members.parent), link.order)
        return dataclasses.replace(self, tables=tables)

    def with_shuffled_columns(self, seed: int) -> "Families":
        """The same tables with each column in an order of its own."""
        tables = {}
        for name, members in self.tables.items():
            numbers, codes = (permuted(each, seed) for each in (members.side.numbers, members.side.codes))
            tables[name] = dataclasses.replace(
                members, side=dataclasses.replace(members.side, numbers=numbers, codes=codes)
            )
        return dataclasses.replace(self, tables=tables)


def _taken(members: Members, rows: Codes, parent: Codes) -> Members:
    return dataclasses.replace(members, side=members.side.take(rows), parent=parent)


def _ordered(members: Members, order: str | None) -> Members:
    rows = _ordered_rows(members, order)
    return _taken(members, rows, members.parent[rows])


def _ordered_rows(members: Members, order: str | None) -> Codes:
    """The places of the rows by parent and then by the column that orders them; a missing one comes last."""
    if order is None:
        return np.argsort(members.parent, kind="stable")
    by_time = members.side.numbers.get(order, members.side.codes.get(order))
    assert by_time is not None, "the schema says that the order is a column"
    return np.lexsort([by_time, members.parent])


# Keys ---------------------------------------------------------------------------------------------------------------

Keys = Mapping[str, pl.DataFrame]
"""The key columns of each table as text."""


def links_of(schema: DatabaseSchema) -> tuple[Link, ...]:
    """The links of a schema, parents before children."""
    tables = [schema[name] for name in schema.private if schema[name].parent is not None]
    return tuple(
        Link(table=each.name, parent=each.parent, order=each.order, most=each.max_per_parent)
        for each in tables
        if each.parent is not None
    )


def assembled(schema: DatabaseSchema, sides: Mapping[str, Side], keys: Keys) -> Families:
    """A database from its columns and its keys, in the same order of rows.

    Of one parent's rows only the first `max_per_parent` are kept, as a fit uses them. Rows without a parent are left
    out, and those whose key leads nowhere are counted in `broken`.
    """
    tables = {schema.unit: Members(side=sides[schema.unit], parent=np.full(len(keys[schema.unit]), NOBODY))}
    places = {schema.unit: np.arange(len(keys[schema.unit]))}  # where each row of the source is now
    links = links_of(schema)
    for link in links:
        name, table = link.table, schema[link.table]
        found, broken = _parents(keys[name], table.foreign_key, keys[link.parent], schema[link.parent].key)
        parent = np.where(found == NOBODY, NOBODY, np.r_[places[link.parent], NOBODY][found])
        members = Members(side=sides[name], parent=parent, broken=broken)
        rows = _ordered_rows(members, link.order)
        rows = rows[parent[rows] != NOBODY]
        rank = _taken(members, rows, parent[rows]).rank
        rows = rows if link.most is None else rows[rank < link.most]
        tables[name] = _taken(members, rows, parent[rows])
        places[name] = np.full(members.rows, NOBODY)
        places[name][rows] = np.arange(len(rows))
    seconds = [(name, pointer) for name in schema.private for pointer in schema[name].second_keys]
    broken = {}
    for name, pointer in seconds:
        other, own = schema[name].references[pointer], columns_of(pointer)
        broken[f"{name}.{name_of(pointer)} → {other}"] = _parents(keys[name], own, keys[other], schema[other].key)[1]
    return Families(tables=tables, links=links, second_keys=broken)


def _parents(
    child: pl.DataFrame, foreign_key: Sequence[str], parent: pl.DataFrame, key: Sequence[str]
) -> tuple[Codes, float]:
    """The place of each row's parent, and the share of rows that have none or several.

    A foreign key with a missing part leads nowhere, and is no error.
    """
    known = parent.select(pl.struct(list(key)).is_duplicated().alias("twice"), *key).with_row_index("place")
    known = known.unique(subset=list(key), keep="first", maintain_order=True)
    found = child.select(foreign_key).join(
        known, left_on=list(foreign_key), right_on=list(key), how="left", maintain_order="left"
    )
    place = found["place"].cast(pl.Int64).fill_null(NOBODY).to_numpy()
    stated = child.select(pl.all_horizontal(pl.col(name).is_not_null() for name in foreign_key)).to_series().to_numpy()
    wrong = stated & ((place == NOBODY) | found["twice"].fill_null(value=False).to_numpy())
    return place, float(wrong.mean()) if len(wrong) else 0.0
