"""The draft of a schema: valid TOML that names every column and leaves every public fact to the owner.

The one rule: a draft states names and kinds and nothing else. A bound or a category that came from the data would be a
release without noise.
"""

from collections.abc import Sequence

import tomli_w

from understudy.tables.column import Column
from understudy.tables.schema import UNNAMED, Schema


def draft(names_and_kinds: Sequence[tuple[str, str]], *, name: str = UNNAMED, source: str = "a table") -> str:
    """The TOML text of a schema for the owner to complete; it is valid as it stands.

    Args:
        names_and_kinds: The name and the kind of every column, which is all that the draft knows of the data.
        name: What the table is called.
        source: What the header comment calls the table.

    Raises:
        SchemaError: A name comes twice, or a kind is not one of `KINDS`.
    """
    columns = tuple(Column(name=column, kind=kind) for column, kind in names_and_kinds)
    Schema(name=name, columns=columns)
    parts = [_HEADER.format(source=repr(source), name=tomli_w.dumps({"name": name}).strip())]
    for column in columns:
        table = tomli_w.dumps({"columns": {column.name: {"kind": column.kind}}})
        parts.append(table + _HINTS[column.kind] + _NULLABLE)
    return "\n".join(parts)


_HEADER = """\
# Draft of a schema for {source}.
# The names and the kinds of its columns are all that was looked at (kinds in a CSV file are guessed from its first 1000
# rows; a file without a header has somebody's cells for names): no bound, no category and no count below comes
# from the data, and none should. Fill in what you know of the subject (nobody is older than 120), not what you see in
# the table. What you leave out is measured with part of the privacy budget. Remove the # from a line you fill in.
{name}
# rows =                    # about how many rows, if that is public
# target = "..."            # the column that people will want to predict; used by evaluation only
# unit = "..."              # the column that says whose row it is, if a person may have several; then remove its
# max_rows_per_unit =       # [columns...] table below, and say how many rows of one person are used at most
# ignore = ["..."]          # columns to leave out; remove their [columns...] tables
# missing = ["?"]           # how a missing value is spelt, besides the empty cell
# constraints = ["a >= b"]  # rules that every synthetic row is to keep
"""
_BOUNDS = """\
# low =                     # the lowest value that is possible
# high =                    # the highest value that is possible
"""
_HINTS = {
    "continuous": _BOUNDS + "# atoms = [0.0]             # values that many rows share\n",
    "integer": _BOUNDS,
    "datetime": """\
# low = 2000-01-01          # the earliest date, or date and time in UTC, that is possible
# high = 2030-01-01         # the latest
""",
    "date": """\
# low = 2000-01-01          # the earliest date that is possible
# high = 2030-01-01         # the latest
# format = "%d.%m.%Y"       # how dates are written, if not as in 2000-01-31
""",
    "categorical": """\
# values = ["...", "..."]   # every category, as it is spelt in the table
# other = "other"           # the category that unknown values become
""",
    "boolean": "",
}
_NULLABLE = "# nullable = true           # if a cell may be missing\n"
