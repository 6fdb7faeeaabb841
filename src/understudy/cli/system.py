"""The commands about the program itself: demo, doctor, completion, version.

The one rule: none of them reads a user's table.
"""

import dataclasses
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from understudy.cli import options
from understudy.cli.errors import Refused
from understudy.cli.options import FOLDER, count, print_json
from understudy.core.version import __version__


@click.command()
@click.option(
    "-o", "--output", metavar="DIR", type=FOLDER, default="demo", show_default=True, help="The folder to write to."
)
@options.as_json
def demo(output: str, as_json: bool) -> None:
    """Shows the whole workflow on simulated people.

    Simulates a table, fits a model to it, samples from the model, compares the two, and writes a report. With --json
    the demonstration is printed to stderr, and the paths of its files to stdout.

    \b
    Example:
      understudy demo -o demo
    """
    import json

    from understudy.cli.demo import FILES, run

    model = run(Path(output), to_stderr=as_json)
    if as_json:
        files = {name: str(Path(output) / name) for name in FILES}
        print_json({"folder": output, "files": files, "receipt": json.loads(model.receipt.to_json())})


@click.command()
@options.as_json
def doctor(as_json: bool) -> None:
    """Checks that everything a fit needs is here, and makes a small fit.

    Each check is one line: ok, note (it works, but could be better) or problem, with what to do about it. Uses no
    network, reads no table but a simulated one, and takes about five seconds. Exits with 1 if there is a problem.

    \b
    Example:
      understudy doctor
      understudy doctor --json
    """
    from understudy.cli.doctor.checks import examine

    findings = []
    for finding in examine():
        findings.append(finding)
        if not as_json:
            click.echo(str(finding))
    counted = {state: sum(each.state == state for each in findings) for state in ("ok", "note", "problem")}
    if as_json:
        checks = [dataclasses.asdict(each) for each in findings]
        print_json({"healthy": not counted["problem"], "version": __version__, "checks": checks})
    elif not counted["problem"]:
        click.echo(f"No problem found: {counted['ok']} checks are ok, {count(counted['note'], 'note')}.")
    if counted["problem"]:
        raise Refused(f"{count(counted['problem'], 'problem')} found. Follow the advice above.")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Prints a script that lets SHELL complete commands, options, methods and file names.

    Save it where the shell looks for completions, and start a new shell. For zsh, ~/.zshrc must contain
    `fpath+=~/.zfunc` before `compinit`.

    \b
    Example:
      understudy completion bash > ~/.local/share/bash-completion/completions/understudy
      understudy completion zsh > ~/.zfunc/_understudy
      understudy completion fish > ~/.config/fish/completions/understudy.fish
    """
    made = get_completion_class(shell)
    assert made is not None  # click supports all three
    script = made(context.find_root().command, {}, "understudy", "_UNDERSTUDY_COMPLETE")
    # Not the bash class's own `source`: it runs the bash of this machine, which need not be the one that will read it.
    click.echo(ShellComplete.source(script))


@click.command()
@options.as_json
def version(as_json: bool) -> None:
    """Prints the version; with --json also those of Python and of the packages that understudy needs.

    \b
    Example:
      understudy version
      understudy version --json
    """
    if not as_json:
        click.echo(f"understudy, version {__version__}")
        return
    from understudy.cli.doctor.packages import installed_versions

    print_json(installed_versions())
