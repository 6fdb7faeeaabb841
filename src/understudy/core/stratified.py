"""Stratified sampling: numbers drawn together are spread more evenly than independent ones would be.

The one rule: every number by itself still has the distribution it is drawn from; only the sums of numbers drawn
together vary less. Public mathematics: nothing here is given a private row.

Sources: Cochran (1977), "Sampling techniques", chapter 5, for stratified sampling.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.processors import in_threads
from understudy.core.randomness import Key

Floats = NDArray[np.float64]
Integers = NDArray[np.integer]
BLOCK = 65_536
"""Columns of levels are stratified this many rows at a time, which stay in the cache while they are sorted."""
BELOW_ONE = float(np.nextafter(1.0, 0.0))
"""Numbers are capped here, since rounding could otherwise give 1."""


def stratified_uniforms(groups: Integers, draw: np.random.Generator) -> Floats:
    """A uniform number in [0, 1) for each entry; of a group of m, one in each interval [i / m, (i + 1) / m)."""
    order = np.argsort(groups + draw.random(len(groups)))  # one group after the other, each in a random order
    ordered = groups[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    sizes = np.diff(starts, append=len(ordered))
    place = np.arange(len(ordered)) - np.repeat(starts, sizes)
    uniform = np.empty(len(ordered))
    uniform[order] = _within(place, np.repeat(sizes, sizes), draw)
    return uniform


def stratified_levels(levels: Floats, draw: np.random.Generator) -> Floats:
    """Levels in the same order, of which one lies in each interval [i / m, (i + 1) / m); missing ones stay missing."""
    present, stratified = ~np.isnan(levels), np.full(len(levels), np.nan)
    if present.all():
        order = np.argsort(levels)  # the default, which is several times as fast as a stable one
    else:
        places = np.flatnonzero(present)
        order = places[np.argsort(levels[places])]
    stratified[order] = _within(np.arange(len(order)), len(order), draw)
    return stratified


def evenly(columns: Mapping[str, Floats], key: Key, names: Sequence[str]) -> dict[str, Floats]:
    """Columns of levels, those of these names stratified, each with draws of its own.

    Rows are taken `BLOCK` at a time, each block stratified by itself. Only the order of levels within a column counts.
    """

    def stratified(name: str) -> Floats:
        levels, draw = columns[name], key.child(name).numpy()
        if len(levels) <= BLOCK:
            return stratified_levels(levels, draw)
        blocks = [stratified_levels(levels[i : i + BLOCK], draw) for i in range(0, len(levels), BLOCK)]
        return np.concatenate(blocks)

    return dict(columns) | dict(zip(names, in_threads(stratified, names), strict=True))


def _within(place: Integers, intervals: Integers | int, draw: np.random.Generator) -> Floats:
    """A uniform number in each interval [place / intervals, (place + 1) / intervals)."""
    found = draw.random(len(place))
    found += place
    found /= intervals
    return np.minimum(found, BELOW_ONE, out=found)
