"""Fitting an encoder measures what was planned, and sees missing values, categories and row counts as they are."""

import datetime
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import understudy
from conftest import examples, quick
from fitting import one
from understudy import encoding
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget
from understudy.tables.column import Column
from understudy.tables.schema import Schema

KINDS = {
    "continuous": ([1.5, None] * 200, {}),
    "integer": ([1, None] * 200, {}),
    "boolean": ([True, None] * 200, {}),
    "datetime": ([datetime.datetime(2020, 1, 1), None] * 200, {}),
    "categorical": (["a", None] * 200, {}),
    "listed": (["a", None] * 200, {"values": ("a", "b")}),
}


@pytest.mark.parametrize(("values", "facts"), KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("method", ["independent", "copula"])
def test_missing_values_come_out_only_where_the_schema_allows_them(request, values, facts, nullable, method):
    kind = request.node.callspec.id.split("-")[-1]
    frame, schema = one("categorical" if kind == "listed" else kind, values, nullable=nullable, **facts)
    drawn = understudy.fit(frame, schema, quick(method), epsilon=1e4, seed=0).sample(500, seed=0)["x"]
    share = drawn.null_count() / 500
    assert abs(share - 0.5) < 0.1 if nullable else share == 0


@pytest.mark.parametrize("method", ["independent", "copula", pytest.param("prada", marks=pytest.mark.slow)])
def test_a_column_that_is_all_missing_against_its_schema_still_gives_values(method):
    frame, schema = one("continuous", pl.Series([None] * 50, dtype=pl.Float64), low=0.0, high=1.0)
    drawn = understudy.fit(frame, schema, quick(method), epsilon=1.0, seed=0).sample(50, seed=0)["x"]
    assert drawn.is_finite().all() and drawn.is_between(0, 1).all()


# What is measured.

column_facts = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["continuous", "integer", "boolean", "listed", "open", "datetime"]),
        "nullable": st.booleans(),
        "bounded": st.booleans(),
    }
)


def build(position, *, kind, nullable, bounded):
    """A column and 40 values of it."""
    name, draw = f"c{position}", np.random.default_rng(position)
    limits: dict[str, Any] = {"low": 0, "high": 50} if bounded and kind in ("continuous", "integer") else {}
    values = {
        "continuous": draw.normal(20, 5, 40),
        "integer": draw.integers(0, 50, 40),
        "boolean": draw.random(40) < 0.4,
        "listed": draw.choice(["a", "b"], 40),
        "open": draw.choice(["a", "b"], 40),
        "datetime": [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=int(d)) for d in draw.integers(0, 99, 40)],
    }[kind]
    facts: dict[str, Any] = {"values": ("a", "b")} if kind == "listed" else {}
    real = "categorical" if kind in ("listed", "open") else kind
    return Column(name=name, kind=real, nullable=nullable, **facts, **limits), pl.Series(name, values)


@examples(12)
@given(st.lists(column_facts, min_size=1, max_size=5), st.booleans())
def test_what_is_planned_is_what_is_measured(facts, public_rows):
    built = [build(i, **fact) for i, fact in enumerate(facts)]
    schema = Schema(columns=tuple(column for column, _ in built), rows=40 if public_rows else None)
    frame = pl.DataFrame([series for _, series in built])
    receipt = understudy.fit(frame, schema, "independent", epsilon=1.0, seed=0).receipt
    planned = {item.name: item.times for item in encoding.plan(schema, share=1.0, delta=1e-6)}
    spent = [line.name for line in receipt.charges]
    assert receipt.not_released == 0
    assert {name: spent.count(name) for name in spent} == planned
    assert ("rows" in planned) != public_rows


def test_the_noise_of_a_column_is_that_of_all_its_counts_together():
    schema = Schema(
        columns=(
            Column(name="x", kind="continuous"),
            Column(name="y", kind="boolean"),
            Column(name="z", kind="categorical"),
        )
    )
    plan = encoding.plan(schema, share=1.0, delta=1e-6)
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), plan, max_rows_per_unit=3)
    rounds = sum(ledger.noise(name) ** -2 for name in ("find", "resolve", "refine")) ** -0.5
    expected = {"x": rounds, "y": ledger.noise("count"), "z": ledger.noise("count selected")}
    for column in schema:
        assert encoding.single_column_noise(column, ledger) == pytest.approx(3 * expected[column.name])


@pytest.mark.parametrize("bounds", [(None, None), (0.0, 1000.0)])
def test_missing_values_that_the_schema_rules_out_do_not_spread_over_the_domain(bounds):
    draw = np.random.default_rng(0)
    x = np.where(draw.random(20_000) < 0.3, np.nan, draw.normal(50.0, 5.0, 20_000))
    column = understudy.Column(name="x", kind="continuous", low=bounds[0], high=bounds[1])
    model = understudy.fit(
        pl.DataFrame({"x": x}), understudy.Schema(columns=(column,)), "independent", epsilon=1.0, seed=1
    )
    made = model.sample(20_000, seed=1)["x"].to_numpy()
    assert made.min() > 20 and made.max() < 90
    assert abs(made.std() - 5.0) < 0.5


TRAINED = ("dpgan", "prada", "prada-gan")


@pytest.mark.parametrize("stated", [2_000, 200_000])
@pytest.mark.parametrize(
    "method",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in (*TRAINED, "gem"))) for name in sorted(understudy.METHODS)],
)
def test_a_row_count_in_the_schema_may_be_far_off(stated, method):
    draw = np.random.default_rng(0)
    frame = pl.DataFrame({"x": draw.normal(50.0, 5.0, 20_000)}).with_columns(
        y=pl.col("x") + draw.normal(0, 5.0, 20_000)
    )
    columns = tuple(understudy.Column(name=name, kind="continuous") for name in "xy")
    model = understudy.fit(frame, understudy.Schema(columns=columns, rows=stated), quick(method), epsilon=1.0, seed=1)
    made = model.sample(20_000, seed=1)
    assert abs(model.encoder.rows - 20_000) < 2_000
    assert np.ptp(made["x"].to_numpy()) < 70
    if method == "copula":
        assert abs(np.corrcoef(made["x"], made["y"])[0, 1] - 0.5**0.5) < 0.05


# Levels of categories.


def icd(count, seed=0):
    """Codes of which some are common and most are rare, and the share of each chapter."""
    draw = np.random.default_rng(seed)
    codes = [f"{'ABCDE'[i % 5]}{i // 5 % 20:02}.{i // 100}" for i in range(400)]
    weight = 1 / np.arange(1, 401)
    return draw.choice(codes, count, p=weight / weight.sum())


@pytest.mark.parametrize(
    "levels", ["prefix", [1, 3], {str(code): str(code[0]) for code in icd(20_000)}], ids=["prefix", "lengths", "table"]
)
def test_rare_categories_become_their_group_instead_of_other(levels):
    codes = icd(20_000)
    flat = understudy.fit(*one("categorical", codes), "independent", epsilon=0.1, seed=0)
    model = understudy.fit(*one("categorical", codes, levels=levels), "independent", epsilon=0.1, seed=0)
    assert flat.encoder.other_shares["x"] > 0.3 > 0.05 > model.encoder.other_shares["x"]
    chapters = model.sample(20_000, seed=0)["x"].str.slice(0, 1)
    for chapter in "ABCDE":
        assert abs((chapters == chapter).mean() - np.mean([code[0] == chapter for code in codes])) < 0.05


def test_a_level_costs_what_a_selection_costs():
    grouped = Column(name="x", kind="categorical", levels=[1, 3])  # pyright: ignore[reportArgumentType]
    schema = Schema(columns=(grouped, Column(name="y", kind="categorical")))
    planned = {each.name: each for each in encoding.plan(schema, share=1.0, delta=1e-6)}
    assert planned["select"].times == 4 and planned["count selected"].times == 2
    assert planned["select"].share / 4 == pytest.approx(0.3 / 0.7 * planned["count selected"].share / 2)
    assert sum(each.share for each in planned.values() if each.name != "rows") == pytest.approx(1.0)


@pytest.mark.parametrize("unit", [None, "who"])
def test_a_plan_says_how_many_rows_make_a_category_visible(unit):
    """Half of all fits see a category with that many rows."""
    schema = Schema(columns=(Column(name="x", kind="categorical"),), unit=unit, max_rows_per_unit=unit and 2)
    plan = understudy.plan(schema, "independent", epsilon=0.5)
    needed = plan.rows_to_be_seen["x"]
    assert f"about {needed} {'rows' if unit is None else 'values of'}" in str(plan) and plan.to_json()[
        "rows_to_be_seen"
    ] == {"x": needed}
    frame = pl.DataFrame({"x": ["common"] * 1000 + ["rare"] * needed, "who": range(1000 + needed)})
    frame = frame if unit else frame.drop("who")
    seen = 0
    for seed in range(24):
        model = understudy.fit(frame, schema, "independent", epsilon=0.5, seed=seed)
        seen += "rare" in model.encoder.labels["x"]
    assert 4 <= seen <= 20


def test_a_public_table_is_read_through_the_same_groups():
    model = understudy.fit(*one("categorical", icd(20_000), levels=[1, 3]), "independent", epsilon=0.1, seed=0)
    known = set(model.encoder.labels["x"])
    assert "A00.0" in known and "E19.3" not in known and "E" in known
    narrowest = "E19" if "E19" in known else "E"
    assert model.encoder.as_labelled({"x": ["A00.0", "E19.3", "?"]}) == {"x": ["A00.0", narrowest, "?"]}
