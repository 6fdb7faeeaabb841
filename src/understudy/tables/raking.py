"""Raking: weights under which kept rows have the margins that all rows had, and a choice of rows by weight.

Rejecting the rows that break a rule moves the share of everything the rule depends on: fewer men, if men break it more
often. The one rule: a margin that was measured is not changed by a rule, as far as the rule allows. Weights are fitted
to the margins of all drawn rows by iterative proportional fitting, so that the kept rows have these margins again; the
dependence among columns stays as near as possible to that of the kept rows.

Sources: Deming and Stephan (1940), "On a least squares adjustment of a sampled frequency table when the expected
marginal totals are known"; Csiszár (1975): the limit has the least relative entropy among all tables of these margins.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Strata = Mapping[str, NDArray]
Margins = Mapping[str, Floats]

ROUNDS = 100
"""Rounds of fitting at most."""
CLOSE = 1e-4
"""Margins agree if no bin differs by more than this share of the rows."""
HEAVIEST = 8.0
"""No row weighs more than this many times the mean, so that few rows stand for many."""

EXCHANGES = 60
"""Rounds in which picked rows are exchanged, at most."""
MOST_WORK = 1e9
"""Of very many rows fewer rounds are made, so that they look at no more cells than this."""


def margins(strata: Strata, weights: Floats | None = None, sizes: Mapping[str, int] | None = None) -> dict[str, Floats]:
    """The share of every bin of every column."""
    found = {}
    for name, bins in strata.items():
        counts = np.bincount(bins, weights, 0 if sizes is None else sizes[name])
        found[name] = counts / max(float(counts.sum()), 1e-300)
    return found


def raked(strata: Strata, wanted: Margins) -> Floats:
    """Weights, of mean 1, under which rows have the wanted margins, as nearly as their bins allow."""
    rows = len(next(iter(strata.values()))) if strata else 0
    weights = np.ones(rows)
    for _ in range(ROUNDS if rows else 0):
        worst = 0.0
        for name, bins in strata.items():
            share = np.bincount(bins, weights, len(wanted[name])) / weights.sum()
            reachable = share > 0.0
            goal = np.where(reachable, wanted[name], 0.0)
            goal = goal / max(float(goal.sum()), 1e-300)  # a bin that no row is in cannot be filled
            worst = max(worst, float(np.abs(goal - share).max()))
            factor = np.divide(goal, share, out=np.ones_like(goal), where=reachable)
            weights = weights * factor[bins]
            weights = np.minimum(weights, HEAVIEST * weights.mean())
        if worst < CLOSE:
            break
    return weights / weights.mean() if rows else weights


def chosen(weights: Floats, n: int, start: float) -> NDArray[np.int64]:
    """`n` of the rows, each at most once, with probabilities in proportion to their weights as far as that allows.

    Systematic sampling: rows are laid end to end, each as long as its probability, and a grid of step 1 that begins at
    `start` picks those it falls on. So every bin has its expected number of rows, give or take a few.
    """
    share = _probabilities(weights, n)
    ends = np.cumsum(share)
    ends *= n / ends[-1]
    return np.minimum(np.searchsorted(ends, np.arange(n) + start, side="right"), len(weights) - 1)


def _probabilities(weights: Floats, n: int) -> Floats:
    """Probabilities that add up to n, none above 1: rows whose weight asks for more are certain."""
    certain = np.zeros(len(weights), bool)
    while True:
        free = np.where(certain, 0.0, weights)
        share = np.where(certain, 1.0, free * (n - certain.sum()) / max(float(free.sum()), 1e-300))
        more = (share > 1.0) & ~certain
        if not more.any():
            return share
        certain |= more


def balanced(picked: NDArray[np.int64], strata: Strata, wanted: Margins) -> NDArray[np.int64]:
    """The picked rows with a few of them exchanged for others, so that counts follow the wanted margins more closely.

    Chance alone moves the counts of picked rows by about their square roots, many times what it moves those of
    stratified draws. In each round the rows that lie in bins with too many rows most are exchanged for those that lie
    least in them; a round that brings no gain is taken back, and the next exchanges half as many.
    """
    rows = len(next(iter(strata.values())))
    if not len(picked) or len(picked) == rows:
        return picked
    inside = np.zeros(rows, bool)
    inside[picked] = True
    goals = {name: shares * len(picked) for name, shares in wanted.items()}
    excess = _excess(inside, strata, goals)
    distance, part = _distance(excess), 0.5
    for _ in range(int(min(EXCHANGES, MOST_WORK / (rows * len(strata))))):
        most = max(float(np.abs(each).max()) for each in excess.values())
        number = int(part * most)
        if number < 1:
            break
        load = sum(excess[name][bins] for name, bins in strata.items())
        number = min(number, int(inside.sum()), rows - int(inside.sum()))
        out = np.argpartition(np.where(inside, -load, np.inf), number - 1)[:number]
        into = np.argpartition(np.where(inside, np.inf, load), number - 1)[:number]
        inside[out], inside[into] = False, True
        found = _excess(inside, strata, goals)
        if _distance(found) < distance:
            excess, distance = found, _distance(found)
        else:
            inside[out], inside[into] = True, False
            part /= 2
    return np.flatnonzero(inside)


def _excess(inside: NDArray[np.bool_], strata: Strata, goals: Margins) -> dict[str, Floats]:
    return {name: np.bincount(bins[inside], minlength=len(goals[name])) - goals[name] for name, bins in strata.items()}


def _distance(excess: Margins) -> float:
    return float(sum((each**2).sum() for each in excess.values()))
