"""Metrics of families: each is what a loop over rows computes, 0 for a database against itself, and blind to keys."""

import itertools
from collections import Counter

import numpy as np
import polars as pl
import pytest
from small_database import SCHEMA, histories, shops

from understudy.evaluation import kinship
from understudy.evaluation.database import open_databases
from understudy.evaluation.families import NOBODY, Families
from understudy.evaluation.foresight import _commonest, _running_mean, foresight
from understudy.evaluation.pair import Side

REAL, MADE = shops(120, 1), shops(120, 2)


@pytest.fixture(scope="module")
def families() -> tuple[Families, Families]:
    found = open_databases(REAL, MADE, SCHEMA, train=REAL, seed=0)
    return found.target, found.made


@pytest.fixture(scope="module")
def orders(families):
    return families[0].links[0]


def distance(left: list, right: list) -> float:
    """Total variation of two lists of values."""
    p, q = Counter(left), Counter(right)
    return 0.5 * sum(abs(p[value] / len(left) - q[value] / len(right)) for value in {*p, *q})


def test_a_database_is_at_distance_0_from_itself(families):
    for metric in kinship.KINSHIP.values():
        for link in families[0].links:
            assert set(metric(families[0], families[0], link).values()) <= {0.0}


def test_children_are_counted_parent_by_parent(families, orders):
    counts = [[len(each) for each in histories(frames, "day").values()] for frames in (REAL, MADE)]
    assert kinship.children(families[0], families[1], orders)[()] == pytest.approx(distance(*counts))


def test_parent_and_child_are_compared_over_the_rows_of_the_child(families, orders):
    pairs = []
    for frames in (REAL, MADE):
        towns = dict(frames["customers"].select("id", "town").iter_rows())
        pairs.append([(towns[row["id"]], row["kind"]) for row in frames["orders"].iter_rows(named=True)])
    found = kinship.parent_child(families[0], families[1], orders)
    assert found["customers.town", "kind"] == pytest.approx(distance(*pairs))


def test_a_grandparent_is_compared_too(families):
    pairs = []
    for frames in (REAL, MADE):
        joined = frames["items"].join(frames["orders"], on="order").join(frames["customers"], on="id")
        pairs.append(list(joined.select("town", "colour").iter_rows()))
    found = kinship.parent_child(families[0], families[1], families[0].links[1])
    assert found["customers.town", "colour"] == pytest.approx(distance(*pairs))


def test_a_parent_is_compared_with_the_number_of_its_children(families, orders):
    pairs = []
    for frames in (REAL, MADE):
        counts = {key: len(each) for key, each in histories(frames, "day").items()}
        pairs.append([(row["town"], counts[row["id"]]) for row in frames["customers"].iter_rows(named=True)])
    assert max(Counter(count for _, count in pairs[0]).values()) > 0
    found = kinship.parent_child(families[0], families[1], orders)["town", "number of orders"]
    # Counts that fewer than a tenth of the customers have share a bin, so the exact distance is the larger one.
    assert 0 < found <= distance(*pairs) + 1e-12


def test_consecutive_siblings_are_those_of_a_sorted_history(families, orders):
    pairs = [
        [pair for history in histories(frames, "kind").values() for pair in itertools.pairwise(history)]
        for frames in (REAL, MADE)
    ]
    assert kinship.siblings(families[0], families[1], orders)["kind", "next kind"] == pytest.approx(distance(*pairs))


def test_autocorrelation_is_that_of_consecutive_values(families, orders):
    found = kinship.lagged(families[0].tables["orders"])
    pairs = [pair for each in histories(REAL, "price").values() for pair in itertools.pairwise(each)]
    assert found["price"] == pytest.approx(np.corrcoef(np.array(pairs).T)[0, 1])
    kinds = [pair for each in histories(REAL, "kind").values() for pair in itertools.pairwise(each)]
    assert found["kind"] == pytest.approx(np.mean([a == b for a, b in kinds]))
    other = kinship.lagged(families[1].tables["orders"])
    off = kinship.autocorrelation(families[0], families[1], orders)
    assert off["price",] == pytest.approx(abs(found["price"] - other["price"]))


def test_gaps_are_those_between_consecutive_days(families, orders):
    gaps, firsts = [], []
    for frames in (REAL, MADE):
        days = [each for each in histories(frames, "day").values() if each]
        gaps.append([b - a for each in days for a, b in itertools.pairwise(each)])
        firsts.append([each[0] for each in days])
    found = kinship.gaps(families[0], families[1], orders)
    assert found[kinship.GAP,] == pytest.approx(distance(*gaps))  # 1, 2 and 3: each has a bin of its own
    assert found[kinship.FIRST,] == pytest.approx(distance(*firsts))


def test_a_step_that_no_real_siblings_take_is_found(families):
    real, made = (each.tables["orders"] for each in families)
    assert kinship.unseen_transitions(real, made)["kind"] == 0.0  # y is never followed by x, in neither
    shuffled = families[0].shuffled(0).tables["orders"]
    steps = [pair for each in histories(REAL, "kind").values() for pair in itertools.pairwise(each)]
    assert ("y", "x") not in steps
    assert kinship.unseen_transitions(real, shuffled)["kind"] > 0.1


# Prediction ---------------------------------------------------------------------------------------------------------


def test_running_means_and_commonest_categories_are_those_of_a_loop(families):
    members = families[0].tables["orders"]
    found = _running_mean(members.side.numbers["paid"], members)
    for row in range(members.rows):
        so_far = members.side.numbers["paid"][row - members.rank[row] : row + 1]
        known = so_far[~np.isnan(so_far)]
        assert found[row] == pytest.approx(known.mean()) if len(known) else np.isnan(found[row])
    parents, codes = families[0].units, members.side.codes["kind"]
    commonest = _commonest(codes, members.parent, parents, members.side.sizes["kind"])
    for place in range(parents):
        counts = np.bincount(codes[members.parent == place], minlength=members.side.sizes["kind"])
        assert commonest[place] == (counts.argmax() if counts.sum() else members.side.sizes["kind"] - 1)


def test_the_score_of_the_next_value_is_the_squared_correlation_of_a_chain():
    """x(k + 1) = 0.8 x(k) + 0.6 z keeps its variance, so the best prediction has R² = 0.64."""
    draw, people, length = np.random.default_rng(0), 500, 6
    values = [draw.standard_normal(people)]
    for _ in range(length - 1):
        values.append(0.8 * values[-1] + 0.6 * draw.standard_normal(people))
    keys = np.repeat(np.arange(people), length)
    frames = {
        "people": pl.DataFrame({"id": np.arange(people)}),
        "rows": pl.DataFrame(
            {"id": keys, "t": np.tile(np.arange(length), people), "x": np.stack(values, axis=1).ravel()}
        ),
    }
    found = open_databases(frames, frames, CHAIN, train=frames, seed=0)
    (link,) = found.target.links
    assert foresight(found.made, found.target, found.base, link, "next", 0)["x"] == pytest.approx(0.64, abs=0.04)
    assert foresight(found.shuffled, found.target, found.base, link, "next", 0)["x"] < 0.1
    assert foresight(found.made, found.target, found.base, link, "aggregate", 0) == {}  # people have no columns


CHAIN = type(SCHEMA).parse("""
unit = "people"
[tables.people]
key = "id"
[tables.rows]
parent = "people"
foreign_key = "id"
max_per_parent = 6
order = "t"
[tables.rows.columns]
t = { kind = "integer", low = 0, high = 9 }
x = { kind = "continuous", low = -9, high = 9 }
""")


def test_the_score_of_the_number_of_children_is_that_of_the_means_by_town(orders):
    real, made = shops(400, 5), shops(400, 6)
    found = open_databases(real, made, SCHEMA, train=real, seed=0)
    counts = [{key: len(each) for key, each in histories(frames, "day").items()} for frames in (real, made)]
    towns = [dict(frames["customers"].select("id", "town").iter_rows()) for frames in (real, made)]
    means = {town: np.mean([counts[1][key] for key in counts[1] if towns[1][key] == town]) for town in "abc"}
    truth = np.array(list(counts[0].values()))
    guess = np.array([means[towns[0][key]] for key in counts[0]])
    score = foresight(found.made, found.target, found.base, orders, "aggregate", 0)["count"]
    # `since` says nothing, and costs a little.
    assert score == pytest.approx(1 - ((truth - guess) ** 2).mean() / truth.var(), abs=0.03)


# Families -----------------------------------------------------------------------------------------------------------


def test_taking_units_takes_everything_that_hangs_on_them(families):
    units = np.array([3, 70, 11])
    part = families[0].take(units)
    assert part.units == 3
    for link in part.links:
        members, whole = part.tables[link.table], families[0].tables[link.table]
        assert members.parent.min(initial=0) >= 0 and members.parent.max(initial=0) < part.tables[link.parent].rows
        if link.parent == part.root:
            assert members.rows == np.isin(whole.parent, units).sum()
            np.testing.assert_array_equal(members.counts(3), whole.counts(families[0].units)[np.sort(units)])


def test_shuffled_children_keep_rows_and_counts_and_lose_their_families(families):
    shuffled = families[0].shuffled(0)
    for link in families[0].links:
        before, after = families[0].tables[link.table], shuffled.tables[link.table]
        np.testing.assert_array_equal(before.parent, after.parent)
        for name, column in before.side.numbers.items():
            np.testing.assert_array_equal(np.sort(column), np.sort(after.side.numbers[name]))
    days = shuffled.tables["orders"].side.numbers["day"]
    assert (np.diff(days)[shuffled.tables["orders"].pairs] >= 0).all()
    assert kinship.parent_child(families[0], shuffled, families[0].links[0])["customers.town", "kind"] > 0


def test_only_the_first_rows_of_a_parent_are_used():
    capped = type(SCHEMA).parse(SCHEMA.to_toml().replace("max_per_parent = 6", "max_per_parent = 2"))
    found = open_databases(REAL, REAL, capped, train=REAL, seed=0).target.tables["orders"]
    expected = sorted(day for days in histories(REAL, "day").values() for day in days[:2])
    assert sorted(found.side.numbers["day"]) == expected


def test_keys_of_several_columns_lead_to_the_right_parent():
    schema = type(SCHEMA).parse("""
unit = "beds"
[tables.beds]
key = ["ward", "bed"]
[tables.beds.columns.price]
kind = "integer"
[tables.stays]
parent = "beds"
foreign_key = ["w", "b"]
max_per_parent = 3
[tables.stays.columns.days]
kind = "integer"
""")
    frames = {
        "beds": pl.DataFrame({"ward": ["A", "A", "B"], "bed": [1, 2, 1], "price": [10, 20, 30]}),
        "stays": pl.DataFrame({"w": ["B", "A", "A", "B", None], "b": [1, 2, 1, 2, 1], "days": [1, 2, 3, 4, 5]}),
    }
    members = open_databases(frames, frames, schema, train=frames, seed=0).target.tables["stays"]
    prices = np.array([10, 20, 30])[members.parent]
    assert dict(zip(members.side.numbers["days"], prices, strict=True)) == {1.0: 30, 2.0: 20, 3.0: 10}
    assert members.broken == pytest.approx(1 / 5)  # (B, 2) leads nowhere; a missing part is no error
    assert NOBODY not in members.parent


def test_a_table_of_keys_alone_has_no_columns():
    side = Side(numbers={}, codes={}, sizes={})
    assert kinship.joined([side, kinship.prefixed(side, "x.")]).numbers == {}
