"""A red flag: one line about what may be wrong with a request, and what to do about it."""

import dataclasses
from typing import Any, Literal

Severity = Literal["void", "serious", "notice"]
"""void: the guarantee does not hold. serious: it holds, and protects less than one may think. notice: worth knowing."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RedFlag:
    """A public fact that whoever signs should know.

    Attributes:
        name: What it is called, such as "epsilon".
        message: The fact, in one sentence.
        remedy: What to do about it, in one sentence.
        severity: How much it matters.
    """

    name: str
    message: str
    remedy: str
    severity: Severity

    def __str__(self) -> str:
        word = "NOTE" if self.severity == "notice" else "RED FLAG"
        return f"{word}, {self.name}: {self.message} {self.remedy}"

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)
