"""The corridor: the stated promise, recomputed independently; the plan; and what comes in and goes out."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from dp_accounting import pld

import understudy
from conftest import MIXED, mixed_table
from understudy.privacy.accounting import BudgetExceeded
from understudy.privacy.ledger_file import LedgerFile
from understudy.tables.schema import Column, Schema
from understudy.tables.sources import TableError

NUMBERS = Schema(
    name="numbers",
    columns=(Column(name="a", kind="continuous"), Column(name="b", kind="integer", low=0, high=9)),
    rows=300,
)
SCHEMAS = {
    "mixed": MIXED,
    "public rows": dataclasses.replace(MIXED, rows=300),
    "by person": dataclasses.replace(MIXED, unit="person", max_rows_per_unit=3),
    "numbers": NUMBERS,
}


def table_for(schema, n=300):
    if schema is NUMBERS:
        draw = np.random.default_rng(0)
        return pl.DataFrame({"a": draw.normal(size=n), "b": draw.integers(0, 10, n)})
    table = mixed_table(n)
    return table.with_columns(person=np.arange(n) // 2) if schema.unit else table


@pytest.fixture(scope="module")
def table():
    return mixed_table(300)


# The promise.


def recomputed(receipt):
    """Epsilon of a receipt by another accountant than the one that calibrated it, from its events alone."""
    accountant = pld.PLDAccountant(value_discretization_interval=receipt.budget.epsilon * 1e-4)
    for event in receipt.events():
        accountant.compose(event)
    thresholds = sum(line.times * line.threshold_delta for line in receipt.charges)
    return accountant.get_epsilon(receipt.delta - thresholds)


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("method", ["independent", "copula"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 1e-5), (1.0, 1e-6), (8.0, 1e-9)])
def test_the_receipt_adds_up_to_the_budget_and_not_beyond(schema, method, epsilon, delta):
    receipt = understudy.fit(table_for(schema), schema, method, epsilon=epsilon, delta=delta, seed=0).receipt
    total = recomputed(receipt)
    assert 0.99 * epsilon <= total <= epsilon
    assert abs(receipt.epsilon - total) <= 0.01 * epsilon
    assert receipt.epsilon <= epsilon and receipt.delta == delta
    assert receipt.not_released == 0


@pytest.mark.parametrize("method", ["independent", "copula"])
@pytest.mark.parametrize("m", [2, 5])
def test_noise_grows_with_the_rows_of_a_unit(table, method, m):
    by_row = understudy.fit(table, MIXED, method, epsilon=1.0, seed=0).receipt
    schema = dataclasses.replace(MIXED, unit="person", max_rows_per_unit=m)
    people = table.with_columns(person=np.arange(300))
    by_unit = understudy.fit(people, schema, method, epsilon=1.0, seed=0).receipt
    assert (by_unit.unit, by_unit.max_rows_per_unit) == ("person", m)
    for one, many in zip(by_row.charges, by_unit.charges, strict=True):
        assert one.noise_multiplier == many.noise_multiplier
        if one.name != "moments":  # their clip norm depends on the noise
            assert many.sigma == pytest.approx(m * one.sigma)


def test_delta_is_what_was_given_whatever_the_size_of_the_table():
    receipts = [understudy.fit(mixed_table(n), MIXED, epsilon=1.0, delta=1e-5, seed=0).receipt for n in (20, 400)]
    assert receipts[0].delta == receipts[1].delta == 1e-5


def test_a_public_row_count_is_not_bought(table):
    names = [line.name for line in understudy.fit(table, SCHEMAS["public rows"], epsilon=1.0, seed=0).receipt.charges]
    assert "rows" not in names
    names = [line.name for line in understudy.fit(table, MIXED, epsilon=1.0, seed=0).receipt.charges]
    assert "rows" in names


# The plan.


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("method", ["independent", "copula"])
def test_the_plan_is_what_is_then_bought(schema, method):
    plan = understudy.plan(schema, method, epsilon=1.0, delta=1e-6)
    receipt = understudy.fit(table_for(schema), schema, method, epsilon=1.0, delta=1e-6, seed=0).receipt
    planned = {line.name: (line.noise_multiplier, line.times) for line in plan.charges}
    for line in receipt.charges:
        assert line.noise_multiplier == planned[line.name][0]
    for name, (_, times) in planned.items():
        assert sum(line.times for line in receipt.charges if line.name == name) == times
    assert sum(plan.shares().values()) == pytest.approx(1.0)


def test_the_plan_reads_as_text_and_as_json():
    plan = understudy.plan(MIXED, epsilon=1.0, rows=1000)
    assert "No data was touched" in str(plan) and "moments" in str(plan)
    assert plan.to_json()["rows"] == 1000


@pytest.mark.parametrize("rows", [0, -5, 2.5, True, "many"])
def test_the_plan_wants_a_whole_number_of_rows(rows):
    with pytest.raises(ValueError, match="rows: expected a whole number >= 1"):
        understudy.plan(MIXED, epsilon=1.0, rows=rows)


# Chance.


@pytest.mark.parametrize("method", ["independent", "copula"])
def test_a_seed_is_on_the_receipt_and_repeats_the_fit(table, method):
    first, again, other = (understudy.fit(table, MIXED, method, epsilon=1.0, seed=s) for s in (5, 5, 6))
    assert first.receipt.seed == 5 and "FOR TESTS ONLY" in str(first.receipt)
    assert first.sample(100, seed=0).equals(again.sample(100, seed=0))
    assert not first.sample(100, seed=0).equals(other.sample(100, seed=0))


def test_without_a_seed_fits_differ_and_the_receipt_says_where_noise_came_from(table):
    first, second = (understudy.fit(table, MIXED, epsilon=1.0) for _ in range(2))
    assert first.receipt.seed is None and "operating system" in str(first.receipt)
    assert not first.sample(100, seed=0).equals(second.sample(100, seed=0))


# Frames.


FRAMES = {"polars": (lambda t: t, pl.DataFrame), "pandas": (lambda t: t.to_pandas(), pd.DataFrame)}
FRAMES["pyarrow"] = (lambda t: t.to_arrow(compat_level=pl.CompatLevel.oldest()), pa.Table)


@pytest.mark.parametrize(("convert", "kind"), FRAMES.values(), ids=FRAMES)
def test_the_frame_that_comes_out_is_of_the_kind_that_went_in(table, convert, kind):
    model = understudy.fit(convert(table), MIXED, epsilon=1.0, seed=0)
    drawn = model.sample(50, seed=0)
    assert isinstance(drawn, kind)
    names = drawn.column_names if kind is pa.Table else list(drawn.columns)
    assert tuple(names) == MIXED.names


@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_a_file_gives_the_same_model_as_its_frame(table, tmp_path, extension):
    path = tmp_path / f"people.{extension}"
    (table.write_csv if extension == "csv" else table.write_parquet)(path)
    schema_path = tmp_path / "people.toml"
    MIXED.write(schema_path)
    from_file = understudy.fit(path, schema_path, epsilon=1.0, seed=0).sample(80, seed=0)
    from_frame = understudy.fit(table, MIXED, epsilon=1.0, seed=0).sample(80, seed=0)
    assert isinstance(from_file, pl.DataFrame)
    assert from_file.equals(from_frame)


# What is refused.


def test_an_unknown_method_gets_a_suggestion(table):
    with pytest.raises(ValueError, match=r"got 'copulla'\. Did you mean 'copula'\?"):
        understudy.fit(table, MIXED, "copulla", epsilon=1.0)


@pytest.mark.parametrize("method", [understudy.Copula, 3, None])
def test_a_method_is_a_name_or_one_of_them_configured(table, method):
    with pytest.raises(ValueError, match="method: expected"):
        understudy.fit(table, MIXED, method, epsilon=1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"epsilon": -1.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": 1.0, "delta": 0},
        {"epsilon": 1.0, "delta": 1},
        {"epsilon": 1.0, "seed": -1},
        {"epsilon": 1.0, "seed": 1.5},
    ],
    ids=str,
)
def test_a_budget_that_is_none_is_refused_before_the_table_is_looked_for(wrong):
    with pytest.raises(ValueError, match="expected"):
        understudy.fit("no such table.csv", MIXED, **wrong)


def test_a_spent_ledger_file_refuses_before_the_table_is_looked_for(tmp_path, table):
    book = LedgerFile(tmp_path / "budget.jsonl")
    book.set_cap("mixed", 1.5, 1e-4)
    understudy.fit(table, MIXED, "independent", epsilon=1.0, seed=0, ledger=book.path)
    with pytest.raises(BudgetExceeded):
        understudy.fit(tmp_path / "no such table.csv", MIXED, epsilon=1.0, ledger=book.path)


def test_a_table_that_does_not_fit_the_schema_costs_nothing(tmp_path, table):
    path = tmp_path / "budget.jsonl"
    with pytest.raises(TableError):
        understudy.fit(table.drop("age"), MIXED, epsilon=1.0, ledger=path)
    assert not LedgerFile(path).records() if path.exists() else True
