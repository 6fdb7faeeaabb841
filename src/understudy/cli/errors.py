"""Errors of the command line: one line on stderr, exit code 1 (2 for wrong usage), no traceback.

The one rule: the line shows no private value. Errors of this library are written to show none, so they are printed as
they are. Any other error may quote a cell, so only its type is printed. Warnings are not shown for the same reason:
"overflow encountered" reveals that somebody's value is huge.
"""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import understudy
from understudy.core.refusal import is_debugging, refusal

_LEAST_FREE = 2**20  # bytes; most models need less, and a fit that cannot be written has spent its budget
_TABLES = (
    *(".csv", ".tsv", ".txt", ".tab", ".gz", ".zst", ".parquet", ".feather", ".arrow", ".ipc", ".xlsx", ".xlsm"),
    *(".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt", ".db", ".sqlite", ".duckdb"),
)


class Refused(click.ClickException):
    """The request is refused, in one line and without a traceback."""

    exit_code = 1

    def __init__(self, message: str):
        line = " ".join(message.split())
        super().__init__("".join(letter if letter.isprintable() else "?" for letter in line))

    def show(self, file: Any = None) -> None:
        click.echo(f"understudy: {self.message}", file=file or sys.stderr)


class Stopped(Refused):
    """The user pressed Ctrl-C."""

    exit_code = 130  # 128 + SIGINT, as shells count it


class WrongUsage(click.UsageError):
    """The command line cannot be understood: one line that says why, and where the help is."""

    def __init__(self, error: click.UsageError):
        message = " ".join(error.format_message().split())
        super().__init__(message if message.endswith((".", "?", "!")) else f"{message}.", error.ctx)

    def show(self, file: Any = None) -> None:
        path = "understudy" if self.ctx is None else self.ctx.command_path
        click.echo(f"understudy: {self.message} Try `{path} --help`.", file=file or sys.stderr)


_SHOWS_HELP: tuple[type[click.UsageError], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])  # since click 8.2
)


@contextlib.contextmanager
def _usage_in_one_line() -> Iterator[None]:
    try:
        yield
    except (WrongUsage, *_SHOWS_HELP):
        raise
    except click.UsageError as error:
        raise WrongUsage(error) from None


class Commands(click.Group):
    """A group whose commands end with a result, with help, or with one line that says what is wrong."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _usage_in_one_line():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings(), _usage_in_one_line():
                if not is_debugging():
                    warnings.simplefilter("ignore")
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, SystemExit, BrokenPipeError):
            raise  # click handles these
        except KeyboardInterrupt as stop:
            spent = getattr(stop, "__notes__", ["Nothing was charged."])  # a fit notes it once its budget is spent
            raise Stopped(" ".join(["stopped. No file is half-written.", *spent])) from None
        except BaseException as error:  # a panic of polars is no Exception
            if (refused := _refusal(error)) is None:
                raise
            raise refused from None


@contextlib.contextmanager
def noted(note: str) -> Iterator[None]:
    """Adds a note to a Ctrl-C in this block, in place of "Nothing was charged"."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(note)
        raise


def _refusal(error: BaseException) -> Refused | None:
    """The refusal that stands for an error; None if the traceback was asked for."""
    said = refusal(error, debugging=is_debugging())
    return None if said is None else Refused(said)


@contextlib.contextmanager
def argument_errors() -> Iterator[None]:
    """Prints the message of any ValueError: no row is read inside this block, so the error is about an argument."""
    try:
        yield
    except ValueError as error:
        raise Refused(str(error)) from None


def check_place(path: str, *kept: str | None) -> None:
    """Refuses an output path that cannot be written, before any budget is spent.

    Args:
        kept: Files of the same command that must not be overwritten.
    """
    import shutil
    import tempfile

    target = Path(os.path.realpath(path))
    if any(other is not None and target == Path(os.path.realpath(other)) for other in kept):
        raise Refused(f"-o {path} is also an input of this command. Give another name.")
    if target.is_dir():
        raise Refused(f"-o {path} is a folder. Give the name of a file.")
    if target.exists() and not target.is_file():
        raise Refused(f"-o {path} is not a regular file. Give another name.")
    if not target.parent.is_dir():
        raise Refused(f"-o {path} cannot be written: there is no folder {str(target.parent)!r}. Make it first.")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            free = shutil.disk_usage(target.parent).free
    except OSError as error:
        raise Refused(f"-o {path} cannot be written: {(error.strerror or 'no reason given').lower()}.") from None
    if free < _LEAST_FREE:
        raise Refused(f"-o {path} cannot be written: its disk has {free >> 10} KiB left. Free some of it first.")


def check_readable(path: str) -> None:
    """Refuses a file that is missing or cannot be opened, in the words of the operating system."""
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise Refused(f"{path} cannot be read: {(error.strerror or 'no reason given').lower()}.") from None


def read_schema(path: str) -> "understudy.Schema":
    """The schema. A table given in its place is refused unread, because errors about a schema quote the file."""
    if "://" in path:  # which may hold a password
        raise Refused("SCHEMA: expected a .toml file, got a URL. Are the table and the schema swapped?")
    if path.lower().endswith(_TABLES):
        raise Refused(f"SCHEMA: expected a .toml file, got {path}. Are the table and the schema swapped?")
    return understudy.Schema.read(path)


def check_schema_name(path: str) -> None:
    """Refuses a name for a new schema under which no command would read it."""
    if path.lower().endswith(_TABLES):
        raise Refused(f"-o {path}: expected a name that ends in .toml, since other commands take this for a table.")
