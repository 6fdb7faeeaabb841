"""How many cores work may be spread over."""

import os

ONE_THREAD = "OMP_NUM_THREADS"
"""If this variable says 1, as in the processes of a benchmark, work stays on one core."""


def cores() -> int:
    """Cores that this process may use."""
    if os.environ.get(ONE_THREAD) == "1":
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
