"""Measured pair counts: which are planned and measured, and how the densities are calibrated to them."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest

import understudy
from understudy.core.randomness import Key
from understudy.privacy.ledger import Ledger
from understudy.privacy.plan import Budget, BudgetExceeded
from understudy.privacy.rows import PrivateRows
from understudy.synthesizers.prada.layout import Layout, categorical, numeric
from understudy.synthesizers.prada.likelihood import pair_counts
from understudy.synthesizers.prada.likelihood.calibration import calibrate_marginals, pair_weights
from understudy.synthesizers.prada.likelihood.density import Densities, start_second
from understudy.synthesizers.prada.likelihood.drawing import sample
from understudy.synthesizers.prada.likelihood.method import Prada
from understudy.synthesizers.prada.likelihood.pair_counts import PairCounts, measure_pairs
from understudy.tables.column import Column
from understudy.tables.schema import Schema

SIZES = {"a": 3, "b": 4, "c": 2}
LAYOUT = Layout((numeric("x"), *(categorical(name, size) for name, size in SIZES.items())))
COLUMNS = ("x", *(f"{name}{category}" for name, size in SIZES.items() for category in range(size)))
ROWS = 2**14  # generated for calibration, one number everywhere so that there is one program


def schema_of(categories, numbers=1):
    columns = [Column(name=f"c{i}", kind="categorical", values=("0", "1", "2")) for i in range(categories)]
    columns += [Column(name=f"n{i}", kind="continuous", low=0.0, high=1.0) for i in range(numbers)]
    return Schema(name="t", columns=tuple(columns))


def coded(n, seed=0):
    """a and b go together, in no straight line; c is alone."""
    draw = np.random.default_rng(seed)
    a = draw.integers(0, 3, n)
    b = np.where(draw.random(n) < 0.8, np.array([2, 0, 3])[a], draw.integers(0, 4, n))
    return {"a": a, "b": b, "c": draw.integers(0, 2, n)}


def features_of(codes):
    n = len(codes["a"])
    found = {"x": np.random.default_rng(1).standard_normal(n)}
    return found | {f"{k}{s}": (codes[k] == s).astype(float) for k, size in SIZES.items() for s in range(size)}


def table_of(x, a, b):
    """Shares of the pair in rows of features."""
    at = {block.name: start + np.arange(block.width) for block, start in zip(LAYOUT.blocks, LAYOUT.starts, strict=True)}
    return np.asarray(x)[at[a]] @ np.asarray(x)[at[b]].T / x.shape[1]


def ledger_for_three_pairs():
    return Ledger(Budget(epsilon=1e3, delta=1e-6), pair_counts.plan(schema_of(3), 1.0))


def independent(n=4096, seed=2):
    codes = {name: np.random.default_rng(seed + i).integers(0, size, n) for i, (name, size) in enumerate(SIZES.items())}
    return np.stack(list(features_of(codes).values()))


def plain():
    """Densities that know nothing: even categories."""
    first = np.zeros((4, LAYOUT.features + 1, 2 + LAYOUT.width), np.float32)
    return Densities(jnp.asarray(first), jnp.asarray(start_second(LAYOUT, 2, 1)), jnp.ones(4))


def calibrated(counted, shares_of_b=0.25):
    shares = np.zeros((4, LAYOUT.width), np.float32)
    for j, size in enumerate(SIZES.values(), start=1):
        shares[j, :size] = 1 / size
    shares[2, :4] = shares_of_b
    made, x = calibrate_marginals(
        plain(), jnp.asarray(shares), jnp.float32(4.0), jax.random.key(0), LAYOUT, 1, ROWS, counted
    )
    return made, np.asarray(x)


def counted_as(target, noise):
    """The table of a and b, counted."""
    counted = PairCounts.none(LAYOUT)
    at = LAYOUT.starts[1] + np.arange(3)
    counted.target[2, at, :4], counted.noise[2, at] = target, noise
    return counted


# The plan.


@pytest.mark.parametrize(("categories", "times"), [(0, 0), (1, 0), (2, 1), (3, 3), (7, pair_counts.MOST_PAIRS)])
def test_a_plan_has_a_selection_and_a_count_for_each_pair(categories, times):
    planned = pair_counts.plan(schema_of(categories), 0.15)
    assert [item.times for item in planned] == ([times, times] if times else [])
    assert sum(item.share for item in planned) == pytest.approx(0.15 if times else 0.0)
    whole = Prada().plan(schema_of(categories))
    assert sum(item.share for item in whole) == pytest.approx(1 - Prada().encoding_share)


def test_no_share_no_pair_counts():
    assert pair_counts.plan(schema_of(3), 0.0) == []


def test_pair_counts_leave_something_for_the_steps():
    method = Prada(encoding_share=0.8)
    assert len(method.plan(schema_of(1))) == 2  # no pairs, no share
    with pytest.raises(ValueError, match=r"Prada.tables_share: expected 0.01 of the budget to be left for the steps"):
        method.plan(schema_of(2))


def test_the_target_is_left_out():
    assert pair_counts.plan(dataclasses.replace(schema_of(2), target="c0"), 0.1) == []
    ledger = ledger_for_three_pairs()
    given = PrivateRows(features_of(coded(500)), {}, 1), COLUMNS, independent(), 500.0, LAYOUT
    measure_pairs(*given, target="b", times=3, ledger=ledger, key=Key.new(0))
    counted = [line.what for line in ledger.receipt().charges if line.name == "tables"]
    assert counted == ["count 'a' with 'c'"]


# Measuring.


def test_the_most_wrong_pair_is_counted_first_and_counts_are_right():
    codes, ledger = coded(5000), ledger_for_three_pairs()
    found = measure_pairs(
        PrivateRows(features_of(codes), {}, 1),
        COLUMNS,
        independent(),
        5000.0,
        LAYOUT,
        target=None,
        times=1,
        ledger=ledger,
        key=Key.new(0),
    )
    assert [(line.name, line.what) for line in ledger.receipt().charges] == [
        ("which tables", "which tables to count"),
        ("tables", "count 'a' with 'b'"),
    ]
    at = LAYOUT.starts[1] + np.arange(3)
    exact = np.zeros((3, 4))
    np.add.at(exact, (codes["a"], codes["b"]), 1 / 5000)
    np.testing.assert_allclose(found.target[2, at, :4], exact, atol=0.002)
    assert (found.noise[2, at] > 0).all() and (found.noise > 0).sum() == 3  # of nothing else


def test_a_pair_of_too_many_cells_is_never_counted(monkeypatch):
    monkeypatch.setattr(pair_counts, "MOST_CELLS", 8)
    ledger = ledger_for_three_pairs()
    given = PrivateRows(features_of(coded(500)), {}, 1), COLUMNS, independent(), 500.0, LAYOUT
    found = measure_pairs(*given, times=3, target=None, ledger=ledger, key=Key.new(0))
    counted = {line.what for line in ledger.receipt().charges if line.name == "tables"}
    assert counted == {"count 'a' with 'c'", "count 'b' with 'c'"}
    assert not found.noise[2].any()


def test_a_spent_ledger_refuses():
    ledger = ledger_for_three_pairs()
    given = PrivateRows(features_of(coded(500)), {}, 1), COLUMNS, independent(), 500.0, LAYOUT
    measure_pairs(*given, times=3, target=None, ledger=ledger, key=Key.new(0))
    with pytest.raises(BudgetExceeded):
        measure_pairs(*given, times=1, target=None, ledger=ledger, key=Key.new(0))


def test_counts_of_pairs_that_were_cut_are_left():
    counted = counted_as(1 / 12, 0.01)
    pairs = np.ones((4, 4), bool)
    assert (counted.within(pairs, LAYOUT).noise == counted.noise).all()
    pairs[2, 1] = False
    assert not counted.within(pairs, LAYOUT).noise.any()


# Calibration.


@pytest.mark.slow
def test_pair_counts_without_noise_are_brought_about():
    codes = coded(100_000)
    target = np.zeros((3, 4))
    np.add.at(target, (codes["a"], codes["b"]), 1e-5)
    made, x = calibrated(counted_as(target, 1e-6), target.sum(axis=0))
    chance = 4 * np.sqrt(target / ROWS)  # of what is drawn
    before = np.abs(table_of(calibrated(PairCounts.none(LAYOUT))[1], "a", "b") - target).max()
    assert (np.abs(table_of(x, "a", "b") - target) < chance + 0.003).all() and before > 0.1
    again = sample(made, LAYOUT, 1, 4.0, jax.random.key(1), ROWS)
    assert (np.abs(table_of(again.T, "a", "b") - target) < chance + 0.006).all()


def test_counts_within_their_noise_change_nothing():
    draw = np.random.default_rng(0)
    target = 1 / 12 + 0.05 * draw.standard_normal((3, 4))
    made, _ = calibrated(counted_as(target, 0.08))
    assert np.abs(np.asarray(made.first)).max() < 1e-3


@pytest.mark.parametrize("noise", [0.005, 0.02])
def test_weights_solve_their_equation(noise):
    """t - q(w) = λ w, with λ = τ² / ω and ω = Σ ((t - q)² - τ²) / Σ q, by brute force on the generated rows."""
    draw = np.random.default_rng(3)
    target = np.abs(1 / 12 + 0.04 * draw.standard_normal((3, 4)))
    target /= target.sum()
    counted = counted_as(target, noise)
    of_column = PairCounts(counted.target[2], counted.noise[2])
    is_category = jnp.asarray(LAYOUT.is_category[2])
    x = jnp.asarray(independent(2000), jnp.float32)
    linear = jnp.where(is_category[:, None], 0.3 * jnp.arange(LAYOUT.width)[:, None], -1e9)
    logits = linear + jnp.zeros((1, 2000))
    weights = np.asarray(jax.jit(pair_weights, static_argnames="layout")(x, logits, of_column, is_category, LAYOUT))
    at = LAYOUT.starts[1] + np.arange(3)
    assert not np.delete(weights, at, axis=0).any()
    a, w = np.asarray(x)[at], weights[at]

    def q(w):
        each = np.asarray(logits) + (w.T @ a)
        p = np.exp(each - each.max(axis=0))
        return (a @ (p / p.sum(axis=0)).T / 2000)[:, :4]

    def off(q):
        r = target - q
        return r - q * r.sum(axis=1, keepdims=True) / q.sum(axis=1, keepdims=True)

    start = q(np.zeros_like(w))
    away = (off(start) ** 2 - noise**2).sum() / start.sum()
    np.testing.assert_allclose(off(q(w)), noise**2 / away * w[:, :4], atol=2e-4)


# Fits.


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [2.0, pytest.param(50.0, marks=pytest.mark.slow)])
def test_pairs_of_categories_come_nearer(epsilon):
    codes = coded(6000)
    frame = pl.DataFrame({name: [str(v) for v in each] for name, each in codes.items()})
    columns = tuple(Column(name=k, kind="categorical", values=tuple(map(str, range(v)))) for k, v in SIZES.items())
    schema, real = Schema(name="t", columns=columns), np.stack(list(features_of(codes).values()))

    def distance(share):
        method = Prada(steps=25, tables_share=share, hidden=4, components=2)
        model = understudy.fit(frame, schema, method, epsilon=epsilon, delta=1e-5, seed=0)
        made = model.sample(6000, seed=0)
        drawn = np.stack(list(features_of({name: made[name].cast(int).to_numpy() for name in SIZES}).values()))
        pairs = itertools.combinations(SIZES, 2)
        return sum(float(np.abs(table_of(real, *pair) - table_of(drawn, *pair)).sum()) for pair in pairs), model

    (counted, model), (without, _) = distance(0.1), distance(0.0)
    assert counted < 0.6 * without
    assert "a" in model.parents["b"]
