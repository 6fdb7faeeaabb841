"""The contract: one suite that every method in METHODS is run through."""

import dataclasses
import datetime
import io
import itertools
import json
import zipfile

import numpy as np
import polars as pl
import pytest

import understudy
from conftest import MIXED, QUICK, mixed_table
from fits import FEW, ROWS, distance, every_method, few, fitted, fitted_in_full, quick, table_of
from test_model import assert_holds_no_rows
from understudy import encoding
from understudy.core.randomness import Key
from understudy.privacy.ledger import FilterShare, Ledger
from understudy.privacy.plan import Budget, BudgetExceeded
from understudy.privacy.rows import PrivateRows, lock
from understudy.synthesizers import FITTED, METHODS
from understudy.synthesizers.planning import planned_mechanisms
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.table import read

pytestmark = every_method


def assert_in_domain(frame: pl.DataFrame, schema: Schema) -> None:
    """Every cell is one that the schema allows, and finite."""
    assert tuple(frame.columns) == schema.names
    for column in schema:
        series = frame[column.name]
        expected = {
            "continuous": pl.Float64,
            "integer": pl.Int64,
            "boolean": pl.Boolean,
            "categorical": pl.String,
            "datetime": pl.Datetime("us"),
        }[column.kind]
        assert series.dtype == expected
        assert column.nullable or series.null_count() == 0
        present = series.drop_nulls()
        if column.kind == "continuous":
            assert present.is_finite().all()
        if column.low is not None and len(present):
            assert present.min() >= column.low  # pyright: ignore[reportOperatorIssue]
        if column.high is not None and len(present):
            assert present.max() <= column.high  # pyright: ignore[reportOperatorIssue]
        if column.labels is not None:
            assert set(present) <= set(column.labels)


# What one fit of the mixed table shows.


def test_a_configured_method_knows_its_name(method):
    assert quick(method).name == method
    assert isinstance(fitted(method).generator, FITTED[method])


@pytest.mark.parametrize("epsilon", [1.0, pytest.param(1e6, marks=pytest.mark.new_shape)])
def test_columns_and_domain_are_the_schema_s(method, epsilon):
    drawn = fitted(method, epsilon=epsilon).sample(700, seed=0)
    assert drawn.height == 700
    assert_in_domain(drawn, MIXED)


def test_the_receipt_is_within_the_budget(method):
    receipt = fitted(method).receipt
    assert 0.98 <= receipt.epsilon <= 1.0
    assert receipt.delta == 1e-6 and receipt.rdp_epsilon >= receipt.epsilon * 0.999


def test_the_same_seed_gives_the_same_rows(method):
    one = fitted(method)
    two = understudy.fit(table_of("mixed"), MIXED, quick(method), epsilon=1.0, seed=0)
    assert one.sample(60, seed=9).equals(two.sample(60, seed=9))
    assert not one.sample(60, seed=9).equals(one.sample(60, seed=10))


def test_it_is_saved_and_loaded_without_pickle(method, tmp_path):
    model, path = fitted(method), tmp_path / "m.understudy"
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["model.json", "arrays.npz"]
        document = json.loads(archive.read("model.json"))
        with np.load(io.BytesIO(archive.read("arrays.npz")), allow_pickle=False) as arrays:
            assert all(arrays[name].dtype.kind in "fbiuU" for name in arrays.files)  # reading an object array raises
    assert document["method"]["name"] == method
    assert understudy.load(path).sample(60, seed=0).equals(model.sample(60, seed=0))


def test_it_keeps_no_reference_to_rows(method):
    assert_holds_no_rows(fitted(method), ROWS)


# Methods whose structure, and so the order of their columns, is measured with the rest.
CHOOSES_ITS_ORDER = {"privbayes", "mst", "aim", "privmrf"}


def test_parents_come_earlier_in_the_order(method):
    parents = fitted(method).parents
    order = list(parents)
    assert sorted(order) == sorted(MIXED.names)
    assert method in CHOOSES_ITS_ORDER or order == list(MIXED.generation_order)
    for name, its in parents.items():
        assert all(order.index(parent) < order.index(name) for parent in its)


# The ledger.


def test_a_spent_ledger_is_refused(method, mixed):
    configured, budget = quick(method), Budget(epsilon=1.0, delta=1e-6)
    ledger = Ledger(budget, planned_mechanisms(MIXED, configured, budget))
    table = read(mixed, MIXED)
    rows = lock(table.columns, table.labels, key=Key.new(0))
    encoder = encoding.fit_encoder(rows, MIXED, ledger=ledger, key=Key.new(0))
    own = configured.plan(MIXED)
    for planned in own:
        if planned.mechanism == "privacy filter":
            ledger.charge(FilterShare(planned.name, 1.0), what="spent", sensitivity=1.0, mechanism="discrete gaussian")
        else:
            ledger.charge(planned.name, what="spent", sensitivity=1.0, times=planned.times)
    with pytest.raises(BudgetExceeded):
        encoding.fit_encoder(PrivateRows({}, {}, 1), MIXED, ledger=ledger, key=Key.new(0))
    if own:
        with pytest.raises(BudgetExceeded):
            configured.fit(rows, encoder, ledger=ledger, key=Key.new(0))


PLAIN = Schema(
    name="plain", rows=200, columns=tuple(Column(name=name, kind="continuous", low=-9.0, high=9.0) for name in "xyz")
)


@pytest.mark.new_shape
def test_a_receipt_is_void_if_columns_passed_through_and_only_then(method):
    frame = pl.DataFrame(dict(zip("xyz", np.random.default_rng(0).normal(size=(3, 200)), strict=True)))
    settings = dict(QUICK.get(method, {}))
    encoded = understudy.fit(frame, PLAIN, METHODS[method](**settings), epsilon=1.0)
    assert not encoded.receipt.void  # pyright: ignore[reportAttributeAccessIssue]
    if "standardised" in (field.name for field in dataclasses.fields(METHODS[method])):
        passed = understudy.fit(frame, PLAIN, METHODS[method](**settings, standardised=True), epsilon=1.0)
        assert any("STANDARDISATION" in reason.upper() for reason in passed.receipt.void)  # pyright: ignore
        assert "VOID" in str(passed.receipt)


# At a huge epsilon.


def mean_distance(real, synthetic, width):
    cliques = [list(names) for names in itertools.combinations(FEW.names, width)]
    return np.mean([distance(real, synthetic, names) for names in cliques])


# A critic sees margins through a network of its own and only comes near them; the other methods count them.
NEAR = {"prada-gan": 0.08, "dpgan": 0.08}


@pytest.mark.slow
def test_at_a_huge_epsilon_single_columns_are_as_near_as_a_sample(method):
    real, drawn = few(), fitted_in_full(method, "few", 1e6).sample(4000, seed=0)
    floor = mean_distance(real, real.sample(4000, with_replacement=True, seed=1), 1)
    assert mean_distance(real, drawn, 1) <= 2 * floor + NEAR.get(method, 0.01)


@pytest.mark.slow
def test_at_a_huge_epsilon_pairs_are_no_worse_than_independent(method):
    drawn, baseline = (fitted_in_full(name, "few", 1e6).sample(8000, seed=0) for name in (method, "independent"))
    assert mean_distance(few(), drawn, 2) <= mean_distance(few(), baseline, 2) + 0.01


# Units.


@pytest.mark.new_shape
def test_one_unit_with_many_rows_counts_for_few(method):
    schema = dataclasses.replace(FEW, unit="person", max_rows_per_unit=2)
    crowd = few(500).with_columns(a=pl.lit(1, pl.Int64), person=np.arange(500))
    loud = few(5000).with_columns(a=pl.lit(4, pl.Int64), person=pl.lit(10_000, pl.Int64))
    model = understudy.fit(pl.concat([crowd, loud]), schema, quick(method), epsilon=1e4, seed=0)
    assert (model.sample(2000, seed=0)["a"] == 4).mean() < (0.05 if method not in QUICK else 0.3)
    assert (model.receipt.unit, model.receipt.max_rows_per_unit) == ("person", 2)


# Small and wide tables.


# A number, one that may be missing, categories that the schema lists, and ones that it does not.
@pytest.mark.new_shape
@pytest.mark.parametrize("column", ["weight", "income", "colour", "city"])
def test_a_table_of_one_column(method, column):
    schema = Schema(columns=(MIXED[column],))
    frame = mixed_table(1500).select(column)
    assert_in_domain(understudy.fit(frame, schema, quick(method), epsilon=1.0, seed=0).sample(200, seed=0), schema)


@pytest.mark.new_shape
@pytest.mark.parametrize(("rows", "epsilon"), [(1, 1e6), (2, 0.5), (100, 0.01)])
def test_a_table_of_hardly_any_rows(method, rows, epsilon):
    model = understudy.fit(mixed_table(rows), MIXED, quick(method), epsilon=epsilon, delta=1e-9, seed=0)
    assert_in_domain(model.sample(300, seed=0), MIXED)


@pytest.mark.new_shape
def test_a_wide_table(method):
    draw = np.random.default_rng(0)
    kinds = ["continuous", "integer", "boolean", "categorical"] * 5
    makers = {
        "continuous": lambda: draw.normal(size=120),
        "integer": lambda: draw.integers(0, 9, 120),
        "boolean": lambda: draw.random(120) < 0.5,
        "categorical": lambda: draw.choice(["x", "y"], 120),
    }
    schema = Schema(columns=tuple(Column(name=f"c{i}", kind=kind) for i, kind in enumerate(kinds)))
    frame = pl.DataFrame({f"c{i}": makers[kind]() for i, kind in enumerate(kinds)})
    drawn = understudy.fit(frame, schema, quick(method), epsilon=1.0, seed=0).sample(150, seed=0)
    assert_in_domain(drawn, schema)


NASTY = [np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0, -0.0, float("nan"), 1e-300, 2.0**53]


@pytest.mark.new_shape
def test_values_that_no_one_expects_neither_raise_nor_get_out(method):
    schema = Schema(
        columns=(
            Column(name="x", kind="continuous"),
            Column(name="y", kind="integer", nullable=True),
            Column(name="z", kind="datetime", low=datetime.datetime(2000, 1, 1), high=datetime.datetime(2001, 1, 1)),
        )
    )
    frame = pl.DataFrame({"x": NASTY * 20, "y": NASTY * 20, "z": [datetime.datetime(1, 1, 1)] * 200})
    for epsilon in (0.5, 1e6):
        assert_in_domain(
            understudy.fit(frame, schema, quick(method), epsilon=epsilon, seed=0).sample(200, seed=0), schema
        )
