"""Rows of a Bayes network given some of their columns, by Gibbs sampling.

Column after column is drawn anew given all others, P(x_j | rest) ∝ P(x_j | parents) · Π P(x_c | parents of c) over the
columns c that have j as a parent, in a few sweeps; the first one takes the columns in the order of the network and
looks at those alone that are given or drawn already. Public mathematics: nothing here sees a private row.

Source: Geman and Geman (1984), "Stochastic relaxation, Gibbs distributions, and the Bayesian restoration of images".
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.bins import Bins

Codes = NDArray[np.int64]
SWEEPS = 6
"""So often every column is drawn."""
LEAST = 1e-12
"""No combination is taken to be rarer than this, so that what is given always has a chance."""
CHUNK = 4096
"""Rows are drawn this many at a time, for memory."""


class ConditionalTable(Protocol):
    """A table of a Bayes network (bayes_net.py)."""

    @property
    def column(self) -> str: ...
    @property
    def parents(self) -> tuple[str, ...]: ...
    @property
    def probabilities(self) -> NDArray[np.float64]: ...
    @property
    def groups(self) -> tuple[Codes, ...]: ...


def draw_codes(
    tables: Sequence[ConditionalTable],
    bins: Mapping[str, Bins],
    given: Mapping[str, Codes],
    present: Collection[str],
    key: Key,
) -> dict[str, Codes]:
    """The bins of all columns of rows in which some columns have the given bins.

    Args:
        given: The bin of every row; a negative one, of a missing value that has no bin, counts as the first.
        present: Columns that do not have the bin of missing values.
    """
    known = {name: np.maximum(codes, 0) for name, codes in given.items()}
    n = len(next(iter(known.values())))
    parts = []
    for first in range(0, max(n, 1), CHUNK):
        rows = {name: codes[first : first + CHUNK] for name, codes in known.items()}
        parts.append(_draw(tables, bins, rows, present, key.child(f"rows {first}").numpy()))
    return {name: np.concatenate([part[name] for part in parts]) for name in bins}


def _draw(
    tables: Sequence[ConditionalTable],
    bins: Mapping[str, Bins],
    given: Mapping[str, Codes],
    present: Collection[str],
    draw: np.random.Generator,
) -> dict[str, Codes]:
    logs = {table.column: np.log(np.maximum(table.probabilities, LEAST)) for table in tables}
    wanted = [table.column for table in tables if table.column not in given]
    codes = dict(given)
    for _ in range(SWEEPS if len(wanted) > 1 else 1):
        for column in wanted:
            total: NDArray[np.float64] | float = 0.0
            for table in tables:
                if column != table.column and column not in table.parents:
                    continue
                others = [name for name in (*table.parents, table.column) if name != column]
                if any(name not in codes for name in others):
                    continue  # in the first sweep: it is drawn later, or its parents are
                total = total + _terms(table, logs[table.column], column, codes)
            total = np.broadcast_to(total, (len(next(iter(given.values()))), bins[column].size)).copy()
            if column in present and bins[column].nullable and bins[column].size > 1:
                total[:, -1] = -np.inf
            weights = np.cumsum(np.exp(total - total.max(axis=1, keepdims=True)), axis=1)
            level = draw.random(len(weights)) * weights[:, -1]
            codes[column] = np.minimum((weights <= level[:, None]).sum(axis=1), bins[column].size - 1)
    return codes


def _terms(
    table: ConditionalTable, log: NDArray[np.float64], column: str, codes: Mapping[str, Codes]
) -> NDArray[np.float64]:
    """The log probabilities of a table in every row, for all bins of one of its columns: (rows, bins)."""
    names = (*table.parents, table.column)
    axis = names.index(column)
    places = []
    for i, name in enumerate(names):
        if name != column:
            places.append(table.groups[i][codes[name]] if table.groups and i < len(table.parents) else codes[name])
    found = np.moveaxis(log, axis, -1)[tuple(places)] if places else log[None, :]
    if table.groups and axis < len(table.parents):
        found = found[:, table.groups[axis]]
    return found
