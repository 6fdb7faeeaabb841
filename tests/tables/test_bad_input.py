"""Bad input: structure is refused in one line, values never are, and nobody's value is shown either way."""

import contextlib
import gzip
import json
import math
import os
import shutil
import zipfile

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import understudy as us
from conftest import TINY_GRID
from understudy.cli import main

SECRET = "Zyzzyva"  # a cell that must be seen nowhere
SECRET_NUMBER = "48151.623"
SCHEMA = """\
name = "people"
[columns.name]
kind = "categorical"
[columns.age]
kind = "integer"
low = 0
high = 120
nullable = true
[columns.income]
kind = "continuous"
low = 0.0
high = 100000.0
"""
HEADER = "name,age,income\n"
ROWS = [f"{'ann' if place % 2 else 'bob'},{20 + place % 60},{1000 + 10 * place}" for place in range(200)]
LAST = f"{SECRET},40,{SECRET_NUMBER}"
GOOD = HEADER + "\n".join([*ROWS, LAST]) + "\n"


class Place:
    """A folder with a table and a schema in it, and the `understudy` command to run there."""

    def __init__(self, folder, capfd):
        self.folder, self.capfd = folder, capfd
        self.data, self.schema, self.model = folder / "people.csv", folder / "people.toml", folder / "m.understudy"
        self.data.write_text(GOOD)
        self.schema.write_text(SCHEMA)

    def run(self, *arguments):
        self.capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = self.capfd.readouterr()  # of the whole process: a library that prints is caught too
        return ended.value.code, out, err

    def fit(self, *arguments, data=None, output=None, epsilon=1):
        method = () if "--method" in arguments else ("--method", "copula")  # the quickest that looks at everything
        options = ("--epsilon", epsilon, "-o", output or self.model, *method)
        return self.run("fit", data or self.data, self.schema, *options, *arguments)

    def files(self):
        return {path.relative_to(self.folder): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

    @contextlib.contextmanager
    def untouched(self):
        before = self.files()
        yield
        assert self.files() == before


@pytest.fixture
def place(tmp_path, capfd):
    return Place(tmp_path, capfd)


def assert_refused(result, *words):
    """One line on stderr with the words, exit 1, and no cell anywhere."""
    code, out, err = result
    assert (code, out) == (1, "")
    assert err.count("\n") == 1 and err.endswith("\n")
    assert_discreet(out, err)
    for word in words:
        assert word in err


def assert_discreet(out, err):
    for text in (out, err):
        assert "Traceback" not in text and "Warning" not in text
        assert SECRET not in text and SECRET_NUMBER not in text


def assert_fits(place, *arguments):
    """The fit is done, and rows drawn from it are finite and within the bounds."""
    code, out, err = place.fit(*arguments)
    assert (code, err) == (0, "")
    assert_discreet(out, err)
    rows = us.load(place.model).sample(2000)
    assert rows["age"].drop_nulls().is_between(0, 120).all()
    assert rows["income"].is_finite().all() and rows["income"].is_between(0, 100_000).all()
    return rows


# Structure --------------------------------------------------------------------------------------------------------

STRUCTURES = {
    "missing column": (GOOD.replace("income", "incom", 1), ["has no column 'income'", "Did you mean 'incom'?"]),
    "extra column": (GOOD.replace("\n", ",\n").replace("income,", "income,shoe", 1), ["'shoe'", "does not name"]),
    "no header": (GOOD.removeprefix(HEADER), ["none of the columns", "first line"]),
    "no header, and the secret in front": (LAST + "\n" + GOOD.removeprefix(HEADER), ["none of the columns"]),
    "wrong type": (HEADER + f"ann,forty {SECRET},1\nbob,fifty,2\n", ["column 'age'", "whole numbers"]),
    "empty": ("", ["is empty"]),
    "header only": (HEADER, ["has no rows"]),
    "duplicate names": (GOOD.replace("income", "age", 1), ["has no column 'income'"]),
    "duplicate names beside all": ("name,age,income,age\n" + f"{LAST},{SECRET}\n" * 9, ["more than one column 'age'"]),
    "blank first line": ("\n" + GOOD, ["first line"]),
    "quote never closed in the header": (f'"{GOOD}', ["cannot be read as CSV"]),
    "two rows that begin with a stray quote": (
        GOOD + f'"{SECRET},1,1\nann,2,2\n"{SECRET},3,3\n',
        ["a quote stands inside"],
    ),
    "quote inside a field": (GOOD + f'{SECRET} 5" disk,1,1\n', ["a quote stands inside", "double those inside it"]),
    "quote never closed": (GOOD + f'"{SECRET},1,1\n' + GOOD, ["cannot be read as CSV"]),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_wrong_structure_is_refused(place, name):
    text, words = STRUCTURES[name]
    place.data.write_text(text)
    with place.untouched():
        assert_refused(place.fit(), "people.csv", *words)


@pytest.mark.parametrize("name", STRUCTURES)
def test_wrong_structure_costs_nothing(place, name):
    place.data.write_text(STRUCTURES[name][0])
    with place.untouched():
        assert_refused(place.fit("--ledger", place.folder / "budget.jsonl"))


@pytest.mark.parametrize("where", [HEADER.encode(), b""], ids=["cell", "header"])
def test_bytes_that_are_not_utf8_are_refused(place, where):
    place.data.write_bytes(where + b"\xff\xfe\xe9" + SECRET.encode() + b",1,1\n" + GOOD.encode())
    with place.untouched():
        assert_refused(place.fit(), "people.csv")


def test_a_file_of_text_called_parquet_is_refused(place):
    data = place.folder / "people.parquet"
    data.write_text(GOOD)
    with place.untouched():
        assert_refused(place.fit(data=data), "cannot be read as Parquet")


def test_a_truncated_parquet_file_is_refused(place):
    data = place.folder / "people.parquet"
    pl.read_csv(place.data, infer_schema_length=None).write_parquet(data)
    data.write_bytes(data.read_bytes()[:-100])
    with place.untouched():
        assert_refused(place.fit(data=data), "cannot be read as Parquet")


def test_a_parquet_column_of_the_wrong_type_is_refused(place):
    data = place.folder / "people.parquet"
    pl.read_csv(place.data, infer_schema_length=None).with_columns(age=pl.lit([[SECRET]])).write_parquet(data)
    with place.untouched():
        assert_refused(place.fit(data=data), "column 'age'", "List")


def test_a_truncated_gzip_file_is_refused(place):
    data = place.folder / "people.csv.gz"
    data.write_bytes(gzip.compress(GOOD.encode())[:-200])
    with place.untouched():
        assert_refused(place.fit(data=data), "people.csv.gz")


@pytest.mark.parametrize("name", ["people.xlsx", "people", "gone.csv", "."])
def test_a_table_that_cannot_be_read_is_refused(place, name):
    with place.untouched():
        assert_refused(place.fit(data=place.folder / name))


@pytest.mark.parametrize(
    "text",
    ["", "name = ", "rows = 0", "\x00", '[columns.age]\nkind = "whole"', "[columns.age]\nlow = 1", "a = [" * 5000],
)
def test_a_wrong_schema_is_refused(place, text):
    place.schema.write_text(text)
    with place.untouched():
        assert_refused(place.fit(), "people.toml")
        assert_refused(place.run("plan", place.schema, "--epsilon", 1), "people.toml")


# Values: failing is a release, so they never fail -----------------------------------------------------------------


def test_a_column_that_is_all_missing_fits(place):
    place.data.write_text(HEADER + "".join(f"ann,,{place}\n" for place in range(200)))
    rows = assert_fits(place, "--epsilon", 50)
    assert rows["age"].null_count() > 1900


def test_a_column_that_is_all_missing_and_may_not_be_fits(place):
    place.data.write_text(HEADER + "ann,40,\n" * 200)
    assert_fits(place)


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e308", "-1e308", "1e400", "5e-324", "9" * 400, SECRET])
@pytest.mark.parametrize("method", ["copula", "independent"])
def test_a_value_never_fails(place, value, method):
    place.data.write_text(GOOD + f"{SECRET},{value},{value}\n" * 3)
    assert_fits(place, "--method", method)


@pytest.mark.parametrize("value", ["inf", "1e308", "-1e308"])
def test_a_value_never_fails_without_bounds(place, value):
    place.schema.write_text("\n".join(line for line in SCHEMA.splitlines() if not line.startswith(("low", "high"))))
    place.data.write_text(GOOD + f"{SECRET},{value},{value}\n" * 100)
    code, out, err = place.fit()
    assert (code, err) == (0, "")
    assert_discreet(out, err)
    assert us.load(place.model).sample(2000)["income"].is_finite().all()


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e308", "5e-324", ""])
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("method", ["copula", pytest.param("prada", marks=pytest.mark.slow)])
def test_a_value_makes_no_library_warn(place, value, bounded, method):
    """A warning tells of a value as an error does; the tests run with warnings as errors."""
    columns = us.Schema.read(place.schema).columns
    schema = us.Schema(columns=columns if bounded else [us.Column(name=c.name, kind=c.kind) for c in columns])  # type: ignore
    place.data.write_text(GOOD + f"{SECRET},{value},{value}\n" * 100)
    us.fit(place.data, schema, method, epsilon=1.0).sample(100)


def test_a_cell_of_ten_megabytes_fits_and_is_not_kept(place):
    place.data.write_text(GOOD + SECRET * (10_000_000 // len(SECRET)) + ",40,100\n")
    assert_fits(place)
    assert place.model.stat().st_size < 100_000


def test_a_number_of_ten_megabytes_fits(place):
    place.data.write_text(GOOD + "ann,40," + "7" * 10_000_000 + "\n")
    assert_fits(place)


def test_one_row_fits(place):
    place.data.write_text(HEADER + LAST + "\n")
    assert_fits(place)


def test_lines_too_long_and_too_short_fit(place):
    place.data.write_text(GOOD + f"{SECRET}\n{LAST},{SECRET},{SECRET}\n\n")
    assert_fits(place)


# Arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "1e400"])
def test_an_epsilon_that_is_none_is_refused(place, epsilon):
    with place.untouched():
        assert_refused(place.fit("--ledger", place.folder / "budget.jsonl", epsilon=epsilon), "epsilon: expected")
        assert_refused(place.run("plan", place.schema, "--epsilon", epsilon), "epsilon: expected")


@pytest.mark.parametrize("delta", ["0", "1", "2", "-1e-6", "nan"])
def test_a_delta_that_is_none_is_refused(place, delta):
    with place.untouched():
        assert_refused(place.fit("--ledger", place.folder / "budget.jsonl", "--delta", delta), "delta: expected")
        assert_refused(place.run("plan", place.schema, "--epsilon", 1, "--delta", delta), "delta: expected")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--method", "copla"], ["'copla'", "Did you mean 'copula'?"]),
        (["--set", "encoding_shar=0.5"], ["'encoding_shar'", "Did you mean 'encoding_share'?"]),
        (["--set", "encoding_share=2"], ["encoding_share", "got 2"]),
        (["--set", "encoding_share=half"], ["Copula.encoding_share", "expected a finite number", "'half'"]),
        (["--seed", "-1"], ["seed: expected"]),
    ],
)
def test_a_wrong_argument_is_refused(place, arguments, words):
    with place.untouched():
        assert_refused(place.fit("--ledger", place.folder / "budget.jsonl", *arguments), *words)


def test_a_table_in_the_place_of_the_schema_is_refused_unread(place):
    with place.untouched():
        options = ("--epsilon", 1, "-o", place.model)
        assert_refused(place.run("fit", place.schema, place.data, *options), "expected a .toml file", "swapped")
        assert_refused(place.run("plan", place.data, "--epsilon", 1), "expected a .toml file")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("gone/m.understudy", ["there is no folder", "Make it first"]),
        ("people.csv/m.understudy", ["there is no folder"]),
        (".", ["is a folder"]),
        ("people.csv", ["another name"]),
        ("people.toml", ["another name"]),
        ("budget.jsonl", ["another name"]),
        ("m" * 300, ["file name too long"]),
    ],
)
def test_an_unwritable_output_is_refused_before_anything_is_spent(place, output, words):
    with place.untouched():
        result = place.fit("--ledger", place.folder / "budget.jsonl", output=place.folder / output)
        assert_refused(result, *words)


def test_an_output_that_is_no_regular_file_is_refused(place):
    with place.untouched():
        assert_refused(place.fit(output="/dev/null"), "not a regular file")


def test_a_full_or_closed_folder_is_refused(place):
    with place.untouched():
        assert_refused(place.fit(output="/proc/m.understudy"), "cannot be written")


@pytest.mark.parametrize("name", ["gone/out.csv", "out.xlsx", "out", "m.understudy"])
def test_sample_refuses_an_unwritable_output(place, name):
    assert place.fit("--quiet")[0] == 0
    with place.untouched():
        assert_refused(place.run("sample", place.model, "-n", 5, "-o", place.folder / name), name)


@pytest.mark.parametrize("name", ["gone/s.toml", "people.csv"])
def test_draft_refuses_an_unwritable_output(place, name):
    with place.untouched():
        assert_refused(place.run("schema", "draft", place.data, "-o", place.folder / name), name)


@pytest.mark.parametrize("text", ["", HEADER, "a,a\n1,2\n", "\n"], ids=["empty", "header only", "duplicate", "blank"])
def test_draft_refuses_a_table_without_columns(place, text):
    place.data.write_text(text)
    with place.untouched():
        assert_refused(place.run("schema", "draft", place.data, "-o", place.folder / "s.toml"), "people.csv")


# Model files ------------------------------------------------------------------------------------------------------


def foreign_models(model):
    """Empty, text, cut short, and with one byte changed."""
    whole = model.read_bytes()
    yield b""
    yield GOOD.encode()
    for part in (1, 30, len(whole) // 2, len(whole) - 1):
        yield whole[:part]
    middle = len(whole) // 2
    yield whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]


def zipped(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)


def test_a_foreign_or_truncated_model_is_refused(place):
    assert place.fit("--quiet")[0] == 0
    wrong, out = place.folder / "wrong.understudy", place.folder / "out.csv"
    for content in list(foreign_models(place.model)):
        wrong.write_bytes(content)
        with place.untouched():
            assert_refused(place.run("sample", wrong, "-n", 5, "-o", out), "wrong.understudy")
            assert_refused(place.run("receipt", wrong), "wrong.understudy")


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"{}", b'{"format": 2}', b'{"format": 1}', b"\xff", b"[" * 100_000, b'{"format": "x"}']
)
def test_a_zip_of_something_else_is_refused(place, document):
    zipped(place.model, model_json=document, arrays_npz=b"")
    with place.untouched():
        assert_refused(place.run("receipt", place.model), "m.understudy")


@pytest.mark.parametrize("name", ["gone.understudy", "."])
def test_a_model_that_cannot_be_read_is_refused(place, name):
    assert_refused(place.run("receipt", place.folder / name))


@pytest.mark.parametrize("content", [b"", b"{}\n", b"hello\n", b'{"kind": "understudy-ledger", "format": 1}\n{"k'])
def test_a_foreign_or_torn_ledger_is_refused(place, content):
    ledger = place.folder / "budget.jsonl"
    ledger.write_bytes(content)
    with place.untouched():
        if content:
            assert_refused(place.run("ledger", "show", ledger), "budget.jsonl")
            assert_refused(place.fit("--ledger", ledger), "budget.jsonl")
            assert_refused(place.run("ledger", "cap", ledger, "people", "--epsilon", 1, "--delta", 1e-6))


# Every command and every file it reads ----------------------------------------------------------------------------

FILES = {
    "schema draft {} -o o.toml": "csv",
    "schema draft {} -o p.toml": "parquet",
    "schema check {}": "toml",
    "plan {} --epsilon 1": "toml",
    "fit {} people.toml --epsilon 1 -o o": "csv",
    "fit {} people.toml --epsilon 1 -o p": "parquet",
    "fit people.csv {} --epsilon 1 -o o": "toml",
    "sample {} -n 3 -o o.csv": "understudy",
    "receipt {}": "understudy",
    "ledger show {}": "jsonl",
    "evaluate {} people.csv people.toml --metrics wd": "csv",
    "evaluate people.csv {} people.toml --metrics wd": "csv",
    "evaluate people.csv people.csv {}": "toml",
    "evaluate people.csv people.csv people.toml --metrics wd --train {}": "csv",
    "report {} -o o.html": "understudy",
    "report m.understudy --real {} --learners none -o o.html": "csv",
    "report m.understudy --synthetic {} -o o.html": "csv",
    "report m.understudy --ledger {} -o o.html": "jsonl",
    "report m.understudy --truth {} -o o.html": "json",
    "bench {} -o results": "toml",
    "bench table {}": "results",
    "bench figure {}": "results",
}
WRONG = {
    "gone": lambda path: None,
    "folder": lambda path: path.mkdir(),
    "binary": lambda path: path.write_bytes(bytes(range(255, 0, -1)) * 20),
    "empty": lambda path: path.write_bytes(b""),
}
ALLOWED = {("ledger show {}", "empty"), ("report m.understudy --ledger {} -o o.html", "empty")}  # no fits, no caps


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a table, its schema and a model."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "people.csv").write_text(GOOD)
    (folder / "people.toml").write_text(SCHEMA)
    us.fit(folder / "people.csv", folder / "people.toml", "copula", epsilon=1.0).save(folder / "m.understudy")
    return folder


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("line", FILES)
def test_a_file_that_is_no_such_file_is_refused_by_name(place, made, monkeypatch, line, wrong):
    shutil.copy(made / "m.understudy", place.model)
    monkeypatch.chdir(place.folder)
    name = f"wrong.{FILES[line]}"
    WRONG[wrong](place.folder / name)
    if (line, wrong) in ALLOWED:
        assert place.run(*line.format(name).split())[0] == 0
        return
    with place.untouched():
        result = place.run(*line.format(name).split())
        assert_refused(result, name)
        assert "unexpected" not in result[2]
        if wrong == "gone" and FILES[line] != "results":
            assert "no such file" in result[2].lower()


WRITTEN = [
    "schema draft people.csv -o {}",
    "fit people.csv people.toml --epsilon 1 -o {}",
    "sample m.understudy -n 3 -o {}.csv",
    "report m.understudy -o {}.html",
    "ledger cap {} people --epsilon 1 --delta 1e-6",
    "demo -o {}",
    "bench grid.toml -o {}",
]


@pytest.mark.parametrize("line", WRITTEN)
def test_a_place_below_a_file_is_refused(place, made, monkeypatch, line):
    """It stands for a place without permission too, which does not stop whoever may do everything."""
    shutil.copy(made / "m.understudy", place.model)
    (place.folder / "grid.toml").write_text(TINY_GRID)
    monkeypatch.chdir(place.folder)
    with place.untouched():
        result = place.run(*line.format("people.toml/new").split())
        assert_refused(result, "people.toml")
        assert "unexpected" not in result[2]


@pytest.mark.skipif(os.geteuid() == 0, reason="permission is never denied to root")
@pytest.mark.parametrize("line", FILES)
def test_a_file_without_permission_is_refused(place, made, monkeypatch, line):
    shutil.copy(made / "m.understudy", place.model)
    monkeypatch.chdir(place.folder)
    name = f"shut.{FILES[line]}"
    (place.folder / name).touch(mode=0o000)
    assert_refused(place.run(*line.format(name).split()), name)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("plan people.toml --epsilon 1 --method nope", ["'nope'", "copula"]),
        ("plan people.toml --epsilon 1 --rows -3", ["rows: expected", "-3"]),
        ("sample m.understudy -n 3 --seed -1 -o o.csv", ["seed: expected"]),
        ("sample m.understudy -n 3 --where agee=3 -o o.csv", ["'agee'", "Did you mean 'age'?"]),
        ("sample m.understudy -n 3 --where age -o o.csv", ["'age'", "column=value"]),
        ("sample m.understudy -n 3 --where age=old -o o.csv", ["'age'", "'old'"]),
        ("evaluate people.csv people.csv people.toml --metrics wdd", ["'wdd'", "Did you mean 'wd'?"]),
        ("evaluate people.csv people.csv people.toml --metrics wd --learners smv", ["'smv'", "Did you mean 'svm'?"]),
        ("evaluate people.csv people.csv people.toml --learners svm", ["target"]),
        ("evaluate people.csv people.csv people.toml --seed -1", ["--seed: expected"]),
        ("report m.understudy --learners svm -o o.html", ["target"]),
        ("report m.understudy -n 0 -o o.html", ["rows: expected"]),
        ("report m.understudy --train people.csv -o o.html", ["train"]),
        ("report m.understudy -o o.pdf", ["o.pdf", ".html"]),
        ("ledger cap new.jsonl people --epsilon nan --delta 1e-6", ["epsilon: expected"]),
        ("bench people.toml -o results", ["people.toml", "unknown key"]),
        ("bench table people.csv", ["expected a folder", "people.csv"]),
        ("demo -o people.csv", ["people.csv", "is not a folder", "-o"]),
    ],
)
def test_a_wrong_argument_of_any_command_is_refused(place, made, monkeypatch, line, words):
    shutil.copy(made / "m.understudy", place.model)
    monkeypatch.chdir(place.folder)
    with place.untouched():
        assert_refused(place.run(*line.split()), *words)


@pytest.mark.parametrize(
    "line", ["figures need matplotlib. Run: pip install 'understudy[eval]'", "No module named 'x'"]
)
def test_a_missing_library_is_named_with_what_to_do(place, monkeypatch, line):
    def fail(*arguments, **options):
        raise ImportError(line)

    monkeypatch.setattr(us, "fit", fail, raising=False)
    with place.untouched():
        assert_refused(place.fit(), line, "pip install" if "pip" in line else "understudy doctor")


# Anything at all --------------------------------------------------------------------------------------------------

FUZZ = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
PIECES = st.sampled_from(
    [HEADER, "name", "age", ",", "\n", "\r\n", "\r", '"', '""', "40", "-1", "1e308", "nan", "\x00", "é", "\ufeff", " "]
)


def check_any(place, content):
    place.data.write_bytes(content)
    place.model.unlink(missing_ok=True)
    code, out, err = place.fit("--quiet", "--method", "independent")
    assert_discreet(out, err)
    assert (code, err.count("\n"), place.model.exists()) in [(0, 0, True), (1, 1, False)]
    assert "unexpected" not in err
    assert sorted(path.name for path in place.folder.iterdir() if path != place.model) == ["people.csv", "people.toml"]


@FUZZ
@given(content=st.binary(max_size=200))
def test_any_bytes_end_in_a_line_or_a_model(place, content):
    check_any(place, content)


@FUZZ
@given(content=st.binary(max_size=100))
def test_any_bytes_behind_a_header_end_in_a_line_or_a_model(place, content):
    check_any(place, HEADER.encode() + content)


@FUZZ
@given(pieces=st.lists(PIECES, max_size=30))
def test_any_near_csv_ends_in_a_line_or_a_model(place, pieces):
    check_any(place, "".join(pieces).encode())


@FUZZ
@given(text=st.text(max_size=60), kind=st.sampled_from(["integer", "continuous", "boolean", "datetime", "categorical"]))
def test_any_cell_ends_in_a_line_or_a_model(place, text, kind):
    bounds = "low = 0\nhigh = 9\n" if kind in ("integer", "continuous") else ""
    place.schema.write_text(f'[columns.a]\nkind = "{kind}"\n{bounds}')
    place.data.write_bytes(f"a\n1\n{text}\n".encode())
    code, out, err = place.fit("--quiet", "--method", "independent")
    assert_discreet(out, err)
    assert (code, err.count("\n")) in [(0, 0), (1, 1)]
    assert "unexpected" not in err


def test_an_unexpected_error_shows_its_type_alone(place, monkeypatch):
    def fail(*arguments, **options):
        raise ValueError(f"could not convert {SECRET}")

    monkeypatch.setattr(us, "fit", fail, raising=False)
    with place.untouched():
        assert_refused(place.fit(), "unexpected ValueError", "UNDERSTUDY_DEBUG")
    monkeypatch.setenv("UNDERSTUDY_DEBUG", "1")
    with pytest.raises(ValueError, match=SECRET):
        main(["fit", str(place.data), str(place.schema), "--epsilon", "1", "-o", str(place.model)])


def test_the_receipt_of_a_fit_holds_no_cell(place):
    code, out, _ = place.fit("--json")
    assert code == 0 and SECRET not in out
    assert math.isclose(json.loads(out)["budget"]["epsilon"], 1.0)
