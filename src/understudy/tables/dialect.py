"""The dialect of a text file: how a table is spelt in it.

The one rule: a dialect is public, like everything in a schema, and `fit` obeys it without a look at the cells. Only a
draft looks: `Dialect.detect` reads a file outside the budget, and whoever keeps what it found declares it public.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from understudy.core.text import did_you_mean
from understudy.tables import detection
from understudy.tables.values import SchemaError, show

ENCODINGS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "utf-8-sig": "utf-8",
    "ascii": "utf-8",
    "us-ascii": "utf-8",
    "utf-16": "utf-16",
    "utf16": "utf-16",
    "utf-16-le": "utf-16-le",
    "utf-16le": "utf-16-le",
    "utf-16-be": "utf-16-be",
    "utf-16be": "utf-16-be",
    "latin-1": "latin-1",
    "latin1": "latin-1",
    "iso-8859-1": "latin-1",
    "iso8859-1": "latin-1",
    "windows-1252": "windows-1252",
    "cp1252": "windows-1252",
    "cp-1252": "windows-1252",
}
"""The encodings that are read, by every name they go by."""
SPACES, APOSTROPHES = " \u00a0\u202f", "'’"
"""Marks that look the same in print: one of them stands for all."""
_THOUSANDS = (",", ".", "_", *SPACES, *APOSTROPHES)
_LONGEST_COMMENT, _LONGEST_CURRENCY = 8, 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dialect:
    """How a table is spelt in a text file: `schema.file`, and `[file]` in TOML.

    Attributes:
        delimiter: What stands between two fields, one ASCII character; the default means a tab in a .tsv or .tab file.
        encoding: "utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1" or "windows-1252". A byte order mark at the
            start of the file comes first.
        decimal: The decimal mark of numbers, "." or ",".
        thousands: What stands between groups of digits in numbers; empty: nothing.
        currency: What stands before or behind an amount and is no part of the number, such as "$" or "EUR"; empty:
            nothing does.
        quote: What stands around a field that holds a delimiter; empty: nothing does.
        comment: How a line begins that is no row; empty: every line is one.
        header: Whether the first line holds the names of the columns. Without it they are column_1, column_2, ….
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    currency: str = ""
    quote: str = '"'
    comment: str = ""
    header: bool = True

    def __post_init__(self):
        for key in ("delimiter", "encoding", "decimal", "thousands", "currency", "quote", "comment"):
            if not isinstance(getattr(self, key), str):
                raise SchemaError(f"file: expected {key} to be text, got {show(getattr(self, key))}.")
        if not isinstance(self.header, bool):
            raise SchemaError(f"file: expected header to be true or false, got {show(self.header)}.")
        canonical = ENCODINGS.get(self.encoding.lower().replace("_", "-"))
        if canonical is None:
            known = ", ".join(dict.fromkeys(ENCODINGS.values()))
            hint = did_you_mean(self.encoding, ENCODINGS)
            raise SchemaError(f"file: expected encoding to be one of {known}, got {show(self.encoding)}.{hint}")
        object.__setattr__(self, "encoding", canonical)
        self._check_marks()

    def _check_marks(self) -> None:
        if not _is_mark(self.delimiter):
            raise SchemaError(f"file: expected delimiter to be one ASCII character, got {show(self.delimiter)}.")
        if self.quote and (not _is_mark(self.quote) or self.quote.isalnum() or self.quote == self.delimiter):
            raise SchemaError(
                f"file: expected quote to be one ASCII mark that is not the delimiter, got {show(self.quote)}."
            )
        if self.decimal not in (".", ","):
            raise SchemaError(f'file: expected decimal to be "." or ",", got {show(self.decimal)}.')
        if self.thousands and (self.thousands not in _THOUSANDS or self.thousands == self.decimal):
            raise SchemaError(
                "file: expected thousands to be a comma, a point, a space, an apostrophe or an underscore that is not "
                f"the decimal mark, got {show(self.thousands)}."
            )
        self._check_currency()
        comment = self.comment
        if comment and (
            comment != comment.strip() or len(comment) > _LONGEST_COMMENT or comment[0] in (self.quote, self.delimiter)
        ):
            raise SchemaError(
                f"file: expected comment to be up to {_LONGEST_COMMENT} visible characters that begin with neither "
                f"quote nor delimiter, got {show(comment)}."
            )

    def _check_currency(self) -> None:
        mark = self.currency
        taken = f"{self.delimiter}{self.quote}+-%()0123456789"
        if mark and (
            not mark.isprintable()
            or mark != mark.strip()
            or len(mark) > _LONGEST_CURRENCY
            or any(letter in taken for letter in mark)
            or mark in (self.decimal, self.thousands)
        ):
            raise SchemaError(
                f'file: expected currency to be up to {_LONGEST_CURRENCY} visible characters such as "$" or "EUR", '
                f"without digits, signs, delimiter and quote, got {show(mark)}."
            )

    @classmethod
    def read(cls, written: object) -> Self:
        """The dialect that a [file] table spells.

        Raises:
            SchemaError: A key is unknown, or a value breaks a rule.
        """
        if isinstance(written, cls):
            return written
        if not isinstance(written, Mapping):
            raise SchemaError(f"file: expected a table [file], got {show(written)}.")
        known = [field.name for field in dataclasses.fields(cls)]
        for key in written:
            if key not in known:
                raise SchemaError(f"file: unknown key {key!r}.{did_you_mean(key, known)} Known: {', '.join(known)}.")
        return cls(**written)

    def stated(self) -> dict[str, Any]:
        """The keys that differ from their defaults, as TOML writes them."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }

    def __str__(self) -> str:
        return ", ".join(f"{key} {show(value)}" for key, value in self.stated().items()) or "in the standard form"

    @classmethod
    def detect(cls, path: str | os.PathLike[str]) -> Self:
        """The dialect that a file seems to have, for a draft of its schema; the default if it is no text.

        Privacy:
            Reads the file outside the budget. What it finds is about the file as a whole (marks between fields and in
            numbers, the encoding, whether there is a header) and contains no cell, but a single row may decide it.
        """
        try:
            return cls(**detection.detect(Path(path)))
        except (OSError, ValueError):  # whoever reads the table says what is wrong with it
            return cls()


def _is_mark(text: str) -> bool:
    """Whether it is one visible ASCII character, or one of the invisible ones that are made to separate."""
    return len(text) == 1 and text.isascii() and (text.isprintable() or text in "\t\x01\x1c\x1d\x1e\x1f")


STANDARD = Dialect()
"""The form that `sample` writes: commas, UTF-8, decimal points, names in the first line."""
