"""Features: a score for a number, one 1 among the categories of a column, and codes back from them."""

import numpy as np
import pytest

from conftest import MIXED
from fitting import mixed_encoder, mixed_rows
from understudy.core.randomness import Key
from understudy.encoding import (
    Feature,
    ScoreColumn,
    category_count,
    category_rows,
    feature_rows,
    features,
    score_rows,
)
from understudy.privacy.rows import PrivateRows

CATEGORIES = {"city": 4, "colour": 5, "member": 2, "income": 2, "age": 0, "weight": 0, "joined": 0}


@pytest.fixture(scope="module")
def made():
    return feature_rows(mixed_rows(), mixed_encoder(), features(mixed_encoder(), MIXED.names), key=Key.new(0))


@pytest.mark.parametrize("name", MIXED.names)
def test_missing_is_a_category_where_the_schema_allows_it(name):
    assert category_count(mixed_encoder(), name) == CATEGORIES[name]


def test_features_follow_the_order_of_the_columns():
    order = ["colour", "income", "age"]
    found = [(each.column, each.category) for each in features(mixed_encoder(), order)]
    colour = [("colour", category) for category in range(5)]
    assert found == [*colour, ("income", None), ("income", 0), ("income", 1), ("age", None)]
    assert len({each.name for each in features(mixed_encoder(), MIXED.names)}) == len(
        features(mixed_encoder(), MIXED.names)
    )


@pytest.mark.parametrize("name", [name for name in MIXED.names if CATEGORIES[name]])
def test_a_row_is_in_one_category_and_in_the_right_one(made, name):
    hot = np.stack([made._exact[Feature(name, category).name] for category in range(CATEGORIES[name])])
    np.testing.assert_array_equal(hot.sum(axis=0), 1.0)
    labels, exact = mixed_encoder().columns[name].labels, mixed_rows()._exact[name]
    if labels is None:
        expected = np.isnan(exact)
    else:
        private = mixed_rows()._exact_labels.get(name, labels)
        expected = [len(labels) if code < 0 else labels.index(private[int(code)]) for code in exact]
    np.testing.assert_array_equal(hot.argmax(axis=0), expected)


def test_the_score_of_a_number_is_the_spread_one(made):
    scores = score_rows(mixed_rows(), mixed_encoder(), key=Key.new(0), spread=True)
    np.testing.assert_array_equal(made._exact[Feature("age").name], scores._exact[ScoreColumn("age").name])


def test_missing_categories_that_the_schema_rules_out_are_spread_like_the_others():
    encoder, rows = mixed_encoder(), PrivateRows({"member": np.full(4000, np.nan)}, {}, 1)
    wanted = features(encoder, ["member"])
    made = feature_rows(rows, encoder, wanted, key=Key.new(0))
    hot = np.stack([made._exact[each.name] for each in wanted])
    np.testing.assert_array_equal(hot.sum(axis=0), 1.0)
    np.testing.assert_allclose(hot.mean(axis=1), np.diff(encoder.columns["member"].distribution.cdf), atol=0.03)


def test_codes_come_back_from_features(made):
    names = {
        name: [Feature(name, category).name for category in range(CATEGORIES[name])] for name in ("city", "colour")
    }
    coded = category_rows(made, names)
    assert coded.names == ("city", "colour")
    for name, columns in names.items():
        expected = np.stack([made._exact[each] for each in columns]).argmax(axis=0)
        np.testing.assert_array_equal(coded._exact[name], expected)
