"""The claims of a Parquet file: how many values its footer and its pages say they hold, and in how many bytes.

The one rule: a claim is checked before memory is taken for it. polars takes the numbers in a file at their word, and a
file that is damaged, or made for it, could ask for more memory than there is: the process would be ended, not refused.

Source: the Parquet format (https://parquet.apache.org/docs/file-format/) in Thrift's compact protocol
(https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md).
"""

import mmap
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

from understudy.core.files import most_unpacked
from understudy.tables.files import BadClaims, Oversized

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_DEEPEST = 16
_DATA, _DATA_V2 = 0, 3  # types of pages
_VALUE_BYTES = 8  # what a value takes in memory at least
_COMPARED = 256  # so many bytes are compared while one is allocated

Struct = Mapping[int, Any]
"""The fields of a Thrift structure by their numbers."""


def check_claims(file: BinaryIO) -> None:
    """Refuses a Parquet file whose claims do not fit together, or exceed what a file of its size may unpack to.

    Raises:
        BadClaims: They do not fit together.
        Oversized: They exceed it.
    """
    size = os.fstat(file.fileno()).st_size
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            claimed = _check_file(content, size)
        except (IndexError, KeyError, TypeError, ValueError):
            raise BadClaims("it is damaged") from None
    if claimed > most_unpacked(size):
        raise Oversized("it unpacks to too much")


def group_sizes(file: BinaryIO) -> list[int]:
    """How many rows each row group of a file has, whose claims were checked."""
    size = os.fstat(file.fileno()).st_size
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return [_count(group[3]) for group in _footer(content, size)[0][4]]


def _footer(content: mmap.mmap, size: int) -> tuple[Struct, int]:
    """The footer of a file, and where it begins."""
    end = size - 8
    start = end - int.from_bytes(content[end : end + 4], "little")
    return _Reader(content, _within(start, 4, end), end).struct(), start


def _check_file(content: mmap.mmap, size: int) -> int:
    """How many bytes the values of a sound file take in memory, about."""
    footer, start = _footer(content, size)
    groups = footer[4]
    if sum(_count(group[3]) for group in groups) != _count(footer[3]):
        raise ValueError("rows")
    return sum(_check_chunk(content, start, chunk[3], _count(group[3])) for group in groups for chunk in group[1])


def _check_chunk(content: mmap.mmap, end: int, chunk: Struct, rows: int) -> int:
    """The same of one column in one group of rows, page by page."""
    values, is_flat = _count(chunk[5]), len(chunk[3]) == 1
    place = min(offset for offset in (chunk[9], chunk.get(11)) if offset) if values else 0
    stop = place + _count(chunk[7])
    if (is_flat and values != rows) or (values and not 4 <= place <= stop <= end):
        raise ValueError("chunk")
    found = unpacked = longest = 0
    while found < values:
        reader = _Reader(content, place, stop)
        page = reader.struct()
        place = _within(reader.place + _count(page[3]), 4, stop)
        unpacked += _count(page[2])
        kind = page[1]
        if kind in (_DATA, _DATA_V2):
            found += _count(page[5 if kind == _DATA else 8][1])
        else:
            entries = _count(page[7][1])
            unpacked += _VALUE_BYTES * entries
            longest = max(longest, page[2] // max(entries, 1))
    if found != values:
        raise ValueError("pages")
    # A text in a dictionary is compared with others once for every value.
    return max(unpacked + _VALUE_BYTES * values, values * longest // _COMPARED)


def _count(number: int) -> int:
    if number < 0:
        raise ValueError("a negative count")
    return number


def _within(place: int, least: int, most: int) -> int:
    if not least <= place <= most:
        raise ValueError("out of the file")
    return place


class _Reader:
    """Reads structures of Thrift's compact protocol, and nothing beyond an end."""

    def __init__(self, content: mmap.mmap, place: int, end: int):
        self.content, self.place, self.end = content, place, end

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """The fields of a structure."""
        if depth > _DEEPEST:
            raise ValueError("too deep")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if 4 <= kind <= 6:
            return self._signed()
        if kind == _BINARY:
            return self._skip(self._unsigned())
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._unsigned()
            return self._values(head & 15, count, depth)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._byte()
        if kind == _DOUBLE:
            return self._skip(8)
        if kind == _MAP and not self._byte():
            return {}
        raise ValueError("an unknown type")

    def _values(self, kind: int, count: int, depth: int) -> list[Any]:
        if depth > _DEEPEST or count > self.end - self.place:  # each takes a byte or more
            raise ValueError("a list that is too deep or too long")
        return [self._value(kind, depth + 1) for _ in range(count)]

    def _byte(self) -> int:
        if self.place >= self.end:
            raise ValueError("cut short")
        self.place += 1
        return self.content[self.place - 1]

    def _skip(self, count: int) -> None:
        self.place = _within(self.place + count, 0, self.end)

    def _unsigned(self) -> int:
        number = shift = 0
        while (octet := self._byte()) & 128:
            number |= (octet & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number that is too long")
        return number | octet << shift

    def _signed(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)
