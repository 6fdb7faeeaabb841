"""What the commands share: options that several of them have, and how they answer.

The one rule: one spelling and one meaning. An option is the same in every command, and so is the shape of an answer:
text for people, or with --json one JSON object on stdout whose keys are those of the Python objects.
"""

import ast
import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import click
from click.shell_completion import CompletionItem

from understudy.cli.errors import argument_errors
from understudy.synthesizers import DEFAULT, METHODS, resolve


class Place(click.ParamType):
    """The name of a file or a folder. Shells complete it; the command checks whether it exists."""

    def __init__(self, kind: str = "file"):
        self.name = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="dir" if self.name == "folder" else "file")]


FILE, FOLDER = Place(), Place("folder")


def _complete_method(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in METHODS if name.startswith(incomplete)]


def _read_settings(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """Reads `--set key=value` pairs: a value is a Python literal if it parses as one, else text."""
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


def configured(name: str | None, settings: dict[str, Any]) -> Any:
    """The method that was asked for, configured."""
    name = DEFAULT if name is None else name
    with argument_errors():
        try:
            return resolve(name, settings)
        except TypeError:
            given = ", ".join(f"{key} = {value!r}" for key, value in settings.items())
            raise ValueError(f"--set: a value of the wrong type for {name!r} among {given}.") from None


def _options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator, shown in the order given."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


budget = _options(
    click.option("--epsilon", type=float, required=True, help="The budget ε, which covers everything."),
    click.option("--delta", type=float, default=1e-6, show_default=True, help="The budget δ, below 1 / people."),
)
method = _options(
    click.option(
        "--method",
        metavar="NAME",
        shell_complete=_complete_method,
        help=f"{_listed(list(METHODS))}.  [default: {DEFAULT}]",
    ),
    click.option(
        "--set",
        "settings",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_read_settings,
        help="A setting of the method.",
    ),
)
engine = _options(
    click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help="Processes of this machine, or tasks on a Ray cluster.",
    ),
    click.option(
        "--address",
        metavar="ADDRESS",
        help="The Ray cluster.  [default: RAY_ADDRESS, or one that is started for this command]",
    ),
)
memory = click.option(
    "--memory",
    metavar="GIB",
    type=click.FloatRange(min=0.25),
    default=2.0,
    show_default=True,
    help="Memory that a fit of a table in partitions may take, about.",
)
strict = click.option("--strict", is_flag=True, help="Refuse a fit that has a red flag.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def table(name: str = "table", metavar: str = "DATA") -> Callable[[Any], Any]:
    return click.argument(name, metavar=metavar, type=FILE)


def output(what: str) -> Callable[[Any], Any]:
    return click.option("-o", "--output", metavar="FILE", type=FILE, required=True, help=f"Where to write {what}.")


# How they answer ---------------------------------------------------------------------------------------------------


def print_json(content: dict[str, Any]) -> None:
    """Prints one JSON object on stdout. A date, which JSON does not have, is ISO text."""
    click.echo(json.dumps(content, indent=2, allow_nan=False, default=lambda value: value.isoformat()))


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Shows on a terminal what is being done and for how long; elsewhere nothing. Reveals nothing of the result."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        bar.add_task(what, total=None)
        yield
