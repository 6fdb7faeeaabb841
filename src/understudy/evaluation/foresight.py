"""Prediction across tables: what a parent tells of its children, and what a history tells of the next event.

An additive model is trained on one database and tested on the real one, once for each target. The one rule: the models
are the same and see the same features, so that their ratio says what the synthetic families lost.

    aggregate   From the columns of a parent: how many children it has, the mean of each of their numbers, and their
                commonest category.
    next        From the columns of a row and of everything above it, its rank, and the means of its history so far:
                every column of the next sibling, with the time to it in place of the time, and whether there is one.

Privacy:
    Reads real rows without noise. No budget covers what comes out.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from understudy.evaluation.additive import Coordinates, target_scores
from understudy.evaluation.families import Families, Link, Members
from understudy.evaluation.kinship import ancestors, joined, prefixed
from understudy.evaluation.pair import Codes, Floats, Side

MOST_ROWS = 30_000
"""So many rows are learned from and asked at most."""
FEWEST_ROWS = 20
"""With fewer rows nothing is predicted."""
TARGET = "target "
ANOTHER = "another follows"
_RANK, _MEAN = "rank", "mean so far of "

Task = Callable[[Families, Link], Side | None]
"""Features and targets of a link; names of targets begin with `TARGET`. None if there is nothing to learn from."""


def aggregates(families: Families, link: Link) -> Side | None:
    """A parent's columns, and the number, the means and the commonest categories of its children."""
    features = families.tables[link.parent].side
    if not (features.numbers or features.codes):
        return None
    members, parents = families.tables[link.table], families.tables[link.parent].rows
    counts = members.counts(parents).astype(np.float64)
    numbers = {"count": counts}
    for name, column in members.side.numbers.items():
        here = ~np.isnan(column)
        total = np.bincount(members.parent[here], weights=column[here], minlength=parents)
        known = np.bincount(members.parent[here], minlength=parents)
        numbers[name] = np.where(known > 0, total / np.maximum(known, 1), np.nan)
    codes = {
        name: _commonest(column, members.parent, parents, members.side.sizes[name])
        for name, column in members.side.codes.items()
    }
    sizes = {name: members.side.sizes[name] for name in codes}
    return joined([features, prefixed(Side(numbers=numbers, codes=codes, sizes=sizes), TARGET)])


def _commonest(codes: Codes, parent: Codes, parents: int, size: int) -> Codes:
    """The commonest code of each parent's rows, the smallest of several; the missing one if it has no row."""
    cells, counts = np.unique(parent * size + codes, return_counts=True)
    order = np.lexsort([-counts, cells // size])
    owners, first = np.unique(cells[order] // size, return_index=True)
    found = np.full(parents, size - 1)
    found[owners] = cells[order][first] % size
    return found


def next_event(families: Families, link: Link) -> Side | None:
    """Rows that a sibling follows, with that sibling as the target."""
    members = families.tables[link.table]
    if len(members.pairs) < FEWEST_ROWS:
        return None
    after = members.side.take(members.pairs + 1)
    if link.order in after.numbers:
        since = after.numbers[link.order] - members.side.numbers[link.order][members.pairs]
        after = dataclasses.replace(after, numbers=after.numbers | {link.order: since})
    return joined([_so_far(families, link).take(members.pairs), prefixed(after, TARGET)])


def continues(families: Families, link: Link) -> Side | None:
    """All rows, with the target whether a sibling follows."""
    members = families.tables[link.table]
    if members.rows < FEWEST_ROWS:
        return None
    follows = np.zeros(members.rows, dtype=np.int64)
    follows[members.pairs] = 1
    return joined(
        [_so_far(families, link), Side(numbers={}, codes={TARGET + ANOTHER: follows}, sizes={TARGET + ANOTHER: 2})]
    )


def _so_far(families: Families, link: Link) -> Side:
    """For each row, what is known when it has happened: itself, what is above it, its rank and the means up to it."""
    members = families.tables[link.table]
    numbers = {_RANK: members.rank.astype(np.float64)}
    for name, column in members.side.numbers.items():
        if name != link.order:
            numbers[_MEAN + name] = _running_mean(column, members)
    return joined([ancestors(families, link), members.side, Side(numbers=numbers, codes={}, sizes={})])


def _running_mean(column: Floats, members: Members) -> Floats:
    """The mean of a number over a row and its earlier siblings."""
    here = ~np.isnan(column)
    sums, known = (np.cumsum(each) for each in (np.where(here, column, 0.0), here.astype(np.float64)))
    start = np.arange(members.rows) - members.rank
    sums, known = (each - np.where(start > 0, each[start - 1], 0.0) for each in (sums, known))
    return np.where(known > 0, sums / np.maximum(known, 1), np.nan)


TASKS: dict[str, tuple[Task, ...]] = {"aggregate": (aggregates,), "next": (next_event, continues)}
"""By metric, what is predicted."""


def foresight(
    shown: Families, asked: Families, scale: Families, link: Link, metric: str, seed: int
) -> dict[str, float]:
    """By target, how well a model of one database predicts another: R² of a number, 2·AUC − 1 of a category.

    Args:
        shown: What the model is trained on.
        asked: The real units that it is tested on.
        scale: The database that sets the coordinates.
    """
    found: dict[str, float] = {}
    for task in TASKS[metric]:
        sides = [task(each, link) for each in (shown, asked, scale)]
        if any(side is None or side.rows < FEWEST_ROWS for side in sides):
            continue
        train, test, base = (side.sample(MOST_ROWS, seed) for side in sides if side is not None)
        targets = [name for name in [*base.numbers, *base.codes] if name.startswith(TARGET)]
        scores = target_scores(train, test, Coordinates.of(base), targets)
        found |= {name.removeprefix(TARGET): score for name, score in scores.items()}
    return found
