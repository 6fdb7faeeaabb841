"""SIGKILL at random moments of a fit, a save, a charge, a benchmark and a report: nothing is lost or half-written.

`make test-all` kills 200 times (UNDERSTUDY_FAULTS=full), and otherwise 25 times.
"""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import understudy as us
from understudy import datasets
from understudy.benchmark import result_file
from understudy.privacy.ledger_file import LedgerError, LedgerFile

pytestmark = pytest.mark.slow

TIMES = 40 if os.environ.get("UNDERSTUDY_FAULTS") == "full" else 5
GRID = """
name = "tiny"
epsilons = [1]
seeds = [0, 1]
metrics = ["wd", "tvd1"]
[[datasets]]
graph = "example"
rows = 60
[[methods]]
name = "copula"
[[methods]]
name = "independent"
"""


class Killer:
    """Runs commands in a folder and kills them; a killing is aimed at a random part of what the command takes."""

    def __init__(self, folder):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
        self.folder, self.draw = folder, random.Random(0)
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("killing.py"))],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *words, seconds=None):
        """How a command ended, and after how many seconds."""
        asked = {"words": list(map(str, words)), "seconds": seconds, "told": str(self.folder / "told")}
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def kill(self, length, *words):
        """Runs a command that takes `length` seconds, and kills it at a random moment; whether it was killed."""
        status, _ = self.run(*words, seconds=length * self.draw.uniform(0.0, 1.1))
        assert status in (0, -signal.SIGKILL)
        return status != 0

    def told(self):
        path = self.folder / "told"
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def killer(tmp_path):
    datasets.example(300).write_csv(tmp_path / "people.csv")
    datasets.example_schema().write(tmp_path / "people.toml")
    made = Killer(tmp_path)
    with made.process:  # closes its streams, which ends it
        yield made
    assert made.process.returncode == 0


def fitted(folder, method):
    model = us.fit(folder / "people.csv", folder / "people.toml", method, epsilon=1.0)
    model.save(folder / f"{method}.understudy")
    return folder / f"{method}.understudy"


def test_a_killed_fit_is_charged_once_at_most_and_whenever_it_left_a_model(killer, tmp_path):
    def words(name):
        budget = ["--method", "copula", "--epsilon", 1, "--ledger", "budget.jsonl"]
        return ["fit", "people.csv", "people.toml", *budget, "-o", name, "--quiet"]

    status, length = killer.run(*words("whole.understudy"))
    assert status == 0
    ledger, models, killed = LedgerFile(tmp_path / "budget.jsonl"), 1, 0
    for moment in range(TIMES):
        before = ledger.path.read_bytes()
        killed += killer.kill(length, *words(f"{moment}.understudy"))
        after = ledger.path.read_bytes()
        assert after.startswith(before) and len(ledger.records()) - before.count(b"\n") + 1 in (0, 1)
        if (tmp_path / f"{moment}.understudy").exists():
            model = us.load(tmp_path / f"{moment}.understudy")
            assert ledger.fit(model.receipt.id) is not None and after != before
            models += 1
    assert killed and ledger.total("example").fits >= models


def test_a_killed_save_leaves_the_old_model_or_the_new_one(killer, tmp_path):
    sources = [fitted(tmp_path, method) for method in ("independent", "copula")]
    whole, target = {us.load(source).sha256 for source in sources}, tmp_path / "m.understudy"
    status, length = killer.run("save", target, *sources)
    assert status == 0
    killed = 0
    for _ in range(TIMES):
        killed += killer.kill(length, "save", target, *sources)
        assert us.load(target).sha256 in whole
    assert killed


def test_a_killed_charge_is_in_the_ledger_if_it_was_told(killer, tmp_path):
    ledger = LedgerFile(tmp_path / "budget.jsonl")
    ledger.set_cap("example", 1000.0, 0.5)
    status, length = killer.run("charge", ledger.path)
    assert status == 0
    untold, charged = 0, []
    for _ in range(TIMES):
        killer.kill(length, "charge", ledger.path)
        try:
            charged = [record["id"] for record in ledger.records() if record["kind"] == "fit"]
        except LedgerError as error:  # the machine can tear a line, a killing cannot
            pytest.fail(str(error))
        told = killer.told()
        untold += len(charged) - len(told) - untold
        # Each killing leaves one charge at most that nobody was told of, and none the other way round.
        assert set(told) <= set(charged) and len(set(charged)) == len(charged) and untold <= TIMES
    assert ledger.total("example").fits == len(charged)


def test_a_killed_benchmark_goes_on_where_it_was(killer, tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    words = ["bench", "grid.toml", "-o", "results", "--processes", 1, "--quiet"]
    status, length = killer.run("bench", "grid.toml", "-o", "undisturbed", "--processes", 1, "--quiet")
    assert status == 0
    whole = {line["id"]: line["scores"] for line in result_file.read(tmp_path / "undisturbed")}
    for moment in range(TIMES):
        results = tmp_path / "results"
        before = {line["id"] for line in result_file.read(results)} if (results / "runs.jsonl").exists() else set()
        killer.kill(length, *words)
        if (results / "runs.jsonl").exists():
            after = {line["id"]: line["scores"] for line in result_file.read(results)}
            assert before <= set(after) and all(whole[name] == scores for name, scores in after.items())
        if moment % 8 == 7 and (results / "runs.jsonl").exists():  # begin anew
            (results / "runs.jsonl").unlink()
    assert killer.run(*words)[0] == 0
    assert {line["id"]: line["scores"] for line in result_file.read(tmp_path / "results")} == whole


def test_a_killed_report_leaves_the_old_page_or_the_new_one(killer, tmp_path):
    model = fitted(tmp_path, "copula")
    words = ["report", model, "-n", 200, "-o", tmp_path / "page.html"]
    status, length = killer.run(*words)
    assert status == 0
    killed = 0
    for moment in range(TIMES):
        if moment % 3 == 0:
            (tmp_path / "page.html").unlink(missing_ok=True)
            (tmp_path / "page.json").unlink(missing_ok=True)
        killed += killer.kill(length, *words)
        if (tmp_path / "page.html").exists():
            assert (tmp_path / "page.html").read_text().rstrip().endswith("</html>")
        if (tmp_path / "page.json").exists():
            assert json.loads((tmp_path / "page.json").read_text())
    assert killed


@pytest.mark.parametrize("seed", [["--seed", 3], []])
def test_a_fit_that_is_killed_again_and_again_goes_on_and_is_charged_once(seed, killer, tmp_path):
    """Seeded, its model has the same bytes as that of a fit that nobody killed."""

    def words(name, *options):
        budget = ["--method", "mst", "--epsilon", 1, *seed, *options]
        return ["fit", "people.csv", "people.toml", *budget, "-o", name, "--quiet"]

    killer.run(*words("whole.understudy", "--checkpoint", "whole.checkpoint"))
    _, length = killer.run(*words("whole.understudy"))  # the first has more to load
    ledger, checkpoint, killed = LedgerFile(tmp_path / "budget.jsonl"), tmp_path / "fit.checkpoint", 0
    kept = ["--ledger", ledger.path, "--checkpoint", checkpoint]
    for _ in range(3 * TIMES):
        before = checkpoint.read_bytes() if checkpoint.exists() else b""
        killed += killer.kill(0.8 * length, *words("m.understudy", *kept))
        whole = before[: before.rfind(b"\n") + 1]  # a line that was cut off is no release
        assert not checkpoint.exists() or checkpoint.read_bytes().startswith(whole)
        assert not ledger.path.exists() or ledger.total("example").fits == 1
        if (tmp_path / "m.understudy").exists():
            break
    assert killer.run(*words("m.understudy", *kept))[0] == 0 and killed
    model = us.load(tmp_path / "m.understudy")
    assert ledger.total("example").fits == 1 and ledger.fit(model.receipt.id) is not None
    releases = [path.read_bytes().count(b'{"kind": "release"') for path in (checkpoint, tmp_path / "whole.checkpoint")]
    assert releases[0] == releases[1]  # each was released once
    if seed:
        assert (tmp_path / "m.understudy").read_bytes() == (tmp_path / "whole.understudy").read_bytes()
