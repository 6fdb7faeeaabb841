"""Files that are replaced as a whole, locks on files, and the cache folder.

The one rule: nothing is written in place. A new file is made beside the old, synced to disk and then renamed over it,
so that whoever opens it finds the old file or the new one, and nothing in between.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Generator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[Path, None, None]:
    """Gives a temporary file beside `path` that replaces it when the block ends without an error.

    Whatever happens, and whenever the process dies, `path` is the old file or the whole new one.

    Raises:
        OSError: The file cannot be written there.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError("it is a folder")
    if target.exists() and not target.is_file():
        raise OSError("it is not a regular file")
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    temporary.touch(exist_ok=False)
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(target.parent)


def content_of(descriptor: int) -> bytes:
    """All of an open file, wherever it was read to."""
    content = bytearray()
    while part := os.pread(descriptor, 2**20, len(content)):
        content += part
    return bytes(content)


def sync(path: Path) -> None:
    """Has the system write down what it has of a file or a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(descriptor: int, *, shared: bool = False, patience: float = 0.0) -> None:
    """Locks an open file, until its descriptor is closed.

    Args:
        shared: Whether other processes may hold the lock too, as readers.
        patience: Seconds to wait for a process that holds it.

    Raises:
        BlockingIOError: Another process still holds the lock.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.005)


def most_unpacked(size: int) -> int:
    """How many bytes a packed file of this size may unpack to: 256 MiB, or 256 times its size if that is more.

    Tables and models pack to a tenth or a hundredth, so that a file beyond this was made to fill somebody's memory.
    """
    return max(2**28, 256 * size)


def sha256(content: bytes | str) -> str:
    """The SHA-256 of bytes, or of text in UTF-8, in hexadecimal: what `sha256sum` prints."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def reason(error: Exception) -> str:
    """Why the operating system refused, in its own words and without the path."""
    return str(getattr(error, "strerror", None) or error).lower()


def cache_folder() -> Path:
    """The folder for downloaded tables and compiled programs: `understudy` in XDG_CACHE_HOME, or in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy"
