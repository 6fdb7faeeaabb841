"""The ledger file: charged before anything is read, never overspent, refused when damaged."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from understudy.privacy.ledger_file import LedgerError, LedgerFile
from understudy.privacy.plan import Budget, BudgetExceeded

FIT = {
    "kind": "fit",
    "id": "1",
    "table": "people",
    "method": "copula",
    "epsilon": 1.0,
    "delta": 1e-6,
    "time": "2025-01-01T00:00:00Z",
    "version": "",
}
HEADER = b'{"kind": "understudy-ledger", "format": 1}\n'


@pytest.fixture
def ledger(tmp_path):
    return LedgerFile(tmp_path / "budget.jsonl")


def start(code, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def line(**fields):
    return json.dumps({**FIT, **fields}).encode() + b"\n"


# --- Charging ---


def test_a_new_ledger_says_what_it_is_and_then_what_was_spent(ledger):
    identity = ledger.charge("people", 1.0, 1e-6, "copula", version="1.2.3")
    header, fit = map(json.loads, ledger.path.read_text().splitlines())
    assert header == {"kind": "understudy-ledger", "format": 1}
    assert fit == {**FIT, "id": identity, "version": "1.2.3", "time": fit["time"], "digest": fit["digest"]}


def test_totals_are_sums_table_by_table(ledger):
    for _ in range(3):
        ledger.charge("people", 0.1, 1e-7, "copula")
    ledger.charge("places", 2.0, 1e-6, "independent")
    people = ledger.total("people")
    assert (people.epsilon, people.delta, people.fits) == (0.3, 3e-7, 3)
    assert ledger.total("places").epsilon == 2.0
    assert ledger.total("unknown").fits == 0
    assert ledger.tables() == ["people", "places"]


def test_a_cap_allows_exactly_its_sum(ledger):
    ledger.set_cap("people", 0.3, 1e-5)
    for _ in range(3):
        ledger.charge("people", 0.1, 1e-6, "copula")
    with pytest.raises(BudgetExceeded):
        ledger.charge("people", 1e-9, 1e-6, "copula")


def test_a_refusal_says_what_was_spent_asked_and_allowed_and_writes_nothing(ledger):
    ledger.set_cap("people", 1.0, 1e-5)
    ledger.charge("people", 0.8, 1e-6, "copula")
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetExceeded) as caught:
        ledger.charge("people", 0.5, 1e-6, "copula")
    assert str(caught.value) == (
        f"{ledger.path}: table 'people' has spent epsilon = 0.8 of its cap of 1, and this fit asks for 0.5; "
        "nothing was read. Ask for less, or have the cap raised."
    )
    assert ledger.path.read_bytes() == before


def test_delta_is_capped_too(ledger):
    ledger.set_cap("people", 10.0, 1e-6)
    ledger.charge("people", 0.1, 1e-6, "copula")
    with pytest.raises(BudgetExceeded, match=r"has spent delta = 0.000001 of its cap of 1e-06"):
        ledger.charge("people", 0.1, 1e-6, "copula")


def test_a_cap_holds_for_its_own_table_only(ledger):
    ledger.set_cap("people", 0.1, 1e-6)
    ledger.charge("places", 5.0, 1e-5, "copula")
    assert ledger.total("places").fits == 1


@pytest.mark.parametrize(("epsilon", "delta", "field"), [(0.3, 1e-7, "epsilon"), (0.1, 1e-5, "delta")])
def test_a_check_refuses_what_a_charge_would_refuse_and_enters_nothing(ledger, epsilon, delta, field):
    ledger.set_cap("people", 1.0, 1e-5)
    ledger.charge("people", 0.8, 1e-6, "copula")
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetExceeded, match=f"has spent {field} = ") as checked:
        ledger.check("people", epsilon, delta)
    with pytest.raises(BudgetExceeded) as charged:
        ledger.charge("people", epsilon, delta, "copula")
    assert str(checked.value) == str(charged.value)
    assert ledger.path.read_bytes() == before


def test_a_check_passes_what_a_charge_would_enter_and_enters_nothing(ledger):
    ledger.set_cap("people", 0.3, 1e-5)
    ledger.charge("people", 0.2, 1e-6, "copula")
    for _ in range(2):
        ledger.check("people", 0.1, 1e-6)
    assert ledger.total("people").fits == 1
    ledger.charge("people", 0.1, 1e-6, "copula")


def test_a_check_of_a_ledger_that_is_not_there_passes_and_makes_no_file(ledger):
    ledger.check("people", 100.0, 0.5)
    assert not ledger.path.exists()


def test_the_last_cap_holds_and_the_earlier_ones_stay_visible(ledger):
    ledger.set_cap("people", 1.0, 1e-5)
    ledger.set_cap("people", 3.0, 1e-5)
    ledger.charge("people", 2.0, 1e-6, "copula")
    ledger.set_cap("people", 0.5, 1e-5)
    assert ledger.cap("people") == Budget(epsilon=0.5, delta=1e-5)
    assert [record["epsilon"] for record in ledger.records() if record["kind"] == "cap"] == [1.0, 3.0, 0.5]
    with pytest.raises(BudgetExceeded):
        ledger.charge("people", 0.1, 1e-6, "copula")


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 1e-6), (-1, 1e-6), (float("nan"), 1e-6), (1, 0), (1, 1)])
def test_an_amount_that_is_no_budget_is_refused_and_makes_no_file(ledger, epsilon, delta):
    with pytest.raises(ValueError, match="expected a"):
        ledger.charge("people", epsilon, delta, "copula")
    assert not ledger.path.exists()


def test_names_with_newlines_stay_on_their_line(ledger):
    ledger.charge('pe\nop"le é', 1.0, 1e-6, "copula")
    ledger.charge("people", 1.0, 1e-6, "copula")
    assert ledger.tables() == ['pe\nop"le é', "people"]


def test_the_text_shows_totals_caps_and_fits(ledger):
    ledger.set_cap("people", 3.0, 1e-5)
    identity = ledger.charge("people", 0.5, 1e-6, "copula")
    shown = ledger.show()
    assert "spent: epsilon = 0.5, delta = 1e-06 in 1 fit; cap: epsilon = 3, delta = 1e-05" in shown
    assert identity in shown


# --- Damage ---


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER + line() + line()[:30], "line 3: the last line is incomplete"),
        (HEADER + line() + line()[:-1], "line 3: the last line is incomplete"),
        (HEADER[:-1], "line 1: the last line is incomplete"),
        (HEADER + line()[:30] + b"\n", "line 2: not a JSON object"),
        (HEADER + b"{broken\n" + line(), "line 2: not a JSON object"),
        (HEADER + b"\n" + line(), "line 2: not a JSON object"),
        (HEADER + b"\xff\xfe\n", "line 2: not a JSON object"),
        (HEADER + b"\0" * 40 + b"\n", "line 2: not a JSON object"),
        (HEADER + b"[" * 100_000 + b"\n", "line 2: not a JSON object"),
        (HEADER + b"17\n", "line 2: not a JSON object"),
        (HEADER + line(kind="refund"), "line 2: unknown kind of record 'refund'"),
        (HEADER + line(epsilon=-1.0), "line 2: fit: epsilon: expected a finite number > 0, got -1"),
        (HEADER + line(epsilon=float("nan")), "line 2: fit: epsilon: expected a finite number > 0, got nan"),
        (HEADER + line(epsilon="1"), "line 2: fit: epsilon: expected a finite number > 0, got '1'"),
        (HEADER + line(delta=None), "line 2: fit: delta: expected a finite number > 0 and < 1"),
        (HEADER + line(table=3), "line 2: fit: expected text in 'table'"),
        (b'{"kind": "understudy-ledger", "format": 2}\n', "expected ledger format 1, got 2"),
        (line(), "not an understudy ledger"),
        (b"name,age\nx,3\n", "not an understudy ledger"),
    ],
)
def test_a_damaged_or_foreign_file_is_reported_and_left_alone(ledger, content, message):
    ledger.path.write_bytes(content)
    for act in (
        ledger.records,
        ledger.show,
        lambda: ledger.total("people"),
        lambda: ledger.check("people", 1.0, 1e-6),
        lambda: ledger.charge("people", 1.0, 1e-6, "copula"),
        lambda: ledger.set_cap("people", 1.0, 1e-6),
    ):
        with pytest.raises(LedgerError) as caught:
            act()
        assert message in str(caught.value)
        assert str(ledger.path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert ledger.path.read_bytes() == content


def test_an_incomplete_line_is_said_to_count_as_spent(ledger):
    ledger.path.write_bytes(HEADER + line()[:30])
    with pytest.raises(LedgerError, match="A fit may have been started here, so count it as spent"):
        ledger.records()


def test_an_incomplete_line_completed_by_hand_is_accepted_again(ledger):
    ledger.path.write_bytes(HEADER + line()[:-1])
    with ledger.path.open("ab") as file:
        file.write(b"\n")
    assert ledger.total("people").epsilon == 1.0


def test_an_empty_file_is_a_new_ledger(ledger):
    ledger.path.touch()
    assert ledger.records() == []
    ledger.charge("people", 1.0, 1e-6, "copula")
    assert ledger.total("people").fits == 1


# --- Files that cannot be had ---


@pytest.mark.parametrize("write", [True, False])
def test_a_missing_folder_is_one_clear_line(tmp_path, write):
    ledger = LedgerFile(tmp_path / "nowhere" / "budget.jsonl")
    with pytest.raises(LedgerError) as caught:
        ledger.charge("people", 1.0, 1e-6, "copula") if write else ledger.records()
    assert str(caught.value).endswith("No such file or directory. Make the folder first.")


def test_a_ledger_that_is_not_there_cannot_be_shown(ledger):
    with pytest.raises(LedgerError, match="cannot read the ledger: No such file or directory"):
        ledger.show()
    assert not ledger.path.exists()


def test_a_folder_in_its_place_is_one_clear_line(tmp_path):
    with pytest.raises(LedgerError, match="cannot write the ledger: Is a directory"):
        LedgerFile(tmp_path).charge("people", 1.0, 1e-6, "copula")
    with pytest.raises(LedgerError, match="expected a plain file"):
        LedgerFile(tmp_path).records()


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_an_unwritable_folder_is_one_clear_line(ledger):
    ledger.path.parent.chmod(0o500)
    with pytest.raises(LedgerError, match="cannot write the ledger: Permission denied"):
        ledger.charge("people", 1.0, 1e-6, "copula")


def test_a_pipe_in_its_place_does_not_hang(ledger):
    os.mkfifo(ledger.path)
    with pytest.raises(LedgerError, match="expected a plain file"):
        ledger.charge("people", 1.0, 1e-6, "copula")


def test_a_full_disk_leaves_no_half_line(ledger):
    ledger.charge("people", 1.0, 1e-6, "copula")
    before = ledger.path.read_bytes()
    code = """if True:
        import resource, signal, sys
        from understudy.privacy.ledger_file import LedgerError, LedgerFile
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
        try:
            LedgerFile(sys.argv[1]).charge("people", 1.0, 1e-6, "copula")
        except LedgerError as error:
            print(error)
    """
    process = start(code, ledger.path, len(before) + 40)
    out, _ = process.communicate(timeout=20)
    assert "cannot write the ledger" in out
    assert ledger.path.read_bytes() == before


# --- More than one process ---

CHARGE_MANY = """if True:
    import sys
    from understudy.privacy.plan import BudgetExceeded
    from understudy.privacy.ledger_file import LedgerFile
    ledger = LedgerFile(sys.argv[1])
    for _ in range(int(sys.argv[2])):
        try:
            print(ledger.charge("people", 0.1, 1e-7, "copula"), flush=True)
        except BudgetExceeded:
            print("refused", flush=True)
"""


def test_processes_that_race_cannot_overspend(ledger):
    ledger.set_cap("people", 2.5, 1.0 - 1e-9)
    racers = [start(CHARGE_MANY, ledger.path, 10) for _ in range(4)]
    answers = [answer for racer in racers for answer in racer.communicate(timeout=30)[0].split()]
    charged = [answer for answer in answers if answer != "refused"]
    assert (len(charged), len(answers)) == (25, 40)
    assert {record["id"] for record in ledger.records() if record["kind"] == "fit"} == set(charged)
    assert ledger.total("people").epsilon == 2.5


def test_processes_that_race_to_make_the_file_make_one(ledger):
    racers = [start(CHARGE_MANY, ledger.path, 3) for _ in range(4)]
    answers = [answer for racer in racers for answer in racer.communicate(timeout=30)[0].split()]
    assert ledger.total("people").fits == len(answers) == 12
    assert ledger.path.read_bytes().count(b"understudy-ledger") == 1


@pytest.mark.parametrize("moment", [0.0, 0.013, 0.029])
def test_a_killed_process_leaves_every_fit_it_was_told_of_charged(ledger, moment):
    with start(CHARGE_MANY, ledger.path, 100_000) as process:
        assert process.stdout is not None
        told = [process.stdout.readline().strip()]
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        told += process.stdout.read().split()  # not `communicate`, which loses what `readline` has read ahead
    try:
        charged = [record["id"] for record in ledger.records()]
    except LedgerError as error:
        assert "the last line is incomplete" in str(error)
    else:
        # At most one fit was charged and not yet told; the other way round must never happen.
        assert charged[: len(told)] == told
        assert len(charged) - len(told) <= 1


def test_a_lock_that_is_never_released_ends_in_an_error(ledger, monkeypatch):
    monkeypatch.setattr("understudy.privacy.ledger_file._PATIENCE_SECONDS", 0.05)
    with ledger._open(write=True), pytest.raises(LedgerError, match="another process has held the ledger"):
        LedgerFile(ledger.path).charge("people", 1.0, 1e-6, "copula")
