"""The catalogue: public knowledge about columns by their names.

The one rule: a suggestion is a function of a column's name alone. Nothing here sees a cell.
"""

import dataclasses
import datetime
import functools
import re
import tomllib
import unicodedata
from importlib import resources
from typing import Any

_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """What is publicly known about columns of some names.

    Attributes:
        key: What the entry is called.
        words: Spellings of the name, each as words in lower case without accents.
        about: What the knowledge rests on.
        role: "number", "code", "category", "date", "person" (whose row it is) or "personal" (to be left out).
        low, high: The bounds of a number or a date.
        unless: Words that make the name mean something else.
        whole: Whether such numbers are whole.
        sure: Whether the bounds hold in any usual unit.
        values: The usual categories.
        prefix: Whether the first characters of a code are its group.
        unless_few: Whether the name alone decides nothing: cells that repeat are no identifiers.
    """

    key: str
    words: tuple[tuple[str, ...], ...]
    about: str
    role: str
    low: float | datetime.date | None = None
    high: float | datetime.date | None = None
    unless: tuple[str, ...] = ()
    whole: bool = False
    sure: bool = False
    values: tuple[str, ...] = ()
    prefix: bool = False
    unless_few: bool = False


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Every entry, in the order of the file."""
    text = resources.files("understudy.tables.drafting").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return tuple(_entry(key, table) for key, table in tomllib.loads(text).items())


def _entry(key: str, table: dict[str, Any]) -> Entry:
    words = tuple(tuple(each.split()) for each in table.pop("words"))
    lists = {name: tuple(table.pop(name, ())) for name in ("values", "unless")}
    return Entry(key=key, words=words, **lists, **table)


def words_of(name: str) -> tuple[str, ...]:
    """A column's name as words in lower case without accents: "dateOfBirth" and "Date_of-birth" are the same three."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFC", name).translate(_LETTERS))
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return tuple(re.findall(r"[a-z0-9]+", _CAMEL.sub(" ", plain).lower()))


@functools.lru_cache(maxsize=1024)
def suggestions(name: str) -> tuple[Entry, ...]:
    """The entries that a name calls up, the best first.

    A spelling of more words comes before one of fewer, and of single words the last one in the name: what "patient age"
    is about is an age.
    """
    words = words_of(name)
    found = []
    for place, entry in enumerate(entries()):
        if set(entry.unless) & set(words):
            continue
        ranks = [rank for spelling in entry.words if (rank := _rank(spelling, words)) is not None]
        if ranks:
            found.append((max(ranks), -place, entry))
    return tuple(entry for *_, entry in sorted(found, key=lambda each: each[:2], reverse=True))


def _rank(spelling: tuple[str, ...], words: tuple[str, ...]) -> tuple[int, int] | None:
    """How well a spelling matches: its number of words, and where in the name it ends; None if it does not."""
    ends = [end for end in range(len(spelling), len(words) + 1) if words[end - len(spelling) : end] == spelling]
    if ends:
        return len(spelling), max(ends)
    return (len(spelling), len(words)) if words and "".join(spelling) == "".join(words) else None
