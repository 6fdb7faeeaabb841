"""Parquet files: the columns of a schema out of one, with the types that the file declares."""

import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from understudy.tables.files import claims_refused, damaged, open_binary, polars_errors
from understudy.tables.parquet_pages import check_claims, group_sizes
from understudy.tables.schema import Schema
from understudy.tables.structure import FoundColumn, Source, TableError, check_names, wanted


def load_parquet(path: Path, source: str, schema: Schema) -> Source:
    """Reads the wanted columns."""
    check_ends(path, source)
    with polars_errors(source, "Parquet"):
        names = list(pl.read_parquet_schema(path))
    check_names(names, schema, source)
    with polars_errors(source, "Parquet"):
        frame = pl.read_parquet(path, columns=wanted(schema), glob=False, hive_partitioning=False)
    return Source(
        columns={series.name: FoundColumn.typed(series) for series in frame}, kind="polars", from_file=True, name=source
    )


def parquet_groups(path: Path, source: str, schema: Schema) -> list[int]:
    """How many rows each row group of a file has, whose structure is checked."""
    check_ends(path, source)
    with polars_errors(source, "Parquet"):
        names = list(pl.read_parquet_schema(path))
    check_names(names, schema, source)
    with open_binary(path, source) as file:
        return group_sizes(file)


def load_parquet_rows(path: Path, source: str, columns: Sequence[str], first: int, rows: int) -> Source:
    """Some columns of some rows of a file that was checked."""
    with open_binary(path, source):  # polars would not say why it cannot be read
        pass
    with polars_errors(source, "Parquet"):
        lazy = pl.scan_parquet(path, glob=False, hive_partitioning=False, parallel="columns", low_memory=True)
        frame = lazy.select(columns).slice(first, rows).collect()
    if len(frame) != rows:
        raise damaged(source, "Parquet")
    return Source(
        columns={series.name: FoundColumn.typed(series) for series in frame}, kind="polars", from_file=True, name=source
    )


def sample_parquet(path: Path, source: str, *, rows: int) -> list[tuple[str, FoundColumn]]:
    """All columns of the first rows, for a draft of a schema."""
    check_ends(path, source)
    with polars_errors(source, "Parquet"):
        frame = pl.scan_parquet(path, glob=False, hive_partitioning=False).head(rows).collect()
    return [(series.name, FoundColumn.typed(series)) for series in frame]


def check_ends(path: Path, source: str) -> None:
    """Refuses a file without the head and the tail of Parquet, or with claims that no file can keep.

    polars may panic on such a file, or end the process.
    """
    with open_binary(path, source) as file:
        head = file.read(4)
        if not head:
            raise TableError(f"{source} is empty.")
        file.seek(max(0, os.fstat(file.fileno()).st_size - 4))
        if head not in (b"PAR1", b"PARE") or file.read(4) != head:
            raise damaged(source, "Parquet")
        with claims_refused(source, "Parquet"):
            check_claims(file)
