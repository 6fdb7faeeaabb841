"""Settings that all ways of training share: orders of generation, and the public sampling rate of batches.

The one rule: nothing here is heavy. A method is configured and planned without JAX.
"""

from understudy.core.settings import Satisfies
from understudy.tables.schema import Schema
from understudy.tables.values import SchemaError

ROWS = 10_000
"""The sampling rate must be public, so a schema without a number of rows is planned for this many."""
LARGEST_BATCH = 2.0
"""A batch holds at most this many times the wanted number of rows, however many rows there turn out to be."""

Order = str | tuple[str, ...]
"""An order of generation: a word that says where it comes from, or the names of all columns."""


def order_or(*words: str) -> Satisfies:
    """The constraint on an order of generation: one of some words, or the names of columns."""

    def holds(value: object) -> bool:
        return value in words if isinstance(value, str) else _are_names(value)

    return Satisfies(f"one of {', '.join(words)}, or the names of columns", holds)


def _are_names(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(name, str) for name in value)


def require_all_columns(order: Order, schema: Schema) -> None:
    """Refuses an order that does not name every column of the schema once."""
    if not isinstance(order, str) and sorted(order) != sorted(schema.names):
        raise SchemaError(f"order: expected every column once, got {', '.join(order)}.")


def sampling_rate(batch_size: int, schema: Schema) -> float:
    """The probability that a row is drawn into a batch, a function of public facts."""
    return min(1.0, batch_size / (schema.rows or ROWS))


def drawn_rate(batch_size: int, schema: Schema, rows: float) -> float:
    """The probability that rows are drawn with once their number is known, so that no batch is much too large.

    It is never above the rate that is charged. A schema that does not give the number of rows is charged for the rate
    of a small table; a large one is then trained on in batches that end within the day, at more noise than necessary.
    """
    return min(sampling_rate(batch_size, schema), LARGEST_BATCH * batch_size / max(rows, 1.0))
