"""Columns of pyarrow: each type that has a counterpart in polars is handed over, each other one is foreign.

The one rule: polars is given nothing on which it panics or overflows. Types are let through by name, instants travel as
whole numbers, and text is checked to be UTF-8, which pyarrow does not promise.
"""

from typing import Any

import polars as pl

from understudy.tables.structure import FoundColumn


def column_of_pyarrow(name: str, column: Any) -> FoundColumn:
    """One column of a pyarrow table; foreign if polars has no such type."""
    import pyarrow
    from pyarrow import types

    try:
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if types.is_decimal(column.type) and column.type.bit_width < 128:
            column = column.cast(pyarrow.decimal128(column.type.precision, column.type.scale))
        if types.is_timestamp(column.type) or types.is_date64(column.type):
            return _instants(name, column)
        if _is_text(column.type):
            return _text(name, column)
        if any(accepts(column.type) for accepts in _accepted()):
            return FoundColumn.typed(pl.Series(name, pl.from_arrow(column)))
    except Exception:  # whatever pyarrow raises may quote a cell
        pass
    return FoundColumn.foreign(name, len(column))


def _accepted() -> tuple[Any, ...]:
    from pyarrow import types

    return (
        types.is_null,
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_decimal128,
        types.is_date32,
        types.is_time,
    )


def _instants(name: str, column: Any) -> FoundColumn:
    import pyarrow

    ticks = pl.Series(name, pl.from_arrow(column.cast(pyarrow.int64())))
    unit = getattr(column.type, "unit", "ms")  # a date64 counts milliseconds
    return FoundColumn.from_ticks(ticks, unit, zoned=getattr(column.type, "tz", None) is not None)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _text(name: str, column: Any) -> FoundColumn:
    import pyarrow

    column = column.cast(pyarrow.large_string())
    try:
        column.validate(full=True)
    except pyarrow.ArrowInvalid:  # some cell is not UTF-8: each is decoded by itself
        cells = [_decoded(cell) for cell in column.cast(pyarrow.large_binary()).to_pylist()]
        texts = pl.Series(name, [cell or None for cell in cells], dtype=pl.String)
        return FoundColumn(series=texts, unreadable=pl.Series([cell is None for cell in cells], dtype=pl.Boolean))
    return FoundColumn(series=pl.Series(name, pl.from_arrow(column)))


def _decoded(cell: bytes | None) -> str | None:
    """The text of a cell, empty if it is null, None if it is not UTF-8."""
    try:
        return "" if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None
