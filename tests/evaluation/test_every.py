"""`every`: against learners trained by hand, and on tables of which the answer is known."""

import dataclasses
import math

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.evaluation.evaluate import metric_values, train_column_scores
from understudy.evaluation.every import MOST_CLASSES, column_scores, every
from understudy.evaluation.metrics import resolve
from understudy.evaluation.pair import Pair, open_tables
from understudy.tables.column import Column
from understudy.tables.schema import Schema

pytest.importorskip("catboost")
SCHEMA = Schema(
    columns=(
        Column(name="x", kind="continuous"),
        Column(name="y", kind="continuous", nullable=True),
        Column(name="noise", kind="continuous"),
        Column(name="c", kind="categorical", values=("low", "middle", "high"), nullable=True),
    )
)


def table(n: int, seed: int) -> pl.DataFrame:
    """y and c follow from x, up to some noise; nothing can be told about `noise`."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=n)
    c = np.array(["low", "middle", "high"])[np.digitize(x + 0.3 * draw.normal(size=n), [-0.5, 0.5])]
    made = pl.DataFrame({"x": x, "y": x + 0.3 * draw.normal(size=n), "noise": draw.normal(size=n), "c": c})
    hidden = pl.Series(draw.random(n) < 0.1)
    return made.with_columns(pl.when(~hidden).then(pl.col("y", "c")))


@pytest.fixture(scope="module")
def tables():
    return {"real": table(600, 0), "synthetic": table(300, 1), "train": table(800, 2)}


def pair_of(tables, schema=SCHEMA):
    sides = open_tables(schema, tables)
    return Pair(names=schema.names, real=sides["real"], synthetic=sides["synthetic"], scale=sides["train"])


@pytest.fixture(scope="module")
def scores(tables):
    pair = pair_of(tables)
    return {"synthetic": column_scores(pair.synthetic, pair), "train": column_scores(pair.scale, pair)}


def test_scores_are_those_of_a_learner_trained_by_hand(tables, scores):
    """pandas, catboost and scikit-learn alone; categories by one-hot columns of their own."""
    import catboost
    from sklearn.metrics import roc_auc_score

    train, test = (tables[name].to_pandas() for name in ("synthetic", "real"))
    scale = tables["train"].to_pandas()[["x", "y", "noise"]]
    for side in (train, test):
        side[["x", "y", "noise"]] = (side[["x", "y", "noise"]] - scale.mean()) / scale.std(ddof=0)
    common = {"depth": 6, "random_seed": 0, "verbose": 0, "allow_writing_files": False, "one_hot_max_size": 40}
    for side in (train, test):
        side["kind"] = side["c"].fillna("missing")
    known, asked = train[train["y"].notna()], test[test["y"].notna()]
    model = catboost.CatBoostRegressor(iterations=150, learning_rate=0.12, cat_features=["kind"], **common)
    model.fit(known[["x", "noise", "kind"]], known["y"])
    errors = asked["y"] - model.predict(asked[["x", "noise", "kind"]])
    assert scores["synthetic"]["y"] == pytest.approx(1 - (errors**2).mean() / asked["y"].var(ddof=0), abs=0.02)

    known, asked = train[train["c"].notna()], test[test["c"].notna()]
    model = catboost.CatBoostClassifier(iterations=40, learning_rate=0.3, **common)
    model.fit(known[["x", "y", "noise"]], known["c"])
    confidence = model.predict_proba(asked[["x", "y", "noise"]])
    classes = np.unique(known["c"])
    shares = [(asked["c"] == label).mean() for label in classes]
    areas = [roc_auc_score(asked["c"] == label, confidence[:, i]) for i, label in enumerate(classes)]
    assert scores["synthetic"]["c"] == pytest.approx(2 * np.average(areas, weights=shares) - 1, abs=0.02)


def test_the_value_is_the_mean_of_ratios_cut_to_the_unit_interval(tables):
    pair = pair_of(tables)
    found = every(
        pair,
        scores={"x": 0.3, "y": 0.9, "noise": 0.5, "c": -0.2},
        train_scores={"x": 0.6, "y": 0.8, "noise": 0.05, "c": 0.5},
    )
    assert found.parts == {("x",): pytest.approx(0.5), ("y",): 1.0, ("c",): 0.0}
    assert found.value == pytest.approx(0.5) and "3 columns" in found.summary


def test_a_column_that_nothing_tells_of_does_not_count(scores, tables):
    assert scores["train"]["noise"] < 0.05 < min(scores["train"][name] for name in "xyc")
    found = every(pair_of(tables), scores=scores["synthetic"], train_scores=scores["train"])
    assert set(found.parts) == {("x",), ("y",), ("c",)}
    assert found.value is not None and 0.8 < found.value <= 1


def test_without_a_column_that_can_be_predicted_there_is_no_value(tables):
    nothing = dict.fromkeys(SCHEMA.names, math.nan)
    assert every(pair_of(tables), scores=nothing, train_scores=nothing).value is None


def test_the_floor_is_one_the_reference_near_zero_and_columns_have_rows_of_their_own(tables):
    found = us.evaluate(
        tables["real"], tables["synthetic"], SCHEMA, metrics=["every"], learners=["catboost"], train=tables["train"]
    )
    whole = found.filter(columns="").row(0, named=True)
    assert (whole["metric"], whole["learner"], whole["floor"]) == ("every", "catboost", 1.0)
    assert whole["reference"] < 0.2 < 0.8 < whole["value"] <= 1
    parts = found.filter(pl.col("columns") != "")
    assert parts["columns"].to_list() == ["x", "y", "c"] and set(parts["floor"]) == {1.0}
    assert parts["value"].mean() == pytest.approx(whole["value"])


def test_scores_that_are_kept_are_asked_for_once_and_give_the_same_value(tables):
    kept, calls = train_column_scores(tables["real"], tables["train"], SCHEMA, seed=0), []

    def scores():
        calls.append(1)
        return kept

    asked = {"train": tables["train"], "metrics": ["every"], "learners": None, "seed": 0}
    own = metric_values(tables["real"], tables["synthetic"], SCHEMA, **asked)
    assert own == metric_values(tables["real"], tables["synthetic"], SCHEMA, **asked, train_scores=scores)
    assert list(own) == ["every/catboost"] and calls == [1]


def test_rare_categories_are_merged_and_a_class_never_seen_counts_as_guessed():
    draw = np.random.default_rng(0)
    labels = [f"v{i}" for i in range(MOST_CLASSES + 10)]
    weights = np.array([5.0] * (MOST_CLASSES - 1) + [1.0] * 11)
    c = draw.choice(len(labels), 2000, p=weights / weights.sum())
    whole = pl.DataFrame({"c": [labels[code] for code in c], "x": c + draw.normal(scale=0.1, size=2000)})
    columns = Column(name="c", kind="categorical", values=tuple(labels)), Column(name="x", kind="continuous")
    schema = Schema(columns=columns)
    pair = pair_of({"real": whole, "synthetic": whole, "train": whole}, schema)
    assert column_scores(pair.scale, pair)["c"] > 0.99
    rare = whole.filter(pl.col("c").str.slice(1).cast(int) >= MOST_CLASSES - 1)
    pair = pair_of({"real": whole, "synthetic": rare, "train": whole}, schema)
    assert column_scores(pair.synthetic, pair)["c"] == 0.0  # of the merged rows alone, all classes are one
    first = whole.filter(pl.col("c").is_in(["v0", "v1"]))
    real = whole.filter(pl.col("c").is_in(["v0", "v1", "v2"]))
    pair = pair_of({"real": real, "synthetic": first, "train": whole}, schema)
    assert 0.3 < column_scores(pair.synthetic, pair)["c"] < 0.8  # v0 is told from the others, v2 is guessed


def test_nothing_is_learned_from_constant_or_few_rows(tables):
    constant = tables["real"].with_columns(y=pl.lit(None, dtype=pl.Float64), x=0.0, c=pl.lit("low"), noise=1.0)
    for odd in (constant, constant.head(1), tables["real"].head(3)):
        pair = pair_of({**tables, "synthetic": odd})
        found = column_scores(pair.synthetic, pair)
        assert max(found.values()) <= 0 and found["c"] == 0


def test_nothing_is_learned_from_a_column_that_is_constant_to_the_learner(tables):
    """It reads targets as float32, and refuses those that are all equal."""
    nearly = tables["real"].with_columns(x=1.0 + 1e-12 * pl.col("x"))
    pair = pair_of({**tables, "synthetic": nearly})
    assert column_scores(pair.synthetic, pair)["x"] <= 0


def test_a_real_column_that_is_constant_or_missing_has_no_score(tables):
    constant = tables["real"].with_columns(y=pl.lit(None, dtype=pl.Float64), x=0.0, c=pl.lit("low"))
    pair = pair_of({**tables, "real": constant})
    found = column_scores(pair.synthetic, pair)
    assert {name for name, score in found.items() if math.isnan(score)} == {"x", "y", "c"}


def test_without_a_training_table_it_is_refused_in_one_line(tables):
    with pytest.raises(ValueError, match=r"^train: expected the table that was fitted, which the metric 'every' needs"):
        us.evaluate(tables["real"], tables["synthetic"], SCHEMA, metrics=["every"])


def test_another_learner_alone_is_refused():
    with pytest.raises(ValueError, match=r"^learners: expected 'catboost' among them for 'every', got svm\.$"):
        resolve(SCHEMA, ["every"], ["svm"])


def test_it_needs_no_target_and_leaves_the_other_learners_to_the_target():
    assert resolve(SCHEMA, ["wd", "every"]).learners == ()
    both = resolve(dataclasses.replace(SCHEMA, target="y"), ["r2", "every"], ["catboost", "svm"])
    assert both.every and both.usefulness == ("r2",) and both.learners == ("catboost", "svm")
