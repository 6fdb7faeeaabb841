"""Usefulness: metrics agree with scikit-learn, known truths are found, and odd tables have an answer."""

import dataclasses
import math
import os
import sys
import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import accuracy_score, f1_score, mean_squared_error, r2_score, roc_auc_score

from conftest import MIXED, mixed_table
from understudy.evaluation.learners import LEARNERS
from understudy.evaluation.pair import MetricResult
from understudy.evaluation.usefulness import FEWEST_ROWS, MOST_LABELS, usefulness
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.table import read
from understudy.tables.values import SchemaError

NUMBERS = Schema(columns=tuple(Column(name=name, kind="continuous") for name in ("a", "b", "y")), target="y")
CLASSES = Schema(columns=(*NUMBERS.columns[:2], Column(name="y", kind="categorical")), target="y")
TRUTHS = Schema(columns=(*NUMBERS.columns[:2], Column(name="y", kind="boolean")), target="y")
FOREST: dict[str, Any] = {**LEARNERS["random forest"].settings}
# These take the longest and are trained by the code that trains `svm`, so `make test` leaves them to the slow tests.
SLOW = ("mlp", "random forest")
every_learner = pytest.mark.parametrize(
    "learner", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in LEARNERS]
)
quickly = pytest.mark.usefixtures("quick_learners")


def noise(n: int, seed: int) -> pl.DataFrame:
    """Three columns that have nothing to do with each other."""
    draw = np.random.default_rng(seed)
    return pl.DataFrame({name: draw.standard_normal(n) for name in "aby"})


def smooth(n: int, seed: int) -> pl.DataFrame:
    """A target that the other columns determine, far from zero and from one."""
    return noise(n, seed).with_columns(y=1000 + 50 * (pl.col("a") + pl.col("b").tanh()))


def classes(n: int, seed: int, labels: str = "xyz") -> pl.DataFrame:
    """Classes that the other columns determine."""
    edges = [0.0] if len(labels) == 2 else [-0.7, 0.7]
    frame = noise(n, seed)
    return frame.with_columns(y=np.array(list(labels))[np.digitize((frame["a"] + frame["b"]).to_numpy(), edges)])


def values(train, test, schema, learner, **options) -> dict[str, float]:
    found = usefulness(train, test, schema, learners=[learner], **options)
    return {metric: value_of(result) for (metric, _), result in found.items()}


def value_of(result: MetricResult) -> float:
    assert result.value is not None
    return result.value


# Against scikit-learn ------------------------------------------------------------------------------------------------


def test_r2_and_rmse_are_those_of_a_forest_that_is_fitted_by_hand():
    train, test = smooth(300, 0), smooth(200, 1)
    got = values(train, test, NUMBERS, "random forest", seed=3)

    forest = RandomForestRegressor(**FOREST, random_state=3)
    x, y = train.select("a", "b").to_numpy(), train["y"].to_numpy()
    asked, truth = test.select("a", "b").to_numpy(), test["y"].to_numpy()
    forest.fit((x - x.mean(0)) / x.std(0), (y - y.mean()) / y.std())
    guess = y.mean() + y.std() * forest.predict((asked - x.mean(0)) / x.std(0))
    assert got["r2"] == pytest.approx(r2_score(truth, guess))
    assert got["rmse"] == pytest.approx(math.sqrt(mean_squared_error(truth, guess)) / truth.std())
    fitted = smooth(400, 2).with_columns(y=2 * pl.col("y"))
    scaled = values(train, test, NUMBERS, "random forest", seed=3, scale=fitted)
    assert scaled["r2"] == got["r2"]
    assert scaled["rmse"] == pytest.approx(math.sqrt(mean_squared_error(truth, guess)) / fitted["y"].to_numpy().std())


@pytest.mark.parametrize("labels", ["xy", "xyz"])
def test_f1_auc_and_accuracy_are_those_of_a_forest_that_is_fitted_by_hand(labels):
    train, test = classes(200, 0, labels), classes(200, 1, labels)
    got = values(train, test, CLASSES, "random forest", seed=3)

    forest = RandomForestClassifier(**FOREST, random_state=3)
    x, asked, truth = train.select("a", "b").to_numpy(), test.select("a", "b").to_numpy(), test["y"].to_numpy()
    forest.fit((x - x.mean(0)) / x.std(0), train["y"].to_numpy())
    likely = np.asarray(forest.predict_proba((asked - x.mean(0)) / x.std(0)))
    guess = forest.classes_[likely.argmax(1)]
    auc = roc_auc_score(truth, likely[:, 1] if len(labels) == 2 else likely, multi_class="ovr", average="macro")
    assert got["auc"] == pytest.approx(auc)
    assert got["f1"] == pytest.approx(f1_score(truth, guess, average="macro"))
    assert got["accuracy"] == pytest.approx(accuracy_score(truth, guess))


# Known answers -------------------------------------------------------------------------------------------------------


@every_learner
def test_a_target_that_is_a_function_of_the_features_is_predicted(learner):
    got = values(smooth(800, 0), smooth(400, 1), NUMBERS, learner)
    assert got["r2"] > 0.9
    assert got["rmse"] == pytest.approx(math.sqrt(1 - got["r2"]))


@every_learner
def test_noise_is_not_predicted(learner):
    assert values(noise(600, 0), noise(400, 1), NUMBERS, learner)["r2"] < 0.05


@every_learner
@pytest.mark.parametrize("labels", ["xy", "xyz"])
def test_classes_that_are_a_function_of_the_features_are_predicted(learner, labels):
    got = values(classes(600, 0, labels), classes(400, 1, labels), CLASSES, learner)
    assert got["auc"] > 0.97
    assert min(got["f1"], got["accuracy"]) > 0.85


@every_learner
def test_permuted_labels_teach_nothing(learner):
    train = classes(600, 0, "xy").with_columns(y=pl.col("y").shuffle(seed=0))
    assert values(train, classes(600, 1, "xy"), CLASSES, learner)["auc"] == pytest.approx(0.5, abs=0.2)


def test_a_boolean_target_is_a_class():
    train, test = (classes(300, seed, "01").with_columns(y=pl.col("y") == "1") for seed in (0, 1))
    assert values(train, test, TRUTHS, "random forest")["accuracy"] > 0.85


@quickly
@every_learner
def test_the_same_seed_gives_the_same_values(learner):
    train, test = smooth(120, 0), smooth(100, 1)
    assert usefulness(train, test, NUMBERS, learners=[learner]) == usefulness(train, test, NUMBERS, learners=[learner])


@quickly
def test_another_seed_is_another_forest():
    first, second = (values(smooth(120, 0), smooth(100, 1), NUMBERS, "random forest", seed=seed) for seed in (0, 1))
    assert first != second


# Mixed columns -------------------------------------------------------------------------------------------------------


@every_learner
@pytest.mark.parametrize("target", ["income", "colour", "member"])
def test_every_kind_of_column_is_learned_from_missing_values_or_not(learner, target):
    schema = dataclasses.replace(MIXED, target=target)
    got = values(mixed_table(400), mixed_table(300, seed=1), schema, learner)
    assert got["r2"] > -0.2 if target == "income" else got["auc"] > 0.65


def test_that_a_number_is_missing_can_be_learned_from():
    def frame(seed):
        made = noise(300, seed)
        gone = made["y"] > 0
        return made.with_columns(a=made["a"].set(gone, None), y=gone.cast(pl.Float64))

    assert values(frame(0), frame(1), NUMBERS, "random forest")["r2"] > 0.95


def test_an_instant_keeps_its_digits():
    schema = Schema(columns=(Column(name="when", kind="datetime"), NUMBERS["y"]), target="y")
    draw = np.random.default_rng(0)
    seconds = draw.integers(0, 60, 400)
    frame = pl.DataFrame(
        {"when": pl.Series(1_700_000_000_000_000 + seconds * 10**6).cast(pl.Datetime("us")), "y": seconds}
    )
    assert values(frame[:200], frame[200:], schema, "random forest")["r2"] > 0.99


def test_categories_are_matched_by_their_text_and_unseen_ones_are_none_of_the_known():
    schema = Schema(columns=(Column(name="a", kind="categorical"), NUMBERS["y"]), target="y")
    train = pl.DataFrame({"a": ["n", "o"] * 50, "y": [0.0, 1.0] * 50})
    test = pl.DataFrame({"a": ["m", "n", "o"] * 30, "y": [0.5, 0.0, 1.0] * 30})
    known = test.filter(pl.col("a") != "m")
    assert values(train, known, schema, "random forest")["r2"] == pytest.approx(1.0)
    assert values(train, test, schema, "random forest")["r2"] > 0.0


def test_a_column_of_names_does_not_fill_the_memory():
    schema = Schema(columns=(Column(name="a", kind="categorical"), *NUMBERS.columns[1:]), target="y")
    frame = smooth(400, 0).with_columns(a=pl.Series([f"name {i}" for i in range(400)]))
    assert MOST_LABELS < 400
    assert values(frame[:300], frame[300:], schema, "random forest")["r2"] > -0.5


@quickly
@pytest.mark.parametrize("kind", ["csv", "pandas", "table"])
def test_any_kind_of_table_is_taken(kind, tmp_path):
    train, test = smooth(60, 0), smooth(60, 1)
    train.write_csv(tmp_path / "train.csv")
    given = {"csv": tmp_path / "train.csv", "table": read(train, NUMBERS)}.get(kind)
    if kind == "pandas":
        given = train.to_pandas()
    expected = values(train, test, NUMBERS, "random forest")
    assert values(given, test, NUMBERS, "random forest") == pytest.approx(expected)


@quickly
def test_units_are_not_needed():
    schema = dataclasses.replace(NUMBERS, unit="person", max_rows_per_unit=2)
    real = smooth(60, 1).with_columns(person=pl.Series(range(60)))
    assert values(smooth(60, 0), real, schema, "random forest") == values(
        smooth(60, 0), smooth(60, 1), NUMBERS, "random forest"
    )


# Odd tables ----------------------------------------------------------------------------------------------------------


@quickly
@every_learner
def test_a_constant_target_in_the_training_rows_is_the_answer(learner):
    test = smooth(100, 1)
    found = usefulness(smooth(60, 0).with_columns(y=pl.lit(test["y"].mean())), test, NUMBERS, learners=[learner])
    assert [result.value for result in found.values()] == pytest.approx([0.0, 1.0])
    assert "constant in the training rows" in found["r2", learner].how


@quickly
@every_learner
def test_one_class_in_the_training_rows_is_the_answer(learner):
    test = classes(100, 1)
    got = values(classes(60, 0).with_columns(y=pl.lit("x")), test, CLASSES, learner)
    share = float((test["y"] == "x").mean())  # pyright: ignore[reportArgumentType]
    assert got == pytest.approx({"f1": 2 * share / (1 + share) / 3, "auc": 0.5, "accuracy": share})


@every_learner
def test_a_class_that_is_missing_from_the_training_rows_counts_against_them(learner):
    train = classes(300, 0).filter(pl.col("y") != "x")
    got = values(train, classes(200, 1), CLASSES, learner)
    assert got["f1"] < 2 / 3
    assert 0.6 < got["auc"] < (0.5 + 1 + 1) / 3 + 1e-9


@quickly
@every_learner
def test_a_class_that_only_the_training_rows_hold_is_a_wrong_answer_at_most(learner):
    got = values(classes(300, 0), classes(200, 1).filter(pl.col("y") != "x"), CLASSES, learner)
    assert min(got["f1"], got["auc"], got["accuracy"]) > 0.7


@quickly
@every_learner
def test_rows_without_a_target_are_left_out_on_both_sides(learner):
    def with_gaps(frame):
        gaps = noise(20, 5).with_columns(y=pl.lit(None, dtype=pl.Float64))
        return pl.concat([frame, gaps, gaps.with_columns(y=pl.lit(math.inf))])

    train, test = smooth(100, 0), smooth(80, 1)
    assert values(with_gaps(train), with_gaps(test), NUMBERS, learner) == values(train, test, NUMBERS, learner)


@quickly
@every_learner
@pytest.mark.parametrize("n", [1, 2, FEWEST_ROWS - 1, FEWEST_ROWS, 30])
@pytest.mark.parametrize("schema", [NUMBERS, CLASSES], ids=["numbers", "classes"])
def test_few_rows_have_an_answer(learner, n, schema):
    make = smooth if schema is NUMBERS else classes
    assert all(math.isfinite(value) for value in values(make(n, 0), make(50, 1), schema, learner).values())


@quickly
@pytest.mark.parametrize("empty", ["train", "test"])
@pytest.mark.parametrize("schema", [NUMBERS, CLASSES], ids=["numbers", "classes"])
def test_a_part_without_any_target_has_no_value(empty, schema):
    make = smooth if schema is NUMBERS else classes
    parts = {"train": make(50, 0), "test": make(50, 1)}
    parts[empty] = parts[empty].with_columns(y=pl.lit(None, dtype=parts[empty].schema["y"]))
    found = usefulness(parts["train"], parts["test"], schema, learners=["random forest"]).values()
    assert all(math.isnan(value_of(result)) and "no rows have a target" in result.how for result in found)


@quickly
def test_a_constant_test_target_has_no_r2_and_no_auc():
    flat = smooth(50, 1).with_columns(y=pl.lit(1000.0))
    assert all(math.isnan(value) for value in values(smooth(50, 0), flat, NUMBERS, "random forest").values())
    scaled = values(smooth(50, 0), flat, NUMBERS, "random forest", scale=smooth(50, 2))
    assert math.isnan(scaled["r2"]) and 0 < scaled["rmse"] < 3
    one = values(classes(50, 0), classes(50, 1).with_columns(y=pl.lit("x")), CLASSES, "random forest")
    assert math.isnan(one["auc"])
    assert 0 <= one["accuracy"] < 1


@quickly
@pytest.mark.parametrize("y", [None, 7.0])
def test_a_scale_that_does_not_vary_gives_no_rmse(y):
    still = smooth(50, 2).with_columns(y=pl.lit(y, dtype=pl.Float64))
    got = values(smooth(50, 0), smooth(50, 1), NUMBERS, "random forest", scale=still)
    assert math.isnan(got["rmse"]) and got["r2"] > 0


@quickly
def test_classes_have_no_scale():
    train, test = classes(60, 0), classes(60, 1)
    assert values(train, test, CLASSES, "svm", scale=train) == values(train, test, CLASSES, "svm")


@quickly
@every_learner
def test_features_that_do_not_vary_in_the_training_rows_change_nothing(learner):
    schema = Schema(columns=(Column(name="still", kind="continuous"), *NUMBERS.columns), target="y")
    train = smooth(60, 0).with_columns(still=pl.lit(3.0))
    test = smooth(60, 1).with_columns(still=pl.Series(np.linspace(-1e9, 1e9, 60)))
    assert values(train, test, schema, learner) == values(smooth(60, 0), smooth(60, 1), NUMBERS, learner)


@quickly
def test_without_features_the_mean_is_the_answer():
    schema = Schema(columns=(NUMBERS["y"],), target="y")
    found = usefulness(noise(50, 0).select("y"), noise(50, 1).select("y"), schema, learners=["random forest"])
    assert -0.2 < value_of(found["r2", "random forest"]) <= 0.0
    assert "no feature varies" in found["r2", "random forest"].how


@quickly
@every_learner
def test_values_at_the_end_of_the_floats_have_an_answer(learner):
    train = smooth(60, 0).with_columns(a=pl.Series([1e300, -math.inf, *range(58)], dtype=pl.Float64))
    test = smooth(60, 1).with_columns(b=pl.lit(-1e308))
    assert all(math.isfinite(value) for value in values(train, test, NUMBERS, learner).values())
    far = train.with_columns(y=pl.Series([1e300, *range(59)], dtype=pl.Float64))
    assert all(math.isfinite(value) for value in values(far, test, NUMBERS, learner).values())


@quickly
@every_learner
def test_the_unit_of_a_number_does_not_matter(learner):
    train, test = smooth(60, 0), smooth(60, 1)
    usual = values(train, test, NUMBERS, learner)
    tiny = values(train.with_columns(pl.all() * 1e-300), test.with_columns(pl.all() * 1e-300), NUMBERS, learner)
    assert tiny == pytest.approx(usual, rel=0.05, abs=0.02)


def test_rows_beyond_the_limit_of_the_vector_machine_are_left_out_but_no_class_is(monkeypatch):
    small = dataclasses.replace(LEARNERS["svm"], most_rows=40)
    monkeypatch.setattr("understudy.evaluation.usefulness.LEARNERS", {"svm": small})
    train = classes(400, 0, "xy").with_columns(y=pl.Series(["rare"] + ["common"] * 399))
    test = classes(50, 1, "xy").with_columns(y=pl.Series(["rare"] * 5 + ["common"] * 45))
    found = usefulness(train, test, CLASSES, learners=["svm"]).values()
    assert all(math.isfinite(value_of(result)) and "at most 40 training rows" in result.how for result in found)


# What is said, and what is refused -----------------------------------------------------------------------------------


def test_every_row_says_how_it_was_made():
    found = usefulness(smooth(60, 0), smooth(50, 1), NUMBERS, learners=["random forest", "svm"])
    assert list(found) == [
        ("r2", "random forest"),
        ("rmse", "random forest"),
        ("r2", "svm"),
        ("rmse", "svm"),
    ]
    assert (
        "target z-scored by the test part; trained on 60 rows, tested on 50; kernel = rbf" in found["rmse", "svm"].how
    )


def test_a_schema_without_a_target_is_refused():
    with pytest.raises(SchemaError, match="target: expected the name of the column"):
        usefulness(smooth(20, 0), smooth(20, 1), dataclasses.replace(NUMBERS, target=None))


def test_an_unknown_learner_is_refused():
    with pytest.raises(ValueError, match=r"expected some of catboost, .* got 'catbost'\. Did you mean 'catboost'"):
        usefulness(smooth(20, 0), smooth(20, 1), NUMBERS, learners=["catbost"])


def test_a_missing_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ImportError, match=r"^usefulness needs xgboost. Run: pip install 'understudy-dp\[eval\]'$"):
        usefulness(smooth(20, 0), smooth(20, 1), NUMBERS, learners=["xgboost"])


@quickly
@every_learner
def test_nothing_is_written_or_said(learner, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values(smooth(40, 0), smooth(40, 1), NUMBERS, learner)
    assert os.listdir(tmp_path) == []
    assert capfd.readouterr() == ("", "")
