"""A draft as TOML: what is proposed, where each line comes from, and what is left to fill in.

The one rule: a line that follows from the cells carries the mark `SEEN`, and a comment never holds a line break, so
that nothing in a name can become a line of its own.
"""

import json

import tomli_w

from understudy.tables.drafting.columns import ColumnDraft, Fact
from understudy.tables.drafting.draft import Draft
from understudy.tables.drafting.questions import CONFIRMED

SEEN = "seen in the file: keep it only if it is public"
"""The mark of what was seen in the cells."""
_HEADER = """\
# Draft of a schema for {source}.
# No bound, no category and no count below comes from the data, and none should. Bounds and categories are suggested by
# a catalogue of public knowledge from the names of columns. What was seen in the cells (a kind, a format, how a missing
# value is spelt, a rule between columns) is one of a few public choices; look at each line before you share this file.
# Kinds are guessed from the first rows. A file without a header has somebody's cells for names.
# Fill in what you know of the subject (nobody is older than 125), not what you see in the table. What you leave out is
# measured with part of the privacy budget. Remove the # from a line you fill in."""
_HINTS = {
    "continuous": {
        "low": "# low =                     # the lowest value that is possible",
        "high": "# high =                    # the highest value that is possible",
        "atoms": "# atoms = [0.0]             # values that many rows share",
    },
    "integer": {
        "low": "# low =                     # the lowest value that is possible",
        "high": "# high =                    # the highest value that is possible",
    },
    "datetime": {
        "low": "# low = 2000-01-01          # the earliest date, or date and time in UTC, that is possible",
        "high": "# high = 2030-01-01         # the latest",
    },
    "date": {
        "low": "# low = 2000-01-01          # the earliest date that is possible",
        "high": "# high = 2030-01-01         # the latest",
    },
    "categorical": {
        "values": '# values = ["...", "..."]   # every category, as it is spelt in the table',
        "other": '# other = "other"           # the category that unknown values become',
    },
}
_NULLABLE = "# nullable = true           # if a cell may be missing"


def written(draft: Draft) -> str:
    """The TOML text of a draft; `Schema.parse` reads it as it stands."""
    lines = [_HEADER.format(source=in_comment(draft.source)), line_of("name", draft.name)]
    lines += ["# rows =                    # about how many rows, if that is public"]
    lines += ['# target = "..."            # the column that people will want to predict']
    lines += [*_unit(draft), *_ignored(draft), *_missing(draft), *_constraints(draft), *_file(draft)]
    return "\n".join(lines + [_column(each) for each in draft.kept]) + "\n"


def body(draft: Draft, table: str) -> list[str]:
    """The lines of one table of a database, below those of its keys."""
    name = tomli_w.dumps({"tables": {table: {"file": {}}}}).strip().strip("[]")
    lines = [*_ignored(draft), *_missing(draft), *_constraints(draft), *_file(draft, name)]
    return [*lines, *(_column(each, table) for each in draft.kept)]


def line_of(key: str, value: object) -> str:
    return tomli_w.dumps({key: value}).strip()


def in_comment(text: str) -> str:
    """A text in quotes that stays within one line, whatever it holds."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _unit(draft: Draft) -> list[str]:
    if draft.unit is None:
        return [
            '# unit = "..."              # the column that says whose row it is, if a person may have several; then',
            "# max_rows_per_unit =       # say how many rows of one person are used at most",
        ]
    unit, most = line_of("unit", draft.unit), line_of("max_rows_per_unit", draft.max_rows_per_unit)
    if draft.unit_confirmed:
        return [f"{unit}  # {CONFIRMED}", f"{most}  # {CONFIRMED}"]
    return [
        "# How many rows may one person have? Noise grows in proportion to this number, and further rows are not used.",
        f"{unit}  # its name speaks of people or identifiers, and it repeats; {SEEN}",
        f"{most}  # a guess that does not come from the file: set it to a typical number",
    ]


def _ignored(draft: Draft) -> list[str]:
    if not draft.ignored:
        return ['# ignore = ["..."]          # columns to leave out']
    names = [f"    {_value(name)},  # {reason}" for name, reason in draft.ignored.items()]
    return ["# Left out. To keep one, remove it here and give it a [columns...] table.", "ignore = [", *names, "]"]


def _missing(draft: Draft) -> list[str]:
    lines = []
    for name, text in draft.doubtful:
        lines.append(f"# {in_comment(name)} may spell a missing value by {text}, an ordinary number elsewhere; {SEEN}")
    if not draft.missing:
        return [*lines, '# missing = ["?"]           # how a missing value is spelt, besides the empty cell']
    return [*lines, "missing = [", *_marked(draft, draft.missing), "]"]


def _constraints(draft: Draft) -> list[str]:
    if not draft.constraints:
        return ['# constraints = ["a >= b"]  # rules that every synthetic row is to keep']
    marked = zip(draft.constraints, _marked(draft, draft.constraints), strict=True)
    return ["constraints = [", *(_by_rejection(line) if rule in draft.rejected else line for rule, line in marked), "]"]


def _by_rejection(line: str) -> str:
    """The line of a rule with the way in which it is kept, and why."""
    rule, _, mark = line.strip().partition(",  # ")
    return f'    {{ rule = {rule}, by = "rejection" }},  # the difference varies more than a column; {mark}'


def _file(draft: Draft, place: str = "file") -> list[str]:
    """How the file is spelt, as a table of its own."""
    stated = draft.dialect.stated()
    lines = [f"{_visible(line_of(key, value))}  # {SEEN}" for key, value in stated.items()]
    return ["", f"[{place}]", *lines] if stated else []


def _visible(line: str) -> str:
    """A line of TOML in which a tab and every space but the plain one can be seen, as "\\t" and "\\u00a0"."""
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in line)


def _marked(draft: Draft, entries: tuple[str, ...]) -> list[str]:
    return [f"    {_value(each)},  # {CONFIRMED if each in draft.confirmed else SEEN}" for each in entries]


def _value(value: object) -> str:
    """A value as TOML writes it on one line."""
    return line_of("x", value).removeprefix("x = ")


def _column(column: ColumnDraft, table: str | None = None) -> str:
    """The lines of a column; of one in a database, with the name of its table."""
    own = {"columns": {column.name: {"kind": column.kind}}}
    table = tomli_w.dumps(own if table is None else {"tables": {table: own}}).rstrip()
    lines = ["", table, *(f"# {note}" for note in column.notes)]
    before = ""
    for fact in column.facts:
        lines.append(_fact(fact, "likewise" if fact.why == before and not fact.seen else fact.why))
        before = fact.why
    given = {fact.key for fact in column.facts}
    given |= {"values"} if "levels" in given else set()  # which exclude each other
    lines += [hint for key, hint in _HINTS.get(column.kind, {}).items() if key not in given]
    return "\n".join(lines if "nullable" in given else [*lines, _NULLABLE])


def _fact(fact: Fact, why: str) -> str:
    if isinstance(fact.value, list):
        line = f"{fact.key} = [{', '.join(map(_value, fact.value))}]"
    else:
        line = line_of(fact.key, fact.value)
    why = f"{why}; {SEEN}" if fact.seen else why
    return f"{line}  # {why}" if fact.stated else f"# {line}  # {why}"
