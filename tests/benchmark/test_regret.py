"""Regret: ratios of losses that can be computed by hand."""

import json
import math

import polars as pl
import pytest
from click.testing import CliRunner

from understudy.benchmark import regret, regret_figure, selection
from understudy.benchmark.result_file import RunResult
from understudy.benchmark.selection import ScoreboardError
from understudy.cli import cli

GRID = """
name = "tiny"
epsilons = [1.0]
seeds = [5]
metrics = ["wd"]

[[datasets]]
table = "adult"

[[methods]]
name = "copula"
"""


def run(label, seed=5, epsilon: float | None = 1.0, dataset="adult", **scores):
    # "r2_catboost" stands for r2/catboost.
    named = {name.replace("_catboost", "/catboost"): value for name, value in scores.items()}
    settings = {"settings": {}, "scores": named}
    return {"id": json.dumps([label, seed, epsilon, dataset]), "dataset": dataset, "label": label} | {
        "seed": seed,
        "epsilon": epsilon,
        **settings,
    }


RUNS = [
    run("real rows", 5, None, r2_catboost=0.8, wd=0.1),
    run("real rows", 6, None, r2_catboost=0.9, wd=0.1),
    run("real rows", 5, None, "adult, no target", r2_catboost=0.8, wd=0.1),
    # R² lacks 0.1 and 0.3, a mean of 0.2; distances of 1 and 3, a mean of 2.
    run("copula", 5, r2_catboost=0.7, wd=1.0, tvd2_quantile=0.2),
    run("copula", 6, r2_catboost=0.6, wd=3.0, tvd2_quantile=0.2),
    # R² lacks 0.5 and 0.3, a mean of 0.4; distances of 4 and 4.
    run("aim", 5, r2_catboost=0.3, wd=4.0, tvd2_quantile=0.1),
    run("aim", 6, r2_catboost=0.6, wd=4.0, tvd2_quantile=0.1),
    # On one split alone, R² is above that of real rows: the loss is the resolution, 0.01.
    run("mst", 5, r2_catboost=0.85, wd=1.0, tvd2_quantile=None),
    # Without a target in the schema two methods ran; at another budget only one.
    run("copula", 5, dataset="adult, no target", r2_catboost=0.6),
    run("aim", 5, dataset="adult, no target", r2_catboost=0.7),
    run("copula", 5, epsilon=5.0, r2_catboost=0.6, wd=1.0),
]


@pytest.fixture
def folder(tmp_path):
    def make(lines):
        (tmp_path / "grid.toml").write_text(GRID)
        (tmp_path / "runs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return tmp_path

    return make


@pytest.fixture
def found(folder):
    return regret.regrets(selection.read(folder(RUNS)))


def values(found, score, target=True):
    return {
        each.label: (each.loss, each.other, each.value)
        for each in found
        if (each.case.score, each.case.target) == (score, target)
    }


def near(**rows):
    return {label: (pytest.approx(loss), other, pytest.approx(value)) for label, (loss, other, value) in rows.items()}


def test_a_distance_is_a_loss_and_regret_its_ratio_to_the_best_other_method(found):
    assert values(found, "wd") == near(copula=(2.0, "mst", 2.0), aim=(4.0, "mst", 4.0), mst=(1.0, "copula", 0.5))
    assert values(found, "tvd2_quantile") == near(copula=(0.2, "aim", 2.0), aim=(0.1, "copula", 0.5))


def test_a_score_loses_what_it_lacks_of_that_of_real_rows_on_the_same_split(found):
    expected = near(copula=(0.2, "mst", 20.0), aim=(0.4, "mst", 40.0), mst=(0.01, "copula", 0.05))
    assert values(found, "r2/catboost") == expected
    assert values(found, "r2/catboost", target=False) == near(copula=(0.2, "aim", 2.0), aim=(0.1, "copula", 0.5))


def test_a_distance_counts_as_its_resolution_at_least(folder):
    lines = [run("copula", wd=0.0), run("aim", wd=0.002)]
    found = regret.regrets(selection.read(folder(lines)))
    assert values(found, "wd") == near(copula=(0.001, "aim", 0.5), aim=(0.002, "copula", 2.0))


def test_a_case_in_which_one_method_ran_is_left_out(found):
    assert {each.case.epsilon for each in found} == {1.0}


def test_a_score_without_that_of_real_rows_is_left_out(folder):
    lines = [run("copula", wd=1.0, r2_catboost=0.5), run("aim", wd=1.0, r2_catboost=0.6)]
    assert {each.case.score for each in regret.regrets(selection.read(folder(lines)))} == {"wd"}


def test_no_case_at_all_is_refused(folder):
    with pytest.raises(ScoreboardError, match="at least two methods that ran on one data set at one ε"):
        regret.regrets(selection.read(folder(RUNS[:4])))


def test_two_runs_of_one_split_are_refused(folder):
    twice = [run("copula", wd=1.0), run("copula", wd=1.0) | {"id": "another"}, run("aim", wd=1.0)]
    with pytest.raises(ScoreboardError, match=r"2 runs of copula, adult, 1\.0 have the seed 5"):
        regret.regrets(selection.read(folder(twice)))


def test_settings_that_vary_tell_methods_apart(folder):
    lines = [run("copula", wd=1.0) | {"settings": {"degrees": 3}}]
    lines += [run("copula", wd=2.0) | {"settings": {"degrees": 8}, "id": "another"}]
    found = regret.regrets(selection.read(folder(lines)))
    assert {each.label: each.value for each in found} == {"copula, degrees = 3": 0.5, "copula, degrees = 8": 2.0}


def test_a_summary_has_the_worst_case_and_the_geometric_mean_of_its_part(found):
    summaries = {(each.part.target, each.part.single_column, each.label): each for each in regret.summarise(found)}
    copula = summaries[True, False, "copula"]
    assert copula.worst == pytest.approx(20.0) and copula.mean == pytest.approx(math.sqrt(20.0 * 2.0))
    assert [each.case.score for each in copula.regrets] == ["r2/catboost", "tvd2_quantile"]
    assert summaries[True, True, "copula"].worst == pytest.approx(2.0)  # wd, by itself
    assert summaries[False, False, "copula"].worst == pytest.approx(2.0)
    order = [each.label for each in regret.summarise(found) if each.part == copula.part]
    assert order == ["mst", "copula", "aim"]  # by the worst regret: 0.05, 20, 40


def test_at_most_ten_worst_cases_are_listed(folder):
    lines = [run(label, dataset=f"d{i}", wd=(i + 1.0) ** place) for place, label in enumerate("ab") for i in range(12)]
    summaries = regret.summarise(regret.regrets(selection.read(folder(lines))))
    listed = {each["label"]: each["worst_cases"] for each in regret.as_json(summaries)}
    assert [case["regret"] for case in listed["b"]] == [12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0]
    assert next(each for each in summaries if each.label == "b").worst == 12.0
    assert len(next(each for each in summaries if each.label == "b").regrets) == 12


def command(*arguments):
    return CliRunner().invoke(cli, ["bench", *map(str, arguments)], prog_name="understudy")


def test_the_command_prints_each_part_and_who_has_fewer_splits(folder):
    printed = command("table", folder(RUNS), "--regret").output
    assert "### Regret: dependence and usefulness, with a target in the schema" in printed
    assert "### Regret: single columns, with a target in the schema" in printed
    assert "| copula | 20.00 | 6.32 | 2 |" in printed
    assert "40.00 Adult, ε = 1, R² CatBoost (mst)" in printed
    assert "count as 0.01 at least" in printed and "Fewer splits than others in some cases: mst." in printed


def test_the_command_s_json_has_the_same_numbers(folder):
    answer = json.loads(command("table", folder(RUNS), "--regret", "--json").output)
    assert answer["covered_by_budget"] is False
    [mine] = [
        each
        for each in answer["regret"]
        if (each["label"], each["target"], each["single_column"]) == ("aim", True, False)
    ]
    assert (mine["cases"], mine["worst"]) == (2, pytest.approx(40.0))
    assert mine["geometric_mean"] == pytest.approx(math.sqrt(40 * 0.5))
    assert mine["worst_cases"][0] | {"loss": 0.4, "regret": 40.0} == {
        **{"dataset": "adult", "target": True, "epsilon": 1.0, "score": "r2/catboost"},
        **{"regret": 40.0, "loss": 0.4, "splits": 2, "other": "mst", "other_loss": 0.01},
    }


def test_files_are_written_where_they_are_wanted(folder, tmp_path):
    into = tmp_path / "tables"
    printed = command("table", folder(RUNS), "--regret", "-o", into).output
    assert printed.split() == [str(into / "regret.md"), str(into / "regret.csv")]
    frame = pl.read_csv(into / "regret.csv")
    assert len(frame) == 3 + 2 + 3 + 2 and frame["regret"].max() == pytest.approx(40.0)


def test_latex_is_refused(folder):
    answer = command("table", folder(RUNS), "--regret", "--format", "latex")
    assert answer.exit_code != 0 and "expected markdown or csv with --regret" in answer.output


@pytest.mark.slow
def test_the_figure_is_the_same_whenever_it_is_drawn(folder, tmp_path):
    pytest.importorskip("matplotlib")
    where = folder(RUNS)
    printed = command("figure", where, "--regret", "-o", tmp_path / "a").output
    assert printed.split() == [str(tmp_path / "a" / "regret.svg"), str(tmp_path / "a" / "regret.png")]
    regret_figure.write_regret(where, tmp_path / "b")
    drawn = (tmp_path / "a" / "regret.svg").read_text()
    assert drawn == (tmp_path / "b" / "regret.svg").read_text()
    for text in ("copula", "aim", "mst", "without a target in the schema", "geometric mean", "single columns", "worst"):
        assert text in drawn


def test_every_case_is_a_point_of_its_strip(found):
    pytest.importorskip("matplotlib")
    figure = regret_figure.draw(regret.summarise(found))
    points = [
        float(x)
        for panel in figure.axes
        for drawn in panel.collections
        if drawn.get_label() in ("single columns", "dependence and usefulness")
        for x in drawn.get_offsets()[:, 0]
    ]
    assert sorted(points) == pytest.approx(sorted(each.value for each in found))


def test_a_line_of_the_file_is_a_run():
    assert RunResult.of(RUNS[0]).is_baseline and not RunResult.of(RUNS[3]).is_baseline
