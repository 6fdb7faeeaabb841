"""Files of other programs that would fill a machine's memory if they were believed: Arrow, Excel, SPSS and Stata."""

import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc

from understudy import datasets

MB = 10**6
NAMES = datasets.example_schema().names
SHEET, STYLES = "xl/worksheets/sheet1.xml", "xl/styles.xml"
TYPES, STRINGS = "[Content_Types].xml", "xl/sharedStrings.xml"
STRINGS_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"


def arrows() -> dict[str, bytes]:
    """Columns that pack well, columns that take no bytes at all, and a long text that all cells share."""
    zeros = pa.array(np.zeros(8 * MB))
    shared = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3 * MB, np.int32)), pa.array(["x" * MB]))
    few = pa.array(np.zeros(3 * MB))
    return {
        "zeros.arrow": _arrow(dict.fromkeys(NAMES, zeros)),
        "stream.arrow": _arrow(dict.fromkeys(NAMES, zeros), pyarrow.ipc.new_stream),
        "nothing.arrow": _arrow(dict.fromkeys(NAMES, pa.nulls(10**9))),
        "nothing.feather": _arrow(dict.fromkeys(NAMES, pa.nulls(10**9)), pyarrow.ipc.new_stream),
        "shared.feather": _arrow({name: shared if name == "region" else few for name in NAMES}),
    }


def _arrow(columns: dict[str, pa.Array], kind=pyarrow.ipc.new_file) -> bytes:
    whole, table = io.BytesIO(), pa.table(columns)
    with kind(whole, table.schema, options=pyarrow.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return whole.getvalue()


def workbooks() -> dict[str, bytes]:
    """Rows, elements and texts without end, and cells so far out that those before them fill the memory."""
    override = f'<Override PartName="/{STRINGS}" ContentType="{STRINGS_TYPE}"/>'.encode()
    far = b'<row r="999999999999"><c r="A999999999999"><v>0</v></c></row>'
    return {
        "rows.xlsx": _book(SHEET, b"</sheetData>", b"<row><c><v>0</v></c></row>" * 9 * MB),
        "wide.xlsx": _book(SHEET, b"</sheetData>", b'<row><c r="XFD1"><v>0</v></c></row>' * 30_000),
        "far.xlsx": _book(SHEET, b"</sheetData>", far),
        "elements.xlsx": _book(SHEET, b"</sheetData>", b"<x/>" * 12 * MB),
        "before.xlsx": _book(SHEET, b"<sheetData>", b"<x/>" * 12 * MB),
        "attributes.xlsx": _book(
            SHEET, b"</sheetData>", b"<x " + b" ".join(b'a%d=""' % i for i in range(MB // 4)) + b"/>"
        ),
        "text.xlsx": _book(SHEET, b"</sheetData>", _cell("\U0001f600".encode() + b"x" * 60 * MB)),
        "long.xlsx": _book(SHEET, b"</sheetData>", _cell(b"x" * 300 * MB)),
        "strings.xlsx": _book(
            TYPES, b"</Types>", override, {STRINGS: b"<sst>" + b"<si><t>ab</t></si>" * 3 * MB + b"</sst>"}
        ),
        "styles.xlsx": _book(STYLES, b"</styleSheet>", b"<x/>" * 20 * MB),
        "entities.xlsx": _book(SHEET, b"<worksheet", b'<!DOCTYPE a [<!ENTITY b "bbbbbbbb">]>'),
    }


def _cell(text: bytes) -> bytes:
    return b'<row><c t="inlineStr"><is><t>' + text + b"</t></is></c></row>"


def _book(part: str, place: bytes, added: bytes, more: dict[str, bytes] | None = None) -> bytes:
    """A sound workbook with something added to a part, before a place, and with more parts."""
    import openpyxl

    sound, whole, book = io.BytesIO(), io.BytesIO(), openpyxl.Workbook()
    for row in (list(NAMES), [1, 2, 3, 4, 5, "north", 7]):
        book.worksheets[0].append(row)
    book.save(sound)
    with zipfile.ZipFile(sound) as old, zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        for name in old.namelist():
            content = old.read(name)
            assert name != part or content.count(place) == 1
            new.writestr(name, content.replace(place, added + place) if name == part else content)
        for name, content in (more or {}).items():
            new.writestr(name, content)
    return whole.getvalue()


def statistics() -> dict[str, bytes]:
    """Packed rows, and cells of Stata that all refer to one long text."""
    import pyreadstat

    with tempfile.TemporaryDirectory() as folder:
        packed, linked = Path(folder, "rows.zsav"), Path(folder, "linked.dta")
        rows: Any = pd.DataFrame(dict.fromkeys(NAMES, np.zeros(MB)))  # which pyreadstat takes for one of its own
        pyreadstat.write_sav(rows, packed, row_compress=False, compress=True)
        texts = pd.DataFrame(dict.fromkeys(NAMES, np.zeros(2000))).assign(region="y" * (MB // 2))
        texts.to_stata(linked, version=117, convert_strl=["region"], write_index=False)
        return {path.name: path.read_bytes() for path in (packed, linked)}


BOMBS = {"arrow": arrows, "excel": workbooks, "statistical": statistics}
