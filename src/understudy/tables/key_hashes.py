"""Hashes of keys: what tells the keys of a database apart where there are too many of them for memory.

The one rule: nobody but this fit can find keys with the same hash. A key becomes 128 bits under secret seeds, and is
compared by these; a key of which a part is missing becomes zeros, and is compared with none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.tables.schema import Schema
from understudy.tables.structure import Source
from understudy.tables.table import Facts, key_texts

Words = NDArray[np.uint64]
"""(2, rows)."""
_ODD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


def seeds_of(key: Key) -> tuple[int, int]:
    """The seeds of the two words of a hash."""
    first, second = key.sealed().words(2).tolist()
    return first, second


def key_words(
    source: Source, schema: Schema, names: Sequence[str], seeds: tuple[int, int], facts: Mapping[str, Facts]
) -> Words:
    """The hash of every row's key, whose cells are in these columns; zeros where one is missing.

    Args:
        facts: Of each column; what is found is added.
    """
    found = np.zeros((2, len(source.columns[names[0]].series)), np.uint64)
    gone = np.zeros(found.shape[1], np.bool_)
    for number, name in enumerate(names):
        places, texts = key_texts(source, schema, name, facts[name])
        gone |= texts.is_null().to_numpy()[places]
        for words, seed in zip(found, seeds, strict=True):
            if number:  # the hash of the columns before is spread over all bits, so that their order counts
                words ^= words >> _SHIFT
                words *= _ODD
            words ^= texts.hash(seed).to_numpy()[places]
    found[:, gone] = 0
    return found


def missing(words: Words) -> Any:
    """Which keys are missing."""
    return (words == 0).all(axis=0)
