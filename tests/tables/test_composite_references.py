"""References whose keys have several columns: how they are spelt, what is refused, and how rows are read."""

# pyright: reportArgumentType=false, reportOptionalMemberAccess=false

import dataclasses

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.core.randomness import Key
from understudy.tables.database_design import designs
from understudy.tables.families import flattened, read_families, with_public_keys
from understudy.tables.references import read_references, stated
from wards import SCHEMA, WARDS, wards, wards_schema

WARD = '{ columns = ["site", "ward"], table = "wards" }'
HANDLER = '{ columns = ["clinic", "handler"], table = "staff" }'
BOSS = '[{ columns = ["clinic", "boss"], table = "staff" }]'
SITE = 'columns.site = { kind = "categorical", nullable = true }'


@pytest.mark.parametrize(
    "given",
    [
        {"ward": "wards", "doctor": "staff"},
        [{"columns": "ward", "table": "wards"}, {"columns": ["doctor"], "table": "staff"}],
    ],
)
def test_both_spellings_of_a_reference_are_the_same(given):
    found = read_references(given)
    assert found == {"ward": "wards", "doctor": "staff"} == stated(found)


def test_a_schema_is_the_same_after_it_was_written():
    schema = wards_schema()
    assert us.DatabaseSchema.parse(schema.to_toml()) == schema
    assert schema["cases"].second_keys == (("clinic", "handler"), ("sender", "sender_number"))
    assert schema["cases"].keys == ("clinic", "handler", "sender", "sender_number")
    assert schema["cases"].public_groups == (("site", "ward"),)
    known = with_public_keys(wards(20), schema)
    assert us.DatabaseSchema.parse(known.to_toml()) == known
    assert with_public_keys(wards(20), known) == known


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (WARD, '{ columns = ["site", "ward"], tabel = "wards" }', "table 'cases': expected references such as"),
        (WARD, '{ columns = ["site", "site"], table = "wards" }', "expected each column in one of the references"),
        (WARD, f"{WARD}, {{ columns = 'site', table = 'wards' }}", "in one of the references, got 'site' twice"),
        (WARD, '{ columns = "site", table = "wards" }', "a key of one column, got 'wards', whose key is site, ward"),
        (HANDLER, '{ columns = ["a", "b", "c"], table = "staff" }', "expected 'a, b, c' to name a table with a key of"),
        (WARD, '{ columns = ["site", "desk"], table = "wards" }', "'site, desk' with 'site' among them"),
        (WARD, '{ columns = ["desk", "bed"], table = "wards" }', "expected 'desk, bed' among the columns, as a"),
        (WARD, '{ columns = ["site", "ward"], table = "staff" }', "expected 'site, ward' outside the columns"),
        (SITE, 'columns.site = { kind = "categorical" }', "to be nullable or none of them, got 'site, ward'"),
        (SITE, 'columns.site = { kind = "integer" }', "expected references of categorical columns without values"),
        (SITE, 'columns.site = { kind = "categorical", values = ["a"] }', "categorical columns without values"),
        (BOSS, '[{ columns = ["clinic", "number"], table = "staff" }]', "expected references of other columns than"),
        (BOSS, '[{ columns = ["boss", "clinic"], table = "staff" }]', "expected columns of the key in 'boss, clinic'"),
    ],
)
def test_a_wrong_reference_is_refused_with_the_place_and_the_rule(old, new, message):
    assert SCHEMA.count(old) == 1
    with pytest.raises(us.SchemaError) as refused:
        us.DatabaseSchema.parse(SCHEMA.replace(old, new))
    assert message in str(refused.value) and "\n" not in str(refused.value)


def _flat(tables):
    schema = with_public_keys(tables, wards_schema())
    made = designs(schema)
    return flattened(read_families(tables, schema, key=Key.new(0))[0], made), made


def test_cells_that_are_a_public_key_together_are_read_as_that_key_and_others_as_missing():
    tables = wards(3)
    cells = [*WARDS, ("a", "2"), ("b", None), (None, None), ("elsewhere", "1"), ("c", None), ("a, b", "b, 1")]
    site, ward = zip(*cells, strict=True)
    one = tables["cases"].with_columns(site=pl.lit(None, pl.String), ward=pl.lit(None, pl.String))[:1]
    many = pl.concat([one] * len(cells)).with_columns(clinic=pl.lit("c0"), site=pl.Series(site), ward=pl.Series(ward))
    schema = dataclasses.replace(
        wards_schema(),
        tables={each.name: each if each.name != "cases" else _more(each) for each in wards_schema()},
    )
    schema = with_public_keys({**tables, "cases": many}, schema)
    flat = flattened(read_families({**tables, "cases": many}, schema, key=Key.new(0))[0], designs(schema))["cases"]
    found = flat.columns["site, ward"]
    assert sorted(found[found >= 0].tolist()) == list(range(len(WARDS))) and (found < 0).sum() == 6
    assert schema["cases"].constraints[0].allowed == tuple(sorted(WARDS))


def _more(table: us.TableSchema) -> us.TableSchema:
    return dataclasses.replace(table, max_per_parent=50)


def test_a_public_table_without_a_whole_key_is_refused():
    nobody = pl.DataFrame({"site": ["a", None], "ward": [None, "1"]})
    with pytest.raises(us.TableError, match=r"table 'wards': expected a row with a whole key \(site, ward\), got none"):
        with_public_keys({**wards(3), "wards": nobody}, wards_schema())


def test_a_second_key_of_several_columns_leads_to_the_row_that_has_all_of_them():
    flat, made = _flat(wards(40))
    cases = flat["cases"].columns
    assert made["cases"].own.names == (
        "topic",
        "site, ward",
        "where clinic, handler leads",
        "clinic, handler.grade",
        "where sender, sender_number leads",
        "sender, sender_number.grade",
    )
    handler, sender = cases["where clinic, handler leads"], cases["where sender, sender_number leads"]
    assert set(handler) == {0, 2} and set(sender) == {0, 1}  # inside or missing; inside or outside
    assert (cases["sender, sender_number.grade"][sender == 0] == 3).all()
    assert np.isnan(cases["clinic, handler.grade"][handler == 2]).all()
    assert (flat["staff"].columns["where clinic, boss leads"] == (flat["staff"].columns["grade"] < 3)).all()


def _own(tables):
    """What is learned of every table's rows, contexts aside, by the unit they belong to; siblings in any order."""
    flat, made = _flat(tables)
    found = {}
    for name, each in flat.items():
        rows = zip(*[each.columns[column].tolist() for column in made[name].own.names], strict=True)
        found[name] = sorted((int(unit), str(row)) for unit, row in zip(each.unit, rows, strict=True))
    return found


def test_no_row_changes_if_another_unit_goes():
    tables = wards(12)
    assert tables["cases"].filter((pl.col("sender") == "c0") & (pl.col("clinic") != "c0")).height
    whole = _own(tables)
    others = {
        name: each.filter(pl.col("clinic") != "c0") if "clinic" in each else each for name, each in tables.items()
    }
    for name, rows in _own(others).items():
        assert [(unit + 1, row) for unit, row in rows] == [each for each in whole[name] if each[0] != 0]
