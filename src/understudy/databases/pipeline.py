"""Fitting a database: the promise of `pipeline`, for many tables at once.

`fit(tables, schema, epsilon=ε, delta=δ)` is (ε, δ)-differentially private for adding or removing one unit: one row of
the table that the schema names as `unit`, with everything that hangs on it, through all tables and depths. Of one
parent at most `max_per_parent` children are used, so a unit has at most the product of these numbers in a table; of
these rows at most `database_design.learned_rows` are locked, at random, and that is the bound that every mechanism
counts with. Nobody types it in: it follows from the schema and ε.

Why it holds, beside what `pipeline` says:
1. Rows are joined and chosen unit by unit, before they are locked (`tables.families`), so that the locked rows of a
   unit depend on that unit alone.
2. `privacy.rows.lock` keeps at most the bound of each table, whatever it is given.
3. The plans of all tables are one plan, with one scale; each table charges its own part of it to one ledger.
"""

import contextlib
import dataclasses
import json
import os
import time
import uuid
from collections.abc import Mapping
from typing import Any

from understudy import encoding
from understudy.core.files import sha256
from understudy.core.memory import keep_freed_memory
from understudy.core.randomness import Key
from understudy.core.version import __version__
from understudy.databases.model import DatabaseModel
from understudy.privacy import checkpoints, engines
from understudy.privacy.calibration import planned_charges
from understudy.privacy.ledger import Ledger
from understudy.privacy.ledger_file import LedgerFile, interruptions_noted
from understudy.privacy.plan import Budget
from understudy.privacy.rows import PrivateRows, lock
from understudy.privacy.scratch import Scratch
from understudy.privacy.stored import StoredRows
from understudy.privacy.table_ledger import TableLedger
from understudy.synthesizers.base import Method
from understudy.synthesizers.planning import Plan
from understudy.synthesizers.progress import Expectation, shown
from understudy.synthesizers.red_flags import refuse
from understudy.synthesizers.relational.fitting import fit_tables
from understudy.synthesizers.relational.planning import (
    Designs,
    check_method,
    check_named,
    designs_for,
    flags_of,
    planned_tables,
    seconds_of,
)
from understudy.tables.database_schema import UNNAMED, DatabaseSchema
from understudy.tables.families import flattened, read_families, sources_of, with_public_keys
from understudy.tables.schema import Schema
from understudy.tables.streaming import MEMORY
from understudy.tables.unit_ranges import flat_ranges, in_pieces, streamed
from understudy.tables.unit_tables import ROWS, UNITS, as_database

ROWS_IF_UNKNOWN = 10_000
"""For the progress bar, if the schema gives no number of rows."""


def fit(
    given: Any,
    schema: DatabaseSchema | Schema,
    method: Method,
    budget: Budget,
    *,
    seed: int | None = None,
    progress: bool | None = None,
    ledger: str | os.PathLike[str] | None = None,
    strict: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    engine: str = "local",
    address: str | None = None,
    memory: float = MEMORY,
) -> DatabaseModel:
    """Learns a model of a database under (ε, δ)-differential privacy; arguments as for `pipeline.fit`.

    A single table with columns of its units is one with an invisible parent (tables/unit_tables.py).

    Privacy:
        The promise at the head of this module.
    """
    check_method(method)
    single = None
    if isinstance(schema, Schema):
        single, schema, given = schema, as_database(schema), {UNITS: given, ROWS: given}
    schema = with_public_keys(given, schema)
    made = designs_for(schema, method, budget.epsilon)
    whole, key = _ledger(schema, made, method, budget, seed), Key.new(seed)
    if strict:
        refuse(flags_of(schema, method, budget, seed=seed))
    book, summing = LedgerFile(ledger) if ledger is not None else None, engines.resolve(engine, address)
    if book:
        check_named(schema, UNNAMED)
    with contextlib.ExitStack() as stack:
        identity, started, public = _with_checkpoint(whole, schema, method, checkpoint, stack)
        is_new = not checkpoints.is_charged(whole.checkpoint, book, schema.name)
        if book and is_new:
            book.check(schema.name, budget.epsilon, budget.delta)
        # This raises for structure alone. What it draws is secret, so none of it comes from a root that is kept.
        locked, kind = lock_database(given, schema, made, key, engine=summing, memory=memory)
        entered = list[str]()
        stack.enter_context(interruptions_noted(book, entered, 1))
        stack.enter_context(engines.running(summing))
        if book and is_new:
            named = {"version": __version__, "identity": identity}
            book.charge(schema.name, budget.epsilon, budget.delta, method.name, **named)
        entered.append(identity)
        seconds = seconds_of(made, method, list(whole.plan), ROWS_IF_UNKNOWN)[0]
        with shown(Expectation([whole], (seconds, 0.0)), progress):
            tables = fit_tables(locked, made, method, ledger=whole, key=dataclasses.replace(key, public=public))
        units = tables[schema.unit].encoder.rows
        receipt = whole.receipt(
            version=__version__,
            id=identity,
            time=started if seed is None else "",
            schema_sha256=sha256(schema.to_toml()),
            flags=flags_of(schema, method, budget, rows=schema.root.rows or units, seed=seed),
        )
        return DatabaseModel(schema, tables, receipt, method, kind, single)


def lock_database(
    given: Any,
    schema: DatabaseSchema,
    made: Designs,
    key: Key,
    *,
    engine: engines.Summing | None = None,
    memory: float = MEMORY,
) -> tuple[dict[str, PrivateRows], str]:
    """Reads the tables of a database, joins them and locks them; also says what kind of frame the root came in.

    Tables that are large for the memory, or that are given in pieces, are joined some units at a time; and so are all
    tables if another engine sums.

    Privacy:
        Releases nothing. Exact rows are outside `privacy` during this call alone.

    Raises:
        TableError: A table's structure does not fit the schema.
    """
    keep_freed_memory()
    sources = sources_of(given, schema)
    if engine is not None or in_pieces(sources, schema, memory=memory):
        return _lock_ranges(sources, schema, made, key, engine, memory)
    families, kind = read_families(given, schema, key=key)
    locked = {}
    for name, flat in flattened(families, made).items():
        bound: dict[str, Any] = {}
        if made[name].ancestors:
            bound = {"unit": flat.unit, "max_rows_per_unit": made[name].max_rows}
        locked[name] = lock(flat.columns, flat.labels, key=key.child("lock").child(name), **bound)
    return locked, kind


def _lock_ranges(
    sources: Mapping[str, Any],
    schema: DatabaseSchema,
    made: Designs,
    key: Key,
    engine: engines.Summing | None,
    memory: float,
) -> tuple[dict[str, PrivateRows], str]:
    """The same, some units at a time; an eighth of the memory keeps locked rows, and a sixteenth others on the way."""
    streams = streamed(sources, schema, memory=memory)
    scratch = Scratch(int(memory * 2**27))
    stored = {
        name: StoredRows(
            scratch,
            max_rows_per_unit=design.max_rows if design.ancestors else None,
            key=key.child("lock").child(name),
        )
        for name, design in made.items()
    }
    before = 0
    for tables in flat_ranges(streams, schema, made, key=key, store=Scratch(int(memory * 2**26)), memory=memory):
        for name, flat in tables.items():
            stored[name].add(flat.columns, flat.labels, flat.unit, first_unit=before)
        before += len(tables[schema.unit].unit)
    return {name: rows.locked(engine=engine) for name, rows in stored.items()}, streams[schema.unit].kind


def plan(schema: DatabaseSchema | Schema, method: Method, budget: Budget, *, rows: int | None = None) -> Plan:
    """How `fit` would divide the budget among the tables, and what to expect. Touches no data.

    Args:
        rows: About how many rows a table has, if that is public and its schema does not say.
    """
    check_method(method)
    schema = as_database(schema) if isinstance(schema, Schema) else schema
    made = designs_for(schema, method, budget.epsilon)
    ledger = _ledger(schema, made, method, budget, None)
    seconds, megabytes = seconds_of(made, method, list(ledger.plan), rows or ROWS_IF_UNKNOWN)
    seen: dict[str, int] = {}
    for name, design in made.items():
        own = TableLedger(ledger, name, max_rows_per_unit=design.max_rows)
        for charge in planned_charges(own.plan, ledger.scale):
            found = encoding.rows_to_be_seen(design.own, charge)
            seen |= {f"{name}.{column}": many for column, many in found.items()}
    return Plan(
        method=method.name,
        budget=budget,
        items=ledger.plan,
        charges=tuple(planned_charges(ledger.plan, ledger.scale)),
        rows=rows or schema.root.rows,
        seconds=seconds,
        megabytes=megabytes,
        rows_to_be_seen=seen,
        flags=flags_of(schema, method, budget, rows=rows),
        unit=schema.unit,
    )


def _ledger(schema: DatabaseSchema, made: Designs, method: Method, budget: Budget, seed: int | None) -> Ledger:
    return Ledger(
        budget,
        planned_tables(made, method, budget),
        unit=f"one row of {schema.unit}, with all that hangs on it",
        max_rows_per_unit=sum(each.max_rows for each in made.values()),
        seed=seed,
    )


def _with_checkpoint(
    whole: Ledger,
    schema: DatabaseSchema,
    method: Method,
    path: str | os.PathLike[str] | None,
    stack: contextlib.ExitStack,
) -> tuple[str, str, int | None]:
    """The fit's id, when it began, and the root of its public draws; with a checkpoint, those that it keeps."""
    identity = _fit_id(schema, method, whole.budget, whole.seed)
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if path is None:
        return identity, started, None
    facts = checkpoints.facts_of(
        version=__version__,
        schema=sha256(schema.to_toml()),
        method=method.name,
        settings=dataclasses.asdict(method),
        budget=whole.budget,
        seed=whole.seed,
    )
    kept = stack.enter_context(checkpoints.opened(path, facts, identity=identity, started=started))
    whole.checkpoint = kept
    return kept.identity, kept.started, kept.public


def _fit_id(schema: DatabaseSchema, method: Method, budget: Budget, seed: int | None) -> str:
    """A random id; with a seed one that follows from all that the model follows from, rows apart."""
    if seed is None:
        return str(uuid.uuid4())
    facts = [int(seed), schema.to_toml(), method.name, dataclasses.asdict(method), dataclasses.asdict(budget)]
    return str(uuid.UUID(hex=sha256(json.dumps(facts, default=str))[:32], version=4))
