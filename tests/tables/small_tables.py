"""Small tables that the tests of reading share, and what is in them."""

import numpy as np

from understudy.tables.column import Column
from understudy.tables.schema import Schema
from understudy.tables.table import read

NAN = np.nan
SECRET = "Xanthippe"

PEOPLE = Schema(
    columns=(
        Column(name="age", kind="integer"),
        Column(name="income", kind="continuous"),
        Column(name="state", kind="categorical", values=("CA", "NY"), other="elsewhere"),
        Column(name="job", kind="categorical"),
        Column(name="member", kind="boolean"),
        Column(name="joined", kind="datetime"),
    ),
    missing=("?",),
)
CSV = """\
age,income,state,job,member,joined
39,1.5,CA,clerk,true,2020-01-01
50,-inf,TX,baker,False,2020-01-01T00:00:01
?,?,?,?,?,?
,,,,,
17,1e308, NY ,"clerk",yes,2020-01-01 00:00:01.5+01:00
"""
START = 1_577_836_800e6
EXPECTED = {
    "age": [39, 50, NAN, NAN, 17],
    "income": [1.5, -np.inf, NAN, NAN, 1e308],
    "state": [0, 2, -1, -1, 1],
    "job": [1, 0, -1, -1, 1],
    "member": [1, 0, NAN, NAN, 1],
    "joined": [START, START + 1e6, NAN, NAN, START - 3600e6 + 1.5e6],
}


def one(kind, **fields):
    missing = fields.pop("missing", ())
    return Schema(columns=(Column(name="x", kind=kind, **fields),), missing=missing)


def saved(folder, content, name="people.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def cells(folder, kind, *lines, **fields):
    """The one column of a CSV file with these lines."""
    return read(saved(folder, "\n".join(["x,y", *(f"{line},1" for line in lines)])), with_y(one(kind, **fields)))


def with_y(schema):
    return Schema(columns=schema.columns, missing=schema.missing, ignore=("y",))


def assert_columns(table, expected):
    assert list(table.columns) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(table.columns[name], np.asarray(values))
