"""The commands that say what was spent: receipt and ledger.

The one rule: what they show is what was written down, and nothing is worked out anew.
"""

import dataclasses
from typing import Any

import click

import understudy
from understudy.cli import options
from understudy.cli.options import FILE, print_json
from understudy.cli.refusals import arguments


@click.command()
@click.argument("model", type=FILE)
@options.as_json
def receipt(model: str, as_json: bool) -> None:
    """Prints what was spent on MODEL, and on what.

    \b
    Example:
      understudy receipt people.understudy
    """
    loaded = understudy.load(model)
    click.echo(loaded.receipt.to_json() if as_json else str(loaded.receipt))


@click.group()
def ledger() -> None:
    """What has been spent on tables, over all fits.

    \b
    Example:
      understudy ledger show budget.jsonl
    """


@ledger.command("show")
@click.argument("file", type=FILE)
@options.as_json
def show_ledger(file: str, as_json: bool) -> None:
    """Prints the fits, totals and caps in a ledger FILE.

    \b
    Example:
      understudy ledger show budget.jsonl
      understudy ledger show budget.jsonl --json
    """
    book = understudy.LedgerFile(file)
    if not as_json:
        click.echo(book.show())
        return
    records = book.records()
    print_json({"ledger": file, "tables": {name: _told(book, records, name) for name in book.tables()}})


def _told(book: "understudy.LedgerFile", records: list[dict[str, Any]], table: str) -> dict[str, Any]:
    """What a ledger says of one table."""
    cap = book.cap(table)
    return {
        "total": dataclasses.asdict(book.total(table)),
        "cap": None if cap is None else dataclasses.asdict(cap),
        "records": [record for record in records if record["table"] == table],
    }


@ledger.command("cap")
@click.argument("file", type=FILE)
@click.argument("table")
@click.option("--epsilon", type=float, required=True, help="The most ε to be spent on the table, over all fits.")
@click.option("--delta", type=float, required=True, help="The most δ, likewise.")
@options.as_json
def set_cap(file: str, table: str, epsilon: float, delta: float, as_json: bool) -> None:
    """Sets what may be spent in all on TABLE, which is the `name` in its schema.

    A fit that would pass the cap is refused before any row is read.

    \b
    Example:
      understudy ledger cap budget.jsonl people --epsilon 3 --delta 1e-5
    """
    with arguments():
        understudy.LedgerFile(file).set_cap(table, epsilon, delta)
    if as_json:
        print_json({"ledger": file, "table": table, "cap": {"epsilon": epsilon, "delta": delta}})
        return
    click.echo(f"{file}: at most epsilon = {epsilon:g}, delta = {delta:g} for table {table!r}.")
