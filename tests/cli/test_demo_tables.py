"""What the demonstration prints: histograms on one scale, the truth marked, and nothing wider than a terminal."""

import io

import polars as pl
import pytest
from rich.console import Console

import understudy as us
from understudy import datasets
from understudy.cli import demo_tables

PEOPLE = datasets.example(300)


def printed(what) -> str:
    console = Console(width=80, file=io.StringIO())
    console.print(what)
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def test_equal_columns_have_equal_histograms_and_others_not():
    one, other = demo_tables.histograms(PEOPLE["salary"], PEOPLE["salary"])
    assert one == other and "█" in one
    one, other = demo_tables.histograms(PEOPLE["salary"], PEOPLE["salary"] * 2)
    assert one != other and len(one) == len(other)


def test_a_category_that_only_one_side_has_is_a_gap_on_the_other():
    one, other = demo_tables.histograms(pl.Series(["a", "b"]), pl.Series(["a", "a"]))
    assert (one, other) == ("▄" * 12, "█" * 6 + " " * 6)


def test_a_column_without_a_cell_is_drawn_as_nothing():
    one, other = demo_tables.histograms(pl.Series([], dtype=pl.Float64), pl.Series([None], dtype=pl.Float64))
    assert one.strip() == other.strip() == ""


def test_what_reads_the_people_is_stamped_and_fits_a_terminal():
    pairs = [("education_years", "working_hours")]
    for table in (demo_tables.distributions(PEOPLE, PEOPLE), demo_tables.correlations(PEOPLE, PEOPLE, pairs)):
        assert "not covered by the budget" in printed(table) and "…" not in printed(table)
    assert "…" not in printed(demo_tables.first_rows(PEOPLE))


def test_the_network_marks_what_is_true_in_either_direction():
    shown = printed(demo_tables.network({"a": [], "b": ["a", "c"]}, {"a": ["b"], "b": [], "c": []}))
    assert "nothing" in shown and "a ✓" in shown and "c ✗" in shown


def test_the_receipt_is_shown_with_its_promise_and_its_shares():
    schema = us.Schema(columns=(us.Column("age", "integer", low=0, high=120),))
    receipt = us.fit(PEOPLE.select("age"), schema, "independent", epsilon=1.0, progress=False).receipt
    shown = printed(demo_tables.receipt_panel(receipt, 80))
    assert "Privacy receipt" in shown and "Adding or removing one row" in shown
    assert sum(share for _, share in receipt.shares()) == pytest.approx(1.0)
