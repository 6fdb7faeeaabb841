"""Replays of databases: a unit more, with the most children at every depth, moves no answer beyond its sensitivity."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import understudy as us
from clinic import clinic_schema
from offices import offices_schema
from understudy.audit.replay import replay
from understudy.audit.replay_databases import replay_databases
from understudy.privacy.rows import PrivateRows
from understudy.privacy.unit_weights import STEPS
from understudy.synthesizers import resolve
from understudy.tables import families
from wards import private_schema, wards_schema


def test_the_unit_more_has_as_many_children_as_it_may_have_and_more():
    spread, alike = replay_databases(clinic_schema())
    for tables in (spread, alike):
        given: Any = tables.table  # the tables of a database, by name
        sizes = {name: frame.height for name, frame in given.items()}
        more = {what: [each[name].height - sizes[name] for name in sizes] for what, each in tables.neighbours.items()}
        assert more.pop("too many rows") == [1, 8, 32]
        assert set(map(tuple, more.values())) == {(1, 4, 8)}


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("mst", "aim", "prada")]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["independent", *SLOW])
def test_a_unit_more_changes_no_exact_answer_by_more_than_was_charged(name):
    found = replay(clinic_schema(), resolve(name), epsilon=20.0, delta=1e-6)
    assert found.findings == ()
    assert found.pairs == 18
    assert 0.5 < found.worst <= 1.0 + 1e-9


@pytest.mark.slow
def test_a_replay_finds_a_table_whose_units_have_more_rows_than_is_charged(monkeypatch):
    honest = families._children

    def without_a_cap(texts, table, *others):
        return honest(texts, dataclasses.replace(table, max_per_parent=1000), *others)

    def without_a_bound(columns, labels, *, key, **_):
        return PrivateRows(columns, labels, 1)

    monkeypatch.setattr(families, "_children", without_a_cap)
    monkeypatch.setattr("understudy.databases.pipeline.lock", without_a_bound)
    found = replay(clinic_schema(), resolve("independent"), epsilon=20.0, delta=1e-6)
    assert any(finding.check == "sensitivity" for finding in found.findings)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["count_weights", "moment_weights"])
def test_a_replay_finds_sums_to_which_a_unit_adds_more_than_the_bound(monkeypatch, name):
    def unbounded(unit, *_, **__):
        return np.full(len(unit), STEPS)

    monkeypatch.setattr(f"understudy.privacy.unit_sums.{name}", unbounded)
    found = replay(clinic_schema(), resolve("prada"), epsilon=20.0, delta=1e-6)
    assert any(finding.check == "sensitivity" for finding in found.findings)


@pytest.mark.slow
@pytest.mark.parametrize("schema", [offices_schema, private_schema])
@pytest.mark.parametrize("name", ["independent", "prada"])
def test_a_unit_more_changes_no_answer_of_tables_that_point_to_others_and_to_themselves(name, schema):
    found = replay(schema(), resolve(name), epsilon=20.0, delta=1e-6)
    assert found.findings == ()
    assert 0.5 < found.worst <= 1.0 + 1e-9


@pytest.mark.parametrize("schema", [clinic_schema, wards_schema], ids=["private tables", "public tables too"])
def test_an_audit_of_a_database_replays_it_and_tests_its_noise(schema, tmp_path):
    path = tmp_path / "schema.toml"
    schema().write(path)
    found = us.audit(path, "independent", epsilon=2.0)
    assert found.passed and found.epsilon_lower == 0.0 and found.schema == schema().name
    assert 0.5 < found.replay.worst <= 1.0 + 1e-9
    assert any(test.sampler.startswith("the noise in a fit") for test in found.noise.tests)


def test_whole_fits_of_a_database_are_not_attacked():
    with pytest.raises(ValueError, match=r"fits: expected none for a database"):
        us.audit(clinic_schema(), "independent", epsilon=2.0, fits=100)


def test_public_tables_are_the_same_in_all_neighbours():
    for tables in replay_databases(wards_schema()):
        given: Any = tables.table
        neighbours: Any = tables.neighbours
        for more in neighbours.values():
            assert more["wards"].equals(given["wards"]) and more["cases"].height > given["cases"].height
