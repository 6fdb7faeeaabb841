"""Frames: the columns of a schema out of a pandas, polars or pyarrow table.

Frames are recognised with narwhals, so that pandas and pyarrow are needed only by those who use them. A polars or
pyarrow column has the type it declares, and a type that cannot hold a kind is refused. What pandas calls a column's
type follows from its cells, so there each cell is read by itself (pandas_frame.py).
"""

from collections.abc import Sequence
from typing import Any

import polars as pl

from understudy.tables.files import polars_errors
from understudy.tables.pandas_frame import column_of_pandas
from understudy.tables.pyarrow_table import column_of_pyarrow
from understudy.tables.schema import Schema
from understudy.tables.structure import FoundColumn, Source, TableError, check_names, wanted


def load_frame(source: Any, schema: Schema) -> Source:
    """The columns of the schema, and its unit, out of a frame."""
    import narwhals as nw  # a fit from a file does without it

    native: Any = nw.to_native(source, pass_through=True)
    is_a = nw.dependencies
    if is_a.is_polars_dataframe(native) or is_a.is_polars_lazyframe(native):
        kind, names, load = "polars", _names_of_polars(native), _load_polars
    elif is_a.is_pandas_dataframe(native):
        kind, names, load = "pandas", list(native.columns), _load_pandas
    elif is_a.is_pyarrow_table(native):
        kind, names, load = "pyarrow", list(native.column_names), _load_pyarrow
    else:
        raise TableError(
            "expected a path or a pandas, polars or pyarrow table, "
            f"got {type(native).__module__.split('.')[0]}.{type(native).__name__}."
        )
    name = f"the {kind} table"
    if not all(isinstance(column, str) for column in names):
        raise TableError(f"{name}: expected the names of its columns to be text.")
    check_names(names, schema, name)
    return load(native, wanted(schema), name)


def _names_of_polars(frame: pl.DataFrame | pl.LazyFrame) -> list[str]:
    with polars_errors("the polars table", "a table"):
        return frame.collect_schema().names()


def _load_polars(frame: Any, names: Sequence[str], name: str) -> Source:
    with polars_errors(name, "a table"):
        columns = frame.lazy().select(names).collect()
    return Source(columns={series.name: FoundColumn.typed(series) for series in columns}, kind="polars", name=name)


def _load_pandas(frame: Any, names: Sequence[str], name: str) -> Source:
    return Source(columns={each: column_of_pandas(frame[each]) for each in names}, kind="pandas", name=name)


def _load_pyarrow(table: Any, names: Sequence[str], name: str) -> Source:
    columns = {each: column_of_pyarrow(each, table.column(each)) for each in names}
    return Source(columns=columns, kind="pyarrow", name=name)
