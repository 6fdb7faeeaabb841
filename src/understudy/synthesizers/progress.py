"""A progress bar for fits: mechanisms charged of those planned, and a method's own steps. All of it is public.

Steps are what a method tells its ledger: training steps, rounds, or for `aim` thousandths of its budget, because how
many rounds there will be is known at the end alone.
"""

import contextlib
from collections.abc import Iterator, Sequence

from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Charge


@contextlib.contextmanager
def shown(ledgers: Sequence[Ledger], progress: bool | None) -> Iterator[None]:
    """Shows how far the fits with these ledgers have come; with None, on a terminal alone."""
    if progress is False:
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if progress is None and not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        charged = bar.add_task("fitting", total=sum(ledger.progress()[1] for ledger in ledgers))
        steps = bar.add_task("steps", total=None, visible=False)

        def on_charge(charge: Charge) -> None:
            bar.update(charged, completed=sum(ledger.progress()[0] for ledger in ledgers), description=charge.what)

        def on_step(done: int, total: int) -> None:
            bar.update(steps, completed=done, total=total, visible=True)

        for ledger in ledgers:
            ledger.on_charge, ledger.on_step = on_charge, on_step
        yield
