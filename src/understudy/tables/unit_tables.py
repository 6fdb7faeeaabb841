"""A single table with several rows a person, as a database with an invisible parent.

Columns marked `per_unit` belong to the person, and the others to the rows. The one rule: both tables are the same
source, read twice. The parent takes one row of each unit, a random one, and reads its own columns alone.
"""

import dataclasses

from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.rules import Constraint, Implication, Inequality, Sum
from understudy.tables.schema import Schema
from understudy.tables.table_schema import TableSchema
from understudy.tables.values import SchemaError

UNITS, ROWS = "units", "rows"
"""The names of the invisible parent and of the rows."""


def has_unit_columns(schema: Schema) -> bool:
    """Whether some column of a schema belongs to the unit."""
    return any(column.per_unit for column in schema)


def as_database(schema: Schema) -> DatabaseSchema:
    """The schema of the two tables.

    Raises:
        SchemaError: A rule other than an inequality ties a column of the unit to one of the rows.
    """
    assert schema.unit is not None  # a schema with such columns has one
    of_units = [column.name for column in schema if column.per_unit]
    between = [rule for rule in schema.constraints if 0 < len(_columns(rule) & set(of_units)) < len(_columns(rule))]
    for rule in between:
        if not isinstance(rule, Inequality):
            raise SchemaError(f"constraints: {rule} ties a per_unit column to others. Only an inequality can do that.")
    tables = []
    for name in (UNITS, ROWS):
        own = [column for column in schema if column.per_unit == (name == UNITS)]
        names = {column.name for column in own}
        link = {"parent": UNITS, "foreign_key": schema.unit, "max_per_parent": schema.max_rows_per_unit}
        tables.append(
            TableSchema(
                name=name,
                columns=tuple(dataclasses.replace(column, per_unit=False) for column in own),
                ignore=(*schema.ignore, *(each for each in schema.names if each not in names)),
                missing=schema.missing,
                file=schema.file,
                constraints=tuple(rule for rule in schema.constraints if _columns(rule) <= names),
                **({"key": schema.unit} if name == UNITS else {**link, "rows": schema.rows}),
            )
        )
    rules = [_dotted(rule, of_units) for rule in between if isinstance(rule, Inequality)]
    return DatabaseSchema(tables=tuple(tables), unit=UNITS, name=schema.name, constraints=tuple(rules))


def _columns(rule: Constraint) -> set[str]:
    """The columns that a rule is about."""
    if isinstance(rule, Inequality):
        return {rule.left, rule.right}
    if isinstance(rule, Sum):
        return {rule.total, *rule.parts}
    if isinstance(rule, Implication):
        return {rule.then.column, *(each.column for each in rule.when)}
    return set(rule.columns)


def _dotted(rule: Inequality, of_units: list[str]) -> str:
    left, right = (f"{UNITS if name in of_units else ROWS}.{name}" for name in (rule.left, rule.right))
    return f"{left} {rule.relation} {right}"
