"""The page about a database: keys, children and histories are drawn, and real rows are stamped and nowhere else."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import understudy as us
from understudy.cli import cli
from understudy.datasets import hospital, hospital_schema
from understudy.report.database import HISTORIES, key_graph
from understudy.report.database_drawing import keys
from understudy.report.page import ReportError
from understudy.report.record import verify

pytestmark = pytest.mark.slow  # each fits a database

REAL = hospital(150, seed=9)


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a model, the page about it, and the page about it with real rows."""
    folder = tmp_path_factory.mktemp("report")
    model = us.fit(hospital(200, seed=1), hospital_schema(), "independent", epsilon=5.0, seed=1)
    model.save(folder / "m.understudy")
    us.report(folder / "m.understudy", folder / "alone.html", rows=120)
    us.report(model, folder / "beside.html", REAL, rows=120)
    return folder


def content(place: Path, name: str) -> dict:
    return json.loads((place / f"{name}.json").read_text("utf-8"))


def test_the_page_about_the_model_alone_is_covered_and_verified(place):
    page, found = (place / "alone.html").read_text("utf-8"), content(place, "alone")
    assert found["utility"] is None and found["synthetic"]["covered_by_budget"] is True
    assert "not covered by the budget" not in page.split('id="sign"')[0].split('id="learned"')[1]
    assert found["privacy"]["promise"] in page and "one row of patients, with all that hangs on it" in page
    assert "all hashes match" in verify(place / "alone.json", place / "m.understudy")


def test_every_table_and_link_is_drawn_with_its_bound(place):
    page = (place / "alone.html").read_text("utf-8")
    graph = page.split('aria-label="The keys, drawn"')[1].split("</svg>")[0]
    assert all(f">{name}</text>" in graph for name in REAL)
    assert "≤ 12, by admission" in graph and "≤ 5" in graph and "the unit" in graph
    rows = content(place, "alone")["keys"]
    assert [(row["name"], row["most_per_unit"]) for row in rows] == [
        ("patients", 1),
        ("visits", 12),
        ("prescriptions", 60),
    ]


def test_children_per_parent_are_shares_of_the_parents(place):
    for who, name in ((["synthetic"], "alone"), (["real", "synthetic"], "beside")):
        found = content(place, name)
        shown = found["database"] if name == "alone" else found["utility"]["database"]
        visits = shown["children"][0]
        assert sorted(visits["shares"]) == who
        assert all(sum(shares) == pytest.approx(1.0) for shares in visits["shares"].values())
    counts = REAL["visits"].group_by("patient_id").len()["len"]
    none = 1 - len(counts) / len(REAL["patients"])
    assert visits["shares"]["real"][0] == pytest.approx(none)


def test_histories_are_in_order_and_as_long_as_the_schema_allows(place):
    (history,) = content(place, "beside")["utility"]["database"]["histories"]
    assert history["table"] == "visits" and history["order"] == "admission"
    for found in history["of"].values():
        assert 1 <= len(found) <= HISTORIES
        for events in found:
            assert len(events) <= 12 and (np.diff([event["time"] for event in events]) >= 0).all()
    longest = REAL["visits"].join(REAL["patients"].head(100), on="patient_id").group_by("patient_id").len()["len"].max()
    assert max(map(len, history["of"]["real"])) == longest


def test_numbers_of_real_rows_are_stamped_and_in_no_other_part(place):
    page, found = (place / "beside.html").read_text("utf-8"), content(place, "beside")
    assert found["utility"]["covered_by_budget"] is False
    assert "This page holds numbers of real rows" in page
    before = page.split('id="utility"')[0]
    assert "Real histories" not in before and "visits per row of patients" not in before
    assert "real" not in found["database"]["units"]


def test_the_page_loads_nothing_and_every_picture_has_a_description(place):
    page = (place / "beside.html").read_text("utf-8")
    assert not re.search(r"<(script|link|img|iframe)|url\(|https?://", page)
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert page.count("<svg id=") + page.count("<svg ") > 0 and page.count("<desc") >= page.count('role="img"')


def test_given_tables_are_not_known_to_come_from_the_model(place, tmp_path):
    us.report(place / "m.understudy", tmp_path / "given.html", synthetic=REAL)
    assert content(tmp_path, "given")["synthetic"]["covered_by_budget"] is False
    assert "not covered by the budget" in (tmp_path / "given.html").read_text("utf-8")


@pytest.mark.parametrize("given", [{"truth": {"a": ["b"]}}, {"learners": ["svm"]}])
def test_what_a_page_about_a_database_has_not_is_refused(place, tmp_path, given):
    with pytest.raises(ReportError, match="expected none for a database"):
        us.report(place / "m.understudy", tmp_path / "x.html", **given)


def test_the_command_writes_the_page(place, tmp_path):
    for name, frame in REAL.items():
        (tmp_path / "real").mkdir(exist_ok=True)
        frame.write_csv(tmp_path / "real" / f"{name}.csv")
    words = ["report", str(place / "m.understudy"), "--real", str(tmp_path / "real"), "-n", "50"]
    result = CliRunner().invoke(cli, [*words, "-o", str(tmp_path / "page.html"), "--json"], prog_name="understudy")
    assert result.exit_code == 0 and json.loads(result.stdout)["covered_by_budget"] is False


def test_public_tables_are_drawn_below_and_dashed():
    schema = us.DatabaseSchema.parse("""
unit = "people"
[tables.people]
key = "id"
references = { district = "districts" }
[tables.people.columns]
district = { kind = "categorical" }
[tables.districts]
public = true
key = "name"
[tables.districts.columns]
size = { kind = "integer" }
""")
    drawn = str(keys(key_graph(schema)))
    assert drawn.count('class="node wrong"') == 1 and drawn.count('class="edge wrong"') == 1
    assert "public, 1 column" in drawn
