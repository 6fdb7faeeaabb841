"""Text files of delimited fields: opened, unpacked and decoded as a dialect says.

The one rule: nothing about a file is guessed from its rows. The dialect says how it is spelt; only a byte order mark
and the first line, which are structure and public, are looked at beside it.
"""

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from understudy.core.files import most_unpacked
from understudy.tables import packed
from understudy.tables.dialect import STANDARD, Dialect
from understudy.tables.files import damaged, open_binary, polars_errors
from understudy.tables.quotes import quotes_are_sound, without_comments
from understudy.tables.structure import WIDEST, TableError, distinct_names

_HEAD_BYTES = 65536  # A header without quotes is looked for in so many bytes, to spare polars the whole file.
_BLOCK_BYTES = 1 << 18  # Files are checked in blocks of this size, which fit into a processor's cache.
_ZLIB = (b"x\x01", b"x^", b"x\x9c", b"x\xda")
"""How files packed by zlib begin. polars would unpack them, and their quotes could not be checked here."""
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_WINDOWS = "".join(bytes([octet]).decode("cp1252", "ignore") or chr(octet) for octet in range(256))
"""Windows-1252 with the five bytes that it does not define as control characters, so that every byte is a letter."""


class TextFile:
    """A file of delimited text for as long as it is read.

    Attributes:
        separator: What stands between two fields.
    """

    def __init__(self, path: Path, source: str, dialect: Dialect):
        self.path, self.source, self.dialect = path, source, dialect
        is_unsaid = dialect.delimiter == STANDARD.delimiter
        self.separator = "\t" if is_unsaid and packed.is_tabbed(path) else dialect.delimiter
        with open_binary(path, source) as file:
            self.head = file.read(_HEAD_BYTES)
        self.content = None
        if self.head.startswith(_ZLIB):
            raise damaged(source, "CSV")
        if packed.is_packed(self.head):
            self._hold(self._unpacked())
            if packed.is_packed(self.head):  # polars would unpack the rest
                raise damaged(source, "CSV")
        self._decode()
        if dialect.comment:
            comment, quote = dialect.comment.encode(), dialect.quote.encode()
            self._hold(without_comments(self._whole().removeprefix(codecs.BOM_UTF8), comment, quote))
        if not self.head:
            raise TableError(f"{source} is empty.")

    def _hold(self, content: bytes) -> None:
        self.content, self.head = content, content[:_HEAD_BYTES]

    def _whole(self) -> bytes:
        return self.path.read_bytes() if self.content is None else self.content

    def _unpacked(self) -> bytes:
        try:
            return packed.unpacked(self.path)
        except packed.Oversized:
            raise self._oversized() from None
        except (OSError, ValueError):
            raise damaged(self.source, "CSV") from None

    def _decode(self) -> None:
        """Turns the content into UTF-8, unless it is that already; polars then says whether it is."""
        marked = next((name for mark, name in _BYTE_ORDER_MARKS.items() if self.head.startswith(mark)), None)
        encoding = marked or self.dialect.encoding
        if encoding == "utf-8":
            return
        if encoding == "windows-1252":
            text, _ = codecs.charmap_decode(self._whole(), "strict", _WINDOWS)  # pyright: ignore[reportArgumentType]
        elif encoding.startswith("utf-16") and len(self._whole()) % 2:
            raise TableError(f"{self.source}: expected UTF-16 text. Correct `encoding` under [file].")
        else:
            text = self._whole().decode(encoding, "replace")  # half of a surrogate pair is one odd letter of its cell
        self._hold(text.removeprefix("\ufeff").encode())

    def parse(self, content: bytes | None = None, **options: Any) -> pl.DataFrame:
        """The file, or the content given, as polars reads it; lines too long or too short are no error.

        Names are left out of it, since polars renames the ones that come twice and does not unquote all of them.
        """
        whole = self.path if self.content is None else self.content
        return pl.read_csv(
            whole if content is None else content,
            has_header=False,
            separator=self.separator,
            quote_char=self.dialect.quote or None,
            glob=False,
            truncate_ragged_lines=True,
            extra_columns="ignore",
            missing_columns="insert",
            **options,
        )

    def first_line(self) -> list[str]:
        """The fields of the first line, empty where nothing is written."""
        if self._first_delimiters() >= WIDEST:  # polars would take a kilobyte for each
            raise TableError(f"{self.source}: expected at most {WIDEST} columns, and its first line has more.")
        first, end, _ = self.head.partition(b"\n")
        # Without quotes a header ends with its line, and polars need not be shown the whole file for it.
        alone = end and first.strip() and (not self.dialect.quote or self.dialect.quote.encode() not in first)
        with polars_errors(self.source, "CSV"):
            line = self.parse(first if alone else None, n_rows=1, infer_schema=False, ignore_errors=True)
            return ["" if name is None else name for name in line.row(0)]  # no row: a quote was never closed

    def _first_delimiters(self) -> int:
        """How many delimiters stand in the first line, which ends outside quotes."""
        mark, quote, found, is_open = self.separator.encode(), self.dialect.quote.encode(), 0, False
        for block in self._blocks():
            for line in block.splitlines(keepends=True):
                found += line.count(mark)
                is_open ^= bool(quote) and line.count(quote) % 2 == 1
                if found >= WIDEST or (line.endswith(b"\n") and not is_open):
                    return found
        return found

    def header(self) -> list[str]:
        """The names in the first line: a blank one is column_3 by its place, and one that comes again is name_2."""
        names = self.first_line()
        if not any(names):
            raise TableError(f"{self.source}: expected the names of the columns in the first line, and it is blank.")
        if any("\r" in name for name in names):
            raise TableError(f"{self.source}: expected lines that end in a line feed. Save it with ordinary line ends.")
        return distinct_names(names)

    def check_quotes(self) -> None:
        """Refuses a file in which a quote does not stand at the border of a field; the line is not named, because where
        it is would be a fact about the rows."""
        quote = self.dialect.quote
        if quote and not quotes_are_sound(self._blocks(), self.separator, quote):
            raise TableError(
                f"{self.source} cannot be read as CSV: a quote stands inside a field or is never closed. "
                f"Put the whole field in quotes and double those inside it: {quote}5{quote * 2} disk{quote}."
            )

    def check_lines(self, columns: int) -> None:
        """Refuses a file with so many lines that its cells, 8 bytes each, are more than a file of its size unpacks to.

        A cell takes a character, its delimiter or line feed, so only a packed file or one of blank lines is refused.
        """
        lines = sum(block.count(b"\n") for block in self._blocks())
        if 8 * lines * columns > most_unpacked(self.path.stat().st_size):
            raise self._oversized()

    def _oversized(self) -> TableError:
        return TableError(
            f"{self.source} unpacks to over 256 times its size. If that is right, unpack it, and drop its blank lines."
        )

    def is_one_column(self) -> bool:
        """Whether no separator stands below the first line, though something does."""
        mark, is_below, is_blank = self.separator.encode(), not self.dialect.header, True
        for block in self._blocks():
            if not is_below:
                _, is_below, block = block.partition(b"\n")
            if is_below and mark in block:
                return False
            is_blank = is_blank and not block.strip()
        return not is_blank

    def cuts(self, size: int) -> list[int]:
        """Where the file may be cut into blocks of about so many bytes: at its beginning, and behind ends of lines.

        A line ends outside quotes, of which a sound file has an even number before that place. A file that has to be
        unpacked or decoded is not cut.
        """
        found, place, is_open, quote = [0], 0, False, self.dialect.quote.encode()
        if self.content is not None:
            return found
        for block in self._blocks():
            start = 0
            while (wanted := max(start, found[-1] + size - place)) < len(block):
                is_open ^= bool(quote) and block.count(quote, start, wanted) % 2 == 1
                start, end = wanted, block.find(b"\n", wanted)
                if end < 0:
                    break
                is_open ^= bool(quote) and block.count(quote, start, end) % 2 == 1
                start = end + 1
                if not is_open:
                    found.append(place + start)
            is_open ^= bool(quote) and block.count(quote, start) % 2 == 1
            place += len(block)
        return found if len(found) == 1 or found[-1] < place else found[:-1]

    def between(self, start: int, end: int) -> bytes:
        """The bytes of the file from one place to another."""
        with open_binary(self.path, self.source) as file:
            file.seek(start)
            return file.read(end - start)

    def _blocks(self) -> Iterator[bytes]:
        if self.content is not None:
            for start in range(0, len(self.content), _BLOCK_BYTES):
                yield self.content[start : start + _BLOCK_BYTES]
            return
        with open_binary(self.path, self.source) as file:
            while block := file.read(_BLOCK_BYTES):
                yield block
