"""Constraints and conditions: read with care, kept by every synthetic row, and never for ever in the search."""

import dataclasses
import datetime
import functools
import operator
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy as us
from commands import run
from conftest import QUICK, examples, quick
from understudy.core.randomness import Key
from understudy.model import Model, load
from understudy.synthesizers import METHODS
from understudy.tables import writing
from understudy.tables.column import Column
from understudy.tables.rejection import FEWEST_DRAWN
from understudy.tables.rules import Combination, Condition, Implication, Inequality, Sum, SyntheticRows
from understudy.tables.schema import Schema
from understudy.tables.values import SchemaError

FIRST, LAST = datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1)
STAYS = Schema(
    name="stays",
    columns=(
        Column(name="admission", kind="datetime", low=FIRST, high=LAST),
        Column(name="discharge", kind="datetime", low=FIRST, high=LAST, nullable=True),
        Column(name="drugs", kind="integer", low=0, high=10),
        Column(name="ward fee", kind="integer", low=0, high=10),
        Column(name="total", kind="integer", low=0, high=15),
        Column(name="weight", kind="continuous", low=0.0, high=100.0),
        Column(name="packs", kind="continuous", low=0.0, high=20.0, nullable=True),
        Column(name="smoker", kind="boolean"),
        Column(name="city", kind="categorical"),
        Column(name="state", kind="categorical", values=("BW", "NW", "SH"), nullable=True),
    ),
)
CITIES = {"Ulm": "BW", "Bonn": "NW", "Kiel": "SH"}
FAIR = ["copula", "independent", "privbayes"]


def stays(n: int) -> pl.DataFrame:
    draw = np.random.default_rng(0)
    hours = draw.uniform(0, 8000, (2, n))
    city = draw.choice(list(CITIES), n)
    return pl.DataFrame(
        {
            "admission": [FIRST + datetime.timedelta(hours=float(h)) for h in hours[0]],
            "discharge": pl.Series([FIRST + datetime.timedelta(hours=float(h)) for h in hours[1]]).set(
                pl.Series(draw.random(n) < 0.2), None
            ),
            "drugs": draw.integers(0, 10, n),
            "ward fee": draw.integers(0, 10, n),
            "total": draw.integers(0, 15, n),
            "weight": draw.uniform(0, 100, n),
            "packs": pl.Series(draw.uniform(0, 20, n)).set(pl.Series(draw.random(n) < 0.2), None),
            "smoker": draw.random(n) < 0.5,
            "city": city,
            "state": pl.Series([CITIES[name] for name in city]).set(pl.Series(draw.random(n) < 0.2), None),
        }
    )


@functools.cache
def fitted(method: str) -> Model:
    return us.fit(stays(600), STAYS, quick(method), epsilon=5.0, seed=0)


@pytest.fixture(scope="module")
def models() -> dict[str, Model]:
    return {name: fitted(name) for name in FAIR}


def constrained(model: Model, *constraints, kind: str = "polars", **facts) -> Model:
    """The model with constraints that came after the fit, so that none but sums holds by construction."""
    return dataclasses.replace(
        model, stated=dataclasses.replace(model.schema, constraints=constraints, **facts), kind=kind
    )


def schema(*constraints, **facts) -> Schema:
    return dataclasses.replace(STAYS, constraints=constraints, **facts)


def ruled(columns: Sequence[Column], *rules: str, **facts: Any) -> Schema:
    """A schema whose rules are written as text."""
    written: Any = rules
    return Schema(columns=tuple(columns), constraints=written, **facts)


# Reading ------------------------------------------------------------------------------------------------------------

WRITTEN = """
constraints = ["discharge >= admission", "total = drugs + 'ward fee'"]
""" + schema().to_toml().replace("\nname", "name", 1)
EVERY = (
    "discharge >= admission",
    "'ward fee' < total",
    {"rule": "total = drugs + 'ward fee'", "tolerance": 2},
    {"when": {"smoker": True, "city": ["Ulm", "Kiel"]}, "column": "packs", "low": 0.1, "high": 10},
    {"when": {"admission": {"low": FIRST}, "drugs": 3, "weight": [1, 2.5]}, "column": "state", "values": ["BW"]},
    {"when": {"weight": {"high": 50}}, "column": "discharge", "low": datetime.date(2020, 6, 1)},
    {"columns": ["city", "state", "smoker", "drugs"], "allowed": [["Ulm", "BW", True, 3], ["Bonn", "NW", False, 4]]},
)


def test_every_form_is_read():
    found = schema(*EVERY).constraints
    assert found[0] == Inequality("discharge", ">=", "admission")
    assert found[1] == Inequality("ward fee", "<", "total")
    assert found[2] == Sum("total", ("drugs", "ward fee"), 2.0)
    conditions = (Condition("smoker", values=(True,)), Condition("city", values=("Ulm", "Kiel")))
    assert found[3] == Implication(conditions, Condition("packs", low=0.1, high=10.0))
    assert isinstance(found[4], Implication) and found[4].when[1] == Condition("drugs", low=3, high=3)
    assert isinstance(found[5], Implication) and found[5].then.low == datetime.datetime(2020, 6, 1)
    assert found[6] == Combination(
        ("city", "state", "smoker", "drugs"), (("Ulm", "BW", True, 3), ("Bonn", "NW", False, 4))
    )


def test_texts_alone_may_be_written_as_one_list():
    parsed = Schema.parse(WRITTEN)
    assert parsed == schema("discharge >= admission", "total=drugs+ward fee")
    assert parsed.constraints != ()


@pytest.mark.parametrize("constraint", EVERY, ids=str)
def test_toml_keeps_a_constraint_whole(constraint):
    once = schema(constraint)
    assert Schema.parse(once.to_toml()) == once
    assert hash(once) == hash(Schema.parse(once.to_toml()))
    assert dataclasses.replace(once, rows=10).constraints == once.constraints


@given(st.lists(st.text(st.characters(exclude_characters="\"'", codec="utf-8"), min_size=1), min_size=2, max_size=4))
@settings(deadline=None, derandomize=True)
def test_toml_keeps_rules_about_columns_of_any_name(names):
    names = list(dict.fromkeys(names))
    columns = tuple(Column(name=name, kind="integer") for name in [*names, "total of all"])
    quoted = [f"'{name}'" for name in names]
    made = ruled(columns, f"'total of all' = {' + '.join(quoted)}")
    [total] = made.constraints
    assert isinstance(total, Sum) and total.parts == tuple(names)
    assert Schema.parse(made.to_toml()) == made


def test_a_schema_shows_its_constraints():
    shown = str(schema(*EVERY))
    assert "in every synthetic row:\n  discharge >= admission\n  ward fee < total\n" in shown
    assert "  total = drugs + ward fee, to within 2\n" in shown
    assert "  packs from 0.1 to 10 when smoker = true and city = 'Ulm' or 'Kiel'\n" in shown
    assert "  discharge >= 2020-06-01 when weight <= 50\n" in shown
    assert "  city, state, smoker, drugs among 2 combinations" in shown
    assert "synthetic row" not in str(STAYS)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ("dischage >= admission", "constraint 1: the schema has no column 'dischage'. Did you mean 'discharge'?"),
        ("drugs >= 3", "expected two columns, got '3'. To bound one, give it low or high."),
        ("drugs >= admission", "expected two columns of numbers or two of instants, got the kinds 'integer' and"),
        ("city >= state", "expected two columns of numbers or two of instants"),
        ("drugs > drugs", "got one column twice"),
        ("drugs", "expected a rule such as"),
        ("drugs >= total >= drugs", "expected a rule such as"),
        ("drugs = 'total", "expected a rule such as"),
        ("", "expected a rule such as"),
        (3, "expected a rule such as .*; got 3"),
        ({}, "expected a rule such as .*; a key is missing"),
        ({"rule": 3}, "expected a rule such as .*; got 3"),
        ({"rule": "drugs > total", "tolerance": 1}, "expected a rule such as"),
        ({"rule": "drugs > total", "low": 1}, "expected a rule such as .*; got rule, low"),
        ({"column": "drugs", "low": 1}, "to bound a column in every row, give it low and high there"),
        ("total = drugs + admission", "expected columns of numbers, but 'admission' is datetime"),
        ("total = drugs + weight", "expected whole parts of a whole total, but 'total' is integer and 'weight' is not"),
        ("total = drugs + drugs", "expected every column once, got one twice"),
        ("total = drugs + total", "expected every column once, got one twice"),
        ({"rule": "total = drugs + 'ward fee'", "tolerance": -1}, "expected tolerance to be a number >= 0, got -1"),
        ({"when": {"smoker": 3}, "column": "packs", "low": 1}, "column 'smoker': expected a value to be true or false"),
        ({"when": {"smokr": True}, "column": "packs", "low": 1}, "no column 'smokr'. Did you mean 'smoker'?"),
        ({"when": {"smoker": True}, "column": "packs"}, "column 'packs': expected low or high .*, got none"),
        ({"when": {"smoker": True}, "column": "packs", "values": [1]}, "expected low or high .*, got values"),
        ({"when": {"smoker": True}, "column": "state", "low": 1}, "expected values for kind 'categorical', got low"),
        ({"when": {"smoker": True}, "column": "state", "values": ["BWW"]}, "got 'BWW'. Did you mean 'BW'?"),
        ({"when": {"smoker": True}, "column": "state", "values": []}, "expected at least one value"),
        ({"when": {"smoker": True}, "column": "packs", "low": 5, "high": 1}, "expected low <= high, got 5 and 1"),
        ({"when": {"packs": [1, 2]}, "column": "packs", "low": 1}, "expected other columns than 'packs'"),
        ({"when": {"drugs": 0.5}, "column": "packs", "low": 1}, "column 'drugs': expected low to be a whole number"),
        ({"when": {"drugs": [1, 2, 3]}, "column": "packs", "low": 1}, "expected a value or a pair of low and high"),
        ({"when": {"drugs": {"lo": 1}}, "column": "packs", "low": 1}, "expected low and high, got lo"),
        ({"when": {"admission": 3}, "column": "packs", "low": 1}, "expected low to be a date"),
        ({"columns": ["city"], "allowed": [["Ulm"]]}, "expected a list of two or more columns"),
        ({"columns": ["city", "weight"], "allowed": [["Ulm", 1]]}, "whole numbers, but 'weight' is continuous"),
        ({"columns": ["city", "state"], "allowed": [["Ulm"]]}, "each of 2 values, got another shape"),
        ({"columns": ["city", "state"], "allowed": []}, "allowed: expected a list of lists"),
        ({"columns": ["city", "state"], "allowed": [["Ulm", "BV"]]}, "to be one of the values of 'state', got 'BV'"),
    ],
    ids=str,
)
def test_a_mistake_is_refused_by_name(constraint, message):
    with pytest.raises(SchemaError, match=message):
        schema(constraint)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        (["drugs > total", "total > drugs"], "constraints: expected inequalities that can hold together"),
        (["drugs > total", "total >= weight", "drugs <= weight"], "but they put 'drugs' above itself"),
        (["total = drugs + 'ward fee'", "total = drugs"], "expected one sum for 'total', got two"),
        (["total = drugs", "drugs = total"], "'total' is a part of itself"),
        ([{"when": {"smoker": True}, "column": "packs", "low": 21}], "the column's own bounds forbid it"),
    ],
)
def test_a_contradiction_is_refused(constraints, message):
    with pytest.raises(SchemaError, match=message):
        schema(*constraints)


@pytest.mark.parametrize("rule", ["a > b", "b < a", "b = a", "a = b + c"])
def test_a_rule_that_the_bounds_forbid_is_refused_unless_a_cell_may_be_missing(rule):
    def made(**facts):
        a, b, c = (0, 3), (3, 4), (1, 2)
        bounds = {"a": a, "b": b if rule != "b = a" else (4, 5), "c": c}
        named = [Column(name=n, kind="integer", low=lo, high=hi, **facts) for n, (lo, hi) in bounds.items()]
        return ruled(named, rule)

    with pytest.raises(SchemaError, match="the bounds of the columns forbid it"):
        made()
    assert made(nullable=True).constraints


def test_inequalities_that_force_equal_values_are_no_contradiction():
    assert len(schema("drugs >= total", "total >= drugs").constraints) == 2


@pytest.mark.parametrize(
    ("facts", "role"),
    [({"ignore": ["person"]}, "ignored"), ({"unit": "person", "max_rows_per_unit": 2}, "the unit")],
)
def test_the_unit_and_ignored_columns_have_no_constraints(facts, role):
    with pytest.raises(SchemaError, match=f"constraint 1: .*'person' is {role}"):
        schema("drugs >= person", **facts)


def test_an_error_in_a_file_names_the_file():
    with pytest.raises(SchemaError, match=r"stays\.toml, constraint 1: the schema has no column 'x'"):
        Schema.parse('constraints = ["x >= drugs"]\n' + STAYS.to_toml(), "stays.toml")
    with pytest.raises(SchemaError, match=r"stays\.toml, constraints: expected a list of rules, got 'x'"):
        Schema.parse('constraints = "x"\n' + STAYS.to_toml(), "stays.toml")


# Checking rows ------------------------------------------------------------------------------------------------------

GAP = np.nan
ROWS = SyntheticRows(
    {"a": np.array([1.0, 2.0, GAP, 4.0]), "b": np.array([1.0, 3.0, 3.0, GAP]), "c": np.array([0, 1, -1, 2])},
    {"c": ("u", "v", "w")},
)


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (Inequality("a", ">=", "b"), [1, 0, 1, 1]),
        (Inequality("a", ">", "b"), [0, 0, 1, 1]),
        (Inequality("a", "<=", "b"), [1, 1, 1, 1]),
        (Inequality("a", "<", "b"), [0, 1, 1, 1]),
        (Sum("a", ("b",)), [1, 0, 1, 1]),
        (Sum("a", ("b",), 1.0), [1, 1, 1, 1]),
        (Condition("a", low=2.0), [0, 1, 0, 1]),
        (Condition("a", high=2.0), [1, 1, 0, 0]),
        (Condition("a", missing=True), [0, 0, 1, 0]),
        (Condition("c", missing=True), [0, 0, 1, 0]),
        (Condition("c", values=("v", "unheard of")), [0, 1, 0, 0]),
        (Implication((Condition("c", values=("u",)),), Condition("a", low=2.0)), [0, 1, 1, 1]),
        (Implication((Condition("c", values=("u", "w")),), Condition("b", low=2.0)), [0, 1, 1, 1]),
        (Combination(("a", "c"), ((1, "u"), (4, "v"), (3, "w"))), [1, 0, 1, 0]),
        (Combination(("a", "c"), ((1, "unheard of"),)), [0, 0, 1, 0]),
    ],
    ids=str,
)
def test_a_rule_knows_which_rows_keep_it(rule, kept):
    assert rule.holds(ROWS).tolist() == [bool(x) for x in kept]


@given(st.data())
@examples(20)
def test_combinations_agree_with_a_look_at_every_row(data):
    width = data.draw(st.integers(2, 5))
    cells = st.lists(st.integers(0, 3), min_size=width, max_size=width).map(tuple)
    allowed, rows = data.draw(st.lists(cells, min_size=1)), data.draw(st.lists(cells, min_size=1))
    names = tuple("abcde"[:width])
    columns = {name: np.array(column, float) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    kept = Combination(names, tuple(allowed)).holds(SyntheticRows(columns, {}))
    assert kept.tolist() == [row in allowed for row in rows]


def test_totals_of_totals_are_computed_in_order(models):
    model = constrained(models["copula"], "weight = total + packs", "total = drugs + 'ward fee'")
    rows = model.sample(500, 0).drop_nulls()
    assert (rows["total"] == rows["drugs"] + rows["ward fee"]).all()
    assert (rows["weight"] == rows["total"] + rows["packs"]).all()


def test_a_total_within_the_tolerance_is_left_as_it_was_drawn(models):
    drawn = models["copula"].sample(500, 0)
    kept = constrained(models["copula"], {"rule": "total = drugs + 'ward fee'", "tolerance": 10_000}).sample(500, 0)
    assert kept.equals(drawn)


# Every sample -------------------------------------------------------------------------------------------------------


def violations(rows: pl.DataFrame, schema: Schema) -> int:
    """Counts broken rules cell by cell in plain Python; knows nothing of arrays and codes."""
    wrong = 0
    compare = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}

    def meets(row, condition):
        cell = row[condition.column]
        if condition.missing or cell is None:
            return condition.missing and cell is None
        if condition.values:
            return cell in condition.values
        above = condition.low is None or cell >= condition.low
        return above and (condition.high is None or cell <= condition.high)

    for row in rows.iter_rows(named=True):
        for rule in schema.constraints:
            if isinstance(rule, Inequality) and None not in (row[rule.left], row[rule.right]):
                wrong += not compare[rule.relation](row[rule.left], row[rule.right])
            elif isinstance(rule, Implication) and row[rule.then.column] is not None:
                wrong += all(meets(row, each) for each in rule.when) and not meets(row, rule.then)
            elif isinstance(rule, Combination):
                cells = tuple(row[name] for name in rule.columns)
                wrong += None not in cells and cells not in rule.allowed
            elif isinstance(rule, Sum) and None not in [row[name] for name in (rule.total, *rule.parts)]:
                wrong += abs(row[rule.total] - sum(row[name] for name in rule.parts)) > rule.tolerance
                column = schema[rule.total]
                wrong += not column.low <= row[rule.total] <= column.high
    return wrong


MIXTURE = (
    "discharge >= admission",
    "total = drugs + 'ward fee'",
    {"when": {"smoker": True}, "column": "packs", "low": 0.1, "high": 10},
    {"when": {"drugs": [0, 5]}, "column": "state", "values": ["BW", "NW"]},
    {"columns": ["city", "state"], "allowed": [list(pair) for pair in CITIES.items()]},
)


@pytest.mark.parametrize("method", FAIR)
def test_every_row_keeps_every_constraint(models, method):
    model = constrained(models[method], *MIXTURE)
    rows = model.sample(300, 1)
    assert len(rows) == 300
    assert violations(rows, model.schema) == 0
    assert violations(models[method].sample(300, 1), model.schema) > 100  # the check can fail
    assert model.acceptance is not None and model.acceptance.kept >= 300 and 0 < model.acceptance.share < 1


def of_numbers(names):
    bounds = st.tuples(st.integers(0, 10), st.integers(0, 10)).map(sorted)
    when = st.sampled_from([{"smoker": True}, {"city": "Ulm"}, {"state": ["BW", "SH"]}, {"weight": [0, 70]}])
    return st.builds(
        lambda when, name, ends: {"when": when, "column": name, "low": ends[0], "high": ends[1]},
        when,
        st.sampled_from(names),
        bounds,
    )


RANDOM = st.one_of(
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["drugs", "weight"]),
        st.sampled_from([">=", ">", "<=", "<"]),
        st.sampled_from(["total", "packs", "'ward fee'"]),
    ),
    st.sampled_from(["discharge > admission", "admission >= discharge", "total = drugs + 'ward fee'"]),
    of_numbers(["drugs", "packs"]),
    st.lists(st.tuples(st.sampled_from(sorted(CITIES)), st.booleans()), min_size=1, max_size=4).map(
        lambda pairs: {"columns": ["city", "smoker"], "allowed": [list(pair) for pair in pairs]}
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("method", FAIR)
@given(constraints=st.lists(RANDOM, min_size=1, max_size=3), seed=st.integers(0, 5))
@settings(deadline=None, derandomize=True, max_examples=15)
def test_random_constraints_hold_in_every_row_or_the_sample_is_refused(method, constraints, seed):
    try:
        model = constrained(fitted(method), *constraints)
    except SchemaError as error:  # two inequalities the one way and the other
        assert "expected inequalities that can hold together" in str(error) or "got two" in str(error)
        return
    try:
        rows = model.sample(60, seed)
    except us.SamplingError as error:
        assert "keep the rules, of 60 wanted" in str(error)
        return
    assert len(rows) == 60
    assert violations(rows, model.schema) == 0


TRAINED = [pytest.param(name, marks=pytest.mark.slow) if name in QUICK else name for name in METHODS]


@pytest.mark.parametrize("method", TRAINED)
def test_every_method_keeps_constraints_and_conditions(method):
    made = schema("total = drugs + 'ward fee'", "weight >= drugs")
    model = us.fit(stays(200), made, quick(method), epsilon=50.0, seed=0)
    rows = model.sample(50, 0, where={"smoker": True})
    assert len(rows) == 50 and rows["smoker"].all()
    assert violations(rows, made) == 0


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow"])
def test_constraints_hold_in_every_kind_of_frame(models, kind):
    model = constrained(models["copula"], *MIXTURE, kind=kind)
    rows = model.sample(100, 0, where={"smoker": True})
    assert type(rows).__module__.startswith(kind)
    as_polars = rows if kind == "polars" else pl.from_pandas(rows) if kind == "pandas" else pl.from_arrow(rows)
    assert isinstance(as_polars, pl.DataFrame) and len(as_polars) == 100
    assert violations(as_polars, model.schema) == 0


@pytest.mark.parametrize("method", FAIR)
@pytest.mark.parametrize("n", [0, 1, 700])
def test_without_constraints_a_sample_is_what_the_generator_draws_bit_for_bit(models, method, n):
    model = models[method]
    columns = model.encoder.decode(model.generator.sample(n, key=Key.new(3)))
    assert model.sample(n, 3).equals(writing.to_frame(columns, model.schema, model.encoder.labels, model.kind))
    assert (model.acceptance.drawn, model.acceptance.share) == (n, 1.0)


@pytest.mark.parametrize("method", FAIR)
def test_a_rule_that_all_rows_keep_changes_nothing(models, method):
    model = constrained(models[method], {"when": {"smoker": True}, "column": "weight", "high": 100})
    assert model.sample(300, 3).equals(models[method].sample(300, 3))


def test_the_same_seed_gives_the_same_rows(models):
    model = constrained(models["copula"], *MIXTURE)
    assert model.sample(100, 7, where={"city": "Ulm"}).equals(model.sample(100, 7, where={"city": "Ulm"}))
    assert not model.sample(100, 7).equals(model.sample(100, 8))


def test_further_batches_repeat_no_row(models):
    rows = constrained(models["copula"], *MIXTURE).sample(2000, 0)
    assert rows.n_unique() == 2000


def test_a_saved_model_keeps_its_constraints(models, tmp_path):
    model = constrained(models["copula"], *MIXTURE)
    model.save(tmp_path / "m.understudy")
    again = load(tmp_path / "m.understudy")
    assert again.schema == model.schema
    assert again.sample(50, 0).equals(model.sample(50, 0))


def test_no_rows_are_always_to_be_had(models):
    assert len(constrained(models["copula"], *MIXTURE).sample(0, 0)) == 0


HEAVY = {"when": {"smoker": True}, "column": "drugs", "high": 5}


def test_rejecting_rows_moves_no_measured_margin(models):
    """Without weights, the share of smokers would fall by a tenth."""
    drawn = models["copula"].sample(20_000, 1)
    model = constrained(models["copula"], HEAVY)
    kept, alone = model.sample(20_000, 1), drawn.filter(~pl.col("smoker") | (pl.col("drugs") <= 5))
    assert abs(alone["smoker"].mean() - drawn["smoker"].mean()) > 0.08
    assert abs(kept["smoker"].mean() - drawn["smoker"].mean()) < 0.005
    assert abs(kept["weight"].mean() - drawn["weight"].mean()) < 0.5
    assert model.acceptance is not None and model.acceptance.shift < 0.005


def test_rows_are_rejected_within_the_conditions_that_are_asked_for(models):
    """A condition moves margins, and rules then keep those."""
    asked = models["copula"].sample(20_000, 1, where={"city": "Ulm"})
    kept = constrained(models["copula"], HEAVY).sample(20_000, 1, where={"city": "Ulm"})
    assert set(kept["city"]) == {"Ulm"}
    assert abs(kept["smoker"].mean() - asked["smoker"].mean()) < 0.01


def test_rules_may_be_added_when_rows_are_drawn(models):
    model = models["copula"]
    rows = model.sample(300, 1, rules=MIXTURE)
    assert violations(rows, constrained(model, *MIXTURE).schema) == 0
    assert rows.equals(constrained(model, *MIXTURE).sample(300, 1))
    assert (
        model.schema.constraints == () and violations(model.sample(300, 1), constrained(model, *MIXTURE).schema) > 100
    )
    with pytest.raises(us.ConstraintError, match="rules: constraint 1: the schema has no column 'dischage'"):
        model.sample(10, rules=["dischage >= admission"])


# Impossible ---------------------------------------------------------------------------------------------------------

NEVER = (
    {"when": {"smoker": [True, False]}, "column": "drugs", "high": 3},
    {"when": {"smoker": [True, False]}, "column": "drugs", "low": 4},
)


@pytest.mark.parametrize("n", [1, 1000])
def test_what_is_impossible_is_refused_in_bounded_time(models, n):
    model = constrained(models["copula"], *NEVER)
    begun = time.perf_counter()
    with pytest.raises(us.SamplingError, match=r"most often broken: drugs <= 3 when .*, by [5-7]\d") as refused:
        model.sample(n, 0)
    assert time.perf_counter() - begun < 10
    drawn = int(str(refused.value).split()[1])
    assert max(20 * n, FEWEST_DRAWN) <= drawn <= 4 * max(20 * n, FEWEST_DRAWN)
    assert f", of {n} wanted; " in str(refused.value)


def test_what_is_rare_but_above_one_in_a_hundred_is_drawn(models):
    model = models["copula"]
    rows = model.sample(300, 0, where={"weight": (50, 52)})
    assert len(rows) == 300 and rows["weight"].is_between(50, 52).all()
    assert 0.01 < model.acceptance.share < 0.05


# Conditions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", FAIR)
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ({"city": "Ulm"}, pl.col("city") == "Ulm"),
        ({"city": ["Ulm", "Kiel"]}, pl.col("city").is_in(["Ulm", "Kiel"])),
        ({"city": {"Ulm", "Kiel"}}, pl.col("city").is_in(["Ulm", "Kiel"])),
        ({"smoker": False}, ~pl.col("smoker")),
        ({"drugs": 3}, pl.col("drugs") == 3),
        ({"drugs": (3, 5)}, pl.col("drugs").is_between(3, 5)),
        ({"weight": (None, 20)}, pl.col("weight") <= 20),
        ({"packs": (15.5, None)}, pl.col("packs") >= 15.5),
        ({"packs": None}, pl.col("packs").is_null()),
        ({"state": None}, pl.col("state").is_null()),
        ({"admission": ("2020-03-01", datetime.date(2020, 6, 1))}, pl.col("admission").dt.month().is_between(3, 6)),
        ({"city": "Bonn", "smoker": True, "drugs": (0, 5)}, (pl.col("city") == "Bonn") & (pl.col("drugs") <= 5)),
    ],
)
def test_conditions_hold_in_every_row(models, method, where, kept):
    rows = models[method].sample(200, 0, where=where)
    assert len(rows) == 200
    assert rows.filter(kept).equals(rows)


def test_independent_columns_are_conditioned_without_rejection(models):
    model = models["independent"]
    rows = model.sample(1000, 0, where={"city": "Ulm", "weight": (50, 50.5), "drugs": 3})
    assert model.acceptance.share > 0.999
    wide = model.sample(200_000, 0).filter(pl.col("weight").is_between(50, 60))
    narrow = model.sample(20_000, 1, where={"weight": (50, 60)})
    assert abs(wide["weight"].mean() - narrow["weight"].mean()) < 0.15
    assert rows["packs"].null_count() > 100


@pytest.mark.slow
def test_a_condition_on_a_total_of_independent_columns_is_on_the_sum(models):
    model = constrained(models["independent"], {"rule": "total = drugs + 'ward fee'", "tolerance": 1})
    rows = model.sample(5000, 0, where={"total": (10, 12)})
    free = model.sample(60_000, 1).filter(pl.col("total").is_between(10, 12))
    assert violations(rows, model.schema) == 0
    # Rows that are free are chosen so that totals have their measured distribution, which a condition leaves alone.
    assert abs(rows["total"].mean() - free["total"].mean()) < 0.2


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"cty": "Ulm"}, "where: the schema has no column 'cty'. Did you mean 'city'?"),
        ({"city": "Atlantis"}, "expected 'city' to be a category that the model knows, got 'Atlantis'"),
        ({"state": "BWW"}, "got 'BWW'. Did you mean 'BW'?"),
        ({"city": None}, "column 'city': expected a value, got none"),
        ({"drugs": 3.5}, "to be a whole number"),
        ({"drugs": "many"}, "to be a number, got 'many'"),
        ({"drugs": (5, 3)}, "expected low <= high, got 5 and 3"),
        ({"drugs": (None, None)}, "expected a value or a pair"),
        ({"drugs": 11}, "drugs = 11: expected a rule that can hold"),
        ({"admission": "May"}, "to be a date or a date and time"),
        ({"smoker": "maybe"}, "to be true or false, got 'maybe'"),
        ("city=Ulm", "where: expected a dictionary"),
    ],
    ids=str,
)
def test_a_wrong_condition_is_refused_by_name(models, where, message):
    with pytest.raises(us.ConstraintError, match=message):
        models["copula"].sample(10, 0, where=where)


def test_a_condition_that_is_too_rare_says_how_rare(models):
    with pytest.raises(us.SamplingError, match=r"\d+ \(0(\.\d+)? %\) keep the rules.*broken: weight = 50, by 100 %"):
        models["copula"].sample(1000, 0, where={"weight": 50})


# The command --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(models, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "m.understudy"
    constrained(models["copula"], "discharge >= admission").save(path)
    return path


def test_the_command_takes_conditions_and_tells_the_acceptance_apart_from_its_result(saved, tmp_path):
    options = ["--where", "city=Ulm", "--where", "drugs=3..", "--where", "packs=", "--where", "admission=..2020-10-01"]
    done = run("sample", saved, "-n", 40, "-o", tmp_path / "some.parquet", "--seed", 0, *options)
    assert (done.exit_code, done.stdout) == (
        0,
        f"40 rows written to {tmp_path / 'some.parquet'}, and where they come from to some.parquet.json.\n",
    )
    assert " rows drawn keep the rules (" in done.stderr and "most often broken: packs is missing" in done.stderr
    rows = pl.read_parquet(tmp_path / "some.parquet")
    assert set(rows["city"]) == {"Ulm"} and (rows["drugs"] >= 3).all() and rows["packs"].null_count() == 40
    assert (rows["admission"] <= datetime.datetime(2020, 10, 1)).all()


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("city", "where: expected each column once, as column=value or column=low..high, got 'city'"),
        ("cty=Ulm", "no column 'cty'. Did you mean 'city'?"),
        ("drugs=a..b", "to be a number, got 'a'"),
        ("drugs=..", "expected a value or a pair"),
        ("weight=50", "keep the rules"),
    ],
)
def test_the_command_refuses_a_wrong_condition_in_one_line(saved, tmp_path, condition, message):
    refused = run("sample", saved, "-n", 400, "-o", tmp_path / "some.csv", "--where", condition)
    assert refused.exit_code == 1 and message in refused.stderr and refused.stderr.count("\n") == 1
    assert not (tmp_path / "some.csv").exists()


# In a notebook ------------------------------------------------------------------------------------------------------


def test_notebooks_show_small_tables_and_escape_everything(models):
    nasty = "<script>alert('x')</script>"
    columns = (Column(name=nasty, kind="integer", low=0, high=9), Column(name="b&b", kind="integer", low=0, high=9))
    made = ruled(columns, f'"{nasty}" >= b&b', name=nasty)
    people = pl.DataFrame({nasty: [1, 2, 3], "b&b": [1, 2, 3]})
    model = us.fit(people, made, "independent", epsilon=1.0, seed=0)
    for shown in (made._repr_html_(), model._repr_html_(), model.receipt._repr_html_()):
        assert "<table>" in shown and "&lt;script&gt;" in shown and "b&amp;b" in shown
        assert "<script>" not in shown and "b&b" not in shown
    assert "VOID." in model.receipt._repr_html_()
    assert model.receipt.promise in model.receipt._repr_html_()
    assert "&gt;= b&amp;b" in made._repr_html_()


@pytest.mark.parametrize("rule", ["a + b = t", "t = a + b"])
def test_a_sum_may_be_written_from_either_side(rule):
    columns = [us.Column(name=name, kind="integer", low=0, high=10) for name in "abt"]
    assert str(ruled(columns, rule).constraints[0]) == "t = a + b"


def test_one_truth_value_may_imply_another():
    columns = [us.Column(name=name, kind="boolean") for name in ("a", "b c")]
    made = ruled([*columns, us.Column(name="n", kind="integer")], "a implies 'b c'")
    assert str(made.constraints[0]) == "b c = true when a = true"
    assert Schema.parse(made.to_toml()) == made
    for wrong, message in {"a implies n": "'n' is integer", "a implies a": "one twice", "a implies d": "'d'"}.items():
        with pytest.raises(SchemaError, match=message):
            dataclasses.replace(made, constraints=[wrong])
