"""Differences: which columns they replace, their bounds, missing cells, and that everything comes back."""

import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import understudy as us
from conftest import examples
from hospital import schema as hospital_schema
from hospital import visits
from understudy.core.randomness import Key
from understudy.privacy.row_maps import Gap
from understudy.privacy.rows import lock
from understudy.tables.column import DAY, Column
from understudy.tables.differences import differences, measured, modelled, restored
from understudy.tables.schema import Schema

KEY = Key.new(0)
DATES = {"kind": "date", "low": datetime.date(2020, 1, 1), "high": datetime.date(2021, 1, 1)}


def of(*rules, **columns):
    made = tuple(Column(name=name, **facts) for name, facts in columns.items())
    return Schema(columns=made, constraints=rules)


def numbers(*names, **facts):
    return {name: {"kind": "integer", "low": 0, "high": 100, **facts} for name in names}


def test_a_stay_is_days_from_zero_to_the_widest_that_the_bounds_allow():
    stays = of("out >= in", **{"in": DATES, "out": DATES})
    (stay,) = differences(stays)
    assert (stay.column, stay.base, stay.rises, stay.unit) == ("out", "in", True, DAY)
    assert (stay.gap.kind, stay.gap.low, stay.gap.high) == ("integer", 0, 366)
    assert modelled(stays)["in"] == stays["in"] and modelled(stays).constraints == ()


def test_an_inequality_may_be_left_to_rejection_by_the_schema():
    rule = {"rule": "out >= in", "by": "rejection"}
    stays = of(rule, **{"in": DATES, "out": DATES})
    assert differences(stays) == () and modelled(stays) == stays
    assert Schema.parse(stays.to_toml()) == stays and stays.constraints[0].written() == rule


def test_the_date_with_the_narrowest_bounds_is_learned_and_the_others_are_reckoned_from_it():
    wide = DATES | {"low": datetime.date(1900, 1, 1)}
    rules = ("admitted >= born", "discharged >= admitted")
    found = differences(of(*rules, born=wide, admitted=DATES, discharged=DATES))
    assert {each.column: (each.base, each.rises) for each in found} == {
        "born": ("admitted", False),
        "discharged": ("admitted", True),
    }
    unbounded = of(*rules, born=wide, admitted={"kind": "date"}, discharged=DATES)
    assert [each.base for each in differences(unbounded)] == ["born", "admitted"]


BOUNDS = {
    "whole, strictly": ("b > a", numbers("a", "b"), ("integer", 1, 100, None)),
    "cents": (
        "a < b",
        {"a": {"kind": "continuous", "decimals": 2, "low": 0}, "b": {"kind": "continuous", "decimals": 1, "high": 5}},
        ("continuous", 0.01, 5.0, 2),
    ),
    "open": ("a <= b", {"a": {"kind": "continuous"}, "b": {"kind": "continuous"}}, ("continuous", 0.0, None, None)),
    "instants": ("a <= b", {"a": {"kind": "datetime"}, "b": {"kind": "datetime"}}, ("continuous", 0.0, None, None)),
}


@pytest.mark.parametrize(("rule", "columns", "expected"), BOUNDS.values(), ids=BOUNDS)
def test_the_bounds_of_a_difference_follow_from_the_schema(rule, columns, expected):
    gap = differences(of(rule, **columns))[0].gap
    assert (gap.kind, gap.low, gap.high, gap.decimals) == expected


def test_all_inequalities_of_a_tree_hold_by_construction_and_a_circle_is_left_to_rejection():
    made = of("b >= a", "c >= b", "c >= a", "d <= c", **numbers("c", "b", "a", "d"))
    found = {each.column: (each.base, each.rises) for each in differences(made)}
    assert found == {"b": ("a", True), "c": ("b", True), "d": ("c", False)}


LEFT = {
    "a total": of("t = a + b", "t >= c", **numbers("a", "b", "c", "t")),
    "two kinds": of("b >= a", a=DATES, b={"kind": "datetime"}),
    "no room": of("b > a", a={"kind": "integer", "low": 4}, b={"kind": "integer", "high": 5}),
}


@pytest.mark.parametrize("made", LEFT.values(), ids=LEFT)
def test_what_has_no_difference_is_left_to_rejection(made):
    assert differences(made) == () and modelled(made) is made


@pytest.mark.parametrize(("a", "b", "flag"), [(False, False, 0), (False, True, 0), (True, False, 0), (True, True, 1)])
def test_a_flag_is_kept_only_where_both_cells_may_be_missing(a, b, flag):
    made = of("b >= a", **numbers("a", nullable=a), **numbers("b", nullable=b))
    assert len(modelled(made)) == 2 + flag
    assert modelled(made)["b"].nullable == (a or b)


cells = st.lists(st.tuples(*[st.none() | st.integers(0, 100)] * 3), min_size=1, max_size=12)


@given(cells)
@examples(25)
def test_columns_come_back_from_their_differences(rows):
    """All cells that have a difference, and the missing ones where nothing but flags can say so."""
    made = of("b >= a", "b >= c", **numbers("a", "b", "c", nullable=True))
    columns = {name: np.array(column, float) for name, column in zip("abc", zip(*rows, strict=True), strict=True)}
    order = np.sort(np.stack([columns["a"], columns["b"]]), axis=0)  # NaN last: a <= b where both are known
    columns["a"], columns["b"] = np.where(np.isnan(order[1]), columns["a"], order[0]), order[1]
    columns["c"] = np.fmin(columns["c"], np.where(np.isnan(columns["b"]), columns["c"], columns["b"]))
    found = differences(made)
    again = restored(measured(columns, found), made, found, key=KEY)
    assert set(again) == {"a", "b", "c"}
    for name in "abc":
        np.testing.assert_array_equal(np.isnan(again[name]), np.isnan(columns[name]))
    known = ~np.isnan(columns["a"])
    np.testing.assert_array_equal(again["b"][known], columns["b"][known])


@given(cells)
@examples(15)
def test_locked_rows_are_mapped_as_public_ones(rows):
    columns = {name: np.array(column, float) for name, column in zip("abc", zip(*rows, strict=True), strict=True)}
    locked = lock(columns, {"k": ("x",)}, key=KEY).derive({"b": Gap("b", "a", 2.0)}, keep=True)
    np.testing.assert_array_equal(locked._exact["b"], (columns["b"] - columns["a"]) / 2.0)
    assert locked.names == ("a", "b", "c") and locked._exact_labels == {"k": ("x",)}


def test_the_shares_of_missing_cells_survive():
    draw = np.random.default_rng(0)
    a = draw.integers(0, 50, 5000)
    frame = pl.DataFrame({"a": a, "b": a + draw.geometric(0.3, 5000)}).select(
        pl.when(pl.Series(draw.random(5000) >= share)).then(name).alias(name)
        for name, share in (("a", 0.2), ("b", 0.1))
    )
    model = us.fit(frame, of("b >= a", **numbers("a", "b", nullable=True)), "copula", epsilon=20.0, seed=0)
    rows = model.sample(5000, seed=0)
    for name in "ab":
        assert abs(rows[name].null_count() - frame[name].null_count()) < 150
    both = rows.drop_nulls()
    assert abs((both["b"] - both["a"]).mean() - 1 / 0.3) < 0.2
    assert set(model.parents) == {"a", "b"}


@pytest.fixture(scope="module")
def hospital():
    real = visits(20_000)
    return real, us.fit(real, hospital_schema(), "copula", epsilon=1.0, seed=0)


def test_stays_tails_and_margins_of_a_hospital_at_epsilon_1(hospital):
    """The figures that issue 18 asks for, with the method that takes seconds."""
    real, model = hospital
    rows = model.sample(20_000, seed=1)
    real = real.with_columns(pl.col("admission", "discharge").str.to_date("%d.%m.%Y"))
    stays, stay = ((each["discharge"] - each["admission"]).dt.total_days() for each in (real, rows))
    assert stay.min() >= 0 and abs(stay.median() - stays.median()) <= 1
    assert stay.quantile(0.95) == pytest.approx(stays.quantile(0.95), rel=0.25)
    assert rows["admission"].dtype == pl.Date
    assert (rows["cost"] == rows["cost"].round(2)).all() and (rows["paid"] <= rows["cost"]).all()
    assert rows["cost"].quantile(0.99) == pytest.approx(real["cost"].quantile(0.99), rel=0.15)
    assert rows["cost"].mean() == pytest.approx(real["cost"].mean(), rel=0.15)
    assert model.encoder.other_shares["diagnosis"] < 0.35
    assert rows["postal_code"].str.starts_with("0").mean() > 0.3
    assert not (rows["intensive"] & ~rows["emergency"]).any()
    assert model.acceptance.shift < 0.003
    assert abs((rows["sex"] == "m").mean() - (real["sex"] == "m").mean()) < 0.01


def test_a_saved_model_gives_the_same_rows_and_is_asked_for_its_own_columns(hospital, tmp_path):
    _, model = hospital
    model.save(tmp_path / "m")
    again = us.load(tmp_path / "m")
    assert again.differences == model.differences != ()
    assert again.sample(500, 3).equals(model.sample(500, 3))
    asked = model.sample(200, 0, where={"discharge": (datetime.date(2018, 1, 1), datetime.date(2018, 12, 31))})
    assert asked["discharge"].dt.year().unique().to_list() == [2018]
