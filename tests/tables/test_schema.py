"""Schemas: what they accept, what they refuse and in which words, and that TOML keeps them whole."""

import datetime
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import examples
from understudy.core.files import replacing
from understudy.tables.column import KINDS, Column
from understudy.tables.schema import Schema
from understudy.tables.values import SchemaError

PEOPLE = """
name = "people"
rows = 48000
target = "income"
order = ["income", "age", "state", "member", "joined"]
unit = "person"
max_rows_per_unit = 3
ignore = ["note"]
missing = ["?"]

[columns.age]
kind = "integer"
low = 0
high = 120
[columns.income]
kind = "continuous"
nullable = true
low = 0
atoms = [10.5, 0.0]
[columns.state]
kind = "categorical"
values = ["CA", "NY", 3, true]
other = "other"
[columns.member]
kind = "boolean"
[columns.joined]
kind = "datetime"
low = 2000-01-01
high = 2030-01-01T02:00:00+02:00
"""


def column(**fields: Any) -> Column:
    facts: dict[str, Any] = {"name": "x", "kind": "continuous"}
    return Column(**facts | fields)


def schema(**fields: Any) -> Schema:
    facts: dict[str, Any] = {"columns": (column(name="a"), column(name="b"))}
    return Schema(**facts | fields)


def test_a_schema_reads_every_field_of_the_design():
    people = Schema.parse(PEOPLE)
    assert people.names == ("age", "income", "state", "member", "joined")
    assert people.generation_order[0] == "income"
    assert (people.rows, people.target, people.unit, people.max_rows_per_unit) == (48000, "income", "person", 3)
    assert people["age"].bounds == (0.0, 120.0)
    assert people["income"].atoms == (0.0, 10.5)
    assert people["state"].labels == ("CA", "NY", "3", "true", "other")
    assert len(people) == len(list(people)) == 5


def test_instants_are_naive_utc():
    joined = Schema.parse(PEOPLE)["joined"]
    assert joined.low == datetime.datetime(2000, 1, 1)
    assert joined.high == datetime.datetime(2030, 1, 1)
    assert joined.bounds[0] == 946_684_800_000_000.0


def test_the_order_is_as_listed_unless_given():
    assert schema().generation_order == ("a", "b")


def test_other_is_a_default_only_if_the_categories_are_measured():
    assert column(kind="categorical").other == "other"
    assert column(kind="categorical", values=["u", "v"]).labels == ("u", "v")
    assert column(kind="categorical", values=["u", "v"], other="v").labels == ("u", "v")


def test_one_bound_may_stand_alone():
    assert column(low=3).bounds == (3.0, None)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "int"}, "column 'x': expected kind to be one of .*, got 'int'. Did you mean 'integer'?"),
        ({"kind": 3}, "expected kind to be one of"),
        ({"name": 3}, "expected name to be text, got 3"),
        ({"name": "\ud800"}, "expected name to be text"),
        ({"nullable": 1}, "expected nullable to be true or false, got 1"),
        ({"low": 90, "high": 17}, "column 'x': expected low < high, got low = 90.0, high = 17.0."),
        ({"kind": "integer", "low": 90, "high": 17}, "expected low < high, got low = 90, high = 17."),
        ({"low": 1, "high": 1}, "expected low < high"),
        ({"low": "1"}, "expected low to be a number, got '1'"),
        ({"low": True}, "expected low to be a number, got true"),
        ({"high": float("inf")}, "expected high to be a finite number, got inf"),
        ({"high": float("nan")}, "expected high to be a finite number, got nan"),
        ({"high": 10**400}, "expected high to be a finite number"),
        ({"kind": "integer", "low": 0.5}, "expected low to be a whole number for kind 'integer', got 0.5"),
        ({"kind": "integer", "low": 2**53 + 1}, r"expected low to lie within plus or minus 2\*\*53"),
        ({"kind": "categorical", "low": 0}, "expected no low for kind 'categorical', got low = 0"),
        ({"kind": "boolean", "high": 1}, "expected no high for kind 'boolean'"),
        ({"kind": "datetime", "low": 5}, "expected low to be a date or a date and time, such as 2000-01-01, got 5"),
        ({"kind": "datetime", "low": datetime.time(1)}, "expected low to be a date"),
        ({"values": ["a"]}, "expected no values for kind 'continuous'"),
        ({"kind": "boolean", "other": "a"}, "expected no other for kind 'boolean'"),
        ({"kind": "categorical", "values": []}, "expected values to be a list of at least one category"),
        ({"kind": "categorical", "values": "ab"}, "expected values to be a list of at least one category, got 'ab'"),
        ({"kind": "categorical", "values": [0.5]}, "to be text as it is spelt in the table, got 0.5"),
        ({"kind": "categorical", "values": [" a"]}, "to be visible text without space around it, got ' a'"),
        ({"kind": "categorical", "values": ["3", 3]}, "expected values to be distinct, got '3' twice"),
        ({"kind": "categorical", "other": ""}, "expected other to be visible text"),
        ({"kind": "integer", "atoms": [0]}, "expected no atoms for kind 'integer'"),
        ({"atoms": 0.0}, "expected atoms to be a list of numbers, got 0.0"),
        ({"atoms": ["0"]}, "expected atoms to hold only numbers, each to be a number, got '0'"),
        ({"atoms": [0.0, -0.0]}, "expected atoms to be distinct, got 0.0 twice"),
        ({"low": 1, "atoms": [0.0]}, "expected atoms to lie within low and high, got 0.0"),
    ],
)
def test_a_column_refuses_each_mistake_by_name(fields, message):
    with pytest.raises(SchemaError, match=message):
        column(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"columns": ()}, "columns: expected at least one column"),
        ({"columns": (column(), column())}, "columns: expected distinct names, got 'x' twice"),
        ({"name": 3}, "expected name to be text"),
        ({"rows": 0}, "rows: expected an integer >= 1, got 0"),
        ({"rows": 1.5}, "rows: expected an integer >= 1, got 1.5"),
        ({"rows": True}, "rows: expected an integer >= 1, got true"),
        ({"target": "aa"}, "target: expected the name of a column, got 'aa'"),
        ({"order": ["a"]}, "order: expected every column once, but 'b' is left out"),
        ({"order": ["a", "b", "c"]}, "order: expected every column once, but 'c' is no column"),
        ({"order": ["a", "b", "a"]}, "order: expected distinct texts, got 'a' twice"),
        ({"order": "ab"}, "order: expected a list of texts, got 'ab'"),
        ({"unit": "id"}, "unit: expected unit and max_rows_per_unit together, got unit alone"),
        ({"max_rows_per_unit": 2}, "together, got max_rows_per_unit alone"),
        ({"unit": "id", "max_rows_per_unit": 0}, "max_rows_per_unit: expected an integer >= 1, got 0"),
        ({"unit": "id", "max_rows_per_unit": 10**400}, "max_rows_per_unit: expected at most 1000000000000, got"),
        ({"unit": "a", "max_rows_per_unit": 1}, "unit: expected an identifier outside columns, got 'a'"),
        ({"unit": "c", "max_rows_per_unit": 1, "ignore": ["c"]}, "unit: expected an identifier outside ignore"),
        ({"unit": 3, "max_rows_per_unit": 1}, "unit: expected unit to be text, got 3"),
        ({"ignore": ["a"]}, "ignore: expected names that are not columns, got 'a'"),
        ({"ignore": [3]}, "ignore: expected a list of texts"),
        ({"missing": [" "]}, "missing: expected visible text"),
    ],
)
def test_a_schema_refuses_each_mistake_by_name(fields, message):
    with pytest.raises(SchemaError, match=message):
        schema(**fields)


def test_a_category_cannot_also_mean_missing():
    with pytest.raises(SchemaError, match=r"missing: '\?' is also a category of column 'x'"):
        schema(columns=[column(kind="categorical", values=["?", "a"])], missing=["?"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rowz = 3\n[columns.a]\nkind = 'boolean'", "people.toml, top level: unknown key 'rowz'. Did you mean 'rows'?"),
        ("[columns.a]\nkind = 'boolean'\nnulable = true", "column 'a': unknown key 'nulable'. Did you mean 'nullable'"),
        ("[columns.a]\nkind = 'boolean'\nname = 'b'", "people.toml, column 'a': unknown key 'name'"),
        ("[columns.a]\nlow = 3", "people.toml, column 'a': expected a kind"),
        ("[columns.age]\nkind = 'integer'\nlow = 90\nhigh = 17", "^people.toml, column 'age': expected low < high, "),
        ("columns = 3", "people.toml, columns: expected at least one table"),
        ("", "people.toml, columns: expected at least one table"),
        ("[columns]\na = 'integer'", r"people.toml, column 'a': expected a table \[columns.a\], got 'integer'"),
        ("rows = \n", r"people.toml is not valid TOML: .*line 1"),
        ("[columns.a]\n[columns.a]\n", "people.toml is not valid TOML: .*line 2"),
        ("a = " + "[" * 100_000, "people.toml is not valid TOML"),
    ],
)
def test_an_error_in_a_file_names_the_file_and_the_place(text, message):
    with pytest.raises(SchemaError, match=message) as caught:
        Schema.parse(text, "people.toml")
    assert "\n" not in str(caught.value)


def test_asking_for_an_unknown_column_suggests_a_known_one():
    with pytest.raises(SchemaError, match=r"no column 'agee'\. Did you mean 'age'"):
        Schema.parse(PEOPLE)["agee"]


def test_a_schema_prints_one_line_per_column():
    assert str(Schema.parse(PEOPLE)).splitlines()[:3] == [
        "people: 5 columns, about 48000 rows",
        "  age     integer, 0 to 120",
        "  income  continuous, 0.0 to ?, may be missing",
    ]


def test_a_file_keeps_the_whole_schema(tmp_path):
    path = tmp_path / "people.toml"
    Schema.parse(PEOPLE).write(path)
    assert Schema.read(path) == Schema.parse(PEOPLE)
    assert os.listdir(tmp_path) == ["people.toml"]


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xef\xbb\xbf" + PEOPLE.encode())
    assert Schema.read(path) == Schema.parse(PEOPLE)


@pytest.mark.parametrize("content", [None, "folder", b"name = '\xff'"])
def test_an_unreadable_file_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "s.toml"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(SchemaError, match=r"s\.toml") as caught:
        Schema.read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["absent/s.toml", "."])
def test_an_unwritable_place_is_refused_and_left_alone(tmp_path, place):
    with pytest.raises(SchemaError, match="cannot be written"):
        schema().write(tmp_path / place)
    assert os.listdir(tmp_path) == []


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as temporary:
        temporary.write_text("half of the n")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["s.toml"]


def test_a_link_is_written_through_and_a_device_is_left_alone(tmp_path):
    (tmp_path / "link.toml").symlink_to(tmp_path / "real.toml")
    schema().write(tmp_path / "link.toml")
    assert Schema.read(tmp_path / "real.toml") == schema()
    with pytest.raises(SchemaError, match="it is not a regular file"):
        schema().write(os.devnull)


texts = st.text(max_size=8)
categories = texts.map(str.strip).filter(bool)
finite = st.floats(-1e250, 1e250).filter(lambda x: x == 0 or abs(x) > 1e-249)
whole = st.integers(-(2**53), 2**53)
BOUNDS = {"continuous": finite, "integer": whole, "datetime": st.datetimes(), "date": st.dates()}
hierarchies = st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True) | st.just("prefix") | st.just({"a": "b"})


@st.composite
def columns(draw, name):
    kind = draw(st.sampled_from(KINDS))
    fields = {"name": name, "kind": kind, "nullable": draw(st.booleans())}
    if kind in BOUNDS:
        bounds = draw(st.lists(BOUNDS[kind], min_size=2, max_size=2, unique=True).map(sorted))
        fields |= {key: bound for key, bound in zip(("low", "high"), bounds, strict=True) if draw(st.booleans())}
    if kind == "continuous" and len(fields) == 3:
        fields["atoms"] = draw(st.lists(finite, max_size=3, unique=True))
    if kind == "categorical":
        fields["values"] = draw(st.none() | st.lists(categories, min_size=1, max_size=4, unique=True))
        fields["other"] = draw(st.none() | categories)
        fields["levels"] = draw(st.none() | hierarchies) if fields["values"] is None else None
    if kind in ("date", "datetime"):
        fields["format"] = draw(st.none() | st.sampled_from(["%d.%m.%Y", "%Y%m%d", "%d %b %y %H:%M:%S"]))
    if kind == "continuous" and "low" not in fields and "high" not in fields:
        fields["decimals"] = draw(st.none() | st.integers(0, 12))
    return Column(**fields)


@st.composite
def schemas(draw):
    names = draw(st.lists(texts, min_size=1, max_size=4, unique=True))
    fresh = st.lists(texts.filter(lambda text: text not in names), max_size=3, unique=True)
    unit, *ignore = [*draw(fresh), None]
    return schema(
        columns=[draw(columns(name)) for name in names],
        name=draw(texts),
        rows=draw(st.none() | st.integers(1, 10**9)),
        target=draw(st.none() | st.sampled_from(names)),
        order=draw(st.just([]) | st.permutations(names)),
        unit=unit,
        max_rows_per_unit=None if unit is None else draw(st.integers(1, 100)),
        ignore=[name for name in ignore if name is not None],
    )


@given(schemas())
@examples(30)
def test_toml_keeps_every_schema_exactly(any_schema):
    assert Schema.parse(any_schema.to_toml()) == any_schema


def test_the_name_and_the_kind_of_a_column_may_be_positional():
    assert Column("age", "integer", low=0) == Column(name="age", kind="integer", low=0)
    with pytest.raises(TypeError):
        Column("age", "integer", True)  # pyright: ignore[reportCallIssue]
