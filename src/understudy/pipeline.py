"""Fitting: the one place where the whole promise is stated.

`fit(table, schema, method, epsilon=ε, delta=δ)` is (ε, δ)-differentially private for adding or removing one unit: one
row or, if the schema names a `unit` column, all rows with one of its values, of which at most `max_rows_per_unit` are
used. Everything is counted: bounds, categories, missing values, the number of rows, the distribution of every column,
and all that the method measures.

Why it holds:
1. The plan is fixed by the schema and the method before any row is read.
2. One noise scale is calibrated so that the composition of the whole plan meets (ε, δ).
3. The ledger gives out noise for planned mechanisms only, each as often as planned, and charges before a row is read.
4. Rows are locked as soon as they are read (`lock_table`); after that only mechanisms in `privacy` see them, and each
   charges the ledger first.
5. A model is a function of what the mechanisms released, of public facts and of chance.

What the promise does not cover is in docs/privacy.md.
"""

import contextlib
import dataclasses
import json
import math
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, cast

from understudy import encoding
from understudy.core.files import sha256
from understudy.core.memory import keep_freed_memory
from understudy.core.randomness import Key
from understudy.core.red_flag import RedFlag
from understudy.core.text import count
from understudy.core.version import __version__
from understudy.databases import pipeline as databases
from understudy.encoding.encoder import Encoder
from understudy.graphical.public_order import order_from as order_from
from understudy.model import Model
from understudy.privacy import checkpoints, engines
from understudy.privacy.calibration import planned_charges
from understudy.privacy.ledger import Ledger
from understudy.privacy.ledger_file import LedgerFile, interruptions_noted, what_is_spent
from understudy.privacy.plan import Budget
from understudy.privacy.receipt import Receipt
from understudy.privacy.row_maps import Gap, MissingFlag, RowMap
from understudy.privacy.rows import PrivateRows, lock, lock_readers
from understudy.synthesizers import DEFAULT, resolve
from understudy.synthesizers.base import BatchMethod, FitRequest, Fitted, Method
from understudy.synthesizers.planning import Plan, expected_cost, expected_seconds, planned_mechanisms
from understudy.synthesizers.progress import Expectation, shown
from understudy.synthesizers.red_flags import red_flags, refuse
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.differences import differences, modelled
from understudy.tables.schema import UNNAMED, Schema
from understudy.tables.streaming import MEMORY, StreamedTable, stream
from understudy.tables.structure import TableError
from understudy.tables.table import read
from understudy.tables.unit_tables import has_unit_columns
from understudy.tables.values import SchemaError

ROWS_IF_UNKNOWN = 10_000
"""For the progress bar, if the schema gives no number of rows."""
SchemaOrPath = Schema | DatabaseSchema | str | os.PathLike[str]


def fit(
    table: Any,
    schema: SchemaOrPath,
    method: str | Method = DEFAULT,
    *,
    epsilon: float,
    delta: float = 1e-6,
    seed: int | None = None,
    progress: bool | None = None,
    ledger: str | os.PathLike[str] | None = None,
    strict: bool = False,
    engine: str = "local",
    address: str | None = None,
    memory: float = MEMORY,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Model:
    """Learns a model of a table under (ε, δ)-differential privacy.

    Args:
        table: A path to a file, the URL of a table in a database (docs/files.md), or a pandas, polars or pyarrow table;
            a folder of Parquet files, a glob, the URL of an object store, a polars LazyFrame or a Ray dataset, which
            are read in partitions (docs/scale.md). With the schema of a database: its tables by name, each of which
            may be any of these, a folder with a file or a folder for each, or a file of SQLite or DuckDB.
        schema: Public facts about it, or the path of their TOML file.
        method: A name from `METHODS`, or one of them configured.
        epsilon: The budget ε, for everything.
        delta: The budget δ; below one over the number of people is usual.
        seed: For tests and experiments only: noise that can be repeated can be subtracted.
        progress: Whether to show a progress bar; None shows it on a terminal.
        ledger: A ledger file. It is checked before the table is opened and charged before any mechanism reads a row. A
            table whose structure does not fit the schema costs nothing.
        strict: Whether to refuse a fit that has a red flag (docs/report.md lists them).
        engine: Who sums over the partitions of a table, or of a joined database: "local", the cores of this machine, or
            "ray", a cluster.
        address: Of the Ray cluster; else RAY_ADDRESS, else one is started on this machine and stopped again.
        memory: GiB that a fit of a table in partitions may take, about. A file that would take much of it is read in
            partitions. The model is the same, whatever the memory and the engine.
        checkpoint: A file that keeps what was released, so that a fit that died goes on from there when it is called
            again with the same settings and table, and is not charged again (docs/scale.md).

    Returns:
        A `Model`; with the schema of a database a `DatabaseModel` (docs/databases.md).

    Privacy:
        The promise at the head of this module.

    Raises:
        SchemaError, TableError: The schema is wrong, or the table's structure does not fit it.
        BudgetExceeded: The ledger file's cap does not allow it. No row was read.
        RedFlagError, CheckpointError: `strict`, and there is a red flag; the checkpoint is another fit's or damaged.
    """
    facts = Schema.of(schema)
    if isinstance(facts, DatabaseSchema) or has_unit_columns(facts):
        every: dict[str, Any] = {"progress": progress, "ledger": ledger, "strict": strict, "checkpoint": checkpoint}
        every |= {"engine": engine, "address": address, "memory": memory}
        budget = Budget(epsilon=epsilon, delta=delta)
        return cast(Any, databases.fit(table, facts, resolve(method), budget, seed=seed, **every))
    options: dict[str, Any] = {"progress": progress, "ledger": ledger, "strict": strict}
    options |= {"engine": engine, "address": address, "memory": memory, "checkpoint": checkpoint}
    return fit_many(table, schema, [method], [seed], epsilon=epsilon, delta=delta, **options)[0]


def fit_many(
    table: Any,
    schema: SchemaOrPath,
    methods: Sequence[str | Method],
    seeds: Sequence[int | None] | None = None,
    *,
    epsilon: float | Sequence[float],
    delta: float = 1e-6,
    progress: bool | None = None,
    ledger: str | os.PathLike[str] | None = None,
    strict: bool = False,
    engine: str = "local",
    address: str | None = None,
    memory: float = MEMORY,
    checkpoint: str | os.PathLike[str] | None = None,
) -> list[Model]:
    """Learns many models of one table. Fits of a `BatchMethod` share one compiled program.

    Args:
        methods: Names from `METHODS`, or configured methods: one for each fit.
        seeds: One for each fit, or None for none.
        epsilon: The budget ε of every fit, or one for each.
        table, schema, delta, progress, ledger, strict, engine, address, memory: As for `fit`.
        checkpoint: As for `fit`; for one fit alone.

    Returns:
        The models in the order of the methods, each with a receipt of its own.

    Privacy:
        Every fit by itself keeps the promise of `fit`. Together they cost the sum: the ledger file is charged for each.
    """
    schema = Schema.of(schema)
    if isinstance(schema, DatabaseSchema) or has_unit_columns(schema):
        raise SchemaError("fit_many: expected one table without per_unit columns. Use fit for each of the others.")
    fits = _planned_fits(schema, methods, seeds, epsilon, delta)
    if strict:
        for each in fits:
            refuse(_red_flags(schema, each))
    book = None if ledger is None else _ledger_file(ledger, schema)
    summing, entered = engines.resolve(engine, address), list[str]()
    with contextlib.ExitStack() as stack:
        fits, started = _with_checkpoint(schema, fits, checkpoint, stack)
        new = [each for each in fits if not checkpoints.is_charged(each.ledger.checkpoint, book, schema.name)]
        if book and new:
            book.check(schema.name, math.fsum(each.ledger.budget.epsilon for each in new), delta * len(new))
        # What follows raises for structure alone, so a typing mistake costs nothing.
        locked, kind = lock_table(table, schema, fits, engine=summing, memory=memory)
        stack.enter_context(_ends_noted(book, entered, fits))
        stack.enter_context(engines.running(summing))
        for each in fits:
            if book:
                entered.append(_charge(book, schema, each) if each in new else each.id)
        with shown(_expectation(schema, fits), progress):
            requests = [_encoded(each, rows, schema) for each, rows in zip(fits, locked, strict=True)]
            generators = _fit_generators(requests)
        receipts = [_receipt(schema, each, of.encoder.rows, started) for each, of in zip(fits, requests, strict=True)]
        return [
            Model(request.encoder, generator, receipt, each.method, kind, schema)
            for each, request, generator, receipt in zip(fits, requests, generators, receipts, strict=True)
        ]


def _ledger_file(path: str | os.PathLike[str], schema: Schema) -> LedgerFile:
    if schema.name == UNNAMED:
        raise SchemaError('the schema has no name, and a ledger goes by names. Add `name = "..."` to it.')
    return LedgerFile(path)


def _charge(book: LedgerFile, schema: Schema, planned: "PlannedFit") -> str:
    """Enters a fit in the ledger file; returns its id."""
    budget, named = planned.ledger.budget, {"version": __version__, "identity": planned.id}
    return book.charge(schema.name, budget.epsilon, budget.delta, planned.method.name, **named)


@contextlib.contextmanager
def _ends_noted(book: LedgerFile | None, entered: Sequence[str], fits: Sequence["PlannedFit"]) -> Iterator[None]:
    """Says of a Ctrl-C, or of a partition that cannot be read, after charging has begun, what is spent."""
    try:
        with interruptions_noted(book, entered, len(fits)):
            yield
    except TableError as error:
        done = sum(each.ledger.released for each in fits)
        told = f"Before that, {count(done, 'measurement')} had been released, and none after."
        if any(each.ledger.checkpoint for each in fits):
            told += " Fit again with the same checkpoint to go on from there."
        raise TableError(f"{error} {what_is_spent(book, entered, len(fits))} {told}") from None


@dataclasses.dataclass(frozen=True, eq=False)
class PlannedFit:
    """One fit before any row is read: its method, the ledger that holds its plan, its source of randomness, its id."""

    method: Method
    ledger: Ledger
    key: Key
    id: str


def _with_checkpoint(
    schema: Schema, fits: list[PlannedFit], path: str | os.PathLike[str] | None, stack: contextlib.ExitStack
) -> tuple[list[PlannedFit], str]:
    """The fits, and when they began; with a checkpoint, under the id and with the public draws that it keeps."""
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if path is None:
        return fits, started
    if len(fits) != 1:
        raise ValueError(f"checkpoint: expected one fit, got {len(fits)}. Give each a checkpoint of its own.")
    [fit] = fits
    facts = checkpoints.facts_of(
        version=__version__,
        schema=sha256(schema.to_toml()),
        method=fit.method.name,
        settings=dataclasses.asdict(fit.method),
        budget=fit.ledger.budget,
        seed=fit.ledger.seed,
    )
    kept = stack.enter_context(checkpoints.opened(path, facts, identity=fit.id, started=started))
    fit.ledger.checkpoint, key = kept, dataclasses.replace(fit.key, public=kept.public)
    return [dataclasses.replace(fit, id=kept.identity, key=key)], kept.started


def _expectation(schema: Schema, fits: Sequence[PlannedFit]) -> Expectation:
    """What the fits together are expected to take for measuring and for training, by public facts alone."""
    rows = schema.rows or ROWS_IF_UNKNOWN
    parts = [expected_seconds(schema, each.method, each.ledger.plan, rows) for each in fits]
    measuring, training, finishing = (math.fsum(part) for part in zip(*parts, strict=True))
    return Expectation([each.ledger for each in fits], (measuring, training, finishing))


def _receipt(schema: Schema, planned: PlannedFit, rows: float, started: str) -> Receipt:
    """The receipt of a fit that is done. All of it follows from public facts, charges and the noisy number of rows."""
    return planned.ledger.receipt(
        version=__version__,
        id=planned.id,
        time=started if planned.ledger.seed is None else "",
        schema_sha256=sha256(schema.to_toml()),
        flags=_red_flags(schema, planned, rows),
    )


def _red_flags(schema: Schema, planned: PlannedFit, rows: float | None = None) -> tuple[RedFlag, ...]:
    ledger = planned.ledger
    return red_flags(schema, planned.method, ledger.budget, rows=schema.rows or rows, seed=ledger.seed)


def _fit_id(schema: Schema, method: Method, budget: Budget, seed: int | None) -> str:
    """A random id; with a seed one that follows from all that the model follows from, rows apart."""
    if seed is None:
        return str(uuid.uuid4())
    facts = [int(seed), schema.to_toml(), method.name, dataclasses.asdict(method), dataclasses.asdict(budget)]
    return str(uuid.UUID(hex=sha256(json.dumps(facts, default=str))[:32], version=4))


def _planned_fits(
    schema: Schema,
    methods: Sequence[str | Method],
    seeds: Sequence[int | None] | None,
    epsilon: float | Sequence[float],
    delta: float,
) -> list[PlannedFit]:
    chosen = [resolve(method) for method in methods]
    seeds = [None] * len(chosen) if seeds is None else list(seeds)
    epsilons = list(epsilon) if isinstance(epsilon, Sequence) else [epsilon] * len(chosen)
    if not len(seeds) == len(epsilons) == len(chosen):
        counts = f"{len(chosen)} methods, {len(seeds)} seeds and {len(epsilons)} epsilons"
        raise ValueError(f"fit_many: expected one seed and one epsilon for each method, got {counts}.")
    fits = []
    for method, seed, each in zip(chosen, seeds, epsilons, strict=True):
        budget = Budget(epsilon=each, delta=delta)
        ledger = Ledger(
            budget,
            planned_mechanisms(modelled_by(method, schema), method, budget),
            unit=schema.unit or "row",
            max_rows_per_unit=schema.max_rows_per_unit or 1,
            seed=seed,
        )
        fits.append(PlannedFit(method, ledger, Key.new(seed), _fit_id(schema, method, budget, seed)))
    return fits


def lock_table(
    table: Any,
    schema: Schema,
    fits: Sequence[PlannedFit],
    *,
    engine: engines.Summing | None = None,
    memory: float = MEMORY,
) -> tuple[list[PrivateRows], str]:
    """Reads a table and locks its rows, once for each fit; also says what kind of frame it came in.

    Privacy:
        Releases nothing. Exact rows are outside `privacy` during this call alone: when it returns, only the locked
        rows hold them. Rows of a table in partitions are read again whenever a mechanism asks for them, by readers in
        `tables` that keep none.

    Raises:
        TableError: The table's structure does not fit the schema.
    """
    keep_freed_memory()
    if (parts := stream(table, schema, memory=memory, always=engine is not None)) is not None:
        return [_lock_parts(parts, schema, each, engine, memory / len(fits)) for each in fits], parts.kind
    exact = read(table, schema)
    locked = [
        lock(
            exact.columns,
            exact.labels,
            unit=exact.unit,
            max_rows_per_unit=each.ledger.max_rows_per_unit,
            key=each.key,
        )
        for each in fits
    ]
    return locked, exact.kind


def _lock_parts(
    table: StreamedTable, schema: Schema, planned: PlannedFit, engine: engines.Summing | None, memory: float
) -> PrivateRows:
    """The locked rows of a table in partitions; a sixteenth of the memory keeps columns between passes."""
    return lock_readers(
        table.readers,
        schema.names,
        table.labels,
        has_unit=schema.unit is not None,
        max_rows_per_unit=planned.ledger.max_rows_per_unit,
        key=planned.key,
        memory=int(memory * 2**26),
        engine=engine if table.in_files else None,
    )


def _encoded(planned: PlannedFit, rows: PrivateRows, schema: Schema) -> FitRequest[Method]:
    """The request that the method gets once the encoder is fitted."""
    rows, schema = _with_differences(planned.method, rows, schema)
    return FitRequest(
        method=planned.method,
        rows=rows,
        encoder=_fit_encoder(planned, rows, schema),
        ledger=planned.ledger,
        key=planned.key.child("method"),
    )


def modelled_by(method: Method, schema: Schema) -> Schema:
    """The schema that a method is fitted to: with differences, unless columns pass through as they are."""
    return modelled(schema) if method.encoding_share else schema


def _with_differences(method: Method, rows: PrivateRows, schema: Schema) -> tuple[PrivateRows, Schema]:
    """The rows and the schema that a method is fitted to.

    Privacy:
        Releases nothing: row by row, through public maps.
    """
    if not method.encoding_share:
        return rows, schema
    maps: dict[str, RowMap] = {}
    for each in differences(schema):
        maps[each.column] = Gap(each.upper, each.lower, each.unit)
        if each.flag is not None:
            maps[each.flag] = MissingFlag(each.column)
    return (rows.derive(maps, keep=True) if maps else rows), modelled(schema)


def _fit_encoder(planned: PlannedFit, rows: PrivateRows, schema: Schema) -> Encoder:
    if not planned.method.encoding_share:
        return encoding.pass_through_encoder(schema, ledger=planned.ledger)
    return encoding.fit_encoder(rows, schema, ledger=planned.ledger, key=planned.key.child("encoding"))


def _fit_generators(requests: Sequence[FitRequest[Method]]) -> list[Fitted]:
    """The fitted generators, in the order of the requests; a batch method makes all of its own together."""
    batches: dict[type[BatchMethod], list[int]] = {}
    for i, request in enumerate(requests):
        if isinstance(request.method, BatchMethod):
            batches.setdefault(type(request.method), []).append(i)
    made: dict[int, Fitted] = {}
    for method, members in batches.items():
        made.update(zip(members, method.fit_many([requests[i] for i in members]), strict=True))
    for i, each in enumerate(requests):
        if i not in made:
            made[i] = each.method.fit(each.rows, each.encoder, ledger=each.ledger, key=each.key)
    return [made[i] for i in range(len(requests))]


def plan(
    schema: SchemaOrPath,
    method: str | Method = DEFAULT,
    *,
    epsilon: float,
    delta: float = 1e-6,
    rows: int | None = None,
) -> Plan:
    """How `fit` would divide the budget, and what to expect. Touches no data.

    Args:
        schema, method, epsilon, delta: As for `fit`.
        rows: About how many rows there are, if that is public; used for the time and memory alone.
    """
    schema = Schema.of(schema)
    if isinstance(schema, DatabaseSchema) or has_unit_columns(schema):
        return databases.plan(schema, resolve(method), Budget(epsilon=epsilon, delta=delta), rows=rows)
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise ValueError(f"rows: expected a whole number >= 1, got {rows!r}.")
    method, budget = resolve(method), Budget(epsilon=epsilon, delta=delta)
    stated, schema = schema, modelled_by(method, schema)
    planned = planned_mechanisms(schema, method, budget)
    seconds, megabytes = expected_cost(schema, method, planned, rows or schema.rows or 0)
    charges = planned_charges(planned, Ledger(budget, planned).scale)
    return Plan(
        method=method.name,
        budget=budget,
        items=tuple(planned),
        charges=tuple(charges),
        rows=rows or schema.rows,
        seconds=seconds,
        megabytes=megabytes,
        rows_to_be_seen={k: v for each in charges for k, v in encoding.rows_to_be_seen(schema, each).items()},
        flags=red_flags(stated, method, budget, rows=rows),
        unit=schema.unit or "row",
    )
