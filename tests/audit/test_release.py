"""Attacks on a release: a copy is found, an honest table is not accused."""

import json

import numpy as np
import polars as pl
import pytest
from scipy import stats

import understudy
from conftest import MIXED, mixed_table
from understudy.audit import neighbours as nearest_rows
from understudy.audit.neighbours import neighbours
from understudy.audit.release import NO_PROOF, NOT_COVERED, attack_release
from understudy.audit.singling_out import predicates
from understudy.evaluation.pair import open_tables

REAL, CONTROL, OTHERS = (mixed_table(600, seed) for seed in (1, 2, 3))


@pytest.fixture(scope="module")
def copied():
    return attack_release(REAL, REAL, CONTROL, MIXED, attacks=300)


@pytest.fixture(scope="module")
def honest():
    return attack_release(OTHERS, REAL, CONTROL, MIXED, attacks=300)


def test_every_attack_finds_a_copy(copied):
    assert [each.name for each in copied.attacks if each.found] == [
        "membership",
        "singling out",
        "linkage",
        *["attribute"] * len(MIXED),
    ]


def test_a_table_of_other_people_is_not_accused(honest):
    assert not honest.found
    for each in honest.attacks:
        assert each.risk_interval[0] <= 0.0 <= each.risk_interval[1]


def test_a_few_copied_rows_are_found():
    release = pl.concat([REAL[:150], OTHERS[:450]])
    found = attack_release(release, REAL, CONTROL, MIXED)
    assert "membership" in {each.name for each in found.attacks if each.found}


def test_the_result_is_stamped(honest):
    document = json.loads(honest.to_json())
    assert document["covered_by_budget"] is False
    assert document["proof"] is False
    assert str(honest).endswith(f"{NOT_COVERED}\n{NO_PROOF}")
    assert "attribute: colour" in str(honest)


def test_intervals_are_clopper_and_pearson_s_for_all_attacks_together(copied):
    each = copied.attacks[0]
    right = round(each.rate * each.attacks)
    confidence = 1 - 0.05 / len(copied.attacks) / 2
    expected = stats.binomtest(right, each.attacks).proportion_ci(confidence, method="exact")
    assert each.rate_interval == pytest.approx((expected.low, expected.high))


def test_a_release_of_one_column_has_nothing_to_be_linked():
    schema = understudy.Schema(columns=(MIXED["weight"],))
    release, real, control = (table.select("weight") for table in (OTHERS, REAL, CONTROL))
    found = attack_release(release, real, control, schema)
    assert [each.name for each in found.attacks] == ["membership", "singling out"]


def test_the_nearest_rows_are_those_that_all_pairs_give(monkeypatch):
    monkeypatch.setattr(nearest_rows, "DISTANCES_AT_ONCE", 200)  # several blocks
    sides = open_tables(MIXED, {"rows": REAL[:30], "synthetic": OTHERS[:70]})
    names = list(MIXED.names)
    found = neighbours(sides["rows"], sides["synthetic"], parts=(names[:3], names[3:]), nearest=4)
    squares = {name: _squares(sides["rows"], sides["synthetic"], name) for name in names}
    total = np.sum(list(squares.values()), axis=0)
    assert found.distances == pytest.approx(np.sqrt(total.min(axis=1)), rel=1e-4)
    for name in names:
        rest = total - squares[name]
        assert rest[np.arange(30), found.without[name]] == pytest.approx(rest.min(axis=1), abs=1e-4)
    halves = [np.sum([squares[name] for name in part], axis=0) for part in (names[:3], names[3:])]
    lists = [np.argsort(half, axis=1)[:, :4].tolist() for half in halves]
    assert found.linked.tolist() == [bool(set(a) & set(b)) for a, b in zip(*lists, strict=True)]


def _squares(rows, synthetic, name):
    if name in rows.codes:
        return (rows.codes[name][:, None] != synthetic.codes[name][None, :]).astype(float)
    scale = np.nanstd(synthetic.numbers[name])
    one, other = rows.numbers[name][:, None] / scale, synthetic.numbers[name][None, :] / scale
    squares = np.minimum((one - other) ** 2, 100.0)
    return np.where(np.isnan(squares), np.isnan(one) != np.isnan(other), squares)


def test_predicates_hold_for_one_synthetic_row_alone():
    side = open_tables(MIXED, {"synthetic": OTHERS[:80]})["synthetic"]
    found = predicates(side, 20, np.random.default_rng(0))
    assert len(found) == 20
    for predicate in found:
        kept = np.ones(80, bool)
        for name, value, direction in predicate.conditions:
            column = side.codes[name] if name in side.codes else side.numbers[name]
            held = {0: column == value, 1: column >= value, -1: column <= value}[direction]
            kept &= np.isnan(column) if np.isnan(value) else held
        assert kept.sum() == predicate.matches(side) == 1


@pytest.mark.slow
def test_a_private_release_is_not_accused():
    real, control = mixed_table(3000, 11), mixed_table(3000, 12)
    release = understudy.fit(real, MIXED, "mst", epsilon=1.0, delta=1e-5, seed=0).sample(3000, seed=0)
    assert not attack_release(release, real, control, MIXED).found
