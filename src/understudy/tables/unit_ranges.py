"""Databases that need not fit into memory: some units at a time, with all their rows in all tables.

A survey says what is in the tables; a pass over their keys whose each row is (unit_links.py); a pass over all their
columns takes rows to the range of units that they belong to; and each range is joined as a whole database is
(`families.linked`). Between passes rows are put aside with whoever keeps them hidden (kept_arrays.py).

The one rule: a row depends on its own unit alone, and units come in the order of the root. So it makes no difference
how the tables are cut, or how many units are joined at a time.
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
from understudy.tables.database_design import Design
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.families import FlatTable, KeyedRows, chance_of, flattened, linked
from understudy.tables.kept_arrays import Bundle, Store, together
from understudy.tables.key_hashes import key_words, seeds_of
from understudy.tables.object_store import is_stored
from understudy.tables.ray_dataset import is_dataset
from understudy.tables.references import columns_of, name_of
from understudy.tables.schema import Schema
from understudy.tables.sources import load
from understudy.tables.streaming import Piece, StreamedTable, pieces_of, rows_of_a_piece, spans, surveyed
from understudy.tables.structure import FoundColumn, Source
from understudy.tables.table import Facts
from understudy.tables.table_schema import TableSchema
from understudy.tables.unit_links import Links, linked_units

Whole = NDArray[np.int64]
_LINKS = 8
"""Keys are compared in this part of the memory, ..."""
_RANGE = 16
"""... and a range of units is joined in this one."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class HeldPiece:
    """Consecutive rows of a table that was read at once, since it cannot be read in pieces. Private."""

    source: Source
    first: int
    rows: int

    @property
    def name(self) -> str:
        return self.source.name

    def load(self, schema: Schema, names: Sequence[str]) -> Source:
        found = {name: _part(self.source.columns[name], self.first, self.rows) for name in names}
        return dataclasses.replace(self.source, columns=found)


def _part(column: FoundColumn, first: int, rows: int) -> FoundColumn:
    unreadable = None if column.unreadable is None else column.unreadable.slice(first, rows)
    return dataclasses.replace(column, series=column.series.slice(first, rows), unreadable=unreadable)


def in_pieces(sources: Mapping[str, Any], schema: DatabaseSchema, *, memory: float) -> bool:
    """Whether a database is read in pieces: one of its tables is, or they are large for the memory together."""
    given = [sources[name] for name in schema.private]
    if any(isinstance(each, pl.LazyFrame) or is_dataset(each) or is_stored(each) for each in given):
        return True
    each = memory / len(given)
    return any(pieces_of(sources[name], schema[name].with_keys, memory=each) is not None for name in schema.private)


def streamed(sources: Mapping[str, Any], schema: DatabaseSchema, *, memory: float) -> dict[str, StreamedTable]:
    """The private tables of a database in pieces, after a look at all that must be looked at.

    Raises:
        TableError: As of `table.read`.
    """
    found: dict[str, StreamedTable] = {}
    for name in schema.private:
        table = schema[name]
        pieces = pieces_of(sources[name], table.with_keys, memory=memory, always=True)
        every, source = pieces or _held(sources[name], table.with_keys, memory)
        made = surveyed(every, source, table.with_keys, [column.name for column in table.columns])
        kinds = [each.source.kind for each in every if isinstance(each, HeldPiece)]
        found[name] = dataclasses.replace(made, kind=kinds[0]) if kinds else made
    return found


def _held(source: Any, schema: Schema, memory: float) -> tuple[Sequence[Piece], str]:
    exact = load(source, schema)
    rows = len(next(iter(exact.columns.values())).series)
    return [HeldPiece(exact, *span) for span in spans([rows], rows_of_a_piece(schema, memory))], exact.name


def flat_ranges(
    streams: Mapping[str, StreamedTable],
    schema: DatabaseSchema,
    designs: Mapping[str, Design],
    *,
    key: Key,
    store: Store,
    memory: float,
) -> Iterator[dict[str, FlatTable]]:
    """The tables of a database as `families.flattened` has them, for some units at a time, in the order of the root.

    Units are numbered within each range.

    Args:
        streams: Of `streamed`.
        key: For random choices, as of `families.read_families`.
        store: Puts rows aside.
        memory: In GiB.

    Privacy:
        Releases nothing. A row depends on its own unit alone.

    Raises:
        TableError: Of a key no cell can be read, or a file was changed while it was read.
    """
    budget, seeds = max(memory, 0.25) * 2**30, seeds_of(key.child("hash of keys"))
    links = linked_units(streams, schema, key=key, seeds=seeds, store=store, budget=budget / _LINKS)
    cuts = _cuts(links, designs, budget / _RANGE)
    routed = {
        name: _routed(stream, schema, name, links, cuts, key=key, seeds=seeds, store=store)
        for name, stream in streams.items()
    }
    links.by_piece.clear()
    for number in range(len(cuts) + 1):
        keyed = {name: _keyed(ranges[number], schema[name], schema, streams[name]) for name, ranges in routed.items()}
        for ranges in routed.values():
            ranges[number] = []
        yield flattened(linked(keyed, schema), designs)


def _cuts(links: Links, designs: Mapping[str, Design], budget: float) -> Whole:
    """The units at which ranges begin, all but the first, so that each takes about so many bytes."""
    weights = sum(
        counts * 8.0 * (len(designs[name].table.columns) + 3 * len(designs[name].flat) + 16)
        for name, counts in links.counts.items()
    )
    before = np.cumsum(np.r_[0.0, weights])
    ranges = max(1, math.ceil(before[-1] / budget))
    bins = np.unique(np.searchsorted(before, before[-1] * np.arange(1, ranges) / ranges))
    inside = bins[(bins > 0) & (bins < len(before) - 1)]
    return -(-inside * links.units // (len(before) - 1))


def _routed(
    stream: StreamedTable,
    schema: DatabaseSchema,
    name: str,
    links: Links,
    cuts: Whole,
    *,
    key: Key,
    seeds: tuple[int, int],
    store: Store,
) -> list[list[Bundle]]:
    """The rows of a table that are used, by the range of their units."""
    table, found = schema[name], list[list[Bundle]]([] for _ in range(len(cuts) + 1))
    draw, first = chance_of(name, key), 0
    for number, reader in enumerate(stream.readers):
        chance = draw.random(reader.span)
        rows, units = links.of_piece(name, number)
        pairs = np.unique(np.searchsorted(cuts, units, "right") * reader.span + (rows - first))
        first += reader.span
        if not len(pairs):
            continue
        ranges, places = np.divmod(pairs, reader.span)
        columns = [column.name for column in table.columns]
        source = reader.load([*columns, *table.keys])
        arrays = {f"column {each}": cells for each, cells in reader.converted(source, columns).items()}
        facts = {each: Facts() for each in table.keys}
        for what, cells in _pointers(table).items():
            words = key_words(source, reader.schema, cells, seeds, facts)
            arrays |= {f"{what} {word}": words[word] for word in range(2)}
        arrays["chance"] = chance
        ends = np.searchsorted(ranges, np.arange(len(cuts) + 2))
        for bundles, (start, end) in zip(found, itertools.pairwise(ends.tolist()), strict=True):
            if end > start:
                at = places[start:end]
                bundles.append(Bundle.of({each: array[at] for each, array in arrays.items()}, store))
    return found


def _pointers(table: TableSchema) -> dict[str, tuple[str, ...]]:
    """The keys that rows are joined by: what each is called, and its columns."""
    found = {"key": table.key, "foreign": table.foreign_key}
    found |= {f"second {name_of(each)}": columns_of(each) for each in table.second_keys}
    return {what: columns for what, columns in found.items() if columns}


def _keyed(bundles: Sequence[Bundle], table: TableSchema, schema: DatabaseSchema, stream: StreamedTable) -> KeyedRows:
    """The rows of a table that belong to a range of units."""
    whole = {
        f"column {column.name}": np.zeros(0, np.int64 if column.kind == "categorical" else np.float64)
        for column in table.columns
    }
    words = {f"{what} {word}": np.zeros(0, np.uint64) for what in _pointers(table) for word in range(2)}
    found = together(bundles, {**whole, **words, "chance": np.zeros(0)})
    frames = {
        what: pl.DataFrame({f"key {word}": found[f"{what} {word}"] for word in range(2)}) for what in _pointers(table)
    }
    return KeyedRows(
        columns={name.removeprefix("column "): found[name] for name in whole},
        labels=stream.labels,
        key=frames.get("key", pl.DataFrame()),
        foreign=frames.get("foreign", pl.DataFrame()),
        seconds={
            name_of(each): [row if any(row) else None for row in frames[f"second {name_of(each)}"].rows()]
            for each in table.second_keys
        },
        chance=found["chance"],
    )
