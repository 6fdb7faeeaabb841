"""Exact rows behind a lock, which only mechanisms may read.

Neighbours differ by one unit: a row, or all rows of one value of the unit column, of which at most
`max_rows_per_unit` are ever locked in.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, final

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.privacy import row_maps
from understudy.privacy.ancestors import Ancestor
from understudy.privacy.ancestors import check as check_ancestors
from understudy.privacy.piecewise import numbers
from understudy.privacy.row_maps import RowMap


@final
class PrivateRows:
    """Locked rows: columns of equal length that only mechanisms may read. Nothing about them can be changed.

    Attributes:
        max_rows_per_unit: The most rows that one unit has in here; public.
    """

    __slots__ = ("_exact", "_exact_labels", "_exact_units", "max_rows_per_unit")

    _exact: dict[str, NDArray[Any]]
    _exact_labels: dict[str, Sequence[str]]
    _exact_units: NDArray[np.int64] | None  # The unit of each row; None if every row is a unit of its own.
    max_rows_per_unit: int

    def __init__(
        self,
        columns: Mapping[str, NDArray[Any]],
        labels: Mapping[str, Sequence[str]],
        max_rows_per_unit: int,
        units: NDArray[np.int64] | None = None,
    ):
        keep = object.__setattr__
        keep(self, "_exact", dict(columns))
        keep(self, "_exact_labels", dict(labels))
        keep(self, "_exact_units", units)
        keep(self, "max_rows_per_unit", max_rows_per_unit)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._exact)

    def derive(self, maps: Mapping[str, RowMap], *, keep: bool = False) -> "PrivateRows":
        """New locked rows, each column computed from columns in here by a public map, row by row.

        Args:
            keep: Whether the columns in here stay beside the new ones, unless one of these has the same name.

        Privacy:
            Releases nothing. A row of the result depends on the same row alone (`row_maps` says why), so neighbours
            stay neighbours. No value raises or warns.

        Raises:
            TypeError: Something is not exactly one of the maps in row_maps.py. Nothing has been read.
        """
        checked = dict(maps)
        for row_map in checked.values():
            row_maps.check(row_map)
        columns: dict[str, NDArray[Any]] = {}
        with np.errstate(all="ignore"):
            for name, row_map in checked.items():
                exact = [self._exact[source] for source in row_map.sources]
                columns[name] = row_map.apply(exact, row_maps.uniforms(row_map, len(exact[0])))
        if not keep:
            return PrivateRows(columns, {}, self.max_rows_per_unit, self._exact_units)
        kept = {name: labels for name, labels in self._exact_labels.items() if name not in columns}
        return PrivateRows({**self._exact, **columns}, kept, self.max_rows_per_unit, self._exact_units)

    def relabel(
        self, column: str, labels: Sequence[str], *, other: int, ancestors: Sequence[Ancestor] = ()
    ) -> "PrivateRows":
        """The same rows with one column's codes pointing into public labels; a category not among them is `other`.

        Args:
            ancestors: Groups of categories, the narrowest first: a category that is not among the labels becomes its
                first group that is.

        Privacy:
            Releases nothing. A code of the result depends on the private label of the same row alone, and on how
            many private labels there are only in the time it takes. A code without a label counts as missing.
        """
        place = {label: code for code, label in enumerate(labels)}
        to_public = np.full(len(self._exact_labels[column]), other, dtype=np.int64)
        for groups in reversed(self._chain(column, ancestors)):
            found = np.array([place.get(group, -1) for group in groups], dtype=np.int64)
            to_public = np.where(found >= 0, found, to_public)
        public = {**self._exact_labels, column: tuple(labels)}
        recoded = self._recoded(column, to_public)
        return PrivateRows({**self._exact, column: recoded}, public, self.max_rows_per_unit, self._exact_units)

    def coarsen(self, column: str, ancestors: Sequence[Ancestor], *, seen: Sequence[str]) -> "PrivateRows":
        """The same rows with one column's categories replaced by the last of their groups, for a further selection.

        Args:
            ancestors: Groups of categories, the narrowest first.
            seen: Public labels. A category that is one of them, or of which a group is, counts as missing.

        Privacy:
            Releases nothing. The group of a row, and whether it counts as missing, depend on the private label of the
            same row alone. The labels of the result are private, like those they are made from.
        """
        known = frozenset(seen)
        chain = self._chain(column, ancestors)
        exact_groups = sorted(set(chain[-1]))
        place = {group: code for code, group in enumerate(exact_groups)}
        covered = [any(group in known for group in groups) for groups in zip(*chain, strict=True)]
        codes = [-1 if gone else place[group] for gone, group in zip(covered, chain[-1], strict=True)]
        recoded = self._recoded(column, np.array(codes, dtype=np.int64))
        labels = {**self._exact_labels, column: tuple(exact_groups)}
        return PrivateRows({**self._exact, column: recoded}, labels, self.max_rows_per_unit, self._exact_units)

    def _chain(self, column: str, ancestors: Sequence[Ancestor]) -> list[list[str]]:
        """The private labels of a column, and the groups of each, the narrowest first."""
        check_ancestors(ancestors)
        exact_labels = list(self._exact_labels[column])
        return [exact_labels, *(each.of(exact_labels) for each in ancestors)]

    def _recoded(self, column: str, new_codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """A column of codes with every code replaced; one that has no label is missing."""
        with np.errstate(all="ignore"):
            codes = numbers(self._exact[column])
            known = (codes >= 0) & (codes < len(new_codes))
            recoded = np.full(len(codes), -1, dtype=np.int64)
            recoded[known] = new_codes[codes[known].astype(np.int64)]
        return recoded

    def __repr__(self) -> str:
        return f"PrivateRows({', '.join(self.names)})"

    def __dir__(self) -> list[str]:
        return ["coarsen", "derive", "max_rows_per_unit", "names", "relabel"]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("PrivateRows cannot be changed.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("PrivateRows cannot be changed.")

    def __reduce__(self) -> NoReturn:
        raise TypeError("PrivateRows are never written anywhere.")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__reduce__()

    def __getstate__(self) -> NoReturn:
        self.__reduce__()

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


def lock(
    columns: Mapping[str, NDArray[Any]],
    labels: Mapping[str, Sequence[str]],
    *,
    unit: NDArray[Any] | None = None,
    max_rows_per_unit: int = 1,
    key: Key,
) -> PrivateRows:
    """Locks rows; of a unit with too many rows, a random choice of `max_rows_per_unit` is kept.

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
    units = np.unique(unit[kept], return_inverse=True)[1]
    return PrivateRows({name: column[kept] for name, column in columns.items()}, labels, max_rows_per_unit, units)
