"""Several tables in the studio: opened from a folder, described, planned, fitted, looked at, judged and shared."""

import contextlib
import io
import shlex
import shutil
import sqlite3
import tomllib
import zipfile

import polars as pl
import pytest

from browsing import CANARY, Visitor, fitted, form_of, words, write_clinic
from understudy.databases.model import load
from understudy.pipeline import plan
from understudy.report.page import report
from understudy.studio import sharing
from understudy.studio.database_forms import document_of, filled, schema_of
from understudy.studio.projects import write_json
from understudy.studio.work import perform
from understudy.tables.database_schema import DatabaseSchema
from understudy.tables.schema import Schema

HERE = "/p/clinic/fits/20300101-000000-mst-1"
PAGES = ["/open?in=clinic", "/p/clinic", "/p/clinic/describe", "/p/clinic/plan", "/p/clinic/fit", HERE]
PAGES += [f"{HERE}/{each}" for each in ("look", "look/rows", "look/rows?table=visits", "look/pictures", "look/network")]
PAGES += [f"{HERE}/{each}" for each in ("look/pictures?table=visits", "judge", "share", "look/report")]
PAGES += ["/", f"/compare?a={HERE[3:].replace('/fits', '')}&b={HERE[3:].replace('/fits', '')}"]


@pytest.fixture(scope="module")
def visitor(tmp_path_factory):
    """Somebody who has opened a folder of two tables and fitted them."""
    folder = tmp_path_factory.mktemp("studio")
    write_clinic(folder / "clinic")
    visitor = Visitor(folder)
    fitted(visitor.opened("clinic"), HERE.rsplit("/", 1)[1], method="mst", rows=50, epsilon=50.0)
    return visitor


@pytest.fixture(scope="module")
def pages(visitor):
    return {path: visitor.get(path) for path in PAGES}


@pytest.mark.parametrize("path", PAGES)
def test_every_page_of_several_tables_answers_and_shows_no_cell(pages, path):
    assert pages[path].status_code == 200, words(pages[path])
    assert CANARY not in pages[path].text


def test_the_form_sends_the_schema_that_it_was_filled_with(visitor):
    project = visitor.studio.projects["clinic"]
    drafted = project.document
    form = form_of(visitor.get("/p/clinic/describe").text)
    assert document_of(form, drafted) == {
        "name": "clinic",
        "unit": "patients",
        "tables": {
            "patients": {"key": ["patient_id"], "columns": drafted["tables"]["patients"]["columns"]},
            "visits": drafted["tables"]["visits"] | {"foreign_key": ["patient_id"]},
        },
    }
    assert visitor.post("/p/clinic/describe", next="plan", **form).headers["location"] == "/p/clinic/plan"
    assert Schema.read(project.schema) == DatabaseSchema.from_document(drafted)


@pytest.mark.parametrize("key", ['"ward"', '["site", "ward"]'])
def test_what_a_form_does_not_show_stays(key):
    text = """
        name = "all"
        unit = "people"
        constraints = ["stays.day >= people.born"]
        [tables.people]
        key = ["id", "part"]
        rows = 90
        [tables.people.columns.born]
        kind = "date"
        [tables.stays]
        key = ["number", "part", "id"]
        key_pattern = "S-01"
        parent = "people"
        foreign_key = ["id", "part"]
        max_per_parent = 3
        order = "day"
        references = {ward = "wards"}
        transitions.outcome = {died = []}
        missing = ["NA"]
        ignore = ["note"]
        constraints = [{rule = "until >= day", by = "rejection"}]
        file = {delimiter = ";"}
        [tables.stays.columns.day]
        kind = "date"
        low = 2020-01-01
        [tables.stays.columns.until]
        kind = "date"
        [tables.stays.columns.ward]
        kind = "categorical"
        [tables.stays.columns.site]
        kind = "categorical"
        [tables.stays.columns.outcome]
        kind = "categorical"
        values = ["home", "died"]
        [tables.wards]
        key = "ward"
        public = true
    """
    several = f'[{{columns = {key}, table = "wards"}}]'
    text = text.replace('{ward = "wards"}', several) if "site" in key else text
    text = text.replace('key = "ward"', f"key = {key}")
    document = tomllib.loads(text)
    shown = filled(document, {})
    assert schema_of(as_sent(shown), document) == DatabaseSchema.from_document(document)


def as_sent(shown):
    """What a browser sends of a form that shows this."""
    form = {key: shown[key] for key in ("name", "unit", "constraints")}
    for i, table in enumerate(shown["tables"]):
        form |= {f"t{i}-{key}": value for key, value in table.items() if key != "columns"}
        for j, column in enumerate(table["columns"]):
            form |= {f"t{i}-c{j}-{key}": value for key, value in column.items()}
    return form


@pytest.mark.parametrize(
    ("changed", "said", "place"),
    [
        ({"t1-max_per_parent": "-1"}, "table 'visits': expected max_per_parent to be an integer >= 1", "#t1"),
        ({"t1-parent": ""}, "table 'visits': expected parent, foreign_key and max_per_parent together", "#t1"),
        ({"t0-c2-low": "900"}, "table 'patients', column 'age': expected low < high", "#t0-c2"),
        ({"unit": "visits"}, "unit: expected a private table without a parent", None),
        ({"t1-order": "nothing"}, "table 'visits': expected order to be the name of a column", "#t1"),
    ],
)
def test_what_is_wrong_is_said_as_the_command_says_it_and_leads_to_its_place(visitor, changed, said, place):
    form = form_of(visitor.get("/p/clinic/describe").text) | changed
    for address in ("/p/clinic/describe/check", "/p/clinic/describe"):
        answer = visitor.post(address, **form)
        assert said in words(answer)
        assert place is None or f'href="{place}"' in answer.text


def test_a_table_that_is_left_out_can_be_taken_back(visitor, tmp_path):
    write_clinic(tmp_path / "clinic")
    other = Visitor(tmp_path)
    project = other.opened("clinic")
    form = form_of(other.get("/p/clinic/describe").text)
    other.post("/p/clinic/describe", **form | {"t1-role": "out"})
    assert list(project.document["tables"]) == ["patients"]
    page = other.get("/p/clinic/describe").text
    assert form_of(page)["t1-role"] == "out" and form_of(page)["t1-c1-kind"] == form["t1-c2-kind"]


def test_the_plan_has_every_table_and_only_methods_that_can(visitor):
    shown = words(visitor.post("/p/clinic/plan/preview", epsilon="1", delta="1e-6", method="mst"))
    made = plan(visitor.studio.projects["clinic"].schema, "mst", epsilon=1.0)
    assert all(f"{share:.1%}".replace("%", " %") in shown for share in made.shares().values())
    assert "visits: pairs of columns" in shown and "one row of patients, with all that hangs on it" in shown
    assert "visits.ward" in shown
    page = visitor.get("/p/clinic/plan").text
    assert 'value="mst"' in page and 'value="dp-merf"' not in page


def test_rows_of_each_table_are_shown_and_every_child_has_a_parent(visitor):
    fit = visitor.studio.projects["clinic"].fits()[0]
    tables = {name: pl.read_parquet(path) for name, path in fit.tables.items()}
    assert tables["patients"].height == 50
    assert set(tables["visits"]["patient_id"]) <= set(tables["patients"]["patient_id"])
    assert f"{tables['visits'].height} synthetic rows" in words(visitor.get(f"{HERE}/look/rows?table=visits"))


def test_the_packed_files_are_what_the_commands_write(visitor, monkeypatch):
    from click.testing import CliRunner

    from understudy.cli import cli

    project = visitor.studio.projects["clinic"]
    fit = project.fits()[0]
    lines = sharing.commands(project, fit)
    monkeypatch.chdir(fit.folder)
    for line in [*lines[1:4], lines[5].replace("rows-csv", "again")]:
        result = CliRunner().invoke(cli, shlex.split(line, comments=True)[1:])
        assert result.exit_code == 0, (line, result.output)
    answer = visitor.get(f"{HERE}/share/rows-csv.zip")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        found = {name: packed.read(name) for name in packed.namelist()}
    assert found == {each.name: each.read_bytes() for each in (fit.folder / "again").iterdir()}
    assert set(found) == {"patients.csv", "visits.csv", "sample.json"}
    shutil.rmtree(fit.folder / "again")


def test_a_report_is_written_although_a_synthetic_table_has_no_row(visitor, tmp_path):
    file = visitor.studio.projects["clinic"].fits()[0].model
    model = load(file)
    seed = next(seed for seed in range(200) if not model.sample(1, seed)["visits"].height)
    page = report(file, tmp_path / "report.html", rows=1, seed=seed)
    assert "No row of visits was drawn for them." in page.read_text()


def judged(visitor, project, real):
    """What the page says after a comparison with real rows."""
    fit = visitor.studio.projects[project].fits()[0]
    folder = fit.folder / "judge"
    folder.mkdir()
    asked = {"task": "judge", "real": str(visitor.studio.folders.root / real), "learners": [], "ledger": None}
    write_json(folder / "request.json", asked)
    outcome = perform(folder)
    write_json(folder / "outcome.json", outcome)
    assert outcome["state"] == "done", outcome
    page = visitor.get(f"/p/{project}/fits/{fit.name}/judge")
    shutil.rmtree(folder)
    return page


@pytest.mark.slow
def test_it_is_judged_against_a_folder(visitor):
    page = judged(visitor, "clinic", "clinic")
    assert "The verdict:" in words(page) and CANARY not in page.text


def test_a_folder_is_opened_only_if_every_table_in_it_may_be_seen(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside.csv"
    write_clinic(inside / "clinic")
    outside.write_text("patient_id,secret\nP0001,x\n")
    visitor = Visitor(inside)
    (inside / "clinic" / "more.csv").symlink_to(outside)
    answer = visitor.post("/open", path="clinic")
    assert answer.status_code == 422 and "is not within" in words(answer) and not visitor.studio.projects.all()
    (inside / "clinic" / "more.csv").unlink()
    (inside / "clinic" / ".more.csv").write_text("a\n1\n")
    assert "hidden" in words(visitor.post("/open", path="clinic"))
    (inside / "clinic" / ".more.csv").unlink()
    visitor.opened("clinic")
    (inside / "clinic" / "more.csv").symlink_to(outside)  # after it was opened
    visitor.post("/p/clinic/plan", epsilon="1", delta="1e-6", method="mst")
    sent = {"epsilon": "1.0", "delta": "1e-06", "method": "mst", "confirmed": "yes"}
    assert "is not within" in words(visitor.post("/p/clinic/fit", **sent))
    assert not visitor.studio.projects["clinic"].fits()


def test_several_files_that_are_dropped_are_one_database(tmp_path):
    write_clinic(tmp_path / "clinic")
    visitor = Visitor(tmp_path)
    dropped = [("file", (f"../.{each.name}", each.read_bytes())) for each in sorted((tmp_path / "clinic").iterdir())]
    assert visitor.post("/open/upload", files=dropped).headers["location"] == "/p/tables/describe"
    project = visitor.studio.projects["tables"]
    assert sorted(project.document["tables"]) == ["patients", "visits"]
    assert sorted(each.name for each in (project.folder / "tables").iterdir()) == ["patients.csv", "visits.csv"]
    assert "the same name" in words(visitor.post("/open/upload", files=[dropped[0], dropped[0]]))
    assert "is not" in words(visitor.post("/open/upload", files=[dropped[0], ("file", ("x.exe", b"x"))]))
    assert len(visitor.studio.projects.all()) == 1


def test_a_file_of_sqlite_is_opened_as_a_database(tmp_path):
    folder = write_clinic(tmp_path / "clinic")
    with contextlib.closing(sqlite3.connect(tmp_path / "clinic.sqlite")) as made, made:
        for path in folder.iterdir():
            frame = pl.read_csv(path)
            made.execute(f"CREATE TABLE {path.stem} ({', '.join(frame.columns)})")
            made.executemany(f"INSERT INTO {path.stem} VALUES (?, ?, ?{', ?' * (frame.width - 3)})", frame.rows())
    visitor = Visitor(tmp_path)
    assert "clinic.sqlite" in words(visitor.get("/open"))
    project = visitor.opened("clinic.sqlite")
    assert sorted(project.document["tables"]) == ["patients", "visits"]
    page = visitor.get(f"/p/{project.name}/describe")
    assert page.status_code == 200 and CANARY not in page.text


@pytest.mark.parametrize(("folder", "said"), [("one", "several tables"), ("apart", "leads to another by a key")])
def test_a_folder_that_is_no_database_is_refused_and_leaves_no_project(tmp_path, folder, said):
    (tmp_path / folder).mkdir()
    pl.DataFrame({"a": [1, 2, 3]}).write_csv(tmp_path / folder / "one.csv")
    if folder == "apart":
        pl.DataFrame({"b": ["x", "y", "x"]}).write_csv(tmp_path / folder / "two.csv")
    visitor = Visitor(tmp_path)
    answer = visitor.post("/open", path=folder)
    assert answer.status_code == 422 and said in words(answer)
    assert not visitor.studio.projects.all()


# One table whose persons have columns of their own ------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_persons(tmp_path_factory):
    """Somebody who has ticked that age and sex are the same in all rows of one person, and fitted."""
    folder = tmp_path_factory.mktemp("studio")
    write_clinic(folder / "clinic")
    visits, patients = (pl.read_csv(folder / "clinic" / f"{name}.csv") for name in ("visits", "patients"))
    visits.join(patients, on="patient_id").write_csv(folder / "stays.csv")
    visitor = Visitor(folder)
    project = visitor.opened("stays.csv")
    form = form_of(visitor.get("/p/stays/describe").text)
    places = {name: key.removesuffix("-name") for key, name in form.items() if key.endswith("-name")}
    ticked = {f"{places[name]}-per_unit": "yes" for name in ("sex", "age")}
    answer = visitor.post("/p/stays/describe", next="plan", **form | ticked)
    assert answer.status_code == 303, words(answer)
    fitted(project, "20300101-000000-mst-1", method="mst", rows=60, epsilon=50.0)
    return visitor


def test_columns_of_persons_are_ticked_in_the_form(of_persons):
    schema = Schema.read(of_persons.studio.projects["stays"].schema)
    assert (schema.unit, [column.name for column in schema if column.per_unit]) == ("patient_id", ["sex", "age"])
    page = of_persons.get("/p/stays/describe").text
    assert sum(key.endswith("-per_unit") for key in form_of(page)) == 2


def test_a_tick_without_persons_is_not_read(of_persons):
    form = form_of(of_persons.get("/p/stays/describe").text)
    unit = next(key for key, value in form.items() if value == "unit")
    answer = of_persons.post("/p/stays/describe/check", **form | {unit: "ignore"})
    assert "5 columns will be synthesized." in words(answer) or "4 columns will be synthesized." in words(answer)


@pytest.mark.parametrize(
    "page", ["look", "look/report", "look/rows", "look/pictures", "look/network", "judge", "share"]
)
def test_every_page_of_persons_answers(of_persons, page):
    answer = of_persons.get(f"/p/stays/fits/20300101-000000-mst-1/{page}")
    assert answer.status_code == 200, words(answer)


def test_rows_of_one_synthetic_person_share_age_and_sex(of_persons):
    frame = pl.read_csv(of_persons.studio.projects["stays"].fits()[0].folder / "rows.csv")
    assert frame.height == 60 and frame["patient_id"].n_unique() > 1
    assert frame.group_by("patient_id").agg(pl.col("sex", "age").n_unique()).select(pl.max("sex", "age")).row(0) == (
        1,
        1,
    )


@pytest.mark.slow
def test_persons_are_judged_against_a_file(of_persons):
    page = judged(of_persons, "stays", "stays.csv")
    assert "The verdict:" in words(page) and CANARY not in page.text
