"""The long tail of a number column: smooth curves fitted to noisy counts.

Public mathematics: counts already carry noise. Far out a bin holds fewer rows than the noise, so that bins taken one by
one say nothing; all of them together still say how fast the tail dies away. So where a column has a long tail, curves
of two families are compared with everything that was counted in it:

    generalised Pareto:  P(X > x) = M (1 + ξ (x - t) / s)^(-1/ξ)
    lognormal:           P(X > x) = M Φ((m - ln x) / s) / Φ((m - ln t) / s)

with t where the tail begins, and M the rows in it. A grid of shapes is laid out; each has the mass M that fits best,
and the weight exp(-χ²/2), χ² its squared distance from the counts in deviations of the noise. The tail is the
weighted geometric mean of the curves: in an arithmetic one, the heaviest curves that noise allows would outweigh the
others far out. If no curve fits (a separate group far out, a repeated value), there is no smooth tail and
bins are taken as they are.

Sources: Pickands (1975) for the generalised Pareto tail; Hoeting et al. (1999) for averaging over models.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from understudy.privacy.piecewise import Floats

# A tail begins where this many deviations of the noise lie beyond, or this share of the rows if that is less.
TAIL_DEVIATIONS, TAIL_SHARE = 300.0, 0.35
# It is long if it reaches farther than this many times as far as that of a normal distribution.
LONG = 1.5
# A curve fits if χ² is within this many deviations of what noise makes it, and no bin is farther off than that.
WORST_FIT, WORST_BIN = 3.0, 4.5
# A curve says as many rows as were counted beyond where it begins, but for this share of them and the noise.
FARTHEST_OFF = 0.1
# The tail ends where this many deviations of the noise are expected beyond.
LAST_DEVIATIONS = 0.2
# It reaches at most so many times as far as the bins do that stand out of the noise.
FARTHER = 3.0
# Bins so many times as far out still say how fast it dies away.
LOOKED_AT = 8.0
# Beyond this, floats of a curve could overflow.
FARTHEST = 1e100
# A tail begins above this, well apart from zero.
NEAREST = 2.0**-30
# No curve dies away within a smaller part of the tail than this.
NARROWEST = 1e-4
# A smooth tail has so many bins.
TAIL_BINS = 40

# Tails of most columns have a shape of the first family, or a logarithm of the spread of the second, about like this:
# a mean and a deviation, of little weight beside the counts.
USUAL_SHAPE, USUAL_SPREAD = (0.1, 0.25), (0.0, 0.4)
# Shapes are looked for on a coarse grid, then on finer and finer ones around the best.
_GRID, _FINER = 13, 4
_SHAPES = (-0.3, 1.0)
_SPREADS = (0.25, 4.0)


@dataclasses.dataclass(frozen=True)
class Counted:
    """The noisy counts of one round over one partition, and their noise variance."""

    edges: Floats
    counts: Floats
    variance: float


@dataclasses.dataclass(frozen=True)
class Tail:
    """A smooth tail: the edge of the finest partition that it begins at, its own edges from there, and their masses."""

    start: int
    edges: Floats
    masses: Floats


def long_tail(
    counted: Sequence[Counted], masses: Floats, *, noise: float, high: float | None, integer: bool, last: int
) -> Tail | None:
    """The upper tail of a column if it is long and a smooth curve fits it; else None.

    Args:
        counted: All rounds; the last one has the finest partition.
        masses: The best estimate over the finest partition.
        noise: The deviation of a bin that is counted in every round.
        high: The column's upper bound, in which values beyond are counted.
        last: The last bin of the support.
    """
    edges = counted[-1].edges
    if high is None:  # how far out a value may be made up would follow from noise alone
        return None
    start = _start(counted[-2].edges, edges, masses, min(TAIL_DEVIATIONS * noise, TAIL_SHARE * float(masses.sum())))
    if start is None or start >= last or not _is_long(edges, masses, start, last, noise):
        return None
    reach = edges[last + 1] - edges[start]
    end = min(high - 0.5 if integer else high, edges[start] + LOOKED_AT * reach)
    if end > FARTHEST or end <= edges[start + 1]:
        return None
    near = max(float(edges[start + 1]), float(edges[start] + NARROWEST * (end - edges[start])))
    observed = _Observed.of(counted, float(edges[start]), float(end), near)
    total, points, beyond = observed.smoothed()
    held = float(masses[start:].sum())
    if total is None or abs(total - held) > FARTHEST_OFF * held + WORST_BIN * noise:
        return None
    within = points <= edges[start] + FARTHER * reach
    return _tail(start, points[within], total, beyond[within], last_rows=LAST_DEVIATIONS * noise, integer=integer)


def _is_long(edges: Floats, masses: Floats, start: int, last: int, noise: float) -> bool:
    """Whether a tail reaches far, in distances from the median to where it begins, compared with a normal one."""
    total = max(float(masses.sum()), 1.0)
    beyond = float(masses[start:].sum()) / total
    median = float(edges[int(np.searchsorted(np.cumsum(masses), total / 2))])
    if beyond >= 0.5 or edges[start] <= median:
        return False
    begins, ends = -ndtri(beyond), -ndtri(min(3.0 * noise / total, beyond))
    return float(edges[last + 1] - edges[start]) / (edges[start] - median) > LONG * (ends - begins) / begins


def _start(coarse: Floats, edges: Floats, masses: Floats, held: float) -> int | None:
    """The last edge of the coarser partition beyond which so many rows lie, as an edge of the finest one.

    It is above zero, where many columns have most of their rows.
    """
    beyond = np.cumsum(masses[::-1])[::-1]
    places = np.searchsorted(edges, coarse[:-1])
    enough = (beyond[places] >= held) | (edges[places] <= 0.0)
    positive = places[edges[places] > NEAREST]
    return max(int(places[enough].max(initial=0)), int(positive[0])) if len(positive) else None


@dataclasses.dataclass(frozen=True)
class _Family:
    """Curves of one kind: what lies beyond x for two parameters, their ranges, and the usual size of the first."""

    beyond: Callable[[Floats, Floats, Floats], Floats]
    first: tuple[float, float]
    second: tuple[float, float]
    usual: tuple[float, float]


@dataclasses.dataclass(frozen=True)
class _Observed:
    """What was counted beyond the start of a tail, all rounds after another, in deviations of the noise.

    Attributes:
        start, end: Where the tail begins, and the farthest that it may reach.
        near: Where its first bin ends, or a little farther out.
        lower, upper: The bins.
        counts, deviations: The noisy counts, already divided by the deviations.
    """

    start: float
    end: float
    near: float
    lower: Floats
    upper: Floats
    counts: Floats
    deviations: Floats

    @classmethod
    def of(cls, counted: Sequence[Counted], start: float, end: float, near: float) -> "_Observed":
        parts = []
        for each in counted:
            first = int(np.searchsorted(each.edges, start))  # a bin that lies across the start is left out
            edges, deviation = each.edges[first:], np.sqrt(each.variance)
            held = each.counts[first : len(each.edges) - 1]
            parts.append((edges[:-1], edges[1:], held / deviation, np.full(len(held), deviation)))
        return cls(start, end, near, *(np.concatenate(column) for column in zip(*parts, strict=True)))

    def smoothed(self) -> tuple[float | None, Floats, Floats]:
        """The mass of the tail, points in it, and the share of the mass beyond each; None if no curve fits."""
        reach = self.end - self.start
        points = self.start + np.concatenate([[0.0], np.geomspace(min(self.near - self.start, reach) / 8, reach, 200)])
        families = [self._averaged(family, points) for family in (self._pareto(), self._lognormal())]
        least = min(misfit for misfit, *_ in families)
        best = next(each for each in families if each[0] == least)
        most = len(self.counts) + WORST_FIT * np.sqrt(2 * len(self.counts))
        if least > most or best[1] > WORST_BIN:
            return None, points, points
        weights = np.array([evidence * np.exp(-(misfit - least) / 2) for misfit, _, evidence, _, _ in families])
        weights /= weights.sum()
        masses = np.array([mass for *_, mass, _ in families])
        total = float(weights @ masses)
        beyond = np.exp(
            sum(w * np.log(np.maximum(curve, 1e-12)) for w, (*_, curve) in zip(weights, families, strict=True))
        )
        return total, points, beyond

    def _pareto(self) -> _Family:
        scales = np.log([(self.near - self.start) / 8, 2 * (self.end - self.start)])

        def beyond(x: Floats, shape: Floats, scale: Floats) -> Floats:
            shape = np.where(np.abs(shape) < 1e-6, 1e-6, shape)
            return np.maximum(1.0 + shape * (x - self.start) / np.exp(scale), 0.0) ** (-1.0 / shape)

        return _Family(beyond, _SHAPES, (float(scales[0]), float(scales[1])), USUAL_SHAPE)

    def _lognormal(self) -> _Family:
        middles = np.log(self.start) + np.array([-8.0, np.log(self.end / self.start)])

        def beyond(x: Floats, spread: Floats, middle: Floats) -> Floats:
            return ndtr((middle - np.log(x)) / np.exp(spread))

        spreads = float(np.log(_SPREADS[0])), float(np.log(_SPREADS[1]))
        return _Family(beyond, spreads, (float(middles[0]), float(middles[1])), USUAL_SPREAD)

    def _averaged(self, family: _Family, points: Floats) -> tuple[float, float, float, float, Floats]:
        """The least misfit of a family, its worst bin, how many curves share it, their mean mass and mean curve."""

        first, second, usual = family.first, family.second, family.usual

        def share(x: Floats, a: Floats, b: Floats) -> Floats:
            x = np.clip(x, self.start, self.end)
            ends, whole = (family.beyond(np.array([each]), a, b) for each in (self.end, self.start))
            return (family.beyond(x, a, b) - ends) / np.maximum(whole - ends, 1e-12)

        ranges, misfit, mass = [first, second], np.zeros(1), np.zeros(1)
        a = b = residual = np.zeros((1, 1))
        grids: list[Floats] = []
        for _ in range(_FINER):
            grids = [np.linspace(low, high, _GRID) for low, high in ranges]
            a, b = (grid.ravel()[:, None] for grid in np.meshgrid(*grids))
            expected = (share(self.lower, a, b) - share(self.upper, a, b)) / self.deviations
            mass = np.maximum(expected @ self.counts / np.maximum((expected**2).sum(axis=1), 1e-30), 0.0)
            residual = self.counts - mass[:, None] * expected
            misfit = (residual**2).sum(axis=1) + ((a[:, 0] - usual[0]) / usual[1]) ** 2
            likely = misfit < misfit.min() + 16.0
            ranges = [
                (max(whole[0], each[likely].min() - step), min(whole[1], each[likely].max() + step))
                for each, whole, step in zip((a, b), (first, second), (g[1] - g[0] for g in grids), strict=True)
            ]
        best = int(np.argmin(misfit))
        weight = np.exp(-(misfit - misfit[best]) / 2)
        evidence = float(weight.mean() * (grids[0][-1] - grids[0][0]) / (first[1] - first[0]))
        evidence *= float((grids[1][-1] - grids[1][0]) / (second[1] - second[0]))
        weight /= weight.sum()
        curve = np.exp(weight @ np.log(np.maximum(share(points, a, b), 1e-12)))
        return float(misfit[best]), float(np.abs(residual[best]).max()), evidence, float(weight @ mass), curve


def _tail(start: int, points: Floats, total: float, beyond: Floats, *, last_rows: float, integer: bool) -> Tail | None:
    """The tail in bins of equal steps of its survival in the logarithm, as far as rows are expected."""
    kept = beyond * total >= last_rows
    points, beyond = points[: int(kept.sum()) + 1], beyond[: int(kept.sum()) + 1]
    if len(points) < 3:
        return None
    marks = np.interp(
        np.linspace(0.0, np.log(max(beyond[-1], 1e-9)), TAIL_BINS + 1)[::-1],
        np.log(np.maximum(beyond, 1e-9))[::-1],
        points[::-1],
    )[::-1]
    marks = np.unique(np.floor(marks) + 0.5 if integer else marks)
    marks[0] = points[0]
    left = np.interp(marks, points, beyond)
    return Tail(start, marks, total * (left[:-1] - left[1:]) / (1.0 - left[-1]))
