"""How long a fit of a large table takes, and how much memory: rows of Parquet made here, each fit in a process alone.

    python benchmarks/scale.py --rows 10000000 --methods copula prada [--engine ray] [--folder DIR] [--keep]

Makes `rows` × 20 rows as Parquet files (12 numbers, 3 whole numbers, 5 categories; nothing about anybody), fits each
method to the folder, and appends one line of JSON a fit to benchmarks/results/scale/fits.jsonl: seconds, seconds of
processor time, the load of the machine, the largest memory of the process in MiB, rows a second. The number of rows is
in the schema, as of a table whose size is public.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import understudy as us

RESULTS = Path(__file__).parent / "results" / "scale" / "fits.jsonl"
NUMBERS, WHOLE, CATEGORIES = 12, 3, 5
ROWS_A_FILE, ROWS_A_GROUP = 2_000_000, 250_000


def schema(rows: int) -> us.Schema:
    """The public facts: bounds and categories."""
    text = [f'name = "scale"\nrows = {rows}\ntarget = "x0"\n']
    text += [f'[columns.x{i}]\nkind = "continuous"\nlow = -8\nhigh = 8\n' for i in range(NUMBERS)]
    text += [f'[columns.n{i}]\nkind = "integer"\nlow = 0\nhigh = {10 ** (i + 1)}\n' for i in range(WHOLE)]
    for i in range(CATEGORIES):
        values = [f"c{value}" for value in range(2 + 3 * i)]
        text.append(f'[columns.c{i}]\nkind = "categorical"\nvalues = {json.dumps(values)}\n')
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write("\n".join(text))
        file.flush()
        return us.Schema.read(file.name)


def block(rows: int, draw: np.random.Generator) -> pl.DataFrame:
    """Rows whose columns depend on two hidden numbers."""
    hidden = draw.standard_normal((2, rows), dtype=np.float32)
    columns: dict[str, object] = {}
    for i in range(NUMBERS):
        own = draw.standard_normal(rows, dtype=np.float32)
        columns[f"x{i}"] = np.round(0.7 * hidden[i % 2] + 0.714 * own, 3)
    for i in range(WHOLE):
        columns[f"n{i}"] = np.clip(np.abs(hidden[0]) * 10 ** (i + 1) / 4, 0, 10 ** (i + 1)).astype(np.int32)
    for i in range(CATEGORIES):
        codes = np.clip(np.abs(hidden[1]) * (1 + 1.5 * i), 0, 1 + 3 * i).astype(np.int32)
        columns[f"c{i}"] = pl.Series(codes).replace_strict(
            {code: f"c{code}" for code in range(2 + 3 * i)}, return_dtype=pl.Enum([f"c{k}" for k in range(2 + 3 * i)])
        )
    return pl.DataFrame(columns).with_columns(pl.col(pl.Enum).cast(pl.String))


def make(folder: Path, rows: int) -> None:
    """Writes the rows; a file that is there is left as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, rows, ROWS_A_FILE)):
        path = folder / f"{number:05}.parquet"
        if not path.exists():
            made = block(min(ROWS_A_FILE, rows - first), np.random.default_rng(number))
            made.write_parquet(path, row_group_size=ROWS_A_GROUP, compression="lz4")


def fit_once(folder: Path, rows: int, method: str, engine: str) -> dict[str, object]:
    """Fits in this process and says what it took."""
    start = time.perf_counter()
    us.fit(folder, schema(rows), method, epsilon=1.0, seed=0, engine=engine, progress=False)
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    memory, processor = used.ru_maxrss / 1024, used.ru_utime + used.ru_stime
    return {
        "rows": rows,
        "columns": NUMBERS + WHOLE + CATEGORIES,
        "method": method,
        "engine": engine,
        "seconds": round(seconds, 2),
        "cpu_seconds": round(processor, 1),
        "load": round(os.getloadavg()[0], 1),
        "memory_mib": round(memory),
        "rows_per_second": round(rows / seconds),
        "version": us.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--methods", nargs="+", default=["copula"])
    parser.add_argument("--engine", default="local")
    parser.add_argument("--folder", type=Path, default=None, help="Where rows are made; a temporary folder if none.")
    parser.add_argument("--keep", action="store_true", help="Leave the rows there.")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        print(json.dumps(fit_once(given.folder, given.rows[0], given.methods[0], given.engine)))
        return
    root = given.folder or Path(tempfile.mkdtemp(prefix="understudy-scale-"))
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    for rows in given.rows:
        folder = root / str(rows)
        make(folder, rows)
        for method in given.methods:
            asked = ["--rows", str(rows), "--methods", method, "--engine", given.engine, "--folder", str(folder)]
            command = [sys.executable, __file__, "--once", *asked]
            line = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1]
            print(line, flush=True)
            with RESULTS.open("a") as file:
                file.write(line + "\n")
        if not given.keep:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
