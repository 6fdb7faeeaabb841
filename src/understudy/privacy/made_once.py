"""Tables that a map or a distribution is looked up in: made once for each, and forgotten with it.

The one rule: what is kept follows from public numbers alone, as its owner does.
"""

# pyright: strict

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")

MOST_OWNERS = 128
"""Tables are kept for at most so many maps and distributions at a time, to bound memory."""

_MADE: "weakref.WeakKeyDictionary[object, dict[str, Any]]" = weakref.WeakKeyDictionary()


def made_once(owner: object, name: str, make: Callable[[], Made]) -> Made:
    """What `make` gives, computed once for an owner that never changes, and forgotten with it. Public, as the owner."""
    if owner not in _MADE and len(_MADE) >= MOST_OWNERS:
        return make()
    kept = _MADE.setdefault(owner, {})
    if name not in kept:
        kept[name] = make()
    return kept[name]
