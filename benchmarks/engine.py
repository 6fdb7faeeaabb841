"""The training engine by itself: how its time and memory grow, and what many fits at once are worth.

Each figure is taken in a process of its own, on standard normal columns, with the settings of `PradaGAN.paper` for
California unless it says otherwise; a "step" is one of the critic, the generator's included.

    python benchmarks/engine.py -o benchmarks/results/engine.jsonl            # on a CPU
    python benchmarks/engine.py --only many -o benchmarks/results/engine-gpu.jsonl   # on a GPU; NumPy, SciPy, JAX,
                                                                              # Optax and dp-accounting are enough
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time

DELTA, EPSILON = 1e-5, 1.0


def fits(rows: int, columns: int, count: int, steps: int, **changes):
    """A function that trains so many generators on one table at once, each with its own seed."""
    import numpy as np

    from understudy import encoding
    from understudy.core.randomness import Key
    from understudy.privacy.ledger import Ledger
    from understudy.privacy.plan import Budget
    from understudy.privacy.rows import lock
    from understudy.synthesizers.base import FitRequest
    from understudy.synthesizers.prada.adversarial.method import PradaGAN
    from understudy.tables.column import Column
    from understudy.tables.schema import Schema

    names = [f"c{j}" for j in range(columns)]
    schema = Schema(name="speed", rows=rows, columns=tuple(Column(name=name, kind="continuous") for name in names))
    draw = np.random.default_rng(0)
    locked = lock({name: draw.standard_normal(rows) for name in names}, {}, key=Key.new(0))
    method = PradaGAN.paper("california", EPSILON, **{"critic_steps": steps, "fakes": 50, **changes})
    budget = Budget(epsilon=1e6, delta=DELTA)

    def run(told: list | None = None) -> None:
        ledgers = [Ledger(budget, method.plan(schema), seed=seed) for seed in range(count)]
        if told is not None:
            ledgers[0].on_step = lambda done, _: told.append((time.perf_counter(), done))
        encoders = [encoding.pass_through_encoder(schema, ledger=ledger) for ledger in ledgers]
        PradaGAN.fit_many(
            [
                FitRequest(method=method, rows=locked, encoder=encoder, ledger=ledger, key=Key.new(seed))
                for seed, (encoder, ledger) in enumerate(zip(encoders, ledgers, strict=True))
            ]
        )

    return run


def seconds(function) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def by_rows() -> dict:
    """Microseconds a step for tables of ten thousand to ten million rows: the best of three, between two reports.

    What is done once (opening the box, compiling) comes before the first report.
    """
    found = {}
    for rows in (10**4, 10**5, 10**6, 10**7):
        run, best = fits(rows, 8, 1, 8000), []
        for _ in range(3):
            told = []
            run(told)
            (start, first), (end, last) = told[0], told[-1]
            best.append(1e6 * (end - start) / (last - first))
        found[str(rows)] = min(best)
    return {"step_us_by_rows": found, "growth": found["10000000"] / found["10000"]}


def by_columns(columns: int) -> dict:
    """Seconds to compile for a table of so many columns: the first training less the second."""
    run = fits(2000, columns, 1, 160)
    first, second = seconds(run), seconds(run)
    return {"columns": columns, "compile_s": first - second}


def many(count: int) -> dict:
    """Seconds of so many fits of 8000 steps at once, and of one, compiled already."""
    import jax

    together, alone = fits(12_384, 8, count, 8000), fits(12_384, 8, 1, 8000)
    first = seconds(together)
    alone()
    at_once, single = min(seconds(together) for _ in range(3)), min(seconds(alone) for _ in range(3))
    return {
        "fits": count,
        "device": jax.devices()[0].device_kind,
        "first_s": first,
        "together_s": at_once,
        "one_s": single,
        "times_cheaper": count * single / at_once,
    }


def memory() -> dict:
    """The largest resident memory of a fit of the default settings on 20 000 rows of 20 columns, with everything."""
    import numpy as np
    import polars as pl

    import understudy as us

    draw = np.random.default_rng(0)
    frame = pl.DataFrame({f"c{j}": draw.standard_normal(20_000) for j in range(20)})
    columns = tuple(us.Column(name=name, kind="continuous", low=-10.0, high=10.0) for name in frame.columns)
    schema = us.Schema(name="speed", rows=20_000, columns=columns)
    start = time.perf_counter()
    model = us.fit(frame, schema, us.PradaGAN(), epsilon=EPSILON, delta=DELTA)
    took = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    model.sample(1000)
    start = time.perf_counter()
    model.sample(1_000_000)
    return {
        "fit_20000_by_20_s": took,
        "peak_gib": peak,
        "sample_million_by_20_s": time.perf_counter() - start,
        "peak_with_sampling_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def compiling() -> dict:
    """Seconds to compile for 8 and for 128 columns, each in a fresh process without a cache."""
    found = {columns: fresh("columns", str(columns))["compile_s"] for columns in (8, 32, 128)}
    return {"compile_s_by_columns": found, "growth": found[128] / found[8]}


def fresh(*arguments: str) -> dict:
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        command = [sys.executable, __file__, "--one", *arguments]
        shown = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return json.loads(shown.stdout.splitlines()[-1])


FIGURES = {"rows": by_rows, "compile": compiling, "many": lambda: many(72), "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required="--one" not in sys.argv)
    parser.add_argument("--only", choices=FIGURES, action="append")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, *rest = arguments.one
        result = by_columns(int(rest[0])) if name == "columns" else FIGURES[name]()
        return print(json.dumps(result))
    with open(arguments.output, "w") as file:
        for name in arguments.only or FIGURES:
            line = {"figure": name, "python": platform.python_version(), **fresh(name)}
            print(json.dumps(line), flush=True)
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
