"""Mutations of files: small, random, repeatable damage to bytes, to JSON and to the arrays of a model.

The one rule: the number of an input is its seed, so that any input that breaks something is made again from its number.
"""

import copy
import io
import json
import random
import re
import tomllib
import zipfile

import numpy as np
import tomli_w

from understudy.core import archive

NUMBERS = (
    *("0", "-1", "1", "255", "256", "65536", "2147483647", "2147483648", "4294967296", "9223372036854775808"),
    *("1e300", "-1e300", "1e308", "1e309", "1e-320", "NaN", "nan", "inf", "-inf", "Infinity", "1_000", "0x7fffffff"),
    *("9" * 25, "1" + "0" * 300, "1" + "0" * 400, "9" * 5000, "0.1", "-0.0", "1.5", "true", "null"),
)
VALUES = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        3.5,
        -0.0,
        1e300,
        1e308,
        -1e308,
        5e-324,
        2**31,
        2**53 + 1,
        2**63,
        10**30,
        10**400,
    ),
    *("", "a", "0", "\x00", "\n", "\ud800", "𝔘", "a" * 10_000, "other", "north", "%", "%Y", "1990-01-01", "column/0"),
    *([], [[]], [None], [1, 2, 3], ["a", "a"], [1e308, -1e308], {}, {"a": 1}, {"name": "copula"}, [0] * 1000),
)
DTYPES = ("<f8", ">f8", "<f4", "<f2", "<i8", "<i4", "|i1", "|u1", "<u8", "<c16", "|b1", "<U3", "|S2")


def damaged(content: bytes, draw: random.Random, tokens: tuple[bytes, ...] = ()) -> bytes:
    """The content after one to four changes of bytes, numbers or words."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        content = draw.choice(_CHANGES)(content, draw, tokens)
    return content


def _flip(content: bytes, draw: random.Random, tokens: tuple[bytes, ...]) -> bytes:
    at = draw.randrange(len(content) or 1)
    return content[:at] + bytes([(content[at : at + 1] or b"\0")[0] ^ (1 << draw.randrange(8))]) + content[at + 1 :]


def _set(content: bytes, draw: random.Random, tokens: tuple[bytes, ...]) -> bytes:
    at, size = draw.randrange(len(content) or 1), draw.choice((1, 1, 1, 2, 4, 8))
    fill = draw.choice((b"\0", b"\xff", b"\x7f", b"\x80", b"\n", b'"', b",", bytes([draw.randrange(256)])))
    return content[:at] + fill * size + content[at + size :]


def _remove(content: bytes, draw: random.Random, tokens: tuple[bytes, ...]) -> bytes:
    at, size = draw.randrange(len(content) or 1), draw.choice((1, 1, 2, 8, 64, 1024))
    return content[:at] + content[at + size :]


def _repeat(content: bytes, draw: random.Random, tokens: tuple[bytes, ...]) -> bytes:
    at, size = draw.randrange(len(content) or 1), draw.choice((1, 4, 32, 256))
    return content[:at] + content[at : at + size] * draw.choice((2, 2, 3, 50)) + content[at + size :]


def _move(content: bytes, draw: random.Random, tokens: tuple[bytes, ...]) -> bytes:
    start, to, size = draw.randrange(len(content) or 1), draw.randrange(len(content) or 1), draw.choice((4, 16, 128))
    return content[:to] + content[start : start + size] + content[to:]


def _cut(content: bytes, draw: random.Random, tokens: tuple[bytes, ...]) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _number(content: bytes, draw: random.Random, tokens: tuple[bytes, ...]) -> bytes:
    places = list(re.finditer(rb"-?\d+(\.\d+)?(e[-+]?\d+)?", content[:100_000]))
    if not places:
        return content
    found = draw.choice(places)
    return content[: found.start()] + draw.choice(NUMBERS).encode() + content[found.end() :]


def _word(content: bytes, draw: random.Random, tokens: tuple[bytes, ...]) -> bytes:
    at = draw.randrange(len(content) + 1)
    return content[:at] + draw.choice(tokens or (b"\xff\xfe", b"\xef\xbb\xbf", b"PK\x03\x04")) + content[at:]


_CHANGES = (_flip, _flip, _set, _remove, _repeat, _move, _cut, _number, _number, _word, _word)


def damaged_value(document, draw: random.Random):
    """A JSON document with one value replaced, removed, repeated or renamed, wherever it stands."""
    places = list(_places(document))
    owner, key = draw.choice(places)
    change = draw.randrange(6)
    if change == 0:
        del owner[key]
    elif change == 1 and isinstance(owner, list):
        owner.insert(key, copy.deepcopy(owner[key]))
    elif change == 1:
        owner[draw.choice(("", "name", "a", "kind", "seed", "unit"))] = owner.pop(key)
    elif change == 2:
        other, at = draw.choice(places)
        owner[key] = copy.deepcopy(other[at])
    elif change == 3 and isinstance(owner[key], int | float) and not isinstance(owner[key], bool):
        owner[key] = owner[key] * draw.choice((-1, 0, 2, 1e10, 1e-10, 0.5)) + draw.choice((0, 1, -1))
    else:
        owner[key] = copy.deepcopy(draw.choice(VALUES))
    return document


def _places(document):
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        yield document, key
        if isinstance(value, dict | list):
            yield from _places(value)


def damaged_array(array: np.ndarray, draw: random.Random) -> np.ndarray:
    """An array with other values, another shape or another type."""
    change = draw.randrange(7)
    if change == 0 and array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return array.astype(draw.choice(DTYPES))
    if change == 1:
        return array.reshape(draw.choice(((-1,), (1, -1), (-1, 1), (*array.shape, 1))))
    if change == 2:
        return array[: draw.randrange(len(array) + 1)] if array.ndim else np.zeros((0,), array.dtype)
    if change == 3:
        return np.repeat(array, draw.choice((0, 2, 3)), axis=0) if array.ndim else np.zeros((3, 3), array.dtype)
    if change == 4:
        return array[..., ::-1] if array.ndim else -array
    flat = np.array(array)
    if flat.size and flat.dtype.kind in "fiu":
        with np.errstate(all="ignore"):
            numbers = np.array([0, -1, 1, 1e300, -1e300, np.nan, np.inf, -np.inf, 2**40, 5e-324, 0.5]).astype(
                flat.dtype
            )
        flat.reshape(-1)[draw.randrange(flat.size)] = draw.choice(numbers)
    return flat


def damaged_schema(content: bytes, draw: random.Random) -> bytes:
    """A schema with some values replaced, removed or renamed, in valid TOML as far as they can be written."""
    document = tomllib.loads(content.decode())
    for _ in range(draw.choice((1, 1, 2, 3))):
        document = damaged_value(document, draw)
    try:
        return tomli_w.dumps(document).encode("utf-8", "replace")
    except (TypeError, ValueError, AttributeError):  # TOML has no null, for one
        return damaged(content, draw)


def damaged_model(content: bytes, draw: random.Random, *, forged: bool) -> bytes:
    """A model file with damage that no CRC tells: in its JSON, or in one of its arrays.

    Args:
        forged: Whether the digest inside is made anew, as by somebody who changes the file on purpose.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as container:
        document, packed = json.loads(container.read("model.json")), container.read("arrays.npz")
    text = None
    for _ in range(draw.choice((1, 1, 2))):
        where = draw.randrange(5)
        if where < 2:
            document = damaged_value(document, draw)
        elif where == 2 and isinstance(document.get("schema"), str):
            document["schema"] = damaged(document["schema"].encode(), draw).decode("utf-8", "replace")
        elif where == 3:
            packed = _with_damaged_array(packed, draw)
        else:
            text = damaged(json.dumps(document).encode(), draw)
    if forged and text is None:
        document = _with_digest(document, packed)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as container:
        container.writestr("model.json", json.dumps(document) if text is None else text)
        container.writestr("arrays.npz", packed)
    return whole.getvalue()


def _with_digest(document, packed: bytes):
    try:
        stated = {key: value for key, value in document.items() if key != archive.DIGEST}
        again = zipfile.ZipFile(io.BytesIO(archive.pack(stated, archive._arrays(packed, 2**30))))
        return json.loads(again.read("model.json"))
    except Exception:  # an array that NumPy cannot read has no digest
        return document


def _with_damaged_array(packed: bytes, draw: random.Random) -> bytes:
    try:
        arrays = archive._arrays(packed, 2**30)
    except Exception:  # it was damaged before
        return packed
    name = draw.choice(sorted(arrays))
    change = draw.randrange(8)
    if change == 0:
        del arrays[name]
    elif change == 1:
        arrays[draw.choice(sorted(arrays))] = arrays[name]
    else:
        arrays[name] = damaged_array(arrays[name], draw)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # pyright: ignore[reportArgumentType]
    if change != 7:
        return buffer.getvalue()
    # The header of an array, which says its shape and type.
    content = buffer.getvalue()
    with zipfile.ZipFile(io.BytesIO(content)) as container:
        entries = {entry: container.read(entry) for entry in container.namelist()}
    entry = draw.choice(sorted(entries))
    entries[entry] = damaged(entries[entry][:128], draw, SHAPES) + entries[entry][128:]
    again = io.BytesIO()
    with zipfile.ZipFile(again, "w") as container:
        for entry, each in entries.items():
            container.writestr(entry, each)
    return again.getvalue()


SHAPES = (b"(1000000000000,)", b"(-1,)", b"(0, 0)", b"'O'", b"'<f8'", b"'<U99999999'", b"True", b"(2, 3)", b"'|V0'")
