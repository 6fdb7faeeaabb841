"""The documentation: every block runs, every link leads somewhere, and no part of the code is left out.

Blocks fenced as python or sh run as they stand, in the order of their page, in one empty folder a page; toml blocks are
schemas. Blocks fenced as text are for reading only.
"""

import ast
import dataclasses
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import understudy as us
from test_house import BENCH, HOUSE, PLAN
from understudy.cli import cli
from understudy.schema import KINDS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")] + sorted(ROOT.glob("docs/*.md"))
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
every_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)


def blocks(path: Path) -> list[tuple[str, str]]:
    """The language and the text of every fenced block, without the indent of a list around it."""
    found = FENCE.findall(path.read_text())
    return [(language, re.sub(f"^{indent}", "", text, flags=re.MULTILINE)) for indent, language, text in found]


def run_python(text: str) -> None:
    exec(compile(text, "block", "exec"), {"__name__": "block"})


def run_shell(text: str) -> None:
    for line in text.splitlines():
        if line.startswith("understudy "):
            result = CliRunner().invoke(cli, shlex.split(line, comments=True)[1:], prog_name="understudy")
            assert (result.exit_code, result.stderr) == (0, ""), line
        else:
            subprocess.run(["bash", "-euc", line], check=True)


def run_toml(text: str) -> None:
    assert us.plan(us.Schema.parse(text), epsilon=1.0).items


RUNNERS = {"python": run_python, "sh": run_shell, "toml": run_toml, "text": lambda text: None}


@every_page
def test_every_block_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for language, text in blocks(path):
        RUNNERS[language](text)


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
            assert page.is_file(), target
            assert not anchor or anchor in anchors(page), target


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_every_file_and_target_it_names_is_there(path):
    text = path.read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z]+)", text, re.MULTILINE)) <= targets
    for name in re.findall(r"`(test_[a-z_]+\.py)`", text):
        assert (ROOT / "tests" / name).is_file(), name


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


def test_the_privacy_page_has_a_line_for_every_hatch():
    trees = [ast.parse((HOUSE / name).read_text()) for name in ("mechanisms.py", "dpsgd.py")]
    hatches = {
        function.name
        for tree in trees
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
        and any(isinstance(node, ast.Attribute) and node.attr == "pay" for node in ast.walk(function))
    }
    first = {name for row in table_rows(ROOT / "docs" / "privacy.md") for name in names_in(row[0])}
    assert hatches and hatches <= first


def rooms() -> set[str]:
    """Every room there is now."""
    return {path.stem for path in HOUSE.glob("*.py")} | {path.parent.name for path in HOUSE.glob("*/__init__.py")}


def test_the_floor_plan_has_every_room_with_what_it_may_import():
    plan = {next(iter(names_in(row[0]))): row[2] for row in table_rows(ROOT / "docs" / "house.md") if names_in(row[0])}
    assert set(plan) == rooms()
    for room, cell in plan.items():
        if room == "synthesizers":
            continue
        allowed = PLAN[room]
        assert cell == "anything" if allowed is None else names_in(cell) == allowed & rooms(), room


def test_the_floor_plan_says_what_a_bench_may_import():
    text = (ROOT / "docs" / "house.md").read_text()
    sentence = next(part for part in text.split("\n\n") if part.startswith("A bench ")).split("no other bench")[0]
    assert names_in(sentence.split("may import")[1]) == BENCH & rooms()


# Their form ---------------------------------------------------------------------------------------------------------


def test_the_readme_begins_with_a_sentence_and_eight_lines_of_python():
    assert (ROOT / "README.md").read_text().split("\n\n")[1].startswith("Synthetic tables under differential privacy")
    language, text = blocks(ROOT / "README.md")[0]
    assert (language, len([line for line in text.splitlines() if line])) == ("python", 8)


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
