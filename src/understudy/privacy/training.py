"""What a training under differential privacy is made of. gradients.py says what happens to it."""

import dataclasses
import math
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy.densities import DensityLoop
from understudy.privacy.lattice_noise import LatticeNoise
from understudy.privacy.ledger import Ledger
from understudy.privacy.rows import PrivateRows

if TYPE_CHECKING:  # factors.py loads JAX
    from understudy.privacy.factors import Loop

State = TypeVar("State")


class Sizes(Protocol):
    """What noise and clipping need to know of a network.

    Attributes:
        size: How many numbers a sum of gradients has.
        terms: How many numbers are added up, at most, one after the other for the squared norm of a row.
    """

    @property
    def size(self) -> int: ...

    @property
    def terms(self) -> int: ...

    def check_norms(self, shape: tuple[int, ...]) -> None:
        """Refuses clipping norms of a shape that does not fit."""
        ...


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Part(Generic[State]):
    """A network that is trained by itself, on batches that all parts of a job have in common.

    Attributes:
        loop: What is trained: a network of one's own, or the densities of columns, which the mechanism knows itself.
        state: What the loop starts from.
        columns: The columns of the rows that the network sees, as numbers, in this order.
        clip_norm: The most that one unit contributes to a sum of this part, in L2 norm; or one such norm for each of
            its layers side by side, which are then clipped one by one (`clipping.clipped_sums`).
    """

    loop: "Loop[State, Any] | DensityLoop"
    state: State
    columns: Sequence[str]
    clip_norm: float | NDArray[np.float64]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Job(Generic[State]):
    """One training: whose rows, which ledger, and the networks that are trained.

    Attributes:
        parts: Networks that share every batch; what a step releases is the sums of all of them.
        capacity: Rows that arrays are made for; public, and best above the number of rows.
        rate: The sampling rate to draw with, if it is below the one that is charged. That is at least as private:
            (1 - r) N(0, σ²) + r N(1, σ²) is a mixture of N(0, σ²) and of the same with q >= r in the place of r, and
            mixing both of two distributions with a third brings them no farther apart.
    """

    rows: PrivateRows
    ledger: Ledger
    key: Key
    parts: Sequence[Part[State]]
    capacity: int
    rate: float = 1.0

    @property
    def clip_norm(self) -> float:
        """C, the most that one unit contributes to a step, in L2 norm over all parts."""
        return math.sqrt(sum(float(np.sum(np.square(part.clip_norm))) for part in self.parts))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Training(Generic[State]):
    """A part of a job that was charged, with what its steps need of it.

    Attributes:
        number: Of the part.
        network: The program of a loop, or the shape of densities.
        rounds: Rounds that it makes.
    """

    job: Job[State]
    part: Part[State]
    number: int
    network: Sizes
    clip_norm: NDArray[np.float32]
    rate: float
    noise: LatticeNoise
    rounds: int
    key: Key

    @property
    def steps(self) -> int:
        """Steps that it makes."""
        return self.rounds * self.part.loop.steps_per_round


class Count:
    """Steps done by all threads; tells somebody."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None):
        self.total, self.progress, self.done, self.lock = total, progress, 0, threading.Lock()

    def add(self, steps: int) -> None:
        with self.lock:
            self.done = min(self.done + steps, self.total)
            if self.progress is not None:
                self.progress(self.done, self.total)
