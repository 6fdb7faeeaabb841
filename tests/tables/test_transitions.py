"""Transitions: what a schema may state of the next row of a history, and what follows for rows still to come."""

# pyright: reportArgumentType=false, reportCallIssue=false

import itertools

import numpy as np
import pytest

import understudy as us
from understudy.tables.transitions import chain

VISITS = """
unit = "patients"
[tables.patients]
key = "id"
[tables.visits]
parent = "patients"
foreign_key = "id"
max_per_parent = 4
order = "day"
transitions.outcome = { care = ["care", "died"], died = [] }
columns.day = { kind = "integer", low = 0, high = 99 }
columns.outcome = { kind = "categorical", values = ["home", "care", "died"] }
columns.town = { kind = "categorical" }
"""
STATED = 'transitions.outcome = { care = ["care", "died"], died = [] }'


def test_transitions_are_read_and_written_back():
    schema = us.DatabaseSchema.parse(VISITS)
    assert schema["visits"].transitions == {"outcome": {"care": ("care", "died"), "died": ()}}
    assert us.Schema.parse(schema.to_toml()) == schema
    assert str(schema).endswith("between rows:\n  visits.outcome follows previous.outcome")
    assert "transitions" not in us.DatabaseSchema.parse(VISITS.replace(STATED, "")).to_toml()


def test_the_value_of_unknown_categories_may_be_named_and_whole_numbers_are_text():
    values = 'values = ["1", "2"], other = "else"'
    text = VISITS.replace('values = ["home", "care", "died"]', values)
    text = text.replace(STATED, "transitions.outcome = { 1 = [1, 2], else = [2] }")
    assert us.DatabaseSchema.parse(text)["visits"].transitions == {"outcome": {"1": ("1", "2"), "else": ("2",)}}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('order = "day"\n', "", "table 'visits': expected transitions with an order"),
        (STATED, "transitions = 1", "table 'visits', transitions: expected a table such as"),
        (STATED, "transitions.outcome = []", "table 'visits', transitions.outcome: expected lists of values"),
        (STATED, 'transitions.outcome = { died = "home" }', "transitions.outcome: expected lists of values"),
        ("transitions.outcome", "transitions.outcom", "expected a column of the table, got 'outcom'. Did you mean"),
        ("transitions.outcome", "transitions.id", "transitions.id: expected a column of the table, got 'id'."),
        ("transitions.outcome", "transitions.town", "transitions.town: expected a categorical column with values, got"),
        ("transitions.outcome", "transitions.day", "expected a categorical column with values, got integer"),
        ("died = []", "dead = []", "transitions.outcome: expected a value to be one of the values of 'outcome', got"),
        ('"died"], died', '"dyed"], died', "transitions.outcome, 'care': expected each value to be one of the values"),
        ('"died"], died', '"dyed"], died', "got 'dyed'. Did you mean 'died'?"),
        ('["care", "died"]', '["care", "care"]', "transitions.outcome, 'care': expected distinct values, got 'care'"),
        (
            STATED,
            'transitions.outcome = { home = ["care"], care = ["died"], died = [] }',
            "transitions.outcome: expected histories of max_per_parent = 4 rows to be possible, but all end after 3.",
        ),
    ],
)
def test_wrong_transitions_are_refused_with_the_place_and_the_rule(old, new, message):
    assert old in VISITS
    with pytest.raises(us.SchemaError) as refused:
        us.Schema.parse(VISITS.replace(old, new, 1))
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_a_missing_value_restricts_nothing_but_follows_no_end():
    column = us.Column("x", "categorical", values=("a", "b", "end"), nullable=True)
    found = chain(column, {"a": ["a"], "end": []}, column.labels)
    assert found.follows.tolist() == [
        [True, False, False, True],
        [True, True, True, True],
        [False, False, False, False],
        [True, True, True, True],
    ]
    assert found.broken(np.array([0, 0, 2, -1]), np.array([1, -1, -1, 2])).tolist() == [True, False, True, False]


@pytest.mark.parametrize("nullable", [False, True])
def test_so_many_rows_may_follow_a_value_as_by_trying_all_histories(nullable):
    draw = np.random.default_rng(0)
    names = ("a", "b", "c")
    column = us.Column("x", "categorical", values=names, nullable=nullable)
    codes = [0, 1, 2, 3] if nullable else [0, 1, 2]
    for _ in range(30):
        allowed = {each: [after for after in names if draw.random() < 0.4] for each in names if draw.random() < 0.9}
        found = chain(column, allowed, names)
        for first, rows in itertools.product(codes, range(5)):
            ways = itertools.product(codes, repeat=rows)
            able = any(all(found.follows[pair] for pair in itertools.pairwise((first, *way))) for way in ways)
            assert able == (found.most[first] >= rows)
            assert found.possible(None, np.array([rows]))[0, first] == able
