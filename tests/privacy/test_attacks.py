"""Attacks: the ways in which private tabular libraries have gone wrong, tried on this one.

Where each is tested:
- noise scaled for frequencies, noise on non-empty cells only, a lone category published: test_counts.py;
- sensitivities that a row exceeds: test_counts.py, test_moments.py, test_selection.py, test_embedding.py;
- bounds, categories, missing values and constant columns read from the data: here, and test_encoder.py;
- raw rows through a side door: here, and test_architecture.py;
- delta from the private row count, preprocessing beside the stated epsilon: test_pipeline.py;
- noise from a user's seed: here and test_pipeline.py;
- rows in the saved model: test_model.py; cells in messages: here and test_table.py;
- uncounted reruns: test_ledger_file.py; one row taken for one person: here, test_mechanisms.py and test_contract.py;
- sampling, reused batches, stopping rules: test_gradients.py.

No attack proves a promise: these are tests of the code. How clearly neighbouring tables can be told apart by what the
mechanisms release, with the noise that ships, is measured in test_distinguishing.py.
"""

import dataclasses
import functools
import warnings

import numpy as np
import polars as pl
import pytest

import understudy
from conftest import MIXED, QUICK, mixed_table, quick
from understudy import encoding
from understudy.core.randomness import Key
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget
from understudy.privacy.rows import lock
from understudy.synthesizers import METHODS
from understudy.tables.table import read

every_method = pytest.mark.parametrize("method", METHODS)


def fit(table, method):
    return understudy.fit(table, MIXED, quick(method), epsilon=1.0, seed=0)


@functools.cache
def baseline(method):
    """The model of an ordinary table, fitted once for each method."""
    return fit(mixed_table(400), method)


def with_first(table, column, *values):
    """The table with the cells of its first rows changed."""
    changed = table[column].to_list()
    changed[: len(values)] = values
    return table.with_columns(pl.Series(column, changed, dtype=table[column].dtype))


# Nothing is read from the data besides what is charged.


@every_method
@pytest.mark.new_shape
def test_neither_values_beyond_a_bound_nor_unlisted_categories_are_told_apart(method):
    table = mixed_table(400)
    clamped = with_first(with_first(table, "weight", 300.0, 300.0, 300.0, 300.0), "colour", "mauve", "mauve")
    extreme = with_first(with_first(table, "weight", 301.0, 1e9, 1e308, float("inf")), "colour", "Zinnober", "x" * 999)
    drawn = [fit(each, method).sample(300, seed=0) for each in (clamped, extreme)]
    assert drawn[0].equals(drawn[1])


# A batch is drawn by the places of rows, so that with a seed, and only then, a training depends on their order.
@pytest.mark.parametrize("method", [name for name in METHODS if name not in QUICK])
def test_the_order_of_rows_is_not_released(method):
    shuffled = mixed_table(400).sample(fraction=1.0, shuffle=True, seed=1)
    assert fit(shuffled, method).sample(300, seed=0).equals(baseline(method).sample(300, seed=0))


def other_table(n):
    """Rows of the mixed schema with nothing in common with `mixed_table`: constant, missing, or out of bounds."""
    table = mixed_table(n)
    return table.with_columns(
        age=pl.lit(500, pl.Int64),
        income=pl.lit(None, pl.Float64),
        weight=pl.lit(float("nan")),
        city=pl.lit("Atlantis"),
        colour=pl.lit("octarine"),
        member=pl.lit(None, pl.Boolean),
    )


@every_method
@pytest.mark.new_shape
def test_what_is_charged_does_not_depend_on_the_rows(method):
    """A method that selects may name what it selected, which was released; a privacy filter is charged as it goes."""
    receipts = [baseline(method).receipt, fit(other_table(37), method).receipt]
    own = {planned.name: planned.mechanism for planned in quick(method).plan(MIXED)}
    selects, filters = "exponential" in own.values(), {name for name, kind in own.items() if kind == "privacy filter"}
    facts = [
        [
            (
                charge.name,
                charge.mechanism,
                charge.noise_multiplier,
                charge.times,
                (selects and charge.name in own) or charge.what,
            )
            for charge in receipt.charges
            if charge.name not in filters
        ]
        for receipt in receipts
    ]
    assert facts[0] == facts[1]
    assert receipts[0].epsilon == receipts[1].epsilon


def locked(frame):
    table = read(frame, MIXED)
    return lock(table.columns, table.labels, key=Key.new(0))


def fitted_encoder(rows, *, epsilon, key):
    ledger = Ledger(Budget(epsilon=epsilon, delta=1e-6), encoding.plan(MIXED, share=1.0, delta=1e-6))
    return encoding.fit_encoder(rows, MIXED, ledger=ledger, key=key)


def test_a_category_of_one_person_does_not_come_out():
    """Whatever the method, categories come from the encoder."""
    rows = locked(with_first(mixed_table(300), "city", "Xanthippe"))
    for seed in range(40):
        assert "Xanthippe" not in fitted_encoder(rows, epsilon=5.0, key=Key.new(seed)).labels["city"]


def test_one_new_category_does_not_move_the_scores_of_other_rows():
    # "Aachen" sorts before every other city; were private codes scored, all of them would move by one.
    table = mixed_table(400)
    encoder = fitted_encoder(locked(table), epsilon=1e5, key=Key.new(0))
    newcomer = with_first(mixed_table(1), "city", "Aachen")
    before, after = (
        encoding.score_rows(locked(frame), encoder, key=Key.new(0), spread=False)
        for frame in (table, pl.concat([table, newcomer]))
    )
    for name in before.names:
        np.testing.assert_array_equal(before._exact[name], after._exact[name][:-1])


# Nothing is told on the side.


def nasty(n):
    """Rows with a value in them for everything that could raise or warn, and a city that nobody else has."""
    table = mixed_table(n)
    for column, value in (("weight", float("inf")), ("income", 1e308), ("age", 2**53), ("colour", "x" * 100_000)):
        table = with_first(table, column, value)
    return with_first(table, "city", "Xanthippe")


@every_method
@pytest.mark.new_shape
def test_a_fit_prints_nothing_warns_of_nothing_and_shows_no_cell(method, capfd):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(nasty(200), method)
        model.sample(50)
    shown = capfd.readouterr()
    assert not caught and shown.out == "" and shown.err == ""
    for text in (str(model.receipt), repr(model.receipt), model.receipt.to_json(), repr(model), str(model)):
        assert "Xanthippe" not in text


def test_noise_of_a_seed_says_so_and_a_secret_one_does_not_repeat():
    table = mixed_table(100)
    assert "guarantee does not hold" in str(baseline("independent").receipt)
    models = [understudy.fit(table, MIXED, "independent", epsilon=1.0) for _ in range(3)]
    assert len({model.encoder.columns["weight"].distribution.cdf.tobytes() for model in models}) == 3


# One person with many rows.


@pytest.mark.parametrize("method", ["independent", "prada"])
@pytest.mark.new_shape
def test_rows_of_a_unit_beyond_its_bound_and_rows_of_no_one_do_not_raise_the_row_count(method):
    schema = dataclasses.replace(MIXED, unit="person", max_rows_per_unit=2)
    crowd = mixed_table(300).with_columns(person=np.arange(300))
    loud = mixed_table(3000, seed=1).with_columns(person=pl.lit(5000, pl.Int64))
    nobody = mixed_table(200, seed=2).with_columns(person=pl.lit(None, pl.Int64))
    model = understudy.fit(pl.concat([crowd, loud, nobody]), schema, quick(method), epsilon=1e4, seed=0)
    assert abs(model.encoder.rows - 302) < 20
