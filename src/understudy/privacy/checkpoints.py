"""Checkpoints: what a fit has released so far, in a file, so that a fit that dies goes on from there.

The one rule: a release is in the file before anybody else has it, and nothing is in the file but releases, the charges
for them, and public facts. A fit that goes on reads its releases back: it neither measures nor pays for them again.

No key that a secret is drawn from is kept. Noise comes from the operating system. Row maps, the choice of a unit's
rows, batches and the noise of a training come from keys that a fit that goes on makes anew; they are independent of the
earlier ones, so that the releases before and after compose. With these keys an adversary could tell more than the
releases do: what is drawn for a row goes by its number, so that one row less shifts the draws of all later ones. What
is kept is the root of draws that are no secret, on which a release may depend without hiding anything (`Key.public`):
random features, offered candidates, first weights.

A mechanism that was charged and died before its release was in the file has released nothing, and may be run again for
the same charge. So that half a line is not half a release, a release is written encrypted under a key of its own, and
once that is on the disk the key follows, in a short line.

The file is one fit's: it is locked while it is in use, knows its own inode, so that a copy cannot go on beside it, and
states the settings that the releases follow from. It knows nothing of the table: a digest of rows would be a release.

Source: RFC 8439 for ChaCha20-Poly1305.
"""

# pyright: strict

import base64
import contextlib
import dataclasses
import itertools
import json
import os
import secrets
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from understudy.core import wire
from understudy.core.files import content_of, lock, sync
from understudy.privacy import ledger_marks
from understudy.privacy.ledger_file import LedgerFile
from understudy.privacy.plan import Budget, Charge

KIND = "understudy checkpoint"
_FORMAT = 1
_CHARGED = [field.name for field in dataclasses.fields(Charge) if field.name != "epsilon"]
_OPENING = b'{"kind": "release", "key": "'
"""How the line begins that makes a release readable."""
_NOTHING = "nothing released"


class CheckpointError(ValueError):
    """The checkpoint is another fit's, in use, damaged or cannot be written. Nothing more was released."""


@dataclasses.dataclass(frozen=True)
class _Release:
    value: Any


@contextlib.contextmanager
def opened(
    path: str | os.PathLike[str], facts: Mapping[str, Any], *, identity: str, started: str
) -> Generator["Checkpoint", None, None]:
    """The checkpoint of a fit, new or as it was left, for the block; nobody else may use it meanwhile.

    Args:
        facts: All that the releases follow from, rows and noise apart: plain values, public.
        identity, started: Of the fit, if it is new.

    Raises:
        CheckpointError: As of the class.
    """
    place = Path(path)
    try:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise CheckpointError(f"{place}: cannot write the checkpoint: {(error.strerror or '').lower()}.") from None
    try:
        lock(descriptor)
        checkpoint = Checkpoint(place, descriptor, facts, identity=identity, started=started)
        try:
            yield checkpoint
        finally:
            checkpoint.note_what_released_nothing()
    except BlockingIOError:
        raise CheckpointError(f"{place}: another process is using this checkpoint. Wait until it has ended.") from None
    finally:
        os.close(descriptor)  # and with it the lock


class Checkpoint:
    """What one fit was charged and has released, in order.

    Attributes:
        identity: Of the fit.
        started: When it began.
        resumed: Whether it was there before.
        public: The root of draws that are no secret; None for a seeded fit.
    """

    def __init__(self, path: Path, descriptor: int, facts: Mapping[str, Any], *, identity: str, started: str):
        self._path, self._descriptor = path, descriptor
        self._entries: list[dict[str, Any] | _Release] = []
        self._place, self._charged, self._sealed = 0, False, ""
        self._mark: Callable[[], None] | None = None  # tells somebody else how many releases there are
        stated = json.loads(json.dumps(dict(facts), default=str))
        content = content_of(descriptor)
        lines = content.split(b"\n")
        head = self._head(lines[0]) if content else None
        if head is not None and head["facts"] != stated and any(lines[1:]):
            self._refuse_other(head["facts"], stated)
        self.resumed = head is not None and head["facts"] == stated
        if head is None or not self.resumed:
            os.ftruncate(descriptor, 0)
            public = None if stated.get("seed") is not None else secrets.token_hex(32)
            own = {"file": os.fstat(descriptor).st_ino, "id": identity, "started": started, "public": public}
            head = dict[str, Any](kind=KIND, format=_FORMAT, **own, facts=stated)
            self._append(head, sync=True)
            sync(path.parent)
        elif head["file"] != os.fstat(descriptor).st_ino:
            raise CheckpointError(
                f"{path} is a copy of a checkpoint, and a fit that goes on twice would release twice what was charged "
                "once. Use the file itself, or start anew with another path."
            )
        else:
            self._read(lines, len(content))
        self.identity, self.started = str(head["id"]), str(head["started"])
        self.public = None if head["public"] is None else int(head["public"], 16)

    @property
    def releases(self) -> int:
        """How many releases were read from the file."""
        return sum(isinstance(entry, _Release) for entry in self._entries)

    def bind(self, book: LedgerFile, table: str) -> None:
        """Marks every release in a ledger file from now on, before anybody has it.

        Raises:
            CheckpointError: The ledger has marks of more releases than the file.
        """
        before, known = self.releases, ledger_marks.marked(book, self.identity)
        if self.resumed and before < known:
            raise CheckpointError(
                f"{self._path} holds {before} of the {known} releases that {book.path} has of this fit: an older state "
                "of it was put back. Put the last one there, or start anew with another path."
            )
        made = itertools.count(before + 1)
        self._mark = lambda: ledger_marks.mark(book, table, self.identity, next(made))

    def charged(self, charge: Charge) -> None:
        """Enters a charge; of a fit that goes on, checks that it is the one that was entered here before.

        Raises:
            CheckpointError: It is another one.
        """
        line = {field: getattr(charge, field) for field in _CHARGED}
        if self._place == len(self._entries):
            self._append({"kind": "charge", **line})
            self._charged = True
        elif self._entries[self._place] == line:
            self._place += 1
        else:
            self._refuse_way(charge.what)

    def kept(self) -> Any:
        """What was released for the charges just entered; None if that is to be measured yet."""
        if self._place < len(self._entries) and isinstance(entry := self._entries[self._place], _Release):
            self._place += 1
            return _copied(entry.value)
        return None

    def keep(self, value: Any) -> None:
        """Writes a release. When it returns, it is on the disk.

        Raises:
            CheckpointError: The disk refuses. Nothing was released.
        """
        if self._place < len(self._entries):
            self._refuse_way("a measurement")
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        key = secrets.token_bytes(32)  # of this one release, so that its nonce may be zero
        sealed = ChaCha20Poly1305(key).encrypt(bytes(12), wire.pack(value), None)
        self._append({"kind": "sealed", "content": base64.b64encode(sealed).decode()}, sync=True)
        self._append({"kind": "release", "key": key.hex()}, sync=True)
        self._charged = False
        if self._mark is not None:
            self._mark()

    def note_what_released_nothing(self) -> None:
        """Enters that what was charged last has released nothing, if so."""
        if self._charged:
            with contextlib.suppress(CheckpointError):  # the next who reads the file finds it out as well
                self._append({"kind": _NOTHING}, sync=True)
                self._charged = False

    # --- The file itself ---

    def _head(self, line: bytes) -> dict[str, Any]:
        with contextlib.suppress(ValueError, RecursionError):
            head: Any = json.loads(line)
            if isinstance(head, dict) and cast("dict[str, Any]", head).get("kind") == KIND:
                found = cast("dict[str, Any]", head)
                if found.get("format") == _FORMAT and {"file", "id", "started", "public", "facts"} <= found.keys():
                    return found
        raise CheckpointError(f"{self._path}: not a checkpoint of this version of understudy. Give another path.")

    def _read(self, lines: list[bytes], size: int) -> None:
        """Reads charges and releases; what was charged last and not released is forgotten, and noted."""
        *whole, rest = lines
        for number, line in enumerate(whole[1:], 2):
            try:
                self._read_line(json.loads(line))
            except Exception:  # whatever a damaged line does, it says no more than that
                self._refuse_damaged(number)
        if rest:
            if rest.startswith(_OPENING) and len(rest) > len(_OPENING):
                self._refuse_damaged(len(lines))
            os.ftruncate(self._descriptor, size - len(rest))
        while self._entries and not isinstance(self._entries[-1], _Release):
            self._entries.pop()
            self._charged = True
        self.note_what_released_nothing()

    def _read_line(self, line: dict[str, Any]) -> None:
        kind = line.pop("kind")
        if kind == "charge":
            self._entries.append({field: line[field] for field in _CHARGED})
        elif kind == "sealed":
            self._sealed = line["content"]
        elif kind == "release":
            from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

            content = ChaCha20Poly1305(bytes.fromhex(line["key"])).decrypt(
                bytes(12), base64.b64decode(self._sealed), None
            )
            self._entries.append(_Release(wire.unpack(content)))
        elif kind == _NOTHING:
            while self._entries and not isinstance(self._entries[-1], _Release):
                self._entries.pop()
        else:
            raise ValueError(kind)

    def _append(self, line: Mapping[str, Any], *, sync: bool = False) -> None:
        content = json.dumps(line).encode() + b"\n"
        before = os.fstat(self._descriptor).st_size
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(self._descriptor, left) :]
            if sync:
                os.fsync(self._descriptor)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, before)
            reason = (error.strerror or "").lower()
            raise CheckpointError(f"{self._path}: cannot write the checkpoint: {reason}.") from None

    def _refuse_other(self, held: Mapping[str, Any], asked: Mapping[str, Any]) -> NoReturn:
        differing = [name for name in asked if held.get(name) != asked[name]]
        raise CheckpointError(
            f"{self._path} is the checkpoint of a fit with another {' and another '.join(differing)}. "
            "Give the same as then, or another path."
        )

    def _refuse_way(self, what: str) -> NoReturn:
        raise CheckpointError(
            f"{self._path}: the fit does not go the way that it went when this checkpoint was made ({what} was not "
            "next). Use the same versions of all libraries, or start anew with another path."
        )

    def _refuse_damaged(self, number: int) -> NoReturn:
        raise CheckpointError(
            f"{self._path}, line {number}: damaged, so that it cannot be told what was released. "
            "Start anew with another path; what was charged stays charged."
        )


def facts_of(
    *, version: str, schema: str, method: str, settings: Mapping[str, Any], budget: Budget, seed: int | None
) -> dict[str, Any]:
    """All that the releases of a fit follow from, rows and noise apart. `schema` is a digest."""
    given = {"version": version, "schema": schema, "method": method, "settings": dict(settings)}
    return {**given, **dataclasses.asdict(budget), "seed": seed}


def is_charged(checkpoint: Checkpoint | None, book: LedgerFile | None, table: str) -> bool:
    """Whether the fit goes on from a checkpoint and an earlier process entered it in the ledger file.

    From now on its releases are marked there, unless it is seeded: such a fit has one id however often it is made.

    Raises:
        CheckpointError: The checkpoint is an older state of itself.
    """
    if checkpoint is None or book is None:
        return False
    if checkpoint.public is not None:
        checkpoint.bind(book, table)
    return checkpoint.resumed and book.path.exists() and book.fit(checkpoint.identity) is not None


def _copied(value: Any) -> Any:
    """The same value with arrays that may be written to."""
    if isinstance(value, np.ndarray):
        return cast("NDArray[Any]", value).copy()
    if isinstance(value, list | tuple):
        parts = [_copied(each) for each in cast("list[Any]", value)]
        return parts if isinstance(value, list) else tuple(parts)
    return value
