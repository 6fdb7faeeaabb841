"""Keys: which column tells the rows of a table apart, and which column of another table leads there.

The one rule: a key is found by its name and confirmed by its cells. The cells answer two questions, whether they are
all different and whether nearly all of them occur among another table's; nothing else about them is kept.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from understudy.tables.drafting.catalogue import suggestions, words_of
from understudy.tables.drafting.reading import Sample

CONTAINED = 0.98
"""A column leads to a table if so many of its cells are keys there. A few may be lost in an export."""
_NUMBERS = {"id", "nr", "no", "number", "nummer", "num", "numero", "key", "code", "kennung", "uuid", "guid"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lead:
    """A column of one table that leads to the key of another.

    Attributes:
        table, column: Whose cells they are.
        parent, key: Where they lead.
        by_name: What about the names speaks for it.
    """

    table: str
    column: str
    parent: str
    key: str
    by_name: str


def singular(name: str) -> tuple[str, ...]:
    """The words of a table's name, the last one without its plural: "order_lines" is "order line"."""
    words = list(words_of(name))
    if words:
        last = words[-1]
        if last.endswith("ies") and len(last) > 4:
            words[-1] = last[:-3] + "y"
        elif last.endswith("s") and not last.endswith("ss") and len(last) > 3:
            words[-1] = last[:-1]
    return ("person",) if words == ["people"] else tuple(words)


def is_of_people(name: str) -> bool:
    """Whether the name of a table speaks of people."""
    found = suggestions(" ".join((*singular(name), "id")))
    return bool(found) and found[0].role == "person"


def key_of(name: str, sample: Sample) -> str | None:
    """The column that tells the rows of a table apart: the best named one whose cells are all there and different."""
    unique = [cells.name for cells in sample.columns if _is_key(cells.text)]
    ranked = [(rank, column) for column in unique if (rank := _rank(name, column)) is not None]
    return min(ranked, key=lambda each: each[0])[1] if ranked else None


def _is_key(text: pl.Series) -> bool:
    return text.null_count() == 0 and text.n_unique() == len(text)


def _rank(table: str, column: str) -> int | None:
    """How well a column is named as the key of a table, 0 the best; None if it is not named like a key at all."""
    words, own = words_of(column), {singular(table), words_of(table)}
    if words and words[-1] in _NUMBERS and words[:-1] in own:
        return 0
    if words in (("id",), ("key",), ("uuid",)) or words in own:
        return 1
    return 2 if words and (words[-1] in _NUMBERS or words[0] in _NUMBERS) else None


def leads(samples: Mapping[str, Sample], keys: Mapping[str, str | None]) -> list[Lead]:
    """Every column that leads to another table, by its name and its cells."""
    cells = {name: {each.name: each.text for each in sample.columns} for name, sample in samples.items()}
    found = []
    for table, columns in cells.items():
        for column, parent, key, why in _by_name(table, list(columns), keys):
            if _contained(columns[column], cells[parent][key]):
                found.append(Lead(table=table, column=column, parent=parent, key=key, by_name=why))
    return found


def _by_name(table: str, columns: Sequence[str], keys: Mapping[str, str | None]) -> Iterator[tuple[str, str, str, str]]:
    """Columns whose names may lead to the key of another table, with the reason."""
    for column in columns:
        for parent, key in keys.items():
            if key is None or parent == table:
                continue
            words, names = words_of(column), {singular(parent), words_of(parent)}
            if words in {(*name, *words_of(key)) for name in names}:
                yield column, parent, key, f"its name is that of {parent!r} and of its key"
            elif words in names or (words and words[-1] in _NUMBERS and words[:-1] in names):
                yield column, parent, key, f"its name is that of {parent!r}"
            elif words == words_of(key) and words not in (("id",), ("key",), ("uuid",)) and column != keys[table]:
                yield column, parent, key, f"its name is that of the key of {parent!r}"


def _contained(cells: pl.Series, keys: pl.Series) -> bool:
    known = cells.drop_nulls().unique()
    return len(known) > 0 and float(known.is_in(keys.implode()).mean() or 0.0) >= CONTAINED  # pyright: ignore[reportArgumentType]
