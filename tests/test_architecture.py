"""The architecture: wings import what docs/architecture.md says and nothing else, and no file is too large to read."""

import ast
import graphlib
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import understudy

PACKAGE = Path(understudy.__file__).parent
ROOT = Path(__file__).parent.parent
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}
TOP = {"__init__.py", "__main__.py", "pipeline.py", "model.py"}


def wing_of(path: Path) -> str:
    """The wing of a file: its folder below the package, or its own name if it is in none."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def module_of(path: Path) -> str:
    parts = ("understudy", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


KNOWN = {module_of(path) for path in FILES}
NODES = {path: list(ast.walk(tree)) for path, tree in TREES.items()}


def imported(path: Path) -> Iterator[str]:
    """Every module of ours that a file imports, wherever in the file; the front door itself as "understudy"."""
    for node in NODES[path]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "understudy")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if (node.module or "").split(".")[0] == "understudy":
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    yield full if full in KNOWN else str(node.module)


def front_door() -> set[str]:
    """The wings that the lazy front door opens, which it names as text."""
    homes: dict[str, str] = vars(understudy)["_DEFINED_IN"]
    return {home.split(".")[0] for home in homes.values()}


def found_matrix() -> dict[str, set[str]]:
    matrix: dict[str, set[str]] = {}
    for path in FILES:
        wing = wing_of(path)
        names = {"__init__" if name == "understudy" else name.split(".")[1] for name in imported(path)}
        matrix.setdefault(wing, set()).update(names - {wing})
    matrix["__init__"] |= front_door()
    return matrix


def stated_matrix() -> dict[str, set[str]]:
    """The table of wings in docs/architecture.md."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", page, re.MULTILINE)
    return {wing: set(re.findall(r"`(\w+)`", imports)) for wing, imports in rows}


def test_wings_import_exactly_what_the_matrix_says():
    assert found_matrix() == stated_matrix()


def test_the_matrix_has_no_cycle():
    wings = {wing: imports - {"__init__"} for wing, imports in stated_matrix().items() if wing != "__init__"}
    graphlib.TopologicalSorter(wings).prepare()


def test_the_trusted_base_imports_core_alone():
    assert stated_matrix()["privacy"] == {"core"}


def test_modules_have_no_cycle_anywhere_not_even_inside_functions():
    graph = {
        module_of(path): {name for name in imported(path) if name not in ("understudy", module_of(path))}
        for path in FILES
    }
    graphlib.TopologicalSorter(graph).prepare()


def test_no_method_is_named_in_model_or_pipeline():
    for name in ("model", "pipeline"):
        wanted = set(imported(PACKAGE / f"{name}.py"))
        inside = {each for each in wanted if each.startswith("understudy.synthesizers.")}
        assert inside <= {
            f"understudy.synthesizers.{shared}" for shared in ("base", "planning", "progress", "red_flags", "sampling")
        }


def test_the_first_listing_shows_the_architecture():
    entries = {entry.name for entry in PACKAGE.iterdir() if entry.name != "__pycache__"}
    assert len(entries - TOP) <= 15
    assert {entry for entry in entries - TOP if entry.endswith(".py")} == set()


def test_files_are_short_enough_to_read():
    sizes = {module_of(path): len(path.read_text().splitlines()) for path in FILES}
    assert {name: size for name, size in sizes.items() if size > 450} == {}
    assert 100 <= statistics.median(sizes.values()) <= 250


def test_functions_are_short_enough_to_read():
    long = {
        f"{module_of(path)}.{node.name}": node.end_lineno - node.lineno + 1
        for path, nodes in NODES.items()
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= 60
    }
    assert long == {}


def test_nothing_is_pickled():
    forbidden = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
    for path, nodes in NODES.items():
        modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        modules |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
        assert not {name.split(".")[0] for name in modules} & forbidden, path
        allowed = [
            keyword.value
            for node in nodes
            if isinstance(node, ast.Call)
            for keyword in node.keywords
            if keyword.arg == "allow_pickle"
        ]
        assert all(isinstance(value, ast.Constant) and value.value is False for value in allowed), path


def test_every_module_says_what_it_is_for():
    assert [path for path, tree in TREES.items() if not ast.get_docstring(tree)] == []
    vague = {"utils", "util", "helpers", "common", "misc"}
    assert [path for path in FILES if path.stem in vague or wing_of(path) in vague] == []


def test_no_document_or_message_names_somebody_else_s_package():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *FILES, *ROOT.glob("benchmarks/*.md")]
    assert [path for path in pages if re.search(r"pip install [\"']?understudy(?!-dp)", path.read_text())] == []


def test_the_front_door_is_light():
    heavy = ["jax", "numpy", "polars", "scipy", "opendp", "dp_accounting", "pandas", "mbi", "rich"]
    script = f"import sys, understudy; print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_every_name_at_the_front_door_opens():
    for name in understudy.__all__:
        assert getattr(understudy, name) is not None
        assert name in dir(understudy)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        _ = understudy.fitt  # pyright: ignore[reportAttributeAccessIssue]
