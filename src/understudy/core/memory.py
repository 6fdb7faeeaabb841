"""Memory that arrays have freed: the process keeps some of it for the next ones.

The C library gives what is freed at the end of the heap back to the system at once, from 128 KiB on. An array operation
that makes a result of that size then takes pages anew each time, and the system clears them; for arrays of 10⁴ to 10⁶
numbers that takes as long as the operation. Drawing rows takes two thirds of the time if the memory is kept.

The one rule: it changes how long things take, and nothing else.

Source: mallopt(3), of the GNU C library.
"""

import contextlib
import ctypes
import functools
import os
import sys

KEPT = 2**26
"""Bytes at the end of the heap that are kept."""
OF_THE_HEAP = 2**22
"""Arrays of fewer bytes come from the heap; whole columns of many rows would leave gaps in it."""
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""What mallopt calls them."""
GIVEN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
"""If one of these variables is set, whoever started the process has decided."""


@functools.cache
def keep_freed_memory() -> bool:
    """Lets this process keep up to `KEPT` bytes that it has freed; says whether it does.

    On systems with another C library nothing happens.
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in GIVEN):
        return False
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(TRIM_THRESHOLD, KEPT) and mallopt(MMAP_THRESHOLD, OF_THE_HEAP))
    return False
