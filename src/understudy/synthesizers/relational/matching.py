"""Second keys of synthetic rows: each leads to the row of its unit that is most like what was drawn of it.

The one rule: all of it is public.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.randomness import Key
from understudy.encoding.encoder import Encoder
from understudy.synthesizers.relational.drawing import DrawnTable
from understudy.tables.second_keys import INSIDE, NONE, SecondKey

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

UNLIKE = 1.0
"""Two categories that differ, or a value of which one is missing, are so far apart; levels at most as far."""


def matched(
    second: SecondKey,
    rows: tuple[DrawnTable, Encoder, Whole],
    targets: tuple[DrawnTable, Encoder, Whole],
    *,
    key: Key,
    shared: tuple[Whole, Whole] | None = None,
) -> Whole:
    """The place of the row that every second key leads to; -1 for none.

    Args:
        rows, targets: Of the rows with the key, and of those it may lead to: the rows, their encoder and their units.
        shared: Of both, a number that a row and the one it leads to have in common: a second key of several columns may
            have some that belong to other keys, and these stand. None if all rows have.
    """
    draw = key.numpy()
    wanted, offered = _comparable(second, rows[0].own, rows[1], targets[0].values, targets[1])
    place, unit = np.nan_to_num(rows[0].own[second.place.name]).astype(np.int64), rows[2]
    own, theirs = shared or (np.zeros_like(unit), np.zeros_like(targets[2]))
    families, offers = _families(unit, own, targets[2], theirs)
    members = _members(offers)
    found = np.full(len(unit), -1, np.int64)
    if second.depth is not None:
        for whose, mine in _members(families).items():
            _match_depths(mine, place, members.get(whose, _NOBODY), wanted, offered, found, draw)
        return found
    for i in np.flatnonzero(place == INSIDE).tolist():
        choice = members.get(int(families[i]), _NOBODY)
        found[i] = _nearest(wanted[i], offered, choice, draw) if len(choice) else -1
    outside = np.flatnonzero((place != NONE) & (found < 0))
    agreeing = _members(theirs)
    for whose, mine in _members(own[outside]).items():
        choice = agreeing.get(whose, _NOBODY)
        if len(choice):
            found[outside[mine]] = choice[_elsewhere(unit[outside[mine]], targets[2][choice], draw)]
    return found


def _families(unit: Whole, own: Whole, units: Whole, theirs: Whole) -> tuple[Whole, Whole]:
    """One number for rows of one unit that have the same shared number, of both sides."""
    pairs = np.stack([np.concatenate([unit, units]), np.concatenate([own, theirs])])
    numbers = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
    return numbers[: len(unit)], numbers[len(unit) :]


_NOBODY: Whole = np.zeros(0, np.int64)


def _comparable(
    second: SecondKey, own: Mapping[str, Any], encoder: Encoder, values: Mapping[str, Any], other: Encoder
) -> tuple[Floats, Floats]:
    """What was drawn of the row that is pointed to, and what rows say: numbers to compare, (rows, columns).

    A number is its level in the column's distribution; a category its place among the labels, times a number so large
    that two of them are as far apart as they can be.
    """
    wanted, offered = (
        [np.zeros((len(next(iter(own.values()))), 0))],
        [np.zeros((len(next(iter(values.values()), [])), 0))],
    )
    for copy, source in zip(second.copies, second.sources, strict=True):
        known = other.columns.get(source)
        if known is None:
            continue
        if known.labels is None:
            both = [np.add(*known.levels(cells)) / 2 for cells in (own[copy.name], values[source])]
        else:
            place = {label: i for i, label in enumerate(known.labels)}
            codes = np.array([*(place.get(label, -1) for label in encoder.labels[copy.name]), -1], np.float64)
            both = [codes[np.asarray(own[copy.name], np.int64)], np.asarray(values[source], np.float64)]
            both = [np.where(each < 0, np.nan, each * 2.0) for each in both]
        wanted.append(both[0][:, None])
        offered.append(both[1][:, None])
    return np.concatenate(wanted, axis=1), np.concatenate(offered, axis=1)


def _nearest(wanted: Floats, offered: Floats, choice: Whole, draw: np.random.Generator) -> int:
    """One of the rows that are nearest."""
    apart = np.abs(offered[choice] - wanted)
    gaps = np.where(np.isnan(apart), np.where(np.isnan(wanted), 0.0, UNLIKE), np.minimum(apart, UNLIKE)).sum(axis=1)
    return int(choice[draw.choice(np.flatnonzero(gaps <= gaps.min() + 1e-12))])


def _match_depths(
    rows: Whole, depth: Whole, targets: Whole, wanted: Floats, offered: Floats, found: Whole, draw: np.random.Generator
) -> None:
    """The second keys of one unit's rows in a table that points to itself, in place: each to a row one step nearer.

    Rows that were drawn so many steps away are taken one after the other, those with the fewest first; a row with none
    to lead to points nowhere.
    """
    reached = dict.fromkeys(targets.tolist(), -1)
    for i in rows[np.argsort(depth[rows], kind="stable")].tolist():
        wanted_depth = int(depth[i])
        known = [(r, d) for r, d in reached.items() if 0 <= d < wanted_depth]
        if known:
            most = max(d for _, d in known)
            found[i] = _nearest(wanted[i], offered, np.array([r for r, d in known if d == most]), draw)
            reached[i] = most + 1
        else:
            reached[i] = 0


def _elsewhere(unit: Whole, units: Whole, draw: np.random.Generator) -> Whole:
    """For each of some units a random row of another one; of the same if there is no other."""
    order = np.argsort(units, kind="stable")
    first, last = (np.searchsorted(units[order], unit, side=side) for side in ("left", "right"))
    others = len(units) - (last - first)
    place = np.floor(draw.random(len(unit)) * np.where(others > 0, others, len(units))).astype(np.int64)
    place += np.where((others > 0) & (place >= first), last - first, 0)
    return order[np.minimum(place, len(units) - 1)] if len(units) else np.full(len(unit), -1, np.int64)


def _members(units: Whole) -> dict[int, Whole]:
    """The rows of every unit."""
    order = np.argsort(units, kind="stable")
    found, starts = np.unique(units[order], return_index=True)
    parts: Sequence[Whole] = np.split(order, starts[1:])
    return dict(zip(found.tolist(), parts, strict=True)) if len(units) else {}
