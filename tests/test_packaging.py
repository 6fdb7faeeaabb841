"""What is released: one version everywhere, a container that keeps the rules, and workflows that name real targets."""

import importlib.util
import re
import shlex
import tomllib
import zipfile
from pathlib import Path

import jinja2
import pytest

from understudy.core.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def release():
    specification = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


# One version --------------------------------------------------------------------------------------------------------


def test_every_file_that_states_the_version_states_this_one():
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    recipe = re.search(r'set version = "(.+)"', (ROOT / "recipe" / "meta.yaml").read_text())
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert [each[1] for each in (citation, recipe, newest) if each] == [__version__] * 3
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def test_the_conda_recipe_needs_what_the_project_needs():
    recipe = (ROOT / "recipe" / "meta.yaml").read_text()
    listed = re.findall(r"^    - (\S+) (>=\S+)$", recipe.split("  run:\n")[1].split("\ntest:")[0], re.MULTILINE)
    assert {name + least for name, least in listed if name != "python"} == set(PROJECT["dependencies"])


def test_the_conda_recipe_renders():
    yaml = pytest.importorskip("yaml")
    template = jinja2.Template((ROOT / "recipe" / "meta.yaml").read_text(), undefined=jinja2.StrictUndefined)
    recipe = yaml.safe_load(template.render(PYTHON="python", python_min="3.11"))
    assert recipe["package"] == {"name": PROJECT["name"], "version": __version__}
    assert recipe["source"]["url"].endswith(f"/understudy_dp-{__version__}.tar.gz")
    scripts = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["build"]["entry_points"] == scripts
    host = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {each.replace(" ", "") for each in recipe["requirements"]["host"][2:]} == set(host)
    run = {each.replace(" ", "") for each in recipe["requirements"]["run"]}
    assert run == {*PROJECT["dependencies"], "python" + PROJECT["requires-python"]}
    assert recipe["about"]["license"] == PROJECT["license"]


def test_the_citation_names_the_authors_of_the_paper_and_nobody_else():
    text = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"family-names: (\w+)", text) == ["Jia", "Ma", "Li", "Wang"]
    assert re.findall(r'- name: "(.+)"', text) == ["The understudy maintainers"]


# The wheel ----------------------------------------------------------------------------------------------------------


def test_a_wheel_without_one_of_its_files_is_noticed(release, tmp_path):
    known = [path for path in (ROOT / "src" / "understudy").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    with zipfile.ZipFile(tmp_path / "w.whl", "w") as archive:
        for path in known:
            if path.name != "page.html":
                archive.write(path, path.relative_to(ROOT / "src"))
    assert release.missing_files(tmp_path / "w.whl") == ["understudy/report/page.html"]


def test_package_data_covers_every_file_that_is_not_python():
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["understudy"]
    package = ROOT / "src" / "understudy"
    covered = {path for pattern in stated for path in package.glob(pattern)}
    data = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert data <= covered


def test_the_classifiers_are_the_versions_that_are_tried(release):
    stated = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert tuple(stated) == release.VERSIONS
    assert PROJECT["requires-python"] == f">={release.VERSIONS[0]}"


# The container: rules after those of hadolint (https://github.com/hadolint/hadolint/wiki) ----------------------------


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, each with its words on one line."""
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    return [(line.split()[0].upper(), line.split(None, 1)[1]) for line in joined.splitlines() if line.strip()]


def broken_rules(text: str) -> set[str]:
    """The rules that a Dockerfile breaks, by hadolint's numbers."""
    lines = instructions(text)
    runs = " ; ".join(words for name, words in lines if name == "RUN")
    images = [words.split()[0] for name, words in lines if name == "FROM"]
    users = [words for name, words in lines if name == "USER"]
    commands = [words for name, words in lines if name in ("CMD", "ENTRYPOINT")]
    checks = {
        "DL3006 an image has a version": all(":" in image for image in images),
        "DL3007 no latest": not any(image.endswith(":latest") for image in images),
        "DL3002 the last user is not root": bool(users) and users[-1] not in ("root", "0"),
        "DL3066 users are numbers, which a host need not look up": all(user.isdigit() for user in users),
        "DL3000 working directories are absolute": all(
            words.startswith("/") for name, words in lines if name == "WORKDIR"
        ),
        "DL3003 WORKDIR, not cd": not re.search(r"\bcd ", runs),
        "DL3004 no sudo": "sudo" not in runs,
        "DL3020 COPY, not ADD": not any(name == "ADD" for name, _ in lines),
        "DL3025 commands are lists": all(words.startswith("[") for words in commands),
        "DL3042 pip keeps no cache": "pip install" not in runs or "--no-cache-dir" in runs,
        "DL3008 no apt packages without a version": "apt-get install" not in runs,
        "DL4000 no MAINTAINER": not any(name == "MAINTAINER" for name, _ in lines),
        "DL4003 one CMD": sum(name == "CMD" for name, _ in lines) == 1,
        "DL4004 one ENTRYPOINT": sum(name == "ENTRYPOINT" for name, _ in lines) <= 1,
    }
    return {rule for rule, kept in checks.items() if not kept}


def test_the_dockerfile_keeps_the_rules():
    assert broken_rules((ROOT / "Dockerfile").read_text()) == set()


def test_the_rules_can_be_broken():
    bad = "FROM python:latest\nUSER root\nADD x /x\nWORKDIR x\nRUN cd /x && sudo pip install x\nCMD understudy\n"
    assert {rule.split()[0] for rule in broken_rules(bad)} >= {
        *("DL3000", "DL3002", "DL3003", "DL3004", "DL3007", "DL3020", "DL3025", "DL3042", "DL3066"),
    }


def test_the_container_runs_the_studio_and_copies_only_what_it_was_given():
    lines = dict(instructions((ROOT / "Dockerfile").read_text()))
    assert lines["ENTRYPOINT"] == '["understudy"]' and lines["CMD"].startswith('["studio", "--no-browser"')
    assert (ROOT / ".dockerignore").read_text().splitlines()[1] == "*"
    copied = [words for name, words in instructions((ROOT / "Dockerfile").read_text()) if name == "COPY"]
    for words in copied[:2]:
        assert all((ROOT / name).exists() for name in shlex.split(words)[:-1])


# Workflows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_real_targets_and_takes_few_rights(path):
    text = path.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"run: make ([a-z-]+)", text)) <= targets
    assert "\npermissions:\n  contents: read\n" in text
    loose = [used for used in re.findall(r"uses: (.+)", text) if not re.search(r"@[0-9a-f]{40} # v\d", used)]
    assert loose in ([], ["pypa/gh-action-pypi-publish@release/v1"])  # a branch, and not pinned yet
    assert "\t" not in text
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_the_jobs_of_a_workflow_need_each_other_and_end(path):
    jobs = pytest.importorskip("yaml").safe_load(path.read_text())["jobs"]
    for job in jobs.values():
        needed = job.get("needs", [])
        assert set([needed] if isinstance(needed, str) else needed) <= set(jobs)
        assert all(set(step) & {"uses", "run"} for step in job["steps"])
        assert "timeout-minutes" in job or "environment" in job


def test_the_workflows_test_build_and_document(release):
    assert [path.stem for path in WORKFLOWS] == ["build", "docs", "test"]
    matrix = re.search(r"python: \[(.+)\]", (ROOT / ".github" / "workflows" / "test.yml").read_text())
    assert matrix and tuple(re.findall(r"[\d.]+", matrix[1])) == release.VERSIONS
