"""No synthetic value may be made of noise: the farthest one outside the real range, in ranges, over many seeds.

UNDERSTUDY_DATA=... python benchmarks/far_values.py -o benchmarks/results/far_values.jsonl
"""

import argparse
import itertools
import json
import multiprocessing

import numpy as np
import polars as pl

import understudy as us
from understudy import datasets


def excess(rows: pl.DataFrame, real: pl.DataFrame) -> float:
    """How far the farthest synthetic value is outside the real range, in ranges."""
    worst = 0.0
    for c in real.columns:
        made, known = rows[c].to_numpy(), real[c].to_numpy()
        worst = max(worst, float(max(made.max() - known.max(), known.min() - made.min()) / np.ptp(known)))
    return worst


def run(job: dict) -> dict:
    frame = datasets.load(job["table"])
    schema = datasets.schema(job["table"], bounds=job["bounds"])
    worst = 0.0
    for seed in range(job["seeds"]):
        train, _ = datasets.split(frame, 100 + seed)
        model = us.fit(train, schema, job["method"], epsilon=job["epsilon"], delta=1e-5, seed=seed)
        worst = max(worst, excess(model.sample(len(train), seed=seed), frame))
    return {**job, "worst_excess": round(worst, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    grid = itertools.product(
        ["california", "house_16h", "cpu_act"], ["independent", "copula"], [0.1, 0.2, 1.0, 5.0, 20.0], [True, False]
    )
    jobs = [
        {"table": t, "method": m, "epsilon": e, "bounds": b, "seeds": arguments.seeds, "splits": "100.."}
        for t, m, e, b in grid
    ]
    with multiprocessing.get_context("spawn").Pool(2) as pool, open(arguments.output, "w") as file:
        for result in pool.imap(run, jobs):
            file.write(json.dumps(result) + "\n")
            print(*result.values(), flush=True)


if __name__ == "__main__":
    main()
