"""Metadata of other libraries as schemas: single-table metadata of SDV, and domains of private-pgm.

The one rule: what they do not say is left out, never guessed. Each function returns a schema as TOML would hold it.

Sources: https://docs.sdv.dev/sdv (single-table metadata), https://github.com/ryan112358/private-pgm (domain files).
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from understudy.core.files import reason
from understudy.core.settings import Whole
from understudy.tables.values import SchemaError

Source = Mapping[str, Any] | str | os.PathLike[str]
"""Metadata as a dictionary, or the path of its JSON file."""

_KINDS = {
    "categorical": "categorical",
    "ordinal": "categorical",
    "boolean": "boolean",
    "datetime": "datetime",
}


def sdv(source: Source, *, nullable: Iterable[str] = (), max_rows_per_unit: int | None = None) -> dict[str, Any]:
    """A schema from SDV's single-table metadata, alone or as the only table of a `Metadata`.

    A primary key identifies a row, which is the unit anyway, so it is ignored. Identifiers, personal details and
    columns of unknown type are ignored too. A sequence key says whose row it is, so it becomes the unit. Ranges and
    values, which SDV 2 finds in the cells, say of which kind a column is and nothing else: they are measured.

    Raises:
        SchemaError: It is no such metadata.
    """
    name, facts = one_table(content_of(source))
    columns = facts.get("columns")
    if not isinstance(columns, Mapping) or not columns:
        raise SchemaError('columns: expected SDV metadata with "columns", got none.')
    key = facts.get("sequence_key")
    if (key is None) != (max_rows_per_unit is None):
        got = f"a sequence key {key!r} alone" if key is not None else "max_rows_per_unit without a sequence key"
        raise SchemaError(
            f"sequence_key: expected it together with max_rows_per_unit, got {got}. All rows of one sequence belong to "
            "one person, and they can be protected together only if their number is bounded."
        )
    keys = (facts.get("primary_key"), key)
    kinds = {column: _kind(column, said) for column, said in columns.items()}
    kept: dict[str, dict[str, Any]] = {
        column: {"kind": kind} for column, kind in kinds.items() if kind is not None and column not in keys
    }
    if not kept:
        raise SchemaError("columns: expected at least one that is no key and no personal detail, got none.")
    gaps = set(nullable)
    if gaps - set(kept):
        raise SchemaError(f"nullable: expected columns that are kept, got {sorted(gaps - set(kept))[0]!r}.")
    for column in gaps:
        kept[column]["nullable"] = True
    document: dict[str, Any] = {"columns": kept, **({"name": name} if name else {})}
    if ignored := [column for column in columns if column not in kept and column != key]:
        document["ignore"] = ignored
    return document | ({"unit": key, "max_rows_per_unit": max_rows_per_unit} if key is not None else {})


def domain(source: Source) -> dict[str, Any]:
    """A schema from {"column": size}: the categories are the codes 0 to size - 1, as text.

    Raises:
        SchemaError: It is no such domain.
    """
    columns = {}
    for name, size in content_of(source).items():
        if not Whole(least=1).holds(size):
            raise SchemaError(f"column {name!r}: expected a size, a whole number >= 1, got {size!r:.60}.")
        columns[name] = {"kind": "categorical", "values": [str(code) for code in range(size)]}
    return {"columns": columns}


def content_of(source: Source) -> Mapping[str, Any]:
    """Metadata as a dictionary, which it is or which its file holds."""
    if isinstance(source, Mapping):
        return source
    try:
        content = json.loads(Path(os.fspath(source)).read_text(encoding="utf-8"))
    except OSError as error:
        raise SchemaError(f"which cannot be read: {reason(error)}.") from None
    except (ValueError, RecursionError):
        raise SchemaError("which is not JSON.") from None
    if not isinstance(content, Mapping):
        raise SchemaError("which holds no JSON object.")
    return content


def one_table(content: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    """The name, if it has one, and the metadata of the only table."""
    tables = content.get("tables")
    if tables is None:
        return None, content
    if not isinstance(tables, Mapping) or len(tables) != 1:
        raise SchemaError("tables: expected one table, got several or none. Pass the metadata of one of them.")
    name, facts = next(iter(tables.items()))
    if not isinstance(facts, Mapping):
        raise SchemaError(f"table {name!r}: expected its metadata, got none.")
    return name, facts


def _kind(column: str, said: object) -> str | None:
    """The kind of a column; None if it is not to be synthesized."""
    if not isinstance(said, Mapping) or not isinstance(said.get("sdtype"), str):
        raise SchemaError(f"column {column!r}: expected an sdtype, got none.")
    if said["sdtype"] == "numerical":
        whole = str(said.get("computer_representation", "")).lower().startswith(("int", "uint"))
        return "integer" if whole or said.get("decimal_places") == 0 else "continuous"
    values = said.get("range_values")
    if isinstance(values, list) and values and all(isinstance(value, bool) for value in values):
        return "boolean"
    return _KINDS.get(said["sdtype"])
