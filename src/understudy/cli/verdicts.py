"""The commands that judge: evaluate and report.

The one rule: what comes from real rows is stamped "not covered by the budget", in text and in JSON.
"""

from typing import Any

import click

import understudy
from understudy.cli import options
from understudy.cli.options import FILE, print_json, waiting
from understudy.cli.refusals import arguments, check_place, read_schema


def _listed(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",")]


@click.command()
@options.table("real", "REAL")
@options.table("synthetic", "SYNTHETIC")
@click.argument("schema", type=FILE)
@click.option("--train", metavar="DATA", type=FILE, help="The table that was fitted: gives a floor and a reference.")
@click.option("--metrics", metavar="A,B", help="Which, by name.  [default: all distances]")
@click.option("--learners", metavar="all|A,B", help="Which to train on SYNTHETIC and test on REAL.  [default: none]")
@click.option("--seed", type=int, default=0, show_default=True, help="Where subsamples come from.")
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
    """Holds SYNTHETIC against REAL. No budget covers what it prints.

    REAL is best a part of the table that was kept from the fit. With --train, each value has the floor beside it,
    which is what the fitted rows themselves reach, and the reference, which is what they reach with every column
    shuffled.

    \b
    Example:
      understudy evaluate holdout.csv synthetic.parquet people.toml
      understudy evaluate holdout.csv synthetic.csv people.toml --train people.csv --metrics wd,tvd2
      understudy evaluate holdout.csv synthetic.csv people.toml --learners catboost,svm
    """
    from understudy.evaluation.evaluate import NOT_COVERED, resolve

    facts = read_schema(schema)
    chosen, trained = _listed(metrics), _listed(learners)
    with arguments():
        asked = resolve(facts, chosen, trained)
        if seed < 0:
            raise ValueError(f"--seed: expected a whole number >= 0, got {seed}.")
    with waiting(f"training {', '.join(asked.learners)}" if asked.learners else "comparing"):
        judged = understudy.evaluate(real, synthetic, facts, metrics=chosen, learners=trained, train=train, seed=seed)
    if as_json:
        print_json({"covered_by_budget": False, "note": NOT_COVERED, "seed": seed, "rows": judged.to_dicts()})
        return
    click.echo(NOT_COVERED)
    click.echo(_aligned(judged.to_dicts(), beside=train is not None))


def _aligned(rows: list[dict[str, Any]], *, beside: bool) -> str:
    """The rows of an evaluation as a table, and below it what each metric is."""
    import io

    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    numbers = ("value", "floor", "reference") if beside else ("value",)
    names = ("metric", "learner", "columns") if any(row["learner"] for row in rows) else ("metric", "columns")
    table = Table(*names, box=SIMPLE_HEAD)
    for number in numbers:
        table.add_column(number, justify="right")
    for row in rows:
        shown = ("-" if row[number] is None else f"{row[number]:.4g}" for number in numbers)
        cells = row | {"columns": row["columns"] or "(all)"}
        table.add_row(*(Text(cells[name]) for name in names), *shown)
    # As wide as it needs: a name that is cut off is of no use, in a file or on a terminal.
    console = Console(file=io.StringIO(), width=10_000, color_system=None)
    console.print(table)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # pyright: ignore[reportAttributeAccessIssue]
    whole = {", ".join(filter(None, (row["metric"], row["learner"]))): row for row in rows if not row["columns"]}
    return "\n".join([*lines, *(f"{name}: {row['how']}." for name, row in whole.items())])


@click.command()
@click.argument("model", type=FILE)
@click.option(
    "--real", metavar="DATA", type=FILE, help="Real rows to hold the synthetic ones against; best kept from the fit."
)
@click.option("--synthetic", metavar="DATA", type=FILE, help="The rows to show.  [default: drawn from MODEL]")
@click.option("-n", "rows", type=int, help="How many to draw.  [default: about as many as were fitted, up to 10000]")
@click.option("--train", metavar="DATA", type=FILE, help="The table that was fitted: gives a floor and a reference.")
@click.option("--ledger", metavar="FILE", type=FILE, help="The ledger that the fit was charged to.")
@click.option(
    "--truth", metavar="FILE", type=FILE, help='The true parents, where they are known: {"salary": ["age"]}, as JSON.'
)
@click.option("--learners", metavar="all|none|A,B", help="Which to train for usefulness.  [default: catboost]")
@click.option("--seed", type=int, default=0, show_default=True, help="Where rows and subsamples come from.")
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
    seed: int,
    output: str,
    as_json: bool,
) -> None:
    """Writes a page about MODEL: what is promised, what was learned, and what it is worth.

    Without --real, all of it follows from the model and may be handed on with it. With --real, the page also holds
    numbers of real rows, and no budget covers those: look, do not publish.

    With --json it prints where page and numbers are; the numbers themselves are in the .json file beside the page.

    \b
    Example:
      understudy report people.understudy -o report.html
      understudy report people.understudy --real holdout.csv --train people.csv --ledger budget.jsonl -o report.html
      understudy report people.understudy --real holdout.csv --synthetic synthetic.csv --learners none -o report.html
    """
    if synthetic is not None and rows is not None:
        raise click.UsageError("--synthetic and -n exclude each other.")
    from understudy.evaluation.evaluate import NOT_COVERED, resolve
    from understudy.report import places

    used = (model, real, synthetic, train, ledger, truth)
    for place in places(output):
        check_place(str(place), *used)
    loaded = understudy.load(model)
    trained = [] if learners == "none" else _listed(learners)
    with arguments():
        resolve(loaded.schema, None, trained or None)
    with waiting("drawing the page" if real is None else "comparing with real rows"):
        page = understudy.report(
            loaded,
            output,
            real,
            synthetic=synthetic,
            rows=rows,
            train=train,
            ledger=ledger,
            truth=truth,
            learners=trained,
            seed=seed,
        )
    numbers = page.with_suffix(".json")
    if as_json:
        stamp = {"covered_by_budget": real is None, "note": None if real is None else NOT_COVERED}
        print_json({"page": str(page), "numbers": str(numbers), **stamp})
        return
    click.echo(f"Report written to {page}, and its numbers to {numbers}.")
    if real is not None:
        click.echo(NOT_COVERED)
