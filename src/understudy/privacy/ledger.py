"""The till: one budget for a whole fit, every purchase made from it, and the receipt.

The one rule: noise and accounting cannot disagree. A hatch does not choose its noise. It asks
the ledger, which first enters the purchase and then answers with the scale of the noise, and
that scale was fixed before any row was read so that the whole plan meets (epsilon, delta).

What a plan costs, and from which sources that is known, is in accounting.py.
"""

import dataclasses
import json
import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from understudy.core.notebooks import card
from understudy.privacy.accounting import (
    Budget,
    BudgetExceeded,
    Charge,
    PlannedMechanism,
    account,
    calibrate,
    checked_number,
    checked_whole,
    epsilon_by_rdp,
    noise_for,
)

ADJACENCY = "add or remove one unit"
_WIDTH = 100


@dataclasses.dataclass(frozen=True)
class FilterShare:
    """A part of a pot, an item that is bought adaptively: what a hatch may be given in place of an item's name.

    Attributes:
        name: The filter's name.
        share: How much of the pot, 0 to 1, as a part of its mu²: half the share, √2 times the noise.
    """

    name: str
    share: float


ROUNDING = 1e-9  # of a pot, for sums of shares that should be 1


class Ledger:
    """What one fit has bought. Noise comes from here, and only after the purchase is entered.

    Args:
        budget: What the fit may cost in all.
        plan: Everything it may buy; calibrated at once, so a plan that cannot be paid fails here.
        unit: "row", or the name of the column that says which rows are one unit.
        max_rows_per_unit: The bound the hatches enforce; they include it in their sensitivity.
        seed: The seed noise is drawn from in tests, recorded on the receipt. None: real entropy.
    """

    def __init__(
        self,
        budget: Budget,
        plan: Sequence[PlannedMechanism],
        *,
        unit: str = "row",
        max_rows_per_unit: int = 1,
        seed: int | None = None,
    ):
        repeated = [name for name, count in Counter(item.name for item in plan).items() if count > 1]
        if repeated:
            raise ValueError(f"plan: expected each name once, got {_quoted(repeated)} more than once.")
        self.budget = budget
        self.plan = tuple(plan)
        self.unit = unit
        self.max_rows_per_unit = checked_whole("max_rows_per_unit", max_rows_per_unit)
        self.seed = seed
        self.scale = calibrate(self.plan, budget)
        self._planned = {item.name: item for item in self.plan}
        self._left: dict[str, float] = {item.name: item.times for item in self.plan}
        self._charges: list[Charge] = []
        self._warnings: list[str] = []
        # For a progress bar; both see public facts alone: the charge, or steps done and steps in all.
        self.on_charge: Callable[[Charge], None] | None = None
        self.on_step: Callable[[int, int], None] | None = None

    def planned(self, name: str) -> PlannedMechanism:
        """The plan's item of this name, or BudgetExceeded: what is not planned cannot be paid."""
        if name not in self._planned:
            raise BudgetExceeded(
                f'"{name}" is not in the plan, which holds {_quoted(self._planned)}; nothing was read. Plan for it first.'
            )
        return self._planned[name]

    def noise(self, name: str | FilterShare, mechanism: str | None = None) -> float:
        """The noise multiplier of each purchase of this item, or of this part of a pot. Shown, not paid."""
        if isinstance(name, FilterShare):
            return self._charge(name, mechanism, what="", sensitivity=1.0, times=1).noise_multiplier
        return self.planned(name).noise_at(self.scale)

    def left(self, name: str) -> float:
        """How many purchases of this item are still to be had; of a pot, the share that is left, rounding aside."""
        left = self._left[self.planned(name).name]
        return left if left > ROUNDING else 0.0

    def progress(self) -> tuple[float, int]:
        """How much of the plan was bought, and how much there is: in purchases, pots and trainings."""
        bought = planned = 0.0
        for item in self.plan:
            at_once = item.times if item.sampling_rate else 1
            planned += item.times / at_once
            bought += (item.times - self._left[item.name]) / at_once
        return bought, round(planned)

    def charge(
        self, name: str | FilterShare, *, what: str, sensitivity: float, times: int = 1, mechanism: str | None = None
    ) -> float:
        """Enters a purchase, and returns the scale of the noise that the hatch must then add.

        For the Gaussian mechanisms that is sigma, in the units of the answer; the discrete ones draw
        it on the grid that `lattice` gives. For "exponential" it is the scale of the Gumbel noise to be
        added to every score before the largest is taken, which draws each candidate with
        probability proportional to exp(score / scale).

        Args:
            name: The item of the plan, or a part of a pot.
            what: What is asked, in words, for the receipt. Public names only.
            sensitivity: The most one unit, with all its rows, changes the exact answer, in L2 norm;
                for "exponential" the most it changes any one score.
            times: Releases bought at once, each with noise of its own: the steps of a training run.
            mechanism: What the hatch will do. Another one than was planned is refused; for a pot it must be said.

        Raises:
            BudgetExceeded: Not planned, or all spent. Nothing was entered, and nothing may be read.
        """
        charge = self._charge(name, mechanism, what=what, sensitivity=sensitivity, times=times)
        left = self._left[charge.name]
        if isinstance(name, FilterShare):
            after = left - name.share
            if after < -ROUNDING:
                raise BudgetExceeded(
                    f'of "{charge.name}" {left:.3g} is left where {name.share:.3g} was asked for; nothing was read. '
                    "Ask for less of it."
                )
        else:
            after = left - charge.times
            if after < 0:
                spent = "all are spent" if left == 0 else f"{left:g} are left where {times} were asked for"
                planned = _count(self._planned[charge.name].times, "purchase")
                raise BudgetExceeded(
                    f'"{charge.name}" was planned for {planned} and {spent}; nothing was read. '
                    "Plan more of them, or raise epsilon."
                )
        self._left[charge.name] = after
        self._charges.append(charge)
        if self.on_charge is not None:
            self.on_charge(charge)
        return charge.sigma

    def _charge(
        self, name: str | FilterShare, mechanism: str | None, *, what: str, sensitivity: float, times: int
    ) -> Charge:
        """The charge that a purchase would leave."""
        checked_whole("times", times)
        item = self.planned(name.name if isinstance(name, FilterShare) else name)
        pot = item.mechanism == "adaptive"
        if pot != isinstance(name, FilterShare):
            raise ValueError(
                f'"{item.name}": expected {"a FilterShare of it" if pot else "its name, since it is no pot"}.'
            )
        if not isinstance(name, FilterShare):
            if mechanism is not None and mechanism != item.mechanism:
                raise ValueError(f'"{item.name}" was planned as "{item.mechanism}", and the hatch is "{mechanism}".')
            return item.charge(self.scale, what=what, sensitivity=sensitivity, times=times)
        if mechanism not in ("discrete gaussian", "gaussian", "exponential"):
            raise ValueError(f'"{item.name}": a pot pays for Gaussian noise and for choices, not for {mechanism!r}.')
        share = checked_number(f'"{item.name}", share', name.share, "a number > 0 and <= 1", lambda x: 0 < x <= 1)
        mu = math.sqrt(share / times) / item.noise_at(self.scale)
        noise = noise_for(mechanism, mu)
        return Charge(
            name=item.name, what=what, mechanism=mechanism, noise_multiplier=noise, sensitivity=sensitivity, times=times
        )

    def warn(self, text: str) -> None:
        """Puts a warning on the receipt, once."""
        if text not in self._warnings:
            self._warnings.append(text)

    def receipt(self, *, version: str = "") -> "Receipt":
        """The receipt for what was paid up to now."""
        from importlib.metadata import version as version_of

        delta = self.budget.delta
        charged = self._accounted()
        epsilon, accountant = account(charged, delta)
        return Receipt(
            charges=tuple(dataclasses.replace(charge, epsilon=charge.alone(delta)) for charge in self._charges),
            epsilon=epsilon,
            delta=delta,
            budget=self.budget,
            rdp_epsilon=epsilon_by_rdp(charged, delta),
            accountant=f"{accountant}, dp-accounting {version_of('dp-accounting')}",
            not_released=int(sum(left for name, left in self._left.items() if name not in self._pots())),
            unit=self.unit,
            max_rows_per_unit=self.max_rows_per_unit,
            seed=self.seed,
            warnings=tuple(self._warnings),
            version=version,
        )

    def _pots(self) -> set[str]:
        return {item.name for item in self.plan if item.mechanism == "adaptive"}

    def _accounted(self) -> list[Charge]:
        """What is accounted for: the lines, and each pot that was touched as a whole."""
        pots = self._pots()
        touched = {charge.name for charge in self._charges} & pots
        whole = [item.charge(self.scale) for item in self.plan if item.name in touched]
        return [*(charge for charge in self._charges if charge.name not in pots), *whole]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Receipt:
    """What a fit spent, on what, and what is promised for it.

    Attributes:
        lines: Every purchase, with its epsilon alone at the whole delta.
        epsilon: All lines together, by the accountant named; what was bought adaptively from a pot counts as the
            whole pot.
        delta: The delta that epsilon holds at.
        budget: What was promised. If purchases were left out after seeing results, quote this:
            `epsilon` holds only for a choice of purchases that was public.
        rdp_epsilon: The total again by RDP, which must not be smaller.
        accountant: Which one, and its version.
        not_released: Purchases planned and not made.
        unit: "row", or the column that says which rows are one unit.
        max_rows_per_unit: Rows of one unit that are used at most.
        seed: The seed of a test, or None.
        warnings: What voids or weakens the promise.
        version: Of this library.
        adjacency: What "neighbouring tables" means.
    """

    charges: tuple[Charge, ...]
    epsilon: float
    delta: float
    budget: Budget
    rdp_epsilon: float
    accountant: str
    not_released: int = 0
    unit: str = "row"
    max_rows_per_unit: int = 1
    seed: int | None = None
    warnings: tuple[str, ...] = ()
    version: str = ""
    adjacency: str = ADJACENCY

    @property
    def noise_source(self) -> str:
        """Where the noise came from, and whether the promise survives it."""
        if self.seed is None:
            trained = any(charge.sampling_rate for charge in self.charges)
            return "operating system entropy" + ("; on gradients Threefry, keyed from it" if trained else "")
        return f"seed = {self.seed}: FOR TESTS ONLY, the guarantee does not hold for anyone who knows the seed"

    def events(self) -> list[Any]:
        """The `dp_accounting` event of each charge, for anyone who wants to add them up again."""
        return [charge.event() for charge in self.charges]

    def to_json(self) -> str:
        """Every detail as JSON; `from_json` takes it back."""
        content = {"kind": "understudy-receipt", "format": 1, **dataclasses.asdict(self)}
        content["charges"] = [{**dataclasses.asdict(charge), "sigma": charge.sigma} for charge in self.charges]
        return json.dumps(content, indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Receipt":
        """The receipt that `to_json` wrote, or a ValueError for anything else."""
        try:
            content = json.loads(text)
            if (content.pop("kind"), content.pop("format")) != ("understudy-receipt", 1):
                raise ValueError("another kind or format")
            content["charges"] = tuple(
                Charge(**{field: value for field, value in charge.items() if field != "sigma"})
                for charge in content["charges"]
            )
            content["budget"] = Budget(**content["budget"])
            content["warnings"] = tuple(content["warnings"])
            for field in ("epsilon", "delta", "rdp_epsilon"):
                checked_number(field, content[field], "a number >= 0", lambda x: 0 <= x < math.inf)
            return cls(**content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"expected a receipt written by Receipt.to_json, got something else ({error}).") from None

    @property
    def promise(self) -> str:
        """What is promised, in one sentence."""
        factor = f"exp({self.budget.epsilon:g})"
        if 0.001 < self.budget.epsilon < 10:
            factor += f" = {math.exp(self.budget.epsilon):.4g}"
        return (
            f"Adding or removing {self._unit} changes the probability of anything that can be seen in the fitted "
            f"model, or in rows drawn from it, by at most a factor of {factor} and a further {self.budget.delta:g}."
        )

    @property
    def _unit(self) -> str:
        unit = "one row" if self.unit == "row" else f"all rows with the same {self.unit!r}"
        return unit if self.max_rows_per_unit == 1 else f"{unit}, of which at most {self.max_rows_per_unit} are used,"

    def __str__(self) -> str:
        return "\n".join([*self._head(), "", *self._table(), *self._foot()])

    def _repr_html_(self) -> str:
        rows = [
            (
                charge.what or charge.name,
                _how(charge),
                f"{charge.sensitivity:.4g}",
                f"{charge.sigma:.4g}",
                _alone(charge),
            )
            for charge in self.charges
        ]
        void = ["VOID FOR WHOEVER KNOWS THE SEED."] if self.seed is not None else []
        notes = [*void, *(f"WARNING: {warning}" for warning in self.warnings), self.promise, *self._remarks()]
        title = f"Privacy receipt: epsilon = {self.budget.epsilon:g}, delta = {self.budget.delta:g}"
        return card(title, ("what was bought", "mechanism", "sensitivity", "noise", "epsilon alone"), rows, notes)

    def _head(self) -> list[str]:
        title = f"Privacy receipt, understudy {self.version}" if self.version else "Privacy receipt"
        void = (
            "VOID FOR WHOEVER KNOWS THE SEED, which is printed below: noise that can be drawn again can be taken off "
            "again, and then nothing is promised. A seed is for tests and experiments."
        )
        facts = {
            "promised": f"epsilon = {self.budget.epsilon:g}, delta = {self.budget.delta:g}",
            "spent": f"epsilon = {self.epsilon:.4g}, delta = {self.delta:g}",
            "neighbours": self.adjacency,
            "unit": self._unit.rstrip(","),
            "noise from": self.noise_source,
            "accountant": f"{self.accountant} (RDP says {self.rdp_epsilon:.4g})",
        }
        return [
            title,
            *(("", *_wrapped(void)) if self.seed is not None else ()),
            *(charge for warning in self.warnings for charge in ("", *_wrapped(f"WARNING: {warning}"))),
            "",
            *_wrapped(self.promise),
            "",
            *(f"  {key:<12}{fact}" for key, fact in facts.items()),
        ]

    def _table(self) -> list[str]:
        """One row for each group of equal purchases, 100 columns wide."""
        groups: dict[tuple, list[Charge]] = {}
        for charge in self.charges:
            groups.setdefault(tuple(dataclasses.replace(charge, what="").__dict__.values()), []).append(charge)
        rows = [("what was bought", "mechanism", "sensitivity", "noise", "epsilon alone")]
        for lines in groups.values():
            first = lines[0]
            each = " each" if len(lines) > 1 else ""
            rows.append(
                (_what(lines), _how(first), f"{first.sensitivity:.4g}", f"{first.sigma:.4g}", _alone(first) + each)
            )
        return ["  {:<39} {:<22} {:>11} {:>9} {:>13}".format(*row).rstrip() for row in rows]

    def _foot(self) -> list[str]:
        return [charge for note in self._remarks() for charge in ("", *_wrapped(note))]

    def _remarks(self) -> list[str]:
        notes = (
            ["The costs alone do not add up to the total: the accountant counts all together."] if self.charges else []
        )
        if self.not_released:
            notes.append(
                f"{_count(self.not_released, 'planned purchase')} not made. If that was decided after seeing results, "
                f"quote what was promised: epsilon = {self.budget.epsilon:g}."
            )
        return notes


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _what(lines: list[Charge]) -> str:
    """What a group of equal lines bought: the first of them, and how many more, in 39 columns."""
    more = len(lines) - 1
    if all(charge.what == lines[0].what for charge in lines):
        tail = f" x {len(lines)}" if more else ""
    else:
        tail = f", and {more} more"
    room = 39 - len(tail)
    what = lines[0].what
    return (what if len(what) <= room else what[: room - 1] + "…") + tail


def _how(charge: Charge) -> str:
    if charge.mechanism == "sampled gaussian":
        return f"sampled, {_count(charge.times, 'step')}"
    return charge.mechanism + (f" x {charge.times}" if charge.times > 1 else "")


def _alone(charge: Charge) -> str:
    return f"{charge.epsilon:.3g}" if charge.epsilon is not None else "?"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
