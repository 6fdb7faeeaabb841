"""Clinics whose keys have several columns: of public districts and wards, and of staff that is told apart by number."""

import dataclasses

import numpy as np
import polars as pl

import understudy as us

SCHEMA = """
name = "wards"
unit = "clinics"

[tables.clinics]
key = "clinic"
references = [{ columns = ["region", "district"], table = "districts" }]
columns.region = { kind = "categorical" }
columns.district = { kind = "categorical" }
columns.size = { kind = "categorical", values = ["small", "large"] }

[tables.staff]
key = ["clinic", "number"]
parent = "clinics"
foreign_key = "clinic"
max_per_parent = 5
references = [{ columns = ["clinic", "boss"], table = "staff" }]
max_depth = 1
columns.grade = { kind = "integer", low = 1, high = 3 }

[tables.cases]
parent = "clinics"
foreign_key = "clinic"
max_per_parent = 4
references = [
  { columns = ["clinic", "handler"], table = "staff" },
  { columns = ["sender", "sender_number"], table = "staff" },
  { columns = ["site", "ward"], table = "wards" },
]
columns.topic = { kind = "categorical", values = ["a", "b"] }
columns.site = { kind = "categorical", nullable = true }
columns.ward = { kind = "categorical", nullable = true }

[tables.districts]
public = true
key = ["region", "district"]

[tables.wards]
public = true
key = ["site", "ward"]
"""
DISTRICTS = [("north", "1"), ("north", "2"), ("south", "1")]
WARDS = [("a", "1"), ("a, b", "1"), ("a", "b, 1"), ("b", "2"), ("b", "3")]


def wards_schema() -> us.DatabaseSchema:
    return us.DatabaseSchema.parse(SCHEMA)


def private_schema() -> us.DatabaseSchema:
    """The private tables alone, without the columns that lead to public ones."""
    schema, tables = wards_schema(), {}
    for name in schema.private:
        table = schema[name]
        public = {column for group in table.public_groups for column in group}
        columns = tuple(column for column in table.columns if column.name not in public)
        references = {each: table.references[each] for each in table.second_keys}
        tables[name] = dataclasses.replace(table, columns=columns, references=references)
    return dataclasses.replace(schema, tables=tables)


def wards(count: int, seed: int = 0) -> dict[str, pl.DataFrame]:
    """The first of a clinic's staff is the boss of the others; one case in five is of no ward, or one that is unknown.

    The ward goes with the topic, and small clinics are in the south. Numbers start anew in every clinic.
    """
    draw = np.random.default_rng(seed)
    clinics, staff, cases = [], [], []
    for clinic in range(count):
        name, large = f"c{clinic}", bool(draw.random() < 0.6)
        clinics.append((name, *(DISTRICTS[int(draw.integers(2))] if large else DISTRICTS[2]), "sl"[large]))
        many = int(draw.integers(1, 6))
        staff += [(name, str(k), "0" if k else None, 1 + 2 * (k == 0)) for k in range(many)]
        for _ in range(int(draw.integers(0, 5))):
            handler = None if draw.random() < 0.2 else str(draw.integers(many))
            sender = (name, "0") if draw.random() < 0.5 else (f"c{draw.integers(count)}", "0")
            topic = int(draw.integers(2))
            ward = [WARDS[topic], WARDS[3 + topic], (None, "1"), ("b", "1")][
                int(draw.choice(4, p=[0.4, 0.4, 0.1, 0.1]))
            ]
            cases.append((name, handler, *sender, "ab"[topic], *ward))
    sizes = {"s": "small", "l": "large"}
    return {
        "clinics": pl.DataFrame(clinics, ["clinic", "region", "district", "size"], orient="row").with_columns(
            pl.col("size").replace(sizes)
        ),
        "staff": pl.DataFrame(staff, ["clinic", "number", "boss", "grade"], orient="row"),
        "cases": pl.DataFrame(
            cases, ["clinic", "handler", "sender", "sender_number", "topic", "site", "ward"], orient="row"
        ),
        "districts": pl.DataFrame(DISTRICTS, ["region", "district"], orient="row"),
        "wards": pl.DataFrame([*WARDS, ("c", None)], ["site", "ward"], orient="row"),
    }
