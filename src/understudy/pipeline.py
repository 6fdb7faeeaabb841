"""The corridor: hall, cloakroom, ledger and workshop joined, and the only place where the whole promise is stated.

`fit(table, schema, method, epsilon=ε, delta=δ)` is (ε, δ)-differentially private for adding or removing one unit (one
row, or all rows of one value of the schema's `unit` column, up to `max_rows_per_unit`), with everything counted:
bounds, categories, missing values, the number of rows, the margins and whatever the method buys.

Why it holds: the plan is fixed by the schema and the method before a row is read; one noise scale is calibrated so that
the composition of the whole plan meets (ε, δ); the ledger hands out noise for planned purchases only, each once;
what comes out of the locked box comes through hatches, each of which pays first; and a model is a function of that.
What it does not cover is in docs/privacy.md.
"""

import contextlib
import dataclasses
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from understudy.core.randomness import Key
from understudy.core.text import did_you_mean
from understudy.core.version import __version__
from understudy.encoding import encoder as encoding
from understudy.encoding.encoder import Encoder
from understudy.model import Model
from understudy.privacy.accounting import Budget, Charge, PlannedMechanism, planned_charges
from understudy.privacy.ledger import Ledger
from understudy.privacy.ledger_file import LedgerFile
from understudy.privacy.rows import PrivateRows, lock
from understudy.synthesizers import DEFAULT, METHODS
from understudy.tables.schema import UNNAMED, Schema, SchemaError
from understudy.tables.table import Table, read


def resolve(method: Any, settings: Mapping[str, Any] | None = None) -> Any:
    """A configured method from a name (and settings) or from itself."""
    if not isinstance(method, str):
        if type(method) not in METHODS.values():
            raise ValueError(f"method: expected a name or one of {', '.join(METHODS)}, configured; got {method!r}.")
        return dataclasses.replace(method, **(settings or {}))
    if method not in METHODS:
        raise ValueError(
            f"method: expected one of {', '.join(METHODS)}; got {method!r}.{did_you_mean(method, METHODS)}"
        )
    known = [field.name for field in dataclasses.fields(METHODS[method])]
    for key in settings or {}:
        if key not in known:
            has = f"has {', '.join(known)}" if known else "has no settings"
            raise ValueError(f"method {method!r} {has}; got {key!r}.{did_you_mean(key, known)}")
    return METHODS[method](**(settings or {}))


def planned_mechanisms(schema: Schema, method: Any, budget: Budget) -> list[PlannedMechanism]:
    """Everything one fit will buy: a function of public facts. A method without a share for encoding buys none."""
    share = method.encoding_share
    encoder = encoding.plan(schema, share=share, delta=budget.delta) if share else []
    return [*encoder, *method.plan(schema)]


def fit(
    table: Any,
    schema: Schema | str | os.PathLike[str],
    method: Any = DEFAULT,
    *,
    epsilon: float,
    delta: float = 1e-6,
    seed: int | None = None,
    progress: bool | None = None,
    ledger: str | os.PathLike[str] | None = None,
) -> Model:
    """Learns a model of a table under (ε, δ)-differential privacy.

    Args:
        table: A path to a CSV or Parquet file, or a pandas, polars or pyarrow table.
        schema: Public facts about it, or the path of their TOML file.
        method: A name from `METHODS`, or one of them configured.
        epsilon: The budget ε, for everything.
        delta: The budget δ; below one over the number of people is usual.
        seed: For tests and experiments only: noise that can be repeated can be taken off again.
        progress: Whether to show a progress bar; None shows it on a terminal.
        ledger: A ledger file, checked before the table is opened, and charged before any hatch is. A table whose
            structure does not fit the schema costs nothing.

    Privacy:
        The promise at the head of this module.

    Raises:
        SchemaError, TableError: The schema is wrong, or the table's structure does not fit it.
        BudgetExceeded: The ledger file's cap does not allow it. No row was read.
    """
    return fit_many(table, schema, [method], [seed], epsilon=epsilon, delta=delta, progress=progress, ledger=ledger)[0]


def fit_many(
    table: Any,
    schema: Schema | str | os.PathLike[str],
    methods: Sequence[Any],
    seeds: Sequence[int | None] | None = None,
    *,
    epsilon: float | Sequence[float],
    delta: float = 1e-6,
    progress: bool | None = None,
    ledger: str | os.PathLike[str] | None = None,
) -> list[Model]:
    """Learns many models of one table, those of methods that can in one compiled program.

    Args:
        methods: Names from `METHODS`, or configured methods: one for each fit.
        seeds: One for each fit, or None for none.
        epsilon: The budget ε of every fit, or one for each.
        table, schema, delta, progress, ledger: As for `fit`.

    Returns:
        The models in the order of the methods, each with a receipt of its own.

    Privacy:
        Every fit by itself keeps the promise of `fit`. Together they cost the sum: the ledger file is charged for each.
    """
    schema = schema if isinstance(schema, Schema) else Schema.read(schema)
    orders = _orders(schema, methods, seeds, epsilon, delta)
    book = LedgerFile(ledger) if ledger is not None else None
    if book and schema.name == UNNAMED:
        raise SchemaError('the schema has no name, and a ledger goes by names. Add `name = "..."` to it.')
    if book:
        book.check(schema.name, math.fsum(order.ledger.budget.epsilon for order in orders), delta * len(orders))
    guest = read(table, schema)  # raises for structure alone, so a typing mistake costs nothing
    for order in orders:
        asked = order.ledger.budget
        if book:
            book.charge(schema.name, asked.epsilon, asked.delta, order.method.name, version=__version__)
    made: dict[int, Any] = {}
    with _shown([order.ledger for order in orders], progress):
        boxes = [_lock(guest, order) for order in orders]
        kind = guest.kind
        del guest
        encoders = [_encode(box, schema, order) for box, order in zip(boxes, orders, strict=True)]
        for group in _groups(orders):
            chosen = [orders[i] for i in group]
            recipes = type(chosen[0].method).fit_many(
                [order.method for order in chosen],
                [boxes[i] for i in group],
                [encoders[i] for i in group],
                ledgers=[order.ledger for order in chosen],
                keys=[order.key.child("method") for order in chosen],
            )
            made.update(zip(group, recipes, strict=True))
        for i, (order, box, encoder) in enumerate(zip(orders, boxes, encoders, strict=True)):
            if i not in made:
                made[i] = order.method.fit(box, encoder, ledger=order.ledger, key=order.key.child("method"))
    return [
        Model(encoders[i], made[i], order.ledger.receipt(version=__version__), order.method, kind)
        for i, order in enumerate(orders)
    ]


@dataclasses.dataclass(frozen=True, eq=False)
class _Order:
    """One fit that was asked for: what with, who pays, and where chance comes from."""

    method: Any
    ledger: Ledger
    key: Key


def _orders(
    schema: Schema,
    methods: Sequence[Any],
    seeds: Sequence[int | None] | None,
    epsilon: float | Sequence[float],
    delta: float,
) -> list[_Order]:
    chosen = [resolve(method) for method in methods]
    seeds = [None] * len(chosen) if seeds is None else list(seeds)
    epsilons = list(epsilon) if isinstance(epsilon, Sequence) else [epsilon] * len(chosen)
    if not len(seeds) == len(epsilons) == len(chosen):
        counts = f"{len(chosen)} methods, {len(seeds)} seeds and {len(epsilons)} epsilons"
        raise ValueError(f"fit_many: expected one seed and one epsilon for each method, got {counts}.")
    orders = []
    for method, seed, each in zip(chosen, seeds, epsilons, strict=True):
        budget = Budget(epsilon=each, delta=delta)
        ledger = Ledger(
            budget,
            planned_mechanisms(schema, method, budget),
            unit=schema.unit or "row",
            max_rows_per_unit=schema.max_rows_per_unit or 1,
            seed=seed,
        )
        orders.append(_Order(method, ledger, Key.new(seed)))
    return orders


def _groups(orders: Sequence[_Order]) -> list[list[int]]:
    """The fits that can be made together, by method."""
    groups: dict[type, list[int]] = {}
    for i, order in enumerate(orders):
        if hasattr(type(order.method), "fit_many"):
            groups.setdefault(type(order.method), []).append(i)
    return list(groups.values())


def _lock(guest: Table, order: _Order) -> PrivateRows:
    most = order.ledger.max_rows_per_unit
    return lock(guest.columns, guest.labels, unit=guest.unit, max_rows_per_unit=most, key=order.key)


def _encode(rows: PrivateRows, schema: Schema, order: _Order) -> Encoder:
    if not order.method.encoding_share:
        return encoding.pass_through_encoder(schema, ledger=order.ledger)
    return encoding.fit_encoder(rows, schema, ledger=order.ledger, key=order.key.child("encoding"))


def order_from(public_table: Any, schema: Schema | str | os.PathLike[str]) -> tuple[str, ...]:
    """An order of generation, causes first, guessed from a PUBLIC table of the same columns.

    Numbers count as they are, categories by the places of their values in the schema. Give the result to a method's
    `order`, or write it into the schema.

    Privacy:
        None. The table must be public, or another one than the one that is to be protected.
    """
    import numpy as np

    from understudy.synthesizers.prada.structure import order_from as guess

    schema = schema if isinstance(schema, Schema) else Schema.read(schema)
    columns = [np.asarray(read(public_table, schema).columns[name], dtype=np.float64) for name in schema.names]
    there = [np.isfinite(column) for column in columns]
    means = [column[known].mean() if known.any() else 0.0 for column, known in zip(columns, there, strict=True)]
    filled = [np.where(known, c, mean) for c, known, mean in zip(columns, there, means, strict=True)]
    return tuple(schema.names[i] for i in guess(np.nan_to_num(np.stack(filled, axis=1))))


@contextlib.contextmanager
def _shown(ledgers: Sequence[Ledger], progress: bool | None) -> Iterator[None]:
    """A bar of purchases made against purchases planned, and of training steps. All are public."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if progress is False or (progress is None and not console.is_terminal):
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        bought = bar.add_task("fitting", total=sum(ledger.progress()[1] for ledger in ledgers))
        steps = bar.add_task("steps", total=None, visible=False)

        def advance(line: Charge) -> None:
            bar.update(bought, completed=sum(ledger.progress()[0] for ledger in ledgers), description=line.what)

        def step(done: int, total: int) -> None:
            bar.update(steps, completed=done, total=total, visible=True)

        for ledger in ledgers:
            ledger.on_charge, ledger.on_step = advance, step
        yield


# What it would cost -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How a budget will be divided, before any data is touched.

    Attributes:
        charges: One for each planned item, with its noise multiplier.
        seconds, megabytes: A rough expectation for a laptop, from benchmarks/results/speed.jsonl.
    """

    method: str
    budget: Budget
    items: tuple[PlannedMechanism, ...]
    charges: tuple[Charge, ...]
    rows: int | None
    seconds: float
    megabytes: float

    def shares(self) -> dict[str, float]:
        """The part of the (concentrated) budget that each item gets."""
        total = sum(item.share for item in self.items)
        return {item.name: item.share / total for item in self.items}

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "rows": self.rows,
            "items": [
                {
                    "name": item.name,
                    "mechanism": item.mechanism,
                    "share": self.shares()[item.name],
                    "times": item.times,
                    "noise_multiplier": line.noise_multiplier,
                }
                for item, line in zip(self.items, self.charges, strict=True)
            ],
            "seconds": self.seconds,
            "megabytes": self.megabytes,
        }

    def __str__(self) -> str:
        head = f"{self.method} with epsilon = {self.budget.epsilon:g}, delta = {self.budget.delta:g}"
        rows = [f"{'item':<16}{'mechanism':<22}{'purchases':>9}{'share':>9}{'noise per row':>15}"]
        for item, line in zip(self.items, self.charges, strict=True):
            share = f"{100 * self.shares()[item.name]:.1f} %"
            rows.append(f"{item.name:<16}{item.mechanism:<22}{item.times:>9}{share:>9}{line.noise_multiplier:>15.2f}")
        size = f"for {self.rows} rows " if self.rows else ""
        foot = f"Expect {size}about {self.seconds:.0f} s and {self.megabytes:.0f} MB. No data was touched."
        return "\n".join([head, "", *rows, "", foot])


def _training_seconds(schema: Schema, steps: int) -> float:
    """Compilation, and steps in which every column looks at all inputs, one for each number or category."""
    inputs = sum(len(column.values or ()) or 1 for column in schema.columns)
    return 6.0 + steps * (2e-4 + 1e-5 * inputs * len(schema))


def plan(
    schema: Schema | str | os.PathLike[str],
    method: Any = DEFAULT,
    *,
    epsilon: float,
    delta: float = 1e-6,
    rows: int | None = None,
) -> Plan:
    """How `fit` would divide the budget, and what to expect. Touches no data.

    Args:
        rows: About how many rows there are, if that is public; used for the time and memory alone.
    """
    schema = schema if isinstance(schema, Schema) else Schema.read(schema)
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise ValueError(f"rows: expected a whole number >= 1, got {rows!r}.")
    method, budget = resolve(method), Budget(epsilon=epsilon, delta=delta)
    wanted = planned_mechanisms(schema, method, budget)
    ledger = Ledger(budget, wanted)
    cells = (rows or schema.rows or 0) * len(schema)
    steps = sum(item.times for item in wanted if item.sampling_rate)
    return Plan(
        method=method.name,
        budget=budget,
        items=tuple(wanted),
        charges=tuple(planned_charges(wanted, ledger.scale)),
        rows=rows or schema.rows,
        seconds=1.0 + 6e-7 * cells + (_training_seconds(schema, steps) if steps else 0.0),
        megabytes=250.0 + 2.5e-5 * cells + (350.0 if steps else 0.0),
    )
