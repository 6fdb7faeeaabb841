"""Excel workbooks: the columns of a schema out of the first sheet, cell by cell.

The one rule: a column of a sheet has no type, so each cell is read as it would be in a column of objects (cells.py).
A formula counts as the value that was stored with it, an error such as #N/A as unreadable, and a row in which nothing
is written is no row.

Sheets are read with openpyxl (https://openpyxl.readthedocs.io).
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from understudy.core.files import most_unpacked
from understudy.tables.cells import BLANK, as_written
from understudy.tables.files import Oversized, claims_refused, extra, library_errors, open_binary
from understudy.tables.schema import Schema
from understudy.tables.structure import (
    FoundColumn,
    Source,
    TableError,
    check_names,
    distinct_names,
    numbered_names,
    wanted,
)
from understudy.tables.workbooks import MOST_SHEET_ROWS, check_workbook

_FORM = "Excel"
_ERRORS = frozenset(["#N/A", "#DIV/0!", "#REF!", "#VALUE!", "#NAME?", "#NUM!", "#NULL!", "#SPILL!", "#CALC!"])


def load_excel(path: Path, source: str, schema: Schema) -> Source:
    """Reads the wanted columns."""
    rows = _rows(path, source)
    if schema.file.header:
        names, rows = _header(rows[0]), rows[1:]
    else:
        names = numbered_names(schema, source)
    check_names(names, schema, source)
    found = {name: FoundColumn.of_texts(_column(rows, names.index(name))) for name in wanted(schema)}
    return Source(columns=found, kind="polars", from_file=True, name=source)


def sample_excel(path: Path, source: str, *, rows: int) -> list[tuple[str, FoundColumn]]:
    """All columns of the first rows, for a draft of a schema; the first row holds their names."""
    names, *cells = _rows(path, source)
    return [(name, FoundColumn.of_texts(_column(cells[:rows], i))) for i, name in enumerate(_header(names))]


def _rows(path: Path, source: str) -> list[Sequence[Any]]:
    """The rows of the first sheet in which something is written."""
    openpyxl = extra("openpyxl", "Excel files")
    with open_binary(path, source) as file:
        if not file.read(1):
            raise TableError(f"{source} is empty.")
        with claims_refused(source, _FORM):
            check_workbook(file)
    with claims_refused(source, _FORM), library_errors(source, _FORM):
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # what a file says about its size may be wrong
        rows = list(_written_rows(sheet.iter_rows(values_only=True), most_unpacked(path.stat().st_size)))
        book.close()
    if not rows:
        raise TableError(f"{source}: expected a table in the first sheet, and it is blank.")
    return rows


def _written_rows(rows: Iterable[Sequence[Any]], most: int) -> Iterator[Sequence[Any]]:
    """Rows in which something is written; a file may place cells so far out that those before them fill the memory."""
    taken = 0
    for number, row in enumerate(rows):
        taken += 8 * len(row)
        if number >= MOST_SHEET_ROWS or taken > most:
            raise Oversized("it unpacks to too much")
        if any(cell is not None for cell in row):
            yield row


def _header(row: Sequence[Any]) -> list[str]:
    """The names in the first row, up to the last one that is written."""
    names = [as_written(cell) or "" for cell in row]
    while not names[-1].strip() and len(names) > 1:
        names.pop()
    return distinct_names(names)


def _column(rows: Sequence[Sequence[Any]], place: int) -> list[str | None]:
    return [_text(row[place]) if place < len(row) else BLANK for row in rows]


def _text(cell: Any) -> str | None:
    return None if type(cell) is str and cell in _ERRORS else as_written(cell)
