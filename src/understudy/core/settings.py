"""Settings that declare their constraints, and the one validator that checks them.

A configuration is a frozen, keyword-only dataclass that inherits `Settings` and lists its constraints by field:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class AIM(Settings):
        degree: int = 2
        encoding_share: float = 0.3

        constraints: ClassVar[Constraints] = {
            "degree": Whole(least=1),
            "encoding_share": Number(above=0, below=1),
        }

Every field has a constraint; `Settings.__post_init__` checks them all. A rule that joins two fields belongs to the
class's own `__post_init__`, which calls `super().__post_init__()` first.
"""

import dataclasses
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol, cast


class Constraint(Protocol):
    """What one field may be."""

    @property
    def rule(self) -> str:
        """The rule in words, to follow "expected"."""
        ...

    def holds(self, value: object) -> bool: ...


Constraints = Mapping[str, Constraint]


def _float(value: numbers.Real) -> float:
    """The number as a float; a whole number that is too large for one is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Number:
    """A finite number within bounds; `least` and `most` belong to them, `above` and `below` do not."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    @property
    def rule(self) -> str:
        limits = {">=": self.least, ">": self.above, "<=": self.most, "<": self.below}
        stated = [f"{sign} {limit:g}" for sign, limit in limits.items() if limit is not None]
        return " ".join(["a finite number", " and ".join(stated)]).strip()

    def holds(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(x := _float(value)):
            return False
        return (
            (self.least is None or x >= self.least)
            and (self.above is None or x > self.above)
            and (self.most is None or x <= self.most)
            and (self.below is None or x < self.below)
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Whole:
    """A whole number within bounds, both included; a float is not one, even if it has no fraction."""

    least: int = 1
    most: int | None = None

    @property
    def rule(self) -> str:
        return f"a whole number >= {self.least}" + ("" if self.most is None else f" and <= {self.most}")

    def holds(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            return False
        return int(value) >= self.least and (self.most is None or int(value) <= self.most)


@dataclasses.dataclass(frozen=True)
class Flag:
    """True or False."""

    rule: str = "True or False"

    def holds(self, value: object) -> bool:
        return isinstance(value, bool)


class OneOf:
    """One of a few words."""

    def __init__(self, *words: str):
        self.words = words
        self.rule = f"one of {', '.join(words)}"

    def holds(self, value: object) -> bool:
        return isinstance(value, str) and value in self.words


class Each:
    """A tuple with at least one entry, every entry of which keeps a constraint."""

    def __init__(self, entry: Constraint):
        self.entry = entry
        self.rule = f"a tuple of at least one entry, each {entry.rule}"

    def holds(self, value: object) -> bool:
        if not isinstance(value, tuple):
            return False
        entries = cast("tuple[object, ...]", value)
        return len(entries) > 0 and all(map(self.entry.holds, entries))


class Optional:
    """None, or what another constraint allows."""

    def __init__(self, inner: Constraint):
        self.inner = inner
        self.rule = f"{inner.rule}, or None"

    def holds(self, value: object) -> bool:
        return value is None or self.inner.holds(value)


class Satisfies:
    """Whatever a predicate accepts, for the rare field that no other constraint describes."""

    def __init__(self, rule: str, predicate: Callable[[object], bool]):
        self.rule = rule
        self.predicate = predicate

    def holds(self, value: object) -> bool:
        return self.predicate(value)


class Settings:
    """Base of every configuration: checks its declared constraints when it is made.

    A list becomes a tuple, and a number of another library, such as NumPy, the Python number.
    """

    constraints: ClassVar[Constraints] = {}

    def __post_init__(self) -> None:
        for name, constraint in self.constraints.items():
            value = _plain(getattr(self, name))
            require(f"{type(self).__name__}.{name}", value, constraint)
            object.__setattr__(self, name, value)


def require(place: str, value: object, constraint: Constraint) -> None:
    """Raises a ValueError that names the place, the rule and the fact, unless the constraint holds."""
    if not constraint.holds(value):
        shown = f"{value:g}" if isinstance(value, float) and not value.is_integer() else _shown(value)
        raise ValueError(f"{place}: expected {constraint.rule}, got {shown}.")


def _shown(value: object) -> str:
    return str(value) if isinstance(value, numbers.Real) else repr(value)


def _plain(value: object) -> object:
    if isinstance(value, list | tuple):
        return tuple(_plain(entry) for entry in cast("Sequence[object]", value))
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else value
