"""Distances of families: the number of children, what parent and child share, and how siblings follow each other.

The one rule: every distance is 0 for a database against itself, larger is worse, and compares what a key connects; what
a table is by itself is left to the metrics of tables. Distances are total variation on quantile bins of the real side,
but for `autocorrelation`, which is a difference of correlations.

    children         of the number of children; more than the schema's `max_per_parent` of one parent are not used, and
                     so not counted.
    parent_child     of each column of a parent or an ancestor with each column of the child, over the rows of the
                     child; and of each column of the parent with the number of its children, over the parents.
    siblings         of each column with each column of the next sibling, over consecutive siblings.
    autocorrelation  the correlation of a number with that of the next sibling, or the chance that a category is that
                     of the next sibling: real against synthetic, absolute.
    gaps             of the time to the next sibling, of the first and of the last time in a history.
"""

import itertools
import math
from collections.abc import Iterable, Mapping

import numpy as np

from understudy.evaluation.families import Families, Link, Members
from understudy.evaluation.histograms import total_variation, tuple_distances
from understudy.evaluation.pair import Codes, Floats, Pair, Parts, Side

BINS, FEWEST_BINS, TIME_BINS = 10, 3, 20
"""Quantile bins of a number in a pair of columns, of which fewer rows have fewer, and of a time by itself."""
ROWS_PER_CELL = 20
"""So many rows to a cell of two numbers at least."""
COUNT = "number of"
"""How the number of children is called beside the columns of a parent: "number of visits"."""
GAP, FIRST, LAST = "time to the next", "first", "last"
_NEXT = "next "
_FEWEST_PAIRS = 3


def pair_bins(rows: int) -> int:
    """How many quantile bins a number has in a pair of columns: fewer for few rows, or chance would hide the rest."""
    return int(np.clip(math.sqrt(rows / ROWS_PER_CELL), FEWEST_BINS, BINS))


def children(real: Families, synthetic: Families, link: Link) -> Parts:
    """The distance of the numbers of children."""
    own, other = (_counts(each, link) for each in (real, synthetic))
    if not len(own) or not len(other):
        return {(): 1.0}
    return {(): total_variation(own, other, 1 + int(max(own.max(), other.max())))}


def _counts(families: Families, link: Link) -> Codes:
    counts = families.tables[link.table].counts(families.tables[link.parent].rows)
    return counts if link.most is None else np.minimum(counts, link.most)


def parent_child(real: Families, synthetic: Families, link: Link) -> Parts:
    """The distances of pairs of a column above and a column of the child, and of the parent and its count."""
    found: Parts = {}
    sides = [_with_ancestors(each, link) for each in (real, synthetic)]
    own = set(_names(real.tables[link.table].side))
    above = [name for name in _names(sides[0]) if name not in own]
    found |= _distances(sides, itertools.product(above, _names(real.tables[link.table].side)))
    parents = [_with_count(each, link) for each in (real, synthetic)]
    counted = f"{COUNT} {link.table}"
    others = [f"{COUNT} {each.table}" for each in real.links if each.parent == link.parent and each != link]
    parents = [_with_others(side, each, others) for side, each in zip(parents, (real, synthetic), strict=True)]
    return found | _distances(parents, ((name, counted) for name in _names(parents[0]) if name != counted))


def siblings(real: Families, synthetic: Families, link: Link) -> Parts:
    """The distances of pairs of a column and a column of the next sibling."""
    sides = [_followed(each.tables[link.table]) for each in (real, synthetic)]
    names = _names(real.tables[link.table].side)
    return _distances(sides, ((name, _NEXT + other) for name in names for other in names))


def autocorrelation(real: Families, synthetic: Families, link: Link) -> Parts:
    """By column, how far its correlation with the next sibling is off."""
    own, other = (lagged(each.tables[link.table]) for each in (real, synthetic))
    return {(name,): abs(value - other[name]) for name, value in own.items()}


def lagged(members: Members) -> dict[str, float]:
    """By column, the correlation with the next sibling; of a category, the chance that it stays. 0 if there is none."""
    now, after = members.side.take(members.pairs), members.side.take(members.pairs + 1)
    found = {name: _correlation(column, after.numbers[name]) for name, column in now.numbers.items()}
    for name, column in now.codes.items():
        found[name] = float((column == after.codes[name]).mean()) if len(column) else 0.0
    return found


def _correlation(left: Floats, right: Floats) -> float:
    here = ~np.isnan(left) & ~np.isnan(right)
    left, right = left[here], right[here]
    if len(left) < _FEWEST_PAIRS or left.min() == left.max() or right.min() == right.max():
        return 0.0
    return float(np.corrcoef(left, right)[0, 1])


def gaps(real: Families, synthetic: Families, link: Link) -> Parts:
    """The distances of the gaps of a history, and of its beginning and its end; nothing if it has no order in time."""
    if link.order is None or link.order not in real.tables[link.table].side.numbers:
        return {}
    times = [_times(each.tables[link.table], link.order) for each in (real, synthetic)]
    found: Parts = {}
    for name in times[0]:
        sides = [Side(numbers={name: each[name]}, codes={}, sizes={}) for each in times]
        found |= _distances(sides, [(name,)], bins=TIME_BINS)
    return found


def _times(members: Members, order: str) -> dict[str, Floats]:
    times = members.side.numbers[order]
    ends = np.flatnonzero(np.r_[members.parent[1:] != members.parent[:-1], True]) if members.rows else members.parent
    return {GAP: times[members.pairs + 1] - times[members.pairs], FIRST: times[members.rank == 0], LAST: times[ends]}


KINSHIP = {
    "children": children,
    "parent_child": parent_child,
    "siblings": siblings,
    "autocorrelation": autocorrelation,
    "gaps": gaps,
}
"""The metrics of a link, by name."""
MEANING = {
    "children": "total variation of the number of children, of which at most max_per_parent are used",
    "parent_child": "mean total variation of a column above with one of the child, and of the parent's columns with "
    f"the number of children; numbers on at most {BINS} quantile bins",
    "siblings": "mean total variation of a column with one of the next sibling; numbers on at most "
    f"{BINS} quantile bins",
    "autocorrelation": "mean absolute difference of the correlation with the next sibling; of a category, of the "
    "chance that it stays",
    "gaps": f"mean total variation of the time to the next sibling, of the first and of the last; {TIME_BINS} quantile "
    "bins",
}
"""What each of them is, in words."""


# Joined columns -----------------------------------------------------------------------------------------------------


def prefixed(side: Side, prefix: str) -> Side:
    """The same columns under longer names."""
    return Side(
        numbers={prefix + name: column for name, column in side.numbers.items()},
        codes={prefix + name: column for name, column in side.codes.items()},
        sizes={prefix + name: size for name, size in side.sizes.items()},
    )


def joined(sides: Iterable[Side]) -> Side:
    """The columns of several sides of equally many rows."""
    sides = list(sides)
    return Side(
        numbers={name: column for side in sides for name, column in side.numbers.items()},
        codes={name: column for side in sides for name, column in side.codes.items()},
        sizes={name: size for side in sides for name, size in side.sizes.items()},
    )


def ancestors(families: Families, link: Link) -> Side:
    """The columns of the parent and of all above it, for each row of the child, as "visits.cost"."""
    found, rows, place = [], families.tables[link.table].parent, link
    above = {each.table: each for each in families.links}
    while True:
        found.append(prefixed(families.tables[place.parent].side.take(rows), f"{place.parent}."))
        if place.parent not in above:
            return joined(found)
        rows, place = families.tables[place.parent].parent[rows], above[place.parent]


def _with_ancestors(families: Families, link: Link) -> Side:
    return joined([ancestors(families, link), families.tables[link.table].side])


def _with_count(families: Families, link: Link) -> Side:
    counts = Side(numbers={f"{COUNT} {link.table}": _counts(families, link).astype(np.float64)}, codes={}, sizes={})
    return joined([families.tables[link.parent].side, counts])


def _with_others(side: Side, families: Families, others: list[str]) -> Side:
    """With the numbers of children in the other tables under the same parent."""
    more = {each.table: each for each in families.links}
    tables = [name.removeprefix(f"{COUNT} ") for name in others]
    numbers = {f"{COUNT} {table}": _counts(families, more[table]).astype(np.float64) for table in tables}
    return joined([side, Side(numbers=numbers, codes={}, sizes={})])


def _followed(members: Members) -> Side:
    """Every row that a sibling follows, beside that sibling."""
    now, after = members.side.take(members.pairs), members.side.take(members.pairs + 1)
    return joined([now, prefixed(after, _NEXT)])


def _names(side: Side) -> list[str]:
    return [*side.numbers, *side.codes]


def _distances(sides: list[Side], tuples: Iterable[tuple[str, ...]], *, bins: int | None = None) -> Parts:
    tuples = list(tuples)
    if not tuples:
        return {}
    bins = pair_bins(sides[0].rows) if bins is None else bins
    pair = Pair(names=tuple(_names(sides[0])), real=sides[0], synthetic=sides[1], scale=sides[0])
    return tuple_distances(pair, tuples, bins=bins)


def unseen_transitions(real: Members, synthetic: Members) -> Mapping[str, float]:
    """By category, the share of consecutive siblings that take a step which no real siblings take."""
    found = {}
    for name, size in real.side.sizes.items():
        steps = [
            each.side.codes[name][each.pairs] * size + each.side.codes[name][each.pairs + 1]
            for each in (real, synthetic)
        ]
        if len(steps[1]):
            found[name] = float((~np.isin(steps[1], steps[0])).mean())
    return found
