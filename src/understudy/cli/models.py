"""The commands that make a model and use it: schema, plan, fit, sample.

The one rule: everything is checked that can be checked before a row is read or a budget is charged.
"""

from pathlib import Path
from typing import Any

import click

import understudy
from understudy.cli import options
from understudy.cli.options import FILE, count, print_json, waiting
from understudy.cli.refusals import Refused, arguments, check_place, check_readable, read_schema


@click.group()
def schema() -> None:
    """Public facts about a table.

    \b
    Example:
      understudy schema draft people.csv -o people.toml
      understudy schema check people.toml
    """


@schema.command("draft")
@options.table()
@options.output("the draft")
@click.option("--force", is_flag=True, help="Write over a schema that is there already.")
@options.as_json
def draft_schema(table: str, output: str, force: bool, as_json: bool) -> None:
    """Drafts a schema for DATA, a CSV or Parquet file.

    It gets the names and the kinds of the columns. Bounds and categories are left for you to fill in: they are never
    taken from the data.

    \b
    Example:
      understudy schema draft people.csv -o people.toml
    """
    check_place(output, table)
    if Path(output).exists() and not force:
        raise Refused(f"{output} is there already, and may hold what someone filled in. Use --force to write over it.")
    from understudy.core.files import replacing
    from understudy.tables.schema import draft
    from understudy.tables.sources import extension, kinds

    extension(table)  # refuses what it does not know
    check_readable(table)
    names_and_kinds, source = kinds(table), Path(table).name
    text = draft(names_and_kinds, name=source.split(".")[0] or "table", source=source)
    with replacing(output) as temporary:
        temporary.write_bytes(text.encode())
    if as_json:
        print_json({"schema": output, "columns": {name: {"kind": kind} for name, kind in names_and_kinds}})
        return
    click.echo(f"{output}: {count(len(names_and_kinds), 'column')}. Check the kinds, and fill in what you know of")
    click.echo("bounds and categories; what you leave out is bought with part of the budget. Next:")
    click.echo(f"  understudy plan {output} --epsilon 1")


@schema.command("check")
@click.argument("schema", type=FILE)
@options.as_json
def check_schema(schema: str, as_json: bool) -> None:
    """Reads SCHEMA and says what it states, or what is wrong with it. Touches no data.

    \b
    Example:
      understudy schema check people.toml
      understudy schema check people.toml --json
    """
    import tomllib

    facts = read_schema(schema)
    if as_json:
        print_json(tomllib.loads(facts.to_toml()))
    else:
        click.echo(str(facts))


@click.command()
@click.argument("schema", type=FILE)
@options.budget
@click.option("--rows", type=int, help="About how many rows, if that is public; for the time and memory alone.")
@options.method
@options.as_json
def plan(
    schema: str,
    epsilon: float,
    delta: float,
    rows: int | None,
    method: str | None,
    settings: dict[str, Any],
    as_json: bool,
) -> None:
    """Shows how a fit would divide the budget. Touches no data.

    \b
    Example:
      understudy plan people.toml --epsilon 1 --rows 20000
    """
    configured = options.configured(method, settings)
    facts = read_schema(schema)
    with arguments():
        made = understudy.plan(facts, configured, epsilon=epsilon, delta=delta, rows=rows)
    if as_json:
        print_json(made.to_json())
    else:
        click.echo(str(made))


@click.command()
@options.table()
@click.argument("schema", type=FILE)
@options.budget
@options.method
@click.option(
    "--ledger", metavar="FILE", type=FILE, help="A ledger to charge before a hatch is opened; made if missing."
)
@click.option("--seed", type=int, help="For tests only: noise that can be repeated protects nobody.")
@click.option("--quiet", is_flag=True, help="Print neither progress nor receipt.")
@options.as_json
@options.output("the model")
def fit(
    table: str,
    schema: str,
    epsilon: float,
    delta: float,
    method: str | None,
    settings: dict[str, Any],
    ledger: str | None,
    seed: int | None,
    quiet: bool,
    as_json: bool,
    output: str,
) -> None:
    """Learns a model of DATA within a budget.

    DATA is a CSV or Parquet file, and SCHEMA says what is publicly known of it. What was spent, and on what, is
    printed at the end. An existing model file is replaced.

    \b
    Example:
      understudy fit people.csv people.toml --epsilon 1 --ledger budget.jsonl -o people.understudy
      understudy fit people.csv people.toml --epsilon 1 --set encoding_share=0.5 -o people.understudy
    """
    check_place(output, table, schema, ledger)
    configured = options.configured(method, settings)
    from understudy.core.randomness import Key

    with arguments():
        understudy.Budget(epsilon=epsilon, delta=delta)
        Key.new(seed)
    facts = read_schema(schema)
    model = understudy.fit(
        table,
        facts,
        configured,
        epsilon=epsilon,
        delta=delta,
        seed=seed,
        progress=False if quiet else None,
        ledger=ledger,
    )
    model.save(output)
    if as_json:
        click.echo(model.receipt.to_json())
    elif not quiet:
        click.echo(str(model.receipt))
        click.echo()
        if ledger is not None:
            click.echo(f"Charged to table {facts.name!r} in {ledger}.")
        click.echo(f"Model written to {output}. Sampling from it is free, as often as you like:")
        click.echo(f"  understudy sample {output} -n 10000 -o synthetic.csv")


@click.command()
@click.argument("model", type=FILE)
@click.option("-n", "rows", type=int, required=True, help="How many rows; the true number is private.")
@options.output("the rows: .csv, .tsv, .csv.gz or .parquet")
@click.option("--seed", type=int, help="Draw the same rows again.")
@click.option(
    "--where",
    metavar="COLUMN=VALUE",
    multiple=True,
    help="Only such rows: state=CA, age=30..40, age=..40, or income= for a missing cell.",
)
@options.as_json
def sample(model: str, rows: int, output: str, seed: int | None, where: tuple[str, ...], as_json: bool) -> None:
    """Draws synthetic rows from MODEL. Costs no budget.

    Every row keeps the constraints of the schema. Where there are some, or conditions, it is said how many of the rows
    that were drawn do.

    \b
    Example:
      understudy sample people.understudy -n 10000 -o synthetic.parquet
      understudy sample people.understudy -n 1000 --where state=CA --where age=30..40 -o some.csv
    """
    import dataclasses

    from understudy.core.randomness import Key
    from understudy.tables import sources, table
    from understudy.tables.constraints import where_from_text

    check_place(output, model)
    sources.extension(output)  # refuses what it does not know
    with arguments():
        Key.new(seed)
        if rows < 0:
            raise ValueError(f"-n: expected a whole number >= 0, got {rows}.")
    loaded = dataclasses.replace(understudy.load(model), kind="polars")
    conditions = where_from_text(where, loaded.schema)
    with waiting(f"drawing {count(rows, 'row')}"):
        table.write(loaded.sample(rows, seed, where=conditions), output)
    if as_json:
        drawn = dataclasses.asdict(loaded.acceptance) if loaded.acceptance else None
        print_json({"output": output, "rows": rows, "seed": seed, "acceptance": drawn})
        return
    if conditions or loaded.schema.constraints:
        click.echo(f"{loaded.acceptance}.", err=True)
    click.echo(f"{count(rows, 'row')} written to {output}.")
