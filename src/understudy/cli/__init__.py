"""The command line: each command is a thin layer over the front door.

The one rule: an error is one line that shows no private value (`errors`). Answers are text for people, or with --json
one JSON object. They go to stdout; notes and progress go to stderr.

Nothing that takes time is imported at the top of these modules: a command imports what it needs, so that help is there
at once. One file for each family of commands: `schema`, `models` (plan, fit, sample), `evaluate` (evaluate, report),
`ledger` (receipt, verify, ledger), `compare`, `bench`, `audit`, `studio`, and `system` (demo, doctor, completion,
version).
"""

import io
import sys

import click

from understudy.cli import audit, bench, compare, evaluate, ledger, models, schema, studio, system
from understudy.cli.errors import Commands
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
    *(schema.schema, models.plan, models.fit, models.sample),
    *(evaluate.evaluate, evaluate.report),
    *(ledger.receipt, ledger.verify, ledger.ledger),
    *(compare.compare, bench.bench),
    audit.audit,
    studio.studio,
    *(system.demo, system.doctor, system.completion, system.version),
):
    cli.add_command(_command)


def main(arguments: list[str] | None = None) -> None:
    """The `understudy` command. Exit codes: 0 done, 1 refused, 2 wrong usage, 130 stopped by Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a file's name may hold characters that the terminal cannot show
    cli(arguments, prog_name="understudy")
