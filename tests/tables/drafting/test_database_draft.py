"""Drafts of databases: keys are found by name and by cells, the tree leads to people, and no cell is told."""

import dataclasses
import sqlite3
from typing import Any

import polars as pl
import pytest

import understudy as us
from understudy.datasets import hospital
from understudy.tables.drafting.database import CHILDREN, draft_database, tables_in
from understudy.tables.drafting.database_questions import database_questions
from understudy.tables.drafting.database_writing import written_database
from understudy.tables.drafting.keys import is_of_people, singular
from understudy.tables.drafting.writing import SEEN

HOSPITAL = hospital(60, seed=0)


@pytest.fixture(scope="module")
def drafted():
    return draft_database(HOSPITAL)


def lead_of(made, table: str):
    """What leads from a table to its parent."""
    lead = made[table].lead
    assert lead is not None
    return lead


def answer(made, text: str, value):
    """The draft after the question that begins so."""
    (question,) = (each for each in database_questions(made) if each.text.startswith(text))
    return question.answered(made, value)


def test_the_draft_of_the_hospital_has_its_keys_its_order_and_its_unit(drafted):
    schema = drafted.schema()
    assert schema.unit == "patients" and schema.private == ("patients", "visits", "prescriptions")
    visits, given = schema["visits"], schema["prescriptions"]
    assert (visits.key, visits.parent, visits.foreign_key) == (("visit_id",), "patients", ("patient_id",))
    assert (visits.order, visits.max_per_parent) == ("admission", CHILDREN)
    assert (given.key, given.parent, given.order) == ((), "visits", None)
    assert [column.name for column in visits.columns] == HOSPITAL["visits"].columns[2:]
    assert [str(rule) for rule in visits.constraints] == ["discharge >= admission"]


def test_the_text_is_the_schema_with_the_reason_of_every_key(drafted):
    text = written_database(drafted)
    assert us.Schema.parse(text) == drafted.schema() == us.Schema.draft(HOSPITAL)
    lines = [line for line in text.splitlines() if line.startswith(("unit", "key", "foreign_key", "order"))]
    assert len(lines) == 6 and all(SEEN in line for line in lines)
    guessed = [line for line in text.splitlines() if line.startswith("max_per_parent")]
    assert len(guessed) == 2 and all("a guess that does not come from the tables" in line for line in guessed)


def test_no_cell_and_no_count_is_in_the_text(drafted):
    text = written_database(drafted)
    cells = {cell for frame in HOSPITAL.values() for column in frame for cell in column.cast(pl.String).unique()}
    assert not [cell for cell in cells if len(cell) > 3 and f'"{cell}"' in text]
    twice = {name: pl.concat([frame, frame]) if name == "prescriptions" else frame for name, frame in HOSPITAL.items()}
    assert written_database(draft_database(twice)) == text


def frames(**tables: dict[str, list]) -> dict[str, pl.DataFrame]:
    return {name: pl.DataFrame(columns) for name, columns in tables.items()}


def test_a_key_may_be_called_id_and_be_pointed_at_by_the_name_of_its_table():
    made = draft_database(
        frames(users={"id": [1, 2, 3], "age": [20, 30, 40]}, logins={"users_id": [1, 1, 3], "year": [2001, 2002, 2001]})
    )
    assert made.unit == "users" and lead_of(made, "logins").column == "users_id" and made["logins"].order == "year"


def test_a_name_without_the_cells_is_no_key():
    tables = frames(users={"id": [1, 2, 3]}, logins={"users_id": [7, 8, 9], "n": [1, 2, 2]})
    with pytest.raises(us.TableError, match="no column has the name and the cells of another table's key") as caught:
        draft_database(tables)
    assert not any(digit in str(caught.value) for digit in "789")


def test_cells_without_the_name_are_no_key():
    tables = frames(users={"id": [1, 2, 3]}, logins={"score": [1, 2, 3], "n": [1, 2, 2]})
    with pytest.raises(us.TableError, match="no column has the name"):
        draft_database(tables)


def test_one_key_in_fifty_may_be_lost_and_one_in_ten_may_not():
    keys = list(range(100))
    for lost, found in ((2, True), (10, False)):
        tables = frames(users={"id": keys}, logins={"user_id": [*keys[lost:], *range(1000, 1000 + lost)]})
        if found:
            assert draft_database(tables)["logins"].lead is not None
        else:
            with pytest.raises(us.TableError):
                draft_database(tables)


def test_of_two_parents_the_nearer_one_is_taken_and_the_other_key_is_left_out():
    given = HOSPITAL["prescriptions"].join(HOSPITAL["visits"].select("visit_id", "patient_id"), on="visit_id")
    made = draft_database(HOSPITAL | {"prescriptions": given})
    assert lead_of(made, "prescriptions").parent == "visits"
    assert made["prescriptions"].draft.ignored == {"patient_id": "it leads to 'patients', which is not its parent"}


def test_a_table_above_people_is_proposed_as_public():
    districts = {"id": ["a", "b"], "inhabitants": [1000, 2000]}
    people = {"patient_id": [1, 2, 3, 4], "district_id": ["a", "b", "a", "a"]}
    tables = frames(districts=districts, patients=people, visits={"patient_id": [1, 1, 4], "ward": ["x", "y", "y"]})
    made = draft_database(tables)
    schema = made.schema()
    assert made.unit == "patients" and schema["districts"].public
    assert schema["patients"].references == {"district_id": "districts"}
    private = answer(made, "May everybody know the table 'districts'", False).schema()
    assert list(private.tables) == ["patients", "visits"] and not private["patients"].references


def test_a_table_that_no_key_connects_is_left_out_and_named():
    made = draft_database(HOSPITAL | {"weather": pl.DataFrame({"day": [1, 2], "rain": [0.5, 1.5]})})
    assert made.left_out == ("weather",)
    assert '# Left out: "weather"' in written_database(made)


# Questions ----------------------------------------------------------------------------------------------------------


def test_answers_change_the_draft_and_remove_its_marks(drafted):
    made = answer(drafted, "How many rows of 'visits'", 5)
    made = answer(made, "By which column are the rows of 'visits'", "none")
    made = answer(made, "Is one row of 'patients'", True)
    schema = made.schema()
    assert schema["visits"].max_per_parent == 5 and schema["visits"].order is None
    text = written_database(made)
    assert "max_per_parent = 5  # confirmed by the owner" in text
    assert 'unit = "patients"  # confirmed by the owner' in text


def test_a_link_that_the_owner_denies_takes_what_hangs_on_it_along(drafted):
    made = answer(drafted, "Does 'patient_id' of 'visits'", False)
    assert [each.name for each in made.tables] == ["patients"]
    assert made.left_out == ("prescriptions", "visits")
    still = [each for each in database_questions(drafted) if not each.applies(made)]
    assert any("'prescriptions'" in each.text for each in still)


def test_questions_of_a_table_name_it_and_change_it_alone(drafted):
    made = answer(drafted, "Table 'visits'. Must every row keep 'discharge >= admission'", False)
    assert not made.schema()["visits"].constraints
    assert dataclasses.replace(made["patients"]) == drafted["patients"]


# Where the tables are -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "sqlite", "duckdb"])
def test_a_folder_and_a_file_of_a_database_give_the_same_draft(tmp_path, drafted, kind):
    place = tmp_path / {"folder": "hospital", "sqlite": "hospital.sqlite", "duckdb": "hospital.duckdb"}[kind]
    if kind == "folder":
        place.mkdir()
        (place / "notes.docx").write_text("not a table")
        for name, frame in HOSPITAL.items():
            frame.write_csv(place / f"{name}.csv")
    elif kind == "sqlite":
        with sqlite3.connect(place) as connection:
            for name, frame in HOSPITAL.items():
                texts = frame.select(pl.all().cast(pl.String))
                connection.execute(f"CREATE TABLE {name} ({', '.join(texts.columns)})")
                marks = ", ".join("?" * texts.width)
                connection.executemany(f"INSERT INTO {name} VALUES ({marks})", texts.rows())
    else:
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect(str(place)) as connection:
            for name, frame in HOSPITAL.items():
                frame.write_csv(tmp_path / f"{name}.csv")
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_csv('{tmp_path}/{name}.csv')")
    made = draft_database(place)
    assert made.name == "hospital" and set(tables_in(place)) == set(HOSPITAL)
    assert {each.name: each.keys for each in made.tables} == {each.name: each.keys for each in drafted.tables}
    again: Any = us.Schema.draft(place)  # the schema of a database, if there are several tables
    assert again.private == drafted.schema().private


def test_two_files_of_one_table_are_refused(tmp_path):
    for ending in ("csv", "tsv"):
        (tmp_path / f"people.{ending}").write_text("id\n1\n")
    with pytest.raises(us.TableError, match="one file for each table, got several of 'people'"):
        us.Schema.draft(tmp_path)


@pytest.mark.parametrize("ending", ["sqlite", "duckdb"])
def test_a_damaged_database_is_refused_without_a_cell(tmp_path, ending):
    pytest.importorskip("duckdb")
    path = tmp_path / f"x.{ending}"
    path.write_bytes(b"secret" * 1000)
    with pytest.raises(us.TableError) as caught:
        us.Schema.draft(path)
    assert "secret" not in str(caught.value)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(us.TableError, match="there is no table"):
        us.Schema.draft(tmp_path)


@pytest.mark.parametrize(
    ("name", "words", "people"),
    [("patients", "patient", True), ("order_lines", "order line", False), ("people", "person", True)],
)
def test_names_of_tables_are_read_in_the_singular(name, words, people):
    assert " ".join(singular(name)) == words and is_of_people(name) == people
