"""The describing form: it sends the schema it was filled with, and what is wrong is said as the command says it."""

import tomllib

import polars as pl
import pytest

import commands
import messy_export
from browsing import CANARY, Visitor, form_of, words, write_people
from understudy.studio.fields import FIELDS, KINDS
from understudy.studio.forms import BY_REJECTION, TICKS, document_of, filled, schema_of
from understudy.tables import column
from understudy.tables.schema import Schema
from understudy.tables.values import SchemaError

EVERY_KIND = """
name = "all"
rows = 500
target = "paid"
unit = "person"
max_rows_per_unit = 3
ignore = ["note"]
missing = ["NA", "-999"]
constraints = [{rule = "out >= into", by = "rejection"}, "total = a + b"]
[file]
delimiter = ";"
encoding = "latin-1"
comment = "#"
[columns.a]
kind = "continuous"
low = 0.5
high = 9.5
decimals = 1
atoms = [1.0, 2.5]
nullable = true
per_unit = true
[columns.b]
kind = "continuous"
[columns.total]
kind = "continuous"
[columns.number]
kind = "integer"
low = -3
[columns.into]
kind = "date"
format = "%d.%m.%Y"
low = 2001-02-03
[columns.out]
kind = "date"
[columns.at]
kind = "datetime"
high = 2030-01-01T12:30:00
[columns.paid]
kind = "boolean"
[columns.ward]
kind = "categorical"
values = ["surgery, day", "it's", "x"]
other = "x"
[columns.code]
kind = "categorical"
levels = [1, 3]
[columns.place]
kind = "categorical"
levels = {Oslo = "Norway", Bergen = "Norway"}
"""


def sent(text: str, **changed: str) -> dict[str, str]:
    """The form that a page filled with this schema would send."""
    shown = filled(text, [], {})
    form = {key: str(shown[key]) for key in ("name", "rows", "target", "max_rows_per_unit", "missing", "constraints")}
    form |= {f"file-{key}": value for key, value in shown["file"].items() if key != "comment"}
    for each in shown["columns"]:
        for key, value in each.items():
            if key not in TICKS or value:
                form[f"c{each['place']}-{key}"] = str(value)
    return form | changed


def test_every_field_of_every_kind_survives_the_form():
    wanted = Schema.parse(EVERY_KIND)
    assert schema_of(sent(EVERY_KIND), tomllib.loads(EVERY_KIND)) == wanted


def test_the_form_knows_every_kind_and_every_key_of_a_column():
    import dataclasses

    known = {"name", "kind", *TICKS, *(field.key for field in FIELDS)}
    assert known == {field.name for field in dataclasses.fields(column.Column)}
    assert set(KINDS) == set(column.KINDS) and {kind for field in FIELDS for kind in field.kinds} <= set(KINDS)


@pytest.mark.parametrize(
    ("field", "typed", "said"),
    [
        ("c3-low", "abc", "column 'number': expected low"),
        ("c0-low", "99", "column 'a': expected low < high"),
        ("c4-format", "%Q", "column 'into': expected format"),
        ("c8-values", "x\nx", "column 'ward': expected values to be distinct"),
        ("max_rows_per_unit", "", "max_rows_per_unit"),
        ("rows", "many", "rows: expected an integer"),
        ("target", "nobody", "target: expected the name of a column"),
        ("constraints", "a >=", "constraint 1"),
        ("missing", "x", "missing: 'x' is also a category"),
        ("file-encoding", "morse", "file: expected encoding"),
        ("c3-kind", "colour", "expected kind to be one of"),
    ],
)
def test_what_is_wrong_is_said_as_the_schema_says_it(field, typed, said):
    with pytest.raises(SchemaError, match=r"^schema.toml") as raised:
        schema_of(sent(EVERY_KIND, **{field: typed}), tomllib.loads(EVERY_KIND))
    assert said in str(raised.value)


def test_the_page_says_what_the_command_says(tmp_path):
    write_people(tmp_path / "people.csv")
    visitor = Visitor(tmp_path)
    project = visitor.opened("people.csv")
    form = form_of(visitor.get("/p/people/describe").text) | {"c0-low": "90", "c0-high": "17"}
    shown = words(visitor.post("/p/people/describe/check", **form))
    wrong = project.schema.read_text().replace("low = 0", "low = 90").replace("high = 125", "high = 17")
    (project.folder / "wrong.toml").write_text(wrong)
    printed = commands.refused("schema", "check", project.folder / "wrong.toml")
    assert printed.strip().partition("wrong.toml, ")[2] in shown
    assert 'href="#c0"' in visitor.post("/p/people/describe/check", **form).text


def test_a_wrong_form_is_shown_again_as_it_was_typed_and_nothing_is_written(tmp_path):
    write_people(tmp_path / "people.csv")
    visitor = Visitor(tmp_path)
    project = visitor.opened("people.csv")
    before = project.schema.read_bytes()
    form = form_of(visitor.get("/p/people/describe").text) | {"c0-low": "ninety", "next": "plan"}
    answer = visitor.post("/p/people/describe", **form)
    assert answer.status_code == 422 and 'value="ninety"' in answer.text
    assert project.schema.read_bytes() == before


def test_a_rule_by_rejection_is_marked_and_read_back():
    base = tomllib.loads(EVERY_KIND)
    assert f"out >= into{BY_REJECTION}" in sent(EVERY_KIND)["constraints"]
    assert document_of(sent(EVERY_KIND), base)["constraints"][0] == {"rule": "out >= into", "by": "rejection"}


def tables(folder):
    """Three files as the world writes them: a clean CSV, a semicolon export in Latin-1, Parquet with missing values."""
    write_people(folder / "clean.csv")
    messy_export.write(folder / "export.csv", patients=60)
    numbers = [None if i % 5 == 0 else i / 4 for i in range(200)]
    labels = [None if i % 7 == 0 else CANARY if i == 3 else "abc"[i % 3] for i in range(200)]
    pl.DataFrame({"amount": numbers, "label": labels}).write_parquet(folder / "gaps.parquet")


@pytest.mark.parametrize("name", ["clean.csv", "export.csv", "gaps.parquet"])
def test_a_draft_that_is_saved_untouched_is_the_same_schema_and_shows_no_cell(tmp_path, name):
    tables(tmp_path)
    visitor = Visitor(tmp_path)
    project = visitor.opened(name)
    drafted, page = Schema.read(project.schema), visitor.get(f"/p/{project.name}/describe").text
    assert visitor.post(f"/p/{project.name}/describe", **form_of(page)).status_code == 303
    assert Schema.read(project.schema) == drafted
    kept = [page, (project.folder / "studio.json").read_text(), project.schema.read_text()]
    assert not [text for text in kept for cell in (CANARY, *messy_export.CANARIES) if cell in text]


def test_a_column_can_be_left_out_taken_back_and_made_the_unit(tmp_path):
    write_people(tmp_path / "people.csv")
    visitor = Visitor(tmp_path)
    project = visitor.opened("people.csv")
    form = form_of(visitor.get("/p/people/describe").text)
    visitor.post("/p/people/describe", **form | {"c1-role": "ignore"})
    assert (Schema.read(project.schema).names, Schema.read(project.schema).ignore) == (("age", "income"), ("sex",))
    visitor.post("/p/people/describe", **form | {"c1-role": "unit", "max_rows_per_unit": "2"})
    assert (Schema.read(project.schema).unit, Schema.read(project.schema).max_rows_per_unit) == ("sex", 2)
    visitor.post("/p/people/describe", **form)
    assert Schema.read(project.schema).names == ("age", "sex", "income")


def test_a_table_without_a_name_cannot_be_fitted(tmp_path):
    write_people(tmp_path / "people.csv")
    visitor = Visitor(tmp_path)
    visitor.opened("people.csv")
    visitor.post("/p/people/describe", **form_of(visitor.get("/p/people/describe").text) | {"name": " "})
    assert "The schema has no name" in words(visitor.get("/p/people/fit"))
    sent = {"epsilon": "1.0", "delta": "1e-06", "method": "prada", "confirmed": "yes"}
    assert visitor.post("/p/people/fit", **sent).headers["location"] == "/p/people/fit"
