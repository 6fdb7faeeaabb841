"""An order of generation from a public table, as a file or a frame.

The one rule: the table is public, or another one than the one that is to be protected.
"""

import os
from typing import Any

import numpy as np

from understudy.graphical import ordering
from understudy.tables.schema import Schema
from understudy.tables.table import read


def order_from(public_table: Any, schema: Schema | str | os.PathLike[str]) -> tuple[str, ...]:
    """An order of generation, causes first, guessed from a PUBLIC table of the same columns.

    Numbers count as they are, categories by the places of their values in the schema. Give the result to a method's
    `order`, or write it into the schema.

    Privacy:
        None. The table must be public, or another one than the one that is to be protected.
    """
    schema = Schema.of(schema)
    columns = read(public_table, schema).columns
    filled = [_filled(np.asarray(columns[name], dtype=np.float64)) for name in schema.names]
    return tuple(schema.names[i] for i in ordering.order_from(np.nan_to_num(np.stack(filled, axis=1))))


def _filled(column: np.ndarray) -> np.ndarray:
    """A column with its mean in place of what is missing or infinite."""
    known = np.isfinite(column)
    return np.where(known, column, column[known].mean() if known.any() else 0.0)
