"""MST and AIM side by side with dpmm's: usefulness and seconds on California, error of pairs on Adult.

California: dpmm finds its own cells with a tenth of ε, within the bounds of the schema; ours is end to end private as
always. CatBoost is trained on the synthetic rows of either and tested on the same real ones.

Adult: every column as categories, numbers cut at public round values, so that nothing but the method differs. The error
is that of the workload of all pairs, ‖ counts of real rows - counts of synthetic rows ‖₁ / n, averaged over pairs.

Income: Adult as it comes, with numbers and missing values, on the splits and with the metrics of grids/adult.toml,
whose results are those of our side. dpmm is given bounds and categories.

dpmm pins old versions of numpy and pandas and is no dependency: give the Python of an environment of its own.

    python -m venv /tmp/dpmm && /tmp/dpmm/bin/pip install dpmm==0.1.9
    python benchmarks/against_dpmm.py --dpmm /tmp/dpmm/bin/python -o benchmarks/results/dpmm.jsonl
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DELTA = 1e-5
FIELD = {  # Adult's numbers, cut here; the last bin has no end
    "age": (17, 25, 30, 35, 40, 45, 50, 55, 60, 65, 75),
    "fnlwgt": (0, 50_000, 100_000, 150_000, 200_000, 250_000, 300_000, 400_000, 600_000),
    "capital-gain": (0, 1, 2_000, 4_000, 6_000, 8_000, 10_000, 20_000),
    "capital-loss": (0, 1, 1_500, 1_750, 2_000, 2_500),
    "hours-per-week": (1, 20, 30, 35, 40, 41, 45, 50, 60, 80),
}


def theirs(job: dict[str, Any]) -> dict[str, Any]:
    """In the environment of dpmm: fits one method on the rows of a file and leaves its synthetic ones in another."""
    import pandas as pd  # pyright: ignore[reportMissingImports]
    from dpmm.pipelines import AIMPipeline, MSTPipeline  # pyright: ignore[reportMissingImports]

    frame = pd.read_csv(job["rows"])
    pipeline = {"mst": MSTPipeline, "aim": AIMPipeline}[job["method"]]
    epsilon, size, given = job["epsilon"], job["max_mb"], job["bounds"] is None
    start = time.perf_counter()
    if given:  # columns are codes already, and the domain says how many of each there are
        settings = {"n_jobs": 1, "max_model_size": size, "gen_kwargs": {"n_iters": job["iterations"]}}
        model = pipeline(epsilon=epsilon, delta=DELTA, disable_processing=True, **settings)
        model.fit(frame, domain=job["sizes"], random_state=job["seed"])
    else:
        model = pipeline(epsilon=0.9 * epsilon, delta=DELTA, proc_epsilon=0.1 * epsilon, n_jobs=1, max_model_size=size)
        model.fit(frame, domain=job["bounds"], random_state=job["seed"])
    fitted = time.perf_counter()
    model.generate(n_records=len(frame), random_state=job["seed"]).to_csv(job["synthetic"], index=False)
    return {"fit_s": fitted - start}


def ours(job: dict[str, Any]) -> dict[str, Any]:
    """The same of this library, in a fresh process likewise."""
    import polars as pl

    import understudy as us
    from understudy import datasets

    frame = pl.read_csv(job["rows"])
    if job["bounds"] is None:
        columns = tuple(
            us.Column(name=name, kind="categorical", values=tuple(str(i) for i in range(size)))
            for name, size in job["sizes"].items()
        )
        schema, frame = us.Schema(name="adult", columns=columns), frame.cast(pl.String)
    else:
        schema = datasets.schema("california")
    start = time.perf_counter()
    model = us.fit(frame, schema, job["method"], epsilon=job["epsilon"], delta=DELTA, seed=job["seed"])
    fitted = time.perf_counter()
    model.sample(len(frame), seed=job["seed"]).write_csv(job["synthetic"])
    return {"fit_s": fitted - start}


def california(folder: Path, seed: int) -> tuple[dict[str, Any], Any]:
    """Split 0, as a job for either side, and its evaluation: R² of CatBoost on the test rows."""
    import polars as pl

    from understudy import datasets

    train, test = datasets.split(datasets.load("california"), 0)
    schema = datasets.schema("california")
    target = schema.target
    assert target is not None
    train.write_csv(folder / "california.csv")
    bounds = {each.name: {"lower": each.low, "upper": each.high} for each in schema.columns}

    def evaluate(synthetic: Path) -> dict[str, float]:
        from catboost import CatBoostRegressor

        made = pl.read_csv(synthetic).drop_nulls()
        inputs = [name for name in schema.names if name != target]
        learner = CatBoostRegressor(
            iterations=300,
            depth=6,
            learning_rate=0.08,
            random_seed=0,
            verbose=False,
            allow_writing_files=False,
            thread_count=1,
        )
        learner.fit(made[inputs].to_numpy(), made[target].to_numpy())
        error = test[target].to_numpy() - learner.predict(test[inputs].to_numpy())
        return {"r2": float(1 - (error**2).mean() / test[target].to_numpy().var())}

    return {"rows": str(folder / "california.csv"), "bounds": bounds, "sizes": None}, evaluate


def adult(folder: Path, seed: int) -> tuple[dict[str, Any], Any]:
    """All rows in categories, as a job for either side, and its evaluation: the mean error of pairs."""
    import numpy as np
    import polars as pl

    from understudy import datasets

    schema = datasets.schema("adult")
    frame = datasets.load("adult")
    codes: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for column in schema.columns:
        values = frame[column.name]
        if column.name in FIELD:
            edges = np.array(FIELD[column.name], float)
            codes[column.name] = np.clip(np.searchsorted(edges, values.to_numpy(), side="right") - 1, 0, None)
            sizes[column.name] = len(edges)
            continue
        whole = column.kind == "integer"
        labels = [str(i) for i in range(1, 17)] if whole else list(column.values or ())
        place = {label: i for i, label in enumerate(labels)}
        missing = len(labels)  # a category of its own
        codes[column.name] = np.array([place.get(str(value), missing) for value in values.to_list()])
        sizes[column.name] = len(labels) + (1 if column.nullable else 0)
    real = pl.DataFrame(codes)
    real.write_csv(folder / "adult.csv")

    def evaluate(synthetic: Path) -> dict[str, float]:
        made = pl.read_csv(synthetic)
        errors = []
        for a, b in itertools.combinations(sizes, 2):
            cells = sizes[a] * sizes[b]
            count = [
                np.bincount(each[a].to_numpy() * sizes[b] + each[b].to_numpy(), minlength=cells) / len(each)
                for each in (real, made)
            ]
            errors.append(np.abs(count[0] - count[1]).sum())
        return {"workload_error": float(np.mean(errors))}

    return {"rows": str(folder / "adult.csv"), "bounds": None, "sizes": sizes}, evaluate


def income(folder: Path, seed: int) -> tuple[dict[str, Any], Any]:
    """Split 5 + seed of Adult, as a job for dpmm, and its evaluation: that of the benchmark."""
    import polars as pl

    from understudy import datasets
    from understudy.evaluation.evaluate import metric_values

    train, test = datasets.split(datasets.load("adult"), 5 + seed)
    schema = datasets.schema("adult")
    train.write_csv(folder / "income.csv")
    bounds = {
        each.name: {"categories": list(each.values)} if each.values else {"lower": each.low, "upper": each.high}
        for each in schema.columns
    }

    def evaluate(synthetic: Path) -> dict[str, float | None]:
        words = {name: kind for name, kind in train.schema.items() if kind == pl.String}
        made = pl.read_csv(synthetic, schema_overrides=words, infer_schema_length=None)[train.columns]
        return metric_values(
            test,
            made,
            schema,
            train=train,
            metrics=["tvd1", "tvd2", "f1", "auc"],
            learners=["catboost"],
            seed=5 + seed,
            threads=1,
        )

    return {"rows": str(folder / "income.csv"), "bounds": bounds, "sizes": None}, evaluate


def run(python: str, side: str, job: dict[str, Any]) -> dict[str, Any]:
    command = [python, __file__, f"--{side}", json.dumps(job)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(shown.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output")
    parser.add_argument("--dpmm", help="the Python of an environment with dpmm")
    parser.add_argument("--tables", nargs="+", default=["california", "adult", "income"])
    parser.add_argument("--methods", nargs="+", default=["mst", "aim"])
    parser.add_argument("--sides", nargs="+", default=["theirs", "ours"], help="theirs, ours or both")
    parser.add_argument("--epsilons", nargs="+", type=float, help="of California; Adult has 1")
    parser.add_argument("--seeds", type=int, default=5, help="fits of each; of California, of ours")
    parser.add_argument("--max-mb", type=float, default=80, help="of dpmm's models; on Adult its AIM takes hours at 80")
    parser.add_argument("--iterations", type=int, default=1000, help="of dpmm's inference on Adult in categories")
    parser.add_argument("--theirs", help=argparse.SUPPRESS)
    parser.add_argument("--ours", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.theirs:
        return print(json.dumps(theirs(json.loads(arguments.theirs))))
    if arguments.ours:
        return print(json.dumps(ours(json.loads(arguments.ours))))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for table in arguments.tables:
            epsilons = arguments.epsilons if table == "california" and arguments.epsilons else [1.0]
            for method, epsilon, seed, side in itertools.product(
                arguments.methods, epsilons, range(arguments.seeds), arguments.sides
            ):
                if table == "california" and side == "theirs" and seed:
                    continue  # minutes each
                if table == "income" and side == "ours":
                    continue  # of the benchmark
                job, evaluate = {"california": california, "adult": adult, "income": income}[table](folder, seed)
                synthetic = folder / "synthetic.csv"
                one = {
                    **job,
                    "max_mb": arguments.max_mb,
                    "iterations": arguments.iterations,
                    "method": method,
                    "epsilon": epsilon,
                    "seed": seed,
                    "synthetic": str(synthetic),
                }
                took = run(arguments.dpmm if side == "theirs" else sys.executable, side, one)
                line = {"table": table, "method": method, "epsilon": epsilon, "seed": seed, "side": side}
                if side == "theirs":
                    line["max_mb"] = arguments.max_mb
                    if table == "adult":
                        line["iterations"] = arguments.iterations
                line |= {**took, **evaluate(synthetic)}
                print(json.dumps(line), flush=True)
                with open(arguments.output, "a") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
