"""The plan on the wall: what is publicly known about a table, and its TOML form.

A schema is written by the owner from knowledge of the subject. The one rule kept here is that nothing is ever
guessed from the data: whatever a schema leaves out is bought with budget later, or the request is refused.

TOML is read with the standard library (https://toml.io/en/v1.0.0) and written with tomli_w.
"""

import dataclasses
import datetime
import math
import numbers
import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from understudy.core.files import reason, replacing
from understudy.core.notebooks import card
from understudy.core.text import did_you_mean
from understudy.tables import metadata as foreign
from understudy.tables.constraints import Constraint, ConstraintError, check_together, on_table_scale, read

KINDS = ("continuous", "integer", "categorical", "boolean", "datetime")
MAX_INTEGER = 2**53
"""The widest whole number that a float64, the inner form of every number, holds exactly."""

_OTHER = "other"
FARTHEST_BOUND, NARROWEST_BOUNDS = 1e250, 1e-250
"""How far from zero bounds may lie, and how near to each other: beyond, floats have no room to compute."""
UNNAMED = "table"
"""The name of a schema that does not give one."""


class SchemaError(ValueError):
    """The schema breaks a rule. The message gives place, rule and fact; a schema is public, so it may quote it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """What is publicly known about one column.

    Attributes:
        name: Its name in the table.
        kind: One of `KINDS`.
        nullable: Whether a cell may be missing. Decided here and never by the data.
        low: Lowest possible value of a numeric column; None: bought. Dates and times are naive and in UTC: an
            offset is converted, a date means its midnight, and the resolution is one microsecond.
        high: Highest possible value, likewise. Either bound may stand alone.
        values: The categories of a categorical column, as text; None: bought by partition selection. The integer 3
            means the text "3", true and false mean "true" and "false".
        other: The category that unknown values become. It may be one of `values`. Where `values` are given and
            this is not, unknown values count as missing; where `values` are not given it is "other".
        atoms: Values that a continuous column is known to repeat, such as 0.0; kept sorted.
    """

    name: str
    kind: str
    nullable: bool = False
    low: float | datetime.datetime | None = None
    high: float | datetime.datetime | None = None
    values: tuple[str, ...] | None = None
    other: str | None = None
    atoms: tuple[float, ...] = ()

    def __post_init__(self):
        place = f"column {self.name!r}"
        _check_text(place, "name", self.name)
        if self.kind not in KINDS:
            hint = did_you_mean(self.kind, KINDS)
            raise SchemaError(f"{place}: expected kind to be one of {', '.join(KINDS)}, got {_show(self.kind)}.{hint}")
        if not isinstance(self.nullable, bool):
            raise SchemaError(f"{place}: expected nullable to be true or false, got {_show(self.nullable)}.")
        self._check_bounds(place)
        self._check_categories(place)
        self._check_atoms(place)

    def _check_bounds(self, place: str):
        for key in ("low", "high"):
            bound = getattr(self, key)
            if bound is None:
                continue
            if not self.is_numeric:
                raise SchemaError(f"{place}: expected no {key} for kind {self.kind!r}, got {key} = {_show(bound)}.")
            _set(self, key, _BOUND_READERS[self.kind](f"{place}: expected {key}", bound))
        low, high = self.bounds
        if low is not None and high is not None and low >= high:
            raise SchemaError(f"{place}: expected low < high, got low = {_show(self.low)}, high = {_show(self.high)}.")
        if any(bound is not None and abs(bound) > FARTHEST_BOUND for bound in (low, high)):
            raise SchemaError(
                f"{place}: expected bounds within ±{FARTHEST_BOUND:g}. Leave out a bound you do not know."
            )
        if low is not None and high is not None and high - low < NARROWEST_BOUNDS:
            raise SchemaError(f"{place}: expected low and high at least {NARROWEST_BOUNDS:g} apart. Use another unit.")

    def _check_categories(self, place: str):
        if self.kind != "categorical":
            for key in ("values", "other"):
                if getattr(self, key) is not None:
                    raise SchemaError(f"{place}: expected no {key} for kind {self.kind!r}; only a categorical has it.")
            return
        if self.values is None and self.other is None:
            _set(self, "other", _OTHER)
        if self.values is not None:
            _set(self, "values", _categories(place, self.values))
        if self.other is not None:
            _set(self, "other", _category(f"{place}: expected other", self.other))

    def _check_atoms(self, place: str):
        rule = f"{place}: expected atoms"
        if not _is_list(self.atoms):
            raise SchemaError(f"{rule} to be a list of numbers, got {_show(self.atoms)}.")
        if len(self.atoms) and self.kind != "continuous":
            raise SchemaError(f"{place}: expected no atoms for kind {self.kind!r}; only a continuous column has them.")
        atoms = [_finite(f"{rule} to hold only numbers, each", atom) for atom in self.atoms]
        if len(set(atoms)) < len(atoms):
            raise SchemaError(f"{rule} to be distinct, got {_show(_repeated(atoms))} twice.")
        low, high = self.bounds
        for atom in atoms:
            if (low is not None and atom < low) or (high is not None and atom > high):
                raise SchemaError(f"{rule} to lie within low and high, got {_show(atom)}.")
        _set(self, "atoms", tuple(sorted(atoms)))

    @property
    def is_numeric(self) -> bool:
        """Whether the column has an order and a distance: continuous, integer or datetime."""
        return self.kind in _BOUND_READERS

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """`low` and `high` on the scale of a `Table`, where datetimes are microseconds since 1970."""
        low, high = (None if bound is None else on_table_scale(bound) for bound in (self.low, self.high))
        return low, high

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The public text of every code, `other` last unless it is one of `values`; None without `values`."""
        if self.values is None or self.other is None or self.other in self.values:
            return self.values
        return (*self.values, self.other)

    def canonical(self, rule: str, value: Any) -> Any:
        """A public value of this column in its one form: a number, an instant, a truth value or a category.

        Args:
            rule: How an error begins, such as "column 'age': expected low".
            value: As a person gives it; an instant may be ISO 8601 text.

        Raises:
            SchemaError: The column cannot hold it.
        """
        if self.is_numeric:
            return _BOUND_READERS[self.kind](rule, _from_iso(value) if self.kind == "datetime" else value)
        if self.kind == "boolean":
            return _truth(rule, value)
        category = _category(rule, value)
        if self.labels is not None and category not in self.labels:
            hint = did_you_mean(category, self.labels)
            raise SchemaError(f"{rule} to be one of the values of {self.name!r}, got {category!r}.{hint}")
        return category


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schema:
    """What is publicly known about a table.

    Attributes:
        columns: The columns to be synthesized, in the order of the synthetic table.
        name: What the table is called.
        rows: About how many rows there are, where that is public; None: a noisy count is bought.
        target: The column to be predicted; used by evaluation only.
        order: The public generation order, a permutation of the names; empty: as listed.
        unit: The column that says whose row it is, where one person may have several. It is an identifier and so
            is not one of `columns`. Needs `max_rows_per_unit`.
        max_rows_per_unit: How many rows of one unit are used at most.
        ignore: Columns of the table that are not read.
        missing: Spellings of a missing value, such as "?". The empty cell is always missing.
        constraints: Rules that every synthetic row keeps, such as "discharge >= admission"; docs/schema.md has their
            forms. Public, like all of it, and never learned.
    """

    columns: tuple[Column, ...]
    name: str = UNNAMED
    rows: int | None = None
    target: str | None = None
    order: tuple[str, ...] = ()
    unit: str | None = None
    max_rows_per_unit: int | None = None
    ignore: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self):
        if not _is_list(self.columns) or not self.columns or not all(isinstance(c, Column) for c in self.columns):
            raise SchemaError("columns: expected at least one column, each with a name and a kind.")
        _set(self, "columns", tuple(self.columns))
        if len(set(self.names)) < len(self):
            raise SchemaError(f"columns: expected distinct names, got {_repeated(self.names)!r} twice.")
        _check_text("name", "name", self.name)
        for key in ("order", "ignore", "missing"):
            _set(self, key, _texts(key, getattr(self, key)))
        self._check_counts()
        self._check_roles()
        self._check_missing()
        self._check_constraints()

    def _check_counts(self):
        for key in ("rows", "max_rows_per_unit"):
            count = getattr(self, key)
            if count is None:
                continue
            if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < 1:
                raise SchemaError(f"{key}: expected an integer >= 1, got {_show(count)}.")
            _set(self, key, int(count))
        if (self.unit is None) != (self.max_rows_per_unit is None):
            given = "unit" if self.max_rows_per_unit is None else "max_rows_per_unit"
            raise SchemaError(f"unit: expected unit and max_rows_per_unit together, got {given} alone.")

    def _check_roles(self):
        if self.target is not None and self.target not in self.names:
            hint = did_you_mean(self.target, self.names)
            raise SchemaError(f"target: expected the name of a column, got {_show(self.target)}.{hint}")
        if self.order and sorted(self.order) != sorted(self.names):
            strays = [f"{name!r} is no column" for name in self.order if name not in self.names]
            strays += [f"{name!r} is left out" for name in self.names if name not in self.order]
            raise SchemaError(f"order: expected every column once, but {strays[0]}.")
        if self.unit is not None:
            _check_text("unit", "unit", self.unit)
            if self.unit in self.names or self.unit in self.ignore:
                where = "columns" if self.unit in self.names else "ignore"
                raise SchemaError(
                    f"unit: expected an identifier outside {where}, got {self.unit!r}. Take it out there."
                )
        for name in self.ignore:
            if name in self.names:
                raise SchemaError(f"ignore: expected names that are not columns, got {name!r}.")

    def _check_missing(self):
        for spelling in self.missing:
            if not spelling.strip():
                raise SchemaError("missing: expected visible text; the empty cell is always missing.")
            for column in self.columns:
                if spelling in (*(column.values or ()), column.other):
                    raise SchemaError(f"missing: {spelling!r} is also a category of column {column.name!r}.")

    def _check_constraints(self):
        written: Any = self.constraints
        if not _is_list(written):
            raise SchemaError(f"constraints: expected a list of rules, got {_show(written)}.")
        found = []
        for place, each in enumerate(written, 1):
            try:
                found.append(read(each, self))
            except (ConstraintError, SchemaError) as error:
                raise SchemaError(f"constraint {place}: {error}") from None
        try:
            check_together(found, self)
        except ConstraintError as error:
            raise SchemaError(f"constraints: {error}") from None
        _set(self, "constraints", tuple(found))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, as listed."""
        return tuple(column.name for column in self.columns)

    @property
    def generation_order(self) -> tuple[str, ...]:
        """The names of the columns in the order in which they are generated."""
        return self.order or self.names

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(f"the schema has no column {name!r}.{did_you_mean(name, self.names)}")

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        lines = [f"{self.name}: {len(self)} columns" + (f", about {self.rows} rows" if self.rows else "")]
        lines += [f"  {column.name:{width}}  {_describe(column)}" for column in self.columns]
        if self.constraints:
            lines += ["in every synthetic row:", *(f"  {each}" for each in self.constraints)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        size = f"{self.name}: {len(self)} columns" + (f", about {self.rows} rows" if self.rows else "")
        rows = [(column.name, _describe(column)) for column in self.columns]
        notes = [f"In every synthetic row: {each}." for each in self.constraints]
        return card(size, ("column", "public facts"), rows, notes)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a schema from a TOML file.

        Raises:
            SchemaError: The file cannot be read, is not TOML, or breaks a rule.
        """
        source = os.fspath(path)
        try:
            text = Path(path).read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise SchemaError(f"{source}: expected UTF-8 text, as TOML requires.") from None
        except (OSError, ValueError) as error:
            raise SchemaError(f"{source} cannot be read: {reason(error)}.") from None
        return cls.parse(text, source)

    @classmethod
    def parse(cls, text: str, source: str = "schema") -> Self:
        """Reads a schema from TOML text; `source` is what error messages call it."""
        try:
            document = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"{source} is not valid TOML: {error}.") from None
        try:
            return cls(**_from_document(document))
        except SchemaError as error:
            raise SchemaError(f"{source}, {error}") from None

    @classmethod
    def from_sdv(
        cls,
        metadata: Mapping[str, Any] | str | os.PathLike[str],
        *,
        nullable: Iterable[str] = (),
        max_rows_per_unit: int | None = None,
    ) -> Self:
        """A schema from the single-table metadata of SDV, a dictionary or the path of its JSON file.

        Keys, identifiers and personal details (names, addresses) are ignored; a sequence key is the unit. Bounds and
        categories are in no metadata: fill in what you know, or they are bought.

        Args:
            nullable: The columns whose cells may be missing, which the metadata does not say.
            max_rows_per_unit: How many rows of one sequence are used at most; needed where there is a sequence key.

        Raises:
            SchemaError: It is no such metadata, or describes several tables.
        """
        return cls._translated(foreign.sdv, metadata, nullable=nullable, max_rows_per_unit=max_rows_per_unit)

    @classmethod
    def from_domain_json(cls, domain: Mapping[str, int] | str | os.PathLike[str]) -> Self:
        """A schema from a domain as private-pgm writes it, {"column": size}: categories "0" to "size - 1".

        Raises:
            SchemaError: It is no such domain.
        """
        return cls._translated(foreign.domain, domain)

    @classmethod
    def _translated(cls, translate: Callable[..., dict[str, Any]], source: Any, **settings: Any) -> Self:
        place = "the metadata" if isinstance(source, Mapping) else os.fspath(source)
        try:
            return cls(**_from_document(translate(source, **settings)))
        except (foreign.ForeignError, SchemaError) as error:
            raise SchemaError(f"{place}, {error}") from None

    def to_toml(self) -> str:
        """The schema as TOML; `Schema.parse` gives back an equal one."""
        document = _stated(self, leave_out="columns")
        if self.constraints:
            document["constraints"] = [each.written() for each in self.constraints]
        document["columns"] = {column.name: _stated(column, leave_out="name") for column in self.columns}
        import tomli_w

        return tomli_w.dumps(document)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the schema as TOML, whole or not at all."""
        try:
            with replacing(path) as temporary:
                temporary.write_bytes(self.to_toml().encode())
        except (OSError, ValueError) as error:
            raise SchemaError(f"{os.fspath(path)} cannot be written: {reason(error)}.") from None


def draft(names_and_kinds: Sequence[tuple[str, str]], *, name: str = "table", source: str = "a table") -> str:
    """The TOML text of a schema to be completed by the owner; it is valid as it stands.

    Args:
        names_and_kinds: The name and the kind of every column, and all that the draft knows of the data.
        name: What the table is called.
        source: What the header comment calls the table.

    Raises:
        SchemaError: A name comes twice, or a kind is not one of `KINDS`.
    """
    import tomli_w

    columns = tuple(Column(name=column, kind=kind) for column, kind in names_and_kinds)
    Schema(name=name, columns=columns)
    parts = [_DRAFT_HEADER.format(source=repr(source), name=tomli_w.dumps({"name": name}).strip())]
    for column in columns:
        table = tomli_w.dumps({"columns": {column.name: {"kind": column.kind}}})
        parts.append(table + _DRAFT_HINTS[column.kind] + _DRAFT_NULLABLE)
    return "\n".join(parts)


_DRAFT_HEADER = """\
# Draft of a schema for {source}.
# The names and the kinds of its columns are all that was looked at (kinds in a CSV file are guessed from its first 1000
# rows; a file without a header has somebody's cells for names): no bound, no category and no count below comes
# from the data, and none should. Fill in what you know of the subject (nobody is older than 120), not what you see in
# the table. What you leave out is bought with part of the privacy budget. Take the # away where you fill in a line.
{name}
# rows =                    # about how many rows, if that is public
# target = "..."            # the column that people will want to predict; used by evaluation only
# unit = "..."              # the column that says whose row it is, if a person may have several; then take its
# max_rows_per_unit =       # [columns...] table out below, and say how many rows of one person are used at most
# ignore = ["..."]          # columns to leave out; take out their [columns...] tables
# missing = ["?"]           # how a missing value is spelt, besides the empty cell
# constraints = ["a >= b"]  # rules that every synthetic row is to keep
"""
_DRAFT_BOUNDS = """\
# low =                     # the lowest value that is possible
# high =                    # the highest value that is possible
"""
_DRAFT_HINTS = {
    "continuous": _DRAFT_BOUNDS + "# atoms = [0.0]             # values that many rows share\n",
    "integer": _DRAFT_BOUNDS,
    "datetime": """\
# low = 2000-01-01          # the earliest date, or date and time in UTC, that is possible
# high = 2030-01-01         # the latest
""",
    "categorical": """\
# values = ["...", "..."]   # every category, as it is spelt in the table
# other = "other"           # the category that unknown values become
""",
    "boolean": "",
}
_DRAFT_NULLABLE = "# nullable = true           # if a cell may be missing\n"


def _from_document(document: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `Schema` from a parsed TOML document."""
    _check_keys("top level", document, Schema)
    tables = document.get("columns")
    if not isinstance(tables, dict) or not tables:
        raise SchemaError("columns: expected at least one table such as [columns.age].")
    columns = []
    for name, table in tables.items():
        place = f"column {name!r}"
        if not isinstance(table, dict):
            raise SchemaError(f"{place}: expected a table [columns.{name}], got {_show(table)}.")
        _check_keys(place, table, Column, reserved="name")
        if "kind" not in table:
            raise SchemaError(f"{place}: expected a kind, one of {', '.join(KINDS)}, got none.")
        columns.append(Column(name=name, **table))
    return document | {"columns": tuple(columns)}


def _check_keys(place: str, table: dict[str, Any], owner: type, *, reserved: str | None = None) -> None:
    known = [field.name for field in dataclasses.fields(owner) if field.name != reserved]
    for key in table:
        if key not in known:
            raise SchemaError(f"{place}: unknown key {key!r}.{did_you_mean(key, known)} Known: {', '.join(known)}.")


def _stated(owner: Column | Schema, *, leave_out: str) -> dict[str, Any]:
    """The fields that differ from their defaults, as TOML writes them."""
    stated = {}
    for field in dataclasses.fields(owner):
        value = getattr(owner, field.name)
        if field.name != leave_out and (value != field.default or field.name == "name"):
            stated[field.name] = list(value) if isinstance(value, tuple) else value
    return stated


def _finite(rule: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise SchemaError(f"{rule} to be a number, got {_show(value)}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SchemaError(f"{rule} to be a finite number, got {_show(value)}.")
    return number + 0.0  # -0.0 and 0.0 are one value


def _whole(rule: str, value: Any) -> int:
    number = _finite(rule, value)
    if number != math.floor(number):
        raise SchemaError(f"{rule} to be a whole number for kind 'integer', got {_show(value)}.")
    if abs(int(value)) > MAX_INTEGER:
        raise SchemaError(f"{rule} to lie within plus or minus 2**53, got {_show(value)}.")
    return int(value)


def _instant(rule: str, value: Any) -> datetime.datetime:
    if not isinstance(value, datetime.date):
        raise SchemaError(f"{rule} to be a date or a date and time, such as 2000-01-01, got {_show(value)}.")
    if not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        return value.replace(fold=0)
    try:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    except OverflowError:
        raise SchemaError(f"{rule} to lie between the years 1 and 9999 in UTC, got {_show(value)}.") from None


def _from_iso(value: Any) -> Any:
    try:
        return datetime.datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return value


_BOUND_READERS: dict[str, Callable[[str, Any], Any]] = {"continuous": _finite, "integer": _whole, "datetime": _instant}


def _truth(rule: str, value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise SchemaError(f"{rule} to be true or false, got {_show(value)}.")
    return value


def _categories(place: str, values: Any) -> tuple[str, ...]:
    if not _is_list(values) or not len(values):
        raise SchemaError(f"{place}: expected values to be a list of at least one category, got {_show(values)}.")
    categories = [_category(f"{place}: expected values to hold only text, each", value) for value in values]
    if len(set(categories)) < len(categories):
        raise SchemaError(f"{place}: expected values to be distinct, got {_repeated(categories)!r} twice.")
    return tuple(categories)


def _category(rule: str, value: Any) -> str:
    """A category as text. Whole numbers and truth values have one usual spelling; fractions do not."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if not isinstance(value, str) or not _is_storable(value):
        raise SchemaError(f"{rule} to be text as it is spelt in the table, got {_show(value)}.")
    if not value or value != value.strip():
        # Space around a cell is not part of it, so such a category could never be met.
        raise SchemaError(f"{rule} to be visible text without space around it, got {value!r}.")
    return value


def _texts(key: str, values: Any) -> tuple[str, ...]:
    if values is None:
        return ()
    if not _is_list(values) or not all(isinstance(text, str) and _is_storable(text) for text in values):
        raise SchemaError(f"{key}: expected a list of texts, got {_show(values)}.")
    if len(set(values)) < len(values):
        raise SchemaError(f"{key}: expected distinct texts, got {_repeated(values)!r} twice.")
    return tuple(values)


def _check_text(place: str, key: str, value: Any) -> None:
    if not isinstance(value, str) or not _is_storable(value):
        raise SchemaError(f"{place}: expected {key} to be text, got {_show(value)}.")


def _is_storable(text: str) -> bool:
    """Whether TOML can hold the text: a lone surrogate has no UTF-8 form."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _repeated(items: Iterable[Any]) -> Any:
    seen = set()
    return next(item for item in items if item in seen or seen.add(item))


def _show(value: Any) -> str:
    """A public value as TOML spells it, kept short."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value.isoformat() if isinstance(value, datetime.date) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _describe(column: Column) -> str:
    parts = [column.kind]
    if column.low is not None or column.high is not None:
        parts.append(" to ".join("?" if bound is None else _show(bound) for bound in (column.low, column.high)))
    if column.values is not None:
        parts.append(f"{len(column.values)} values")
    return ", ".join(parts + ["may be missing"] * column.nullable)


def _set(owner: Column | Schema, key: str, value: Any) -> None:
    """Puts a checked value in its one canonical form; the dataclass is frozen for everybody else."""
    object.__setattr__(owner, key, value)
