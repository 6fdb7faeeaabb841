"""The ledger of one fit: its budget, its plan, and every charge.

The one rule: noise and accounting cannot disagree. A mechanism does not choose its noise. It asks the ledger, which
first enters the charge and then answers with the scale of the noise; that scale was fixed before any row was read, so
that the whole plan meets (epsilon, delta).

plan.py says what a plan is, accounting.py what it costs, receipt.py how it is stated.
"""

import contextlib
import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from understudy.core.settings import require
from understudy.core.text import count
from understudy.privacy import cost_cache, recording
from understudy.privacy.accounting import account, epsilon_alone, epsilon_by_rdp
from understudy.privacy.calibration import calibrate
from understudy.privacy.plan import (
    FILTER,
    RATE,
    TIMES,
    Budget,
    BudgetExceeded,
    Charge,
    PlannedMechanism,
    noise_for,
)
from understudy.privacy.receipt import Receipt

if TYPE_CHECKING:  # a ledger is there at once, without NumPy
    from understudy.privacy.checkpoints import Checkpoint

T = TypeVar("T")

# Shares of a filter that should add up to 1 may miss it by this much, through rounding.
ROUNDING = 1e-9
# Squares of mu may be added adaptively for these kinds; no filter is known here for the others.
FILTERED = ("discrete gaussian", "gaussian", "exponential")


@dataclasses.dataclass(frozen=True)
class FilterShare:
    """A share of a privacy filter: what a mechanism is given in place of a planned mechanism's name.

    Attributes:
        name: The filter's name in the plan.
        share: The part of the filter, 0 to 1, as a part of its mu²: half the share, √2 times the noise.
    """

    name: str
    share: float


class Ledger:
    """What one fit was charged. Noise comes from here, and only after the charge is entered.

    Args:
        budget: What the fit may cost in all.
        plan: Everything it may release; calibrated at once, so a plan beyond the budget fails here.
        unit: "row", or the name of the column that says which rows are one unit.
        max_rows_per_unit: The bound that mechanisms enforce; they include it in their sensitivity.
        seed: The seed that noise is drawn from in tests; it voids the receipt. None: the operating system's entropy.

    Attributes:
        context: The columns that a table is drawn given and that are counted once, as `encoding.context` does.
        checkpoint: Where charges and releases are kept, if they are.
    """

    context: frozenset[str] = frozenset()
    checkpoint: "Checkpoint | None" = None

    def __init__(
        self,
        budget: Budget,
        plan: Sequence[PlannedMechanism],
        *,
        unit: str = "row",
        max_rows_per_unit: int = 1,
        seed: int | None = None,
    ):
        repeated = [name for name, times in Counter(planned.name for planned in plan).items() if times > 1]
        if repeated:
            raise ValueError(f"plan: expected each name once, got {_quoted(repeated)} more than once.")
        require("max_rows_per_unit", max_rows_per_unit, TIMES)
        self.budget = budget
        self.plan = tuple(plan)
        self.unit = unit
        self.max_rows_per_unit = int(max_rows_per_unit)
        self.seed = seed
        self.scale = calibrate(self.plan, budget)
        self._planned = {planned.name: planned for planned in self.plan}
        self._left: dict[str, float] = {planned.name: planned.times for planned in self.plan}
        self._charges: list[Charge] = []
        self._released = 0
        self._warnings: list[str] = []
        self._void: list[str] = [recording.VOID] if recording.is_on() else []
        # For a progress bar. All see public facts alone: the charge; steps done and steps in all; what is done now.
        self.on_charge: Callable[[Charge], None] | None = None
        self.on_step: Callable[[int, int], None] | None = None
        self.on_phase: Callable[[str], None] | None = None

    def planned(self, name: str) -> PlannedMechanism:
        """The planned mechanism of this name, or BudgetExceeded: the budget covers nothing that is not planned."""
        if name not in self._planned:
            raise BudgetExceeded(
                f'"{name}" is not in the plan, which holds {_quoted(self._planned)}; nothing was read. '
                "Plan for it first."
            )
        return self._planned[name]

    def noise(self, planned: str | FilterShare, mechanism: str | None = None) -> float:
        """The noise multiplier of each release of a planned mechanism, or of a share of a filter. Charges nothing."""
        if isinstance(planned, FilterShare):
            return self._new_charge(planned, mechanism, what="", sensitivity=1.0, times=1).noise_multiplier
        return self.planned(planned).noise_at(self.scale)

    @property
    def released(self) -> int:
        """For how many charges something was released; public."""
        return self._released

    def left(self, name: str) -> float:
        """How many releases of a planned mechanism are left; of a filter, the share that is left, rounding aside."""
        left = self._left[self.planned(name).name]
        return left if left > ROUNDING else 0.0

    def progress(self) -> tuple[float, int]:
        """How much of the plan was charged, and how much there is: in releases, filters and trainings."""
        charged = in_all = 0.0
        for planned in self.plan:
            at_once = planned.times if planned.sampling_rate else 1
            in_all += planned.times / at_once
            charged += (planned.times - self._left[planned.name]) / at_once
        return charged, round(in_all)

    def charge(
        self, planned: str | FilterShare, *, what: str, sensitivity: float, times: int = 1, mechanism: str | None = None
    ) -> float:
        """Enters a charge, and returns the scale of the noise that the mechanism must then add.

        For the Gaussian mechanisms that is sigma, in the units of the answer; the discrete ones draw
        it on the grid that `lattice` gives. For "exponential" it is the scale of the Gumbel noise to be
        added to every score before the largest is taken, which draws each candidate with
        probability proportional to exp(score / scale).

        Args:
            planned: The name of a planned mechanism, or a share of a privacy filter.
            what: What is measured, in words, for the receipt. Public names only.
            sensitivity: The most one unit, with all its rows, changes the exact answer, in L2 norm;
                for "exponential" the most it changes any one score.
            times: Releases charged at once, each with noise of its own: the steps of a training run.
            mechanism: The kind of mechanism that asks. It must be the planned one; for a filter it must be given.

        Raises:
            BudgetExceeded: Not planned, or all spent. Nothing was entered, and nothing may be read.
        """
        charge = self._new_charge(planned, mechanism, what=what, sensitivity=sensitivity, times=times)
        left = self._left[charge.name]
        if isinstance(planned, FilterShare):
            after = left - planned.share
            if after < -ROUNDING:
                raise BudgetExceeded(
                    f'{left:.3g} of the filter "{charge.name}" is left, and {planned.share:.3g} was asked for; '
                    "nothing was read. Ask for a smaller share."
                )
        else:
            after = left - charge.times
            if after < 0:
                spent = "all are spent" if left == 0 else f"{left:g} are left where {times} were asked for"
                releases = count(self._planned[charge.name].times, "release")
                raise BudgetExceeded(
                    f'"{charge.name}" was planned for {releases} and {spent}; nothing was read. '
                    "Plan more of them, or raise epsilon."
                )
        self._left[charge.name] = after
        self._charges.append(charge)
        recording.charged(charge)
        if self.checkpoint is not None:
            self.checkpoint.charged(charge)
        if self.on_charge is not None:
            self.on_charge(charge)
        return charge.sigma

    def kept(self) -> Any:
        """What an earlier process released for the charge just entered; None if nothing, so that it is measured now."""
        value = None if self.checkpoint is None else self.checkpoint.kept()
        self._released = self._released if value is None else len(self._charges)
        return value

    def keep(self, value: T) -> T:
        """A value that a mechanism releases. If there is a checkpoint it is there first, before anybody else has it."""
        if self.checkpoint is not None:
            self.checkpoint.keep(value)
        self._released = len(self._charges)
        return value

    def _new_charge(
        self, asked: str | FilterShare, mechanism: str | None, *, what: str, sensitivity: float, times: int
    ) -> Charge:
        """The charge that would be entered."""
        require("times", times, TIMES)
        planned = self.planned(asked.name if isinstance(asked, FilterShare) else asked)
        if isinstance(asked, FilterShare):
            mu, mechanism = self._filtered_mu(planned, asked.share, mechanism, times), mechanism or ""
            return Charge(
                name=planned.name,
                what=what,
                mechanism=mechanism,
                noise_multiplier=noise_for(mechanism, mu),
                sensitivity=sensitivity,
                times=times,
            )
        if planned.mechanism == FILTER:
            raise ValueError(f'"{planned.name}" is a privacy filter: expected a FilterShare of it, got its name.')
        if mechanism is not None and mechanism != planned.mechanism:
            raise ValueError(f'"{planned.name}" was planned as "{planned.mechanism}", not as "{mechanism}".')
        return planned.charge(self.scale, what=what, sensitivity=sensitivity, times=times)

    def _filtered_mu(self, planned: PlannedMechanism, share: float, mechanism: str | None, times: int) -> float:
        """The mu of each of `times` releases that take this share of a filter together."""
        if planned.mechanism != FILTER:
            raise ValueError(f'"{planned.name}" is not a privacy filter: expected its name, got a FilterShare.')
        if mechanism not in FILTERED:
            raise ValueError(f'"{planned.name}": a privacy filter covers {_quoted(FILTERED)}, not {mechanism!r}.')
        require(f'"{planned.name}", share', share, RATE)
        return math.sqrt(share / times) / planned.noise_at(self.scale)

    def step(self, done: int, total: int) -> None:
        """Tells a progress bar how far a method has come, in public numbers: rounds, steps, parts of its budget."""
        if self.on_step is not None:
            self.on_step(done, total)

    def phase(self, what: str) -> None:
        """Tells a progress bar what a method does now that nothing is charged: public work on what was released."""
        if self.on_phase is not None:
            self.on_phase(what)

    def warn(self, text: str) -> None:
        """Puts a warning on the receipt, once: a fact that weakens the promise."""
        if text not in self._warnings:
            self._warnings.append(text)

    def void(self, reason: str) -> None:
        """Marks the receipt as void, once for each reason: a fact by which the guarantee does not hold."""
        if reason not in self._void:
            self._void.append(reason)

    def receipt(self, *, version: str = "", **record: Any) -> Receipt:
        """The receipt for what was charged up to now; `record` is what only the caller knows: id, time, flags."""
        from importlib.metadata import version as version_of

        delta = self.budget.delta
        accounted = self._accounted()
        not_released = int(sum(left for name, left in self._left.items() if name not in self._filters()))
        # What was released in full costs what was planned. Else the costs may depend on what a release showed.
        with contextlib.nullcontext() if not_released else cost_cache.kept(self.plan, self.budget):
            epsilon, accountant = account(accounted, delta)
            rdp_epsilon = epsilon_by_rdp(accounted, delta)
            alone = [epsilon_alone(charge, delta) for charge in self._charges]
        return Receipt(
            charges=tuple(map(_with_epsilon, self._charges, alone)),
            epsilon=epsilon,
            delta=delta,
            budget=self.budget,
            rdp_epsilon=rdp_epsilon,
            accountant=f"{accountant}, dp-accounting {version_of('dp-accounting')}",
            not_released=not_released,
            unit=self.unit,
            max_rows_per_unit=self.max_rows_per_unit,
            seed=self.seed,
            warnings=tuple(self._warnings),
            void=tuple(self._void),
            version=version,
            **record,
        )

    def _filters(self) -> set[str]:
        return {planned.name for planned in self.plan if planned.mechanism == FILTER}

    def _accounted(self) -> list[Charge]:
        """What is accounted for: every charge, except that a filter with any charge counts as a whole."""
        filters = self._filters()
        used = {charge.name for charge in self._charges} & filters
        whole = [planned.charge(self.scale) for planned in self.plan if planned.name in used]
        return [*(charge for charge in self._charges if charge.name not in filters), *whole]


def _with_epsilon(charge: Charge, epsilon: float) -> Charge:
    return dataclasses.replace(charge, epsilon=epsilon)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
