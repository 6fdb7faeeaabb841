"""The audit's window into the mechanisms: what each would answer without noise, on tables that the audit makes itself.

The one rule: nobody's rows are recorded. A recorder is set by `understudy.audit` alone, around fits of tables that it
makes from a schema; no function that sets one takes a table. The receipt of a recorded fit is void. Without a recorder,
which is to say in every fit of a user, each function here gives back what it is given.

A recorder sees every charge, every draw of noise and every release with its exact answer. It answers a release with the
value that the fit goes on with: the same one, or that of an earlier fit, so that two fits of neighbouring tables can be
compared mechanism by mechanism with all earlier releases equal.
"""

# pyright: strict

import contextlib
import contextvars
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from understudy.privacy.plan import Charge

if TYPE_CHECKING:  # a ledger is there at once, without NumPy
    import numpy as np
    from numpy.typing import NDArray

    from understudy.core.randomness import Key

    Answer = NDArray[np.float64] | Mapping[str, float]
    """An exact answer: numbers whose noise all has the deviation that was charged; counts of labels by label."""

T = TypeVar("T")

VOID = "an audit recorded its exact answers"
"""Why the receipt of a recorded fit is void."""


class Recorder(Protocol):
    """What watches a fit."""

    def charged(self, charge: Charge) -> None:
        """A charge was entered."""
        ...

    def drew(self, draws: Any, scale: float, key: "Key") -> None:
        """Noise of this scale was drawn, from this key if it is seeded."""
        ...

    def released(
        self, mechanism: str, value: Any, exact: "Answer", noisy: "Answer | None", limits: Mapping[str, float]
    ) -> Any:
        """A mechanism releases a value; returns the one that the fit goes on with."""
        ...

    def observed(self, training: Sequence[Any], planned: str) -> Sequence[Any]:
        """A training begins; returns its jobs with loops that keep their noisy sums."""
        ...

    def trained(self, states: list[list[Any]]) -> list[list[Any]]:
        """A training ended; returns the states that the fit goes on with."""
        ...


_RECORDER: contextvars.ContextVar[Recorder | None] = contextvars.ContextVar("recorder", default=None)


@contextlib.contextmanager
def watched_by(recorder: Recorder) -> Generator[None, None, None]:
    """Lets a recorder watch the fits in the block. For tables that the audit made, and for nothing else."""
    before = _RECORDER.set(recorder)
    try:
        yield
    finally:
        _RECORDER.reset(before)


def is_on() -> bool:
    """Whether a recorder watches."""
    return _RECORDER.get() is not None


def charged(charge: Charge) -> None:
    """Tells of a charge."""
    if (recorder := _RECORDER.get()) is not None:
        recorder.charged(charge)


def drew(draws: T, *, scale: float, key: "Key") -> T:
    """Draws of noise, as they are."""
    if (recorder := _RECORDER.get()) is not None:
        recorder.drew(draws, scale, key)
    return draws


def released(
    mechanism: str,
    value: T,
    *,
    exact: "Answer",
    noisy: "Answer | None" = None,
    limits: Mapping[str, float] | None = None,
) -> T:
    """The value that a mechanism releases, as it is.

    Args:
        mechanism: Its name in an audit.
        exact: The answer without noise, as numbers that all have noise of the charged deviation.
        noisy: The same numbers with noise, if the value is not they.
        limits: For counts of labels, the count that each label of the rows must reach to be named.
    """
    if (recorder := _RECORDER.get()) is None:
        return value
    return recorder.released(mechanism, value, exact, noisy, limits or {})


def observed(training: Sequence[T], planned: str) -> Sequence[T]:
    """The jobs of a training, as they are."""
    return training if (recorder := _RECORDER.get()) is None else recorder.observed(training, planned)


def trained(states: list[list[T]]) -> list[list[T]]:
    """The last states of a training, as they are."""
    return states if (recorder := _RECORDER.get()) is None else recorder.trained(states)
