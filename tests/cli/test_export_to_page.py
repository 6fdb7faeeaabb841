"""From a messy export to a page that can be signed, in six commands, and what the synthetic copy keeps of it."""

import csv
import datetime
import json

import numpy as np
import pytest

import commands
import messy_export

pytestmark = pytest.mark.slow

DAYS = ("Aufnahmedatum", "Entlassungsdatum")


def run(*arguments):
    result = commands.run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which the six commands have run, the draft as it was written but for its name."""
    folder = tmp_path_factory.mktemp("export")
    messy_export.write(folder / "export.csv", patients=8000)
    run("schema", "draft", folder / "export.csv", "-o", folder / "s.toml")
    budget = ("--epsilon", 1, "--ledger", folder / "ledger.jsonl")
    run("plan", folder / "s.toml", "--epsilon", 1)
    run("fit", folder / "export.csv", folder / "s.toml", *budget, "-o", folder / "m.understudy")
    run("sample", folder / "m.understudy", "-n", 20_000, "-o", folder / "rows.csv")
    page = ("-o", folder / "page.html", "--ledger", folder / "ledger.jsonl", "--synthetic", folder / "rows.csv")
    run("report", folder / "m.understudy", *page)
    run("verify", folder / "page.json", folder / "m.understudy")
    return folder


def real():
    first, *rest = csv.reader(messy_export.lines(8000), delimiter=";")
    return [dict(zip(first, row, strict=True)) for row in rest]


def made(folder):
    with open(folder / "rows.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def stays(rows):
    days = [[datetime.datetime.strptime(row[name], messy_export.FORMAT) for name in DAYS] for row in rows]
    return np.array([(out - into).days for into, out in days])


def test_stays_are_as_long_as_real_ones(folder):
    found, wanted = stays(made(folder)), stays(real())
    assert found.min() >= 0
    assert abs(np.median(found) - np.median(wanted)) <= 1
    assert np.quantile(found, 0.95) == pytest.approx(np.quantile(wanted, 0.95), rel=0.25)


def test_cents_and_leading_zeros_come_back(folder):
    rows = made(folder)
    assert all(len(row["Kosten_Gesamt"].partition(".")[2]) <= 2 for row in rows)
    share = np.mean([row["PLZ"].startswith("0") for row in rows])
    assert share == pytest.approx(np.mean([row["PLZ"].startswith("0") for row in real()]), abs=0.04)


def test_most_diagnoses_are_more_than_other(folder):
    assert np.mean([row["Hauptdiagnose"] == "other" for row in made(folder)]) < 0.35


def test_nobody_is_named_and_the_page_knows_its_fit(folder):
    written = [(folder / name).read_text("utf-8") for name in ("rows.csv", "page.html", "page.json", "s.toml")]
    assert not any(canary in text for canary in messy_export.CANARIES for text in written)
    record = json.loads(written[2])
    assert record
    assert "sign" in written[1].lower()
