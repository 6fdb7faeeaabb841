"""Commands on several tables: a folder is drafted, checked and judged like a file."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportIndexIssue=false, reportOptionalMemberAccess=false, reportReturnType=false, reportOptionalOperand=false

import json

import polars as pl
import pytest
from click.testing import CliRunner

import understudy as us
from understudy.cli import cli
from understudy.datasets import hospital, hospital_schema_text


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place, seed in (("real", 1), ("made", 2)):
        (tmp_path / place).mkdir()
        for name, frame in hospital(150, seed=seed).items():
            frame.write_csv(tmp_path / place / f"{name}.csv")
    (tmp_path / "hospital.toml").write_text(hospital_schema_text())
    return tmp_path


def run(*words: str, answers: str | None = None):
    return CliRunner().invoke(cli, words, prog_name="understudy", input=answers)


def test_a_folder_is_drafted_and_the_draft_can_be_checked(folder):
    result = run("schema", "draft", "real", "-o", "s.toml")
    assert result.exit_code == 0 and "at most 12 for each of patients, in the order of admission" in result.stdout
    assert us.Schema.read("s.toml").unit == "patients"
    checked = run("schema", "check", "s.toml")
    assert checked.exit_code == 0 and "prescriptions: 3 columns" in checked.stdout
    tables = json.loads(run("schema", "check", "s.toml", "--json").stdout)["tables"]
    assert tables["visits"]["foreign_key"] == "patient_id"


def test_the_questions_of_a_folder_are_asked_one_by_one(folder):
    asked = json.loads(run("schema", "draft", "real", "-o", "s.toml", "--json").stdout)["questions"]
    answers = ["7" if text.startswith("How many rows of 'visits'") else "" for text in asked]
    result = run(
        *("schema", "draft", "real", "-o", "s.toml", "--interactive", "--force", "--json"),
        answers="\n".join(answers) + "\n",
    )
    assert result.exit_code == 0 and json.loads(result.stdout)["questions"] == []
    assert us.Schema.read("s.toml")["visits"].max_per_parent == 7


def test_how_a_single_file_is_spelt_cannot_be_said_of_several(folder):
    result = run("schema", "draft", "real", "-o", "s.toml", "--delimiter", ";")
    assert result.exit_code == 1 and "--delimiter: expected one file" in result.stderr


def test_two_folders_are_judged(folder):
    result = run("evaluate", "real", "made", "hospital.toml")
    assert result.exit_code == 0 and "Verdict: " in result.stdout and "patients → visits" in result.stdout
    found = json.loads(run("evaluate", "real", "made", "hospital.toml", "--metrics", "children", "--json").stdout)
    assert found["covered_by_budget"] is False and {row["metric"] for row in found["rows"]} == {"children"}


@pytest.mark.parametrize("words", [("--metrics", "tvd2"), ("--learners", "svm"), ("--seed", "-1")])
def test_what_a_database_has_not_is_refused_before_a_table_is_read(folder, words):
    result = run("evaluate", "nowhere", "made", "hospital.toml", *words)
    assert result.exit_code == 1 and "nowhere" not in result.stderr


def test_a_folder_is_fitted_and_the_sampled_folder_has_the_same_tables_and_whole_keys(folder):
    words = ("--method", "independent", "--epsilon", "5", "--delta", "1e-6", "--ledger", "ledger.json")
    fitted = run("fit", "real", "hospital.toml", "-o", "hospital.model", *words)
    assert fitted.exit_code == 0, fitted.output
    assert "Charged to 'hospital' in ledger.json." in fitted.stdout
    drawn = run("sample", "hospital.model", "-n", "40", "-o", "synthetic", "--seed", "3", "--where", "sex=f")
    assert drawn.exit_code == 0, drawn.output
    made = {name: pl.read_csv(folder / "synthetic" / f"{name}.csv") for name in ("patients", "visits", "prescriptions")}
    assert {name: each.columns for name, each in made.items()} == {
        name: pl.read_csv(folder / "real" / f"{name}.csv").columns for name in made
    }
    assert made["patients"].height == 40 and set(made["patients"]["sex"]) == {"f"}
    assert made["visits"].join(made["patients"], on="patient_id", how="anti").is_empty()
    assert made["prescriptions"].join(made["visits"], on="visit_id", how="anti").is_empty()
    record = json.loads((folder / "synthetic" / "sample.json").read_text())
    assert record["rows"] == {name: each.height for name, each in made.items()}


def test_a_folder_with_a_slash_takes_shards_of_every_table(folder):
    fitted = run("fit", "real", "hospital.toml", "-o", "hospital.model", "--method", "independent", "--epsilon", "5")
    assert fitted.exit_code == 0, fitted.output
    words = ("sample", "hospital.model", "-n", "50", "--seed", "3", "--rows-per-shard", "20", "--processes", "1")
    drawn = run(*words, "-o", "shards/")
    assert drawn.exit_code == 0 and "50 units in 3 shards of every table written to shards/" in drawn.stdout, (
        drawn.output
    )
    assert pl.read_parquet(folder / "shards" / "patients" / "*.parquet").height == 50
    assert len(list((folder / "shards" / "prescriptions").iterdir())) == 3
    again = run(*words, "-o", "shards/", "--json")
    assert json.loads(again.stdout)["made"] == 0 and json.loads((folder / "shards.json").read_text())["units"] == 50
    refused = run(*words, "-o", "csv")
    assert refused.exit_code == 1 and "--rows-per-shard is for shards" in refused.stderr and "-o csv/" in refused.stderr


def test_a_database_is_not_written_into_a_file(folder):
    words = ("--method", "independent", "--epsilon", "5", "--delta", "1e-6")
    assert run("fit", "real", "hospital.toml", "-o", "hospital.model", *words).exit_code == 0
    result = run("sample", "hospital.model", "-n", "3", "-o", "hospital.toml")
    assert result.exit_code == 1 and "expected a folder" in result.stderr
