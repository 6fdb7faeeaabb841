"""How long a fit will take and how much memory, from public facts alone: a small formula for every method.

Seconds and megabytes are sums of a few terms, which follow from the rows, columns and categories that a schema states
and from the steps that a method is set to make. The coefficients are in expected_time.toml beside this module;
benchmarks/fit_expected_time.py fits them to benchmarks/results/speed.jsonl, so that they are those of two quiet cores
and a cold process, from a file to a saved model.
"""

import functools
import math
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources

from understudy.privacy.plan import PlannedMechanism
from understudy.synthesizers.base import Method
from understudy.tables.column import Column
from understudy.tables.schema import Schema

VALUES_IF_UNKNOWN = 20
"""Categories that a column is expected to have if its schema does not list them."""

SMALL, MOST_SMALL, MOST_INPUTS = 16, 24, 64
"""What is a small column, how many of them count, and how many inputs a column of many categories counts as."""
MOST_STATES = 3
"""So many columns with categories or missing values count: a frequency of `dp-merf` touches no more."""

STEPS_BEFORE = {
    "prada": (("distillation_steps",),),
    "gem": (("rounds_per_column", "steps", "columns"), ("last_steps",)),
    "dp-merf": (("steps",),),
    "aim": (("rounds_per_column", "iterations", "columns"), ("last_iterations",)),
    "mst": (("iterations",),),
    "privmrf": (("iterations",),),
}
"""Steps that a method makes on what it has measured: a sum of products of settings and the number of columns."""

STEPS_AFTER = {"prada": (("correction_rows", "steps a row"),)}
"""The same, of steps that come after the private ones."""

STEPS_A_ROW = 1 / 256
"""A step reads so many rows, where a setting gives rows."""


def expected_seconds(
    schema: Schema, method: Method, planned: Sequence[PlannedMechanism], rows: int
) -> tuple[float, float, float]:
    """Seconds to expect for measuring and what follows from it, for private steps, and for what follows those.

    A method without private steps has the first alone.
    """
    terms = _coefficients(method)["seconds"]
    private = sum(each.times for each in planned if each.sampling_rate)
    before, after = _steps(schema, method, STEPS_BEFORE), _steps(schema, method, STEPS_AFTER)
    whole = evaluate(terms, features(schema, rows, before + private + after))
    if not private:
        return whole, 0.0, 0.0
    measured = evaluate(terms, features(schema, rows, before))
    trained = evaluate(terms, features(schema, rows, before + private))
    return measured, trained - measured, whole - trained


def expected_megabytes(schema: Schema, method: Method, rows: int) -> float:
    """The peak memory to expect."""
    return evaluate(_coefficients(method)["megabytes"], features(schema, rows, 0))


def features(schema: Schema, rows: int, steps: float) -> dict[str, float]:
    """What time and memory are made of; each is about 1 for a table of moderate size.

    Small columns are numbers and those of few categories, of which large models are made, up to a number of columns
    (`small_pairs`); `beyond_ten` counts those after the tenth. As inputs of a network, many categories share some
    (`inputs`). Frequencies of `dp-merf` take longer over columns with categories or missing values (`steps_states`).
    Columns of about as many categories are computed side by side; others need programs of their own (`shapes`).
    """
    columns, sizes = len(schema), [_size(column) for column in schema.columns]
    inputs, values = sum(min(size, MOST_INPUTS) for size in sizes), sum(sizes)
    small = sum(size <= SMALL for size in sizes)
    states = sum(size > 0 or column.nullable for size, column in zip(sizes, schema.columns, strict=True))
    return {
        "start": 1.0,
        "shapes": float(len({size.bit_length() for size in sizes})),
        "entries": rows * columns / 1e6,
        "columns": columns / 10,
        "pairs": (columns / 10) ** 2,
        "small_pairs": (min(small, MOST_SMALL) / 10) ** 2,
        "beyond_ten": max(small - 10, 0) / 10,
        "values": values / 100,
        "inputs": inputs / 100,
        "steps": steps / 1e3,
        "steps_columns": steps / 1e3 * columns / 10,
        "steps_inputs": steps / 1e3 * inputs / 100,
        "steps_states": steps / 1e3 * min(states, MOST_STATES),
    }


def evaluate(coefficients: Mapping[str, float], of: Mapping[str, float]) -> float:
    """The sum of the terms."""
    return math.fsum(weight * of[name] for name, weight in coefficients.items())


def all_steps(schema: Schema, method: Method, planned: Sequence[PlannedMechanism]) -> float:
    """The steps that a fit makes, private and other ones."""
    private = sum(each.times for each in planned if each.sampling_rate)
    return private + _steps(schema, method, STEPS_BEFORE) + _steps(schema, method, STEPS_AFTER)


def _size(column: Column) -> int:
    """The categories of a column; none for a number."""
    if column.values:
        return len(column.values)
    return VALUES_IF_UNKNOWN if column.kind == "categorical" else 0


def _steps(schema: Schema, method: Method, table: Mapping[str, Sequence[Sequence[str]]]) -> float:
    return math.fsum(
        math.prod(_factor(schema, method, name) for name in product) for product in table.get(method.name, ())
    )


def _factor(schema: Schema, method: Method, name: str) -> float:
    return {"columns": len(schema), "steps a row": STEPS_A_ROW}.get(name) or float(getattr(method, name))


def _coefficients(method: Method) -> Mapping[str, Mapping[str, float]]:
    known = coefficients()
    return known.get(method.name, known["other"])


@functools.cache
def coefficients() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """The coefficients of every method that was measured, and of `other` ones."""
    file = resources.files("understudy.synthesizers") / "expected_time.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))
