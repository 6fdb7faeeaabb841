"""Starts work in processes of their own, says how far it has come, and stops it.

The one rule: work is known by its folder. A page can be left, the studio can be ended and started again, and the same
work is found where it is: a fit that was charged is not lost because a window was closed.
"""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from understudy.studio.projects import FormError, read_json, write_json

PATIENCE = 10.0
"""Seconds that a process has to end by itself when it is asked to stop; a compiler may not listen for a while."""
_CHILDREN: dict[int, "subprocess.Popen[bytes]"] = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Status:
    """How some work stands.

    Attributes:
        state: "none", "running", "done", "stopped" or "refused".
        what: What is being done.
        share: The part of the time that is gone, 0 to 1; None if it is not known.
        left: The seconds that are probably left; None if it is not known.
        gone: The seconds since it began.
        said: Why it ended, if it did not end well.
    """

    state: str
    what: str = ""
    share: float | None = None
    left: float | None = None
    gone: float = 0.0
    said: str = ""


def start(folder: Path, request: dict[str, Any]) -> None:
    """Starts the work that a request describes, in a folder that is made for it or holds older work of the kind.

    Raises:
        FormError: The same work is running.
    """
    if status(folder).state == "running":
        raise FormError("this is being worked on. Wait until it is done, or stop it.")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("outcome.json", "progress.json", "process.json"):
        (folder / name).unlink(missing_ok=True)
    write_json(folder / "request.json", request | {"started": time.time()})
    child = subprocess.Popen(
        [sys.executable, "-m", "understudy.studio.work", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # a library may print a cell
        start_new_session=True,  # Ctrl-C ends the studio and not a fit that was charged
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    _CHILDREN[child.pid] = child
    write_json(folder / "process.json", {"process": child.pid, "born": _born(child.pid)})


def status(folder: Path) -> Status:
    """How the work in a folder stands."""
    request, outcome = read_json(folder / "request.json"), read_json(folder / "outcome.json")
    gone = time.time() - request.get("started", time.time())
    if outcome:
        said, seconds = str(outcome.get("said") or ""), float(outcome.get("seconds", gone))
        return Status(state=str(outcome.get("state")), said=said, gone=seconds)
    if not request:
        return Status(state="none")
    if not _is_alive(folder):
        outcome = read_json(folder / "outcome.json")  # it may have ended in between
        if outcome:
            return status(folder)
        return Status(state="stopped", said="its process has ended before it was done.", gone=gone)
    noted = read_json(folder / "progress.json")
    since = time.time() - noted.get("time", time.time())
    left, share, expected = noted.get("left"), noted.get("share"), request.get("seconds")
    if share is None and expected:  # before the first note of the fit, by the plan
        share, left = min(gone / expected, 0.5), max(expected - gone, expected / 2)
        since = 0.0
    return Status(
        state="running",
        what=str(noted.get("what", "starting")),
        share=share,
        left=None if left is None else max(left - since, 0.0),
        gone=gone,
    )


def stop(folder: Path) -> Status:
    """Stops the work in a folder as Ctrl-C would and, if it does not listen, for good."""
    if status(folder).state != "running":
        return status(folder)
    pid = int(read_json(folder / "process.json")["process"])
    os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and _is_alive(folder):
        time.sleep(0.05)
    if _is_alive(folder):
        os.kill(pid, signal.SIGKILL)
        while _is_alive(folder):
            time.sleep(0.02)
    if not read_json(folder / "outcome.json"):
        write_json(folder / "outcome.json", {"state": "stopped", "said": "stopped. No file is half-written."})
    return status(folder)


def discard(folder: Path) -> None:
    """Removes the folder of work that is not running."""
    if status(folder).state == "running":
        raise FormError("this is being worked on. Stop it first.")
    shutil.rmtree(folder)


def _is_alive(folder: Path) -> bool:
    """Whether the very process that was started for a folder is still there, and not another of the same number."""
    noted = read_json(folder / "process.json")
    pid = noted.get("process")
    if not isinstance(pid, int):
        return False
    if (child := _CHILDREN.get(pid)) is not None:
        if child.poll() is None:
            return True
        del _CHILDREN[pid]
        return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return noted.get("born") == _born(pid)


def _born(pid: int) -> str | None:
    """When a process was started, in the kernel's clock; None where there is no /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None
