"""The verdict: real rows are good, shuffled rows are poor, and what is wrong is called by its name."""

import dataclasses
import datetime
import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import understudy as us
from conftest import MIXED, mixed_table
from understudy.cli import cli
from understudy.evaluation.additive import Coordinates, propensity, scores
from understudy.evaluation.diagnostics import coefficient_overlap, invented, subgroup_means
from understudy.evaluation.evaluate import Evaluation, shuffled
from understudy.evaluation.pair import labels_of, open_table, open_tables
from understudy.evaluation.verdict import GOOD, USABLE, Part, Verdict, judge, word_of
from understudy.tables.column import Column
from understudy.tables.rules import Combination, Inequality
from understudy.tables.schema import Schema

LINE = Schema(
    columns=(
        Column(name="x", kind="continuous"),
        Column(name="y", kind="continuous"),
        Column(name="group", kind="categorical", values=("a", "b")),
    ),
    target="y",
)


def line(n: int, seed: int, *, slope: float = 2.0, step: float = 0.0) -> pl.DataFrame:
    """y depends on x and, by `step`, on the group."""
    draw = np.random.default_rng(seed)
    x, group = draw.normal(size=n), draw.random(n) < 0.5
    y = slope * x + step * group + draw.normal(size=n)
    return pl.DataFrame({"x": x, "y": y, "group": np.where(group, "b", "a")})


def sides(*frames: pl.DataFrame, schema: Schema = LINE):
    opened = {str(place): open_table(frame, schema) for place, frame in enumerate(frames)}
    return [*open_tables(schema, opened).values()], labels_of(schema, opened)


def words(verdict: Verdict) -> dict[str, str]:
    return {part.name: part.word for part in verdict.parts}


def overlap_of(*arguments: Any) -> dict[str, Any]:
    found = coefficient_overlap(*arguments)
    assert found is not None
    return found


# The words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_train", [True, False])
def test_other_real_rows_are_good_and_shuffled_ones_are_poor(with_train):
    real, train, other = (mixed_table(1500, seed) for seed in (1, 2, 3))
    base = train if with_train else None
    good = judge(real, other, MIXED, train=base)
    assert good.word == "good" and set(words(good).values()) == {"good"} and good.score > 0.9
    bad = judge(real, shuffled(other, 0), MIXED, train=base)
    assert words(bad) == {"columns": "good", "pairs": "poor", "prediction": "poor"}
    assert bad.word == "poor" and bad.score < good.score


def test_columns_that_are_wrong_are_poor_and_named_first():
    real = mixed_table(1500, 1)
    wrong = mixed_table(1500, 2).with_columns(age=pl.lit(33), weight=pl.lit(50.0), member=pl.lit(True))
    verdict = judge(real, wrong, MIXED)
    assert {each["columns"][0] for each in verdict.worst_columns[:3]} == {"age", "weight", "member"}
    assert words(verdict)["columns"] != "good"
    assert all(set(each["columns"]) & {"age", "weight", "member"} for each in verdict.worst_pairs)


def test_broken_rules_are_counted():
    schema = Schema(
        columns=(Column(name="low", kind="continuous"), Column(name="high", kind="continuous")),
        constraints=(Inequality("high", ">=", "low"),),
    )
    draw = np.random.default_rng(0)
    low, more = draw.normal(size=400), draw.random(400)
    real = pl.DataFrame({"low": low, "high": low + more})
    broken = pl.DataFrame({"low": low, "high": np.where(np.arange(400) < 80, low - 1, low + more)})
    found = {part.name: part for part in judge(real, broken, schema).parts}["rules"]
    assert (found.value, found.real, found.word) == (pytest.approx(0.2), 0.0, "poor")
    assert words(judge(real, real, schema))["rules"] == "good"


def test_broken_rules_about_categories_of_the_schema_are_counted():
    columns = [Column(name=name, kind="categorical", values=("x", "y")) for name in ("first", "second")]
    allowed = Combination(("first", "second"), (("x", "x"), ("y", "y")))
    schema = Schema(columns=tuple(columns), constraints=(allowed,))
    same = ["x", "y"] * 200
    real = pl.DataFrame({"first": same, "second": same})
    broken = real.with_columns(second=pl.Series(["y", "x"] * 50 + same[100:]))
    found = {part.name: part for part in judge(real, broken, schema).parts}["rules"]
    assert (found.value, found.real) == (pytest.approx(0.25), 0.0)


def test_without_dependence_there_is_no_verdict_on_prediction():
    draw = np.random.default_rng(0)
    frames = [pl.DataFrame(draw.normal(size=(4000, 2)), schema=["x", "y"]) for _ in range(3)]
    schema = Schema(columns=(Column(name="x", kind="continuous"), Column(name="y", kind="continuous")))
    verdict = judge(frames[0], frames[1], schema, train=frames[2])
    assert words(verdict) == {"columns": "good", "pairs": "good"}


def test_one_column_has_one_word():
    schema = Schema(columns=(Column(name="x", kind="continuous"),))
    frames = [pl.DataFrame({"x": np.random.default_rng(seed).normal(size=200)}) for seed in (0, 1)]
    assert words(judge(frames[0], frames[1], schema)) == {"columns": "good"}


@pytest.mark.parametrize(
    ("score", "word"), [(1, "good"), (GOOD, "good"), (0.74, "usable"), (USABLE, "usable"), (0, "poor")]
)
def test_the_word_of_a_score(score, word):
    assert word_of(score) == word


def test_one_poor_part_cannot_be_made_up_for():
    def verdict(*scores):
        parts = [Part(name=str(x), score=x, value=x, real=None, shuffled=None, meaning="") for x in scores]
        return Verdict(parts=tuple(parts), rows=1, against="", worst_columns=(), worst_pairs=(), findings={})

    assert verdict(1.0, 1.0, 1.0, 0.0).word == "poor" and verdict(0.9, 0.8).score == pytest.approx(0.72**0.5)


# The findings -----------------------------------------------------------------------------------------------------


def test_an_association_that_only_synthetic_rows_have_is_invented():
    apart, together = line(900, 0, slope=0.0), line(900, 1, slope=1.0)
    (real, synthetic), _ = sides(apart, together)
    made, lost = invented(real, synthetic)
    assert [each["columns"] for each in made] == [["x", "y"]] and lost == []
    assert [each["columns"] for each in invented(synthetic, real)[1]] == [["x", "y"]]


def test_days_between_dates_are_compared():
    draw = np.random.default_rng(0)
    schema = Schema(columns=(Column(name="first", kind="datetime"), Column(name="last", kind="datetime")))

    def stays(days: int) -> pl.DataFrame:
        start = [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=int(d)) for d in draw.integers(0, 900, 300)]
        return pl.DataFrame({"first": start, "last": [day + datetime.timedelta(days=days) for day in start]})

    verdict = judge(stays(2), stays(75), schema)
    [found] = verdict.findings["date_differences"]
    assert "the median of days from first to last is 75, of real rows 2" in verdict.cautions
    assert (found["columns"], found["real"], found["synthetic"]) == (["first", "last"], [2.0, 2.0], [75.0, 75.0])


def test_a_lost_tail_is_found():
    real = line(2000, 0)
    flat = line(2000, 1).with_columns(pl.col("y").clip(-1, 1))
    worst = judge(real, flat, LINE).findings["tails"][:2]
    assert {each["column"] for each in worst} == {"y"} and all(each["error"] > 0.5 for each in worst)


def test_a_caution_keeps_the_word_from_being_good_and_real_rows_have_none():
    real, train, other = (line(3000, seed, step=1.5) for seed in (0, 1, 2))
    assert judge(real, other, LINE, train=train).cautions == ()
    cut = other.with_columns(pl.when(pl.col("y") > 5).then(2.0).otherwise(pl.col("y")).alias("y"))
    verdict = judge(real, cut, LINE, train=train)
    good = dataclasses.replace(verdict, parts=verdict.parts[:1], cautions=())
    assert good.word == "good" and dataclasses.replace(good, cautions=("a tail is off",)).word == "usable"
    assert "Caution: a tail is off." in str(dataclasses.replace(good, cautions=("a tail is off",)))


def test_the_mean_of_a_subgroup_is_compared():
    (real, synthetic), labels = sides(line(2000, 0, step=2.0), line(2000, 1, step=0.0))
    worst = subgroup_means(LINE, real, synthetic, labels)[0]
    assert (worst["column"], worst["group"]) == ("y", "group = b")
    deviation = float(np.std(line(2000, 0, step=2.0)["y"].to_numpy()))
    assert worst["error"] == pytest.approx(2.0 / deviation, abs=0.1)


def test_intervals_of_equal_regressions_overlap_and_of_others_do_not():
    frames = line(2000, 0, slope=2.0), line(2000, 0, slope=2.0), line(2000, 1, slope=0.2)
    (real, same, other), labels = sides(*frames)
    assert overlap_of(LINE, real, same, labels)["overlap"] == pytest.approx(1.0)
    found = overlap_of(LINE, real, other, labels)
    assert found["target"] == "y" and found["worst"][0]["name"] == "x" and found["worst"][0]["overlap"] == 0.0


def test_coefficients_are_those_of_least_squares():
    frame = line(3000, 0, slope=2.0)
    (real,), labels = sides(frame)
    x, y = frame["x"].to_numpy(), frame["y"].to_numpy()
    low, high = next(each["real"] for each in overlap_of(LINE, real, real, labels)["worst"] if each["name"] == "x")
    assert low < 2.0 * x.std() / y.std() < high


def test_pmse_of_equal_tables_is_what_it_should_be():
    ratios = []
    for seed in range(8):
        (one, other), _ = sides(line(800, 2 * seed), line(800, 2 * seed + 1))
        value, expected = propensity(one, other, Coordinates.of(one))
        ratios.append(value / expected)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.35)
    (one, far), _ = sides(line(800, 0), line(800, 1).with_columns(pl.col("x") + 2))
    value, expected = propensity(one, far, Coordinates.of(one))
    assert value > 20 * expected


def test_an_additive_model_scores_like_least_squares():
    (train, test), _ = sides(line(4000, 0, slope=2.0), line(4000, 1, slope=2.0))
    found = scores(train, test, Coordinates.of(train))
    assert found["y"] == pytest.approx(4 / 5, abs=0.02) and found["x"] == pytest.approx(4 / 5, abs=0.02)
    assert abs(found["group"]) < 0.05


def test_an_additive_model_sees_what_is_not_straight():
    draw = np.random.default_rng(0)
    x = draw.normal(size=3000)
    bent = pl.DataFrame({"x": x, "y": x**2, "group": ["a"] * 3000})
    (side,), _ = sides(bent)
    assert scores(side, side, Coordinates.of(side))["y"] > 0.5


# In Python and on the command line --------------------------------------------------------------------------------


def test_evaluate_has_a_score_and_a_picture(tmp_path):
    real, other = mixed_table(800, 1), mixed_table(800, 2)
    found = us.evaluate(real, other, MIXED, metrics=["wd"])
    assert isinstance(found, pl.DataFrame) and found["metric"][0] == "wd"
    assert 0.75 < found.score <= 1 and found.verdict is found.verdict
    assert us.evaluate(real, shuffled(other, 0), MIXED, metrics=["wd"]).score < 0.5
    found.plot().save(tmp_path / "v.svg")
    drawn = (tmp_path / "v.svg").read_text()
    assert drawn == found.plot()._repr_svg_() and "overall" in drawn and 'xmlns="http://www.w3.org/2000/svg"' in drawn


def test_a_frame_made_from_an_evaluation_is_a_plain_one():
    found = us.evaluate(mixed_table(100, 1), mixed_table(100, 2), MIXED, metrics=["wd"])
    for derived in (found.filter(metric="wd"), found.select("value"), found.head(1), found.clone()):
        assert isinstance(derived, pl.DataFrame) and len(derived) > 0
        if isinstance(derived, Evaluation):
            with pytest.raises(ValueError, match="expected the frame that evaluate returned"):
                _ = derived.score


def test_the_verdict_survives_json_and_odd_values():
    real = mixed_table(60, 1)
    odd = real.with_columns(income=pl.lit(None, dtype=pl.Float64), weight=pl.lit(1e300), member=pl.lit(True))
    for one, other in ((real, odd), (odd, real), (real[:1], real[:1]), (real[:2], odd[:2])):
        content = judge(one, other, MIXED).to_json()
        assert json.loads(json.dumps(content, allow_nan=False)) == content and 0 <= content["score"] <= 1


def test_the_command_prints_the_verdict_first(tmp_path):
    mixed_table(300, 1).write_parquet(tmp_path / "real.parquet")
    mixed_table(300, 2).write_parquet(tmp_path / "made.parquet")
    MIXED.write(tmp_path / "s.toml")
    words = [
        "evaluate",
        *(str(tmp_path / name) for name in ("real.parquet", "made.parquet", "s.toml")),
        "--metrics",
        "wd",
    ]
    printed = CliRunner().invoke(cli, words).stdout.splitlines()
    assert printed[0].startswith("Not covered") and printed[1].startswith("Verdict: ")
    said = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    assert said["verdict"]["word"] in printed[1] and said["covered_by_budget"] is False


def test_categories_of_a_hierarchy_are_compared_in_the_groups_that_the_synthetic_table_has():
    draw = np.random.default_rng(0)
    codes = np.array(["I21.4", "I21.9", "I25.1", "J44.0", "Q99.7"])[draw.choice(5, 2000, p=[0.5, 0.2, 0.2, 0.09, 0.01])]
    seen = {"I21.4": "I21.4", "I21.9": "I21", "I25.1": "I", "J44.0": "J", "Q99.7": "other"}
    made = {"code": [seen[code] for code in codes], "x": draw.normal(size=2000)}
    schema = Schema.parse("[columns]\ncode = {kind = 'categorical', levels = 'prefix'}\nx = {kind = 'continuous'}")
    tables = pl.DataFrame({"code": codes, "x": draw.normal(size=2000)}), pl.DataFrame(made)
    found = judge(*tables, schema)
    assert found.grouped == ("code",)
    assert us.evaluate(*tables, schema, metrics=["tvd1"]).filter(columns="code")["value"].to_list() == [0.0]
