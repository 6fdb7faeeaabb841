"""The way into drafting: a table in, the text of a schema out."""

import os
from collections.abc import Mapping
from typing import Any

from understudy.core.files import reason, replacing
from understudy.tables.drafting.database import draft_database, is_database
from understudy.tables.drafting.database_writing import written_database
from understudy.tables.drafting.draft import draft_of
from understudy.tables.drafting.writing import written
from understudy.tables.values import SchemaError


def draft_text(table: Any, *, to: str | os.PathLike[str] | None = None, file: Mapping[str, Any] | None = None) -> str:
    """The TOML text of the draft for a path or a frame, or for several tables; also written to a file if one is named.

    Raises:
        TableError: A table cannot be read, has no rows, or has two columns of the same name; or no key connects tables.
        SchemaError: The file cannot be written.
    """
    text = written_database(draft_database(table)) if is_database(table) else written(draft_of(table, file))
    if to is not None:
        try:
            with replacing(to) as temporary:
                temporary.write_bytes(text.encode())
        except (OSError, ValueError) as error:
            raise SchemaError(f"{os.fspath(to)} cannot be written: {reason(error)}.") from None
    return text
