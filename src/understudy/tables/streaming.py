"""Tables that are read in partitions: files of any size and number, here or in a store, lazy frames, Ray datasets.

The one rule: a cell is read by itself alone, so a table in partitions is the table as `table.read` would read it. What
that refuses after a look at all rows is found in a survey, which reads no more than it must.
"""

import dataclasses
import glob
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

from understudy.tables import object_store, ray_dataset
from understudy.tables.csv_file import load_csv_block, open_csv
from understudy.tables.database_url import is_url
from understudy.tables.files import polars_errors
from understudy.tables.parquet_file import load_parquet_rows, parquet_groups
from understudy.tables.ray_dataset import BlockPiece
from understudy.tables.schema import Schema
from understudy.tables.sources import SEPARATORS, extension
from understudy.tables.structure import FoundColumn, Source, TableError, check_names
from understudy.tables.table import Facts, check_facts, convert, no_units, unit_texts

MEMORY = 2.0
"""Memory in GiB that a fit of a table in partitions may take, about."""
# Of the memory, what a partition's columns take as they are read; maps, threads and sums take the rest.
_SHARE = 32
# A table that takes less than this part of the memory is read at once.
_SMALL = 4
_LEAST_ROWS = 2**14
_LAZY = "the polars table"


class Piece(Protocol):
    """Some rows of a source that can be read again and again. Public: it says where they are."""

    @property
    def name(self) -> str:
        """What messages call the source."""
        ...

    @property
    def rows(self) -> int | None:
        """How many there are; None if that takes reading them."""
        ...

    def load(self, schema: Schema, names: Sequence[str]) -> Source:
        """Some columns."""
        ...


@dataclasses.dataclass(frozen=True)
class ParquetPiece:
    """Consecutive rows of a Parquet file."""

    name: str
    first: int
    rows: int

    def load(self, schema: Schema, names: Sequence[str]) -> Source:
        return load_parquet_rows(Path(self.name), self.name, names, self.first, self.rows)


@dataclasses.dataclass(frozen=True)
class CsvPiece:
    """The lines of a CSV file between two bytes; all if `end` is None."""

    name: str
    start: int
    end: int | None
    rows: None = None

    def load(self, schema: Schema, names: Sequence[str]) -> Source:
        return load_csv_block(Path(self.name), self.name, schema, names, self.start, self.end)


@dataclasses.dataclass(frozen=True, eq=False)
class LazyPiece:
    """Consecutive rows of a lazy frame, which is asked for them each time."""

    frame: pl.LazyFrame
    first: int
    rows: int
    name: str = _LAZY

    def load(self, schema: Schema, names: Sequence[str]) -> Source:
        with polars_errors(self.name, "a table"):
            found = self.frame.select(names).slice(self.first, self.rows).collect()
        return Source(columns={each.name: FoundColumn.typed(each) for each in found}, kind="polars", name=self.name)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PartitionReader:
    """Reads a piece as `privacy.partitions.Reader` asks for it.

    Attributes:
        labels: The categories of columns whose values the schema does not give, those of the whole table. Private.
        rows: How many rows have a unit, if the schema names one.
        known: Which those are, as bits; None if all are.
        span: How many rows the piece has.
    """

    piece: Piece
    schema: Schema
    labels: Mapping[str, Sequence[str]]
    rows: int
    span: int
    known: np.ndarray | None = None

    @property
    def reference(self) -> Any:
        """What a task of a Ray cluster needs beside the reader: the reference to a block, or None."""
        return self.piece.reference if isinstance(self.piece, BlockPiece) else None

    def with_block(self, block: Any) -> "PartitionReader":
        """The same reader with a block in the place of the reference to it."""
        assert isinstance(self.piece, BlockPiece)
        return dataclasses.replace(self, piece=self.piece.with_block(block))

    def read(self, names: Sequence[str]) -> Mapping[str, np.ndarray]:
        return self.converted(self.load(names), names)

    def converted(self, source: Source, names: Sequence[str]) -> Mapping[str, np.ndarray]:
        """Some columns of what was loaded."""
        facts = {name: Facts() for name in names}
        return convert(source, self.schema, names, facts, known=self._mask(), labels=self.labels)[0]

    def read_units(self, seeds: tuple[int, int]) -> np.ndarray:
        assert self.schema.unit is not None
        places, texts = unit_texts(self.load([self.schema.unit]), self.schema)
        found = np.stack([texts.hash(seed).to_numpy()[places] for seed in seeds], axis=1)
        return found if self.known is None else found[self._kept()]

    def load(self, names: Sequence[str]) -> Source:
        """Some columns as they are found."""
        source = self.piece.load(self.schema, names)
        if any(len(column.series) != self.span for column in source.columns.values()):
            raise TableError(f"{self.piece.name} was changed while it was read.")
        return source

    def _mask(self) -> pl.Series | None:
        return None if self.known is None else pl.Series(self._kept())

    def _kept(self) -> np.ndarray:
        assert self.known is not None
        return np.unpackbits(self.known, count=self.span).astype(bool)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class StreamedTable:
    """A table in partitions. Its readers keep no row.

    Attributes:
        readers: In the order of the table.
        labels: As of `table.Table`. Private.
        kind, source: As of `table.Table`.
    """

    readers: list[PartitionReader]
    labels: Mapping[str, Sequence[str]]
    kind: str
    source: str

    @property
    def in_files(self) -> bool:
        """Whether another process can read it."""
        here = f"{object_store.HERE[0]}://"
        return not any(isinstance(each.piece, LazyPiece) or each.piece.name.startswith(here) for each in self.readers)


def stream(source: Any, schema: Schema, *, memory: float = MEMORY, always: bool = False) -> StreamedTable | None:
    """A table in partitions; None if it is one that is read at once.

    Folders, globs, URLs of object stores, lazy frames and Ray datasets are in partitions. So is a file of Parquet or
    CSV that is large for the memory.

    Args:
        memory: In GiB.
        always: Whether a small file is in partitions too.

    Privacy:
        As of `table.read`.

    Raises:
        TableError: As of `table.read`.
    """
    found = pieces_of(source, schema, memory=memory, always=always)
    return None if found is None else surveyed(*found, schema)


def pieces_of(
    source: Any, schema: Schema, *, memory: float = MEMORY, always: bool = False
) -> tuple[Sequence[Piece], str] | None:
    """The pieces of a table and what messages call it, as of `stream`; None if it is one that is read at once.

    Args:
        schema: With all columns that may be asked of a piece.
    """
    budget = max(memory, 0.25) * 2**30
    if isinstance(source, pl.LazyFrame):
        return _lazy_pieces(source, schema, budget), _LAZY
    if ray_dataset.is_dataset(source):
        return ray_dataset.block_pieces(source, schema), ray_dataset.NAME
    if object_store.is_stored(source):
        return _stored_pieces(source, schema, budget), object_store.shown(source)
    if not isinstance(source, str | os.PathLike) or is_url(source):
        return None
    paths = _paths(source)
    if paths is None:
        return None
    name = os.fspath(source)
    pieces = [each for path in paths for each in _file_pieces(path, schema, budget)]
    if paths == [name] and not always and (len(pieces) <= 1 or _is_small(paths[0], schema, pieces, budget)):
        return None
    return pieces, name


def _paths(source: str | os.PathLike[str]) -> list[str] | None:
    """The files that a path stands for, in order; None if it is one that is read at once."""
    name = os.fspath(source)
    if os.path.isdir(name):
        found = sorted(str(path) for path in Path(name).rglob("*.parquet"))
    elif os.path.exists(name) or not glob.has_magic(name):
        return [name] if extension(name) == ".parquet" or extension(name) in SEPARATORS else None
    else:
        found = sorted(path for path in glob.glob(name, recursive=True) if os.path.isfile(path))
    if not found:
        raise TableError(f"{name}: expected Parquet or CSV files, and there are none.")
    other = next((path for path in found if extension(path) not in (".parquet", *SEPARATORS)), None)
    if other is not None:
        raise TableError(f"{other}: expected files of Parquet or CSV in {name}. Give other files one by one.")
    return found


def _file_pieces(path: str, schema: Schema, budget: float) -> list[Piece]:
    if extension(path) == ".parquet":
        groups, most = parquet_groups(Path(path), path, schema), _most_rows(schema, budget)
        return [ParquetPiece(path, first, rows) for first, rows in spans(groups, most)]
    file, _, _ = open_csv(Path(path), path, schema)
    cuts = file.cuts(int(budget / (4 * _SHARE)))
    if len(cuts) == 1:
        return [CsvPiece(path, 0, None)]
    return [CsvPiece(path, start, end) for start, end in zip(cuts, [*cuts[1:], os.path.getsize(path)], strict=True)]


def _lazy_pieces(frame: pl.LazyFrame, schema: Schema, budget: float) -> list[Piece]:
    with polars_errors(_LAZY, "a table"):
        check_names(frame.collect_schema().names(), schema, _LAZY)
        rows = int(frame.select(pl.len()).collect().item())
    return [LazyPiece(frame, first, count) for first, count in spans([rows], _most_rows(schema, budget))]


def _stored_pieces(url: str, schema: Schema, budget: float) -> list[Piece]:
    most = _most_rows(schema, budget)
    return [
        object_store.StoredPiece(url, path, name, first, rows)
        for path, name, groups in object_store.stored_groups(url, schema)
        for first, rows in spans(groups, most)
    ]


def rows_of_a_piece(schema: Schema, memory: float) -> int:
    """How many rows a piece has at most, for so many GiB."""
    return _most_rows(schema, max(memory, 0.25) * 2**30)


def _most_rows(schema: Schema, budget: float) -> int:
    return max(_LEAST_ROWS, int(budget / (8 * _SHARE * (len(schema.names) + 1))))


def spans(groups: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Consecutive rows, as (first, how many): whole groups where they fit, and even parts of larger ones."""
    found: list[tuple[int, int]] = []
    first = 0
    for rows in groups:
        if found and found[-1][1] + rows <= most:
            found[-1] = found[-1][0], found[-1][1] + rows
        else:
            parts = max(1, math.ceil(rows / most))
            ends = [first + rows * i // parts for i in range(parts + 1)]
            found += [(start, end - start) for start, end in itertools.pairwise(ends)]
        first += rows
    return [span for span in found if span[1]]


def _is_small(path: str, schema: Schema, pieces: Sequence[Piece], budget: float) -> bool:
    rows = [piece.rows for piece in pieces]
    if any(each is None for each in rows):
        return os.path.getsize(path) * _SMALL < budget
    return sum(each or 0 for each in rows) * 8 * (len(schema.names) + 1) * _SMALL < budget


def surveyed(pieces: Sequence[Piece], name: str, schema: Schema, columns: Sequence[str] | None = None) -> StreamedTable:
    """The readers of pieces, after one look at all that must be looked at: counts, categories, units.

    A column of which it is known that it can be read is not looked at again, but in the next file.

    Args:
        columns: Those to look at; None for all.
    """
    columns = schema.names if columns is None else columns
    facts = {each: Facts() for each in columns}
    found: dict[str, set[str]] = {
        each: set() for each in columns if schema[each].kind == "categorical" and schema[each].labels is None
    }
    labels: dict[str, list[str]] = {}
    readers: list[PartitionReader] = []
    before, from_file = "", False
    for piece in pieces:
        names = [each for each in columns if piece.name != before or each in found or not facts[each].settled]
        before = piece.name
        unit = [] if schema.unit is None else [schema.unit]
        if piece.rows is not None and not names and not unit:
            readers.append(PartitionReader(piece, schema, labels, piece.rows, piece.rows))
            continue
        source = piece.load(schema, [*(names or ([] if unit else schema.names[:1])), *unit])
        from_file = source.from_file
        span = len(next(iter(source.columns.values())).series)
        known = None
        if unit:
            places, texts = unit_texts(source, schema)
            has_unit = texts.is_not_null().to_numpy()[places]
            known = None if has_unit.all() else has_unit
        mask = None if known is None else pl.Series(known)
        _, seen = convert(source, schema, names, {each: facts[each] for each in names}, known=mask)
        for each, more in seen.items():
            found[each].update(more)
        rows = span if known is None else int(known.sum())
        bits = None if known is None else np.packbits(known)
        readers.append(PartitionReader(piece, schema, labels, rows, span, bits))
    if not any(reader.span for reader in readers):
        raise TableError(f"{name} has no rows.")
    if schema.unit is not None and not any(reader.rows for reader in readers):
        raise no_units(name, schema)
    check_facts(facts, schema, name, from_file=from_file)
    labels.update({each: sorted(texts) for each, texts in found.items()})
    return StreamedTable(readers=readers, labels=labels, kind="polars", source=name)
