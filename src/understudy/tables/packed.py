"""Packed files: the content of a file, unpacked if it was packed by gzip or Zstandard.

The one rule: the first bytes of a file say how it is packed, whatever its name says; a file that is cut short is
damaged and not half a table.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path

from understudy.core.files import most_unpacked

GZIP, ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ENDINGS = (".gz", ".zst")
"""How the name of a packed file ends."""


_MOST_AT_ONCE = 2**23
_FEW_BYTES = 1024  # Four bytes of Zstandard can stand for 128 KiB.


class Damaged(ValueError):
    """The file was packed and cannot be unpacked."""


class Oversized(ValueError):
    """The file would unpack to far more than a table of its size does."""


def is_packed(head: bytes) -> bool:
    """Whether a file that begins like this is packed in one of the two ways."""
    return head.startswith((GZIP, ZSTANDARD))


def is_tabbed(path: Path) -> bool:
    """Whether the ending of a file, packed or not, says that tabs separate its fields."""
    name = path.name.lower()
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name.endswith((".tsv", ".tab"))


def unpacked(path: Path) -> bytes:
    """The whole content of a file.

    Raises:
        OSError: It cannot be read.
        Damaged: It was packed and is cut short or damaged.
        Oversized: It would unpack to far more than a table of its size does.
    """
    content = path.read_bytes()
    if not is_packed(content[:4]):
        return content
    parts = _members(content) if content.startswith(GZIP) else _frames(content)
    limit, whole = most_unpacked(len(content)), bytearray()
    try:
        for part in parts:
            whole += part
            if len(whole) > limit:
                raise Oversized("it unpacks to too much")
    except (EOFError, zlib.error):
        raise Damaged("it cannot be unpacked") from None
    return bytes(whole)


def _members(content: bytes) -> Iterator[bytes]:
    """What gzip packed, in one member or several, a few megabytes at a time."""
    rest = content
    while rest:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            part = member.decompress(rest, _MOST_AT_ONCE)
            rest = member.unconsumed_tail
            if not (part or rest or member.eof):
                raise EOFError("cut short")
            yield part
        rest = member.unused_data.lstrip(b"\0")


def _frames(content: bytes) -> Iterator[bytes]:
    """What Zstandard packed, in one frame or several, so little at a time that no part of it can be large."""
    import zstandard

    place = 0
    while place < len(content):
        frame = zstandard.ZstdDecompressor().decompressobj()
        while not frame.eof:
            fed = content[place : place + _FEW_BYTES]
            if not fed:
                raise EOFError("cut short")
            try:
                part = frame.decompress(fed)
            except zstandard.ZstdError:
                raise EOFError("damaged") from None
            place += len(fed) - len(frame.unused_data)
            yield part
