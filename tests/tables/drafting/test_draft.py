"""Whole drafts: valid for the table they come from, silent about its cells, and open to the owner's answers."""

import json
import re
import string
import tomllib

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import messy_export
import understudy as us
from commands import run
from conftest import examples
from understudy.tables.drafting.draft import ROWS_PER_PERSON, draft_of
from understudy.tables.drafting.questions import questions
from understudy.tables.drafting.writing import SEEN, written
from understudy.tables.table import read

FRAMES = {"polars": lambda frame: frame, "pandas": pl.DataFrame.to_pandas, "pyarrow": pl.DataFrame.to_arrow}


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """The hospital's table in plain form: UTF-8, commas, ISO dates."""
    return messy_export.write_plain(tmp_path_factory.mktemp("export") / "visits.csv", patients=400)


@pytest.fixture(scope="module")
def drafted(export):
    return draft_of(export)


# The hospital -----------------------------------------------------------------------------------------------------


def test_the_export_is_understood(drafted):
    schema = drafted.schema()
    assert (schema.name, schema.unit, schema.max_rows_per_unit) == ("visits", "Patienten_ID", ROWS_PER_PERSON)
    assert schema.ignore == ("Nachname", "Telefon", "Bemerkung")
    assert set(schema.missing) == {"-999", "NA"}
    assert [str(rule) for rule in schema.constraints] == [
        "Aufnahmedatum >= Geburtsdatum",
        "Entlassungsdatum >= Aufnahmedatum",
        "Kosten_Gesamt = Kosten_Station + Kosten_Medikamente",
    ]
    kinds = {column.name: column.kind for column in schema}
    assert kinds["PLZ"] == kinds["Hauptdiagnose"] == kinds["Geschlecht"] == "categorical"
    assert kinds["Blutdruck_sys"] == kinds["Auslastung"] == "integer" and kinds["Gewicht"] == "continuous"
    assert schema["Blutdruck_sys"].nullable and schema["Gewicht"].nullable and not schema["PLZ"].nullable
    assert schema["Blutdruck_sys"].low == 30


def test_the_draft_of_the_export_reads_it(export, drafted):
    table = read(export, drafted.schema())
    assert (table.columns["Auslastung"] >= 40).all()  # the number before the percent sign
    assert any(label.startswith("0") for label in table.labels["PLZ"])


def test_no_cell_of_the_export_is_in_its_draft(export, drafted):
    text = written(drafted)
    cells = {cell for line in export.read_text().splitlines()[1:] for cell in line.split(",")}
    public = {"", "NA", "-999", "m", "w", "Innere", "Chirurgie"} | {str(k) for k in range(1000)}
    words = set(re.findall(r"[^\s\"',\[\]()#;:=]+", text))
    assert not words & (cells - public)
    assert not any(canary in text for canary in messy_export.CANARIES)


def test_every_line_that_was_seen_is_marked(drafted):
    lines = written(drafted).splitlines()
    for start in (
        "unit =",
        '    "-999"',
        '    "NA"',
        "nullable = true",
        '    "Entlassungsdatum >=',
        '    "Kosten_Gesamt =',
    ):
        found = [line for line in lines if line.startswith(start)]
        assert found and all(line.endswith(f"# {line.split('# ')[-1]}") and SEEN in line for line in found)


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """The same table as the hospital exports it."""
    return messy_export.write(tmp_path_factory.mktemp("messy") / "visits.csv", patients=400)


def test_the_messy_export_is_understood_like_the_plain_one(messy, drafted):
    schema, plain = us.Schema.draft(messy), drafted.schema()
    assert (schema.file.delimiter, schema.file.decimal) == (messy_export.DELIMITER, messy_export.DECIMAL)
    assert schema.file.encoding in ("latin-1", "windows-1252")
    assert schema.ignore == (*plain.ignore, "Station_2")
    assert {schema[name].format for name in messy_export.DATES} == {messy_export.FORMAT}
    assert {schema[name].kind for name in messy_export.DATES} == {"date"}
    assert schema["Kosten_Gesamt"].decimals == 2 and schema["Gewicht"].decimals == 1
    kinds = [{column.name: column.kind for column in each} for each in (schema, plain)]
    assert kinds[0] == kinds[1]
    assert (schema.unit, schema.missing, schema.constraints) == (plain.unit, plain.missing, plain.constraints)
    assert read(messy, schema).exact_rows > 400


def test_the_messy_export_can_be_fitted_with_its_draft(messy, tmp_path):
    assert run("schema", "draft", messy, "-o", tmp_path / "s.toml").exit_code == 0
    options = ["--epsilon", 5, "--method", "independent", "-o", tmp_path / "m.understudy"]
    assert run("fit", messy, tmp_path / "s.toml", *options).exit_code == 0
    assert run("sample", tmp_path / "m.understudy", "-n", 50, "-o", tmp_path / "out.csv").exit_code == 0
    text = (tmp_path / "out.csv").read_text()
    assert not any(canary in text + (tmp_path / "s.toml").read_text() for canary in messy_export.CANARIES)


def test_the_owner_overrides_the_dialect(messy, tmp_path):
    stated = ["--delimiter", ";", "--encoding", "windows-1252", "--decimal", ","]
    assert run("schema", "draft", messy, "-o", tmp_path / "s.toml", *stated).exit_code == 0
    assert us.Schema.read(tmp_path / "s.toml").file.encoding == "windows-1252"
    assert us.Schema.draft(messy, file={"encoding": "windows-1252"}).file.encoding == "windows-1252"
    with pytest.raises(us.SchemaError, match="file: expected encoding"):
        us.Schema.draft(messy, file={"encoding": "klingon"})


# Any table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_are_drafted_and_read(kind):
    frame = pl.DataFrame(
        {
            "age": [20 + k % 50 for k in range(100)],
            "cost": [k / 4 for k in range(100)],
            "seen": [None, True, False, True] * 25,
            "day": pl.Series(["2024-05-01", "2024-06-03"] * 50).str.to_date(),
            "word": ["a", "b", None, "c"] * 25,
        }
    )
    table = FRAMES[kind](frame)
    schema = us.Schema.draft(table)
    kinds = {column.name: column.kind for column in schema}
    assert kinds["age"] == "integer" and kinds["cost"] == "continuous" and kinds["word"] == "categorical"
    assert kinds["day"] in ("date", "datetime")
    assert schema["word"].nullable and schema["seen"].nullable and not schema["age"].nullable
    assert read(table, schema).exact_rows == 100


def test_a_draft_can_be_written_with_its_reasons(tmp_path):
    frame = pl.DataFrame({"age": [20, 30, 40]})
    schema = us.Schema.draft(frame, to=tmp_path / "s.toml")
    assert us.Schema.read(tmp_path / "s.toml") == schema
    assert "suggested by the name" in (tmp_path / "s.toml").read_text()
    with pytest.raises(us.SchemaError, match="cannot be written"):
        us.Schema.draft(frame, to=tmp_path / "gone" / "s.toml")


def test_the_draft_does_not_depend_on_the_values():
    """Two tables of the same kinds, of which no value is the same."""
    one = pl.DataFrame({"age": range(10, 60), "x": [f"{k}.25" for k in range(50)], "c": ["p", "q"] * 25})
    two = pl.DataFrame({"age": range(200, 250), "x": [f"{k * 7919}.75" for k in range(50)], "c": ["r", "s"] * 25})
    texts = [written(draft_of(frame.to_pandas())) for frame in (one, two)]
    assert texts[0] == texts[1]


NAMES = ["age", "a.b", 'say "hi"', "naïve 年", "two words", "a\nb", "[x]", "#", "\x85", "name = 3", "b'c"]


def test_names_of_any_kind_stay_names():
    frame = pl.DataFrame(
        {name: [f"{name}{k % 3}" for k in range(30)] for name in NAMES} | {"id\nx": [f"u{k}" for k in range(30)]}
    )
    draft = draft_of(frame)
    assert us.Schema.parse(written(draft)) == draft.schema()
    assert set(draft.schema().names) == set(NAMES) and draft.schema().ignore == ("id\nx",)


ODD_CELLS = st.one_of(
    st.sampled_from(["", "NA", "-999", "?", "true", "false", "0", "1", "01", "1.5", "1,5", "12 %", "2024-05-01"]),
    st.sampled_from(["16.02.1948", "03/04/2020", "x@example.org", "1e400", "nan", "inf", "-0", "None", "20200101"]),
    st.text(string.ascii_letters + string.digits + " .-/", max_size=6),
)


@examples(15)
@given(st.data())
def test_a_draft_always_reads_the_table_it_comes_from(data):
    names = data.draw(
        st.lists(st.sampled_from(["age", "id", "patient_id", "name", "x", "y", "dob", "plz"]), min_size=1, unique=True)
    )
    pools = {name: data.draw(st.lists(ODD_CELLS, min_size=1, max_size=4)) for name in names}
    rows = data.draw(st.sampled_from([1, 3, 40]))
    frame = pl.DataFrame({name: [pool[k % len(pool)] for k in range(rows)] for name, pool in pools.items()})
    for table in (frame, frame.to_pandas()):
        draft = draft_of(table)
        assert us.Schema.parse(written(draft)) == draft.schema()
        assert read(table, draft.schema()).exact_rows <= rows


CANARIES = st.text(string.ascii_uppercase, min_size=9, max_size=12)


@examples(8)
@given(st.lists(CANARIES, min_size=1, max_size=5, unique=True), st.integers(10**9, 10**10))
def test_no_canary_is_ever_told(words, number):
    """Texts, numbers, dates and spellings that are in no public list, in columns of every kind."""
    rows = 60
    frame = pl.DataFrame(
        {
            "kind": [words[k % len(words)] for k in range(rows)],
            "patient_id": [words[k % len(words)] + str(k // 3) for k in range(rows)],
            "age": [str(number)] * 5 + [str(k) for k in range(rows - 5)],
            "remark": [f"{words[0]} was here on day {k}" for k in range(rows)],
            "cost": [f"{number / 100:.2f}"] * rows,
            "missing": [words[0]] * 5 + [str(k) for k in range(rows - 5)],
        }
    )
    draft = draft_of(frame.to_pandas())
    text, said = written(draft), json.dumps([each.text for each in questions(draft)])
    for shown in (text, said):
        assert str(number) not in shown and f"{number / 100:.2f}" not in shown
        assert not any(word in shown for word in words)


@pytest.mark.parametrize(
    ("columns", "kept"),
    [
        ({"id": [f"u{k}" for k in range(40)]}, "id"),
        ({"email": [f"u{k}@example.org" for k in range(40)], "blank": [None] * 40}, "email"),
        ({"patient_id": ["a", "a", "b"] * 20}, "patient_id"),
    ],
)
def test_a_table_of_nothing_but_identifiers_is_drafted_with_a_warning(columns, kept):
    draft = draft_of(pl.DataFrame(columns))
    assert draft.schema().names == (kept,) and "should be left out" in written(draft)


# The commands -----------------------------------------------------------------------------------------------------


def test_the_command_says_what_it_left_out(export, tmp_path):
    result = run("schema", "draft", export, "-o", tmp_path / "s.toml")
    assert result.exit_code == 0 and "Left out: 'Nachname', 'Telefon', 'Bemerkung'" in result.stdout
    assert "all rows of one 'Patienten_ID'" in result.stdout and "--interactive" in result.stdout
    assert run("schema", "check", tmp_path / "s.toml").exit_code == 0
    assert run("plan", tmp_path / "s.toml", "--epsilon", 1).exit_code == 0


def test_the_command_as_json_lists_the_questions(export, tmp_path):
    said = json.loads(run("schema", "draft", export, "-o", tmp_path / "s.toml", "--json").stdout)
    assert said["unit"] == "Patienten_ID" and said["ignored"]["Telefon"] == "the name speaks of phone numbers"
    assert any("How many rows" in text for text in said["questions"])


def test_answers_change_the_draft(tmp_path):
    pl.DataFrame(
        {
            "customer_id": [f"c{k // 2}" for k in range(60)],
            "start": ["03/04/2020", "05/06/2020", "07/08/2021"] * 20,
            "phone": [f"0151/{k:07d}" for k in range(60)],
            "sex": ["m", "w", "NA"] * 20,
            "weight": [f"{60 + k}.5" for k in range(60)],
        }
    ).write_csv(tmp_path / "t.csv")
    asked = [each.text for each in questions(draft_of(tmp_path / "t.csv"))]
    answers = {"day or the month": "month", "whose row": "y", "How many rows": "7", "Leave out": "n", "'NA'": "n"}
    answers |= {"'weight'": "y", "'sex'": "n"}
    replies = [next(reply for words, reply in answers.items() if words in text) for text in asked]
    result = run(
        "schema", "draft", tmp_path / "t.csv", "-o", tmp_path / "s.toml", "--interactive", answers="\n".join(replies)
    )
    assert result.exit_code == 0
    made = tomllib.loads((tmp_path / "s.toml").read_text())
    assert made["max_rows_per_unit"] == 7 and made["unit"] == "customer_id"
    assert "ignore" not in made and "missing" not in made
    assert made["columns"]["weight"]["high"] == 650.0 and "values" not in made["columns"]["sex"]
    assert made["columns"]["start"]["format"] == "%m/%d/%Y"
    assert "confirmed by the owner" in (tmp_path / "s.toml").read_text()


def test_a_unit_that_is_none_is_left_out(export, tmp_path):
    asked = [each.text for each in questions(draft_of(export))]
    replies = ["n" if "whose row" in text else "" for text in asked if "How many rows" not in text]
    result = run(
        "schema", "draft", export, "-o", tmp_path / "s.toml", "--interactive", answers="\n".join(replies) + "\n"
    )
    assert result.exit_code == 0
    schema = us.Schema.read(tmp_path / "s.toml")
    assert schema.unit is None and "Patienten_ID" in schema.ignore


def test_questions_that_are_not_answered_write_nothing(export, tmp_path):
    result = run("schema", "draft", export, "-o", tmp_path / "s.toml", "--interactive", answers="y\n")
    assert result.exit_code == 1 and not (tmp_path / "s.toml").exists()
