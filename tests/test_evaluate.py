"""Evaluate: one tidy frame, with the floor and the reference, whatever the tables come as, and the stamp on it."""

import json
import time

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import understudy as us
from conftest import MIXED, mixed_table
from understudy.cli import cli
from understudy.evaluate import NOT_COVERED, WORST, evaluate, resolve
from understudy.metrics.similarity import METRICS
from understudy.schema import Column, Schema

QUICK = ["wd", "tvd1", "tvd2", "correlation_max"]


def run(*arguments):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], prog_name="understudy")


@pytest.fixture(scope="module")
def tables():
    return {"real": mixed_table(300), "synthetic": mixed_table(400, seed=1), "train": mixed_table(500, seed=2)}


@pytest.fixture(scope="module")
def judged(tables):
    return us.evaluate(tables["real"], tables["synthetic"], MIXED, train=tables["train"])


@pytest.fixture(scope="module")
def folder(tables, tmp_path_factory):
    folder = tmp_path_factory.mktemp("judges")
    for name, frame in tables.items():
        frame.write_csv(folder / f"{name}.csv")
    tables["synthetic"].write_parquet(folder / "synthetic.parquet")
    MIXED.write(folder / "mixed.toml")
    return folder


# The frame ----------------------------------------------------------------------------------------------------------


def test_the_frame_is_tidy(judged):
    assert judged.columns == ["metric", "columns", "value", "floor", "reference", "how"]
    assert judged.select("metric", "columns").is_unique().all()
    assert judged["how"].str.len_chars().min() > 0


def test_whole_tables_come_first_and_then_their_parts(judged):
    whole = judged.head(len(METRICS))
    assert whole["metric"].to_list() == list(METRICS) and set(whole["columns"]) == {""}
    parts = judged.slice(len(METRICS))
    assert parts.filter(metric="wd")["columns"].to_list() == list(MIXED.names)
    assert parts.filter(metric="tvd1")["columns"].to_list() == list(MIXED.names)
    assert len(parts.filter(metric="tvd2")) == len(parts.filter(metric="correlation_max")) == WORST
    assert parts.filter(metric="tvd2")["value"].is_sorted(descending=True)


def test_the_parts_make_the_whole(judged):
    def value(name):
        return judged.filter(metric=name, columns="")["value"].item()

    parts = judged.filter(pl.col("columns") != "")
    assert parts.filter(metric="wd")["value"].sum() == pytest.approx(value("wd"))
    assert parts.filter(metric="tvd1")["value"].mean() == pytest.approx(value("tvd1"))
    assert parts.filter(metric="correlation_max")["value"].max() == value("correlation_max")


def test_the_floor_is_the_training_table_against_the_real_one(tables, judged):
    again = us.evaluate(tables["real"], tables["train"], MIXED, train=tables["train"])
    assert again["value"].to_list() == pytest.approx(again["floor"].to_list(), nan_ok=True)
    floors = judged.filter(columns="")["floor"].to_list()
    assert floors == pytest.approx(again.filter(columns="")["value"].to_list())


def test_the_reference_has_the_margins_of_the_floor_and_no_dependence(judged):
    whole = {row["metric"]: row for row in judged.filter(columns="").to_dicts()}
    assert whole["tvd1"]["reference"] == pytest.approx(whole["tvd1"]["floor"])
    assert whole["wd"]["reference"] == pytest.approx(whole["wd"]["floor"])
    assert whole["correlation_max"]["reference"] > 2 * whole["correlation_max"]["floor"]
    assert whole["tvd2_quantile"]["reference"] > whole["tvd2_quantile"]["floor"]


def test_without_a_training_table_there_is_neither_floor_nor_reference(tables):
    alone = us.evaluate(tables["real"], tables["synthetic"], MIXED, metrics=QUICK)
    assert alone["floor"].null_count() == alone["reference"].null_count() == len(alone)


def test_the_same_seed_gives_the_same_numbers(tables, judged):
    again = us.evaluate(tables["real"], tables["synthetic"], MIXED, train=tables["train"])
    assert again.equals(judged)


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
        resolve(["tdv2"])


def test_the_unit_is_not_looked_at(tables):
    columns = MIXED.columns
    schema = Schema(columns=columns, unit="person", max_rows_per_unit=2)
    real = tables["real"].with_columns(person=pl.int_range(pl.len()) // 2)
    found = us.evaluate(real, tables["synthetic"], schema, metrics=["wd"])  # a synthetic table has no units
    assert found.equals(us.evaluate(tables["real"], tables["synthetic"], MIXED, metrics=["wd"]))


def test_a_table_of_one_column_is_judged(tables):
    schema = Schema(columns=(MIXED["age"],))
    found = us.evaluate(tables["real"].select("age"), tables["synthetic"].select("age"), schema)
    missing = found.filter(pl.col("value").is_null(), pl.col("metric") != "wd_joint")  # which may lack POT
    assert set(missing["metric"]) == {"tvd2", "tvd3", "tvd2_quantile", "correlation_max", "correlation_mean"}
    assert missing["how"].str.contains("needs at least").all()


def test_a_table_of_another_structure_is_refused(tables):
    with pytest.raises(us.TableError, match="age"):
        us.evaluate(tables["real"], tables["synthetic"].drop("age"), MIXED)


def test_the_function_stays_at_the_front_door_when_its_room_is_imported():
    import importlib

    assert importlib.import_module("understudy.evaluate").evaluate is us.evaluate is evaluate


def test_a_large_table_takes_seconds():
    names = [f"c{place}" for place in range(20)]
    schema = Schema(columns=tuple(Column(name=name, kind="continuous") for name in names))
    draw = np.random.default_rng(0)
    real, synthetic = (pl.DataFrame(draw.normal(size=(rows, 20)), schema=names) for rows in (8000, 12000))
    start = time.process_time()
    us.evaluate(real, synthetic, schema)
    assert time.process_time() - start < 10  # of both cores: under 5 s on the clock


# The command --------------------------------------------------------------------------------------------------------


def test_the_command_prints_an_aligned_table_with_the_stamp(folder):
    files = [folder / name for name in ("real.csv", "synthetic.parquet", "mixed.toml")]
    result = run("evaluate", *files, "--metrics", "wd, tvd2")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == NOT_COVERED
    header = next(line for line in lines if "metric" in line)
    assert header.split() == ["metric", "columns", "value"]
    assert "income" in result.stdout and "100 equal-width cells" in result.stdout
    assert not any(line != line.rstrip() for line in lines)


def test_with_a_training_table_it_prints_floor_and_reference(folder):
    files = [folder / name for name in ("real.csv", "synthetic.csv", "mixed.toml")]
    shown = run("evaluate", *files, "--train", folder / "train.csv", "--metrics", "wd").stdout
    assert next(line for line in shown.splitlines() if "metric" in line).split()[-2:] == ["floor", "reference"]


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
        (["real.csv", "synthetic.csv", "mixed.toml", "--seed", "-1"], "--seed: expected a whole number >= 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    result = run("evaluate", *arguments)
    assert result.exit_code == 1 and result.stdout == ""
    assert message in result.stderr and result.stderr.count("\n") == 1
