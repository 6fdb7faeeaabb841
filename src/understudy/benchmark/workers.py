"""Processes that make batches of runs, one thread each.

The one rule: a process answers for one batch at a time. Whatever it dies of is an error of that batch, the others go
on, and no process outlives the benchmark that started it.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

from understudy.benchmark.batches import perform
from understudy.benchmark.grids import Run
from understudy.benchmark.result_file import Line

_ONE_THREAD = {  # Each of these libraries would otherwise take every core, in every process.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


class Answer(NamedTuple):
    """A batch, the lines of its runs, and why there are none."""

    batch: list[Run]
    lines: list[Line]
    error: str


def spread(work: Sequence[list[Run]], processes: int) -> Iterator[Answer]:
    """The answers of all batches, as they come."""
    waiting = iter(work)
    workers: dict[Connection, Worker] = {}
    try:
        while True:
            while len(workers) < processes and (batch := next(waiting, None)) is not None:
                worker = Worker()
                worker.give(batch)
                workers[worker.connection] = worker
            if not workers:
                return
            for ready in multiprocessing.connection.wait(list(workers)):
                assert isinstance(ready, Connection)
                worker = workers[ready]
                answer, alive = worker.take()
                if alive and (batch := next(waiting, None)) is not None:
                    worker.give(batch)
                else:
                    workers.pop(ready).stop()
                yield answer
    finally:
        for worker in workers.values():
            worker.stop()


class Worker:
    """A process that makes one batch after another, and ends when its parent does."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, os.getpid()), daemon=True)
        with _one_thread():
            self.process.start()
        theirs.close()
        self.batch: list[Run] = []

    def give(self, batch: list[Run]) -> None:
        self.batch = batch
        self.connection.send(batch)

    def take(self) -> tuple[Answer, bool]:
        """The answer for the batch that was given, and whether the process lives."""
        try:
            lines, error = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(timeout=5)
            error = f"its process ended with code {self.process.exitcode}; was there too little memory?"
            return Answer(self.batch, [], error), False
        return Answer(self.batch, lines, error), True

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Sets what the libraries read when a new process imports them, and restores it."""
    before = {key: os.environ.get(key) for key in _ONE_THREAD}
    flags = f"{before['XLA_FLAGS'] or ''} {_ONE_THREAD['XLA_FLAGS']}".strip()
    os.environ.update({**_ONE_THREAD, "XLA_FLAGS": flags})
    try:
        yield
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})


def _work(connection: Connection, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops us
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # the parent is gone: nobody would take the result
        while True:
            connection.send(_answer(connection.recv()))


def _answer(batch: list[Run]) -> tuple[list[Line], str]:
    try:
        return perform(batch), ""
    except Exception as error:  # whatever it is, the other batches go on
        return [], f"{type(error).__name__}: {error}"


def _end_with(parent: int) -> None:
    """Ends this process, in the middle of a run if need be, when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
