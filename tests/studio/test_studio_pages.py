"""The pages of the studio, on a small project with a fit that is done."""

import html
import json
import re
import shlex
import shutil

import polars as pl
import pytest

from browsing import CANARY, Visitor, fitted, form_of, words, write_people
from understudy.privacy.ledger_file import LedgerFile
from understudy.studio import planning, sharing
from understudy.studio.looking import rows_of
from understudy.studio.security import POLICY, REPORT_POLICY
from understudy.synthesizers import METHODS

CHOICE = {"epsilon": "1", "delta": "1e-6", "method": "independent"}


@pytest.fixture(scope="module")
def visitor(tmp_path_factory):
    """Somebody who has opened a table, fitted it twice and looked at nothing yet."""
    folder = tmp_path_factory.mktemp("studio")
    write_people(folder / "people.csv")
    visitor = Visitor(folder)
    project = visitor.opened("people.csv")
    fitted(project)
    fitted(project, "20300102-000000-independent-2", epsilon=2.0)
    return visitor


HERE = "/p/people/fits/20300101-000000-independent-1"
OTHER = "/p/people/fits/20300102-000000-independent-2"
PAGES = ["/", "/open", "/compare", "/p/people", "/p/people/describe", "/p/people/plan", "/p/people/fit", HERE]
PAGES += [f"{HERE}/{each}" for each in ("look", "look/rows", "look/pictures", "look/network", "judge", "share")]
PAGES += [f"/compare?a={HERE[3:].replace('/fits', '')}&b={OTHER[3:].replace('/fits', '')}"]


@pytest.fixture(scope="module")
def pages(visitor):
    """Every page, asked for once."""
    return {path: visitor.get(path) for path in PAGES}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_keeps_the_policy_and_shows_no_cell(pages, path):
    answer = pages[path]
    assert (answer.status_code, answer.headers["content-security-policy"]) == (200, POLICY)
    assert CANARY not in answer.text
    assert (
        re.findall(r"<style|\sstyle=|<script(?! src=\"/static/)|\son[a-z]+=|javascript:|https?://(?!127)", answer.text)
        == []
    )


@pytest.mark.parametrize("path", PAGES)
def test_every_page_has_one_heading_a_title_and_labels(pages, path):
    page = pages[path].text
    assert len(re.findall(r"<h1[ >]", page)) == 1 and "<title>" in page and 'lang="en"' in page
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    labelled = set(re.findall(r'<label[^>]* for="([^"]+)"', page))
    fields = re.findall(r"<(?:input|select|textarea)\s[^>]*>", page)
    visible = [each for each in fields if 'type="hidden"' not in each and "aria-label" not in each]
    loose = [each for each in visible if not labelled & set(re.findall(r'\sid="([^"]+)"', each))]
    assert [each for each in loose if 'type="checkbox"' not in each] == []
    assert set(re.findall(r'aria-describedby="([^"]+)"', page)) <= set(ids)


@pytest.mark.parametrize("path", PAGES)
def test_every_form_that_changes_something_carries_the_token(visitor, pages, path):
    forms = re.findall(r'<form[^>]*method="post".*?</form>', pages[path].text, re.DOTALL)
    assert all(f'name="csrf" value="{visitor.session.csrf}"' in form for form in forms)


def test_the_projects_show_fits_and_ledgers_side_by_side(visitor):
    shown = words(visitor.get("/"))
    assert "ε = 3" in shown and "2 fits" in shown and "independent, ε = 2" in shown


def test_the_plan_says_what_the_command_says(visitor):
    from understudy.pipeline import plan

    shown = words(visitor.post("/p/people/plan/preview", **CHOICE))
    made = plan(visitor.studio.projects["people"].schema, "independent", epsilon=1.0)
    assert "× 2.718" in shown and f"about {next(iter(made.rows_to_be_seen.values()))}" in shown
    assert all(f"{share:.1%}".replace("%", " %") in shown for share in made.shares().values())


def test_a_large_epsilon_is_a_red_flag_in_the_words_of_the_plan(visitor):
    shown = words(visitor.post("/p/people/plan/preview", **CHOICE | {"epsilon": "15"}))
    assert "RED FLAG, epsilon: epsilon = 15 lets an attacker's odds" in shown


@pytest.mark.parametrize(
    "choice", [{"epsilon": "-1"}, {"epsilon": "x"}, {"delta": "2"}, {"delta": "nan"}, {"method": "no"}]
)
def test_a_budget_that_is_none_is_refused_and_not_kept(visitor, choice):
    before = visitor.studio.projects["people"].choices
    assert 'role="alert"' in visitor.post("/p/people/plan/preview", **CHOICE | choice).text
    assert visitor.post("/p/people/plan", **CHOICE | choice).status_code == 422
    assert visitor.studio.projects["people"].choices == before


def test_the_curve_holds_the_promised_pair(visitor):
    shown = words(visitor.get("/p/people/plan/curve", params=CHOICE))
    assert "1e-06 1 73.1 %" in shown


def test_every_method_has_a_sentence():
    assert set(planning.METHODS) == set(METHODS)


def test_a_cap_is_set_in_the_ledger_and_a_fit_beyond_it_is_refused(tmp_path):
    write_people(tmp_path / "people.csv")
    visitor = Visitor(tmp_path)
    project = visitor.opened("people.csv")
    assert visitor.post("/p/people/plan/cap", **{"cap-epsilon": "0.5", "cap-delta": "1e-5"}).status_code == 303
    cap = LedgerFile(project.ledger).cap("people")
    assert cap is not None and (cap.epsilon, cap.delta) == (0.5, 1e-5)
    assert "has spent epsilon = 0 of its cap of 0.5" in words(visitor.post("/p/people/plan/preview", **CHOICE))
    visitor.post("/p/people/plan", **CHOICE)
    page = visitor.get("/p/people/fit").text
    assert "disabled" in page.split("Charge and fit")[0].rsplit("<button", 1)[1]
    visitor.post("/p/people/fit", **CHOICE | {"epsilon": "1.0", "delta": "1e-06", "confirmed": "yes"})
    assert not project.fits()


@pytest.mark.parametrize("changed", [{"confirmed": ""}, {"epsilon": "9.0"}, {"delta": "0.1"}, {"method": "aim"}])
def test_nothing_is_charged_without_the_confirmation_of_this_very_budget(tmp_path, changed):
    write_people(tmp_path / "people.csv")
    visitor = Visitor(tmp_path)
    project = visitor.opened("people.csv")
    visitor.post("/p/people/plan", **CHOICE)
    sent = {"epsilon": "1.0", "delta": "1e-06", "method": "independent", "confirmed": "yes"} | changed
    answer = visitor.post("/p/people/fit", **sent)
    assert answer.status_code == 422 and "Nothing was charged" in words(answer)
    assert not project.fits() and not project.ledger.exists()


def test_the_report_is_framed_with_its_own_style_and_no_script(visitor):
    answer = visitor.get(f"{HERE}/look/report")
    assert answer.headers["content-security-policy"] == REPORT_POLICY
    assert "script-src" not in REPORT_POLICY and "sandbox" in REPORT_POLICY


def rows_shown(page: str) -> list[list[str]]:
    body = page.split("<tbody>")[1].split("</tbody>")[0]
    return [[words_of(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in body.split("<tr>")[1:]]


def words_of(cell: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", cell))


def test_rows_are_sorted_filtered_and_turned(visitor):
    frame = rows_of(visitor.studio.projects["people"].fits()[-1])
    asked = {"sort": "age", "down": "1", "column": "sex", "relation": "is", "value": "m"}
    shown = rows_shown(visitor.get(f"{HERE}/look/rows", params=asked).text)
    wanted = frame.filter(pl.col("sex") == "m").sort("age", descending=True)["age"].to_list()
    assert [int(row[0]) for row in shown] == wanted[:50]
    second = rows_shown(visitor.get(f"{HERE}/look/rows", params={"sort": "age", "page": "2"}).text)
    assert [int(row[0]) for row in second] == sorted(frame["age"].to_list())[50:100]


@pytest.mark.parametrize(
    "asked",
    [
        {"sort": "nothing", "page": "999999"},
        {"page": "-1", "down": "x"},
        {"column": "age", "relation": "least", "value": "(.*"},
        {"column": "sex", "relation": "contains", "value": "(["},
        {"column": "age", "relation": "drop table", "value": "1"},
        {"column": "income", "relation": "most", "value": "1e999"},
        {"page": "²"},
    ],
)
def test_odd_questions_about_rows_are_answered(visitor, asked):
    assert visitor.get(f"{HERE}/look/rows", params=asked).status_code == 200


def test_a_part_of_a_page_is_given_to_htmx_and_all_of_it_on_the_way_back(visitor):
    part = {"hx-request": "true"}
    assert "<html" not in visitor.get(f"{HERE}/look/rows", headers=part).text
    assert "<html" in visitor.get(f"{HERE}/look/rows", headers=part | {"hx-history-restore-request": "true"}).text


@pytest.mark.parametrize("pair", [("age", "income"), ("sex", "age"), ("sex", "sex"), ("nothing", "no")])
def test_any_two_columns_are_drawn_against_each_other(visitor, pair):
    page = visitor.get(f"{HERE}/look/pictures", params={"x": pair[0], "y": pair[1]}).text
    assert page.count('class="point"') == 120


def test_the_example_comes_described(tmp_path):
    from understudy.datasets import example_schema
    from understudy.tables.schema import Schema

    visitor = Visitor(tmp_path)
    assert visitor.post("/open/example").headers["location"] == "/p/example/describe"
    project = visitor.studio.projects["example"]
    assert Schema.read(project.schema) == example_schema()
    assert visitor.get("/p/example/describe").status_code == 200
    assert visitor.post("/open/example").headers["location"] == "/p/example-2/describe"


def test_a_table_that_is_open_twice_is_said_to_add_up(visitor):
    project = visitor.opened("people.csv")
    try:
        for page in ("plan", "fit"):
            assert "people (ε = 3 spent)" in words(visitor.get(f"/p/{project.name}/{page}"))
            assert "adds up" not in words(visitor.get(f"/p/people/{page}"))
    finally:
        shutil.rmtree(project.folder)


def test_two_fits_are_compared(visitor):
    page = visitor.get(PAGES[-1])
    assert "ε = 1, δ = 1e-06 ε = 2, δ = 1e-06" in words(page) and page.text.count('<figure class="card">') == 6


def test_files_are_downloaded_as_they_are(visitor):
    folder = visitor.studio.projects["people"].fits()[-1].folder
    for name in ("rows.csv", "rows.parquet", "model.understudy", "report.html", "report.json", "schema.toml"):
        answer = visitor.get(f"{HERE}/share/{name}")
        assert answer.content == (folder / name).read_bytes()
        assert answer.headers["content-disposition"] == f'attachment; filename="people-{name}"'


def test_downloads_are_the_files_of_the_list_and_no_links(visitor, tmp_path):
    for name in ("request.json", "outcome.json", "..%2f..%2fledger.jsonl", "%2e%2e", "rows.csv.json", "nothing.csv"):
        assert visitor.get(f"{OTHER}/share/{name}").status_code == 404
    rows = visitor.studio.projects["people"].fits()[0].folder / "rows.csv"
    rows.rename(tmp_path / "kept.csv")
    rows.symlink_to(tmp_path / "kept.csv")
    assert visitor.get(f"{OTHER}/share/rows.csv").status_code == 404
    rows.unlink()
    (tmp_path / "kept.csv").rename(rows)


def test_the_commands_of_the_share_page_do_the_same(visitor, monkeypatch):
    from click.testing import CliRunner

    from understudy.cli import cli

    project = visitor.studio.projects["people"]
    lines = sharing.commands(project, project.fits()[-1])
    monkeypatch.chdir(shlex.split(lines[0])[1])
    for line in lines[1:4]:
        assert CliRunner().invoke(cli, shlex.split(line, comments=True)[1:]).exit_code == 0, line
    again = shlex.split(lines[5].replace("rows.csv", "again.csv"))
    assert CliRunner().invoke(cli, again[1:]).exit_code == 0
    assert (project.fits()[-1].folder / "again.csv").read_bytes() == visitor.get(f"{HERE}/share/rows.csv").content


@pytest.mark.parametrize("rows", ["0", "-5", "1000001", "x", "1e3", "", "٣"])
def test_no_more_rows_are_drawn_than_allowed(visitor, rows):
    assert visitor.post(f"{HERE}/share", rows=rows).status_code == 422
    assert not (visitor.studio.projects["people"].fits()[-1].folder / "draw").exists()


def test_judging_says_that_no_budget_covers_it(visitor):
    from understudy.evaluation.evaluate import NOT_COVERED

    assert NOT_COVERED in words(visitor.get(f"{HERE}/judge"))


def test_a_fit_that_is_not_done_has_no_pages(visitor):
    folder = visitor.studio.projects["people"].folder / "fits" / "20200101-000000-aim-1"
    folder.mkdir()
    (folder / "request.json").write_text(json.dumps({"method": "aim", "epsilon": 1.0, "delta": 1e-6, "known": []}))
    here = f"/p/people/fits/{folder.name}"
    try:
        assert "ended before it was done" in words(visitor.get(here))
        assert {visitor.get(f"{here}/{each}").status_code for each in ("look", "judge", "share")} == {404}
    finally:
        assert visitor.post("/p/people/forget", fit=folder.name).status_code == 303
    assert not folder.exists()


def test_a_fit_that_is_done_cannot_be_removed(visitor):
    assert visitor.post("/p/people/forget", fit=HERE.rsplit("/", 1)[1]).status_code == 422
    assert visitor.get(HERE).status_code == 200


def test_a_target_and_public_rows_are_kept(visitor):
    form = form_of(visitor.get("/p/people/describe").text) | {"target": "income", "rows": "240"}
    visitor.post("/p/people/describe", **form)
    shown = words(visitor.post("/p/people/plan/preview", **CHOICE))
    assert "for 240 rows" in shown
