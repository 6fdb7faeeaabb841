"""Whose each row of a database is, without all of it in memory: a pass over keys, table after table.

Keys are compared by their hashes (key_hashes.py), some of them at a time: all rows whose hash is in one group are
brought together, from whatever pieces they come, and meet the keys of their parents there. Of the rows with one key
those stay that `families.linked` would use; so whoever joins the rows that stay, of some units at a time, joins the
same as if all were there.

The one rule: a row stays or goes by its own unit's rows and by its random number.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.families import chance_of, first_of, ordered, units_of
from understudy.tables.kept_arrays import Arrays, Bundle, Store, together
from understudy.tables.key_hashes import key_words, missing
from understudy.tables.streaming import StreamedTable
from understudy.tables.table import Facts, check_facts, key_texts
from understudy.tables.table_schema import TableSchema

Whole = NDArray[np.int64]
KEY = ["key 0", "key 1"]
"""The words of the key that a row is found by: its own in the root, its parent's in other tables."""
OWN = ["own 0", "own 1"]
"""The words of its own key, which others find."""
BYTES = 256
"""A row takes about so many bytes while keys are compared."""
MOST_GROUPS = 2**14
"""Keys are compared in at most so many groups."""
WEIGHED = 2**14
"""Rows are counted by their units in at most so many ranges."""
_EMPTY = {name: np.zeros(0, np.uint64) for name in (*KEY, *OWN)} | {
    "row": np.zeros(0, np.int64),
    "unit": np.zeros(0, np.int64),
    "order": np.zeros(0),
    "chance": np.zeros(0),
}


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class Links:
    """Which rows of the tables are used, and whose they are. Private.

    Attributes:
        by_piece: Of every table, for every piece, "row" and "unit": the number of a row in its table and that of its
            unit's row in the root. A row that belongs to several units is there several times.
        units: How many rows the root has.
        counts: Of every table, how many rows are used of units in ranges of equal length.
    """

    by_piece: dict[str, list[list[Bundle]]] = dataclasses.field(default_factory=dict)
    units: int
    counts: dict[str, Whole] = dataclasses.field(default_factory=dict)

    def of_piece(self, table: str, piece: int) -> tuple[Whole, Whole]:
        """The rows of a piece that are used, and their units."""
        found = together(self.by_piece[table][piece], {name: _EMPTY[name] for name in ("row", "unit")})
        return found["row"], found["unit"]


class _Groups:
    """Rows by the group of their hash. Private."""

    def __init__(self, groups: int, store: Store):
        self._store, self._groups = store, groups
        self._bundles: list[list[Bundle]] = [[] for _ in range(groups)]

    def add(self, word: NDArray[np.uint64], arrays: Arrays) -> None:
        """Adds rows by the first word of their hash."""
        group = (word % np.uint64(self._groups)).astype(np.uint16)  # whole numbers so small are sorted fast
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(self._groups + 1))
        for bundles, (start, end) in zip(self._bundles, itertools.pairwise(ends.tolist()), strict=True):
            if end > start:
                mine = order[start:end]
                bundles.append(Bundle.of({name: array[mine] for name, array in arrays.items()}, self._store))

    def frames(self, names: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The rows of each group, in the order in which they came."""
        for bundles in self._bundles:
            yield pl.DataFrame(together(bundles, {name: _EMPTY[name] for name in names}))


def linked_units(
    streams: Mapping[str, StreamedTable],
    schema: DatabaseSchema,
    *,
    key: Key,
    seeds: tuple[int, int],
    store: Store,
    budget: float,
) -> Links:
    """Whose each row is.

    Args:
        streams: The private tables, parents first.
        key: For random choices, as of `families.read_families`.
        seeds: Of the hash of keys.
        budget: Bytes that may be taken, about.

    Privacy:
        Releases nothing by what it returns; by failing, what `table.read` tells of keys.

    Raises:
        TableError: Of a key no cell can be read.
    """
    links = Links(units=sum(each.span for each in streams[schema.unit].readers))
    most = max(sum(each.span for each in stream.readers) for stream in streams.values())
    groups = min(max(1, math.ceil(most * BYTES / budget)), MOST_GROUPS)
    known: dict[str, _Groups] = {}
    for name, stream in streams.items():
        table, found, own = schema[name], _Found(links, name, stream, store), _Groups(groups, store)
        is_parent = bool(schema.children(name))
        if table.parent is None and not table.key:
            found.add(pl.DataFrame({each: np.arange(links.units) for each in ("row", "unit")}))
            continue
        rows = _Groups(groups, store)
        for words, arrays in _keys(stream, table, is_parent=is_parent, key=key, seeds=seeds):
            rows.add(words, arrays)
        names = [*KEY, *(OWN if is_parent else ()), "chance" if table.parent is None else "order", "row"]
        if table.parent is None:
            every = map(_units, rows.frames(names))
        else:
            above = known[table.parent].frames([*KEY, "unit"])
            every = (_children(some, parents, table) for some, parents in zip(rows.frames(names), above, strict=True))
        for used in every:
            found.add(used)
            if is_parent:
                words = used.filter(pl.any_horizontal(pl.col(OWN) != 0)).select(*OWN, "unit").unique()
                arrays = {new: words[old].to_numpy() for new, old in zip(KEY, OWN, strict=True)}
                own.add(arrays[KEY[0]], {**arrays, "unit": words["unit"].to_numpy()})
        known[name] = own
    return links


def _keys(
    stream: StreamedTable, table: TableSchema, *, is_parent: bool, key: Key, seeds: tuple[int, int]
) -> Iterator[tuple[NDArray[np.uint64], dict[str, NDArray[Any]]]]:
    """The first words of the keys by which rows are found, and what is needed to choose among them; piece by piece."""
    draw, first, facts = chance_of(table.name, key), 0, {name: Facts() for name in table.keys}
    asked = table.key if table.parent is None else table.foreign_key
    own = table.key if is_parent and table.parent is not None else ()
    from_file = False
    for reader in stream.readers:
        source = reader.load(list(dict.fromkeys([*table.keys, *([table.order] if table.order else [])])))
        from_file |= source.from_file
        words = key_words(source, reader.schema, asked, seeds, facts)
        chance, there = draw.random(reader.span), np.flatnonzero(~missing(words))
        found: dict[str, NDArray[Any]] = dict(zip(KEY, words[:, there], strict=True))
        if is_parent:
            own_words = key_words(source, reader.schema, own, seeds, facts)[:, there] if own else words[:, there]
            found |= dict(zip(OWN, own_words, strict=True))
        found["row"] = first + there
        if table.parent is None:
            found["chance"] = chance[there]
        else:
            order = reader.converted(source, [table.order])[table.order] if table.order else None
            found["order"] = ordered(order, chance)[there]
        if table.max_per_parent is not None:
            some = _trimmed(pl.DataFrame(found), table.max_per_parent)
            found = {name: some[name].to_numpy() for name in found}
        yield found[KEY[0]], found
        first += reader.span
        for name in (each for each in table.keys if each not in (*asked, *own)):
            key_texts(source, reader.schema, name, facts[name])
    check_facts(facts, table.with_keys, stream.source, from_file=from_file)


def _trimmed(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    """Rows of one piece without those that cannot be used, since so many of the same key come before them."""
    many = rows.group_by(KEY).len().filter(pl.col("len") > most)
    if many.is_empty():
        return rows
    return pl.concat([rows.join(many, on=KEY, how="anti"), first_of(rows.join(many, on=KEY, how="semi"), KEY, most)])


def _units(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the root that are used, of some keys."""
    used = rows[units_of(rows.select(KEY), rows["chance"].to_numpy())]
    return used.with_columns(unit=pl.col("row"))


def _children(rows: pl.DataFrame, parents: pl.DataFrame, table: TableSchema) -> pl.DataFrame:
    """The rows of a table that are used, of some keys of its parent, once for every unit that they belong to."""
    assert table.max_per_parent is not None  # it has a parent
    found = first_of(rows, KEY, table.max_per_parent).join(parents, on=KEY, how="inner")
    return found.unique(["row", "unit"])


class _Found:
    """Enters rows that are used, by the piece that they come from."""

    def __init__(self, links: Links, name: str, stream: StreamedTable, store: Store):
        self._links, self._store = links, store
        self._firsts = np.cumsum([0, *(each.span for each in stream.readers)])
        self._pieces: list[list[Bundle]] = [[] for _ in stream.readers]
        self._counts = np.zeros(min(WEIGHED, max(links.units, 1)), np.int64)
        links.by_piece[name], links.counts[name] = self._pieces, self._counts

    def add(self, used: pl.DataFrame) -> None:
        rows, units = (used[name].to_numpy() for name in ("row", "unit"))
        order = np.argsort(rows, kind="stable")
        rows, units = rows[order], units[order]
        cuts = np.searchsorted(rows, self._firsts)
        for piece, (start, end) in zip(self._pieces, itertools.pairwise(cuts.tolist()), strict=True):
            if end > start:
                piece.append(Bundle.of({"row": rows[start:end], "unit": units[start:end]}, self._store))
        self._counts += np.bincount(units * len(self._counts) // max(self._links.units, 1), minlength=len(self._counts))
