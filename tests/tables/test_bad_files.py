"""Bad files: whatever a command is given in place of the file it reads is refused by its name."""

import os
import shutil
import zipfile

import pytest

import understudy as us
from bad_input import GOOD, SCHEMA, assert_refused
from conftest import TINY_GRID

# Model files ------------------------------------------------------------------------------------------------------


def foreign_models(model):
    """Empty, text, cut short, and with one byte changed."""
    whole = model.read_bytes()
    yield b""
    yield GOOD.encode()
    for part in (1, 30, len(whole) // 2, len(whole) - 1):
        yield whole[:part]
    middle = whole.index(b"arrays.npz") + 100  # among its compressed bytes: dates in the headers of a zip are not read
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
