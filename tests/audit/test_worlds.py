import dataclasses

import numpy as np
import pytest

from conftest import MIXED
from understudy.audit.simulated import NAMES, Simulated
from understudy.audit.worlds import worst_cases
from understudy.tables.schema import Schema
from understudy.tables.table import read

OF_PEOPLE = dataclasses.replace(MIXED, unit="person", max_rows_per_unit=3)
CASES = list(worst_cases(MIXED, units=7))


@pytest.mark.parametrize("worlds", CASES, ids=[case.description for case in CASES])
def test_the_tables_differ_by_the_canaries_alone(worlds):
    without, with_units = worlds.tables
    assert len(with_units) == len(without) + 7
    assert with_units[: len(without)].equals(without)


@pytest.mark.parametrize("worlds", CASES, ids=[case.description for case in CASES])
def test_only_values_that_may_be_missing_are(worlds):
    for table in worlds.tables:
        read_table = read(table, MIXED)
        for column in MIXED:
            values = read_table.columns[column.name]
            missing = values < 0 if column.kind == "categorical" else np.isnan(values)
            assert column.nullable or not missing.any()


@pytest.mark.parametrize("worlds", CASES, ids=[case.description for case in CASES])
def test_values_lie_within_their_bounds(worlds):
    table = read(worlds.with_units, MIXED)
    for name in ("age", "weight", "joined"):
        low, high = MIXED[name].bounds
        assert low is not None
        assert high is not None
        assert table.columns[name].min() >= low
        assert table.columns[name].max() <= high


@pytest.mark.parametrize("name", NAMES)
def test_simulated_rows_are_those_of_the_simulator_and_canaries_come_after_them(name):
    simulated = Simulated.named(name)
    for worlds in worst_cases(simulated.schema, units=3, simulated=simulated):
        ordinary = read(simulated.draw(len(worlds.without)), simulated.schema).columns
        both = [read(table, simulated.schema).columns for table in worlds.tables]
        for column in simulated.schema.names:
            np.testing.assert_array_equal(both[0][column], ordinary[column])
            np.testing.assert_array_equal(both[1][column][:-3], ordinary[column])
            assert len(both[1][column]) == len(ordinary[column]) + 3


def test_a_canary_of_several_rows_has_as_many_as_are_used():
    worlds = next(worst_cases(OF_PEOPLE, units=2))
    canaries = worlds.with_units[len(worlds.without) :]
    assert canaries["person"].to_list() == ["canary 0"] * 3 + ["canary 1"] * 3


@pytest.mark.parametrize("kind", ["continuous", "integer", "date", "datetime"])
def test_a_column_without_bounds_has_values_apart(kind):
    schema = Schema.parse(f'[columns.x]\nkind = "{kind}"', "a schema")
    values = read(next(worst_cases(schema, units=1)).with_units, schema).columns["x"]
    assert values[-1] > values[0]
