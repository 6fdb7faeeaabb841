"""From an export with dates, codes and cents to synthetic rows that are written as the export is."""

import csv
import datetime

import pytest

import commands
import hospital


def run(*arguments):
    result = commands.run(*arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("visits")
    hospital.visits(3000).write_csv(folder / "visits.csv")
    (folder / "visits.toml").write_text(hospital.SCHEMA)
    said = run(
        "fit",
        folder / "visits.csv",
        folder / "visits.toml",
        "--epsilon",
        2,
        "--method",
        "independent",
        "-o",
        folder / "m",
    )
    (folder / "said.txt").write_text(said.stdout)
    return folder


def test_plan_says_how_many_rows_make_a_category_visible(folder):
    said = run("plan", folder / "visits.toml", "--epsilon", 1, "--rows", 20000).stdout
    assert "A category of 'postal_code', 'diagnosis' is seen if about" in said and "% of them" in said


def test_fit_announces_what_became_other(folder):
    said = (folder / "said.txt").read_text()
    assert "Column 'diagnosis' has" in said and "% of the rows became `other`" in said


def test_rows_are_written_as_they_were_read(folder):
    run("sample", folder / "m", "-n", 500, "-o", folder / "out.csv", "--seed", 1)
    with open(folder / "out.csv") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        admission, discharge = (datetime.datetime.strptime(row[key], "%d.%m.%Y") for key in ("admission", "discharge"))
        assert datetime.datetime(2015, 1, 1) <= admission <= discharge <= datetime.datetime(2025, 12, 31)
        assert len(row["cost"].partition(".")[2]) <= 2
    assert any(row["postal_code"].startswith("0") for row in rows)


def test_a_rule_may_be_given_when_rows_are_drawn(folder):
    asked = ("sample", folder / "m", "-n", 300, "--seed", 1)
    said = run(*asked, "-o", folder / "free.csv", "--rule", "emergency implies intensive")
    assert "keep the rules" in said.stderr
    with open(folder / "free.csv") as file:
        assert all(row["emergency"] == row["intensive"] for row in csv.DictReader(file))
    wrong = commands.run(*asked, "-o", folder / "x.csv", "--rule", "sex >= cost")
    assert wrong.exit_code == 1 and "rules: constraint 4" in wrong.stderr and not (folder / "x.csv").exists()
