"""The fields of the describing page: what each is called, and one sentence that explains it.

The one rule: a sentence says what the field does to the synthetic table or to the budget, in words for somebody who has
never read the manual.
"""

import dataclasses

ROLES = {
    "column": "part of the synthetic table",
    "ignore": "left out: not read at all",
    "unit": "says whose row it is",
}
"""What a column of the file can be."""
ROLES_IN_A_DATABASE = {
    "column": "part of the synthetic table",
    "ignore": "left out: not read at all",
    "key": "the key of its rows",
    "parent": "the key of its parent's row",
    "both": "part of both keys",
}
"""What a column can be if there are several tables."""
TABLE_ROLES = {
    "private": "learned under the budget",
    "public": "public: everybody may know all of it",
    "out": "left out: not read at all",
}
"""What one of several tables can be."""
KINDS = {
    "continuous": "a number with decimals",
    "integer": "a whole number",
    "categorical": "a category, as text",
    "boolean": "true or false",
    "date": "a date",
    "datetime": "a date and time",
}
"""The kinds of columns, in words."""
_NUMBERS = ("continuous", "integer", "date", "datetime")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a column's card.

    Attributes:
        key: The key in the schema.
        label: What it is called on the page.
        hint: The sentence that explains it.
        kinds: The kinds of column that have it.
        lines: Whether it holds one entry a line.
    """

    key: str
    label: str
    hint: str
    kinds: tuple[str, ...]
    lines: bool = False


FIELDS = (
    Field(
        key="low",
        label="Lowest possible value",
        hint="From knowledge of the subject, not from the table. Left empty, it is measured with part of the budget.",
        kinds=_NUMBERS,
    ),
    Field(
        key="high",
        label="Highest possible value",
        hint="Likewise. Values beyond it are counted as this one.",
        kinds=_NUMBERS,
    ),
    Field(
        key="decimals",
        label="Decimals",
        hint="How many digits stand behind the decimal point; empty for any number.",
        kinds=("continuous",),
    ),
    Field(
        key="atoms",
        label="Values that many rows share",
        hint="Such as 0 for an income: separated by spaces; each gets a share of its own.",
        kinds=("continuous",),
    ),
    Field(
        key="format",
        label="How dates are written",
        hint="Such as %d.%m.%Y for 31.12.1999; empty for 1999-12-31.",
        kinds=("date", "datetime"),
    ),
    Field(
        key="values",
        label="All categories, one a line",
        hint="As the table spells them. Left empty, the frequent ones are found with part of the budget.",
        kinds=("categorical",),
        lines=True,
    ),
    Field(
        key="other",
        label="Unknown values become",
        hint="The category that takes rare or unlisted values; empty: they count as missing if categories are listed.",
        kinds=("categorical",),
    ),
    Field(
        key="levels",
        label="Rare categories fall back to",
        hint="“prefix” or lengths such as 1 3: a rare code becomes its first characters instead of “other”.",
        kinds=("categorical",),
    ),
)
"""The fields of a card besides role, kind and whether cells may be missing."""
DIALECT = {
    "delimiter": ("Delimiter", "What stands between two fields."),
    "encoding": ("Encoding", "How letters are stored: utf-8, latin-1 or windows-1252."),
    "decimal": ("Decimal mark", "A point or a comma."),
    "thousands": ("Thousands mark", "What groups the digits of large numbers; empty for nothing."),
}
"""How a text file is written."""
