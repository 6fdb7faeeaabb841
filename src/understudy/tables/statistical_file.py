"""Files of SPSS, Stata and SAS: the columns of a schema out of one, with the types that the file declares.

The one rule: instants are computed here. The library that reads the files, pyreadstat (https://github.com/Roche/
pyreadstat), would raise for a date beyond the year 9999; here it is unreadable like in any other file.

A column with value labels is read as its codes, as the file stores them. Missing values of the file, also those that
its user defined, are missing.
"""

import datetime
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from understudy.tables import instants
from understudy.tables.files import extra, library_errors, open_binary
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
    check_names(_read(path, source, ending, metadataonly=True)[1].column_names, schema, source)
    cells, facts = _read(path, source, ending, usecols=wanted(schema))
    found = {name: _column(cells[name], _form(facts, name), _READERS[ending][0]) for name in wanted(schema)}
    return Source(columns=found, kind="polars", from_file=True, name=source)


def sample_statistical(path: Path, source: str, ending: str, *, rows: int) -> list[tuple[str, FoundColumn]]:
    """All columns of the first rows, for a draft of a schema."""
    cells, facts = _read(path, source, ending, row_limit=rows)
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
