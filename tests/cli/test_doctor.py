"""The doctor: it finds what is broken, says what to do, and changes nothing."""

import dataclasses
import json
import socket

import polars as pl
import pytest
from packaging.specifiers import SpecifierSet

import commands
import understudy as us
from understudy import datasets
from understudy.cli.doctor import checks, machine, packages, self_test
from understudy.cli.doctor.finding import Finding
from understudy.cli.doctor.packages import PURPOSES, Need

PARTS = ["python", "dependencies", "extra", "devices", "x64", "cache", "data", "entropy", "disk", "memory"]
SELF_TEST = ["fit", "receipt", "sample", "repetition", "speed"]


def run(*arguments):
    return commands.run("doctor", *arguments)


@pytest.fixture(scope="module")
def visit(tmp_path_factory):
    """One visit, in an empty folder and without a network: what was printed as JSON, and the folder afterwards."""

    def refuse(*arguments):
        raise OSError("there is no network here")

    folder = tmp_path_factory.mktemp("visit")
    (folder / "cache").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setattr(socket.socket, "connect", refuse)
        result = run("--json")
    return result, folder


@pytest.mark.slow
def test_no_problem_is_found_here(visit):
    result, _ = visit
    assert (result.exit_code, result.stderr) == (0, "")
    seen = json.loads(result.stdout)
    assert seen["healthy"] is True and seen["version"] == us.__version__
    assert not [check for check in seen["checks"] if check["state"] == "problem"]


@pytest.mark.slow
def test_every_part_is_looked_at_and_then_a_fit_is_made(visit):
    names = [check["name"] for check in json.loads(visit[0].stdout)["checks"]]
    assert list(dict.fromkeys(names)) == [*PARTS, *SELF_TEST]


@pytest.mark.slow
def test_it_leaves_no_file_behind(visit):
    left = {path.relative_to(visit[1]).as_posix() for path in visit[1].rglob("*") if path.is_file()}
    assert all(path.startswith("cache/understudy/costs/") for path in left)  # prices of plans, which hold no row


@pytest.mark.slow
def test_a_note_and_a_problem_say_what_to_do(visit):
    for check in json.loads(visit[0].stdout)["checks"]:
        assert bool(check["advice"]) == (check["state"] != "ok")


# What is broken -----------------------------------------------------------------------------------------------------


def need(name, asked="", extra=""):
    return Need(name=name, versions=SpecifierSet(asked), extra=extra)


def broken():
    yield Finding(name="one", state="ok", fact="it is there")
    raise RuntimeError("no\ndevice.")


def fine():
    yield Finding(name="two", state="note", fact="it is slow", advice="Wait.")


def test_a_check_that_fails_is_a_problem_and_the_next_one_is_still_made(monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", {"devices": broken, "two": fine})
    one, problem, two = checks.examine()
    assert (one.state, problem.state, two.state) == ("ok", "problem", "note")
    assert problem.name == "devices" and problem.fact == "RuntimeError: no device" and problem.advice


def test_a_problem_ends_in_one_line_and_exit_1(monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", {"devices": broken, "two": fine})
    result = run()
    assert result.exit_code == 1 and result.stderr.count("\n") == 1 and "1 problem" in result.stderr
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ok", "problem", "note"]
    assert lines[2].endswith("it is slow. Wait.")


def test_a_problem_as_json_is_still_one_object_and_exit_1(monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", {"devices": broken})
    result = run("--json")
    assert result.exit_code == 1 and result.stderr.count("\n") == 1
    assert json.loads(result.stdout)["healthy"] is False


def test_notes_alone_are_no_reason_to_fail(monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", {"two": fine})
    result = run()
    assert (result.exit_code, result.stderr) == (0, "") and "No problem found" in result.stdout


# What it is built on ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "asked", "met"),
    [
        ("8.1", ">=8.1", True),
        ("8.10", ">=8.9", True),
        ("8.1.7", ">=8.1", True),
        ("13", ">=13.0", True),
        ("2.1.0rc1", ">=2.1", False),
        ("2.1.0rc1", ">=2.0", True),
        ("0.6.9", ">=0.7", False),
        ("3.11.7+local", ">=3.11", True),
        ("1.0", "", True),
        ("4.1", ">=3.0,<4", False),
    ],
)
def test_versions_are_compared_as_pip_compares_them(monkeypatch, version, asked, met):
    monkeypatch.setattr(packages.importlib.metadata, "version", lambda name: version)
    assert need("anything", asked).is_met is met


def test_requirements_are_read_as_pip_reads_them():
    texts = [
        "click>=8.1",
        'POT>=0.9.4; extra == "eval"',
        "jax[cuda13]>=0.7; extra == 'gpu'",
        "nowhere>=3.0; sys_platform == 'nowhere' and extra == \"eval\"",
        "elsewhere>=3.0; sys_platform != 'nowhere' and extra == \"eval\"",
        "understudy-dp[eval]; extra == 'gpu'",
        "any",
    ]
    assert list(packages._needs((text, ["", "eval", "gpu"]) for text in texts)) == [
        need("click", ">=8.1"),
        need("POT", ">=0.9.4", "eval"),
        need("jax-cuda13-plugin", ">=0.7", "gpu"),
        need("elsewhere", ">=3.0", "eval"),
        need("any"),
    ]


def test_every_dependency_and_extra_of_the_project_is_known():
    known = {need.name: need.extra for need in packages.needs()}
    assert known["click"] == known["jax"] == "" and known["matplotlib"] == "eval" and known["pytest"] == "dev"
    assert {"eval", "gpu", "dev"} <= set(known.values()) - {""} <= set(PURPOSES)


@pytest.mark.parametrize(
    ("name", "asked", "words"), [("click", ">=999", "is installed"), ("no-such", ">=1.0", "it is not")]
)
def test_what_is_missing_or_too_old_is_a_problem(name, asked, words):
    (finding,) = packages.unmet_needs([need(name, asked), need("click", ">=8.1")])
    assert finding.state == "problem" and words in finding.fact
    assert finding.advice == f"Run: pip install '{name}{asked}'"


def test_without_a_checkout_what_was_installed_says_what_is_needed(monkeypatch):
    monkeypatch.setattr(packages, "_project", lambda: None)
    known = {need.name: need.extra for need in packages.needs()}
    assert known["click"] == "" and known["matplotlib"] == "eval"
    assert [finding.state for finding in packages.check_python()] == ["ok"]


def test_the_versions_name_what_is_installed():
    found = packages.installed_versions()
    assert found["understudy"] == us.__version__ and found["packages"]["polars"] == pl.__version__
    assert None not in found["packages"].values()


# The machine --------------------------------------------------------------------------------------------------------


def test_the_cache_is_measured(tmp_path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "program").write_bytes(bytes(3 * 2**20))
    finding = machine.cache_finding(tmp_path / "jax")
    assert finding.state == "ok" and "3 MiB" in finding.fact


def test_a_cache_that_is_not_there_yet_is_judged_by_where_it_would_be(tmp_path):
    finding = machine.cache_finding(tmp_path / "new" / "jax")
    assert finding.state == "ok" and "when first needed" in finding.fact
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written_is_a_note(tmp_path):
    (tmp_path / "file").write_text("in the way")
    finding = machine.cache_finding(tmp_path / "file" / "jax")
    assert finding.state == "note" and "XDG_CACHE_HOME" in finding.advice


def test_public_tables_are_found_in_both_places(tmp_path):
    folder, cache = tmp_path / "data", tmp_path / "cache"
    for place, name in ((folder, "adult"), (cache, "cpu_act")):
        place.mkdir()
        (place / f"{name}.csv").write_text("")
    tables = ["adult", "california", "cpu_act"]
    assert "2 of 3 public tables are here (adult, cpu_act)" in machine.data_finding(folder, cache, tables).fact
    assert "1 of 3 public tables are here (cpu_act)" in machine.data_finding(None, cache, tables).fact
    assert machine.data_finding(tmp_path / "gone", cache, tables).state == "note"


def test_little_free_space_is_a_note():
    assert machine.free_finding("disk", 2**29, "512 MiB free").state == "note"
    assert machine.free_finding("disk", 2**31, "2 GiB free").state == "ok"


# The self-test ------------------------------------------------------------------------------------------------------

ASKED = us.Budget(epsilon=1.0, delta=1e-6)


@pytest.fixture(scope="module")
def receipt():
    return us.fit(datasets.example(100), datasets.example_schema(), "copula", epsilon=1.0, delta=1e-6).receipt


def test_an_honest_receipt_is_ok(receipt):
    assert self_test.receipt_finding(receipt, ASKED).state == "ok"


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 1.01, "rdp_epsilon": 2.0},
        {"rdp_epsilon": 0.1},
        {"delta": 1e-5},
        {"budget": us.Budget(epsilon=2.0, delta=1e-6)},
        {"charges": ()},
        {"seed": 1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_receipt_that_is_not_is_a_problem(receipt, change):
    finding = self_test.receipt_finding(dataclasses.replace(receipt, **change), ASKED)
    assert finding.state == "problem" and "Fit nothing here" in finding.advice


def test_rows_with_other_columns_or_of_another_number_are_a_problem():
    schema, rows = datasets.example_schema(), datasets.example(5)
    assert self_test.sample_finding(rows, schema, 5).state == "ok"
    assert self_test.sample_finding(rows.drop("age"), schema, 5).state == "problem"
    assert self_test.sample_finding(rows, schema, 6).state == "problem"


def test_a_seed_that_repeats_nothing_or_everything_is_a_problem():
    one, other = datasets.example(5, seed=1), datasets.example(5, seed=2)
    assert self_test.repetition_finding(one, one.clone(), other=other).state == "ok"
    assert self_test.repetition_finding(one, other, other=other).state == "problem"
    assert self_test.repetition_finding(one, one, other=one).state == "problem"


def test_a_slow_self_test_is_a_note():
    assert [self_test.time_finding(seconds).state for seconds in (2.0, 200.0)] == ["ok", "note"]
