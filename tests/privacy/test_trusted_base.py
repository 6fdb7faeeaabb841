"""The trusted base is one folder: exact rows are named, held and handed to functions in privacy/ and nowhere else."""

import ast
import concurrent.futures

import numpy as np
import pytest

from fits import every_method, watched_fit
from row_watch import PACKAGE, TRUSTED, watching

OUTSIDE = [path for path in sorted(PACKAGE.rglob("*.py")) if TRUSTED not in path.parents]


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


@every_method
def test_no_function_outside_the_trusted_base_is_handed_a_row(method):
    _, watch = watched_fit(method)
    assert watch.locked and watch.calls > 50  # it did look
    assert watch.found == set()


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_the_watch_finds_a_row_that_is_handed_over(in_a_thread):
    code = compile("def leak(x):\n    return lambda y: (x, y)\nleak(rows)(0)", str(PACKAGE / "leaking.py"), "exec")
    given = {"rows": {"age": np.zeros(911)}}
    with watching(911, locked=True) as watch:
        if in_a_thread:
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                pool.submit(exec, code, given).result()
        else:
            exec(code, given)
    assert watch.found == {"leaking.py: leak(x)", "leaking.py: leak.<locals>.<lambda>(x)"}
