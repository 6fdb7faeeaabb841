"""Work on a cluster: items as tasks of Ray, with the same answers as processes of this machine give.

The one rule: Ray is imported when it is asked for, and at no other time. A task is one item, so whatever it dies of is
an error of that item; Ray tries an item again whose worker or node is lost. A cluster that was started here is
stopped here.
"""

import contextlib
import importlib
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeVar

from understudy.core.processors import cores
from understudy.core.workers import Answer, answer_for, one_thread_variables, spread

Item = TypeVar("Item")
Found = TypeVar("Found")

ENGINES = ("local", "ray")
WAITING_PER_CORE = 2
"""How many tasks are handed to Ray for each of its cores, so that none waits for the next one."""


class EngineError(ValueError):
    """The engine is unknown, its cluster cannot be reached, or it failed. What it was doing has no result."""


def check(engine: str, address: str | None) -> None:
    """Refuses an engine that does not exist, and an address that none would use.

    Raises:
        EngineError: It says which.
    """
    if engine not in ENGINES:
        raise EngineError(f"engine: expected {' or '.join(ENGINES)}, got {engine!r}.")
    if address is not None and engine != "ray":
        raise EngineError(f"address: expected engine 'ray' with an address, got {engine!r}.")


def spread_over(
    function: Callable[[Item], Found],
    work: Sequence[Item],
    *,
    processes: int | None,
    engine: str = "local",
    address: str | None = None,
) -> Iterator[Answer[Item, Found]]:
    """The answers for all items, as they come.

    Args:
        processes: How many processes of this machine; None for one a core. On a cluster, Ray decides.
        engine: "local", or "ray" for tasks on a cluster.
        address: Of the cluster; None for the one that RAY_ADDRESS names, or else one of this machine alone.

    Raises:
        EngineError: There is no such engine, or no cluster at that address.
    """
    check(engine, address)
    if engine == "ray":
        return _tasks(function, work, address)
    return spread(function, work, processes or os.cpu_count() or 1)


def _tasks(
    function: Callable[[Item], Found], work: Sequence[Item], address: str | None
) -> Iterator[Answer[Item, Found]]:
    with cluster(address) as ray:
        task = ray.remote(answer_for).options(
            num_cpus=1, max_retries=3, runtime_env={"env_vars": one_thread_variables()}
        )
        shared, waiting = ray.put(function), iter(work)
        most = WAITING_PER_CORE * max(int(ray.cluster_resources().get("CPU", 1)), 1)
        given: dict[Any, Item] = {}
        while True:
            for item in waiting:
                given[task.remote(shared, item)] = item
                if len(given) >= most:
                    break
            if not given:
                return
            ready, _ = ray.wait(list(given), num_returns=1)
            item = given.pop(ready[0])
            try:
                found, error = ray.get(ready[0])
            except ray.exceptions.RayError as lost:
                found, error = None, f"{type(lost).__name__}: its worker or its node was lost"
            yield Answer(item, found, error)


@contextlib.contextmanager
def cluster(address: str | None = None) -> Generator[Any, None, None]:
    """The package `ray`, connected to a cluster: the one that this process uses already, or else as `spread_over` says.

    Raises:
        ImportError: Ray is not installed.
        EngineError: There is no cluster at that address.
    """
    ray = imported()
    if ray.is_initialized():
        yield ray
        return
    place = address or os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"include_dashboard": False, "num_cpus": cores()} if place == "local" else {}
    try:
        ray.init(address=place, log_to_driver=False, logging_level="error", **options)
    except (ConnectionError, ValueError, RuntimeError):
        raise EngineError(f"no Ray cluster answers at {place!r}. Start one, or leave the address out.") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def imported() -> Any:
    """The package `ray`.

    Raises:
        ImportError: It is not installed; the message says what to install.
    """
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise ImportError("the engine 'ray' needs Ray: pip install 'understudy-dp[ray]'.") from None


def datasets() -> Any:
    """The package `ray.data`.

    Raises:
        ImportError: It is not installed; the message says what to install.
    """
    imported()
    try:
        return importlib.import_module("ray.data")
    except ImportError:
        raise ImportError("Ray datasets need ray[data]: pip install 'understudy-dp[ray]'.") from None
