"""Public databases: found in the right place, refused if they are not themselves, and as their schemas say."""

import gzip
import hashlib
import os
import shutil
import tomllib
from pathlib import Path

import polars as pl
import pytest

from understudy.datasets import databases, hospital, hospital_schema, split_units
from understudy.datasets.databases import DATABASES, PublicDatabase, database_schema_text, load_database
from understudy.datasets.public import DatasetError

FOLDER = os.environ.get("UNDERSTUDY_DATA")
ROWS = {
    "baseball": {"players": 19878, "batting": 107429, "fielding": 143046},
    "cdnow": {"users": 23570, "purchases": 69659},
}


@pytest.fixture(autouse=True)
def empty_places(tmp_path, monkeypatch):
    monkeypatch.delenv("UNDERSTUDY_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("understudy.datasets.pinned.HOST", "http://127.0.0.1:1/")


@pytest.fixture
def shop(monkeypatch, tmp_path):
    """A database of one table in the folder that UNDERSTUDY_DATA names."""
    content = gzip.compress(b"id,born,cds,amt\n007,1990-02-03,3,1.5\n8,,,\n")
    sha256 = {"users": hashlib.sha256(content).hexdigest()}
    database = PublicDatabase(sha256=sha256, integers=("cds",), numbers=("amt",), dates=("born",))
    monkeypatch.setitem(DATABASES, "shop", database)
    (tmp_path / "shop_users.csv.gz").write_bytes(content)
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path))
    return tmp_path


def test_a_database_is_read_from_the_folder_with_its_types_and_its_keys_as_text(shop):
    found = load_database("shop")["users"]
    assert found["id"].to_list() == ["007", "8"]
    assert found.dtypes == [pl.String, pl.Date, pl.Int64, pl.Float64]
    assert found.row(1) == ("8", None, None, None)


def test_a_file_with_other_content_is_refused(shop):
    (shop / "shop_users.csv.gz").write_bytes(gzip.compress(b"id\n9\n"))
    with pytest.raises(DatasetError, match=r"shop_users\.csv\.gz: expected the content of shop") as caught:
        load_database("shop")
    assert "9" not in str(caught.value).split("shop_users")[1]


def test_without_folder_and_network_it_says_where_to_put_the_file(shop, monkeypatch):
    monkeypatch.delenv("UNDERSTUDY_DATA")
    with pytest.raises(DatasetError, match=r"there is no shop_users\.csv\.gz .* Put the file in one of the two\."):
        load_database("shop")


def test_a_file_in_the_cache_will_do(shop, monkeypatch):
    databases.cache_folder().mkdir(parents=True)
    shutil.move(shop / "shop_users.csv.gz", databases.cache_folder() / "shop_users.csv.gz")
    monkeypatch.delenv("UNDERSTUDY_DATA")
    assert len(load_database("shop")["users"]) == 2


def test_an_unknown_database_is_refused_with_the_nearest_name():
    with pytest.raises(DatasetError, match="Did you mean 'baseball'"):
        load_database("basebal")


def test_a_split_of_units_keeps_families_together_and_every_row_once():
    frames, schema = hospital(50, seed=0), hospital_schema()
    parts = split_units(frames, schema, 3)
    assert [len(part["patients"]) for part in parts] == [30, 20]
    for name, frame in frames.items():
        assert sum(len(part[name]) for part in parts) == len(frame)
    for part in parts:
        assert part["visits"]["patient_id"].is_in(part["patients"]["patient_id"].implode()).all()
        assert part["prescriptions"]["visit_id"].is_in(part["visits"]["visit_id"].implode()).all()
    again = split_units(frames, schema, 3)
    assert all(again[0][name].equals(parts[0][name]) for name in frames)


@pytest.mark.dataset
@pytest.mark.parametrize("name", ROWS)
def test_a_database_has_its_rows_and_its_schema_contains_all_values(name, monkeypatch):
    if not FOLDER or not Path(FOLDER, f"{name}_{next(iter(ROWS[name]))}.csv.gz").is_file():
        pytest.skip("UNDERSTUDY_DATA names no folder with the database")
    monkeypatch.setenv("UNDERSTUDY_DATA", FOLDER)
    frames, schema = load_database(name), tomllib.loads(database_schema_text(name))
    assert {table: len(frame) for table, frame in frames.items()} == ROWS[name]
    assert set(schema["tables"]) == set(frames) and schema["unit"] == next(iter(frames))
    for table, facts in schema["tables"].items():
        if "parent" in facts:
            parent = schema["tables"][facts["parent"]]
            assert frames[table][facts["foreign_key"]].is_in(frames[facts["parent"]][parent["key"]].implode()).all()
        for column, known in facts.get("columns", {}).items():
            values = frames[table][column].drop_nulls()
            assert known.get("nullable", False) == (frames[table][column].null_count() > 0)
            if known["kind"] == "categorical":
                assert set(values.unique()) <= set(known["values"])
            else:
                assert values.is_between(pl.lit(known["low"]), pl.lit(known["high"])).all(), column
