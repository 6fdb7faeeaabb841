"""Databases at one budget: fit the training units, sample as many, and judge them against units that were kept.

    UNDERSTUDY_DATA=... python benchmarks/databases.py -o benchmarks/results/databases/runs.jsonl

One line of JSON for each run, with the metrics of every table and link, the verdict, and what the project wants to
reach ("lines"): every key leads to a parent; the number of children is within 0.05 (ε = 1) or 0.02 (ε = 5); parents
with children and consecutive siblings keep 60 % of the way from shuffled children to real units (ε = 1) or are within
twice the floor (ε = 5); prediction reaches 80 % (ε = 5). Runs that are in the file already are not repeated.
"""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportIndexIssue=false, reportOptionalMemberAccess=false, reportReturnType=false, reportOptionalOperand=false

import argparse
import itertools
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from understudy import datasets
from understudy.benchmark.database_runs import database_split
from understudy.benchmark.grids import Dataset

Frames = dict[str, pl.DataFrame]


def database(name: str, units: int | None, seed: int) -> tuple[us.DatabaseSchema, Frames, Frames]:
    """The schema, the training units and the test units of a database, at most so many in all."""
    split = database_split(Dataset(database=name, rows=units), seed)
    return split.schema, split.train, split.test


def run(job: dict[str, Any]) -> dict[str, Any]:
    """One run: fitted, sampled, judged."""
    schema, train, test = database(job["database"], job["units"], job["seed"])
    started = time.perf_counter()
    budget = {"epsilon": job["epsilon"], "delta": job["delta"]}
    model = us.fit(train, schema, job["method"], **budget, seed=job["seed"])
    fitted = time.perf_counter()
    made = model.sample(len(train[schema.unit]), seed=job["seed"])
    sampled = time.perf_counter()
    found = us.evaluate(test, made, schema, train=train, seed=job["seed"])
    whole = found.filter(pl.col("columns") == "").drop("columns", "how").to_dicts()
    lines = {f"{row['metric']}, {row['table']}": line_of(row, job["epsilon"]) for row in whole}
    children = {table.name: children_distance(train, test, made, table, schema) for table in schema if table.parent}
    limit = 0.02 if job["epsilon"] >= 5 else 0.05
    lines |= {f"children of all units, {name}": distance <= limit for name, distance in children.items()}
    rules = {"broken_rules": datasets.broken_rules(made)} if job["database"] == "hospital" else {}
    return {
        **job,
        "fit_seconds": round(fitted - started, 1),
        "sample_seconds": round(sampled - fitted, 1),
        "judge_seconds": round(time.perf_counter() - sampled, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "rows": {name: len(frame) for name, frame in made.items()},
        "score": round(found.score, 3),
        "parts": {part.name: round(part.score, 3) for part in found.verdict.parts},
        "metrics": [{key: _rounded(value) for key, value in row.items()} for row in whole],
        "lines": {name: line for name, line in lines.items() if line is not None},
        "children_of_all_units": {name: _rounded(distance) for name, distance in children.items()},
        "rules": found.verdict.findings["rules"],
        **rules,
    }


def children_distance(
    train: Frames, test: Frames, made: Frames, table: us.TableSchema, schema: us.DatabaseSchema
) -> float:
    """Total variation of the number of children, against all real units: chance weighs less than on the test units."""
    parent = schema[table.parent or ""]
    shares = []
    for parts in ([train, test], [made]):
        counts = pl.concat([_counts(part, table, parent) for part in parts])
        shares.append(np.bincount(counts, minlength=(table.max_per_parent or 0) + 1) / len(counts))
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _counts(frames: Frames, table: us.TableSchema, parent: us.TableSchema) -> pl.Series:
    found = frames[table.name].group_by(list(table.foreign_key)).len()
    keys = {"left_on": list(parent.key), "right_on": list(table.foreign_key)}
    counts = frames[parent.name].join(found, how="left", **keys)["len"].fill_null(0).cast(pl.Int64)
    return counts.clip(upper_bound=table.max_per_parent)


def line_of(row: dict[str, Any], epsilon: float) -> bool | None:
    """Whether a metric reaches what the project wants at this ε; None if nothing is asked of it."""
    value, floor, reference = row["value"], row["floor"], row["reference"]
    strict = epsilon >= 5
    if row["metric"] == "integrity":
        return value == 0.0
    if row["metric"] in ("parent_child", "siblings"):
        return value <= 2 * floor if strict else (reference - value) >= 0.6 * (reference - floor)
    if row["metric"] in ("aggregate", "next"):
        return value >= 0.8 if strict else None
    return None


def _rounded(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--databases", nargs="+", default=["baseball", "cdnow", "hospital"])
    parser.add_argument("--methods", nargs="+", default=["prada", "mst"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 5.0])
    parser.add_argument("--units", type=int, help="Only so many units of each database.")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    arguments = parser.parse_args()
    path = Path(arguments.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    chosen = (arguments.databases, arguments.methods, arguments.epsilons, arguments.seeds)
    for name, method, epsilon, seed in itertools.product(*chosen):
        job = {"database": name, "method": method, "epsilon": epsilon, "delta": 1e-6}
        job |= {"units": arguments.units, "seed": seed}
        if any(job.items() <= each.items() for each in known):
            continue
        result = run(job)
        with path.open("a") as file:
            file.write(json.dumps(result) + "\n")
        missed = [name for name, reached in result["lines"].items() if not reached]
        print(name, method, epsilon, result["score"], f"{result['fit_seconds']} s", f"missed: {missed}", flush=True)


if __name__ == "__main__":
    main()
