"""What a check of the doctor reports."""

import dataclasses
from typing import Literal

State = Literal["ok", "note", "problem"]
REINSTALL = "Install understudy-dp again, in a fresh virtual environment."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        name: What was checked.
        state: "ok"; "note" if it works but could be better; "problem" if something necessary is broken.
        fact: What was found.
        advice: What to do about it; empty if there is nothing to do.
    """

    name: str
    state: State
    fact: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.state:<8} {self.name:<13} {self.fact}." + (f" {self.advice}" if self.advice else "")
