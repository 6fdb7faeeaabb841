"""Engines: who sums over the partitions of a table.

The one rule: an engine makes no difference to a model. It hands partitions to a task of this folder and brings back
what the task made of each, by the partition's number.
"""

# pyright: strict

import contextlib
from collections.abc import Generator

from understudy.privacy.ray_engine import RayEngine

NAMES = ("local", "ray")
Summing = RayEngine


class WrongEngine(ValueError):
    """There is no such engine, or it has no address."""


def resolve(name: str, address: str | None = None) -> Summing | None:
    """The engine of a name; None for the cores of this machine.

    Raises:
        WrongEngine: There is no such engine, or an address is given for one that has none.
        ImportError: Its library is not installed.
    """
    if name not in NAMES:
        raise WrongEngine(f"engine: expected one of {', '.join(NAMES)}, got {name!r}.")
    if name == "local":
        if address is not None:
            raise WrongEngine('address: the local engine has none. Set engine to "ray", or leave the address out.')
        return None
    return RayEngine(address)


@contextlib.contextmanager
def running(engine: Summing | None) -> Generator[None, None, None]:
    """Connects to the engine's cluster for the block."""
    if engine is None:
        yield
        return
    with engine.connected():
        yield
