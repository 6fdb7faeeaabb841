"""The content of a report about a database: its keys, its tables, children per parent, and histories side by side.

The one rule: as on a page about one table, what follows from the model is covered by its receipt, and whatever comes
from real rows lies under "utility", with its stamp.
"""

import dataclasses
import os
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from understudy.core.version import __version__
from understudy.databases.model import DatabaseModel
from understudy.evaluation.database import opened_families
from understudy.evaluation.evaluate import NOT_COVERED, evaluate
from understudy.evaluation.families import Link
from understudy.privacy.calibration import planned_charges
from understudy.privacy.ledger import Ledger
from understudy.privacy.ledger_file import LedgerFile
from understudy.privacy.shares import by_planned_mechanism
from understudy.report.content import FORMAT, GIVEN, as_text, histogram, summaries
from understudy.report.privacy import (
    NOT_COVERED as NOT_PROMISED,
)
from understudy.report.privacy import (
    attacker,
    column_facts,
    profile_of,
)
from understudy.report.record import checklist, ledger_part, record_part
from understudy.synthesizers.relational.planning import planned_tables
from understudy.tables.column import Column
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.families import sources_of
from understudy.tables.references import name_of
from understudy.tables.table import read
from understudy.tables.unit_tables import ROWS, UNITS
from understudy.tables.writing import to_frame

MOST_UNITS = 5_000
"""At most so many units are drawn by default; fewer if fewer were fitted, as far as the noisy count tells."""
HISTORIES = 8
"""So many histories of each table are drawn, the longest of the first `CANDIDATES` units."""
CANDIDATES = 100
MOST_SHOWN = 3
"""So many columns of a history are shown beside its times."""


def gather_database(
    model: DatabaseModel,
    synthetic: Any,
    *,
    units: int | None,
    real: Any,
    train: Any,
    ledger: LedgerFile | None,
    seed: int,
    model_file: Any,
) -> dict[str, Any]:
    """The whole content of a report about a database, in types that JSON has.

    Args:
        synthetic: The tables to show; None: drawn from the model.
        units: How many units to draw.
        real, train: Databases to compare with, as for `evaluate`.
    """
    drawn = synthetic is None
    if synthetic is None:
        synthetic = dataclasses.replace(model, kind="polars", single=None).sample(units or units_shown(model), seed)
    book = None if ledger is None else ledger.path
    given = {"synthetic rows": None if drawn else synthetic, "real rows": real, "training rows": train}
    record = record_part(
        model, model_file=model_file, files={"ledger": book, **{k: _file(v) for k, v in given.items()}}
    )
    synthetic, real, train = (_tables(each, model) for each in (synthetic, real, train))
    privacy = privacy_of_database(model, ledger)
    schema, empty = _with_rows(model.schema, synthetic) if drawn else (model.schema, [])
    kept = {name: synthetic[name] for name in synthetic if name not in empty} if drawn else synthetic
    shown: dict[str, Any] = {**described(schema, {"synthetic": kept}), "empty": empty}
    stamp = {"covered_by_budget": drawn, "note": None if drawn else GIVEN, "doubt": None}
    source = f"drawn from the model with seed {seed}" if drawn else "from given tables"
    content = {
        "kind": "understudy-report",
        "format": FORMAT,
        "what": "database",
        "table": model.schema.name,
        "record": record,
        "privacy": privacy,
        "checklist": checklist(privacy, record),
        "keys": key_graph(model.schema),
        "synthetic": {"from": source, "rows": shown["units"]["synthetic"], **stamp},
        "database": shown,
    }
    if real is None:
        return content | {"utility": None}
    found = evaluate(real, synthetic, model.schema, train=train, seed=seed)
    utility = {**found.to_json(), "note": NOT_COVERED, "seed": seed}
    return content | {
        "utility": utility | {"database": described(model.schema, {"real": real, "synthetic": synthetic})}
    }


def units_shown(model: DatabaseModel) -> int:
    """How many units a page shows by default: about as many as were fitted, and at most `MOST_UNITS`."""
    return min(max(round(model.tables[model.schema.unit].encoder.rows), 1), MOST_UNITS)


def _tables(given: Any, model: DatabaseModel) -> Any:
    """The tables of a database; of a single one whose units have columns of their own, its units and its rows."""
    if model.single is None or given is None or isinstance(given, Mapping):
        return given
    schema = model.schema[UNITS].with_keys
    table = read(given, schema, covered=False)
    of_unit, first = np.unique(table.columns[model.schema[UNITS].key[0]], return_index=True)
    first = np.sort(first[of_unit >= 0])  # a row without an id belongs to nobody
    columns = {name: cells[first] for name, cells in table.columns.items()}
    labels = {column.name: column.labels or table.labels.get(column.name, ()) for column in schema}
    return {UNITS: to_frame(columns, schema, labels, "polars"), ROWS: given}


def _with_rows(schema: DatabaseSchema, drawn: Mapping[str, Any]) -> tuple[DatabaseSchema, list[str]]:
    """The tables of which rows were drawn, and the names of the others: of few units, noise may leave no child."""
    empty = [name for name in schema.private if not drawn[name].height]
    if not empty:
        return schema, empty
    kept = {}
    for table in (each for each in schema if each.name not in empty):
        references = {column: other for column, other in table.references.items() if other not in empty}
        kept[table.name] = dataclasses.replace(table, references=references)
    return dataclasses.replace(schema, tables=kept, constraints=()), empty


def _file(given: Any) -> Any:
    """What a record names: a path, or a table in memory."""
    return given if given is None or isinstance(given, str | os.PathLike) else object()


# Privacy ------------------------------------------------------------------------------------------------------------


def privacy_of_database(model: DatabaseModel, ledger: LedgerFile | None) -> dict[str, Any]:
    """All that the page says about privacy, in the same shape as for one table."""
    receipt, schema = model.receipt, model.schema
    planned = planned_tables(model.designs, model.method, receipt.budget)
    sampled = any(each.sampling_rate for each in (*planned, *receipt.charges))
    rules = [f"{table.name}: {rule}" for table in schema if table.columns for rule in table.schema.constraints]
    rules += [table.transition_rule(column) for table in schema for column in table.transitions]
    units = schema.root.rows
    return {
        "promise": receipt.promise,
        "epsilon": receipt.budget.epsilon,
        "delta": receipt.budget.delta,
        "spent": {"epsilon": receipt.epsilon, "delta": receipt.delta, "rdp_epsilon": receipt.rdp_epsilon},
        "adjacency": receipt.adjacency,
        "unit": receipt.unit,
        "max_rows_per_unit": receipt.max_rows_per_unit,
        "attacker": attacker(receipt.budget, gaussian=not sampled),
        "void": list(receipt.void),
        "seed": receipt.seed,
        "noise_source": receipt.noise_source,
        "warnings": list(receipt.warnings),
        "not_released": receipt.not_released,
        "by_mechanism": by_planned_mechanism(receipt.charges),
        "charges": [{**dataclasses.asdict(charge), "sigma": charge.sigma} for charge in receipt.charges],
        "columns": [
            column_facts(column) | {"name": f"{table.name}.{column.name}"}
            for table in schema
            if not table.public
            for column in table.columns
        ],
        "rows": {"public": units, "measured": None if units else model.tables[schema.unit].encoder.rows},
        "method": {"name": model.method.name, **dataclasses.asdict(model.method)},
        "schema": schema.to_toml(),
        "not_covered": list(NOT_PROMISED),
        "flags": [flag.to_json() for flag in receipt.flags],
        "profile": profile_of(receipt.budget, planned_charges(planned, Ledger(receipt.budget, planned).scale)),
        "constraints": [*schema.constraints, *rules],
        "ignored": [f"{table.name}.{name}" for table in schema for name in table.ignore],
        "ledger": None if ledger is None else ledger_part(ledger, model),
        "versions": {
            "fitted with understudy": receipt.version or "unknown",
            "accountant": receipt.accountant,
            "report by understudy": __version__,
            "Python": platform.python_version(),
        },
    }


# Tables -------------------------------------------------------------------------------------------------------------


def key_graph(schema: DatabaseSchema) -> list[dict[str, Any]]:
    """Every table with its keys and what it hangs on, parents first."""
    return [
        {
            "name": table.name,
            "columns": len(table.columns),
            "key": list(table.key),
            "parent": table.parent,
            "foreign_key": list(table.foreign_key),
            "most": table.max_per_parent,
            "most_per_unit": None if table.public else schema.max_rows(table.name),
            "order": table.order,
            "public": table.public,
            "references": {name_of(pointer): other for pointer, other in table.references.items()},
            "unit": table.name == schema.unit,
        }
        for table in schema
    ]


def described(schema: DatabaseSchema, databases: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of every table, the children of every link and some histories, of one or of two databases."""
    sources = {who: sources_of(database, schema, private=True) for who, database in databases.items()}
    families = opened_families(databases, schema)
    tables = {}
    with np.errstate(all="ignore"):  # a warning would reveal somebody's value
        for name in schema.private:
            if schema[name].columns:
                tables[name] = summaries(schema[name].schema, {who: each[name] for who, each in sources.items()})[0]
        children = [_children(link, families) for link in next(iter(families.values())).links]
        histories = [
            {
                "table": link.table,
                "order": link.order,
                "of": {who: _histories(link, schema, each) for who, each in families.items()},
            }
            for link in next(iter(families.values())).links
            if link.order is not None
        ]
    return {
        "units": {who: each.units for who, each in families.items()},
        "tables": [
            {"name": name, "columns": [each | {"name": f"{name}.{each['name']}", "noise": None} for each in found]}
            for name, found in tables.items()
        ],
        "children": children,
        "histories": histories,
    }


def _children(link: Link, families: Mapping[str, Any]) -> dict[str, Any]:
    """How many rows of the child one row of the parent has, as a column of whole numbers."""
    name = f"{link.table} per row of {link.parent}"
    counts = {
        who: each.tables[link.table].counts(each.tables[link.parent].rows).astype(np.float64)
        for who, each in families.items()
    }
    column = Column(name=name, kind="integer")
    return {"name": name, "kind": "children", "noise": None} | histogram(column, counts)


def _histories(link: Link, schema: DatabaseSchema, families: Any) -> list[list[dict[str, Any]]]:
    """Some histories, each a list of events: the time, where it lies in the range of all of them, and a few columns."""
    assert link.order is not None
    members, table = families.tables[link.table], schema[link.table].schema
    counts = members.counts(families.tables[link.parent].rows)[:CANDIDATES]
    chosen = np.sort(np.argsort(-counts, kind="stable")[:HISTORIES])
    shown = [column for column in table if column.name != link.order][:MOST_SHOWN]
    found = []
    for parent in chosen[counts[chosen] > 0]:
        rows = np.flatnonzero(members.parent == parent)
        times = members.side.numbers[link.order][rows]
        words = as_text(table[link.order], times)
        columns = {column.name: _words(column, members.side, rows, families.labels[link.table]) for column in shown}
        found.append(
            [
                {"time": float(time), "at": at, "values": {name: texts[place] for name, texts in columns.items()}}
                for place, (time, at) in enumerate(zip(times, words, strict=True))
            ]
        )
    return found


def _words(column: Column, side: Any, rows: np.ndarray, labels: Mapping[str, list[str]]) -> list[str]:
    if column.name in side.codes:
        texts = [*labels[column.name], "–"]
        return [texts[code] for code in side.codes[column.name][rows]]
    values = side.numbers[column.name][rows]
    return ["–" if np.isnan(value) else as_text(column, np.array([value]))[0] for value in values]
