"""Synthetic databases in shards: a folder of Parquet files for each table, some units at a time.

The one rule: a shard is there whole or not at all. Its file of the root is written last, so a shard that has it is
whole, and a start that was stopped goes on with the others.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from understudy.core import ray_tasks
from understudy.core.progress import progress as shown
from understudy.tables import rejection
from understudy.tables.rejection import Acceptance, SamplingError
from understudy.tables.shards import SampledShards, Shards, open_shards
from understudy.tables.writing import write

UNITS_PER_SHARD = 20_000
"""Units of a shard, if none are given."""


class Drawing(Protocol):
    """Draws the tables of a shard, which depend on its number and the seed alone; in any process."""

    def draw(self, seed: int, shard: int, units: int) -> tuple[dict[str, pl.DataFrame], Acceptance | None]: ...


@dataclasses.dataclass(frozen=True)
class _Request:
    """What a process needs to write any shard."""

    drawing: Drawing
    folder: Path
    shards: Shards
    seed: int


def write_shards(
    drawing: Drawing,
    folder: str | os.PathLike[str],
    wanted: Mapping[str, Any],
    tables: Sequence[str],
    *,
    units: int,
    units_per_shard: int,
    title: str,
    progress: bool | None,
    **places: Any,
) -> SampledShards:
    """Writes the shards that are missing in a folder.

    Args:
        wanted: What the sample is, as of `open_shards`.
        tables: Their names, the root first.
        title: Of the progress bar.
        places: As of `ray_tasks.spread_over`.

    Raises:
        ShardError: The folder holds another sample or something else, or cannot be written.
        SamplingError: A shard cannot be drawn.
    """
    with open_shards(folder, wanted) as manifest:
        place = Path(os.path.realpath(folder))
        for name in tables:
            (place / name).mkdir(exist_ok=True)
            for left in (place / name).glob(".*.tmp"):  # of a process that was killed while it wrote a file
                left.unlink(missing_ok=True)
        shards = Shards(folder=place / tables[0], rows=units, rows_per_shard=units_per_shard)
        request = _Request(drawing, place, shards, manifest["seed"])
        work, found = shards.missing(), list[Acceptance]()
        there = shards.rows - sum(map(shards.rows_of, work))
        with shown(title, shards.rows, there, "units", wanted=progress) as advance:
            for shard, made, error in ray_tasks.spread_over(functools.partial(_write_shard, request), work, **places):
                if made is None:
                    raise SamplingError(f"{shards.path(shard).name} was not written: {error}")
                found += made
                advance(shards.path(shard).name, shards.rows_of(shard))
    acceptance = rejection.in_all(found) if found else None
    return SampledShards(shards=shards, made=len(work), seed=request.seed, acceptance=acceptance)


def _write_shard(request: _Request, shard: int) -> list[Acceptance]:
    """Draws a shard and writes its files, the root's last."""
    tables, acceptance = request.drawing.draw(request.seed, shard, request.shards.rows_of(shard))
    for name in reversed(tables):
        write(tables[name], request.folder / name / request.shards.path(shard).name, level=1)
    return [] if acceptance is None else [acceptance]
