"""Other people's metadata: what it says is taken over, what it does not say is left out."""

import json

import pytest

from understudy.tables.schema import Schema
from understudy.tables.values import SchemaError

SDV = {
    "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1",
    "primary_key": "guest",
    "columns": {
        "guest": {"sdtype": "id", "regex_format": "G[0-9]{4}"},
        "email": {"sdtype": "email", "pii": True},
        "note": {"sdtype": "unknown"},
        "nights": {"sdtype": "numerical", "computer_representation": "Int64"},
        "rate": {"sdtype": "numerical"},
        "room": {"sdtype": "categorical"},
        "member": {"sdtype": "boolean"},
        "arrival": {"sdtype": "datetime", "datetime_format": "%Y-%m-%d"},
    },
}


def test_sdv_metadata_becomes_a_schema_without_keys_and_personal_details():
    made = Schema.from_sdv(SDV, nullable=["rate"])
    assert {column.name: column.kind for column in made} == {
        "nights": "integer",
        "rate": "continuous",
        "room": "categorical",
        "member": "boolean",
        "arrival": "datetime",
    }
    assert made.ignore == ("guest", "email", "note")
    assert [column.name for column in made if column.nullable] == ["rate"]
    assert all(column.bounds == (None, None) and column.values is None for column in made)
    assert made.unit is None


def test_a_primary_key_is_ignored_whatever_its_type():
    made = Schema.from_sdv({**SDV, "primary_key": "nights"})
    assert "nights" in made.ignore and "nights" not in made.names


def test_a_sequence_key_is_the_unit_and_needs_a_bound():
    metadata = {**SDV, "primary_key": None, "sequence_key": "guest"}
    made = Schema.from_sdv(metadata, max_rows_per_unit=5)
    assert (made.unit, made.max_rows_per_unit, made.ignore) == ("guest", 5, ("email", "note"))
    with pytest.raises(SchemaError, match="the metadata, sequence_key: expected it together with max_rows_per_unit"):
        Schema.from_sdv(metadata)
    with pytest.raises(SchemaError, match="got max_rows_per_unit without a sequence key"):
        Schema.from_sdv(SDV, max_rows_per_unit=5)


def test_metadata_of_one_named_table_and_from_a_file_read_the_same(tmp_path):
    path = tmp_path / "metadata.json"
    path.write_text(json.dumps({"tables": {"hotel": SDV}, "relationships": []}))
    made = Schema.from_sdv(path)
    assert made.name == "hotel"
    assert made.columns == Schema.from_sdv(SDV).columns
    assert Schema.parse(made.to_toml()) == made


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, 'the metadata, columns: expected SDV metadata with "columns"'),
        ({"columns": {"a": {}}}, "column 'a': expected an sdtype, got none"),
        ({"columns": {"a": {"sdtype": "id"}}}, "expected at least one that is no key"),
        ({"tables": {"a": SDV, "b": SDV}}, "tables: expected one table"),
        ({"tables": {"a": 3}}, "table 'a': expected its metadata"),
        ("no.json", "no.json, which cannot be read: no such file"),
    ],
)
def test_what_is_no_metadata_of_one_table_is_refused(metadata, message):
    with pytest.raises(SchemaError, match=message):
        Schema.from_sdv(metadata)


def test_nullable_names_columns_that_are_kept():
    with pytest.raises(SchemaError, match="nullable: expected columns that are kept, got 'guest'"):
        Schema.from_sdv(SDV, nullable=["guest"])


def test_a_domain_becomes_categories_of_codes(tmp_path):
    path = tmp_path / "domain.json"
    path.write_text('{"age": 3, "sex": 2}')
    made = Schema.from_domain_json(path)
    assert made == Schema.from_domain_json({"age": 3, "sex": 2})
    assert made.names == ("age", "sex")
    assert made["age"].values == ("0", "1", "2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"age": 0}', "column 'age': expected a size, a whole number >= 1, got 0"),
        ('{"age": "3"}', "expected a size, a whole number >= 1, got '3'"),
        ('{"age": true}', "expected a size"),
        ("{}", "expected at least one"),
        ("[1]", "which holds no JSON object"),
        ("age", "which is not JSON"),
    ],
)
def test_what_is_no_domain_is_refused(tmp_path, content, message):
    path = tmp_path / "domain.json"
    path.write_text(content)
    with pytest.raises(SchemaError, match=f"domain.json, .*{message}"):
        Schema.from_domain_json(path)
