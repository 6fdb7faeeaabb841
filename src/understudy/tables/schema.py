"""A schema: what is publicly known about a table, and its TOML form.

The owner writes it from knowledge of the subject. The one rule: nothing is ever guessed from the data. Whatever a
schema leaves out is measured later with part of the privacy budget, or the request is refused.
"""

import contextlib
import dataclasses
import functools
import importlib
import numbers
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

import tomli_w

from understudy.core.files import reason, replacing
from understudy.core.notebooks import card
from understudy.core.text import did_you_mean
from understudy.tables import metadata as other_metadata
from understudy.tables import toml
from understudy.tables.column import Column, Columns
from understudy.tables.constraints import ConstraintError, check_together, read
from understudy.tables.dialect import STANDARD, Dialect
from understudy.tables.rules import Constraint
from understudy.tables.values import SchemaError, is_list, is_text, repeated, show

UNNAMED = "table"
"""The name of a schema that does not give one."""
MOST_ROWS = 10**12
"""No table has more rows; a number of rows beyond this is a typing mistake, and might not fit into a float."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schema:
    """What is publicly known about a table.

    Attributes:
        columns: The columns to be synthesized, in the order of the synthetic table.
        name: What the table is called.
        rows: About how many rows there are, if that is public; None: a noisy count is released.
        target: The column to be predicted; used by evaluation only.
        order: The public generation order, a permutation of the names; empty: as listed.
        unit: The column that says whose row it is, if one person may have several rows. It is an identifier and so
            is not one of `columns`. Needs `max_rows_per_unit`.
        max_rows_per_unit: How many rows of one unit are used at most.
        ignore: Columns of the table that are not read.
        missing: Spellings of a missing value, such as "?". The empty cell is always missing.
        constraints: Rules that every synthetic row keeps, such as "discharge >= admission"; docs/schema.md lists their
            forms. They are public, like everything in a schema, and never learned.
        file: How the table is spelt in a text file; other formats need none. A dictionary of its keys will do.
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
    file: Dialect = STANDARD

    def __post_init__(self):
        if not is_list(self.columns) or not self.columns or not all(isinstance(c, Column) for c in self.columns):
            raise SchemaError("columns: expected at least one column, each with a name and a kind.")
        self._set("columns", tuple(self.columns))
        if (twice := repeated(self.names)) is not None:
            raise SchemaError(f"columns: expected distinct names, got {twice!r} twice.")
        for key in ("name", "unit"):
            text = getattr(self, key)
            if not is_text(text) and not (key == "unit" and text is None):
                raise SchemaError(f"{key}: expected {key} to be text, got {show(text)}.")
        for key in ("order", "ignore", "missing"):
            self._set(key, _read_texts(key, getattr(self, key)))
        self._check_counts()
        self._check_roles()
        self._check_missing()
        self._read_constraints()
        self._set("file", Dialect.read(self.file))

    def _check_counts(self) -> None:
        for key in ("rows", "max_rows_per_unit"):
            count = getattr(self, key)
            if count is None:
                continue
            if isinstance(count, bool) or not isinstance(count, numbers.Integral) or count < 1:
                raise SchemaError(f"{key}: expected an integer >= 1, got {show(count)}.")
            if int(count) > MOST_ROWS:
                raise SchemaError(f"{key}: expected at most {MOST_ROWS}, got {show(count)}.")
            self._set(key, int(count))
        if (self.unit is None) != (self.max_rows_per_unit is None):
            given = "unit" if self.max_rows_per_unit is None else "max_rows_per_unit"
            raise SchemaError(f"unit: expected unit and max_rows_per_unit together, got {given} alone.")

    def _check_roles(self) -> None:
        if self.target is not None and self.target not in self.names:
            hint = did_you_mean(self.target, self.names)
            raise SchemaError(f"target: expected the name of a column, got {show(self.target)}.{hint}")
        if self.order and sorted(self.order) != sorted(self.names):
            strays = [f"{name!r} is no column" for name in self.order if name not in self.names]
            strays += [f"{name!r} is left out" for name in self.names if name not in self.order]
            raise SchemaError(f"order: expected every column once, but {strays[0]}.")
        for where, names in (("columns", self.names), ("ignore", self.ignore)):
            if self.unit in names:
                raise SchemaError(
                    f"unit: expected an identifier outside {where}, got {self.unit!r}. Remove it from {where}."
                )
        if self.unit is None and any(column.per_unit for column in self.columns):
            raise SchemaError("per_unit: expected a unit in the schema; without one, every row is a unit.")
        for name in self.ignore:
            if name in self.names:
                raise SchemaError(f"ignore: expected names that are not columns, got {name!r}.")

    def _check_missing(self) -> None:
        for spelling in self.missing:
            if not spelling.strip():
                raise SchemaError("missing: expected visible text; the empty cell is always missing.")
            for column in self.columns:
                if spelling in (*(column.values or ()), column.other):
                    raise SchemaError(f"missing: {spelling!r} is also a category of column {column.name!r}.")

    def _read_constraints(self) -> None:
        written: object = self.constraints
        if not is_list(written):
            raise SchemaError(f"constraints: expected a list of rules, got {show(written)}.")
        found = []
        for place, each in enumerate(written, 1):
            try:
                found.append(read(each, self.by_name))
            except (ConstraintError, SchemaError) as error:
                raise SchemaError(f"constraint {place}: {error}") from None
        try:
            check_together(found, self.by_name)
        except ConstraintError as error:
            raise SchemaError(f"constraints: {error}") from None
        self._set("constraints", tuple(found))

    def _set(self, key: str, value: object) -> None:
        """Replaces a field by its canonical form while the schema is made; later it is frozen."""
        object.__setattr__(self, key, value)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, as listed."""
        return tuple(column.name for column in self.columns)

    @property
    def generation_order(self) -> tuple[str, ...]:
        """The names of the columns in the order in which they are generated."""
        return self.order or self.names

    @functools.cached_property
    def by_name(self) -> Columns:
        """The columns by name; a name that is no column is refused with the reason."""
        excluded = {name: "ignored" for name in self.ignore} | ({} if self.unit is None else {self.unit: "the unit"})
        return Columns({column.name: column for column in self.columns}, excluded)

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __getitem__(self, name: str) -> Column:
        return self.by_name[name]

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        lines = [self._size(), *(f"  {column.name:{width}}  {column}" for column in self.columns)]
        if self.constraints:
            lines += ["in every synthetic row:", *(f"  {each}" for each in self.constraints)]
        if self.file != STANDARD:
            lines.append(f"as a text file: {self.file}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(column.name, str(column)) for column in self.columns]
        notes = [f"In every synthetic row: {each}." for each in self.constraints]
        return card(self._size(), ("column", "public facts"), rows, notes)

    def _size(self) -> str:
        return f"{self.name}: {len(self)} columns" + (f", about {self.rows} rows" if self.rows else "")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a schema from a TOML file.

        Raises:
            SchemaError: The file cannot be read, is not TOML, or breaks a rule.
        """
        return cls.parse(toml.read_text(path), os.fspath(path), folder=os.path.dirname(os.fspath(path)))

    @classmethod
    def of(cls, given: object) -> Self:
        """The schema that a caller means: itself, or the one in the TOML file of this path.

        Raises:
            SchemaError: It is neither; the message says what a schema is.
        """
        if isinstance(given, cls) or type(given).__name__ == "DatabaseSchema":
            return given  # pyright: ignore[reportReturnType]
        if isinstance(given, str | os.PathLike):
            return cls.read(given)
        raise SchemaError(
            f"schema: expected a us.Schema or the path of a TOML file, got {type(given).__name__}. A schema states "
            'what is publicly known about a table: us.Schema(columns=(us.Column("age", "integer", low=0, high=125),)). '
            "us.Schema.draft(table) drafts one."
        )

    @classmethod
    def parse(cls, text: str, source: str = "schema", *, folder: str = "") -> Self:
        """Reads a schema from TOML text; one with [tables.NAME] is a `DatabaseSchema`.

        Args:
            source: What error messages call it.
            folder: Where files lie that it names, such as a table of `levels`.
        """
        document = toml.parse(text, source)
        with _errors_at(source):
            if "tables" in document and "columns" not in document:
                # A database's schema is made of this class; imported by name, that is no circle of modules.
                databases = importlib.import_module("understudy.tables.database_schema")
                return databases.DatabaseSchema.from_document(document, folder=folder)
            return cls._from_document(toml.with_level_files(document, folder))

    @classmethod
    def draft(
        cls, table: Any, *, to: str | os.PathLike[str] | None = None, file: Mapping[str, Any] | None = None
    ) -> Self:
        """A draft for a path or a pandas, polars or pyarrow table, for the owner to check and complete.

        It reads the table outside any budget. Bounds and categories come from a catalogue of public knowledge by the
        names of columns, never from the cells. Kinds, formats, spellings of missing values and rules between columns
        are guessed from the cells.

        Args:
            to: A TOML file to write the draft to, with the reason of every line as a comment.
            file: Keys of `file` that you know, such as {"delimiter": ";"}; the others are found.

        Raises:
            TableError: The table cannot be read, has no rows, or has two columns of the same name.
        """
        # Drafting reads tables, and reading a table needs a schema; imported by name, that is no circle of modules.
        drafting = importlib.import_module("understudy.tables.drafting.front")
        return cls.parse(drafting.draft_text(table, to=to, file=file), "the draft")

    @classmethod
    def from_sdv(
        cls,
        metadata: Mapping[str, Any] | str | os.PathLike[str],
        *,
        nullable: Iterable[str] = (),
        max_rows_per_unit: int | None = None,
    ) -> Self:
        """A schema from the single-table metadata of SDV, a dictionary or the path of its JSON file.

        Keys, identifiers and personal details (names, addresses) are ignored; a sequence key is the unit. Metadata
        states no bounds and no categories: fill in what you know, or they are measured.

        Args:
            nullable: The columns whose cells may be missing, which the metadata does not say.
            max_rows_per_unit: How many rows of one sequence are used at most; needed if there is a sequence key.

        Raises:
            SchemaError: It is no such metadata, or describes several tables.
        """
        with _errors_at(_place(metadata)):
            document = other_metadata.sdv(metadata, nullable=nullable, max_rows_per_unit=max_rows_per_unit)
            return cls._from_document(document)

    @classmethod
    def from_domain_json(cls, domain: Mapping[str, int] | str | os.PathLike[str]) -> Self:
        """A schema from a domain as private-pgm writes it, {"column": size}: categories "0" to "size - 1".

        Raises:
            SchemaError: It is no such domain.
        """
        with _errors_at(_place(domain)):
            return cls._from_document(other_metadata.domain(domain))

    @classmethod
    def _from_document(cls, document: toml.Document) -> Self:
        return cls(**toml.fields_of(document, [field.name for field in dataclasses.fields(cls)]))

    def to_toml(self) -> str:
        """The schema as TOML; `Schema.parse` gives back an equal one."""
        document = toml.stated(self, leave_out="columns")
        if self.constraints:
            document["constraints"] = [each.written() for each in self.constraints]
        if self.file != STANDARD:
            document["file"] = self.file.stated()
        document["columns"] = {column.name: toml.stated(column, leave_out="name") for column in self.columns}
        return tomli_w.dumps(document)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the schema as TOML, whole or not at all."""
        try:
            with replacing(path) as temporary:
                temporary.write_bytes(self.to_toml().encode())
        except (OSError, ValueError) as error:
            raise SchemaError(f"{os.fspath(path)} cannot be written: {reason(error)}.") from None


def with_rules(schema: Schema, rules: Iterable[object]) -> Schema:
    """The schema with further constraints, for rows that are drawn later.

    Raises:
        ConstraintError: A rule does not fit the schema, or contradicts another.
    """
    added = list(rules) if not isinstance(rules, str) else [rules]
    if not added:
        return schema
    try:
        return dataclasses.replace(schema, constraints=(*schema.constraints, *added))
    except SchemaError as error:
        raise ConstraintError(f"rules: {error}") from None


@contextlib.contextmanager
def _errors_at(place: str) -> Iterator[None]:
    """Puts the place in front of what a schema error says."""
    try:
        yield
    except SchemaError as error:
        raise SchemaError(f"{place}, {error}") from None


def _place(source: Mapping[str, Any] | str | os.PathLike[str]) -> str:
    return "the metadata" if isinstance(source, Mapping) else os.fspath(source)


def _read_texts(key: str, values: object) -> tuple[str, ...]:
    if values is None:
        return ()
    if not is_list(values) or not all(map(is_text, values)):
        raise SchemaError(f"{key}: expected a list of texts, got {show(values)}.")
    if (twice := repeated(values)) is not None:
        raise SchemaError(f"{key}: expected distinct texts, got {twice!r} twice.")
    return tuple(values)
