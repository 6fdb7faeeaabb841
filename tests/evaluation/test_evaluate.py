"""Evaluate: one tidy frame, with the floor and the reference, whatever the tables come as, and the stamp on it."""

import dataclasses
import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from commands import run
from conftest import MIXED, few_trees, mixed_table
from understudy.evaluation.evaluate import NOT_COVERED, WORST, evaluate, metric_values, shuffled
from understudy.evaluation.learners import LEARNERS
from understudy.evaluation.metrics import METRICS, resolve
from understudy.tables.column import Column
from understudy.tables.schema import Schema

QUICK = ["wd", "tvd1", "tvd2", "correlation_max"]


LINEAR = Schema(columns=tuple(Column(name=name, kind="continuous") for name in "xy"), target="y")


def linear(n: int, seed: int) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=n)
    return pl.DataFrame({"x": x, "y": x + 0.3 * draw.normal(size=n)})


@pytest.fixture(scope="module", autouse=True)
def _quick_learners():
    with few_trees():
        yield


@pytest.fixture(scope="module")
def tables():
    return {"real": mixed_table(300), "synthetic": mixed_table(400, seed=1), "train": mixed_table(500, seed=2)}


@pytest.fixture(scope="module")
def evaluated(tables):
    return us.evaluate(tables["real"], tables["synthetic"], MIXED, train=tables["train"])


@pytest.fixture(scope="module")
def folder(tables, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, frame in tables.items():
        frame.write_csv(folder / f"{name}.csv")
    tables["synthetic"].write_parquet(folder / "synthetic.parquet")
    MIXED.write(folder / "mixed.toml")
    INCOME.write(folder / "income.toml")
    return folder


# The frame ----------------------------------------------------------------------------------------------------------


def test_the_frame_is_tidy(evaluated):
    assert evaluated.columns == ["metric", "columns", "learner", "value", "floor", "reference", "how"]
    assert evaluated.select("metric", "columns", "learner").is_unique().all()
    assert evaluated["how"].str.len_chars().min() > 0


def test_whole_tables_come_first_and_then_their_parts(evaluated):
    whole = evaluated.head(len(METRICS))
    assert whole["metric"].to_list() == list(METRICS) and set(whole["columns"]) == {""}
    parts = evaluated.slice(len(METRICS))
    assert parts.filter(metric="wd")["columns"].to_list() == list(MIXED.names)
    assert parts.filter(metric="tvd1")["columns"].to_list() == list(MIXED.names)
    assert len(parts.filter(metric="tvd2")) == len(parts.filter(metric="correlation_max")) == WORST
    assert parts.filter(metric="tvd2")["value"].is_sorted(descending=True)


def test_the_parts_make_the_whole(evaluated):
    def value(name):
        return evaluated.filter(metric=name, columns="")["value"].item()

    parts = evaluated.filter(pl.col("columns") != "")
    assert parts.filter(metric="wd")["value"].sum() == pytest.approx(value("wd"))
    assert parts.filter(metric="tvd1")["value"].mean() == pytest.approx(value("tvd1"))
    assert parts.filter(metric="correlation_max")["value"].max() == value("correlation_max")


def test_the_floor_is_the_training_table_against_the_real_one(tables, evaluated):
    again = us.evaluate(tables["real"], tables["train"], MIXED, train=tables["train"])
    assert again["value"].to_list() == pytest.approx(again["floor"].to_list(), nan_ok=True)
    floors = evaluated.filter(columns="")["floor"].to_list()
    assert floors == pytest.approx(again.filter(columns="")["value"].to_list())


def test_the_reference_has_the_margins_of_the_floor_and_no_dependence(evaluated):
    whole = {row["metric"]: row for row in evaluated.filter(columns="").to_dicts()}
    assert whole["tvd1"]["reference"] == pytest.approx(whole["tvd1"]["floor"])
    assert whole["wd"]["reference"] == pytest.approx(whole["wd"]["floor"])
    assert whole["correlation_max"]["reference"] > 2 * whole["correlation_max"]["floor"]
    assert whole["tvd2_quantile"]["reference"] > whole["tvd2_quantile"]["floor"]


def test_without_a_training_table_there_is_neither_floor_nor_reference(tables):
    alone = us.evaluate(tables["real"], tables["synthetic"], MIXED, metrics=QUICK)
    assert alone["floor"].null_count() == alone["reference"].null_count() == len(alone)


def test_the_same_seed_gives_the_same_numbers(tables, evaluated):
    again = us.evaluate(tables["real"], tables["synthetic"], MIXED, train=tables["train"])
    assert again.equals(evaluated)


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "csv", "parquet"])
def test_tables_come_as_they_come_to_fit(kind, tables, tmp_path):
    def dress(name):
        frame, path = tables[name], tmp_path / f"{name}.{kind}"
        if kind == "pandas":
            return frame.to_pandas()
        if kind == "pyarrow":
            return frame.to_arrow()
        (frame.write_csv if kind == "csv" else frame.write_parquet)(path)
        return path

    expected = us.evaluate(tables["real"], tables["synthetic"], MIXED, metrics=QUICK, train=tables["train"])
    found = us.evaluate(dress("real"), dress("synthetic"), MIXED, metrics=QUICK, train=dress("train"))
    assert found["value"].to_list() == pytest.approx(expected["value"].to_list())
    assert found.select("metric", "columns", "how").equals(expected.select("metric", "columns", "how"))


def test_only_what_is_asked_for_is_computed(tables):
    found = us.evaluate(tables["real"], tables["synthetic"], MIXED, metrics=["js", "tvd4"])
    assert found["metric"].to_list() == ["js", "tvd4"] and found["value"].null_count() == 0
    assert "35 4-tuples" in found["how"][1]


def test_an_unknown_metric_is_refused_with_a_hint():
    with pytest.raises(ValueError, match=r"expected some of wd, .* got 'tdv2'\. Did you mean 'tvd2'\?"):
        resolve(MIXED, ["tdv2"])


def test_the_unit_is_not_looked_at(tables):
    columns = MIXED.columns
    schema = Schema(columns=columns, unit="person", max_rows_per_unit=2)
    real = tables["real"].with_columns(person=pl.int_range(pl.len()) // 2)
    found = us.evaluate(real, tables["synthetic"], schema, metrics=["wd"])  # a synthetic table has no units
    assert found.equals(us.evaluate(tables["real"], tables["synthetic"], MIXED, metrics=["wd"]))


UNDEFINED = {
    *("tvd2", "tvd3", "tvd2_quantile", "tvd3_quantile", "correlation_max", "correlation_mean"),
    *("rank_correlation", "cramers_v", "correlation_ratio"),
}
"""The metrics that a single column of numbers has not."""


def test_a_table_of_one_column_is_evaluated(tables):
    schema = Schema(columns=(MIXED["age"],))
    found = us.evaluate(tables["real"].select("age"), tables["synthetic"].select("age"), schema)
    missing = found.filter(pl.col("value").is_null())
    assert set(missing["metric"]) == UNDEFINED
    assert missing["how"].str.contains("needs at least").all()


def test_a_table_of_another_structure_is_refused(tables):
    with pytest.raises(us.TableError, match="age"):
        us.evaluate(tables["real"], tables["synthetic"].drop("age"), MIXED)


def test_the_front_door_keeps_the_function_when_its_module_is_imported():
    import importlib

    assert importlib.import_module("understudy.evaluation.evaluate").evaluate is us.evaluate is evaluate


@pytest.mark.slow
def test_a_large_table_takes_seconds():
    names = [f"c{place}" for place in range(20)]
    schema = Schema(columns=tuple(Column(name=name, kind="continuous") for name in names))
    draw = np.random.default_rng(0)
    real, synthetic = (pl.DataFrame(draw.normal(size=(rows, 20)), schema=names) for rows in (8000, 12000))
    start = time.process_time()
    us.evaluate(real, synthetic, schema)
    assert time.process_time() - start < 10  # of both cores: under 5 s on the clock


# Shuffles -----------------------------------------------------------------------------------------------------------


def test_a_shuffle_keeps_every_column_and_no_pair(tables):
    made = shuffled(tables["train"], 3)
    assert made.schema == tables["train"].schema
    assert all(made[name].sort().equals(tables["train"][name].sort()) for name in made.columns)
    assert (
        abs(made.select(pl.corr("age", "weight")).item())
        < 0.15
        < tables["train"].select(pl.corr("age", "weight")).item()
    )


def test_a_shuffle_does_not_ask_in_which_order_the_columns_are(tables):
    frame = tables["train"]
    assert shuffled(frame.select(frame.columns[::-1]), 3).select(frame.columns).equals(shuffled(frame, 3))
    assert not shuffled(frame, 4).equals(shuffled(frame, 3))


def test_shuffled_columns_correlate_as_independent_ones_do():
    frame = linear(400, 0)
    found = [shuffled(frame, seed).select(pl.corr("x", "y")).item() * 400**0.5 for seed in range(300)]
    assert np.mean(found) == pytest.approx(0.0, abs=4 / 300**0.5)
    assert np.std(found) == pytest.approx(1.0, abs=4 / 600**0.5)


def test_the_reference_is_the_shuffled_training_table(tables, evaluated):
    again = metric_values(
        tables["real"], shuffled(tables["train"], 0), MIXED, train=tables["train"], metrics=None, learners=None, seed=0
    )
    whole = evaluated.filter(columns="")
    assert again == dict(zip(whole["metric"], whole["reference"], strict=True))


# Usefulness ---------------------------------------------------------------------------------------------------------

INCOME, COLOUR = (dataclasses.replace(MIXED, target=target) for target in ("income", "colour"))
LEARNER = "random forest"


@pytest.fixture(scope="module")
def useful(tables):
    return us.evaluate(
        tables["real"],
        tables["synthetic"],
        INCOME,
        metrics=["wd", "rmse", "r2"],
        learners=LEARNER,
        train=tables["train"],
    )


def test_a_learner_has_rows_of_its_own_among_those_of_whole_tables(useful):
    assert useful.head(3).select("metric", "columns", "learner").rows() == [
        ("wd", "", ""),
        ("rmse", "", LEARNER),
        ("r2", "", LEARNER),
    ]
    assert set(useful.slice(3)["learner"]) == {""}
    assert "z-scored by the fitted table; trained on" in useful["how"][1]


def test_a_perfect_table_is_as_useful_as_the_floor_exactly(tables, useful):
    same = us.evaluate(
        tables["real"], tables["train"], INCOME, metrics=["r2", "rmse"], learners=LEARNER, train=tables["train"]
    )
    assert same["value"].to_list() == same["floor"].to_list() == useful["floor"][2:0:-1].to_list()
    assert same["value"].null_count() == 0


def test_nothing_is_learned_from_the_shuffled_reference():
    real, train = linear(1000, 0), linear(2000, 1)
    found = us.evaluate(real, train, LINEAR, metrics="r2", learners="svm", train=train)
    assert found["floor"].item() > 0.8
    # Two shuffled columns correlate by chance, r = 1 / √2000; a learner that believes it has an R² of about ±2r.
    assert found["reference"].item() == pytest.approx(0.0, abs=4 * 2 / 2000**0.5)


def test_an_error_is_measured_in_deviations_of_the_training_table():
    real, synthetic, train = linear(200, 0), linear(300, 1), linear(300, 2)
    wide = train.with_columns(pl.col("y") * 10)
    narrow, broad = (
        metric_values(real, synthetic, LINEAR, train=table, metrics=["rmse", "r2"], learners=[LEARNER], seed=0)
        for table in (train, wide)
    )
    assert broad[f"rmse/{LEARNER}"] == pytest.approx(narrow[f"rmse/{LEARNER}"] / 10)  # pyright: ignore[reportOptionalOperand]
    assert broad[f"r2/{LEARNER}"] == narrow[f"r2/{LEARNER}"]


@pytest.mark.parametrize("target", ["colour", "city", "member"])
def test_a_target_of_classes_has_metrics_of_classes(tables, target):
    schema = dataclasses.replace(MIXED, target=target)
    found = us.evaluate(tables["real"], tables["synthetic"], schema, learners=[LEARNER])
    assert found.filter(learner=LEARNER)["metric"].to_list() == ["f1", "auc", "accuracy"]
    assert found.filter(columns="", learner="")["metric"].to_list() == list(METRICS)
    assert found.filter(learner=LEARNER)["value"].is_between(0, 1).all()


def test_metric_values_are_those_of_whole_tables(tables, useful):
    found = metric_values(
        tables["real"],
        tables["synthetic"],
        INCOME,
        train=tables["train"],
        metrics=["wd", "rmse", "r2"],
        learners=[LEARNER],
        seed=0,
    )
    assert list(found) == ["wd", f"rmse/{LEARNER}", f"r2/{LEARNER}"]
    assert list(found.values()) == useful["value"][:3].to_list()


def test_the_same_seed_trains_the_same_learner(tables, useful):
    again, other = (
        us.evaluate(
            *(tables["real"], tables["synthetic"], INCOME),
            metrics=["wd", "rmse", "r2"],
            learners=LEARNER,
            train=tables["train"],
            seed=seed,
        )
        for seed in (0, 2**40 + 1)  # wider than the libraries take
    )
    assert again.equals(useful)
    assert other["value"][1] != useful["value"][1]


def test_a_learner_does_not_look_at_the_unit(tables, useful):
    schema = dataclasses.replace(INCOME, unit="person", max_rows_per_unit=2)
    real, train = (tables[name].with_columns(person=pl.int_range(pl.len()) // 2) for name in ("real", "train"))
    found = us.evaluate(real, tables["synthetic"], schema, metrics=["wd", "rmse", "r2"], learners=LEARNER, train=train)
    assert found.equals(useful)


def test_what_is_undefined_is_null(tables):
    gone = tables["synthetic"].with_columns(income=pl.lit(None, dtype=pl.Float64))
    asked = {"metrics": ["r2", "rmse"], "learners": [LEARNER], "train": tables["train"]}
    found = us.evaluate(tables["real"], gone, INCOME, **asked)
    assert found["value"].to_list() == [None, None] and found["floor"].null_count() == 0
    assert "no rows have a target" in found["how"][0]
    assert set(metric_values(tables["real"], gone, INCOME, **asked, seed=0).values()) == {None}


def test_an_infinite_distance_is_null(tables):
    tiny = tables["train"].with_columns(weight=pl.Series([1e-150, *[0.0] * (len(tables["train"]) - 1)]))
    huge = tables["synthetic"].with_columns(weight=pl.lit(1e300))
    found = us.evaluate(tables["real"], huge, MIXED, metrics=["wd", "mmd"], train=tiny)
    assert found.filter(metric="mmd")["value"].to_list() == [None]
    json.dumps(found.to_dicts(), allow_nan=False)


@pytest.mark.parametrize(
    ("metrics", "learners", "trained"),
    [
        (None, None, []),
        (["wd"], None, []),
        (None, [], []),
        (["r2"], None, list(LEARNERS)),
        (None, "all", list(LEARNERS)),
        (["rmse"], ["all"], list(LEARNERS)),
        (None, "svm", ["svm"]),
        (["r2", "r2"], ["svm", "mlp", "svm"], ["svm", "mlp"]),
        (["wd"], ["svm"], ["svm"]),
    ],
)
def test_learners_are_trained_where_they_are_asked_for(metrics, learners, trained):
    request = resolve(INCOME, metrics, learners)
    assert list(request.learners) == trained
    named = metrics is None or metrics == ["wd"]
    assert request.usefulness == (() if not trained else ("r2", "rmse") if named else (metrics[0],))  # pyright: ignore[reportOptionalSubscript]
    assert list(request.similarity) == (list(METRICS) if metrics is None else [m for m in metrics if m == "wd"])


REFUSALS = [
    (COLOUR, ["r2"], None, "expected some of f1, auc, accuracy for the categorical target 'colour', got 'r2'"),
    (INCOME, ["wd", "auc"], None, "expected some of r2, rmse for the continuous target 'income', got 'auc'"),
    (MIXED, ["r2"], None, "target: expected the name of the column to be predicted, got none"),
    (MIXED, None, "all", "target: expected the name of the column to be predicted, got none"),
    (INCOME, None, ["svn"], "got 'svn'. Did you mean 'svm'?"),
    (MIXED, ["wd"], ["svm"], "target: expected the name of the column to be predicted, got none"),
    (INCOME, ["r2"], [], "learners: expected at least one for r2, got none"),
    (INCOME, ["acuracy"], None, "got 'acuracy'. Did you mean 'accuracy'?"),
]


@pytest.mark.parametrize(("schema", "metrics", "learners", "message"), REFUSALS)
def test_what_cannot_be_learned_is_refused_before_a_table_is_read(schema, metrics, learners, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        us.evaluate("gone.csv", "gone.csv", schema, metrics=metrics, learners=learners)


def test_a_missing_library_is_told_before_a_table_is_read(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ImportError, match=r"needs xgboost. Run: pip install 'understudy-dp\[eval\]'"):
        us.evaluate("gone.csv", "gone.csv", INCOME, learners="xgboost")


def test_distances_need_no_library_of_a_learner(monkeypatch, tables):
    for name in ("catboost", "sklearn", "xgboost"):
        monkeypatch.setitem(sys.modules, name, None)
    assert set(us.evaluate(tables["real"], tables["synthetic"], INCOME, metrics=QUICK)["learner"]) == {""}


# The command --------------------------------------------------------------------------------------------------------


def test_the_command_prints_an_aligned_table_with_the_stamp(folder):
    files = [folder / name for name in ("real.csv", "synthetic.parquet", "mixed.toml")]
    result = run("evaluate", *files, "--metrics", "wd, tvd2")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == NOT_COVERED
    header = next(line for line in lines if "metric" in line)
    assert header.split() == ["metric", "columns", "value"]
    assert "income" in result.stdout and "100 equal-width bins" in result.stdout
    assert not any(line != line.rstrip() for line in lines)


def test_with_a_training_table_it_prints_floor_and_reference(folder):
    files = [folder / name for name in ("real.csv", "synthetic.csv", "mixed.toml")]
    shown = run("evaluate", *files, "--train", folder / "train.csv", "--metrics", "wd").stdout
    assert next(line for line in shown.splitlines() if "metric" in line).split()[-2:] == ["floor", "reference"]


def test_a_learner_has_a_column_where_there_is_one(folder):
    files = [folder / name for name in ("real.csv", "synthetic.csv", "income.toml")]
    shown = run("evaluate", *files, "--metrics", "wd,r2", "--learners", "random forest, svm").stdout.splitlines()
    assert next(line for line in shown if "metric" in line).split() == ["metric", "learner", "columns", "value"]
    assert [line.split()[:3] for line in shown if line.startswith("  r2")] == [
        ["r2", "random", "forest"],
        ["r2", "svm", "(all)"],
    ]
    assert shown[-1].startswith("r2, svm: R² on the test part; trained on")


def test_json_is_strict_where_a_value_is_undefined(folder, tables, tmp_path):
    tables["real"].with_columns(income=pl.lit(5.0)).write_parquet(tmp_path / "flat.parquet")
    files = [tmp_path / "flat.parquet", folder / "synthetic.csv", folder / "income.toml"]
    result = run("evaluate", *files, "--metrics", "r2,rmse", "--learners", LEARNER, "--json")
    rows = json.loads(result.stdout, parse_constant=pytest.fail)["rows"]
    assert [(row["metric"], row["learner"], row["value"]) for row in rows] == [
        ("r2", LEARNER, None),
        ("rmse", LEARNER, None),
    ]


def test_a_missing_library_is_said_in_one_line(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    files = [folder / name for name in ("real.csv", "synthetic.csv", "income.toml")]
    result = run("evaluate", *files, "--learners", "xgboost")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "understudy: usefulness needs xgboost. Run: pip install 'understudy-dp[eval]'\n"


def test_json_says_that_no_budget_covers_it(folder, tables):
    files = [folder / name for name in ("real.csv", "synthetic.parquet", "mixed.toml")]
    result = run("evaluate", *files, "--train", folder / "train.csv", "--metrics", "tvd1", "--json")
    printed = json.loads(result.stdout)
    assert printed["covered_by_budget"] is False and printed["note"] == NOT_COVERED
    expected = us.evaluate(tables["real"], tables["synthetic"], MIXED, train=tables["train"], metrics=["tvd1"])
    assert [row["value"] for row in printed["rows"]] == pytest.approx(expected["value"].to_list())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["real.csv", "gone.csv", "mixed.toml"], "gone.csv"),
        (["real.csv", "mixed.toml", "synthetic.csv"], "expected a .toml file"),
        (["real.csv", "synthetic.csv", "mixed.toml", "--metrics", "wdd"], "got 'wdd'. Did you mean 'wd'?"),
        (["real.csv", "synthetic.csv", "income.toml", "--learners", "svmm"], "got 'svmm'. Did you mean 'svm'?"),
        (
            ["real.csv", "synthetic.csv", "mixed.toml", "--metrics", "r2", "--learners", ""],
            "learners: expected some of",
        ),
        (["real.csv", "synthetic.csv", "mixed.toml", "--seed", "-1"], "--seed: expected a whole number >= 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    result = run("evaluate", *arguments)
    assert result.exit_code == 1 and result.stdout == ""
    assert message in result.stderr and result.stderr.count("\n") == 1


# The page -----------------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()


def test_the_page_has_the_settings_of_every_learner():
    section = PAGE.split("## Usefulness")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:3] == "| `"]
    named = {cells[0].strip("`"): cells[1:] for cells in rows}
    assert {name: named.get(name) for name in LEARNERS} == {n: [str(x), x.reason] for n, x in LEARNERS.items()}
