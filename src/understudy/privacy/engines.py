"""Engines: who sums over the partitions of a table.

The one rule: an engine makes no difference to a model. It hands partitions to a task of this folder and brings back
what the task made of each, by the partition's number.
"""

# pyright: strict

import contextlib
from collections.abc import Generator

from understudy.core import ray_tasks
from understudy.privacy.ray_engine import RayEngine

Summing = RayEngine


def resolve(name: str, address: str | None = None) -> Summing | None:
    """The engine of a name; None for the cores of this machine.

    Raises:
        EngineError: There is no such engine, or an address is given for one that has none.
        ImportError: Its library is not installed.
    """
    ray_tasks.check(name, address)
    return RayEngine(address) if name == "ray" else None


@contextlib.contextmanager
def running(engine: Summing | None) -> Generator[None, None, None]:
    """Connects to the engine's cluster for the block."""
    if engine is None:
        yield
        return
    with engine.connected():
        yield
