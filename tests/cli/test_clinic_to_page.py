"""From an export in other habits to a page, by the draft as it was written: no rule moves a margin it should not."""

import csv
import datetime

import numpy as np
import pytest

import clinic_export
import commands

pytestmark = pytest.mark.slow

PATIENTS = 9000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which the six commands have run."""
    folder = tmp_path_factory.mktemp("clinic")
    clinic_export.write(folder / "visits.csv", PATIENTS)
    model, ledger, rows = folder / "m.understudy", folder / "ledger.jsonl", folder / "rows.csv"
    page = ("-o", folder / "page.html", "--ledger", ledger, "--synthetic", rows)
    for line in (
        ("schema", "draft", folder / "visits.csv", "-o", folder / "s.toml"),
        ("plan", folder / "s.toml", "--epsilon", 1),
        ("fit", folder / "visits.csv", folder / "s.toml", "--epsilon", 1, "--ledger", ledger, "-o", model),
        ("sample", model, "-n", 20_000, "-o", rows),
        ("report", model, *page),
        ("verify", folder / "page.json", model),
    ):
        result = commands.run(*line)
        assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="module")
def rows(folder):
    """The real and the synthetic rows, as a list of dictionaries each."""
    first, *rest = csv.reader(clinic_export.lines(PATIENTS), delimiter=clinic_export.DELIMITER, quoting=csv.QUOTE_NONE)
    with open(folder / "rows.csv", encoding="utf-8") as file:
        return [dict(zip(first, row, strict=True)) for row in rest], list(csv.DictReader(file))


def days(table, name):
    return np.array([datetime.datetime.strptime(row[name], clinic_export.FORMAT).toordinal() for row in table])


def test_stays_are_as_long_as_real_ones(rows):
    real, made = (days(table, "DischargeDate") - days(table, "AdmitDate") for table in rows)
    assert made.min() >= 0
    assert abs(np.median(made) - np.median(real)) <= 1
    assert np.quantile(made, 0.95) == pytest.approx(np.quantile(real, 0.95), rel=0.25)


def test_the_rule_on_births_does_not_spread_the_admissions(rows):
    real, made = (days(table, "AdmitDate") for table in rows)
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert abs(np.quantile(made, level) - np.quantile(real, level)) < 150


def test_codes_and_cents_come_back(rows):
    made = rows[1]
    assert all(len(row["TotalCharges"].partition(".")[2]) <= 2 for row in made)
    zeros = [np.mean([row["ZIP"].startswith("0") for row in table]) for table in rows]
    assert zeros[1] == pytest.approx(zeros[0], abs=0.04)
    assert np.mean([row["PrimaryDx"] == "other" for row in made]) < 0.35
    men = [np.mean([row["Gender"] == "M" for row in table]) for table in rows]
    assert men[1] == pytest.approx(men[0], abs=0.03)
