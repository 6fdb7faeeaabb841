"""The command line: each command a thin layer over the front door.

The one rule: what goes wrong is said in one line that shows no private value (`refusals`). Answers are text for people,
or with --json one JSON object; they go to stdout, and notes and progress to stderr.

Nothing is imported up here that takes time: a command imports what it needs, so that help is there at once. One file
for each family of commands: `models` makes and uses them, `verdicts` judges, `spending` counts, `races` compares,
`household` is for the program itself.
"""

import io
import sys

import click

from understudy.cli import household, models, races, spending, verdicts
from understudy.cli.refusals import Commands
from understudy.core.version import __version__


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="understudy")
def cli() -> None:
    """Synthetic tables under differential privacy, with one stated (ε, δ) that covers everything.

    \b
    Example:
      understudy demo
      understudy schema draft people.csv -o people.toml
      understudy fit people.csv people.toml --epsilon 1 -o people.understudy
      understudy sample people.understudy -n 10000 -o synthetic.csv
    """


for _command in (
    *(models.schema, models.plan, models.fit, models.sample),
    *(verdicts.evaluate, verdicts.report),
    *(spending.receipt, spending.ledger),
    races.bench,
    *(household.demo, household.doctor, household.completion, household.version),
):
    cli.add_command(_command)


def main(arguments: list[str] | None = None) -> None:
    """The `understudy` command. Exits with 0: done; 1: refused; 2: wrong usage; 130: stopped by Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a file's name may hold what the terminal cannot spell
    cli(arguments, prog_name="understudy")
