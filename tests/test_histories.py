"""Histories that keep stated transitions: in every synthetic row, with every method, and only if they are stated."""

# pyright: reportArgumentType=false, reportIndexIssue=false, reportAttributeAccessIssue=false, reportOperatorIssue=false

import dataclasses
import itertools

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.datasets import broken_rules, hospital, hospital_schema
from understudy.evaluation.database import open_databases

LAWS = ("chronic diagnoses stay", "care stays", "death is the end")
TRANSITIONS = {
    "outcome": {"care": ["care", "died"], "died": []},
    "diagnosis": {
        "diabetes": ["diabetes", "kidney failure"],
        "heart failure": ["heart failure"],
        "kidney failure": ["kidney failure"],
    },
}


def stated() -> us.DatabaseSchema:
    """The schema of the hospital with its laws."""
    schema = hospital_schema()
    visits = dataclasses.replace(schema["visits"], transitions=TRANSITIONS)
    return dataclasses.replace(schema, tables={**schema.tables, "visits": visits})


def made(schema: us.DatabaseSchema, method: str, patients: int = 250) -> dict[str, pl.DataFrame]:
    model = us.fit(hospital(patients, seed=1), schema, method, epsilon=5, delta=1e-6, seed=1)
    return model.sample(patients, seed=2)


@pytest.mark.parametrize("method", ["independent", "mst", pytest.param("prada", marks=pytest.mark.slow)])
def test_stated_laws_hold_in_every_history(method):
    frames = made(stated(), method)
    assert set(broken_rules(frames).values()) == {0.0}
    assert {"died", "care"} <= set(frames["visits"]["outcome"])
    assert frames["visits"].group_by("patient_id").len()["len"].max() > 3


def test_laws_that_are_not_stated_are_broken():
    found = broken_rules(made(hospital_schema(), "independent"))
    assert min(found[law] for law in LAWS) > 0.02


def test_the_receipt_is_the_same_with_and_without_transitions(tmp_path):
    without, told = (
        us.fit(hospital(40, seed=1), schema, "independent", epsilon=5, delta=1e-6, seed=1)
        for schema in (hospital_schema(), stated())
    )
    assert told.receipt.charges == without.receipt.charges
    told.save(tmp_path / "told.understudy")
    again, drawn = us.load(tmp_path / "told.understudy").sample(60, seed=3), told.sample(60, seed=3)
    assert all(frame.equals(again[name]) for name, frame in drawn.items())


def test_broken_transitions_of_synthetic_and_real_rows_are_counted():
    real, other = hospital(200, seed=1), hospital(200, seed=2)
    dead = real | {"visits": real["visits"].with_columns(outcome=pl.lit("died"))}
    outcome, diagnosis = (f"visits.{name} follows previous.{name}" for name in ("outcome", "diagnosis"))
    found = open_databases(dead, other, stated(), train=None, seed=0).broken
    assert found[outcome] == (0.0, 1.0) and found[diagnosis] == (0.0, 0.0)
    rules = us.evaluate(other, dead, stated(), metrics=["children"]).verdict.findings["rules"]
    assert rules[outcome] == 1.0 and rules[diagnosis] == 0.0


STAGES = """
unit = "people"
[tables.people]
key = "id"
columns.sex = { kind = "categorical", values = ["f", "m"] }
[tables.stages]
parent = "people"
foreign_key = "id"
max_per_parent = 5
order = "day"
columns.day = { kind = "integer", low = 0, high = 99 }
columns.stage = { kind = "categorical", values = ["well", "ill", "dying", "died"], nullable = true }
columns.bed = { kind = "categorical", values = ["a", "b"] }
constraints = [{ when = { stage = "ill" }, column = "bed", values = ["b"] }]
transitions.stage = { well = ["well", "ill"], ill = ["ill", "dying"], dying = ["died"], died = [] }
"""


@pytest.mark.parametrize("nullable", [True, False])
def test_no_history_is_led_where_it_ends_too_early_and_other_rules_hold_too(nullable):
    draw = np.random.default_rng(0)
    stages = pl.DataFrame(
        {
            "id": np.repeat(np.arange(100), 5),
            "day": np.tile(np.arange(5), 100),
            "stage": draw.choice(["well", "ill", "dying", "died"], 500, p=[0.1, 0.1, 0.4, 0.4]),
            "bed": draw.choice(["a", "b"], 500, p=[0.9, 0.1]),
        }
    ).with_columns(stage=pl.when(pl.Series(draw.random(500) > 0.2 * nullable)).then("stage"))
    people = pl.DataFrame({"id": np.arange(100), "sex": draw.choice(["f", "m"], 100)})
    schema = us.DatabaseSchema.parse(STAGES.replace(", nullable = true", "") if not nullable else STAGES)
    model = us.fit({"people": people, "stages": stages}, schema, "independent", epsilon=50, delta=1e-6, seed=1)
    drawn = model.sample(150, seed=2)["stages"]
    assert (drawn["stage"].null_count() > 0) == nullable
    assert set(drawn.filter(stage="ill")["bed"]) == {"b"}
    after = schema["stages"].transitions["stage"]
    for _, history in drawn.group_by("id", maintain_order=True):
        cells = history["stage"].to_list()
        for before, now in itertools.pairwise(cells):
            assert before != "died" and (before is None or now is None or now in after[before])
    assert {"dying", "died"} <= set(drawn["stage"])
