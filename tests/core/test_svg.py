"""Pictures: well-formed, named, with style that stays inside, and a void receipt says so first."""

import datetime
import xml.etree.ElementTree as ElementTree

import polars as pl
import pytest

import understudy as us
from understudy.core.svg import STYLE, bars, standalone
from understudy.model import Model
from understudy.tables.column_drawing import draw_column

TABLE = pl.DataFrame({"a": list(range(60)), "<b>": ["x", "y", "z"] * 20})
SCHEMA = us.Schema(
    name="small & plain",
    columns=(us.Column("a", "integer", low=0, high=100), us.Column("<b>", "categorical", values=("x", "y", "z"))),
)


@pytest.fixture(scope="module")
def model() -> Model:
    return us.fit(TABLE, SCHEMA, "independent", epsilon=1.0, progress=False)


def words(picture) -> list[str]:
    tree = ElementTree.fromstring(picture.svg)
    return [each.text or "" for each in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_a_model_plots_its_network_with_every_column(model):
    said = words(model.plot())
    assert said[:2] == ["small & plain: what each column is made from", "independent, epsilon = 1, delta = 1e-06"]
    assert {"a", "<b>"} <= set(said)
    assert model.plot()._repr_svg_() == model.plot().svg


def test_a_model_plots_a_column_of_rows_that_it_draws(model):
    numbers, categories = words(model.plot("a")), words(model.plot("<b>"))
    assert numbers[0] == "small & plain: a" and float(numbers[-2]) >= 0 and float(numbers[-1]) <= 100
    assert {"x", "y", "z"} <= set(categories)
    with pytest.raises(ValueError, match="no column 'c'"):
        model.plot("c")


def test_a_column_of_gaps_of_dates_and_of_many_categories_can_be_drawn():
    days = pl.Series("day", [datetime.date(2020, 1, 1), None, datetime.date(2021, 5, 6)])
    assert "33.3\xa0% missing" in words(standalone(draw_column(days, ["days"])))
    assert words(standalone(draw_column(days, ["days"])))[-1] == "2021-05-06"
    assert (
        words(standalone(draw_column(pl.Series("x", [None, None], dtype=pl.Float64), ["x"])))[1] == "100.0\xa0% missing"
    )
    many = words(standalone(draw_column(pl.Series("code", [str(code) for code in range(50)]), ["codes"])))
    assert many[1] == "The 12 most frequent of 50 categories"


def test_a_receipt_plots_where_the_budget_went(model):
    said = words(model.receipt.plot())
    assert said[0] == "Where epsilon = 1, delta = 1e-06 went"
    shares = [float(each.removesuffix("\xa0%")) for each in said if each.endswith("%")]
    assert len(shares) >= 3 and sum(shares) == pytest.approx(100, abs=0.1 * len(shares))


def test_a_plan_shows_itself_in_a_notebook_and_plots_its_shares():
    plan = us.plan(SCHEMA, "mst", epsilon=1.0)
    assert words(plan.plot())[:2] == ["How epsilon = 1, delta = 1e-06 will be divided", "mst"]
    assert {each.name for each in plan.items} <= set(words(plan.plot()))
    assert "<table>" in plan._repr_html_() and "No data was touched" in plan._repr_html_()


def test_a_void_receipt_says_so_first():
    seeded = us.fit(TABLE, SCHEMA, "independent", epsilon=1.0, seed=1, progress=False)
    for picture in (seeded.plot(), seeded.receipt.plot()):
        assert words(picture)[0].startswith("VOID")


def test_the_style_of_a_picture_stays_inside_it():
    assert all(rule.startswith((".us ", "svg.us")) for rule in STYLE.split("}") if rule)
    tree = ElementTree.fromstring(standalone(bars("k", "Shares", [("a", 0.25), ("b", 0.75)])).svg)
    assert tree.get("class") == "us" and tree.find("{http://www.w3.org/2000/svg}title") is not None


def test_a_picture_is_saved_whole(model, tmp_path):
    model.plot().save(tmp_path / "network.svg")
    assert (tmp_path / "network.svg").read_text() == model.plot().svg
