"""Crashes: whenever a fit is killed, its file is the old one or the whole new one, and its ledger holds the charge."""

import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

import understudy as us
from understudy import datasets
from understudy.cli import cli
from understudy.privacy.ledger_file import LedgerFile

COMMAND = "from understudy.cli import main; main()"
# Says when it starts, so that a killing can be aimed at the run and not at the start of Python.
ANNOUNCED = "print('ready', flush=True)\n" + COMMAND
SAVE_FOR_EVER = """
import sys, understudy
models = [understudy.load(path) for path in sys.argv[2:]]
print("ready", flush=True)
while True:
    for model in models:
        model.save(sys.argv[1])
"""


def start(code, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until_ready(process):
    assert process.stdout.readline() == "ready\n"


def write_table(folder):
    datasets.example(300).write_csv(folder / "people.csv")
    datasets.example_schema().write(folder / "people.toml")
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_table(tmp_path)


def start_fit(folder, name="m.understudy"):
    options = ["--method", "copula", "--epsilon", "1", "--ledger", folder / "budget.jsonl", "-o", folder / name]
    process = start(ANNOUNCED, "fit", folder / "people.csv", folder / "people.toml", *options)
    wait_until_ready(process)
    return process


def wait_until_charged(process, folder, fits=1):
    """Until the ledger holds so many fits behind its first line, or the process has ended."""
    ledger, deadline = folder / "budget.jsonl", time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if ledger.exists() and ledger.read_bytes().count(b"\n") > fits:
            return
        time.sleep(0.0005)


@pytest.fixture(scope="module")
def length(tmp_path_factory):
    """How long a fit takes from its announcement on."""
    process = start_fit(write_table(tmp_path_factory.mktemp("whole")))
    began = time.monotonic()
    process.communicate(timeout=60)
    assert process.returncode == 0
    return time.monotonic() - began


@pytest.mark.slow
def test_a_fit_killed_at_any_moment_is_charged_if_it_left_a_model(folder, length):
    ledger, moments = LedgerFile(folder / "budget.jsonl"), 12
    ledger.charge("example", 1.0, 1e-6, "earlier")
    charged = before = ledger.total("example").fits
    for moment in range(moments):
        model = folder / f"{moment}.understudy"
        process = start_fit(folder, model.name)
        if moment % 2:  # every other one is let on until it is charged, however slow the machine is
            wait_until_charged(process, folder, charged + 1)
        time.sleep(length * (moment + 0.5) / moments)
        process.kill()
        process.communicate()
        charged, last = ledger.total("example").fits, charged  # raises if a line is torn: these are whole
        assert charged - last in (0, 1)
        if model.exists():
            assert us.load(model).receipt.budget.epsilon == 1.0
            assert charged == last + 1
    assert before < charged


def test_a_fit_killed_once_charged_stays_charged_and_leaves_the_old_file(folder):
    (folder / "m.understudy").write_text("old")
    process = start_fit(folder)
    wait_until_charged(process, folder)
    process.kill()
    process.communicate()
    assert LedgerFile(folder / "budget.jsonl").total("example").fits == 1
    if (folder / "m.understudy").read_bytes() != b"old":
        us.load(folder / "m.understudy")


@pytest.mark.slow
def test_save_killed_at_any_moment_leaves_the_old_model_or_the_new_one(folder):
    sources = [folder / "small.understudy", folder / "large.understudy"]
    for source, method in zip(sources, ["independent", "copula"], strict=True):
        us.fit(folder / "people.csv", folder / "people.toml", method, epsilon=1.0).save(source)
    wholes = {us.load(source).method.name for source in sources}
    target = folder / "m.understudy"
    target.write_bytes(sources[0].read_bytes())
    for moment in range(10):
        process = start(SAVE_FOR_EVER, target, *sources)
        wait_until_ready(process)
        time.sleep(0.003 + 0.0137 * moment)
        process.kill()
        process.communicate()
        loaded = us.load(target)
        assert loaded.method.name in wholes and len(loaded.sample(10)) == 10


@pytest.mark.parametrize("pause", [0.0, *(pytest.param(pause, marks=pytest.mark.slow) for pause in (0.05, 0.2))])
def test_ctrl_c_ends_in_one_line_and_leaves_no_file(folder, pause):
    process = start_fit(folder)
    wait_until_charged(process, folder)
    time.sleep(pause)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    left = {path.name for path in folder.iterdir()}
    if "m.understudy" in left:  # it was quicker than the signal
        us.load(folder / "m.understudy")
        return
    assert (process.returncode, out) == (130, "")
    assert err.count("\n") == 1 and err.startswith("understudy: stopped.")
    assert "stays charged" in err or "Charging had begun" in err
    assert left <= {"people.csv", "people.toml", "budget.jsonl"}


def test_a_torn_ledger_is_told_and_refuses_the_next_fit(folder):
    """What a crash of the machine may leave: a line that does not end."""
    ledger = folder / "budget.jsonl"
    LedgerFile(ledger).charge("example", 1.0, 1e-6, "copula")
    ledger.write_bytes(ledger.read_bytes()[:-20])
    words = ["fit", folder / "people.csv", folder / "people.toml", "--epsilon", 1, "--ledger", ledger]
    result = CliRunner().invoke(cli, [*map(str, words), "-o", str(folder / "m.understudy")], prog_name="understudy")
    assert result.exit_code == 1 and result.stderr.count("\n") == 1
    assert "torn" in result.stderr and not (folder / "m.understudy").exists()
