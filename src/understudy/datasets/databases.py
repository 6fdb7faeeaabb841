"""Public databases: several tables that share a key, read from the folder that UNDERSTUDY_DATA names.

They are Baseball (players, and under each of them two histories, batting and fielding) and CDNOW (users and their
purchases). A table is read from that folder, else from a local cache, else from the repository that publishes it. The
one rule: wherever it comes from, the file has the checksum written here, or it is refused.

Sources: Lahman's Baseball Database (CC BY-SA 3.0); Fader and Hardie (2001), "Forecasting repeat sales at CDNOW",
Interfaces 31, doi:10.1287/inte.31.3s.94.9683. Both by way of mostly-ai/public-demo-data.
"""

import contextlib
import dataclasses
import importlib.resources
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from understudy.core.files import cache_folder, reason, replacing
from understudy.core.text import did_you_mean
from understudy.datasets.pinned import PinnedError, PinnedFile
from understudy.datasets.public import DatasetError
from understudy.tables.database_schema import DatabaseSchema

_REPOSITORY, _COMMIT = "mostly-ai/public-demo-data", "64020409bdc85b7a04a2e510be00f9f4cf47fd3d"

Frames = dict[str, pl.DataFrame]
"""The tables of a database by name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublicDatabase:
    """What is known about a public database in advance.

    Attributes:
        sha256: The checksum of each table's file. The first table is that of the units.
        integers, numbers, dates: Columns that do not hold text.
    """

    sha256: Mapping[str, str]
    integers: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()


DATABASES = {
    "baseball": PublicDatabase(
        sha256={
            "players": "dfd268f5067230767f061bf1c272d3278567f9d9f5438cc445cf2497c526c8de",
            "batting": "3f84eb380cbd5e6414e7fc1b11933ebd99fa8c37ec3a591ff5902c54b92f5a85",
            "fielding": "c428c7b96f4682ffcb988bcbf09fc336063244d8359ce7cb7009130553d00f22",
        },
        integers=(
            *("weight", "height", "year", "G", "AB", "R", "H", "HR", "RBI", "SB", "CS", "BB", "SO"),
            *("GS", "InnOuts", "PO", "A", "E", "DP"),
        ),
        dates=("birthDate", "deathDate"),
    ),
    "cdnow": PublicDatabase(
        sha256={
            "users": "788e408e3e4383d8a4a05e57a728055fc9f9d3e3028c82da04b0c471342c92f1",
            "purchases": "e8a5631c3152b2404267a6bd2ee75d1a0f7029c48f3a64c6972735eca479cd8e",
        },
        integers=("cds",),
        numbers=("amt",),
        dates=("date",),
    ),
}


def load_database(name: str) -> Frames:
    """The tables of one of `DATABASES`, the table of the units first. Missing values are null; keys are text.

    Raises:
        DatasetError: A table cannot be found, or its content is not what it should be.
    """
    database = _database(name)
    return {table: _typed(_content(name, table, sha256), database) for table, sha256 in database.sha256.items()}


def database_schema_text(name: str) -> str:
    """The TOML of one of `DATABASES`, with caps and bounds that were not read off the data."""
    _database(name)
    return importlib.resources.files("understudy.datasets").joinpath("data", f"{name}.toml").read_text()


def database_schema(name: str) -> DatabaseSchema:
    """The schema of one of `DATABASES`."""
    return DatabaseSchema.parse(database_schema_text(name), f"{name}.toml")


def split_units(frames: Mapping[str, pl.DataFrame], schema: DatabaseSchema, number: int) -> tuple[Frames, Frames]:
    """The training units (60 %) and the test units (40 %) of a numbered split, each with everything that hangs on them.

    Public tables are in both. The number seeds the shuffle.
    """
    order = np.random.default_rng(number).permutation(len(frames[schema.unit]))
    cut = round(0.6 * len(order))
    parts = []
    for rows in (order[:cut], order[cut:]):
        part = {schema.unit: frames[schema.unit][np.sort(rows)]}
        for table in schema:
            if table.parent is None:
                part.setdefault(table.name, frames[table.name])
                continue
            keys = part[table.parent].select(schema[table.parent].key)
            part[table.name] = frames[table.name].join(
                keys, left_on=list(table.foreign_key), right_on=list(schema[table.parent].key), how="semi"
            )
        parts.append({name: part[name] for name in frames})
    return parts[0], parts[1]


def _database(name: str) -> PublicDatabase:
    if name not in DATABASES:
        hint = did_you_mean(name, list(DATABASES))
        raise DatasetError(f"expected one of the databases {', '.join(DATABASES)}, got {name!r}.{hint}")
    return DATABASES[name]


def _typed(content: bytes, database: PublicDatabase) -> pl.DataFrame:
    frame = pl.read_csv(content, infer_schema=False)
    casts = [pl.col(name).cast(pl.Int64) for name in database.integers if name in frame.columns]
    casts += [pl.col(name).cast(pl.Float64) for name in database.numbers if name in frame.columns]
    casts += [pl.col(name).str.to_date("%Y-%m-%d") for name in database.dates if name in frame.columns]
    return frame.with_columns(casts)


def _content(name: str, table: str, sha256: str) -> bytes:
    """The file of a table, from the nearest place that has it."""
    file = PinnedFile(repository=_REPOSITORY, commit=_COMMIT, path=f"{name}/{table}.csv.gz", sha256=sha256)
    folder, ours = os.environ.get("UNDERSTUDY_DATA"), f"{name}_{table}.csv.gz"
    places = [Path(folder), cache_folder()] if folder else [cache_folder()]
    for path in [place / ours for place in places]:
        if path.is_file():
            try:
                return _checked(path.read_bytes(), file, str(path), name)
            except OSError as error:
                raise DatasetError(f"{path} cannot be read: {reason(error)}.") from None
    try:
        content = _checked(file.fetch(), file, str(file), name)
    except PinnedError as error:
        raise DatasetError(
            f"{name}: there is no {ours} in the folder that UNDERSTUDY_DATA names ({folder or 'not set'}) or in the "
            f"cache ({cache_folder()}), and {file} cannot be fetched: {error}. Put the file in one of the two."
        ) from None
    with contextlib.suppress(OSError):  # if the cache cannot be written, only the next download is lost
        cache_folder().mkdir(parents=True, exist_ok=True)
        with replacing(cache_folder() / ours) as temporary:
            temporary.write_bytes(content)
    return content


def _checked(content: bytes, file: PinnedFile, source: str, name: str) -> bytes:
    if not file.holds(content):
        raise DatasetError(f"{source}: expected the content of {name}, which has another checksum. It was not used.")
    return content
