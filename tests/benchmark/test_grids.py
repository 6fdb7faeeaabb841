"""Grids: every run once, each known by all that its result depends on."""

import dataclasses
from pathlib import Path

import pytest

import understudy as us
from understudy.benchmark.grid_file import parse, read
from understudy.benchmark.grids import Dataset, GridError
from understudy.benchmark.result_file import read as read_results

GRID = """
name = "tiny"
epsilons = [1, 5]
seeds = [0, 1, 2]
metrics = ["wd"]

[[datasets]]
graph = "erdos-renyi"
rows = 50
columns = 4

[[methods]]
name = "copula"

[[methods]]
name = "copula"
label = "gaussian"
settings = { degrees = inf }

[[methods]]
name = "independent"
"""
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
COMMITTED = sorted((BENCHMARKS / "grids").glob("*.toml"))


def test_a_grid_is_the_product_of_its_lists():
    runs = parse(GRID).runs()
    assert len(runs) == 3 * 2 * 3 + 2 * 3  # methods, epsilons, seeds; and two baselines for every seed
    assert len({run.id for run in runs}) == len(runs)


def test_two_data_sets_that_tables_could_not_tell_apart_are_refused():
    with pytest.raises(GridError, match="two are called 'erdos-renyi, nonlinear'"):
        parse(GRID + '\n[[datasets]]\ngraph = "erdos-renyi"\nrows = 500\ncolumns = 4\n')


def test_baselines_come_first_and_can_be_left_out():
    runs = parse(GRID).runs()
    assert [run.label for run in runs[:6]] == ["real rows"] * 3 + ["shuffled rows"] * 3
    assert all(run.epsilon is None for run in runs[:6])
    without = parse("baselines = false\n" + GRID).runs()
    assert [run.id for run in without] == [run.id for run in runs[6:]]


def test_overrides_are_combined_within_a_group_and_not_across_groups():
    text = GRID + "\n[[overrides]]\nsweep = 'a'\ndegrees = [3, 8]\nencoding_share = [0.4, 0.5]\n"
    text += "\n[[overrides]]\nsweep = 'b'\ndegrees = 8\n"
    fits = [run for run in parse(text).runs() if run.label == "copula" and run.epsilon == 1 and run.seed == 0]
    assert [(run.sweep, run.settings) for run in fits] == [
        ("a", {"degrees": 3, "encoding_share": 0.4}),
        ("a", {"degrees": 3, "encoding_share": 0.5}),
        ("a", {"degrees": 8, "encoding_share": 0.4}),
        ("a", {"degrees": 8, "encoding_share": 0.5}),
        ("b", {"degrees": 8}),
    ]


def test_a_list_that_is_one_setting_becomes_a_tuple():
    text = GRID + "\n[[overrides]]\nwidths = [[8, 4], [64, 32]]\n"
    widths = [run.settings["widths"] for run in parse(text).runs() if run.label == "copula" and run.seed == 0]
    assert widths == [(8, 4), (64, 32)] * 2


@pytest.mark.parametrize("change", [{"seed": 9}, {"epsilon": 2.0}, {"delta": 1e-6}, {"settings": {"degrees": 4}}])
def test_another_run_has_another_id(change):
    run = parse(GRID).runs()[-1]
    assert dataclasses.replace(run, **change).id != run.id
    assert dataclasses.replace(run).id == run.id


def test_another_data_set_has_another_id_and_a_name_of_its_own():
    run = parse(GRID).runs()[-1]
    assert dataclasses.replace(run, dataset=dataclasses.replace(run.dataset, rows=51)).id != run.id
    assert Dataset(table="california", bounds=False).name != Dataset(table="california").name


def test_only_keeps_the_baselines():
    labels = {run.label for run in parse(GRID).only(["gaussian"]).runs()}
    assert labels == {"real rows", "shuffled rows", "gaussian"}
    with pytest.raises(GridError, match="has the methods copula, gaussian, independent; got 'aim'"):
        parse(GRID).only(["aim"])


def test_a_grid_can_be_cut_to_some_tables_budgets_and_seeds():
    grid = read(BENCHMARKS / "grids" / "no-regret.toml")
    part = grid.only(["aim"], datasets=["adult", "bank, no target"], epsilons=[1.0], seeds=[7, 6])
    fits = [run for run in part.runs() if not run.is_baseline]
    assert [(run.dataset.name, run.seed) for run in fits] == [
        (name, seed) for name in ("adult", "adult, no target", "bank, no target") for seed in (6, 7)
    ]
    assert {(run.label, run.epsilon) for run in fits} == {("aim", 1.0)}
    assert {run.id for run in part.runs()} <= {run.id for run in grid.runs()}


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"datasets": ["iris"]}, "has the data sets california, california, no target, .* got 'iris'"),
        ({"epsilons": [2.0]}, "has the epsilons 0.2, 1.0, 5.0; got 2.0"),
        ({"seeds": [0]}, "has the seeds 5, 6, 7, 8, 9; got 0"),
    ],
)
def test_what_a_grid_has_not_cannot_be_cut_out(wanted, message):
    with pytest.raises(GridError, match=message):
        read(BENCHMARKS / "grids" / "no-regret.toml").only(**wanted)


def test_the_no_regret_grid_has_every_method_on_both_halves_of_seven_tables():
    grid = read(BENCHMARKS / "grids" / "no-regret.toml")
    assert {entry.label for entry in grid.methods} == set(us.METHODS)
    assert len(grid.datasets) == 14 and sum(not dataset.target for dataset in grid.datasets) == 7
    choosing = read(BENCHMARKS / "grids" / "no-regret-choosing.toml")
    assert set(choosing.seeds).isdisjoint(grid.seeds) and choosing.metrics == grid.metrics


@pytest.mark.parametrize(
    "facts", [{"graph": "example", "rows": 50, "target": False}, {"table": "adult", "target": "no"}]
)
def test_only_a_table_can_be_without_its_target(facts):
    with pytest.raises(GridError, match="datasets, target: expected true or false for a table"):
        Dataset(**facts)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name =", "nme =", "unknown key 'nme'. Did you mean 'name'"),
        ('["wd"]', '"wd"', "metrics: expected a list"),
        ("[0, 1, 2]", "[0, true]", "seeds: expected a list"),
        ("[1, 5]", "[0]", "every epsilon > 0"),
        ("[0, 1, 2]", "[]", "expected `seeds`"),
        ("rows = 50", "", "a simulation needs `rows`"),
        ("rows = 50", "rows = 1", "expected a whole number >= 2"),
        ("rows = 50", "row = 50", "datasets, unknown key 'row'. Did you mean 'rows'"),
        ('graph = "erdos-renyi"', 'graph = "erdos-renyi"\ntable = "adult"', "either `table`, `graph` or `database`"),
        ('label = "gaussian"', "", "'copula' again"),
        ('label = "gaussian"', 'label = "real rows"', "'real rows' again"),
        ('name = "tiny"', 'name = "a/b"', "name: expected letters"),
        ('name = "tiny"', 'name = "tiny"\nprotocol = "open"', "protocol: expected one of private, paper"),
        ('name = "tiny"', 'name = "tiny"\ndelta = 2.0', "delta: expected a number between 0 and 1"),
        ("[[methods]]", "[methods]", "not TOML"),
    ],
)
def test_a_wrong_grid_is_refused(old, new, message):
    with pytest.raises(GridError, match=message):
        parse(GRID.replace(old, new, 1))


def test_a_refusal_names_the_file(tmp_path):
    path = tmp_path / "grid.toml"
    with pytest.raises(GridError, match=r"grid.toml cannot be read: no such file"):
        read(path)
    path.write_text("name =")
    with pytest.raises(GridError, match=r"grid.toml: not TOML"):
        read(path)


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_committed_grids_are_named_after_their_files_and_small_ones_are_small(path):
    grid = read(path)
    assert grid.name == path.stem
    assert len(grid.small().runs()) < 100
    assert {run.label for run in grid.small().runs()} == {run.label for run in grid.runs()}


@pytest.mark.parametrize("name", ["adult", "example", "parents", "structure", "sweeps-linear"])
def test_committed_results_have_the_ids_of_their_grid(name):
    folder = BENCHMARKS / "results" / name
    assert {run.id for run in read(folder / "grid.toml").runs()} == {line["id"] for line in read_results(folder)}
