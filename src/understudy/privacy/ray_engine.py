"""Ray: partitions on a cluster, one task for each.

The one rule: nothing exact is in the clear outside the memory of a process that runs this library. What goes to a task
and what comes back is encrypted under a key of one fit, which is in the driver's memory and goes to each task by value:
small values are part of a task's description, in memory, and never objects that Ray may write to disk. So what Ray
spills, logs or shows is ciphertext, sizes, times and the names of functions. A task raises nothing: what went wrong
comes back encrypted too. An operator who reads the memory of a worker reads rows, as on any machine that computes.

Rows of a database are joined by the driver, and go to the cluster as objects of ciphertext under the same key, one for
each partition; Ray may write these to disk.

A task that Ray tries again has the number of its partition again, so that each partition counts once.

Ray is imported when an engine is made, and not before. Source: RFC 8439 for ChaCha20-Poly1305.
"""

# Ray leaves its types open.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingImports=false

import contextlib
import dataclasses
import importlib
import os
from collections.abc import Generator, Iterator, Sequence
from typing import Any, cast

from understudy.core import ray_tasks, wire
from understudy.core.ray_tasks import EngineError
from understudy.core.workers import one_thread_variables
from understudy.privacy.partitions import Arrays, Derived, Maps, Partition, Read, Task
from understudy.privacy.row_maps import LevelBin, MissingScore, NormalScore, OneHot
from understudy.privacy.stored import Stored

TRIES = 20
"""A task whose worker or node dies is tried again so often."""
_DRAWING = (NormalScore, MissingScore, LevelBin, OneHot)  # The maps that hold a key.
_NONCE = 12  # Bytes of a nonce, before what it encrypts.
_AT_ONCE = 3  # Tasks that are given out for each core of the cluster, so that none waits and few results do.


class RayEngine:
    """Partitions on a Ray cluster.

    Args:
        address: Of the cluster; else RAY_ADDRESS, else one is started on this machine and stopped again.

    Raises:
        ImportError: Ray is not installed.
    """

    def __init__(self, address: str | None = None):
        self._ray: Any = ray_tasks.imported()
        self._address, self._key = address, os.urandom(32)
        self._sent: dict[Stored, Any] = {}

    def __repr__(self) -> str:
        return "RayEngine()"

    def __reduce__(self) -> Any:
        raise TypeError("RayEngine holds a key and is never written anywhere.")

    @contextlib.contextmanager
    def connected(self) -> Generator[None, None, None]:
        """Connects to the cluster for the block; one that was there before it stays."""
        with ray_tasks.cluster(self._address):
            yield

    def each(self, parts: Sequence[Partition], task: Task) -> Iterator[tuple[int, Arrays]]:
        """What a task makes of every partition, by its number, as tasks of the cluster end."""
        ray = self._ray
        alone = {"env_vars": one_thread_variables()}  # a worker has one core, and libraries that would take all
        work = ray.remote(max_retries=TRIES, num_cpus=1, runtime_env=alone)(_work)
        most = _AT_ONCE * max(1, int(ray.cluster_resources().get("CPU", 1)))
        shared = ray.put(encrypted(self._key, Pass(task, levels(parts))))
        left, running = list(enumerate(parts)), {}
        left.reverse()
        while left or running:
            while left and len(running) < most:
                number, part = left.pop()
                sent, blocks = encrypted(self._key, shipped(part)), [*references(part), *self._joined(part)]
                running[work.remote(self._key, sent, shared, *blocks)] = number
            done, _ = ray.wait(list(running), num_returns=1)
            number = running.pop(done[0])
            try:
                made = decrypted(self._key, ray.get(done[0]))
            except ray.exceptions.RayError as error:
                raise EngineError(
                    f"the Ray cluster lost a partition ({type(error).__name__}); nothing of this pass was released."
                ) from None
            if isinstance(made, Failure):
                raise made.error()
            yield number, made

    def _joined(self, part: Partition) -> list[Any]:
        """The reference to the rows of a partition that was joined here, as ciphertext; sent once, for all passes."""
        source = _source(part)
        if not isinstance(source, Stored):
            return []
        if source not in self._sent:
            self._sent[source] = self._ray.put(encrypted(self._key, source.held()))
        return [self._sent[source]]


@dataclasses.dataclass(frozen=True)
class Failure:
    """What went wrong in a task: an error of this library, whose message shows no private value, or a type alone."""

    module: str
    kind: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        kind = type(error)
        if isinstance(error, ValueError | RuntimeError) and kind.__module__.startswith("understudy."):
            return cls(kind.__module__, kind.__qualname__, str(error))
        return cls(
            EngineError.__module__, EngineError.__qualname__, f"a task of the Ray cluster failed ({kind.__name__})."
        )

    def error(self) -> Exception:
        """The error again."""
        kind = getattr(importlib.import_module(self.module), self.kind)
        return kind(self.message)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Pass:
    """What is the same for all partitions of a pass: the task, and the maps of columns, the last derived first."""

    task: Task
    levels: Sequence[Maps]

    def of(self, part: Partition) -> Arrays:
        """What the task makes of a partition, of which the source was sent."""
        for maps in reversed(self.levels):
            part = Derived(part, maps)
        return self.task.of(part)


_LAST: dict[bytes, Pass] = {}  # The pass that a worker has seen last, by the nonce that it came under.


def _work(key: bytes, part: bytes, shared: bytes, *blocks: object) -> bytes:
    """Runs on a worker: what the task makes of a partition, encrypted; whatever goes wrong, encrypted too."""
    try:
        given = decrypted(key, part)
        if (nonce := bytes(shared[:_NONCE])) not in _LAST:
            _LAST.clear()
            _LAST[nonce] = decrypted(key, shared)
        if blocks:
            given = decrypted(key, cast(bytes, blocks[0])) if given is None else _with_block(given, blocks[0])
        return encrypted(key, _LAST[nonce].of(given))
    except BaseException as error:  # a traceback would be written to a log
        return encrypted(key, Failure.of(error))


def levels(parts: Sequence[Partition]) -> list[Maps]:
    """The maps that all partitions are derived by, with keys that open one stream each."""
    found: list[Maps] = []
    part = next(iter(parts), None)
    while isinstance(part, Derived):
        maps = {
            name: dataclasses.replace(each, key=each.key.sealed()) if isinstance(each, _DRAWING) else each
            for name, each in part.maps.items()
        }
        found.append(maps)
        part = part.base
    return found


def _source(part: Partition) -> Partition:
    """The partition that others are derived from."""
    while isinstance(part, Derived):
        part = part.base
    return part


def shipped(part: Partition) -> Partition | None:
    """The source of a partition as a task gets it: without what is kept here. None if its rows go by themselves."""
    source = _source(part)
    if isinstance(source, Stored):
        return None
    if not isinstance(source, Read):
        return source
    alone = dataclasses.replace(source, codes=None)
    return _with_block(alone, None) if references(source) else alone


def references(part: Partition) -> list[Any]:
    """The reference to the block that a partition's rows are in, if they are in a Ray dataset."""
    source = _source(part)
    reference = getattr(source.reader, "reference", None) if isinstance(source, Read) else None
    return [] if reference is None else [reference]


def _with_block(part: Partition, block: Any) -> Partition:
    """A partition whose reader has a block, or none, in the place of the reference to it."""
    assert isinstance(part, Read)
    reader: Any = part.reader
    return dataclasses.replace(part, reader=reader.with_block(block))


def encrypted(key: bytes, value: object) -> bytes:
    """An object under a key and a nonce of its own."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    nonce = os.urandom(_NONCE)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, wire.pack(value), None)


def decrypted(key: bytes, content: bytes) -> Any:
    """The object; only what was encrypted under the same key is ever read."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return wire.unpack(ChaCha20Poly1305(key).decrypt(content[:_NONCE], content[_NONCE:], None))
