"""Benchmarks of databases: split by unit, judged by the metrics of databases, beside real and shuffled units."""

import pytest

from understudy.benchmark import scoreboard, selection
from understudy.benchmark.database_runs import database_split
from understudy.benchmark.grid_file import parse
from understudy.benchmark.grids import REAL, SHUFFLED, Dataset, GridError
from understudy.benchmark.result_file import read
from understudy.benchmark.runner import check, run_grid

GRID = """
name = "families"
delta = 1e-6
epsilons = [8]
seeds = [0]
metrics = ["children", "parent_child", "aggregate"]

[[datasets]]
database = "hospital"
rows = 300

[[methods]]
name = "independent"

[[tables]]
name = "families"
title = "Families"
scores = ["score", "parent_child/visits", "aggregate/visits"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("results")
    outcome = run_grid(parse(GRID), found, processes=1, progress=False)
    assert outcome.failed == {} and outcome.made == 3
    return found


def test_a_run_on_a_database_has_scores_by_table_a_receipt_and_its_cost(folder):
    made = {line["label"]: line for line in read(folder)}
    line = made["independent"]
    assert line["dataset"] == "hospital" and line["epsilon"] == 8
    assert {"score", "children/visits", "children/prescriptions", "parent_child/visits"} <= set(line["scores"])
    assert not [name for name in line["scores"] if name.startswith("siblings")]  # was not asked for
    assert line["receipt"]["epsilon"] <= 8 and line["measured"]["fit_s"] > 0 and line["measured"]["peak_mb"] > 0


def test_real_units_are_nearer_than_shuffled_ones_and_independent_rows_are_like_these(folder):
    made = {line["label"]: line["scores"] for line in read(folder)}
    assert made[REAL]["parent_child/visits"] < made[SHUFFLED]["parent_child/visits"]
    assert made["independent"]["parent_child/visits"] > made[REAL]["parent_child/visits"]
    assert made[REAL]["aggregate/visits"] == 1.0 > made[SHUFFLED]["aggregate/visits"]
    assert "score" not in made[REAL]


def test_a_finished_benchmark_of_databases_runs_nothing_again_and_has_a_table(folder):
    before = read(folder)
    assert run_grid(parse(GRID), folder, processes=1, progress=False).made == 0
    assert read(folder) == before
    results = selection.read(folder)
    page = scoreboard.render_tables(results)["families"].markdown
    assert "hospital" in page and "independent" in page
    assert selection.better("aggregate/visits") == selection.better("score") == "higher"


def test_units_are_split_whole_and_as_many_as_are_asked_for():
    split = database_split(Dataset(database="hospital", rows=100), 3)
    people = [set(part["patients"]["patient_id"]) for part in (split.train, split.test)]
    assert [len(each) for each in people] == [60, 40] and not people[0] & people[1]
    assert set(split.train["visits"]["patient_id"]) <= people[0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('database = "hospital"', 'database = "hospitals"', "expected one of the databases"),
        ('database = "hospital"', 'database = "hospital"\ntable = "adult"', "got several or none"),
        ("delta = 1e-6", 'delta = 1e-6\nprotocol = "paper"', 'expected "private" for databases'),
        ('"aggregate"]', '"wd"]', "expected some of children, parent_child"),
        ("rows = 300\n", 'rows = 300\n[[datasets]]\ntable = "adult"\n', "expected databases alone or none"),
    ],
)
def test_what_cannot_be_run_on_a_database_is_refused(old, new, message):
    with pytest.raises(GridError, match=message):
        check(parse(GRID.replace(old, new)))
