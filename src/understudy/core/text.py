"""Small pieces of messages."""

import difflib
from collections.abc import Iterable


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """A question that names the nearest known word, with a space in front; empty if none is near."""
    close = difflib.get_close_matches(word, list(known), n=1) if isinstance(word, str) else []
    return f" Did you mean {close[0]!r}?" if close else ""


def count(number: int, noun: str) -> str:
    """A number and its noun, in the plural unless the number is one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
