"""Schemas of databases: what is read, what follows from it, and what is refused."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportIndexIssue=false, reportOptionalMemberAccess=false, reportReturnType=false, reportOptionalOperand=false

import dataclasses

import pytest

import understudy as us
from understudy.tables.database_schema import LinkRule
from understudy.tables.table_schema import generated_keys

HOSPITAL = """
name = "hospital"
unit = "patients"
constraints = ["visits.admission >= patients.birth", "visits.admission >= previous.discharge"]

[tables.prescriptions]
parent = "visits"
foreign_key = "visit_id"
max_per_parent = 5
columns.dose = { kind = "continuous", low = 0, high = 100 }

[tables.patients]
key = "patient_id"
key_pattern = "patient-000001"
ignore = ["name"]
columns.sex = { kind = "categorical", values = ["f", "m"] }
columns.birth = { kind = "date", low = 1920-01-01, high = 2020-12-31 }

[tables.visits]
key = ["visit_id"]
parent = "patients"
foreign_key = "patient_id"
max_per_parent = 12
order = "admission"
constraints = ["discharge >= admission"]
references = { ward = "wards" }
columns.admission = { kind = "date", low = 2010-01-01, high = 2024-12-31 }
columns.discharge = { kind = "date", low = 2010-01-01, high = 2024-12-31 }
columns.ward = { kind = "categorical" }

[tables.wards]
public = true
key = "ward"
"""


def test_a_schema_with_tables_is_the_schema_of_a_database(tmp_path):
    schema = us.DatabaseSchema.parse(HOSPITAL)
    (tmp_path / "hospital.toml").write_text(HOSPITAL, encoding="utf-8")
    assert us.Schema.read(tmp_path / "hospital.toml") == schema
    assert us.Schema.parse(schema.to_toml()) == schema
    assert list(schema.tables) == ["patients", "visits", "prescriptions", "wards"]
    assert schema.private == ("patients", "visits", "prescriptions")
    assert schema.root.key == ("patient_id",)
    assert schema["visits"].schema.ignore == ("visit_id", "patient_id")
    assert [column.name for column in schema["visits"].with_keys] == [
        "admission",
        "discharge",
        "ward",
        "visit_id",
        "patient_id",
    ]


def test_the_rows_of_a_unit_follow_from_the_caps_on_the_way_to_it():
    schema = us.DatabaseSchema.parse(HOSPITAL)
    assert [schema.max_rows(name) for name in schema.private] == [1, 12, 60]
    assert schema.path("prescriptions") == ("patients", "visits", "prescriptions")


def test_a_rule_between_rows_is_read_as_one_of_the_child():
    schema = us.DatabaseSchema.parse(HOSPITAL)
    assert schema.link_rules == (
        LinkRule("visits", "admission", ">=", "birth"),
        LinkRule("visits", "admission", ">=", "discharge", previous=True),
    )
    mirrored = dataclasses.replace(schema, constraints=("patients.birth <= visits.admission",))
    assert mirrored.link_rules == schema.link_rules[:1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('unit = "patients"', 'unit = "visits"', "unit: expected a private table without a parent"),
        ('unit = "patients"', 'unit = "patient"', "unit: expected the name of a table, got 'patient'"),
        ('unit = "patients"\n', "", "unit: expected the table whose rows are protected"),
        ('parent = "visits"', 'parent = "visit"', "table 'prescriptions': expected parent to be a table"),
        ('parent = "visits"\n', "", "expected parent, foreign_key and max_per_parent together"),
        ("max_per_parent = 5\n", "", "table 'prescriptions': expected parent, foreign_key and max_per_parent together"),
        ("max_per_parent = 5\n", "max_per_parent = 0.5\n", "expected max_per_parent to be an integer >= 1, got 0.5"),
        ("max_per_parent = 5\n", "max_per_parent = 10000\n", "one unit could have 120000 rows"),
        ('order = "admission"', 'order = "ward"', "expected order to be a number or an instant"),
        ('order = "admission"', 'order = "admision"', "got 'admision'. Did you mean 'admission'"),
        ('parent = "patients"', 'parent = "prescriptions"', "expected foreign_key to have as many columns"),
        ('key = ["visit_id"]', 'key = ["a", "b"]', "expected foreign_key to have as many columns as the key"),
        ('ward = "wards"', 'ward = "visits"', "expected max_depth with a reference to the table itself"),
        ('ward = "wards"', 'ward = "patients"', "expected 'ward' outside the columns, since 'patients' is private"),
        ('ward = "wards"', 'desk = "wards"', "expected 'desk' among the columns, as a category without values"),
        ('ward = "wards"', 'ward = "sheds"', "expected 'ward' to name a table with a key of one column"),
        ('ward = "wards"', 'visit_id = "patients"', "expected references of other columns than keys"),
        ('{ ward = "wards" }', "[3]", "table 'visits': expected references such as { district"),
        ('{ ward = "wards" }', '[{ columns = [], table = "wards" }]', "got [] as columns"),
        ('{ ward = "wards" }', '[{ columns = "ward", table = 3 }]', "got 3 as a table"),
        ("max_per_parent = 12\n", "max_per_parent = 12\nmax_depth = 2\n", "got max_depth alone"),
        ("public = true\n", "", "table 'wards': expected a parent"),
        ("visits.admission >= patients.birth", "visits.ward >= patients.birth", "constraint 1: expected two numbers"),
        ("visits.admission >= patients.birth", "visits.admission", "constraint 1: expected a rule such as"),
        ("previous.discharge", "wards.ward", "constraint 2: expected wards.ward to be a column of the"),
        ('key_pattern = "patient-000001"', 'key_pattern = "p"', "expected key_pattern to hold digits"),
        ('"continuous", low = 0', '"continuous", lwo = 0', "table 'prescriptions', column 'dose': unknown key 'lwo'"),
        ('foreign_key = "visit_id"', 'foreign_key = "dose"', "expected foreign_key outside columns, got 'dose'"),
        ('name = "hospital"', 'name = "hospital"\ntable = 1', "top level: unknown key 'table'"),
    ],
)
def test_a_wrong_schema_is_refused_with_the_place_and_the_rule(old, new, message):
    assert old in HOSPITAL
    with pytest.raises(us.SchemaError) as refused:
        us.Schema.parse(HOSPITAL.replace(old, new, 1))
    assert message in str(refused.value)


def test_tables_that_lead_in_a_circle_are_refused():
    a = us.TableSchema(name="a", key="k", parent="b", foreign_key="f", max_per_parent=2)
    b = us.TableSchema(name="b", key="k", parent="a", foreign_key="f", max_per_parent=2)
    with pytest.raises(us.SchemaError, match="lead in a circle"):
        us.DatabaseSchema(tables=(us.TableSchema(name="root", key="k"), a, b), unit="root")
    with pytest.raises(us.SchemaError, match=r"points to itself does so by references.*\{ f = \"a\" \}"):
        us.TableSchema(name="a", key="k", parent="a", foreign_key="f", max_per_parent=2)


def test_generated_keys_count_up_the_last_digits_of_a_pattern():
    assert generated_keys("ward 7, bed 009", 3) == ["ward 7, bed 009", "ward 7, bed 010", "ward 7, bed 011"]


def test_a_column_that_is_constant_within_a_unit_needs_a_unit():
    with pytest.raises(us.SchemaError, match="per_unit: expected a unit"):
        us.Schema(columns=(us.Column("sex", "boolean", per_unit=True),))
