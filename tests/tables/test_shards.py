"""Samples in many files: the same rows whoever draws them, whole files alone, and no mixture of two samples."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import understudy as us
from commands import run
from fits import FEW, few
from understudy.core.ray_tasks import EngineError
from understudy.core.workers import spread
from understudy.model import Model, write_shard
from understudy.tables.rejection import Acceptance, in_all
from understudy.tables.shards import ShardError, Shards, manifest_path

ASKED = {"where": {"b": ("low", "high")}, "rules": ["d >= a"], "rows_per_shard": 300}
ROWS = 1000


@pytest.fixture(scope="module")
def model() -> Model:
    return us.fit(few(1000), FEW, "independent", epsilon=10.0, seed=0)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory) -> Path:
    """A thousand rows in shards of three hundred, by three processes."""
    folder = tmp_path_factory.mktemp("sample") / "rows"
    found = model.sample_to(folder, ROWS, 7, processes=3, progress=False, **ASKED)
    assert (found.shards.count, found.made, found.seed) == (4, 4, 7)
    assert found.acceptance is not None and found.acceptance.kept >= ROWS
    return folder


def written_here(model: Model, folder: Path, rows: int, seed: int, **asked) -> Path:
    """The same shards, written one after the other by this process."""
    folder.mkdir()
    shards = Shards(folder=folder, rows=rows, rows_per_shard=asked.pop("rows_per_shard"))
    request = model._request(rows, shards.rows_per_shard, asked.get("where"), asked.get("rules", ()))
    for shard in range(shards.count):
        write_shard(dataclasses.replace(request, shards=shards, seed=seed), shard)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.slow
def test_three_processes_write_the_bytes_that_one_writes(model, folder, tmp_path):
    assert contents(written_here(model, tmp_path / "rows", ROWS, 7, **ASKED)) == contents(folder)


def test_shards_hold_as_many_rows_as_were_asked_for_and_no_two_the_same(folder):
    parts = [pl.read_parquet(path) for path in sorted(folder.iterdir())]
    assert [len(part) for part in parts] == [300, 300, 300, 100]
    assert len({part[:100].write_csv() for part in parts}) == 4
    assert pl.read_parquet(folder).equals(pl.concat(parts))  # nothing else is in the folder


def test_rules_and_conditions_hold_in_every_shard(folder):
    for path in folder.iterdir():
        part = pl.read_parquet(path)
        assert set(part["b"]) == {"low", "high"}
        assert (part["d"] >= part["a"]).drop_nulls().all() and part["d"].null_count()


def test_a_start_that_was_stopped_goes_on_with_what_is_missing(model, folder):
    whole = contents(folder)
    (folder / "part-000002.parquet").unlink()
    (folder / ".0123456789abcdef.tmp").write_bytes(b"half a shard")
    kept = folder / "part-000001.parquet"
    before = kept.stat().st_mtime_ns
    found = model.sample_to(folder, ROWS, processes=1, progress=False, **ASKED)  # the seed is that of the folder
    assert (found.made, found.seed) == (1, 7)
    assert contents(folder) == whole and kept.stat().st_mtime_ns == before


def test_a_whole_sample_is_not_drawn_again(model, folder):
    assert model.sample_to(folder, ROWS, 7, progress=False, **ASKED).made == 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"n": ROWS + 1}, "rows is 1000 there and 1001 here"),
        ({"seed": 8}, "seed is 7 there and 8 here"),
        ({"rows_per_shard": 301}, "rows_per_shard is 300 there and 301 here"),
        ({"where": None}, "where is ["),
        ({"where": {"b": "low"}}, "where is ["),
        ({"rules": []}, 'rules is ["'),
    ],
)
def test_another_sample_is_refused_in_one_line(model, folder, asked, said):
    before = contents(folder)
    with pytest.raises(ShardError) as refusal:
        model.sample_to(folder, **{"n": ROWS, "seed": 7, "progress": False, **ASKED, **asked})
    assert said in str(refusal.value) and "\n" not in str(refusal.value)
    assert contents(folder) == before


def test_another_model_is_refused(folder):
    other = us.fit(few(1000), FEW, "independent", epsilon=10.0, seed=1)
    with pytest.raises(ShardError, match="holds another sample: fit is"):
        other.sample_to(folder, ROWS, 7, progress=False, **ASKED)


@pytest.mark.parametrize("text", [None, "{}", '{"kind": "understudy-shards"', "[1]"])
def test_a_folder_of_other_files_is_refused_and_stays(model, tmp_path, text):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "mine.txt").write_text("mine")
    if text is not None:
        manifest_path(tmp_path / "rows").write_text(text)
    with pytest.raises(ShardError, match=r"no manifest rows\.json" if text is None else "is no manifest of shards"):
        model.sample_to(tmp_path / "rows", 10, progress=False)
    assert contents(tmp_path / "rows") == {"mine.txt": b"mine"}


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"n": -1}, ValueError, "n: expected a whole number >= 0"),
        ({"rows_per_shard": 0}, ValueError, "rows_per_shard: expected a whole number >= 1"),
        ({"seed": -1}, ValueError, "seed: expected"),
        ({"engine": "spark"}, EngineError, "expected local or ray, got 'spark'"),
        ({"address": "auto"}, EngineError, "expected engine 'ray' with an address"),
        ({"where": {"e": 1}}, us.ConstraintError, "'e'"),
        ({"rules": ["a >= e"]}, us.ConstraintError, "'e'"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_anything_is_written(model, tmp_path, asked, error, said):
    with pytest.raises(error, match=said):
        model.sample_to(tmp_path / "rows", **{"n": 10, "progress": False, **asked})
    assert list(tmp_path.iterdir()) == []


def test_a_sample_without_rows_says_what_its_columns_are(model, tmp_path):
    folder = written_here(model, tmp_path / "rows", 0, 1, rows_per_shard=10)
    assert pl.read_parquet(folder).shape == (0, 4)


def test_acceptances_add_up():
    parts = [Acceptance(10, 8, {"a": 2}), Acceptance(20, 5, {"a": 10, "b": 15}, effective=4.0, shift=0.1)]
    assert in_all(parts) == Acceptance(30, 13, {"a": 12, "b": 15}, effective=12.0, shift=0.1)


def test_the_command_writes_shards_and_refuses_what_is_for_them_alone(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model.save("m.understudy")
    said = json.loads(run("sample", "m.understudy", "-n", "1_0", "-o", "rows/", "--json", "--processes", 1).stdout)
    assert (said["rows"], said["shards"], said["made"]) == (10, 1, 1)
    assert json.loads(Path(said["record"]).read_text())["seed"] == said["seed"]
    assert pl.read_parquet("rows/*.parquet").height == 10
    again = run("sample", "m.understudy", "-n", 10, "-o", "rows")
    assert "10 rows in 1 shard (1 existed) written to rows" in again.stdout
    refusal = run("sample", "m.understudy", "-n", 10, "-o", "rows.csv", "--engine", "ray")
    assert refusal.exit_code == 1 and "--engine is for shards" in refusal.stderr


def fail_at_two(item: int) -> int:
    if item == 2:
        raise ValueError("two")
    return 10 * item


@pytest.mark.slow
def test_an_error_is_that_of_its_item_alone():
    answers = {each.item: (each.found, each.error) for each in spread(fail_at_two, [0, 1, 2, 3], 2)}
    assert answers == {0: (0, ""), 1: (10, ""), 2: (None, "ValueError: two"), 3: (30, "")}


@pytest.mark.slow
def test_killed_and_resumed_it_writes_the_same_shards(model, tmp_path):
    model.save(tmp_path / "m.understudy")
    folder, shards = tmp_path / "rows", 40
    words = ["sample", tmp_path / "m.understudy", "-n", 20 * shards, "-o", f"{folder}/", "--rows-per-shard", 20]
    words += ["--seed", 3]
    command = [sys.executable, "-m", "understudy", *map(str, words), "--processes", "2"]
    seen = 0
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while process.poll() is None and len(list(folder.glob("*.parquet"))) <= seen:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(1.5)  # its workers end by themselves
        seen = len(list(folder.glob("*.parquet")))
    assert seen > 0
    subprocess.run(command, check=True, capture_output=True)
    assert contents(folder) == contents(written_here(model, tmp_path / "again", 20 * shards, 3, rows_per_shard=20))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_draws_the_same_rows(model, folder, tmp_path):
    ray = pytest.importorskip("ray")
    found = model.sample_to(tmp_path / "rows", ROWS, 7, engine="ray", progress=False, **ASKED)
    assert found.made == 4 and not ray.is_initialized()  # the cluster that was started is stopped
    assert contents(tmp_path / "rows") == contents(folder)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        blocks = model.sample_dataset(ROWS, 7, **ASKED).to_arrow_refs()
        drawn = pl.concat([pl.DataFrame(each) for each in ray.get(blocks)])
        assert drawn.sort(pl.all()).equals(pl.read_parquet(folder).sort(pl.all()))
    finally:
        ray.shutdown()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="reads peak memory the Linux way")
def test_memory_does_not_grow_with_the_number_of_shards(model, tmp_path):
    model.save(tmp_path / "m.understudy")
    code = (
        "import sys, resource, understudy\n"
        "if __name__ == '__main__':\n"
        "    model = understudy.load(sys.argv[1])\n"
        "    model.sample_to(sys.argv[2], int(sys.argv[3]), 1, rows_per_shard=50_000, processes=1, progress=False)\n"
        "    usage = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))\n"
        "    print(max(usage))\n"
    )
    (tmp_path / "draw.py").write_text(code)
    peaks = []
    for name, rows in (("few", 100_000), ("many", 2_000_000)):
        words = [sys.executable, tmp_path / "draw.py", tmp_path / "m.understudy", tmp_path / name, str(rows)]
        peaks.append(int(subprocess.run(words, check=True, capture_output=True, text=True).stdout))
    assert peaks[1] < 1.15 * peaks[0]
