"""A tape: everything that a fit of a simulated table was charged, drew and released, in order.

The one rule: a tape decides nothing. It keeps what the mechanisms show it and, if it has another tape to go by, hands
out the values on that one; `comparison` judges.
"""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.audit.observed_loop import ObservedDensities, ObservedState, observe
from understudy.core.randomness import Key
from understudy.privacy.plan import Charge

if TYPE_CHECKING:
    from understudy.privacy.recording import Answer

TRAINING = "gradient sums"
"""What the steps of a training are called in an audit."""


class Diverged(Exception):
    """A fit with the same releases as another one asks for something else."""


@dataclasses.dataclass(frozen=True, eq=False)
class Draw:
    """One draw of noise: its scale and what came out; for a selection, the place that was selected."""

    scale: float
    drawn: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Release:
    """What a mechanism released.

    Attributes:
        mechanism: Its name.
        charge: What it was charged; None if it released without a charge.
        value: What it released.
        exact: The answer without noise; None for a training.
        noisy: The answer with noise, in the same units; for a training the noisy sums, (steps, numbers).
        limits: For counts of labels, the count at which each label of the rows is named.
        draws: The noise that was drawn since the charge.
    """

    mechanism: str
    charge: Charge | None
    value: Any
    exact: "Answer | None"
    noisy: "Answer | None"
    limits: Mapping[str, float] = dataclasses.field(default_factory=dict)
    draws: tuple[Draw, ...] = ()


class Tape:
    """Records a fit; with another tape, a fit that goes on with the releases on that one.

    Args:
        frozen: The tape whose releases are handed out.
        silent: Whether gradients count as zero, so that sums of a training are noise alone.

    Attributes:
        charges: All charges.
        releases: All releases.
        streams: The seeded streams that noise was drawn from.
        unreleased: Charges without a release.
    """

    def __init__(self, frozen: "Tape | None" = None, *, silent: bool = False):
        self.frozen, self.silent = frozen, silent
        self.charges: list[Charge] = []
        self.releases: list[Release] = []
        self.streams: list[tuple[Any, ...]] = []
        self.unreleased: list[Charge] = []
        self._draws: list[Draw] = []

    def charged(self, charge: Charge) -> None:
        place = len(self.charges)
        self.charges.append(charge)
        self.unreleased.append(charge)
        self._draws = []
        if self.frozen is not None and (place >= len(self.frozen.charges) or self.frozen.charges[place] != charge):
            raise Diverged(f"charge {place + 1} is another one: {charge.what or charge.name}")

    def drew(self, draws: Any, scale: float, key: Key) -> None:
        self._draws.append(Draw(scale, copy.copy(draws)))
        if not key.secret:
            self.streams.append((str(key.sequence.entropy), *key.sequence.spawn_key))

    def released(
        self, mechanism: str, value: Any, exact: "Answer", noisy: "Answer | None", limits: Mapping[str, float]
    ) -> Any:
        charge = self.unreleased.pop() if self.unreleased else None
        if noisy is None and isinstance(value, np.ndarray):
            noisy = value
        exact, noisy = copy.copy(exact), copy.copy(noisy)
        self.releases.append(Release(mechanism, charge, value, exact, noisy, limits, tuple(self._draws)))
        self._draws = []
        return value if self.frozen is None else copy.deepcopy(self._recorded(mechanism).value)

    def observed(self, training: Sequence[Any], planned: str) -> Sequence[Any]:
        sums = None if self.frozen is None else self._recorded(TRAINING, ahead=1).value
        watched: list[Any] = []
        for job in training:
            steps, first = job.ledger.planned(planned).times, sum(len(each.parts) for each in watched)
            parts = [
                observe(part, steps, None if sums is None else sums[first + i], silent=self.silent)
                for i, part in enumerate(job.parts)
            ]
            watched.append(dataclasses.replace(job, parts=parts))
        return watched

    def trained(self, states: list[list[ObservedState | ObservedDensities]]) -> list[list[Any]]:
        seen = [np.asarray(state.seen) for job in states for state in job]
        charge = self.unreleased.pop() if self.unreleased else None
        self.releases.append(Release(TRAINING, charge, seen, None, _side_by_side(seen)))
        return [[state.inner for state in job] for job in states]

    def _recorded(self, mechanism: str, *, ahead: int = 0) -> Release:
        """The release of the other tape at this place."""
        assert self.frozen is not None
        place = len(self.releases) - 1 + ahead
        if place >= len(self.frozen.releases) or self.frozen.releases[place].mechanism != mechanism:
            raise Diverged(f"release {place + 1} is another one: {mechanism}")
        return self.frozen.releases[place]


def _side_by_side(sums: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
    """The noisy sums of all parts of a training, (steps, numbers in all)."""
    return np.concatenate([each.astype(np.float64) for each in sums], axis=1)
