"""The notebooks of the documentation: executed, small, and executed again by the slow tests."""

import json
import re
from pathlib import Path

import pytest

import understudy as us

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code(notebook: dict) -> list[dict]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def kinds(notebook: dict) -> list[list[str]]:
    """What each cell shows: the kinds of its outputs, and of a picture or a table which."""
    return [
        [",".join([output["output_type"], *sorted(output.get("data", {}))]) for output in cell["outputs"]]
        for cell in code(notebook)
    ]


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["budget", "first-table", "methods"]


@every_notebook
def test_it_was_executed_without_an_error_and_is_small(path):
    text = path.read_text("utf-8")
    notebook = json.loads(text)
    assert len(text) < 60_000
    assert [cell["execution_count"] for cell in code(notebook)] == list(range(1, len(code(notebook)) + 1))
    assert not re.search(r'"(error|stderr)"|/tmp/|/home/|/root/', text)
    assert any("image/svg+xml" in kind for cell in kinds(notebook) for kind in cell)
    assert f"understudy {us.__version__}" in text or "Privacy receipt" not in text


@pytest.mark.slow
@every_notebook
def test_it_runs_again_and_shows_the_same_kinds_of_things(path, tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(Path(us.__file__).parents[1]))  # the kernel tests this code, wherever it runs
    committed = json.loads(path.read_text("utf-8"))
    again = nbformat.reads(path.read_text("utf-8"), as_version=4)
    nbclient.NotebookClient(again, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert kinds(again) == kinds(committed)
