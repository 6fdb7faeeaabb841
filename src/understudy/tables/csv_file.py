"""CSV files: the columns of a schema out of one, typed by the schema.

The one rule: a quote stands at the border of a field or the file is damaged (RFC 4180, https://www.rfc-editor.org/rfc/
rfc4180). A quoted field begins right behind a separator or at the start of a line, ends right before a separator or at
the end of a line, and doubles the quotes inside it; line feeds in it belong to the cell. Readers make what they like of
any other quote: two rows that begin with a stray one would swallow all rows between them. Such a file is refused, and
the line is not named: where it is would be a fact about the rows.

Files are read with polars (https://docs.pola.rs).
"""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from understudy.tables.files import damaged, kind_of, open_binary, polars_errors
from understudy.tables.schema import Schema
from understudy.tables.structure import FoundColumn, Source, TableError, check_distinct, check_names, wanted

_DRAFT_ROWS = 1000  # The kinds of a draft are guessed from so many rows.
_HEAD_BYTES = 65536  # A header without quotes is looked for in so many bytes, to spare polars the whole file.
_BLOCK_BYTES = 1 << 18  # Quotes are checked in blocks of this size, which fit into a processor's cache.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_OTHER_ARCHIVES = (b"\x28\xb5\x2f\xfd", b"x\x01", b"x^", b"x\x9c", b"x\xda")
"""How files packed by zstd and zlib begin. polars would unpack them, and their quotes could not be checked here."""
_QUOTE, _LINE_FEED, _RETURN = b'"\n\r'


def load_csv(path: Path, source: str, schema: Schema, separator: str) -> Source:
    """Reads the wanted columns in one pass, typed by the schema, so that nothing has to be inferred.

    Columns of numbers are parsed as such while every cell of theirs is a number or empty. As soon as one is not (it has
    space around it, or it is no number at all), all of them are read again as text, and text is parsed to the same
    numbers. Clean files thus cost nothing more.
    """
    file = _File(path, source, separator)
    header = file.header()
    check_names(header, schema, source)
    file.check_quotes()
    places = {name: header.index(name) for name in wanted(schema)}
    dtypes: dict[str, Any] = {str(place): pl.String for place in range(len(header))}
    for column in schema:
        if column.kind in ("categorical", "boolean"):
            # Each with categories of its own, so that codes are small and the text is freed with the column.
            dtypes[str(places[column.name])] = pl.Categorical(pl.Categories.random())
    numbers = {str(places[column.name]): pl.Float64 for column in schema if column.kind in ("continuous", "integer")}
    options = {
        "skip_rows": 1,
        "columns": sorted(places.values()),
        "null_values": [text.strip() for text in schema.missing] or None,
    }
    with polars_errors(source, "CSV"):
        try:
            frame = file.parse(schema=dtypes | numbers, **options)
        except pl.exceptions.PolarsError:
            frame = file.parse(schema=dtypes, ignore_errors=True, **options)
    columns = {name: FoundColumn(series=frame.get_column(str(place)), untyped=True) for name, place in places.items()}
    return Source(columns=columns, kind="polars", name=source)


def csv_kinds(path: Path, source: str, separator: str) -> list[tuple[str, str]]:
    """The name of every column and the kind that the cells of the first 1000 rows suggest."""
    file = _File(path, source, separator)
    header = file.header()
    check_distinct(header, source)
    file.check_quotes()
    with polars_errors(source, "CSV"):
        cells = file.parse(
            skip_rows=1, n_rows=_DRAFT_ROWS, ignore_errors=True, infer_schema_length=None, try_parse_dates=True
        )
    dtypes = cells.dtypes + [pl.String()] * len(header)  # a first row that is too short ends in text
    return [(column, kind_of(dtype)) for column, dtype in zip(header, dtypes, strict=False)]


def csv_texts(path: Path, source: str, separator: str, *, rows: int) -> tuple[list[str], list[pl.Series]]:
    """The names of all columns and the cells of the first rows as text, for a draft of a schema."""
    file = _File(path, source, separator)
    header = file.header()
    check_distinct(header, source)
    file.check_quotes()
    with polars_errors(source, "CSV"):
        cells = file.parse(skip_rows=1, n_rows=rows, ignore_errors=True, infer_schema=False)
    blank = pl.Series([None] * len(cells), dtype=pl.String)  # of the last columns, if the first row is too short
    return header, [*cells.get_columns()[: len(header)], *[blank] * (len(header) - cells.width)]


class _File:
    """A CSV file, packed by gzip or not, for as long as it is read."""

    def __init__(self, path: Path, source: str, separator: str):
        self.path, self.source, self.separator = path, source, separator
        with open_binary(path, source) as file:
            self.head = file.read(_HEAD_BYTES)
        self.content = None
        if self.head.startswith(_GZIP):
            self.content = self._unpacked()
            self.head = self.content[:_HEAD_BYTES]
        if not self.head:
            raise TableError(f"{source} is empty.")
        if self.head.startswith(_OTHER_ARCHIVES):
            raise damaged(source, "CSV")

    def _unpacked(self) -> bytes:
        try:
            return gzip.decompress(self.path.read_bytes())
        except (OSError, EOFError, zlib.error, MemoryError):
            raise damaged(self.source, "CSV") from None

    def parse(self, content: bytes | None = None, **options: Any) -> pl.DataFrame:
        """The file, or the content given, as polars reads it; lines too long or too short are no error.

        Names are left out of it, since polars renames the ones that come twice and does not unquote all of them.
        """
        whole = self.path if self.content is None else self.content
        return pl.read_csv(
            whole if content is None else content,
            has_header=False,
            separator=self.separator,
            glob=False,
            truncate_ragged_lines=True,
            extra_columns="ignore",
            missing_columns="insert",
            **options,
        )

    def header(self) -> list[str]:
        """The names in the first line."""
        first, end, _ = self.head.partition(b"\n")
        # Without quotes a header ends with its line, and polars need not be shown the whole file for it.
        alone = end and first.strip() and b'"' not in first
        with polars_errors(self.source, "CSV"):
            line = self.parse(first if alone else None, n_rows=1, infer_schema=False, ignore_errors=True)
            names = ["" if name is None else name for name in line.row(0)]  # no row: a quote was never closed
        if not any(names):
            raise TableError(f"{self.source}: expected the names of the columns in the first line, and it is blank.")
        if any("\r" in name for name in names):
            raise TableError(f"{self.source}: expected lines that end in a line feed. Save it with ordinary line ends.")
        return names

    def check_quotes(self) -> None:
        """Refuses a file in which a quote does not stand at the border of a field."""
        if not quotes_are_sound(self._blocks(), self.separator):
            raise TableError(
                f"{self.source} cannot be read as CSV: a quote stands inside a field or is never closed. "
                'Put the whole field in quotes and double those inside it: "5"" disk".'
            )

    def _blocks(self) -> Iterator[bytes]:
        if self.content is not None:
            for start in range(0, len(self.content), _BLOCK_BYTES):
                yield self.content[start : start + _BLOCK_BYTES]
            return
        with open_binary(self.path, self.source) as file:
            while block := file.read(_BLOCK_BYTES):
                yield block


def quotes_are_sound(blocks: Iterable[bytes], separator: str) -> bool:
    """Whether every quote stands at the border of a field or is one of two inside a quoted field.

    Quotes open and close in turn, and two in a row inside a field close it and open it again. So every other quote, the
    first one among them, must follow a separator, a line feed or a quote, and each of the rest must be followed by one
    of them or by the end.
    """
    border = np.zeros(256, dtype=bool)
    border[[ord(separator), _LINE_FEED, _QUOTE]] = True
    window, opened = b"\n", 0  # one byte that is judged, then those that are not, for want of the two behind them
    for number, block in enumerate(_ended(blocks)):
        window += block.removeprefix(_BYTE_ORDER_MARK) if number == 0 else block
        if _QUOTE in window:
            octets = np.frombuffer(window, dtype=np.uint8)
            places = np.flatnonzero(octets[1:-2] == _QUOTE) + 1
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
