"""Columns of whole numbers kept between passes: in memory while they fit, else in an encrypted file without a name.

The one rule: nothing exact is on a disk. What does not fit into memory is written under a key that is in this process
alone, to a file that has no name from the moment it is opened and is gone when the process ends.

Source: RFC 8439 for ChaCha20.
"""

# pyright: strict

import dataclasses
import errno
import os
import tempfile
import threading
import weakref
from typing import Any, BinaryIO, final

import numpy as np
from numpy.typing import NDArray

MEMORY = 2**27
"""Columns kept between passes may take so many bytes of memory before they go to the file."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _Written:
    """Where a column is in the file, and which stream of the cipher hides it."""

    offset: int
    bytes: int
    number: int
    dtype: np.dtype[Any]


@final
class Scratch:
    """Keeps arrays for as long as somebody asks for them.

    Args:
        memory: How many bytes of them may be in memory.
    """

    def __init__(self, memory: int = MEMORY):
        self._free, self._lock = memory, threading.Lock()
        self._key, self._count, self._end = os.urandom(32), 0, 0
        self._file: BinaryIO | None = None

    def keep(self, exact: NDArray[Any]) -> "Kept":
        """A handle to a copy of an array in the smallest type that holds it."""
        small = compact(exact)
        with self._lock:
            if small.nbytes <= self._free:
                self._free -= small.nbytes
                kept = Kept(self, small)
                weakref.finalize(kept, self._give_back, small.nbytes)
                return kept
            written, file = self._placed(small)
        hidden = self._encrypted(small.tobytes(), written.number)
        if os.pwrite(file.fileno(), hidden, written.offset) < len(hidden):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return Kept(self, written)

    def _give_back(self, size: int) -> None:
        with self._lock:
            self._free += size

    def _placed(self, array: NDArray[Any]) -> tuple[_Written, BinaryIO]:
        """A place for an array in the file, and a stream of the cipher that no other has."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="understudy-")  # noqa: SIM115, closed with this object
            weakref.finalize(self, self._file.close)
        written = _Written(self._end, array.nbytes, self._count, array.dtype)
        self._end, self._count = self._end + array.nbytes, self._count + 1
        return written, self._file

    def read(self, written: _Written) -> NDArray[Any]:
        """An array from the file."""
        assert self._file is not None
        content = os.pread(self._file.fileno(), written.bytes, written.offset)
        return np.frombuffer(self._encrypted(content, written.number), written.dtype)

    def _encrypted(self, content: bytes, number: int) -> bytes:
        """The content under the stream of this number; done twice, it is the content again."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

        nonce = bytes(4) + number.to_bytes(12, "little")  # the cipher counts its blocks in the first four
        return Cipher(algorithms.ChaCha20(self._key, nonce), mode=None).encryptor().update(content)


@final
class Kept:
    """A column that a `Scratch` keeps."""

    def __init__(self, scratch: Scratch, held: NDArray[Any] | _Written):
        self._scratch, self._held = scratch, held

    def exact(self) -> NDArray[Any]:
        """The column."""
        return self._scratch.read(self._held) if isinstance(self._held, _Written) else self._held


def compact(exact: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in the smallest type that holds all of them; anything else as it is."""
    if exact.dtype.kind not in "iu" or not len(exact):
        return exact
    least, most = int(exact.min()), int(exact.max())
    for kind in (np.uint8, np.int8, np.uint16, np.int16, np.int32):
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return exact.astype(kind)
    return exact
