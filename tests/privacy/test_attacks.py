"""Attacks: the ways in which private tabular libraries have gone wrong, tried on this one.

Where each is held:
- noise scaled for frequencies, noise on non-empty cells only, a lone category published: test_mechanisms.py;
- bounds, categories, missing values and constant columns read from the data: here, and test_encoding.py;
- raw rows through a side door: here, test_house.py (hatches alone open the box), test_encoding.py (row by row);
- delta from the private row count, preprocessing beside the stated epsilon: test_pipeline.py;
- noise from a user's seed: here and test_pipeline.py;
- rows in the saved model: test_model.py; cells in messages: here and test_table.py;
- uncounted reruns: test_ledger_file.py; one row taken for one person: here, test_mechanisms.py and test_contract.py;
- sampling, reused batches, stopping rules: no method here trains on batches yet.

No attack proves a promise: these are tests of the code.
"""

import dataclasses
import warnings

import numpy as np
import polars as pl
import pytest
from scipy.stats import beta

import understudy
from conftest import MIXED, QUICK, mixed_table, quick
from understudy.core.randomness import Key
from understudy.encoding import encoder as encoding
from understudy.privacy.accounting import Budget
from understudy.privacy.ledger import Ledger
from understudy.privacy.rows import lock
from understudy.synthesizers import METHODS
from understudy.tables.schema import Column, Schema
from understudy.tables.table import read

every_method = pytest.mark.parametrize("method", METHODS)


def draw(table, schema=MIXED, method="copula", epsilon=1.0, n=300):
    return understudy.fit(table, schema, quick(method), epsilon=epsilon, seed=0).sample(n, seed=0)


def with_first(table, column, value):
    """The table with one cell of its first row changed."""
    changed = table[column].to_list()
    changed[0] = value
    return table.with_columns(pl.Series(column, changed, dtype=table[column].dtype))


# Nothing is read from the data beside what is paid for.


@every_method
@pytest.mark.parametrize("extreme", [300.0, 301.0, 1e9, 1e308, float("inf")])
def test_beyond_its_bound_a_maximum_does_not_matter(method, extreme):
    table = mixed_table(400)
    assert draw(with_first(table, "weight", 300.0), method=method).equals(
        draw(with_first(table, "weight", extreme), method=method)
    )


@every_method
def test_unknown_categories_of_a_closed_column_are_all_alike(method):
    table = mixed_table(400)
    assert draw(with_first(table, "colour", "mauve"), method=method).equals(
        draw(with_first(table, "colour", "Zinnober"), method=method)
    )


# A batch is drawn by the places of rows, so that with a seed, and only then, a training depends on their order.
@pytest.mark.parametrize("method", [name for name in METHODS if name not in QUICK])
def test_the_order_of_rows_is_not_released(method):
    table = mixed_table(400)
    assert draw(table, method=method).equals(draw(table.sample(fraction=1.0, shuffle=True, seed=1), method=method))


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
def test_what_is_bought_does_not_depend_on_the_rows(method):
    """A method that chooses may name what it chose, which was bought; from a pot it also buys as it goes."""
    receipts = [
        understudy.fit(table, MIXED, quick(method), epsilon=1.0, seed=0).receipt
        for table in (mixed_table(400), other_table(37))
    ]
    own = {item.name: item.mechanism for item in quick(method).plan(MIXED)}
    chooses, pots = "exponential" in own.values(), {name for name, kind in own.items() if kind == "adaptive"}
    facts = [
        [
            (line.name, line.mechanism, line.noise_multiplier, line.times, (chooses and line.name in own) or line.what)
            for line in receipt.charges
            if line.name not in pots
        ]
        for receipt in receipts
    ]
    assert facts[0] == facts[1]
    assert receipts[0].epsilon == receipts[1].epsilon


@every_method
def test_a_category_of_one_person_does_not_come_out(method):
    table = with_first(mixed_table(300), "city", "Xanthippe")
    named = 0
    for seed in range(20):
        model = understudy.fit(table, MIXED, quick(method), epsilon=5.0, delta=1e-5, seed=seed)
        named += "Xanthippe" in model.encoder.labels["city"]
    assert named == 0


def test_one_new_category_does_not_move_the_scores_of_other_rows():
    # "Aachen" sorts before every other city; were private codes scored, all of them would move by one.
    table = mixed_table(400)
    ledger = Ledger(Budget(epsilon=1e5, delta=1e-6), encoding.plan(MIXED, share=1.0, delta=1e-6))

    def locked(frame):
        guest = read(frame, MIXED)
        return lock(guest.columns, guest.labels, key=Key.new(0))

    encoder = encoding.fit_encoder(locked(table), MIXED, ledger=ledger, key=Key.new(0))
    newcomer = with_first(mixed_table(1), "city", "Aachen")
    before, after = (
        encoding.score_rows(locked(frame), encoder, key=Key.new(0), spread=False)
        for frame in (table, pl.concat([table, newcomer]))
    )
    for name in before.names:
        np.testing.assert_array_equal(before._exact[name], after._exact[name][:-1])


# Nothing is told on the side.


def nasty(n):
    """Rows with a value in them for everything that could raise or warn."""
    table = mixed_table(n)
    for column, value in (("weight", float("inf")), ("income", 1e308), ("age", 2**53), ("colour", "x" * 100_000)):
        table = with_first(table, column, value)
    return table


@every_method
def test_a_fit_prints_nothing_and_warns_of_nothing(method, capfd):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        understudy.fit(nasty(200), MIXED, quick(method), epsilon=1.0, seed=0).sample(50)
    shown = capfd.readouterr()
    assert not caught and shown.out == "" and shown.err == ""


@every_method
def test_neither_receipt_nor_model_show_a_cell(method):
    table = with_first(mixed_table(200), "city", "Xanthippe")
    model = understudy.fit(table, MIXED, quick(method), epsilon=1.0, seed=0)
    for text in (str(model.receipt), repr(model.receipt), model.receipt.to_json(), repr(model), str(model)):
        assert "Xanthippe" not in text


def test_noise_of_a_seed_says_so_and_a_secret_one_does_not_repeat():
    table = mixed_table(100)
    assert "guarantee does not hold" in str(understudy.fit(table, MIXED, epsilon=1.0, seed=0).receipt)
    models = [understudy.fit(table, MIXED, "independent", epsilon=1.0) for _ in range(3)]
    assert len({model.encoder.maps["weight"].distribution.cdf.tobytes() for model in models}) == 3


# One person with many rows.


@every_method
def test_rows_of_a_unit_beyond_its_bound_do_not_raise_the_row_count(method):
    schema = dataclasses.replace(MIXED, unit="person", max_rows_per_unit=2)
    crowd = mixed_table(300).with_columns(person=np.arange(300))
    loud = mixed_table(3000, seed=1).with_columns(person=pl.lit(5000, pl.Int64))
    model = understudy.fit(pl.concat([crowd, loud]), schema, quick(method), epsilon=1e4, seed=0)
    assert abs(model.encoder.rows - 302) < 20


@every_method
def test_rows_that_belong_to_no_one_are_left_out(method):
    schema = dataclasses.replace(MIXED, unit="person", max_rows_per_unit=1)
    person = pl.Series("person", [*range(100), *([None] * 200)])
    model = understudy.fit(mixed_table(300).with_columns(person), schema, quick(method), epsilon=1e4, seed=0)
    assert abs(model.encoder.rows - 100) < 20


# A distinguishing attack: is one extreme row seen more clearly than epsilon allows?


def epsilon_shown(with_row, without, delta, confidence=0.999):
    """A lower bound on epsilon from an attack's scores on both tables; the threshold is chosen on other runs."""
    half = len(with_row) // 2
    best, cut = -np.inf, 0.0
    for t in np.quantile(np.r_[with_row[:half], without[:half]], np.linspace(0.02, 0.98, 97)):
        p, q = np.mean(with_row[:half] > t), np.mean(without[:half] > t) + 1 / half
        if p > delta and np.log((p - delta) / q) > best:
            best, cut = np.log((p - delta) / q), t
    hits, alarms = (int(np.sum(scores[half:] > cut)) for scores in (with_row, without))
    tries, tail = half, (1 - confidence) / 2
    low = beta.ppf(tail, hits, tries - hits + 1) if hits else 0.0
    high = beta.ppf(1 - tail, alarms + 1, tries - alarms) if alarms < tries else 1.0
    return np.log((low - delta) / high) if low > delta else 0.0


NUMBER = Schema(columns=(Column(name="x", kind="continuous", low=0.0, high=1.0),), rows=20)
CATEGORY = Schema(columns=(Column(name="x", kind="categorical", values=("crowd", "loner")),), rows=20)
SCHEMAS = {
    "a number": NUMBER,
    "a category": CATEGORY,
    "ten rows of a unit": dataclasses.replace(CATEGORY, unit="person", max_rows_per_unit=3),
}
TRIES = 4000


def attack(schema, present, budget, seed):
    """The mass that a fit to twenty rows at 0 puts on 1, where `present` more rows of one unit may be."""
    x = np.r_[np.zeros(20), np.ones(present)]
    if schema["x"].kind == "categorical":
        x = x.astype(np.int64)
    unit = np.r_[np.arange(20), np.full(present, 99)] if schema.unit else None
    rows = lock({"x": x}, {}, unit=unit, max_rows_per_unit=schema.max_rows_per_unit or 1, key=Key.new(seed))
    ledger = Ledger(budget, encoding.plan(schema, share=1.0, delta=budget.delta))
    encoder = encoding.fit_encoder(rows, schema, ledger=ledger, key=Key.new(seed))
    below, above = encoder.maps["x"].distribution.interval(np.array([1.0]))
    return float(above[0] - below[0])


def shown_by_attack(schema, budget, tries):
    many = 10 if schema.unit else 1
    with_row = np.array([attack(schema, many, budget, 2 * seed) for seed in range(tries)])
    without = np.array([attack(schema, 0, budget, 2 * seed + 1) for seed in range(tries)])
    return max(epsilon_shown(with_row, without, budget.delta), epsilon_shown(-without, -with_row, budget.delta))


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_one_extreme_row_is_not_seen_more_clearly_than_epsilon_allows(schema, epsilon):
    assert shown_by_attack(schema, Budget(epsilon=epsilon, delta=1e-6), TRIES) <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_the_attack_sees_a_row_that_is_not_protected(schema):
    assert shown_by_attack(schema, Budget(epsilon=5000.0, delta=1e-6), 400) > 2.0
