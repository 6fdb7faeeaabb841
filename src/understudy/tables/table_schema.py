"""One table of a database: its columns, its keys, and the table it hangs on.

The one rule: a key is never learned. Its cells say which rows belong together; synthetic ones are generated anew.
"""

import dataclasses
import functools
import numbers
import re
from collections.abc import Mapping
from typing import Any

from understudy.core.text import did_you_mean
from understudy.tables import toml
from understudy.tables.column import Column
from understudy.tables.dialect import STANDARD, Dialect
from understudy.tables.references import Pointer, columns_of, name_of, read_references
from understudy.tables.references import stated as stated_references
from understudy.tables.rules import Combination
from understudy.tables.schema import Schema
from understudy.tables.transitions import Transitions, read_transitions
from understudy.tables.values import SchemaError, is_list, is_text, repeated, show

PREVIOUS = "previous"
"""What a rule between consecutive rows calls the earlier one: "admission >= previous.discharge"."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableSchema:
    """What is publicly known about one table of a database.

    Attributes:
        name: What the table is called; a file of it has this name.
        columns: The columns to be synthesized, keys not among them. A table may have none, if it has a key.
        key: The columns that tell its rows apart, if other tables point here; often one.
        key_pattern: What generated keys look like: the last digits of it are counted up, as in "patient-000001".
        parent: The table that its rows hang on; None for the root, which is the unit, and for a public table.
        foreign_key: The columns that hold the parent's key.
        max_per_parent: How many rows of one parent are used at most.
        order: The column by which rows of one parent are a history; None if they have no order.
        transitions: By column, for values of it, those that the next row of a history may have; after a value with none
            no row follows (transitions.py).
        public: Whether it is public and given in full, such as a list of districts. Nothing of it is learned.
        references: For columns that hold the key of another table, its name: a public table for those of `columns`; a
            private one, or this one, for columns that are not among them, which are a second key (second_keys.py). Of a
            key of several columns, a tuple of their names (references.py).
        max_depth: How many steps a table that points to itself takes at most from a row to one that points nowhere.
        rows: About how many rows there are, if that is public.
        ignore, missing, file: As in a `Schema`.
        constraints: Rules within a row, as in a `Schema`.
    """

    name: str
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] = ()
    key_pattern: str | None = None
    parent: str | None = None
    foreign_key: tuple[str, ...] = ()
    max_per_parent: int | None = None
    order: str | None = None
    transitions: Transitions = dataclasses.field(default_factory=dict)
    public: bool = False
    references: Mapping[Pointer, str] = dataclasses.field(default_factory=dict)
    max_depth: int | None = None
    rows: int | None = None
    ignore: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    constraints: tuple[Any, ...] = ()
    file: Dialect = STANDARD

    def __post_init__(self):
        if not is_text(self.name):
            raise SchemaError(f"table {show(self.name)}: expected the name to be text.")
        if not is_list(self.columns) or not all(isinstance(column, Column) for column in self.columns):
            raise self._error("expected columns, each with a name and a kind.")
        self._set("columns", tuple(self.columns))
        for key in ("key", "foreign_key", "ignore", "missing"):
            self._set(key, self._names(key, getattr(self, key)))
        self._check_link()
        self._check_names()
        self._check_order()
        self._check_transitions()
        if self.key_pattern is not None and not (is_text(self.key_pattern) and re.search(r"\d", self.key_pattern)):
            raise self._error(f'expected key_pattern to hold digits, as in "P-0001", got {show(self.key_pattern)}.')
        self._read_references()
        self._set("file", Dialect.read(self.file))
        if self.columns:
            self._set("constraints", self.schema.constraints)
        self._check_references()

    def _error(self, text: str) -> SchemaError:
        return SchemaError(f"table {self.name!r}: {text}")

    def _set(self, key: str, value: object) -> None:
        object.__setattr__(self, key, value)

    def _names(self, key: str, given: object) -> tuple[str, ...]:
        listed = (given,) if isinstance(given, str) else given
        if not is_list(listed) or not all(map(is_text, listed)) or repeated(listed) is not None:
            raise self._error(f"expected {key} to be the name of a column, or distinct names, got {show(given)}.")
        return tuple(listed)

    def _check_link(self) -> None:
        for key in ("foreign_key", "max_per_parent"):
            if bool(getattr(self, key)) != (self.parent is not None):
                given = f"{key} alone" if self.parent is None else f"no {key}"
                raise self._error(f"expected parent, foreign_key and max_per_parent together, got {given}.")
        most = self.max_per_parent
        if most is not None and (isinstance(most, bool) or not isinstance(most, numbers.Integral) or most < 1):
            raise self._error(f"expected max_per_parent to be an integer >= 1, got {show(most)}.")
        if not isinstance(self.public, bool):
            raise self._error(f"expected public to be true or false, got {show(self.public)}.")
        if self.public and (self.parent is not None or not self.key):
            raise self._error("expected a public table to have a key and no parent.")
        if self.parent == self.name:
            raise self._error(
                "expected another table as its parent. A table that points to itself does so by references and "
                f"max_depth: references = {{ {self.foreign_key[0] if self.foreign_key else 'column'} = "
                f'"{self.name}" }}.'
            )

    def _read_references(self) -> None:
        try:
            self._set("references", read_references(self.references))
        except SchemaError as error:
            raise self._error(str(error)) from None

    def _check_references(self) -> None:
        for pointer in self.references:
            self._check_pointer(columns_of(pointer), show(name_of(pointer)))
        to_itself, most = self.name in self.references.values(), self.max_depth
        if to_itself != (most is not None):
            given = "no max_depth" if to_itself else "max_depth alone"
            raise self._error(f"expected max_depth with a reference to the table itself, got {given}.")
        if most is not None and (isinstance(most, bool) or not isinstance(most, numbers.Integral) or most < 1):
            raise self._error(f"expected max_depth to be an integer >= 1, got {show(most)}.")

    def _check_pointer(self, names: tuple[str, ...], shown: str) -> None:
        columns, keys = [each for each in self.columns if each.name in names], {*self.key, *self.foreign_key}
        if columns and len(columns) < len(names):
            raise self._error(
                f"expected all columns of a reference among the columns or none of them, got {shown} with "
                f"{columns[0].name!r} among them."
            )
        listed = any(isinstance(each, Combination) and each.columns == names for each in self.constraints)
        if any(each.kind != "categorical" or (each.values is not None and not listed) for each in columns):
            raise self._error(f"expected references of categorical columns without values, got {shown}.")
        if len({each.nullable for each in columns}) > 1:
            raise self._error(f"expected all columns of a reference to be nullable or none of them, got {shown}.")
        if {*names} <= keys or {*names} & {*self.ignore}:
            raise self._error(f"expected references of other columns than keys and ignored ones, got {shown}.")

    def _check_names(self) -> None:
        names = [column.name for column in self.columns]
        if (twice := repeated(names)) is not None:
            raise self._error(f"expected distinct columns, got {twice!r} twice.")
        for key in ("key", "foreign_key"):
            for name in getattr(self, key):
                if name in names or name in self.ignore:
                    where = "columns" if name in names else "ignore"
                    raise self._error(f"expected {key} outside {where}, got {name!r}. Keys are generated, not learned.")
        if not self.columns and not self.key and not self.foreign_key:
            raise self._error("expected at least one column or a key.")

    def _check_order(self) -> None:
        if self.order is None:
            return
        column = next((each for each in self.columns if each.name == self.order), None)
        if self.parent is None:
            raise self._error("expected no order without a parent: it is an order of the rows of one parent.")
        if column is None:
            hint = did_you_mean(self.order, [each.name for each in self.columns])
            raise self._error(f"expected order to be the name of a column, got {show(self.order)}.{hint}")
        if not column.is_numeric or column.nullable:
            raise self._error(f"expected order to be a number or an instant that is never missing, got {column}.")

    def _check_transitions(self) -> None:
        if self.transitions and self.order is None:
            raise self._error("expected transitions with an order: they are of consecutive rows of a history.")
        try:
            found = read_transitions(self.transitions, self.columns, int(self.max_per_parent or 1))
        except SchemaError as error:
            raise SchemaError(f"table {self.name!r}, {error}") from None
        self._set("transitions", found)

    @functools.cached_property
    def schema(self) -> Schema:
        """The columns as a schema of their own, with the constraints within a row; the keys are ignored.

        Raises:
            SchemaError: It has no columns.
        """
        own = {key: getattr(self, key) for key in ("rows", "missing", "constraints", "file")}
        keys = [name for name in self.keys if name not in self.ignore]
        try:
            return Schema(columns=self.columns, name=self.name, ignore=(*self.ignore, *keys), **own)
        except SchemaError as error:
            raise self._error(str(error)) from None

    @functools.cached_property
    def with_keys(self) -> Schema:
        """The schema by which the table is read: its columns, and its keys as categories that may be missing."""
        keys = [Column(name=name, kind="categorical", nullable=True) for name in self.keys]
        return Schema(
            columns=(*self.columns, *keys), name=self.name, ignore=self.ignore, missing=self.missing, file=self.file
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of key, foreign key and second keys, each once."""
        seconds = [name for pointer in self.second_keys for name in columns_of(pointer)]
        return tuple(dict.fromkeys((*self.key, *self.foreign_key, *seconds)))

    @property
    def second_keys(self) -> tuple[Pointer, ...]:
        """The columns that hold the key of a private table that is not the parent, or of this one."""
        names = {column.name for column in self.columns}
        return tuple(pointer for pointer in self.references if columns_of(pointer)[0] not in names)

    @property
    def public_groups(self) -> tuple[tuple[str, ...], ...]:
        """The columns that hold a public table's key of several columns, of each such reference."""
        return tuple(each for each in self.references if isinstance(each, tuple) and each not in self.second_keys)

    def transition_rule(self, column: str) -> str:
        """What a page or a message calls the transitions of a column."""
        return f"{self.name}.{column} follows previous.{column}"

    def __getitem__(self, name: str) -> Column:
        return self.schema[name]

    def stated(self) -> dict[str, Any]:
        """The table as TOML writes it."""
        found = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("name", "columns", "constraints", "file", "references", "transitions")
            and getattr(self, field.name) != field.default
        }
        found = {key: list(value) if isinstance(value, tuple) else value for key, value in found.items()}
        for key in ("key", "foreign_key"):
            if len(found.get(key, ())) == 1:
                [found[key]] = found[key]
        if self.references:
            found["references"] = stated_references(self.references)
        if self.transitions:
            found["transitions"] = {
                column: {value: list(after) for value, after in allowed.items()}
                for column, allowed in self.transitions.items()
            }
        if self.constraints:
            found["constraints"] = [each.written() for each in self.schema.constraints]
        if self.file != STANDARD:
            found["file"] = self.file.stated()
        if self.columns:
            found["columns"] = {column.name: toml.stated(column, leave_out="name") for column in self.columns}
        return found

    @classmethod
    def from_document(cls, name: str, document: Mapping[str, Any]) -> "TableSchema":
        """A table from its part of a TOML document.

        Raises:
            SchemaError: A key is unknown, or a column is wrong.
        """
        place = f"table {name!r}"
        if not isinstance(document, Mapping):
            raise SchemaError(f"{place}: expected a table [tables.{name}], got {show(document)}.")
        known = [field.name for field in dataclasses.fields(cls) if field.name != "name"]
        try:
            fields = toml.fields_of(document, known, may_be_empty=True)
        except SchemaError as error:
            raise SchemaError(f"{place}, {error}") from None
        return cls(name=name, **fields)


def generated_keys(pattern: str, count: int, first: int = 0) -> list[str]:
    """So many keys like the pattern: its last digits are counted up from their number, or from so many after it."""
    found = list(re.finditer(r"\d+", pattern))[-1]
    start, width = int(found.group()) + first, len(found.group())
    before, after = pattern[: found.start()], pattern[found.end() :]
    return [f"{before}{start + i:0{width}d}{after}" for i in range(count)]
