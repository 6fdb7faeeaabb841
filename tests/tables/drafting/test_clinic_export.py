"""The draft of an export in other habits: what it finds, what it leaves out, and that it reads the file."""

import datetime

import numpy as np
import pytest

import clinic_export
from understudy.tables.drafting.draft import draft_of
from understudy.tables.table import read
from understudy.tables.values import on_table_scale


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return clinic_export.write(tmp_path_factory.mktemp("clinic") / "visits.csv", 400)


@pytest.fixture(scope="module")
def schema(path):
    return draft_of(path).schema()


def test_amounts_dates_codes_and_missing_values_are_found(schema):
    assert schema.file.stated() == {"delimiter": "|", "thousands": ",", "currency": "$"}
    assert schema.unit == "MRN" and schema.ignore == ("Name", "Email", "PrimaryDx_2")
    assert schema.missing == ("9999", "NULL")
    assert {column.name: column.kind for column in schema} == {
        "DOB": "date",
        "Gender": "categorical",
        "ZIP": "categorical",
        "AdmitDate": "date",
        "DischargeDate": "date",
        "PrimaryDx": "categorical",
        "SBP": "integer",
        "Occupancy": "continuous",
        "TotalCharges": "continuous",
    }
    assert {schema[name].format for name in clinic_export.DATES} == {clinic_export.FORMAT}
    assert schema["TotalCharges"].decimals == 2 and schema["PrimaryDx"].levels is not None


def test_an_age_is_no_difference_to_be_learned_but_a_stay_is(schema):
    assert {str(rule): rule.by for rule in schema.constraints} == {
        "AdmitDate >= DOB": "rejection",
        "DischargeDate >= AdmitDate": "difference",
    }


def test_every_cell_is_read_as_it_is_meant(path, schema):
    table = read(path, schema)
    cells = [line.split("|") for line in clinic_export.lines(400)[1:]]
    place = clinic_export.HEADER.split("|").index
    charges = [float(row[place("TotalCharges")].replace("$", "").replace(",", "")) for row in cells]
    np.testing.assert_array_equal(table.columns["TotalCharges"], charges)
    assert np.isnan(table.columns["SBP"]).sum() == sum(row[place("SBP")] == "9999" for row in cells)
    assert table.columns["DOB"].min() >= on_table_scale(datetime.date(1940, 1, 1))  # and none was born in 2040
    assert table.columns["DOB"].max() < on_table_scale(datetime.date(2016, 1, 1))
