"""How far a long list of work is and when it may end: a bar on a terminal, elsewhere a line now and then."""

import contextlib
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

EVERY_SECONDS = 30.0
"""How often progress is printed where there is no terminal."""

Advance = Callable[[str, int], None]
"""Is told the name of what was made last, and how many were made with it."""


@contextlib.contextmanager
def progress(name: str, total: int, there: int, noun: str, *, wanted: bool | None) -> Generator[Advance, None, None]:
    """Shows how much of the work is done and when the rest may be.

    Args:
        name: Of the work.
        total: How many there are to make.
        there: How many exist already.
        noun: What they are called, in the plural.
        wanted: Whether to show a bar; None shows one on a terminal, and elsewhere prints a line every half minute.
    """
    from rich.console import Console

    console, clock = Console(stderr=True), _Clock(total - there)
    if wanted is False:
        yield lambda what, count: None
    elif wanted or console.is_terminal:
        with _bar(name, total, there, clock, console) as advance:
            yield advance
    else:
        yield _lines(name, total, there, noun, clock)


class _Clock:
    """How many were made, and when the rest may be."""

    def __init__(self, missing: int):
        self.start, self.missing, self.made = time.monotonic(), missing, 0

    def left(self) -> str:
        if not self.made:
            return ""
        seconds = (time.monotonic() - self.start) / self.made * (self.missing - self.made)
        return f"about {_duration(seconds)} left"


@contextlib.contextmanager
def _bar(name: str, total: int, there: int, clock: _Clock, console: Any) -> Generator[Advance, None, None]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    state = TextColumn("{task.fields[left]}  {task.description}")
    with Progress(TextColumn(name), BarColumn(), MofNCompleteColumn(), state, console=console) as bar:
        task = bar.add_task("starting", total=total, completed=there, left="")

        def advance(what: str, count: int) -> None:
            clock.made += count
            bar.update(task, advance=count, description=what, left=clock.left())

        yield advance


def _lines(name: str, total: int, there: int, noun: str, clock: _Clock) -> Advance:
    last = clock.start

    def advance(what: str, count: int) -> None:
        nonlocal last
        clock.made += count
        if time.monotonic() - last > EVERY_SECONDS:
            last = time.monotonic()
            print(f"{name}: {there + clock.made} of {total} {noun}, {clock.left()}", file=sys.stderr, flush=True)

    return advance


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
