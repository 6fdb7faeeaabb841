"""Broken rules: how many rows of a database break a constraint within a row, with their parent, or with the row before.

Privacy:
    Reads rows without noise. No budget covers what comes out.
"""

import operator
from collections.abc import Mapping, Sequence

import numpy as np

from understudy.evaluation.families import Families, Members
from understudy.tables.column import Column
from understudy.tables.database_context import years
from understudy.tables.database_schema import AgeRule, DatabaseSchema, LinkRule
from understudy.tables.rules import SyntheticRows
from understudy.tables.schema import Schema
from understudy.tables.table import Table
from understudy.tables.transitions import chain

_RELATIONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


def rows_of(schema: Schema, table: Table) -> SyntheticRows:
    """Rows with the text of every code: that of the schema, and of open categories that of the table."""
    closed = {column.name: column.labels for column in schema if column.labels is not None}
    return SyntheticRows(table.columns, {**table.labels, **closed})


def broken_within(schema: DatabaseSchema, tables: Mapping[str, Table]) -> dict[str, float]:
    """By constraint of a table, as "visits: discharge >= admission", the share of its rows that break it."""
    found = {}
    for name in schema.private:
        if not schema[name].columns:
            continue
        rows = rows_of(schema[name].schema, tables[name])
        for rule in schema[name].schema.constraints:
            kept = rule.holds(rows)
            found[f"{name}: {rule}"] = float(1 - kept.mean()) if len(kept) else 0.0
    return found


def broken_between(schema: DatabaseSchema, families: Families) -> dict[str, float]:
    """By constraint between rows, the share of the rows it speaks of that break it; a missing value breaks none."""
    found = {
        f"{each.table}.{each.column} {each.relation} {_base(each, schema)}": _broken(each, families)
        for each in schema.link_rules
    }
    for each in schema.age_rules:
        found[
            f"{each.table}.{each.column} = years({schema[each.table].parent}.{each.birth}, {each.table}.{each.at})"
        ] = _wrong_ages(each, families)
    for table in (schema[name] for name in schema.private):
        for column, allowed in table.transitions.items():
            members = families.tables[table.name]
            found[table.transition_rule(column)] = _wrong_transitions(table[column], allowed, members)
    return found


def _base(rule: LinkRule, schema: DatabaseSchema) -> str:
    return f"{'previous' if rule.previous else schema[rule.table].parent}.{rule.base}"


def _wrong_ages(rule: AgeRule, families: Families) -> float:
    members = families.tables[rule.table]
    parent = next(link.parent for link in families.links if link.table == rule.table)
    birth = families.tables[parent].side.numbers[rule.birth][members.parent]
    at, age = members.side.numbers[rule.at], members.side.numbers[rule.column]
    known = ~np.isnan(birth) & ~np.isnan(at) & ~np.isnan(age)
    wrong = age[known] != years(birth[known], at[known])
    return float(wrong.sum()) / max(len(age), 1)


def _wrong_transitions(column: Column, allowed: Mapping[str, Sequence[str]], members: Members) -> float:
    codes = members.side.codes[column.name]
    wrong = chain(column, allowed, column.labels or ()).broken(codes[members.pairs], codes[members.pairs + 1])
    return float(wrong.mean()) if len(wrong) else 0.0


def _broken(rule: LinkRule, families: Families) -> float:
    members = families.tables[rule.table]
    parent = next(link.parent for link in families.links if link.table == rule.table)
    column = members.side.numbers[rule.column]
    if rule.previous:
        column, base = column[members.pairs + 1], members.side.numbers[rule.base][members.pairs]
    else:
        base = families.tables[parent].side.numbers[rule.base][members.parent]
    known = ~np.isnan(column) & ~np.isnan(base)
    wrong = known & ~_RELATIONS[rule.relation](column, base)
    return float(wrong.mean()) if len(wrong) else 0.0
