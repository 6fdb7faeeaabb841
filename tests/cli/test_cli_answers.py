"""What the commands answer programs, one JSON object, and what they show while they work: a bar, on a terminal."""

import json
import os
from pathlib import Path

import click
import polars as pl
import pytest

import understudy as us
from commands import run
from conftest import TINY_GRID
from understudy import datasets
from understudy.cli import cli
from understudy.privacy.ledger_file import LedgerFile


def answer(*arguments):
    """What a command with --json prints: one object on stdout, and nothing on stderr."""
    result = run(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    said = json.loads(result.stdout)
    assert isinstance(said, dict)
    return said


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table, its schema, and a model that was charged to a ledger."""
    folder = tmp_path_factory.mktemp("people")
    datasets.example(300).write_csv(folder / "people.csv")
    datasets.example_schema().write(folder / "people.toml")
    ledger = folder / "budget.jsonl"
    model = us.fit(folder / "people.csv", folder / "people.toml", "independent", epsilon=2.0, ledger=ledger)
    model.sample(200, seed=1).write_csv(folder / "synthetic.csv")
    model.save(folder / "m.understudy")
    return folder


def leaves(command: click.Command = cli, path=()):
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from leaves(inner, (*path, name))
    else:
        yield path, command


# JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in leaves()])
def test_every_command_has_json_except_a_script_and_a_page(path, command):
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert ("--json" in flags) == (path not in (("completion",), ("studio",)))


def test_a_schema_has_the_keys_of_its_file(folder, tmp_path, mixed_schema):
    said = answer("schema", "check", folder / "people.toml")
    assert said["name"] == "example" and said["columns"]["age"] == {"kind": "integer", "low": 18, "high": 100}
    mixed_schema.write(tmp_path / "mixed.toml")
    assert answer("schema", "check", tmp_path / "mixed.toml")["columns"]["joined"]["low"].startswith("2000-01-01")


def test_a_draft_names_the_kinds(folder, tmp_path):
    said = answer("schema", "draft", folder / "people.csv", "-o", tmp_path / "s.toml")
    assert said["schema"] == str(tmp_path / "s.toml") and said["columns"]["region"] == {"kind": "categorical"}
    assert set(said["columns"]) == set(us.Schema.read(said["schema"]).names)


def test_a_plan_is_that_of_the_library(folder):
    made = us.plan(folder / "people.toml", "independent", epsilon=1.0).to_json()
    assert answer("plan", folder / "people.toml", "--epsilon", 1, "--method", "independent") == made


def test_a_receipt_is_that_of_the_model(folder):
    kept = us.load(folder / "m.understudy").receipt
    assert us.Receipt.from_json(json.dumps(answer("receipt", folder / "m.understudy"))) == kept


def test_a_sample_says_where_the_rows_are_and_how_many_were_drawn(folder, tmp_path):
    options = ["-n", 20, "--seed", 3, "--where", "age=30..60", "-o", tmp_path / "out.csv"]
    said = answer("sample", folder / "m.understudy", *options)
    assert (said["rows"], said["seed"], said["output"]) == (20, 3, str(tmp_path / "out.csv"))
    assert said["acceptance"]["drawn"] >= said["acceptance"]["kept"] >= 20
    assert len(pl.read_csv(said["output"])) == 20


def test_a_ledger_has_totals_caps_and_records(folder, tmp_path):
    table = answer("ledger", "show", folder / "budget.jsonl")["tables"]["example"]
    assert table["total"] == {"epsilon": 2.0, "delta": 1e-6, "fits": 1} and table["cap"] is None
    assert table["records"] == LedgerFile(folder / "budget.jsonl").records()
    cap = {"epsilon": 3.0, "delta": 1e-5}
    assert answer("ledger", "cap", tmp_path / "b.jsonl", "people", "--epsilon", 3, "--delta", 1e-5)["cap"] == cap
    assert answer("ledger", "show", tmp_path / "b.jsonl")["tables"]["people"]["cap"] == cap


def test_an_evaluation_is_stamped(folder):
    people = folder / "people.csv"
    said = answer("evaluate", people, people, folder / "people.toml", "--metrics", "tvd1")
    assert said["covered_by_budget"] is False and "Not covered" in said["note"]
    assert said["rows"][0]["metric"] == "tvd1" and said["rows"][0]["value"] == 0.0


@pytest.mark.parametrize(
    ("given", "stamps"),
    [
        ([], []),
        (["--real", "people.csv", "--learners", "none"], ["Not covered by the budget"]),
        (["--synthetic", "synthetic.csv"], ["not known to come from this model"]),
        (
            ["--real", "people.csv", "--learners", "none", "--synthetic", "synthetic.csv"],
            ["not known to come from this model", "Not covered by the budget"],
        ),
    ],
    ids=["model", "real", "synthetic", "both"],
)
def test_a_report_says_where_it_is_and_what_the_receipt_does_not_cover(folder, tmp_path, monkeypatch, given, stamps):
    monkeypatch.chdir(folder)
    said = answer("report", "m.understudy", *given, "-o", tmp_path / "r.html")
    assert said["page"] == str(tmp_path / "r.html") and Path(said["page"]).exists() and Path(said["numbers"]).exists()
    assert said["covered_by_budget"] is not bool(stamps) and bool(said["note"]) is bool(stamps)
    assert all(stamp in said["note"] for stamp in stamps)


def test_the_versions_name_what_it_is_built_on():
    said = answer("version")
    assert said["understudy"] == us.__version__ and said["packages"]["polars"] == pl.__version__


GRID = (
    TINY_GRID
    + """\
[[tables]]
name = "distances"
title = "Distances"
scores = ["tvd1"]
"""
)


@pytest.mark.slow
def test_a_benchmark_and_its_tables_can_be_read(tmp_path):
    grid, results = tmp_path / "grid.toml", tmp_path / "results"
    grid.write_text(GRID)
    said = answer("bench", grid, "-o", results, "--processes", 1)
    assert said["results"] == str(results) and said["made"] > 0 and (said["there"], said["failed"]) == (0, {})
    assert answer("bench", grid, "-o", results) == said | {"made": 0, "there": said["made"]}
    tables = answer("bench", "table", results)
    assert tables["covered_by_budget"] is False and set(tables["tables"]) == {"distances", "cost"}
    row = next(row for row in tables["tables"]["distances"] if row["label"] == "independent")
    assert row["score"] == "tvd1" and 0 < row["mean"] < 1
    written = answer("bench", "table", results, "-o", tmp_path / "tables")["files"]
    assert written and all(os.path.exists(path) for path in written)
    assert answer("bench", "figure", results) == {"files": []}


@pytest.mark.parametrize(
    "words",
    [
        "schema draft gone.csv -o o.toml",
        "schema check gone.toml",
        "plan gone.toml --epsilon 1",
        "fit gone.csv people.toml --epsilon 1 -o o",
        "sample gone -n 1 -o o.csv",
        "receipt gone",
        "ledger show gone",
        "ledger cap gone/gone people --epsilon 1 --delta 1e-5",
        "evaluate gone.csv people.csv people.toml",
        "report gone -o o.html",
        "bench gone.toml -o o",
        "bench table gone",
        "bench figure gone",
        "demo -o people.csv",
    ],
)
def test_a_refusal_is_one_line_on_stderr_and_nothing_on_stdout(folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    result = run(*words.split(), "--json")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert result.stderr.startswith("understudy: ")


# Progress ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def terminal(monkeypatch):
    """Lets rich take anything for a terminal, or for none."""
    monkeypatch.delenv("TTY_COMPATIBLE", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    return lambda: monkeypatch.setenv("FORCE_COLOR", "1")


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
def test_an_evaluation_shows_progress_on_a_terminal_alone(folder, terminal, flags):
    people = folder / "people.csv"
    words = ["evaluate", people, people, folder / "people.toml", "--metrics", "tvd1", *flags]
    silent = run(*words)
    terminal()
    shown = run(*words)
    assert silent.stderr == "" and "comparing" in shown.stderr and shown.stdout == silent.stdout


def test_an_evaluation_says_which_learner_it_trains(folder, terminal):
    terminal()
    people = folder / "people.csv"
    result = run("evaluate", people, people, folder / "people.toml", "--metrics", "r2", "--learners", "svm", "--json")
    assert result.exit_code == 0 and "training svm" in result.stderr and json.loads(result.stdout)["rows"]


@pytest.mark.parametrize("flags", [["--json"], ["--json", "--quiet"]], ids=["shown", "quiet"])
def test_a_fit_shows_its_progress_on_a_terminal_unless_it_is_to_be_quiet(folder, tmp_path, terminal, flags):
    options = ["--epsilon", 1, "--method", "copula", "-o", tmp_path / "m"]
    words = ["fit", folder / "people.csv", folder / "people.toml", *options, *flags]
    assert run(*words).stderr == ""
    terminal()
    result = run(*words)
    assert us.Receipt.from_json(result.stdout).budget.epsilon == 1.0
    assert bool(result.stderr) is ("--quiet" not in flags)
