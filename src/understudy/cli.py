"""The command line: each command a thin layer over the front door.

The one rule: what goes wrong is said in one line that shows no private value. Errors of this library are written to
show none, so they pass; anything else may quote a cell, so only its type is told. For the same reason warnings are not
shown: "overflow encountered" tells that somebody's value is huge.

Nothing is imported up here that takes time: a command imports what it needs, so that help is there at once.
"""

import ast
import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

import understudy

METHOD_HELP = (
    "prada, prada-gan, aim, mst, privmrf, gem, dp-merf, privbayes, dpgan, copula or independent.  [default: copula]"
)


class Refused(click.ClickException):
    """The request is refused; said in one line, without a traceback."""

    exit_code = 1

    def __init__(self, message: str):
        line = " ".join(message.split())
        super().__init__("".join(letter if letter.isprintable() else "?" for letter in line))

    def show(self, file: Any = None) -> None:
        click.echo(f"understudy: {self.message}", file=file or sys.stderr)


class Stopped(Refused):
    """Somebody pressed Ctrl-C."""

    exit_code = 130  # 128 + SIGINT, as shells count it


class _Commands(click.Group):
    """A group whose commands end in a result, a line of help or a line that says what is wrong."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings():
                if not _is_debugging():
                    warnings.simplefilter("ignore")
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, SystemExit, BrokenPipeError):
            raise  # click knows what to do
        except KeyboardInterrupt:
            note = "stopped. No file is half-written; a fit that was entered in a ledger stays charged."
            raise Stopped(note) from None
        except BaseException as error:  # a panic of polars is no Exception
            if (refusal := _refusal(error)) is None:
                raise
            raise refusal from None


def _refusal(error: BaseException) -> Refused | None:
    """What to say of an error; None where the traceback was asked for."""
    if isinstance(error, ValueError) and type(error).__module__.startswith("understudy."):
        return Refused(str(error))
    if isinstance(error, OSError) and error.strerror:
        place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        return Refused(f"{place}{error.strerror.lower()}.")
    if isinstance(error, MemoryError):
        return Refused("there is not enough memory. Ask for fewer rows at a time.")
    if _is_debugging():
        return None
    return Refused(
        f"unexpected {type(error).__name__}; this is a fault of understudy. Set UNDERSTUDY_DEBUG=1 to see where it "
        "comes from, and look before you pass that on: it may show private values."
    )


def _is_debugging() -> bool:
    return bool(os.environ.get("UNDERSTUDY_DEBUG"))


# What the commands share -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _arguments() -> Iterator[None]:
    """Lets the message of any ValueError pass: no row is at hand in here, so it is about an argument."""
    try:
        yield
    except ValueError as error:
        raise Refused(str(error)) from None


def _check_place(path: str, *kept: str | None) -> None:
    """Refuses a place that cannot be written, before anything is spent on what would go there.

    Args:
        kept: Files of the same command that must not be written over.
    """
    import tempfile

    target = Path(os.path.realpath(path))
    if any(other is not None and target == Path(os.path.realpath(other)) for other in kept):
        raise Refused(f"-o {path} is also a file that this command uses. Give it another name.")
    if target.is_dir():
        raise Refused(f"-o {path} is a folder. Give the name of a file.")
    if target.exists() and not target.is_file():
        raise Refused(f"-o {path} is not a regular file. Give another name.")
    if not target.parent.is_dir():
        raise Refused(f"-o {path} cannot be written: there is no folder {str(target.parent)!r}. Make it first.")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise Refused(f"-o {path} cannot be written: {(error.strerror or 'no reason given').lower()}.") from None


def _read_schema(path: str) -> "understudy.Schema":
    """The schema; a table given in its place is refused unread, since errors about a schema quote it."""
    if path.lower().endswith((".csv", ".tsv", ".gz", ".parquet")):
        raise Refused(f"SCHEMA: expected a .toml file, got {path}. Are the table and the schema swapped?")
    return understudy.Schema.read(path)


def _read_settings(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """`--set key=value` pairs: Python literals where they are, text where they are not."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"expected key=value, got {pair!r}.", context, parameter)
        if key in settings:
            raise click.BadParameter(f"{key!r} is given twice.", context, parameter)
        try:
            settings[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            settings[key] = text
    return settings


def _method(name: str | None, settings: dict[str, Any]) -> Any:
    """The method asked for, configured."""
    from understudy.pipeline import resolve
    from understudy.synthesizers import DEFAULT

    with _arguments():
        try:
            return resolve(name or DEFAULT, settings)
        except TypeError:
            given = ", ".join(f"{key} = {value!r}" for key, value in settings.items())
            raise ValueError(f"--set: a value of the wrong type for {name or DEFAULT!r} among {given}.") from None


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator, shown in the order given."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_BUDGET = _options(
    click.option("--epsilon", type=float, required=True, help="The budget ε, for everything that is done."),
    click.option("--delta", type=float, default=1e-6, show_default=True, help="The budget δ; below 1 / people."),
)
_METHOD = _options(
    click.option("--method", metavar="NAME", help=METHOD_HELP),
    click.option(
        "--set",
        "settings",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_read_settings,
        help="A setting of the method.",
    ),
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _output(what: str) -> Callable[[Any], Any]:
    return click.option("-o", "--output", metavar="FILE", required=True, help=f"Where to write {what}.")


# The commands ------------------------------------------------------------------------------------------------------


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(understudy.__version__, prog_name="understudy")
def cli() -> None:
    """Synthetic tables under differential privacy, with one stated (ε, δ) that covers everything.

    \b
    Example:
      understudy demo
      understudy schema draft people.csv -o people.toml
      understudy fit people.csv people.toml --epsilon 1 -o people.understudy
      understudy sample people.understudy -n 10000 -o synthetic.csv
    """


@cli.command()
@click.option("-o", "--output", metavar="DIR", default="demo", show_default=True, help="The folder to write to.")
def demo(output: str) -> None:
    """Runs the whole story on simulated people.

    Simulates a table, fits a model of it, samples from it, and compares the two.

    \b
    Example:
      understudy demo -o demo
    """
    from understudy.demo import run

    run(Path(output))


@cli.group()
def schema() -> None:
    """Public facts about a table.

    \b
    Example:
      understudy schema draft people.csv -o people.toml
    """


@schema.command("draft")
@click.argument("table", metavar="DATA")
@_output("the draft")
@click.option("--force", is_flag=True, help="Write over a schema that is there already.")
def draft_schema(table: str, output: str, force: bool) -> None:
    """Drafts a schema for DATA, a CSV or Parquet file.

    It gets the names and the kinds of the columns. Bounds and categories are left for you to fill in: they are never
    taken from the data.

    \b
    Example:
      understudy schema draft people.csv -o people.toml
    """
    _check_place(output, table)
    if Path(output).exists() and not force:
        raise Refused(f"{output} is there already, and may hold what someone filled in. Use --force to write over it.")
    from understudy.files import replacing
    from understudy.schema import draft
    from understudy.sources import kinds

    names_and_kinds, source = kinds(table), Path(table).name
    text = draft(names_and_kinds, name=source.split(".")[0] or "table", source=source)
    with replacing(output) as temporary:
        temporary.write_bytes(text.encode())
    click.echo(f"{output}: {_count(len(names_and_kinds), 'column')}. Check the kinds, and fill in what you know of")
    click.echo("bounds and categories; what you leave out is bought with part of the budget. Next:")
    click.echo(f"  understudy plan {output} --epsilon 1")


@cli.command()
@click.argument("schema")
@_BUDGET
@click.option("--rows", type=int, help="About how many rows, if that is public; for the time and memory alone.")
@_METHOD
@_JSON
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
    import json

    configured = _method(method, settings)
    facts = _read_schema(schema)
    with _arguments():
        made = understudy.plan(facts, configured, epsilon=epsilon, delta=delta, rows=rows)
    click.echo(json.dumps(made.to_json(), indent=2) if as_json else str(made))


@cli.command()
@click.argument("table", metavar="DATA")
@click.argument("schema")
@_BUDGET
@_METHOD
@click.option("--ledger", metavar="FILE", help="A ledger to charge before a hatch is opened; made if missing.")
@click.option("--seed", type=int, help="For tests only: noise that can be repeated protects nobody.")
@click.option("--quiet", is_flag=True, help="Print neither progress nor receipt.")
@_JSON
@_output("the model")
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
    _check_place(output, table, schema, ledger)
    configured = _method(method, settings)
    from understudy.randomness import Key

    with _arguments():
        understudy.Budget(epsilon=epsilon, delta=delta)
        Key.new(seed)
    facts = _read_schema(schema)
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


@cli.command()
@click.argument("model")
@click.option("-n", "rows", type=int, required=True, help="How many rows; the true number is private.")
@_output("the rows: .csv, .tsv, .csv.gz or .parquet")
@click.option("--seed", type=int, help="Draw the same rows again.")
@click.option(
    "--where",
    metavar="COLUMN=VALUE",
    multiple=True,
    help="Only such rows: state=CA, age=30..40, age=..40, or income= for a missing cell.",
)
def sample(model: str, rows: int, output: str, seed: int | None, where: tuple[str, ...]) -> None:
    """Draws synthetic rows from MODEL. Costs no budget.

    Every row keeps the constraints of the schema. Where there are some, or conditions, it is said how many of the rows
    that were drawn do.

    \b
    Example:
      understudy sample people.understudy -n 10000 -o synthetic.parquet
      understudy sample people.understudy -n 1000 --where state=CA --where age=30..40 -o some.csv
    """
    import dataclasses

    from understudy import sources, table
    from understudy.constraints import where_from_text
    from understudy.randomness import Key

    _check_place(output, model)
    sources.extension(output)  # refuses what it does not know
    with _arguments():
        Key.new(seed)
        if rows < 0:
            raise ValueError(f"-n: expected a whole number >= 0, got {rows}.")
    loaded = dataclasses.replace(understudy.load(model), kind="polars")
    conditions = where_from_text(where, loaded.schema)
    table.write(loaded.sample(rows, seed, where=conditions), output)
    if conditions or loaded.schema.constraints:
        click.echo(f"{loaded.acceptance}.", err=True)
    click.echo(f"{_count(rows, 'row')} written to {output}.")


@cli.command()
@click.argument("real")
@click.argument("synthetic")
@click.argument("schema")
@click.option("--train", metavar="DATA", help="The table that was fitted: gives a floor and a reference.")
@click.option("--metrics", metavar="A,B", help="Which, by name.  [default: all distances]")
@click.option("--learners", metavar="all|A,B", help="Which to train on SYNTHETIC and test on REAL.  [default: none]")
@click.option("--seed", type=int, default=0, show_default=True, help="Where subsamples come from.")
@_JSON
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
    import json

    from understudy.evaluate import NOT_COVERED, resolve

    facts = _read_schema(schema)
    chosen, trained = (
        None if names is None else [name.strip() for name in names.split(",")] for names in (metrics, learners)
    )
    try:
        with _arguments():
            resolve(facts, chosen, trained)
            if seed < 0:
                raise ValueError(f"--seed: expected a whole number >= 0, got {seed}.")
    except ImportError as error:
        raise Refused(str(error)) from None
    judged = understudy.evaluate(real, synthetic, facts, metrics=chosen, learners=trained, train=train, seed=seed)
    if as_json:
        printed = {"covered_by_budget": False, "note": NOT_COVERED, "seed": seed, "rows": judged.to_dicts()}
        click.echo(json.dumps(printed, indent=2, ensure_ascii=False, allow_nan=False))
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


@cli.command()
@click.argument("model")
@click.option("--real", metavar="DATA", help="Real rows to hold the synthetic ones against; best kept from the fit.")
@click.option("--synthetic", metavar="DATA", help="The rows to show.  [default: drawn from MODEL]")
@click.option("-n", "rows", type=int, help="How many to draw.  [default: about as many as were fitted, up to 10000]")
@click.option("--train", metavar="DATA", help="The table that was fitted: gives a floor and a reference.")
@click.option("--ledger", metavar="FILE", help="The ledger that the fit was charged to.")
@click.option("--truth", metavar="FILE", help='The true parents, where they are known: {"salary": ["age"]}, as JSON.')
@click.option("--learners", metavar="all|none|A,B", help="Which to train for usefulness.  [default: catboost]")
@click.option("--seed", type=int, default=0, show_default=True, help="Where rows and subsamples come from.")
@_output("the page: .html; its numbers go beside it as .json")
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
) -> None:
    """Writes a page about MODEL: what is promised, what was learned, and what it is worth.

    Without --real, all of it follows from the model and may be handed on with it. With --real, the page also holds
    numbers of real rows, and no budget covers those: look, do not publish.

    \b
    Example:
      understudy report people.understudy -o report.html
      understudy report people.understudy --real holdout.csv --train people.csv --ledger budget.jsonl -o report.html
      understudy report people.understudy --real holdout.csv --synthetic synthetic.csv --learners none -o report.html
    """
    if synthetic is not None and rows is not None:
        raise click.UsageError("--synthetic and -n exclude each other.")
    from understudy.evaluate import NOT_COVERED, resolve
    from understudy.report import places

    used = (model, real, synthetic, train, ledger, truth)
    for place in places(output):
        _check_place(str(place), *used)
    loaded = understudy.load(model)
    trained = None if learners is None else [] if learners == "none" else [name.strip() for name in learners.split(",")]
    try:
        with _arguments():
            resolve(loaded.schema, None, trained or None)
    except ImportError as error:
        raise Refused(str(error)) from None
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
    click.echo(f"Report written to {page}, and its numbers to {page.with_suffix('.json')}.")
    if real is not None:
        click.echo(NOT_COVERED)


@cli.command()
@click.argument("model")
@_JSON
def receipt(model: str, as_json: bool) -> None:
    """Prints what was spent on MODEL, and on what.

    \b
    Example:
      understudy receipt people.understudy
    """
    loaded = understudy.load(model)
    click.echo(loaded.receipt.to_json() if as_json else str(loaded.receipt))


@cli.group()
def ledger() -> None:
    """What has been spent on tables, over all fits.

    \b
    Example:
      understudy ledger show budget.jsonl
    """


@ledger.command("show")
@click.argument("file")
def show_ledger(file: str) -> None:
    """Prints the fits, totals and caps in a ledger FILE.

    \b
    Example:
      understudy ledger show budget.jsonl
    """
    click.echo(understudy.LedgerFile(file).show())


@ledger.command("cap")
@click.argument("file")
@click.argument("table")
@click.option("--epsilon", type=float, required=True, help="The most ε to be spent on the table, over all fits.")
@click.option("--delta", type=float, required=True, help="The most δ, likewise.")
def set_cap(file: str, table: str, epsilon: float, delta: float) -> None:
    """Sets what may be spent in all on TABLE, which is the `name` in its schema.

    A fit that would pass the cap is refused before any row is read.

    \b
    Example:
      understudy ledger cap budget.jsonl people --epsilon 3 --delta 1e-5
    """
    with _arguments():
        understudy.LedgerFile(file).set_cap(table, epsilon, delta)
    click.echo(f"{file}: at most epsilon = {epsilon:g}, delta = {delta:g} for table {table!r}.")


# The race track ----------------------------------------------------------------------------------------------------


class _Bench(click.Group):
    """A group whose first word may be a grid instead of a command: `bench grid.toml -o results`."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])


@cli.group(
    cls=_Bench,
    context_settings={"ignore_unknown_options": True},
    subcommand_metavar="GRID -o RESULTS | table RESULTS | figure RESULTS",
)
def bench() -> None:
    """Races methods against each other on public tables and simulations.

    A grid is a TOML file: data sets, methods, budgets, seeds, and what to measure. Every run leaves one line in
    RESULTS/runs.jsonl. Stop it whenever you like: the same command goes on where it was.

    \b
    Example:
      understudy bench benchmarks/grids/real-data.toml -o results
      understudy bench table results
      understudy bench figure results -o figures
    """


@bench.command("run", hidden=True)
@click.argument("grid")
@click.option("-o", "--output", metavar="RESULTS", required=True, help="The folder of the results; made if missing.")
@click.option("--processes", type=click.IntRange(min=1), help="How many runs at once.  [default: one a core]")
@click.option("--methods", metavar="A,B", help="Only these methods of the grid, by label.")
@click.option("--small", is_flag=True, help="A sketch of the grid that runs in seconds, to see that it would.")
@click.option("--quiet", is_flag=True, help="Print no progress.")
def run_bench(grid: str, output: str, processes: int | None, methods: str | None, small: bool, quiet: bool) -> None:
    """Makes every run of GRID that is not in RESULTS yet.

    \b
    Example:
      understudy bench benchmarks/grids/real-data.toml -o results
      understudy bench benchmarks/grids/real-data.toml -o sketch --small
    """
    from understudy import grids
    from understudy.bench import race

    asked = grids.read(grid)
    asked = asked if methods is None else asked.only([label.strip() for label in methods.split(",")])
    outcome = race(asked.small() if small else asked, output, processes=processes, progress=False if quiet else None)
    for run, why in outcome.failed.items():
        click.echo(f"failed: {run}: {' '.join(why.split())}", err=True)
    click.echo(f"{_count(outcome.made, 'run')} made, {outcome.there} were there: {output}/runs.jsonl. Next:")
    click.echo(f"  understudy bench table {output}")
    if outcome.failed:
        raise Refused(f"{_count(len(outcome.failed), 'run')} failed. Start again to try them again.")


@bench.command("table")
@click.argument("results")
@click.option("-o", "--output", metavar="DIR", help="Write NAME.md, NAME.csv and NAME.tex there instead.")
@click.option(
    "--format", "style", type=click.Choice(["markdown", "csv", "latex"]), default="markdown", show_default=True
)
def bench_table(results: str, output: str | None, style: str) -> None:
    """Prints the tables that the grid of RESULTS asks for.

    The best is bold, the second underlined; a star says that a Wilcoxon test finds the best better than every other.

    \b
    Example:
      understudy bench table results
      understudy bench table results -o tables
    """
    from understudy import scoreboard

    if output is not None:
        for path in scoreboard.write_tables(results, output):
            click.echo(path)
        return
    for rendered in scoreboard.render_tables(scoreboard.read(results)).values():
        click.echo(getattr(rendered, style))


@bench.command("figure")
@click.argument("results")
@click.option("-o", "--output", metavar="DIR", help="Where NAME.svg and NAME.png go.  [default: RESULTS]")
def bench_figure(results: str, output: str | None) -> None:
    """Draws the figures that the grid of RESULTS asks for.

    \b
    Example:
      understudy bench figure results -o figures
    """
    from understudy import figures

    for path in figures.write_figures(results, output or results):
        click.echo(path)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def main(arguments: list[str] | None = None) -> None:
    """The `understudy` command. Exits with 0: done; 1: refused; 2: wrong usage; 130: stopped by Ctrl-C."""
    cli(arguments, prog_name="understudy")
