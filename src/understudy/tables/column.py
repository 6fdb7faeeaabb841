"""One column of a schema: what is publicly known about it, checked when it is made.

The one rule: a column is complete and consistent from the start. Whatever it does not state is measured later with
part of the privacy budget; nothing is guessed from the data.
"""

import dataclasses
import datetime
import math
from collections.abc import Callable, Mapping

from understudy.core.text import did_you_mean
from understudy.tables.formats import read_decimals, read_format
from understudy.tables.hierarchies import Hierarchy, read_hierarchy
from understudy.tables.values import (
    SchemaError,
    Value,
    is_list,
    is_text,
    on_table_scale,
    read_category,
    read_date,
    read_instant,
    read_instant_or_text,
    read_number,
    read_truth,
    read_whole_number,
    repeated,
    show,
)

KINDS = ("continuous", "integer", "categorical", "boolean", "datetime", "date")
FARTHEST_BOUND, NARROWEST_BOUNDS = 1e250, 1e-250
"""Bounds lie within the first of zero and at least the second apart: beyond that, float arithmetic overflows."""

_DEFAULT_OTHER = "other"
_BOUND_READERS: Mapping[str, Callable[[str, object], float | datetime.date]] = {
    "continuous": read_number,
    "integer": read_whole_number,
    "datetime": read_instant,
    "date": read_date,
}
DAY = 86_400_000_000.0
"""The distance of two dates on the scale of a table, where instants are microseconds."""


@dataclasses.dataclass(frozen=True)
class Column:
    """What is publicly known about one column: `Column("age", "integer", low=0, high=120)`.

    Attributes:
        name: Its name in the table.
        kind: One of `KINDS`.
        nullable: Whether a cell may be missing. The owner decides this, never the data.
        low: The lowest possible value of a numeric column; None: it is measured. Dates and times are naive and in UTC:
            an offset is converted, a date means its midnight, and the resolution is one microsecond. A column of kind
            "date" has no time of day at all.
        high: The highest possible value, likewise. Either bound may stand alone.
        values: The categories of a categorical column, as text; None: they are found by partition selection. The
            integer 3 means the text "3", true and false mean "true" and "false".
        other: The category that unknown values become. It may be one of `values`. If `values` are given and `other`
            is not, unknown values count as missing; if `values` are not given, it is "other".
        atoms: Values that a continuous column is known to repeat, such as 0.0; kept sorted.
        format: How dates and instants are written as text, such as "%d.%m.%Y"; None: as in ISO 8601.
        decimals: How many digits the values of a continuous column have behind the point; None: any number.
        levels: What rare categories fall back to instead of `other`: "prefix", the lengths of prefixes such as [1, 3],
            or a table that gives the parent of every category, and the parent of every parent that has one. Only for
            a column without `values`.
        per_unit: Whether all rows of one unit have the same value. Only in a schema with a `unit`.
    """

    name: str
    kind: str
    _: dataclasses.KW_ONLY
    nullable: bool = False
    low: float | datetime.date | None = None
    high: float | datetime.date | None = None
    values: tuple[str, ...] | None = None
    other: str | None = None
    atoms: tuple[float, ...] = ()
    format: str | None = None
    decimals: int | None = None
    levels: Hierarchy | None = None
    per_unit: bool = False

    def __post_init__(self):
        place = f"column {self.name!r}"
        if not is_text(self.name):
            raise SchemaError(f"{place}: expected name to be text, got {show(self.name)}.")
        if self.kind not in KINDS:
            hint = did_you_mean(self.kind, KINDS)
            raise SchemaError(f"{place}: expected kind to be one of {', '.join(KINDS)}, got {show(self.kind)}.{hint}")
        for key in ("nullable", "per_unit"):
            if not isinstance(getattr(self, key), bool):
                raise SchemaError(f"{place}: expected {key} to be true or false, got {show(getattr(self, key))}.")
        self._check_spelling(place)
        self._check_bounds(place)
        self._check_categories(place)
        self._check_atoms(place)

    def _check_spelling(self, place: str) -> None:
        """Checks how values are written: the format of dates, the digits of numbers, the levels of categories."""
        kinds = {"format": ("date", "datetime"), "decimals": ("continuous",), "levels": ("categorical",)}
        for key, suited in kinds.items():
            if getattr(self, key) is not None and self.kind not in suited:
                which = " or ".join(suited)
                raise SchemaError(f"{place}: expected no {key} for kind {self.kind!r}; only kind {which} has it.")
        if self.format is not None:
            self._set("format", read_format(f"{place}: expected format", self.format))
        if self.decimals is not None:
            self._set("decimals", read_decimals(f"{place}: expected decimals", self.decimals))
        if self.levels is not None:
            if self.values is not None:
                raise SchemaError(f"{place}: expected no levels beside values, which already list every category.")
            self._set("levels", read_hierarchy(f"{place}: expected levels", self.levels))

    def _check_bounds(self, place: str) -> None:
        for key in ("low", "high"):
            bound = getattr(self, key)
            if bound is None:
                continue
            if not self.is_numeric:
                raise SchemaError(f"{place}: expected no {key} for kind {self.kind!r}, got {key} = {show(bound)}.")
            self._set(key, _BOUND_READERS[self.kind](f"{place}: expected {key}", bound))
        low, high = self.bounds
        if low is not None and high is not None and low >= high:
            raise SchemaError(f"{place}: expected low < high, got low = {show(self.low)}, high = {show(self.high)}.")
        if any(bound is not None and abs(bound) > FARTHEST_BOUND for bound in (low, high)):
            raise SchemaError(
                f"{place}: expected bounds within ±{FARTHEST_BOUND:g}. Leave out a bound you do not know."
            )
        first, last = self.bounds_in_steps
        if first is not None and last is not None and first > last:
            raise SchemaError(f"{place}: expected a number of {self.decimals} decimals between low and high.")
        if low is not None and high is not None and high - low < NARROWEST_BOUNDS:
            raise SchemaError(f"{place}: expected low and high at least {NARROWEST_BOUNDS:g} apart. Use another unit.")

    def _check_categories(self, place: str) -> None:
        if self.kind != "categorical":
            for key in ("values", "other"):
                if getattr(self, key) is not None:
                    raise SchemaError(f"{place}: expected no {key} for kind {self.kind!r}; only a categorical has it.")
            return
        if self.values is None and self.other is None:
            self._set("other", _DEFAULT_OTHER)
        if self.values is not None:
            self._set("values", _read_categories(place, self.values))
        if self.other is not None:
            self._set("other", read_category(f"{place}: expected other", self.other))

    def _check_atoms(self, place: str) -> None:
        rule = f"{place}: expected atoms"
        if not is_list(self.atoms):
            raise SchemaError(f"{rule} to be a list of numbers, got {show(self.atoms)}.")
        if len(self.atoms) and self.kind != "continuous":
            raise SchemaError(f"{place}: expected no atoms for kind {self.kind!r}; only a continuous column has them.")
        atoms = [read_number(f"{rule} to hold only numbers, each", atom) for atom in self.atoms]
        if (twice := repeated(atoms)) is not None:
            raise SchemaError(f"{rule} to be distinct, got {show(twice)} twice.")
        low, high = self.bounds
        for atom in atoms:
            if (low is not None and atom < low) or (high is not None and atom > high):
                raise SchemaError(f"{rule} to lie within low and high, got {show(atom)}.")
        self._set("atoms", tuple(sorted(atoms)))

    def _set(self, key: str, value: object) -> None:
        """Replaces a field by its canonical form while the column is made; later it is frozen."""
        object.__setattr__(self, key, value)

    @property
    def is_numeric(self) -> bool:
        """Whether the column has an order and a distance: continuous, integer, datetime or date."""
        return self.kind in _BOUND_READERS

    @property
    def is_instant(self) -> bool:
        """Whether the values are dates or instants, which are microseconds since 1970 on the scale of a `Table`."""
        return self.kind in ("datetime", "date")

    @property
    def step(self) -> float | None:
        """The distance of neighbouring values on the scale of a `Table` if they lie on a grid; else None."""
        if self.decimals is not None:
            return 10.0**-self.decimals
        return {"integer": 1.0, "date": DAY}.get(self.kind)

    @property
    def bounds_in_steps(self) -> tuple[float | None, float | None]:
        """`bounds` of a column on a grid as whole numbers of steps, the first and the last within; else `bounds`."""
        low, high = self.bounds
        if self.step is None or self.kind == "integer":
            return low, high
        # Bounds are decimal fractions, and a division of floats may miss a whole number by a little.
        first = None if low is None else math.ceil(round(low / self.step, 6))
        last = None if high is None else math.floor(round(high / self.step, 6))
        return first, last

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """`low` and `high` on the scale of a `Table`, where dates and instants are microseconds since 1970."""
        low, high = (None if bound is None else on_table_scale(bound) for bound in (self.low, self.high))
        return low, high

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The public text of every code, `other` last unless it is one of `values`; None without `values`."""
        if self.values is None or self.other is None or self.other in self.values:
            return self.values
        return (*self.values, self.other)

    def canonical(self, rule: str, value: object) -> Value:
        """A public value of this column in its one form: a number, an instant, a truth value or a category.

        Args:
            rule: How an error begins, such as "column 'age': expected low".
            value: As a person gives it; an instant may be ISO 8601 text.

        Raises:
            SchemaError: The column cannot hold it.
        """
        if self.kind == "datetime":
            return read_instant_or_text(rule, value)
        if self.kind == "date":
            return read_date(rule, value)
        if self.is_numeric:
            return _BOUND_READERS[self.kind](rule, value)
        if self.kind == "boolean":
            return read_truth(rule, value)
        category = read_category(rule, value)
        if self.labels is not None and category not in self.labels:
            hint = did_you_mean(category, self.labels)
            raise SchemaError(f"{rule} to be one of the values of {self.name!r}, got {category!r}.{hint}")
        return category

    def __str__(self) -> str:
        facts = [self.kind]
        if self.low is not None or self.high is not None:
            facts.append(" to ".join("?" if bound is None else show(bound) for bound in (self.low, self.high)))
        if self.values is not None:
            facts.append(f"{len(self.values)} values")
        return ", ".join(facts + ["may be missing"] * self.nullable)


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of one table by name, and the names that are not columns of the synthetic table.

    Attributes:
        by_name: The columns.
        excluded: For a name of the table that is not synthesized, the reason: "the unit", "ignored".
    """

    by_name: Mapping[str, Column]
    excluded: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.by_name

    def __getitem__(self, name: object) -> Column:
        """The column of this name.

        Raises:
            SchemaError: There is none. The message says why, or which name is near.
        """
        if isinstance(name, str) and name in self.by_name:
            return self.by_name[name]
        if isinstance(name, str) and name in self.excluded:
            raise SchemaError(f"expected a column of the synthetic table, but {name!r} is {self.excluded[name]}.")
        raise SchemaError(f"the schema has no column {name!r}.{did_you_mean(name, self.by_name)}")


def _read_categories(place: str, values: object) -> tuple[str, ...]:
    if not is_list(values) or not len(values):
        raise SchemaError(f"{place}: expected values to be a list of at least one category, got {show(values)}.")
    categories = [read_category(f"{place}: expected values to hold only text, each", value) for value in values]
    if (twice := repeated(categories)) is not None:
        raise SchemaError(f"{place}: expected values to be distinct, got {twice!r} twice.")
    return tuple(categories)
