"""The draft of a database as TOML: every table with its keys, and the reason of every line.

The one rule: as in a draft of one table, a line that follows from the cells is marked, and no comment holds a cell.
"""

import tomli_w

from understudy.tables.drafting.database import DatabaseDraft, TableDraft
from understudy.tables.drafting.questions import CONFIRMED
from understudy.tables.drafting.writing import SEEN, body, in_comment, line_of

_HEADER = """\
# Draft of a schema for the tables in {source}.
# No bound, no category and no count below comes from the data, and none should. Keys were found by the names of
# columns and are confirmed by their cells: all different in one table, and found again in another. Everything else is
# drafted table by table. What was seen in the cells is marked; look at each line before you share this file.
# Fill in what you know of the subject, not what you see in the tables. What you leave out is measured with part of the
# privacy budget. Remove the # from a line you fill in."""
_GUESSED = "a guess that does not come from the tables: set it to a typical number"


def written_database(made: DatabaseDraft) -> str:
    """The TOML text of a draft; `Schema.parse` reads it as it stands."""
    unit = "the table of people that others lead to"
    lines = [_HEADER.format(source=in_comment(made.source)), line_of("name", made.name)]
    lines += [f"{line_of('unit', made.unit)}  # {_mark(made.unit_confirmed, f'{unit}; {SEEN}')}"]
    lines += ['# constraints = ["child.date >= parent.birth", "child.start >= previous.end"]  # rules between rows']
    lines += [f"# Left out: {in_comment(name)}, from which no key leads to {made.unit!r}." for name in made.left_out]
    for table in made.tables:
        lines += ["", *_keys(table), *body(table.draft, table.name)]
    return "\n".join(lines) + "\n"


def _mark(confirmed: bool, why: str) -> str:
    return CONFIRMED if confirmed else why


def _keys(table: TableDraft) -> list[str]:
    header = tomli_w.dumps({"tables": {table.name: {}}}).strip()
    lines = [header]
    if table.public:
        why = f"nothing of it is learned, and it is given in full: say so only if everybody may know it; {SEEN}"
        lines.append(f"public = true  # {_mark('public' in table.confirmed, why)}")
    if table.key is not None:
        why = f"its cells are all different, and other tables lead here; {SEEN}"
        lines.append(f"{line_of('key', table.key)}  # {_mark('key' in table.confirmed, why)}")
    if table.lead is not None:
        why = f"{table.lead.by_name}, and its cells are found there; {SEEN}"
        lines.append(line_of("parent", table.lead.parent))
        lines.append(f"{line_of('foreign_key', table.lead.column)}  # {_mark('parent' in table.confirmed, why)}")
        lines.append("# Noise grows with the number of rows of one parent that are used; further ones are not used.")
        lines.append(
            f"{line_of('max_per_parent', table.most)}  # {_mark('max_per_parent' in table.confirmed, _GUESSED)}"
        )
        lines += _order(table)
    if table.references:
        named = ", ".join(f"{_bare(column)} = {_quoted(other)}" for column, other in table.references.items())
        lines.append(f"references = {{ {named} }}  # keys of public tables; {SEEN}")
    return lines


def _order(table: TableDraft) -> list[str]:
    if table.order is None:
        return ['# order = "..."             # the column by which rows of one parent are a history']
    why = f"rows of one parent are a history, because it is a time; {SEEN}"
    return [f"{line_of('order', table.order)}  # {_mark('order' in table.confirmed, why)}"]


def _bare(name: str) -> str:
    return line_of(name, 0).removesuffix(" = 0")


def _quoted(text: str) -> str:
    return line_of("x", text).removeprefix("x = ")
