"""The corridor: hall, cloakroom, till and workshop joined, and the only place where the whole promise is stated.

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
import os
from collections.abc import Iterator, Mapping
from typing import Any

import understudy
from understudy import encoding
from understudy.accounting import Budget, Item, Line, planned_lines
from understudy.budget import Ledger
from understudy.ledger_file import LedgerFile
from understudy.mechanisms import lock
from understudy.model import Model
from understudy.randomness import Key
from understudy.schema import UNNAMED, Schema, SchemaError, did_you_mean
from understudy.synthesizers import DEFAULT, METHODS
from understudy.table import read


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


def items(schema: Schema, method: Any, budget: Budget) -> list[Item]:
    """Everything one fit will buy: a function of public facts."""
    return [*encoding.plan(schema, share=method.encoding_share, delta=budget.delta), *method.plan(schema)]


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
    schema = schema if isinstance(schema, Schema) else Schema.read(schema)
    method, budget, key = resolve(method), Budget(epsilon=epsilon, delta=delta), Key.new(seed)
    book = LedgerFile(ledger) if ledger is not None else None
    if book and schema.name == UNNAMED:
        raise SchemaError('the schema has no name, and a ledger goes by names. Add `name = "..."` to it.')
    if book:
        book.check(schema.name, budget.epsilon, budget.delta)
    till = Ledger(
        budget,
        items(schema, method, budget),
        unit=schema.unit or "row",
        max_rows_per_unit=schema.max_rows_per_unit or 1,
        seed=seed,
    )
    guest = read(table, schema)  # raises for structure alone, so a typing mistake costs nothing
    if book:
        book.charge(schema.name, budget.epsilon, budget.delta, method.name, version=understudy.__version__)
    rows = lock(guest.columns, guest.labels, unit=guest.unit, max_rows_per_unit=till.max_rows_per_unit, key=key)
    kind = guest.kind
    del guest
    with _shown(till, progress):
        encoder = encoding.buy(rows, schema, ledger=till, key=key.child("encoding"))
        recipe = method.fit(rows, encoder, ledger=till, key=key.child("method"))
    return Model(encoder, recipe, till.receipt(version=understudy.__version__), method, kind)


@contextlib.contextmanager
def _shown(ledger: Ledger, progress: bool | None) -> Iterator[None]:
    """A bar of purchases made against purchases planned. Both are public."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if progress is False or (progress is None and not console.is_terminal):
        yield
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("fitting", total=sum(item.times for item in ledger.plan))

        def advance(line: Line) -> None:
            bar.update(task, advance=line.times, description=line.what)

        ledger.on_purchase = advance
        yield


# What it would cost -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How a budget will be divided, before any data is touched.

    Attributes:
        lines: One for each planned item, with its noise multiplier.
        seconds, megabytes: A rough expectation for a laptop, from benchmarks/results/speed.jsonl.
    """

    method: str
    budget: Budget
    items: tuple[Item, ...]
    lines: tuple[Line, ...]
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
                for item, line in zip(self.items, self.lines, strict=True)
            ],
            "seconds": self.seconds,
            "megabytes": self.megabytes,
        }

    def __str__(self) -> str:
        head = f"{self.method} with epsilon = {self.budget.epsilon:g}, delta = {self.budget.delta:g}"
        rows = [f"{'item':<16}{'mechanism':<22}{'purchases':>9}{'share':>9}{'noise per row':>15}"]
        for item, line in zip(self.items, self.lines, strict=True):
            share = f"{100 * self.shares()[item.name]:.1f} %"
            rows.append(f"{item.name:<16}{item.mechanism:<22}{item.times:>9}{share:>9}{line.noise_multiplier:>15.2f}")
        size = f"for {self.rows} rows " if self.rows else ""
        foot = f"Expect {size}about {self.seconds:.0f} s and {self.megabytes:.0f} MB. No data was touched."
        return "\n".join([head, "", *rows, "", foot])


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
    wanted = items(schema, method, budget)
    ledger = Ledger(budget, wanted)
    cells = (rows or schema.rows or 0) * len(schema)
    return Plan(
        method=method.name,
        budget=budget,
        items=tuple(wanted),
        lines=tuple(planned_lines(wanted, ledger.scale)),
        rows=rows or schema.rows,
        seconds=1.0 + 6e-7 * cells,
        megabytes=250.0 + 2.5e-5 * cells,
    )
