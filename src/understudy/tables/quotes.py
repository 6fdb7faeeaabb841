"""Quotes in text files: whether each of them stands where the format allows one.

The one rule: a quote stands at the border of a field or the file is damaged (RFC 4180, https://www.rfc-editor.org/rfc/
rfc4180). A quoted field begins right behind a separator or at the start of a line, ends right before a separator or at
the end of a line, and doubles the quotes inside it; line feeds in it belong to the cell. Readers make what they like of
any other quote: two rows that begin with a stray one would swallow all rows between them.
"""

from collections.abc import Iterable, Iterator

import numpy as np

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_FEED, _RETURN = b"\n\r"


def quotes_are_sound(blocks: Iterable[bytes], separator: str, quote: str = '"') -> bool:
    """Whether every quote stands at the border of a field or is one of two inside a quoted field.

    Quotes open and close in turn, and two in a row inside a field close it and open it again. So every other quote, the
    first one among them, must follow a separator, a line feed or a quote, and each of the rest must be followed by one
    of them or by the end.
    """
    mark = ord(quote)
    border = np.zeros(256, dtype=bool)
    border[[ord(separator), _LINE_FEED, mark]] = True
    window, opened = b"\n", 0  # one byte that is judged, then those that are not, for want of the two behind them
    for number, block in enumerate(_ended(blocks)):
        window += block.removeprefix(_BYTE_ORDER_MARK) if number == 0 else block
        if mark in window:
            octets = np.frombuffer(window, dtype=np.uint8)
            places = np.flatnonzero(octets[1:-2] == mark) + 1
            opening, closing = places[opened::2], places[1 - opened :: 2]
            behind = octets[closing + 1]
            ends = border[behind] | ((behind == _RETURN) & (octets[closing + 2] == _LINE_FEED))
            if not (border[octets[opening - 1]].all() and ends.all()):
                return False
            opened ^= len(places) & 1
        window = window[-3:]
    return not opened


def _ended(blocks: Iterable[bytes]) -> Iterator[bytes]:
    yield from blocks
    yield b"\n\n"


def without_comments(content: bytes, comment: bytes, quote: bytes) -> bytes:
    """The content without the lines that begin with a comment mark, unless they stand inside a quoted field."""
    kept, start, place, is_open = [], 0, 0, False
    while (found := _next_line(content, comment, place)) is not None:
        is_open ^= bool(quote) and content.count(quote, place, found) % 2 == 1
        place = found + 1
        if not is_open:
            kept.append(content[start:found])
            start = place = content.find(b"\n", found) + 1 or len(content)
    return b"".join([*kept, content[start:]])


def _next_line(content: bytes, beginning: bytes, place: int) -> int | None:
    """Where the next line with this beginning starts, at `place` or behind it."""
    if place == 0 and content.startswith(beginning):
        return 0
    found = content.find(b"\n" + beginning, max(place - 1, 0))
    return None if found < 0 else found + 1
