"""Rows a second and peak memory of sampling to shards, beside writing random numbers of the same shape.

The baseline runs right before in the same way: as many processes write as many Parquet files of normal random numbers,
with the same compression. A ratio of seconds says what drawing and decoding cost, whatever else the machine does; rows
a second alone do not. Peak memory is that of the largest process. CPU seconds are those of all processes.

    python benchmarks/sampling.py -o benchmarks/results/sampling/sampling.jsonl
    python benchmarks/sampling.py --methods copula --rows 100_000_000 --cases mixed --without-baseline

Results are added to the file; a line of the same case, method, rows, processes and engine is replaced.
"""

import argparse
import functools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from speed_tables import mixed, numbers
from understudy.core.workers import spread
from understudy.tables.shards import ROWS_PER_SHARD, Shards

CASES = {"numbers": numbers, "mixed": mixed}
FITTED_ROWS, COLUMNS = 20_000, 20
KEY = ("case", "method", "rows", "processes", "engine")


def write_random(shards: Shards, shard: int) -> None:
    """A shard of normal random numbers."""
    draw = np.random.default_rng(shard)
    columns = {f"c{j}": draw.standard_normal(shards.rows_of(shard)) for j in range(COLUMNS)}
    pl.DataFrame(columns).write_parquet(shards.path(shard), compression_level=1)


def cost(what: str, model: str, rows: int, processes: int, engine: str) -> dict[str, Any]:
    """Seconds, CPU seconds and peak memory of one kind of work, measured in this process, which does nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        import sampling  # processes find functions of modules, not of a script

        start = time.perf_counter()
        if what == "baseline":
            shards = Shards(folder=Path(folder), rows=rows, rows_per_shard=ROWS_PER_SHARD)
            for answer in spread(functools.partial(sampling.write_random, shards), range(shards.count), processes):
                assert not answer.error, answer.error
        else:
            places: Any = {"processes": processes, "engine": engine}
            us.load(model).sample_to(f"{folder}/rows", rows, 0, progress=False, **places)
        wall = time.perf_counter() - start
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "wall_s": wall,
        "cpu_s": sum(each.ru_utime + each.ru_stime for each in usage),
        "peak_mib": max(each.ru_maxrss for each in usage) / 1024,
    }


def measured(*arguments: Any) -> dict[str, Any]:
    """The same in a process of its own."""
    words = [sys.executable, __file__, "--one", *map(str, arguments)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def line_of(
    case: str, method: str, model: str, rows: int, processes: int, engine: str, *, compared: bool
) -> dict[str, Any]:
    base = measured("baseline", model, rows, processes, engine) if compared else None
    found = measured("sample", model, rows, processes, engine)
    return {
        **{"case": case, "method": method, "rows": rows, "processes": processes, "engine": engine},
        **found,
        "rows_per_s": rows / found["wall_s"],
        "rows_per_cpu_s": rows / found["cpu_s"],
        "baseline": base,
        "in_baselines": base and found["wall_s"] / base["wall_s"],
        "cpu_in_baselines": base and found["cpu_s"] / base["cpu_s"],
        "columns": COLUMNS,
        "rows_per_shard": ROWS_PER_SHARD,
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
    }


def keep(path: Path, line: dict[str, Any]) -> None:
    """Adds a line to the file, in place of one of the same measurement."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    kept = [each for each in lines if any(each[key] != line[key] for key in KEY)]
    path.write_text("".join(json.dumps(each) + "\n" for each in [*kept, line]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Rows a second and peak memory of sampling to shards.")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--methods", nargs="+", default=["copula", "prada"])
    parser.add_argument("--rows", nargs="+", type=int, default=[2_000_000, 10_000_000])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--engine", default="local")
    parser.add_argument("--without-baseline", action="store_true", help="Sample alone, for half the disk and time.")
    parser.add_argument("-o", "--output", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for case in asked.cases:
            table, schema = CASES[case](FITTED_ROWS, COLUMNS)
            for method in asked.methods:
                model = f"{folder}/{case}-{method}.understudy"
                us.fit(table, schema, method, epsilon=1.0, seed=0, progress=False).save(model)
                for rows in asked.rows:
                    line = line_of(
                        case,
                        method,
                        model,
                        rows,
                        asked.processes,
                        asked.engine,
                        compared=not asked.without_baseline,
                    )
                    print(json.dumps(line), flush=True)
                    if asked.output is not None:
                        keep(asked.output, line)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        what, model, rows, processes, engine = sys.argv[2:]
        print(json.dumps(cost(what, model, int(rows), int(processes), engine)))
    else:
        main()
