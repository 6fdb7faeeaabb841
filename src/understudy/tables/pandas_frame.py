"""Columns of pandas: numbers and instants as arrays, everything else cell by cell.

The one rule: what pandas calls the type of a column is inferred from its cells, so one row more may turn whole numbers
into fractions and fractions into objects. Every cell is therefore read as it would be in a column of objects
(cells.py), and arrays are a faster way to the same values. Only columns that are made of pyarrow need it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from understudy.tables import instants
from understudy.tables.cells import BLANK, as_written
from understudy.tables.pyarrow_table import column_of_pyarrow
from understudy.tables.structure import FoundColumn


def column_of_pandas(series: Any) -> FoundColumn:
    """One column of a pandas frame."""
    import pandas

    name, dtype = series.name, series.dtype
    if isinstance(dtype, pandas.SparseDtype):
        return column_of_pandas(series.sparse.to_dense())
    if isinstance(dtype, pandas.CategoricalDtype):
        return _categories(name, list(dtype.categories), series.cat.codes.to_numpy())
    if isinstance(dtype, pandas.ArrowDtype):
        found = column_of_pyarrow(name, series.array.__arrow_array__())
        untyped = found.series.dtype != pl.Object  # which stands for a foreign type
        return FoundColumn(series=found.series, unreadable=found.unreadable, untyped=untyped)
    if isinstance(dtype, pandas.DatetimeTZDtype):
        values = series.to_numpy(dtype=f"datetime64[{dtype.unit}]")
        return _instants(name, values, zoned=True)
    if isinstance(dtype, np.dtype) and dtype.kind == "M":
        return _instants(name, series.to_numpy(), zoned=False)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return FoundColumn(series=_numbers(name, series.to_numpy()), untyped=True)
    numpy_dtype = getattr(dtype, "numpy_dtype", None)
    if numpy_dtype is not None and dtype.kind in "biuf":  # a nullable type of pandas: Int64, boolean, Float32
        blank = pl.Series(series.isna().to_numpy())
        numbers = _numbers(name, series.to_numpy(dtype=numpy_dtype, na_value=0))
        return FoundColumn(series=numbers.set(blank, None), untyped=True)
    return _objects(name, series.to_numpy(dtype=object).tolist())


def _numbers(name: str, values: np.ndarray) -> pl.Series:
    kind = values.dtype.newbyteorder("=") if values.dtype.kind != "f" else np.dtype(np.float64)
    with np.errstate(all="ignore"):  # a long double may be too large
        return pl.Series(name, values.astype(kind, copy=False))


def _instants(name: str, values: np.ndarray, *, zoned: bool) -> FoundColumn:
    unit, _ = np.datetime_data(values.dtype)
    ticks = pl.Series(name, values.view(np.int64)).set(pl.Series(np.isnat(values)), None)
    return FoundColumn.from_ticks(ticks, unit, zoned=zoned, untyped=True)


def _objects(name: str, cells: Sequence[Any]) -> FoundColumn:
    texts = pl.Series(name, _texts(cells), dtype=pl.String)
    return FoundColumn(series=texts, unreadable=texts.is_null(), untyped=True)


def _categories(name: str, categories: Sequence[Any], codes: np.ndarray) -> FoundColumn:
    """A categorical column; its code of a missing cell, -1, takes the blank that is put at the end."""
    places = np.where(codes < 0, len(categories), codes.astype(np.int64))
    texts = pl.Series(name, [*_texts(categories), BLANK], dtype=pl.String).gather(places)
    return FoundColumn(series=texts, unreadable=texts.is_null(), untyped=True)


def _texts(cells: Sequence[Any]) -> list[str | None]:
    """Each cell as a person would write it, `BLANK` for nothing and None if it is unreadable."""
    import pandas

    nothing, moment, library = (pandas.NA, pandas.NaT), pandas.Timestamp, (pandas.Period, pandas.Interval)

    def text(cell: Any) -> str | None:
        if any(cell is each for each in nothing):
            return BLANK
        try:
            if issubclass(type(cell), moment):
                return instants.written_datetime64(cell.to_datetime64(), zoned=cell.tzinfo is not None)
            return str(cell) if type(cell) in library else as_written(cell)
        except Exception:  # the end of what pandas can write
            return None

    return [cell if type(cell) is str and cell.isascii() else text(cell) for cell in cells]
