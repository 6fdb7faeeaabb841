"""Processes that work through a list of items, one thread each.

The one rule: a process answers for one item at a time. Whatever it dies of is an error of that item, the others go on,
and no process outlives the one that started it. Each has one thread, so that what it computes does not depend on how
many there are.
"""

import collections
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")

ONE_THREAD = {  # Each of these libraries would otherwise take every core, in every process.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


class Answer(NamedTuple, Generic[Item, Found]):
    """An item, what was made of it, and, if nothing was, why not."""

    item: Item
    found: Found | None
    error: str


def spread(function: Callable[[Item], Found], work: Sequence[Item], processes: int) -> Iterator[Answer[Item, Found]]:
    """The answers for all items, as they come.

    Args:
        function: One that another process can import by name, not from a script, with arguments bound by
            `functools.partial` at most.
    """
    waiting = collections.deque(work)
    workers: dict[Connection, Worker[Item, Found]] = {}
    try:
        while waiting or workers:
            while waiting and len(workers) < processes:
                worker = Worker(function)
                worker.give(waiting.popleft())
                workers[worker.connection] = worker
            for ready in multiprocessing.connection.wait(list(workers)):
                assert isinstance(ready, Connection)
                answer, alive = workers[ready].take()
                if alive and waiting:
                    workers[ready].give(waiting.popleft())
                else:
                    workers.pop(ready).stop()
                yield answer
    finally:
        for worker in workers.values():
            worker.stop()


class Worker(Generic[Item, Found]):
    """A process that answers for one item after another, and ends when its parent does."""

    def __init__(self, function: Callable[[Item], Found]):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, os.getpid(), function), daemon=True)
        with _one_thread(), _bare_main():
            self.process.start()
        theirs.close()
        self.items: list[Item] = []

    def give(self, item: Item) -> None:
        self.items = [item]
        self.connection.send(item)

    def take(self) -> tuple[Answer[Item, Found], bool]:
        """The answer for the item that was given, and whether the process lives."""
        [item] = self.items
        try:
            found, error = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(timeout=5)
            error = f"its process ended with code {self.process.exitcode}; was there too little memory?"
            return Answer(item, None, error), False
        return Answer(item, found, error), True

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def answer_for(function: Callable[[Item], Found], item: Item) -> tuple[Found | None, str]:
    """What a function makes of an item, or why it makes nothing."""
    try:
        return function(item), ""
    except Exception as error:  # whatever it is, the other items go on
        return None, f"{type(error).__name__}: {error}"


def one_thread_variables() -> dict[str, str]:
    """The environment in which every library keeps to one thread; other flags of XLA stay."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD['XLA_FLAGS']}".strip()
    return {**ONE_THREAD, "XLA_FLAGS": flags}


@contextlib.contextmanager
def _one_thread() -> Generator[None, None, None]:
    """Sets what the libraries read when a new process imports them, and restores it."""
    before = {key: os.environ.get(key) for key in ONE_THREAD}
    os.environ.update(one_thread_variables())
    try:
        yield
    finally:
        for key, value in before.items():
            os.environ.pop(key) if value is None else os.environ.update({key: value})


@contextlib.contextmanager
def _bare_main() -> Generator[None, None, None]:
    """Keeps a new process from running the script that started it once more, fits and all."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _work(connection: Connection, parent: int, function: Callable[[Any], Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent stops us
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    with contextlib.suppress(EOFError, OSError):  # the parent is gone: nobody would take the result
        while True:
            connection.send(answer_for(function, connection.recv()))


def _end_with(parent: int) -> None:
    """Ends this process, in the middle of its work if need be, when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
