"""Packed files: the content of a file, unpacked if it was packed by gzip or Zstandard.

The one rule: the first bytes of a file say how it is packed, whatever its name says; a file that is cut short is
damaged and not half a table.
"""

import gzip
import zlib
from pathlib import Path

GZIP, ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
ENDINGS = (".gz", ".zst")
"""How the name of a packed file ends."""


class Damaged(ValueError):
    """The file was packed and cannot be unpacked."""


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
    """
    content = path.read_bytes()
    try:
        if content.startswith(GZIP):
            return gzip.decompress(content)
        return _frames(content) if content.startswith(ZSTANDARD) else content
    except (OSError, EOFError, zlib.error, MemoryError, ValueError):
        raise Damaged("it cannot be unpacked") from None


def _frames(content: bytes) -> bytes:
    """What Zstandard packed, in one frame or several."""
    import zstandard

    parts = []
    while content:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(content))
        except zstandard.ZstdError:
            raise ValueError("damaged") from None
        if not frame.eof:
            raise ValueError("cut short")
        content = frame.unused_data
    return b"".join(parts)
