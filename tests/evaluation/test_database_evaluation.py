"""`evaluate` on a database: floors and references stand beside each value, broken rows are counted, words compare."""

import json

import polars as pl
import pytest
from small_database import SCHEMA, shops

import understudy as us
from understudy.datasets import hospital, hospital_schema_text
from understudy.evaluation.database import HOW
from understudy.evaluation.evaluate import NOT_COVERED

REAL = shops(300, 1)


@pytest.fixture(scope="module")
def found():
    return us.evaluate(shops(1500, 1), shops(1500, 2), SCHEMA, train=shops(1500, 3))


def whole(frame: pl.DataFrame, metric: str, table: str) -> dict:
    return frame.filter(metric=metric, table=table, columns="").row(0, named=True)


def test_every_metric_has_its_floor_and_its_meaning(found):
    assert found.columns == ["metric", "table", "columns", "value", "floor", "reference", "how"]
    rows = found.filter(pl.col("columns") == "")
    assert set(rows["metric"]) == set(HOW)
    assert rows["floor"].null_count() == 0 and set(rows["how"]) == set(HOW.values())
    without_reference = rows.filter(pl.col("reference").is_null())["metric"].unique()
    assert set(without_reference) == {"integrity", "columns", "children"}


def test_other_real_units_are_good_at_everything(found):
    assert found.verdict.word == "good"
    assert {part.name: part.score for part in found.verdict.parts if part.word != "good"} == {}
    assert [part.name for part in found.verdict.parts] == [
        *("integrity", "children", "columns", "pairs", "families", "histories", "prediction", "rules")
    ]


def test_shuffled_children_keep_columns_and_lose_families():
    made = shops(300, 2)
    orders = made["orders"].with_columns(made["orders"].drop("order", "id").sample(fraction=1.0, shuffle=True, seed=0))
    found = us.evaluate(REAL, made | {"orders": orders}, SCHEMA)
    parts = {part.name: part for part in found.verdict.parts}
    assert parts["columns"].word == parts["pairs"].word == "good"
    assert max(parts["families"].score, parts["histories"].score) < 0.6
    siblings = whole(found, "siblings", "customers → orders")
    assert siblings["value"] == pytest.approx(siblings["reference"], abs=0.03)
    assert siblings["floor"] < 0.8 * siblings["value"]
    assert any("orders.kind" in caution for caution in found.verdict.cautions)


def test_rows_whose_key_leads_nowhere_are_counted():
    made = shops(300, 2)
    lost = made["orders"].with_columns(
        pl.when(pl.int_range(pl.len()) < len(made["orders"]) // 4).then(pl.lit("nobody")).otherwise("id").alias("id")
    )
    found = us.evaluate(REAL, made | {"orders": lost}, SCHEMA)
    share = (len(made["orders"]) // 4) / len(made["orders"])
    assert whole(found, "integrity", "customers → orders")["value"] == pytest.approx(share)
    assert found.verdict.parts[0].score == pytest.approx((1 / (1 + share / 0.05) + 1) / 2)  # the mean of two links
    assert whole(found, "integrity", "orders → items")["value"] == 0.0  # their orders are there


def test_broken_rules_within_and_between_rows_are_counted():
    made = shops(300, 2)
    early = made["customers"].with_columns(pl.lit(100).alias("since"))
    cheap = made["orders"].with_columns(pl.lit(0.0).alias("price"))
    rules = us.evaluate(REAL, made | {"customers": early, "orders": cheap}, SCHEMA).verdict.findings["rules"]
    paid = (made["orders"]["paid"] > 0).drop_nulls().to_numpy().mean()
    assert rules["orders.day >= customers.since"] == 1.0
    assert rules["orders.day >= previous.day"] == 0.0
    assert rules["orders: paid <= price"] == pytest.approx(paid * known(made), abs=1e-9)


def known(frames: dict[str, pl.DataFrame]) -> float:
    """The share of orders that were paid, since a missing value breaks no rule."""
    return 1 - frames["orders"]["paid"].null_count() / len(frames["orders"])


def test_without_training_units_one_half_stands_against_the_other():
    found = us.evaluate(REAL, REAL, SCHEMA)
    assert found.verdict.rows == 150 and found.verdict.against == "the other half of the real units"
    assert whole(found, "children", "customers → orders")["floor"] > 0


def test_it_is_json_and_stamped(found):
    written = json.loads(json.dumps(found.to_json()))
    assert written["covered_by_budget"] is False and written["note"] == NOT_COVERED
    assert written["verdict"]["word"] == "good" and len(written["rows"]) == len(found)


def test_a_folder_is_read_like_its_tables(tmp_path):
    for name, frame in REAL.items():
        frame.write_csv(tmp_path / f"{name}.csv")
    again, found = (us.evaluate(each, shops(300, 2), SCHEMA, metrics=["children"]) for each in (tmp_path, REAL))
    assert set(again["metric"]) == {"children"}
    assert again.equals(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metrics": ["sibling"]}, "Did you mean 'siblings'"),
        ({"learners": ["svm"]}, "expected none for a database"),
    ],
)
def test_what_a_database_has_not_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        us.evaluate(REAL, REAL, SCHEMA, **arguments)


def test_a_table_that_is_not_there_is_named():
    with pytest.raises(us.TableError, match="table 'items' is missing"):
        us.evaluate(REAL, {name: frame for name, frame in REAL.items() if name != "items"}, SCHEMA)


def test_ages_that_disagree_with_birth_dates_are_counted():
    schema, real, made = us.DatabaseSchema.parse(hospital_schema_text()), hospital(200, seed=1), hospital(200, seed=2)
    older = made["visits"].with_columns(pl.when(pl.int_range(pl.len()) < 30).then(pl.col("age") + 1).otherwise("age"))
    rules = us.evaluate(real, made | {"visits": older}, schema, metrics=["children"]).verdict.findings["rules"]
    assert rules.pop("visits.age = years(patients.birth, visits.admission)") == pytest.approx(30 / len(older))
    assert set(rules.values()) == {0.0} and len(rules) == 3
