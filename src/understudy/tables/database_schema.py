"""The schema of a database: tables that hang on each other, and whose rows are protected.

The owner writes it from knowledge of the subject, in the same TOML as that of a single table, with [tables.NAME] in
place of [columns.NAME]. The one rule: what one unit can add to each table follows from here. A unit is one row of the
table that `unit` names with everything that hangs on it; of one parent at most `max_per_parent` children are used, at
every depth, so that a unit has at most the product of these numbers in a table.
"""

import dataclasses
import functools
import math
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import tomli_w

from understudy.core.files import reason, replacing
from understudy.core.text import did_you_mean
from understudy.tables import toml
from understudy.tables.column import Column
from understudy.tables.references import Pointer, columns_of, name_of
from understudy.tables.table_schema import PREVIOUS, TableSchema
from understudy.tables.values import SchemaError, is_list, is_text, show

UNNAMED = "database"
"""The name of a schema that does not give one."""
MOST_ROWS_PER_UNIT = 100_000
"""A unit may have so many rows of one table at most."""
_AGE = re.compile(r"\s*([^=]+?)\s*=\s*years\(\s*([^,]+?)\s*,\s*([^,]+?)\s*\)\s*")
_RULE = re.compile(r"\s*([^<>=]+?)\s*(>=|<=|>|<)\s*([^<>=]+?)\s*")
_MIRRORED = {">=": "<=", "<=": ">=", ">": "<", "<": ">"}


@dataclasses.dataclass(frozen=True)
class LinkRule:
    """An inequality between a column of a table and one of its parent's row, or of the previous row of a history.

    Attributes:
        table, column: The column that is held to it.
        relation: ">=", ">", "<=" or "<".
        base: A column of the parent's row or of the previous row.
        previous: Whether it is the previous row's.
    """

    table: str
    column: str
    relation: str
    base: str
    previous: bool = False

    @property
    def strict(self) -> bool:
        return len(self.relation) == 1

    @property
    def rises(self) -> bool:
        """Whether the column lies above its base."""
        return self.relation[0] == ">"


@dataclasses.dataclass(frozen=True)
class AgeRule:
    """A column holds the whole years from a date of the parent's row to one of its own, as people count their age.

    Attributes:
        table, column: The column that is computed.
        birth: A date of the parent's row.
        at: A date of its own row.
    """

    table: str
    column: str
    birth: str
    at: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatabaseSchema:
    """What is publicly known about a database.

    Attributes:
        tables: Its tables by name, parents before their children.
        unit: The root: neighbours differ by one row of it with everything that hangs on it.
        name: What the database is called.
        constraints: Rules between a row and its parent's, "visits.admission >= patients.birth", or between consecutive
            rows of a history, "visits.admission >= previous.discharge"; or an age that follows from two dates,
            "visits.age = years(patients.birth, visits.admission)". Those within a row stand at their table.
    """

    tables: Mapping[str, TableSchema]
    unit: str
    name: str = UNNAMED
    constraints: tuple[str, ...] = ()

    def __post_init__(self):
        tables = self.tables
        if is_list(tables) and all(isinstance(each, TableSchema) for each in tables):
            tables = {each.name: each for each in tables}
        if not isinstance(tables, Mapping) or not tables or any(n != t.name for n, t in tables.items()):
            raise SchemaError("tables: expected at least one table such as [tables.patients].")
        object.__setattr__(self, "tables", dict(tables))
        if not is_text(self.name):
            raise SchemaError(f"name: expected name to be text, got {show(self.name)}.")
        self._check_unit()
        for table in self.tables.values():
            self._check_parent(table)
        for table in self.tables.values():
            self._check_references(table)
        object.__setattr__(self, "tables", {name: self.tables[name] for name in self._parents_first()})
        for name in self.private:
            if self.max_rows(name) > MOST_ROWS_PER_UNIT:
                raise SchemaError(
                    f"table {name!r}: one unit could have {self.max_rows(name)} rows in it, the product of "
                    f"max_per_parent up to the unit. Expected at most {MOST_ROWS_PER_UNIT}; lower one of them."
                )
        object.__setattr__(self, "constraints", tuple(self._check_constraints()))

    def _check_unit(self) -> None:
        if self.unit not in self.tables:
            hint = did_you_mean(self.unit, self.tables) if is_text(self.unit) else ""
            raise SchemaError(f"unit: expected the name of a table, got {show(self.unit)}.{hint}")
        root = self.tables[self.unit]
        if root.public or root.parent is not None:
            fact = "public" if root.public else f"a child of {root.parent!r}"
            raise SchemaError(f"unit: expected a private table without a parent, but {self.unit!r} is {fact}.")

    def _check_parent(self, table: TableSchema) -> None:
        place = f"table {table.name!r}"
        if table.public or table.name == self.unit:
            return
        if table.parent is None:
            raise SchemaError(
                f"{place}: expected a parent, so that its rows belong to a unit of {self.unit!r}; or public = true, if "
                "everybody may know it."
            )
        if table.parent not in self.tables:
            raise SchemaError(
                f"{place}: expected parent to be a table, got {show(table.parent)}."
                f"{did_you_mean(table.parent, self.tables)}"
            )
        parent = self.tables[table.parent]
        if parent.public:
            raise SchemaError(f"{place}: expected a private parent; a public table goes under `references`.")
        if len(parent.key) != len(table.foreign_key):
            key = ", ".join(parent.key) or "no key"
            raise SchemaError(
                f"{place}: expected foreign_key to have as many columns as the key of {parent.name!r}, which has {key}."
            )

    def _check_references(self, table: TableSchema) -> None:
        for pointer, other in table.references.items():
            name, place = name_of(pointer), f"table {table.name!r}, references"
            self._check_length(table, pointer, other)
            if table.public:
                raise SchemaError(f"{place}: expected none of a public table, got {name!r}.")
            second = pointer in table.second_keys
            if second == self.tables[other].public:
                listed = f"among the columns, as a category without values, since {other!r} is public"
                hidden = f"outside the columns, since {other!r} is private: keys are generated, not learned"
                raise SchemaError(f"{place}: expected {name!r} {listed if second else hidden}.")
            moved = [own for own, key in zip(columns_of(pointer), table.key, strict=False) if own != key]
            if other == table.name and {*moved} & {*table.key, *table.foreign_key}:
                raise SchemaError(
                    f"{place}: expected columns of the key in {name!r} at their own places, since it leads to the "
                    f"table itself, whose key is {', '.join(table.key)}."
                )

    def _check_length(self, table: TableSchema, pointer: Pointer, other: str) -> None:
        """Refuses a reference to a table whose key has another number of columns."""
        many = len(columns_of(pointer))
        key = self.tables[other].key if other in self.tables else ()
        if len(key) == many:
            return
        fact = f", whose key is {', '.join(key)}" if key else ""
        raise SchemaError(
            f"table {table.name!r}, references: expected {name_of(pointer)!r} to name a table with a key of "
            f"{'one column' if many == 1 else f'{many} columns'}, got {show(other)}{fact}."
        )

    def _parents_first(self) -> Iterator[str]:
        """The names of the tables, the unit first, each after its parent, public ones last."""
        waiting = [name for name, table in self.tables.items() if not table.public and name != self.unit]
        done = [self.unit]
        while waiting:
            ready = [name for name in waiting if self.tables[name].parent in done]
            if not ready:
                raise SchemaError(
                    f"table {waiting[0]!r}: expected its parents to lead to the unit {self.unit!r}, but they lead in a "
                    "circle."
                )
            done += ready
            waiting = [name for name in waiting if name not in ready]
        yield from done
        yield from (name for name, table in self.tables.items() if table.public)

    def _check_constraints(self) -> Iterator[str]:
        written: object = self.constraints
        if not is_list(written):
            raise SchemaError(f"constraints: expected a list of rules, got {show(written)}.")
        for place, each in enumerate(written, 1):
            try:
                self._read_rule(each)
            except SchemaError as error:
                raise SchemaError(f"constraint {place}: {error}") from None
            yield each

    def _read_rule(self, written: object) -> LinkRule | AgeRule:
        age = _AGE.fullmatch(written) if isinstance(written, str) else None
        if age is not None:
            return self._read_age(*age.groups())
        match = _RULE.fullmatch(written) if isinstance(written, str) else None
        if match is None:
            raise SchemaError(
                'expected a rule such as "visits.admission >= patients.birth" or "visits.admission >= '
                f'previous.discharge", got {show(written)}. Rules within a row stand at their table.'
            )
        left, relation, right = match.groups()
        tables = [side.partition(".")[0] for side in (left, right)]
        if tables[0] == PREVIOUS or (tables[1] in self.tables and self.tables[tables[1]].parent == tables[0]):
            left, right, relation = right, left, _MIRRORED[relation]
        table, column = self._column(left)
        other, base = right.partition(".")[0], right.partition(".")[2]
        previous = other == PREVIOUS
        if previous and table.order is None:
            raise SchemaError(f"expected the table {table.name!r} to have an order, since {right} is an earlier row's.")
        if not previous and other != table.parent:
            raise SchemaError(f"expected {right} to be a column of the parent of {table.name!r}, or previous.")
        below = table.schema[base] if previous else self._column(right)[1]
        if not (column.is_numeric and below.is_numeric) or column.is_instant != below.is_instant:
            raise SchemaError(f"expected two numbers or two instants, got {column.kind!r} and {below.kind!r}.")
        return LinkRule(table.name, column.name, relation, base, previous)

    def _read_age(self, left: str, first: str, last: str) -> AgeRule:
        (table, column), (parent, birth), (own, at) = map(self._column, (left, first, last))
        if parent.name != table.parent or own != table or not (birth.is_instant and at.is_instant):
            raise SchemaError("expected years(PARENT.DATE, TABLE.DATE) of the same table and its parent.")
        if column.kind != "integer":
            raise SchemaError(f"expected {left} to be an integer, got kind {column.kind!r}.")
        return AgeRule(table.name, column.name, birth.name, at.name)

    def _column(self, dotted: str) -> tuple[TableSchema, Column]:
        name, _, column = dotted.partition(".")
        if name not in self.tables:
            raise SchemaError(f"expected TABLE.COLUMN, got {show(dotted)}.{did_you_mean(name, self.tables)}")
        return self.tables[name], self.tables[name].schema[column]

    @functools.cached_property
    def link_rules(self) -> tuple[LinkRule, ...]:
        """The inequalities between rows, each read as one of a child's column."""
        found = map(self._read_rule, self.constraints)
        return tuple(each for each in found if isinstance(each, LinkRule))

    @functools.cached_property
    def age_rules(self) -> tuple[AgeRule, ...]:
        """The columns that are ages."""
        found = map(self._read_rule, self.constraints)
        return tuple(each for each in found if isinstance(each, AgeRule))

    @property
    def root(self) -> TableSchema:
        """The table of units."""
        return self.tables[self.unit]

    @property
    def rows(self) -> int | None:
        """About how many units there are, if that is public."""
        return self.root.rows

    @property
    def private(self) -> tuple[str, ...]:
        """The names of the tables that are learned, parents before their children."""
        return tuple(name for name, table in self.tables.items() if not table.public)

    def children(self, name: str) -> tuple[str, ...]:
        """The names of the tables that hang on one."""
        return tuple(each for each, table in self.tables.items() if table.parent == name)

    def path(self, name: str) -> tuple[str, ...]:
        """The names of the tables from the root to one, both included."""
        parent = self.tables[name].parent
        return (*(() if parent is None else self.path(parent)), name)

    def max_rows(self, name: str) -> int:
        """How many rows of one unit a table has at most: the product of `max_per_parent` from the root on."""
        return math.prod(int(self.tables[each].max_per_parent or 1) for each in self.path(name))

    def __len__(self) -> int:
        return len(self.tables)

    def __iter__(self) -> Iterator[TableSchema]:
        return iter(self.tables.values())

    def __getitem__(self, name: str) -> TableSchema:
        if name not in self.tables:
            raise SchemaError(f"the schema has no table {name!r}.{did_you_mean(name, self.tables)}")
        return self.tables[name]

    def __str__(self) -> str:
        lines = [f"{self.name}: {len(self)} tables, the unit is one row of {self.unit!r} with all that hangs on it"]
        for table in self:
            depth = "  " * len(self.path(table.name))
            link = f", at most {table.max_per_parent} for each of {table.parent}" if table.parent else ""
            order = f", in the order of {table.order}" if table.order else ""
            lines.append(f"{depth}{table.name}: {len(table.columns)} columns{link}{order}{', public' * table.public}")
        rules = [*self.constraints, *(table.transition_rule(each) for table in self for each in table.transitions)]
        lines += ["between rows:"] * bool(rules) + [f"  {each}" for each in rules]
        return "\n".join(lines)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "DatabaseSchema":
        """Reads the schema of a database from a TOML file.

        Raises:
            SchemaError: The file cannot be read, is not TOML, or breaks a rule.
        """
        return cls.parse(toml.read_text(path), os.fspath(path), folder=os.path.dirname(os.fspath(path)))

    @classmethod
    def parse(cls, text: str, source: str = "schema", *, folder: str = "") -> "DatabaseSchema":
        """Reads the schema of a database from TOML text; arguments as for `Schema.parse`."""
        try:
            return cls.from_document(toml.parse(text, source), folder=folder)
        except SchemaError as error:
            raise SchemaError(f"{source}, {error}") from None

    @classmethod
    def from_document(cls, document: toml.Document, *, folder: str = "") -> "DatabaseSchema":
        """The schema that a TOML document spells.

        Raises:
            SchemaError: It breaks a rule.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        toml.check_keys("top level", document, known)
        tables = document.get("tables")
        if not isinstance(tables, Mapping) or not tables:
            raise SchemaError("tables: expected at least one table such as [tables.patients].")
        if "unit" not in document:
            raise SchemaError('unit: expected the table whose rows are protected, such as unit = "patients".')
        made = {
            name: TableSchema.from_document(name, toml.with_level_files(each, folder) if _is_table(each) else each)
            for name, each in tables.items()
        }
        return cls(**{**document, "tables": made})

    def to_toml(self) -> str:
        """The schema as TOML; `parse` gives back an equal one."""
        document: dict[str, Any] = {"name": self.name, "unit": self.unit}
        if self.constraints:
            document["constraints"] = list(self.constraints)
        document["tables"] = {name: table.stated() for name, table in self.tables.items()}
        return tomli_w.dumps(document)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the schema as TOML, whole or not at all."""
        try:
            with replacing(path) as temporary:
                temporary.write_bytes(self.to_toml().encode())
        except (OSError, ValueError) as error:
            raise SchemaError(f"{os.fspath(path)} cannot be written: {reason(error)}.") from None


def _is_table(document: object) -> bool:
    return isinstance(document, Mapping)
