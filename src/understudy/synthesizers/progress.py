"""A progress bar for fits: the share of the expected time that is done, training included. All of it is public.

Charges alone would say nothing of the training, which is one charge and most of the time. So the bar counts expected
seconds: those of measuring go with the charges, those of training with its steps.
"""

import contextlib
from collections.abc import Iterator, Sequence

from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Charge

MEASURING = "measuring"


class Expectation:
    """How far some fits have come, in expected seconds.

    Args:
        ledgers: Of the fits, which are made together.
        seconds: What is expected for measuring, and for training if there is any.
    """

    def __init__(self, ledgers: Sequence[Ledger], seconds: tuple[float, float]):
        self._ledgers = ledgers
        self._measuring, self._training = seconds
        self._trained = 0.0

    @property
    def total(self) -> float:
        """The expected seconds in all."""
        return self._measuring + self._training

    @property
    def done(self) -> float:
        """The expected seconds of what is done: it never falls, and ends at the total."""
        progress = [ledger.progress() for ledger in self._ledgers]
        charged = sum(part for part, _ in progress) / max(sum(whole for _, whole in progress), 1)
        return self._measuring * charged + self._training * self._trained

    def step(self, done: int, of: int) -> None:
        """Notes how many training steps are done."""
        self._trained = max(self._trained, done / max(of, 1))


@contextlib.contextmanager
def shown(
    ledgers: Sequence[Ledger], progress: bool | None, seconds: tuple[float, float] = (1.0, 0.0)
) -> Iterator[None]:
    """Shows how far the fits with these ledgers have come; with None, on a terminal alone.

    Args:
        seconds: What is expected for measuring and for training, by `planning.expected_seconds`.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if progress is False or (progress is None and not console.is_terminal):
        yield
        return
    expected = Expectation(ledgers, seconds)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    times = (TimeElapsedColumn(), TextColumn("gone,"), TimeRemainingColumn(), TextColumn("left"))
    with Progress(*columns, *times, console=console, transient=True) as bar:
        task = bar.add_task(f"{MEASURING}, about {expected.total:.0f} s in all", total=expected.total)

        def on_charge(charge: Charge) -> None:
            bar.update(task, completed=expected.done, description=charge.what)

        def on_step(done: int, total: int) -> None:
            expected.step(done, total)
            bar.update(task, completed=expected.done, description=f"training, step {done} of {total}")

        for ledger in ledgers:
            ledger.on_charge, ledger.on_step = on_charge, on_step
        yield
