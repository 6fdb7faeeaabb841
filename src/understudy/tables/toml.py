"""Schemas as TOML documents: the text of a file, its keys, and the fields that are worth writing.

The one rule: an unknown key is refused, never skipped, so that a misspelt bound cannot be lost in silence.

TOML is read with the standard library (https://toml.io/en/v1.0.0) and written with tomli_w.
"""

import dataclasses
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.files import reason
from understudy.core.text import did_you_mean
from understudy.tables.column import KINDS, Column
from understudy.tables.hierarchies import LEVEL_FILES, Hierarchy, read_levels
from understudy.tables.values import SchemaError, show

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Document = Mapping[str, Any]
"""A TOML document: the values are whatever TOML can hold, and the fields they become check them."""

_LONG_KEY = re.compile(r"""(?:\.[ \t]*[\w"'-][^.=\],\n]*){100}""")
"""A hundred parts of a dotted key. Numbers in a list have a comma between them."""
_COLUMN_KEYS = [field.name for field in dataclasses.fields(Column) if field.name != "name"]


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a TOML file.

    Raises:
        SchemaError: The file cannot be read, or is not UTF-8.
    """
    source = os.fspath(path)
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError(f"{source}: expected UTF-8 text, as TOML requires.") from None
    except (OSError, ValueError) as error:
        raise SchemaError(f"{source} cannot be read: {reason(error)}.") from None


def parse(text: str, source: str) -> Document:
    """The document that a TOML text spells; `source` is what an error calls it."""
    if _LONG_KEY.search(text):  # its parts would be read again and again, for hours
        raise SchemaError(f"{source} is not valid here: a key has a hundred parts or more.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{source} is not valid TOML: {error}.") from None


def fields_of(document: Document, known: Sequence[str], *, may_be_empty: bool = False) -> dict[str, Any]:
    """The fields of a schema from a document, its columns made.

    Args:
        document: A parsed TOML file, or metadata translated into the same form.
        known: The names of the fields.
        may_be_empty: Whether there may be no column, as in a table of keys.

    Raises:
        SchemaError: A key is unknown, or a column is wrong.
    """
    check_keys("top level", document, known)
    tables = document.get("columns", {} if may_be_empty else None)
    if not isinstance(tables, dict) or not (tables or may_be_empty):
        raise SchemaError("columns: expected at least one table such as [columns.age].")
    return {**document, "columns": tuple(_column(name, table) for name, table in tables.items())}


def with_level_files(document: Document, folder: str) -> Document:
    """The document with every `levels = "FILE.csv"` replaced by the table in that file."""
    tables = document.get("columns")
    if not isinstance(tables, dict):
        return document
    columns = {}
    for name, table in tables.items():
        named = table.get("levels") if isinstance(table, dict) else None
        if isinstance(named, str) and named.lower().endswith(LEVEL_FILES):
            levels = read_levels(os.path.join(folder, named), f"column {name!r}, levels")
            columns[name] = {**table, "levels": levels}
        else:
            columns[name] = table
    return {**document, "columns": columns}


def _column(name: str, table: object) -> Column:
    place = f"column {name!r}"
    if not isinstance(table, dict):
        raise SchemaError(f"{place}: expected a table [columns.{name}], got {show(table)}.")
    check_keys(place, table, _COLUMN_KEYS)
    if "kind" not in table:
        raise SchemaError(f"{place}: expected a kind, one of {', '.join(KINDS)}, got none.")
    return Column(name=name, **table)


def check_keys(place: str, table: Document, known: Sequence[str]) -> None:
    """Refuses a key that is not known."""
    for key in table:
        if key not in known:
            raise SchemaError(f"{place}: unknown key {key!r}.{did_you_mean(key, known)} Known: {', '.join(known)}.")


def stated(owner: "DataclassInstance", *, leave_out: str) -> dict[str, Any]:
    """The fields of a schema or a column that differ from their defaults, as TOML writes them; a name is always one."""
    found = {}
    for field in dataclasses.fields(owner):
        value = getattr(owner, field.name)
        if field.name != leave_out and (value != field.default or field.name == "name"):
            written = value.written() if isinstance(value, Hierarchy) else value
            found[field.name] = list(written) if isinstance(written, tuple) else written
    return found
