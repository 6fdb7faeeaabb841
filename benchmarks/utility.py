"""How useful and how close the synthetic rows are, everything private.

For each table, epsilon, method, with and without bounds, and split: fit on the 60 %, draw as many rows, train CatBoost
(300 trees, depth 6, rate 0.08) on them and score R² on the real 40 %. Beside it the sum over columns of the 1-D W1
distance to the test part (in deviations of the training part), its train-against-test floor, and how far any
synthetic value lies outside the real range (in ranges). One JSON line per run.

    UNDERSTUDY_DATA=... python benchmarks/utility.py -o benchmarks/results/utility.jsonl
    python benchmarks/utility.py --table benchmarks/results/utility.jsonl
    python benchmarks/utility.py --figure benchmarks/results/utility.jsonl docs/utility.svg
"""

import argparse
import itertools
import json
import multiprocessing
import time

import numpy as np
import polars as pl

import tables
import understudy as us


def r_squared(train: pl.DataFrame, test: pl.DataFrame, target: str) -> float:
    """CatBoost's R² on the test part."""
    from catboost import CatBoostRegressor  # pyright: ignore[reportMissingImports]

    learner = CatBoostRegressor(
        iterations=300, depth=6, learning_rate=0.08, random_seed=0, thread_count=1, verbose=0, allow_writing_files=False
    )
    learner.fit(train.drop(target).to_numpy(), train[target].to_numpy())
    truth, guess = test[target].to_numpy(), learner.predict(test.drop(target).to_numpy())
    return float(1 - ((truth - guess) ** 2).mean() / truth.var())


def excess(rows: pl.DataFrame, real: pl.DataFrame) -> float:
    """How far the farthest synthetic value is outside the real range, in ranges."""
    worst = 0.0
    for c in real.columns:
        made, known = rows[c].to_numpy(), real[c].to_numpy()
        worst = max(worst, float(max(made.max() - known.max(), known.min() - made.min()) / np.ptp(known)))
    return worst


def run(job: dict) -> dict:
    frame = tables.load(job["table"])
    train, test = tables.split(frame, job["split"])
    schema = tables.schema(job["table"], bounds=job["bounds"])
    result = dict(job)
    if job["method"] == "real rows":
        rows = train
    else:
        start = time.perf_counter()
        model = us.fit(train, schema, job["method"], epsilon=job["epsilon"], delta=1e-5, seed=job["seed"])
        result["seconds"] = round(time.perf_counter() - start, 2)
        result["epsilon_spent"] = model.receipt.epsilon
        rows = model.sample(len(train), seed=job["seed"])
        result["excess"] = round(excess(rows, frame), 3)
    distance = us.evaluate(test, rows, schema, metrics=["wd"], train=train).row(0, named=True)
    result["w1"], result["w1_floor"] = round(distance["value"], 4), round(distance["floor"], 4)
    assert schema.target is not None
    result["r2"] = round(r_squared(rows, test, schema.target), 4)
    return result


def jobs(arguments: argparse.Namespace) -> list[dict]:
    grid = itertools.product(arguments.tables, arguments.methods, arguments.epsilons, (True, False), arguments.splits)
    made = [{"table": t, "method": m, "epsilon": e, "bounds": b, "split": s, "seed": s} for t, m, e, b, s in grid]
    if arguments.floor:
        facts = {"method": "real rows", "epsilon": None, "bounds": True, "seed": 0}
        made += [{"table": t, **facts, "split": s} for t in arguments.tables for s in arguments.splits]
    return made


def show(path: str) -> None:
    """Means over splits, as a Markdown table."""
    lines = pl.read_ndjson(path, infer_schema_length=None)
    means = lines.group_by("table", "method", "bounds", "epsilon").agg(
        pl.len().alias("runs"),
        pl.col("r2").mean().round(3),
        (pl.col("r2").std() / pl.len().sqrt()).round(3).alias("± se"),
        pl.col("w1").mean().round(2),
        (pl.col("w1") / pl.col("w1_floor")).mean().round(2).alias("w1 / floor"),
        pl.col("excess").max().alias("worst excess"),
        pl.col("seconds").mean().round(1),
    )
    style = {"tbl_formatting": "MARKDOWN", "tbl_rows": -1, "tbl_cols": -1, "tbl_width_chars": 200}
    with pl.Config(tbl_hide_column_data_types=True, tbl_hide_dataframe_shape=True, **style):
        print(means.sort("table", "method", "bounds", "epsilon", descending=[False, False, True, False]))


def draw(path: str, picture: str) -> None:
    """R² against ε, a panel for each table, with the real rows as the ceiling."""
    import matplotlib  # pyright: ignore[reportMissingImports]

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "understudy"  # the same lines give the same file
    from matplotlib import pyplot  # pyright: ignore[reportMissingImports]

    lines = pl.read_ndjson(path, infer_schema_length=None)
    names = {"california": "California", "house_16h": "House-16H", "cpu_act": "Cpu-act"}
    figure, panels = pyplot.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
    for panel, (table, title) in zip(panels, names.items(), strict=True):
        here = lines.filter(pl.col("table") == table)
        for method, color in (("copula", "#1b6ca8"), ("independent", "#8a8a8a")):
            for bounds, style in ((True, "-"), (False, "--")):
                runs = here.filter((pl.col("method") == method) & (pl.col("bounds") == bounds))
                means = (
                    runs.group_by("epsilon").agg(pl.col("r2").mean(), pl.col("r2").std().alias("sd")).sort("epsilon")
                )
                label = f"{method}, {'round bounds' if bounds else 'no bounds'}"
                panel.errorbar(
                    means["epsilon"], means["r2"], means["sd"], color=color, ls=style, marker="o", ms=4, label=label
                )
        ceiling = here.filter(pl.col("method") == "real rows")["r2"].to_numpy().mean()
        panel.axhline(ceiling, color="black", lw=1, ls=":", label="real rows")
        panel.set(
            title=title, xlabel="ε", xscale="log", xticks=[0.2, 1, 5], xticklabels=["0.2", "1", "5"], ylim=(-0.1, 1)
        )
        panel.minorticks_off()
    panels[0].set_ylabel("CatBoost R² on real rows")
    figure.legend(*panels[0].get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=5)
    figure.savefig(picture, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output")
    parser.add_argument("--table", dest="shown", help="print the means of a result file")
    parser.add_argument("--figure", nargs=2, metavar=("FILE", "SVG"), help="draw the means of a result file")
    parser.add_argument("--tables", nargs="+", default=["california", "house_16h", "cpu_act"])
    parser.add_argument("--methods", nargs="+", default=["copula", "independent"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.2, 1.0, 5.0])
    parser.add_argument("--splits", nargs="+", type=int, default=list(range(10, 15)))
    parser.add_argument("--floor", action="store_true", help="also train on the real rows")
    arguments = parser.parse_args()
    if arguments.shown:
        return show(arguments.shown)
    if arguments.figure:
        return draw(*arguments.figure)
    with multiprocessing.get_context("spawn").Pool(2) as pool, open(arguments.output, "w") as file:
        for result in pool.imap(run, jobs(arguments)):
            file.write(json.dumps(result) + "\n")
            file.flush()
    show(arguments.output)


if __name__ == "__main__":
    main()
