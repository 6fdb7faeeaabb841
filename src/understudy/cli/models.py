"""The commands that make a model and use it: plan, fit, sample.

The one rule: everything that can be checked is checked before a row is read or a budget is charged.
"""

from typing import Any

import click

import understudy
from understudy.cli import databases, options
from understudy.cli.errors import Refused, argument_errors, check_place, noted, read_schema
from understudy.cli.options import FILE, count, print_json, waiting


@click.command()
@click.argument("schema", type=FILE)
@options.budget
@click.option("--rows", type=int, help="The number of rows, if it is public; for the estimates of time and memory.")
@options.method
@options.strict
@options.as_json
def plan(
    schema: str,
    epsilon: float,
    delta: float,
    rows: int | None,
    method: str | None,
    settings: dict[str, Any],
    strict: bool,
    as_json: bool,
) -> None:
    """Shows how a fit would divide the budget, and its red flags. Reads no data.

    \b
    Example:
      understudy plan people.toml --epsilon 1 --rows 20000
      understudy plan people.toml --epsilon 1 --method aim --strict
    """
    from understudy.synthesizers.red_flags import refuse

    configured = options.configured(method, settings)
    facts = read_schema(schema)
    with argument_errors():
        made = understudy.plan(facts, configured, epsilon=epsilon, delta=delta, rows=rows)
    if strict:
        refuse(made.flags)
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
    "--ledger", metavar="FILE", type=FILE, help="The ledger file to charge before any row is read; made if missing."
)
@click.option("--seed", type=int, help="For tests only: noise from a known seed protects nobody.")
@options.strict
@options.engine
@options.memory
@click.option(
    "--checkpoint",
    metavar="FILE",
    type=FILE,
    help="Keep releases here; the same command goes on from them, and is not charged again.",
)
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
    strict: bool,
    quiet: bool,
    as_json: bool,
    output: str,
    **engine: Any,
) -> None:
    """Fits a model to DATA within a privacy budget.

    DATA is a file (CSV, Parquet, Excel and others), the URL of a table in a database, or a folder of Parquet files or a
    quoted glob, which are read in partitions and need not fit into memory. With the schema of a database, it is a
    folder with a file, or a folder of Parquet files, for each table, or a file of SQLite or DuckDB. SCHEMA states what
    is publicly known about it. The receipt, which says what was measured and what it cost, is printed at the end. An
    existing model file is replaced. The receipt shows red flags, such as a large epsilon; with --strict, any of them is
    a refusal.

    \b
    Example:
      understudy fit people.csv people.toml --epsilon 1 --ledger budget.jsonl -o people.understudy
      understudy fit people.csv people.toml --epsilon 1 --set encoding_share=0.4 -o people.understudy
      understudy fit people.csv people.toml --epsilon 1 --method aim --strict -o people.understudy
      understudy fit 'rows/*.parquet' rows.toml --epsilon 1 --engine ray --address auto -o rows.understudy
      understudy fit hospital/ hospital.toml --epsilon 1 -o hospital.understudy
    """
    check_place(output, table, schema, ledger, engine["checkpoint"])
    configured = options.configured(method, settings)
    from understudy.core.randomness import Key

    with argument_errors():
        understudy.Budget(epsilon=epsilon, delta=delta)
        Key.new(seed)
    facts = read_schema(schema)
    if not (quiet or as_json or strict):
        _print_flags(facts, configured, epsilon, delta, seed)
    model = understudy.fit(
        table,
        facts,
        configured,
        epsilon=epsilon,
        delta=delta,
        seed=seed,
        progress=False if quiet else None,
        ledger=ledger,
        strict=strict,
        **engine,
    )
    with noted("The fit was done and stays charged; its model may not be written."):
        _save(model, output)
    if as_json:
        click.echo(model.receipt.to_json())
    elif not quiet:
        _print_fit(model, output, ledger)


def _save(model: "understudy.Model", output: str) -> None:
    """Writes the model; if that fails, to the folder for temporary files, because its budget is spent."""
    import tempfile
    from pathlib import Path

    try:
        model.save(output)
    except understudy.ModelError as error:
        rescued = Path(tempfile.gettempdir()) / f"{model.receipt.id}.understudy"
        try:
            model.save(rescued)
        except understudy.ModelError:
            raise Refused(f"{error} The fit was done and stays charged; its model is lost.") from None
        raise Refused(f"{error} The fit was done and stays charged; its model is in {rescued}.") from None


def _print_fit(model: "understudy.Model", output: str, ledger: str | None) -> None:
    """The receipt, what became `other`, where the charge is, and what to do next."""
    click.echo(str(model.receipt))
    click.echo()
    if isinstance(model, understudy.DatabaseModel):
        return databases.print_fit(model, output, ledger)
    for column, share in model.encoder.other_shares.items():
        seen = count(len(model.encoder.labels[column]) - 1, "label")
        click.echo(f"Column {column!r} has {seen}, and about {100 * share:.2g} % of the rows became `other`.")
    if ledger is not None:
        click.echo(f"Charged to table {model.schema.name!r} in {ledger}.")
    click.echo(f"Model written to {output}. Sampling from it is free, as often as you like:")
    click.echo(f"  understudy sample {output} -n 10000 -o synthetic.csv")


def _print_flags(schema: "understudy.Schema", method: Any, epsilon: float, delta: float, seed: int | None) -> None:
    """Prints the grave red flags on a terminal, while the fit can still be stopped at no cost."""
    from rich.console import Console

    from understudy.synthesizers.red_flags import red_flags

    if not Console(stderr=True).is_terminal:  # elsewhere nobody can stop it, and the receipt has all of them
        return
    budget = understudy.Budget(epsilon=epsilon, delta=delta)
    if isinstance(schema, understudy.DatabaseSchema):
        return databases.print_flags(schema, method, budget, seed)
    for flag in red_flags(schema, method, budget, seed=seed):
        if flag.severity != "notice":
            click.echo(str(flag), err=True)


@click.command()
@click.argument("model", type=FILE)
@click.option("-n", "rows", type=int, required=True, help="The number of rows to draw.")
@options.output("the rows: .csv, .tsv, .csv.gz, .csv.zst, .parquet, .feather, or a folder for Parquet shards: DIR/")
@click.option("--seed", type=int, help="Draw the same rows again.")
@click.option(
    "--where",
    metavar="COLUMN=VALUE",
    multiple=True,
    help="Keep only such rows: state=CA, age=30..40, age=..40, or income= for a missing value.",
)
@click.option(
    "--rule",
    "rules",
    metavar="RULE",
    multiple=True,
    help='A further rule that every row keeps: "a >= b", "total = a + b" or "a implies b".',
)
@click.option(
    "--rows-per-shard",
    type=click.IntRange(min=1),
    help="Rows of every file of DIR/; units of a database.  [default: 500000; 20000 units]",
)
@click.option("--processes", type=click.IntRange(min=1), help="How many shards at once.  [default: one a core]")
@options.engine
@click.option("--quiet", is_flag=True, help="Show no progress of shards.")
@options.as_json
def sample(
    model: str,
    rows: int,
    output: str,
    seed: int | None,
    where: tuple[str, ...],
    rules: tuple[str, ...],
    as_json: bool,
    **of_shards: Any,
) -> None:
    """Draws synthetic rows from MODEL. Costs no budget.

    Every row keeps the constraints of the schema. If constraints or conditions apply, the acceptance rate is printed.
    A record of where the rows come from is written beside them, as FILE.json; `understudy report` checks it. From the
    model of a database, -n units are drawn, --where is about the root, and -o is a folder for one CSV file a table.

    With a folder, the rows are written to Parquet shards, each drawn by itself, so memory does not grow with -n and the
    rows are the same for any number of processes. If it is stopped, the same command goes on. Of a database, each table
    has a folder of shards in DIR/ (with the slash), and --rows-per-shard counts units.

    \b
    Example:
      understudy sample people.understudy -n 10000 -o synthetic.parquet
      understudy sample people.understudy -n 1000 --where state=CA --where age=30..40 -o some.csv
      understudy sample people.understudy -n 1_000_000_000 -o synthetic/
      understudy sample hospital.understudy -n 5000 -o synthetic-hospital
      understudy sample hospital.understudy -n 10_000_000 -o synthetic-hospital/
    """
    import os

    from understudy.core.randomness import Key

    with argument_errors():
        Key.new(seed)
        if rows < 0:
            raise ValueError(f"-n: expected a whole number >= 0, got {rows}.")
    if databases.is_model(model):
        databases.sample(model, rows, output, seed, where, rules, as_json, **of_shards)
    elif output.endswith(os.sep) or os.path.isdir(output):
        _sample_shards(model, rows, output, seed, where, rules, as_json, **of_shards)
    else:
        _sample_file(model, rows, output, seed, where, rules, as_json, **of_shards)


def _sample_file(
    model: str,
    rows: int,
    output: str,
    seed: int | None,
    where: tuple[str, ...],
    rules: tuple[str, ...],
    as_json: bool,
    **of_shards: Any,
) -> None:
    """Draws the rows at once, and writes one file."""
    import dataclasses
    import secrets
    from pathlib import Path

    from understudy.core.files import sha256
    from understudy.report.provenance import check_record_place, write_record
    from understudy.tables.sources import extension
    from understudy.tables.where import where_from_text
    from understudy.tables.writing import write

    for option in ("rows_per_shard", "processes", "address"):
        if of_shards[option] is not None or of_shards["engine"] != "local":
            given = "engine" if of_shards["engine"] != "local" else option.replace("_", "-")
            raise Refused(f"--{given} is for shards, and -o {output} is one file. Give a folder, such as -o rows/.")
    check_place(output, model)
    extension(output, written=True)  # refuses formats it does not know
    check_record_place(output)
    loaded = dataclasses.replace(understudy.load(model), kind="polars")
    conditions = where_from_text(where, loaded.schema)
    seed = secrets.randbits(63) if seed is None else seed
    with waiting(f"drawing {count(rows, 'row')}"):
        write(loaded.sample(rows, seed, where=conditions, rules=rules), output, loaded.schema)
    of_file = sha256(Path(model).read_bytes())
    record = write_record(output, loaded, model_sha256=of_file, rows=rows, seed=seed, where=where, rules=rules)
    if as_json:
        drawn = dataclasses.asdict(loaded.acceptance) if loaded.acceptance else None
        print_json({"output": output, "record": str(record), "rows": rows, "seed": seed, "acceptance": drawn})
        return
    if conditions or rules or loaded.schema.constraints:
        click.echo(f"{loaded.acceptance}.", err=True)
    click.echo(f"{count(rows, 'row')} written to {output}, and where they come from to {record.name}.")


def _sample_shards(
    model: str,
    rows: int,
    output: str,
    seed: int | None,
    where: tuple[str, ...],
    rules: tuple[str, ...],
    as_json: bool,
    *,
    rows_per_shard: int | None,
    quiet: bool,
    **places: Any,
) -> None:
    """Draws the shards that are missing in a folder."""
    import dataclasses

    from understudy.tables.shards import ROWS_PER_SHARD, manifest_path
    from understudy.tables.where import where_from_text

    loaded = understudy.load(model)
    conditions = where_from_text(where, loaded.schema)
    with noted("The same command goes on with the shards that are missing."):
        found = loaded.sample_to(
            output,
            rows,
            seed,
            where=conditions,
            rules=rules,
            rows_per_shard=rows_per_shard or ROWS_PER_SHARD,
            progress=False if quiet or as_json else None,
            **places,
        )
    record, number = manifest_path(output), found.shards.count
    if as_json:
        drawn = None if found.acceptance is None else dataclasses.asdict(found.acceptance)
        made = {"shards": number, "made": found.made, "seed": found.seed, "acceptance": drawn}
        print_json({"output": output, "record": str(record), "rows": rows, **made})
        return
    if found.acceptance is not None and (conditions or rules or loaded.schema.constraints):
        click.echo(f"{found.acceptance}.", err=True)
    there = f" ({number - found.made} existed)" if number > found.made else ""
    click.echo(
        f"{count(rows, 'row')} in {count(number, 'shard')}{there} written to {output}, and where they come from to "
        f"{record.name}."
    )
