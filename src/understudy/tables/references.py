"""References: columns of a table that hold the key of another one, and its name.

A key of one column is spelt `{ ward = "wards" }`; one of several stands in a list, beside others if there are any:
`[{ columns = ["site", "ward"], table = "wards" }, { columns = "doctor", table = "staff" }]`. Both become a mapping from
the name of the column, or from the names of several, to the name of the table. The one rule: both spellings of the same
references are the same mapping.
"""

from collections.abc import Mapping
from typing import Any

from understudy.tables.values import SchemaError, is_list, is_text, repeated, show

Pointer = str | tuple[str, ...]
"""The name of the column that holds a key, or the names of several, in the order of the key."""
EXPECTED = (
    'expected references such as { district = "districts" }, or for keys of several columns [{ columns = ["site", '
    '"ward"], table = "wards" }]'
)


def columns_of(pointer: Pointer) -> tuple[str, ...]:
    """The columns that hold a key."""
    return (pointer,) if isinstance(pointer, str) else pointer


def name_of(pointer: Pointer) -> str:
    """What a reference is called: the names of its columns."""
    return ", ".join(columns_of(pointer))


def read_references(given: object) -> dict[Pointer, str]:
    """References in their one form.

    Raises:
        SchemaError: They are spelt in another way, or a column is in two of them.
    """
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif is_list(given) and all(isinstance(each, Mapping) and set(each) == {"columns", "table"} for each in given):
        pairs = [(each["columns"], each["table"]) for each in given]
    else:
        raise SchemaError(f"{EXPECTED}, got {show(given)}.")
    found = [(_pointer(columns), table) for columns, table in pairs]
    for _, table in found:
        if not is_text(table):
            raise SchemaError(f"{EXPECTED}, got {show(table)} as a table.")
    if (twice := repeated([name for pointer, _ in found for name in columns_of(pointer)])) is not None:
        raise SchemaError(f"expected each column in one of the references, got {twice!r} twice.")
    return dict(found)


def _pointer(given: Any) -> Pointer:
    listed = (given,) if isinstance(given, str) else given
    if not is_list(listed) or not len(listed) or not all(map(is_text, listed)):
        raise SchemaError(f"{EXPECTED}, got {show(given)} as columns.")
    return listed[0] if len(listed) == 1 else tuple(listed)


def stated(references: Mapping[Pointer, str]) -> dict[str, str] | list[dict[str, Any]]:
    """References as TOML writes them: the short form if every key has one column."""
    short = {pointer: table for pointer, table in references.items() if isinstance(pointer, str)}
    if len(short) == len(references):
        return short
    return [
        {"columns": pointer if isinstance(pointer, str) else list(pointer), "table": table}
        for pointer, table in references.items()
    ]
