"""The trusted base is one folder: exact rows are named, held and handed to functions in privacy/ and nowhere else."""

import ast
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import understudy
from conftest import MIXED, mixed_table, quick
from understudy.synthesizers import METHODS

PACKAGE = Path(understudy.__file__).parent
TRUSTED = PACKAGE / "privacy"
OUTSIDE = [path for path in sorted(PACKAGE.rglob("*.py")) if TRUSTED not in path.parents]
ROWS = 911  # prime, and the length of nothing else in a fit


def test_exact_rows_are_named_in_the_trusted_base_alone():
    named = [path for path in OUTSIDE if "_exact" in path.read_text() or "PrivateRows(" in path.read_text()]
    assert named == []


def test_mechanisms_take_descriptions_and_no_functions():
    """Whatever is handed locked rows takes no callable beside them, except a progress bar's."""
    offending = []
    for path in sorted(TRUSTED.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                hints = {
                    each.arg: ast.unparse(each.annotation)
                    for each in (*node.args.args, *node.args.kwonlyargs)
                    if each.annotation is not None
                }
                if any("PrivateRows" in hint or "Job" in hint for hint in hints.values()):
                    offending += [
                        (path.name, node.name, k) for k, v in hints.items() if "Callable" in v and k != "progress"
                    ]
    assert offending == []


class RowsSeen:
    """Watches every call of a function of ours outside privacy/ and collects those that are handed rows.

    A function is handed rows by an argument, or by a variable of an enclosing function. What counts as rows is
    anything as long as the table. It watches from the moment the rows are locked: before that, `tables` reads them and
    `pipeline` brings them to the door.
    """

    def __init__(self) -> None:
        self.locked = False
        self.calls = 0
        self.found: set[str] = set()

    def __call__(self, frame: types.FrameType, event: str, value: Any) -> None:
        path = frame.f_code.co_filename
        if not path.startswith(str(PACKAGE)):
            return
        if event == "return" and path == str(TRUSTED / "rows.py") and frame.f_code.co_name == "lock":
            self.locked = True
        is_function = frame.f_code.co_name != "<module>"
        if self.locked and event == "call" and is_function and not path.startswith(str(TRUSTED)):
            self.calls += 1
            for name, held in frame.f_locals.items():
                if any(is_as_long_as_the_table(each) for each in contents(held)):
                    self.found.add(f"{Path(path).relative_to(PACKAGE)}: {frame.f_code.co_qualname}({name})")


def contents(held: object, depth: int = 3) -> Iterator[object]:
    """A value and what is inside it, as far as containers and partial functions go."""
    yield held
    if depth == 0:
        return
    inside: list[object] = []
    if isinstance(held, dict):
        inside = list(held.values())[:100]
    elif isinstance(held, list | tuple | set) and len(held) <= 100:
        inside = list(held)
    elif isinstance(held, types.FunctionType):
        inside = [cell.cell_contents for cell in held.__closure__ or () if cell_is_filled(cell)]
    elif hasattr(held, "func") and hasattr(held, "args") and hasattr(held, "keywords"):
        inside = [held.func, *held.args, *held.keywords.values()]  # pyright: ignore
    for each in inside:
        yield from contents(each, depth - 1)


def cell_is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def is_as_long_as_the_table(held: object) -> bool:
    if isinstance(held, np.ndarray) or type(held).__module__.startswith(("jaxlib", "polars", "pandas", "pyarrow")):
        return ROWS in getattr(held, "shape", ())
    return isinstance(held, list | tuple) and len(held) == ROWS


# `dpgan` and `prada-gan` train as `prada` does, so they are left to the slow tests.
WATCHED = [pytest.param(name, marks=[pytest.mark.slow] * (name in ("dpgan", "prada-gan"))) for name in METHODS]


@pytest.mark.parametrize("method", WATCHED)
def test_no_function_outside_the_trusted_base_is_handed_a_row(method):
    table, seen = mixed_table(ROWS), RowsSeen()
    sys.setprofile(seen)
    try:
        understudy.fit(table, MIXED, quick(method), epsilon=1.0, seed=0)
    finally:
        sys.setprofile(None)
    assert seen.locked and seen.calls > 50  # it did look
    assert seen.found == set()


def test_the_watch_finds_a_row_that_is_handed_over():
    seen = RowsSeen()
    seen.locked = True
    code = compile("def leak(x):\n    return lambda y: (x, y)\nleak(rows)(0)", str(PACKAGE / "leaking.py"), "exec")
    sys.setprofile(seen)
    try:
        exec(code, {"rows": {"age": np.zeros(ROWS)}})
    finally:
        sys.setprofile(None)
    assert seen.found == {"leaking.py: leak(x)", "leaking.py: leak.<locals>.<lambda>(x)"}
