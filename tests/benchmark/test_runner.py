"""The runner: whatever happens to it, the lines are those of an undisturbed benchmark."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.benchmark import grid_file, runner
from understudy.benchmark.batches import batches, perform
from understudy.benchmark.grid_file import parse
from understudy.benchmark.grids import Dataset, GridError
from understudy.benchmark.result_file import open_results, read
from understudy.benchmark.runner import run_grid
from understudy.benchmark.splits import split
from understudy.core.workers import Answer, Worker

GRID = """
name = "tiny"
epsilons = [1, 5]
seeds = [0, 1]
metrics = ["wd", "tvd1"]

[[datasets]]
graph = "erdos-renyi"
rows = 80
columns = 4
degree = 1

[[datasets]]
graph = "example"
rows = 60

[[methods]]
name = "copula"

[[methods]]
name = "independent"
"""
COMMITTED = sorted((Path(__file__).parents[2] / "benchmarks" / "grids").glob("*.toml"))


def undated(folder) -> list[dict]:
    """The lines without what may differ from one benchmark to the next."""
    return [{key: value for key, value in line.items() if key != "measured"} for line in read(folder)]


def command(folder, grid="grid.toml", *options) -> list[str]:
    return [sys.executable, "-m", "understudy", "bench", str(grid), "-o", str(folder), "--processes", "2", *options]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The results of a benchmark that nobody disturbed, and how long it took."""
    folder = tmp_path_factory.mktemp("benchmark")
    (folder / "grid.toml").write_text(GRID)
    start = time.monotonic()
    subprocess.run(command(folder / "results", folder / "grid.toml"), check=True, capture_output=True)
    return folder / "results", time.monotonic() - start


def test_every_run_has_a_line_in_the_order_of_the_grid(undisturbed):
    lines = read(undisturbed[0])
    assert [line["id"] for line in lines] == [run.id for run in parse(GRID).runs()]
    assert (undisturbed[0] / "grid.toml").read_text() == GRID


@pytest.mark.slow
def test_a_line_says_what_was_run_with_what_and_at_what_cost(undisturbed):
    line = next(line for line in read(undisturbed[0]) if line["label"] == "copula")
    assert (line["dataset"], line["method"], line["epsilon"], line["delta"]) == (
        "erdos-renyi, nonlinear",
        "copula",
        1.0,
        1e-5,
    )
    assert line["receipt"]["budget"] == {"epsilon": 1.0, "delta": 1e-5}
    assert 0.9 < line["receipt"]["epsilon"] <= 1.0
    assert line["versions"]["understudy"] and line["versions"]["polars"]
    assert set(line["measured"]) == {"fit_s", "fits_at_once", "sample_s", "evaluate_s", "peak_mb", "date", "machine"}
    assert 50 < line["measured"]["peak_mb"] < 5000
    assert set(line["scores"]) >= {"wd", "tvd1", "structure/f1", "structure/recall"}


def test_the_charges_on_a_line_add_up_to_the_receipt(undisturbed):
    line = next(line for line in read(undisturbed[0]) if line["label"] == "copula")
    rows = split(Dataset(graph="erdos-renyi", rows=80, columns=4, degree=1), "private", 0)
    model = us.fit(rows.train, rows.schema, "copula", epsilon=1.0, delta=1e-5, seed=0)
    assert sum(group["count"] for group in line["receipt"]["charges"]) == len(model.receipt.charges)
    assert line["receipt"]["epsilon"] == model.receipt.epsilon


def test_baselines_bracket_the_methods(undisturbed):
    lines = [line for line in read(undisturbed[0]) if line["dataset"] == "example"]
    mean = {
        label: np.mean([line["scores"]["tvd1"] for line in lines if line["label"] == label])
        for label in {line["label"] for line in lines}
    }
    assert mean["real rows"] < mean["copula"]
    assert mean["real rows"] == pytest.approx(mean["shuffled rows"])  # which has the same margins


def test_a_finished_benchmark_runs_nothing_again(undisturbed):
    before = (undisturbed[0] / "runs.jsonl").read_bytes()
    outcome = run_grid(parse(GRID), undisturbed[0], processes=1, progress=False)
    assert (outcome.made, outcome.failed) == (0, {})
    assert (undisturbed[0] / "runs.jsonl").read_bytes() == before


@pytest.mark.slow
def test_one_process_gives_the_same_lines_as_two(undisturbed, tmp_path):
    run_grid(parse(GRID).only(["independent"]), tmp_path, processes=1, progress=False)
    chosen = {line["id"] for line in undated(tmp_path)}
    assert undated(tmp_path) == [line for line in undated(undisturbed[0]) if line["id"] in chosen]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_same_lines_and_makes_what_is_missing_alone(undisturbed, tmp_path):
    ray = pytest.importorskip("ray")
    grid = parse(GRID).only(["copula"])
    run_grid(grid.only(["copula"], seeds=[1]), tmp_path, processes=1, progress=False)
    outcome = run_grid(grid, tmp_path, engine="ray", progress=False)
    assert not outcome.failed and outcome.made and outcome.there and not ray.is_initialized()
    chosen = {line["id"] for line in undated(tmp_path)}
    assert undated(tmp_path) == [line for line in undated(undisturbed[0]) if line["id"] in chosen]


TRAINED = """
name = "trained"
epsilons = [1, 5]
seeds = [0]
metrics = ["wd"]
baselines = false

[[datasets]]
graph = "erdos-renyi"
rows = 80
columns = 4
degree = 1

[[methods]]
name = "prada-gan"
settings = { critic_steps = 20, batch_size = 20 }
"""


def in_this_process(function, work, **places):
    """Makes the batches here, where the second start finds its programs compiled."""
    for batch in work:
        yield Answer(batch, function(batch), "")


@pytest.mark.slow
def test_a_run_that_was_fitted_beside_others_is_made_again_beside_them(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "spread_over", in_this_process)
    grid = parse(TRAINED)
    assert [len(batch) for batch in batches(grid.runs())] == [2]
    run_grid(grid, tmp_path, processes=1, progress=False)
    whole, kept = undated(tmp_path), (tmp_path / "runs.jsonl").read_bytes().splitlines(keepends=True)[0]
    (tmp_path / "runs.jsonl").write_bytes(kept + b'{"id": "cut')
    assert run_grid(grid, tmp_path, processes=1, progress=False).made == 1
    assert undated(tmp_path) == whole
    assert (tmp_path / "runs.jsonl").read_bytes().startswith(kept)


@pytest.mark.slow
def test_killed_at_twenty_moments_and_resumed_it_gives_the_same_file(undisturbed, tmp_path):
    whole, seconds = undisturbed
    (tmp_path / "grid.toml").write_text(GRID)
    folder, draw, kept = tmp_path / "results", random.Random(0), []
    for _ in range(20):
        process = subprocess.Popen(
            command(folder, tmp_path / "grid.toml"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(draw.uniform(0, seconds))
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = read(folder) if (folder / "runs.jsonl").exists() else []
        assert all(line in found for line in kept), "a line was lost, or its run was made again"
        kept = found
    subprocess.run(command(folder, tmp_path / "grid.toml"), check=True, capture_output=True)
    assert undated(folder) == undated(whole)
    assert all(line in read(folder) for line in kept)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes the Linux way")
@pytest.mark.parametrize(("blow", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_no_process_outlives_a_benchmark_that_was_stopped(tmp_path, blow, code):
    (tmp_path / "grid.toml").write_text(GRID)
    process = subprocess.Popen(
        command(tmp_path / "results", tmp_path / "grid.toml"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while (
        not (tmp_path / "results" / "runs.jsonl").exists() or not (tmp_path / "results" / "runs.jsonl").stat().st_size
    ):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    helpers = {int(name) for name in os.listdir("/proc") if name.isdigit() and parent(int(name)) == process.pid}
    assert len(helpers) >= 2
    process.send_signal(blow)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code
    assert b"Traceback" not in said
    while any(parent(helper) is not None for helper in helpers):
        assert time.monotonic() < deadline, "a worker outlived the benchmark"
        time.sleep(0.05)


def parent(process: int) -> int | None:
    """The parent of a process; None where there is no such process, or only its remains."""
    try:
        state, of = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(of)


@pytest.mark.slow
def test_a_run_that_fails_is_told_and_the_others_go_on(tmp_path, monkeypatch):
    (tmp_path / "california.csv").write_text("MedInc\n1\n")  # not the table it says it is
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path))
    mixed = GRID.replace('graph = "erdos-renyi"\nrows = 80\ncolumns = 4\ndegree = 1', 'table = "california"')
    outcome = run_grid(parse(mixed).only(["independent"]), tmp_path / "r", processes=1, progress=False)
    assert {name.split(":")[0] for name in outcome.failed} == {"california"}
    assert all("DatasetError" in why and "california.csv" in why for why in outcome.failed.values())
    assert {line["dataset"] for line in read(tmp_path / "r")} == {"example"}


def test_a_process_that_dies_is_an_error_of_its_run():
    run = parse(GRID).runs()[-1]
    worker = Worker(perform)
    worker.give([run])
    worker.process.kill()
    (answered, lines, error), lives = worker.take()
    worker.stop()
    assert (answered, lines, lives) == ([run], None, False)
    assert "ended with code -9" in error


def test_the_papers_protocol_standardises_and_says_so():
    rows = split(Dataset(graph="example", rows=200), "paper", 0)
    numbers = rows.train.select(pl.col(pl.Float64))
    assert np.allclose(numbers.drop("savings").mean().row(0), 0)
    assert np.allclose(numbers.std(ddof=0).row(0), 1)
    assert rows.schema["salary"].bounds == (None, None) and rows.schema["savings"].nullable
    [line] = perform(parse('protocol = "paper"\n' + GRID).runs()[-1:])
    assert "WHICH NO BUDGET COVERS" in line["warning"]


def test_the_true_order_is_given_to_simulations():
    rows = split(Dataset(graph="scale-free", equations="linear", rows=50), "private", 3)
    order = rows.schema.generation_order
    assert rows.truth is not None
    assert all(order.index(p) < order.index(child) for child, parents in rows.truth.items() for p in parents)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "copula"', 'name = "copul"', "grid 'tiny': method: .* Did you mean 'copula'"),
        ('name = "copula"', 'name = "copula"\nsettings = { degree = 3 }', "has .* got 'degree'"),
        ('["wd", "tvd1"]', '["wdd"]', "metrics: .* got 'wdd'"),
        ('["wd", "tvd1"]', '["r2"]', "target"),
        ('graph = "example"', 'table = "exampel"', "expected one of the tables"),
        ('graph = "erdos-renyi"', 'graph = "erdos"', "graph: expected one of"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is(tmp_path, old, new, message):
    with pytest.raises(GridError, match=message):
        run_grid(parse(GRID.replace(old, new, 1)), tmp_path / "results", progress=False)
    assert not (tmp_path / "results").exists()


public = pytest.mark.skipif(not os.environ.get("UNDERSTUDY_DATA"), reason="set UNDERSTUDY_DATA to a folder with tables")


@pytest.mark.dataset
@public
def test_a_table_without_its_target_has_the_same_rows_and_is_judged_by_it():
    shown, hidden = (split(Dataset(table="adult", target=target, rows=500), "private", 5) for target in (True, False))
    assert (shown.schema.target, hidden.schema.target, hidden.judged.target) == ("income", None, "income")
    assert (len(hidden.train), len(hidden.test)) == (300, 200)
    assert hidden.train.equals(shown.train) and hidden.test.equals(shown.test)
    whole = split(Dataset(table="adult"), "private", 5)
    assert whole.train[:300].equals(shown.train) and whole.test[:200].equals(shown.test)


@pytest.mark.dataset
@public
def test_a_grid_of_both_kinds_of_targets_has_the_scores_of_each():
    grid = grid_file.read(Path(__file__).parents[2] / "benchmarks" / "grids" / "no-regret.toml")
    part = grid.only(["independent"], datasets=["california", "adult"], epsilons=[1.0], seeds=[5])
    runs = [run for run in part.small().runs() if run.label in ("real rows", "independent")]
    lines = [perform([run])[0] for run in runs]
    found = {(line["dataset"], line["label"]): line["scores"] for line in lines}
    assert len(found) == 8
    for (dataset, label), scores in found.items():
        numbers = dataset.startswith("california")
        assert ("r2/catboost" in scores, "auc/catboost" in scores) == (numbers, not numbers)
        assert (scores["cramers_v"] is None) == numbers
        assert scores["every/catboost"] == 1 if label == "real rows" else scores["every/catboost"] < 0.5


@pytest.mark.parametrize(("metrics", "refused"), [('["wd", "r2", "auc"]', False), ('["wd", "auc"]', True)])
def test_a_data_set_whose_target_no_metric_suits_is_refused(metrics, refused):
    simulated, example = GRID.split("[[datasets]]\n")[1:]
    grid = parse(GRID.replace(f"[[datasets]]\n{simulated}", "").replace('["wd", "tvd1"]', metrics))
    assert example in grid.text and [dataset.name for dataset in grid.datasets] == ["example"]
    with pytest.raises(GridError, match="got 'auc'") if refused else contextlib.nullcontext():
        runner.check(grid)


# They train for seconds to minutes, or need real tables.
GRIDS = [pytest.param(path, id=path.stem, marks=pytest.mark.slow) for path in COMMITTED]


@pytest.mark.parametrize("path", GRIDS)
def test_every_committed_grid_runs_in_small(path, tmp_path):
    grid = grid_file.read(path)
    if any(dataset.table or dataset.database for dataset in grid.datasets) and not os.environ.get("UNDERSTUDY_DATA"):
        pytest.skip("set UNDERSTUDY_DATA to a folder with the real tables")
    small = grid.small(rows=120)
    if any(dataset.database for dataset in grid.datasets):  # drawn of fewer units, a table may have no row to judge
        small = grid.only(["independent"]).small(rows=600)
    runs = small.runs()
    with open_results(tmp_path, grid.text) as results:  # in this process: compiled programs are shared
        for batch in batches(runs):
            results.append(*perform(batch))
    assert sorted(line["id"] for line in read(tmp_path)) == sorted(run.id for run in runs)
