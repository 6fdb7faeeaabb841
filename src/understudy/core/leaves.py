"""The numbers in a nested value, as a flat list, and the value again from them.

The one rule: whoever puts numbers back has a value of the same shape, so that nothing but numbers is ever kept.
"""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any, cast

import numpy as np

_NUMBERS = (bool, int, float, np.generic)


def leaves(value: Any) -> list[Any]:
    """The arrays and numbers in tuples, lists, dictionaries and objects, in a fixed order; arrays as NumPy's."""
    found: list[Any] = []

    def keep(leaf: Any) -> None:
        found.append(cast(Any, leaf) if isinstance(leaf, _NUMBERS) else np.array(leaf))

    _rebuilt(value, keep)
    return found


def filled(value: Any, numbers: list[Any]) -> Any:
    """A value like this one that holds other arrays and numbers, in the order of `leaves`.

    Raises:
        ValueError: There are more or fewer of them, or they have other shapes.
    """
    if [np.shape(each) for each in leaves(value)] != [np.shape(each) for each in numbers]:
        raise ValueError("filled: expected numbers of the same shapes as those that are there.")
    left = iter(numbers)
    return _rebuilt(value, lambda _: next(left))


def _rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of the value with every array and number changed."""
    if isinstance(value, _NUMBERS) or hasattr(value, "__array__"):
        return change(value)
    if isinstance(value, tuple):
        parts = [_rebuilt(each, change) for each in cast("tuple[Any, ...]", value)]
        kind = cast(Any, type(cast(Any, value)))
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    if isinstance(value, list):
        return [_rebuilt(each, change) for each in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {name: _rebuilt(each, change) for name, each in cast("dict[Any, Any]", value).items()}
    if not callable(value) and (dataclasses.is_dataclass(value) or hasattr(value, "__dict__")):
        made = copy.copy(value)
        for name, each in vars(value).items():
            object.__setattr__(made, name, _rebuilt(each, change))
        return made
    return value
