"""Where a step of a history lands: the order of the row before and a gap make that of the next one.

A gap is drawn, and the order follows from it. So that the orders of drawn rows have the measured shares, a gap is the
likelier, the likelier the order is that it leads to; and one that leads beyond the last is hardly ever drawn.

The one rule: all of it is public, made of the encoder.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.encoding.bins import Bins
from understudy.encoding.columns import ColumnEncoder

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

KNOTS = 513
"""Levels of the row before are turned into values by so many knots."""
LEAST_SHARE = 1e-5


class Landing(NamedTuple):
    """How a gap and the row before make the order of a row.

    Attributes:
        column: The column of gaps, by its number.
        base: The column of the row before that gaps are reckoned from.
        values: Of that column, at even levels: (KNOTS,).
        steps: What every bin of gaps adds: (bins,).
        edges: Orders that bins lie between. Beyond the last edge is a bin of its own.
    """

    column: int
    base: int
    values: Floats
    steps: Floats
    edges: Floats

    @property
    def size(self) -> int:
        return len(self.edges)

    def codes(self, level: Floats) -> Whole:
        """The bin that every gap leads to, given the levels of the row before: (rows, bins of gaps)."""
        start = np.interp(np.nan_to_num(level, nan=0.5), np.linspace(0.0, 1.0, KNOTS), self.values)
        found = np.searchsorted(self.edges, start[:, None] + self.steps, side="right") - 1
        return np.clip(found, 0, self.size - 1)


def landing_of(
    column: int,
    base: int,
    gap: tuple[ColumnEncoder, Bins],
    before: ColumnEncoder,
    order: tuple[ColumnEncoder, Bins],
    unit: float,
) -> Landing:
    """The landing of a history, from the encoders of its gap, of the row before and of its order."""
    known, bins = gap
    middles = (bins.edges[:-1] + bins.edges[1:]) / 2
    steps = known.values(middles) * unit
    levels = np.linspace(0.0, 1.0, KNOTS)
    edges = np.asarray(order[0].values(order[1].edges), np.float64)
    edges[-1] = np.nextafter(edges[-1], np.inf)
    return Landing(
        column, base, np.asarray(before.values(levels), np.float64), np.append(steps, [0.0] * bins.nullable), edges
    )


def landing_shares(landing: Landing, start: ColumnEncoder, gaps: Floats, orders: Floats) -> Floats:
    """The shares of rows, of all, that follow another one and have their order in each bin; none lies beyond.

    Args:
        start: Of the orders of first rows.
        gaps: The shares of the bins of gaps; the last is that of first rows, which have none.
        orders: The shares of the bins of orders.
    """
    first_rows = float(gaps[-1])
    level = start.levels(landing.edges)[0] if len(landing.edges) else np.zeros(0)
    first = np.diff(np.clip(level, 0.0, 1.0)) * first_rows
    later = np.maximum(orders[: len(first)] - first, LEAST_SHARE)
    return np.append(later, LEAST_SHARE) * (1.0 - first_rows) / max(float(later.sum()), LEAST_SHARE)
