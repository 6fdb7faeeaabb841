"""A progress bar for fits: what is being measured, how long it has taken, and how long it will. All of it is public.

Charges alone would say nothing of the training, which is one charge and most of the time. Until it begins, the bar goes
by the expected seconds of the plan; once steps are counted, by how long they have taken.
"""

import contextlib
import contextvars
import time
from collections.abc import Callable, Iterator, Sequence

from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Charge


class Expectation(Sequence[Ledger]):
    """Some fits that are made together, by their ledgers, and how much longer they will take.

    Args:
        ledgers: Of the fits.
        seconds: What is expected for measuring, for training if there is any, and for what follows its last step.
        clock: Seconds that have passed, from any beginning.
    """

    def __init__(
        self,
        ledgers: Sequence[Ledger],
        seconds: tuple[float, float] | tuple[float, float, float] = (1.0, 0.0),
        clock: Callable[[], float] = time.monotonic,
    ):
        self._ledgers = list(ledgers)
        self._measuring, self._training, self._finishing = (*seconds, 0.0)[:3]
        self._clock, self._begun = clock, clock()
        self._training_since: float | None = None
        self._stepped = self._begun
        self._steps = (0, 0)

    def __getitem__(self, place: int) -> Ledger:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._ledgers[place]

    def __len__(self) -> int:
        return len(self._ledgers)

    @property
    def total(self) -> float:
        """The seconds expected at the beginning."""
        return self._measuring + self._training + self._finishing

    def charge(self, charge: Charge) -> None:
        """Notes a charge; training begins with its own."""
        if charge.sampling_rate is not None:
            self._training_since, self._steps = self._clock(), (0, 0)

    def step(self, done: int, of: int) -> None:
        """Notes how many steps are done."""
        self._steps, self._stepped = (done, of), self._clock()

    @property
    def left(self) -> float:
        """The seconds that are probably left: by steps or rounds that were counted, else by the plan.

        Rounds before a training say nothing of it.
        """
        now, (done, of) = self._clock(), self._steps
        if self._training_since is None:
            if done and not self._training:
                return self._left_of_steps(self._begun)
            return max(self.total - (now - self._begun), self._training + self._finishing)
        if done and done == of:
            return max(self._finishing - (now - self._stepped), 0.0)
        if not done:
            return self._finishing + max(self._training - (now - self._training_since), 0.0)
        return self._finishing + self._left_of_steps(self._training_since)

    def _left_of_steps(self, since: float) -> float:
        """The seconds that further steps will take if they take as long as those since then; at least a tenth of it.

        Between two steps it falls as time goes by.
        """
        done, of = self._steps
        left = (self._stepped - since) * (of - done) / done
        return max(left - (self._clock() - self._stepped), left / 10)

    @property
    def share(self) -> float:
        """The part of the whole time that is gone, 0 to 1."""
        gone, left = self._clock() - self._begun, self.left
        return gone / (gone + left) if gone + left > 0 else 0.0


Watcher = Callable[[str, Expectation], None]
"""Is told what is being done and how far that has come, and how far the fits have come."""
_WATCHER: contextvars.ContextVar[Watcher | None] = contextvars.ContextVar("watcher", default=None)


@contextlib.contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Tells a watcher of every charge and step of the fits in this block, in place of a progress bar."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def _tell(watcher: Watcher, expected: Expectation) -> None:
    """Has every ledger tell a watcher of what it is charged, of other work, and of the steps that follow."""
    latest = ""

    def on_phase(what: str) -> None:
        nonlocal latest
        latest = what
        watcher(what, expected)

    def on_charge(charge: Charge) -> None:
        expected.charge(charge)
        on_phase(charge.what)

    def on_step(done: int, total: int) -> None:
        expected.step(done, total)
        watcher(f"{latest}, {100 * done // max(total, 1)} %".removeprefix(", "), expected)

    for ledger in expected:
        ledger.on_charge, ledger.on_step, ledger.on_phase = on_charge, on_step, on_phase


@contextlib.contextmanager
def shown(ledgers: Sequence[Ledger], progress: bool | None) -> Iterator[None]:
    """Shows how far the fits with these ledgers, best an `Expectation`, have come; with None, on a terminal alone."""
    expected = ledgers if isinstance(ledgers, Expectation) else Expectation(ledgers)
    if (watcher := _WATCHER.get()) is not None:
        _tell(watcher, expected)
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    console = Console(stderr=True)
    if progress is False or (progress is None and not console.is_terminal):
        yield
        return

    class Bar(ProgressColumn):
        def render(self, task: Task) -> ProgressBar:
            return ProgressBar(total=1.0, completed=expected.share, width=40)

    class Left(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"about {expected.left:.0f} s left" if expected.left >= 1 else "nearly done")

    described = TextColumn("{task.description}", markup=False)
    with Progress(described, Bar(), TimeElapsedColumn(), Left(), console=console, transient=True) as bar:
        task = bar.add_task(f"about {expected.total:.0f} s expected", total=None)
        _tell(lambda what, _: bar.update(task, description=what), expected)
        yield
