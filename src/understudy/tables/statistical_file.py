"""Files of SPSS, Stata and SAS: the columns of a schema out of one, with the types that the file declares.

The one rule: instants are computed here. The library that reads the files, pyreadstat (https://github.com/Roche/
pyreadstat), would raise for a date beyond the year 9999; here it is unreadable like in any other file.

Rows are read up to what a file of its size may unpack to. Files of SPSS are packed, and a cell of Stata may refer to a
text that others refer to as well, so that a small file can claim more cells than there is memory.

A column with value labels is read as its codes, as the file stores them. Missing values of the file, also those that
its user defined, are missing.
"""

import datetime
import mmap
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from understudy.core.files import most_unpacked
from understudy.tables import instants
from understudy.tables.files import Oversized, claims_refused, extra, library_errors, open_binary
from understudy.tables.schema import Schema
from understudy.tables.structure import FoundColumn, Source, TableError, check_names, wanted

_READERS = {
    ".sav": ("SPSS", "read_sav"),
    ".zsav": ("SPSS", "read_sav"),
    ".por": ("SPSS", "read_por"),
    ".dta": ("Stata", "read_dta"),
    ".sas7bdat": ("SAS", "read_sas7bdat"),
    ".xpt": ("SAS", "read_xport"),
}
ENDINGS = tuple(_READERS)
_CELL = 48  # what a cell takes in memory at least, in bytes
_ORIGINS = {
    "SPSS": datetime.datetime(1582, 10, 14),
    "Stata": datetime.datetime(1960, 1, 1),
    "SAS": datetime.datetime(1960, 1, 1),
}
_SECOND = 1_000_000
# How a format of instants begins, and how many microseconds one unit of it is.
_FORMATS = {
    "SPSS": [(re.compile(r"(A|E|J|S)?DATE\d*(\.\d+)?|(DATETIME|YMDHMS)\d*(\.\d+)?"), _SECOND)],
    "Stata": [(re.compile(r"%-?t?d.*"), instants.DAY), (re.compile(r"%-?t[cC].*"), 1000)],
    "SAS": [
        (re.compile(r"(DATETIME|DTDATE|E8601DT|DATEAMPM|MDYAMPM|IS8601DT|B8601DT|B8601DN)\d*(\.\d*)?"), _SECOND),
        (
            re.compile(r"(WEEKDAT[EX]|DATE|(MMDDYY|DDMMYY|YYMMDD)[BCDNPS]?|(IS|E|B)8601DA|DAY|JULIAN)\d*(\.\d*)?"),
            instants.DAY,
        ),
    ],
}


def load_statistical(path: Path, source: str, schema: Schema, ending: str) -> Source:
    """Reads the wanted columns."""
    facts = _read(path, source, ending, metadataonly=True)[1]
    check_names(facts.column_names, schema, source)
    with claims_refused(source, _READERS[ending][0]):
        most = _most_rows(path, facts, wanted(schema))
        cells, facts = _read(path, source, ending, usecols=wanted(schema), row_limit=most + 1)
        if any(len(column) > most for column in cells.values()):
            raise Oversized("it unpacks to too much")
    found = {name: _column(cells[name], _form(facts, name), _READERS[ending][0]) for name in wanted(schema)}
    return Source(columns=found, kind="polars", from_file=True, name=source)


def sample_statistical(path: Path, source: str, ending: str, *, rows: int) -> list[tuple[str, FoundColumn]]:
    """All columns of the first rows, for a draft of a schema."""
    facts = _read(path, source, ending, metadataonly=True)[1]
    with claims_refused(source, _READERS[ending][0]):
        most = _most_rows(path, facts, facts.column_names, at_most=rows)
    cells, facts = _read(path, source, ending, row_limit=min(rows, most + 1))
    names, program = facts.column_names, _READERS[ending][0]
    return [(name, _column(cells[name], _form(facts, name), program)) for name in names]


def _read(path: Path, source: str, ending: str, **options: Any) -> tuple[dict[str, list[Any]], Any]:
    """The cells of the columns by name, and what the file says about the columns."""
    pyreadstat = extra("pyreadstat", f"{ending} files")
    with open_binary(path, source) as file:
        if not file.read(1):
            raise TableError(f"{source} is empty.")
    program, reader = _READERS[ending]
    with library_errors(source, program):
        read = getattr(pyreadstat, reader)
        return read(str(path), disable_datetime_conversion=True, output_format="dict", **options)


def _most_rows(path: Path, facts: Any, columns: Sequence[str], *, at_most: int | None = None) -> int:
    """How many rows of these columns a file of its size may hold.

    Raises:
        Oversized: The file claims to have more than these, of which `at_most` so many count.
    """
    size, widths = path.stat().st_size, facts.variable_storage_width
    linked = _longest_linked(path) if any(not widths[name] for name in columns) else 0
    of_a_row = sum(_CELL + 2 * (widths[name] or linked) for name in columns)
    most, claimed = most_unpacked(size) // max(of_a_row, 1), facts.number_rows or 0
    if (claimed if at_most is None else min(claimed, at_most)) > most:
        raise Oversized("it claims more rows than it may have")
    return most


def _longest_linked(path: Path) -> int:
    """The length of the longest text that is stored once and that cells of a file of Stata refer to."""
    longest = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        place = content.rfind(b"<strls>")
        while (place := content.find(b"GSO", place + 1)) >= 0:  # number, row, a byte for its kind, length
            for start in (12, 16):  # one of the two is right, depending on the version
                field = content[place + start : place + start + 4]
                length = min(int.from_bytes(field, order) for order in ("little", "big")) if len(field) == 4 else 0
                longest = max(longest, length if length <= len(content) else 0)
    return longest


def _form(facts: Any, name: str) -> str | None:
    """The format of a column of numbers; None if it is declared as text."""
    is_text = facts.readstat_variable_types.get(name) == "string"
    return None if is_text else facts.original_variable_types.get(name) or ""


def _column(cells: Sequence[Any], form: str | None, program: str) -> FoundColumn:
    if form is None:
        texts = [cell if type(cell) is str else None for cell in cells]
        return FoundColumn(series=pl.Series(texts, dtype=pl.String))
    numbers = np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
    unit = _unit(form, program)
    if unit is None:
        return FoundColumn(series=pl.Series(numbers, nan_to_null=True))
    moments = _microseconds(numbers, unit, _ORIGINS[program])
    return FoundColumn(series=moments, unreadable=moments.is_null() & pl.Series(~np.isnan(numbers)))


def _unit(form: str, program: str) -> int | None:
    """How many microseconds a number of this format counts; None if it is no instant."""
    return next((unit for pattern, unit in _FORMATS[program] if pattern.fullmatch(form)), None)


def _microseconds(numbers: np.ndarray, unit: int, origin: datetime.datetime) -> pl.Series:
    """Instants from numbers of a unit since an origin; null outside the years 1 to 9999."""
    start = (origin - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    inside = (numbers >= (instants.FIRST - start) / unit) & (numbers <= (instants.LAST - start) / unit)
    kept = np.where(inside, numbers, 0.0)
    whole = np.floor(kept)
    micros = whole.astype(np.int64) * unit + np.rint((kept - whole) * unit).astype(np.int64) + start
    return pl.Series(micros).set(pl.Series(~inside), None).cast(pl.Datetime("us"))
