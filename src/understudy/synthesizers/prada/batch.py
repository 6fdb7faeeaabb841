"""Adversarial fits that are trained together: those of equal loops and shapes share one compiled program.

The one rule: rows go to `gradients.train`, locked as they are, and nowhere else. What comes back is public.
"""

import dataclasses
from collections.abc import Sequence
from typing import Generic, TypeVar

import jax
import jax.numpy as jnp

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder
from understudy.encoding.features import feature_rows, features
from understudy.privacy.batches import capacity_for
from understudy.privacy.factors import Loop
from understudy.privacy.gradients import Job, Part, train
from understudy.privacy.ledger import Ledger
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.prada.layout import Layout
from understudy.synthesizers.prada.programs import Array

SettingsT = TypeVar("SettingsT")
LoopT = TypeVar("LoopT", bound=Loop)
StateT = TypeVar("StateT")
TreeT = TypeVar("TreeT")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LockedFeatures:
    """Locked rows of features, and the names of their columns in order."""

    rows: PrivateRows
    columns: tuple[str, ...]

    @classmethod
    def of(cls, rows: PrivateRows, encoder: Encoder, order: Sequence[str], *, key: Key) -> "LockedFeatures":
        """The features of columns in this order of generation.

        Privacy:
            Releases nothing: row by row, through maps that are public by now.
        """
        wanted = features(encoder, order)
        locked = feature_rows(rows, encoder, wanted, key=key)
        return cls(rows=locked, columns=tuple(feature.name for feature in wanted))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Fit(Generic[SettingsT, LoopT, StateT]):
    """One fit on its way: what is trained, from where, on which rows, and which ledger is charged.

    Attributes:
        settings: The method's.
        state: What the loop starts from.
        clip_norm: The largest norm that one unit adds to a sum of gradients.
        rate: The sampling rate that rows are drawn with (`settings.drawn_rate`).
    """

    settings: SettingsT
    encoder: Encoder
    ledger: Ledger
    key: Key
    locked: LockedFeatures
    layout: Layout
    loop: LoopT
    state: StateT
    clip_norm: float
    rate: float

    @property
    def job(self) -> Job[StateT]:
        part = Part(loop=self.loop, state=self.state, columns=self.locked.columns, clip_norm=self.clip_norm)
        return Job(
            rows=self.locked.rows,
            ledger=self.ledger,
            key=self.key,
            parts=[part],
            capacity=capacity_for(self.encoder.rows),
            rate=self.rate,
        )


def train_together(fits: Sequence[Fit[SettingsT, LoopT, StateT]], *, planned: str, what: str) -> list[StateT]:
    """The last state of every fit, in their order.

    Privacy:
        Rows are read by `gradients.train` alone, which charges each fit's own ledger before it reads.
    """
    if not fits:
        return []
    trained = train([fit.job for fit in fits], planned=planned, what=what, progress=fits[0].ledger.on_step)
    return [state for [state] in trained]


def running_mean(mean: TreeT, now: TreeT, *, done: Array, total: Array, share: Array) -> TreeT:
    """The mean of what there was after each of the last steps, updated by one step.

    Args:
        done: Steps that were done before this one.
        total: All steps; the mean is over the last `share` of them.
    """
    since = done - jnp.floor((1 - share) * total)
    weight = jnp.where(since >= 0, 1 / (since + 1), 0.0)
    return jax.tree.map(lambda before, after: before + weight * (after - before), mean, now)
