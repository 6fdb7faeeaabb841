"""MST: the tree it chooses, the bins it uses, and how near its pairs come with hardly any noise."""

import numpy as np
import polars as pl
import pytest

import understudy
from fits import FEW, distance, few
from understudy.synthesizers.mst import MOST_BINS, MST
from understudy.tables.column import Column
from understudy.tables.schema import Schema

CHAIN = Schema(
    name="chain",
    columns=tuple(Column(name=name, kind="integer", low=0, high=5) for name in "dbeac"),
    order=tuple("abcde"),
)


def chain(n=6000, seed=0):
    """Five columns, each a noisy copy of the one before it in the alphabet."""
    draw = np.random.default_rng(seed)
    columns, x = {}, draw.integers(0, 6, n)
    for name in "abcde":
        columns[name] = x
        x = np.where(draw.random(n) < 0.4, draw.integers(0, 6, n), (x + 1) % 6)
    return pl.DataFrame(columns).select("d", "b", "e", "a", "c")


def test_the_tree_of_a_chain_is_the_chain():
    model = understudy.fit(chain(), CHAIN, "mst", epsilon=2.0, seed=0)
    assert model.parents == {"a": [], "b": ["a"], "c": ["b"], "d": ["c"], "e": ["d"]}


@pytest.mark.parametrize("table, schema", [(chain(), CHAIN), (few(), FEW)], ids=["chain", "few"])
def test_at_a_huge_epsilon_pairs_of_the_tree_are_as_near_as_a_sample(table, schema):
    model = understudy.fit(table, schema, "mst", epsilon=1e6, seed=0)
    drawn = model.sample(table.height, seed=1)
    again = table.sample(table.height, with_replacement=True, seed=2)
    pairs = [[name, parent] for name, its in model.parents.items() for parent in its]
    floor = np.mean([distance(table, again, pair) for pair in pairs])
    assert len(pairs) == len(schema) - 1
    assert np.mean([distance(table, drawn, pair) for pair in pairs]) <= floor + 0.02


def test_numbers_keep_their_dependence():
    draw = np.random.default_rng(0)
    x = draw.normal(size=8000)
    frame = pl.DataFrame({"x": x, "y": x**2 + 0.3 * draw.normal(size=8000), "z": draw.random(8000)})
    schema = Schema(columns=tuple(Column(name=name, kind="continuous", low=-20.0, high=20.0) for name in "xyz"))
    drawn = understudy.fit(frame, schema, "mst", epsilon=1.0, seed=0).sample(8000, seed=0)
    ranks = drawn.select(pl.col("x").abs().rank(), pl.col("y").rank(), pl.col("z").rank())  # 0.89 among the real rows
    assert np.corrcoef(ranks["x"], ranks["y"])[0, 1] > 0.75
    assert abs(np.corrcoef(ranks["x"], ranks["z"])[0, 1]) < 0.1


def test_all_that_is_planned_is_measured():
    receipt = understudy.fit(chain(300), CHAIN, "mst", epsilon=1.0, seed=0).receipt
    assert receipt.not_released == 0
    names = [charge.name for charge in receipt.charges]
    assert names.count("tree") == names.count("pairs") == 4


def test_shares_of_the_plan_are_what_the_encoder_leaves():
    method = MST(encoding_share=0.4, selection_share=0.2)
    assert sum(planned.share for planned in method.plan(CHAIN)) == pytest.approx(0.6)
    assert method.plan(Schema(columns=CHAIN.columns[:1])) == []


def test_less_noise_makes_more_bins_within_bounds():
    method = MST()
    allowed = [method.bins_allowed(1e4, noise) for noise in (1e9, 100.0, 10.0, 1e-3)]
    assert allowed == sorted(allowed) and allowed[0] == 2.0 and allowed[-1] > MOST_BINS


@pytest.mark.parametrize(
    "settings, rule",
    [
        ({"encoding_share": 0.0}, "encoding_share"),
        ({"selection_share": 1.0}, "selection_share"),
        ({"encoding_share": 0.6, "selection_share": 0.4}, "<= 0.99"),
        ({"rows_per_noise": 0.0}, "rows_per_noise"),
        ({"shrinkage": float("nan")}, "shrinkage"),
        ({"iterations": 0}, "iterations"),
    ],
)
def test_wrong_settings_are_refused(settings, rule):
    with pytest.raises(ValueError, match=rule):
        MST(**settings)
