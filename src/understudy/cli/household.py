"""The commands about the program itself: demo, doctor, completion, version.

The one rule: none of them reads a table of anyone's.
"""

import dataclasses
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

from understudy.cli import options
from understudy.cli.options import FOLDER, count, print_json
from understudy.cli.refusals import Refused
from understudy.core.version import __version__


@click.command()
@click.option(
    "-o", "--output", metavar="DIR", type=FOLDER, default="demo", show_default=True, help="The folder to write to."
)
@options.as_json
def demo(output: str, as_json: bool) -> None:
    """Runs the whole story on simulated people.

    Simulates a table, fits a model of it, samples from it, and compares the two. With --json the story goes to stderr,
    and what it left behind to stdout.

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
    """Looks whether everything is here that a fit needs, and makes a small one.

    Each check is one line: ok, note (it works, and could be better) or problem, with what to do. Asks no network, reads
    no table but one that it makes up, and takes about five seconds. Exits with 1 if there is a problem.

    \b
    Example:
      understudy doctor
      understudy doctor --json
    """
    from understudy.cli.doctor import examine

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
        click.echo(f"All is well: {counted['ok']} checks are ok, {count(counted['note'], 'note')}.")
    if counted["problem"]:
        raise Refused(f"{count(counted['problem'], 'problem')} found. Do what is said there.")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Prints a script that lets SHELL complete commands, options, methods and file names.

    Put it where the shell looks, once, and start a new shell. For zsh, ~/.zshrc must say `fpath+=~/.zfunc` before
    `compinit`.

    \b
    Example:
      understudy completion bash > ~/.local/share/bash-completion/completions/understudy
      understudy completion zsh > ~/.zfunc/_understudy
      understudy completion fish > ~/.config/fish/completions/understudy.fish
    """
    made = get_completion_class(shell)
    assert made is not None  # click knows all three
    script = made(context.find_root().command, {}, "understudy", "_UNDERSTUDY_COMPLETE")
    # Not bash's own `source`: that starts the bash that is here, which need not be the one that will read it.
    click.echo(ShellComplete.source(script))


@click.command()
@options.as_json
def version(as_json: bool) -> None:
    """Prints the version; with --json also those of Python and of what understudy is built on.

    \b
    Example:
      understudy version
      understudy version --json
    """
    if not as_json:
        click.echo(f"understudy, version {__version__}")
        return
    from understudy.cli.doctor import versions

    print_json(versions())
