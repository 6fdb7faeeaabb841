"""Comparing methods on one's own table: the split, the lines, what is charged and what is said about it."""

import json

import numpy as np
import polars as pl
import pytest

import understudy as us
from commands import run
from understudy import datasets
from understudy.benchmark.comparison import Comparison, split

SCHEMA = us.Schema(
    name="visits",
    unit="who",
    max_rows_per_unit=2,
    columns=(us.Column("x", "continuous", low=0, high=1), us.Column("c", "categorical", values=("a", "b"))),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    datasets.example(400).write_csv(folder / "people.csv")
    us.Schema.parse(datasets.example_schema().to_toml().replace("target", "# target")).write(folder / "people.toml")
    return folder


def visits(rows=300):
    draw = np.random.default_rng(0)
    x = draw.random(rows)
    return pl.DataFrame({"x": x, "c": np.where(x > 0.5, "a", "b"), "who": draw.integers(0, 100, rows)})


def test_all_rows_of_a_unit_are_in_one_part():
    table = visits()
    train, holdout = split(table, SCHEMA, holdout=0.25, seed=3)
    assert len(train) + len(holdout) == len(table)
    assert not set(train["who"]) & set(holdout["who"])
    assert 0.15 < holdout["who"].n_unique() / table["who"].n_unique() < 0.35
    assert sorted([*train["x"], *holdout["x"]]) == sorted(table["x"])


def test_the_same_seed_gives_the_same_split_and_another_one_another():
    splits = [split(visits(), SCHEMA, holdout=0.25, seed=seed)[1] for seed in (3, 3, 4)]
    assert splits[0].equals(splits[1]) and not splits[0].equals(splits[2])


def test_a_table_that_is_too_small_is_refused():
    with pytest.raises(us.TableError, match="too few rows"):
        split(visits(1), SCHEMA, holdout=0.25, seed=0)


def test_a_comparison_with_a_unit_has_a_line_for_each_method(tmp_path):
    train, holdout = split(visits(), SCHEMA, holdout=0.25, seed=0)
    ledger = tmp_path / "budget.jsonl"
    asked = Comparison(
        schema=SCHEMA, train=train, holdout=holdout, epsilon=1.0, delta=1e-5, metrics=["wd", "tvd2"], ledger=ledger
    )
    real, shuffled = ({name: value or 0.0 for name, value in line.values.items()} for line in asked.baselines())
    assert shuffled["tvd2"] > real["tvd2"] and shuffled["wd"] == pytest.approx(real["wd"])
    line = asked.run("copula")
    assert line.charged and line.refused is None and set(line.values) == {"wd", "tvd2"}
    assert us.LedgerFile(ledger).total("visits").fits == 1


def test_a_method_that_fails_is_a_line(tmp_path):
    train, holdout = split(visits(), SCHEMA, holdout=0.25, seed=0)
    us.LedgerFile(tmp_path / "b.jsonl").set_cap("visits", 0.5, 1e-5)
    asked = Comparison(
        schema=SCHEMA,
        train=train,
        holdout=holdout,
        epsilon=1.0,
        delta=1e-6,
        metrics=["wd"],
        ledger=tmp_path / "b.jsonl",
    )
    line = asked.run("copula")
    assert not line.charged and line.refused is not None and "cap of 0.5" in line.refused


def test_the_command_prints_one_table_and_what_was_charged(folder, tmp_path):
    ledger, kept = tmp_path / "b.jsonl", tmp_path / "models"
    options = [
        "--epsilon",
        2,
        "--methods",
        "independent,copula",
        "--metrics",
        "wd,tvd1",
        "--ledger",
        ledger,
        "-o",
        kept,
    ]
    result = run("compare", folder / "people.csv", folder / "people.toml", *options)
    assert result.exit_code == 0 and result.stderr == ""
    assert "Not covered by the budget" in result.stdout
    first = [
        line.split("  ")[1].strip() for line in result.stdout.splitlines() if line.startswith("  ") and "wd" not in line
    ]
    assert first == ["real rows", "shuffled rows", "independent", "copula"]
    assert "epsilon = 2 and delta = 1e-06 each: independent, copula." in result.stdout
    assert us.LedgerFile(ledger).total("example").fits == 2
    assert us.load(kept / "copula.understudy").method.name == "copula"


def test_the_command_as_json_says_that_nothing_is_recorded(folder):
    options = ["--epsilon", 2, "--methods", "independent", "--metrics", "wd", "--json"]
    said = json.loads(run("compare", folder / "people.csv", folder / "people.toml", *options).stdout)
    assert said["covered_by_budget"] is False and said["ledger"] is None
    assert [line["name"] for line in said["lines"]] == ["real rows", "shuffled rows", "independent"]
    assert not any(line["charged"] for line in said["lines"]) and said["lines"][-1]["fit_seconds"] > 0
