"""Second keys: they are looked up within a unit, and what they copy depends on that unit alone."""

# pyright: reportArgumentType=false, reportOptionalMemberAccess=false

import numpy as np
import polars as pl
import pytest

import understudy as us
from offices import offices, offices_schema
from understudy.core.randomness import Key
from understudy.tables.database_design import designs
from understudy.tables.families import flattened, read_families
from understudy.tables.second_keys import PLACES, depths, looked_up


def test_a_schema_with_second_keys_is_the_same_after_it_was_written():
    schema = offices_schema()
    assert us.DatabaseSchema.parse(schema.to_toml()) == schema
    assert schema["staff"].second_keys == ("boss",) and schema["staff"].keys == ("person", "office", "boss")
    assert designs(schema)["cases"].own.names == (
        "topic",
        "where handler leads",
        "handler.grade",
        "handler.skill",
    )


def test_a_key_leads_to_a_row_of_the_same_unit_or_to_none():
    found = looked_up(["a", "b", "a", None, "c"], np.array([0, 0, 1, 1, 1]), ["a", "b", "c"], np.array([0, 1, 1]))
    assert found.tolist() == [0, -1, -1, -2, 2]


@pytest.mark.parametrize(
    ("leads", "most", "expected"),
    [
        ([-1, 0, 1, 2], 2, [0, 1, 2, 2]),
        ([-2, -1, 0], 5, [0, 0, 1]),
        ([1, 0], 3, [3, 3]),  # a circle
        ([], 2, []),
    ],
)
def test_steps_to_a_row_that_points_nowhere_are_counted_up_to_a_limit(leads, most, expected):
    assert depths(np.array(leads, np.int64), most).tolist() == expected


def _own(tables: dict[str, pl.DataFrame]) -> dict[str, list[tuple]]:
    """What is learned of every table's rows, contexts aside, by the unit they belong to; siblings in any order."""
    schema = offices_schema()
    families, _ = read_families(tables, schema, key=Key.new(0))
    found: dict[str, list[tuple]] = {}
    made = designs(schema)
    for name, flat in flattened(families, made).items():
        rows = zip(*[flat.columns[column].tolist() for column in made[name].own.names], strict=True)
        found[name] = sorted((int(unit), str(row)) for unit, row in zip(flat.unit, rows, strict=True))
    return found


def test_no_row_changes_if_another_unit_goes_that_it_points_to():
    tables = offices(12)
    assert tables["cases"].filter((pl.col("handler") == "p0") & (pl.col("office") != "o0")).height
    whole = _own(tables)
    others = _own({name: frame.filter(pl.col("office") != "o0") for name, frame in tables.items()})
    for name, rows in others.items():
        assert [(unit + 1, row) for unit, row in rows] == [each for each in whole[name] if each[0] != 0]


def test_what_a_second_key_leads_to_is_copied_beside_the_row():
    tables, schema = offices(30), offices_schema()
    families, _ = read_families(tables, schema, key=Key.new(0))
    flat = flattened(families, designs(schema))
    cases, staff = flat["cases"].columns, flat["staff"].columns
    inside = cases["where handler leads"] == PLACES.index("inside")
    assert 0.5 < inside.mean() < 1.0
    assert (cases["handler.skill"][inside] == cases["topic"][inside]).all()
    assert (cases["handler.skill"][~inside] == -1).all() and np.isnan(cases["handler.grade"][~inside]).all()
    assert (staff["where boss leads"] == 3 - staff["grade"]).all()
