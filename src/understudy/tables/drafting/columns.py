"""One column of a draft: what its name and its cells suggest, each with the place it comes from.

The one rule: a suggestion of the catalogue follows from the name alone, and one that follows from the cells is a public
choice that is marked as seen.
"""

import dataclasses
import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from understudy.tables.column import KINDS, Column
from understudy.tables.drafting import personal
from understudy.tables.drafting.catalogue import Entry, suggestions
from understudy.tables.drafting.dates import Dates, dates_in
from understudy.tables.drafting.missing import SOFT_WORDS, without
from understudy.tables.drafting.numbers import Numbers, numbers_in
from understudy.tables.drafting.reading import Cells

_COLUMN_KEYS = {field.name for field in dataclasses.fields(Column)}
_FEWEST_MISSING = 3  # One missing cell is one person's; a column may be missing if several cells are.
BLANK = "no cell of it is filled in the rows that were looked at"
"""Why a column without a cell is left out."""
_CODES_WITH_POINTS = ("diagnosis", "procedure")  # 250.00 is a code of ICD-9
_TRUTHS = {"true", "false"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fact:
    """One line of a draft.

    Attributes:
        key: The key in the schema.
        value: Its value.
        why: Where it comes from, in words.
        seen: Whether it was seen in the cells, so that the owner must decide whether it is public.
        stated: Whether the draft states it; else it is a comment.
    """

    key: str
    value: Any
    why: str
    seen: bool = False
    stated: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnDraft:
    """One column of a draft.

    Attributes:
        name: Its name in the table.
        kind: Its kind.
        facts: What else is suggested.
        notes: Remarks for the owner.
        left_out: Why it is left out; None if it is kept.
        person: Whether it says whose row it is.
        other_format: A format that fits the cells as well as the one proposed.
    """

    name: str
    kind: str
    facts: tuple[Fact, ...] = ()
    notes: tuple[str, ...] = ()
    left_out: str | None = None
    person: bool = False
    other_format: str | None = None


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Judged:
    """A column of a draft with the numbers or instants in its cells, for the rules between columns. Private."""

    draft: ColumnDraft
    numbers: np.ndarray | None = None
    instants: np.ndarray | None = None


def judged(cells: Cells, spellings: set[str], *, decimal: str = ".", thousands: str | None = None) -> Judged:
    """What a column's name and its cells suggest.

    Args:
        spellings: The spellings of a missing value that were found in the table.
        decimal, thousands: How numbers are written in the file.
    """
    text = without(cells.text, spellings)
    entries = suggestions(cells.name)
    profile = personal.Profile.of(text)
    if cells.declared == "foreign":
        return _left_out(cells.name, "its type is none that a column of a schema can have")
    if not profile.known:
        return _left_out(cells.name, BLANK)
    plain = without(text, SOFT_WORDS)
    dates = dates_in(plain, latest=_latest(entries)) if cells.declared in (None, "instant", "text") else None
    if dates is not None and dates.format == "%Y%m%d" and not any(entry.role == "date" for entry in entries):
        dates = None  # eight digits are a number unless the name speaks of a date
    if dates is not None and (dates.format is None or "format" in _COLUMN_KEYS):
        return Judged(_dated(cells, plain, entries, dates), instants=dates.values)
    numbers = numbers_in(plain, decimal=decimal, thousands=thousands) if cells.declared not in _NO_NUMBERS else None
    best = entries[0] if entries else None
    fraction = numbers is not None and not numbers.whole
    person = personal.says_person(cells.name, best, profile) and not fraction
    reason = None if person else _reason(best, entries, profile, numbers)
    if person or reason is not None:
        return Judged(ColumnDraft(name=cells.name, kind="categorical", left_out=reason, person=person))
    if numbers is not None and not _is_label(numbers, entries):
        return Judged(_numeric(cells, plain, entries, numbers), numbers=numbers.values)
    return Judged(_labelled(cells, text, entries, numbers, dates))


_NO_NUMBERS = ("text", "boolean", "instant")


def _left_out(name: str, reason: str) -> Judged:
    return Judged(ColumnDraft(name=name, kind="categorical", left_out=reason))


def _reason(
    best: Entry | None, entries: Sequence[Entry], profile: personal.Profile, numbers: Numbers | None
) -> str | None:
    """Why a column that is no date should be left out, or None."""
    by_name = personal.reason_by_name(best, profile, fraction=numbers is not None and not numbers.whole)
    if by_name is not None:
        return by_name
    if numbers is None:
        is_code = any(entry.role == "code" for entry in entries)
        return personal.reason_by_shape(profile) or (None if is_code else personal.reason_by_text(profile))
    if not numbers.whole or any(entry.role == "number" for entry in entries):
        return None
    finite = numbers.values[np.isfinite(numbers.values)]
    return personal.reason_by_count(profile, float(finite.max() - finite.min()))


def _is_label(numbers: Numbers, entries: Sequence[Entry]) -> bool:
    """Whether numbers are codes: they begin with zeros, are too long, or the name says so."""
    if not numbers.whole or numbers.percent:
        return bool(entries and entries[0].key in _CODES_WITH_POINTS)
    return numbers.zeros or numbers.long or bool(entries and entries[0].role in ("code", "category"))


# Facts ----------------------------------------------------------------------------------------------------------------


def _nullable(cells: Cells, kept: pl.Series) -> list[Fact]:
    missing = kept.null_count()
    if missing < _FEWEST_MISSING:
        return []
    return [Fact(key="nullable", value=True, why="some cells are missing", seen=True)]


def _bounds(kind: str, entry: Entry | None) -> list[Fact]:
    """The bounds that the catalogue knows for a name, as the kind writes them."""
    if entry is None:
        return []
    facts = []
    for key in ("low", "high"):
        bound = getattr(entry, key)
        if bound is not None:
            value = bound if isinstance(bound, datetime.date) else (int(bound) if kind == "integer" else float(bound))
            facts.append(Fact(key=key, value=value, why=_by_name(entry), stated=entry.sure))
    return facts


def _latest(entries: Sequence[Entry]) -> datetime.date | None:
    """The bound that the draft states for a date of this name; None if it states none."""
    entry = _first(entries, "date")
    return entry.high if entry is not None and entry.sure and isinstance(entry.high, datetime.date) else None


def _by_name(entry: Entry) -> str:
    return f"suggested by the name: {entry.about}"


def _first(entries: Sequence[Entry], role: str) -> Entry | None:
    return next((entry for entry in entries if entry.role == role), None)


def _dated(cells: Cells, kept: pl.Series, entries: Sequence[Entry], dates: Dates) -> ColumnDraft:
    kind = "date" if "date" in KINDS and not dates.timed else "datetime"
    facts = []
    if dates.format is not None:
        facts.append(Fact(key="format", value=dates.format, why="how dates are written", seen=True))
    facts += _bounds(kind, _first(entries, "date"))
    other = dates.other_format
    notes = () if other is None else (f"day or month first? {other!r} fits the cells as well",)
    return ColumnDraft(
        name=cells.name, kind=kind, facts=(*facts, *_nullable(cells, kept)), notes=notes, other_format=other
    )


def _numeric(cells: Cells, kept: pl.Series, entries: Sequence[Entry], numbers: Numbers) -> ColumnDraft:
    whole = numbers.whole and cells.declared != "number"
    kind, notes, facts = "integer" if whole else "continuous", [], []
    if numbers.decimals is not None and "decimals" in _COLUMN_KEYS:
        facts.append(Fact(key="decimals", value=numbers.decimals, why="decimals as written", seen=True))
    entry = _first(entries, "number")
    if numbers.percent:
        notes.append("the cells have a percent sign; the number before it is read, and the sign does not come back")
        entry = entry or _first(suggestions("percent"), "number")
    facts += _bounds(kind, entry)
    return ColumnDraft(name=cells.name, kind=kind, facts=(*facts, *_nullable(cells, kept)), notes=tuple(notes))


def _labelled(
    cells: Cells, kept: pl.Series, entries: Sequence[Entry], numbers: Numbers | None, dates: Dates | None
) -> ColumnDraft:
    different = {text.lower() for text in kept.drop_nulls().unique().head(3).to_list()}
    if cells.declared == "boolean" or (cells.declared != "text" and different <= _TRUTHS):
        return ColumnDraft(name=cells.name, kind="boolean", facts=tuple(_nullable(cells, kept)))
    notes, facts = [], []
    if numbers is not None:
        why = "some begin with a zero" if numbers.zeros else "the name speaks of a label"
        why = "they have too many digits for a quantity" if numbers.long else why
        notes.append(f"whole numbers that are read as text, because {why}")
    if dates is not None:
        notes.append(f"dates written as {dates.format!r}, read as text")
    entry = next((each for each in entries if each.values or each.role == "code"), None)
    if entry is not None and entry.values and not (entry.role == "number" and numbers is not None):
        why = _by_name(entry) + "; spell them as the table does"
        facts.append(Fact(key="values", value=list(entry.values), why=why, stated=False))
    elif entry is not None:
        notes.append(_by_name(entry))
    if entry is not None and entry.prefix and "levels" in _COLUMN_KEYS:
        why = "rare codes fall back to their first characters, as the name suggests"
        facts.append(Fact(key="levels", value="prefix", why=why))
    return ColumnDraft(name=cells.name, kind="categorical", facts=(*facts, *_nullable(cells, kept)), notes=tuple(notes))
