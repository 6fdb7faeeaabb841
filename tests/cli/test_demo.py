"""The demonstration: it shows the workflow, leaves its files, and overwrites nobody else's."""

import functools
import json
from pathlib import Path

import polars as pl
import pytest

import commands
import understudy as us
from understudy.cli import demo

ROWS = 300


def run(*arguments):
    return commands.run("demo", *arguments)


@pytest.fixture
def small(monkeypatch):
    """Lets the command simulate few people."""
    monkeypatch.setattr(demo, "run", functools.partial(demo.run, rows=ROWS))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "new" / "demo"


@pytest.mark.slow
def test_it_shows_the_workflow_and_leaves_its_files(folder, small):
    result = run("-o", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == sorted(demo.FILES)
    for word in ("Privacy receipt", "synthetic", "credit_score", "not covered by the budget", "understudy fit"):
        assert word in result.stdout


@pytest.mark.slow
def test_it_can_be_run_again_and_as_json_prints_to_stderr(folder, small):
    result = run("-o", folder, "--json")
    said = json.loads(result.stdout)
    assert result.exit_code == 0 and "Privacy receipt" in result.stderr
    assert us.Receipt.from_json(json.dumps(said["receipt"])).budget.epsilon == 1.0
    assert set(said["files"]) == set(demo.FILES) and all(Path(path).exists() for path in said["files"].values())
    assert len(pl.read_csv(said["files"]["synthetic.csv"])) == ROWS


@pytest.mark.slow
def test_it_ends_with_a_report_of_rows_that_the_receipt_covers(folder, small):
    if not folder.exists():
        run("-o", folder)
    shown = json.loads((folder / "report.json").read_text())
    assert shown["utility"]["real_rows"] == ROWS and shown["synthetic"]["covered_by_budget"] is True


@pytest.mark.slow
def test_it_simulates_ten_thousand_people(tmp_path):
    assert run("-o", tmp_path).exit_code == 0
    assert len(pl.read_csv(tmp_path / "people.csv")) == len(pl.read_csv(tmp_path / "synthetic.csv")) == 10_000


def test_it_overwrites_no_file_that_it_did_not_write(tmp_path):
    (tmp_path / "people.csv").write_text("mine")
    result = run("-o", tmp_path)
    assert result.exit_code == 1 and "not written by this demo" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]
    assert (tmp_path / "people.csv").read_text() == "mine"


def test_it_refuses_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "demo").write_text("mine")
    result = run("-o", tmp_path / "demo")
    assert result.exit_code == 1 and "is not a folder" in result.stderr and "give another one" in result.stderr
