"""Conditions on the rows to be sampled: the `where` of `Model.sample` and of the command line.

The one rule: a condition is checked against the schema and the model before any row is drawn.
"""

from collections.abc import Iterable, Mapping, Sequence

from understudy.tables.constraints import ConstraintError, literal, read_condition
from understudy.tables.rules import Condition
from understudy.tables.schema import Schema


def read_where(
    where: Mapping[str, object] | None, schema: Schema, labels: Mapping[str, Sequence[str]]
) -> list[Condition]:
    """The conditions that sampled rows are to meet.

    Args:
        where: For each column a value, a pair (low, high) of numbers or instants in which None is open, several
            categories, or None for a missing cell.
        labels: The categories that the model knows.

    Raises:
        ConstraintError: A condition names no column, cannot hold, or asks for a category that the model lacks.
    """
    if where is not None and not isinstance(where, Mapping):
        raise ConstraintError(f'where: expected a dictionary such as {{"state": "CA"}}, got {type(where).__name__}.')
    found = []
    for name, value in (where or {}).items():
        try:
            condition = read_condition(schema.by_name, name, value)
        except ValueError as error:
            raise ConstraintError(f"where: {error}") from None
        unknown = [v for v in condition.values if isinstance(v, str) and v not in labels.get(name, (v,))]
        if unknown:
            raise ConstraintError(
                f"where: expected {name!r} to be a category that the model knows, got {unknown[0]!r}."
            )
        found.append(condition)
    return found


def where_from_text(pairs: Iterable[str], schema: Schema) -> dict[str, object]:
    """`where` from texts such as state=CA, age=30..40, age=..40 and income= (missing)."""
    where: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or name in where:
            wrong = f"{name!r} twice" if equals else repr(pair)
            raise ConstraintError(
                f"where: expected each column once, as column=value or column=low..high, got {wrong}."
            )
        try:
            numeric = schema[name].is_numeric
        except ValueError as error:
            raise ConstraintError(f"where: {error}") from None
        if not text:
            where[name] = None
        elif numeric and ".." in text:
            low, _, high = text.partition("..")
            where[name] = (literal(low), literal(high))
        else:
            where[name] = literal(text) if numeric else text
    return where
