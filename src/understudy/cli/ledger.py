"""The commands about what was spent: receipt, verify and ledger.

The one rule: they show and compare what was recorded, and measure nothing anew.
"""

import dataclasses

import click

import understudy
from understudy.cli import options
from understudy.cli.errors import argument_errors
from understudy.cli.options import FILE, print_json


@click.command()
@click.argument("model", type=FILE)
@options.as_json
def receipt(model: str, as_json: bool) -> None:
    """Prints the receipt of MODEL: what was measured, and what it cost.

    \b
    Example:
      understudy receipt people.understudy
    """
    loaded = understudy.load(model)
    click.echo(loaded.receipt.to_json() if as_json else str(loaded.receipt))


@click.command()
@click.argument("report", type=FILE)
@click.argument("model", type=FILE)
@options.as_json
def verify(report: str, model: str, as_json: bool) -> None:
    """Checks that REPORT, the .json file of a report, is about this very MODEL file.

    The hashes of the model and of its schema, the id of the fit, the budget, the red flags, and the page beside REPORT
    must be those that the report states. Otherwise the exit code is 1.

    \b
    Example:
      understudy verify report.json people.understudy
    """
    from understudy.report.record import verify as check

    said = check(report, model)
    if as_json:
        print_json({"report": report, "model": model, "matches": True})
        return
    click.echo(said)


@click.group()
def ledger() -> None:
    """What was spent on each table, over all fits.

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
    print_json({"ledger": file, "tables": {name: dataclasses.asdict(each) for name, each in book.accounts().items()}})


@ledger.command("cap")
@click.argument("file", type=FILE)
@click.argument("table")
@click.option("--epsilon", type=float, required=True, help="The largest total ε for the table, over all fits.")
@click.option("--delta", type=float, required=True, help="The largest total δ, likewise.")
@options.as_json
def set_cap(file: str, table: str, epsilon: float, delta: float, as_json: bool) -> None:
    """Sets the cap on what may be spent in total on TABLE, the `name` in its schema.

    A fit that would exceed the cap is refused before any row is read.

    \b
    Example:
      understudy ledger cap budget.jsonl people --epsilon 3 --delta 1e-5
    """
    with argument_errors():
        understudy.LedgerFile(file).set_cap(table, epsilon, delta)
    if as_json:
        print_json({"ledger": file, "table": table, "cap": {"epsilon": epsilon, "delta": delta}})
        return
    click.echo(f"{file}: at most epsilon = {epsilon:g}, delta = {delta:g} for table {table!r}.")
