"""Raking: weights against a closed form, and a choice of rows that has the margins of its weights."""

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.tables.raking import balanced, chosen, margins, raked


def test_an_implication_keeps_both_margins():
    """a implies b with independent a and b: the only table with these margins has a closed form."""
    draw = np.random.default_rng(0)
    a, b = (draw.random((2, 40_000)) < np.array([[0.5], [0.6]])).astype(int)
    kept = (a == 0) | (b == 1)
    strata = {"a": a[kept], "b": b[kept]}
    weights = raked(strata, margins({"a": a, "b": b}))
    joint = np.bincount(2 * strata["a"] + strata["b"], weights) / weights.sum()
    np.testing.assert_allclose(joint, [1 - b.mean(), b.mean() - a.mean(), 0.0, a.mean()], atol=1e-3)


def test_a_bin_that_no_row_is_in_is_given_up():
    weights = raked({"a": np.array([0, 0, 1, 1])}, {"a": np.array([0.2, 0.4, 0.4])})
    np.testing.assert_allclose(weights, [2 / 3, 2 / 3, 4 / 3, 4 / 3])


def test_rows_are_chosen_at_most_once_and_in_proportion():
    draw = np.random.default_rng(1)
    weights = draw.uniform(0.5, 1.5, 10_000)
    picks = [chosen(weights, 5000, start) for start in np.linspace(0, 0.99, 40)]
    assert all(len(np.unique(picked)) == 5000 for picked in picks)
    often = np.bincount(np.concatenate(picks), minlength=10_000) / 40
    assert np.corrcoef(often, weights)[0, 1] > 0.95
    assert often[weights > 1].mean() == pytest.approx(weights[weights > 1].mean() / 2, rel=0.02)


def test_a_row_that_weighs_too_much_is_chosen_once():
    picked = chosen(np.array([100.0, 1.0, 1.0, 1.0]), 2, 0.5)
    assert len(np.unique(picked)) == 2 and 0 in picked
    assert sorted(chosen(np.ones(5), 5, 0.3)) == [0, 1, 2, 3, 4]


def test_exchanged_rows_have_the_margins_almost_exactly():
    draw = np.random.default_rng(2)
    strata = {name: draw.integers(0, 16, 20_000) for name in "abcdef"}
    wanted = {name: np.full(16, 1 / 16) for name in strata}
    picked = draw.permutation(20_000)[:8000]
    after = balanced(picked, strata, wanted)
    assert len(after) == len(np.unique(after)) == 8000

    def worst(rows):
        return max(float(np.abs(np.bincount(bins[rows], minlength=16) - 500).max()) for bins in strata.values())

    assert worst(picked) > 40 and worst(after) < 5
    assert np.isin(after, picked).mean() > 0.9


def test_totals_have_the_distribution_that_was_measured():
    """Parts that depend on each other, and a method that does not see it: their sum alone would be too narrow."""
    draw = np.random.default_rng(4)
    common = draw.normal(50, 10, 5000)
    frame = pl.DataFrame({name: np.rint(common + draw.normal(0, 3, 5000)) for name in "ab"})
    frame = frame.with_columns(total=pl.col("a") + pl.col("b"))
    columns = tuple(us.Column(name=name, kind="integer", low=-100, high=300) for name in ("a", "b", "total"))
    model = us.fit(frame, us.Schema(columns=columns), "independent", epsilon=10.0, seed=0)
    rows = model.sample(5000, 0, rules=["a + b = total"])
    assert (rows["a"] + rows["b"] == rows["total"]).all()
    alone = (model.sample(5000, 0)["a"] + model.sample(5000, 0)["b"]).std()
    wanted = float(frame["total"].to_numpy().std())
    assert alone < 0.75 * wanted
    assert rows["total"].to_numpy().std() > 0.88 * wanted
    for name in "ab":
        assert abs(rows[name].mean() - frame[name].mean()) < 0.5
