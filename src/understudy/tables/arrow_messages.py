"""The claims of an Arrow file: how many values its messages say they hold, and in how many bytes once unpacked.

The one rule: a claim is checked before memory is taken for it. polars takes the numbers in a file at their word, and a
file that is damaged, or made for it, could ask for more memory than there is: the process would be ended, not refused.

Source: the Arrow columnar format (https://arrow.apache.org/docs/format/Columnar.html), whose messages are tables of
FlatBuffers (https://flatbuffers.dev/internals).
"""

import mmap
import os
import struct
from collections.abc import Iterator
from typing import BinaryIO

from understudy.core.files import most_unpacked
from understudy.tables.files import BadClaims, Oversized

_FILE = b"ARROW1"
_CONTINUED = 0xFFFFFFFF
_DICTIONARIES, _BATCHES = 2, 3  # fields of a footer: blocks of 24 bytes
_HEADER_TYPE, _HEADER, _BODY_LENGTH = 1, 2, 3  # fields of a message
_OF_DICTIONARY, _OF_BATCH = 2, 3  # types of a header
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = 0, 1, 2, 3  # fields of a batch
_VALUE_BYTES = 8  # what a value takes in memory at least
_COMPARED = 256  # so many bytes are compared while one is allocated
_MOST_MESSAGES = 2**20


def check_claims(file: BinaryIO) -> None:
    """Refuses an Arrow file or stream whose claims do not fit together, or exceed what a file of its size may hold.

    Raises:
        BadClaims: They do not fit together.
        Oversized: They exceed it.
    """
    size = os.fstat(file.fileno()).st_size
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            messages = _of_file(content, size) if content[:6] == _FILE else _of_stream(content, size)
            values = unpacked = longest = 0
            for place, end, body, body_end in messages:
                entries, taken, is_dictionary = _check_message(_Tables(content, place, end), body, body_end)
                values, unpacked = values + entries, unpacked + taken
                longest = max(longest, taken // max(entries, 1)) if is_dictionary else longest
        except (IndexError, ValueError, struct.error):
            raise BadClaims("it is damaged") from None
    # A text in a dictionary is compared with others once for every value.
    if max(unpacked + _VALUE_BYTES * values, values * longest // _COMPARED) > most_unpacked(size):
        raise Oversized("it unpacks to too much")


_Message = tuple[int, int, int, int]
"""Where a message begins and ends, and where its body does."""


def _of_file(content: mmap.mmap, size: int) -> Iterator[_Message]:
    """The messages that the footer of a file names."""
    end = size - len(_FILE) - 4
    if content[size - len(_FILE) :] != _FILE:
        raise ValueError("no end")
    start = _within(end - _number(content, "<i", end), 8, end)
    footer = _Tables(content, start, end)
    root = footer.root()
    for field in (_DICTIONARIES, _BATCHES):
        count, place = footer.vector(root, field, 24)
        for block in range(place, place + 24 * count, 24):
            offset, length, body = struct.unpack_from("<qi4xq", content, block)
            yield _message(content, _within(offset, 8, start), length, body, start)


def _of_stream(content: mmap.mmap, size: int) -> Iterator[_Message]:
    """The messages of a stream, one after the other."""
    place = 0
    for _ in range(_MOST_MESSAGES):
        if place + 8 > size or not (length := _number(content, "<I", place + 4)):
            return
        if _number(content, "<I", place) != _CONTINUED:
            raise ValueError("no message")
        tables = _Tables(content, place + 8, _within(place + 8 + length, 8, size))
        message = _message(content, place, 8 + length, tables.number(tables.root(), _BODY_LENGTH, "<q"), size)
        yield message
        place = message[3]
    raise ValueError("too many messages")


def _message(content: mmap.mmap, offset: int, length: int, body: int, end: int) -> _Message:
    if length < 8 or body < 0:
        raise ValueError("a negative length")
    stop = _within(offset + length, 8, end)
    start = offset + (8 if _number(content, "<I", offset) == _CONTINUED else 4)
    return start, stop, stop, _within(stop + body, stop, end)


def _check_message(tables: "_Tables", body: int, end: int) -> tuple[int, int, bool]:
    """How many values a message holds, how many bytes they unpack to, and whether they are a dictionary's."""
    root = tables.root()
    kind = tables.number(root, _HEADER_TYPE, "<B")
    if kind not in (_OF_DICTIONARY, _OF_BATCH):
        return 0, 0, False
    batch = tables.child(root, _HEADER)
    if kind == _OF_DICTIONARY:
        batch = tables.child(batch, 1)
    count, place = tables.vector(batch, _NODES, 16)
    lengths = [_number(tables.content, "<q", node) for node in range(place, place + 16 * count, 16)]
    lengths.append(tables.number(batch, _LENGTH, "<q"))
    if min(lengths) < 0:
        raise ValueError("a negative length")
    packed = tables.place(batch, _COMPRESSION) is not None
    count, place = tables.vector(batch, _BUFFERS, 16)
    unpacked = 0
    for buffer in range(place, place + 16 * count, 16):
        offset, length = struct.unpack_from("<qq", tables.content, buffer)
        start = _within(body + offset, body, end)
        _within(start + length, start, end)
        claimed = _number(tables.content, "<q", start) if packed and length >= 8 else length
        unpacked += max(claimed, length)  # -1: as it is
    return sum(lengths), unpacked, kind == _OF_DICTIONARY


def _within(place: int, least: int, most: int) -> int:
    if not least <= place <= most:
        raise ValueError("out of the file")
    return place


def _number(content: mmap.mmap, form: str, place: int) -> int:
    return struct.unpack_from(form, content, place)[0]


class _Tables:
    """Tables of FlatBuffers between two places of a file; nothing outside of them is read."""

    def __init__(self, content: mmap.mmap, start: int, end: int):
        self.content, self.start, self.end = content, start, end

    def root(self) -> int:
        return self._inside(self.start + self._read("<I", self.start))

    def place(self, table: int, field: int) -> int | None:
        """Where a field of a table is; None if the table does not have it."""
        layout = self._inside(table - self._read("<i", table))
        entry = 4 + 2 * field
        offset = self._read("<H", layout + entry) if entry < self._read("<H", layout) else 0
        return self._inside(table + offset) if offset else None

    def number(self, table: int, field: int, form: str) -> int:
        place = self.place(table, field)
        return 0 if place is None else self._read(form, place)

    def child(self, table: int, field: int) -> int:
        """The table that a field refers to."""
        place = self.place(table, field)
        if place is None:
            raise ValueError("nothing there")
        return self._inside(place + self._read("<I", place))

    def vector(self, table: int, field: int, width: int) -> tuple[int, int]:
        """How many structures of this width a field holds, and where they begin."""
        if self.place(table, field) is None:
            return 0, self.start
        vector = self.child(table, field)
        count = self._read("<I", vector)
        self._inside(vector + 4 + width * count)
        return count, vector + 4

    def _read(self, form: str, place: int) -> int:
        self._inside(place)
        self._inside(place + struct.calcsize(form))
        return _number(self.content, form, place)

    def _inside(self, place: int) -> int:
        return _within(place, self.start, self.end)
