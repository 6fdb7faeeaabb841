"""Where a file of synthetic rows comes from: a record beside it, and the proof that it is true.

`understudy sample` draws rows by a seed, its own if none is given, and writes beside them, as FILE.json, which model
they come from and how they were drawn. The one rule: the record is a claim and not the evidence. A report draws the
rows again from its own model and compares them, all of them; only then does the receipt cover the file.
"""

import dataclasses
import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from understudy.core.files import replacing, sha256
from understudy.core.version import __version__
from understudy.databases.model import DatabaseModel
from understudy.model import Model
from understudy.tables.sources import extension
from understudy.tables.where import where_from_text
from understudy.tables.writing import write

HEADER = {"kind": "understudy-rows", "format": 1}
MOST_REDRAWN = 2_000_000
"""Files of more rows are not drawn again, so they are not known to come from a model."""


class RecordError(ValueError):
    """The record of drawn rows cannot be written."""


def record_path(path: str | os.PathLike[str]) -> Path:
    """The place of the record of a file: FILE.json."""
    return Path(f"{os.fspath(path)}.json")


def check_record_place(path: str | os.PathLike[str]) -> None:
    """Refuses a place whose record would replace a file that is no record.

    Raises:
        RecordError: There is such a file.
    """
    place = record_path(path)
    if place.exists() and _read(place) is None:
        raise RecordError(f"{place} exists and is no record of drawn rows. Give another name for the rows.")


def write_record(
    path: str | os.PathLike[str],
    model: Model | DatabaseModel,
    *,
    model_sha256: str,
    rows: int,
    seed: int,
    where: Sequence[str] = (),
    rules: Sequence[str] = (),
) -> Path:
    """Writes the record of rows that were just drawn, and returns its place.

    Args:
        path: The file of the rows.
        model: What they were drawn from.
        model_sha256: Of the model's file.
        rows: How many were drawn.
        seed: How they were drawn; whoever has the model can draw them again, which costs nothing.
        where: The conditions, as the command line has them.
        rules: Further constraints that the rows keep, likewise.
    """
    content = {
        **HEADER,
        "understudy": __version__,
        "file": Path(path).name,
        "sha256": sha256(Path(path).read_bytes()),
        "fit": model.receipt.id,
        "model_sha256": model_sha256,
        "rows": rows,
        "seed": seed,
        "where": list(where),
        "rules": list(rules),
    }
    place = record_path(path)
    with replacing(place) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    return place


def drawn_again(path: str | os.PathLike[str], model: Model) -> tuple[bool, str]:
    """Whether a file holds rows that this model draws, and how that is known or why not, in words.

    Privacy:
        Reads the file, which may be anything, and says of it only whether it equals rows drawn from the model.
    """
    record = _read(record_path(path))
    if record is None:
        return False, "without a record of where they were drawn"
    if not model.receipt.id or record["fit"] != model.receipt.id:
        return False, "with a record that names another fit"
    if record["rows"] > MOST_REDRAWN:
        return False, f"in more than {MOST_REDRAWN} rows, too many to be drawn again"
    try:
        options: dict[str, Any] = {"where": where_from_text(record["where"], model.schema)}
        options |= {"rules": record["rules"]} if record["rules"] else {}
        again = dataclasses.replace(model, kind="polars").sample(record["rows"], record["seed"], **options)
        same = _is_same(Path(path), again, model)
    except (ValueError, TypeError, OSError, EOFError, zlib.error, pl.exceptions.PolarsError):
        return False, "with a record by which they cannot be drawn again"
    if not same:
        return False, "with a record by which the model draws other rows"
    return True, f"drawn from the model with seed {record['seed']}, and found equal when drawn again"


def _is_same(path: Path, drawn: pl.DataFrame, model: Model) -> bool:
    """Whether a file holds exactly these rows, as it would be written."""
    ending = extension(path)
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / f"again{ending}"
        write(drawn, again, model.schema)
        if ending == ".parquet":
            return pl.read_parquet(path).equals(pl.read_parquet(again))
        if ending.endswith(".gz"):
            return gzip.decompress(path.read_bytes()) == gzip.decompress(again.read_bytes())
        return path.read_bytes() == again.read_bytes()


def _read(path: Path) -> dict[str, Any] | None:
    """A record, if there is one at this place that is whole."""
    try:
        content = json.loads(path.read_bytes().decode())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or any(content.get(key) != value for key, value in HEADER.items()):
        return None
    kinds = {"fit": str, "rows": int, "seed": int, "where": list, "rules": list}
    whole = all(isinstance(content.get(key), kind) and content[key] is not True for key, kind in kinds.items())
    texts = whole and all(isinstance(text, str) for text in (*content["where"], *content["rules"]))
    return content if texts and content["rows"] >= 0 and content["seed"] >= 0 else None
