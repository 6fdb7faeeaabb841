"""The example scripts: each runs anywhere, says what it should, and leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SCRIPTS = sorted(ROOT.glob("examples/*.py"))
SAYS = {
    "01_first_table": ["Privacy receipt", "Five members who do not exist", "correlation of age and loans"],
    "02_many_rows_per_person": ["one patient", "refused: ", "nothing was read", "in 1 fit; cap: epsilon = 1.5"],
    "04_database": ["one row of patients", "referential integrity: broken by 0.0%", "Verdict: ", "siblings, "],
    "03_compare_methods": ["Not covered by the budget", "privbayes", "(real rows)", "F1 = "],
}


# The first and the third train networks, and the fourth fits three tables.
EXAMPLES = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * path.stem.startswith(("01", "03", "04")))
    for path in SCRIPTS
]


@pytest.mark.parametrize("path", EXAMPLES)
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
