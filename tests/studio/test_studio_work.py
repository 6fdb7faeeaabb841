"""Work in a process of its own: it can be left, stopped, killed and found again, and the ledger says what it cost."""

import concurrent.futures
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from browsing import CANARY, Visitor, fitted, words, write_people
from understudy.pipeline import fit
from understudy.privacy.ledger_file import LedgerFile
from understudy.studio import processes
from understudy.studio.projects import read_json
from understudy.studio.work import perform
from understudy.synthesizers.progress import watched
from understudy.tables.schema import Schema

QUICK = {"epsilon": "1", "delta": "1e-6", "method": "independent"}
SLOW = QUICK | {"method": "prada"}


@pytest.fixture
def visitor(tmp_path):
    write_people(tmp_path / "people.csv")
    return Visitor(tmp_path)


def started(visitor, choice):
    """The address of a fit that was confirmed."""
    visitor.post("/p/people/plan", **choice)
    sent = choice | {"epsilon": "1.0", "delta": "1e-06", "confirmed": "yes"}
    return visitor.post("/p/people/fit", **sent).headers["location"]


def waited(folder: Path, until, seconds: float = 120.0):
    """The status of some work once it is as awaited."""
    deadline = time.monotonic() + seconds
    while not until(found := processes.status(folder)):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def spent(project):
    return LedgerFile(project.ledger).total("people").epsilon if project.ledger.exists() else 0.0


def test_work_that_is_refused_says_why_without_a_cell_and_costs_nothing(visitor):
    project = visitor.opened("people.csv")
    place = project.folder / "fits" / "a-fit"
    place.mkdir(parents=True)
    wrong = project.schema.read_text().replace("[columns.age]", "[columns.years]")
    (place / "schema.toml").write_text(wrong)
    asked = {"task": "fit", "method": "independent", "epsilon": 1.0, "delta": 1e-6, "strict": False, "known": []}
    asked |= {"table": project.table, "ledger": str(project.ledger)}
    (place / "request.json").write_text(json.dumps(asked))
    outcome = perform(place)
    assert outcome["state"] == "refused" and "years" in outcome["said"] and CANARY not in outcome["said"]
    (place / "outcome.json").write_text(json.dumps(outcome))
    shown = words(visitor.get("/p/people/fits/a-fit"))
    assert "What it cost: nothing" in shown and spent(project) == 0


def test_work_whose_process_is_gone_is_not_taken_for_another_of_the_same_number(tmp_path):
    (tmp_path / "request.json").write_text('{"started": 0}')
    (tmp_path / "process.json").write_text(json.dumps({"process": os.getpid(), "born": "another time"}))
    assert processes.status(tmp_path).state == "stopped"


def test_a_watcher_is_told_of_every_charge(tmp_path):
    table = write_people(tmp_path / "people.csv")
    told = []
    with watched(lambda what, expected: told.append((what, expected.share))):
        model = fit(table, Schema.draft(table), "independent", epsilon=1.0)
    assert [what for what, _ in told] == [charge.what for charge in model.receipt.charges]
    assert all(0 <= share <= 1 for _, share in told)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\xff"])
def test_a_damaged_note_is_no_note(tmp_path, text):
    (tmp_path / "progress.json").write_bytes(text.encode("latin-1"))
    assert read_json(tmp_path / "progress.json") == {}


@pytest.mark.slow
def test_a_fit_runs_by_itself_and_is_found_again_by_another_studio(visitor, tmp_path):
    project = visitor.opened("people.csv")
    here = started(visitor, QUICK)
    assert "running" in words(visitor.get(here))
    assert started(visitor, QUICK) == here  # one at a time
    again = Visitor(tmp_path)
    folder = project.folder / "fits" / here.rsplit("/", 1)[1]
    assert waited(folder, lambda found: found.state != "running").state == "done"
    assert "Charged: ε = 1, δ = 1e-06" in words(again.get(here)) and spent(project) == 1.0
    assert CANARY not in (folder / "outcome.json").read_text()
    assert again.get(f"{here}/look/rows").status_code == 200


@pytest.mark.slow
def test_a_double_click_starts_and_charges_one_fit(visitor):
    project = visitor.opened("people.csv")
    visitor.post("/p/people/plan", **QUICK)
    sent = QUICK | {"epsilon": "1.0", "delta": "1e-06", "confirmed": "yes"}
    with concurrent.futures.ThreadPoolExecutor(4) as clicks:
        answers = list(clicks.map(lambda _: visitor.post("/p/people/fit", **sent).headers["location"], range(4)))
    assert len(set(answers)) == 1 and len(project.fits()) == 1
    waited(project.fits()[0].folder, lambda found: found.state != "running")
    assert spent(project) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("charged", [False, True])
def test_a_fit_that_is_stopped_says_what_it_cost(visitor, charged):
    project = visitor.opened("people.csv")
    here = started(visitor, SLOW)
    folder = project.folder / "fits" / here.rsplit("/", 1)[1]
    if charged:
        waited(folder, lambda found: spent(project) > 0 or found.state != "running")
    visitor.post(f"{here}/stop")
    shown = words(visitor.get(here))
    assert "stopped" in shown
    if charged:
        assert "What it cost: ε = 1, δ = 1e-06, which stays charged" in shown and spent(project) == 1.0
    else:
        assert "What it cost: nothing" in shown and spent(project) == 0.0
    assert processes.status(folder).state == "stopped" and not (folder / "model.understudy").exists()


@pytest.mark.slow
def test_a_fit_that_is_killed_stays_charged_and_the_page_says_so(visitor):
    project = visitor.opened("people.csv")
    here = started(visitor, SLOW)
    folder = project.folder / "fits" / here.rsplit("/", 1)[1]
    waited(folder, lambda found: spent(project) > 0)
    os.kill(read_json(folder / "process.json")["process"], signal.SIGKILL)
    waited(folder, lambda found: found.state == "stopped")
    assert "What it cost: ε = 1" in words(visitor.get(here)) and spent(project) == 1.0


@pytest.mark.slow
def test_a_judgement_and_more_rows_are_made_beside_the_fit(visitor):
    project = visitor.opened("people.csv")
    here = fitted(project)
    folder = project.fits()[0].folder
    visitor.post(f"{here}/judge/upload", path="people.csv")
    assert waited(folder / "judge", lambda found: found.state != "running").state == "done"
    assert "The verdict" in words(visitor.get(f"{here}/judge"))
    assert visitor.get(f"{here}/judge/page").status_code == 200
    visitor.post(f"{here}/share", rows="77")
    assert waited(folder / "draw", lambda found: found.state != "running").state == "done"
    assert visitor.get(f"{here}/share/synthetic.csv").text.count("\n") == 78
    assert visitor.get(f"{here}/share/judged.html").status_code == 404  # no budget covers it
    assert spent(project) == 1.0


# The command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def studio(tmp_path):
    """A studio that was started by the command, its first address, and how long it took to print that."""
    write_people(tmp_path / "people.csv")
    command = [sys.executable, "-m", "understudy", "studio", "--no-browser", "--folder", str(tmp_path)]
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    address = re.search(r"http://\S+", process.stdout.readline())
    assert address is not None
    yield process, address[0], begun
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert process.stdout.read().endswith("The studio has ended.\n")
    process.stdout.close()


def asked(address: str, cookie: str = ""):
    return urllib.request.urlopen(urllib.request.Request(address, headers={"cookie": cookie}), timeout=10)


@pytest.mark.slow
def test_a_cold_studio_answers_within_two_seconds(studio):
    _, address, begun = studio
    with asked(address) as answer:
        cookie = answer.headers["set-cookie"].split(";")[0]
    with asked(address.split("?")[0], cookie) as page:
        shown = page.read().decode()
    assert time.monotonic() - begun < 2.0
    assert "Open your first table" in shown


@pytest.mark.slow
def test_the_studio_does_not_answer_at_another_address_of_this_machine(studio):
    port = int(re.findall(r":(\d+)/", studio[1])[0])
    others = {str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), port, type=socket.SOCK_STREAM)}
    for other in others - {"127.0.0.1"} | {"127.0.0.2", "::1"}:
        family = socket.AF_INET6 if ":" in other else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as knocking:
            knocking.settimeout(2)
            assert knocking.connect_ex((other, port)) != 0, other


@pytest.mark.slow
def test_the_first_page_needs_no_large_library(tmp_path):
    heavy = ["jax", "scipy", "polars", "numpy", "dp_accounting", "optax", "pandas"]
    script = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
    script += "from understudy.studio import server; "
    script += f"print([name for name in {heavy} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
