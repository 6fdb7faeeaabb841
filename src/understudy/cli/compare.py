"""The command `compare`: every method on a table of one's own, and one table of what they reach.

The one rule: what was charged is said, and what no budget covers is stamped so.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

import understudy
from understudy.cli import options
from understudy.cli.errors import Refused, argument_errors, read_schema
from understudy.cli.options import FILE, FOLDER, count, print_json, waiting
from understudy.synthesizers import METHODS, resolve

if TYPE_CHECKING:
    from understudy.benchmark.comparison import Comparison, Line

_HIGHER = ("r2", "f1", "auc", "accuracy", "every")


@click.command()
@options.table()
@click.argument("schema", type=FILE)
@options.budget
@click.option("--methods", metavar="A,B", help="The methods, by name.  [default: all]")
@click.option("--metrics", metavar="A,B", help="The metrics, by name.  [default: six distances]")
@click.option(
    "--learners",
    metavar="none|all|A,B",
    help="Learners to train on synthetic rows.  [default: catboost if it is installed and the schema has a target]",
)
@click.option(
    "--holdout",
    metavar="SHARE",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=0.25,
    show_default=True,
    help="The share of the rows that is kept from the fits and compared with.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the split; fits have none.")
@click.option("--ledger", metavar="FILE", type=FILE, help="The ledger file to charge; made if missing.")
@click.option("-o", "--output", metavar="DIR", type=FOLDER, help="Where to keep the models; made if missing.")
@options.as_json
def compare(
    table: str,
    schema: str,
    epsilon: float,
    delta: float,
    methods: str | None,
    metrics: str | None,
    learners: str | None,
    holdout: float,
    seed: int,
    ledger: str | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Fits every method to a part of DATA and compares their rows with the rest.

    Each fit costs epsilon and delta of its own, and together they cost the sum: compare on a public table like yours if
    there is one. The numbers that are printed are computed on real rows, and no budget covers them.

    \b
    Example:
      understudy compare people.csv people.toml --epsilon 1
      understudy compare people.csv people.toml --epsilon 1 --methods prada,aim --ledger budget.jsonl -o models
    """
    from understudy.benchmark.comparison import METRICS as DISTANCES
    from understudy.benchmark.comparison import Comparison, split
    from understudy.evaluation.metrics import resolve as resolve_metrics

    facts = read_schema(schema)
    named = list(METHODS) if methods is None else _listed(methods)
    with argument_errors():
        understudy.Budget(epsilon=epsilon, delta=delta)
        for name in named:
            resolve(name)
        trained = _learners(facts, learners)
        chosen = list(DISTANCES) if metrics is None else _listed(metrics)
        request = resolve_metrics(facts, chosen, trained)
        if seed < 0:
            raise ValueError(f"--seed: expected a whole number >= 0, got {seed}.")
    chosen = [*request.similarity, *request.usefulness, *(["every"] if request.every else [])]
    _check_ledger(ledger, facts, epsilon * len(named), delta * len(named))
    if output is not None:
        Path(output).mkdir(parents=True, exist_ok=True)
    with waiting("reading"):
        train, kept = split(table, facts, holdout=holdout, seed=seed)
    asked = Comparison(
        schema=facts,
        train=train,
        holdout=kept,
        epsilon=epsilon,
        delta=delta,
        metrics=chosen,
        learners=trained or None,
        ledger=ledger,
        folder=None if output is None else Path(output),
    )
    _answer(asked, named, as_json)


def _answer(asked: "Comparison", names: list[str], as_json: bool) -> None:
    """Makes the fits one by one and prints what they reach."""
    from understudy.evaluation.evaluate import NOT_COVERED

    with waiting("comparing real rows"):
        lines = list(asked.baselines())
    fits = []
    for place, name in enumerate(names, 1):
        with waiting(f"{name}, {place} of {len(names)}"):
            fits.append(asked.run(name))
    if as_json:
        print_json(
            {
                "covered_by_budget": False,
                "note": NOT_COVERED,
                "ledger": None if asked.ledger is None else str(asked.ledger),
                "epsilon": asked.epsilon,
                "delta": asked.delta,
                "lines": [dataclasses.asdict(line) for line in (*lines, *fits)],
            }
        )
        return
    click.echo(NOT_COVERED)
    click.echo(_as_table([*lines, *fits]))
    for line in fits:
        if line.refused is not None:
            click.echo(f"{line.name}: {' '.join(line.refused.split())}")
    click.echo(_what_was_charged(asked, fits))


def _what_was_charged(asked: "Comparison", fits: "list[Line]") -> str:
    each = f"epsilon = {asked.epsilon:g} and delta = {asked.delta:g} each"
    if asked.ledger is None:
        together = f"epsilon = {asked.epsilon * len(fits):g}, delta = {asked.delta * len(fits):g}"
        return f"{count(len(fits), 'fit')} with {each}, {together} together. No ledger was given: nothing is recorded."
    charged = [line.name for line in fits if line.charged]
    names = ", ".join(charged) or "no fit"
    return f"Charged to table {asked.schema.name!r} in {asked.ledger}, {each}: {names}."


def _check_ledger(ledger: str | None, facts: "understudy.Schema", epsilon: float, delta: float) -> None:
    """Refuses what the cap does not allow for all fits together, before a row is read."""
    from understudy.tables.schema import UNNAMED

    if ledger is None:
        return
    if facts.name == UNNAMED:
        raise Refused('the schema has no name, and a ledger goes by names. Add `name = "..."` to it.')
    understudy.LedgerFile(ledger).check(facts.name, epsilon, delta)


def _listed(names: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in names.split(",")))


def _learners(facts: "understudy.Schema", learners: str | None) -> list[str]:
    import importlib.util

    if learners is not None:
        return [] if learners == "none" else _listed(learners)
    return ["catboost"] if facts.target is not None and importlib.util.find_spec("catboost") is not None else []


def _as_table(lines: "list[Line]") -> str:
    """One line a method, one column a metric; arrows say which direction is better."""
    import io

    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    metrics = dict.fromkeys(name for line in lines for name, value in line.values.items() if value is not None)
    table = Table("", box=SIMPLE_HEAD)
    for name in (*metrics, "fit, s", "sample, s"):
        arrow = "" if name in ("fit, s", "sample, s") else " ↑" if name.split("/")[0] in _HIGHER else " ↓"
        table.add_column(name + arrow, justify="right")
    for line in lines:
        values = (line.values.get(name) for name in metrics)
        times = (line.fit_seconds, line.sample_seconds)
        table.add_row(
            line.name,
            *("-" if value is None else f"{value:.4g}" for value in values),
            *("" if seconds is None else f"{seconds:.1f}" for seconds in times),
        )
    file = io.StringIO()
    Console(file=file, width=10_000, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())
