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
    present = np.flatnonzero(~np.isnan(levels))
    order = present[np.argsort(levels[present])]  # the default, which is several times as fast as a stable one
    stratified = np.full(len(levels), np.nan)
    stratified[order] = _within(np.arange(len(order)), len(order), draw)
    return stratified


def evenly(columns: Mapping[str, Floats], key: Key, names: Sequence[str]) -> dict[str, Floats]:
    """Columns of levels, those of these names stratified, each with draws of its own."""
    found = in_threads(lambda name: stratified_levels(columns[name], key.child(name).numpy()), names)
    return dict(columns) | dict(zip(names, found, strict=True))


def _within(place: Integers, intervals: Integers | int, draw: np.random.Generator) -> Floats:
    """A uniform number in each interval [place / intervals, (place + 1) / intervals)."""
    return np.minimum((place + draw.random(len(place))) / intervals, BELOW_ONE)
