"""The examples: each script runs and says what it should, and the example method keeps the contract of all others."""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_contract  # pyright: ignore[reportMissingImports]

from conftest import mixed_table
from test_docs import ROOT, blocks, run_python, workshop_as_it_was
from understudy.synthesizers import FITTED, METHODS

SCRIPTS = sorted(ROOT.glob("examples/*.py"))
SAYS = {
    "01_first_table": ["Privacy receipt", "Five members who do not exist", "correlation of age and loans"],
    "02_many_rows_per_person": ["one patient", "refused: ", "nothing was read", "in 1 fit; cap: epsilon = 1.5"],
    "03_compare_methods": ["Not covered by the budget", "privbayes", "(real rows)", "F1 = "],
}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_example_runs_anywhere_and_leaves_nothing_behind(path: Path, tmp_path):
    result = subprocess.run(
        [sys.executable, path], cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"COLUMNS": "120"}
    )
    assert (result.returncode, result.stderr) == (0, "")
    for words in SAYS[path.stem]:
        assert words in result.stdout
    assert not list(tmp_path.iterdir())


def test_every_example_says_how_it_is_run():
    assert {path.stem for path in SCRIPTS} == set(SAYS)
    for path in SCRIPTS:
        assert f"python examples/{path.name}" in path.read_text()


# The example method ---------------------------------------------------------------------------------------------------

PROMISES = {name: test for name, test in vars(test_contract).items() if re.match("test_", name)}
# One case of each of the contract's own parameters.
CASE = {"column": "income", "rows": 1, "epsilon": 0.5, "seed": 0}


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The names that the page's blocks make."""
    names: dict[str, Any] = {"__name__": "page"}
    with workshop_as_it_was():
        for language, text in blocks(ROOT / "docs" / "adding-a-method.md"):
            if language == "python":
                run_python(text, names)
    return names


@pytest.mark.parametrize("promise", PROMISES.values(), ids=PROMISES)
def test_the_example_method_keeps_the_contract(promise: Callable, page, monkeypatch, tmp_path):
    monkeypatch.setitem(METHODS, "chain", page["Chain"])
    monkeypatch.setitem(FITTED, "chain", page["BayesNet"])
    given = {"method": "chain", "mixed": mixed_table(1500), "tmp_path": tmp_path} | CASE
    promise(**{name: given[name] for name in inspect.signature(promise).parameters})


def test_the_example_method_is_not_left_in_the_workshop(page):
    assert "chain" not in METHODS and "chain" not in FITTED


def test_the_example_method_refuses_wrong_settings(page):
    with pytest.raises(ValueError, match="most_cells"):
        page["Chain"](most_cells=1)
