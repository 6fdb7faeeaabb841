"""Arrays that are put aside while a database is joined: whoever keeps them hides them.

The one rule: nothing is written from here. Arrays go to a `Store`, which the fit brings along; what does not fit into
memory it encrypts (`privacy.scratch`).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


class Kept(Protocol):
    """An array that was put aside."""

    def exact(self) -> NDArray[Any]: ...


class Store(Protocol):
    """Puts arrays aside for as long as somebody may ask for them."""

    def keep(self, exact: NDArray[Any]) -> Kept: ...


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Bundle:
    """Arrays of equal length that are kept as one. Private.

    Attributes:
        rows: Their length.
        types: Of every array, as it was and as it is kept.
    """

    kept: Kept
    rows: int
    types: Mapping[str, tuple[np.dtype[Any], np.dtype[Any]]]

    @classmethod
    def of(cls, arrays: Arrays, store: Store) -> Self:
        small = {name: _small(array) for name, array in arrays.items()}
        types = {name: (arrays[name].dtype, each.dtype) for name, each in small.items()}
        content = b"".join(np.ascontiguousarray(each).tobytes() for each in small.values())
        return cls(store.keep(np.frombuffer(content, np.uint8)), len(next(iter(arrays.values()))), types)

    def arrays(self) -> dict[str, NDArray[Any]]:
        content, start, found = self.kept.exact(), 0, {}
        for name, (was, small) in self.types.items():
            end = start + self.rows * small.itemsize
            found[name] = content[start:end].copy().view(small).astype(was, copy=False)
            start = end
        return found


def together(bundles: Sequence[Bundle], empty: Arrays) -> dict[str, NDArray[Any]]:
    """The arrays of some bundles, one after the other; those that are given if there are none."""
    found = [bundle.arrays() for bundle in bundles]
    if len(found) == 1:
        return found[0]
    return {name: np.concatenate([*(each[name] for each in found), array]) for name, array in empty.items()}


def _small(array: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in a small type that holds them all."""
    if array.dtype.kind != "i" or not len(array):
        return array
    least, most = int(array.min()), int(array.max())
    return array.astype(np.result_type(np.min_scalar_type(least), np.min_scalar_type(most)), copy=False)
