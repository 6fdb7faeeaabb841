"""Memory: freed memory is kept unless whoever started the process has decided otherwise."""

import ctypes
import subprocess
import sys

import pytest

from understudy.core import memory

FAULTS = """
import resource
import numpy as np
from understudy.core.memory import keep_freed_memory
kept = keep_freed_memory()
def work():
    arrays = [np.ones(2**16) for _ in range(16)]
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    work()
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
HAS_MALLOPT = sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "mallopt")


def run(**variables):
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True, env=variables)
    return [int(each) for each in done.stdout.split()]


@pytest.mark.skipif(not HAS_MALLOPT, reason="another C library")
def test_arrays_take_no_pages_anew(monkeypatch):
    path = {"PYTHONPATH": ":".join(sys.path)}
    kept, faults = run(**path)
    left, more = run(**path, MALLOC_MMAP_THRESHOLD_="131072")
    assert (kept, left) == (1, 0)
    assert faults < 0.1 * more


def test_a_library_without_the_function_is_left_alone(monkeypatch):
    def missing(name):
        raise OSError

    for name in memory.GIVEN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert not memory.keep_freed_memory.__wrapped__()
