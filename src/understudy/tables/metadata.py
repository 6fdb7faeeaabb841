"""Other people's plans in the words of ours: metadata of SDV, and domains of private-pgm.

The one rule: what they do not say is left out, never guessed. What comes back is a schema as TOML would hold it.

Sources: https://docs.sdv.dev/sdv (single-table metadata), https://github.com/ryan112358/private-pgm (domain files).
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from understudy.core.files import reason

_KINDS = {"categorical": "categorical", "boolean": "boolean", "datetime": "datetime"}


class ForeignError(ValueError):
    """It is not what it was said to be."""


def sdv(source: Any, *, nullable: Iterable[str] = (), max_rows_per_unit: int | None = None) -> dict[str, Any]:
    """A schema from SDV's single-table metadata, alone or as the one table of a `Metadata`.

    A primary key names a row, and a row is the unit anyway, so it is ignored, as are identifiers and every type
    that stands for a personal detail or for nothing known. A sequence key says whose row it is: that is a unit.
    """
    name, facts = _one_table(_content(source))
    columns = facts.get("columns")
    if not isinstance(columns, Mapping) or not columns:
        raise ForeignError('columns: expected SDV metadata with "columns", got none.')
    key = facts.get("sequence_key")
    if (key is None) != (max_rows_per_unit is None):
        got = f"a sequence key {key!r} alone" if key is not None else "max_rows_per_unit without a sequence key"
        raise ForeignError(
            f"sequence_key: expected it together with max_rows_per_unit, got {got}. All rows of one sequence are one "
            "person's, and only a bound on their number can protect them together."
        )
    keys = {facts.get("primary_key"), key}
    kinds = {column: _kind(column, said) for column, said in columns.items()}
    kept: dict[str, dict[str, Any]] = {
        column: {"kind": kind} for column, kind in kinds.items() if kind is not None and column not in keys
    }
    if not kept:
        raise ForeignError("columns: expected at least one that is no key and no personal detail, got none.")
    gaps = set(nullable)
    if gaps - set(kept):
        raise ForeignError(f"nullable: expected columns that are kept, got {sorted(gaps - set(kept))[0]!r}.")
    for column in gaps:
        kept[column]["nullable"] = True
    document: dict[str, Any] = {"columns": kept, **({"name": name} if name else {})}
    if ignored := [column for column in columns if column not in kept and column != key]:
        document["ignore"] = ignored
    return document | ({"unit": key, "max_rows_per_unit": max_rows_per_unit} if key is not None else {})


def domain(source: Any) -> dict[str, Any]:
    """A schema from {"column": size}: codes 0 to size - 1, as text."""
    columns = {}
    for name, size in _content(source).items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ForeignError(f"column {name!r}: expected a size, a whole number >= 1, got {size!r:.60}.")
        columns[name] = {"kind": "categorical", "values": [str(code) for code in range(size)]}
    return {"columns": columns}


def _content(source: Any) -> Mapping[str, Any]:
    if isinstance(source, Mapping):
        return source
    try:
        content = json.loads(Path(os.fspath(source)).read_text(encoding="utf-8"))
    except OSError as error:
        raise ForeignError(f"which cannot be read: {reason(error)}.") from None
    except (ValueError, RecursionError):
        raise ForeignError("which is not JSON.") from None
    if not isinstance(content, Mapping):
        raise ForeignError("which holds no JSON object.")
    return content


def _one_table(content: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    tables = content.get("tables")
    if tables is None:
        return None, content
    if not isinstance(tables, Mapping) or len(tables) != 1:
        raise ForeignError("tables: expected one table; a schema is of one. Give the part of one of them.")
    name, facts = next(iter(tables.items()))
    if not isinstance(facts, Mapping):
        raise ForeignError(f"table {name!r}: expected its metadata, got none.")
    return name, facts


def _kind(column: str, said: Any) -> str | None:
    """The kind of a column; None for what is not to be synthesized."""
    if not isinstance(said, Mapping) or not isinstance(said.get("sdtype"), str):
        raise ForeignError(f"column {column!r}: expected an sdtype, got none.")
    if said["sdtype"] == "numerical":
        whole = str(said.get("computer_representation", "")).lower().startswith(("int", "uint"))
        return "integer" if whole else "continuous"
    return _KINDS.get(said["sdtype"])
