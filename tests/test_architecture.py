"""The house: rooms import only what the plan allows, the box is opened in two places, and the front door is light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import understudy

HOUSE = Path(understudy.__file__).parent
BENCH = {
    "accounting",
    "bayesnet",
    "budget",
    "distributions",
    "encoding",
    "marginals",
    "mechanisms",
    "pgm",
    "dpsgd",
    "randomness",
    "schema",
    "strata",
}
# What each room may import. A bench is any module under synthesizers; `None` may import anything.
PLAN: dict[str, set[str] | None] = {
    "__init__": None,  # lazy: `test_the_front_door_is_light` holds it
    "__main__": {"cli"},
    "files": set(),
    "randomness": set(),
    "distributions": set(),
    "accounting": set(),
    "constraints": set(),
    "foreign": {"files"},
    "notebooks": set(),
    "rejection": {"constraints", "randomness"},
    "schema": {"constraints", "files", "foreign", "notebooks"},
    "sources": {"files", "schema"},
    "table": {"files", "schema", "sources"},
    "budget": {"accounting", "notebooks"},
    "ledger_file": {"accounting", "budget", "files"},
    "mechanisms": {"accounting", "budget", "randomness"},
    "apart": set(),
    "strata": set(),
    "dpsgd": {"accounting", "apart", "budget", "files", "mechanisms", "randomness"},
    "encoding": {"accounting", "schema", "table", "budget", "mechanisms", "distributions", "randomness"},
    "bayesnet": {"encoding", "randomness", "schema", "strata"},
    "marginals": {"accounting", "budget", "encoding", "mechanisms", "randomness"},
    "pgm": {"bayesnet", "encoding", "marginals", "schema"},
    "datasets": {"files", "schema"},
    "simulators": {"schema"},
    "model": {
        "accounting",
        "budget",
        "constraints",
        "distributions",
        "encoding",
        "files",
        "notebooks",
        "randomness",
        "rejection",
        "schema",
        "synthesizers",
        "table",
    },
    "pipeline": {
        "accounting",
        "budget",
        "encoding",
        "ledger_file",
        "mechanisms",
        "model",
        "randomness",
        "schema",
        "synthesizers",
        "table",
    },
    "metrics": {"schema", "table"},
    "metrics/__init__": set(),
    "metrics/pair": {"schema", "table"},
    "metrics/similarity": {"metrics"},
    "metrics/structure": set(),
    "metrics/usefulness": {"schema", "table"},
    "evaluate": {"metrics", "schema"},
    "report": {
        "accounting",
        "datasets",
        "encoding",
        "evaluate",
        "files",
        "ledger_file",
        "metrics",
        "model",
        "pipeline",
        "schema",
        "table",
    },
    "report/__init__": {"datasets", "files", "ledger_file", "model", "report"},
    "report/content": {"evaluate", "ledger_file", "metrics", "model", "report", "schema", "table"},
    "report/drawing": set(),
    "report/privacy": {"accounting", "encoding", "ledger_file", "model", "pipeline", "schema"},
    "grids": {"files", "schema"},
    "result_file": {"files"},
    "bench": {
        "datasets",
        "evaluate",
        "grids",
        "metrics",
        "pipeline",
        "result_file",
        "schema",
        "simulators",
        "synthesizers",
    },
    "typesetting": set(),
    "runs": {"files", "grids", "schema", "typesetting"},
    "scoreboard": {"files", "runs", "typesetting"},
    "figures": {"files", "runs", "schema", "typesetting"},
    "demo": None,
    "doctor": {"datasets", "files", "randomness"},
    "cli": None,
    "cli/__init__": {"cli"},
    "cli/refusals": set(),
    "cli/options": {"cli", "pipeline", "synthesizers"},
    "cli/models": {"cli", "constraints", "files", "randomness", "schema", "sources", "table"},
    "cli/verdicts": {"cli", "evaluate", "report"},
    "cli/spending": {"cli"},
    "cli/races": {"bench", "cli", "figures", "grids", "scoreboard"},
    "cli/household": {"cli", "demo", "doctor"},
}
OPENS_THE_BOX = {"mechanisms", "dpsgd"}
FILES = sorted(HOUSE.rglob("*.py"))
names = [str(path.relative_to(HOUSE)) for path in FILES]
every_file = pytest.mark.parametrize("path", FILES, ids=names)


def room_of(path: Path) -> str:
    """The room of a file: its name, or "synthesizers/..." for what is in the workshop."""
    parts = path.relative_to(HOUSE).with_suffix("").parts
    return "/".join(parts)


def imported(path: Path) -> set[str]:
    """The modules of ours that a file imports, as dotted names without the package's own."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "understudy":
                found |= {f"understudy.{alias.name}" for alias in node.names}
            else:
                found.add(node.module or "")
    return {name.removeprefix("understudy.") for name in found if name.startswith("understudy.")}


@every_file
def test_imports_follow_the_plan(path):
    room = room_of(path)
    if room == "synthesizers/__init__":
        assert all(name.startswith("synthesizers.") for name in imported(path))
        return
    if room.startswith("synthesizers/"):
        bench = room.split("/")[1]
        for name in imported(path):
            own = name.startswith(f"synthesizers.{bench}.") or name == f"synthesizers.{bench}"
            assert own or name in BENCH, f"{room} imports {name}"
        return
    assert room in PLAN, f"{room} is not on the plan of the house"
    allowed = PLAN[room]
    if allowed is not None:
        assert {name.split(".")[0] for name in imported(path)} <= allowed


@every_file
def test_the_box_is_opened_by_hatches_alone(path):
    opened = {
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("_exact", "_exact_labels", "_exact_units")
    }
    named = {
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in ("_exact", "_exact_labels", "_exact_units")
    }
    assert not opened | named or room_of(path) in OPENS_THE_BOX


@every_file
def test_functions_that_see_rows_are_given_by_the_cloakroom_alone(path):
    # `derive` shows whole columns to the function it is given; a bench could keep them.
    attributes = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    assert not attributes & {"derive", "relabel"} or room_of(path) in OPENS_THE_BOX | {"encoding"}


@every_file
def test_nothing_is_pickled(path):
    tree = ast.parse(path.read_text())
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert not {name.split(".")[0] for name in modules} & {"pickle", "cloudpickle", "dill", "joblib", "shelve"}
    allowed = [
        keyword.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "allow_pickle"
    ]
    assert all(isinstance(value, ast.Constant) and value.value is False for value in allowed)


@every_file
def test_every_room_has_a_purpose(path):
    assert path.stem not in ("utils", "util", "helpers", "common", "misc")
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_the_front_door_is_light():
    heavy = ["jax", "numpy", "polars", "scipy", "opendp", "dp_accounting", "pandas", "mbi", "rich"]
    script = f"import sys, understudy; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize("name", understudy.__all__)
def test_every_name_at_the_front_door_opens(name):
    assert getattr(understudy, name) is not None
    assert name in dir(understudy)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        _ = understudy.fitt  # pyright: ignore[reportAttributeAccessIssue]
