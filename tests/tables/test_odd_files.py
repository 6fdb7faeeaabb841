"""Odd files: each is refused in one line that shows no cell, and nothing is charged."""

import os

import pytest

from bad_input import SCHEMA, SECRET, SECRET_NUMBER, assert_refused
from odd_files import odd_files

FILES = odd_files()
EXTRAS = {"xlsx": "openpyxl", "sav": "pyreadstat", "dta": "pyreadstat", "sas7bdat": "pyreadstat", "xpt": "pyreadstat"}


def test_there_are_about_a_hundred():
    assert len(FILES) >= 100
    assert sum(SECRET.encode() in content for _, content, _ in FILES.values()) > 60


@pytest.mark.parametrize("what", FILES)
def test_an_odd_file_is_refused_in_one_line_and_costs_nothing(place, what):
    name, content, settings = FILES[what]
    if extra := EXTRAS.get(name.rpartition(".")[2]):
        pytest.importorskip(extra, reason="needs the extra 'files'")
    data = place.folder / name
    data.write_bytes(content)
    place.schema.write_text(SCHEMA + (f"[file]\n{settings}\n" if settings else ""))
    with place.untouched():
        result = place.fit("--ledger", place.folder / "budget.jsonl", data=data)
    assert_refused(result, "people.toml" if "people.toml" in result[2] else name)
    assert "unexpected" not in result[2] and len(result[2]) < 600
    for part in (SECRET, SECRET_NUMBER, "Ännchen", "ann,"):
        assert part not in result[2]


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.xlsx", "x.sav", "x.feather"])
def test_a_pipe_is_refused_instead_of_waited_for(place, name):
    os.mkfifo(place.folder / name)
    if extra := EXTRAS.get(name.rpartition(".")[2]):
        pytest.importorskip(extra, reason="needs the extra 'files'")
    code, _, err = place.fit(data=place.folder / name)
    assert code == 1 and "is not a regular file" in err and err.count("\n") == 1
