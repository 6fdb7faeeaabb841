"""Synthetic tables as files: a folder with one for each table, and where they come from.

The one rule: a folder holds the tables of one drawing, and sample.json says which.
"""

import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from understudy.core.files import replacing
from understudy.databases.model import DatabaseModel
from understudy.tables.writing import write

RECORD = "sample.json"


def write_tables(
    folder: str | os.PathLike[str],
    tables: Mapping[str, Any],
    model: DatabaseModel,
    *,
    model_sha256: str,
    units: int,
    seed: int,
    where: Sequence[str] = (),
    ending: str = ".csv",
) -> dict[str, Any]:
    """Writes the tables that were just drawn into a folder, and their record, which it returns.

    Args:
        folder: Made if it is not there.
        tables: Frames of polars, by name.
        model: What they were drawn from.
        model_sha256: Of the model's file.
        units, seed, where: How they were drawn.
        ending: The format of the files.

    Raises:
        OSError: The folder cannot be made.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for name, frame in tables.items():
        table = model.schema[name]
        write(frame, place / f"{name}{ending}", table.schema if table.columns else None)
    record = {
        "model": model_sha256,
        "fit": model.receipt.id,
        "units": units,
        "seed": seed,
        "where": list(where),
        "rows": {name: frame.height for name, frame in tables.items()},
    }
    with replacing(place / RECORD) as temporary:
        temporary.write_text(json.dumps(record, indent=2), encoding="utf-8")
    return record


def pack(folder: Path, path: Path) -> None:
    """Packs the files of a folder into one zip file. The same files give the same bytes."""
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as packed:
        for each in sorted(folder.iterdir()):
            packed.writestr(zipfile.ZipInfo(each.name), each.read_bytes(), zipfile.ZIP_DEFLATED)
