"""The ledger of one table of a database: a view of the ledger of the whole fit.

The one rule: it holds no budget of its own. What it is asked to charge is charged to the whole, under the name of the
table, and the noise is that of the whole plan, whose one scale covers all tables together.
"""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn, TypeVar

from understudy.core.settings import require
from understudy.privacy.checkpoints import Checkpoint
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.plan import TIMES, PlannedMechanism

T = TypeVar("T")


class TableLedger(Ledger):
    """What one table is charged.

    Args:
        whole: The ledger of the fit, whose plan names the mechanisms of this table as `named` does.
        table: The name of the table.
        max_rows_per_unit: How many rows of one unit are locked in this table at most.
        context: The columns that the table is drawn given.
    """

    def __init__(self, whole: Ledger, table: str, *, max_rows_per_unit: int, context: Collection[str] = ()):
        require("max_rows_per_unit", max_rows_per_unit, TIMES)
        self._whole, self._table = whole, table
        self.budget, self.unit, self.seed, self.scale = whole.budget, whole.unit, whole.seed, whole.scale
        self.max_rows_per_unit, self.context = int(max_rows_per_unit), frozenset(context)
        start = _name(table, "")
        own = [planned for planned in whole.plan if planned.name.startswith(start)]
        self.plan = tuple(dataclasses.replace(each, name=each.name.removeprefix(start)) for each in own)
        self._planned = {planned.name: planned for planned in self.plan}

    @property
    def on_step(self) -> Callable[[int, int], None] | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._whole.on_step

    @property
    def checkpoint(self) -> Checkpoint | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._whole.checkpoint

    def phase(self, what: str) -> None:
        self._whole.phase(f"{self._table}: {what}")

    def left(self, name: str) -> float:
        return self._whole.left(_name(self._table, self.planned(name).name))

    def progress(self) -> tuple[float, int]:
        return self._whole.progress()

    def charge(
        self, planned: str | FilterShare, *, what: str, sensitivity: float, times: int = 1, mechanism: str | None = None
    ) -> float:
        """Enters a charge in the whole ledger; as `Ledger.charge`."""
        if isinstance(planned, FilterShare):
            asked = FilterShare(_name(self._table, self.planned(planned.name).name), planned.share)
        else:
            asked = _name(self._table, self.planned(planned).name)
        what = f"{self._table}: {what}"
        return self._whole.charge(asked, what=what, sensitivity=sensitivity, times=times, mechanism=mechanism)

    def kept(self) -> Any:
        return self._whole.kept()

    def keep(self, value: T) -> T:
        return self._whole.keep(value)

    def warn(self, text: str) -> None:
        self._whole.warn(f"{self._table}: {text}")

    def void(self, reason: str) -> None:
        self._whole.void(reason)

    def receipt(self, *, version: str = "", **record: Any) -> NoReturn:
        raise TypeError("The receipt is that of the whole ledger.")


def named(table: str, plan: Sequence[PlannedMechanism], *, share: float) -> list[PlannedMechanism]:
    """The plan of one table as a part of the whole: under its name, and with its share of the budget."""
    return [dataclasses.replace(each, name=_name(table, each.name), share=each.share * share) for each in plan]


def _name(table: str, mechanism: str) -> str:
    return f"{table}: {mechanism}"
