"""What the studio may see: the chosen folder, and nothing that a path, a link or a name could reach beyond it."""

import os

import pytest

from browsing import CANARY, Visitor, words, write_people
from understudy.studio.folders import Folders, OutsideError


@pytest.fixture
def places(tmp_path):
    """A folder that is seen, and beside it one that is not."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    write_people(inside / "people.csv")
    write_people(outside / "secret.csv")
    (inside / "link.csv").symlink_to(outside / "secret.csv")
    (inside / "folder").symlink_to(outside)
    (inside / ".hidden").mkdir()
    write_people(inside / ".hidden" / "keys.csv")
    write_people(inside / ".keys.csv")
    return inside, outside


OUTSIDE = ["../outside/secret.csv", "link.csv", "folder/secret.csv", "folder/../../outside/secret.csv", ".keys.csv"]
OUTSIDE += [".hidden/keys.csv", "/etc/passwd", "~/.ssh/id_rsa", "people.csv/../../outside/secret.csv", "\0people.csv"]
OUTSIDE += ["sqlite:///people.db?table=x", "file:///etc/passwd", "/proc/self/environ", "..", "/"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_beyond_the_folder_is_refused(places, path):
    with pytest.raises((OutsideError, ValueError)):
        Folders.of(places[0]).table(path)


@pytest.mark.parametrize("path", OUTSIDE)
def test_the_page_refuses_it_too_and_makes_no_project(places, path):
    visitor = Visitor(places[0])
    answer = visitor.post("/open", path=path)
    assert answer.status_code == 422 and CANARY not in answer.text
    assert not visitor.studio.projects.all() and not list(places[0].glob("studio/*"))


def test_an_absolute_path_within_is_opened_where_it_lies(places):
    project = Visitor(places[0]).opened(str(places[0] / "people.csv"))
    assert project.table == str(places[0] / "people.csv")
    assert sorted(each.name for each in project.folder.iterdir()) == ["schema.toml", "studio.json"]


def test_a_link_to_another_place_within_is_followed(places):
    (places[0] / "again.csv").symlink_to(places[0] / "people.csv")
    assert Folders.of(places[0]).table("again.csv") == places[0] / "people.csv"


def test_a_folder_is_listed_without_what_is_hidden_or_leads_out(places):
    (places[0] / "deeper").mkdir()
    (places[0] / "notes.doc").touch()
    assert Folders.of(places[0]).listed() == (["deeper"], ["people.csv"])


@pytest.mark.parametrize("where", ["..", "folder", ".hidden", "/etc", "people.csv", "nowhere"])
def test_another_folder_is_not_listed(places, where):
    assert Visitor(places[0]).get("/open", params={"in": where}).status_code == 422


@pytest.mark.parametrize(
    "address",
    ["/p/../../etc", "/p/..%2f..%2foutside", "/p/%2e%2e", "/p/people/fits/%2e%2e%2f%2e%2e"],
)
def test_an_address_that_climbs_is_no_page(places, address):
    visitor = Visitor(places[0])
    visitor.opened("people.csv")
    for tail in ("", "/look", "/share/rows.csv"):
        assert visitor.get(address + tail).status_code == 404


@pytest.mark.parametrize("path", ["../app.py", "..%2fapp.py", "%2e%2e/security.py", "/etc/passwd", "..%5capp.py"])
def test_static_files_are_those_of_the_studio(places, path):
    assert Visitor(places[0]).get(f"/static/{path}").status_code == 404


def test_a_project_that_is_a_link_is_none(places):
    visitor = Visitor(places[0])
    project = visitor.opened("people.csv")
    os.rename(project.folder, places[1] / "moved")
    project.folder.symlink_to(places[1] / "moved")
    assert visitor.get(f"/p/{project.name}").status_code == 404
    assert not visitor.studio.projects.all()


def test_a_table_that_was_moved_out_of_the_folder_is_not_fitted(places):
    visitor = Visitor(places[0])
    project = visitor.opened("people.csv")
    project.remember(table=str(places[1] / "secret.csv"))
    answer = visitor.post(f"/p/{project.name}/fit", confirmed="yes", epsilon="1.0", delta="1e-06", method="prada")
    assert answer.status_code == 422 and "is not within" in words(answer)
    assert not project.fits() and not project.ledger.exists()


# Files that are dropped -------------------------------------------------------------------------------------------


def upload(visitor, name, content):
    return visitor.post("/open/upload", files={"file": (name, content)})


def test_a_dropped_file_is_kept_in_its_project_and_nowhere_else(places):
    visitor = Visitor(places[0])
    content = (places[0] / "people.csv").read_bytes()
    assert upload(visitor, "dropped.csv", content).headers["location"] == "/p/dropped/describe"
    found = [path for path in places[0].rglob("*") if path.is_file() and path.read_bytes() == content]
    assert places[0] / "studio" / "dropped" / "tables" / "dropped.csv" in found
    assert {path.parent.name for path in found} <= {"tables", "inside", ".hidden"}


@pytest.mark.parametrize("name", ["../../evil.csv", "/tmp/evil.csv", "..\\..\\evil.csv", "....//evil.csv"])
def test_a_name_cannot_lead_out_of_the_project(places, name):
    visitor = Visitor(places[0])
    assert upload(visitor, name, (places[0] / "people.csv").read_bytes()).status_code == 303
    assert [path.parent for path in places[0].parent.rglob("evil.csv")] == [places[0] / "studio" / "evil" / "tables"]


@pytest.mark.parametrize("name", ["notes.doc", "studio.json", "schema.toml", "", "csv"])
def test_what_is_no_table_is_refused_and_leaves_nothing(places, name):
    visitor = Visitor(places[0])
    assert upload(visitor, name, b"a,b\n1,2\n").status_code in (404, 422)
    assert not list(places[0].glob("studio/*"))


@pytest.mark.parametrize("name", ["damaged.parquet", "damaged.feather", "damaged.csv.gz"])
def test_a_damaged_table_is_refused_without_a_cell_and_leaves_nothing(places, name):
    visitor = Visitor(places[0])
    answer = upload(visitor, name, b"PAR1" + CANARY.encode() * 20 + b"PAR1")
    assert answer.status_code == 422 and CANARY not in answer.text
    assert not list(places[0].glob("studio/*"))
