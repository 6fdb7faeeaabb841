"""The simulated hospital: its histories follow the truth that its module states, and a broken rule is counted."""

import datetime
import tomllib

import numpy as np
import polars as pl
import pytest

from understudy.datasets import broken_rules, hospital, hospital_schema_text
from understudy.datasets.hospital import DIAGNOSES, DRUG, DRUGS, NEXT, STAY_DAYS, WARD, WARDS

PATIENTS = 4000


@pytest.fixture(scope="module")
def frames():
    return hospital(PATIENTS, seed=3)


def test_the_same_seed_gives_the_same_hospital_and_another_one_does_not(frames):
    again, other = hospital(PATIENTS, seed=3), hospital(PATIENTS, seed=4)
    assert all(frames[name].equals(again[name]) for name in frames)
    assert not frames["visits"].equals(other["visits"])


def test_no_row_breaks_a_rule(frames):
    assert set(broken_rules(frames).values()) == {0.0}


def test_ages_are_those_that_people_count(frames):
    joined = frames["visits"].join(frames["patients"], on="patient_id").head(2000)
    for birth, day, age in joined.select("birth", "admission", "age").iter_rows():
        assert age == day.year - birth.year - ((day.month, day.day) < (birth.month, birth.day))


def test_diagnoses_follow_the_chain(frames):
    visits = frames["visits"].sort("patient_id", "admission")
    same = (visits["patient_id"] == visits["patient_id"].shift(1)).fill_null(value=False)
    for row, diagnosis in enumerate(DIAGNOSES):
        after = visits["diagnosis"].filter(same & (visits["diagnosis"].shift(1) == diagnosis))
        found = np.array([(after == each).mean() for each in DIAGNOSES])
        assert np.abs(found - NEXT[row]).max() < 4 * 0.5 / np.sqrt(len(after))
        assert (found[NEXT[row] == 0] == 0).all()


def test_wards_stays_and_drugs_are_those_of_their_tables(frames):
    visits = frames["visits"]
    stay = (visits["discharge"] - visits["admission"]).dt.total_days()
    for place, ward in enumerate(WARDS):
        here = stay.filter(visits["ward"] == ward).to_numpy()
        assert abs(here.mean() - STAY_DAYS[place]) < 4 * here.std() / np.sqrt(len(here))
    given = frames["prescriptions"].join(visits, on="visit_id")
    for row, diagnosis in enumerate(DIAGNOSES):
        wards = visits["ward"].filter(visits["diagnosis"] == diagnosis)
        drugs = given["drug"].filter(given["diagnosis"] == diagnosis)
        for labels, found, truth in ((WARDS, wards, WARD[row]), (DRUGS, drugs, DRUG[row])):
            shares = np.array([(found == label).mean() for label in labels])
            assert np.abs(shares - truth).max() < 4 * 0.5 / np.sqrt(len(found))


def test_the_schema_has_the_tables_and_columns_and_contains_all_values(frames):
    schema = tomllib.loads(hospital_schema_text())
    assert list(schema["tables"]) == list(frames)
    for name, table in schema["tables"].items():
        keys = {table.get("key"), table.get("foreign_key")} - {None}
        assert [column for column in frames[name].columns if column not in keys] == list(table["columns"])
        for column, facts in table["columns"].items():
            values = frames[name][column]
            if facts["kind"] == "categorical":
                assert set(values.unique()) == set(facts["values"])
            else:
                assert values.is_between(pl.lit(facts["low"]), pl.lit(facts["high"])).all(), column
        if "max_per_parent" in table:
            assert frames[name].group_by(table["foreign_key"]).len()["len"].max() == table["max_per_parent"]


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("discharge follows admission", pl.col("admission").alias("discharge") - datetime.timedelta(days=1)),
        ("admission follows birth", pl.lit(datetime.date(1900, 1, 1)).alias("admission")),
        ("age agrees with birth", (pl.col("age") + 1).alias("age")),
        ("referential integrity", pl.lit("p-nobody").alias("patient_id")),
        ("death is the end", pl.lit("died").alias("outcome")),
    ],
)
def test_every_broken_row_is_counted(frames, rule, change):
    changed = frames | {"visits": frames["visits"].with_columns(change)}
    found = broken_rules(changed)[rule]
    visits, given = len(frames["visits"]), len(frames["prescriptions"])
    assert found == pytest.approx(visits / (visits + given) if rule == "referential integrity" else 1.0)
    assert broken_rules(frames)[rule] == 0.0


def test_a_history_in_another_order_of_diagnoses_breaks_the_chronic_ones(frames):
    shuffled = frames["visits"].with_columns(pl.col("diagnosis", "outcome").shuffle(0))
    found = broken_rules(frames | {"visits": shuffled})
    assert min(found["chronic diagnoses stay"], found["care stays"], found["death is the end"]) > 0.02
