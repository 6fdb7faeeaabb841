"""Cores: how many work may be spread over, and that no library spreads its own beside ours."""

import concurrent.futures
import contextlib
import os
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")

ONE_THREAD = "OMP_NUM_THREADS"
"""If this variable says 1, as in the processes of a benchmark, work stays on one core."""


def cores() -> int:
    """Cores that this process may use."""
    if os.environ.get(ONE_THREAD) == "1":
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


FEW = 5000
"""Arrays that are shorter are done with before a thread has started."""


def in_threads(function: Callable[[Item], Found], items: Iterable[Item], *, length: int | None = None) -> list[Found]:
    """What a function makes of each item, in order, on all cores: for array operations, which free the interpreter.

    Args:
        length: Of the arrays that it works on; if they are short, it works on this thread.
    """
    if cores() == 1 or (length is not None and length < FEW):
        return [function(item) for item in items]
    with concurrent.futures.ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(function, items))


@contextlib.contextmanager
def one_thread_each() -> Generator[None, None, None]:
    """Keeps matrix products on the thread that asks for them.

    Work that is spread over cores already would only wait for threads of its own products, and busily.
    """
    from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]

    with threadpool_limits(limits=1, user_api="blas"):
        yield
