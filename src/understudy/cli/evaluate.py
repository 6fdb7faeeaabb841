"""The commands that look at synthetic rows: evaluate and report.

The one rule: what no budget covers is stamped "not covered", in text and in JSON: numbers of real rows, and rows that
somebody gave and that need not come from the model.
"""

from typing import Any

import click

import understudy
from understudy.cli import options
from understudy.cli.errors import argument_errors, check_place, read_schema
from understudy.cli.options import FILE, print_json, waiting


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


@click.command()
@options.table("real", "REAL")
@options.table("synthetic", "SYNTHETIC")
@click.argument("schema", type=FILE)
@click.option("--train", metavar="DATA", type=FILE, help="The table that was fitted, for two baselines.")
@click.option("--metrics", metavar="A,B", help="The metrics, by name.  [default: all distances]")
@click.option("--learners", metavar="all|A,B", help="Learners to train on SYNTHETIC and test on REAL.  [default: none]")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of subsamples.")
@options.as_json
def evaluate(
    real: str,
    synthetic: str,
    schema: str,
    train: str | None,
    metrics: str | None,
    learners: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Compares SYNTHETIC with REAL. No budget covers what it prints.

    REAL should be a part of the table that was kept from the fit. With --train, two baselines stand beside each value:
    the floor is what the fitted rows themselves reach, the reference what they reach with every column shuffled.

    With a schema of several tables, REAL and SYNTHETIC are folders with a file for each, or files of SQLite or DuckDB.

    \b
    Example:
      understudy evaluate holdout.csv synthetic.parquet people.toml
      understudy evaluate holdout.csv synthetic.csv people.toml --train people.csv --metrics wd,tvd2
      understudy evaluate holdout.csv synthetic.csv people.toml --learners catboost,svm
    """
    from understudy.evaluation.evaluate import NOT_COVERED
    from understudy.evaluation.metrics import resolve

    facts = read_schema(schema)
    chosen, trained = _listed(metrics), _listed(learners)
    if isinstance(facts, understudy.DatabaseSchema):
        _evaluate_database(real, synthetic, facts, train, chosen, trained, seed, as_json)
        return
    with argument_errors():
        asked = resolve(facts, chosen, trained, train=train is not None)
        if seed < 0:
            raise ValueError(f"--seed: expected a whole number >= 0, got {seed}.")
    with waiting(f"training {', '.join(asked.trains)}" if asked.trains else "comparing"):
        found = understudy.evaluate(real, synthetic, facts, metrics=chosen, learners=trained, train=train, seed=seed)
        verdict = found.verdict
    if as_json:
        stamp = {"covered_by_budget": False, "note": NOT_COVERED, "seed": seed}
        print_json({**stamp, "verdict": verdict.to_json(), "rows": found.to_dicts()})
        return
    click.echo(NOT_COVERED)
    click.echo(str(verdict))
    click.echo(_as_table(found.to_dicts(), baselines=train is not None))


def _evaluate_database(
    real: str,
    synthetic: str,
    facts: "understudy.DatabaseSchema",
    train: str | None,
    metrics: list[str] | None,
    learners: list[str] | None,
    seed: int,
    as_json: bool,
) -> None:
    """Compares two databases, each a folder of files or a file of SQLite or DuckDB."""
    from understudy.evaluation.database import asked
    from understudy.evaluation.evaluate import NOT_COVERED

    with argument_errors():
        asked(metrics, learners)
        if seed < 0:
            raise ValueError(f"--seed: expected a whole number >= 0, got {seed}.")
    with waiting("comparing"):
        found = understudy.evaluate(real, synthetic, facts, metrics=metrics, train=train, seed=seed)
    if as_json:
        print_json({**found.to_json(), "seed": seed})
        return
    click.echo(NOT_COVERED)
    click.echo(str(found.verdict))
    click.echo(_as_table(found.to_dicts(), baselines=True))


def _as_table(rows: list[dict[str, Any]], *, baselines: bool) -> str:
    """The rows of an evaluation as a table, and below it the definition of each metric."""
    import io

    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    numbers = ("value", "floor", "reference") if baselines else ("value",)
    names = ("metric", "learner", "columns") if any(row.get("learner") for row in rows) else ("metric", "columns")
    if rows and "table" in rows[0]:
        names = ("metric", "table", "columns")
    table = Table(*names, box=SIMPLE_HEAD)
    for number in numbers:
        table.add_column(number, justify="right")
    for row in rows:
        shown = ("-" if row[number] is None else f"{row[number]:.4g}" for number in numbers)
        cells = row | {"columns": row["columns"] or "(all)"}
        table.add_row(*(Text(cells[name]) for name in names), *shown)
    # As wide as necessary: a name that is cut off is useless, in a file or on a terminal.
    console = Console(file=io.StringIO(), width=10_000, color_system=None)
    console.print(table)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # pyright: ignore[reportAttributeAccessIssue]
    whole = {", ".join(filter(None, (row["metric"], row.get("learner")))): row for row in rows if not row["columns"]}
    return "\n".join([*lines, *(f"{name}: {row['how']}." for name, row in whole.items())])


@click.command()
@click.argument("model", type=FILE)
@click.option(
    "--real", metavar="DATA", type=FILE, help="Real rows to compare with, preferably some that were kept from the fit."
)
@click.option(
    "--synthetic",
    metavar="DATA",
    type=FILE,
    help="Rows to show; covered only if the model draws the same ones.  [default: drawn rows]",
)
@click.option("-n", "rows", type=int, help="Rows to draw.  [default: about as many as were fitted, up to 10000]")
@click.option("--train", metavar="DATA", type=FILE, help="The table that was fitted, for two baselines.")
@click.option("--ledger", metavar="FILE", type=FILE, help="The ledger that the fit was charged to.")
@click.option(
    "--truth", metavar="FILE", type=FILE, help='The true parents, if they are known, as JSON: {"salary": ["age"]}.'
)
@click.option("--learners", metavar="all|none|A,B", help="Learners to train for usefulness.  [default: catboost]")
@click.option("--audit", metavar="FILE", type=FILE, help="What `understudy audit --json` printed about the method.")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of drawn rows and of subsamples.")
@options.output("the page: .html; its numbers go beside it as .json")
@options.as_json
def report(
    model: str,
    real: str | None,
    synthetic: str | None,
    rows: int | None,
    train: str | None,
    ledger: str | None,
    truth: str | None,
    learners: str | None,
    audit: str | None,
    seed: int,
    output: str,
    as_json: bool,
) -> None:
    """Writes a page about MODEL: its privacy guarantee, what was learned, and how useful it is.

    Without --real and --synthetic, the page follows from the model and may be passed on with it. With --real it also
    holds numbers of real rows, which no budget covers: look at it, do not publish it. Rows given with --synthetic are
    covered only if they came from `understudy sample` and the model, asked again, draws the same ones.

    The page about a database shows its keys, children per parent and histories. DATA is then a folder with a file for
    each table, or a file of SQLite or DuckDB, and -n counts units.

    With --json the command prints where the page and its numbers are; the numbers are in the .json file.

    \b
    Example:
      understudy report people.understudy -o report.html
      understudy report people.understudy --real holdout.csv --train people.csv --ledger budget.jsonl -o report.html
      understudy report people.understudy --real holdout.csv --synthetic synthetic.csv --learners none -o report.html
    """
    if synthetic is not None and rows is not None:
        raise click.UsageError("--synthetic and -n exclude each other.")
    from understudy.report.page import places

    for place in places(output):
        check_place(str(place), model, real, synthetic, train, ledger, truth, audit)
    trained = [] if learners == "none" else _listed(learners)
    facts = understudy.load(model).schema
    if not isinstance(facts, understudy.DatabaseSchema):
        _check_learners(facts, trained)
    with waiting("drawing the page" if real is None else "comparing with real rows"):
        page = understudy.report(
            model,
            output,
            real,
            synthetic=synthetic,
            rows=rows,
            train=train,
            ledger=ledger,
            truth=truth,
            learners=trained,
            audit=audit,
            seed=seed,
        )
    numbers = str(page.with_suffix(".json"))
    _print_report(str(page), numbers, _not_covered(numbers, real is not None), as_json)


def _check_learners(schema: "understudy.Schema", learners: list[str] | None) -> None:
    from understudy.evaluation.metrics import resolve

    with argument_errors():
        resolve(schema, None, learners or None)


def _not_covered(numbers: str, real: bool) -> list[str]:
    """What the page shows that the model's receipt does not cover, by the JSON file beside it."""
    import json
    from pathlib import Path

    from understudy.evaluation.evaluate import NOT_COVERED

    shown = json.loads(Path(numbers).read_text("utf-8"))["synthetic"]
    given = [] if shown["covered_by_budget"] else [f"The synthetic rows were {shown['note']}."]
    return [*given, NOT_COVERED] if real else given


def _print_report(page: str, numbers: str, notes: list[str], as_json: bool) -> None:
    if as_json:
        stamp = {"covered_by_budget": not notes, "note": " ".join(notes) or None}
        print_json({"page": page, "numbers": numbers, **stamp})
        return
    click.echo(f"Report written to {page}, and its numbers to {numbers}.")
    for note in notes:
        click.echo(note)
