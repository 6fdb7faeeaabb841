"""Arrow and Feather files: the columns of a schema out of one, with the types that the file declares."""

from pathlib import Path

import polars as pl

from understudy.tables.arrow_messages import check_claims
from understudy.tables.files import claims_refused, damaged, open_binary, polars_errors
from understudy.tables.schema import Schema
from understudy.tables.structure import FoundColumn, Source, TableError, check_names, wanted

_FORM = "Arrow"
_FILE, _STREAM = b"ARROW1", b"\xff\xff\xff\xff"


def load_arrow(path: Path, source: str, schema: Schema) -> Source:
    """Reads the wanted columns."""
    frame = _read(path, source)
    check_names(frame.columns, schema, source)
    found = {name: FoundColumn.typed(frame.get_column(name)) for name in wanted(schema)}
    return Source(columns=found, kind="polars", from_file=True, name=source)


def sample_arrow(path: Path, source: str, *, rows: int) -> list[tuple[str, FoundColumn]]:
    """All columns of the first rows, for a draft of a schema."""
    return [(series.name, FoundColumn.typed(series)) for series in _read(path, source).head(rows)]


def _read(path: Path, source: str) -> pl.DataFrame:
    with open_binary(path, source) as file:
        head = file.read(len(_FILE))
    if not head:
        raise TableError(f"{source} is empty.")
    if not head.startswith((_FILE, _STREAM)):  # polars may panic on something else
        raise damaged(source, _FORM)
    with open_binary(path, source) as file, claims_refused(source, _FORM):
        check_claims(file)
    with open_binary(path, source) as file, polars_errors(source, _FORM):
        return pl.read_ipc_stream(file) if head.startswith(_STREAM) else pl.read_ipc(file)
