"""Time and memory of a fit and of sampling, each in a process of its own.

Times are those of a noisy machine: beside each stands a baseline measured in the same minute, the time that a
Cholesky factor of a 3000 x 3000 matrix takes there, and their ratio.

    python benchmarks/speed.py -o benchmarks/results/speed.jsonl
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import understudy as us

CASES = {"small": (12_000, 8), "medium": (12_000, 20), "large": (1_000_000, 20)}


def simulate(rows: int, columns: int) -> tuple[pl.DataFrame, us.Schema]:
    """Correlated columns of mixed kinds: heavy tails, atoms, whole numbers, categories, missing values."""
    draw = np.random.default_rng(0)
    shared = draw.standard_normal(rows)
    data, facts = {}, []
    for j in range(columns):
        z = 0.6 * shared + 0.8 * draw.standard_normal(rows)
        name, kind = f"c{j}", j % 5
        if kind == 0:
            data[name], column = np.exp(z), us.Column(name=name, kind="continuous", low=0.0, high=1000.0)
        elif kind == 1:
            data[name], column = np.maximum(z, 0.0), us.Column(name=name, kind="continuous")
        elif kind == 2:
            data[name], column = np.rint(100 + 20 * z), us.Column(name=name, kind="integer", low=0, high=1000)
        elif kind == 3:
            labels = np.array(["a", "b", "c", "d"])
            data[name] = labels[np.digitize(z, [-1, 0, 1])]
            column = us.Column(name=name, kind="categorical", values=("a", "b", "c", "d"))
        else:
            data[name] = pl.Series(z).set(pl.Series(draw.random(rows) < 0.1), None)
            column = us.Column(name=name, kind="continuous", nullable=True)
        facts.append(column)
    return pl.DataFrame(data), us.Schema(columns=tuple(facts), name="speed")


def baseline() -> float:
    matrix = np.random.default_rng(0).standard_normal((3000, 3000))
    matrix = matrix @ matrix.T + 3000 * np.eye(3000)
    start = time.perf_counter()
    np.linalg.cholesky(matrix)
    return time.perf_counter() - start


def work(folder: Path, method: str, rows: int) -> dict:
    """In a fresh process: read a CSV, fit, sample as many rows. Imports and compilation included in the first."""
    start = time.perf_counter()
    model = us.fit(folder / "data.csv", folder / "schema.toml", method, epsilon=1.0, delta=1e-6)
    fitted = time.perf_counter()
    model.sample(rows)
    sampled = time.perf_counter()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"fit_s": fitted - start, "sample_s": sampled - fitted, "peak_gib": memory}


def csv_ratio(folder: Path) -> dict:
    """Reading the CSV into columns, against polars' own reader: best of five, taken in turns."""
    from understudy.tables.table import read

    schema = us.Schema.read(folder / "schema.toml")
    ours, theirs = [], []
    for _ in range(5):
        start = time.perf_counter()
        pl.read_csv(folder / "data.csv")
        theirs.append(time.perf_counter() - start)
        start = time.perf_counter()
        read(folder / "data.csv", schema)
        ours.append(time.perf_counter() - start)
    return {"csv_s": min(ours), "polars_csv_s": min(theirs), "csv_ratio": min(ours) / min(theirs)}


def measure(case: str, method: str) -> dict:
    rows, columns = CASES[case]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame, schema = simulate(rows, columns)
        frame.write_csv(folder / "data.csv")
        schema.write(folder / "schema.toml")
        del frame
        command = [sys.executable, __file__, "--work", name, method, str(rows)]
        environment = {**os.environ, "XDG_CACHE_HOME": name}  # no compiled program is there yet
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        result = json.loads(done.stdout)
        if case == "large" and method == "copula":
            result |= csv_ratio(folder)
    unit = baseline()
    result |= {"baseline_s": unit, "fit_in_baselines": result["fit_s"] / unit}
    return {"rows": rows, "columns": columns, "method": method, **{k: round(v, 3) for k, v in result.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        folder, method, rows = arguments.work
        return print(json.dumps(work(Path(folder), method, int(rows))))
    with open(arguments.output, "w") as file:
        for case in CASES:
            for method in ("copula", "independent", "prada"):
                result = measure(case, method)
                print(result, flush=True)
                file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
