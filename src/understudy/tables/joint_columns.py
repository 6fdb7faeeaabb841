"""Joint columns: columns that hold the key of a public table together are modelled as one.

What is learned is which row of the public table a row points to: one category, whose values are the keys of that table.
The columns are written from it again, so that every synthetic key is there. The keys stand in the schema as a rule, the
combinations that the columns may have. The one rule: the joint cell of a row depends on that row's cells and on public
keys alone; a row whose cells are no key has none, as if it were missing.
"""

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.tables.column import Column
from understudy.tables.references import name_of
from understudy.tables.rules import Combination
from understudy.tables.schema import Schema

Arrays = Mapping[str, NDArray[Any]]


@dataclasses.dataclass(frozen=True, eq=False)
class JointColumn:
    """Columns that are modelled as one.

    Attributes:
        columns: Their names.
        column: What is modelled in their place.
        codes: The code of every column in every combination, (combinations, columns).
        labels: What the codes of every column stand for.
    """

    columns: tuple[str, ...]
    column: Column
    codes: NDArray[np.int64]
    labels: Mapping[str, Sequence[str]]

    def joined(self, cells: Arrays) -> NDArray[np.int64]:
        """The place of each row's combination; -1 if there is no such one."""
        names = [f"{i}" for i in range(len(self.columns))]
        known = pl.DataFrame(self.codes, names).with_row_index("place")
        rows = pl.DataFrame({i: np.asarray(cells[name], np.int64) for i, name in zip(names, self.columns, strict=True)})
        found = rows.join(known, on=names, how="left", maintain_order="left")["place"]
        return found.cast(pl.Int64).fill_null(-1).to_numpy()

    def split(self, places: NDArray[Any]) -> dict[str, NDArray[np.int64]]:
        """The columns of rows with these combinations; missing where they have none."""
        codes = np.concatenate([self.codes, np.full((1, len(self.columns)), -1)])  # -1 is the place of the last
        rows = codes[np.asarray(places, np.int64)]
        return {name: rows[:, i] for i, name in enumerate(self.columns)}


def joint_columns(schema: Schema, groups: Collection[tuple[str, ...]]) -> tuple[JointColumn, ...]:
    """The columns of a schema that are modelled as one: those groups whose values and combinations are stated."""
    rules = [each for each in schema.constraints if isinstance(each, Combination) and each.columns in groups]
    return tuple(_joint(schema, each) for each in rules if all(schema[name].values for name in each.columns))


def modelled_joints(schema: Schema, modelled: Collection[str]) -> tuple[JointColumn, ...]:
    """The joint columns among those that a model has."""
    rules = [each.columns for each in schema.constraints if isinstance(each, Combination)]
    return joint_columns(schema, [each for each in rules if name_of(each) in modelled and each[0] not in modelled])


def _joint(schema: Schema, rule: Combination) -> JointColumn:
    columns = [schema[name] for name in rule.columns]
    labels = {column.name: column.labels or () for column in columns}
    places = [{label: code for code, label in enumerate(labels[name])} for name in rule.columns]
    codes = [[place[str(cell)] for place, cell in zip(places, row, strict=True)] for row in rule.allowed]
    values = tuple(json.dumps(row, ensure_ascii=False) for row in rule.allowed)
    nullable = any(column.nullable for column in columns)
    column = Column(name=name_of(rule.columns), kind="categorical", values=values, nullable=nullable)
    return JointColumn(rule.columns, column, np.array(codes, np.int64), labels)


def with_joints(columns: Iterable[Column], joints: Sequence[JointColumn]) -> list[Column]:
    """Columns with each joint one in the place of the first that it stands for."""
    found: list[Column] = []
    for column in columns:
        joint = next((each for each in joints if column.name in each.columns), None)
        if joint is None:
            found.append(column)
        elif column.name == joint.columns[0]:
            found.append(joint.column)
    return found


def joined(cells: Arrays, joints: Sequence[JointColumn]) -> dict[str, NDArray[Any]]:
    """The joint columns of rows."""
    return {each.column.name: each.joined(cells) for each in joints}


def split(cells: Arrays, joints: Sequence[JointColumn]) -> dict[str, NDArray[Any]]:
    """Cells with the columns that joint ones stand for."""
    found = dict(cells)
    for each in joints:
        found |= each.split(cells[each.column.name])
    return found


def labels_of(joints: Sequence[JointColumn]) -> dict[str, Sequence[str]]:
    """What the codes of the columns stand for that joint ones stand for."""
    return {name: texts for each in joints for name, texts in each.labels.items()}
