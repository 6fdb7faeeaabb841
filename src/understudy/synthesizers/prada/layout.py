"""The layout: which features every column has, and where they lie side by side.

The one rule: nothing here is heavy or private. A layout is a function of the encoder, and is read without JAX.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.encoder import Encoder
from understudy.encoding.features import category_count


@dataclasses.dataclass(frozen=True)
class Block:
    """The features of one column: perhaps a number, then perhaps a one-hot block of categories.

    Attributes:
        name: The column's.
        number: Whether the first feature is a number, a standard normal score.
        categories: The width of the one-hot block. A categorical column that may be missing has one category more than
            values, the last. A number that may be missing has two, present and missing, and its score is 0 where it is
            missing.
    """

    name: str
    number: bool = True
    categories: int = 0

    def __post_init__(self):
        if self.categories < (least := 2 if self.number else 1) and (self.categories or not self.number):
            raise ValueError(f"Block {self.name!r}, categories: expected at least {least}, got {self.categories}.")

    @property
    def width(self) -> int:
        return int(self.number) + self.categories


def numeric(name: str, *, nullable: bool = False) -> Block:
    """A number: its score, and two categories if it may be missing."""
    return Block(name, True, 2 if nullable else 0)


def categorical(name: str, values: int, *, nullable: bool = False) -> Block:
    """A categorical column: a category for each value, and one more if it may be missing."""
    return Block(name, False, values + int(nullable))


@dataclasses.dataclass(frozen=True)
class Layout:
    """All columns in generation order, each with its features side by side; public and hashable.

    Attributes:
        blocks: One for each column.
    """

    blocks: tuple[Block, ...]

    def __post_init__(self):
        if not self.blocks:
            raise ValueError("Layout.blocks: expected at least one column.")

    @classmethod
    def of(cls, encoder: Encoder, order: Sequence[str]) -> "Layout":
        """The layout of encoded columns, in this order."""
        return cls(
            tuple(Block(name, encoder.columns[name].labels is None, category_count(encoder, name)) for name in order)
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(block.name for block in self.blocks)

    @property
    def columns(self) -> int:
        return len(self.blocks)

    @functools.cached_property
    def features(self) -> int:
        return sum(block.width for block in self.blocks)

    @functools.cached_property
    def width(self) -> int:
        """The width of the widest block; narrower ones are padded to it while generating."""
        return max(block.width for block in self.blocks)

    @functools.cached_property
    def starts(self) -> NDArray[np.int32]:
        """Where each column's features begin."""
        return np.cumsum([0, *(block.width for block in self.blocks)])[:-1].astype(np.int32)

    @functools.cached_property
    def owners(self) -> NDArray[np.int64]:
        """The column of every feature."""
        return np.repeat(np.arange(self.columns), [block.width for block in self.blocks])

    @functools.cached_property
    def earlier(self) -> NDArray[np.bool_]:
        """Which features a column may see: (columns, features), true for those of the columns before it."""
        return self.owners[None, :] < np.arange(self.columns)[:, None]

    @functools.cached_property
    def has_number(self) -> NDArray[np.bool_]:
        return np.array([block.number for block in self.blocks])

    @functools.cached_property
    def has_categories(self) -> NDArray[np.bool_]:
        return np.array([block.categories > 0 for block in self.blocks])

    @functools.cached_property
    def is_category(self) -> NDArray[np.bool_]:
        """Which places of the padded block are categories: (columns, width)."""
        place, first = np.arange(self.width)[None, :], self.has_number.astype(int)[:, None]
        return (place >= first) & (place < first + np.array([[block.categories] for block in self.blocks]))

    @functools.cached_property
    def places(self) -> NDArray[np.int64]:
        """Where every place of a padded block is among the features: (columns, width)."""
        return np.minimum(self.starts[:, None] + np.arange(self.width), self.features - 1)

    def seen(self, extra: int) -> NDArray[np.bool_]:
        """Which inputs a column sees if `extra` more follow the features, seen by all: (columns, features + extra)."""
        return np.concatenate([self.earlier, np.ones((self.columns, extra), dtype=bool)], axis=1)

    def arrays(self) -> dict[str, NDArray]:
        """All of it, as arrays that need no pickle."""
        return {
            "names": np.array(self.names),
            "numbers": np.array([block.number for block in self.blocks]),
            "states": np.array([block.categories for block in self.blocks]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> "Layout":
        """The layout that `arrays` came from."""
        facts = zip(arrays["names"].tolist(), arrays["numbers"].tolist(), arrays["states"].tolist(), strict=True)
        return cls(tuple(Block(name, number, count) for name, number, count in facts))
