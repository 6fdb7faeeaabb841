"""Cores: how many work may be spread over, and that no library spreads its own beside ours."""

import contextlib
import os
from collections.abc import Generator

ONE_THREAD = "OMP_NUM_THREADS"
"""If this variable says 1, as in the processes of a benchmark, work stays on one core."""


def cores() -> int:
    """Cores that this process may use."""
    if os.environ.get(ONE_THREAD) == "1":
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def one_thread_each() -> Generator[None, None, None]:
    """Keeps matrix products on the thread that asks for them.

    Work that is spread over cores already would only wait for threads of its own products, and busily.
    """
    from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]

    with threadpool_limits(limits=1, user_api="blas"):
        yield
