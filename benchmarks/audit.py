"""Certified lower bounds on epsilon, end to end, with the noise that ships: one JSON line for each method and epsilon.

python benchmarks/audit.py independent copula mst --fits 1200 -o benchmarks/results/audit/end-to-end.jsonl
python benchmarks/audit.py prada --epsilon 4 --fits 400 -o benchmarks/results/audit/end-to-end.jsonl

Lines are added to the file. The schema has a number, a whole number that may be missing, and a category.
"""

import argparse
import json
import time
from pathlib import Path

from understudy.audit.end_to_end import end_to_end
from understudy.core.version import __version__
from understudy.tables.column import Column
from understudy.tables.schema import Schema

SCHEMA = Schema(
    name="audited",
    columns=(
        Column("height", "continuous", low=0.0, high=2.0),
        Column("children", "integer", low=0, high=20, nullable=True),
        Column("colour", "categorical", values=("red", "green", "blue")),
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="+")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    for method in arguments.methods:
        for epsilon in arguments.epsilon:
            started = time.process_time()
            found = end_to_end(SCHEMA, method, epsilon=epsilon, delta=arguments.delta, fits=arguments.fits)
            seconds = round(time.process_time() - started, 1)
            line = {**json.loads(found.to_json()), "cpu_seconds": seconds, "understudy": __version__}
            with arguments.output.open("a") as file:
                file.write(json.dumps(line) + "\n")
            share = found.epsilon_lower / epsilon
            print(f"{method} at {epsilon:g}: {found.epsilon_lower:.3f}, {share:.2f} of the claim, {seconds} CPU s")


if __name__ == "__main__":
    main()
