"""Archives: one JSON document and some arrays in a zip, which tells whether it was damaged and never unpacks to much.

The one rule: a file is not believed. Sizes are checked before memory is taken for them, nothing is unpickled, and a
content that is not the one that was written is refused. The digest inside is against damage and careless edits; whoever
changes a file on purpose can make a new one, and only the digest of the whole file, kept elsewhere, tells that.
"""

import io
import json
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from understudy.core.files import most_unpacked, sha256

DOCUMENT, ARRAYS, DIGEST = "model.json", "arrays.npz", "sha256"
# Parsed JSON takes up to 25 times its text in memory, so a longer document is not read.
LARGEST_DOCUMENT = 2**24

Document = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


class Oversized(ValueError):
    """The archive would unpack to far more than its size can hold."""


class Changed(ValueError):
    """The content is not the one that was written."""


def pack(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The archive. The same content gives the same bytes, whenever it is made."""
    document = {**document, DIGEST: _digest(document, arrays)}
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **arrays)  # pyright: ignore[reportArgumentType]
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, content in ((DOCUMENT, json.dumps(document, indent=1)), (ARRAYS, packed.getvalue())):
            # A ZipInfo without a date has that of 1980, so that the time of saving is not in the file.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return whole.getvalue()


def unpack(source: str | os.PathLike[str] | bytes) -> tuple[Document, Arrays]:
    """The document and the arrays of a file or of its content, not yet checked to be the ones that were written.

    Raises:
        OSError: The file cannot be read.
        Oversized: It would unpack to too much.
        Exception: It is not an archive, or not all of one.
    """
    content = isinstance(source, bytes)
    limit = most_unpacked(len(source) if content else Path(source).stat().st_size)
    with zipfile.ZipFile(io.BytesIO(source) if content else Path(source)) as archive:
        if sorted(archive.namelist()) != sorted((DOCUMENT, ARRAYS)):
            raise ValueError("other entries")
        text, packed = _entry(archive, DOCUMENT, min(limit, LARGEST_DOCUMENT)), _entry(archive, ARRAYS, limit)
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("no object")
    return cast(Document, document), _arrays(packed, limit)


def check(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raises `Changed` unless the digest in the document is that of the rest of it and of the arrays."""
    stated = {key: value for key, value in document.items() if key != DIGEST}
    if document.get(DIGEST) != _digest(stated, arrays):
        raise Changed("the digest is another")


def _arrays(packed: bytes, limit: int) -> Arrays:
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > limit or len({each.filename for each in entries}) < len(entries):
            raise Oversized("too large, or a name twice")
        return {each.filename.removesuffix(".npy"): _array(_entry(archive, each.filename, limit)) for each in entries}


def _entry(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """An entry, of which no more is unpacked than the archive says it has."""
    size = archive.getinfo(name).file_size
    if size > limit:
        raise Oversized("an entry is too large")
    with archive.open(name) as file:
        content = file.read(size + 1)
    if len(content) != size:
        raise ValueError("cut short")
    return content


def _array(content: bytes) -> NDArray[Any]:
    """An array in NumPy's format, of exactly the length that its header states."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, _, dtype = header(file)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError("not as long as stated")
    return np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


def _digest(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Of everything that the archive says, however it is spelt or packed."""
    listed = {
        name: [array.dtype.str, list(array.shape), sha256(np.ascontiguousarray(array).tobytes())]
        for name, array in arrays.items()
    }
    return sha256(json.dumps([document, listed], sort_keys=True))
