"""The pipeline: the stated promise, recomputed independently; the plan; and what comes in and goes out."""

import dataclasses
import functools
import gc
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from dp_accounting import pld

import understudy
from conftest import MIXED, mixed_table
from understudy import pipeline
from understudy.model import Model
from understudy.privacy.ledger_file import LedgerFile
from understudy.privacy.plan import BudgetExceeded
from understudy.synthesizers import METHODS, resolve
from understudy.synthesizers.base import BatchMethod
from understudy.synthesizers.independent import Independent
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.structure import TableError

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
# Each schema has a budget of its own, from small to large.
BUDGETS = {"mixed": (0.2, 1e-5), "public rows": (1.0, 1e-6), "by person": (8.0, 1e-9), "numbers": (1.0, 1e-6)}
every_schema = pytest.mark.parametrize("schema", SCHEMAS)
# The baseline, which only fits the encoder, and a method that measures more.
two_methods = pytest.mark.parametrize("method", ["independent", "copula"])


def table_for(schema: Schema, n: int = 300) -> pl.DataFrame:
    if schema is NUMBERS:
        draw = np.random.default_rng(0)
        return pl.DataFrame({"a": draw.normal(size=n), "b": draw.integers(0, 10, n)})
    table = mixed_table(n)
    return table.with_columns(person=np.arange(n) // 2) if schema.unit else table


@functools.cache
def fitted(name: str, method: str) -> Model:
    """The model of a schema's table under its budget; tests share it."""
    schema, (epsilon, delta) = SCHEMAS[name], BUDGETS[name]
    return understudy.fit(table_for(schema), schema, method, epsilon=epsilon, delta=delta, seed=0)


@pytest.fixture(scope="module")
def table():
    return mixed_table(300)


# The promise.


def recomputed(receipt):
    """Epsilon of a receipt by another accountant than the one that calibrated it, from its events alone."""
    accountant = pld.PLDAccountant(value_discretization_interval=receipt.budget.epsilon * 1e-4)
    for event in receipt.events():
        accountant.compose(event)
    thresholds = sum(charge.times * charge.threshold_delta for charge in receipt.charges)
    return accountant.get_epsilon(receipt.delta - thresholds)


@every_schema
@two_methods
def test_the_receipt_adds_up_to_the_budget_and_not_beyond(schema, method):
    (epsilon, delta), receipt = BUDGETS[schema], fitted(schema, method).receipt
    total = recomputed(receipt)
    assert 0.99 * epsilon <= total <= epsilon
    assert abs(receipt.epsilon - total) <= 0.01 * epsilon
    assert receipt.epsilon <= epsilon and receipt.delta == delta
    assert receipt.not_released == 0


@two_methods
def test_noise_grows_with_the_rows_of_a_unit(table, method):
    people = table.with_columns(person=np.arange(300))
    one, three = (
        understudy.fit(
            people, dataclasses.replace(MIXED, unit="person", max_rows_per_unit=m), method, epsilon=1.0, seed=0
        ).receipt
        for m in (1, 3)
    )
    assert (three.unit, three.max_rows_per_unit) == ("person", 3)
    for single, many in zip(one.charges, three.charges, strict=True):
        assert single.noise_multiplier == many.noise_multiplier
        if single.name != "moments":  # their clip norm depends on the noise
            # In a selection of categories, the three rows of a unit move three counts by one at most.
            factor = 3**0.5 if single.mechanism == "gaussian threshold" else 3
            assert many.sigma == pytest.approx(factor * single.sigma)


@pytest.mark.parametrize("rows", [20, 400])
def test_delta_is_what_was_given_whatever_the_size_of_the_table(rows):
    receipt = understudy.fit(mixed_table(rows), MIXED, "copula", epsilon=1.0, delta=1e-5, seed=0).receipt
    assert receipt.delta == receipt.budget.delta == 1e-5


def test_a_public_row_count_is_not_measured():
    assert "rows" not in [charge.name for charge in fitted("public rows", "copula").receipt.charges]
    assert "rows" in [charge.name for charge in fitted("mixed", "copula").receipt.charges]


def test_once_rows_are_locked_nothing_else_holds_them(table, monkeypatch):
    """Neither a frame of the pipeline nor anything it made, when the encoder is fitted."""
    made, held = [], []
    read, encode = pipeline.read, pipeline.encoding.fit_encoder

    def recording_read(*given):
        found = read(*given)
        made.append((id(found), type(found)))
        return found

    def looking_encode(*given, **named):
        gc.collect()
        held.extend(thing for thing in gc.get_objects() if (id(thing), type(thing)) in made)
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename == pipeline.__file__:
            held.extend(value for value in frame.f_locals.values() if isinstance(value, np.ndarray))
            frame = frame.f_back
        return encode(*given, **named)

    monkeypatch.setattr(pipeline, "read", recording_read)
    monkeypatch.setattr(pipeline.encoding, "fit_encoder", looking_encode)
    understudy.fit(table, MIXED, "independent", epsilon=1.0, seed=0)
    assert made and not held


# Many fits at once.


class Batch(Independent):
    """Independent columns, fitted together; remembers how many there were."""

    calls: list[int] = []  # noqa: RUF012

    @classmethod
    def fit_many(cls, requests):
        cls.calls.append(len(requests))
        return [each.method.fit(each.rows, each.encoder, ledger=each.ledger, key=each.key) for each in requests]


def test_fits_of_a_batch_method_are_made_together_and_others_alone(table, monkeypatch):
    monkeypatch.setitem(METHODS, "independent", Batch)
    monkeypatch.setattr(Batch, "calls", [])
    methods = ["independent", "copula", "independent"]
    models = understudy.fit_many(table, MIXED, methods, [3, 4, 5], epsilon=[0.5, 1.0, 2.0])
    assert isinstance(Batch(), BatchMethod) and not isinstance(resolve("copula"), BatchMethod)
    assert Batch.calls == [2]
    assert [model.method.name for model in models] == methods
    assert [model.receipt.budget.epsilon for model in models] == [0.5, 1.0, 2.0]
    alone = understudy.fit(table, MIXED, "copula", epsilon=1.0, seed=4)
    assert models[1].sample(50, seed=0).equals(alone.sample(50, seed=0))


def test_as_many_seeds_and_budgets_as_methods(table):
    with pytest.raises(ValueError, match="got 2 methods, 1 seeds and 2 epsilons"):
        understudy.fit_many(table, MIXED, ["copula", "independent"], [0], epsilon=1.0)


# The plan.


@every_schema
@two_methods
def test_the_plan_is_what_is_then_charged(schema, method):
    epsilon, delta = BUDGETS[schema]
    plan, receipt = (
        understudy.plan(SCHEMAS[schema], method, epsilon=epsilon, delta=delta),
        fitted(schema, method).receipt,
    )
    planned = {charge.name: (charge.noise_multiplier, charge.times) for charge in plan.charges}
    for charge in receipt.charges:
        assert charge.noise_multiplier == planned[charge.name][0]
    for name, (_, times) in planned.items():
        assert sum(charge.times for charge in receipt.charges if charge.name == name) == times
    assert sum(plan.shares().values()) == pytest.approx(1.0)


def test_the_plan_reads_as_text_and_as_json():
    plan = understudy.plan(MIXED, epsilon=1.0, rows=1000)
    assert "No data was touched" in str(plan) and "gradients" in str(plan)
    assert plan.to_json()["rows"] == 1000


@pytest.mark.parametrize("rows", [0, -5, 2.5, True, "many"])
def test_the_plan_wants_a_whole_number_of_rows(rows):
    with pytest.raises(ValueError, match="rows: expected a whole number >= 1"):
        understudy.plan(MIXED, epsilon=1.0, rows=rows)


# Chance.


@two_methods
def test_a_seed_is_on_the_receipt_and_repeats_the_fit(table, method):
    first, again, other = (understudy.fit(table, MIXED, method, epsilon=1.0, seed=s) for s in (5, 5, 6))
    assert first.receipt.seed == 5 and "FOR TESTS ONLY" in str(first.receipt)
    assert first.sample(100, seed=0).equals(again.sample(100, seed=0))
    assert not first.sample(100, seed=0).equals(other.sample(100, seed=0))


def test_without_a_seed_fits_differ_and_the_receipt_says_where_noise_came_from(table):
    first, second = (understudy.fit(table, MIXED, "copula", epsilon=1.0) for _ in range(2))
    assert first.receipt.seed is None and "operating system" in str(first.receipt)
    assert not first.sample(100, seed=0).equals(second.sample(100, seed=0))


# Frames.


FRAMES = {"polars": (lambda t: t, pl.DataFrame), "pandas": (lambda t: t.to_pandas(), pd.DataFrame)}
FRAMES["pyarrow"] = (lambda t: t.to_arrow(compat_level=pl.CompatLevel.oldest()), pa.Table)


@pytest.mark.parametrize(("convert", "kind"), FRAMES.values(), ids=FRAMES)
def test_the_frame_that_comes_out_is_of_the_kind_that_went_in(table, convert, kind):
    model = understudy.fit(convert(table), MIXED, "independent", epsilon=1.0, seed=0)
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
    from_file = understudy.fit(path, schema_path, "copula", epsilon=1.0, seed=0).sample(80, seed=0)
    from_frame = understudy.fit(table, MIXED, "copula", epsilon=1.0, seed=0).sample(80, seed=0)
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
def test_a_wrong_budget_is_refused_before_the_table_is_looked_for(wrong):
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
    assert not path.exists() or not LedgerFile(path).records()


@pytest.mark.parametrize(
    "given", [{"age": "integer"}, None, 3, pl.DataFrame({"age": [1]})], ids=lambda each: type(each).__name__
)
def test_what_is_no_schema_is_told_what_a_schema_is(given):
    with pytest.raises(
        understudy.SchemaError, match=r"expected a us.Schema .* got \w+\. A schema states .* us.Schema.draft\(table\)"
    ):
        understudy.fit(pl.DataFrame({"age": [1, 2]}), given, "independent", epsilon=1.0)


def test_a_stopped_fit_says_whether_it_was_charged(tmp_path, monkeypatch):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Independent, "fit", stop)
    schema = understudy.Schema(name="t", columns=(understudy.Column("age", "integer", low=0, high=9),))
    for ledger, note in ((None, "no ledger was given"), (tmp_path / "b.jsonl", "b.jsonl and stays charged")):
        with pytest.raises(KeyboardInterrupt) as stopped:
            understudy.fit(pl.DataFrame({"age": [1, 2]}), schema, "independent", epsilon=1.0, ledger=ledger)
        assert note in stopped.value.__notes__[0]
    assert understudy.LedgerFile(tmp_path / "b.jsonl").total("t").fits == 1
