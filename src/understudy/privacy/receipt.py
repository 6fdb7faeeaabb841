"""The receipt: what a fit spent, on what, what is promised for it, and whether the promise holds.

The one rule: a receipt that does not hold says so first. Its text and its HTML begin with VOID, and its JSON lists why.
"""

# pyright: reportMissingTypeStubs=false

import dataclasses
import json
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from understudy.core.notebooks import card
from understudy.core.red_flag import RedFlag
from understudy.core.settings import Number, require
from understudy.core.text import count
from understudy.privacy.accounting import event_of
from understudy.privacy.plan import Budget, Charge

if TYPE_CHECKING:
    from dp_accounting import DpEvent

ADJACENCY = "add or remove one unit"
HEADER = {"kind": "understudy-receipt", "format": 3}
READABLE_FORMATS = (2, 3)  # format 2 had no id, no time, no hash of the schema and no flags
SEEDED = (
    "The noise was drawn from a seed. Whoever knows the seed can draw the same noise again and take it off, and then "
    "nothing is protected. A seed is for tests and experiments."
)
COLUMNS = ("what was measured", "mechanism", "sensitivity", "noise", "epsilon alone")
# The receipt is printed within this many characters, and the description of a charge within these.
_WIDTH = 100
_WIDTH_OF_WHAT = 39


ONE_ROW_OF = "one row of "
"""How the unit of a database begins: a row of its root, with all that hangs on it."""
# The flag of receipts from before noise on gradients was exact.
FLOATING_POINT = "floating-point noise"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Receipt:
    """What a fit spent, on what, and what is promised for it.

    Attributes:
        charges: Every charge, with its epsilon alone at the whole delta.
        epsilon: All charges together, by the accountant named; whatever was released under a privacy filter counts
            as the whole filter.
        delta: The delta that epsilon holds at.
        budget: What was promised. If releases were left out after seeing results, quote this:
            `epsilon` holds only for a choice of releases that was public.
        rdp_epsilon: The total again by RDP, which must not be smaller.
        accountant: Which one, and its version.
        not_released: Releases planned and not made.
        unit: "row", or the column that says which rows are one unit.
        max_rows_per_unit: Rows of one unit that are used at most.
        seed: The seed of a test, or None.
        warnings: Facts that weaken the promise.
        void: Reasons why the guarantee does not hold; empty if it does. A seed is always one of them.
        version: Of this library.
        id: Of the fit: the same one is in the ledger file and in a report. Random or, with a seed, made from it.
        time: When the fit was charged, in UTC; empty with a seed, whose files are the same whenever they are made.
        schema_sha256: Of the schema's TOML text, as the model keeps it.
        flags: Red flags, which follow from public facts. Those that void the guarantee are in `void`, too.
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
    void: tuple[str, ...] = ()
    version: str = ""
    id: str = ""
    time: str = ""
    schema_sha256: str = ""
    flags: tuple[RedFlag, ...] = ()
    adjacency: str = ADJACENCY

    def __post_init__(self) -> None:
        if self.seed is not None and SEEDED not in self.void:
            object.__setattr__(self, "void", (SEEDED, *self.void))

    @property
    def noise_source(self) -> str:
        """Where the noise came from, whether it is exact, and whether the promise survives it."""
        if self.seed is None:
            source = "operating system entropy"
            if not any(charge.sampling_rate for charge in self.charges):
                return f"{source}, in whole numbers"
            if any(flag.name == FLOATING_POINT for flag in self.flags):
                return f"{source}; on gradients SHAKE-256, keyed from it, in floating point"
            return f"{source}, in whole numbers; on gradients by ChaCha20, 256 bits of it"
        return f"seed = {self.seed}: FOR TESTS ONLY, the guarantee does not hold for anyone who knows the seed"

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

    def events(self) -> "list[DpEvent]":
        """The `dp_accounting` event of each charge, for anyone who wants to add them up again."""
        return [event_of(charge) for charge in self.charges]

    def to_json(self) -> str:
        """Every detail as JSON; `from_json` takes it back."""
        content = {**HEADER, **dataclasses.asdict(self)}
        content["charges"] = [{**dataclasses.asdict(charge), "sigma": charge.sigma} for charge in self.charges]
        return json.dumps(content, indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Receipt":
        """The receipt that `to_json` wrote, or a ValueError for anything else."""
        try:
            content: dict[str, Any] = json.loads(text)
            if content.pop("kind") != HEADER["kind"] or content.pop("format") not in READABLE_FORMATS:
                raise ValueError("another kind or format")
            content["charges"] = tuple(
                Charge(**{field: value for field, value in charge.items() if field != "sigma"})
                for charge in content["charges"]
            )
            content["budget"] = Budget(**content["budget"])
            content["flags"] = tuple(RedFlag(**flag) for flag in content.get("flags", ()))
            for field in ("warnings", "void"):
                content[field] = tuple(content[field])
            for field in ("epsilon", "delta", "rdp_epsilon"):
                require(field, content[field], Number(least=0))
            return cls(**content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"expected a receipt written by Receipt.to_json, got something else ({error}).") from None

    def __str__(self) -> str:
        blocks = [*self._verdict(), [self._title()], *map(_wrapped, self._cautions())]
        blocks += [_wrapped(self.promise), self._facts(), self._table(), *map(_wrapped, self._remarks())]
        return "\n\n".join("\n".join(block) for block in blocks)

    def _repr_html_(self) -> str:
        rows = [(charge.what or charge.name, *_numbers(charge)) for charge in self.charges]
        notes = [*self.void, *self._cautions(), self.promise, *self._remarks()]
        title = f"Privacy receipt: epsilon = {self.budget.epsilon:g}, delta = {self.budget.delta:g}"
        return card(f"VOID. {title}" if self.void else title, COLUMNS, rows, notes)

    @property
    def _unit(self) -> str:
        unit = "one row" if self.unit == "row" else f"all rows with the same {self.unit!r}"
        unit = self.unit if self.unit.startswith(ONE_ROW_OF) else unit
        return unit if self.max_rows_per_unit == 1 else f"{unit}, of which at most {self.max_rows_per_unit} are used,"

    def _title(self) -> str:
        return f"Privacy receipt, understudy {self.version}" if self.version else "Privacy receipt"

    def _verdict(self) -> list[list[str]]:
        """That the receipt is void, and why; nothing if it holds."""
        if not self.void:
            return []
        return [["VOID: what is promised below does not hold."], *map(_wrapped, self.void)]

    def _cautions(self) -> list[str]:
        """Warnings and red flags; what voids the guarantee was said before."""
        flags = [str(flag) for flag in self.flags if flag.severity != "void"]
        return [*(f"WARNING: {warning}" for warning in self.warnings), *flags]

    def _facts(self) -> list[str]:
        fit = {"fit": " ".join(filter(None, (self.id, self.time)))} if self.id else {}
        facts = fit | {
            "promised": f"epsilon = {self.budget.epsilon:g}, delta = {self.budget.delta:g}",
            "spent": f"epsilon = {self.epsilon:.4g}, delta = {self.delta:g}",
            "neighbours": self.adjacency,
            "unit": self._unit.rstrip(","),
            "noise from": self.noise_source,
            "accountant": f"{self.accountant} (RDP says {self.rdp_epsilon:.4g})",
        }
        return [f"  {key:<12}{fact}" for key, fact in facts.items()]

    def _table(self) -> list[str]:
        """One line for each group of charges that differ in nothing but what was measured."""
        groups: dict[Charge, list[Charge]] = {}
        for charge in self.charges:
            groups.setdefault(dataclasses.replace(charge, what=""), []).append(charge)
        rows: list[tuple[str, ...]] = [COLUMNS]
        for first, charges in groups.items():
            *numbers, alone = _numbers(first)
            rows.append((_what(charges), *numbers, f"{alone} each" if len(charges) > 1 else alone))
        return ["  {:<39} {:<22} {:>11} {:>9} {:>13}".format(*row).rstrip() for row in rows]

    def _remarks(self) -> list[str]:
        notes: list[str] = []
        if self.charges:
            notes.append("The costs alone do not add up to the total: the accountant counts all together.")
        if self.not_released:
            notes.append(
                f"{count(self.not_released, 'planned release')} not made. If that was decided after seeing results, "
                f"quote what was promised: epsilon = {self.budget.epsilon:g}."
            )
        return notes


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _what(charges: Sequence[Charge]) -> str:
    """What a group of equal charges measured: the first of them, and how many more, within its column."""
    what, more = charges[0].what, len(charges) - 1
    if all(charge.what == what for charge in charges):
        tail = f" x {len(charges)}" if more else ""
    else:
        tail = f", and {more} more"
    width = _WIDTH_OF_WHAT - len(tail)
    return (what if len(what) <= width else what[: width - 1] + "…") + tail


def _numbers(charge: Charge) -> tuple[str, str, str, str]:
    """Mechanism, sensitivity, noise and epsilon alone, as they are printed."""
    alone = f"{charge.epsilon:.3g}" if charge.epsilon is not None else "?"
    return _mechanism(charge), f"{charge.sensitivity:.4g}", f"{charge.sigma:.4g}", alone


def _mechanism(charge: Charge) -> str:
    if charge.mechanism == "sampled gaussian":
        return f"sampled, {count(charge.times, 'step')}"
    return charge.mechanism + (f" x {charge.times}" if charge.times > 1 else "")
