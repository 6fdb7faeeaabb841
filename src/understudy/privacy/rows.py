"""Exact rows behind a lock, which only mechanisms may read.

Neighbours differ by one unit: a row, or all rows of one value of the unit column, of which at most
`max_rows_per_unit` are ever let in.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key


class PrivateRows:
    """Rows behind a lock: columns of equal length that only hatches may read.

    Attributes:
        max_rows_per_unit: The most rows that one unit has in here; public.
    """

    __slots__ = ("_exact", "_exact_labels", "_exact_units", "max_rows_per_unit")

    def __init__(
        self,
        columns: Mapping[str, NDArray],
        labels: Mapping[str, Sequence[str]],
        max_rows_per_unit: int,
        units: NDArray[np.int64] | None = None,
    ):
        self._exact = dict(columns)
        self._exact_labels = dict(labels)
        self._exact_units = units  # whose each row is; None where every row is a unit of its own
        self.max_rows_per_unit = max_rows_per_unit

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._exact)

    def derive(self, recipes: Mapping[str, tuple[Sequence[str], Callable[..., NDArray]]]) -> "PrivateRows":
        """New locked rows, each column a public function of columns in here, row by row.

        Privacy:
            Releases nothing. A row of the result depends on the same row alone, so neighbours stay neighbours.
        """
        columns = {name: function(*(self._exact[s] for s in sources)) for name, (sources, function) in recipes.items()}
        return PrivateRows(columns, {}, self.max_rows_per_unit, self._exact_units)

    def relabel(self, column: str, labels: Sequence[str], *, other: int) -> "PrivateRows":
        """The same rows with one column's codes pointing into public labels; a category not among them is `other`.

        Privacy:
            Releases nothing.
        """
        place = {label: code for code, label in enumerate(labels)}
        to_public = np.array([place.get(label, other) for label in self._exact_labels[column]], dtype=np.int64)
        codes = self._exact[column]
        recoded = np.where(codes < 0, -1, to_public[codes] if len(to_public) else -1)
        known = {**self._exact_labels, column: tuple(labels)}
        return PrivateRows({**self._exact, column: recoded}, known, self.max_rows_per_unit, self._exact_units)

    def __repr__(self) -> str:
        return f"PrivateRows({', '.join(self.names)})"

    def __reduce__(self):
        raise TypeError("PrivateRows are never written anywhere.")


def lock(
    columns: Mapping[str, NDArray],
    labels: Mapping[str, Sequence[str]],
    *,
    unit: NDArray | None = None,
    max_rows_per_unit: int = 1,
    key: Key,
) -> PrivateRows:
    """Puts rows into the box; of a unit with too many rows, a random choice of `max_rows_per_unit` gets in.

    Privacy:
        Releases nothing. Which rows of a unit stay depends on that unit's rows alone.
    """
    if unit is None:
        return PrivateRows(columns, labels, 1)
    shuffled = key.child("unit").numpy().permutation(len(unit))
    order = shuffled[np.argsort(unit[shuffled], kind="stable")]
    grouped = unit[order]
    starts = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]])
    place = np.arange(len(grouped)) - np.repeat(starts, np.diff(np.r_[starts, len(grouped)]))
    kept = np.sort(order[place < max_rows_per_unit])
    whose = np.unique(unit[kept], return_inverse=True)[1]
    return PrivateRows({name: column[kept] for name, column in columns.items()}, labels, max_rows_per_unit, whose)
