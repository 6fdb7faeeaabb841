"""Writes commands.md, the reference of all commands, from the commands themselves.

The one rule: it knows no command by name. It walks through `understudy.cli.cli` and writes what help would print, so a
new command is in the reference after the next `make docs`. The tests fail if that was forgotten.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from understudy.cli import cli

PAGE = Path(__file__).with_suffix(".md")
HEAD = """\
# Commands

<!-- Written by docs/commands.py from the commands' own help: do not edit, run `make docs`. -->

Every command, with every option. `understudy COMMAND --help` prints the same. An error is one line on stderr that shows
no private value. Exit codes: 0 done, 1 refused, 2 wrong usage, 130 stopped by Ctrl-C.
"""


def render() -> str:
    """The whole page: a list of the commands, then a section for each."""
    sections = list(walk(click.Context(cli, info_name="understudy", terminal_width=100)))
    listed = "\n".join(f"- [{path}](#{path.replace(' ', '-')}): {first_sentence(it)}" for path, it, _ in sections)
    return "\n".join([HEAD, listed, *(section(*each) for each in sections)])


def walk(context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command below the context's, groups before what they hold: its full name, itself, its context."""
    group = context.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        if (command := group.get_command(context, name)) is not None:
            inner = click.Context(command, info_name=name, parent=context, terminal_width=100)
            yield inner.command_path, command, inner
            yield from walk(inner)


def section(path: str, command: click.Command, context: click.Context) -> str:
    """Usage, help and options of one command."""
    usage = " ".join(command.get_usage(context).split())
    parts = ["", f"## {path}", "", "```text", usage, "```", "", *paragraphs(command.help or "")]
    if command.hidden:
        parts += ["Help does not list this one.", ""]
    options = [record for each in command.get_params(context) if (record := option(each, context))]
    if options:
        parts += ["| option | meaning |", "| --- | --- |", *(f"| `{names}` | {text} |" for names, text in options), ""]
    return "\n".join(parts).rstrip("\n")


def option(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    """The names and the meaning of an option; None for arguments, what is hidden, and help itself."""
    if not isinstance(parameter, click.Option) or parameter.hidden or "--help" in parameter.opts:
        return None
    record = parameter.get_help_record(context)
    return (record[0].replace("|", "\\|"), escaped(record[1])) if record else None


def paragraphs(text: str) -> Iterator[str]:
    """Help as Markdown: what help does not wrap, its examples, in fences that are for reading only."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text.split("\f")[0])):
        if part.startswith("\b"):
            lines = part.removeprefix("\b").strip("\n").split("\n")
            if lines[0].endswith(":"):
                yield escaped(lines.pop(0)) + "\n"
            yield "```text\n" + textwrap.dedent("\n".join(lines)) + "\n```\n"
        elif part:
            yield textwrap.fill(escaped(part), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def first_sentence(command: click.Command) -> str:
    """The first sentence of the help, whole, where click's own summary would cut it."""
    first = " ".join(next(paragraphs(command.help or ""), "").split())
    return re.split(r"(?<=\.)\s", first)[0]


def escaped(text: str) -> str:
    """The text with what Markdown or a table would take for its own held off, outside of code."""
    pieces = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(piece if piece.startswith("`") else re.sub(r"([*_<>\[\]|])", r"\\\1", piece) for piece in pieces)


if __name__ == "__main__":
    PAGE.write_text(render() + "\n")
    print(f"{PAGE} written.")
