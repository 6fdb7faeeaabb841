"""Objects as bytes, for another process of this library.

The one rule: bytes describe, they do not act. Plain values, arrays of numbers and dataclasses of this library are
written by name and value; nothing is called to read them, as a pickle would.
"""

import base64
import dataclasses
import datetime
import importlib
import json
from typing import Any, cast

import numpy as np

_PACKAGE = __name__.partition(".")[0]
_HEAD = 8  # bytes that say how long the description is, before the numbers of arrays


def pack(value: object) -> bytes:
    """An object as bytes.

    Raises:
        TypeError: It is, or holds, something that is neither plain nor an array nor a dataclass of this library.
    """
    arrays: list[bytes] = []
    described = json.dumps(_described(value, arrays)).encode()
    return b"".join([len(described).to_bytes(_HEAD, "little"), described, *arrays])


def unpack(content: bytes) -> Any:
    """The object again. Read only what `pack` wrote."""
    end = _HEAD + int.from_bytes(content[:_HEAD], "little")
    return _read(json.loads(content[_HEAD:end]), memoryview(content)[end:], [0])


def _described(value: Any, arrays: list[bytes]) -> Any:
    """A value in JSON: plain ones as they are, others as a pair of their kind and their parts."""
    kind = cast("type[Any]", type(value))
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is np.ndarray and value.dtype.kind in "biuf":
        arrays.append(np.ascontiguousarray(value).tobytes())
        return ["array", [value.dtype.str, list(value.shape)]]
    if kind in (list, tuple, frozenset, set):
        return [kind.__name__, [_described(each, arrays) for each in value]]
    if kind is dict:
        return ["dict", [[_described(k, arrays), _described(v, arrays)] for k, v in value.items()]]
    if kind is bytes:
        return ["bytes", base64.b64encode(value).decode()]
    if kind in (datetime.date, datetime.datetime):
        return [kind.__name__, value.isoformat()]
    if issubclass(kind, np.generic):
        return ["scalar", [value.dtype.str, value.item()]]
    if dataclasses.is_dataclass(kind) and kind.__module__.startswith(f"{_PACKAGE}."):
        fields = {each.name: _described(getattr(value, each.name), arrays) for each in dataclasses.fields(kind)}
        return ["dataclass", [kind.__module__, kind.__qualname__, fields]]
    raise TypeError(f"pack: expected plain values, arrays and dataclasses of {_PACKAGE}, got a {kind.__name__}.")


_SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_TIMES: dict[str, Any] = {"date": datetime.date, "datetime": datetime.datetime}


def _read(described: Any, numbers: memoryview, place: list[int]) -> Any:
    if not isinstance(described, list):
        return described
    kind, parts = cast("list[Any]", described)
    if kind == "array":
        dtype, shape = np.dtype(parts[0]), tuple(parts[1])
        start, place[0] = place[0], place[0] + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(numbers[start : place[0]], dtype).reshape(shape)
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](_read(each, numbers, place) for each in parts)
    if kind == "dict":
        return {_read(k, numbers, place): _read(v, numbers, place) for k, v in parts}
    if kind == "bytes":
        return base64.b64decode(parts)
    if kind in _TIMES:
        return _TIMES[kind].fromisoformat(parts)
    if kind == "scalar":
        return np.dtype(parts[0]).type(parts[1])
    module, name, fields = parts
    return _dataclass(module, name, fields, numbers, place)


def _dataclass(module: str, name: str, fields: dict[str, Any], numbers: memoryview, place: list[int]) -> Any:
    """A dataclass with these fields, which were checked when it was first made."""
    kind = getattr(importlib.import_module(module), name) if module.startswith(f"{_PACKAGE}.") else None
    if not dataclasses.is_dataclass(kind):
        raise TypeError(f"unpack: expected a dataclass of {_PACKAGE}, got {module}.{name}.")
    made = object.__new__(cast("type[Any]", kind))
    for field, value in fields.items():
        object.__setattr__(made, field, _read(value, numbers, place))
    return made
