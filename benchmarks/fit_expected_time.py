"""Fits the times and memory that `understudy plan` expects to the measurements of benchmarks/speed.py.

For every method, seconds and megabytes are sums of the terms of `synthesizers/expected_time.features` with weights that
are not negative; the relative errors are least in squares. Lines that were ended before they were done are left out.

Wall seconds of a busy machine are no measure. The seconds of two quiet cores lie between half the CPU seconds and all
of them: they are taken to be 1/√2 of them, or the wall seconds if those are fewer, so that they are at most 1.41 times
wrong.

    python benchmarks/fit_expected_time.py benchmarks/results/speed.jsonl
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

import understudy as us
from understudy.synthesizers import expected_time, resolve
from understudy.synthesizers.planning import planned_mechanisms

HERE = Path(__file__).parent
TARGET = HERE.parent / "src/understudy/synthesizers/expected_time.toml"
TRAINED = ("steps", "steps_columns", "steps_inputs")
SECONDS = {
    "independent": ("start", "entries", "columns", "values"),
    "copula": ("start", "entries", "columns", "pairs", "values"),
    "mst": ("start", "entries", "columns", "pairs", "values"),
    "aim": ("start", "entries", "columns", "small_pairs", "inputs"),
    "prada": ("start", "shapes", "entries", "pairs", "small_pairs", "values", *TRAINED),
    "gem": ("start", "entries", *TRAINED),
    "privmrf": ("start", "entries", "beyond_ten", "values"),
    "dp-merf": ("start", "entries", "steps", "steps_columns", "steps_states"),
}
"""The terms that the seconds of a method may have."""
SECONDS_GUESS = {
    "start": 1.5,
    "shapes": 0.5,
    "entries": 0.3,
    "columns": 0.2,
    "pairs": 0.2,
    "values": 0.1,
    "steps": 1.0,
    "steps_columns": 1.0,
    "steps_inputs": 0.1,
    "small_pairs": 0.2,
    "beyond_ten": 50.0,
    "inputs": 0.1,
    "steps_states": 1.0,
}
MEGABYTES_GUESS = {"start": 150.0, "shapes": 10.0, "entries": 25.0, "columns": 10.0, "values": 5.0}
READING = 0.3
"""The least that a million entries take, in seconds: to be read."""
TRUST = 3e-4
"""How much a guess counts, beside a measurement: it decides where the measurements are silent."""
OTHER = {
    "seconds": {"start": 8.0, "entries": 0.5, "steps": 0.2, "steps_columns": 0.3},
    "megabytes": {"start": 600.0, "entries": 25.0},
}
"""For methods that were not measured."""


def read(path: Path) -> list[dict[str, Any]]:
    """The finished fits of a file of measurements."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["what"] == "fit" and "ended_at_s" not in line]


def quiet_seconds(line: Mapping[str, Any]) -> float:
    """What a fit would take on two quiet cores, from what it took on busy ones."""
    return min(line["wall_s"], line["cpu_s"] / math.sqrt(2))


def schema_of(line: Mapping[str, Any]) -> us.Schema:
    """A schema of the same public size as the table of a line."""
    sizes = [int(size) for size, columns in line["sizes"].items() for _ in range(columns)]
    nullable = line.get("nullable", 0)  # so many numbers, which come first
    facts = [
        us.Column(f"c{j}", "categorical", values=tuple(f"v{i}" for i in range(size)))
        if size
        else us.Column(f"c{j}", "continuous", low=0.0, high=1.0, nullable=j < nullable)
        for j, size in enumerate(sizes)
    ]
    return us.Schema(columns=tuple(facts), name="size", rows=line["rows"])


def method_of(line: Mapping[str, Any]) -> Any:
    """The method of a line, with its settings."""
    return resolve(line["method"], {key: json.loads(value) for key, value in (s.split("=") for s in line["settings"])})


def features_of(line: Mapping[str, Any]) -> dict[str, float]:
    """The terms of a line."""
    schema, method = schema_of(line), method_of(line)
    planned = planned_mechanisms(schema, method, us.Budget(epsilon=1.0, delta=1e-6))
    return expected_time.features(schema, line["rows"], expected_time.all_steps(schema, method, planned))


def predicted(line: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds and megabytes that the committed coefficients expect for a line."""
    schema, method = schema_of(line), method_of(line)
    planned = planned_mechanisms(schema, method, us.Budget(epsilon=1.0, delta=1e-6))
    seconds = sum(expected_time.expected_seconds(schema, method, planned, line["rows"]))
    return seconds, expected_time.expected_megabytes(schema, method, line["rows"])


def weights(
    guess: Mapping[str, float], names: Sequence[str], terms: Sequence[Mapping[str, float]], measured: Sequence[float]
) -> dict[str, float]:
    """Weights that are not negative, with the least squares of relative errors, drawn a little towards a guess."""
    matrix = np.array([[each[name] for name in names] for each in terms]) / np.array(measured)[:, None]
    ridge = np.diag([math.sqrt(TRUST) / guess[name] for name in names])
    aim = np.concatenate([np.ones(len(measured)), np.full(len(names), math.sqrt(TRUST))])
    least = np.array([READING if name == "entries" else 0.0 for name in names])
    stacked = np.concatenate([matrix, ridge])
    found = least + nnls(stacked, aim - stacked @ least)[0]
    return {name: float(f"{weight:.3g}") for name, weight in zip(names, found, strict=True) if weight > 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=TARGET)
    arguments = parser.parse_args()
    lines = read(arguments.measurements)
    text = ["# Made by benchmarks/fit_expected_time.py from benchmarks/results/speed.jsonl; expected_time.py reads it."]
    fitted: dict[str, dict[str, dict[str, float]]] = {}
    for method, names in SECONDS.items():
        mine = [line for line in lines if line["method"] == method]
        if not mine:
            continue
        terms = [features_of(line) for line in mine]
        fitted[method] = {
            "seconds": weights(SECONDS_GUESS, names, terms, [quiet_seconds(line) for line in mine]),
            "megabytes": weights(MEGABYTES_GUESS, tuple(MEGABYTES_GUESS), terms, [line["peak_mib"] for line in mine]),
        }
    for method, parts in {**fitted, "other": OTHER}.items():
        text.append(f"\n[{method}]")
        for part, found in parts.items():
            text.append(f"{part} = {{ {', '.join(f'{name} = {weight}' for name, weight in found.items())} }}")
    arguments.output.write_text("\n".join(text) + "\n")
    expected_time.coefficients.cache_clear()
    for line in lines:
        if line["method"] in SECONDS:
            seconds, megabytes = predicted(line)
            ratio, of = seconds / quiet_seconds(line), megabytes / line["peak_mib"]
            print(f"{line['case']:<20}{line['method']:<14}{quiet_seconds(line):>8.1f} s {ratio:>6.2f} {of:>6.2f}")


if __name__ == "__main__":
    main()
