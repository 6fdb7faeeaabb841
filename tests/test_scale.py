"""Tables in partitions, from files to a model: the same bytes however they are cut, and what a failure says."""

import numpy as np
import polars as pl
import pytest

import understudy as us
from conftest import MIXED, QUICK, mixed_table
from understudy.privacy.interpolation import MANY
from understudy.privacy.ledger_file import LedgerFile
from understudy.synthesizers import METHODS
from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.structure import TableError

COUNTING = [name for name in METHODS if name not in ("prada", "prada-gan", "dpgan")]
QUICKEST = ("independent", "copula")
VISITS = Schema(
    name="visits",
    unit="who",
    max_rows_per_unit=3,
    rows=700,
    columns=(
        Column(name="x", kind="continuous", low=-4, high=4),
        Column(name="y", kind="continuous", low=-4, high=4, nullable=True),
        Column(name="c", kind="categorical"),
    ),
)


def in_files(folder, table, count):
    folder.mkdir()
    ends = np.linspace(0, len(table), count + 1).astype(int).tolist()
    for i in range(count):
        table[ends[i] : ends[i + 1]].write_parquet(folder / f"{i:03}.parquet")
    return folder


def visits():
    """Rows of units that are scattered all over the table; some rows nobody knows the unit of."""
    draw = np.random.default_rng(0)
    who = draw.integers(0, 250, 700)
    x = draw.standard_normal(700)
    return pl.DataFrame(
        {
            "who": pl.Series([f"p{each}" for each in who]).set(pl.Series(draw.random(700) < 0.05), None),
            "x": x,
            "y": pl.Series(0.5 * x + draw.standard_normal(700)).set(pl.Series(draw.random(700) < 0.1), None),
            "c": np.array(["a", "b", "c"])[draw.integers(0, 3, 700)],
        }
    )


def bytes_of(model, path):
    model.save(path)
    return path.read_bytes()


def assert_any_cut_gives_the_same_bytes(table, schema, method, cuts, tmp_path, **options):
    configured = METHODS[method](**QUICK.get(method, {}))
    whole = bytes_of(us.fit(table, schema, configured, epsilon=1.0, seed=3), tmp_path / "whole")
    for cut in cuts:
        folder = in_files(tmp_path / str(cut), table, cut)
        model = us.fit(folder, schema, configured, epsilon=1.0, seed=3, **options)
        assert bytes_of(model, tmp_path / "cut") == whole, cut


@pytest.mark.parametrize("method", QUICKEST)
def test_a_model_has_the_same_bytes_however_its_table_is_cut(method, tmp_path):
    assert_any_cut_gives_the_same_bytes(mixed_table(230), MIXED, method, [1, 7], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("method", COUNTING)
def test_every_method_that_counts_has_the_same_bytes_for_1_7_and_64_partitions(method, tmp_path):
    assert_any_cut_gives_the_same_bytes(mixed_table(1203), MIXED, method, [1, 7, 64], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["prada", "dpgan"])
def test_a_training_has_the_same_bytes_for_1_7_and_64_partitions(method, tmp_path):
    assert_any_cut_gives_the_same_bytes(mixed_table(1203), MIXED, method, [1, 7, 64], tmp_path)


def test_units_that_are_scattered_over_files_are_bounded_as_in_one(tmp_path):
    assert_any_cut_gives_the_same_bytes(visits(), VISITS, "copula", [5], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["aim", "prada", "dpgan"])
def test_units_are_counted_and_trained_on_as_in_one(method, tmp_path):
    assert_any_cut_gives_the_same_bytes(visits(), VISITS, method, [1, 9], tmp_path)


@pytest.mark.parametrize("method", ["copula", *(pytest.param(m, marks=pytest.mark.slow) for m in ("aim", "prada"))])
def test_so_many_rows_that_they_are_looked_up_give_the_bytes_of_few(method, tmp_path):
    """Large partitions go through guide tables and tables of whole numbers, small ones through binary searches."""
    assert_any_cut_gives_the_same_bytes(mixed_table(2 * MANY + 5), MIXED, method, [1, 7, 64], tmp_path)


def test_a_file_that_is_damaged_is_named_before_anything_is_charged(tmp_path):
    folder, ledger = in_files(tmp_path / "rows", mixed_table(100), 3), tmp_path / "budget.jsonl"
    damaged = folder / "001.parquet"
    content = damaged.read_bytes()
    damaged.write_bytes(content[:200] + bytes(1300) + content[1500:])
    with pytest.raises(TableError, match=r"001\.parquet cannot be read as Parquet") as failure:
        us.fit(folder, MIXED, "independent", epsilon=1.0, ledger=ledger)
    assert not ledger.exists() and "charged" not in str(failure.value)


def test_a_file_that_vanishes_between_two_passes_is_named_and_the_budget_is_spent(tmp_path, monkeypatch):
    folder, ledger = in_files(tmp_path / "rows", mixed_table(100), 3), tmp_path / "budget.jsonl"
    charge = LedgerFile.charge

    def charge_and_lose(*given, **named):
        (folder / "002.parquet").unlink()
        return charge(*given, **named)

    monkeypatch.setattr(LedgerFile, "charge", charge_and_lose)
    # The number of rows was known, so that it could be released.
    said = r"002\.parquet cannot be read.*charged to .*budget.*1 measurement had been released, and none after"
    with pytest.raises(TableError, match=said):
        us.fit(folder, MIXED, "independent", epsilon=1.0, ledger=ledger)
    assert LedgerFile(ledger).total("mixed").epsilon == 1.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"engine": "spark"}, "engine: expected local or ray, got 'spark'"),
        ({"address": "auto"}, "address: expected engine 'ray' with an address"),
    ],
)
def test_an_engine_that_there_is_not_is_refused_before_anything_is_read(given, message):
    with pytest.raises(ValueError, match=message):
        us.fit("nowhere.csv", MIXED, "independent", epsilon=1.0, **given)


def test_a_lazy_frame_is_fitted_in_partitions(tmp_path):
    table = mixed_table(120)
    models = [us.fit(each, MIXED, "independent", epsilon=1.0, seed=0) for each in (table, table.lazy())]
    assert bytes_of(models[0], tmp_path / "a") == bytes_of(models[1], tmp_path / "b")
