"""The plan of a fit of a database: what every table measures, and how they share one budget.

The one rule: it follows from the schema and the method alone. A table's share is in proportion to the columns that are
drawn in it; a child's columns count more, since one unit adds several rows there, and so does the number of children.
Of the share that a method gives to the encoder, a context column that is counted counts as `CONTEXT_WEIGHT` columns,
since its encoder is borrowed.
"""

import math
from collections.abc import Mapping

from understudy import encoding
from understudy.core.red_flag import RedFlag
from understudy.encoding.plan import context_plan
from understudy.privacy.plan import Budget, PlannedMechanism
from understudy.privacy.table_ledger import named
from understudy.synthesizers import FITTED
from understudy.synthesizers.base import FamilyMethod, GivenSampler, Method
from understudy.synthesizers.expected_time import expected_megabytes, expected_seconds
from understudy.synthesizers.red_flags import red_flags
from understudy.tables.database_design import Design, designs
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.values import SchemaError

CHILD_WEIGHT = 1.5
"""A column of a child counts as so many of the root's."""
COUNT_WEIGHT = 2.0
"""The number of children counts as so many columns: all rows of these tables follow from it."""
CONTEXT_WEIGHT = 0.15
"""A context column gets so much of the budget for encoders, where a column that is drawn gets 1."""

FAMILY_SECONDS = 0.1
"""A table of children that a method learns from drawn families takes this, times its own columns, times all of them."""

Designs = Mapping[str, Design]


def check_method(method: Method) -> None:
    """Refuses a method that cannot draw children given their parents.

    Raises:
        ValueError: It cannot; the message says which can.
    """
    if method.name not in able_methods() or not method.encoding_share:
        able = ", ".join(able_methods())
        raise ValueError(f"{method.name} cannot draw a table given its parent's. For a database use one of {able}.")


def designs_for(schema: DatabaseSchema, method: Method, epsilon: float) -> dict[str, Design]:
    """The designs of all tables for a fit by a method.

    Shares of categories are for methods that learn from families. A flat table has room for few columns, and a share
    takes the place of what says more: `mst` lost a quarter of its score on the hospital, and more.
    """
    return designs(schema, epsilon, shares=isinstance(method, FamilyMethod))


def planned_tables(designs: Designs, method: Method, budget: Budget) -> list[PlannedMechanism]:
    """Everything that a fit of a database will measure, table by table."""
    parts = shares(designs)
    found: list[PlannedMechanism] = []
    for name, design in designs.items():
        found += named(name, _planned(design, method, budget.delta * parts[name]), share=parts[name])
    return found


def shares(designs: Designs) -> dict[str, float]:
    """The part of the budget that each table gets."""
    weights = {}
    for name, each in designs.items():
        columns = len(each.own) + (COUNT_WEIGHT - 1.0) * len(each.counts)
        weights[name] = columns * (CHILD_WEIGHT if each.ancestors else 1.0)
    return {name: weight / math.fsum(weights.values()) for name, weight in weights.items()}


def _planned(design: Design, method: Method, delta: float) -> list[PlannedMechanism]:
    families = method if design.ancestors and isinstance(method, FamilyMethod) else None
    counted = [each for each in design.context if families is None or each.kind == "previous"]
    given = CONTEXT_WEIGHT * len(counted)
    share = method.encoding_share if families is None else families.family_encoding_share
    drawn = share * len(design.own) / (len(design.own) + given)
    return [
        *encoding.plan(design.own, share=drawn, delta=delta),
        *context_plan(len(counted), share=share - drawn),
        *(method.plan(design.flat) if families is None else families.plan_families(len(design.drawn))),
    ]


def seconds_of(designs: Designs, method: Method, plan: list[PlannedMechanism], rows: int) -> tuple[float, float]:
    """Seconds and megabytes to expect of all tables on two cores, each of so many rows unless its schema says."""
    seconds, megabytes = 0.0, 0.0
    for name, design in designs.items():
        own = [each for each in plan if each.name.startswith(f"{name}: ")]
        many = design.table.rows or rows
        if design.ancestors and isinstance(method, FamilyMethod):
            seconds += FAMILY_SECONDS * len(design.own) * len(design.flat)
            continue
        seconds += math.fsum(expected_seconds(design.flat, method, own, many))
        megabytes = max(megabytes, expected_megabytes(design.flat, method, many))
    return seconds, megabytes


def flags_of(
    schema: DatabaseSchema, method: Method, budget: Budget, *, rows: float | None = None, seed: int | None = None
) -> tuple[RedFlag, ...]:
    """The red flags of a fit of a database, each once; `rows` are the units, as far as their number is public."""
    found: dict[str, RedFlag] = {}
    for name in schema.private:
        if not schema[name].columns:
            continue
        for flag in red_flags(schema[name].schema, method, budget, rows=rows or schema.root.rows, seed=seed):
            if flag.name != "unit":  # the schema names it
                found.setdefault(str(flag), flag)
    return tuple(found.values())


def check_named(schema: DatabaseSchema, unnamed: str) -> None:
    """Refuses a schema without a name for a ledger, which goes by names."""
    if schema.name == unnamed:
        raise SchemaError('the schema has no name, and a ledger goes by names. Add `name = "..."` to it.')


def able_methods() -> list[str]:
    """The names of the methods that can draw children given their parents."""
    return [name for name, fitted in FITTED.items() if issubclass(fitted, GivenSampler)]
