"""The documentation: every block runs, every link leads somewhere, and no part of the code is left out.

Blocks fenced as python or sh run as they stand, in the order of their page, in one folder a page that holds nothing but
`visits.csv`, which stands for a table of the reader's. What one python block names the next ones know. Blocks fenced as
toml are schemas, and one whose first line is `# NAME.toml` is saved under that name, as a reader would do it. Blocks
fenced as text are for reading only, but the commands in them must be ones that could be given.
"""

import ast
import contextlib
import csv
import dataclasses
import datetime
import html
import importlib.util
import itertools
import math
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import understudy as us
from test_architecture import PACKAGE, stated_matrix
from understudy.cli import cli
from understudy.privacy.plan import Budget
from understudy.report.privacy import attacker
from understudy.synthesizers import FITTED, METHODS
from understudy.tables.column import KINDS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")] + sorted(ROOT.glob("docs/*.md"))
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
every_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
FIRST = datetime.date(2020, 1, 1)
NEEDS_ADULT = ROOT / "docs" / "tutorial.md"


def blocks(path: Path) -> list[tuple[str, str]]:
    """The language and the text of every fenced block, without the indent of a list around it."""
    found = FENCE.findall(path.read_text())
    return [(language, re.sub(f"^{indent}", "", text, flags=re.MULTILINE)) for indent, language, text in found]


def run_python(text: str, names: dict[str, Any]) -> None:
    exec(compile(text, "block", "exec"), names)


def run_shell(text: str, names: dict[str, Any]) -> None:
    for line in text.splitlines():
        if line.startswith("understudy "):
            result = CliRunner().invoke(cli, shlex.split(line, comments=True)[1:], prog_name="understudy")
            assert result.exit_code == 0, line
            said = result.stderr  # where rules apply, it says how many rows keep them
            assert said == "" or "--where" in line or "keep the rules (100 %)" in said, line
        else:
            subprocess.run(["bash", "-euc", line], check=True)


def run_toml(text: str, names: dict[str, Any]) -> None:
    assert us.plan(us.Schema.parse(text), epsilon=1.0).items
    if named := re.match(r"# ([\w-]+\.toml)\n", text):
        Path(named[1]).write_text(text)


def check_text(text: str, names: dict[str, Any]) -> None:
    for line in text.splitlines():
        if line.startswith("understudy "):
            words = itertools.takewhile(lambda word: word not in (">", "|"), shlex.split(line, comments=True))
            parse(cli, [*words][1:])


def parse(command: click.Command, words: Sequence[str], parent: click.Context | None = None) -> None:
    """Reads a command line as the command would, and does nothing with it."""
    context = command.make_context(command.name, list(words), parent=parent)
    if isinstance(command, click.Group):
        _, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert inner is not None
        parse(inner, rest, context)


RUNNERS = {"python": run_python, "sh": run_shell, "toml": run_toml, "text": check_text}


def run(found: Sequence[tuple[str, str]]) -> None:
    """Runs blocks one after another, in the folder we are in."""
    names: dict[str, Any] = {"__name__": "page"}
    for language, text in found:
        RUNNERS[language](text, names)


def write_visits(folder: Path, n: int = 400) -> None:
    """A table as a reader may have one: several visits a patient, a name, dates, gaps, and two spellings of a gap."""
    draw = np.random.default_rng(0)
    age = draw.integers(0, 100, n)
    days = draw.integers(0, 2000, n)
    weight = [None if gone else round(kg, 1) for gone, kg in zip(draw.random(n) < 0.2, 20 + age * 0.6, strict=True)]
    frame = pl.DataFrame(
        {
            "patient_id": draw.integers(0, n // 2, n),
            "surname": draw.choice(["Ito", "Berg", "Okoro", "Silva"], n),
            "age": age,
            "weight": weight,
            "cost": np.where(draw.random(n) < 0.3, 50.0, draw.gamma(2.0, 80.0, n).round(2)),
            "ward": draw.choice(["surgery", "medicine", "children", "?"], n),
            "diagnosis": draw.choice(["fracture", "asthma", "migraine", "n/a"], n),
            "smoker": draw.choice(["yes", "no"], n),
            "admitted": [FIRST + datetime.timedelta(days=int(d)) for d in days],
            "discharged": [
                f"{FIRST + datetime.timedelta(days=int(d)):%d.%m.%Y}" for d in days + draw.integers(0, 9, n)
            ],
            "recorded": [datetime.datetime(2020, 1, 1, 7, 30) + datetime.timedelta(days=int(d)) for d in days],
        }
    )
    frame.write_csv(folder / "visits.csv")


@contextlib.contextmanager
def methods_as_they_were() -> Iterator[None]:
    """Takes out the methods that a page has registered."""
    before = [(known, dict(known)) for known in (METHODS, FITTED)]
    try:
        yield
    finally:
        for known, entries in before:
            known.clear()
            known.update(entries)  # pyright: ignore[reportCallIssue, reportArgumentType]


# Pages that train the default method or a learner for every column, or fit a large table, run with the slow tests.
# `.ci/run` runs the README's in any case.
TRAINS = {
    "README.md",
    "quickstart.md",
    "tutorial-database.md",
    "tutorial-messy-export.md",
    "privacy.md",
    "report.md",
    "evaluation.md",
}


def marks_of(path: Path) -> list[pytest.MarkDecorator]:
    return (
        [pytest.mark.dataset, pytest.mark.slow]
        if path == NEEDS_ADULT
        else [pytest.mark.slow]
        if path.name in TRAINS
        else []
    )


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=str(path.relative_to(ROOT)), marks=marks_of(path)) for path in PAGES]
)
def test_every_block_runs(path, tmp_path, monkeypatch, capsys):
    if path == NEEDS_ADULT and not Path(os.environ.get("UNDERSTUDY_DATA", "nowhere"), "adult.csv").is_file():
        pytest.skip("UNDERSTUDY_DATA does not name a folder with adult.csv")
    monkeypatch.chdir(tmp_path)
    write_visits(tmp_path)
    with methods_as_they_were():
        run(blocks(path))


def test_the_tutorial_s_schema_names_columns_of_adult():
    """Holds without the table, too."""
    written = next(text for language, text in blocks(ROOT / "docs" / "tutorial.md") if language == "toml")
    tutorial, ours = (
        us.Schema.parse(written),
        us.Schema.parse((PACKAGE / "datasets" / "data" / "adult.toml").read_text()),
    )
    assert {*tutorial.names, *tutorial.ignore} == set(ours.names)
    assert {column.name: column.kind for column in tutorial} == {name: ours[name].kind for name in tutorial.names}
    for column in tutorial:
        assert column.values is None or set(column.values) == set(ours[column.name].values or ())


def test_commands_that_are_only_shown_are_read_as_if_they_were_given():
    check_text((ROOT / "benchmarks" / "README.md").read_text(), {})
    with pytest.raises(click.UsageError, match="--epsilom"):
        check_text("understudy fit people.csv people.toml --epsilom 1 -o m.understudy", {})


@every_page
def test_every_fence_is_closed_and_named(path):
    assert path.read_text().count("```") == 2 * len(blocks(path))
    assert {language for language, _ in blocks(path)} <= set(RUNNERS)


@every_page
def test_every_link_leads_somewhere(path):
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        file, _, anchor = target.partition("#")
        if not file.startswith("https://"):
            page = (path.parent / file).resolve() if file else path
            assert page.exists(), target
            assert not anchor or anchor in anchors(page), target


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_every_file_and_target_it_names_is_there(path):
    text = path.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)) <= targets
    tests = {file.name for file in ROOT.glob("tests/**/test_*.py")}
    assert set(re.findall(r"(test_[a-z_]+\.py)`", text)) <= tests
    for name in re.findall(r"`((?:src|tests|benchmarks|docs)/[a-z_/.-]+)`", text):
        assert (ROOT / name).exists(), name


# A newcomer ---------------------------------------------------------------------------------------------------------


def section(path: Path, heading: str) -> str:
    return path.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]


@pytest.mark.slow
def test_six_commands_lead_from_a_clone_and_a_table_to_a_report_that_can_be_signed(tmp_path, monkeypatch):
    part = section(ROOT / "README.md", "Your own table, in six commands")
    steps = re.split(r"^\d\. ", part, flags=re.MULTILINE)[1:]
    commands = [line.strip() for step in steps for line in step.split("\nIf you")[0].splitlines() if is_command(line)]
    assert len(commands) == 6 and commands[0] == "pip install ."  # the continuous integration does what that does
    monkeypatch.chdir(tmp_path)
    write_visits(tmp_path)
    for command in commands[1:]:
        run([("sh", command)])
        if command.startswith("understudy schema draft"):  # the owner completes the draft
            run([block for block in blocks(ROOT / "README.md") if block[1].startswith("# visits.toml\n")])
    page, promise = html.unescape(Path("visits.html").read_text()), us.load("visits.understudy").receipt.promise
    assert "patient_id" in promise
    for words in (promise, "ledger", "not covered"):
        assert words in page
    assert len(pl.read_csv(tmp_path / "synthetic.csv")) == 10_000
    assert us.LedgerFile("budget.jsonl").total("visits").fits == 1


def is_command(line: str) -> bool:
    return line.strip().startswith(("pip ", "understudy ", "python ", "make "))


# Nothing is left out ------------------------------------------------------------------------------------------------


def table_rows(path: Path) -> list[list[str]]:
    """The cells of all tables of a page."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names_in(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def test_the_readme_has_a_line_for_every_method():
    first = {name for row in table_rows(ROOT / "README.md") for name in names_in(row[0])}
    assert set(us.METHODS) <= first


def test_the_readme_s_schema_has_every_kind():
    written = [us.Schema.parse(text) for language, text in blocks(ROOT / "README.md") if language == "toml"]
    assert {column.kind for schema in written for column in schema} == set(KINDS)


def test_the_schema_reference_has_every_key():
    first = {name for row in table_rows(ROOT / "docs" / "schema.md") for name in names_in(row[0])}
    keys = {field.name for owner in (us.Schema, us.Column) for field in dataclasses.fields(owner)}
    assert keys <= first


def test_the_privacy_page_has_a_line_for_every_mechanism():
    """A mechanism is a public function of the trusted base that takes rows, or jobs with rows, and charges a ledger."""
    mechanisms = {
        function.name
        for path in (PACKAGE / "privacy").rglob("*.py")
        for function in ast.parse(path.read_text()).body
        if isinstance(function, ast.FunctionDef) and not function.name.startswith("_")
        for arguments in [{each.arg for each in (*function.args.args, *function.args.kwonlyargs)}]
        if {"rows", "ledger"} <= arguments or "jobs" in arguments
    }
    first = {name for row in table_rows(ROOT / "docs" / "privacy.md") for name in names_in(row[0])}
    assert {"noisy_counts", "select_marginal", "train"} <= mechanisms <= first


def test_the_privacy_page_states_the_size_of_the_trusted_base():
    stated = re.search(r"about ([\d ]+) lines", (ROOT / "docs" / "privacy.md").read_text())
    assert stated
    lines = sum(len(path.read_text().splitlines()) for path in (PACKAGE / "privacy").rglob("*.py"))
    assert abs(int(stated[1].replace(" ", "")) - lines) <= 0.05 * lines


def test_the_architecture_page_has_every_wing():
    wings = {path.stem for path in PACKAGE.glob("*.py")} | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert set(stated_matrix()) == wings


def test_the_index_has_every_page_and_every_example():
    linked = set(re.findall(r"\]\(([^)]+)\)", (ROOT / "docs" / "README.md").read_text()))
    pages = {path.name for path in ROOT.glob("docs/*.md")} - {"README.md"}
    examples = {f"../examples/{path.name}" for path in ROOT.glob("examples/*.py")}
    assert pages | examples <= linked


def test_the_command_reference_is_what_the_commands_say():
    specification = importlib.util.spec_from_file_location("commands", ROOT / "docs" / "commands.py")
    assert specification and specification.loader
    commands = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(commands)
    assert commands.PAGE.read_text() == commands.render() + "\n", "docs/commands.md is out of date: run `make docs`"


def test_choosing_has_every_method():
    first = {name for row in table_rows(ROOT / "docs" / "choosing.md") for name in names_in(row[0])}
    assert set(us.METHODS) <= first


# Their figures ------------------------------------------------------------------------------------------------------


def test_bounds_on_an_attacker_are_rounded_up_from_the_formulas():
    rows = [
        row for row in table_rows(ROOT / "docs" / "choosing.md") if len(row) == 6 and re.fullmatch(r"[\d.]+", row[0])
    ]
    assert len(rows) == 8
    for epsilon, factor, *shown in rows:
        bound = attacker(Budget(epsilon=float(epsilon), delta=1e-6), gaussian=True)
        exact = [each[key] for key in ("right", "true_positives") for each in (bound, bound["gaussian"])]
        for percent, share in zip(shown, exact, strict=True):
            assert float(percent.removesuffix(" %")) == pytest.approx(math.ceil(1000 * share - 1e-9) / 10), epsilon
        assert 0 <= float(factor) - math.exp(float(epsilon)) < 0.1


def means(name: str, score: str) -> dict[tuple[str, float | None, str], str]:
    """The means of a score in a table of committed results, to two places, by label, epsilon and data set."""
    with (ROOT / "benchmarks" / "results" / name).open() as file:
        lines = [line for line in csv.DictReader(file) if line["score"] == score and line["mean"]]
    return {
        (
            line["label"],
            float(line["epsilon"]) if line["epsilon"] else None,
            line["dataset"],
        ): f"{float(line['mean']):.2f}"
        for line in lines
    }


def test_figures_of_usefulness_are_those_of_the_committed_results():
    found = means("real-data/r2.csv", "r2/catboost")
    shown = {row[0]: row[1:] for row in table_rows(ROOT / "docs" / "choosing.md") if len(row) == 4}
    tables = ("california", "house_16h", "cpu_act")
    for epsilon in ("0.2", "1", "5"):
        assert shown[epsilon] == [found["copula", float(epsilon), table] for table in tables], epsilon
    assert shown["real rows"] == [found["real rows", None, table] for table in tables]


def test_figures_of_structure_are_those_of_the_committed_results():
    found = means("example/structure.csv", "structure/f1")
    text = " ".join((ROOT / "docs" / "choosing.md").read_text().split())
    one, five = (found["prada-gan", epsilon, "example"] for epsilon in (1.0, 5.0))
    assert f"a mean F1 of {one} at ε = 1 and {five} at ε = 5" in text


# Their form ---------------------------------------------------------------------------------------------------------


def test_the_readme_begins_with_a_sentence_a_picture_a_command_and_the_promise():
    text = (ROOT / "README.md").read_text()
    first, second = text.split("\n\n")[1:3]
    assert first.startswith("Synthetic tables under differential privacy")
    assert re.fullmatch(r"!\[.{80,}\]\(docs/demo\.svg\)", second)
    assert blocks(ROOT / "README.md")[0] == ("text", "make demo\n")  # the continuous integration gives it in a clone
    screen = text[: text.index("\n## ")]
    assert "**What is promised.**" in screen and "**What is not.**" in screen
    assert len(screen.splitlines()) <= 45


def test_the_readme_s_first_python_has_eight_lines():
    text = next(text for language, text in blocks(ROOT / "README.md") if language == "python")
    assert len([line for line in text.splitlines() if line]) == 8


def test_pictures_ask_nothing_of_other_machines():
    for path in [*ROOT.glob("docs/*.svg"), *ROOT.glob("docs/gallery/*.html"), *ROOT.glob("docs/site/*")]:
        text = path.read_text("utf-8")
        assert not re.search(r"""(?:src|href)=["']?https?:|url\(["']?https?:|@import""", text), path


def test_privacy_comes_first_in_every_release():
    releases = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1:]
    assert releases
    for release in releases:
        assert re.findall(r"^### (.+)$", release, re.MULTILINE)[0] == "Privacy"


def test_contributing_fits_on_one_screen():
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 40


@every_page
def test_pages_speak_of_the_project_alone(path):
    assert not re.search(r"shared/|/work/|\bissue \d|findings\.md|design\.md", path.read_text())
