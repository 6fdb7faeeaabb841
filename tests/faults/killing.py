"""A process that runs one command after another and kills each with SIGKILL at a given moment.

    python killing.py < lines of JSON, each {"words": [...], "seconds": number or null}

It loads the library once and forks for every command, so that a killing is aimed at the command and not at the start of
Python. It answers each line with one of its own: how the command ended, and after how many seconds.
"""

import json
import os
import signal
import sys
import threading
import time

import understudy.benchmark.runner
import understudy.evaluation.evaluate
import understudy.model
import understudy.pipeline
import understudy.report.page
from understudy.cli import main
from understudy.privacy.ledger_file import LedgerFile
from understudy.tables import parquet_file


def run(words: list[str]) -> None:
    """In a process of its own: one command, or saving and charging over and over again."""
    if words[0] == "save":
        models = [understudy.model.load(path) for path in words[2:]]
        for _ in range(10):
            for model in models:
                model.save(words[1])
    elif words[0] == "charge":
        for _ in range(50):
            # What is told was charged, whoever dies then.
            os.write(3, f"{LedgerFile(words[1]).charge('example', 0.1, 1e-7, 'copula')}\n".encode())
    else:
        main(words)


def attempt(words: list[str], seconds: float | None, told: int) -> tuple[int, float]:
    """The exit status of a command, negative for the signal that ended it, and how long it ran."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.dup2(told, 3)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        status = 1
        try:
            run(words)
            status = 0
        except SystemExit as leave:
            status = leave.code if isinstance(leave.code, int) else 0 if leave.code is None else 1
        finally:
            os._exit(status)
    timer = None if seconds is None else threading.Timer(seconds, os.kill, (child, signal.SIGKILL))
    if timer:
        timer.start()
    _, status = os.waitpid(child, 0)
    if timer:
        timer.cancel()
        timer.join()
    return os.waitstatus_to_exitcode(status), time.monotonic() - began


if __name__ == "__main__":
    _ = parquet_file  # loaded, like all that a command needs
    for line in sys.stdin:
        asked = json.loads(line)
        with open(asked["told"], "ab") as told:
            print(json.dumps(attempt(asked["words"], asked["seconds"], told.fileno())), flush=True)
