"""The command that audits a method, or one's own release.

The one rule: an audit of a method reads no table. An audit of a release reads three, and is stamped as not covered.
"""

import json
import os
from typing import Any

import click

import understudy
from understudy.cli import options
from understudy.cli.errors import argument_errors, read_schema
from understudy.cli.options import FILE, print_json, waiting


@click.command()
@click.argument("schema", type=FILE, required=False)
@click.option("--epsilon", type=float, help="The claim: the budget ε of every fit.")
@click.option("--delta", type=float, default=1e-6, show_default=True, help="The claim's δ.")
@options.method
@click.option("--fits", type=int, help="Fits to attack for a lower bound on ε; hundreds are needed.  [default: none]")
@click.option(
    "--simulated", metavar="NAME", help="In place of SCHEMA: example, or GRAPH-EQUATIONS of a random network."
)
@click.option("--release", metavar="DATA", type=FILE, help="Synthetic rows to attack in place of a method.")
@click.option("--real", metavar="DATA", type=FILE, help="With --release: the rows that were fitted.")
@click.option("--control", metavar="DATA", type=FILE, help="With --release: rows like them that were not fitted.")
@options.as_json
def audit(
    schema: str | None,
    epsilon: float | None,
    delta: float,
    method: str | None,
    settings: dict[str, Any],
    fits: int | None,
    simulated: str | None,
    release: str | None,
    real: str | None,
    control: str | None,
    as_json: bool,
) -> None:
    """Audits a method on tables made from SCHEMA, or attacks a release.

    Each mechanism's exact answers on neighbouring tables are held against the sensitivity that it is charged for,
    everything else of the fits must be identical, and the noise that ships is tested. With --simulated, neighbours have
    rows of a simulator, whose columns depend on each other. With --fits, whole fits are
    attacked, and a lower bound on ε is certified. The exit code is 1 if anything is found against the claim.

    With --release, the rows in DATA are attacked with those they were made from, against a control group. No budget
    covers what that prints, and it proves nothing.

    \b
    Example:
      understudy audit people.toml --method copula --epsilon 1
      understudy audit people.toml --method mst --epsilon 1 --delta 1e-5 --fits 400 --json
      understudy audit --simulated erdos-renyi-nonlinear --method mst --epsilon 1
      understudy audit people.toml --release synthetic.csv --real people.csv --control holdout.csv
    """
    if schema is None and simulated is None:
        raise click.UsageError("Missing argument 'SCHEMA', or --simulated NAME in its place.")
    if schema is not None and simulated is not None:
        raise click.UsageError("--simulated NAME is in place of SCHEMA: give one of the two.")
    if release is not None or real is not None or control is not None:
        if schema is None:
            raise click.UsageError("--release needs SCHEMA.")
        _attack_release(schema, release, real, control, as_json)
        return
    if epsilon is None:
        raise click.UsageError("Missing option '--epsilon'.")
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")  # programs run for a moment each
    configured = options.configured(method, settings)
    facts = None if schema is None else read_schema(schema)
    with argument_errors(), waiting(f"auditing {configured.name}"):
        found = understudy.audit(facts, configured, epsilon=epsilon, delta=delta, fits=fits, simulated=simulated)
    if as_json:
        print_json(json.loads(found.to_json()))
    else:
        click.echo(str(found))
    if not found.passed:
        raise click.exceptions.Exit(1)


def _attack_release(schema: str, release: str | None, real: str | None, control: str | None, as_json: bool) -> None:
    if release is None or real is None or control is None:
        raise click.UsageError("--release, --real and --control belong together.")
    from understudy.audit.release import attack_release

    with waiting("attacking the release"):
        found = attack_release(release, real, control, read_schema(schema))
    if as_json:
        print_json(json.loads(found.to_json()))
    else:
        click.echo(str(found))
