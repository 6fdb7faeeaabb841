"""The benchmark commands: bench, bench table and bench figure.

The one rule: a benchmark can be stopped and continues where it was. Tables and figures come from its results alone.
"""

import dataclasses
import os
from typing import Any

import click
from click.shell_completion import CompletionItem

from understudy.cli import options
from understudy.cli.errors import Refused
from understudy.cli.options import FILE, FOLDER, count, print_json, waiting


class _Bench(click.Group):
    """A group whose first word may be a grid instead of a command: `bench grid.toml -o results`."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["run", *args])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file"), *super().shell_complete(ctx, incomplete)]


@click.group(
    cls=_Bench,
    context_settings={"ignore_unknown_options": True},
    subcommand_metavar="GRID -o RESULTS | table RESULTS | figure RESULTS",
)
def bench() -> None:
    """Compares methods on public tables, simulations and databases.

    A grid is a TOML file: data sets, methods, budgets, seeds and metrics. Every run adds one line to
    RESULTS/runs.jsonl. You can stop it at any time: the same command continues where it was.

    \b
    Example:
      understudy bench benchmarks/grids/real-data.toml -o results
      understudy bench table results
      understudy bench figure results -o figures
    """


@bench.command("run", hidden=True)
@click.argument("grid", type=FILE)
@click.option(
    "-o",
    "--output",
    metavar="RESULTS",
    type=FOLDER,
    required=True,
    help="The folder of the results; made if missing.",
)
@click.option("--processes", type=click.IntRange(min=1), help="How many runs at once.  [default: one a core]")
@options.engine
@click.option("--methods", metavar="A,B", help="Only these methods of the grid, by label.")
@click.option(
    "--datasets",
    metavar="A,B",
    multiple=True,
    help='Only these tables, with and without target, or one data set by its whole name, such as "adult, no target".',
)
@click.option("--epsilons", metavar="X,Y", help="Only these budgets of the grid.")
@click.option("--seeds", metavar="I,J", help="Only these splits of the grid.")
@click.option("--small", is_flag=True, help="Run a sketch of the grid, in seconds, to check that it works.")
@click.option("--quiet", is_flag=True, help="Print no progress.")
@options.as_json
def run_bench(
    grid: str,
    output: str,
    processes: int | None,
    engine: str,
    address: str | None,
    methods: str | None,
    datasets: tuple[str, ...],
    epsilons: str | None,
    seeds: str | None,
    small: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Makes every run of GRID that is missing in RESULTS.

    With --methods, --datasets, --epsilons or --seeds only some of them are made; the rest can follow into the same
    folder.

    \b
    Example:
      understudy bench benchmarks/grids/real-data.toml -o results
      understudy bench benchmarks/grids/real-data.toml -o sketch --small
      understudy bench benchmarks/grids/no-regret.toml -o results --methods copula,aim --datasets adult --epsilons 1
    """
    from understudy.benchmark import grid_file
    from understudy.benchmark.runner import run_grid

    asked = grid_file.read(grid)
    asked = asked.only(
        _parts("--methods", methods, str),
        datasets=_names(datasets, [dataset.name for dataset in asked.datasets]),
        epsilons=_parts("--epsilons", epsilons, float),
        seeds=_parts("--seeds", seeds, int),
    )
    asked = asked.small() if small else asked
    places: Any = {"processes": processes, "engine": engine, "address": address}
    outcome = run_grid(asked, output, progress=False if quiet else None, **places)
    if as_json:
        print_json({"results": output, **dataclasses.asdict(outcome)})
    else:
        for run, why in outcome.failed.items():
            click.echo(f"failed: {run}: {' '.join(why.split())}", err=True)
        click.echo(f"{count(outcome.made, 'run')} made, {outcome.there} existed: {output}/runs.jsonl. Next:")
        click.echo(f"  understudy bench table {output}")
    if outcome.failed:
        raise Refused(f"{count(len(outcome.failed), 'run')} failed. Run the same command to try them again.")


def _parts(option: str, text: str | None, kind: type) -> list[Any] | None:
    """The values between the commas; None if the option was not given."""
    try:
        return None if text is None else [kind(part.strip()) for part in text.split(",")]
    except ValueError:
        raise Refused(f"{option}: expected numbers with commas between them, got {text!r}.") from None


def _names(texts: tuple[str, ...], known: list[str]) -> list[str] | None:
    """Names of data sets, some of which hold commas."""
    found = [[text] if text in known else [part.strip() for part in text.split(",")] for text in texts]
    return [name for names in found for name in names] or None


@bench.command("table")
@click.argument("results", type=FOLDER)
@click.option("-o", "--output", metavar="DIR", type=FOLDER, help="Write NAME.md, NAME.csv and NAME.tex there instead.")
@click.option(
    "--format", "style", type=click.Choice(["markdown", "csv", "latex"]), default="markdown", show_default=True
)
@click.option("--regret", is_flag=True, help="How much worse each method is than the best other one, instead.")
@options.as_json
def bench_table(results: str, output: str | None, style: str, regret: bool, as_json: bool) -> None:
    """Prints the tables that the grid of RESULTS asks for.

    The best value is bold and the second underlined; a star means that by a Wilcoxon test the best is better than
    every other. With --json it prints the same cells as rows, or with -o the names of the files.

    With --regret it prints for each method its worst regret, the geometric mean and the ten worst cases: its loss (a
    distance, or what its score lacks of that of real rows) divided by the smallest loss of any other method.

    \b
    Example:
      understudy bench table results
      understudy bench table results -o tables
      understudy bench table results --json
      understudy bench table results --regret
    """
    from understudy.benchmark import scoreboard, selection

    _check_results(results)
    if regret:
        _print_regret(results, output, style, as_json)
        return
    if output is not None:
        _print_files([str(path) for path in scoreboard.write_tables(results, output)], as_json)
        return
    rendered = scoreboard.render_tables(selection.read(results))
    if as_json:
        tables = {name: _rows(each.csv) for name, each in rendered.items()}
        print_json({"covered_by_budget": False, "results": results, "tables": tables})
        return
    for each in rendered.values():
        click.echo(getattr(each, style))


def _print_regret(results: str, output: str | None, style: str, as_json: bool) -> None:
    from understudy.benchmark import regret, selection

    if style == "latex":
        raise Refused("--format: expected markdown or csv with --regret, got latex.")
    if output is not None:
        _print_files([str(path) for path in regret.write(results, output)], as_json)
        return
    found = regret.regrets(selection.read(results))
    summaries = regret.summarise(found)
    if as_json:
        print_json({"covered_by_budget": False, "results": results, "regret": regret.as_json(summaries)})
        return
    click.echo(regret.markdown(summaries) if style == "markdown" else regret.as_frame(found).write_csv(), nl=False)


def _check_results(results: str) -> None:
    if os.path.exists(results) and not os.path.isdir(results):
        raise Refused(
            f"RESULTS: expected a folder, got the file {results}. Give the folder that `understudy bench` wrote."
        )


def _rows(text: str) -> list[dict[str, Any]]:
    import io

    import polars as pl

    return pl.read_csv(io.StringIO(text), infer_schema_length=None).to_dicts()


def _print_files(paths: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"files": paths})
        return
    for path in paths:
        click.echo(path)


@bench.command("figure")
@click.argument("results", type=FOLDER)
@click.option("-o", "--output", metavar="DIR", type=FOLDER, help="Where NAME.svg and NAME.png go.  [default: RESULTS]")
@click.option("--regret", is_flag=True, help="Draw the regret of all methods as regret.svg and regret.png instead.")
@options.as_json
def bench_figure(results: str, output: str | None, regret: bool, as_json: bool) -> None:
    """Draws the figures that the grid of RESULTS asks for, and prints their paths.

    \b
    Example:
      understudy bench figure results -o figures
      understudy bench figure results --regret
    """
    from understudy.benchmark import figures, regret_figure

    _check_results(results)
    with waiting("drawing"):
        write = regret_figure.write_regret if regret else figures.write_figures
        paths = write(results, output or results)
    _print_files([str(path) for path in paths], as_json)
