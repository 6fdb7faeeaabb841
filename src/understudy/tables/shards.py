"""A sample in many Parquet files: a folder of shards, and beside it, as FOLDER.json, the manifest of what they hold.

The one rule: a shard is there whole or not at all, and a folder holds the shards of one sample. A shard is written to
a temporary file and renamed, so one that has its name is done, and a start that was stopped goes on with the others.
The manifest says which rows the shards hold; a start that asks for others is refused. It lies beside the folder, since
programs that read a folder of Parquet stumble over any other file in it.
"""

import contextlib
import dataclasses
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from understudy.core.files import lock, reason, replacing
from understudy.tables.rejection import Acceptance

HEADER = {"kind": "understudy-shards", "format": 1}
ROWS_PER_SHARD = 500_000
"""Rows of a shard, if none are given: with 20 columns, 40 MB on the disk and 350 MB in a process."""


class ShardError(ValueError):
    """A folder of shards cannot be written, or holds something else."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shards:
    """Where the rows of a sample lie.

    Attributes:
        folder: The folder of the Parquet files.
        rows: Of all of them together.
        rows_per_shard: Of each but the last.
    """

    folder: Path
    rows: int
    rows_per_shard: int

    @property
    def count(self) -> int:
        """How many files there are; one for a sample without a row, which says what its columns are."""
        return max(-(-self.rows // self.rows_per_shard), 1)

    def rows_of(self, shard: int) -> int:
        return min(self.rows_per_shard, self.rows - shard * self.rows_per_shard)

    def path(self, shard: int) -> Path:
        return self.folder / f"part-{shard:06d}.parquet"

    def missing(self) -> list[int]:
        """The shards that are not written yet."""
        return [shard for shard in range(self.count) if not self.path(shard).exists()]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledShards:
    """What came of a start.

    Attributes:
        shards: Where the rows lie.
        made: How many shards were made now; the others were there.
        seed: Draws the same rows again.
        acceptance: Of the shards that were made now; None if there were none.
    """

    shards: Shards
    made: int
    seed: int
    acceptance: Acceptance | None


def manifest_path(folder: str | os.PathLike[str]) -> Path:
    """The place of the manifest of a folder: FOLDER.json."""
    target = Path(os.path.realpath(folder))
    return target.with_name(f"{target.name}.json")


@contextlib.contextmanager
def open_shards(folder: str | os.PathLike[str], wanted: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Locks a folder for one sample, makes it and its manifest if they are missing, and gives the manifest.

    Args:
        wanted: What the sample is. A seed of None is that of the manifest; if there is none, the operating system
            draws it, once.

    Privacy:
        The seed is no secret. Whoever has the model can draw rows at any seed, which is post-processing.

    Raises:
        ShardError: The folder holds another sample or something else, is in use, or cannot be written.
    """
    place, name = Path(os.path.realpath(folder)), os.fspath(folder)
    with contextlib.ExitStack() as stack:
        try:
            place.mkdir(exist_ok=True)
            descriptor = os.open(place, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            lock(descriptor)
            found = _agreed(name, place, wanted)
            for left in place.glob(".*.tmp"):  # of a process that was killed while it wrote a shard
                left.unlink(missing_ok=True)
        except BlockingIOError:
            raise ShardError(f"{name}: another sample is being written there. Wait, or give another folder.") from None
        except OSError as error:
            raise ShardError(f"{name} cannot be written: {reason(error)}.") from None
        yield found


def _agreed(name: str, folder: Path, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of the folder, which is the wanted one; written if there is none."""
    path, asked = manifest_path(folder), json.loads(json.dumps({**HEADER, **wanted}))
    if not path.exists():
        if any(folder.iterdir()):
            raise ShardError(f"{name} holds files, and no manifest {path.name} says which. Give an empty folder.")
        asked["seed"] = secrets.randbits(63) if asked["seed"] is None else asked["seed"]
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(asked, indent=1) + "\n", "utf-8")
        return asked
    there = _read(path)
    if there is None:
        raise ShardError(f"{path} exists and is no manifest of shards. Give another folder.")
    for key in dict.fromkeys([*asked, *there]):
        if there.get(key) != asked.get(key) and not (key == "seed" and asked["seed"] is None):
            raise ShardError(
                f"{name} holds another sample: {key} is {_shown(there.get(key))} there and {_shown(asked.get(key))} "
                "here. Ask for the same, or give another folder."
            )
    return there


def _read(path: Path) -> dict[str, Any] | None:
    """A manifest, if the file is one."""
    try:
        content = json.loads(path.read_bytes().decode())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or any(content.get(key) != value for key, value in HEADER.items()):
        return None
    return content if isinstance(content.get("seed"), int) and content["seed"] >= 0 else None


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
