"""What identifies people: columns that a synthetic table should not have, and the one that says whose row it is.

The one rule: a column is left out for a reason that names no cell. Names of columns come first; cells decide where a
name is silent or may mean something harmless.
"""

import dataclasses

import polars as pl

from understudy.tables.drafting.catalogue import Entry, words_of

_SHAPES = {
    "its cells look like e-mail addresses": r"^[^@\s]+@[^@\s]+\.[A-Za-z]{2,}$",
    "its cells look like addresses on the web": r"^(?i)(https?://|www\.)\S+$",
    "its cells look like identifiers of 128 bits": r"^(?i)[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$",
    "its cells look like bank accounts": r"^[A-Z]{2}\d{2}( ?[A-Z0-9]{4}){3,7}( ?[A-Z0-9]{1,3})?$",
    "its cells look like addresses of computers": r"^\d{1,3}(\.\d{1,3}){3}$",
    "its cells look like phone numbers": r"^(\+|00|\(?0)\d{0,4}[\d\s/().-]*[\s/().-][\d\s/().-]*\d{3,}$|^\+\d{7,15}$"
    r"|^\(?\d{3}\)?[ -.]\d{3}[ -.]\d{4}$",
}
_MOST = 0.8  # A shape is that of a column if so many of its cells have it.
_FEWEST_ROWS = 20  # Cells of fewer rows are all different by chance.
_MOSTLY_DIFFERENT, _OFTEN_DIFFERENT, _RARELY_DIFFERENT = 0.9, 0.5, 0.05
_WORDS_OF_FREE_TEXT, _LETTERS_OF_FREE_TEXT = 4.0, 60.0
_NUMBERS = {"id", "nr", "no", "number", "nummer", "num", "numero", "key", "code", "kennung"}
_FEW_PEOPLE = 20


@dataclasses.dataclass(frozen=True, repr=False)
class Profile:
    """What is looked at in the cells of a column: how many there are, and how many different ones. Private."""

    text: pl.Series
    known: int
    different: int

    @classmethod
    def of(cls, text: pl.Series) -> "Profile":
        return cls(text, len(text) - text.null_count(), text.drop_nulls().n_unique())

    @property
    def share(self) -> float:
        return self.different / self.known if self.known else 0.0

    @property
    def judgeable(self) -> bool:
        """Whether there are enough cells for their being different to mean something."""
        return self.known >= _FEWEST_ROWS


def says_person(name: str, entry: Entry | None, profile: Profile) -> bool:
    """Whether a column says whose row it is: by its name, with enough people in it.

    An identifier that does not say of what is taken for one of people if many of them have some rows each.
    """
    if entry is not None and entry.key == "record_id":
        return profile.different >= _FEW_PEOPLE and _RARELY_DIFFERENT <= profile.share <= _OFTEN_DIFFERENT
    if entry is None or entry.role != "person":
        return False
    return bool(_NUMBERS & set(words_of(name))) or profile.different >= _FEW_PEOPLE


def reason_by_name(entry: Entry | None, profile: Profile, *, fraction: bool) -> str | None:
    """Why a column is left out because of its name, or None.

    Args:
        fraction: Whether its cells are numbers that are not whole, which identify nobody by themselves.
    """
    if entry is None or entry.role != "personal" or fraction:
        return None
    if entry.unless_few and not (profile.share > _OFTEN_DIFFERENT and profile.judgeable):
        return None
    return entry.about


def reason_by_shape(profile: Profile) -> str | None:
    """Why a column is left out because of the shape of its cells, or None."""
    for reason, shape in _SHAPES.items():
        if profile.known and profile.text.str.contains(shape).sum() >= _MOST * profile.known:
            return reason
    return None


def reason_by_text(profile: Profile) -> str | None:
    """Why a column of text is left out: it is free text, or its cells are nearly all different."""
    if not profile.judgeable:
        return None
    words = float(profile.text.str.split(" ").list.len().mean() or 0.0)  # pyright: ignore[reportArgumentType]
    letters = float(profile.text.str.len_chars().mean() or 0.0)  # pyright: ignore[reportArgumentType]
    if profile.share > 0.2 and (words >= _WORDS_OF_FREE_TEXT or letters >= _LETTERS_OF_FREE_TEXT):
        return "its cells look like free text"
    return "nearly every row has a text of its own, as identifiers have" if profile.share > _MOSTLY_DIFFERENT else None


def reason_by_count(profile: Profile, spread: float) -> str | None:
    """Why a column of whole numbers is left out: it counts the rows, or None.

    Args:
        spread: The difference between its largest and its smallest number.
    """
    counts = profile.judgeable and profile.different == profile.known and spread == profile.known - 1
    return "it counts the rows" if counts else None
