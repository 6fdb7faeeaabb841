"""The claims of an Excel workbook: how much its parts unpack to, and how many elements they hold.

The one rule: what a workbook would take is counted before openpyxl is given it. openpyxl makes objects of every element
of a part, and a file of a megabyte can hold hundreds of millions of them.

Source: the Open Packaging Conventions and SpreadsheetML (ECMA-376): a zip archive of XML parts.
"""

import os
import zipfile
from collections.abc import Iterator
from typing import BinaryIO

from understudy.core.files import most_unpacked
from understudy.tables.files import BadClaims, Oversized

MOST_SHEET_ROWS = 2**20
"""A sheet has no more rows than this; one that numbers its rows beyond it is not Excel's."""
_CHUNK = 2**20
# Parts take at most this part of what a file may unpack to: a text is there several times while it is parsed.
_PARTS = 4
# Tags and attributes are objects of about so many bytes; those of parts that are parsed as a whole, of more.
_SHEET_TOKEN, _TOKEN = 64, 128
_LARGE_PARTS = ("xl/worksheets/", "xl/sharedStrings")


def check_workbook(file: BinaryIO) -> None:
    """Refuses a workbook that unpacks to more than a file of its size may, in bytes or in elements.

    Raises:
        BadClaims: It is no sound archive, or its parts declare entities.
        Oversized: It unpacks to too much.
    """
    size = os.fstat(file.fileno()).st_size
    most, unpacked, taken = most_unpacked(size), 0, 0
    try:
        with zipfile.ZipFile(file) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > most:
                raise Oversized("it unpacks to too much")
            for entry in archive.infolist():
                if not entry.filename.lower().endswith((".xml", ".rels")):
                    continue
                token = _SHEET_TOKEN if entry.filename.startswith(_LARGE_PARTS) else _TOKEN
                for chunk in _chunks(archive, entry):
                    unpacked += len(chunk)
                    taken += token * (chunk.count(b"<") + chunk.count(b"="))
                    if unpacked > most // _PARTS or taken > most:
                        raise Oversized("it unpacks to too much")
    except Oversized:
        raise
    except Exception:  # zipfile and zlib raise many kinds
        raise BadClaims("it is damaged") from None


def _chunks(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """The content of a part; entities could make text of nothing, so that no part may declare one."""
    tail = b""
    with archive.open(entry) as part:
        while chunk := part.read(_CHUNK):
            if b"<!ENTITY" in tail + chunk:
                raise BadClaims("it declares entities")
            tail = chunk[-8:]
            yield chunk
