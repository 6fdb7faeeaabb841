"""Faults of the machine: a full disk, a read-only folder, a jumping clock, little memory, damaged bytes, two processes.

Whatever happens: nothing is lost, nothing is charged twice, nothing is spent uncharged, and a refusal is one line.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import threading

import pytest

import understudy as us
from understudy import datasets
from understudy.cli.errors import Refused
from understudy.cli.models import _save
from understudy.model import ModelError
from understudy.privacy.ledger_file import LedgerError, LedgerFile

RUN = "from understudy.cli import main; main()"
LITTLE_MEMORY = """if True:
    import resource, sys
    import understudy
    from understudy.cli import main
    understudy.fit("people.csv", "people.toml", "copula", epsilon=1.0).sample(10)  # all that is needed once is there
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    limit = used + int(sys.argv.pop(1)) * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    main()
"""
SMALL_FILES = """if True:
    import resource, signal, sys
    from understudy.cli import main
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))
    main()
"""
JUMPING_CLOCK = """if True:
    import itertools, time
    jumps = itertools.cycle([0.0, 4e9, -3e9, 1e10, 1.0])
    real, utc = time.time, time.gmtime
    time.time = lambda: real() + next(jumps)
    time.gmtime = lambda seconds=None: utc(time.time() if seconds is None else seconds)
    from understudy.cli import main
    main()
"""


def start(code, *words, cwd=None, **environment):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **environment}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    command = [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(
        command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(code, *words, **options):
    process = start(code, *words, **options)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def is_one_line(status, err):
    return status == 1 and err.count("\n") == 1 and err.startswith("understudy: ")


@pytest.fixture
def folder(tmp_path):
    datasets.example(200).write_csv(tmp_path / "people.csv")
    datasets.example_schema().write(tmp_path / "people.toml")
    return tmp_path


def fit_words(output="m.understudy", ledger="budget.jsonl"):
    return [
        *("fit", "people.csv", "people.toml", "--method", "copula", "--epsilon", 1, "--ledger", ledger),
        *("--quiet", "-o", output),
    ]


def fits(path):
    return LedgerFile(path).total("example").fits if path.exists() and path.stat().st_size else 0


# Disks -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mounted(tmp_path):
    """Mounts a small file system of its own in a new folder; needs the right to mount."""
    made = []

    def mount(*options):
        place = tmp_path / f"disk{len(made)}"
        place.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", place], capture_output=True)
        if done.returncode:
            pytest.skip("mounting a file system needs more rights than this user has")
        made.append(place)
        return place

    yield mount
    for place in made:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [100, 400, 2000])
def test_a_fit_that_cannot_be_written_is_charged_once_or_not_at_all(folder, limit):
    temporary = folder / "temporary"
    temporary.mkdir()
    status, _, err = ended(SMALL_FILES, limit, *fit_words(), cwd=folder, TMPDIR=str(temporary))
    assert is_one_line(status, err) and not (folder / "m.understudy").exists()
    assert fits(folder / "budget.jsonl") == (limit > 300)
    assert ("stays charged" in err) == (limit > 300)
    assert not [path for path in folder.rglob("*") if path.name.endswith(".tmp")]


def test_a_model_that_cannot_be_written_is_kept_elsewhere(folder, monkeypatch):
    """A fit that is done is charged, so its model must not be lost with the folder that it was meant for."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    model = us.fit(folder / "people.csv", folder / "people.toml", "independent", epsilon=1.0)
    with pytest.raises(Refused) as caught:
        _save(model, str(folder / "gone" / "m.understudy"))
    kept = folder / f"{model.receipt.id}.understudy"
    assert str(kept) in caught.value.message and us.load(kept).sha256 == model.sha256


@pytest.mark.slow
def test_a_disk_that_is_nearly_full_is_refused_before_anything_is_charged(folder, mounted):
    disk = mounted("size=300k")
    status, _, err = ended(RUN, *fit_words(output=disk / "m.understudy"), cwd=folder)
    assert is_one_line(status, err) and "KiB left" in err and not (folder / "budget.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["model", "ledger"])
def test_a_read_only_folder_is_refused_before_anything_is_charged(folder, mounted, what):
    disk = mounted("size=10m")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    words = fit_words(disk / "m.understudy") if what == "model" else fit_words(ledger=disk / "budget.jsonl")
    status, _, err = ended(RUN, *words, cwd=folder)
    assert is_one_line(status, err) and "read-only" in err.lower()
    assert not (folder / "budget.jsonl").exists() and not (folder / "m.understudy").exists()


def test_a_file_where_a_folder_should_be_is_one_line(tmp_path):
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(LedgerError, match=r"[Nn]ot a directory"):
        LedgerFile(tmp_path / "folder" / "budget.jsonl").charge("example", 1.0, 1e-6, "copula")


# Memory and time ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [1, 10, 30, 60, 90, 130, 200])
def test_a_fit_without_memory_is_charged_if_it_left_a_model_and_ends_in_few_words(folder, megabytes):
    datasets.example(200_000).write_csv(folder / "many.csv")
    words = ["many.csv" if word == "people.csv" else word for word in fit_words()]
    status, _, err = ended(LITTLE_MEMORY, megabytes, *words, cwd=folder)
    charged, is_there = fits(folder / "budget.jsonl"), (folder / "m.understudy").exists()
    assert charged in (0, 1) and charged >= is_there and is_there == (status == 0)
    if is_there:
        us.load(folder / "m.understudy")
    if status == 1:
        own = [line for line in err.splitlines() if not line.startswith("<jemalloc>")]  # which polars brings along
        assert len(own) == 1 and own[0].startswith("understudy: ")
    else:  # Rust ends a process that has no memory; what counts is that the books are right
        assert status in (0, -6, -11, 134, 139)


@pytest.mark.slow
def test_a_clock_that_jumps_changes_no_amount(folder):
    for number in range(3):
        status, _, err = ended(JUMPING_CLOCK, *fit_words(f"{number}.understudy"), cwd=folder)
        assert (status, err) == (0, "")
    ledger = LedgerFile(folder / "budget.jsonl")
    ids = [us.load(folder / f"{number}.understudy").receipt.id for number in range(3)]
    assert [record["id"] for record in ledger.records()] == ids and ledger.total("example").epsilon == 3.0
    assert "3 fits" in ledger.show()


# Two processes on one ledger ----------------------------------------------------------------------------------------

CHARGE = """if True:
    import fcntl, sys
    if sys.argv[2] == "posix":  # as on a file system that makes a lock of the process of it
        fcntl.flock = fcntl.lockf
    from understudy.privacy.plan import BudgetExceeded
    from understudy.privacy.ledger_file import LedgerFile
    ledger = LedgerFile(sys.argv[1])
    for _ in range(20):
        try:
            ledger.total("people")
            print(ledger.charge("people", 0.1, 1e-7, "copula"), flush=True)
        except BudgetExceeded:
            print("refused", flush=True)
"""


@pytest.mark.parametrize("kind", ["flock", "posix"])
def test_processes_on_one_ledger_never_overspend_whatever_the_lock_is(tmp_path, kind):
    ledger = LedgerFile(tmp_path / "budget.jsonl")
    ledger.set_cap("people", 4.5, 0.5)
    racers = [start(CHARGE, ledger.path, kind) for _ in range(3)]
    answers = [answer for racer in racers for answer in racer.communicate(timeout=60)[0].split()]
    charged = [answer for answer in answers if answer != "refused"]
    assert (len(charged), len(answers)) == (45, 60)
    assert {record["id"] for record in ledger.records() if record["kind"] == "fit"} == set(charged)


@pytest.mark.parametrize("kind", ["flock", "posix"])
def test_threads_of_one_process_never_overspend_whatever_the_lock_is(tmp_path, kind, monkeypatch):
    import fcntl

    if kind == "posix":
        monkeypatch.setattr(fcntl, "flock", fcntl.lockf)
    ledger = LedgerFile(tmp_path / "budget.jsonl")
    ledger.set_cap("people", 1.5, 0.5)
    refused = []

    def charge():
        for _ in range(5):
            try:
                LedgerFile(ledger.path).charge("people", 0.1, 1e-7, "copula")
            except us.BudgetExceeded:
                refused.append(1)

    threads = [threading.Thread(target=charge) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ledger.total("people").fits, len(refused)) == (15, 5)


def test_a_file_system_without_locks_is_one_line_and_nothing_is_charged(tmp_path, monkeypatch):
    import errno
    import fcntl

    def without_locks(descriptor, kind):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", without_locks)
    with pytest.raises(LedgerError, match="No locks available"):
        LedgerFile(tmp_path / "budget.jsonl").charge("people", 1.0, 1e-6, "copula")
    assert (tmp_path / "budget.jsonl").read_bytes() == b""


# Damaged bytes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 7])
def test_a_damaged_byte_anywhere_in_a_ledger_is_told_or_changes_nothing(tmp_path, step):
    ledger = LedgerFile(tmp_path / "budget.jsonl")
    ledger.set_cap("people", 9.0, 1e-4)
    ledger.charge("people", 1.0, 1e-6, "copula")
    ledger.charge("people", 0.25, 1e-7, "aim", version="0.2.0")
    whole, records = ledger.path.read_bytes(), ledger.records()
    told = 0
    changes = [1 << bit for bit in range(8)] if step == 1 else [1]
    for place in range(0, len(whole), step):
        for change in (*changes, whole[place] ^ ord("\n"), whole[place] ^ ord("9")):
            damaged = whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :]
            if damaged == whole:
                continue
            ledger.path.write_bytes(damaged)
            try:
                assert ledger.records() == records
            except LedgerError as error:
                told += 1
                assert "\n" not in str(error)
    assert told > 0.8 * len(changes) * len(whole) / step
    ledger.path.write_bytes(whole.replace(b'"epsilon": 1.0', b'"epsilon": 0.1'))
    with pytest.raises(LedgerError, match="line 3: it was changed after it was written"):
        ledger.charge("people", 1.0, 1e-6, "copula")


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 37])
def test_a_damaged_byte_anywhere_in_a_model_is_told_or_changes_nothing(folder, step):
    model, draw = us.fit(folder / "people.csv", folder / "people.toml", "copula", epsilon=1.0), random.Random(step)
    whole, path = model.to_bytes(), folder / "m.understudy"
    told = 0
    for place in range(0, len(whole), step):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ draw.randrange(1, 256)]) + whole[place + 1 :])
        try:
            assert us.load(path).to_bytes() == whole
        except ModelError as error:
            told += 1
            assert "\n" not in str(error)
    assert told > 0.9 * len(whole) / step


def test_a_model_whose_receipt_was_edited_is_refused(folder):
    import io
    import zipfile

    model = us.fit(folder / "people.csv", folder / "people.toml", "copula", epsilon=1.0)
    with zipfile.ZipFile(io.BytesIO(model.to_bytes())) as before:
        document, arrays = json.loads(before.read("model.json")), before.read("arrays.npz")
    document["receipt"]["budget"]["epsilon"] = 0.1
    with zipfile.ZipFile(folder / "m.understudy", "w") as after:
        after.writestr("model.json", json.dumps(document))
        after.writestr("arrays.npz", arrays)
    with pytest.raises(ModelError, match="was changed after it was written"):
        us.load(folder / "m.understudy")
