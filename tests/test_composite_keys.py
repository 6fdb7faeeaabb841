"""Databases whose references have keys of several columns, fitted and drawn: every key leads to a row that is there."""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

import polars as pl
import pytest

import understudy as us
from understudy.tables.families import with_public_keys
from wards import DISTRICTS, wards, wards_schema


@pytest.fixture(
    scope="module", params=["independent", "mst", pytest.param("prada", marks=pytest.mark.slow)], name="model"
)
def fitted(request):
    return us.fit(wards(200), wards_schema(), request.param, epsilon=100, delta=1e-6, seed=1)


@pytest.fixture(scope="module")
def drawn(model):
    return model.sample(150, seed=2)


def _without(rows: pl.DataFrame, own: list[str], others: pl.DataFrame, key: list[str]) -> int:
    """How many rows have a whole key that leads nowhere."""
    return rows.drop_nulls(own).join(others, left_on=own, right_on=key, how="anti").height


def test_every_key_of_a_public_table_is_one_of_it_or_missing(drawn):
    public = wards(1)
    clinics, cases = drawn["clinics"], drawn["cases"]
    assert clinics.columns == ["clinic", "region", "district", "size"]
    assert clinics.select("region", "district").null_count().sum_horizontal()[0] == 0
    assert _without(clinics, ["region", "district"], public["districts"], ["region", "district"]) == 0
    assert (cases["site"].is_null() == cases["ward"].is_null()).all()
    assert 0.1 < cases["site"].is_null().mean() < 0.4  # 0.2 in truth
    assert _without(cases, ["site", "ward"], public["wards"], ["site", "ward"]) == 0
    assert cases.drop_nulls("site")["site"].n_unique() == 3


def test_every_second_key_leads_to_a_row_or_is_missing(drawn):
    staff, cases, key = drawn["staff"], drawn["cases"], ["clinic", "number"]
    assert staff.select(key).is_unique().all()
    for rows, own in (
        (staff, ["clinic", "boss"]),
        (cases, ["clinic", "handler"]),
        (cases, ["sender", "sender_number"]),
    ):
        assert rows.height and _without(rows, own, staff, key) == 0
    assert 0.0 < cases["handler"].is_null().mean() < 0.5 and 0.0 < staff["boss"].is_null().mean() < 1.0
    assert cases["clinic"].null_count() == 0
    assert (cases["sender"].is_null() == cases["sender_number"].is_null()).all()  # of a key without shared columns
    assert cases["sender"].is_null().mean() < 0.03  # none in truth, and a share that is noise
    assert 0.3 < (cases["sender"] == cases["clinic"]).mean() < 0.8
    bosses = staff.filter(pl.col("boss").is_not_null()).join(staff, left_on=["clinic", "boss"], right_on=key)
    assert bosses["boss_right"].is_null().all()  # at most one step, in no circle


def test_integrity_is_measured_of_all_columns_of_a_key_without_the_public_tables(drawn):
    found = us.evaluate(wards(150, seed=3), drawn, wards_schema(), metrics=["integrity"])
    assert {"cases.clinic, handler → staff", "cases.sender, sender_number → staff"} <= set(found["table"])
    assert set(found["value"]) == {0.0}
    lost = {**drawn, "cases": drawn["cases"].with_columns(sender_number=pl.lit("77"))}
    found = us.evaluate(wards(150, seed=3), lost, wards_schema(), metrics=["integrity"])
    assert found.filter(pl.col("table").str.starts_with("cases.sender"))["value"][0] > 0.97


def test_a_page_about_a_database_with_public_tables_names_them(model, tmp_path):
    page = us.report(model, tmp_path / "wards.html").read_text()
    assert "wards" in page and "districts" in page


def test_a_model_is_the_same_after_it_was_saved_and_its_schema_reads_both_databases(model, drawn, tmp_path):
    model.save(tmp_path / "wards.understudy")
    again = us.load(tmp_path / "wards.understudy")
    assert again.sha256 == model.sha256 and again.schema == with_public_keys(wards(200), wards_schema())
    for name, frame in again.sample(150, seed=2).items():
        assert frame.equals(drawn[name])


def test_conditions_may_be_about_a_part_of_a_key(model):
    south = model.sample(40, seed=1, where={"region": "south"})["clinics"]
    assert set(zip(south["region"], south["district"], strict=True)) == {DISTRICTS[2]} and south.height == 40


def test_a_public_row_is_learned_as_a_whole(model, drawn):
    if model.method.name == "independent":
        pytest.skip("it learns nothing of two columns")
    small = drawn["clinics"].filter(pl.col("size") == "small")
    assert (small["region"] == "south").mean() > 0.8  # all, in truth
    assert (drawn["cases"].filter(pl.col("site") == "a, b")["topic"] == "b").mean() > 0.8


def test_no_units_have_no_rows(model):
    assert {name: frame.height for name, frame in model.sample(0, seed=1).items()} == {
        "clinics": 0,
        "staff": 0,
        "cases": 0,
    }
